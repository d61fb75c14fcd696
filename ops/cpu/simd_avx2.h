/* See simd.h: AVX2, FMA and F16C, with two registers for 16 lanes. */
#ifndef SLI_SIMD_AVX2_H
#define SLI_SIMD_AVX2_H

#include <immintrin.h>

typedef struct sli_vf {
    __m256 a, b; /* lanes 0 to 7, 8 to 15 */
} sli_vf;
typedef struct sli_vi {
    __m256i a, b;
} sli_vi;

/* Ones in the first n of 8 lanes. */
static inline __m256i sli_first(size_t n) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

static inline sli_vf sli_vf_load(const float *p) {
    return (sli_vf){_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)};
}

static inline sli_vf sli_vf_load_part(const float *p, size_t n) {
    if (n <= 8)
        return (sli_vf){_mm256_maskload_ps(p, sli_first(n)), _mm256_setzero_ps()};
    return (sli_vf){_mm256_loadu_ps(p), _mm256_maskload_ps(p + 8, sli_first(n - 8))};
}

static inline void sli_vf_store(float *p, sli_vf v) {
    _mm256_storeu_ps(p, v.a);
    _mm256_storeu_ps(p + 8, v.b);
}

static inline void sli_vf_store_part(float *p, sli_vf v, size_t n) {
    if (n <= 8) {
        _mm256_maskstore_ps(p, sli_first(n), v.a);
    } else {
        _mm256_storeu_ps(p, v.a);
        _mm256_maskstore_ps(p + 8, sli_first(n - 8), v.b);
    }
}

static inline sli_vf sli_vf_load_f16(const uint16_t *p) {
    return (sli_vf){_mm256_cvtph_ps(_mm_loadu_si128((const void *)p)),
                    _mm256_cvtph_ps(_mm_loadu_si128((const void *)(p + 8)))};
}

static inline __m256 sli_8_of_bf16(const uint16_t *p) {
    __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128((const void *)p));
    return _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16));
}

static inline sli_vf sli_vf_load_bf16(const uint16_t *p) {
    return (sli_vf){sli_8_of_bf16(p), sli_8_of_bf16(p + 8)};
}

static inline sli_vf sli_vf_set1(float f) {
    return (sli_vf){_mm256_set1_ps(f), _mm256_set1_ps(f)};
}

static inline sli_vf sli_vf_add(sli_vf x, sli_vf y) {
    return (sli_vf){_mm256_add_ps(x.a, y.a), _mm256_add_ps(x.b, y.b)};
}

static inline sli_vf sli_vf_sub(sli_vf x, sli_vf y) {
    return (sli_vf){_mm256_sub_ps(x.a, y.a), _mm256_sub_ps(x.b, y.b)};
}

static inline sli_vf sli_vf_mul(sli_vf x, sli_vf y) {
    return (sli_vf){_mm256_mul_ps(x.a, y.a), _mm256_mul_ps(x.b, y.b)};
}

static inline sli_vf sli_vf_div(sli_vf x, sli_vf y) {
    return (sli_vf){_mm256_div_ps(x.a, y.a), _mm256_div_ps(x.b, y.b)};
}

static inline sli_vf sli_vf_sqrt(sli_vf x) {
    return (sli_vf){_mm256_sqrt_ps(x.a), _mm256_sqrt_ps(x.b)};
}

static inline sli_vf sli_vf_fma(sli_vf x, sli_vf y, sli_vf z) {
    return (sli_vf){_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b)};
}

static inline sli_vf sli_vf_max(sli_vf x, sli_vf y) {
    return (sli_vf){_mm256_max_ps(x.a, y.a), _mm256_max_ps(x.b, y.b)};
}

static inline sli_vf sli_vf_min(sli_vf x, sli_vf y) {
    return (sli_vf){_mm256_min_ps(x.a, y.a), _mm256_min_ps(x.b, y.b)};
}

static inline sli_vf sli_vf_abs(sli_vf x) {
    __m256 sign = _mm256_set1_ps(-0.0f);
    return (sli_vf){_mm256_andnot_ps(sign, x.a), _mm256_andnot_ps(sign, x.b)};
}

static inline sli_vf sli_vf_copysign(sli_vf x, sli_vf sign) {
    __m256 mask = _mm256_set1_ps(-0.0f);
    return (sli_vf){_mm256_or_ps(_mm256_andnot_ps(mask, x.a), _mm256_and_ps(mask, sign.a)),
                    _mm256_or_ps(_mm256_andnot_ps(mask, x.b), _mm256_and_ps(mask, sign.b))};
}

static inline sli_vf sli_vf_select_lt(sli_vf x, sli_vf y, sli_vf yes, sli_vf no) {
    return (sli_vf){_mm256_blendv_ps(no.a, yes.a, _mm256_cmp_ps(x.a, y.a, _CMP_LT_OQ)),
                    _mm256_blendv_ps(no.b, yes.b, _mm256_cmp_ps(x.b, y.b, _CMP_LT_OQ))};
}

static inline sli_vf sli_vf_nan_if_nan(sli_vf v, sli_vf x) {
    __m256 nan = _mm256_castsi256_ps(_mm256_set1_epi32(0x7fc00000));
    return (sli_vf){_mm256_blendv_ps(v.a, nan, _mm256_cmp_ps(x.a, x.a, _CMP_UNORD_Q)),
                    _mm256_blendv_ps(v.b, nan, _mm256_cmp_ps(x.b, x.b, _CMP_UNORD_Q))};
}

static inline sli_vi sli_vf_bits(sli_vf x) {
    return (sli_vi){_mm256_castps_si256(x.a), _mm256_castps_si256(x.b)};
}

static inline sli_vf sli_vf_from_bits(sli_vi x) {
    return (sli_vf){_mm256_castsi256_ps(x.a), _mm256_castsi256_ps(x.b)};
}

static inline sli_vi sli_vi_set1(int32_t n) {
    return (sli_vi){_mm256_set1_epi32(n), _mm256_set1_epi32(n)};
}

static inline sli_vi sli_vi_add(sli_vi x, sli_vi y) {
    return (sli_vi){_mm256_add_epi32(x.a, y.a), _mm256_add_epi32(x.b, y.b)};
}

static inline sli_vi sli_vi_sub(sli_vi x, sli_vi y) {
    return (sli_vi){_mm256_sub_epi32(x.a, y.a), _mm256_sub_epi32(x.b, y.b)};
}

static inline sli_vi sli_vi_shl(sli_vi x, int n) {
    return (sli_vi){_mm256_slli_epi32(x.a, n), _mm256_slli_epi32(x.b, n)};
}

static inline sli_vi sli_vi_sar(sli_vi x, int n) {
    return (sli_vi){_mm256_srai_epi32(x.a, n), _mm256_srai_epi32(x.b, n)};
}

/* ((0+8)+(4+12)) + ((2+10)+(6+14)), plus the same of the odd ones: halves are added four times. */
static inline float sli_vf_sum(sli_vf v) {
    __m256 v8 = _mm256_add_ps(v.a, v.b);
    __m128 v4 = _mm_add_ps(_mm256_castps256_ps128(v8), _mm256_extractf128_ps(v8, 1));
    v4 = _mm_add_ps(v4, _mm_movehl_ps(v4, v4));
    return _mm_cvtss_f32(_mm_add_ss(v4, _mm_movehdup_ps(v4)));
}

/* Of numbers; undefined which if there is a NaN. */
static inline float sli_vf_largest(sli_vf v) {
    __m256 v8 = _mm256_max_ps(v.a, v.b);
    __m128 v4 = _mm_max_ps(_mm256_castps256_ps128(v8), _mm256_extractf128_ps(v8, 1));
    v4 = _mm_max_ps(v4, _mm_movehl_ps(v4, v4));
    return _mm_cvtss_f32(_mm_max_ss(v4, _mm_movehdup_ps(v4)));
}

#endif
