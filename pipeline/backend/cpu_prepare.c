/* What is made before anything runs: lanes, and what is known of works. Open time only. */
#include "cpu_internal.h"
#include "error.h"
#include <sluice/memory.h>

/* ---- Lanes ---- */

static uint64_t power_of_two(uint64_t least) {
    uint64_t n = 16;
    while (n < least)
        n *= 2;
    return n;
}

/* One entry more than are kept: a reader who still finds its value among them has read the right one. */
static sl_status keep_times(sli_cpu_lane *l) {
    uint64_t n = power_of_two(l->kept + 1);
    if (!l->times_ns)
        l->times_ns = sl_calloc(n, sizeof *l->times_ns);
    l->times_mask = n - 1;
    return l->times_ns ? SL_OK : SL_OUT_OF_MEMORY;
}

static void add_faults(const sli_cpu *c, sli_cpu_lane *l) {
    bool computes = l->from == l->to;
    l->corrupts = !computes && sli_faults_have(&c->faults, SLI_FAULT_CORRUPT, l->from, l->to);
    l->hang_at = sli_faults_at(&c->faults, computes ? SLI_FAULT_HANG : SLI_FAULT_HANG_LINK, l->from, l->to);
    l->fail_at = computes ? sli_faults_at(&c->faults, SLI_FAULT_STAGE, l->from, l->to) : 0;
}

static sli_cpu_lane *make_lane(sli_cpu *c, const sli_lane_desc *desc) {
    void *memory;
    sli_cpu_lane *l = sli_lines(sizeof *l, &memory);
    if (!l)
        return NULL;
    int device = desc->to == SLI_HOST ? desc->from : desc->to;
    l->base = (struct sl_lane){.device = {SL_CPU, device}, .threads = c->threads, .parallel = sli_cpu_parallel};
    l->memory = memory;
    l->c = c;
    l->from = desc->from;
    l->to = desc->to;
    l->mask = power_of_two(desc->n_actions) - 1;
    l->kept = desc->n_events ? desc->n_events : 1;
    l->was_empty = true;
    atomic_store(&l->watched, SLI_NEVER);
    sli_hold_lane(l, &l->tail, 1);
    add_faults(c, l);
    l->plain = !c->measure && !c->poison && !sli_is_modelled(c) && !l->hang_at && !l->fail_at;
    l->queue = sl_calloc(l->mask + 1, sizeof *l->queue);
    if (l->queue && (!(c->measure || sli_is_modelled(c)) || keep_times(l) == SL_OK))
        return l;
    sli_cpu_lane_free(l);
    return NULL;
}

void sli_cpu_lane_free(sli_cpu_lane *l) {
    sl_free(l->queue);
    sl_free((void *)l->times_ns);
    sl_free(l->memory);
}

static void add_to_shard(sli_cpu *c, sli_cpu_lane *l) {
    int index = l->shard = (l->from == SLI_HOST ? l->to : l->from) % c->n_shards;
    _Atomic(sli_cpu_lane *) *at = &c->shards[index].first;
    bool computes = l->from == l->to;
    for (sli_cpu_lane *other; (other = atomic_load(at)) && (computes || other->from != other->to);)
        at = &other->next_in_shard;
    atomic_store(&l->next_in_shard, atomic_load(at));
    atomic_store(at, l);
    if (index >= atomic_load(&c->n_used_shards))
        atomic_store(&c->n_used_shards, index + 1);
}

static sl_status check_ends(const sli_lane_desc *desc) {
    int n = sl_device_count(SL_CPU);
    if (desc->from >= SLI_HOST && desc->from < n && desc->to >= SLI_HOST && desc->to < n &&
        (desc->from != SLI_HOST || desc->to != SLI_HOST))
        return SL_OK;
    return sl_fail(SL_NO_DEVICE, "cpu: a lane from device %d to %d; there are %d CPU devices", desc->from, desc->to, n);
}

sl_status sli_cpu_lane_create(sli_backend *b, const sli_lane_desc *desc, uint16_t *lane) {
    sli_cpu *c = (sli_cpu *)b;
    if (c->n_lanes == SLI_MAX_LANES)
        return sl_fail(SL_UNSUPPORTED, "cpu: more than %d lanes; use fewer devices or links", SLI_MAX_LANES);
    SL_TRY(check_ends(desc));
    if (c->n_lanes == c->lane_capacity) {
        int capacity = c->lane_capacity ? 2 * c->lane_capacity : 16;
        sli_cpu_lane **lanes = sl_realloc(c->lanes, (size_t)capacity * sizeof *lanes);
        if (!lanes)
            return SL_OUT_OF_MEMORY;
        c->lanes = lanes;
        c->lane_capacity = capacity;
    }
    sli_cpu_lane *l = make_lane(c, desc);
    if (!l)
        return SL_OUT_OF_MEMORY;
    *lane = (uint16_t)c->n_lanes;
    c->lanes[c->n_lanes++] = l;
    add_to_shard(c, l);
    return SL_OK;
}

/* ---- Works ---- */

/* A stage has a time of its own: all lanes keep modelled timelines from now on. */
static sl_status begin_model(sli_cpu *c) {
    for (int i = 0; i < c->n_lanes; i++) {
        SL_TRY(keep_times(c->lanes[i]));
        c->lanes[i]->plain = false;
    }
    c->driver_serves = false;
    atomic_store(&c->is_modelled, true);
    return SL_OK;
}

sl_status sli_cpu_prepare(sli_backend *b, int device, const sli_work *work) {
    sli_cpu *c = (sli_cpu *)b;
    (void)device;
    SL_TRY(sli_poison_learn(c, work));
    if (!work->code)
        return SL_OK;
    SL_TRY(sli_cost_add(c, work->code));
    return work->code->timed && !sli_is_modelled(c) ? begin_model(c) : SL_OK;
}
