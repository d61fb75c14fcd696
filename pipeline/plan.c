/* Compiles a graph: the passes of plan_build.h in their order. And what can be asked of a plan. Nothing is allocated on
 * a device; a backend is opened only to ask which links work. */
#include "error.h"
#include "plan_build.h"

/* ---- Options, row counts, names ---- */

static void fill_options(sl_plan *p, const sl_graph *g) {
    sl_plan_options *o = &p->options;
    uint32_t most = g->rows[0].max, wished = o->micro_batch_rows ? o->micro_batch_rows : most ? most : 32;
    o->micro_batch_rows = most && most < wished ? most : wished;
    o->max_segments = o->max_segments ? o->max_segments : o->micro_batch_rows;
    o->staging_bytes = o->staging_bytes ? o->staging_bytes : (size_t)1 << 20;
    if (o->staging_bytes > (size_t)1 << 40)
        o->staging_bytes = (size_t)1 << 40; /* more than any value: one piece */
}

static sl_status copy_names(sl_plan *p, const sl_graph *g) {
    p->input_types = sl_calloc((size_t)g->n_inputs, sizeof *p->input_types);
    p->output_types = sl_calloc((size_t)g->n_outputs, sizeof *p->output_types);
    p->input_names = sl_calloc((size_t)g->n_inputs, sizeof *p->input_names);
    p->output_names = sl_calloc((size_t)g->n_outputs, sizeof *p->output_names);
    if (!p->input_types || !p->output_types || !p->input_names || !p->output_names)
        return SL_OUT_OF_MEMORY;
    for (; p->n_inputs < g->n_inputs; p->n_inputs++) {
        p->input_types[p->n_inputs] = g->values[g->inputs[p->n_inputs]].type;
        if (!(p->input_names[p->n_inputs] = sl_strdup(g->values[g->inputs[p->n_inputs]].name)))
            return SL_OUT_OF_MEMORY;
    }
    for (; p->n_outputs < g->n_outputs; p->n_outputs++) {
        p->output_types[p->n_outputs] = g->values[g->outputs[p->n_outputs].value].type;
        if (!(p->output_names[p->n_outputs] = sl_strdup(g->outputs[p->n_outputs].name)))
            return SL_OUT_OF_MEMORY;
    }
    for (; p->n_row_counts < g->n_row_counts; p->n_row_counts++)
        if (!(p->row_names[p->n_row_counts] = sl_strdup(g->rows[p->n_row_counts].name)))
            return SL_OUT_OF_MEMORY;
    return SL_OK;
}

static void count_rows(sl_plan *p, const sl_graph *g) {
    p->max_rows[0] = p->options.micro_batch_rows;
    for (int r = 1; r < g->n_row_counts; r++)
        p->max_rows[r] = g->rows[r].max ? g->rows[r].max : p->options.micro_batch_rows;
    p->max_rows[SLI_ROWS_SEGMENTS] = p->options.max_segments;
}

/* ---- Compiling ---- */

static sl_status compile(sli_build *b) {
    fill_options(b->p, b->g);
    count_rows(b->p, b->g);
    SL_TRY(copy_names(b->p, b->g));
    b->platform = sli_platform_get(b->g->stages[0].device.kind);
    b->backend = b->extras.backend;
    SL_TRY(sli_build_stages(b));
    SL_TRY(sli_build_values(b));
    SL_TRY(sli_build_depths(b));
    SL_TRY(sli_build_deps(b));
    SL_TRY(sli_build_lags(b));
    sli_build_round_depths(b);
    SL_TRY(sli_build_deps(b));
    SL_TRY(sli_build_windows(b));
    SL_TRY(sli_build_works(b));
    SL_TRY(sli_build_memory(b));
    SL_TRY(sli_build_sort(b));
    sli_build_credits(b);
    SL_TRY(sli_build_waits(b));
    SL_TRY(sli_build_program(b));
    b->p->options.depth = b->p->options.depth ? b->p->options.depth : SLI_DEFAULT_DEPTH;
    return SL_OK;
}

static void free_build(sli_build *b) {
    void *arrays[] = {b->stage_order, b->stage_payload, b->is_first, b->is_last,     b->reads, b->at_first,
                      b->at,          b->is_external,   b->fixed,    b->need,        b->spans, b->lane_link,
                      b->accesses,    b->access_first,  b->deps,     b->out_first,   b->out,   b->step,
                      b->position,    b->record,        b->far,      b->heap.entries};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
        sl_free(arrays[i]);
    if (b->opened)
        b->backend->ops->close(b->backend, 0);
}

sl_status sli_plan_compile(const sl_graph *graph, const sl_plan_options *options, const sli_plan_extras *extras,
                           sl_plan **plan) {
    static const sl_plan_options defaults;
    sli_build b = {.g = graph};
    *plan = NULL;
    SL_TRY(sli_graph_validate(graph, options ? options : &defaults));
    b.p = sl_calloc(1, sizeof *b.p);
    if (!b.p)
        return SL_OUT_OF_MEMORY;
    b.p->options = options ? *options : defaults;
    if (extras)
        b.extras = *extras;
    sl_status status = compile(&b);
    free_build(&b);
    if (status != SL_OK)
        sl_plan_destroy(b.p);
    else
        *plan = b.p;
    return status;
}

sl_status sl_plan_create(const sl_graph *graph, const sl_plan_options *options, sl_plan **plan) {
    return sli_plan_compile(graph, options, NULL, plan);
}

/* ---- The end ---- */

static void free_stage(sli_plan_stage *s) {
    for (int i = 0; i < s->n_ops; i++) {
        sl_free(s->ops[i].attributes);
        sl_free(s->ops[i].inputs);
        sl_free(s->ops[i].outputs);
        sl_free(s->ops[i].states);
    }
    sl_free(s->ops);
    sl_free(s->name);
}

static void free_names(char **names, int n) {
    for (int i = 0; i < n; i++)
        sl_free(names[i]);
}

void sl_plan_destroy(sl_plan *p) {
    if (!p)
        return;
    for (int i = 0; i < p->n_weights; i++)
        sli_weight_data_release(p->weights[i].data);
    for (int i = 0; i < p->n_states; i++)
        sl_free(p->states[i].name);
    for (int i = 0; i < p->n_stages; i++)
        free_stage(&p->stages[i]);
    for (int i = 0; i < p->n_buffers; i++)
        sl_free(p->buffers[i].name);
    for (int i = 0; i < p->n_edges; i++)
        sl_free(p->edges[i].name);
    for (int i = 0; i < p->n_payloads; i++) {
        sl_free(p->payloads[i].name);
        sl_free(p->payloads[i].operands);
    }
    free_names(p->input_names, p->n_inputs);
    free_names(p->output_names, p->n_outputs);
    free_names(p->row_names, p->n_row_counts);
    void *arrays[] = {p->devices,      p->weights,     p->states,       p->stages,  p->buffers,
                      p->payloads,     p->edges,       p->lanes,        p->program, p->input_types,
                      p->output_types, p->input_names, p->output_names, p->ends};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
        sl_free(arrays[i]);
    sl_free(p);
}

/* ---- Asking ---- */

int sli_operand_slot(const sl_plan *plan, const sli_plan_operand *operand, int64_t i) {
    int64_t depth = plan->buffers[operand->buffer].depth;
    int64_t slot = ((i - operand->distance) * operand->pieces + operand->piece) % depth;
    return (int)(slot < 0 ? slot + depth : slot);
}

int sl_plan_n_devices(const sl_plan *p) {
    return p->n_devices;
}

sl_status sl_plan_memory(const sl_plan *p, int i, sl_device *device, sl_memory_figures *figures) {
    if (i < 0 || i >= p->n_devices)
        return sl_fail(SL_INVALID, "sl_plan_memory: the plan has no device %d; it has %d, counted from 0", i,
                       p->n_devices);
    if (device)
        *device = p->devices[i].device;
    if (figures)
        *figures = p->devices[i].memory;
    return SL_OK;
}

void sl_plan_get_figures(const sl_plan *p, sl_plan_figures *figures) {
    int n_edges = 0;
    for (int i = 0; i < p->n_edges; i++)
        n_edges += p->edges[i].route != SLI_ROUTE_HOST;
    *figures = (sl_plan_figures){.n_stages = p->n_stages,
                                 .n_edges = n_edges,
                                 .n_lanes = p->n_lanes,
                                 .n_actions = (int)p->n_program,
                                 .n_waits = p->n_waits,
                                 .n_waits_implied = p->n_implied,
                                 .credits = p->credits,
                                 .max_lag = p->max_lag};
}
