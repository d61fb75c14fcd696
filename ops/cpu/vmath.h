/* exp, tanh and erf of 16 floats, for files that are compiled for each instruction set: the same bits in each. Within 2
 * ulp of the exact value wherever that is a normal number (measured: exp 1.01, tanh 1.47, erf 1.10).
 * Coefficients: tests/oracles/fit_math.py. NaN gives the one quiet NaN. */
#ifndef SLI_VMATH_H
#define SLI_VMATH_H

#include "cpu/simd.h"

/* x * p + c, c a constant. */
static inline sli_vf sli_v_step(sli_vf p, sli_vf x, float c) {
    return sli_vf_fma(p, x, sli_vf_set1(c));
}

/* exp(x) = 2^n * exp(r), |r| <= ln 2 / 2 (Cody and Waite 1980). n is found by adding 1.5 * 2^23, which leaves it in the
 * low bits. 2^n is applied in two factors, since n reaches from -150 to 129: each is a normal number, and only the last
 * product rounds. Overflows to infinity, and goes through the subnormals to 0. No care is taken of NaN. */
static inline sli_vf sli_v_exp_of_number(sli_vf x) {
    const sli_vf magic = sli_vf_set1(0x1.8p23f);
    x = sli_vf_min(sli_vf_max(x, sli_vf_set1(-104.0f)), sli_vf_set1(89.0f));
    sli_vf t = sli_vf_fma(x, sli_vf_set1(0x1.715476p+0f), magic); /* 1 / ln 2 */
    sli_vf n = sli_vf_sub(t, magic);
    sli_vf r = sli_vf_fma(n, sli_vf_set1(-0x1.62e430p-1f), x); /* ln 2, cut in two */
    r = sli_vf_fma(n, sli_vf_set1(0x1.05c610p-29f), r);
    sli_vf p = sli_vf_set1(0x1.6a23f2p-10f);
    p = sli_v_step(p, r, 0x1.123a0ap-7f);
    p = sli_v_step(p, r, 0x1.5558f2p-5f);
    p = sli_v_step(p, r, 0x1.555492p-3f);
    p = sli_v_step(p, r, 0x1.fffffcp-2f);
    p = sli_vf_fma(p, sli_vf_mul(r, r), r);
    p = sli_vf_add(p, sli_vf_set1(1.0f));
    sli_vi exponent = sli_vi_sub(sli_vf_bits(t), sli_vf_bits(magic));
    sli_vi half = sli_vi_sar(exponent, 1), rest = sli_vi_sub(exponent, half), bias = sli_vi_set1(127);
    p = sli_vf_mul(p, sli_vf_from_bits(sli_vi_shl(sli_vi_add(half, bias), 23)));
    return sli_vf_mul(p, sli_vf_from_bits(sli_vi_shl(sli_vi_add(rest, bias), 23)));
}

static inline sli_vf sli_v_exp(sli_vf x) {
    return sli_vf_nan_if_nan(sli_v_exp_of_number(x), x);
}

/* |x| < 0.55: x + x^3 p(x^2). Else 1 - 2 / (exp(2 |x|) + 1), with the sign of x. */
static inline sli_vf sli_v_tanh(sli_vf x) {
    sli_vf size = sli_vf_abs(x), s = sli_vf_mul(x, x);
    sli_vf p = sli_vf_set1(0x1.3a0676p-9f);
    p = sli_v_step(p, s, -0x1.13b564p-7f);
    p = sli_v_step(p, s, 0x1.64e3ccp-6f);
    p = sli_v_step(p, s, -0x1.ba0996p-5f);
    p = sli_v_step(p, s, 0x1.1110dcp-3f);
    p = sli_v_step(p, s, -0x1.555554p-2f);
    sli_vf small = sli_vf_fma(sli_vf_mul(p, s), x, x);
    sli_vf e = sli_v_exp_of_number(sli_vf_add(size, size)), one = sli_vf_set1(1.0f);
    sli_vf large = sli_vf_sub(one, sli_vf_div(sli_vf_set1(2.0f), sli_vf_add(e, one)));
    sli_vf y = sli_vf_select_lt(size, sli_vf_set1(0.55f), small, large);
    return sli_vf_nan_if_nan(sli_vf_copysign(y, x), x);
}

/* |x| < 0.93: x + x p(x^2). Else 1 - exp(-|x| - |x| p(|x|)), with the sign of x; from 3.95 on that is 1. */
static inline sli_vf sli_v_erf(sli_vf x) {
    sli_vf size = sli_vf_abs(x), s = sli_vf_mul(x, x);
    sli_vf p = sli_vf_set1(0x1.5cd4d4p-14f);
    p = sli_v_step(p, s, -0x1.aa3f3cp-11f);
    p = sli_v_step(p, s, 0x1.54c7f6p-8f);
    p = sli_v_step(p, s, -0x1.b80e92p-6f);
    p = sli_v_step(p, s, 0x1.ce2e0ap-4f);
    p = sli_v_step(p, s, -0x1.812742p-2f);
    p = sli_v_step(p, s, 0x1.06eba8p-3f);
    sli_vf small = sli_vf_fma(p, x, x);
    sli_vf a = sli_vf_min(size, sli_vf_set1(3.95f));
    sli_vf q = sli_vf_set1(0x1.85a518p-17f);
    q = sli_v_step(q, a, -0x1.567d28p-12f);
    q = sli_v_step(q, a, 0x1.df7678p-9f);
    q = sli_v_step(q, a, -0x1.85db80p-6f);
    q = sli_v_step(q, a, 0x1.b34d9ep-4f);
    q = sli_v_step(q, a, 0x1.452f82p-1f);
    q = sli_v_step(q, a, 0x1.077bdcp-3f);
    sli_vf minus = sli_vf_sub(sli_vf_set1(0.0f), a);
    sli_vf large = sli_vf_sub(sli_vf_set1(1.0f), sli_v_exp_of_number(sli_vf_fma(q, minus, minus)));
    sli_vf y = sli_vf_select_lt(size, sli_vf_set1(0.93f), small, large);
    return sli_vf_nan_if_nan(sli_vf_copysign(y, x), x);
}

#endif
