/* Opening and closing, and what the loop does for a pipeline.
 *
 *     open:   backend, plan, binding, driver (its thread waits), loop, start
 *     close:  closing -> the driver ends all jobs, closes the backend -> the loop delivers, joins the driver, frees,
 *             on_closed -> the shell goes with its last reference */
#include "error.h"
#include "executor.h"
#include "futex.h"
#include "graph.h"
#include "thread.h"

static const uint64_t patience_ns = 30000000000;
enum { QUEUE_LIMIT = 1024 };

/* ---- The gate ---- */

bool sli_pipeline_enter(sl_pipeline *p) {
    atomic_fetch_add(&p->senders, 1);
    if (!atomic_load(&p->shut))
        return true;
    sli_pipeline_leave(p);
    return false;
}

void sli_pipeline_leave(sl_pipeline *p) {
    atomic_fetch_sub(&p->senders, 1);
}

void sli_pipeline_wake(sl_pipeline *p) {
    atomic_fetch_add(&p->bell, 1);
    if (!atomic_load(&p->started) || atomic_load(&p->failed))
        sli_futex_wake(&p->bell);
    p->backend->ops->poke(p->backend);
}

sl_status sli_pipeline_take_place(sl_pipeline *p) {
    sl_status failed = (sl_status)atomic_load(&p->failed);
    if (failed != SL_OK)
        return sl_fail(failed, "the pipeline has failed, close it and open another: %s", p->why);
    if (atomic_load(&p->closing))
        return sl_fail(SL_CANCELLED, "the pipeline is closed");
    if (atomic_fetch_add(&p->queued, 1) < p->queue_limit)
        return SL_OK;
    atomic_fetch_sub(&p->queued, 1);
    return sl_fail(SL_BUSY,
                   "%u jobs wait already, which is the pipeline's queue_limit; submit again later, or raise it",
                   p->queue_limit);
}

void sl_pipeline_poke(sl_pipeline *p) {
    if (!sli_pipeline_enter(p))
        return;
    atomic_fetch_add(&p->pokes, 1);
    sli_pipeline_wake(p);
    sli_pipeline_leave(p);
}

void sl_pipeline_notify(sl_pipeline *p) {
    if (!sli_pipeline_enter(p))
        return;
    atomic_store(&p->notified, true);
    sli_loop_send(p->loop);
    sli_pipeline_leave(p);
}

/* ---- On the loop ---- */

static void call_back(sl_pipeline *p, sl_job *job) {
    if (job->on_done)
        job->on_done(job, job->status, job->message, job->user);
    sli_loop_drop(p->loop);
    if (p->has_feed)
        sli_registry_forget(p, job);
    else
        sl_job_release(job);
}

static bool deliver(void *user) {
    sl_pipeline *p = user;
    bool finished = atomic_load(&p->finished); /* first: what was done before is taken now */
    sl_job *job = sli_job_take_all(&p->done);
    if (atomic_exchange(&p->notified, false) && p->feed.deliver)
        p->feed.deliver(p->feed.user);
    for (sl_job *next; job; job = next) {
        next = job->next;
        call_back(p, job);
    }
    if (finished)
        pthread_join(p->thread, NULL);
    return finished;
}

static void free_parts(sl_pipeline *p) {
    sli_unbind(p->bound);
    sli_driver_destroy(p->driver);
    sl_plan_destroy(p->plan);
}

static void closed(void *user) {
    sl_pipeline *p = user;
    sli_registry_clear(p);
    if (!p->is_abandoned)
        free_parts(p);
    if (p->on_closed)
        p->on_closed(p->on_closed_user);
}

static void left(void *user) {
    sli_pipeline_release(user);
}

void sli_pipeline_release(sl_pipeline *p) {
    if (atomic_fetch_sub(&p->references, 1) != 1)
        return;
    sli_loop_free(p->loop);
    sli_figures_destroy(p);
    pthread_mutex_destroy(&p->registry_lock);
    sl_tensor_release(p->feed.memory);
    sl_free(p);
}

/* ---- Opening ---- */

static void take_options(sl_pipeline *p, const sl_pipeline_options *o) {
    p->micro_batches = o->micro_batches;
    p->queue_limit = o->queue_limit ? o->queue_limit : QUEUE_LIMIT;
    p->patience_ns = o->patience_ns ? o->patience_ns : patience_ns;
    p->has_feed = o->feed;
    if (!o->feed)
        return;
    p->feed = *o->feed;
    if (p->feed.memory)
        sl_tensor_retain(p->feed.memory);
}

static void start(sl_pipeline *p) {
    atomic_store(&p->started, true);
    atomic_fetch_add(&p->bell, 1);
    sli_futex_wake(&p->bell);
}

static sl_status start_threads(sl_pipeline *p, void *uv_loop, sl_pipeline **out) {
    static const sli_loop_hooks hooks = {deliver, closed, left, NULL};
    sli_loop_hooks own = hooks;
    own.user = p;
    if (sli_thread_create(&p->thread, sli_driver_main, p))
        return sl_fail(SL_OUT_OF_MEMORY, "no thread for a pipeline's driver: the system gives no more");
    sl_status status = sli_loop_open(uv_loop, &own, &p->loop);
    if (status == SL_OK)
        *out = p; /* before a feed's hooks can run */
    start(p);
    if (status != SL_OK)
        pthread_join(p->thread, NULL);
    return status;
}

static sl_status build(sl_pipeline *p, const sli_platform *platform, const sl_pipeline_options *o, void *uv_loop,
                       sl_pipeline **out) {
    sli_bind_options bind = {o->progress, o->progress_user};
    SL_TRY(sli_bind(p->plan, platform, p->backend, &bind, &p->bound));
    SL_TRY(sli_figures_create(p));
    SL_TRY(sli_driver_create(p, &p->driver));
    return start_threads(p, uv_loop, out);
}

sl_status sli_pipeline_start(sl_plan *plan, const sli_platform *platform, sli_backend *backend,
                             const sl_pipeline_options *options, void *uv_loop, sl_pipeline **out) {
    sl_pipeline *p = sl_calloc(1, sizeof *p);
    if (!p) {
        backend->ops->close(backend, patience_ns);
        sl_plan_destroy(plan);
        return SL_OUT_OF_MEMORY;
    }
    atomic_store(&p->references, 1);
    pthread_mutex_init(&p->registry_lock, NULL);
    p->plan = plan;
    p->backend = backend;
    take_options(p, options);
    sl_status status = build(p, platform, options, uv_loop, out);
    if (status != SL_OK) {
        backend->ops->close(backend, p->patience_ns); /* nothing has run */
        free_parts(p);
        sli_pipeline_release(p);
    }
    return status;
}

sl_status sli_pipeline_open(const sl_graph *graph, const sl_pipeline_options *options, void *uv_loop,
                            sl_pipeline **out) {
    static const sl_pipeline_options none;
    sli_backend *backend;
    sl_plan *plan;
    *out = NULL;
    options = options ? options : &none;
    if (options->feed && (!options->feed->next || !options->feed->ended))
        return sl_fail(SL_INVALID, "the feed has no %s (NULL); it needs next and ended",
                       options->feed->next ? "ended" : "next");
    SL_TRY(sli_graph_validate(graph, &options->plan)); /* first: then its devices are there, and of one kind */
    const sli_platform *platform = sli_platform_get(graph->stages[0].device.kind);
    sli_backend_options backend_options = {options->cpu, options->sim_topology, options->measure};
    SL_TRY(platform->open(&backend_options, &backend));
    sli_plan_extras extras = {.backend = backend};
    sl_status status = sli_plan_compile(graph, &options->plan, &extras, &plan);
    if (status != SL_OK) {
        backend->ops->close(backend, patience_ns);
        return status;
    }
    return sli_pipeline_start(plan, platform, backend, options, uv_loop, out);
}

sl_status sl_pipeline_open(const sl_graph *graph, const sl_pipeline_options *options, sl_pipeline **pipeline) {
    return sli_pipeline_open(graph, options, NULL, pipeline);
}

const sl_plan *sl_pipeline_plan(const sl_pipeline *p) {
    return p->plan;
}

/* ---- Closing ---- */

void sl_pipeline_close(sl_pipeline *p, void (*on_closed)(void *user), void *user) {
    if (!p)
        return;
    bool waits = !on_closed && !sli_loop_is_this_thread(p->loop);
    atomic_fetch_add(&p->references, 1); /* for this call: what follows may be quicker */
    p->on_closed = on_closed;
    p->on_closed_user = user;
    sli_loop_hold(p->loop); /* for good */
    if (!waits)
        sli_loop_detach(p->loop);
    atomic_store(&p->closing, true);
    if (sli_pipeline_enter(p)) {
        sli_pipeline_wake(p);
        sli_pipeline_leave(p);
    }
    if (waits)
        sli_loop_join(p->loop);
    sli_pipeline_release(p);
}
