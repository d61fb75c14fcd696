/* How many slots. Whoever gave a number gets it; all others have two, and more where fewer would stall a longer way:
 *
 *                    +--> copy -> 1 -> copy -> 2 -> copy --+
 *         stage 0 ---+                                     +---> stage 3        6 slots at the end of the skip:
 *                    +-------------> copy -----------------+                    3 copies, 2 stages and the reader
 *
 * While stage 3 reads micro-batch i, the way round it holds the next ones, one in each stage and each copy, and each of
 * them has left its value at the end of the skip already. The same holds where the shorter way has stages too: what it
 * lacks is put at its last edge. */
#include "error.h"
#include "plan_build.h"
#include <stdio.h>

/* ---- The longest way round ---- */

static int maker_of(const sli_build *b, const sli_read *r) {
    return r->value >= 0 ? b->g->values[r->value].stage : -1; /* inputs and segments have none */
}

/* way[s]: most payloads from stage `from`, which is not counted, to stage s, which is; -1: no way. */
static void longest_ways(sli_build *b, int from, int *way) {
    for (int s = 0; s < b->p->n_stages; s++)
        way[s] = s == from ? 0 : -1;
    for (int i = 0; i < b->n_reads; i++) { /* makers come first in it */
        const sli_read *r = &b->reads[i];
        int maker = maker_of(b, r);
        if (maker >= 0 && way[maker] >= 0 && way[maker] + r->hops + 1 > way[r->stage])
            way[r->stage] = way[maker] + r->hops + 1;
        if (way[r->stage] + 3 > b->longest_way) /* and the copy of an input, the first stage, the copy of an output */
            b->longest_way = way[r->stage] + 3;
    }
}

/* Above what can be on its way there is no use for slots: in a ring, as many micro-batches as there are groups; inside
 * a window, as many as it lets in, and beside them what `outside` of it can be filled. */
static void need(sli_build *b, int buffer, int slots, int outside) {
    const sl_plan_options *o = &b->p->options;
    if (o->groups && o->groups < (unsigned)slots)
        slots = (int)o->groups;
    if (o->window && (int64_t)o->window + outside < slots)
        slots = (int)o->window + outside;
    if (slots > SLI_MAX_DEPTH)
        slots = SLI_MAX_DEPTH;
    if (slots > b->need[buffer])
        b->need[buffer] = slots;
}

/* A slot is held from the last copy of the edge on; an alias's from its maker's start on. */
static void need_for_edges(sli_build *b, const int *way) {
    for (int i = 0; i < b->n_reads; i++) {
        const sli_read *r = &b->reads[i];
        int maker = maker_of(b, r);
        if (maker >= 0 && way[maker] >= 0)
            need(b, r->buffer, way[r->stage] - way[maker] - (r->hops > 1 ? r->hops - 1 : 0), 0);
    }
}

/* Inputs come from the host, which never stalls; but those of one device share a lane, where one that waits for a late
 * reader's slot would hold up the next one of an early reader. */
static void need_for_inputs(sli_build *b, const int *way, int *first_way) {
    for (int d = 0; d < b->p->n_devices; d++)
        first_way[d] = -1;
    for (int i = 0; i < b->n_reads; i++) {
        const sli_read *r = &b->reads[i];
        int *first = &first_way[b->p->stages[r->stage].device];
        if (maker_of(b, r) < 0 && way[r->stage] >= 0 && (*first < 0 || way[r->stage] < *first))
            *first = way[r->stage];
    }
    for (int i = 0; i < b->n_reads; i++) {
        const sli_read *r = &b->reads[i];
        if (maker_of(b, r) < 0 && way[r->stage] >= 0)
            need(b, r->buffer, 2 + way[r->stage] - first_way[b->p->stages[r->stage].device], 2);
    }
}

static void take_needs(sli_build *b) {
    for (int i = 0; i < b->p->n_buffers; i++) {
        sli_buffer *buffer = &b->p->buffers[i];
        if (b->fixed[i] || b->need[i] <= buffer->depth)
            continue;
        buffer->depth = b->need[i];
        buffer->why = SLI_DEPTH_WAY;
    }
}

/* ---- Windows ---- */

static sl_status add_span(sli_build *b, int first, int last) {
    if (!SLI_ROOM(b->spans, b->n_spans))
        return SL_OUT_OF_MEMORY;
    b->spans[b->n_spans++] = (sli_span){first, last};
    return SL_OK;
}

/* From a stage that reads no other, to each that no other reads and that it leads to. */
static sl_status find_spans(sli_build *b, const int *way, int from) {
    for (int s = 0; s < b->p->n_stages && b->is_first[from]; s++)
        if (b->is_last[s] && s != from && way[s] >= 0)
            SL_TRY(add_span(b, from, s));
    return SL_OK;
}

sl_status sli_build_depths(sli_build *b) {
    int *way = sl_calloc((size_t)b->p->n_stages, sizeof *way);
    int *first_way = sl_calloc((size_t)b->p->n_devices, sizeof *first_way);
    sl_status status = way && first_way ? SL_OK : SL_OUT_OF_MEMORY;
    for (int s = 0; s < b->p->n_stages && status == SL_OK; s++) {
        longest_ways(b, s, way);
        need_for_edges(b, way);
        need_for_inputs(b, way, first_way);
        if (b->p->options.window)
            status = find_spans(b, way, s);
    }
    if (status == SL_OK)
        take_needs(b);
    sl_free(way);
    sl_free(first_way);
    return status;
}

/* A buffer of tokens that the first stage writes and the last one reads; left out where the slots hold no more. */
static sl_status add_window(sli_build *b, const sli_span *span) {
    sl_plan *p = b->p;
    int first = b->stage_payload[span->first], last = b->stage_payload[span->last];
    int64_t window = p->options.window;
    if (sli_build_distance(b, last, first, window, -1, false) <= window)
        return SL_OK;
    sli_buffer buffer = {.device = p->stages[span->first].device, .depth = (int)window, .slot_bytes = 1};
    buffer.why = SLI_DEPTH_WINDOW;
    buffer.name = sli_build_text("window %s -> %s", p->stages[span->first].name, p->stages[span->last].name);
    SL_TRY(sli_build_add_buffer(b, &buffer, true));
    sli_plan_operand token = {.buffer = p->n_buffers - 1, .pieces = 1};
    token.extent = (sli_extent){.rows = SLI_ROWS_FIXED, .bytes = 1, .limit = SIZE_MAX};
    SL_TRY(sli_build_add_operand(b, first, &token, true));
    return sli_build_add_operand(b, last, &token, false);
}

sl_status sli_build_windows(sli_build *b) {
    int before = b->p->n_buffers;
    for (int i = 0; i < b->n_spans; i++)
        SL_TRY(add_window(b, &b->spans[i]));
    return b->p->n_buffers > before ? sli_build_deps(b) : SL_OK;
}

/* ---- Combinations of slots ---- */

static int64_t common_divisor(int64_t a, int64_t c) {
    while (c) {
        int64_t rest = a % c;
        a = c;
        c = rest;
    }
    return a > 0 ? a : 1;
}

/* After as many micro-batches a payload touches the same slots again; capped at one more than allowed. */
static int64_t works_of(const sl_plan *p, const sli_payload *payload) {
    int64_t n = 1;
    for (int i = 0; i < payload->n_operands; i++) {
        const sli_plan_operand *o = &payload->operands[i];
        if (o->buffer < 0)
            continue;
        int64_t depth = p->buffers[o->buffer].depth, period = depth / common_divisor(depth, o->pieces);
        n = n / common_divisor(n, period) * period;
        if (n > SLI_MAX_WORKS)
            return SLI_MAX_WORKS + 1;
    }
    return n;
}

static bool round_up(sli_build *b, int buffer) {
    sli_buffer *at = &b->p->buffers[buffer];
    int depth = 1;
    while (depth < at->depth)
        depth *= 2;
    if (b->fixed[buffer] || depth == at->depth)
        return false;
    at->depth = depth;
    at->why = SLI_DEPTH_ROUNDED;
    return true;
}

void sli_build_round_depths(sli_build *b) {
    for (bool changed = true; changed;) {
        changed = false;
        for (int i = 0; i < b->p->n_payloads; i++) {
            const sli_payload *payload = &b->p->payloads[i];
            if (works_of(b->p, payload) <= SLI_WORKS_WISHED)
                continue;
            for (int n = 0; n < payload->n_operands; n++)
                if (payload->operands[n].buffer >= 0)
                    changed |= round_up(b, payload->operands[n].buffer);
        }
    }
}

static sl_status tell_works(const sli_build *b, const sli_payload *payload) {
    char list[400];
    size_t n = 0;
    for (int i = 0; i < payload->n_operands && n < sizeof list - 1; i++) {
        const sli_plan_operand *o = &payload->operands[i];
        if (o->buffer < 0 || !b->fixed[o->buffer])
            continue;
        const sli_buffer *buffer = &b->p->buffers[o->buffer];
        int length = snprintf(list + n, sizeof list - n, "%s'%s' has %d", n ? ", " : "", buffer->name, buffer->depth);
        n = n + (size_t)length < sizeof list ? n + (size_t)length : sizeof list - 1;
    }
    return sl_fail(SL_INVALID,
                   "'%s' has more than %d combinations of slots: %s; give depths (and window) with common factors, or "
                   "leave them to the plan",
                   payload->name, SLI_MAX_WORKS, list);
}

sl_status sli_build_works(sli_build *b) {
    for (int i = 0; i < b->p->n_payloads; i++) {
        sli_payload *payload = &b->p->payloads[i];
        payload->n_works = (uint32_t)works_of(b->p, payload);
        if (payload->n_works > SLI_MAX_WORKS)
            return tell_works(b, payload);
    }
    return SL_OK;
}
