/* A payload cut into parts: a device of t threads. The thread that runs the payload opens a section and takes parts;
 * workers that have nothing else to do take parts too. It waits only for parts that somebody has begun, so a section
 * needs no second thread to end. Who takes which part changes no result: that is the op's promise.
 *
 *   ticket:  | generation | n_parts | next part |      taken by compare and exchange: a part is one thread's
 *
 * Threads: `run`, `user` and `c` are written by the section's owner before the ticket, and read by who has a part; the
 * owner does not go on before all of them are done. */
#include "cpu_internal.h"
#include "futex.h"
#include <string.h>

enum { PART_BITS = 20, MOST_PARTS = (1 << PART_BITS) - 1, SPINS = 2000, LARGE_COPY = 2 << 20, COPIERS = 4 };

static uint64_t next_of(uint64_t ticket) {
    return ticket & MOST_PARTS;
}

static uint64_t parts_of(uint64_t ticket) {
    return ticket >> PART_BITS & MOST_PARTS;
}

static bool take_part(sli_section *s, int *part, int *n_parts) {
    uint64_t t = atomic_load_explicit(&s->ticket, memory_order_acquire);
    while (next_of(t) < parts_of(t))
        if (atomic_compare_exchange_weak(&s->ticket, &t, t + 1)) {
            *part = (int)next_of(t);
            *n_parts = (int)parts_of(t);
            return true;
        }
    return false;
}

/* ---- Helping ---- */

static bool has_room(const sli_section *s) {
    uint64_t t = atomic_load_explicit(&s->ticket, memory_order_acquire);
    return next_of(t) < parts_of(t) && atomic_load(&s->helpers) < atomic_load(&s->most_helpers);
}

static sli_section *find_in(sli_server *w) {
    return w && has_room(&w->section) ? &w->section : NULL;
}

static sli_section *find_section(const sli_pool *p) {
    sli_section *found = NULL;
    if (atomic_load_explicit(&p->n_sections, memory_order_relaxed) == 0)
        return NULL;
    for (int i = 0; i < p->n_workers && !found; i++)
        found = find_in(atomic_load(&p->workers[i]));
    for (sli_cpu *c = sli_first_backend(p); c && !found; c = sli_next_backend(c))
        found = find_in(&c->driver);
    return found;
}

bool sli_can_help(const sli_pool *p) {
    return find_section(p) != NULL;
}

static void do_part(sli_section *s, int part, int n_parts) {
    s->run(part, n_parts, s->user);
    atomic_fetch_add(&s->done, 1);
    if (atomic_load(&s->sleeps))
        sli_futex_wake(&s->done);
}

bool sli_help(sli_server *w) {
    int part, n_parts;
    sli_section *s = find_section(w->pool);
    if (!s)
        return false;
    if (atomic_fetch_add(&s->helpers, 1) >= atomic_load(&s->most_helpers) || !take_part(s, &part, &n_parts)) {
        atomic_fetch_sub(&s->helpers, 1);
        return false;
    }
    sli_go_out(w, s->c);
    do
        do_part(s, part, n_parts);
    while (take_part(s, &part, &n_parts));
    atomic_fetch_sub(&s->helpers, 1);
    if (sli_come_back(w))
        sli_return_to_duty(w);
    return true;
}

/* ---- The owner ---- */

static void call_helpers(sli_server *w, int n) {
    if (atomic_load_explicit(&w->where, memory_order_relaxed) != SLI_OUT)
        return; /* short: over before a sleeper is awake */
    for (n -= atomic_fetch_add(&w->pool->pollers, 0); n > 0 && sli_wake_a_worker(w->pool, w->index + 1); n--) {
    }
}

static void wait_for_parts(sli_section *s, uint32_t n_parts) {
    for (int turn = 0; turn < SPINS && atomic_load(&s->done) < n_parts; turn++)
        sli_relax();
    atomic_store(&s->sleeps, true);
    for (uint32_t done; (done = atomic_load(&s->done)) < n_parts;)
        sli_futex_wait(&s->done, done, UINT64_MAX);
    atomic_store(&s->sleeps, false);
}

static void run_section(sli_cpu_lane *l, int helpers, int n_parts, void (*run)(int part, int n_parts, void *user),
                        void *user) {
    sli_section *s = &l->server->section;
    uint64_t generation = (atomic_load(&s->ticket) >> 2 * PART_BITS) + 1;
    int part;
    s->open = true;
    s->run = run;
    s->user = user;
    s->c = l->c;
    atomic_store(&s->done, 0);
    atomic_store(&s->most_helpers, helpers);
    atomic_store(&s->ticket, generation << 2 * PART_BITS | (uint64_t)n_parts << PART_BITS);
    atomic_fetch_add(&l->c->pool->n_sections, 1);
    call_helpers(l->server, helpers);
    while (take_part(s, &part, &n_parts))
        do_part(s, part, n_parts);
    atomic_fetch_sub(&l->c->pool->n_sections, 1);
    wait_for_parts(s, (uint32_t)n_parts);
    s->open = false;
}

void sli_cpu_parallel(sl_lane *lane, int n_parts, void (*run)(int part, int n_parts, void *user), void *user) {
    sli_cpu_lane *l = (sli_cpu_lane *)lane;
    int threads = lane->threads < n_parts ? lane->threads : n_parts;
    if (threads > 1 && n_parts <= MOST_PARTS && !l->server->section.open) {
        run_section(l, threads - 1, n_parts, run, user);
        return;
    }
    for (int part = 0; part < n_parts; part++) /* also a part that is cut again */
        run(part, n_parts, user);
}

typedef struct span {
    char *to;
    const char *from;
    size_t bytes;
} span;

static void copy_part(int part, int n_parts, void *user) {
    const span *s = user;
    size_t begin = s->bytes / (size_t)n_parts * (size_t)part, end = s->bytes / (size_t)n_parts * (size_t)(part + 1);
    if (part == n_parts - 1)
        end = s->bytes;
    memcpy(s->to + begin, s->from + begin, end - begin);
}

/* One core does not use all the bandwidth there is: workers that are free copy too. */
void sli_copy_in_parts(sli_cpu_lane *l, void *to, const void *from, size_t bytes) {
    int workers = l->c->pool->n_workers, copiers = workers < COPIERS ? workers : COPIERS;
    span s = {to, from, bytes};
    if (bytes < LARGE_COPY || copiers < 2)
        copy_part(0, 1, &s);
    else
        run_section(l, copiers - 1, 2 * copiers, copy_part, &s);
}
