/* Payloads that do not run while a shard is kept: those that are long, or may block. Their lane is taken out of its
 * shard, which others may keep meanwhile, and is brought back when the payload has ended. If it does not end, whoever
 * closes the backend abandons this thread with it, and nobody else is held up. */
#include "cpu_internal.h"

/* Off duty, and in no turn: this thread may be away for long. */
void sli_go_out(sli_server *w, sli_cpu *c) {
    sli_let_go_of_all(w);
    sli_leave_duty(w);
    atomic_store(&w->out_in, c);
    atomic_store(&w->where, SLI_OUT);
    atomic_store(&w->away, true);
}

/* False if the backend was closed meanwhile and the thread abandoned: then nothing is touched any more. */
bool sli_come_back(sli_server *w) {
    int out = SLI_OUT;
    if (!atomic_compare_exchange_strong(&w->where, &out, SLI_HERE))
        return false;
    return true;
}

/* The backend may be gone after this. */
void sli_return_to_duty(sli_server *w) {
    atomic_store(&w->out_in, NULL);
    atomic_fetch_add(&w->pool->pollers, 1);
    atomic_store(&w->away, false);
}

void sli_run_outside(sli_server *w, sli_cpu_lane *l) {
    sli_cpu *c = l->c;
    const sli_entry *e = &l->queue[sli_load(&l->head) & l->mask];
    atomic_store_explicit(&l->is_long, false, memory_order_relaxed);
    sli_hold_lane(l, &l->returned, ++l->taken_out);
    if (c->order != SLI_EAGER)
        atomic_store(&c->is_busy, true);
    sli_go_out(w, c);
    sli_outcome outcome = sli_payload_run_outside(w, l, e);
    if (!sli_come_back(w))
        return;
    if (outcome == SLI_DONE)
        sli_finish_entry(l);
    sli_show(&l->returned, l->taken_out);
    if (c->order != SLI_EAGER)
        atomic_store(&c->is_busy, false);
    sli_return_to_duty(w);
}
