/* The CPU backend: opening, memory, and the table. What a lane is and who serves it is told in cpu_internal.h. */
#include "cpu.h"
#include "cpu_internal.h"
#include "error.h"
#include "memory.h"
#include "settings.h"
#include <sched.h>
#include <string.h>
#include <unistd.h>

/* ---- Memory ---- */

static sl_status cpu_allocate(sli_backend *b, int device, size_t bytes, sl_memory_category category, void **at) {
    sli_cpu *c = (sli_cpu *)b;
    uint64_t n = ++c->n_allocations;
    if (n == sli_faults_at(&c->faults, SLI_FAULT_ALLOC, 0, 0))
        return sl_fail(SL_OUT_OF_MEMORY, "cpu:%d: no memory, as the fault alloc:%llu asks", device,
                       (unsigned long long)n);
    sli_block *blocks = sl_realloc(c->blocks, (c->n_blocks + 1) * sizeof *blocks);
    if (!blocks)
        return SL_OUT_OF_MEMORY;
    c->blocks = blocks;
    SL_TRY(device == SLI_HOST ? sli_pinned_allocate(bytes, at)
                              : sli_memory_allocate((sl_device){SL_CPU, device}, bytes, category, at));
    if (bytes)
        memset(*at, c->poison ? 0xff : 0, bytes);
    c->blocks[c->n_blocks++] = (sli_block){device, *at, bytes, category};
    return SL_OK;
}

/* ---- What is asked of it ---- */

static uint64_t cpu_reached(sli_backend *b, uint16_t lane) {
    return sli_see(&((sli_cpu *)b)->lanes[lane]->reached);
}

static sl_status cpu_when(sli_backend *b, uint16_t lane, uint64_t value, uint64_t *ns) {
    const sli_cpu_lane *l = ((sli_cpu *)b)->lanes[lane];
    uint64_t reached = sli_see(&l->reached);
    if (!l->times_ns)
        return sl_fail(SL_INVALID, "cpu: no times are kept; open the pipeline with `measure`");
    *ns = atomic_load_explicit(&l->times_ns[value & l->times_mask], memory_order_acquire);
    if (value > 0 && value <= reached && sli_see(&l->reached) - value < l->kept)
        return SL_OK;
    return sl_fail(SL_INVALID, "cpu: value %llu of lane %d is not kept: it has reached %llu and keeps the last %llu",
                   (unsigned long long)value, lane, (unsigned long long)reached, (unsigned long long)l->kept);
}

static uint64_t cpu_now_ns(sli_backend *b) {
    (void)b;
    return sli_now_ns();
}

static void cpu_lane_figures(sli_backend *b, uint16_t lane, sli_lane_figures *figures) {
    const sli_cpu_lane *l = ((sli_cpu *)b)->lanes[lane];
    *figures = (sli_lane_figures){
        .busy_ns = sli_load(&l->busy_ns), .payloads = sli_load(&l->payloads), .bytes = sli_load(&l->bytes)};
}

/* Workers serve all backends: their parks are everybody's. */
static uint64_t cpu_parks(sli_backend *b) {
    const sli_cpu *c = (const sli_cpu *)b;
    return atomic_load(&c->parks) + atomic_load(&c->pool->parks) - c->pool_parks;
}

/* ---- Opening ---- */

static const sli_backend_ops cpu_ops = {
    .close = sli_cpu_close,
    .allocate = cpu_allocate,
    .peer_works = sli_cpu_peer_works,
    .lane_create = sli_cpu_lane_create,
    .prepare = sli_cpu_prepare,
    .enqueue = sli_cpu_enqueue,
    .reached = cpu_reached,
    .await = sli_cpu_await,
    .poke = sli_cpu_poke,
    .watch = sli_cpu_watch,
    .when = cpu_when,
    .now_ns = cpu_now_ns,
    .lane_figures = cpu_lane_figures,
    .parks = cpu_parks,
};

static sl_status check_speed(const char *name, double value) {
    if (value == 0 || (value >= 1 && value <= 1e18))
        return SL_OK;
    return sl_fail(SL_INVALID, "sl_cpu_options: %s is %g; allowed is 1 to 1e18, and 0 for the setting of the process",
                   name, value);
}

static sl_status read_options(sli_cpu *c, const sli_backend_options *options, const sli_settings *s) {
    static const sli_backend_options no_options;
    static const sl_cpu_options no_cpu_options;
    const sli_backend_options *o = options ? options : &no_options;
    const sl_cpu_options *cpu = o->cpu ? o->cpu : &no_cpu_options;
    SL_TRY(check_speed("operations_per_s", cpu->operations_per_s));
    SL_TRY(check_speed("link_bytes_per_s", cpu->link_bytes_per_s));
    SL_TRY(sli_order_parse(cpu->order ? cpu->order : s->order, &c->order, &c->seed));
    SL_TRY(sli_faults_parse(cpu->faults ? cpu->faults : s->faults, s->cpu_devices, &c->faults));
    c->measure = o->measure;
    c->poison = cpu->poison || s->poison;
    c->threads = s->cpu_threads;
    c->operations_per_s = cpu->operations_per_s > 0 ? cpu->operations_per_s : s->cpu_operations_per_s;
    c->link_bytes_per_s = cpu->link_bytes_per_s > 0 ? cpu->link_bytes_per_s : s->link_bytes_per_s;
    c->link_latency_ns = cpu->link_latency_ns ? cpu->link_latency_ns : s->link_latency_ns;
    c->enqueue_fails_at = sli_faults_at(&c->faults, SLI_FAULT_ENQUEUE, 0, 0);
    bool modelled = c->operations_per_s > 0 || c->link_bytes_per_s > 0 || c->link_latency_ns > 0;
    atomic_store(&c->is_modelled, modelled);
    c->driver_serves = !modelled && c->order == SLI_EAGER;
    return SL_OK;
}

static int count_cores(void) {
    cpu_set_t cores;
    if (sched_getaffinity(0, sizeof cores, &cores) == 0)
        return CPU_COUNT(&cores);
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n > 0 ? (int)n : 1;
}

static sl_status make_shards(sli_cpu *c) {
    c->n_shards = c->order == SLI_EAGER ? c->pool->n_workers : 1;
    c->shards = sli_lines((size_t)c->n_shards * sizeof *c->shards, &c->shard_memory);
    for (int i = 0; c->shards && i < c->n_shards; i++) {
        c->shards[i].c = c;
        c->shards[i].index = i;
    }
    return c->shards ? SL_OK : SL_OUT_OF_MEMORY;
}

sl_status sli_cpu_backend_open(const sli_backend_options *options, sli_backend **backend) {
    const sli_settings *settings = sli_settings_get();
    void *memory;
    sl_status status = SL_OUT_OF_MEMORY;
    if (!settings)
        return SL_INVALID;
    sli_cpu *c = sli_lines(sizeof *c, &memory);
    if (!c)
        return status;
    c->base.ops = &cpu_ops;
    c->memory = memory;
    if ((status = read_options(c, options, settings)) != SL_OK)
        goto fail;
    if ((status = sli_pool_retain(settings->workers, count_cores(), &c->pool)) != SL_OK)
        goto fail;
    c->driver.pool = c->pool;
    c->driver.own = c;
    c->pool_parks = atomic_load(&c->pool->parks);
    if ((status = make_shards(c)) != SL_OK)
        goto fail_pool;
    sli_pool_add(c->pool, c);
    *backend = &c->base;
    return SL_OK;
fail_pool:
    sli_pool_release(c->pool);
fail:
    sl_free(memory);
    return status;
}
