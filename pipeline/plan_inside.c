/* The insides of stages: ops with their operands, and memory by liveness. A value that no other stage reads lives from
 * the op that makes it to the last op that reads it, in the device's block of activations, which its stages share: they
 * run one after the other. Values whose lives do not meet may share memory; an op's outputs never lie over its inputs.
 */
#include "error.h"
#include "plan_build.h"
#include <stdlib.h>

typedef struct life {
    int value;
    int from, to; /* ops of the stage, both counted */
    size_t bytes, offset;
} life;

typedef struct inside {
    sli_build *b;
    int stage, device;
    int n_lives;
    life *lives;   /* [outputs of all ops] */
    int *life_of;  /* [values] of this stage */
    int *by_place; /* [outputs of all ops] those that are placed, by offset */
} inside;

/* ---- Liveness ---- */

static sl_status add_life(inside *in, int value, int op) {
    sli_extent extent;
    life *l = &in->lives[in->n_lives];
    *l = (life){.value = value, .from = op, .to = op};
    sl_status status = sli_build_extent(in->b, &in->b->g->values[value].type, &extent, &l->bytes);
    if (status != SL_OK)
        return sli_fail_within(status, "'%s': ", in->b->g->values[value].name);
    in->life_of[value] = in->n_lives++;
    return SL_OK;
}

static sl_status find_lives(inside *in) {
    const sl_graph *g = in->b->g;
    const sli_graph_stage *s = &g->stages[in->stage];
    in->n_lives = 0;
    for (int k = 0; k < s->n_ops; k++) {
        const sli_graph_op *op = &g->ops[s->ops[k]];
        for (int i = 0; i < op->n_inputs; i++) {
            const sli_graph_value *v = &g->values[op->inputs[i]];
            if (v->kind == SLI_VALUE_MADE && v->stage == in->stage && !in->b->is_external[op->inputs[i]])
                in->lives[in->life_of[op->inputs[i]]].to = k;
        }
        for (int i = 0; i < op->n_outputs; i++)
            if (!in->b->is_external[op->outputs[i]])
                SL_TRY(add_life(in, op->outputs[i], k));
    }
    return SL_OK;
}

static int larger_first(const void *a, const void *b) {
    const life *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? 1 : -1;
    return x->value - y->value;
}

/* First fit: the lowest place that no life which meets this one holds. */
static void place(inside *in, int at, int n_placed) {
    life *l = &in->lives[at];
    int n = 0;
    for (; n < n_placed; n++) {
        const life *other = &in->lives[in->by_place[n]];
        bool meets = other->from <= l->to && l->from <= other->to;
        if (meets && l->offset + l->bytes <= other->offset)
            break;
        if (meets && other->offset + other->bytes > l->offset)
            l->offset = other->offset + other->bytes;
    }
    for (n = n_placed; n > 0 && in->lives[in->by_place[n - 1]].offset > l->offset; n--)
        in->by_place[n] = in->by_place[n - 1];
    in->by_place[n] = at;
}

static sl_status place_lives(inside *in) {
    uint64_t *block = &in->b->p->devices[in->device].memory.by_category[SL_MEMORY_ACTIVATIONS];
    qsort(in->lives, (size_t)in->n_lives, sizeof *in->lives, larger_first);
    for (int i = 0; i < in->n_lives; i++) {
        place(in, i, i);
        in->life_of[in->lives[i].value] = i;
        uint64_t end = in->lives[i].offset + in->lives[i].bytes;
        if (end > INT64_MAX / 2)
            return sl_fail(SL_OUT_OF_MEMORY, "stage '%s' has more than 2^62 bytes inside; lower micro_batch_rows",
                           in->b->g->stages[in->stage].name);
        *block = end > *block ? end : *block;
    }
    return SL_OK;
}

/* ---- Operands ---- */

static sl_status weight_at(inside *in, int value, int *index) {
    sli_build *b = in->b;
    int at = sli_build_at(b, value, in->device);
    if (at >= 0) {
        *index = b->at[at].index;
        return SL_OK;
    }
    if (!SLI_ROOM(b->p->weights, b->p->n_weights))
        return SL_OUT_OF_MEMORY;
    *index = b->p->n_weights++;
    b->p->weights[*index] = (sli_plan_weight){in->device, sli_weight_data_retain(b->g->values[value].weight)};
    return sli_build_add_at(b, value, (sli_at){.device = in->device, .index = *index});
}

/* Which operand of the stage's payload a value at its device is; -1: the segments, where no op needs them. */
static int operand_of(const inside *in, int value) {
    const sli_payload *p = &in->b->p->payloads[in->b->stage_payload[in->stage]];
    int at = sli_build_at(in->b, value, in->device);
    for (int i = 0; at >= 0 && i < p->n_operands; i++)
        if (p->operands[i].buffer == in->b->at[at].index)
            return i;
    return -1;
}

static sl_status make_ref(inside *in, int value, sli_plan_ref *ref) {
    const sli_graph_value *v = &in->b->g->values[value];
    const sl_shape *s = &v->type.shape;
    *ref = (sli_plan_ref){.place = SLI_IN_SLOT, .type = v->type};
    SL_TRY(sl_row_bytes(v->type.dtype, s->dims[s->rank - 1] < 0 ? 1 : s->dims[s->rank - 1], &ref->row_bytes));
    if (v->kind == SLI_VALUE_WEIGHT) {
        ref->place = SLI_IN_WEIGHTS;
        return weight_at(in, value, &ref->index);
    }
    if (v->kind == SLI_VALUE_MADE && v->stage == in->stage && !in->b->is_external[value]) {
        ref->place = SLI_IN_ACTIVATIONS;
        ref->offset = in->lives[in->life_of[value]].offset;
        return SL_OK;
    }
    ref->index = operand_of(in, value);
    return SL_OK;
}

/* ---- Ops ---- */

static sl_view largest_view(const sl_plan *p, const sli_plan_ref *ref) {
    sl_view view = {.dtype = ref->type.dtype, .shape = ref->type.shape, .row_bytes = ref->row_bytes};
    if (view.shape.dims[0] < 0) {
        view.shape.dims[0] = p->max_rows[SL_ROWS - view.shape.dims[0]];
        if (view.shape.rank == 1)
            view.row_bytes *= (size_t)view.shape.dims[0];
    }
    return view;
}

static sl_status ask_scratch(inside *in, sli_plan_op *op) {
    sl_plan *p = in->b->p;
    sl_view inputs[SL_MAX_OPERANDS], outputs[SL_MAX_OPERANDS];
    sl_state_view states[SL_MAX_STATES] = {{0}};
    sl_descriptor descriptor = {.n_segments = p->max_rows[SLI_ROWS_SEGMENTS]};
    sl_device_info info;
    uint64_t *block = &p->devices[in->device].memory.by_category[SL_MEMORY_SCRATCH];
    if (!op->op->scratch)
        return SL_OK;
    SL_TRY(sl_device_get_info(p->devices[in->device].device, &info));
    memcpy(descriptor.rows, p->max_rows, sizeof descriptor.rows);
    for (int i = 0; i < op->n_inputs; i++)
        inputs[i] = largest_view(p, &op->inputs[i]);
    for (int i = 0; i < op->n_outputs; i++)
        outputs[i] = largest_view(p, &op->outputs[i]);
    for (int i = 0; i < op->n_states; i++) {
        const sli_plan_state *s = &p->states[op->states[i]];
        states[i] = (sl_state_view){NULL, s->dtype, s->n_places, s->n_rows, s->columns, s->row_bytes};
    }
    sl_call call = {op->attributes, op->n_inputs, op->n_outputs, op->n_states, inputs,
                    outputs,        states,       &descriptor,   NULL,         0};
    op->scratch_bytes = op->op->scratch(&call, info.threads > 0 ? info.threads : 1);
    *block = op->scratch_bytes > *block ? op->scratch_bytes : *block;
    return SL_OK;
}

static sl_status copy_attributes(sli_plan_op *op, const void *attributes) {
    if (!op->op->attribute_bytes)
        return SL_OK;
    op->attributes = sl_malloc(op->op->attribute_bytes);
    if (!op->attributes)
        return SL_OUT_OF_MEMORY;
    memcpy(op->attributes, attributes, op->op->attribute_bytes);
    return SL_OK;
}

static sl_status make_op(inside *in, const sli_graph_op *from, sli_plan_op *op) {
    *op = (sli_plan_op){
        .op = from->op, .n_inputs = from->n_inputs, .n_outputs = from->n_outputs, .n_states = from->n_states};
    op->inputs = sl_calloc((size_t)op->n_inputs, sizeof *op->inputs);
    op->outputs = sl_calloc((size_t)op->n_outputs, sizeof *op->outputs);
    op->states = sl_calloc((size_t)op->n_states, sizeof *op->states);
    if (!op->inputs || !op->outputs || !op->states)
        return SL_OUT_OF_MEMORY;
    SL_TRY(copy_attributes(op, from->attributes));
    for (int i = 0; i < op->n_inputs; i++)
        SL_TRY(make_ref(in, from->inputs[i], &op->inputs[i]));
    for (int i = 0; i < op->n_outputs; i++)
        SL_TRY(make_ref(in, from->outputs[i], &op->outputs[i]));
    memcpy(op->states, from->states, (size_t)op->n_states * sizeof *op->states);
    return ask_scratch(in, op);
}

static sl_status make_stage(inside *in) {
    const sli_graph_stage *from = &in->b->g->stages[in->stage];
    sli_plan_stage *stage = &in->b->p->stages[in->stage];
    in->device = stage->device;
    SL_TRY(find_lives(in));
    SL_TRY(place_lives(in));
    stage->ops = sl_calloc((size_t)from->n_ops, sizeof *stage->ops);
    if (!stage->ops)
        return SL_OUT_OF_MEMORY;
    for (; stage->n_ops < from->n_ops; stage->n_ops++) {
        sl_status status = make_op(in, &in->b->g->ops[from->ops[stage->n_ops]], &stage->ops[stage->n_ops]);
        if (status != SL_OK) {
            stage->n_ops++; /* what it has is freed with the plan */
            return status;
        }
    }
    if (sli_build_uses_segments(in->b->g, in->stage))
        stage->descriptor = operand_of(in, -1);
    return SL_OK;
}

sl_status sli_build_inside(sli_build *b) {
    size_t n_values = (size_t)b->g->n_values;
    inside in = {.b = b};
    in.lives = sl_calloc(n_values, sizeof *in.lives);
    in.life_of = sl_calloc(n_values, sizeof *in.life_of);
    in.by_place = sl_calloc(n_values, sizeof *in.by_place);
    sl_status status = in.lives && in.life_of && in.by_place ? SL_OK : SL_OUT_OF_MEMORY;
    for (; in.stage < b->p->n_stages && status == SL_OK; in.stage++)
        status = make_stage(&in);
    sl_free(in.lives);
    sl_free(in.life_of);
    sl_free(in.by_place);
    return status;
}
