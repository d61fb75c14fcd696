#!/usr/bin/env bash
# run.sh PROGRAM EXPECTED: an example prints what it says it prints.
unset "${!SLUICE_@}"
if diff <("$1") "$2"; then
    echo "1 passed, 0 failed, 0 skipped"
else
    echo "0 passed, 1 failed, 0 skipped"
    exit 1
fi
