/* Weights of a graph, and their content: shared by graphs, plans and pipelines, gone with the last of them. */
#include "error.h"
#include "graph.h"
#include <string.h>

/* Content is retained and released on any thread. */

sli_weight_data *sli_weight_data_retain(sli_weight_data *data) {
    atomic_fetch_add_explicit(&data->references, 1, memory_order_relaxed);
    return data;
}

void sli_weight_data_release(sli_weight_data *data) {
    if (!data || atomic_fetch_sub_explicit(&data->references, 1, memory_order_acq_rel) != 1)
        return;
    if (data->tensor)
        sl_tensor_release(data->tensor);
    else if (data->source.release)
        data->source.release(data->source.user);
    sl_free(data->name);
    sl_free(data);
}

static sl_status check_weight(const sl_graph *g, const char *name, const sl_type *type) {
    if (!name || !*name)
        return sl_fail(SL_INVALID, "a weight has no name; give it one of at least one character");
    sl_status status = sli_graph_check_type(g, type, true);
    return status == SL_OK ? SL_OK : sli_fail_within(status, "weight '%s' ", name);
}

static sl_status weight_bytes(const sl_type *type, size_t *bytes) {
    const sl_shape *s = &type->shape;
    SL_TRY(sl_row_bytes(type->dtype, s->dims[s->rank - 1], bytes));
    *bytes *= (size_t)sl_shape_rows(s);
    return SL_OK;
}

/* Takes the tensor's reference, or the source: on failure they are given back at once. */
static sl_value add_weight(sl_graph *g, const char *name, const sl_type *type, sl_tensor *tensor,
                           const sl_source *source) {
    sli_weight_data *data = NULL;
    sl_status status = check_weight(g, name, type);
    if (status == SL_OK && !(data = sl_calloc(1, sizeof *data)))
        status = SL_OUT_OF_MEMORY;
    if (status != SL_OK) {
        sli_graph_take_error(g, status);
        sl_tensor_release(tensor);
        if (source && source->release)
            source->release(source->user);
        return (sl_value){0};
    }
    *data = (sli_weight_data){.references = 1, .dtype = type->dtype, .rank = type->shape.rank, .tensor = tensor};
    if (source)
        data->source = *source;
    memcpy(data->shape, type->shape.dims, sizeof data->shape);
    data->name = sl_strdup(name);
    status = data->name ? weight_bytes(type, &data->bytes) : SL_OUT_OF_MEMORY;
    sli_graph_value v = {.kind = SLI_VALUE_WEIGHT, .type = *type, .stage = -1, .op = -1, .weight = data};
    int index = -1;
    if (status == SL_OK)
        index = sli_graph_add_value(g, &v, name);
    else
        sli_graph_take_error(g, status);
    if (index < 0)
        sli_weight_data_release(data);
    return (sl_value){index + 1};
}

sl_value sl_graph_weight(sl_graph *g, const char *name, sl_tensor *tensor) {
    if (!sli_graph_is_good(g))
        return (sl_value){0};
    if (!tensor) {
        sl_graph_fail(g, SL_INVALID, "weight '%s' has no tensor (NULL); give one, or use sl_graph_weight_source",
                      name ? name : "");
        return (sl_value){0};
    }
    sl_type type = {sl_tensor_dtype(tensor), {.rank = sl_tensor_rank(tensor)}};
    for (int d = 0; d < type.shape.rank; d++)
        type.shape.dims[d] = sl_tensor_shape(tensor)[d];
    return add_weight(g, name, &type, sl_tensor_retain(tensor), NULL);
}

static sl_status check_source(const char *name, const sl_source *source) {
    if (!source || (!source->memory && !source->read))
        return sl_fail(SL_INVALID, "weight '%s' has a source that is NULL, or has neither memory nor read; set one",
                       name ? name : "");
    return SL_OK;
}

sl_value sl_graph_weight_source(sl_graph *g, const char *name, sl_dtype dtype, int rank, const int64_t *shape,
                                const sl_source *source) {
    sl_type type = {dtype, {.rank = rank}};
    for (int d = 0; d < rank && d < SL_MAX_RANK; d++)
        type.shape.dims[d] = shape[d];
    sl_status status = sli_graph_is_good(g) ? check_source(name, source) : SL_OK;
    if (status != SL_OK)
        sli_graph_take_error(g, status);
    if (sli_graph_is_good(g))
        return add_weight(g, name, &type, NULL, source);
    if (source && source->release)
        source->release(source->user);
    return (sl_value){0};
}

sl_value sl_graph_find_weight(const sl_graph *g, const char *name) {
    for (int v = 0; name && sli_graph_is_good(g) && v < g->n_values; v++)
        if (g->values[v].kind == SLI_VALUE_WEIGHT && !strcmp(g->values[v].name, name))
            return (sl_value){v + 1};
    return (sl_value){0};
}
