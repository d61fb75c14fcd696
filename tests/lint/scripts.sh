#!/usr/bin/env bash
# The shell scripts pass shellcheck.
. "$(dirname "$0")/lint.sh"
command -v shellcheck >/dev/null || skip "no shellcheck"
for f in .ci/* $(files sh); do
    shellcheck -x -e SC1091 -s bash "$f" || complain "$f"
done
verdict
