/* Rotary: the leading rotary_dim elements of each head are turned, the others copied. */
#include "cpu/kernels.h"
#include "cpu/parallel.h"
#include "cpu/segments.h"
#include "cpu/vector_kernels.h"
#include <string.h>

static void turn_row(const sl_rotary_options *o, const float *x, const float *angles, float *y) {
    const sli_elementwise_kernels *kernels = sli_elementwise_for(sl_cpu_isa());
    size_t half = (size_t)o->rotary_dim / 2, rest = (size_t)(o->head_dim - o->rotary_dim);
    for (int h = 0; h < o->n_heads; h++, x += o->head_dim, y += o->head_dim) {
        if (o->pairs == SL_ROTARY_HALVES)
            kernels->turn_halves(x, angles, angles + half, y, half);
        else
            kernels->turn_interleaved(x, angles, angles + half, y, half);
        memcpy(y + o->rotary_dim, x + o->rotary_dim, rest * sizeof *y);
    }
}

static void turn_part(int part, int n_parts, void *user) {
    const sl_call *call = user;
    const sl_rotary_options *o = call->attributes;
    const sl_view *x = &call->inputs[0];
    const sl_segment *s = call->descriptor->segments;
    int64_t columns = x->shape.dims[1], end = sli_part_begin(x->shape.dims[0], part + 1, n_parts);
    for (int64_t r = sli_part_begin(x->shape.dims[0], part, n_parts); r < end; r++) {
        s = sli_segment_of(s, r);
        turn_row(o, (const float *)x->data + r * columns,
                 (const float *)call->inputs[1].data + (int64_t)sli_position_of(s, r) * o->rotary_dim,
                 (float *)call->outputs[0].data + r * columns);
    }
}

sl_status sli_cpu_rotary(sl_lane *lane, const sl_call *call) {
    const sl_view *x = &call->inputs[0];
    int64_t rows = x->shape.dims[0], longest = call->inputs[1].shape.dims[0];
    SL_TRY(sli_check_segments(call->descriptor, rows, longest, "the table of angles"));
    sl_lane_parallel(lane, sli_parts(lane, rows, 3.0 * (double)x->shape.dims[1]), turn_part, (void *)call);
    return SL_OK;
}
