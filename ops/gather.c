/* Rows of the micro-batch by index: what the head of a model reads, for example. The one op that mixes rows. */
#include "cpu/kernels.h"
#include "rules.h"

static sl_status shape(const void *attributes, int n_inputs, const sl_type *inputs, const bool *is_weight,
                       int *n_outputs, sl_type *outputs) {
    (void)attributes, (void)n_inputs;
    const sl_shape *x = &inputs[0].shape;
    if (is_weight[0] || x->rank != 2 || x->dims[0] >= 0 || x->dims[1] < 1)
        return sli_wrong_input(0, "x", &inputs[0], "[rows, columns] of the micro-batch%s",
                               is_weight[0] ? ", no weight" : "");
    SL_TRY(sli_need_matrix(1, "index", &inputs[1], SL_I32, 1));
    *n_outputs = 1;
    outputs[0] = (sl_type){inputs[0].dtype, {2, {inputs[1].shape.dims[0], x->dims[1]}}};
    return SL_OK;
}

static void cost(const sl_call *call, sl_cost *cost) {
    double bytes = sli_view_bytes(&call->outputs[0]);
    *cost = (sl_cost){.bytes_read = bytes + sli_view_bytes(&call->inputs[1]), .bytes_written = bytes};
}

const sl_op sli_op_gather = {
    .name = "gather", .shape = shape, .cost = cost, .cpu = sli_cpu_gather, .never_blocks = true, .mixes_rows = true};

sl_value sl_gather(sl_graph *g, sl_stage s, sl_value x, sl_value index) {
    return sl_graph_op1(g, s, &sli_op_gather, NULL, 2, (sl_value[]){x, index}, 0, NULL);
}
