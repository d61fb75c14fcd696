/* The sums of the lanes of four vectors at once: each by the tree of sli_vf_sum, so with the same bits. sli_four is
 * what holds them: a register of four, or an array. */
#ifndef SLI_SIMD_SUM4_H
#define SLI_SIMD_SUM4_H

#include "cpu/simd.h"

#if defined(SLI_SIMD_PLAIN_H)
typedef struct sli_four {
    float l[4];
} sli_four;
#else
typedef __m128 sli_four;
#endif

#if defined(SLI_SIMD_AVX512_H)

static inline sli_four sli_vf_sums(const sli_vf v[4]) {
    __m512 ab = _mm512_add_ps(_mm512_shuffle_f32x4(v[0], v[1], 0x44), _mm512_shuffle_f32x4(v[0], v[1], 0xEE));
    __m512 cd = _mm512_add_ps(_mm512_shuffle_f32x4(v[2], v[3], 0x44), _mm512_shuffle_f32x4(v[2], v[3], 0xEE));
    __m512 four = _mm512_add_ps(_mm512_shuffle_f32x4(ab, cd, 0x88), _mm512_shuffle_f32x4(ab, cd, 0xDD));
    four = _mm512_add_ps(four, _mm512_permute_ps(four, 0x4E));
    four = _mm512_add_ps(four, _mm512_permute_ps(four, 0xB1));
    return _mm512_castps512_ps128(_mm512_maskz_compress_ps(0x1111, four));
}

#elif defined(SLI_SIMD_AVX2_H)

static inline sli_four sli_vf_sums(const sli_vf v[4]) {
    __m256 a = _mm256_add_ps(v[0].a, v[0].b), b = _mm256_add_ps(v[1].a, v[1].b);
    __m256 c = _mm256_add_ps(v[2].a, v[2].b), d = _mm256_add_ps(v[3].a, v[3].b);
    __m256 ab = _mm256_add_ps(_mm256_permute2f128_ps(a, b, 0x20), _mm256_permute2f128_ps(a, b, 0x31));
    __m256 cd = _mm256_add_ps(_mm256_permute2f128_ps(c, d, 0x20), _mm256_permute2f128_ps(c, d, 0x31));
    __m256 two = _mm256_add_ps(_mm256_shuffle_ps(ab, cd, 0x44), _mm256_shuffle_ps(ab, cd, 0xEE));
    two = _mm256_add_ps(_mm256_shuffle_ps(two, two, 0x88), _mm256_shuffle_ps(two, two, 0xDD)); /* a c, b d */
    return _mm_unpacklo_ps(_mm256_castps256_ps128(two), _mm256_extractf128_ps(two, 1));
}

#else

static inline sli_four sli_vf_sums(const sli_vf v[4]) {
    return (sli_four){{sli_vf_sum(v[0]), sli_vf_sum(v[1]), sli_vf_sum(v[2]), sli_vf_sum(v[3])}};
}

#endif

static inline void sli_vf_sum4(const sli_vf v[4], float sums[4]) {
    sli_four four = sli_vf_sums(v);
    memcpy(sums, &four, sizeof four);
}

#endif
