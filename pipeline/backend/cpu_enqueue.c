/* Enqueueing: actions become entries of their lanes' queues, and are published lane by lane. Never blocks, allocates or
 * locks: a lane's queue holds what its desc said, and more is a broken plan.
 *
 * Threads: the driver's alone; what it publishes with a lane's tail is the server's to read. */
#include "cpu_internal.h"
#include "error.h"

static bool is_full(sli_cpu_lane *l) {
    if (l->next - l->head_seen <= l->mask)
        return false;
    l->head_seen = sli_see(&l->head);
    return l->next - l->head_seen > l->mask;
}

static void touch(sli_cpu_lane *l, sli_cpu_lane **touched) {
    if (l->touched)
        return;
    l->touched = true;
    l->next_touched = *touched;
    *touched = l;
}

static sl_status refuse(const sli_cpu *c, const sli_action *a, const char *why) {
    const sli_cpu_lane *l = c->lanes[a->lane];
    return sl_fail(SL_LOST, "cpu: lane %d (%d -> %d): %s (record %llu is enqueued, the queue holds %llu actions)",
                   a->lane, l->from, l->to, why, (unsigned long long)l->enqueued_record,
                   (unsigned long long)l->mask + 1);
}

/* A record behind a payload that was not published yet rides in its entry. */
static bool rides(sli_cpu_lane *l) {
    if (!l->touched || l->next == sli_load(&l->tail))
        return false;
    sli_entry *last = &l->queue[(l->next - 1) & l->mask];
    if ((last->what & SLI_KIND) < SLI_EXECUTE || last->what & SLI_THEN_RECORD)
        return false;
    last->what |= SLI_THEN_RECORD;
    return true;
}

static sl_status push(sli_cpu *c, const sli_action *a, sli_cpu_lane **touched) {
    sli_cpu_lane *l = c->lanes[a->lane];
    if (a->kind == SLI_RECORD) {
        if (a->value != l->enqueued_record + 1)
            return refuse(c, a, "a record that is not the next one");
        l->enqueued_record++;
        if (rides(l))
            return SL_OK;
    }
    if (is_full(l))
        return refuse(c, a, "more actions than n_actions said");
    sli_entry *e = &l->queue[l->next++ & l->mask];
    if (a->kind == SLI_WAIT)
        *e = (sli_entry){(uintptr_t)c->lanes[a->of] | SLI_WAIT, a->value};
    else if (a->kind == SLI_RECORD)
        *e = (sli_entry){SLI_RECORD, a->value};
    else
        *e = (sli_entry){(uintptr_t)a->work | a->kind, (uintptr_t)a->batch};
    if (l->rank == 0)
        l->rank = ++c->n_ranks;
    touch(l, touched);
    return SL_OK;
}

static void publish(sli_cpu_lane *touched) {
    for (sli_cpu_lane *l = touched; l; l = l->next_touched) {
        l->touched = false;
        sli_show(&l->tail, l->next);
    }
}

/* Actions that pile up while the driver is busy elsewhere are not for it alone, unless they are tiny. */
static void nudge(sli_cpu *c) {
    uint64_t grain = sli_load(&c->grain_ns);
    if (c->order != SLI_EAGER || ++c->n_unseen < 2 || (grain && grain < SLI_COARSE_NS) ||
        atomic_load_explicit(&c->pool->pollers, memory_order_relaxed) > 0)
        return;
    sli_driver_gives_up(c);
    sli_hand_over(c);
    c->n_unseen = 1;
}

sl_status sli_cpu_enqueue(sli_backend *b, const sli_action *actions, size_t n) {
    sli_cpu *c = (sli_cpu *)b;
    sli_cpu_lane *touched = NULL;
    sl_status status = SL_OK;
    if (atomic_load_explicit(&c->is_lost, memory_order_relaxed))
        return sl_fail(SL_LOST, "cpu: enqueueing failed before; close the pipeline");
    bool fails = ++c->n_enqueues == c->enqueue_fails_at;
    if (c->order != SLI_EAGER)
        atomic_store(&c->awaits, false);
    for (size_t i = 0; i < (fails ? n / 2 : n) && status == SL_OK; i++)
        status = push(c, &actions[i], &touched);
    if (sli_is_modelled(c))
        sli_put(&c->enqueued_ns, sli_now_ns());
    publish(touched);
    if (fails && status == SL_OK)
        status = sl_fail(SL_LOST, "cpu: enqueueing fails, as the fault enqueue:%llu asks",
                         (unsigned long long)c->n_enqueues);
    if (status != SL_OK)
        atomic_store(&c->is_lost, true);
    else
        nudge(c);
    return status;
}
