/* The CPU backend, plain: one thread a backend does what can be done, lane by lane, under one lock.
 *
 * Threads: all fields are under `lock`; payloads run outside of it on the backend's thread, which alone moves lanes. */
#include "cpu.h"
#include "../error.h"
#include "../memory.h"
#include <pthread.h>
#include <string.h>
#include <time.h>

typedef struct cpu_lane {
    struct sl_lane base;
    sli_action *queue;
    uint64_t mask, head, tail, reached;
    uint64_t busy_ns, payloads, bytes;
    uint64_t watched; /* SLI_NEVER: by nobody */
} cpu_lane;

typedef struct block {
    int device;
    void *at;
    size_t bytes;
    sl_memory_category category;
} block;

typedef struct cpu {
    sli_backend base;
    pthread_mutex_t lock;
    pthread_cond_t moved; /* a lane, or what a thread waits for */
    pthread_t thread;
    bool measure, stop, poked;
    sli_backend *watcher;
    cpu_lane **lanes;
    block *blocks;
    size_t n_blocks;
    int n_lanes;
    uint64_t parks;
} cpu;

static void run_parts(sl_lane *lane, int n_parts, void (*run)(int part, int n_parts, void *user), void *user) {
    (void)lane;
    for (int part = 0; part < n_parts; part++)
        run(part, n_parts, user);
}

static void run_payload(cpu *c, cpu_lane *l, const sli_action *a) {
    uint64_t from = c->measure ? sli_now_ns() : 0;
    size_t bytes = 0;
    if (atomic_load(&a->batch->ticket->status) != SL_OK || sli_batch_is_empty(a->batch))
        return;
    pthread_mutex_unlock(&c->lock);
    if (a->kind == SLI_EXECUTE)
        sli_work_execute(a->work, a->batch, &l->base);
    else if ((bytes = sli_copy_bytes(a->work, a->batch)) > 0)
        memcpy(sli_operand_at(&a->work->operands[1], a->batch), sli_operand_at(&a->work->operands[0], a->batch), bytes);
    pthread_mutex_lock(&c->lock);
    l->busy_ns += c->measure ? sli_now_ns() - from : 0;
    l->payloads++;
    l->bytes += bytes;
}

static void poke_watcher(cpu *c, cpu_lane *l) {
    if (l->reached < l->watched)
        return;
    l->watched = SLI_NEVER;
    sli_backend *whom = c->watcher;
    pthread_mutex_unlock(&c->lock);
    whom->ops->poke(whom);
    pthread_mutex_lock(&c->lock);
}

static bool serve(cpu *c, cpu_lane *l) {
    bool did = false;
    for (; l->head < l->tail; l->head++, did = true) {
        const sli_action *a = &l->queue[l->head & l->mask];
        if (a->kind == SLI_WAIT) {
            if (c->lanes[a->of]->reached < a->value)
                break;
        } else if (a->kind == SLI_RECORD) {
            l->reached = a->value;
            poke_watcher(c, l);
        } else {
            run_payload(c, l, a);
        }
    }
    return did;
}

static void *work(void *user) {
    cpu *c = user;
    pthread_mutex_lock(&c->lock);
    while (!c->stop) {
        bool did = false;
        for (int i = 0; i < c->n_lanes; i++)
            did |= serve(c, c->lanes[i]);
        if (did) {
            pthread_cond_broadcast(&c->moved);
            continue;
        }
        c->parks++;
        pthread_cond_wait(&c->moved, &c->lock);
    }
    pthread_mutex_unlock(&c->lock);
    return NULL;
}

static bool drained(const cpu *c) {
    for (int i = 0; i < c->n_lanes; i++)
        if (c->lanes[i]->head < c->lanes[i]->tail)
            return false;
    return true;
}

/* False at the deadline. */
static bool wait_for_move(cpu *c, uint64_t deadline_ns) {
    struct timespec at = {(time_t)(deadline_ns / 1000000000u), (long)(deadline_ns % 1000000000u)};
    if (deadline_ns == SLI_NEVER)
        return pthread_cond_wait(&c->moved, &c->lock) == 0;
    return pthread_cond_timedwait(&c->moved, &c->lock, &at) == 0;
}

static sl_status cpu_close(sli_backend *b, uint64_t grace_ns) {
    cpu *c = (cpu *)b;
    uint64_t deadline_ns = sli_after_ns(grace_ns);
    pthread_mutex_lock(&c->lock);
    bool ended = drained(c);
    while (!ended && wait_for_move(c, deadline_ns))
        ended = drained(c);
    c->stop = ended;
    pthread_cond_broadcast(&c->moved);
    pthread_mutex_unlock(&c->lock);
    if (!ended)
        return SL_STALLED;
    pthread_join(c->thread, NULL);
    for (int i = 0; i < c->n_lanes; i++) {
        sl_free(c->lanes[i]->queue);
        sl_free(c->lanes[i]);
    }
    for (size_t i = 0; i < c->n_blocks; i++) {
        const block *k = &c->blocks[i];
        if (k->device == SLI_HOST)
            sli_pinned_release(k->at, k->bytes);
        else
            sli_memory_release((sl_device){SL_CPU, k->device}, k->at, k->bytes, k->category);
    }
    pthread_mutex_destroy(&c->lock);
    pthread_cond_destroy(&c->moved);
    sl_free(c->blocks);
    sl_free(c->lanes);
    sl_free(c);
    return SL_OK;
}

static sl_status cpu_allocate(sli_backend *b, int device, size_t bytes, sl_memory_category category, void **at) {
    cpu *c = (cpu *)b;
    block *blocks = sl_realloc(c->blocks, (c->n_blocks + 1) * sizeof *blocks);
    if (!blocks)
        return SL_OUT_OF_MEMORY;
    c->blocks = blocks;
    SL_TRY(device == SLI_HOST ? sli_pinned_allocate(bytes, at)
                              : sli_memory_allocate((sl_device){SL_CPU, device}, bytes, category, at));
    memset(*at, 0, bytes);
    c->blocks[c->n_blocks++] = (block){device, *at, bytes, category};
    return SL_OK;
}

static bool cpu_peer_works(sli_backend *b, int from, int to) {
    (void)b, (void)from, (void)to;
    return true;
}

static sl_status add_lane(cpu *c, cpu_lane *l, uint16_t *lane) {
    pthread_mutex_lock(&c->lock);
    cpu_lane **lanes = sl_realloc(c->lanes, (size_t)(c->n_lanes + 1) * sizeof *lanes);
    if (lanes) {
        c->lanes = lanes;
        *lane = (uint16_t)c->n_lanes;
        lanes[c->n_lanes++] = l;
    }
    pthread_mutex_unlock(&c->lock);
    return lanes ? SL_OK : SL_OUT_OF_MEMORY;
}

static sl_status cpu_lane_create(sli_backend *b, const sli_lane_desc *desc, uint16_t *lane) {
    cpu *c = (cpu *)b;
    uint64_t size = 16;
    while (size < desc->n_actions)
        size *= 2;
    if (c->n_lanes == SLI_MAX_LANES)
        return sl_fail(SL_UNSUPPORTED, "cpu: more than %d lanes; use fewer devices or links", SLI_MAX_LANES);
    cpu_lane *l = sl_calloc(1, sizeof *l);
    if (!l || !(l->queue = sl_calloc(size, sizeof *l->queue)))
        goto fail;
    l->mask = size - 1;
    l->watched = SLI_NEVER;
    l->base.device = (sl_device){SL_CPU, desc->to};
    l->base.threads = 1;
    l->base.parallel = run_parts;
    if (add_lane(c, l, lane) == SL_OK)
        return SL_OK;
    sl_free(l->queue);
fail:
    sl_free(l);
    return SL_OUT_OF_MEMORY;
}

static sl_status cpu_prepare(sli_backend *b, int device, const sli_work *prepared) {
    (void)b, (void)device, (void)prepared;
    return SL_OK;
}

static sl_status cpu_enqueue(sli_backend *b, const sli_action *actions, size_t n) {
    cpu *c = (cpu *)b;
    pthread_mutex_lock(&c->lock);
    for (const sli_action *a = actions; a < actions + n; a++) {
        cpu_lane *l = c->lanes[a->lane];
        l->queue[l->tail++ & l->mask] = *a;
    }
    pthread_cond_broadcast(&c->moved);
    pthread_mutex_unlock(&c->lock);
    return SL_OK;
}

static uint64_t cpu_reached(sli_backend *b, uint16_t lane) {
    cpu *c = (cpu *)b;
    pthread_mutex_lock(&c->lock);
    uint64_t value = c->lanes[lane]->reached;
    pthread_mutex_unlock(&c->lock);
    return value;
}

static sl_status cpu_await(sli_backend *b, uint16_t lane, uint64_t value, uint64_t deadline_ns) {
    cpu *c = (cpu *)b;
    sl_status status = SL_OK;
    pthread_mutex_lock(&c->lock);
    while (c->lanes[lane]->reached < value && !c->poked && status == SL_OK)
        if (!wait_for_move(c, deadline_ns))
            status = SL_STALLED;
    if (c->lanes[lane]->reached >= value)
        status = SL_OK;
    else if (status == SL_OK)
        c->poked = false;
    pthread_mutex_unlock(&c->lock);
    return status;
}

static void cpu_poke(sli_backend *b) {
    cpu *c = (cpu *)b;
    pthread_mutex_lock(&c->lock);
    c->poked = true;
    pthread_cond_broadcast(&c->moved);
    pthread_mutex_unlock(&c->lock);
}

static void cpu_watch(sli_backend *b, uint16_t lane, uint64_t value, sli_backend *whom) {
    cpu *c = (cpu *)b;
    pthread_mutex_lock(&c->lock);
    cpu_lane *l = c->lanes[lane];
    c->watcher = whom;
    l->watched = value < l->watched ? value : l->watched;
    poke_watcher(c, l);
    pthread_mutex_unlock(&c->lock);
}

static sl_status cpu_when(sli_backend *b, uint16_t lane, uint64_t value, uint64_t *ns) {
    (void)b, (void)ns;
    return sl_fail(SL_INVALID, "no time is kept of value %llu on lane %d", (unsigned long long)value, lane);
}

static uint64_t cpu_now_ns(sli_backend *b) {
    (void)b;
    return sli_now_ns();
}

static void cpu_lane_figures(sli_backend *b, uint16_t lane, sli_lane_figures *figures) {
    cpu *c = (cpu *)b;
    pthread_mutex_lock(&c->lock);
    const cpu_lane *l = c->lanes[lane];
    *figures = (sli_lane_figures){.busy_ns = l->busy_ns, .payloads = l->payloads, .bytes = l->bytes};
    pthread_mutex_unlock(&c->lock);
}

static uint64_t cpu_parks(sli_backend *b) {
    cpu *c = (cpu *)b;
    pthread_mutex_lock(&c->lock);
    uint64_t parks = c->parks;
    pthread_mutex_unlock(&c->lock);
    return parks;
}

static const sli_backend_ops cpu_ops = {
    .close = cpu_close,
    .allocate = cpu_allocate,
    .peer_works = cpu_peer_works,
    .lane_create = cpu_lane_create,
    .prepare = cpu_prepare,
    .enqueue = cpu_enqueue,
    .reached = cpu_reached,
    .await = cpu_await,
    .poke = cpu_poke,
    .watch = cpu_watch,
    .when = cpu_when,
    .now_ns = cpu_now_ns,
    .lane_figures = cpu_lane_figures,
    .parks = cpu_parks,
};

sl_status sli_cpu_backend_open(const sli_backend_options *options, sli_backend **backend) {
    cpu *c = sl_calloc(1, sizeof *c);
    if (!c)
        return SL_OUT_OF_MEMORY;
    c->base.ops = &cpu_ops;
    c->measure = options && options->measure;
    pthread_mutex_init(&c->lock, NULL);
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&c->moved, &monotonic);
    pthread_condattr_destroy(&monotonic);
    if (pthread_create(&c->thread, NULL, work, c)) {
        sl_free(c);
        return sl_fail(SL_OUT_OF_MEMORY, "the host cannot start another thread");
    }
    *backend = &c->base;
    return SL_OK;
}
