/* A job from the inside. Who owns what, in the order of its life:
 *
 *   caller's thread   makes it, fills it in, hands it over         (submit.c; or sl_job_begin)
 *   driver            queue, parts, ticket, status; ends it        (driver.c; or whoever calls sl_job_end)
 *   loop              calls back, gives up the pipeline's reference
 *
 * `next` belongs to whoever owns the job. Any thread that has a reference may wait, cancel, and look how it ended. */
#ifndef SLI_JOB_H
#define SLI_JOB_H

#include "backend/backend.h"

typedef struct sli_job_value { /* an input or an output */
    sl_tensor *tensor;         /* borrowed until the job has ended */
    char *at;                  /* NULL on a platform without data */
    size_t row_bytes;          /* 0: no rows, the whole value each time */
    int rows;                  /* its row count; SLI_ROWS_FIXED: none */
} sli_job_value;

struct sl_job {
    _Atomic int references;
    sl_pipeline *pipeline; /* its shell: a reference */
    sl_job *next;
    sl_job_fn on_done;
    void *user;

    _Atomic uint32_t ended; /* futex: 0, then 1 */
    _Atomic uint32_t waiters;
    _Atomic bool cancelled; /* asked for */
    sl_status status;       /* constant once ended, as the message */
    const char *message;

    /* Of jobs with inputs. */
    sli_ticket ticket;
    uint64_t rows[SL_MAX_ROW_COUNTS];
    uint64_t n_parts, next_part; /* micro-batches, and the next to be enqueued */
    int64_t last_step;           /* of the last one that is; -1: none */
    bool all_enqueued;           /* nothing more of it comes */
    uint32_t n_segments, next_segment;
    sl_segment *segments;
    int n_values;
    sli_job_value *values; /* inputs, then outputs */

    /* Of jobs of a feed. */
    _Atomic bool claimed;         /* somebody ends it */
    _Atomic bool let_go;          /* the feed's reference was taken */
    sl_job *previous, *following; /* in the pipeline's registry */
};

/* `extra_bytes` of zeroes behind it. One reference. */
sl_job *sli_job_create(sl_pipeline *pipeline, sl_job_fn on_done, void *user, size_t extra_bytes);
void sli_job_retain(sl_job *job);

/* Ends it: exactly once, by its owner. `message` must live as long as the job. After it the job is the loop's. */
void sli_job_finish(sl_job *job, sl_status status, const char *message);

/* A stack that many push and one takes whole; gives the oldest first. */
typedef _Atomic(sl_job *) sli_job_stack;
void sli_job_push(sli_job_stack *stack, sl_job *job);
sl_job *sli_job_take_all(sli_job_stack *stack);

#endif
