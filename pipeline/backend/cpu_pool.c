/* The process's one pool of workers: its threads, the list of backends that they serve, and the end of both. How
 * workers park and are woken is in cpu_park.c.
 *
 * Threads: opening and closing hold the registry's lock; workers never do. Who takes a backend out of the list raises
 * the list's version; a worker says at each turn's start which version it has seen, and a worker that is away is in no
 * turn. So a backend is nobody's any more once each worker is away or has seen the version without it. */
#include "cpu.h"
#include "cpu_internal.h"
#include "error.h"
#include "memory.h"
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>

enum { TURNS = 64 };                        /* between two looks at the clock */
static const uint64_t turn_ns = 1000000000; /* the longest that a turn may take on a crowded machine */

static struct {
    pthread_mutex_t lock;
    sli_pool *pool;
    int users;
    sli_server *abandoned_workers; /* still pointed at: what they use is borrowed for good */
    sli_cpu *abandoned;
    sli_pool *abandoned_pools;
    uint64_t n_abandoned;
} registry = {.lock = PTHREAD_MUTEX_INITIALIZER};

void *sli_lines(size_t bytes, void **memory) {
    *memory = sl_calloc(1, bytes + SLI_LINE);
    return *memory ? (void *)(((uintptr_t)*memory + SLI_LINE - 1) & ~(uintptr_t)(SLI_LINE - 1)) : NULL;
}

/* ---- Threads ---- */

static void *work(void *user) {
    sli_server *w = user;
    char name[16];
    snprintf(name, sizeof name, "sluice cpu %d", w->index);
    prctl(PR_SET_NAME, name);
    prctl(PR_SET_TIMERSLACK, 1); /* modelled times end when they end */
    while (!atomic_load_explicit(&w->pool->stop, memory_order_relaxed)) {
        if (sli_turn(w) || sli_help(w))
            w->turns = 0;
        else if (!sli_may_spin(w))
            sli_park(w);
        if (atomic_load_explicit(&w->where, memory_order_relaxed) == SLI_ABANDONED)
            return NULL;
    }
    return NULL;
}

/* The program's signals are not for these threads. */
static int start_thread(sli_server *w) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(&w->thread, NULL, work, w);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return failed;
}

static bool start_worker(sli_pool *p, int index) {
    void *memory;
    sli_server *w = sli_lines(sizeof *w, &memory);
    if (!w)
        return false;
    w->pool = p;
    w->index = index;
    w->memory = memory;
    atomic_fetch_add(&p->pollers, 1);
    atomic_fetch_add(&p->running, 1);
    atomic_store(&p->workers[index], w); /* before it runs: who waits for all workers waits for it */
    if (start_thread(w) == 0)
        return true;
    atomic_store(&p->workers[index], NULL);
    atomic_fetch_sub(&p->pollers, 1);
    atomic_fetch_sub(&p->running, 1);
    w->next_abandoned = p->never_started;
    p->never_started = w;
    return false;
}

static int start_missing(sli_pool *p) {
    int n = 0;
    for (int i = 0; i < p->n_workers; i++)
        n += atomic_load(&p->workers[i]) || start_worker(p, i);
    return n;
}

/* ---- The pool ---- */

static void free_pool(sli_pool *p) {
    for (int i = 0; p->workers && i < p->n_workers; i++)
        if (atomic_load(&p->workers[i]))
            sl_free(atomic_load(&p->workers[i])->memory);
    for (sli_server *w = p->never_started, *next; w; w = next) {
        next = w->next_abandoned;
        sl_free(w->memory);
    }
    sl_free(p->workers);
    sl_free(p->memory);
}

/* Workers look at each other until the last one has ended; those that were abandoned may still look at the pool. */
static void stop_pool(sli_pool *p) {
    atomic_store(&p->stop, true);
    for (int i = 0; i < p->n_workers; i++) {
        sli_server *w = atomic_load(&p->workers[i]);
        if (!w)
            continue;
        sli_ring(w);
        pthread_join(w->thread, NULL);
    }
    if (!p->has_abandoned) {
        free_pool(p);
        return;
    }
    p->next_abandoned = registry.abandoned_pools;
    registry.abandoned_pools = p;
}

static sli_pool *make_pool(int n_workers, int n_cores) {
    void *memory;
    sli_pool *p = sli_lines(sizeof *p, &memory);
    if (!p)
        return NULL;
    p->memory = memory;
    p->n_workers = n_workers;
    p->n_cores = n_cores;
    p->workers = sl_calloc((size_t)n_workers, sizeof *p->workers);
    if (p->workers)
        return p;
    free_pool(p);
    return NULL;
}

sl_status sli_pool_retain(int n_workers, int n_cores, sli_pool **pool) {
    sl_status status = SL_OK;
    pthread_mutex_lock(&registry.lock);
    if (!registry.pool)
        registry.pool = make_pool(n_workers, n_cores);
    if (!registry.pool)
        status = SL_OUT_OF_MEMORY;
    else if (start_missing(registry.pool) == 0)
        status = sl_fail(SL_OUT_OF_MEMORY, "the host cannot start a thread for the pool of CPU workers");
    else
        registry.users++;
    if (registry.pool && registry.users == 0) {
        stop_pool(registry.pool);
        registry.pool = NULL;
    }
    *pool = registry.pool;
    pthread_mutex_unlock(&registry.lock);
    return status;
}

void sli_pool_release(sli_pool *p) {
    pthread_mutex_lock(&registry.lock);
    if (--registry.users == 0) {
        stop_pool(p);
        registry.pool = NULL;
    }
    pthread_mutex_unlock(&registry.lock);
}

/* ---- The backends that are served ---- */

int sli_see_backends(sli_server *w) {
    uint64_t version = atomic_load(&w->pool->version);
    if (version != sli_load(&w->seen_version))
        atomic_store(&w->seen_version, version);
    return atomic_load_explicit(&w->pool->n_backends, memory_order_relaxed);
}

void sli_pool_add(sli_pool *p, sli_cpu *c) {
    pthread_mutex_lock(&registry.lock);
    atomic_store(&c->next_in_pool, atomic_load(&p->first));
    atomic_store(&p->first, c);
    atomic_fetch_add(&p->n_backends, 1);
    pthread_mutex_unlock(&registry.lock);
}

static void unlink_backend(sli_pool *p, sli_cpu *c) {
    _Atomic(sli_cpu *) *at = &p->first;
    while (atomic_load(at) != c)
        at = &atomic_load(at)->next_in_pool;
    atomic_store(at, atomic_load(&c->next_in_pool));
    atomic_fetch_sub(&p->n_backends, 1);
}

/* In a turn that may have met the backend. */
static bool is_inside(const sli_server *w, const sli_cpu *c, uint64_t version) {
    (void)c;
    return w && !atomic_load(&w->away) && atomic_load(&w->seen_version) < version;
}

/* In a payload of the backend. */
static bool is_outside(const sli_server *w, const sli_cpu *c, uint64_t version) {
    (void)version;
    return w && atomic_load(&w->out_in) == c;
}

typedef bool (*is_in)(const sli_server *w, const sli_cpu *c, uint64_t version);

/* False at the deadline. */
static bool wait_for_workers(const sli_cpu *c, uint64_t version, is_in in, uint64_t deadline_ns) {
    for (int i = 0, turn = 0; i < c->pool->n_workers;) {
        if (!in(atomic_load(&c->pool->workers[i]), c, version)) {
            i++;
            continue;
        }
        if (++turn % TURNS == 0 && sli_now_ns() >= deadline_ns)
            return false;
        sli_pause(turn);
    }
    return true;
}

bool sli_pool_remove(sli_cpu *c, uint64_t deadline_ns) {
    sli_pool *p = c->pool;
    pthread_mutex_lock(&registry.lock);
    unlink_backend(p, c);
    uint64_t version = atomic_fetch_add(&p->version, 1) + 1;
    pthread_mutex_unlock(&registry.lock);
    uint64_t soon_ns = sli_after_ns(turn_ns); /* a turn is short: who was in one is outside then, or has left */
    bool left = wait_for_workers(c, version, is_inside, soon_ns > deadline_ns ? soon_ns : deadline_ns);
    return wait_for_workers(c, version, is_outside, deadline_ns) && left;
}

/* ---- What does not end ---- */

/* False if it came back just now. */
static bool abandon_worker(sli_server *w, const sli_cpu *c) {
    int out = SLI_OUT;
    return w && atomic_load(&w->out_in) == c && atomic_compare_exchange_strong(&w->where, &out, SLI_ABANDONED);
}

void sli_pool_abandon(sli_cpu *c) {
    sli_pool *p = c->pool;
    pthread_mutex_lock(&registry.lock);
    for (int i = 0; i < p->n_workers; i++) {
        sli_server *w = atomic_load(&p->workers[i]);
        if (!abandon_worker(w, c))
            continue;
        pthread_detach(w->thread);
        p->has_abandoned = true;
        w->next_abandoned = registry.abandoned_workers;
        registry.abandoned_workers = w;
        atomic_fetch_sub(&p->running, 1);
        atomic_store(&p->workers[i], NULL);
        start_worker(p, i);
    }
    c->next_abandoned = registry.abandoned;
    registry.abandoned = c;
    registry.n_abandoned++;
    pthread_mutex_unlock(&registry.lock);
}

uint64_t sli_cpu_abandoned(void) {
    pthread_mutex_lock(&registry.lock);
    uint64_t n = registry.n_abandoned;
    pthread_mutex_unlock(&registry.lock);
    return n;
}
