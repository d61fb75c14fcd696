/* Ops that look at one row at a time: softmax, norms, argmax. */
#include "cpu/kernels.h"
#include "cpu/parallel.h"
#include "cpu/row_weights.h"
#include "cpu/vector_kernels.h"

static const sli_row_kernels *kernels(void) {
    return sli_rows_for(sl_cpu_isa());
}

typedef struct job {
    void (*row)(const struct job *j, int64_t r);
    const float *x, *weight, *bias;
    float eps;
    float *y;
    int32_t *index;
    int64_t rows;
    size_t columns;
} job;

static void part_of_rows(int part, int n_parts, void *user) {
    const job *j = user;
    int64_t end = sli_part_begin(j->rows, part + 1, n_parts);
    for (int64_t r = sli_part_begin(j->rows, part, n_parts); r < end; r++)
        j->row(j, r);
}

static sl_status run(sl_lane *lane, const sl_call *call, job *j, double operations) {
    const sl_view *x = &call->inputs[0];
    j->x = x->data;
    j->rows = sl_shape_rows(&x->shape);
    j->columns = (size_t)sl_shape_columns(&x->shape);
    sl_lane_parallel(lane, sli_parts(lane, j->rows, operations * (double)j->columns), part_of_rows, j);
    return SL_OK;
}

static void softmax_row(const job *j, int64_t r) {
    kernels()->softmax(j->x + (size_t)r * j->columns, j->y + (size_t)r * j->columns, j->columns);
}

sl_status sli_cpu_softmax(sl_lane *lane, const sl_call *call) {
    return run(lane, call, &(job){.row = softmax_row, .y = call->outputs[0].data}, 20);
}

static void rms_norm_row(const job *j, int64_t r) {
    kernels()->rms_norm(j->x + (size_t)r * j->columns, j->weight, j->eps, j->y + (size_t)r * j->columns, j->columns);
}

static void layer_norm_row(const job *j, int64_t r) {
    kernels()->layer_norm(j->x + (size_t)r * j->columns, j->weight, j->bias, j->eps, j->y + (size_t)r * j->columns,
                          j->columns);
}

static sl_status norm(sl_lane *lane, const sl_call *call, void (*row)(const job *j, int64_t r)) {
    job j = {.row = row,
             .weight = sli_row_weight(call, 1),
             .bias = call->n_inputs > 2 ? sli_row_weight(call, 2) : NULL,
             .eps = ((const sli_norm *)call->attributes)->eps,
             .y = call->outputs[0].data};
    return run(lane, call, &j, 6);
}

sl_status sli_cpu_rms_norm(sl_lane *lane, const sl_call *call) {
    return norm(lane, call, rms_norm_row);
}

sl_status sli_cpu_layer_norm(sl_lane *lane, const sl_call *call) {
    return norm(lane, call, layer_norm_row);
}

/* The largest first, with vectors; then the first that is equal. A row of NaN alone has 0. */
static void argmax_row(const job *j, int64_t r) {
    const float *x = j->x + (size_t)r * j->columns;
    float most = kernels()->largest(x, j->columns);
    size_t i = 0;
    while (i < j->columns && x[i] != most)
        i++;
    j->index[r] = i < j->columns ? (int32_t)i : 0;
}

sl_status sli_cpu_argmax(sl_lane *lane, const sl_call *call) {
    return run(lane, call, &(job){.row = argmax_row, .index = call->outputs[0].data}, 2);
}
