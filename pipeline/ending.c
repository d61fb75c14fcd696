/* How a driver ends: what becomes of jobs when the backend is lost, and who frees what when the pipeline closes.
 *
 * Once the gate is shut and empty nobody submits, pokes or sends but the driver. Then the backend is closed. If it says
 * that something may still run, all that it may touch (plan, binding, slots, jobs under way and their tensors) is kept
 * for good, reachable by a list: the one thing that outlives its pipeline. */
#include "driver.h"
#include "error.h"
#include <sched.h>
#include <stdio.h>

static _Atomic(sl_pipeline *) abandoned; /* by next_abandoned */
static _Atomic uint64_t n_abandoned;

uint64_t sli_pipelines_abandoned(void) {
    return atomic_load(&n_abandoned);
}

/* Nothing can be known of what was enqueued: every job ends with that, and every later one. */
void sli_driver_lose(sli_driver *d, sl_status status, const char *why) {
    sl_pipeline *p = d->p;
    snprintf(p->why, sizeof p->why, "%s", why);
    atomic_store(&p->failed, (int)status);
    if (p->has_feed) {
        sli_feed_tell(d, d->step);
        sli_registry_end_all(p, status, p->why);
    }
    sli_queue_take(d);
    sli_queue_lose(d, status);
}

static void shut_gate(sl_pipeline *p) {
    atomic_store(&p->shut, true);
    while (atomic_load(&p->senders))
        sched_yield();
}

/* Jobs that came in while the gate was being shut. */
static void end_late_jobs(sli_driver *d) {
    sl_pipeline *p = d->p;
    sl_status lost = sli_driver_failure(d);
    static const char closed[] = "the pipeline was closed";
    sli_queue_take(d);
    if (lost)
        sli_queue_lose(d, lost);
    else
        sli_queue_cancel(d, true, closed);
    if (p->has_feed)
        sli_registry_end_all(p, lost ? lost : SL_CANCELLED, lost ? p->why : closed);
}

static void release_left_behind(sli_driver *d) {
    for (sl_job *job = d->left_behind, *following; job; job = following) {
        following = job->following;
        for (int v = 0; v < job->n_values; v++)
            sl_tensor_release(job->values[v].tensor);
        sl_job_release(job);
    }
    d->left_behind = NULL;
}

static void abandon(sl_pipeline *p) {
    sli_log(SL_LOG_WARNING,
            "a pipeline was closed while something on its devices does not end: its memory is kept "
            "until the process ends (%s)",
            p->why);
    p->is_abandoned = true;
    atomic_fetch_add(&p->references, 1);
    p->next_abandoned = atomic_load(&abandoned);
    while (!atomic_compare_exchange_weak(&abandoned, &p->next_abandoned, p)) {
    }
    atomic_fetch_add(&n_abandoned, 1);
}

/* What was lost may still run for a while; what has stood still for the pipeline's patience hardly ends now. */
static uint64_t grace_ns(const sli_driver *d) {
    uint64_t patience_ns = d->p->patience_ns, moment_ns = 100000000;
    return sli_driver_failure(d) == SL_STALLED && patience_ns > moment_ns ? moment_ns : patience_ns;
}

void sli_driver_leave(sli_driver *d) {
    sl_pipeline *p = d->p;
    shut_gate(p);
    end_late_jobs(d);
    if (d->backend->ops->close(d->backend, grace_ns(d)) == SL_OK)
        release_left_behind(d);
    else
        abandon(p);
    atomic_store(&p->finished, true);
    sli_loop_send(p->loop);
}
