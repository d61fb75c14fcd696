/* Ops that copy rows: embedding, position_embedding, gather. Indices are checked before anything is written, so the
 * first bad one is named whatever the number of threads. */
#include "cpu/kernels.h"
#include "cpu/parallel.h"
#include "cpu/segments.h"
#include "cpu/vector_kernels.h"
#include "cpu/widen.h"
#include <string.h>

static const char *table_row(const sl_view *table, int64_t row) {
    return (const char *)table->data + (size_t)row * table->row_bytes;
}

static sl_status check_indices(const sl_view *indices, const char *what, int64_t n, const char *of) {
    const int32_t *index = indices->data;
    for (int64_t r = 0; r < indices->shape.dims[0]; r++)
        if (index[r] < 0 || index[r] >= n)
            return sl_fail(SL_INVALID, "row %lld: %s %d is not in 0 to %lld, the rows of %s", (long long)r, what,
                           index[r], (long long)n - 1, of);
    return SL_OK;
}

/* Converting nothing says whether the table's type can be converted. */
static sl_status check_type(const sl_view *table) {
    float none;
    return sli_widen(table->dtype, table->data, &none, 0);
}

static void embed_part(int part, int n_parts, void *user) {
    const sl_call *call = user;
    const sl_view *ids = &call->inputs[0], *table = &call->inputs[1], *y = &call->outputs[0];
    int64_t rows = ids->shape.dims[0], end = sli_part_begin(rows, part + 1, n_parts);
    for (int64_t r = sli_part_begin(rows, part, n_parts); r < end; r++)
        sli_widen(table->dtype, table_row(table, ((const int32_t *)ids->data)[r]),
                  (float *)y->data + r * y->shape.dims[1], (size_t)y->shape.dims[1]);
}

sl_status sli_cpu_embedding(sl_lane *lane, const sl_call *call) {
    const sl_view *ids = &call->inputs[0];
    SL_TRY(check_indices(ids, "id", call->inputs[1].shape.dims[0], "the table"));
    SL_TRY(check_type(&call->inputs[1]));
    int64_t rows = ids->shape.dims[0];
    sl_lane_parallel(lane, sli_parts(lane, rows, (double)call->outputs[0].shape.dims[1]), embed_part, (void *)call);
    return SL_OK;
}

/* The table's row is converted into the output, where x is added. */
static void add_positions(int part, int n_parts, void *user) {
    const sl_call *call = user;
    const sl_view *x = &call->inputs[0], *table = &call->inputs[1], *y = &call->outputs[0];
    int64_t rows = x->shape.dims[0], end = sli_part_begin(rows, part + 1, n_parts);
    const sl_segment *s = call->descriptor->segments;
    size_t columns = (size_t)x->shape.dims[1];
    const sli_elementwise_kernels *kernels = sli_elementwise_for(sl_cpu_isa());
    for (int64_t r = sli_part_begin(rows, part, n_parts); r < end; r++) {
        s = sli_segment_of(s, r);
        float *to = (float *)y->data + (size_t)r * columns;
        sli_widen(table->dtype, table_row(table, sli_position_of(s, r)), to, columns);
        kernels->add((const float *)x->data + (size_t)r * columns, to, to, columns);
    }
}

sl_status sli_cpu_position_embedding(sl_lane *lane, const sl_call *call) {
    const sl_view *x = &call->inputs[0];
    SL_TRY(sli_check_segments(call->descriptor, x->shape.dims[0], call->inputs[1].shape.dims[0], "the table"));
    SL_TRY(check_type(&call->inputs[1]));
    sl_lane_parallel(lane, sli_parts(lane, x->shape.dims[0], 2.0 * (double)x->shape.dims[1]), add_positions,
                     (void *)call);
    return SL_OK;
}

sl_status sli_cpu_gather(sl_lane *lane, const sl_call *call) {
    const sl_view *x = &call->inputs[0], *index = &call->inputs[1], *y = &call->outputs[0];
    (void)lane;
    SL_TRY(check_indices(index, "index", x->shape.dims[0], "the micro-batch"));
    for (int64_t r = 0; r < index->shape.dims[0]; r++)
        memcpy((char *)y->data + (size_t)r * y->row_bytes, table_row(x, ((const int32_t *)index->data)[r]),
               y->row_bytes);
    return SL_OK;
}
