/* See vector/linear_tiles.c: a pass is of all 16 sums. */
#ifndef SLI_LINEAR_PLAIN_H
#define SLI_LINEAR_PLAIN_H

#define TILE_ROWS 3
enum { LANES = 16 };
typedef sli_vf lanes;

#define lanes_load sli_vf_load
#define lanes_load_part sli_vf_load_part
#define lanes_load_f16 sli_vf_load_f16
#define lanes_load_bf16 sli_vf_load_bf16
#define lanes_store sli_vf_store
#define lanes_fma sli_vf_fma
#define lanes_zero() sli_vf_set1(0)
#define join(all, same) (all)

static inline sli_four four_load(const float *y) {
    sli_four v;
    memcpy(v.l, y, sizeof v.l);
    return v;
}

static inline void four_store(float *y, sli_four v) {
    memcpy(y, v.l, sizeof v.l);
}

static inline sli_four four_add(sli_four a, sli_four b) {
    for (int i = 0; i < 4; i++)
        a.l[i] += b.l[i];
    return a;
}

static inline sli_four four_nan(sli_four v) {
    for (int i = 0; i < 4; i++)
        v.l[i] = v.l[i] == v.l[i] ? v.l[i] : sli_float_of_bits(0x7fc00000u);
    return v;
}

#endif
