/* What the driver's thread waits in, and who ends it.
 *
 *   await ── reached? poked? ── serves what is short and never blocks ── spins a while ── parks until it is wanted
 *
 * Threads: `target` and its value are the driver's to write, and are read by who may have to wake it; `poked` is set by
 * anybody and exchanged by the driver; a watch is set by the driver and taken by who finds it reached. */
#include "cpu_internal.h"
#include "error.h"

enum { LOOK_AT_CLOCK = 16 };

bool sli_is_reached(const sli_cpu *c) {
    const sli_cpu_lane *l = atomic_load_explicit(&c->target, memory_order_relaxed);
    return l && sli_see(&l->reached) >= sli_load(&c->target_value);
}

bool sli_is_wanted(const sli_cpu *c) {
    return atomic_load(&c->poked) || sli_is_reached(c);
}

static void begin(sli_cpu *c, sli_cpu_lane *l, uint64_t value) {
    if (!c->counted)
        atomic_fetch_add(&c->pool->running, 1);
    c->counted = true;
    c->driver.turns = 0;
    sli_put(&c->target_value, value);
    atomic_store_explicit(&c->target, l, memory_order_release);
    if (c->driver_serves) {
        c->n_unseen = 0;
        sli_driver_is_back(&c->driver);
        return;
    }
    atomic_store(&c->awaits, true);
    sli_hand_over(c);
}

static void end(sli_cpu *c) {
    if (c->driver_serves)
        sli_driver_leaves(&c->driver);
    else if (c->order != SLI_EAGER)
        atomic_store(&c->awaits, false);
    atomic_store_explicit(&c->target, NULL, memory_order_relaxed);
}

static bool is_late(uint64_t deadline_ns) {
    return deadline_ns != SLI_NEVER && sli_now_ns() >= deadline_ns;
}

/* Until it is wanted or late. */
static sl_status wait(sli_cpu *c, uint64_t deadline_ns) {
    sli_server *d = &c->driver;
    for (unsigned turn = 0;; turn++) {
        if (sli_is_reached(c) || (atomic_load(&c->poked) && atomic_exchange(&c->poked, false)))
            return SL_OK;
        if (turn % LOOK_AT_CLOCK == 0 && is_late(deadline_ns))
            return SL_STALLED;
        if (c->driver_serves && sli_driver_turn(d)) {
            d->turns = 0;
        } else if (!sli_may_spin(d)) {
            sli_park_driver(d, deadline_ns);
            turn = LOOK_AT_CLOCK - 1;
        }
    }
}

sl_status sli_cpu_await(sli_backend *b, uint16_t lane, uint64_t value, uint64_t deadline_ns) {
    sli_cpu *c = (sli_cpu *)b;
    sli_cpu_lane *l = c->lanes[lane];
    if (sli_see(&l->reached) >= value)
        return SL_OK;
    if (atomic_load_explicit(&c->is_lost, memory_order_relaxed))
        return sl_fail(SL_LOST, "cpu: enqueueing failed before; close the pipeline");
    begin(c, l, value);
    sl_status status = wait(c, deadline_ns);
    end(c);
    return status;
}

void sli_cpu_poke(sli_backend *b) {
    sli_cpu *c = (sli_cpu *)b;
    atomic_store(&c->poked, true);
    sli_wake_driver(&c->driver);
}

/* ---- Who is told ---- */

static void tell_watcher(sli_cpu *c) {
    for (int i = 0; i < c->n_lanes; i++) {
        sli_cpu_lane *l = c->lanes[i];
        uint64_t watched = atomic_load(&l->watched);
        if (watched == SLI_NEVER || sli_see(&l->reached) < watched ||
            !atomic_compare_exchange_strong(&l->watched, &watched, SLI_NEVER))
            continue;
        atomic_fetch_sub(&c->n_watched, 1);
        sli_backend *whom = atomic_load(&c->watcher);
        whom->ops->poke(whom);
    }
}

void sli_tell(sli_cpu *c) {
    if (atomic_load_explicit(&c->driver.asleep, memory_order_acquire) && sli_is_wanted(c))
        sli_wake_driver(&c->driver);
    if (atomic_load_explicit(&c->n_watched, memory_order_acquire))
        tell_watcher(c);
}

void sli_cpu_watch(sli_backend *b, uint16_t lane, uint64_t value, sli_backend *whom) {
    sli_cpu *c = (sli_cpu *)b;
    sli_cpu_lane *l = c->lanes[lane];
    atomic_store(&c->watcher, whom);
    uint64_t before = atomic_load(&l->watched);
    if (value < before && atomic_exchange(&l->watched, value) == SLI_NEVER)
        atomic_fetch_add(&c->n_watched, 1);
    if (c->counted) /* it goes to await elsewhere */
        atomic_fetch_sub(&c->pool->running, 1);
    c->counted = false;
    atomic_store(&c->awaits, true);
    sli_driver_gives_up(c);
    sli_hand_over(c);
    sli_tell(c);
}
