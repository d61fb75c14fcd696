/* Draws an id from softmax(logits / temperature), cut by top-k and top-p. The number that decides comes from a
 * generator keyed by (seed, sequence, position): philox.h. */
#include "cpu/kernels.h"
#include "rules.h"

static sl_status shape(const void *attributes, int n_inputs, const sl_type *inputs, const bool *is_weight,
                       int *n_outputs, sl_type *outputs) {
    (void)attributes, (void)n_inputs, (void)is_weight;
    static const char *const names[] = {"logits", "ints", "floats"};
    SL_TRY(sli_need_matrix(0, names[0], &inputs[0], SL_F32, -1));
    SL_TRY(sli_need_matrix(1, names[1], &inputs[1], SL_I32, SL_SAMPLE_INTS));
    SL_TRY(sli_need_matrix(2, names[2], &inputs[2], SL_F32, SL_SAMPLE_FLOATS));
    for (int i = 1; i < 3; i++) {
        char text[SLI_TYPE_TEXT];
        if (inputs[i].shape.dims[0] != inputs[0].shape.dims[0])
            return sli_wrong_input(i, names[i], &inputs[i], "as many rows as input 0 (logits), which is %s",
                                   sli_type_format(&inputs[0], text));
    }
    *n_outputs = 1;
    outputs[0] = (sl_type){SL_I32, {2, {inputs[0].shape.dims[0], 1}}};
    return SL_OK;
}

/* An exp and a step of a heap for each; how many are looked at in order depends on the values. */
static void cost(const sl_call *call, sl_cost *cost) {
    sli_cost_of_all(call, (SLI_FUNCTION_OPERATIONS + 6) * sli_view_elements(&call->inputs[0]), cost);
}

const sl_op sli_op_sample = {.name = "sample",
                             .shape = shape,
                             .cost = cost,
                             .scratch = sli_cpu_sample_scratch,
                             .cpu = sli_cpu_sample,
                             .never_blocks = true};

sl_value sl_sample(sl_graph *g, sl_stage s, sl_value logits, sl_value ints, sl_value floats) {
    return sl_graph_op1(g, s, &sli_op_sample, NULL, 3, (sl_value[]){logits, ints, floats}, 0, NULL);
}
