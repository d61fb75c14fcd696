/* See row_weights.h. The copies lie in scratch in the order of the inputs. */
#include "cpu/row_weights.h"
#include "cpu/widen.h"

static size_t copy_bytes(const sl_view *weight) {
    if (weight->dtype == SL_F32)
        return 0;
    return ((size_t)sl_shape_columns(&weight->shape) * sizeof(float) + 63) / 64 * 64;
}

static size_t offset_of(const sl_call *call, int i) {
    size_t bytes = 0;
    for (int k = 1; k < i; k++)
        bytes += copy_bytes(&call->inputs[k]);
    return bytes;
}

size_t sli_row_weights_scratch(const sl_call *call, int threads) {
    (void)threads;
    return offset_of(call, call->n_inputs);
}

const float *sli_row_weight(const sl_call *call, int i) {
    const sl_view *weight = &call->inputs[i];
    if (weight->dtype == SL_F32)
        return weight->data;
    void *copy = (char *)call->scratch + offset_of(call, i);
    sli_widen(weight->dtype, weight->data, copy, (size_t)sl_shape_columns(&weight->shape));
    return copy;
}
