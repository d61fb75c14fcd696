/* See vector/linear_tiles.c: a pass is of all 16 sums. */
#ifndef SLI_LINEAR_PLAIN_H
#define SLI_LINEAR_PLAIN_H

enum { LANES = 16, TILE_ROWS = 2 };
typedef sli_vf lanes;

#define lanes_load sli_vf_load
#define lanes_load_part sli_vf_load_part
#define lanes_load_f16 sli_vf_load_f16
#define lanes_load_bf16 sli_vf_load_bf16
#define lanes_store sli_vf_store
#define lanes_fma sli_vf_fma
#define lanes_zero() sli_vf_set1(0)

#endif
