/* See vector/linear_tiles.c: a pass is of all 16 sums. */
#ifndef SLI_LINEAR_AVX512_H
#define SLI_LINEAR_AVX512_H

#define TILE_ROWS 6
enum { LANES = 16 };
typedef sli_vf lanes;

#define lanes_load sli_vf_load
#define lanes_load_part sli_vf_load_part
#define lanes_load_f16 sli_vf_load_f16
#define lanes_load_bf16 sli_vf_load_bf16
#define lanes_store sli_vf_store
#define lanes_fma sli_vf_fma
#define lanes_zero _mm512_setzero_ps

#define four_load _mm_loadu_ps
#define four_store _mm_storeu_ps
#define four_add _mm_add_ps

static inline sli_four four_nan(sli_four v) {
    __m128 nan = _mm_castsi128_ps(_mm_set1_epi32(0x7fc00000));
    return _mm_blendv_ps(v, nan, _mm_cmpunord_ps(v, v));
}

#define join(all, same) (all)

#endif
