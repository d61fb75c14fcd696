/* What makes a whole graph, or the options of its plan, wrong: one predicate a rule, all before anything is compiled or
 * allocated. What a single call can see (types, handles, names) is refused by graph.c and graph_stage.c when it is
 * made. */
#include "error.h"
#include "graph.h"
#include <stdio.h>
#include <string.h>

typedef sl_status (*rule)(const sl_graph *g, const sl_plan_options *options);

/* ---- Options ---- */

static sl_status options_are_in_range(const sl_graph *g, const sl_plan_options *o) {
    (void)g;
    if (o->depth < 0 || o->depth > SLI_MAX_DEPTH)
        return sl_fail(SL_INVALID, "depth is %d; expected 1 to %d, or 0 for the plan's choice", o->depth,
                       SLI_MAX_DEPTH);
    if (o->micro_batch_rows > SLI_MAX_ROWS || o->max_segments > SLI_MAX_ROWS)
        return sl_fail(SL_INVALID, "%s is %u; expected at most %u",
                       o->micro_batch_rows > SLI_MAX_ROWS ? "micro_batch_rows" : "max_segments",
                       o->micro_batch_rows > SLI_MAX_ROWS ? o->micro_batch_rows : o->max_segments, SLI_MAX_ROWS);
    if (o->groups > SLI_MAX_CREDITS || o->credits > SLI_MAX_CREDITS)
        return sl_fail(SL_INVALID, "%s is %u; expected at most %u", o->groups > SLI_MAX_CREDITS ? "groups" : "credits",
                       o->groups > SLI_MAX_CREDITS ? o->groups : o->credits, SLI_MAX_CREDITS);
    if ((int)o->route < SL_ROUTE_AUTO || o->route > SL_ROUTE_STAGED)
        return sl_fail(SL_INVALID, "route is %d; expected SL_ROUTE_AUTO, SL_ROUTE_PEER or SL_ROUTE_STAGED",
                       (int)o->route);
    return SL_OK;
}

static sl_status row_counts_are_in_range(const sl_graph *g, const sl_plan_options *o) {
    (void)o;
    for (int r = 0; r < g->n_row_counts; r++)
        if (g->rows[r].max > SLI_MAX_ROWS)
            return sl_fail(SL_INVALID, "row count '%s' is at most %u; expected at most %u", g->rows[r].name,
                           g->rows[r].max, SLI_MAX_ROWS);
    return SL_OK;
}

/* ---- Parts ---- */

static sl_status graph_has_input_and_output(const sl_graph *g, const sl_plan_options *o) {
    (void)o;
    if (!g->n_inputs)
        return sl_fail(SL_INVALID, "the graph has no input; a job's rows come from one: add it by sl_graph_input");
    if (!g->n_outputs)
        return sl_fail(SL_INVALID, "the graph has no output; name what a job gives back by sl_graph_output");
    return SL_OK;
}

static sl_status stages_have_ops(const sl_graph *g, const sl_plan_options *o) {
    (void)o;
    for (int s = 0; s < g->n_stages; s++)
        if (!g->stages[s].n_ops)
            return sl_fail(SL_INVALID, "stage '%s' has no op; give it one, or leave it out", g->stages[s].name);
    return SL_OK;
}

static sl_status inputs_are_read(const sl_graph *g, const sl_plan_options *o) {
    (void)o;
    for (int i = 0; i < g->n_inputs; i++) {
        bool read = false;
        for (int k = 0; k < g->n_ops && !read; k++)
            for (int n = 0; n < g->ops[k].n_inputs; n++)
                read |= g->ops[k].inputs[n] == g->inputs[i];
        if (!read)
            return sl_fail(SL_INVALID, "no op reads input '%s'; use it, or leave it out", g->values[g->inputs[i]].name);
    }
    return SL_OK;
}

/* ---- Cycles ---- */

/* The stage that makes input n of an op, if that is another stage; else -1. */
static int foreign_maker(const sl_graph *g, const sli_graph_op *op, int n) {
    const sli_graph_value *v = &g->values[op->inputs[n]];
    return v->kind == SLI_VALUE_MADE && v->stage != op->stage ? v->stage : -1;
}

/* A value of a stage that is not `done`, which stage s reads; -1 if there is none. */
static int waits_for(const sl_graph *g, int s, const bool *done) {
    for (int k = 0; k < g->stages[s].n_ops; k++) {
        const sli_graph_op *op = &g->ops[g->stages[s].ops[k]];
        for (int n = 0; n < op->n_inputs; n++) {
            int maker = foreign_maker(g, op, n);
            if (maker >= 0 && !done[maker])
                return op->inputs[n];
        }
    }
    return -1;
}

int sli_graph_order(const sl_graph *g, bool *done, int *order) {
    int n = 0;
    memset(done, 0, (size_t)g->n_stages * sizeof *done);
    for (int before = -1; before < n;) {
        before = n;
        for (int s = 0; s < g->n_stages; s++)
            if (!done[s] && waits_for(g, s, done) < 0) {
                done[s] = true;
                order[n++] = s;
            }
    }
    return n;
}

/* The sentence: from stage to stage by what each waits for, until one comes again. */
static sl_status tell_cycle(const sl_graph *g, const bool *done) {
    char path[600];
    size_t n = 0;
    int at = 0;
    while (done[at])
        at++;
    for (int i = 0; i < g->n_stages; i++) /* after as many steps the walk is on the circle */
        at = g->values[waits_for(g, at, done)].stage;
    int first = at;
    do {
        int value = waits_for(g, at, done);
        int length = snprintf(path + n, sizeof path - n, "%s'%s' reads '%s' of '%s'", n ? ", " : "", g->stages[at].name,
                              g->values[value].name, g->stages[g->values[value].stage].name);
        n = n + (size_t)length < sizeof path ? n + (size_t)length : sizeof path - 1;
        at = g->values[value].stage;
    } while (at != first && n < sizeof path - 1);
    return sl_fail(SL_INVALID,
                   "a cycle of stages: %s; a stage runs as one, so cut one of them in two where the circle passes",
                   path);
}

static sl_status stages_form_no_cycle(const sl_graph *g, const sl_plan_options *o) {
    (void)o;
    bool *done = sl_calloc((size_t)g->n_stages + 1, sizeof *done);
    int *order = sl_calloc((size_t)g->n_stages + 1, sizeof *order);
    sl_status status = done && order ? SL_OK : SL_OUT_OF_MEMORY;
    if (status == SL_OK && sli_graph_order(g, done, order) < g->n_stages)
        status = tell_cycle(g, done);
    sl_free(done);
    sl_free(order);
    return status;
}

/* ---- Connection ---- */

static int root(int *parent, int s) {
    while (parent[s] != s)
        s = parent[s] = parent[parent[s]];
    return s;
}

/* Stages that share a value, an input too, are of one part. */
static void join_stages(const sl_graph *g, int *parent, int *first_reader) {
    for (int k = 0; k < g->n_ops; k++) {
        const sli_graph_op *op = &g->ops[k];
        for (int n = 0; n < op->n_inputs; n++) {
            const sli_graph_value *v = &g->values[op->inputs[n]];
            int *other = &first_reader[op->inputs[n]];
            if (v->kind == SLI_VALUE_INPUT && *other < 0)
                *other = op->stage;
            if (v->kind != SLI_VALUE_WEIGHT)
                parent[root(parent, op->stage)] = root(parent, v->kind == SLI_VALUE_MADE ? v->stage : *other);
        }
    }
}

static sl_status parts_are_connected(const sl_graph *g, const sl_plan_options *o) {
    (void)o;
    int *parent = sl_calloc((size_t)g->n_stages + 1, sizeof *parent);
    int *first_reader = sl_calloc((size_t)g->n_values + 1, sizeof *first_reader);
    sl_status status = parent && first_reader ? SL_OK : SL_OUT_OF_MEMORY;
    for (int s = 0; s < g->n_stages && status == SL_OK; s++)
        parent[s] = s;
    for (int v = 0; v < g->n_values && status == SL_OK; v++)
        first_reader[v] = -1;
    if (status == SL_OK)
        join_stages(g, parent, first_reader);
    for (int s = 1; s < g->n_stages && status == SL_OK; s++)
        if (root(parent, s) != root(parent, 0))
            status = sl_fail(SL_INVALID,
                             "stages '%s' and '%s' are not connected: no value leads from the one's part of the graph "
                             "to the other's; make two graphs of them",
                             g->stages[0].name, g->stages[s].name);
    sl_free(parent);
    sl_free(first_reader);
    return status;
}

/* Backwards from the outputs, until nothing is added. */
static void mark_useful(const sl_graph *g, bool *useful) {
    for (int i = 0; i < g->n_outputs; i++)
        useful[g->values[g->outputs[i].value].stage] = true;
    for (bool changed = true; changed;) {
        changed = false;
        for (int k = g->n_ops - 1; k >= 0; k--)
            for (int n = 0; n < g->ops[k].n_inputs && useful[g->ops[k].stage]; n++) {
                int maker = foreign_maker(g, &g->ops[k], n);
                if (maker < 0 || useful[maker])
                    continue;
                useful[maker] = changed = true;
            }
    }
}

static sl_status stages_lead_to_an_output(const sl_graph *g, const sl_plan_options *o) {
    (void)o;
    bool *useful = sl_calloc((size_t)g->n_stages + 1, sizeof *useful);
    if (!useful)
        return SL_OUT_OF_MEMORY;
    mark_useful(g, useful);
    sl_status status = SL_OK;
    for (int s = 0; s < g->n_stages && status == SL_OK; s++)
        if (!useful[s])
            status = sl_fail(SL_INVALID,
                             "stage '%s' leads to no output: nothing reads what it makes; read it, name it by "
                             "sl_graph_output, or leave the stage out",
                             g->stages[s].name);
    sl_free(useful);
    return status;
}

/* ---- Devices ---- */

static sl_status devices_exist(const sl_graph *g, const sl_plan_options *o) {
    (void)o;
    for (int s = 0; s < g->n_stages; s++) {
        sl_status status = sl_device_check(g->stages[s].device);
        if (status != SL_OK)
            return sli_fail_within(status, "stage '%s': ", g->stages[s].name);
    }
    return SL_OK;
}

static sl_status devices_are_of_one_kind(const sl_graph *g, const sl_plan_options *o) {
    char a[SL_DEVICE_TEXT], b[SL_DEVICE_TEXT];
    (void)o;
    for (int s = 1; s < g->n_stages; s++)
        if (g->stages[s].device.kind != g->stages[0].device.kind)
            return sl_fail(SL_UNSUPPORTED,
                           "stage '%s' is on %s and stage '%s' on %s; a plan has devices of one kind: move one of them",
                           g->stages[0].name, sl_device_format(g->stages[0].device, a), g->stages[s].name,
                           sl_device_format(g->stages[s].device, b));
    return SL_OK;
}

static sl_status ops_have_kernels(const sl_graph *g, const sl_plan_options *o) {
    char device[SL_DEVICE_TEXT];
    (void)o;
    for (int k = 0; k < g->n_ops; k++) {
        const sli_graph_stage *s = &g->stages[g->ops[k].stage];
        const sli_platform *platform = sli_platform_get(s->device.kind);
        if (!platform || !(platform->capabilities & SLI_HAS_DATA) || platform->kernel(g->ops[k].op))
            continue;
        return sl_fail(SL_UNSUPPORTED,
                       "stage '%s', op '%s': it has no kernel for %s (device %s); move the stage to another kind of "
                       "device, or give the op one",
                       s->name, g->ops[k].op->name, sl_device_kind_name(s->device.kind),
                       sl_device_format(s->device, device));
    }
    return SL_OK;
}

/* ---- Edges ---- */

static bool is_at(const sl_graph *g, int value, sl_device device) {
    const sli_graph_value *v = &g->values[value];
    if (v->kind == SLI_VALUE_MADE && sl_device_equal(g->stages[v->stage].device, device))
        return true;
    for (int k = 0; k < g->n_ops; k++)
        for (int n = 0; n < g->ops[k].n_inputs; n++)
            if (g->ops[k].inputs[n] == value && sl_device_equal(g->stages[g->ops[k].stage].device, device))
                return true;
    return false;
}

static sl_status depths_are_of_edges(const sl_graph *g, const sl_plan_options *o) {
    char device[SL_DEVICE_TEXT];
    (void)o;
    for (int i = 0; i < g->n_depths; i++)
        if (g->depths[i].depth && !is_at(g, g->depths[i].value, g->depths[i].device))
            return sl_fail(SL_INVALID,
                           "sl_graph_edge_depth gives '%s' %d slots at %s, where no stage makes or reads it; name a "
                           "device that does, or take it back with 0",
                           g->values[g->depths[i].value].name, g->depths[i].depth,
                           sl_device_format(g->depths[i].device, device));
    return SL_OK;
}

/* The other tensor of a mismatch: an operand of the op that is where its stage is. */
static int companion(const sl_graph *g, const sli_graph_op *op, int but) {
    for (int n = 0; n < op->n_inputs; n++) {
        const sli_graph_value *v = &g->values[op->inputs[n]];
        bool here = v->kind == SLI_VALUE_WEIGHT || (v->kind == SLI_VALUE_MADE && v->stage == op->stage);
        if (n != but && here)
            return op->inputs[n];
    }
    return op->outputs[0];
}

static sl_status tell_mismatch(const sl_graph *g, const sli_graph_op *op, int n) {
    char from[SL_DEVICE_TEXT], to[SL_DEVICE_TEXT], a[SLI_TYPE_TEXT], b[SLI_TYPE_TEXT];
    const sli_graph_stage *reader = &g->stages[op->stage];
    const sli_graph_value *v = &g->values[op->inputs[n]], *w = &g->values[companion(g, op, n)];
    sl_device_format(g->stages[v->stage].device, from);
    sl_device_format(reader->device, to);
    return sl_fail(SL_INVALID,
                   "stage '%s', op '%s': input %d, '%s' %s, is on %s (stage '%s' makes it), and '%s' %s is on %s; in "
                   "strict mode nothing is moved unasked: ask by sl_graph_to(graph, value, \"%s\"), or put both stages "
                   "on one device",
                   reader->name, op->op->name, n, v->name, sli_graph_type_text(g, &v->type, a), from,
                   g->stages[v->stage].name, w->name, sli_graph_type_text(g, &w->type, b), to, to);
}

static sl_status nothing_is_moved_unasked(const sl_graph *g, const sl_plan_options *o) {
    for (int k = 0; k < g->n_ops && o->strict; k++)
        for (int n = 0; n < g->ops[k].n_inputs; n++) {
            int maker = foreign_maker(g, &g->ops[k], n);
            sl_device here = g->stages[g->ops[k].stage].device;
            if (maker >= 0 && !sl_device_equal(g->stages[maker].device, here) &&
                !sli_graph_asked(g, g->ops[k].inputs[n], here))
                return tell_mismatch(g, &g->ops[k], n);
        }
    return SL_OK;
}

sl_status sli_graph_validate(const sl_graph *g, const sl_plan_options *options) {
    static const rule rules[] = {
        options_are_in_range,     row_counts_are_in_range,  graph_has_input_and_output,
        stages_have_ops,          inputs_are_read,          stages_form_no_cycle,
        parts_are_connected,      stages_lead_to_an_output, devices_exist,
        devices_are_of_one_kind,  ops_have_kernels,         depths_are_of_edges,
        nothing_is_moved_unasked,
    };
    SL_TRY(sl_graph_status(g));
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        SL_TRY(rules[i](g, options));
    return SL_OK;
}
