#!/usr/bin/env bash
# clang-tidy finds nothing (.clang-tidy) in the product's files. Argument: the build folder.
. "$(dirname "$0")/lint.sh"
command -v clang-tidy >/dev/null || skip "no clang-tidy"
[ -f "$1/compile_commands.json" ] || skip "no compile_commands.json in $1"
out=$(files c | grep -E '^(pipeline|ops|models|cli)/' | grep -F -x -f <(grep -o '"file": "[^"]*"' "$1/compile_commands.json" |
    sed "s|\"file\": \"$PWD/||; s|\"\$||") | xargs -P "$(nproc)" -n 4 clang-tidy --quiet -p "$1" 2>/dev/null)
[ -z "$out" ] || complain "$out"
verdict
