#!/usr/bin/env bash
# Nothing but sl_* leaves the library, and the SONAME, the macros and the run-time version agree. Argument: the build folder.
. "$(dirname "$0")/lint.sh"
command -v nm >/dev/null || skip "no nm"
library=$1/libsluice.so
[ -e "$library" ] || skip "no shared library in $1"
nm -D --defined-only "$library" | grep -q ' T sl_version$' || complain "sl_version is not exported"
others=$(nm -D --defined-only "$library" | awk '{print $NF}' |
    grep -vE '^(sl_|__asan|__ubsan|__tsan|__gcov|_init$|_fini$|__bss_start|_edata|_end)' | head -5)
[ -z "$others" ] || complain "exported beside sl_*: $others"
declared=$(grep -ohE '\bsl_[a-z0-9_]+ *\(' <(sed 's|/\*.*\*/||' include/sluice/*.h | grep -A3 '^SL_API') | tr -d ' (' | sort -u)
exported=$(nm -D --defined-only "$library" | awk '$2 == "T" {print $NF}' | sort -u)
for name in $exported; do
    echo "$declared" | grep -qx "$name" || complain "$name is exported, and no public header declares it"
done
for name in $(grep -hE '^SL_API' include/sluice/*.h | grep -oE '\bsl_[a-z0-9_]+ *\(' | tr -d ' (' | sort -u); do
    echo "$exported" | grep -qx "$name" || complain "$name is declared, and the library does not export it"
done
version=$(sed -n 's/^project(sluice VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
grep -q "#define SL_VERSION \"$version\"" include/sluice/version.h || complain "SL_VERSION is not $version"
soname=$(readelf -d "$library" | sed -n 's/.*SONAME.*\[\(.*\)\]/\1/p')
[ "$soname" = "libsluice.so.${version%%.*}" ] || complain "SONAME is $soname"
[ -e "$1/libsluice.so.$version" ] || complain "there is no libsluice.so.$version"
verdict
