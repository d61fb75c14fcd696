/* y = x w^T + b. The products are in cpu/linear.c. */
#include "cpu/kernels.h"
#include "rules.h"

static sl_status shape(const void *attributes, int n_inputs, const sl_type *inputs, const bool *is_weight,
                       int *n_outputs, sl_type *outputs) {
    (void)attributes;
    SL_TRY(sli_need_rows(0, "x", &inputs[0], SL_F32));
    SL_TRY(sli_need_table(1, "w", &inputs[1], is_weight[1], sl_shape_columns(&inputs[0].shape)));
    int64_t out = inputs[1].shape.dims[0];
    if (out < 1)
        return sli_wrong_input(1, "w", &inputs[1], "at least one row, for one output");
    if (n_inputs > 2)
        SL_TRY(sli_need_row_weight(2, "b", &inputs[2], is_weight[2], out));
    *n_outputs = 1;
    outputs[0] = inputs[0];
    outputs[0].shape.dims[outputs[0].shape.rank - 1] = out;
    return SL_OK;
}

static void cost(const sl_call *call, sl_cost *cost) {
    double products = sli_view_elements(&call->outputs[0]) * (double)sl_shape_columns(&call->inputs[0].shape);
    sli_cost_of_all(call, 2 * products + (call->n_inputs > 2 ? sli_view_elements(&call->outputs[0]) : 0), cost);
}

const sl_op sli_op_linear = {.name = "linear",
                             .shape = shape,
                             .cost = cost,
                             .scratch = sli_cpu_linear_scratch,
                             .cpu = sli_cpu_linear,
                             .never_blocks = true};

sl_value sl_linear(sl_graph *g, sl_stage s, sl_value x, sl_value w, sl_value b) {
    return sl_graph_op1(g, s, &sli_op_linear, NULL, b.id ? 3 : 2, (sl_value[]){x, w, b}, 0, NULL);
}
