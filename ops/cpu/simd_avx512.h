/* See simd.h: AVX-512 F, BW, DQ, VL. */
#ifndef SLI_SIMD_AVX512_H
#define SLI_SIMD_AVX512_H

#include <immintrin.h>

typedef __m512 sli_vf;
typedef __m512i sli_vi;

static inline __mmask16 sli_first(size_t n) {
    return (__mmask16)((1u << n) - 1);
}

static inline sli_vf sli_vf_load(const float *p) {
    return _mm512_loadu_ps(p);
}

static inline sli_vf sli_vf_load_part(const float *p, size_t n) {
    return _mm512_maskz_loadu_ps(sli_first(n), p);
}

static inline void sli_vf_store(float *p, sli_vf v) {
    _mm512_storeu_ps(p, v);
}

static inline void sli_vf_store_part(float *p, sli_vf v, size_t n) {
    _mm512_mask_storeu_ps(p, sli_first(n), v);
}

static inline sli_vf sli_vf_load_f16(const uint16_t *p) {
    return _mm512_cvtph_ps(_mm256_loadu_si256((const void *)p));
}

static inline sli_vf sli_vf_load_bf16(const uint16_t *p) {
    __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const void *)p));
    return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));
}

static inline sli_vf sli_vf_set1(float f) {
    return _mm512_set1_ps(f);
}

static inline sli_vf sli_vf_add(sli_vf a, sli_vf b) {
    return _mm512_add_ps(a, b);
}

static inline sli_vf sli_vf_sub(sli_vf a, sli_vf b) {
    return _mm512_sub_ps(a, b);
}

static inline sli_vf sli_vf_mul(sli_vf a, sli_vf b) {
    return _mm512_mul_ps(a, b);
}

static inline sli_vf sli_vf_div(sli_vf a, sli_vf b) {
    return _mm512_div_ps(a, b);
}

static inline sli_vf sli_vf_sqrt(sli_vf a) {
    return _mm512_sqrt_ps(a);
}

static inline sli_vf sli_vf_fma(sli_vf a, sli_vf b, sli_vf c) {
    return _mm512_fmadd_ps(a, b, c);
}

static inline sli_vf sli_vf_max(sli_vf a, sli_vf b) {
    return _mm512_max_ps(a, b);
}

static inline sli_vf sli_vf_min(sli_vf a, sli_vf b) {
    return _mm512_min_ps(a, b);
}

static inline sli_vf sli_vf_abs(sli_vf a) {
    return _mm512_abs_ps(a);
}

static inline sli_vf sli_vf_copysign(sli_vf a, sli_vf sign) {
    __m512 mask = _mm512_set1_ps(-0.0f);
    return _mm512_or_ps(_mm512_andnot_ps(mask, a), _mm512_and_ps(mask, sign));
}

static inline sli_vf sli_vf_select_lt(sli_vf a, sli_vf b, sli_vf yes, sli_vf no) {
    return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, b, _CMP_LT_OQ), no, yes);
}

static inline sli_vf sli_vf_nan_if_nan(sli_vf a, sli_vf x) {
    __m512 nan = _mm512_castsi512_ps(_mm512_set1_epi32(0x7fc00000));
    return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q), a, nan);
}

static inline sli_vi sli_vf_bits(sli_vf a) {
    return _mm512_castps_si512(a);
}

static inline sli_vf sli_vf_from_bits(sli_vi a) {
    return _mm512_castsi512_ps(a);
}

static inline sli_vi sli_vi_set1(int32_t n) {
    return _mm512_set1_epi32(n);
}

static inline sli_vi sli_vi_add(sli_vi a, sli_vi b) {
    return _mm512_add_epi32(a, b);
}

static inline sli_vi sli_vi_sub(sli_vi a, sli_vi b) {
    return _mm512_sub_epi32(a, b);
}

#define sli_vi_shl(a, n) _mm512_slli_epi32(a, n)
#define sli_vi_sar(a, n) _mm512_srai_epi32(a, n)

/* ((0+8)+(4+12)) + ((2+10)+(6+14)), plus the same of the odd ones: halves are added four times. */
static inline float sli_vf_sum(sli_vf v) {
    __m256 v8 = _mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
    __m128 v4 = _mm_add_ps(_mm256_castps256_ps128(v8), _mm256_extractf128_ps(v8, 1));
    v4 = _mm_add_ps(v4, _mm_movehl_ps(v4, v4));
    return _mm_cvtss_f32(_mm_add_ss(v4, _mm_movehdup_ps(v4)));
}

/* Of numbers; undefined which if there is a NaN. */
static inline float sli_vf_largest(sli_vf v) {
    __m256 v8 = _mm256_max_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
    __m128 v4 = _mm_max_ps(_mm256_castps256_ps128(v8), _mm256_extractf128_ps(v8, 1));
    v4 = _mm_max_ps(v4, _mm_movehl_ps(v4, v4));
    return _mm_cvtss_f32(_mm_max_ss(v4, _mm_movehdup_ps(v4)));
}

#endif
