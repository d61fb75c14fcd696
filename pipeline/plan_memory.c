/* Where everything lies in each device's blocks, how many bytes that is by category, and whether the device has them:
 * known before anything is allocated or loaded. */
#include "error.h"
#include "memory.h"
#include "plan_build.h"
#include <stdio.h>

static uint64_t *category(sli_build *b, int device, sl_memory_category c) {
    return &b->p->devices[device].memory.by_category[c];
}

/* Moves `*end` on by `bytes`, aligned; false if that is more than any memory. */
static bool advance(uint64_t *end, uint64_t bytes) {
    bytes = (bytes + SLI_ALIGNMENT - 1) / SLI_ALIGNMENT * SLI_ALIGNMENT;
    *end = bytes > INT64_MAX / 2 || *end > INT64_MAX / 2 - bytes ? INT64_MAX : *end + bytes;
    return *end < INT64_MAX;
}

/* ---- States ---- */

static sl_status place_states(sli_build *b) {
    sl_plan *p = b->p;
    p->states = sl_calloc((size_t)b->g->n_states, sizeof *p->states);
    if (!p->states)
        return SL_OUT_OF_MEMORY;
    for (; p->n_states < b->g->n_states; p->n_states++) {
        const sli_graph_state *from = &b->g->states[p->n_states];
        sli_plan_state *s = &p->states[p->n_states];
        *s = (sli_plan_state){.name = sl_strdup(from->name),
                              .device = p->stages[from->stage].device,
                              .dtype = from->dtype,
                              .n_places = from->n_places,
                              .n_rows = from->n_rows,
                              .columns = from->columns};
        if (!s->name)
            return SL_OUT_OF_MEMORY;
        SL_TRY(sl_row_bytes(s->dtype, s->columns, &s->row_bytes));
        s->bytes = (size_t)(s->n_places * s->n_rows) * s->row_bytes; /* fits: the graph has checked */
        uint64_t *end = category(b, s->device, SL_MEMORY_STATE);
        s->offset = *end;
        if (!advance(end, s->bytes))
            return sl_fail(SL_OUT_OF_MEMORY, "the states of a device have more than 2^62 bytes; use fewer places");
    }
    return SL_OK;
}

/* ---- Slots ---- */

static sl_status place_slots(sli_build *b) {
    uint64_t pinned = 0;
    for (int i = 0; i < b->p->n_buffers; i++) {
        sli_buffer *buffer = &b->p->buffers[i];
        uint64_t *end = buffer->device == SLI_HOST ? &pinned : category(b, buffer->device, SL_MEMORY_SLOTS), bytes;
        buffer->offset = *end;
        if (__builtin_mul_overflow(buffer->slot_bytes, (uint64_t)buffer->depth, &bytes) || !advance(end, bytes))
            return sl_fail(SL_OUT_OF_MEMORY,
                           "'%s' has %d slots of %zu bytes, more than 2^62 in all; lower depth or micro_batch_rows",
                           buffer->name, buffer->depth, buffer->slot_bytes);
    }
    b->p->pinned_bytes = pinned;
    return SL_OK;
}

/* ---- Weights ---- */

/* A tensor that lies there already is used as it is. */
static sl_status count_weights(sli_build *b) {
    for (int i = 0; i < b->p->n_weights; i++) {
        const sli_plan_weight *w = &b->p->weights[i];
        sl_device device = b->p->devices[w->device].device;
        if (w->data->tensor && sl_device_equal(sl_tensor_device(w->data->tensor), device))
            continue;
        if (!advance(category(b, w->device, SL_MEMORY_WEIGHTS), w->data->bytes))
            return sl_fail(SL_OUT_OF_MEMORY, "the weights of a device have more than 2^62 bytes; use more devices");
    }
    return SL_OK;
}

/* ---- Does it fit? ---- */

/* What helps most: what the two largest categories suggest. */
static void list_knobs(const sl_memory_figures *f, char *text, size_t bytes) {
    int first = 0, second = -1;
    for (int c = 1; c < SL_MEMORY_CATEGORIES; c++)
        if (f->by_category[c] > f->by_category[first]) {
            second = first;
            first = c;
        } else if (second < 0 || f->by_category[c] > f->by_category[second])
            second = c;
    bool both = f->by_category[second] > 0;
    snprintf(text, bytes, "%s%s%s", sli_memory_knob((sl_memory_category)first), both ? ", or " : "",
             both ? sli_memory_knob((sl_memory_category)second) : "");
}

static sl_status tell_missing(sl_device device, const sl_memory_figures *need, const sl_memory_figures *now) {
    char name[SL_DEVICE_TEXT], holders[SLI_HOLDERS_TEXT], knobs[256];
    const char *knob = sli_memory_limit_knob(device.kind);
    uint64_t free_bytes = now->limit > now->allocated ? now->limit - now->allocated : 0;
    sli_memory_holders(need->by_category, holders);
    list_knobs(need, knobs, sizeof knobs);
    return sl_fail(
        SL_OUT_OF_MEMORY,
        "%s is too small for the plan: it needs %llu bytes (%s), %llu of its limit of %llu are free, %llu are "
        "missing. Move stages to other devices, %s%s%s",
        sl_device_format(device, name), (unsigned long long)need->peak, holders, (unsigned long long)free_bytes,
        (unsigned long long)now->limit, (unsigned long long)(need->peak - free_bytes), knobs, knob ? ", or raise " : "",
        knob ? knob : "");
}

static sl_status fits(sli_plan_device *device) {
    sl_memory_figures now, *need = &device->memory;
    SL_TRY(sl_memory_get(device->device, &now));
    need->limit = now.limit;
    for (int c = 0; c < SL_MEMORY_CATEGORIES; c++) {
        need->by_category[c] = (need->by_category[c] + SLI_ALIGNMENT - 1) / SLI_ALIGNMENT * SLI_ALIGNMENT;
        need->peak += need->by_category[c]; /* each below 2^62, so that six do not wrap */
    }
    need->allocated = need->reserved = need->peak;
    if (now.limit && (now.allocated > now.limit || need->peak > now.limit - now.allocated))
        return tell_missing(device->device, need, &now);
    return SL_OK;
}

static sl_status pinned_fits(const sl_plan *p) {
    sl_memory_figures now;
    sl_memory_get_pinned(&now);
    uint64_t free_bytes = now.limit > now.allocated ? now.limit - now.allocated : 0;
    if (!p->pinned_bytes || !now.limit || p->pinned_bytes <= free_bytes)
        return SL_OK;
    return sl_fail(SL_OUT_OF_MEMORY,
                   "pinned host memory is too small for the plan: staged copies need %zu bytes, %llu of its limit of "
                   "%llu are free, %llu are missing. Lower staging_bytes, or raise SLUICE_PINNED_MEMORY",
                   p->pinned_bytes, (unsigned long long)free_bytes, (unsigned long long)now.limit,
                   (unsigned long long)(p->pinned_bytes - free_bytes));
}

sl_status sli_build_memory(sli_build *b) {
    SL_TRY(place_states(b));
    SL_TRY(sli_build_inside(b));
    SL_TRY(place_slots(b));
    SL_TRY(count_weights(b));
    for (int d = 0; d < b->p->n_devices; d++)
        SL_TRY(fits(&b->p->devices[d]));
    return pinned_fits(b->p);
}
