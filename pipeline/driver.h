/* The driver's own memory and its parts: driver.c decides what comes next, queue.c and feed.c bring micro-batches,
 * steps.c writes steps down, ending.c is for loss and leaving, stall.c says what hangs. All of it is the driver
 * thread's alone. */
#ifndef SLI_DRIVER_H
#define SLI_DRIVER_H

#include "executor.h"

typedef struct sli_slot { /* a micro-batch on its way: that of step k is in slot k mod n */
    sli_batch batch;
    sl_segment *segments; /* [max_segments] in memory that devices read */
    bool fed;             /* by the feed: `ended` is to be told */
    uint64_t turn;
} sli_slot;

typedef struct sli_lane_view { /* where a lane stands, when something hangs: stall.c */
    bool is_seen;              /* all that there is to see */
    bool owes;                 /* it has a record to come */
    int running, waiting;      /* payloads: not known to have ended; behind the wait; -1: none */
    int64_t step;              /* of the one of both that matters */
    int blocked_on;            /* lane; -1: none */
    uint64_t reached;
} sli_lane_view;

struct sli_driver {
    sl_pipeline *p;
    const sli_binding *bound;
    sli_backend *backend;

    /* Steps never start again: events of one job order those of the next. */
    int64_t step;          /* next to be enqueued */
    int64_t steps_ended;   /* steps below have ended */
    int64_t batches_ended; /* micro-batches below have ended: all that names them has passed */
    int64_t last_real;     /* the latest step with a micro-batch that exists; -1 */
    uint64_t n_real;

    sli_slot *slots; /* [bound->n_slots] */
    sli_slot none;   /* of micro-batches before the first */
    void **io;
    sli_ticket skipped;
    uint32_t *cursors;   /* [payloads] the work of the next step */
    sli_action *actions; /* not handed over yet */
    size_t n_actions;

    sl_job *jobs, *last_job; /* that have not ended, oldest first */
    sl_job *current;         /* the first that has micro-batches to come; NULL: none */
    uint32_t cancels_seen;
    sl_job *left_behind; /* under way when the backend was lost, with a reference each */

    sli_ticket *tickets; /* [n_slots] of the feed's micro-batches */
    uint64_t turn;       /* the feed's next */
    int64_t told;        /* the feed was told of micro-batches below */
    bool feed_idle;
    uint32_t pokes_seen;

    bool closing;
    bool owes;                  /* the watch runs */
    uint64_t progress, watched; /* sum of the timelines: now, and at the watch's last look */
    uint64_t looks, next_look_ns;
    sli_lane_view *views; /* [lanes of the backend] */
};

enum { SLI_STEPS_A_CALL = 8 };

/* steps.c: a step more, with the micro-batch of its slot; `flush` hands over what was added. */
static inline sli_slot *sli_steps_slot(const sli_driver *d, int64_t step) {
    return &d->slots[(uint64_t)step & (d->bound->n_slots - 1)];
}
void sli_steps_clear(sli_driver *d, sli_slot *slot); /* no rows, payloads skipped */
void sli_steps_add(sli_driver *d);
sl_status sli_steps_flush(sli_driver *d);

/* queue.c: jobs in their order. */
void sli_queue_take(sli_driver *d);                              /* what was submitted */
bool sli_queue_add_step(sli_driver *d);                          /* the next micro-batch; false: there is none */
void sli_queue_settle(sli_driver *d);                            /* ends jobs whose last micro-batch has ended */
void sli_queue_cancel(sli_driver *d, bool all, const char *why); /* those that asked for it, or all */
void sli_queue_lose(sli_driver *d, sl_status status);            /* ends all, with the pipeline's `why` */

/* feed.c: the same for a pipeline with a feed. */
bool sli_feed_add_step(sli_driver *d);
void sli_feed_tell(sli_driver *d, int64_t end); /* of micro-batches below `end` */
void sli_feed_stop(sli_driver *d, const char *why);

/* ending.c */
void sli_driver_lose(sli_driver *d, sl_status status, const char *why);
void sli_driver_leave(sli_driver *d);
static inline sl_status sli_driver_failure(const sli_driver *d) {
    return (sl_status)atomic_load_explicit(&d->p->failed, memory_order_relaxed);
}

/* stall.c: into `text`: which action does not end, and what waits for it. */
enum { SLI_STALL_TEXT = 1024 };
void sli_stall_describe(sli_driver *d, char text[SLI_STALL_TEXT]);

#endif
