/* Virtual time. All that an action waits for is enqueued before it, so its end is known at once: enqueue is the whole
 * simulation, there is no queue and no thread. What is enqueued is reached. What things cost is said by the plan's
 * stages (stage.c) and by a topology (topology.c).
 *
 * The driver's thread writes, any thread reads timelines, times and figures: these are atomics that one thread stores.
 * The times of a lane are a ring with one entry more than the values that are kept, so that a reader who still finds
 * its value among the kept ones after it read the time has read the right one. */
#include "sim.h"
#include "error.h"
#include "memory.h"
#include <errno.h>
#include <semaphore.h>
#include <string.h>
#include <time.h>

typedef _Atomic uint64_t counter; /* one thread stores, any reads */

typedef struct sim_lane {
    uint64_t now_ns, value; /* the driver's own; `reached` is for the others */
    counter *times_ns;      /* [mask + 1], of value v at v & mask */
    uint64_t mask, kept;    /* the last `kept` values can be waited for */
    bool computes;
    double operations_per_s;
    sli_sim_link link;
    counter reached, busy_ns, payloads, bytes;
    uint64_t watched; /* SLI_NEVER: by nobody */
    sli_backend *watcher;
} sim_lane;

typedef struct block { /* allocated */
    int device;
    void *at;
    size_t bytes;
    sl_memory_category category;
} block;

typedef struct cost { /* of a stage by its cost rules */
    const sli_stage_code *code;
    uint32_t rows[SLI_ROW_COUNTS];
    double operations_per_s;
    uint64_t ns;
} cost;

enum { N_COSTS = 256 };

typedef struct sim {
    sli_backend base;
    const sli_topology *topology;
    sli_topology *own; /* of this backend alone; NULL: the process's */
    bool measure;
    uint64_t latest_ns; /* the driver's own */
    counter shown_latest_ns, parks;
    sim_lane *lanes;
    int n_lanes, lane_capacity, n_watched;
    block *blocks;
    size_t n_blocks;
    _Atomic int poked;
    sem_t pokes;
    cost costs[N_COSTS];
} sim;

static void raise(counter *c, uint64_t by) {
    atomic_store_explicit(c, atomic_load_explicit(c, memory_order_relaxed) + by, memory_order_relaxed);
}

/* ---- Open and close ---- */

static sl_status sim_close(sli_backend *b, uint64_t grace_ns) {
    sim *s = (sim *)b;
    (void)grace_ns; /* nothing ever runs */
    for (int l = 0; l < s->n_lanes; l++)
        sl_free(s->lanes[l].times_ns);
    for (size_t i = 0; i < s->n_blocks; i++)
        if (s->blocks[i].device != SLI_HOST)
            sli_memory_release((sl_device){SL_SIM, s->blocks[i].device}, s->blocks[i].at, s->blocks[i].bytes,
                               s->blocks[i].category);
    sem_destroy(&s->pokes);
    sli_topology_destroy(s->own);
    sl_free(s->lanes);
    sl_free(s->blocks);
    sl_free(s);
    return SL_OK;
}

static sl_status check_device(const sim *s, int device) {
    int count = sli_topology_count(s->topology);
    if (device < 0 || (count && device >= count))
        return sl_fail(SL_NO_DEVICE, "sim:%d is not there: the topology has %d devices", device, count);
    return SL_OK;
}

/* Devices of a topology of the backend's own have limits that the process does not know. */
static sl_status check_limit(const sim *s, int device, size_t bytes) {
    sli_sim_device d;
    size_t used = 0;
    sli_topology_get_device(s->topology, device, &d);
    for (size_t i = 0; i < s->n_blocks; i++)
        used += s->blocks[i].device == device ? s->blocks[i].bytes : 0;
    if (!s->own || !d.memory_bytes || (used <= d.memory_bytes && bytes <= d.memory_bytes - used))
        return SL_OK;
    return sl_fail(SL_OUT_OF_MEMORY,
                   "sim:%d is out of memory: %zu bytes are asked for, %zu of its %llu are in use; raise memory_bytes "
                   "in the topology, lower micro_batch_rows or depth, or use more devices",
                   device, bytes, used, (unsigned long long)d.memory_bytes);
}

static sl_status sim_allocate(sli_backend *b, int device, size_t bytes, sl_memory_category category, void **at) {
    sim *s = (sim *)b;
    block *blocks = sl_realloc(s->blocks, (s->n_blocks + 1) * sizeof *blocks);
    if (!blocks)
        return SL_OUT_OF_MEMORY;
    s->blocks = blocks;
    if (device == SLI_HOST) {
        *at = sli_sim_addresses(bytes);
    } else {
        SL_TRY(check_device(s, device));
        SL_TRY(check_limit(s, device, bytes));
        SL_TRY(sli_memory_allocate((sl_device){SL_SIM, device}, bytes, category, at));
    }
    blocks[s->n_blocks++] = (block){device, *at, bytes, category};
    return SL_OK;
}

static bool sim_peer_works(sli_backend *b, int from, int to) {
    sli_sim_link link;
    if (from == to || from == SLI_HOST || to == SLI_HOST)
        return true;
    sli_topology_get_link(((sim *)b)->topology, from, to, &link);
    return link.peer;
}

static sl_status sim_prepare(sli_backend *b, int device, const sli_work *work) {
    (void)b, (void)device, (void)work;
    return SL_OK;
}

static sl_status grow_lanes(sim *s) {
    if (s->n_lanes < s->lane_capacity)
        return SL_OK;
    int capacity = s->lane_capacity ? 2 * s->lane_capacity : 16;
    sim_lane *lanes = sl_realloc(s->lanes, (size_t)capacity * sizeof *lanes);
    if (!lanes)
        return SL_OUT_OF_MEMORY;
    s->lanes = lanes;
    s->lane_capacity = capacity;
    return SL_OK;
}

static sl_status sim_lane_create(sli_backend *b, const sli_lane_desc *desc, uint16_t *lane) {
    sim *s = (sim *)b;
    sli_sim_device device = {0};
    uint64_t entries = 2;
    if (s->n_lanes == SLI_MAX_LANES)
        return sl_fail(SL_UNSUPPORTED, "sim: more than %d lanes; use fewer devices or links", SLI_MAX_LANES);
    if (desc->from != SLI_HOST)
        SL_TRY(check_device(s, desc->from));
    if (desc->to != SLI_HOST)
        SL_TRY(check_device(s, desc->to));
    SL_TRY(grow_lanes(s));
    while (entries <= desc->n_events)
        entries *= 2;
    sim_lane *l = &s->lanes[s->n_lanes];
    *l = (sim_lane){.mask = entries - 1, .computes = desc->from == desc->to, .watched = SLI_NEVER};
    l->kept = desc->n_events ? desc->n_events : 1;
    l->times_ns = sl_calloc(entries, sizeof *l->times_ns);
    if (!l->times_ns)
        return SL_OUT_OF_MEMORY;
    if (l->computes)
        sli_topology_get_device(s->topology, desc->to, &device);
    else
        sli_topology_get_link(s->topology, desc->from, desc->to, &l->link);
    l->operations_per_s = device.operations_per_s;
    *lane = (uint16_t)s->n_lanes++;
    return SL_OK;
}

/* ---- Costs ---- */

static uint64_t execute_ns(sim *s, const sim_lane *l, const sli_action *a) {
    const sli_stage_code *code = a->work->code;
    if (code->timed)
        return sli_work_cost_ns(a->work, a->batch, 0);
    cost *c = &s->costs[((uintptr_t)code >> 4) % N_COSTS];
    if (c->code != code || c->operations_per_s != l->operations_per_s ||
        memcmp(c->rows, a->batch->rows, sizeof c->rows) != 0) {
        c->code = code;
        c->operations_per_s = l->operations_per_s;
        memcpy(c->rows, a->batch->rows, sizeof c->rows);
        c->ns = sli_work_cost_ns(a->work, a->batch, l->operations_per_s);
    }
    return c->ns;
}

static uint64_t copy_ns(sim_lane *l, const sli_action *a) {
    size_t bytes = sli_copy_bytes(a->work, a->batch);
    raise(&l->bytes, bytes);
    return bytes && !l->computes ? sli_sim_copy_ns(&l->link, bytes) : 0;
}

static void run_payload(sim *s, sim_lane *l, const sli_action *a) {
    const sli_batch *batch = a->batch;
    if (atomic_load_explicit(&batch->ticket->status, memory_order_relaxed) != SL_OK || sli_batch_is_empty(batch))
        return;
    uint64_t ns = a->work->code ? execute_ns(s, l, a) : copy_ns(l, a);
    l->now_ns += ns;
    raise(&l->payloads, 1);
    if (s->measure)
        raise(&l->busy_ns, ns);
    if (l->now_ns > s->latest_ns)
        s->latest_ns = l->now_ns;
}

/* ---- Running ---- */

static sl_status broken_wait(const sim *s, const sli_action *a) {
    return sl_fail(SL_LOST, "sim: lane %d waits for value %llu of lane %d, which is at %llu and keeps the last %llu",
                   a->lane, (unsigned long long)a->value, a->of, (unsigned long long)s->lanes[a->of].value,
                   (unsigned long long)s->lanes[a->of].kept);
}

static sl_status broken_record(const sim *s, const sli_action *a) {
    return sl_fail(SL_LOST, "sim: lane %d is to record %llu after %llu; expected one more", a->lane,
                   (unsigned long long)a->value, (unsigned long long)s->lanes[a->lane].value);
}

static void tell_watchers(sim *s) {
    for (sim_lane *l = s->lanes; l < s->lanes + s->n_lanes && s->n_watched; l++)
        if (l->watched <= l->value) {
            l->watched = SLI_NEVER;
            s->n_watched--;
            l->watcher->ops->poke(l->watcher);
        }
}

static sl_status run(sim *s, const sli_action *actions, size_t n) {
    for (const sli_action *a = actions; a < actions + n; a++) {
        sim_lane *l = &s->lanes[a->lane];
        const sim_lane *of;
        uint64_t ns;
        switch (a->kind) {
        case SLI_WAIT:
            of = &s->lanes[a->of];
            if (of->value - a->value >= of->kept) { /* also true where value is not reached */
                if (a->value == 0)
                    break;
                return broken_wait(s, a);
            }
            ns = atomic_load_explicit(&of->times_ns[a->value & of->mask], memory_order_relaxed);
            l->now_ns = ns > l->now_ns ? ns : l->now_ns;
            break;
        case SLI_RECORD:
            if (a->value != l->value + 1)
                return broken_record(s, a);
            l->value = a->value;
            atomic_store_explicit(&l->times_ns[a->value & l->mask], l->now_ns, memory_order_release);
            atomic_store_explicit(&l->reached, a->value, memory_order_release);
            break;
        default:
            run_payload(s, l, a);
        }
    }
    return SL_OK;
}

static sl_status sim_enqueue(sli_backend *b, const sli_action *actions, size_t n) {
    sim *s = (sim *)b;
    sl_status status = run(s, actions, n);
    atomic_store_explicit(&s->shown_latest_ns, s->latest_ns, memory_order_release);
    if (s->n_watched)
        tell_watchers(s);
    return status;
}

static uint64_t sim_reached(sli_backend *b, uint16_t lane) {
    return atomic_load_explicit(&((sim *)b)->lanes[lane].reached, memory_order_acquire);
}

/* Until the deadline or a post; true for a post. */
static bool wait_for_post(sem_t *posts, uint64_t deadline_ns) {
    struct timespec at = {.tv_sec = (time_t)(deadline_ns / 1000000000), .tv_nsec = (long)(deadline_ns % 1000000000)};
    int failed;
    do
        failed = deadline_ns == SLI_NEVER ? sem_wait(posts) : sem_clockwait(posts, CLOCK_MONOTONIC, &at);
    while (failed && errno == EINTR);
    return !failed;
}

/* What is not reached now is not enqueued, and the thread that could do it is in here: only a poke can end it. */
static sl_status sim_await(sli_backend *b, uint16_t lane, uint64_t value, uint64_t deadline_ns) {
    sim *s = (sim *)b;
    if (sim_reached(b, lane) >= value)
        return SL_OK;
    if (!atomic_load(&s->poked))
        raise(&s->parks, 1);
    if (!wait_for_post(&s->pokes, deadline_ns))
        return SL_STALLED;
    atomic_exchange(&s->poked, 0); /* not a store: what any poke came after is seen here */
    return SL_OK;
}

static void sim_poke(sli_backend *b) {
    sim *s = (sim *)b;
    if (!atomic_exchange(&s->poked, 1)) /* one post for all pokes before the await that sees them */
        sem_post(&s->pokes);
}

static void sim_watch(sli_backend *b, uint16_t lane, uint64_t value, sli_backend *whom) {
    sim *s = (sim *)b;
    sim_lane *l = &s->lanes[lane];
    s->n_watched += l->watched == SLI_NEVER && value != SLI_NEVER;
    l->watched = value < l->watched ? value : l->watched;
    l->watcher = whom;
    if (s->n_watched)
        tell_watchers(s);
}

static sl_status sim_when(sli_backend *b, uint16_t lane, uint64_t value, uint64_t *ns) {
    sim_lane *l = &((sim *)b)->lanes[lane];
    uint64_t reached = sim_reached(b, lane);
    *ns = value ? atomic_load_explicit(&l->times_ns[value & l->mask], memory_order_acquire) : 0;
    if (value == 0 || (value <= reached && sim_reached(b, lane) - value < l->kept))
        return SL_OK;
    return sl_fail(SL_INVALID, "sim: value %llu of lane %d is not kept: it has reached %llu and keeps the last %llu",
                   (unsigned long long)value, lane, (unsigned long long)reached, (unsigned long long)l->kept);
}

static uint64_t sim_now_ns(sli_backend *b) {
    return atomic_load_explicit(&((sim *)b)->shown_latest_ns, memory_order_acquire);
}

static void sim_lane_figures(sli_backend *b, uint16_t lane, sli_lane_figures *figures) {
    sim_lane *l = &((sim *)b)->lanes[lane];
    *figures = (sli_lane_figures){.busy_ns = l->busy_ns, .payloads = l->payloads, .bytes = l->bytes};
}

static uint64_t sim_parks(sli_backend *b) {
    return ((sim *)b)->parks;
}

sl_status sli_sim_open(const sli_backend_options *options, sli_backend **backend) {
    static const sli_backend_ops ops = {
        .close = sim_close,
        .allocate = sim_allocate,
        .peer_works = sim_peer_works,
        .lane_create = sim_lane_create,
        .prepare = sim_prepare,
        .enqueue = sim_enqueue,
        .reached = sim_reached,
        .await = sim_await,
        .poke = sim_poke,
        .watch = sim_watch,
        .when = sim_when,
        .now_ns = sim_now_ns,
        .lane_figures = sim_lane_figures,
        .parks = sim_parks,
    };
    sim *s = sl_calloc(1, sizeof *s);
    if (!s)
        return SL_OUT_OF_MEMORY;
    *s = (sim){.base.ops = &ops, .topology = sli_sim_topology(), .measure = options->measure};
    const char *text = options->sim_topology;
    if (!s->topology || (text && *text)) {
        sl_status status = sli_topology_read(text, &s->own);
        if (status != SL_OK) {
            sl_free(s);
            return status;
        }
        s->topology = s->own;
    }
    sem_init(&s->pokes, 0, 0);
    *backend = &s->base;
    return SL_OK;
}
