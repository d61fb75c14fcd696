/* Vectors of 16 floats, for files that are compiled once for each instruction set (ops/cpu/vector). Every operation
 * gives the same bits in each: it is one correctly rounded operation of IEEE 754, or moves bits; only the sign and the
 * payload of a NaN may differ. So code written in them gives the same bits everywhere, as long as its order of sums is
 * one of vectors of 16.
 *
 * SLI_FOR_ISA(name) is name_plain, name_avx2 or name_avx512: for what such a file gives to others, a table of functions
 * as a rule. All else in it is static. */
#ifndef SLI_SIMD_H
#define SLI_SIMD_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define SLI_JOIN_AGAIN(a, b) a##_##b
#define SLI_JOIN(a, b) SLI_JOIN_AGAIN(a, b)
#define SLI_FOR_ISA(name) SLI_JOIN(name, SLI_ISA)

enum { SLI_LANES = 16 };

/* Each header below has, for sli_vf (16 f32) and sli_vi (16 i32):
 *   load, store             any alignment
 *   load_part(p, n)         the first n (0 to 16), zeros after; touches no other memory
 *   store_part(p, v, n)     the first n
 *   load_f16, load_bf16     16 of uint16_t, converted; exact
 *   set1, add, sub, mul, div, sqrt
 *   fma(a, b, c)            a * b + c, rounded once
 *   max(a, b)               a > b ? a : b; b where one is NaN
 *   min(a, b)               a < b ? a : b
 *   abs, copysign(a, sign)
 *   select_lt(a, b, yes, no)   yes where a < b; no where one is NaN
 *   nan_if_nan(a, x)        the one quiet NaN 0x7fc00000 where x is NaN, else a
 *   bits, from_bits         reinterpreted
 *   sli_vi_set1, add, sub, shl(v, n), sar(v, n)
 *   sum(v), largest(v)      of the lanes, by one fixed tree */
#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__)
#include "cpu/simd_avx512.h"
#elif defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)
#include "cpu/simd_avx2.h"
#else
#include "cpu/simd_plain.h"
#endif

/* The first n of 16-bit elements, zeros after. */
static inline sli_vf sli_vf_load_f16_part(const uint16_t *p, size_t n) {
    uint16_t part[SLI_LANES] = {0};
    memcpy(part, p, n * sizeof *p);
    return sli_vf_load_f16(part);
}

static inline sli_vf sli_vf_load_bf16_part(const uint16_t *p, size_t n) {
    uint16_t part[SLI_LANES] = {0};
    memcpy(part, p, n * sizeof *p);
    return sli_vf_load_bf16(part);
}

#endif
