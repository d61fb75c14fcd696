/* Figures of a pipeline: counts of the driver and busy times of the lanes, since the last reset. Any thread; a lock
 * orders resets and readers among themselves. */
#include "error.h"
#include "executor.h"
#include <stdio.h>

typedef struct link {
    int from, to; /* of the plan's devices, or SLI_HOST */
} link;

struct sli_figures_base {
    pthread_mutex_t lock;
    uint64_t wall_ns, n_micro_batches, n_actions, parks; /* at the last reset */
    int n_links;
    link *links;             /* [n_links] */
    sli_lane_figures *lanes; /* [plan->n_lanes] at the last reset */
};

static int find_link(const struct sli_figures_base *base, const sli_plan_lane *lane) {
    int i = 0;
    while (i < base->n_links && (base->links[i].from != lane->from || base->links[i].to != lane->to))
        i++;
    return i;
}

sl_status sli_figures_create(sl_pipeline *p) {
    const sl_plan *plan = p->plan;
    struct sli_figures_base *base = p->base = sl_calloc(1, sizeof *base);
    if (!base)
        return SL_OUT_OF_MEMORY;
    pthread_mutex_init(&base->lock, NULL);
    base->links = sl_calloc((size_t)plan->n_lanes, sizeof *base->links);
    base->lanes = sl_calloc((size_t)plan->n_lanes, sizeof *base->lanes);
    if (!base->links || !base->lanes)
        return SL_OUT_OF_MEMORY;
    for (int l = 0; l < plan->n_lanes; l++) {
        const sli_plan_lane *lane = &plan->lanes[l];
        if (lane->from == lane->to)
            continue;
        int at = find_link(base, lane);
        base->links[at] = (link){lane->from, lane->to};
        base->n_links += at == base->n_links;
    }
    base->wall_ns = p->backend->ops->now_ns(p->backend);
    return SL_OK;
}

void sli_figures_destroy(sl_pipeline *p) {
    if (!p->base)
        return;
    pthread_mutex_destroy(&p->base->lock);
    sl_free(p->base->links);
    sl_free(p->base->lanes);
    sl_free(p->base);
}

/* After a loss the backend is not to be asked. */
static bool can_ask(sl_pipeline *p) {
    return atomic_load(&p->failed) != SL_LOST;
}

static sli_lane_figures now_of(sl_pipeline *p, int l) {
    sli_lane_figures now = p->base->lanes[l];
    if (can_ask(p))
        p->backend->ops->lane_figures(p->backend, p->bound->lanes[l], &now);
    return now;
}

static void add_lane(sl_pipeline *p, int l, sli_lane_figures *sum) {
    sli_lane_figures now = now_of(p, l);
    const sli_lane_figures *before = &p->base->lanes[l];
    sum->busy_ns += now.busy_ns - before->busy_ns;
    sum->payloads += now.payloads - before->payloads;
    sum->bytes += now.bytes - before->bytes;
}

/* The sum over the lanes between two places; the same: the compute lane. */
static sli_lane_figures sum_lanes(sl_pipeline *p, int from, int to) {
    sli_lane_figures sum = {0};
    pthread_mutex_lock(&p->base->lock);
    for (int l = 0; l < p->plan->n_lanes; l++)
        if (p->plan->lanes[l].from == from && p->plan->lanes[l].to == to)
            add_lane(p, l, &sum);
    pthread_mutex_unlock(&p->base->lock);
    return sum;
}

void sl_pipeline_get_counts(sl_pipeline *p, sl_pipeline_counts *counts) {
    const struct sli_figures_base *base = p->base;
    pthread_mutex_lock(&p->base->lock);
    *counts = (sl_pipeline_counts){.micro_batches = atomic_load(&p->n_micro_batches) - base->n_micro_batches,
                                   .actions = atomic_load(&p->n_actions) - base->n_actions,
                                   .n_devices = p->plan->n_devices,
                                   .n_links = base->n_links};
    if (can_ask(p)) {
        counts->wall_ns = p->backend->ops->now_ns(p->backend) - base->wall_ns;
        counts->parks = p->backend->ops->parks(p->backend) - base->parks;
    }
    pthread_mutex_unlock(&p->base->lock);
}

bool sl_pipeline_get_device(sl_pipeline *p, int i, sl_device_figures *figures) {
    if (i < 0 || i >= p->plan->n_devices)
        return false;
    sli_lane_figures sum = sum_lanes(p, i, i);
    *figures = (sl_device_figures){p->plan->devices[i].device, sum.busy_ns, sum.payloads};
    return true;
}

static void name_end(const sl_plan *plan, int device, char text[SL_DEVICE_TEXT]) {
    if (device == SLI_HOST)
        snprintf(text, SL_DEVICE_TEXT, "host");
    else
        sl_device_format(plan->devices[device].device, text);
}

bool sl_pipeline_get_link(sl_pipeline *p, int i, sl_link_figures *figures) {
    if (i < 0 || i >= p->base->n_links)
        return false;
    const link *l = &p->base->links[i];
    sli_lane_figures sum = sum_lanes(p, l->from, l->to);
    *figures = (sl_link_figures){.busy_ns = sum.busy_ns, .bytes = sum.bytes, .copies = sum.payloads};
    name_end(p->plan, l->from, figures->from);
    name_end(p->plan, l->to, figures->to);
    return true;
}

void sl_pipeline_reset_figures(sl_pipeline *p) {
    struct sli_figures_base *base = p->base;
    pthread_mutex_lock(&base->lock);
    for (int l = 0; l < p->plan->n_lanes; l++)
        base->lanes[l] = now_of(p, l);
    base->n_micro_batches = atomic_load(&p->n_micro_batches);
    base->n_actions = atomic_load(&p->n_actions);
    if (can_ask(p)) {
        base->wall_ns = p->backend->ops->now_ns(p->backend);
        base->parks = p->backend->ops->parks(p->backend);
    }
    pthread_mutex_unlock(&base->lock);
}
