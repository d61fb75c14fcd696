/* Normalisation of each row: layer_norm and rms_norm. */
#include "cpu/kernels.h"
#include "cpu/row_weights.h"
#include "rules.h"
#include <math.h>

static sl_status shape(const void *attributes, int n_inputs, const sl_type *inputs, const bool *is_weight,
                       int *n_outputs, sl_type *outputs) {
    const sli_norm *a = attributes;
    if (!(a->eps >= 0) || isinf(a->eps))
        return sl_fail(SL_INVALID, "eps is %g; expected a number of 0 or more, such as 1e-5", (double)a->eps);
    SL_TRY(sli_need_rows(0, "x", &inputs[0], SL_F32));
    int64_t columns = sl_shape_columns(&inputs[0].shape);
    SL_TRY(sli_need_row_weight(1, "weight", &inputs[1], is_weight[1], columns));
    if (n_inputs > 2)
        SL_TRY(sli_need_row_weight(2, "bias", &inputs[2], is_weight[2], columns));
    *n_outputs = 1;
    outputs[0] = inputs[0];
    return SL_OK;
}

static void cost(const sl_call *call, sl_cost *cost, double operations) {
    const sl_view *x = &call->inputs[0];
    double rows = (double)sl_shape_rows(&x->shape);
    sli_cost_of_all(call, operations * sli_view_elements(x) + 2 * SLI_FUNCTION_OPERATIONS * rows, cost);
}

static void layer_norm_cost(const sl_call *call, sl_cost *c) {
    cost(call, c, 8);
}

static void rms_norm_cost(const sl_call *call, sl_cost *c) {
    cost(call, c, 4);
}

const sl_op sli_op_layer_norm = {.name = "layer_norm",
                                 .attribute_bytes = sizeof(sli_norm),
                                 .shape = shape,
                                 .cost = layer_norm_cost,
                                 .scratch = sli_row_weights_scratch,
                                 .cpu = sli_cpu_layer_norm,
                                 .never_blocks = true};
const sl_op sli_op_rms_norm = {.name = "rms_norm",
                               .attribute_bytes = sizeof(sli_norm),
                               .shape = shape,
                               .cost = rms_norm_cost,
                               .scratch = sli_row_weights_scratch,
                               .cpu = sli_cpu_rms_norm,
                               .never_blocks = true};

sl_value sl_layer_norm(sl_graph *g, sl_stage s, sl_value x, sl_value weight, sl_value bias, float eps) {
    return sl_graph_op1(g, s, &sli_op_layer_norm, &(sli_norm){eps}, bias.id ? 3 : 2, (sl_value[]){x, weight, bias}, 0,
                        NULL);
}

sl_value sl_rms_norm(sl_graph *g, sl_stage s, sl_value x, sl_value weight, float eps) {
    return sl_graph_op1(g, s, &sli_op_rms_norm, &(sli_norm){eps}, 2, (sl_value[]){x, weight}, 0, NULL);
}
