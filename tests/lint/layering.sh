#!/usr/bin/env bash
# Who may see whom:
#   cli, examples, benchmarks, models -> include <- ops;  pipeline -> include;  pipeline -> backend.h <- cpu, cuda, sim
# libuv in one source file and in sluice/uv.h; CUDA in backend/cuda* and ops/cuda; jansson where it is named below.
. "$(dirname "$0")/lint.sh"

# includes FILE: the names in its #include lines, one a line, with quotes or angles
includes() { grep -oE '^ *# *include *[<"][^>"]+[>"]' "$1" | sed 's/^ *# *include *//'; }

for f in $(files c h cu | grep -vE '^tests/'); do
    folder=${f%%/*}
    for name in $(includes "$f"); do
        plain=${name#[<\"]}
        plain=${plain%[>\"]}
        case $name in
        '<uv.h>') [[ $f = pipeline/loop.c || $f = include/sluice/uv.h || $f = examples/* ]] ||
            complain "$f: libuv belongs in pipeline/loop.c alone" ;;
        '<cuda'* | '<cublas'*) [[ $f = pipeline/backend/cuda* || $f = ops/cuda/* ]] ||
            complain "$f: CUDA belongs in pipeline/backend/cuda* and ops/cuda" ;;
        '<sluice/uv.h>') [[ $f = pipeline/loop.c || $f = examples/* ]] || complain "$f: sluice/uv.h brings libuv" ;;
        '<sluice/'*) ;;
        \"*)
            [ "$folder" = include ] && complain "$f: public headers include <sluice/...> alone, not $name"
            [ -e "$(dirname "$f")/$plain" ] || [ -e "$folder/$plain" ] ||
                { [[ $f = benchmarks/* && $plain = bench.h ]] || complain "$f: $name is another part's"; }
            case $f in
            pipeline/backend/*) [[ $plain =~ (plan|graph|driver|bind|executor|job|loop) ]] &&
                complain "$f: a backend knows backend.h, and not $plain" ;;
            pipeline/*)
                [[ $plain = backend/* && $plain != backend/backend.h && $plain != backend/san.h ]] &&
                    complain "$f: the executor knows backend.h, not $plain" ;;
            esac ;;
        esac
    done
done
while read -r f; do
    complain "$f: the mechanism knows no concrete op"
done < <(grep -lE '\bsl_(linear|attention|rms_norm|rotary|embedding) *\(' pipeline/*.c pipeline/backend/*.c 2>/dev/null)
grep -nE '\b(printf|puts|fprintf|perror|exit|abort|assert) *\(' pipeline/*.c pipeline/*/*.c ops/*.c ops/*/*.c models/*.c models/*/*.c 2>/dev/null |
    grep -v '^[^:]*:[0-9]*: *\(/\*\|\*\)' >/tmp/sluice-lint.$$ && complain "the library never exits, aborts or prints: $(cat /tmp/sluice-lint.$$)"
rm -f /tmp/sluice-lint.$$
grep -nE '(^|[^_a-z])(malloc|calloc|realloc|free|strdup) *\(' pipeline/*.c pipeline/*/*.c ops/*.c ops/*/*.c models/*.c models/*/*.c 2>/dev/null |
    grep -vE '^pipeline/(allocator|backend/cpu_platform).c' >/tmp/sluice-lint.$$ && complain "memory comes from sl_malloc (a CPU device's own from its platform): $(cat /tmp/sluice-lint.$$)"
rm -f /tmp/sluice-lint.$$
verdict
