/* See vector/linear_tiles.c: a pass is of 8 sums. */
#ifndef SLI_LINEAR_AVX2_H
#define SLI_LINEAR_AVX2_H

#define TILE_ROWS 3
enum { LANES = 8 };
typedef __m256 lanes;

#define lanes_load _mm256_loadu_ps
#define lanes_store _mm256_storeu_ps
#define lanes_fma _mm256_fmadd_ps
#define lanes_zero _mm256_setzero_ps
#define lanes_load_bf16 sli_8_of_bf16

static inline lanes lanes_load_part(const float *p, size_t n) {
    return _mm256_maskload_ps(p, sli_first(n));
}

static inline lanes lanes_load_f16(const uint16_t *p) {
    return _mm256_cvtph_ps(_mm_loadu_si128((const void *)p));
}

#define four_load _mm_loadu_ps
#define four_store _mm_storeu_ps
#define four_add _mm_add_ps

static inline sli_four four_nan(sli_four v) {
    __m128 nan = _mm_castsi128_ps(_mm_set1_epi32(0x7fc00000));
    return _mm_blendv_ps(v, nan, _mm_cmpunord_ps(v, v));
}

static inline sli_vf join(lanes low, lanes high) {
    return (sli_vf){low, high};
}

#endif
