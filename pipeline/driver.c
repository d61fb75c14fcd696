/* The one thread that enqueues. It takes jobs (queue.c), or asks the feed (feed.c), turns them into steps (steps.c) and
 * hands these to the backend, ahead of the lanes by at most the plan's credits. It looks at timelines for credits, for
 * ends of jobs and of rings, and sleeps in await alone. It edits and plans nothing, and what it does in which order
 * follows from the stream of work: when things end moves the moment of an enqueue, never a value.
 *
 *     step k:   | stage j of micro-batch k - lag | ...          enqueued together
 *     ended:    a lane's last record of the step is reached, on all lanes
 *
 * A micro-batch is its step's slot; it has ended when all payloads that name it have passed. Steps without a
 * micro-batch flush the lags. All state here is this thread's alone, but for what executor.h says is shared. From a
 * credit to the last enqueue it neither locks, allocates nor waits. */
#include "driver.h"
#include "error.h"
#include "futex.h"

/* ---- What callers want ---- */

static void begin_to_close(sli_driver *d) {
    static const char why[] = "the pipeline was closed";
    d->closing = true;
    sli_queue_cancel(d, true, why);
    sli_feed_stop(d, why);
}

static void look_at_callers(sli_driver *d) {
    sl_pipeline *p = d->p;
    bool closing = atomic_load(&p->closing);
    uint32_t cancels = atomic_load(&p->cancels), pokes = atomic_load(&p->pokes);
    sli_queue_take(d);
    if (pokes != d->pokes_seen)
        d->feed_idle = false;
    if (cancels != d->cancels_seen)
        sli_queue_cancel(d, false, "the job was cancelled");
    d->pokes_seen = pokes;
    d->cancels_seen = cancels;
    if (closing && (!d->closing || d->current))
        begin_to_close(d);
}

/* ---- Credits and ends ---- */

static void look_at_lanes(sli_driver *d) {
    int64_t steps = INT64_MAX, batches = INT64_MAX;
    if (d->steps_ended == d->step)
        return;
    d->progress = 0;
    for (const sli_lane_end *e = d->bound->ends; e < d->bound->ends + d->bound->n_ends; e++) {
        int64_t at = (int64_t)d->backend->ops->reached(d->backend, e->lane);
        int64_t s = at < e->step_offset ? 0 : (at - e->step_offset) / e->rate + 1;
        int64_t b = at < e->batch_offset ? 0 : (at - e->batch_offset) / e->rate + 1;
        steps = s < steps ? s : steps;
        batches = b < batches ? b : batches;
        d->progress += (uint64_t)at;
    }
    d->steps_ended = steps;
    d->batches_ended = batches;
    if (d->p->has_feed)
        sli_feed_tell(d, batches);
}

static bool has_credit(const sli_driver *d) {
    return d->step - d->steps_ended < (int64_t)d->bound->plan->credits;
}

/* What the lags have let wait of the last micro-batch that exists. */
static bool add_flush(sli_driver *d) {
    if (d->last_real < 0 || d->step > d->last_real + d->bound->plan->max_lag)
        return false;
    sli_steps_clear(d, sli_steps_slot(d, d->step));
    sli_steps_add(d);
    return true;
}

static bool add_step(sli_driver *d) {
    return has_credit(d) && ((d->p->has_feed ? sli_feed_add_step(d) : sli_queue_add_step(d)) || add_flush(d));
}

/* Enqueues what may be: the first steps one by one, so that lanes begin at once. */
static bool advance(sli_driver *d) {
    int most = d->step - d->steps_ended < SLI_STEPS_A_CALL ? 1 : SLI_STEPS_A_CALL, added = 0;
    while (added < most && add_step(d))
        added++;
    sl_status status = sli_steps_flush(d);
    if (status != SL_OK)
        sli_driver_lose(d, status, sl_last_error());
    return added > 0;
}

/* ---- Sleeping ---- */

/* The next end that matters: of a job, of a micro-batch of the feed; or half of the credits. As the value of the lane
 * that is the last to reach it, as far as the program's order tells. */
static void choose_end(const sli_driver *d, uint16_t *lane, uint64_t *value) {
    const sli_binding *bound = d->bound;
    int64_t half = bound->plan->credits / 2, step = d->step - 1, batch = INT64_MAX;
    if (!has_credit(d))
        step = d->steps_ended + (half > 1 ? half : 1) - 1;
    if (d->p->has_feed && d->told <= d->last_real)
        batch = d->told;
    else if (d->jobs && d->jobs->all_enqueued)
        batch = d->jobs->last_step;
    bool by_batch = batch < INT64_MAX && batch + bound->plan->max_lag <= step;
    for (int e = bound->n_ends - 1; e >= 0; e--) {
        const sli_lane_end *end = &bound->ends[e];
        *lane = end->lane;
        *value = (uint64_t)(by_batch ? batch * end->rate + end->batch_offset : step * end->rate + end->step_offset);
        if (d->backend->ops->reached(d->backend, *lane) < *value)
            return;
    }
}

/* How long to sleep before the watch looks again: so that a stall is found soon after the patience. */
static uint64_t watch_ns(const sli_driver *d) {
    uint64_t part = d->p->patience_ns / 8, least = 1000000, most = 100000000;
    return part < least ? least : part > most ? most : part;
}

/* No lane has moved for as long as the patience. Counted in looks that are apart, not read off the clock: a process
 * that was stopped or starved as a whole gets its time to go on. */
static bool stands_still(sli_driver *d) {
    uint64_t now = sli_now_ns(), apart_ns = watch_ns(d);
    if (!d->owes || d->progress != d->watched) {
        d->looks = 0;
        d->next_look_ns = now + apart_ns;
    } else if (now >= d->next_look_ns) {
        d->looks++;
        d->next_look_ns = now + apart_ns;
    }
    d->owes = true;
    d->watched = d->progress;
    return d->looks * apart_ns >= d->p->patience_ns;
}

static void lose_stalled(sli_driver *d) {
    char why[SLI_STALL_TEXT];
    sli_stall_describe(d, why);
    sli_driver_lose(d, SL_STALLED, why);
}

static void sleep_in_await(sli_driver *d) {
    uint16_t lane = d->bound->ends[0].lane;
    uint64_t value = SLI_NEVER, deadline_ns = SLI_NEVER;
    if (d->step == d->steps_ended) {
        d->owes = false;
    } else {
        if (stands_still(d)) {
            lose_stalled(d);
            return;
        }
        choose_end(d, &lane, &value);
        deadline_ns = d->next_look_ns;
    }
    sl_status status = d->backend->ops->await(d->backend, lane, value, deadline_ns);
    if (status != SL_OK && status != SL_STALLED)
        sli_driver_lose(d, status, sl_last_error());
}

/* ---- The thread ---- */

static void drive(sli_driver *d) {
    while (!sli_driver_failure(d)) {
        look_at_callers(d);
        look_at_lanes(d);
        sli_queue_settle(d);
        if (advance(d) || sli_driver_failure(d))
            continue;
        if (d->closing && d->step == d->steps_ended && !d->jobs)
            return;
        sleep_in_await(d);
    }
}

/* Without a backend to await in: for the start, and after a loss, when jobs that slip in end at once. */
static void sleep_until(sli_driver *d, _Atomic bool *come) {
    sl_pipeline *p = d->p;
    for (;;) {
        uint32_t bell = atomic_load(&p->bell);
        if (sli_driver_failure(d)) {
            sli_queue_take(d);
            sli_queue_lose(d, sli_driver_failure(d));
        }
        if (atomic_load(come))
            return;
        sli_futex_wait(&p->bell, bell, UINT64_MAX);
    }
}

void *sli_driver_main(void *pipeline) {
    sl_pipeline *p = pipeline;
    sleep_until(p->driver, &p->started);
    if (!p->loop) /* opening failed */
        return NULL;
    drive(p->driver);
    sleep_until(p->driver, &p->closing);
    sli_driver_leave(p->driver);
    return NULL;
}

/* ---- Its memory ---- */

static void start_cursors(sli_driver *d) {
    for (int i = 0; i < d->bound->plan->n_payloads; i++) {
        const sli_bound_payload *p = &d->bound->payloads[i];
        d->cursors[i] = (p->n_works - (uint32_t)p->lag % p->n_works) % p->n_works;
    }
}

static void start_slots(sli_driver *d) {
    const sl_plan *plan = d->bound->plan;
    size_t n_io = (size_t)plan->n_inputs + (size_t)plan->n_outputs + 1;
    for (uint32_t s = 0; s < d->bound->n_slots; s++) {
        d->slots[s].batch.io = d->io + s * n_io;
        if (d->bound->segments)
            d->slots[s].segments = d->bound->segments + (size_t)s * plan->options.max_segments;
        d->slots[s].batch.io[n_io - 1] = d->slots[s].segments;
    }
    d->none.batch.io = d->io + d->bound->n_slots * n_io;
    sli_steps_clear(d, &d->none);
}

static uint16_t last_lane(const sli_binding *bound) {
    uint16_t last = 0;
    for (int l = 0; l < bound->plan->n_lanes; l++)
        last = bound->lanes[l] > last ? bound->lanes[l] : last;
    return last;
}

sl_status sli_driver_create(sl_pipeline *p, sli_driver **driver) {
    const sli_binding *bound = p->bound;
    const sl_plan *plan = bound->plan;
    size_t n_slots = bound->n_slots, n_io = (size_t)plan->n_inputs + (size_t)plan->n_outputs + 1;
    sli_driver *d = *driver = sl_calloc(1, sizeof *d);
    if (!d)
        return SL_OUT_OF_MEMORY;
    *d = (sli_driver){.p = p, .bound = bound, .backend = p->backend, .last_real = -1};
    atomic_store(&d->skipped.status, SL_CANCELLED);
    d->slots = sl_calloc(n_slots, sizeof *d->slots);
    d->io = sl_calloc((n_slots + 1) * n_io, sizeof *d->io);
    d->cursors = sl_calloc((size_t)plan->n_payloads, sizeof *d->cursors);
    d->actions = sl_calloc(plan->n_program * SLI_STEPS_A_CALL, sizeof *d->actions);
    d->tickets = sl_calloc(p->has_feed ? n_slots : 1, sizeof *d->tickets);
    d->views = sl_calloc((size_t)last_lane(bound) + 1, sizeof *d->views);
    if (!d->slots || !d->io || !d->cursors || !d->actions || !d->tickets || !d->views)
        return SL_OUT_OF_MEMORY;
    start_cursors(d);
    start_slots(d);
    return SL_OK;
}

void sli_driver_destroy(sli_driver *d) {
    if (!d)
        return;
    sl_free(d->slots);
    sl_free(d->io);
    sl_free(d->cursors);
    sl_free(d->actions);
    sl_free(d->tickets);
    sl_free(d->views);
    sl_free(d);
}
