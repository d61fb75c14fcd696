/* Rows of a table: by id (embedding), and by the position of each row in its sequence, added (position_embedding). */
#include "cpu/kernels.h"
#include "rules.h"

static sl_status embedding_shape(const void *attributes, int n_inputs, const sl_type *inputs, const bool *is_weight,
                                 int *n_outputs, sl_type *outputs) {
    (void)attributes, (void)n_inputs;
    SL_TRY(sli_need_matrix(0, "ids", &inputs[0], SL_I32, 1));
    SL_TRY(sli_need_table(1, "table", &inputs[1], is_weight[1], -1));
    *n_outputs = 1;
    outputs[0] = (sl_type){SL_F32, {2, {inputs[0].shape.dims[0], inputs[1].shape.dims[1]}}};
    return SL_OK;
}

static sl_status position_shape(const void *attributes, int n_inputs, const sl_type *inputs, const bool *is_weight,
                                int *n_outputs, sl_type *outputs) {
    (void)attributes, (void)n_inputs;
    SL_TRY(sli_need_tokens(0, "x", &inputs[0], -1));
    SL_TRY(sli_need_table(1, "table", &inputs[1], is_weight[1], inputs[0].shape.dims[1]));
    *n_outputs = 1;
    outputs[0] = inputs[0];
    return SL_OK;
}

/* Of the table only the rows that are looked up are read. */
static void cost(const sl_call *call, sl_cost *cost, double operations) {
    double rows = (double)call->outputs[0].shape.dims[0];
    *cost = (sl_cost){.operations = operations * sli_view_elements(&call->outputs[0]),
                      .bytes_read = sli_view_bytes(&call->inputs[0]) + rows * (double)call->inputs[1].row_bytes,
                      .bytes_written = sli_view_bytes(&call->outputs[0])};
}

static void embedding_cost(const sl_call *call, sl_cost *c) {
    cost(call, c, 0);
}

static void position_cost(const sl_call *call, sl_cost *c) {
    cost(call, c, 1);
}

const sl_op sli_op_embedding = {.name = "embedding",
                                .shape = embedding_shape,
                                .cost = embedding_cost,
                                .cpu = sli_cpu_embedding,
                                .never_blocks = true};
const sl_op sli_op_position_embedding = {.name = "position_embedding",
                                         .shape = position_shape,
                                         .cost = position_cost,
                                         .cpu = sli_cpu_position_embedding,
                                         .never_blocks = true,
                                         .uses_descriptor = true};

sl_value sl_embedding(sl_graph *g, sl_stage s, sl_value ids, sl_value table) {
    return sl_graph_op1(g, s, &sli_op_embedding, NULL, 2, (sl_value[]){ids, table}, 0, NULL);
}

sl_value sl_position_embedding(sl_graph *g, sl_stage s, sl_value x, sl_value table) {
    return sl_graph_op1(g, s, &sli_op_position_embedding, NULL, 2, (sl_value[]){x, table}, 0, NULL);
}
