/* Ops that look at one element at a time: add, mul, scale, and the activations. */
#include "cpu/kernels.h"
#include "cpu/row_weights.h"
#include "rules.h"

static sl_status unary_shape(const void *attributes, int n_inputs, const sl_type *inputs, const bool *is_weight,
                             int *n_outputs, sl_type *outputs) {
    (void)attributes, (void)n_inputs, (void)is_weight;
    SL_TRY(sli_need_rows(0, "x", &inputs[0], SL_F32));
    *n_outputs = 1;
    outputs[0] = inputs[0];
    return SL_OK;
}

/* b has a's type, or is a weight of one row, which is used for each row of a. */
static sl_status binary_shape(const void *attributes, int n_inputs, const sl_type *inputs, const bool *is_weight,
                              int *n_outputs, sl_type *outputs) {
    (void)attributes, (void)n_inputs;
    SL_TRY(sli_need_rows(0, "a", &inputs[0], SL_F32));
    int64_t columns = sl_shape_columns(&inputs[0].shape);
    bool fits = sli_same_type(&inputs[0], &inputs[1]) ||
                (is_weight[1] && sli_need_row_weight(1, "b", &inputs[1], true, columns) == SL_OK);
    if (!fits) {
        char text[SLI_TYPE_TEXT];
        return sli_wrong_input(1, "b", &inputs[1], "%s like input 0 (a), or a weight [%lld] in f32, f16 or bf16",
                               sli_type_format(&inputs[0], text), (long long)columns);
    }
    *n_outputs = 1;
    outputs[0] = inputs[0];
    return SL_OK;
}

static sl_status gated_shape(const void *attributes, int n_inputs, const sl_type *inputs, const bool *is_weight,
                             int *n_outputs, sl_type *outputs) {
    (void)attributes, (void)n_inputs, (void)is_weight;
    SL_TRY(sli_need_rows(0, "gate", &inputs[0], SL_F32));
    if (!sli_same_type(&inputs[0], &inputs[1])) {
        char text[SLI_TYPE_TEXT];
        return sli_wrong_input(1, "up", &inputs[1], "%s like input 0 (gate)", sli_type_format(&inputs[0], text));
    }
    *n_outputs = 1;
    outputs[0] = inputs[0];
    return SL_OK;
}

static void cost(const sl_call *call, sl_cost *cost, double operations) {
    sli_cost_of_all(call, operations * sli_view_elements(&call->outputs[0]), cost);
}

static void one_cost(const sl_call *call, sl_cost *c) {
    cost(call, c, 1);
}

/* x times a sigmoid, or times half of one more than an erf or tanh: a function, a division or two, a few products. */
static void activation_cost(const sl_call *call, sl_cost *c) {
    cost(call, c, SLI_FUNCTION_OPERATIONS + 5);
}

const sl_op sli_op_add = {.name = "add",
                          .shape = binary_shape,
                          .cost = one_cost,
                          .scratch = sli_row_weights_scratch,
                          .cpu = sli_cpu_add,
                          .never_blocks = true};
const sl_op sli_op_mul = {.name = "mul",
                          .shape = binary_shape,
                          .cost = one_cost,
                          .scratch = sli_row_weights_scratch,
                          .cpu = sli_cpu_mul,
                          .never_blocks = true};
const sl_op sli_op_scale = {.name = "scale",
                            .attribute_bytes = sizeof(sli_scale),
                            .shape = unary_shape,
                            .cost = one_cost,
                            .cpu = sli_cpu_scale,
                            .never_blocks = true};
const sl_op sli_op_relu = {
    .name = "relu", .shape = unary_shape, .cost = one_cost, .cpu = sli_cpu_relu, .never_blocks = true};
const sl_op sli_op_gelu = {
    .name = "gelu", .shape = unary_shape, .cost = activation_cost, .cpu = sli_cpu_gelu, .never_blocks = true};
const sl_op sli_op_gelu_tanh = {
    .name = "gelu_tanh", .shape = unary_shape, .cost = activation_cost, .cpu = sli_cpu_gelu_tanh, .never_blocks = true};
const sl_op sli_op_silu = {
    .name = "silu", .shape = unary_shape, .cost = activation_cost, .cpu = sli_cpu_silu, .never_blocks = true};
const sl_op sli_op_silu_gated = {.name = "silu_gated",
                                 .shape = gated_shape,
                                 .cost = activation_cost,
                                 .cpu = sli_cpu_silu_gated,
                                 .never_blocks = true};

static sl_value unary(sl_graph *g, sl_stage s, const sl_op *op, const void *attributes, sl_value x) {
    return sl_graph_op1(g, s, op, attributes, 1, &x, 0, NULL);
}

static sl_value binary(sl_graph *g, sl_stage s, const sl_op *op, sl_value a, sl_value b) {
    return sl_graph_op1(g, s, op, NULL, 2, (sl_value[]){a, b}, 0, NULL);
}

sl_value sl_add(sl_graph *g, sl_stage s, sl_value a, sl_value b) {
    return binary(g, s, &sli_op_add, a, b);
}

sl_value sl_mul(sl_graph *g, sl_stage s, sl_value a, sl_value b) {
    return binary(g, s, &sli_op_mul, a, b);
}

sl_value sl_silu_gated(sl_graph *g, sl_stage s, sl_value gate, sl_value up) {
    return binary(g, s, &sli_op_silu_gated, gate, up);
}

sl_value sl_scale(sl_graph *g, sl_stage s, sl_value x, float factor) {
    return unary(g, s, &sli_op_scale, &(sli_scale){factor}, x);
}

sl_value sl_relu(sl_graph *g, sl_stage s, sl_value x) {
    return unary(g, s, &sli_op_relu, NULL, x);
}

sl_value sl_gelu(sl_graph *g, sl_stage s, sl_value x) {
    return unary(g, s, &sli_op_gelu, NULL, x);
}

sl_value sl_gelu_tanh(sl_graph *g, sl_stage s, sl_value x) {
    return unary(g, s, &sli_op_gelu_tanh, NULL, x);
}

sl_value sl_silu(sl_graph *g, sl_stage s, sl_value x) {
    return unary(g, s, &sli_op_silu, NULL, x);
}
