#!/usr/bin/env bash
# count.sh BUILD-FOLDER [ctest arguments]: runs the tests of a build and adds up what the test programs say of themselves.
# Shows the output of what failed, and what was skipped and why. Fails if anything failed or nothing ran.
set -u
build=$1
shift
log=$build/tests.log
ctest --test-dir "$build" --no-tests=error -j "$(nproc)" -V "$@" >"$log" 2>&1
awk '
    /^[0-9]+: [0-9]+ passed, [0-9]+ failed, [0-9]+ skipped$/ {
        program = $1 + 0; told[program] = 1
        passed += $2; failed += $4; skipped += $6; failures[program] = $4 + 0
        next
    }
    /^[0-9]+: skipped: / { sub(/^[0-9]+: /, ""); print; next }
    /^[0-9]+: / { lines[$1 + 0] = lines[$1 + 0] $0 "\n"; next }
    / Test +#[0-9]+: / {
        match($0, /#[0-9]+/); program = substr($0, RSTART + 1, RLENGTH - 1) + 0
        ran++
        if ($0 ~ /\*\*\*|Not Run/) {
            if (!failures[program]) failed++    # it crashed, or ran out of time, before it could say so
            print $0; printf "%s", lines[program]
        } else if (!told[program]) { print "no counts from: " $0; failed++ }
    }
    END {
        if (!ran) { print "no test ran"; failed++ }
        printf "%d passed, %d failed, %d skipped\n", passed, failed, skipped
        exit failed != 0 || passed == 0
    }' "$log"
