#!/usr/bin/env bash
# Every public header compiles alone, as C11 and as C++17, with gcc and, where it is there, clang.
. "$(dirname "$0")/lint.sh"
flags="-Wall -Wextra -Wpedantic -Werror -Iinclude -fsyntax-only"
for header in include/sluice/*.h; do
    line="#include <sluice/$(basename "$header")>"
    for compiler in "gcc -std=c11 -x c" "g++ -std=c++17 -x c++" "clang -std=c11 -x c" "clang++ -std=c++17 -x c++"; do
        command -v "${compiler%% *}" >/dev/null || continue
        # shellcheck disable=SC2086
        echo "$line" | $compiler $flags - || complain "$header: $compiler"
    done
done
verdict
