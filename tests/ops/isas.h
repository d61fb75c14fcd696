/* Which instruction sets this machine has, for tests that run the kernels of each. */
#ifndef TESTS_ISAS_H
#define TESTS_ISAS_H

#include <sluice/device.h>

/* The best of this machine, whatever SLUICE_ISA says: all below it are there too. */
static inline sl_isa best_isa(void) {
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl"))
        return SL_ISA_AVX512;
    if (__builtin_cpu_supports("avx2") &&
        __builtin_cpu_supports("fma")) /* clang has no name for f16c; FMA implies it */
        return SL_ISA_AVX2;
#endif
    return SL_ISA_PLAIN;
}

#endif
