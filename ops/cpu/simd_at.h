/* The vector at element i of an array of n: 16 elements, or what is left of them, with zeros after the end. For loops
 * over a row without a second body for its end. */
#ifndef SLI_SIMD_AT_H
#define SLI_SIMD_AT_H

#include "cpu/simd.h"

static inline sli_vf sli_load_at(const float *x, size_t i, size_t n) {
    return n - i >= SLI_LANES ? sli_vf_load(x + i) : sli_vf_load_part(x + i, n - i);
}

/* A NaN is stored as the one quiet NaN: which of two an operation passes on is up to the order of its operands, and
 * that is up to the compiler. */
static inline void sli_store_at(float *y, size_t i, size_t n, sli_vf v) {
    v = sli_vf_nan_if_nan(v, v);
    if (n - i >= SLI_LANES)
        sli_vf_store(y + i, v);
    else
        sli_vf_store_part(y + i, v, n - i);
}

#endif
