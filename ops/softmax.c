/* exp(x - largest) over its sum, of each row. */
#include "cpu/kernels.h"
#include "rules.h"

static sl_status shape(const void *attributes, int n_inputs, const sl_type *inputs, const bool *is_weight,
                       int *n_outputs, sl_type *outputs) {
    (void)attributes, (void)n_inputs, (void)is_weight;
    SL_TRY(sli_need_rows(0, "x", &inputs[0], SL_F32));
    *n_outputs = 1;
    outputs[0] = inputs[0];
    return SL_OK;
}

static void cost(const sl_call *call, sl_cost *cost) {
    sli_cost_of_all(call, (SLI_FUNCTION_OPERATIONS + 4) * sli_view_elements(&call->inputs[0]), cost);
}

const sl_op sli_op_softmax = {
    .name = "softmax", .shape = shape, .cost = cost, .cpu = sli_cpu_softmax, .never_blocks = true};

sl_value sl_softmax(sl_graph *g, sl_stage s, sl_value x) {
    return sl_graph_op1(g, s, &sli_op_softmax, NULL, 1, &x, 0, NULL);
}
