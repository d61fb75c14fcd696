/* The driver's queue of jobs: all that have not ended, oldest first. Those with all micro-batches enqueued come before
 * `current`, whose micro-batches are enqueued now, and those that have not begun behind it. So jobs end in their order,
 * but for those that are cancelled before they begin. */
#include "cut.h"
#include "driver.h"

static void append(sli_driver *d, sl_job *job) {
    job->next = NULL;
    if (d->last_job)
        d->last_job->next = job;
    else
        d->jobs = job;
    d->last_job = job;
    if (!d->current && !job->all_enqueued)
        d->current = job;
}

static bool has_begun(const sl_job *job) {
    return job->last_step >= 0;
}

/* The turn of a job has come, or it ends without. */
static void leave_queue(sl_job *job) {
    atomic_fetch_sub(&job->pipeline->queued, 1);
}

void sli_queue_take(sli_driver *d) {
    for (sl_job *job = sli_job_take_all(&d->p->submitted), *next; job; job = next) {
        next = job->next;
        append(d, job);
    }
}

static void end_current(sli_driver *d) {
    d->current->all_enqueued = true;
    d->current = d->current->next;
}

static void finish(sl_job *job) {
    sl_status status = (sl_status)atomic_load(&job->ticket.status);
    sli_job_finish(job, status, status == SL_OK ? "" : job->ticket.message);
}

void sli_queue_settle(sli_driver *d) {
    while (d->jobs && d->jobs->all_enqueued && d->jobs->last_step < d->batches_ended) {
        sl_job *job = d->jobs;
        d->jobs = job->next;
        if (!d->jobs)
            d->last_job = NULL;
        finish(job);
    }
}

bool sli_queue_add_step(sli_driver *d) {
    while (d->current && atomic_load_explicit(&d->current->ticket.status, memory_order_relaxed) != SL_OK) {
        end_current(d);
        sli_queue_settle(d); /* all of it that was enqueued may have ended before */
    }
    sl_job *job = d->current;
    if (!job)
        return false;
    sli_slot *slot = sli_steps_slot(d, d->step);
    sli_steps_clear(d, slot);
    slot->batch.ticket = &job->ticket;
    sli_cut_next(d->bound->plan, job, &slot->batch, slot->segments);
    if (!has_begun(job))
        leave_queue(job);
    job->last_step = d->last_real = d->step;
    d->n_real++;
    if (job->next_part == job->n_parts)
        end_current(d);
    sli_steps_add(d);
    return true;
}

static sl_job *take_list(sli_driver *d) {
    sl_job *jobs = d->jobs;
    d->jobs = d->last_job = d->current = NULL;
    return jobs;
}

void sli_queue_cancel(sli_driver *d, bool all, const char *why) {
    for (sl_job *job = take_list(d), *next; job; job = next) {
        next = job->next;
        if (all || atomic_load(&job->cancelled)) {
            sli_ticket_stop(&job->ticket, SL_CANCELLED, why);
            job->all_enqueued = true;
        }
        if (job->all_enqueued && !has_begun(job)) {
            leave_queue(job);
            finish(job);
        } else {
            append(d, job);
        }
    }
}

/* What runs may touch the job and its tensors until the backend is closed, or for good. */
static void leave_behind(sli_driver *d, sl_job *job) {
    sli_job_retain(job);
    for (int v = 0; v < job->n_values; v++)
        if (job->values[v].tensor)
            sl_tensor_retain(job->values[v].tensor);
    job->following = d->left_behind;
    d->left_behind = job;
}

void sli_queue_lose(sli_driver *d, sl_status status) {
    for (sl_job *job = take_list(d), *next; job; job = next) {
        next = job->next;
        sli_ticket_stop(&job->ticket, status, NULL);
        if (has_begun(job))
            leave_behind(d, job);
        else
            leave_queue(job);
        sli_job_finish(job, status, d->p->why);
    }
}
