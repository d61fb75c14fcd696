/* Which waits matter. A dependency is implied where another way from its start to its end crosses no more steps: kept
 * waits, and the order of lanes. The far-reaching ones are asked first; each is left out at once, so that what stays is
 * a least set: none of it is implied by the rest.
 *
 * Distances are never negative, and dependencies of no distance point forward in the step. So a search for a way of at
 * most `limit` steps turns back where only another step could lead back. */
#include "plan_build.h"
#include <stdlib.h>

enum { NOT_SEEN = -1 };

/* Payload `at` can still lead to `to` in `rest` steps. */
static bool within(const sli_build *b, int at, int to, int64_t rest) {
    return rest > 0 || (rest == 0 && (to < 0 || !b->position || b->position[at] <= b->position[to]));
}

/* The fewest steps, or micro-batches where lanes' order does not count, on a way, without dependency `but`, or one more
 * than `limit`. With `to` -1 all within the limit are reached: b->far [payloads] has them, NOT_SEEN where there is no
 * way. */
int64_t sli_build_distance(sli_build *b, int from, int to, int64_t limit, int but, bool in_steps) {
    for (int i = 0; i < b->p->n_payloads; i++)
        b->far[i] = NOT_SEEN;
    b->heap.n = 0;
    b->far[from] = 0;
    sli_heap_push(&b->heap, 0, from);
    while (b->heap.n) {
        sli_heap_entry e = sli_heap_pop(&b->heap);
        if (e.item == to)
            return e.key;
        if (e.key > b->far[e.item])
            continue; /* found a shorter way meanwhile */
        for (int k = b->out_first[e.item]; k < b->out_first[e.item + 1]; k++) {
            const sli_dep *d = &b->deps[b->out[k]];
            int64_t key = e.key + (in_steps ? d->steps : d->batches);
            if (b->out[k] == but || d->is_gone || (d->is_lane && !in_steps) ||
                (b->far[d->to] != NOT_SEEN && b->far[d->to] <= key) ||
                !within(b, d->to, in_steps ? to : -1, limit - key))
                continue;
            b->far[d->to] = key;
            sli_heap_push(&b->heap, key, d->to);
        }
    }
    return limit + 1;
}

typedef struct candidate {
    int64_t steps;
    int dep;
} candidate;

static int by_steps(const void *a, const void *c) {
    const candidate *x = a, *y = c;
    if (x->steps != y->steps)
        return x->steps < y->steps ? 1 : -1;
    return x->dep - y->dep;
}

sl_status sli_build_waits(sli_build *b) {
    candidate *candidates = sl_calloc((size_t)b->n_deps, sizeof *candidates);
    int n = 0;
    if (!candidates)
        return SL_OUT_OF_MEMORY;
    for (int i = 0; i < b->n_deps; i++)
        if (!b->deps[i].is_lane)
            candidates[n++] = (candidate){b->deps[i].steps, i};
    qsort(candidates, (size_t)n, sizeof *candidates, by_steps);
    for (int i = 0; i < n; i++) {
        sli_dep *d = &b->deps[candidates[i].dep];
        bool same_lane = b->p->payloads[d->from].lane == b->p->payloads[d->to].lane;
        if (b->extras.keep_implied && !same_lane)
            continue;
        d->is_gone = same_lane || sli_build_distance(b, d->from, d->to, d->steps, candidates[i].dep, true) <= d->steps;
        b->p->n_implied += d->is_gone;
    }
    sl_free(candidates);
    return SL_OK;
}

/* ---- How far ahead ---- */

/* How many micro-batches a payload can be ahead of an output's copy: what the slots between them hold. */
static void measure_slots(sli_build *b) {
    for (int i = 0; i < b->p->n_payloads; i++) {
        const sli_payload *payload = &b->p->payloads[i];
        if (payload->kind != SLI_COPY || payload->operands[payload->n_reads].buffer >= 0)
            continue;
        sli_build_distance(b, i, -1, INT64_MAX - 1, -1, false);
        for (int k = 0; k < b->p->n_payloads; k++)
            b->slots_hold = b->far[k] > b->slots_hold ? b->far[k] : b->slots_hold;
    }
}

/* The first payload of step k + n waits for the last of step k, where the slots hold n: both are enqueued before the
 * former can run if the host may be n + 1 steps ahead. Credits come back late by the time that the host needs, so a
 * micro-batch's latency must be covered twice: 2 * ceil(latency / period) - 1, and a micro-batch cannot have more
 * periods on its way than it has payloads to pass, or slots to lie in. Where nobody asked for a number there are more:
 * the host then wakes once for many small steps. */
void sli_build_credits(sli_build *b) {
    measure_slots(b);
    int64_t hold = b->slots_hold, way = b->longest_way < hold ? b->longest_way : hold;
    int64_t ahead = hold + 1 < SLI_CREDITS_WISHED ? hold + 1 : SLI_CREDITS_WISHED;
    ahead = ahead < 2 * way - 1 ? 2 * way - 1 : ahead;
    ahead += b->p->max_lag;
    if (!b->p->options.credits && ahead < SLI_CREDITS_LEAST)
        ahead = SLI_CREDITS_LEAST;
    b->p->credits = ahead > b->p->options.credits ? (uint32_t)ahead : b->p->options.credits;
    b->p->options.credits = b->p->credits;
    b->p->slots_hold = hold < UINT32_MAX ? (uint32_t)hold : UINT32_MAX;
    if (!b->p->options.window)
        b->p->options.window = b->p->slots_hold;
}
