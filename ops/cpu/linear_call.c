/* The linear op's kernel: a product (linear.h) from a call, with a bias of two bytes an element as f32 in scratch. */
#include "cpu/kernels.h"
#include "cpu/linear.h"

static size_t bias_bytes(const sl_call *call) {
    if (call->n_inputs < 3 || call->inputs[2].dtype == SL_F32)
        return 0;
    return ((size_t)sl_shape_columns(&call->inputs[2].shape) * sizeof(float) + 63) / 64 * 64;
}

size_t sli_cpu_linear_scratch(const sl_call *call, int threads) {
    const sl_shape *x = &call->inputs[0].shape, *w = &call->inputs[1].shape;
    return bias_bytes(call) +
           sli_linear_scratch((size_t)sl_shape_rows(x), (size_t)w->dims[1], (size_t)w->dims[0], threads);
}

static const float *bias_of(const sl_call *call) {
    if (call->n_inputs < 3)
        return NULL;
    const sl_view *b = &call->inputs[2];
    if (b->dtype == SL_F32)
        return b->data;
    sl_convert(SL_F32, call->scratch, b->dtype, b->data, (size_t)sl_shape_columns(&b->shape));
    return call->scratch;
}

sl_status sli_cpu_linear(sl_lane *lane, const sl_call *call) {
    const sl_view *x = &call->inputs[0], *w = &call->inputs[1];
    sli_linear product = {.x = x->data,
                          .w = w->data,
                          .w_dtype = w->dtype,
                          .bias = bias_of(call),
                          .y = call->outputs[0].data,
                          .rows = (size_t)sl_shape_rows(&x->shape),
                          .in = (size_t)w->shape.dims[1],
                          .out = (size_t)w->shape.dims[0]};
    sli_linear_run(sli_linear_kernels_for(sl_cpu_isa()), lane, &product, (char *)call->scratch + bias_bytes(call));
    return SL_OK;
}
