/* See simd.h: plain C. fmaf is libm's, correctly rounded and slow: this is the oracle, and what runs on old machines.
 */
#ifndef SLI_SIMD_PLAIN_H
#define SLI_SIMD_PLAIN_H

#include <math.h>

typedef struct sli_vf {
    float l[16];
} sli_vf;
typedef struct sli_vi {
    int32_t l[16];
} sli_vi;

#define SLI_EACH(expression)                                                                                           \
    for (int i = 0; i < 16; i++)                                                                                       \
        r.l[i] = (expression);                                                                                         \
    return r

static inline sli_vf sli_vf_load(const float *p) {
    sli_vf r;
    memcpy(r.l, p, sizeof r.l);
    return r;
}

static inline sli_vf sli_vf_load_part(const float *p, size_t n) {
    sli_vf r = {{0}};
    memcpy(r.l, p, n * sizeof *p);
    return r;
}

static inline void sli_vf_store(float *p, sli_vf v) {
    memcpy(p, v.l, sizeof v.l);
}

static inline void sli_vf_store_part(float *p, sli_vf v, size_t n) {
    memcpy(p, v.l, n * sizeof *p);
}

static inline float sli_float_of_bits(uint32_t bits) {
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

/* f16 to f32 is exact; a signalling NaN becomes quiet, as F16C does it. */
static inline float sli_float_of_f16(uint16_t h) {
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, exponent = h >> 10 & 31, fraction = h & 0x3ff;
    if (exponent == 31)
        return sli_float_of_bits(sign | 0x7f800000u | (fraction ? 0x400000u : 0) | fraction << 13);
    if (exponent == 0) /* zero and subnormals: fraction * 2^-24, which a float holds */
        return sli_float_of_bits(sign) + (sign ? -0x1p-24f : 0x1p-24f) * (float)fraction;
    return sli_float_of_bits(sign | (exponent + 112) << 23 | fraction << 13);
}

static inline sli_vf sli_vf_load_f16(const uint16_t *p) {
    sli_vf r;
    uint16_t h[16];
    memcpy(h, p, sizeof h);
    SLI_EACH(sli_float_of_f16(h[i]));
}

static inline sli_vf sli_vf_load_bf16(const uint16_t *p) {
    sli_vf r;
    uint16_t h[16];
    memcpy(h, p, sizeof h);
    SLI_EACH(sli_float_of_bits((uint32_t)h[i] << 16));
}

static inline sli_vf sli_vf_set1(float f) {
    sli_vf r;
    SLI_EACH(f);
}

static inline sli_vf sli_vf_add(sli_vf a, sli_vf b) {
    sli_vf r;
    SLI_EACH(a.l[i] + b.l[i]);
}

static inline sli_vf sli_vf_sub(sli_vf a, sli_vf b) {
    sli_vf r;
    SLI_EACH(a.l[i] - b.l[i]);
}

static inline sli_vf sli_vf_mul(sli_vf a, sli_vf b) {
    sli_vf r;
    SLI_EACH(a.l[i] * b.l[i]);
}

static inline sli_vf sli_vf_div(sli_vf a, sli_vf b) {
    sli_vf r;
    SLI_EACH(a.l[i] / b.l[i]);
}

static inline sli_vf sli_vf_sqrt(sli_vf a) {
    sli_vf r;
    SLI_EACH(sqrtf(a.l[i]));
}

static inline sli_vf sli_vf_fma(sli_vf a, sli_vf b, sli_vf c) {
    sli_vf r;
    SLI_EACH(fmaf(a.l[i], b.l[i], c.l[i]));
}

static inline sli_vf sli_vf_max(sli_vf a, sli_vf b) {
    sli_vf r;
    SLI_EACH(a.l[i] > b.l[i] ? a.l[i] : b.l[i]);
}

static inline sli_vf sli_vf_min(sli_vf a, sli_vf b) {
    sli_vf r;
    SLI_EACH(a.l[i] < b.l[i] ? a.l[i] : b.l[i]);
}

static inline sli_vf sli_vf_abs(sli_vf a) {
    sli_vf r;
    SLI_EACH(fabsf(a.l[i]));
}

static inline sli_vf sli_vf_copysign(sli_vf a, sli_vf sign) {
    sli_vf r;
    SLI_EACH(copysignf(a.l[i], sign.l[i]));
}

static inline sli_vf sli_vf_select_lt(sli_vf a, sli_vf b, sli_vf yes, sli_vf no) {
    sli_vf r;
    SLI_EACH(a.l[i] < b.l[i] ? yes.l[i] : no.l[i]);
}

static inline sli_vf sli_vf_nan_if_nan(sli_vf a, sli_vf x) {
    sli_vf r;
    SLI_EACH(x.l[i] == x.l[i] ? a.l[i] : sli_float_of_bits(0x7fc00000u));
}

static inline sli_vi sli_vf_bits(sli_vf a) {
    sli_vi r;
    memcpy(r.l, a.l, sizeof r.l);
    return r;
}

static inline sli_vf sli_vf_from_bits(sli_vi a) {
    sli_vf r;
    memcpy(r.l, a.l, sizeof r.l);
    return r;
}

/* Integer sums wrap, as they do in vectors. */
static inline sli_vi sli_vi_set1(int32_t n) {
    sli_vi r;
    SLI_EACH(n);
}

static inline sli_vi sli_vi_add(sli_vi a, sli_vi b) {
    sli_vi r;
    SLI_EACH((int32_t)((uint32_t)a.l[i] + (uint32_t)b.l[i]));
}

static inline sli_vi sli_vi_sub(sli_vi a, sli_vi b) {
    sli_vi r;
    SLI_EACH((int32_t)((uint32_t)a.l[i] - (uint32_t)b.l[i]));
}

static inline sli_vi sli_vi_shl(sli_vi a, int n) {
    sli_vi r;
    SLI_EACH((int32_t)((uint32_t)a.l[i] << n));
}

static inline sli_vi sli_vi_sar(sli_vi a, int n) {
    sli_vi r;
    SLI_EACH(a.l[i] >> n);
}

/* ((0+8)+(4+12)) + ((2+10)+(6+14)), plus the same of the odd ones: halves are added four times. */
static inline float sli_vf_sum(sli_vf v) {
    for (int half = 8; half; half /= 2)
        for (int i = 0; i < half; i++)
            v.l[i] += v.l[i + half];
    return v.l[0];
}

/* Of numbers; undefined which if there is a NaN. */
static inline float sli_vf_largest(sli_vf v) {
    for (int half = 8; half; half /= 2)
        for (int i = 0; i < half; i++)
            v.l[i] = v.l[i] > v.l[i + half] ? v.l[i] : v.l[i + half];
    return v.l[0];
}

#undef SLI_EACH
#endif
