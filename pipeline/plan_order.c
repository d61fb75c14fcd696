/* The one rule of order, and the step that follows from it:
 *
 *     each reader of a buffer waits for the writer of the same micro-batch (of the same piece, where there are pieces),
 *     and the writer waits for each reader of the slot's last content: `depth` micro-batches (or pieces) before.
 *
 *     stage --writes--> [slots at maker] --reads--> copy --writes--> [slots at reader] --reads--> stage
 *
 * Proof that nothing can deadlock: sli_build_sort finds an order of one step in which whatever waits for something of
 * the same step stands behind it; all else waits for earlier steps. Lanes do their part of the step in this order, so
 * the oldest action that is not done can always be done. Where there is no order, there is no plan. */
#include "error.h"
#include "plan_build.h"

/* ---- Who touches which buffer ---- */

static sl_status index_accesses(sli_build *b) {
    const sl_plan *p = b->p;
    size_t n_buffers = (size_t)p->n_buffers, n = 0;
    for (int i = 0; i < p->n_payloads; i++)
        n += (size_t)p->payloads[i].n_operands;
    sl_free(b->access_first);
    sl_free(b->accesses);
    b->access_first = sl_calloc(n_buffers + 2, sizeof *b->access_first);
    b->accesses = sl_calloc(n, sizeof *b->accesses);
    if (!b->access_first || !b->accesses)
        return SL_OUT_OF_MEMORY;
    for (int i = 0; i < p->n_payloads; i++)
        for (int k = 0; k < p->payloads[i].n_operands; k++)
            if (p->payloads[i].operands[k].buffer >= 0)
                b->access_first[p->payloads[i].operands[k].buffer + 2]++;
    for (size_t i = 2; i <= n_buffers + 1;
         i++) /* [buffer + 1] is where its own begin; filling moves that to their end */
        b->access_first[i] += b->access_first[i - 1];
    for (int i = 0; i < p->n_payloads; i++)
        for (int k = 0; k < p->payloads[i].n_operands; k++) {
            const sli_plan_operand *o = &p->payloads[i].operands[k];
            if (o->buffer >= 0)
                b->accesses[b->access_first[o->buffer + 1]++] = (sli_access){i, o, k >= p->payloads[i].n_reads};
        }
    return SL_OK;
}

/* ---- Dependencies ---- */

static sl_status add_dep(sli_build *b, const sli_dep *dep) {
    if (!SLI_ROOM(b->deps, b->n_deps))
        return SL_OUT_OF_MEMORY;
    b->deps[b->n_deps++] = *dep;
    return SL_OK;
}

static sl_status apply_rule(sli_build *b, int buffer, const sli_access *w, const sli_access *r) {
    int64_t depth = b->p->buffers[buffer].depth, pieces = w->operand->pieces, distance = r->operand->distance;
    int64_t back = depth - w->operand->piece + r->operand->piece; /* in pieces, counted from the writer's micro-batch */
    if (w->operand->piece == r->operand->piece)
        SL_TRY(add_dep(b, &(sli_dep){.from = w->payload, .to = r->payload, .batches = distance, .buffer = buffer}));
    if (back % pieces)
        return SL_OK; /* never in the same slot, one content apart */
    return add_dep(b, &(sli_dep){.from = r->payload,
                                 .to = w->payload,
                                 .batches = back / pieces - distance,
                                 .buffer = buffer,
                                 .is_back = true});
}

static sl_status add_deps_of(sli_build *b, int buffer) {
    const sli_access *first = b->accesses + b->access_first[buffer], *end = b->accesses + b->access_first[buffer + 1];
    for (const sli_access *w = first; w < end; w++)
        for (const sli_access *r = first; r < end && w->writes; r++)
            if (!r->writes)
                SL_TRY(apply_rule(b, buffer, w, r));
    return SL_OK;
}

/* A ring closes on the host: the copies of what micro-batch k reads come after those of what k - groups has given. */
static sl_status add_ring(sli_build *b) {
    const sl_plan *p = b->p;
    for (int i = 0; i < p->n_payloads && p->options.groups; i++)
        for (int o = 0; o < p->n_payloads && p->payloads[i].operands[0].buffer < 0; o++) {
            const sli_payload *out = &p->payloads[o];
            if (out->kind == SLI_COPY && out->operands[out->n_reads].buffer < 0)
                SL_TRY(add_dep(b, &(sli_dep){.from = o, .to = i, .batches = p->options.groups, .buffer = -1}));
        }
    return SL_OK;
}

sl_status sli_build_deps(sli_build *b) {
    b->n_deps = 0;
    SL_TRY(index_accesses(b));
    for (int i = 0; i < b->p->n_buffers; i++)
        SL_TRY(add_deps_of(b, i));
    SL_TRY(add_ring(b));
    return sli_build_index(b);
}

sl_status sli_build_index(sli_build *b) {
    size_t n = (size_t)b->p->n_payloads, n_deps = (size_t)b->n_deps;
    void *old[] = {b->out_first, b->out, b->far, b->heap.entries};
    for (size_t i = 0; i < sizeof old / sizeof *old; i++)
        sl_free(old[i]);
    b->out_first = sl_calloc(n + 2, sizeof *b->out_first);
    b->out = sl_calloc(n_deps, sizeof *b->out);
    b->far = sl_calloc(n, sizeof *b->far);
    b->heap.entries = sl_calloc(n + n_deps + 1, sizeof *b->heap.entries);
    if (!b->out_first || !b->out || !b->far || !b->heap.entries)
        return SL_OUT_OF_MEMORY;
    for (size_t i = 0; i < n_deps; i++)
        b->out_first[b->deps[i].from + 2]++;
    for (size_t i = 2; i <= n + 1; i++)
        b->out_first[i] += b->out_first[i - 1];
    for (size_t i = 0; i < n_deps; i++)
        b->out[b->out_first[b->deps[i].from + 1]++] = (int)i;
    return SL_OK;
}

/* ---- The step ---- */

static sl_status count_steps(sli_build *b) {
    const sli_payload *payloads = b->p->payloads;
    for (int i = 0; i < b->n_deps; i++) {
        sli_dep *d = &b->deps[i];
        d->steps = d->batches + payloads[d->to].lag - payloads[d->from].lag;
        if (d->steps < 0)
            return sl_fail(
                SL_INVALID,
                "'%s' would wait for '%s' of a later step; give '%s' more slots (depth), or place its stages "
                "so that no lag is needed",
                payloads[d->to].name, payloads[d->from].name, d->buffer < 0 ? "it" : b->p->buffers[d->buffer].name);
    }
    return SL_OK;
}

static sl_status tell_no_order(const sli_build *b, const int *n_before) {
    for (int i = 0; i < b->n_deps; i++) {
        const sli_dep *d = &b->deps[i];
        if (d->steps == 0 && n_before[d->to] > 0 && n_before[d->from] > 0)
            return sl_fail(SL_INVALID,
                           "the step has no order: '%s' waits for '%s' of the same micro-batch, which waits for it; "
                           "this would deadlock: give the values between them more slots (depth)",
                           b->p->payloads[d->to].name, b->p->payloads[d->from].name);
    }
    return sl_fail(SL_INVALID, "the step has no order: this would deadlock");
}

/* Of those that wait for nothing more in the step, the first in the order of the payloads comes next. */
static sl_status sort(sli_build *b, int *n_before) {
    int n = 0;
    b->heap.n = 0;
    for (int i = 0; i < b->n_deps; i++)
        n_before[b->deps[i].to] += b->deps[i].steps == 0;
    for (int i = 0; i < b->p->n_payloads; i++)
        if (!n_before[i])
            sli_heap_push(&b->heap, i, i);
    while (b->heap.n) {
        int at = sli_heap_pop(&b->heap).item;
        b->position[at] = n;
        b->step[n++] = at;
        for (int k = b->out_first[at]; k < b->out_first[at + 1]; k++) {
            const sli_dep *d = &b->deps[b->out[k]];
            if (d->steps == 0 && --n_before[d->to] == 0)
                sli_heap_push(&b->heap, d->to, d->to);
        }
    }
    return n == b->p->n_payloads ? SL_OK : tell_no_order(b, n_before);
}

/* What a lane gives for nothing: each of its payloads after the one before, the first after the last of the last step.
 */
static sl_status add_lane_order(sli_build *b) {
    int *first = sl_calloc((size_t)b->p->n_lanes * 2, sizeof *first);
    if (!first)
        return SL_OUT_OF_MEMORY;
    int *last = first + b->p->n_lanes;
    sl_status status = SL_OK;
    for (int l = 0; l < 2 * b->p->n_lanes; l++)
        first[l] = -1;
    for (int n = 0; n < b->p->n_payloads && status == SL_OK; n++) {
        int at = b->step[n], lane = b->p->payloads[at].lane;
        if (first[lane] < 0)
            first[lane] = at;
        else
            status = add_dep(b, &(sli_dep){.from = last[lane], .to = at, .buffer = -1, .is_lane = true});
        last[lane] = at;
    }
    for (int l = 0; l < b->p->n_lanes && status == SL_OK; l++)
        status = add_dep(b, &(sli_dep){.from = last[l], .to = first[l], .steps = 1, .buffer = -1, .is_lane = true});
    sl_free(first);
    return status;
}

sl_status sli_build_sort(sli_build *b) {
    size_t n = (size_t)b->p->n_payloads;
    b->step = sl_calloc(n, sizeof *b->step);
    b->position = sl_calloc(n, sizeof *b->position);
    int *n_before = sl_calloc(n, sizeof *n_before);
    sl_status status = b->step && b->position && n_before ? count_steps(b) : SL_OUT_OF_MEMORY;
    if (status == SL_OK)
        status = sort(b, n_before);
    sl_free(n_before);
    SL_TRY(status);
    SL_TRY(add_lane_order(b));
    return sli_build_index(b);
}
