/* Submitting: checks the tensors of a job against the plan, counts its rows, cuts it, and hands it to the driver. Any
 * thread; never blocks. */
#include "cut.h"
#include "error.h"
#include <stdio.h>
#include <string.h>

enum { TYPE_TEXT = 160 };

typedef struct value_rule { /* what the plan says of an input or an output */
    const char *what;       /* "input" */
    const char *name;
    const sl_type *type;
} value_rule;

static value_rule rule_of(const sl_plan *plan, int v) {
    if (v < plan->n_inputs)
        return (value_rule){"input", plan->input_names[v], &plan->input_types[v]};
    v -= plan->n_inputs;
    return (value_rule){"output", plan->output_names[v], &plan->output_types[v]};
}

/* "f32 [rows, 1024]" */
static const char *type_text(const sl_plan *plan, const sl_type *type, char text[TYPE_TEXT]) {
    int n = snprintf(text, TYPE_TEXT, "%s [", sl_dtype_name(type->dtype));
    for (int d = 0; d < type->shape.rank && n < TYPE_TEXT; d++) {
        int64_t dim = type->shape.dims[d];
        const char *comma = d ? ", " : "";
        if (dim < 0)
            n += snprintf(text + n, TYPE_TEXT - (size_t)n, "%s%s", comma, plan->row_names[SL_ROWS - dim]);
        else
            n += snprintf(text + n, TYPE_TEXT - (size_t)n, "%s%lld", comma, (long long)dim);
    }
    if (n < TYPE_TEXT)
        snprintf(text + n, TYPE_TEXT - (size_t)n, "]");
    return text;
}

static sl_status wrong(const sl_plan *plan, const value_rule *rule, const char *found) {
    char text[TYPE_TEXT];
    return sl_fail(SL_INVALID, "%s '%s' of the job is %s; expected a tensor of %s on a CPU device", rule->what,
                   rule->name, found, type_text(plan, rule->type, text));
}

static sl_type type_of(const sl_tensor *tensor) {
    sl_type type = {.dtype = sl_tensor_dtype(tensor), .shape.rank = sl_tensor_rank(tensor)};
    for (int d = 0; d < type.shape.rank; d++)
        type.shape.dims[d] = sl_tensor_shape(tensor)[d];
    return type;
}

static sl_status check_type(const sl_plan *plan, const value_rule *rule, const sl_tensor *tensor) {
    char text[TYPE_TEXT], device[SL_DEVICE_TEXT];
    sl_device at = sl_tensor_device(tensor);
    if (at.kind != SL_CPU && at.kind != plan->kind)
        return wrong(plan, rule, sl_device_format(at, device));
    if (at.kind != SL_CPU && plan->kind != SL_SIM)
        return wrong(plan, rule, sl_device_format(at, device));
    sl_type type = type_of(tensor);
    bool same = type.dtype == rule->type->dtype && type.shape.rank == rule->type->shape.rank;
    for (int d = 0; same && d < type.shape.rank; d++) {
        int64_t dim = rule->type->shape.dims[d];
        same = dim < 0 ? type.shape.dims[d] > 0 : type.shape.dims[d] == dim;
    }
    return same ? SL_OK : wrong(plan, rule, type_text(plan, &type, text));
}

/* Bytes of one row: what lies behind the leading dimension. */
static sl_status leading_row_bytes(const sl_type *type, size_t *bytes) {
    const sl_shape *s = &type->shape;
    if (s->rank == 1)
        return sl_row_bytes(type->dtype, 1, bytes);
    SL_TRY(sl_row_bytes(type->dtype, s->dims[s->rank - 1], bytes));
    for (int d = 1; d + 1 < s->rank; d++)
        *bytes *= (size_t)s->dims[d];
    return SL_OK;
}

static sl_status count_rows(const sl_plan *plan, const value_rule *rule, sl_job *job, int c, uint64_t rows) {
    if (job->rows[c] && job->rows[c] != rows)
        return sl_fail(SL_INVALID, "%s '%s' of the job has %llu '%s', where an input before it has %llu", rule->what,
                       rule->name, (unsigned long long)rows, plan->row_names[c], (unsigned long long)job->rows[c]);
    job->rows[c] = rows;
    return SL_OK;
}

static sl_status take_value(const sl_pipeline *p, sl_job *job, int v, sl_tensor *tensor) {
    const sl_plan *plan = p->plan;
    bool has_data = p->bound->platform->capabilities & SLI_HAS_DATA;
    value_rule rule = rule_of(plan, v);
    sli_job_value *value = &job->values[v];
    value->rows = SLI_ROWS_FIXED;
    if (!tensor && !has_data && v >= plan->n_inputs)
        return SL_OK;
    if (!tensor)
        return wrong(plan, &rule, "NULL");
    SL_TRY(check_type(plan, &rule, tensor));
    value->tensor = tensor;
    value->at = has_data ? sl_tensor_data(tensor) : NULL;
    if (rule.type->shape.dims[0] >= 0)
        return SL_OK;
    value->rows = (int)(SL_ROWS - rule.type->shape.dims[0]);
    SL_TRY(leading_row_bytes(rule.type, &value->row_bytes));
    return count_rows(plan, &rule, job, value->rows, (uint64_t)sl_tensor_shape(tensor)[0]);
}

static sl_status take_segments(const sl_plan *plan, const sl_job_options *options, sl_job *job, sl_segment *room) {
    if (!plan->has_segments && options->n_segments)
        return sl_fail(SL_INVALID, "the job has %u segments, but no op of this graph has a state or reads segments",
                       options->n_segments);
    if (!plan->has_segments)
        return SL_OK;
    if (job->rows[0] > INT32_MAX)
        return sl_fail(SL_INVALID, "the job has %llu '%s'; a graph with state takes at most %d",
                       (unsigned long long)job->rows[0], plan->row_names[0], INT32_MAX);
    job->segments = room;
    job->n_segments = options->n_segments ? options->n_segments : 1;
    if (options->n_segments)
        memcpy(room, options->segments, options->n_segments * sizeof *room);
    else
        room[0] = (sl_segment){.n_rows = (int32_t)job->rows[0]};
    return sli_cut_check_segments(plan, job);
}

static sl_status fill_in(sl_pipeline *p, const sl_job_options *options, sl_tensor *const *inputs,
                         sl_tensor *const *outputs, sl_job *job) {
    const sl_plan *plan = p->plan;
    job->n_values = plan->n_inputs + plan->n_outputs;
    job->values = (sli_job_value *)(job + 1);
    for (int v = 0; v < plan->n_inputs; v++)
        SL_TRY(take_value(p, job, v, inputs ? inputs[v] : NULL));
    for (int v = 0; v < plan->n_outputs; v++)
        SL_TRY(take_value(p, job, plan->n_inputs + v, outputs ? outputs[v] : NULL));
    if (job->rows[0] == 0)
        return sl_fail(SL_INVALID, "no input of the job has '%s': how many there are is unknown", plan->row_names[0]);
    uint32_t wanted = options->micro_batches ? options->micro_batches : p->micro_batches;
    SL_TRY(sli_cut_count(plan, job->rows, wanted, &job->n_parts));
    return take_segments(plan, options, job, (sl_segment *)(job->values + job->n_values));
}

static sl_status hand_over(sl_pipeline *p, sl_job *job, sl_job **out) {
    if (!sli_pipeline_enter(p))
        return sl_fail(SL_CANCELLED, "the pipeline is closed");
    sl_status status = sli_pipeline_take_place(p);
    if (status == SL_OK) {
        if (out) { /* before its callback can run */
            sli_job_retain(job);
            *out = job;
        }
        sli_loop_hold(p->loop);
        sli_job_push(&p->submitted, job);
        sli_pipeline_wake(p);
    }
    sli_pipeline_leave(p);
    return status;
}

sl_status sl_pipeline_submit_with(sl_pipeline *p, const sl_job_options *options, sl_tensor *const *inputs,
                                  sl_tensor *const *outputs, sl_job_fn on_done, void *user, sl_job **out) {
    static const sl_job_options none;
    options = options ? options : &none;
    if (out)
        *out = NULL;
    if (p->has_feed)
        return sl_fail(SL_INVALID, "this pipeline has a feed, which makes its micro-batches; sl_pipeline_submit is for "
                                   "pipelines without one");
    if (options->n_segments && !options->segments)
        return sl_fail(SL_INVALID, "n_segments is %u, but segments is NULL", options->n_segments);
    size_t n_values = (size_t)p->plan->n_inputs + (size_t)p->plan->n_outputs;
    size_t n_segments = options->n_segments ? options->n_segments : 1;
    sl_job *job = sli_job_create(p, on_done, user, n_values * sizeof(sli_job_value) + n_segments * sizeof(sl_segment));
    if (!job)
        return SL_OUT_OF_MEMORY;
    sl_status status = fill_in(p, options, inputs, outputs, job);
    if (status == SL_OK)
        status = hand_over(p, job, out);
    if (status != SL_OK)
        sl_job_release(job);
    return status;
}

sl_status sl_pipeline_submit(sl_pipeline *p, sl_tensor *const *inputs, sl_tensor *const *outputs, sl_job_fn on_done,
                             void *user, sl_job **job) {
    return sl_pipeline_submit_with(p, NULL, inputs, outputs, on_done, user, job);
}
