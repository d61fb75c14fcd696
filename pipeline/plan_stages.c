/* First pass: the devices of the plan, its stages in an order in which makers come first, and who reads what. */
#include "plan_build.h"

static int device_index(sl_plan *p, sl_device device) {
    for (int d = 0; d < p->n_devices; d++)
        if (sl_device_equal(p->devices[d].device, device))
            return d;
    if (!SLI_ROOM(p->devices, p->n_devices))
        return -1;
    p->devices[p->n_devices].device = device;
    return p->n_devices++;
}

static sl_status make_stages(sli_build *b) {
    sl_plan *p = b->p;
    p->stages = sl_calloc((size_t)b->g->n_stages, sizeof *p->stages);
    if (!p->stages)
        return SL_OUT_OF_MEMORY;
    p->n_stages = b->g->n_stages;
    for (int j = 0; j < p->n_stages; j++) {
        const sli_graph_stage *from = &b->g->stages[j];
        p->stages[j] = (sli_plan_stage){.name = sl_strdup(from->name),
                                        .device = device_index(p, from->device),
                                        .descriptor = -1,
                                        .timed = from->timed,
                                        .fixed_ns = from->fixed_ns,
                                        .row_ns = from->row_ns};
        if (!p->stages[j].name || p->stages[j].device < 0)
            return SL_OUT_OF_MEMORY;
    }
    p->kind = p->devices[0].device.kind;
    return SL_OK;
}

/* ---- Values at devices ---- */

int sli_build_at(const sli_build *b, int value, int device) {
    int i = b->at_first[value < 0 ? b->g->n_values : value];
    while (i >= 0 && b->at[i].device != device)
        i = b->at[i].next;
    return i;
}

sl_status sli_build_add_at(sli_build *b, int value, sli_at at) {
    int *first = &b->at_first[value < 0 ? b->g->n_values : value];
    if (!SLI_ROOM(b->at, b->n_at))
        return SL_OUT_OF_MEMORY;
    at.next = *first;
    b->at[b->n_at] = at;
    *first = b->n_at++;
    return SL_OK;
}

/* ---- Reads ---- */

bool sli_build_uses_segments(const sl_graph *g, int stage) {
    for (int k = 0; k < g->stages[stage].n_ops; k++)
        if (g->ops[g->stages[stage].ops[k]].op->uses_descriptor)
            return true;
    return false;
}

static sl_status add_read(sli_build *b, int value, int stage) {
    if (!SLI_ROOM(b->reads, b->n_reads))
        return SL_OUT_OF_MEMORY;
    b->reads[b->n_reads++] = (sli_read){.value = value, .stage = stage, .buffer = -1};
    return SL_OK;
}

/* `seen` [values]: the last stage that was found to read a value, and 1 more. */
static sl_status add_reads_of(sli_build *b, int stage, int *seen) {
    const sli_graph_stage *s = &b->g->stages[stage];
    if (sli_build_uses_segments(b->g, stage)) {
        b->p->has_segments = true;
        SL_TRY(add_read(b, -1, stage));
    }
    for (int k = 0; k < s->n_ops; k++) {
        const sli_graph_op *op = &b->g->ops[s->ops[k]];
        for (int n = 0; n < op->n_inputs; n++) {
            int v = op->inputs[n];
            if (b->g->values[v].kind == SLI_VALUE_WEIGHT || b->g->values[v].stage == stage || seen[v] == stage + 1)
                continue;
            seen[v] = stage + 1;
            if (b->g->values[v].kind == SLI_VALUE_MADE) {
                b->is_external[v] = true;
                b->is_first[stage] = b->is_last[b->g->values[v].stage] = false;
            }
            SL_TRY(add_read(b, v, stage));
        }
    }
    return SL_OK;
}

static sl_status order_stages(sli_build *b) {
    bool *done = sl_calloc((size_t)b->g->n_stages, sizeof *done);
    if (!done)
        return SL_OUT_OF_MEMORY;
    sli_graph_order(b->g, done, b->stage_order); /* all have one: the graph is valid */
    sl_free(done);
    return SL_OK;
}

static sl_status find_reads(sli_build *b) {
    int *seen = sl_calloc((size_t)b->g->n_values, sizeof *seen);
    sl_status status = seen ? SL_OK : SL_OUT_OF_MEMORY;
    for (int n = 0; n < b->g->n_stages && status == SL_OK; n++)
        status = add_reads_of(b, b->stage_order[n], seen);
    for (int i = 0; i < b->g->n_outputs && status == SL_OK; i++)
        b->is_external[b->g->outputs[i].value] = true;
    sl_free(seen);
    return status;
}

sl_status sli_build_stages(sli_build *b) {
    size_t n_stages = (size_t)b->g->n_stages, n_values = (size_t)b->g->n_values;
    b->stage_order = sl_calloc(n_stages, sizeof *b->stage_order);
    b->stage_payload = sl_calloc(n_stages, sizeof *b->stage_payload);
    b->at_first = sl_calloc(n_values + 1, sizeof *b->at_first);
    b->is_external = sl_calloc(n_values, sizeof *b->is_external);
    b->is_first = sl_malloc(n_stages * sizeof *b->is_first);
    b->is_last = sl_malloc(n_stages * sizeof *b->is_last);
    if (!b->stage_order || !b->stage_payload || !b->at_first || !b->is_external || !b->is_first || !b->is_last)
        return SL_OUT_OF_MEMORY;
    for (size_t j = 0; j < n_stages; j++)
        b->is_first[j] = b->is_last[j] = true; /* until a read shows otherwise */
    for (size_t v = 0; v <= n_values; v++)
        b->at_first[v] = -1;
    SL_TRY(make_stages(b));
    SL_TRY(order_stages(b));
    return find_reads(b);
}
