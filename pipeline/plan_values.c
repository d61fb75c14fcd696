/* Second pass: a buffer for every value at its maker and at each device that reads it, a payload for every stage, and
 * what each touches. Copies are plan_copies.c's. The order of the payloads here decides where nothing else does: copies
 * of inputs in the order of their first readers, then each stage in the order of the user's calls, with the copies of
 * what it makes. */
#include "error.h"
#include "plan_build.h"
#include <stdarg.h>
#include <stdio.h>

char *sli_build_text(const char *format, ...) {
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return sl_strdup(text);
}

const char *sli_build_device_text(const sli_build *b, int device, char text[SL_DEVICE_TEXT]) {
    if (device != SLI_HOST)
        return sl_device_format(b->p->devices[device].device, text);
    return strcpy(text, "host");
}

/* ---- Bytes ---- */

sl_type sli_segments_type(void) {
    return (sl_type){SL_I32, {2, {SL_ROWS - SLI_ROWS_SEGMENTS, sizeof(sl_segment) / sizeof(int32_t)}}};
}

sl_status sli_build_extent(const sli_build *b, const sl_type *type, sli_extent *extent, size_t *slot_bytes) {
    const sl_shape *s = &type->shape;
    bool has_rows = s->dims[0] < 0;
    size_t bytes, rows = 1;
    SL_TRY(sl_row_bytes(type->dtype, has_rows && s->rank == 1 ? 1 : s->dims[s->rank - 1], &bytes));
    for (int d = has_rows; d + 1 < s->rank; d++)
        bytes *= (size_t)s->dims[d]; /* of one row: fits, as the graph has checked */
    *extent = (sli_extent){.rows = SLI_ROWS_FIXED, .bytes = bytes, .limit = SIZE_MAX};
    if (has_rows) {
        extent->rows = (int)(SL_ROWS - s->dims[0]);
        rows = b->p->max_rows[extent->rows];
    }
    if (__builtin_mul_overflow(bytes, rows, &bytes) || bytes > INT64_MAX / 2)
        return sl_fail(SL_OUT_OF_MEMORY, "a value of %zu rows of %zu bytes has more than 2^62; lower micro_batch_rows",
                       rows, extent->bytes);
    *slot_bytes = (bytes + SLI_ALIGNMENT - 1) / SLI_ALIGNMENT * SLI_ALIGNMENT;
    return SL_OK;
}

/* ---- Buffers and operands ---- */

sl_status sli_build_add_buffer(sli_build *b, const sli_buffer *buffer, bool fixed) {
    sl_plan *p = b->p;
    if (!buffer->name || !SLI_ROOM(p->buffers, p->n_buffers) || !SLI_ROOM(b->fixed, p->n_buffers) ||
        !SLI_ROOM(b->need, p->n_buffers)) {
        sl_free(buffer->name);
        return SL_OUT_OF_MEMORY;
    }
    p->buffers[p->n_buffers] = *buffer;
    b->fixed[p->n_buffers] = fixed;
    p->n_buffers++;
    return SL_OK;
}

static int given_depth(const sli_build *b, int value, int device) {
    if (value >= 0 && b->g->values[value].source_depth && b->p->stages[b->g->values[value].stage].device == device)
        return b->g->values[value].source_depth;
    for (int i = 0; i < b->g->n_depths; i++)
        if (b->g->depths[i].value == value && sl_device_equal(b->g->depths[i].device, b->p->devices[device].device))
            return b->g->depths[i].depth;
    return 0;
}

sl_status sli_build_add_slots(sli_build *b, int value, const sl_type *type, const char *name, int device, int hops,
                              sli_extent *extent) {
    char text[SL_DEVICE_TEXT];
    int given = given_depth(b, value, device), depth = given ? given : b->p->options.depth;
    sli_buffer buffer = {.device = device, .depth = depth ? depth : SLI_DEFAULT_DEPTH};
    buffer.why = given ? SLI_DEPTH_GRAPH : depth ? SLI_DEPTH_OPTION : SLI_DEPTH_DEFAULT;
    sl_status status = sli_build_extent(b, type, extent, &buffer.slot_bytes);
    if (status != SL_OK)
        return sli_fail_within(status, "'%s': ", name);
    buffer.name = hops ? sli_build_text("%s at %s", name, sli_build_device_text(b, device, text)) : sl_strdup(name);
    SL_TRY(sli_build_add_buffer(b, &buffer, depth != 0));
    return sli_build_add_at(b, value, (sli_at){.device = device, .index = b->p->n_buffers - 1, .hops = hops});
}

/* What is read stands before what is written. */
sl_status sli_build_add_operand(sli_build *b, int payload, const sli_plan_operand *operand, bool writes) {
    sli_payload *p = &b->p->payloads[payload];
    if (!SLI_ROOM(p->operands, p->n_operands))
        return SL_OUT_OF_MEMORY;
    int at = writes ? p->n_operands : p->n_reads;
    memmove(p->operands + at + 1, p->operands + at, (size_t)(p->n_operands - at) * sizeof *p->operands);
    p->operands[at] = *operand;
    p->n_operands++;
    p->n_reads += !writes;
    return SL_OK;
}

/* ---- Stages ---- */

static sl_status add_stage(sli_build *b, int stage) {
    sl_plan *p = b->p;
    int device = p->stages[stage].device;
    if (!SLI_ROOM(p->payloads, p->n_payloads))
        return SL_OUT_OF_MEMORY;
    sli_payload *payload = &p->payloads[p->n_payloads];
    *payload = (sli_payload){.kind = SLI_EXECUTE, .stage = stage, .device = device};
    payload->name = sl_strdup(p->stages[stage].name);
    b->stage_payload[stage] = p->n_payloads++;
    if (!payload->name)
        return SL_OUT_OF_MEMORY;
    return sli_build_lane(b, device, device, SLI_HOST - 1, &payload->lane);
}

static sl_status add_source(sli_build *b, int value) {
    const sli_graph_value *v = &b->g->values[value];
    sli_extent extent;
    return sli_build_add_slots(b, value, &v->type, v->name, b->p->stages[v->stage].device, 0, &extent);
}

/* Copies of what a stage makes: one for each other device that reads it, however many stages do so there. */
static sl_status add_edges_of(sli_build *b, int value) {
    bool has_alias = false;
    for (int i = 0; i < b->n_reads; i++) {
        int device = b->p->stages[b->reads[i].stage].device;
        if (b->reads[i].value != value)
            continue;
        has_alias |= device == b->p->stages[b->g->values[value].stage].device;
        if (sli_build_at(b, value, device) < 0)
            SL_TRY(sli_build_edge(b, value, device));
    }
    return has_alias ? sli_build_alias(b, value) : SL_OK;
}

static sl_status add_values_of(sli_build *b, int stage) {
    const sli_graph_stage *s = &b->g->stages[stage];
    for (int k = 0; k < s->n_ops; k++)
        for (int n = 0; n < b->g->ops[s->ops[k]].n_outputs; n++) {
            int value = b->g->ops[s->ops[k]].outputs[n];
            if (!b->is_external[value])
                continue;
            SL_TRY(add_source(b, value));
            SL_TRY(add_edges_of(b, value));
            for (int i = 0; i < b->g->n_outputs; i++)
                if (b->g->outputs[i].value == value)
                    SL_TRY(sli_build_output(b, i));
        }
    return SL_OK;
}

static sl_status add_inputs(sli_build *b) {
    for (int i = 0; i < b->n_reads; i++) {
        int value = b->reads[i].value, device = b->p->stages[b->reads[i].stage].device;
        bool from_host = value < 0 || b->g->values[value].kind == SLI_VALUE_INPUT;
        if (from_host && sli_build_at(b, value, device) < 0)
            SL_TRY(sli_build_input(b, value, device));
    }
    return SL_OK;
}

/* ---- What stages touch ---- */

static sl_status touch(sli_build *b, int value, int stage, bool writes, int *buffer) {
    sli_at at = b->at[sli_build_at(b, value, b->p->stages[stage].device)];
    sl_type type = value < 0 ? sli_segments_type() : b->g->values[value].type;
    sli_plan_operand operand = {.buffer = at.index, .pieces = 1};
    size_t slot_bytes;
    SL_TRY(sli_build_extent(b, &type, &operand.extent, &slot_bytes));
    *buffer = at.index;
    return sli_build_add_operand(b, b->stage_payload[stage], &operand, writes);
}

static sl_status touch_reads(sli_build *b) {
    for (int i = 0; i < b->n_reads; i++) {
        sli_read *r = &b->reads[i];
        r->hops = b->at[sli_build_at(b, r->value, b->p->stages[r->stage].device)].hops;
        SL_TRY(touch(b, r->value, r->stage, false, &r->buffer));
    }
    return SL_OK;
}

static sl_status touch_writes(sli_build *b) {
    int buffer;
    for (int v = 0; v < b->g->n_values; v++)
        if (b->is_external[v])
            SL_TRY(touch(b, v, b->g->values[v].stage, true, &buffer));
    return SL_OK;
}

sl_status sli_build_values(sli_build *b) {
    SL_TRY(add_inputs(b));
    for (int j = 0; j < b->p->n_stages; j++) {
        SL_TRY(add_stage(b, j));
        SL_TRY(add_values_of(b, j));
    }
    SL_TRY(touch_reads(b));
    return touch_writes(b);
}
