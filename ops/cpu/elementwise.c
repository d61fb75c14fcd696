/* Elementwise ops. Dense values are arrays, which may be cut in any place; where b is one row it is read again for each
 * row of a. */
#include "cpu/kernels.h"
#include "cpu/parallel.h"
#include "cpu/row_weights.h"
#include "cpu/vector_kernels.h"

typedef void (*unary_fn)(const float *x, float *y, size_t n);
typedef void (*binary_fn)(const float *a, const float *b, float *y, size_t n);

/* Operations an element, as they count when work is shared out: a copy of memory, a function. */
#define CHEAP 2.0
#define FUNCTION 16.0

static const sli_elementwise_kernels *kernels(void) {
    return sli_elementwise_for(sl_cpu_isa());
}

typedef struct job {
    unary_fn unary;
    binary_fn binary;
    const float *a, *b;
    float *y;
    int64_t n;
    int64_t columns; /* of a row, where b is one row */
    float factor;
} job;

static int64_t elements(const sl_view *view) {
    return sl_shape_rows(&view->shape) * sl_shape_columns(&view->shape);
}

static void unary_part(int part, int n_parts, void *user) {
    const job *j = user;
    int64_t begin = sli_part_begin(j->n, part, n_parts), end = sli_part_begin(j->n, part + 1, n_parts);
    j->unary(j->a + begin, j->y + begin, (size_t)(end - begin));
}

static void scale_part(int part, int n_parts, void *user) {
    const job *j = user;
    int64_t begin = sli_part_begin(j->n, part, n_parts), end = sli_part_begin(j->n, part + 1, n_parts);
    kernels()->scale(j->a + begin, j->factor, j->y + begin, (size_t)(end - begin));
}

static void binary_part(int part, int n_parts, void *user) {
    const job *j = user;
    int64_t begin = sli_part_begin(j->n, part, n_parts), end = sli_part_begin(j->n, part + 1, n_parts);
    j->binary(j->a + begin, j->b + begin, j->y + begin, (size_t)(end - begin));
}

static void row_part(int part, int n_parts, void *user) {
    const job *j = user;
    int64_t rows = j->n / j->columns, end = sli_part_begin(rows, part + 1, n_parts);
    for (int64_t r = sli_part_begin(rows, part, n_parts); r < end; r++)
        j->binary(j->a + r * j->columns, j->b, j->y + r * j->columns, (size_t)j->columns);
}

static sl_status unary(sl_lane *lane, const sl_call *call, unary_fn function, double operations) {
    job j = {
        .unary = function, .a = call->inputs[0].data, .y = call->outputs[0].data, .n = elements(&call->outputs[0])};
    sl_lane_parallel(lane, sli_parts(lane, j.n, operations), unary_part, &j);
    return SL_OK;
}

static sl_status binary(sl_lane *lane, const sl_call *call, binary_fn function, double operations) {
    const sl_view *a = &call->inputs[0], *b = &call->inputs[1];
    job j = {.binary = function,
             .a = a->data,
             .b = sli_row_weight(call, 1),
             .y = call->outputs[0].data,
             .n = elements(a),
             .columns = sl_shape_columns(&a->shape)};
    bool is_row = elements(b) != j.n;
    int64_t items = is_row ? j.n / j.columns : j.n;
    double each = is_row ? operations * (double)j.columns : operations;
    sl_lane_parallel(lane, sli_parts(lane, items, each), is_row ? row_part : binary_part, &j);
    return SL_OK;
}

sl_status sli_cpu_scale(sl_lane *lane, const sl_call *call) {
    job j = {.a = call->inputs[0].data,
             .y = call->outputs[0].data,
             .n = elements(&call->outputs[0]),
             .factor = ((const sli_scale *)call->attributes)->factor};
    sl_lane_parallel(lane, sli_parts(lane, j.n, CHEAP), scale_part, &j);
    return SL_OK;
}

sl_status sli_cpu_add(sl_lane *lane, const sl_call *call) {
    return binary(lane, call, kernels()->add, CHEAP);
}

sl_status sli_cpu_mul(sl_lane *lane, const sl_call *call) {
    return binary(lane, call, kernels()->mul, CHEAP);
}

sl_status sli_cpu_silu_gated(sl_lane *lane, const sl_call *call) {
    return binary(lane, call, kernels()->silu_gated, FUNCTION);
}

sl_status sli_cpu_relu(sl_lane *lane, const sl_call *call) {
    return unary(lane, call, kernels()->relu, CHEAP);
}

sl_status sli_cpu_gelu(sl_lane *lane, const sl_call *call) {
    return unary(lane, call, kernels()->gelu, FUNCTION);
}

sl_status sli_cpu_gelu_tanh(sl_lane *lane, const sl_call *call) {
    return unary(lane, call, kernels()->gelu_tanh, FUNCTION);
}

sl_status sli_cpu_silu(sl_lane *lane, const sl_call *call) {
    return unary(lane, call, kernels()->silu, FUNCTION);
}
