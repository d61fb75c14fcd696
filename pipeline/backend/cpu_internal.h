/* The CPU backend from the inside: what its files share.
 *
 *   driver ── enqueue ──> lanes (queues) <── shards ── kept by ── servers: workers of the pool, drivers that await
 *
 * A lane's actions lie in its queue: the driver writes entries and the tail, whoever serves it the head. Lanes of a
 * backend are dealt to shards by their device. A server keeps a shard for as long as it looks after it, so that many
 * small actions cost no atomic exchange each; payloads that are short and never block run while it is kept. For any
 * other payload the server takes the lane out of its shard, lets go of all that it keeps, and brings the lane back.
 *
 * There are no lists of waiters. A lane says which number it waits for to rise how far, and its shard's keeper looks.
 * What is ready and nobody's is found by the rule of duty:
 *
 *   A worker on duty looks at all shards again and again. One that leaves its duty (to park, or for a long payload)
 *   first lets go of its shards, then lowers `pollers`, and then, if it was the last one, looks once more: for what it
 *   finds, it stays or wakes another. So does the driver with what it does not serve itself.
 *
 * All that was done before one's lowering is seen by who lowers later, so the last one misses nothing: a record needs
 * no look at sleepers, and costs a store. */
#ifndef SLI_CPU_INTERNAL_H
#define SLI_CPU_INTERNAL_H

#include "backend.h"
#include "cpu_faults.h"
#include <pthread.h>

typedef _Atomic uint64_t sli_counter; /* one thread at a time stores, any loads */
typedef struct sli_cpu sli_cpu;
typedef struct sli_pool sli_pool;
typedef struct sli_shard sli_shard;
typedef struct sli_server sli_server;
typedef struct sli_cpu_lane sli_cpu_lane;

enum {
    SLI_LINE = 64,           /* bytes that move from core to core as one */
    SLI_SHORT_NS = 10000,    /* a payload that takes less is short */
    SLI_SHORT_COPY = 131072, /* bytes that are copied in less */
    SLI_TINY_NS = 300,       /* payloads that take less gain nothing from a second thread */
    SLI_COARSE_NS = 1500,    /* and those that take less are no reason to wake one */
    SLI_MEASURE_EACH = 64    /* one of so many short payloads of a stage is timed */
};

/* An action, or a payload and the record behind it: 16 bytes, since the queue crosses cores. */
typedef struct sli_entry {
    uintptr_t what; /* WAIT: the other lane; EXECUTE, COPY: the work. In the low bits the kind and a flag */
    uint64_t value; /* WAIT: how far; EXECUTE, COPY: the batch's address */
} sli_entry;
enum { SLI_KIND = 3, SLI_THEN_RECORD = 4, SLI_ADDRESS = ~7 };

typedef enum sli_outcome {
    SLI_DONE,
    SLI_LONG, /* not begun: not to be run while a shard is kept */
    SLI_LATER /* its modelled time is not over, or it hangs: the lane says what it waits for */
} sli_outcome;

typedef enum sli_phase { SLI_AT_START, SLI_IN_MODEL, SLI_HUNG } sli_phase; /* of the payload at a lane's head */

struct sli_cpu_lane {
    struct sl_lane base;
    sli_cpu *c;
    int from, to; /* devices or SLI_HOST; the same: it computes */
    int shard;
    sli_entry *queue;
    uint64_t mask;
    sli_counter *times_ns; /* of value v at v & times_mask, the last `kept` are; NULL: no times */
    uint64_t times_mask, kept;
    bool plain; /* payloads are calls and nothing else: no model, fault, poison or measure */
    bool corrupts;
    uint64_t hang_at, fail_at; /* payloads, from 1; 0: none */
    void *memory;              /* what is freed */

    _Alignas(SLI_LINE) sli_counter reached;

    /* The driver's. */
    _Alignas(SLI_LINE) sli_counter tail;
    uint64_t next, enqueued_record, head_seen;
    int rank; /* from 1, by the first action that was enqueued */
    sli_cpu_lane *next_touched;
    bool touched;
    sli_counter watched; /* SLI_NEVER: by nobody */

    /* Who looks after it reads these; who serves it writes them. */
    _Alignas(SLI_LINE) _Atomic(sli_counter *) on; /* it goes on when this has risen to `until` */
    sli_counter until;
    _Atomic bool is_long; /* at its head is a payload that no driver may run */
    _Atomic(sli_cpu_lane *) next_in_shard;
    sli_counter returned; /* times it was brought back */

    /* Who serves it alone. */
    _Alignas(SLI_LINE) sli_counter head;
    uint64_t recorded, taken_out;
    sli_phase phase;
    bool was_empty;
    uint64_t ran;       /* payloads, for faults */
    uint64_t time_ns;   /* on a modelled timeline */
    sli_server *server; /* that runs its payload */
    sli_counter busy_ns, payloads, bytes;
};

/* Lanes that are served together, copies before compute: a transfer that waits for a kernel hides nothing. */
struct sli_shard {
    _Alignas(SLI_LINE) _Atomic uintptr_t keeper; /* a server, + 1: a driver that is not in await; 0: nobody */
    _Atomic(sli_server *) asked_by;              /* is idle, and would take it */
    _Atomic(sli_cpu_lane *) first;
    sli_cpu *c;
    int index;
};

typedef struct sli_block { /* of device memory */
    int device;
    void *at;
    size_t bytes;
    sl_memory_category category;
} sli_block;

typedef enum sli_order { SLI_EAGER, SLI_LATEST, SLI_NEWEST, SLI_RANDOM } sli_order;

typedef struct sli_cost { /* what a stage's payloads took */
    const sli_stage_code *code;
    bool never_blocks;
    uint32_t rows; /* of the last measured; 0: none was */
    uint32_t unmeasured;
    uint64_t ns;
} sli_cost;

typedef struct sli_section { /* a payload cut into parts: cpu_parallel.c */
    _Alignas(SLI_LINE) _Atomic uint64_t ticket;
    _Atomic uint32_t done;
    _Atomic int helpers, most_helpers;
    _Atomic bool sleeps;
    void (*run)(int part, int n_parts, void *user);
    void *user;
    sli_cpu *c;
    bool open;
} sli_section;

typedef enum sli_where { SLI_HERE, SLI_OUT, SLI_ABANDONED } sli_where;

struct sli_server {
    sli_pool *pool;
    sli_cpu *own; /* a driver's backend; NULL: a worker */
    int index;    /* of a worker */
    pthread_t thread;
    void *memory;
    sli_server *next_abandoned;

    _Alignas(SLI_LINE) _Atomic uint32_t bell;
    _Atomic bool asleep;
    sli_counter wakes_at;
    sli_counter seen_version; /* of the pool's list of backends */
    _Atomic bool away;        /* parked or out: in no turn */
    _Atomic int where;        /* sli_where; out: in a long payload, and who closes its backend may abandon it */
    _Atomic(sli_cpu *) out_in;

    /* Its own. */
    _Alignas(SLI_LINE) sli_cpu_lane *pick; /* of the long ones, the next */
    unsigned turns;                        /* idle ones in a row */
    uint64_t idle_since;
    unsigned rotation, crowded;
    bool met_long;
    const sli_cpu *absent; /* a driver that was seen away, and since when */
    uint64_t absent_leaves;
    unsigned absent_turns;
    sli_section section;
};

struct sli_cpu {
    sli_backend base;
    sli_pool *pool;
    void *memory;
    _Atomic(sli_cpu *) next_in_pool;

    /* Constant once lanes run. */
    bool measure, poison, driver_serves;
    _Atomic bool is_modelled;
    sli_order order;
    uint64_t seed;
    int threads;
    double operations_per_s, link_bytes_per_s;
    uint64_t link_latency_ns;
    sli_faults faults;
    uint64_t enqueue_fails_at;
    sli_cpu_lane **lanes;
    int n_lanes, lane_capacity;
    sli_shard *shards;
    void *shard_memory;
    int n_shards;
    _Atomic int n_used_shards; /* with lanes, and those below them */
    sli_block *blocks;
    size_t n_blocks;
    _Atomic(struct sli_cost_table *) costs;
    struct sli_poison *poisons;
    struct sli_peer *peers;
    int n_peers;
    uint64_t n_allocations;
    sli_counter never; /* 0: what hangs waits for it */

    /* The driver's. */
    _Alignas(SLI_LINE) sli_server driver;
    uint64_t n_enqueues, n_unseen; /* in all; and since the pool was told or the driver awaited */
    int n_ranks;
    bool counted;                          /* among the running */
    _Alignas(SLI_LINE) sli_counter leaves; /* of await */
    sli_counter enqueued_ns;
    _Atomic(sli_cpu_lane *) target; /* of the await that is under way, or NULL */
    sli_counter target_value;
    _Atomic bool poked, is_lost;
    _Atomic bool awaits; /* orders other than eager: lanes move only then */
    _Atomic int n_watched;
    sli_backend *_Atomic watcher;

    /* Whoever serves. */
    _Alignas(SLI_LINE) sli_counter grain_ns; /* what a stage's payload takes, about */
    sli_counter parks;                       /* of the driver */
    _Alignas(SLI_LINE) _Atomic int n_hung;
    _Atomic bool is_busy; /* orders other than eager: a payload is under way */
    uint64_t pool_parks;  /* before it was opened */
    sli_cpu *next_abandoned;
};

/* Threads of a process that serve lanes. */
struct sli_pool {
    void *memory;
    int n_workers, n_cores;
    _Atomic(sli_server *) *workers;
    _Alignas(SLI_LINE) _Atomic int pollers; /* workers on duty */
    _Alignas(SLI_LINE) _Atomic int running; /* threads that are not asleep, drivers too */
    _Alignas(SLI_LINE) _Atomic(sli_cpu *) first;
    sli_counter version;
    _Atomic int n_backends;
    sli_counter clock_ns; /* what lanes in modelled time wait for; who has such lanes moves it */
    _Atomic bool stop;
    _Atomic int n_sections;
    _Alignas(SLI_LINE) sli_counter parks;
    sli_server *never_started; /* still looked at */
    bool has_abandoned;        /* workers */
    sli_pool *next_abandoned;
};

/* ---- Numbers that others read ---- */

static inline uint64_t sli_load(const sli_counter *c) {
    return atomic_load_explicit(c, memory_order_relaxed);
}

static inline uint64_t sli_see(const sli_counter *c) {
    return atomic_load_explicit(c, memory_order_acquire);
}

static inline void sli_put(sli_counter *c, uint64_t value) {
    atomic_store_explicit(c, value, memory_order_relaxed);
}

static inline void sli_show(sli_counter *c, uint64_t value) {
    atomic_store_explicit(c, value, memory_order_release);
}

static inline void sli_add(sli_counter *c, uint64_t value) {
    sli_put(c, sli_load(c) + value);
}

static inline void sli_relax(void) {
#if defined __x86_64__
    __builtin_ia32_pause();
#elif defined __aarch64__
    __asm__ volatile("yield");
#endif
}

static inline bool sli_is_modelled(const sli_cpu *c) {
    return atomic_load_explicit(&c->is_modelled, memory_order_relaxed);
}

/* Its payloads are: then one thread does them all. */
static inline bool sli_is_tiny(const sli_cpu *c) {
    uint64_t grain = sli_load(&c->grain_ns);
    return grain && grain < SLI_TINY_NS;
}

static inline int sli_n_shards(const sli_cpu *c) {
    return atomic_load_explicit(&c->n_used_shards, memory_order_acquire);
}

static inline sli_cpu_lane *sli_first_lane(const sli_shard *s) {
    return atomic_load_explicit(&s->first, memory_order_acquire);
}

static inline sli_cpu_lane *sli_next_lane(const sli_cpu_lane *l) {
    return atomic_load_explicit(&l->next_in_shard, memory_order_acquire);
}

static inline sli_cpu *sli_first_backend(const sli_pool *p) {
    return atomic_load_explicit(&p->first, memory_order_acquire);
}

static inline sli_cpu *sli_next_backend(const sli_cpu *c) {
    return atomic_load_explicit(&c->next_in_pool, memory_order_acquire);
}

/* The lane goes on when `on` has risen to `until`. */
static inline void sli_hold_lane(sli_cpu_lane *l, sli_counter *on, uint64_t until) {
    atomic_store_explicit(&l->on, on, memory_order_relaxed);
    sli_put(&l->until, until);
}

static inline bool sli_lane_is_ready(const sli_cpu_lane *l) {
    const sli_counter *on = atomic_load_explicit(&l->on, memory_order_relaxed);
    return sli_see(on) >= sli_load(&l->until);
}

static inline const sli_entry *sli_head_entry(const sli_cpu_lane *l) {
    return &l->queue[sli_load(&l->head) & l->mask];
}

/* ---- By file ---- */

/* cpu_enqueue.c, cpu_driver.c */
sl_status sli_cpu_enqueue(sli_backend *b, const sli_action *actions, size_t n);
sl_status sli_cpu_await(sli_backend *b, uint16_t lane, uint64_t value, uint64_t deadline_ns);
void sli_cpu_poke(sli_backend *b);
void sli_cpu_watch(sli_backend *b, uint16_t lane, uint64_t value, sli_backend *whom);
bool sli_is_reached(const sli_cpu *c); /* what the driver awaits */
bool sli_is_wanted(const sli_cpu *c);  /* the driver: poked, or reached */
void sli_tell(sli_cpu *c);             /* wakes the driver and pokes the watcher if it is time */

/* cpu_serve.c: true if something was done. */
bool sli_serve_shard(sli_server *w, sli_shard *s);
void sli_finish_entry(sli_cpu_lane *l); /* the payload at its head has ended */

/* cpu_shard.c */
bool sli_turn(sli_server *w);
bool sli_driver_turn(sli_server *d);
void sli_driver_is_back(sli_server *d);
void sli_driver_leaves(sli_server *d);
void sli_driver_gives_up(sli_cpu *c);
void sli_let_go_of(sli_server *w, sli_cpu *c);
void sli_let_go_of_all(sli_server *w);
/* Whether something is ready for it in shards that nobody keeps; if not, when the first modelled time there is over. */
bool sli_is_left(const sli_server *w, const sli_cpu *c, uint64_t *until_ns);

/* cpu_out.c */
void sli_run_outside(sli_server *w, sli_cpu_lane *l);
void sli_go_out(sli_server *w, sli_cpu *c);
bool sli_come_back(sli_server *w);
void sli_return_to_duty(sli_server *w);

/* cpu_payload.c */
sli_outcome sli_payload_serve(sli_server *w, sli_cpu_lane *l, const sli_entry *e);       /* by the shard's keeper */
sli_outcome sli_payload_run_outside(sli_server *w, sli_cpu_lane *l, const sli_entry *e); /* SLI_LATER: bring it back */
sli_cpu_lane *sli_better_pick(const sli_server *w, sli_cpu_lane *a, sli_cpu_lane *b);
void sli_move_bytes(bool corrupts, void *to, const void *from, size_t bytes);

/* cpu_parallel.c */
void sli_cpu_parallel(sl_lane *lane, int n_parts, void (*run)(int part, int n_parts, void *user), void *user);
void sli_copy_in_parts(sli_cpu_lane *l, void *to, const void *from, size_t bytes);
bool sli_help(sli_server *w);
bool sli_can_help(const sli_pool *p);

/* cpu_cost.c */
sl_status sli_cost_add(sli_cpu *c, const sli_stage_code *code);
sli_cost *sli_cost_find(const sli_cpu *c, const sli_stage_code *code); /* NULL: it was never added */
void sli_cost_free(sli_cpu *c);

/* cpu_order.c */
sl_status sli_order_parse(const char *text, sli_order *order, uint64_t *seed);
bool sli_order_allows(const sli_cpu *c); /* something may be begun now */
bool sli_serve_in_order(sli_server *w, sli_shard *s);

/* cpu_poison.c */
sl_status sli_poison_learn(sli_cpu *c, const sli_work *work);
void sli_poison_free(sli_cpu *c);
void sli_poison_before(sli_cpu *c, const sli_work *work);
void sli_poison_after(sli_cpu *c, const sli_work *work);

/* cpu_park.c */
bool sli_may_spin(sli_server *w);
void sli_pause(int turn); /* of whoever waits in a loop, not on the hot path */
void sli_park(sli_server *w);
void sli_park_driver(sli_server *d, uint64_t deadline_ns);
void sli_leave_duty(sli_server *w);
void sli_hand_over(sli_cpu *c); /* what the driver leaves: a worker on duty sees it, or one is woken */
bool sli_wake_a_worker(sli_pool *p, int first);
void sli_wake_driver(sli_server *d);
void sli_ring(sli_server *w);

/* cpu_pool.c */
sl_status sli_pool_retain(int n_workers, int n_cores, sli_pool **pool); /* the first to come says how many */
void sli_pool_release(sli_pool *p);
void sli_pool_add(sli_pool *p, sli_cpu *c);
bool sli_pool_remove(sli_cpu *c, uint64_t deadline_ns); /* false: some thread is still in it */
void sli_pool_abandon(sli_cpu *c);
int sli_see_backends(sli_server *w);          /* at a turn's start: how many there are */
void *sli_lines(size_t bytes, void **memory); /* zeroed, at a line's start; `*memory` is to be freed */

/* cpu_prepare.c, cpu_close.c, cpu_peer.c */
sl_status sli_cpu_lane_create(sli_backend *b, const sli_lane_desc *desc, uint16_t *lane);
void sli_cpu_lane_free(sli_cpu_lane *l);
sl_status sli_cpu_prepare(sli_backend *b, int device, const sli_work *work);
sl_status sli_cpu_close(sli_backend *b, uint64_t grace_ns);
bool sli_cpu_peer_works(sli_backend *b, int from, int to);

#endif
