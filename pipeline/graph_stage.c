/* Stages, their states and ops. */
#include "array.h"
#include "error.h"
#include "graph.h"
#include <stdio.h>

/* ---- Stages ---- */

sl_stage sl_graph_stage(sl_graph *g, const char *name, const char *device) {
    sl_device parsed;
    if (!sli_graph_is_good(g))
        return (sl_stage){0};
    sl_status status = device ? sl_device_parse(device, &parsed) : sl_fail(SL_INVALID, "there is no device (NULL)");
    if (status != SL_OK) {
        sli_graph_take_error(g, sli_fail_within(status, "stage '%s': ", name ? name : ""));
        return (sl_stage){0};
    }
    return sl_graph_stage_on(g, name, parsed);
}

static sl_status check_stage_name(const sl_graph *g, const char *name) {
    if (!name || !*name)
        return sl_fail(SL_INVALID, "a stage has no name; give it one of at least one character");
    for (int s = 0; s < g->n_stages; s++)
        if (!strcmp(g->stages[s].name, name))
            return sl_fail(SL_INVALID, "two stages are named '%s'; give each a name of its own", name);
    return SL_OK;
}

sl_stage sl_graph_stage_on(sl_graph *g, const char *name, sl_device device) {
    char *copy = NULL;
    if (!sli_graph_is_good(g))
        return (sl_stage){0};
    sl_status status = check_stage_name(g, name);
    if (status == SL_OK && (!(copy = sl_strdup(name)) || !SLI_ROOM(g->stages, g->n_stages)))
        status = SL_OUT_OF_MEMORY;
    if (status != SL_OK) {
        sl_free(copy);
        sli_graph_take_error(g, status);
        return (sl_stage){0};
    }
    g->stages[g->n_stages] = (sli_graph_stage){.name = copy, .device = device};
    return (sl_stage){++g->n_stages};
}

void sl_graph_stage_time(sl_graph *g, sl_stage stage, uint64_t fixed_ns, double row_ns) {
    int s = sli_graph_is_good(g) ? sli_graph_stage_index(g, stage, "sl_graph_stage_time") : -1;
    if (s < 0)
        return;
    if (!(row_ns >= 0 && row_ns < 1e18)) {
        sl_graph_fail(g, SL_INVALID, "stage '%s': %g ns for each row; expected 0 or more", g->stages[s].name, row_ns);
        return;
    }
    g->stages[s].timed = true;
    g->stages[s].fixed_ns = fixed_ns;
    g->stages[s].row_ns = row_ns;
}

void sl_graph_stage_move(sl_graph *g, sl_stage stage, const char *device) {
    sl_device parsed;
    int s = sli_graph_is_good(g) ? sli_graph_stage_index(g, stage, "sl_graph_stage_move") : -1;
    if (s < 0)
        return;
    sl_status status = device ? sl_device_parse(device, &parsed) : sl_fail(SL_INVALID, "there is no device (NULL)");
    if (status == SL_OK)
        g->stages[s].device = parsed;
    else
        sli_graph_take_error(g, sli_fail_within(status, "stage '%s': ", g->stages[s].name));
}

/* ---- States ---- */

static sl_status check_state(const sli_graph_state *s) {
    const sl_dtype_info *info = sl_dtype_get(s->dtype);
    size_t bytes;
    if (!info || info->weights_only)
        return sl_fail(SL_INVALID, "has the type %s; expected f32, f16, bf16 or i32", sl_dtype_name(s->dtype));
    if (s->n_places < 1 || s->n_rows < 1 || s->columns < 1)
        return sl_fail(SL_INVALID, "has %lld places of %lld rows of %lld columns; expected 1 or more of each",
                       (long long)s->n_places, (long long)s->n_rows, (long long)s->columns);
    SL_TRY(sl_row_bytes(s->dtype, s->columns, &bytes));
    if (__builtin_mul_overflow(bytes, (size_t)s->n_places, &bytes) ||
        __builtin_mul_overflow(bytes, (size_t)s->n_rows, &bytes) || bytes > INT64_MAX)
        return sl_fail(SL_INVALID, "has more than 2^63 bytes; expected dimensions whose product fits");
    return SL_OK;
}

sl_state sl_graph_state(sl_graph *g, sl_stage stage, const char *name, sl_dtype dtype, int64_t n_places, int64_t n_rows,
                        int64_t columns) {
    int s = sli_graph_is_good(g) ? sli_graph_stage_index(g, stage, "sl_graph_state") : -1;
    if (s < 0)
        return (sl_state){0};
    sli_graph_state state = {NULL, s, dtype, n_places, n_rows, columns};
    sl_status status = check_state(&state);
    if (status != SL_OK)
        sli_fail_within(status, "stage '%s', state '%s' ", g->stages[s].name, name ? name : "");
    if (status == SL_OK && (!(state.name = sl_strdup(name ? name : "")) || !SLI_ROOM(g->states, g->n_states)))
        status = SL_OUT_OF_MEMORY;
    if (status != SL_OK) {
        sl_free(state.name);
        sli_graph_take_error(g, status);
        return (sl_state){0};
    }
    g->states[g->n_states] = state;
    return (sl_state){++g->n_states};
}

/* ---- Ops ---- */

static sl_status check_counts(const sl_op *op, const void *attributes, int n_inputs, const sl_value *inputs,
                              int n_states, const sl_state *states, int n_outputs, const sl_value *outputs) {
    if (!op->shape || !op->name)
        return sl_fail(SL_INVALID, "has no %s; every sl_op has one", op->name ? "shape rule" : "name");
    if (n_inputs < 0 || n_inputs > SL_MAX_OPERANDS || n_outputs < 1 || n_outputs > SL_MAX_OPERANDS || n_states < 0 ||
        n_states > SL_MAX_STATES)
        return sl_fail(SL_INVALID, "has %d inputs, %d outputs and %d states; expected at most %d, 1 to %d, at most %d",
                       n_inputs, n_outputs, n_states, SL_MAX_OPERANDS, SL_MAX_OPERANDS, SL_MAX_STATES);
    if ((n_inputs && !inputs) || (n_states && !states) || !outputs || (op->attribute_bytes && !attributes))
        return sl_fail(SL_INVALID, "is given NULL for its %s",
                       n_inputs && !inputs   ? "inputs"
                       : n_states && !states ? "states"
                       : !outputs            ? "outputs"
                                             : "attributes");
    return SL_OK;
}

static sl_status resolve_inputs(const sl_graph *g, sli_graph_op *o, const sl_value *inputs) {
    for (int i = 0; i < o->n_inputs; i++) {
        if (inputs[i].id < 1 || inputs[i].id > g->n_values)
            return sl_fail(SL_INVALID, "input %d: %d is no value of this graph, which has 1 to %d", i, inputs[i].id,
                           g->n_values);
        o->inputs[i] = inputs[i].id - 1;
    }
    return SL_OK;
}

static sl_status resolve_states(const sl_graph *g, sli_graph_op *o, const sl_state *states) {
    for (int i = 0; i < o->n_states; i++) {
        if (states[i].id < 1 || states[i].id > g->n_states)
            return sl_fail(SL_INVALID, "state %d: %d is no state of this graph, which has 1 to %d", i, states[i].id,
                           g->n_states);
        const sli_graph_state *s = &g->states[states[i].id - 1];
        if (s->stage != o->stage)
            return sl_fail(SL_INVALID, "state '%s' belongs to stage '%s'; an op uses the states of its own stage",
                           s->name, g->stages[s->stage].name);
        o->states[i] = states[i].id - 1;
    }
    return SL_OK;
}

static sl_status ask_state_rule(const sl_graph *g, const sli_graph_op *o, const void *attributes) {
    sl_state_view views[SL_MAX_STATES];
    for (int i = 0; i < o->n_states; i++) {
        const sli_graph_state *s = &g->states[o->states[i]];
        views[i] = (sl_state_view){NULL, s->dtype, s->n_places, s->n_rows, s->columns, 0};
        SL_TRY(sl_row_bytes(s->dtype, s->columns, &views[i].row_bytes));
    }
    return o->op->states ? o->op->states(attributes, o->n_states, views) : SL_OK;
}

static sl_status ask_shape_rule(const sl_graph *g, const sli_graph_op *o, const void *attributes, sl_type *types) {
    sl_type inputs[SL_MAX_OPERANDS];
    bool is_weight[SL_MAX_OPERANDS];
    int n_outputs = 0;
    for (int i = 0; i < o->n_inputs; i++) {
        inputs[i] = g->values[o->inputs[i]].type;
        is_weight[i] = g->values[o->inputs[i]].kind == SLI_VALUE_WEIGHT;
    }
    SL_TRY(o->op->shape(attributes, o->n_inputs, inputs, is_weight, &n_outputs, types));
    if (n_outputs != o->n_outputs)
        return sl_fail(SL_INVALID, "makes %d outputs, and %d were asked for", n_outputs, o->n_outputs);
    for (int i = 0; i < n_outputs; i++) {
        sl_status status = sli_graph_check_type(g, &types[i], false);
        if (status != SL_OK)
            return sli_fail_within(status, "output %d ", i);
    }
    return SL_OK;
}

/* "front.linear", "front.linear.2" for the second of its name, "front.split:1" for the second output. */
static void name_output(const sl_graph *g, const sli_graph_op *o, int i, char *name, size_t bytes) {
    const sli_graph_stage *s = &g->stages[o->stage];
    int same = 1;
    for (int k = 0; k < s->n_ops; k++)
        same += g->ops[s->ops[k]].op == o->op;
    int n = snprintf(name, bytes, "%s.%s", s->name, o->op->name);
    if (same > 1 && (size_t)n < bytes)
        n += snprintf(name + n, bytes - (size_t)n, ".%d", same);
    if (i > 0 && (size_t)n < bytes)
        snprintf(name + n, bytes - (size_t)n, ":%d", i);
}

/* Takes o->attributes. */
static sl_status append_op(sl_graph *g, sli_graph_op *o, const sl_type *types) {
    char name[256];
    sli_graph_stage *s = &g->stages[o->stage];
    if (!SLI_ROOM(g->ops, g->n_ops) || !SLI_ROOM(s->ops, s->n_ops))
        return SL_OUT_OF_MEMORY;
    for (int i = 0; i < o->n_outputs; i++) {
        sli_graph_value v = {.kind = SLI_VALUE_MADE, .type = types[i], .stage = o->stage, .op = g->n_ops, .number = i};
        name_output(g, o, i, name, sizeof name);
        if ((o->outputs[i] = sli_graph_add_value(g, &v, name)) < 0)
            return SL_OUT_OF_MEMORY;
    }
    s->ops[s->n_ops++] = g->n_ops;
    g->ops[g->n_ops++] = *o;
    return SL_OK;
}

static sl_status copy_attributes(sli_graph_op *o, const void *attributes) {
    if (!o->op->attribute_bytes)
        return SL_OK;
    o->attributes = sl_malloc(o->op->attribute_bytes);
    if (!o->attributes)
        return SL_OUT_OF_MEMORY;
    memcpy(o->attributes, attributes, o->op->attribute_bytes);
    return SL_OK;
}

static sl_status add_op(sl_graph *g, sli_graph_op *o, const void *attributes, const sl_value *inputs,
                        const sl_state *states) {
    sl_type types[SL_MAX_OPERANDS];
    SL_TRY(resolve_inputs(g, o, inputs));
    SL_TRY(resolve_states(g, o, states));
    SL_TRY(ask_state_rule(g, o, attributes));
    SL_TRY(ask_shape_rule(g, o, attributes, types));
    SL_TRY(copy_attributes(o, attributes));
    sl_status status = append_op(g, o, types);
    if (status != SL_OK)
        sl_free(o->attributes);
    return status;
}

void sl_graph_op(sl_graph *g, sl_stage stage, const sl_op *op, const void *attributes, int n_inputs,
                 const sl_value *inputs, int n_states, const sl_state *states, int n_outputs, sl_value *outputs) {
    for (int i = 0; outputs && i < n_outputs; i++)
        outputs[i] = (sl_value){0};
    if (!op)
        sl_graph_fail(g, SL_INVALID, "sl_graph_op: there is no op (NULL)");
    if (!op || !sli_graph_is_good(g))
        return;
    int s = sli_graph_stage_index(g, stage, op->name ? op->name : "sl_graph_op");
    if (s < 0)
        return;
    sli_graph_op o = {.op = op, .stage = s, .n_inputs = n_inputs, .n_outputs = n_outputs, .n_states = n_states};
    sl_status status = check_counts(op, attributes, n_inputs, inputs, n_states, states, n_outputs, outputs);
    if (status == SL_OK)
        status = add_op(g, &o, attributes, inputs, states);
    if (status != SL_OK) {
        sli_fail_within(status, "stage '%s', op '%s': ", g->stages[s].name, op->name ? op->name : "");
        sli_graph_take_error(g, status);
        return;
    }
    for (int i = 0; i < n_outputs; i++)
        outputs[i] = (sl_value){o.outputs[i] + 1};
}

sl_value sl_graph_op1(sl_graph *g, sl_stage stage, const sl_op *op, const void *attributes, int n_inputs,
                      const sl_value *inputs, int n_states, const sl_state *states) {
    sl_value output;
    sl_graph_op(g, stage, op, attributes, n_inputs, inputs, n_states, states, 1, &output);
    return output;
}
