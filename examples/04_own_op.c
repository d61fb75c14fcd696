/* Ops of your own: `clip` looks at each element, `running_sum` keeps a state from micro-batch to micro-batch.
 *
 *     x ──> clip on cpu:0 ──> running_sum on cpu:1 ──> y
 *
 * An op is a constant description: a shape rule, a cost rule, a kernel for each kind of device. */
#include <sluice/sluice.h>
#include <stdio.h>

enum { ROWS = 5, COLUMNS = 3 };

typedef struct clip_attributes { /* the graph keeps a copy */
    float low, high;
} clip_attributes;

/* The output has the input's type. The graph puts stage and op before the sentence. */
static sl_status same_type(const void *attributes, int n_inputs, const sl_type *inputs, const bool *is_weight,
                           int *n_outputs, sl_type *outputs) {
    (void)attributes, (void)is_weight;
    if (n_inputs != 1 || inputs[0].dtype != SL_F32 || inputs[0].shape.rank != 2)
        return sl_fail(SL_INVALID, "got %d inputs, the first of %s; expected one, f32 [rows, columns]", n_inputs,
                       sl_dtype_name(inputs[0].dtype));
    *n_outputs = 1;
    outputs[0] = inputs[0];
    return SL_OK;
}

static void cost(const sl_call *call, sl_cost *cost) {
    double rows = (double)sl_shape_rows(&call->inputs[0].shape), bytes = rows * (double)call->inputs[0].row_bytes;
    *cost = (sl_cost){.operations = rows * (double)sl_shape_columns(&call->inputs[0].shape),
                      .bytes_read = bytes,
                      .bytes_written = bytes};
}

/* Part `part` of `n_parts` takes every n_parts-th row: the result does not depend on how many parts there are. */
static void clip_rows(int part, int n_parts, void *user) {
    const sl_call *call = user;
    const clip_attributes *a = call->attributes;
    int64_t rows = sl_shape_rows(&call->inputs[0].shape), columns = sl_shape_columns(&call->inputs[0].shape);
    for (int64_t r = part; r < rows; r += n_parts)
        for (int64_t i = r * columns; i < (r + 1) * columns; i++) {
            float x = ((const float *)call->inputs[0].data)[i];
            ((float *)call->outputs[0].data)[i] = x < a->low ? a->low : x > a->high ? a->high : x;
        }
}

static sl_status clip_cpu(sl_lane *lane, const sl_call *call) {
    sl_lane_parallel(lane, sl_lane_threads(lane), clip_rows, (void *)call);
    return SL_OK;
}

/* y[r] = the sum of its sequence's rows up to r. The state holds each sum at its position, so that the next micro-batch
 * can go on from the last one, or, after a cancel, from an earlier one. Segments say which rows continue which
 * sequence, and where; the pipeline has checked them against the state. */
static sl_status running_sum_cpu(sl_lane *lane, const sl_call *call) {
    const sl_descriptor *d = call->descriptor;
    const sl_state_view *state = &call->states[0];
    (void)lane;
    for (const sl_segment *s = d->segments; s < d->segments + d->n_segments; s++)
        for (int32_t k = 0; k < s->n_rows; k++) {
            int64_t at = s->place * state->n_rows + s->position + k; /* row of the state */
            const float *x = (const float *)call->inputs[0].data + (s->first_row + k) * state->columns;
            float *y = (float *)call->outputs[0].data + (s->first_row + k) * state->columns;
            float *sums = (float *)state->data + at * state->columns;
            for (int64_t c = 0; c < state->columns; c++)
                y[c] = sums[c] = x[c] + (s->position + k > 0 ? sums[c - state->columns] : 0);
        }
    return SL_OK;
}

static const sl_op clip = {
    .name = "clip", .attribute_bytes = sizeof(clip_attributes), .shape = same_type, .cost = cost, .cpu = clip_cpu};
static const sl_op running_sum = {
    .name = "running_sum", .shape = same_type, .cost = cost, .cpu = running_sum_cpu, .uses_descriptor = true};

static sl_graph *build(sl_dtype dtype) {
    sl_graph *g = sl_graph_create();
    sl_value x = sl_graph_input(g, "x", dtype, SL_ROWS, COLUMNS);
    sl_stage front = sl_graph_stage(g, "front", "cpu:0"), back = sl_graph_stage(g, "back", "cpu:1");
    sl_state sums = sl_graph_state(g, back, "sums", SL_F32, 1, 16, COLUMNS);
    sl_value h = sl_graph_op1(g, front, &clip, &(clip_attributes){-1, 2}, 1, &x, 0, NULL);
    sl_graph_output(g, "y", sl_graph_op1(g, back, &running_sum, NULL, 1, &h, 1, &sums));
    return g;
}

int main(void) {
    float x[ROWS][COLUMNS] = {{0, 1, 2}, {3, 4, 5}, {-6, -7, -8}, {0.5f, 0.25f, 0}, {9, -9, 1}}, y[ROWS][COLUMNS];
    sl_tensor *in = NULL, *out = NULL;
    sl_pipeline *pipeline = NULL;
    sl_job *job = NULL;

    sl_graph *wrong = build(SL_I32);
    if (sl_graph_status(wrong) != SL_OK)
        printf("refused: %s\n", sl_last_error());
    sl_graph_destroy(wrong);

    sl_graph *g = build(SL_F32); /* 5 rows at most 2 at a time: 3 micro-batches */
    sl_pipeline_options options = {.plan.micro_batch_rows = 2};
    if (sl_pipeline_open(g, &options, &pipeline) != SL_OK ||
        sl_tensor_wrap(x, SL_F32, 2, (const int64_t[]){ROWS, COLUMNS}, NULL, NULL, &in) != SL_OK ||
        sl_tensor_wrap(y, SL_F32, 2, (const int64_t[]){ROWS, COLUMNS}, NULL, NULL, &out) != SL_OK ||
        sl_pipeline_submit(pipeline, &in, &out, NULL, NULL, &job) != SL_OK || sl_job_wait(job, SL_FOREVER) != SL_OK)
        printf("failed: %s\n", sl_last_error());
    for (int r = 0; r < ROWS && job; r++)
        printf("%6.2f %6.2f %6.2f\n", (double)y[r][0], (double)y[r][1], (double)y[r][2]);

    sl_job_release(job);
    if (pipeline)
        sl_pipeline_close(pipeline, NULL, NULL);
    sl_tensor_release(in);
    sl_tensor_release(out);
    sl_graph_destroy(g);
    return job ? 0 : 1;
}
