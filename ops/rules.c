/* Sentences of shape rules: which input, what was found, what was expected; the graph puts stage and op before them. */
#include "rules.h"
#include <stdarg.h>
#include <stdio.h>

const char *sli_type_format(const sl_type *type, char text[SLI_TYPE_TEXT]) {
    const sl_shape *shape = &type->shape;
    size_t n = (size_t)snprintf(text, SLI_TYPE_TEXT, "[");
    for (int d = 0; d < shape->rank && d < SL_MAX_RANK; d++) {
        const char *before = d ? ", " : "";
        int64_t dim = shape->dims[d];
        if (dim == SL_ROWS)
            n += (size_t)snprintf(text + n, SLI_TYPE_TEXT - n, "%srows", before);
        else if (dim < 0)
            n += (size_t)snprintf(text + n, SLI_TYPE_TEXT - n, "%srows of count %d", before, (int)-dim);
        else
            n += (size_t)snprintf(text + n, SLI_TYPE_TEXT - n, "%s%lld", before, (long long)dim);
    }
    snprintf(text + n, SLI_TYPE_TEXT - n, "] %s", sl_dtype_name(type->dtype));
    return text;
}

sl_status sli_wrong_input(int i, const char *name, const sl_type *found, const char *expected, ...) {
    char type[SLI_TYPE_TEXT], rest[256];
    va_list args;
    va_start(args, expected);
    vsnprintf(rest, sizeof rest, expected, args);
    va_end(args);
    return sl_fail(SL_INVALID, "input %d (%s) is %s; expected %s", i, name, sli_type_format(found, type), rest);
}

static int64_t columns_of(const sl_type *type) {
    return type->shape.rank > 0 ? sl_shape_columns(&type->shape) : 0;
}

sl_status sli_need_rows(int i, const char *name, const sl_type *type, sl_dtype dtype) {
    if (type->dtype != dtype || type->shape.rank < 2 || columns_of(type) < 1)
        return sli_wrong_input(i, name, type, "[rows, columns] %s", sl_dtype_name(dtype));
    return SL_OK;
}

sl_status sli_need_matrix(int i, const char *name, const sl_type *type, sl_dtype dtype, int64_t columns) {
    bool fits = type->dtype == dtype && type->shape.rank == 2 && columns_of(type) >= 1;
    if (fits && (columns < 0 || columns_of(type) == columns))
        return SL_OK;
    if (columns < 0)
        return sli_wrong_input(i, name, type, "[rows, columns] %s", sl_dtype_name(dtype));
    return sli_wrong_input(i, name, type, "[rows, %lld] %s", (long long)columns, sl_dtype_name(dtype));
}

sl_status sli_need_tokens(int i, const char *name, const sl_type *type, int64_t columns) {
    SL_TRY(sli_need_matrix(i, name, type, SL_F32, columns));
    if (type->shape.dims[0] != SL_ROWS)
        return sli_wrong_input(i, name, type, "SL_ROWS as its leading dimension: positions come from the segments");
    return SL_OK;
}

static bool is_float_weight(const sl_type *type, bool is_weight) {
    const sl_dtype_info *info = sl_dtype_get(type->dtype);
    return is_weight && info && info->is_float;
}

sl_status sli_need_row_weight(int i, const char *name, const sl_type *type, bool is_weight, int64_t columns) {
    const sl_shape *shape = &type->shape;
    bool plain = is_float_weight(type, is_weight) && sl_dtype_get(type->dtype)->block_elements == 1;
    if (plain && shape->rank >= 1 && sl_shape_rows(shape) == 1 && columns_of(type) == columns)
        return SL_OK;
    return sli_wrong_input(i, name, type, "a weight [%lld] in f32, f16 or bf16%s", (long long)columns,
                           is_weight ? "" : "; it is no weight");
}

sl_status sli_need_table(int i, const char *name, const sl_type *type, bool is_weight, int64_t columns) {
    bool fits = is_float_weight(type, is_weight) && type->shape.rank == 2 && columns_of(type) >= 1;
    if (fits && (columns < 0 || columns_of(type) == columns))
        return SL_OK;
    const char *why = is_weight ? "" : "; it is no weight";
    if (columns < 0)
        return sli_wrong_input(i, name, type, "a weight [n, columns] in f32, f16 or bf16%s", why);
    return sli_wrong_input(i, name, type, "a weight [n, %lld] in f32, f16 or bf16%s", (long long)columns, why);
}

bool sli_same_type(const sl_type *a, const sl_type *b) {
    bool same = a->dtype == b->dtype && a->shape.rank == b->shape.rank;
    for (int d = 0; same && d < a->shape.rank; d++)
        same = a->shape.dims[d] == b->shape.dims[d];
    return same;
}

double sli_view_bytes(const sl_view *view) {
    return (double)sl_shape_rows(&view->shape) * (double)view->row_bytes;
}

double sli_view_elements(const sl_view *view) {
    return (double)sl_shape_rows(&view->shape) * (double)sl_shape_columns(&view->shape);
}

void sli_cost_of_all(const sl_call *call, double operations, sl_cost *cost) {
    *cost = (sl_cost){.operations = operations};
    for (int i = 0; i < call->n_inputs; i++)
        cost->bytes_read += sli_view_bytes(&call->inputs[i]);
    for (int i = 0; i < call->n_outputs; i++)
        cost->bytes_written += sli_view_bytes(&call->outputs[i]);
}
