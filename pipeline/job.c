/* The life of a job but for its work: references, one end, waiting, cancelling; and jobs that a feed ends. See job.h.
 *
 * The end: whoever owns the job writes status and message, sets `ended` (which publishes them), wakes who waits, and
 * pushes it to the loop. `ended` and `waiters` are seq_cst: either the ender sees the waiter, or the waiter the end. */
#include "error.h"
#include "executor.h"
#include "futex.h"
#include <string.h>

sl_job *sli_job_create(sl_pipeline *p, sl_job_fn on_done, void *user, size_t extra_bytes) {
    sl_job *job = sl_calloc(1, sizeof *job + extra_bytes);
    if (!job)
        return NULL;
    atomic_store(&job->references, 1);
    atomic_fetch_add(&p->references, 1);
    job->pipeline = p;
    job->on_done = on_done;
    job->user = user;
    job->last_step = -1;
    job->message = "";
    return job;
}

void sli_job_retain(sl_job *job) {
    atomic_fetch_add(&job->references, 1);
}

void sl_job_release(sl_job *job) {
    if (!job || atomic_fetch_sub(&job->references, 1) != 1)
        return;
    sl_pipeline *p = job->pipeline;
    sl_free(job);
    sli_pipeline_release(p);
}

void sli_job_finish(sl_job *job, sl_status status, const char *message) {
    sl_pipeline *p = job->pipeline;
    job->status = status;
    job->message = message;
    atomic_store(&job->ended, 1);
    if (atomic_load(&job->waiters))
        sli_futex_wake(&job->ended);
    sli_job_push(&p->done, job);
    sli_loop_send(p->loop);
}

void sli_job_push(sli_job_stack *stack, sl_job *job) {
    job->next = atomic_load_explicit(stack, memory_order_relaxed);
    while (!atomic_compare_exchange_weak(stack, &job->next, job)) {
    }
}

sl_job *sli_job_take_all(sli_job_stack *stack) {
    sl_job *oldest = NULL;
    if (!atomic_load(stack))
        return NULL;
    for (sl_job *job = atomic_exchange(stack, NULL), *older; job; job = older) {
        older = job->next;
        job->next = oldest;
        oldest = job;
    }
    return oldest;
}

sl_status sl_job_wait(sl_job *job, uint64_t timeout_ns) {
    if (sli_loop_is_this_thread(job->pipeline->loop))
        return sl_fail(SL_WRONG_THREAD, "a job was to be waited for on the thread of its pipeline's loop, where that "
                                        "would hold up callbacks; wait on another thread, or use the job's callback");
    uint64_t deadline_ns = sli_after_ns(timeout_ns);
    atomic_fetch_add(&job->waiters, 1);
    bool in_time = true;
    while (!atomic_load(&job->ended) && in_time)
        in_time = sli_futex_wait(&job->ended, 0, deadline_ns);
    atomic_fetch_sub(&job->waiters, 1);
    if (!atomic_load(&job->ended))
        return sl_fail(SL_TIMED_OUT, "the job has not ended within %g ms; it goes on", (double)timeout_ns * 1e-6);
    return job->status == SL_OK ? SL_OK : sl_fail(job->status, "%s", job->message);
}

void sl_job_cancel(sl_job *job) {
    if (!job)
        return;
    sl_pipeline *p = job->pipeline;
    if (atomic_load(&job->ended) || atomic_exchange(&job->cancelled, true) || !sli_pipeline_enter(p))
        return;
    atomic_fetch_add(&p->cancels, 1);
    atomic_fetch_add(&p->pokes, 1);
    sli_pipeline_wake(p);
    sli_pipeline_leave(p);
}

bool sl_job_cancelled(const sl_job *job) {
    return atomic_load(&job->cancelled);
}

bool sl_job_ended(const sl_job *job, sl_status *status, const char **message) {
    if (!atomic_load(&job->ended))
        return false;
    if (status)
        *status = job->status;
    if (message)
        *message = job->message;
    return true;
}

/* ---- Jobs of a feed ---- */

static void end(sl_job *job, sl_status status, const char *message) {
    if (atomic_exchange(&job->claimed, true))
        return;
    size_t n = strnlen(message ? message : "", sizeof job->ticket.message - 1);
    memcpy(job->ticket.message, message ? message : "", n);
    atomic_fetch_sub(&job->pipeline->queued, 1);
    sli_job_finish(job, status, job->ticket.message);
}

static void sign_in(sl_pipeline *p, sl_job *job) {
    pthread_mutex_lock(&p->registry_lock);
    job->following = p->registry;
    if (p->registry)
        p->registry->previous = job;
    p->registry = job;
    pthread_mutex_unlock(&p->registry_lock);
}

sl_status sl_job_begin(sl_pipeline *p, sl_job_fn on_done, void *user, sl_job **out) {
    *out = NULL;
    if (!p->has_feed)
        return sl_fail(SL_INVALID, "sl_job_begin is for pipelines with a feed; this one takes jobs by "
                                   "sl_pipeline_submit");
    sl_job *job = sli_job_create(p, on_done, user, 0);
    if (!job)
        return SL_OUT_OF_MEMORY;
    if (!sli_pipeline_enter(p)) {
        sl_job_release(job);
        return sl_fail(SL_CANCELLED, "the pipeline is closed");
    }
    sl_status status = sli_pipeline_take_place(p);
    if (status == SL_OK) {
        atomic_store(&job->references, 3); /* the caller's, the feed's, the registry's */
        sli_loop_hold(p->loop);
        *out = job;
        sign_in(p, job);
        if (atomic_load(&p->failed)) /* in between: nobody else may end it */
            end(job, (sl_status)atomic_load(&p->failed), p->why);
    }
    sli_pipeline_leave(p);
    if (status != SL_OK)
        sl_job_release(job);
    return status;
}

void sl_job_end(sl_job *job, sl_status status, const char *message) {
    sl_pipeline *p = job->pipeline;
    if (atomic_exchange(&job->let_go, true))
        return;
    if (sli_pipeline_enter(p)) {
        end(job, status, message);
        sli_pipeline_leave(p);
    }
    sl_job_release(job);
}

void sli_registry_end_all(sl_pipeline *p, sl_status status, const char *message) {
    pthread_mutex_lock(&p->registry_lock);
    for (sl_job *job = p->registry; job; job = job->following)
        end(job, status, message);
    pthread_mutex_unlock(&p->registry_lock);
}

static void sign_out(sl_pipeline *p, sl_job *job) {
    if (job->previous)
        job->previous->following = job->following;
    else
        p->registry = job->following;
    if (job->following)
        job->following->previous = job->previous;
}

void sli_registry_forget(sl_pipeline *p, sl_job *job) {
    if (!atomic_load(&job->let_go)) /* its feed's reference is taken when the pipeline closes, at the latest */
        return;
    pthread_mutex_lock(&p->registry_lock);
    sign_out(p, job);
    pthread_mutex_unlock(&p->registry_lock);
    sl_job_release(job);
}

void sli_registry_clear(sl_pipeline *p) {
    for (sl_job *job = p->registry, *following; job; job = following) {
        following = job->following;
        sign_out(p, job);
        if (!atomic_exchange(&job->let_go, true))
            sl_job_release(job);
        sl_job_release(job);
    }
}
