/* Weights at their devices: used in place where that can be, else read or copied in pieces through a bounded buffer
 * into one block a device. Blocks; at open time only. */
#include "bind.h"
#include "error.h"
#include "memory.h"
#include "tensor.h"

enum { PIECE = 4 << 20, ALIGN = 64 };

typedef enum way { IS_THERE, IN_PLACE, BY_COPY } way;

typedef struct loader {
    sli_binding *bound;
    const sli_bind_options *options;
    uint64_t done, total; /* bytes */
    char *piece;          /* made when it is first needed */
} loader;

static const sli_plan_weight *weight_of(const sli_binding *bound, int w) {
    return &bound->plan->weights[w];
}

static sl_device device_of(const sli_binding *bound, int w) {
    return bound->plan->devices[weight_of(bound, w)->device].device;
}

static bool is_aligned(const sli_weight_data *data) {
    return (uintptr_t)data->source.memory % sl_dtype_get(data->dtype)->alignment == 0;
}

static way way_of(const sli_binding *bound, int w) {
    const sli_weight_data *data = weight_of(bound, w)->data;
    if (data->tensor)
        return sl_device_equal(sl_tensor_device(data->tensor), device_of(bound, w)) ? IS_THERE : BY_COPY;
    bool reads_host = bound->platform->capabilities & SLI_READS_HOST;
    return reads_host && data->source.memory && is_aligned(data) ? IN_PLACE : BY_COPY;
}

static size_t room_of(const sli_weight_data *data) {
    return (data->bytes + ALIGN - 1) / ALIGN * ALIGN;
}

/* ---- Where they lie ---- */

static sl_status place_on_device(sli_binding *bound, int d) {
    const sl_plan *plan = bound->plan;
    sl_device device = plan->devices[d].device;
    size_t copied = 0, borrowed = 0;
    for (int w = 0; w < plan->n_weights; w++) {
        if (plan->weights[w].device != d)
            continue;
        const sli_weight_data *data = plan->weights[w].data;
        switch (way_of(bound, w)) {
        case IS_THERE:
            bound->weights.at[w] = sli_tensor_address(data->tensor);
            break;
        case IN_PLACE:
            bound->weights.at[w] = (char *)(uintptr_t)data->source.memory;
            borrowed += data->bytes;
            break;
        case BY_COPY:
            bound->weights.at[w] = NULL;
            copied += room_of(data);
        }
    }
    if (borrowed) {
        SL_TRY(sli_memory_borrow(device, borrowed, SL_MEMORY_WEIGHTS));
        bound->weights.borrowed_bytes[d] = borrowed;
    }
    if (!copied)
        return SL_OK;
    void *block;
    SL_TRY(bound->backend->ops->allocate(bound->backend, device.index, copied, SL_MEMORY_WEIGHTS, &block));
    bound->blocks[d][SL_MEMORY_WEIGHTS] = block;
    return SL_OK;
}

static void place_copies(sli_binding *bound) {
    const sl_plan *plan = bound->plan;
    for (int d = 0; d < plan->n_devices; d++) {
        char *at = bound->blocks[d][SL_MEMORY_WEIGHTS];
        for (int w = 0; w < plan->n_weights; w++)
            if (plan->weights[w].device == d && way_of(bound, w) == BY_COPY) {
                bound->weights.at[w] = at;
                at += room_of(plan->weights[w].data);
            }
    }
}

/* ---- Content ---- */

static void advance(loader *l, size_t bytes) {
    l->done += bytes;
    if (l->options->progress)
        l->options->progress(l->done, l->total, l->options->progress_user);
}

static sl_status read_piece(loader *l, const sli_weight_data *data, size_t offset, size_t bytes, const char **from) {
    if (data->source.memory) {
        *from = (const char *)data->source.memory + offset;
        return SL_OK;
    }
    if (!l->piece && !(l->piece = sl_malloc(PIECE)))
        return SL_OUT_OF_MEMORY;
    *from = l->piece;
    return data->source.read(data->source.user, offset, l->piece, bytes);
}

static sl_status copy_source(loader *l, const sli_weight_data *data, int index, char *at) {
    for (size_t offset = 0; offset < data->bytes;) {
        size_t bytes = data->bytes - offset < PIECE ? data->bytes - offset : PIECE;
        const char *from;
        sli_clear_error();
        sl_status status = read_piece(l, data, offset, bytes, &from);
        if (status == SL_OK)
            status = l->bound->platform->copy(index, at + offset, SLI_HOST, from, bytes);
        if (status != SL_OK)
            return sli_fail_within(status, "weight '%s', bytes %zu to %zu: ", data->name, offset, offset + bytes);
        offset += bytes;
        advance(l, bytes);
    }
    return SL_OK;
}

static sl_status copy_tensor(loader *l, const sli_weight_data *data, sl_device device, char *at) {
    sl_device from = sl_tensor_device(data->tensor);
    sl_status status = sli_copy(device, at, from, sli_tensor_address(data->tensor), data->bytes);
    if (status != SL_OK)
        return sli_fail_within(status, "weight '%s': ", data->name);
    advance(l, data->bytes);
    return SL_OK;
}

static sl_status load(loader *l, int w) {
    const sli_weight_data *data = weight_of(l->bound, w)->data;
    sl_device device = device_of(l->bound, w);
    bool has_data = l->bound->platform->capabilities & SLI_HAS_DATA;
    if (!has_data || way_of(l->bound, w) != BY_COPY) {
        advance(l, data->bytes);
        return SL_OK;
    }
    char *at = l->bound->weights.at[w];
    return data->tensor ? copy_tensor(l, data, device, at) : copy_source(l, data, device.index, at);
}

sl_status sli_weights_load(sli_binding *bound, const sli_bind_options *options) {
    const sl_plan *plan = bound->plan;
    loader l = {.bound = bound, .options = options};
    bound->weights.at = sl_calloc((size_t)plan->n_weights, sizeof *bound->weights.at);
    bound->weights.borrowed_bytes = sl_calloc((size_t)plan->n_devices, sizeof *bound->weights.borrowed_bytes);
    if (!bound->weights.at || !bound->weights.borrowed_bytes)
        return SL_OUT_OF_MEMORY;
    for (int d = 0; d < plan->n_devices; d++)
        SL_TRY(place_on_device(bound, d));
    place_copies(bound);
    for (int w = 0; w < plan->n_weights; w++)
        l.total += weight_of(bound, w)->data->bytes;
    sl_status status = SL_OK;
    for (int w = 0; w < plan->n_weights && status == SL_OK; w++)
        status = load(&l, w);
    sl_free(l.piece);
    return status;
}

void sli_weights_return(sli_binding *bound) {
    for (int d = 0; bound->weights.borrowed_bytes && d < bound->plan->n_devices; d++)
        if (bound->weights.borrowed_bytes[d])
            sli_memory_return(bound->plan->devices[d].device, bound->weights.borrowed_bytes[d], SL_MEMORY_WEIGHTS);
    sl_free(bound->weights.borrowed_bytes);
    sl_free(bound->weights.at);
}
