# Sourced by the lint tests: their verdict, as every test program gives it.
cd "$(dirname "$0")/../.." || exit 1
bad=0
complain() {
    echo "$*"
    bad=$((bad + 1))
}
verdict() {
    if [ "$bad" -gt 0 ]; then
        echo "0 passed, 1 failed, 0 skipped"
        exit 1
    fi
    echo "1 passed, 0 failed, 0 skipped"
    exit 0
}
skip() {
    echo "skipped: $*"
    echo "0 passed, 0 failed, 1 skipped"
    exit 0
}
# Every file of ours by ending: as git knows them, or as they lie where there is no git.
files() {
    local patterns=()
    local ending
    for ending in "$@"; do patterns+=("*.$ending"); done
    if git rev-parse --is-inside-work-tree >/dev/null 2>&1; then
        git ls-files --cached --others --exclude-standard -- "${patterns[@]}"
    else
        for ending in "$@"; do find . -name "*.$ending" -not -path './build/*' | sed 's|^\./||'; done
    fi
}
