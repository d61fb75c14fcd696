/* Who keeps which shard, and what a server does with those it keeps: one turn of a worker, one of a driver.
 *
 * - A worker takes any shard that has something ready and is nobody's; its own share (that of its index) comes first.
 * - A driver takes them too, but for those with a payload that it must not run.
 * - Where payloads are tiny, one server has all shards of a backend: a hand-over would cost more than it gains.
 * - Where they are not, an idle worker asks for its share, and gets it if the keeper has more than one shard at work.
 * If nobody is there to ask, the keeper wakes one.
 * - The shards of a driver that is not in await stay its own for a moment: it will be back.
 *
 * Threads: `keeper` is exchanged from 0 and stored by the keeper; the rest of a shard's lanes is the keeper's. What is
 * read of other shards (has_ready) is a hint while somebody keeps them, and exact while nobody does. */
#include "cpu_internal.h"

enum { ABSENT_TURNS = 256, CROWDED_TURNS = 8 };

static uintptr_t keeper_of(const sli_shard *s) {
    return atomic_load_explicit(&s->keeper, memory_order_acquire);
}

static bool keeps(const sli_server *w, const sli_shard *s) {
    return atomic_load_explicit(&s->keeper, memory_order_relaxed) == (uintptr_t)w;
}

static bool try_take(sli_server *w, sli_shard *s, uintptr_t from) {
    return atomic_compare_exchange_strong(&s->keeper, &from, (uintptr_t)w);
}

static void let_go(sli_shard *s) {
    atomic_store_explicit(&s->keeper, 0, memory_order_release);
}

static sli_server *asker_of(const sli_shard *s) {
    return atomic_load_explicit(&s->asked_by, memory_order_relaxed);
}

static void set_asker(sli_shard *s, sli_server *w) {
    atomic_store_explicit(&s->asked_by, w, memory_order_relaxed);
}

/* What one asked for is for others too. */
static void ask_no_more(sli_server *w, sli_cpu *c) {
    for (int i = 0; i < sli_n_shards(c); i++)
        if (asker_of(&c->shards[i]) == w)
            set_asker(&c->shards[i], NULL);
}

void sli_let_go_of(sli_server *w, sli_cpu *c) {
    ask_no_more(w, c);
    for (int i = 0; i < sli_n_shards(c); i++)
        if (keeps(w, &c->shards[i]))
            let_go(&c->shards[i]);
}

void sli_let_go_of_all(sli_server *w) {
    for (sli_cpu *c = sli_first_backend(w->pool); c; c = sli_next_backend(c))
        sli_let_go_of(w, c);
}

typedef struct sight { /* what a look at a shard shows */
    bool ready, is_long;
} sight;

static sight look(const sli_shard *s) {
    sight seen = {false, false};
    for (sli_cpu_lane *l = sli_first_lane(s); l; l = sli_next_lane(l))
        if (sli_lane_is_ready(l)) {
            seen.ready = true;
            seen.is_long |= atomic_load_explicit(&l->is_long, memory_order_relaxed);
        }
    return seen;
}

/* A driver that is there is senior to all workers, a worker to those of higher index. */
static bool is_senior(uintptr_t keeper, const sli_server *w) {
    if (keeper == 0 || keeper == (uintptr_t)w || keeper & 1)
        return false;
    const sli_server *other = (const sli_server *)keeper;
    return !other->own && other->index < w->index;
}

static bool driver_is_there(const sli_cpu *c) {
    return c->driver_serves && atomic_load_explicit(&c->target, memory_order_relaxed) &&
           !atomic_load_explicit(&c->driver.asleep, memory_order_relaxed);
}

static bool is_left_to_a_senior(const sli_server *w, const sli_cpu *c) {
    if (!sli_is_tiny(c))
        return false;
    bool found = driver_is_there(c);
    for (int i = 0; i < sli_n_shards(c) && !found; i++)
        found = is_senior(keeper_of(&c->shards[i]), w);
    return found;
}

/* True if the driver has been away for so long that its shards are taken from it. */
static bool is_absent(sli_server *w, const sli_cpu *c) {
    uint64_t leaves = sli_load(&c->leaves);
    if (w->absent != c || w->absent_leaves != leaves || w->turns < w->absent_turns) {
        w->absent = c;
        w->absent_leaves = leaves;
        w->absent_turns = w->turns;
    }
    return w->turns - w->absent_turns > ABSENT_TURNS;
}

/* True if its share of the shards was given to it. It takes that also when nothing is ready: work is to come to it. */
static bool is_given(sli_server *w, sli_cpu *c, sli_shard *s, uintptr_t keeper) {
    bool is_kept = keeper && !(keeper & 1), is_idle = w->turns > 0 && !sli_is_tiny(c);
    if (is_kept && is_idle && !asker_of(s) && s->index == w->index % sli_n_shards(c))
        set_asker(s, w);
    if (is_kept || asker_of(s) != w)
        return false;
    set_asker(s, NULL);
    return try_take(w, s, keeper);
}

static bool worker_takes(sli_server *w, sli_cpu *c, sli_shard *s, uintptr_t keeper) {
    if (is_given(w, c, s, keeper))
        return true;
    if ((keeper && !(keeper & 1)) || asker_of(s))
        return false;
    sight seen = look(s);
    if (!seen.ready || (keeper && !is_absent(w, c)) || (!seen.is_long && is_left_to_a_senior(w, c)))
        return false;
    return try_take(w, s, keeper);
}

static bool driver_takes(sli_server *d, sli_shard *s, uintptr_t keeper) {
    if (is_given(d, d->own, s, keeper))
        return true;
    if (keeper || asker_of(s))
        return false;
    sight seen = look(s);
    return seen.ready && !seen.is_long && try_take(d, s, 0);
}

/* Gives away what was asked for, or wakes who would ask, where there is work for two. `busy`: shards in which something
 * was done at this turn. */
static void share(sli_server *w, sli_cpu *c, int busy) {
    if (busy < 2 || sli_is_tiny(c)) {
        w->crowded = 0;
        return;
    }
    for (int i = 0; i < sli_n_shards(c); i++) {
        sli_shard *s = &c->shards[i];
        if (keeps(w, s) && asker_of(s)) {
            let_go(s);
            return;
        }
    }
    int mine = w->own ? 0 : 1;
    if (++w->crowded < CROWDED_TURNS || atomic_load_explicit(&w->pool->pollers, memory_order_relaxed) > mine)
        return;
    w->crowded = 0;
    sli_wake_a_worker(w->pool, w->index + 1);
}

static bool serve_backend(sli_server *w, sli_cpu *c) {
    int busy = 0;
    for (int i = 0, n = sli_n_shards(c); i < n; i++) {
        sli_shard *s = &c->shards[(i + w->index) % n];
        uintptr_t keeper = keeper_of(s);
        if (keeper == (uintptr_t)w || worker_takes(w, c, s, keeper))
            busy += c->order == SLI_EAGER ? sli_serve_shard(w, s) : sli_serve_in_order(w, s);
    }
    sli_tell(c);
    if (busy && !w->pick && is_left_to_a_senior(w, c))
        sli_let_go_of(w, c);
    else if (busy && !w->pick)
        share(w, c, busy);
    return busy > 0;
}

/* Whose turn comes first changes with each long payload. */
static sli_cpu *begin_with(sli_server *w, int n) {
    sli_cpu *c = sli_first_backend(w->pool);
    for (unsigned skip = w->rotation % (unsigned)n; skip > 0 && c; skip--)
        c = sli_next_backend(c);
    return c;
}

bool sli_turn(sli_server *w) {
    bool did = false;
    int n = sli_see_backends(w);
    sli_cpu *c = n > 0 ? begin_with(w, n) : NULL;
    w->pick = NULL;
    for (int i = 0; i < n; i++, c = sli_next_backend(c)) {
        if (!c && !(c = sli_first_backend(w->pool)))
            break;
        if (sli_is_modelled(c))
            sli_put(&w->pool->clock_ns, sli_now_ns());
        did |= serve_backend(w, c);
    }
    if (!w->pick)
        return did;
    w->rotation++;
    sli_run_outside(w, w->pick);
    return true;
}

/* A driver's turn, in await. Payloads that it must not run it leaves to the pool. */
bool sli_driver_turn(sli_server *d) {
    sli_cpu *c = d->own;
    int busy = 0;
    d->met_long = false;
    d->pick = NULL;
    for (int i = 0; i < sli_n_shards(c); i++) {
        sli_shard *s = &c->shards[i];
        uintptr_t keeper = keeper_of(s);
        if (keeper == (uintptr_t)d || driver_takes(d, s, keeper))
            busy += sli_serve_shard(d, s);
    }
    sli_tell(c);
    if (!d->met_long) {
        share(d, c, busy);
        return busy > 0;
    }
    for (int i = 0; i < sli_n_shards(c); i++)
        if (keeps(d, &c->shards[i]) && look(&c->shards[i]).is_long)
            let_go(&c->shards[i]);
    sli_hand_over(c);
    return busy > 0;
}

/* What was marked at leaving is the driver's again, unless a worker took it. */
void sli_driver_is_back(sli_server *d) {
    for (int i = 0; i < sli_n_shards(d->own); i++) {
        sli_shard *s = &d->own->shards[i];
        if (keeper_of(s) == ((uintptr_t)d | 1))
            try_take(d, s, (uintptr_t)d | 1);
    }
}

void sli_driver_leaves(sli_server *d) {
    sli_show(&d->own->leaves, sli_load(&d->own->leaves) + 1);
    ask_no_more(d, d->own);
    for (int i = 0; i < sli_n_shards(d->own); i++)
        if (keeps(d, &d->own->shards[i]))
            atomic_store_explicit(&d->own->shards[i].keeper, (uintptr_t)d | 1, memory_order_release);
}

/* Also those that were left as an absent driver's. */
void sli_driver_gives_up(sli_cpu *c) {
    sli_driver_is_back(&c->driver);
    sli_let_go_of(&c->driver, c);
}

/* When the first modelled time in a shard is over, if that is before `*until_ns`. */
static void look_at_times(const sli_shard *s, uint64_t *until_ns) {
    const sli_counter *clock = &s->c->pool->clock_ns;
    for (sli_cpu_lane *l = sli_first_lane(s); l; l = sli_next_lane(l))
        if (atomic_load_explicit(&l->on, memory_order_relaxed) == clock && sli_load(&l->until) < *until_ns)
            *until_ns = sli_load(&l->until);
}

bool sli_is_left(const sli_server *w, const sli_cpu *c, uint64_t *until_ns) {
    if (!sli_order_allows(c))
        return false;
    for (int i = 0; i < sli_n_shards(c); i++) {
        const sli_shard *s = &c->shards[i];
        sight seen = keeper_of(s) ? (sight){false, false} : look(s);
        if (seen.ready && (seen.is_long || w->own || !is_left_to_a_senior(w, c)))
            return true;
        if (!keeper_of(s) && sli_is_modelled(c))
            look_at_times(s, until_ns);
    }
    return false;
}
