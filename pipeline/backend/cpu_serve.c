/* Serving lanes: from the shards that a server keeps, lane by lane, entry by entry. Which server may keep what, and the
 * payloads that must not run while a shard is kept, are in cpu_shard.c and cpu_out.c; what a payload is, in
 * cpu_payload.c.
 *
 * Threads: everything here is done by the shard's keeper. `reached` of other lanes and `tail` are all that it reads of
 * what others write. */
#include "cpu_internal.h"

enum { MOST_IN_A_ROW = 16 }; /* payloads of a lane, then the others have their turn */

static bool computes(const sli_cpu_lane *l) {
    return l->from == l->to;
}

/* Copies that a payload has made ready come before the lane's next payload, unless both are over in no time. */
static int most_in_a_row(const sli_cpu_lane *l) {
    return computes(l) && !sli_is_tiny(l->c) ? 1 : MOST_IN_A_ROW;
}

static void raise_lane(sli_cpu_lane *l) {
    uint64_t value = ++l->recorded;
    if (l->times_ns)
        sli_put(&l->times_ns[value & l->times_mask], sli_is_modelled(l->c) ? l->time_ns : sli_now_ns());
    sli_show(&l->reached, value);
}

/* The modelled timeline goes on where the other's was at that value. */
static void take_time(sli_cpu_lane *l, const sli_cpu_lane *of, uint64_t value) {
    uint64_t then = sli_load(&of->times_ns[value & of->times_mask]);
    l->time_ns = then > l->time_ns ? then : l->time_ns;
}

/* False if the lane must wait, and says for what. */
static bool pass_wait(sli_cpu_lane *l, const sli_entry *e) {
    sli_cpu_lane *of = (sli_cpu_lane *)(e->what & (uintptr_t)SLI_ADDRESS);
    if (sli_see(&of->reached) < e->value) {
        sli_hold_lane(l, &of->reached, e->value);
        return false;
    }
    if (sli_is_modelled(l->c))
        take_time(l, of, e->value);
    return true;
}

void sli_finish_entry(sli_cpu_lane *l) {
    uint64_t head = sli_load(&l->head);
    if (l->queue[head & l->mask].what & SLI_THEN_RECORD)
        raise_lane(l);
    sli_show(&l->head, head + 1);
}

/* The payload at its head is for a worker that keeps nothing. */
static void leave_long(sli_server *w, sli_cpu_lane *l) {
    sli_hold_lane(l, &l->tail, 0);
    atomic_store_explicit(&l->is_long, true, memory_order_relaxed);
    w->met_long = true;
    w->pick = sli_better_pick(w, w->pick, l);
}

/* True if the lane got anywhere. */
static bool serve_lane(sli_server *w, sli_cpu_lane *l) {
    uint64_t begin = sli_load(&l->head), head = begin, tail = sli_see(&l->tail);
    sli_outcome outcome = SLI_DONE;
    if (atomic_load_explicit(&l->is_long, memory_order_relaxed))
        atomic_store_explicit(&l->is_long, false, memory_order_relaxed);
    for (int left = most_in_a_row(l);; head++) {
        if (head == tail) {
            l->was_empty = true;
            sli_hold_lane(l, &l->tail, head + 1);
            break;
        }
        const sli_entry *e = &l->queue[head & l->mask];
        unsigned kind = e->what & SLI_KIND;
        if (kind == SLI_WAIT) {
            if (!pass_wait(l, e))
                break;
            continue;
        }
        if (kind != SLI_RECORD && (outcome = sli_payload_serve(w, l, e)) != SLI_DONE)
            break;
        if (kind == SLI_RECORD || e->what & SLI_THEN_RECORD)
            raise_lane(l);
        if (--left == 0 || (w->own && sli_is_wanted(w->own))) {
            sli_hold_lane(l, &l->tail, 0);
            head++;
            break;
        }
    }
    sli_show(&l->head, head);
    if (outcome == SLI_LONG)
        leave_long(w, l);
    return head != begin;
}

bool sli_serve_shard(sli_server *w, sli_shard *s) {
    bool did = false;
    for (sli_cpu_lane *l = sli_first_lane(s); l; l = sli_next_lane(l))
        if (sli_lane_is_ready(l))
            did |= serve_lane(w, l);
    for (sli_cpu_lane *l = did ? sli_first_lane(s) : NULL; l && !computes(l); l = sli_next_lane(l))
        if (sli_lane_is_ready(l)) /* what a stage has made ready */
            serve_lane(w, l);
    return did;
}
