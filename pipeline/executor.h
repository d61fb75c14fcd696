/* A pipeline from the inside: what the callers' threads, its driver and its loop share.
 *
 *     callers                       driver                            loop
 *     submit ──── submitted ──────> takes, cuts, enqueues
 *     cancel ──── cancels ────────> stops tickets
 *                                   ends jobs ──────── done ────────> callbacks
 *     close ───── closing ────────> ends all, closes the
 *                                   backend ───────── finished ─────> joins the driver, on_closed
 *
 * Invariants:
 * - The shell (this struct) lives while somebody has a reference: the pipeline itself until on_closed, each job, a
 *   blocking close. What a job may still touch after the end is in it.
 * - Who is in the gate may push, poke and send; the driver closes the gate and waits until nobody is in it before it
 *   closes the backend. So no sender meets a closed handle.
 * - The driver takes no lock and allocates nothing between its start and its end. */
#ifndef SLI_EXECUTOR_H
#define SLI_EXECUTOR_H

#include "bind.h"
#include "job.h"
#include "loop.h"
#include <pthread.h>

typedef struct sli_driver sli_driver;

struct sl_pipeline {
    _Atomic int references;
    sl_plan *plan;
    sli_backend *backend;
    sli_binding *bound;
    sli_driver *driver;
    sli_loop *loop;
    pthread_t thread; /* the driver's */

    /* Options, constant. */
    uint32_t micro_batches, queue_limit;
    uint64_t patience_ns;
    bool has_feed;
    sl_feed feed;

    /* From callers to the driver. */
    _Atomic int senders; /* in the gate */
    _Atomic bool shut;
    _Atomic uint32_t bell; /* rung with each wake; the driver sleeps on it where it has no backend to await in */
    _Atomic bool started, closing;
    _Atomic uint32_t pokes, cancels;
    sli_job_stack submitted;
    _Atomic uint32_t queued; /* jobs that wait for their turn, and those of a feed */

    /* From the driver to callers. */
    _Atomic int failed; /* sl_status; then `why` is constant */
    char why[1024];

    /* To the loop. */
    sli_job_stack done;
    _Atomic bool notified, finished;
    void (*on_closed)(void *user);
    void *on_closed_user;

    /* Jobs of a feed that live, so that a close can end them. Never locked by the driver's hot path. */
    pthread_mutex_t registry_lock;
    sl_job *registry;

    /* Figures. The driver alone stores the counts. */
    _Atomic uint64_t n_micro_batches, n_actions;
    struct sli_figures_base *base;

    bool is_abandoned;
    sl_pipeline *next_abandoned;
};

/* pipeline.c: opens a pipeline on a plan and a backend that are there; takes both, also on failure. */
sl_status sli_pipeline_start(sl_plan *plan, const sli_platform *platform, sli_backend *backend,
                             const sl_pipeline_options *options, void *uv_loop, sl_pipeline **out);
/* All of sl_pipeline_open; `uv_loop`: as sli_loop_open's. */
sl_status sli_pipeline_open(const sl_graph *graph, const sl_pipeline_options *options, void *uv_loop,
                            sl_pipeline **out);
void sli_pipeline_release(sl_pipeline *pipeline);
uint64_t sli_pipelines_abandoned(void); /* since the process began */

/* The gate: false once the driver is leaving. Between the two nothing blocks. */
bool sli_pipeline_enter(sl_pipeline *pipeline);
void sli_pipeline_leave(sl_pipeline *pipeline);
void sli_pipeline_wake(sl_pipeline *pipeline); /* inside the gate */

/* Counts one against queue_limit. SL_BUSY; the status and the sentence of a pipeline that has failed or is closed. */
sl_status sli_pipeline_take_place(sl_pipeline *pipeline);

/* job.c: jobs of a feed that live. End: those that nobody has ended. Forget: on the loop, after the callback. Clear: at
 * the end of all. */
void sli_registry_end_all(sl_pipeline *pipeline, sl_status status, const char *message);
void sli_registry_forget(sl_pipeline *pipeline, sl_job *job);
void sli_registry_clear(sl_pipeline *pipeline);

/* driver.c */
sl_status sli_driver_create(sl_pipeline *pipeline, sli_driver **driver);
void sli_driver_destroy(sli_driver *driver); /* takes NULL */
void *sli_driver_main(void *pipeline);       /* the thread; first waits for `started` */

/* figures.c */
sl_status sli_figures_create(sl_pipeline *pipeline);
void sli_figures_destroy(sl_pipeline *pipeline);

#endif
