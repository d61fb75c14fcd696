/* Stages compiled to what an EXECUTE does: the plan's ops with kernels and addresses. */
#include "bind.h"
#include "error.h"

static sli_ref bind_ref(const sli_binding *bound, int device, const sli_plan_ref *ref) {
    sli_ref r = {.operand = -1, .type = ref->type, .row_bytes = ref->row_bytes};
    switch (ref->place) {
    case SLI_IN_SLOT:
        r.operand = ref->index;
        break;
    case SLI_IN_ACTIVATIONS:
        r.fixed = bound->blocks[device][SL_MEMORY_ACTIVATIONS] + ref->offset;
        break;
    case SLI_IN_WEIGHTS:
        r.fixed = bound->weights.at[ref->index];
        break;
    }
    return r;
}

static sl_state_view bind_state(const sli_binding *bound, const sli_plan_state *s) {
    return (sl_state_view){.data = bound->blocks[s->device][SL_MEMORY_STATE] + s->offset,
                           .dtype = s->dtype,
                           .n_places = s->n_places,
                           .n_rows = s->n_rows,
                           .columns = s->columns,
                           .row_bytes = s->row_bytes};
}

static sl_status make_op(const sli_binding *bound, const sli_plan_stage *stage, const sli_plan_op *from,
                         sli_op_code *op) {
    *op = (sli_op_code){.op = from->op,
                        .kernel = bound->platform->kernel(from->op),
                        .attributes = from->attributes,
                        .n_inputs = from->n_inputs,
                        .n_outputs = from->n_outputs,
                        .n_states = from->n_states,
                        .scratch_bytes = from->scratch_bytes};
    op->inputs = sl_calloc((size_t)from->n_inputs + (size_t)from->n_outputs, sizeof *op->inputs);
    op->states = sl_calloc((size_t)from->n_states, sizeof *op->states);
    if (!op->inputs || !op->states)
        return SL_OUT_OF_MEMORY;
    op->outputs = op->inputs + from->n_inputs;
    for (int i = 0; i < from->n_inputs; i++)
        op->inputs[i] = bind_ref(bound, stage->device, &from->inputs[i]);
    for (int i = 0; i < from->n_outputs; i++)
        op->outputs[i] = bind_ref(bound, stage->device, &from->outputs[i]);
    for (int i = 0; i < from->n_states; i++)
        op->states[i] = bind_state(bound, &bound->plan->states[from->states[i]]);
    return SL_OK;
}

static sl_status make_stage(const sli_binding *bound, const sli_plan_stage *from, sli_stage_code *code) {
    *code = (sli_stage_code){.name = from->name,
                             .device = bound->plan->devices[from->device].device,
                             .scratch = bound->blocks[from->device][SL_MEMORY_SCRATCH],
                             .descriptor = from->descriptor,
                             .timed = from->timed,
                             .fixed_ns = from->fixed_ns,
                             .row_ns = from->row_ns};
    code->ops = sl_calloc((size_t)from->n_ops, sizeof *code->ops);
    if (!code->ops)
        return SL_OUT_OF_MEMORY;
    code->n_ops = from->n_ops;
    for (int i = 0; i < from->n_ops; i++)
        SL_TRY(make_op(bound, from, &from->ops[i], &code->ops[i]));
    return SL_OK;
}

sl_status sli_codes_make(sli_binding *bound) {
    int n = bound->plan->n_stages;
    bound->codes = sl_calloc((size_t)n, sizeof *bound->codes);
    if (!bound->codes)
        return SL_OUT_OF_MEMORY;
    for (int j = 0; j < n; j++)
        SL_TRY(make_stage(bound, &bound->plan->stages[j], &bound->codes[j]));
    return SL_OK;
}

void sli_codes_free(sli_binding *bound) {
    for (int j = 0; bound->codes && j < bound->plan->n_stages; j++) {
        sli_stage_code *code = &bound->codes[j];
        for (int i = 0; i < code->n_ops; i++) {
            sl_free(code->ops[i].inputs);
            sl_free(code->ops[i].states);
        }
        sl_free(code->ops);
    }
    sl_free(bound->codes);
}
