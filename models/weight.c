/* See weight.h. Where the file's bytes are what the graph wants, they are used as they lie; else each range is made as
 * it is asked for, by any thread. */
#include "weight.h"
#include "checkpoint.h"
#include "show.h"
#include <sluice/memory.h>
#include <stdio.h>
#include <string.h>

enum { PIECE = 512 /* elements that are turned or converted at a time */ };

typedef struct made_weight {
    sl_checkpoint *checkpoint; /* retained */
    const unsigned char *data; /* the tensor's first element in the file */
    sl_dtype from, to;
    size_t from_bytes, to_bytes; /* of an element */
    bool transposed;
    int64_t columns; /* of the weight; the file's row is as long, or `total` if transposed */
    int64_t first, total;
} made_weight;

/* Elements at .. at + n of the weight, in the file's type. */
static void gather(const made_weight *w, int64_t at, size_t n, unsigned char *destination) {
    if (!w->transposed) {
        memcpy(destination, w->data + (size_t)(w->first * w->columns + at) * w->from_bytes, n * w->from_bytes);
        return;
    }
    int64_t row = at / w->columns, column = at % w->columns;
    for (size_t i = 0; i < n; i++) {
        size_t source = (size_t)(column * w->total + w->first + row);
        memcpy(destination + i * w->from_bytes, w->data + source * w->from_bytes, w->from_bytes);
        if (++column == w->columns) {
            column = 0;
            row++;
        }
    }
}

static sl_status read_made(void *user, size_t offset, void *destination, size_t bytes) {
    const made_weight *w = user;
    _Alignas(16) unsigned char raw[PIECE * sizeof(float)], made[PIECE * sizeof(float)];
    unsigned char *to = destination;
    while (bytes) {
        size_t at = offset / w->to_bytes, skip = offset % w->to_bytes;
        size_t n = (skip + bytes + w->to_bytes - 1) / w->to_bytes;
        n = n < PIECE ? n : PIECE;
        gather(w, (int64_t)at, n, raw);
        SL_TRY(sl_convert(w->to, made, w->from, raw, n));
        size_t taken = n * w->to_bytes - skip;
        taken = taken < bytes ? taken : bytes;
        memcpy(to, made + skip, taken);
        to += taken;
        offset += taken;
        bytes -= taken;
    }
    return SL_OK;
}

static void release_made(void *user) {
    made_weight *w = user;
    sl_checkpoint_release(w->checkpoint);
    sl_free(w);
}

static void release_whole(void *user) {
    sl_checkpoint_release(user);
}

static sl_status find(sl_checkpoint *checkpoint, const sli_weight *weight, sl_checkpoint_tensor *tensor) {
    if (!sl_checkpoint_find(checkpoint, weight->name, tensor))
        return sl_fail(SL_BAD_FILE, "%s: it has no tensor '%s'", checkpoint->path, sli_show(weight->name).text);
    if (!tensor->readable || (!weight->any_type && !sl_dtype_get(tensor->dtype)->is_float))
        return sl_fail(SL_UNSUPPORTED, "%s: tensor '%s' has the type %s, where F32, F16%s is expected", tensor->file,
                       sli_show(tensor->name).text, tensor->type_name, weight->any_type ? ", BF16 or I32" : " or BF16");
    return SL_OK;
}

/* Checks a tensor against what the file has to hold for this weight. */
static sl_status check_shape(const sl_checkpoint_tensor *tensor, const sli_weight *weight) {
    int64_t expected[SL_MAX_RANK];
    memcpy(expected, weight->shape, sizeof expected);
    if (weight->total)
        expected[0] = weight->total;
    if (weight->transposed) {
        int64_t out = expected[0];
        expected[0] = expected[1];
        expected[1] = out;
    }
    bool fits = tensor->rank == weight->rank;
    for (int d = 0; fits && d < weight->rank; d++)
        fits = tensor->shape[d] == expected[d];
    return fits ? SL_OK
                : sl_fail(SL_BAD_FILE, "%s: tensor '%s' has the shape %s where %s is expected", tensor->file,
                          sli_show(tensor->name).text, sli_show_shape(tensor->rank, tensor->shape).text,
                          sli_show_shape(weight->rank, expected).text);
}

static sl_status source_made(sl_checkpoint *checkpoint, const sli_weight *weight, const sl_checkpoint_tensor *tensor,
                             sl_dtype to, sl_source *source) {
    made_weight *made = sl_calloc(1, sizeof *made);
    if (!made)
        return SL_OUT_OF_MEMORY;
    int64_t columns = 1;
    for (int d = 1; d < weight->rank; d++)
        columns *= weight->shape[d];
    *made = (made_weight){
        .checkpoint = sl_checkpoint_retain(checkpoint),
        .data = tensor->data,
        .from = tensor->dtype,
        .to = to,
        .from_bytes = sl_dtype_get(tensor->dtype)->block_bytes,
        .to_bytes = sl_dtype_get(to)->block_bytes,
        .transposed = weight->transposed,
        .columns = columns,
        .first = weight->first,
        .total = weight->total ? weight->total : weight->shape[0],
    };
    *source = (sl_source){.read = read_made, .release = release_made, .user = made};
    return SL_OK;
}

sl_status sli_weight_source(sl_checkpoint *checkpoint, const sli_weight *weight, sl_dtype *dtype, sl_source *source) {
    sl_checkpoint_tensor tensor;
    SL_TRY(find(checkpoint, weight, &tensor));
    SL_TRY(check_shape(&tensor, weight));
    *dtype = weight->f32 ? SL_F32 : tensor.dtype;
    if (weight->transposed || *dtype != tensor.dtype)
        return source_made(checkpoint, weight, &tensor, *dtype, source);
    size_t skipped = weight->first ? tensor.bytes / (size_t)weight->total * (size_t)weight->first : 0;
    *source = (sl_source){.memory = (const unsigned char *)tensor.data + skipped,
                          .release = release_whole,
                          .user = sl_checkpoint_retain(checkpoint)};
    return SL_OK;
}

sl_value sli_weight_add(sl_checkpoint *checkpoint, sl_graph *graph, const sli_weight *weight) {
    sl_dtype dtype;
    sl_source source;
    if (sl_graph_status(graph) != SL_OK)
        return (sl_value){0};
    sl_status status = sli_weight_source(checkpoint, weight, &dtype, &source);
    if (status != SL_OK) {
        sl_graph_fail(graph, status, "%s", sl_last_error());
        return (sl_value){0};
    }
    const char *name = weight->name;
    char part[256];
    if (weight->total) {
        snprintf(part, sizeof part, "%s[%lld:%lld]", weight->name, (long long)weight->first,
                 (long long)weight->first + weight->shape[0]);
        name = part;
    }
    return sl_graph_weight_source(graph, name, dtype, weight->rank, weight->shape, &source);
}

sl_value sl_checkpoint_weight(sl_checkpoint *checkpoint, sl_graph *graph, const char *name, int rank,
                              const int64_t *shape, bool transposed) {
    sli_weight weight = {.name = name, .rank = rank, .transposed = transposed, .any_type = true};
    if (rank < 1 || rank > SL_MAX_RANK || (transposed && rank != 2)) {
        sl_graph_fail(graph, SL_INVALID,
                      "sl_checkpoint_weight: tensor '%s' is asked for with rank %d: 1 to %d are allowed, and 2 for a "
                      "transposed one",
                      sli_show(name).text, rank, SL_MAX_RANK);
        return (sl_value){0};
    }
    memcpy(weight.shape, shape, (size_t)rank * sizeof *shape);
    return sli_weight_add(checkpoint, graph, &weight);
}
