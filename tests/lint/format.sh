#!/usr/bin/env bash
# Every C file is as clang-format writes it.
. "$(dirname "$0")/lint.sh"
command -v clang-format >/dev/null || skip "no clang-format"
[ "$(clang-format --version | sed 's/.*version \([0-9]*\).*/\1/')" = 14 ] || skip "clang-format is not version 14"
for f in $(files c h); do
    clang-format --dry-run -Werror "$f" >/dev/null 2>&1 || complain "$f: run clang-format -i on it"
done
verdict
