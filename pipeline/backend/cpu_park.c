/* Spinning, parking and waking, by the rule of duty (cpu_internal.h).
 *
 * Threads: whoever wakes a sleeper counts it as running, and as on duty, before the call that wakes it: else the kernel
 * would have to find it a core while others spin on the cores that there are. `asleep` says who counts: it is
 * exchanged. */
#include "cpu_internal.h"
#include "futex.h"
#include <sched.h>
#include <time.h>

enum { LOOK_AT_CLOCK = 32 };
static const uint64_t spin_ns = 50000, short_spin_ns = 5000;

/* True for a while after the last work. If more threads run than there are cores, a driver parks at once, and a worker
 * soon: it may be a driver that is too many, and is about to park. */
bool sli_may_spin(sli_server *w) {
    sli_relax();
    bool too_many = atomic_load_explicit(&w->pool->running, memory_order_relaxed) > w->pool->n_cores;
    if (too_many && w->own)
        return false;
    if (++w->turns % LOOK_AT_CLOCK != 0)
        return true;
    uint64_t now = sli_now_ns();
    if (w->turns == LOOK_AT_CLOCK)
        w->idle_since = now;
    return now - w->idle_since < (too_many ? short_spin_ns : spin_ns);
}

void sli_pause(int turn) {
    if (turn < 256)
        sli_relax();
    else if (turn < 512)
        sched_yield();
    else
        nanosleep(&(struct timespec){0, turn < 1024 ? 20000 : 500000}, NULL);
}

/* ---- Waking ---- */

/* True if this call is the one that wakes it. */
static bool claim(sli_server *w) {
    if (!atomic_load(&w->asleep) || !atomic_exchange(&w->asleep, false))
        return false;
    atomic_fetch_add(&w->pool->running, 1);
    if (!w->own)
        atomic_fetch_add(&w->pool->pollers, 1);
    return true;
}

void sli_ring(sli_server *w) {
    claim(w);
    atomic_fetch_add(&w->bell, 1);
    sli_futex_wake(&w->bell);
}

void sli_wake_driver(sli_server *d) {
    if (!claim(d))
        return;
    atomic_fetch_add(&d->bell, 1);
    sli_futex_wake(&d->bell);
}

bool sli_wake_a_worker(sli_pool *p, int first) {
    for (int i = 0; i < p->n_workers; i++) {
        sli_server *w = atomic_load(&p->workers[(first + i) % p->n_workers]);
        if (!w || !claim(w))
            continue;
        atomic_fetch_add(&w->bell, 1);
        sli_futex_wake(&w->bell);
        return true;
    }
    return false;
}

/* ---- Sleeping ---- */

/* Whether somebody sleeps no longer than that: then no other need look at the clock. */
static bool is_watched(const sli_pool *p, const sli_server *but, uint64_t until_ns) {
    for (int i = 0; i < p->n_workers; i++) {
        const sli_server *w = atomic_load(&p->workers[i]);
        if (w && w != but && atomic_load(&w->asleep) && atomic_load(&w->wakes_at) <= until_ns)
            return true;
    }
    return false;
}

/* What is there for a worker to do, in all backends; if nothing is, until when. */
static bool look_once_more(const sli_server *w, uint64_t *until_ns) {
    const sli_pool *p = w->pool;
    bool left = atomic_load(&p->stop) || sli_can_help(p);
    for (sli_cpu *c = sli_first_backend(p); c; c = sli_next_backend(c)) {
        sli_tell(c);
        left = left || sli_is_left(w, c, until_ns);
    }
    return left;
}

void sli_leave_duty(sli_server *w) {
    uint64_t until_ns = SLI_NEVER;
    if (atomic_fetch_sub(&w->pool->pollers, 1) > 1)
        return;
    if (look_once_more(w, &until_ns) || (until_ns < SLI_NEVER && !is_watched(w->pool, w, until_ns)))
        sli_wake_a_worker(w->pool, w->index + 1);
}

void sli_park(sli_server *w) {
    sli_pool *p = w->pool;
    uint64_t until_ns = SLI_NEVER;
    uint32_t bell = atomic_load(&w->bell);
    sli_let_go_of_all(w);
    atomic_store(&w->wakes_at, SLI_NEVER);
    atomic_store(&w->asleep, true);
    atomic_fetch_sub(&p->running, 1);
    atomic_fetch_sub(&p->pollers, 1);
    if (!look_once_more(w, &until_ns)) {
        if (until_ns < SLI_NEVER && is_watched(p, w, until_ns))
            until_ns = SLI_NEVER;
        atomic_store(&w->wakes_at, until_ns);
        atomic_fetch_add(&p->parks, 1);
        atomic_store(&w->away, true);
        sli_futex_wait(&w->bell, bell, until_ns);
        atomic_store(&w->away, false);
    }
    claim(w);
    w->turns = 0;
}

/* ---- The driver ---- */

void sli_hand_over(sli_cpu *c) {
    uint64_t until_ns = SLI_NEVER;
    c->n_unseen = 0;
    if (atomic_fetch_add(&c->pool->pollers, 0) > 0)
        return;
    if (sli_is_left(&c->driver, c, &until_ns) || (until_ns < SLI_NEVER && !is_watched(c->pool, NULL, until_ns)))
        sli_wake_a_worker(c->pool, 0);
}

void sli_park_driver(sli_server *d, uint64_t deadline_ns) {
    sli_cpu *c = d->own;
    uint32_t bell = atomic_load(&d->bell);
    sli_let_go_of(d, c);
    atomic_store(&d->asleep, true);
    atomic_fetch_sub(&d->pool->running, 1);
    sli_hand_over(c);
    if (!sli_is_wanted(c)) {
        atomic_fetch_add(&c->parks, 1);
        sli_futex_wait(&d->bell, bell, deadline_ns);
    }
    claim(d);
    d->turns = 0;
}
