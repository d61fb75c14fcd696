# Sourced by examples/demo.sh and tests/run.sh: installs what is missing on Debian, as root or with sudo. What is there is
# not touched, and without a network everything works that needs no download.

# need COMMAND-OR-FILE PACKAGE ...: adds the packages whose command or file is not there to $missing.
need() {
    while [ $# -gt 0 ]; do
        command -v "$1" >/dev/null 2>&1 || [ -e "$1" ] || missing="$missing $2"
        shift 2
    done
}

# install_missing required|optional: what cannot be had stops the script, or is left out.
install_missing() {
    [ -n "$missing" ] || return 0
    local sudo=""
    if [ "$(id -u)" != 0 ]; then
        sudo=sudo
        command -v sudo >/dev/null 2>&1 || sudo=absent
    fi
    echo "Missing:$missing"
    if [ "$sudo" != absent ] && command -v apt-get >/dev/null 2>&1; then
        $sudo apt-get update -qq >/dev/null 2>&1 || true
        # shellcheck disable=SC2086
        DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y -qq --no-install-recommends $missing >/dev/null 2>&1 &&
            { missing=""; return 0; }
    fi
    if [ "$1" = optional ]; then
        echo "Could not install$missing: what needs it is skipped."
        missing=""
        return 0
    fi
    echo "Could not install$missing. Install these packages (apt-get install$missing) and run this again." >&2
    exit 1
}

prepare_build() {
    missing=""
    need cc gcc cmake cmake ninja ninja-build pkg-config pkg-config make make
    local include=/usr/include
    need $include/stdio.h libc6-dev $include/uv.h libuv1-dev $include/jansson.h libjansson-dev
    install_missing required
}

prepare_tests() {
    missing=""
    need /usr/include/check.h check g++ g++ git git
    install_missing required
    need clang-format clang-format clang-tidy clang-tidy ctags universal-ctags shellcheck shellcheck nm binutils
    pkg-config --exists openblas || missing="$missing libopenblas-dev"
    install_missing optional
}
