#!/usr/bin/env bash
# Installs what is missing, builds, and runs every test. The last line is `N passed, N failed, N skipped`.
#   tests/run.sh [PRESET [ctest arguments]]      release (the default), dev, asan, tsan, coverage
set -eu
cd "$(dirname "$0")/.."
. tests/support/prepare.sh
preset=${1:-release}
[ $# = 0 ] || shift
prepare_build
prepare_tests
if [ -z "${SLUICE_TEST_DATA:-}" ] && [ -d ../shared/models ]; then
    SLUICE_TEST_DATA=$(cd ../shared && pwd)
    export SLUICE_TEST_DATA
fi
cmake --preset "$preset" --log-level=WARNING
cmake --build --preset "$preset" -- --quiet
tests/support/count.sh "build/$preset" "$@"
