/* Pipelines and jobs: a plan open on its devices.
 *
 * Threads: submit, wait, cancel, release, poke and close may be called on any thread, also in callbacks. Callbacks run
 * on the loop: a thread of the pipeline's own, or the user's uv_loop_t (<sluice/uv.h>). A callback that blocks holds up
 * other callbacks and no job's work. */
#ifndef SLUICE_PIPELINE_H
#define SLUICE_PIPELINE_H

#include <sluice/plan.h>

SL_BEGIN_C

typedef struct sl_pipeline sl_pipeline;
typedef struct sl_job sl_job;

#define SL_FOREVER UINT64_MAX

/* CPU devices of one pipeline, where they differ from the settings of the process. */
typedef struct sl_cpu_options {
    double operations_per_s;  /* a device's modelled speed; 0: the setting SLUICE_CPU_SPEED */
    double link_bytes_per_s;  /* 0: SLUICE_LINK_BANDWIDTH */
    uint64_t link_latency_ns; /* 0: SLUICE_LINK_LATENCY */
    const char *faults;       /* NULL: SLUICE_FAULTS; "": none */
    const char *order;        /* NULL: SLUICE_CPU_ORDER; "eager", "late", "newest", "random:SEED" */
    bool poison;              /* fill memory that was never written, and slots that are free, with NaN patterns */
} sl_cpu_options;

/* A topology of simulated devices: JSON in a file, or the text itself if it begins with '{'. All keys are optional; a
 * key that is not one of these is an error.
 *
 *     {"devices": {"count": 4, "name": "H100", "memory_bytes": 80e9, "operations_per_s": 6e13,
 *                  "each": [{"index": 3, "operations_per_s": 3e13}]},
 *      "links": {"bytes_per_s": 5e10, "latency_ns": 2000, "peer": true,
 *                "each": [{"to": "host", "both_ways": true, "bytes_per_s": 2.5e10},
 *                         {"from": 0, "to": 3, "peer": false}]}}
 *
 * devices.count: how many there are; without it as many as SLUICE_SIM_DEVICES. memory_bytes 0 or none: not limited.
 * operations_per_s 0 or none: stages that have no time of their own take none. An entry of devices.each is for the
 * device `index`, and takes what it does not say from the section.
 *
 * A copy takes latency_ns + bytes / bytes_per_s, rounded to a nanosecond; bytes_per_s 0 or none: the latency alone; no
 * bytes: nothing. peer false: copies between these devices are staged through host memory. An entry of links.each is
 * for copies from `from` to `to`, each a device's number, "host", or absent for any; with both_ways for the other
 * direction, too. Where several match, the last counts. */

typedef struct sl_micro_batch sl_micro_batch;
typedef struct sl_feed sl_feed;

/* Zeroes are the defaults. */
typedef struct sl_pipeline_options {
    sl_plan_options plan;
    uint32_t micro_batches;    /* into how many a job is cut, if its rows fit so few (plan.micro_batch_rows); 0: as few
                                  as that allows */
    uint32_t queue_limit;      /* jobs that may wait for their turn; 0: 1,024 */
    uint64_t patience_ns;      /* longest time that a lane which owes something may stand still; 0: 30 s */
    bool measure;              /* keep times (sl_pipeline_figures) */
    const sl_cpu_options *cpu; /* NULL: the settings of the process */
    const char *sim_topology;  /* of simulated devices, see above: a file, or JSON text; NULL: SLUICE_SIM_TOPOLOGY */
    const sl_feed *feed;       /* makes the micro-batches, instead of jobs with inputs; copied */
    void (*progress)(uint64_t bytes_done, uint64_t bytes_total, void *user); /* of loading weights; this thread */
    void *progress_user;
} sl_pipeline_options;

/* Compiles the graph, opens its devices, loads its weights. Blocks. `options` may be NULL. Returns a pipeline. Fails as
 * sl_plan_create does, or with what a device or a source said; then nothing is left behind. */
SL_API sl_status sl_pipeline_open(const sl_graph *graph, const sl_pipeline_options *options, sl_pipeline **pipeline);

/* Ends the pipeline; jobs that have not ended are cancelled, then their callbacks run, then `on_closed` (on the loop).
 * With NULL it returns when all that is done, except on the loop's own thread, where it returns at once as with a
 * callback. The pipeline is gone for the caller with this call; jobs stay until they are released. */
SL_API void sl_pipeline_close(sl_pipeline *pipeline, void (*on_closed)(void *user), void *user);

/* Runs on the loop, exactly once a job. `message` is "" for SL_OK; it and the job are valid during the call. */
typedef void (*sl_job_fn)(sl_job *job, sl_status status, const char *message, void *user);

/* Queues a job; never blocks. `inputs` and `outputs` are in the order of the graph's: tensors on a CPU device, pinned
 * for the fastest copies, of the input's type with any number of rows (at least 1; all of one row count alike). They
 * are borrowed until the job has ended. On simulated devices nothing is read or written: tensors on these will do, and
 * outputs may be NULL. `on_done` may be NULL; so may `job`, and else it returns a reference. SL_BUSY at queue_limit;
 * SL_INVALID names the tensor; the pipeline's own status and sentence once it has failed; SL_CANCELLED once it is
 * closed. */
SL_API sl_status sl_pipeline_submit(sl_pipeline *pipeline, sl_tensor *const *inputs, sl_tensor *const *outputs,
                                    sl_job_fn on_done, void *user, sl_job **job);

/* The same with a say in how the job is cut. All row counts are cut into the same number of micro-batches, each evenly
 * (sl_split_rows): of a count with fewer rows than there are micro-batches, the last have none. */
typedef struct sl_job_options {
    uint32_t micro_batches;     /* 0: the pipeline's. More than rows: one for each row */
    const sl_segment *segments; /* of a graph with state: one list for the whole job, which covers its rows in their
                                   order; a segment that is cut continues in the next micro-batch. Copied. NULL: the
                                   whole job is one sequence at place 0, position 0 */
    uint32_t n_segments;
} sl_job_options;
SL_API sl_status sl_pipeline_submit_with(sl_pipeline *pipeline, const sl_job_options *options, sl_tensor *const *inputs,
                                         sl_tensor *const *outputs, sl_job_fn on_done, void *user, sl_job **job);

/* How a job's `rows` are cut into `m` micro-batches: rows [*first, *first + *n) are the `i`th's. Sizes differ by at
 * most one, the larger first; none is empty. Returns the number of micro-batches: min(m, rows). */
SL_API uint64_t sl_split_rows(uint64_t rows, uint64_t m, uint64_t i, uint64_t *first, uint64_t *n);

/* Waits until the job has ended and returns its status (then sl_last_error is its message), or SL_TIMED_OUT.
 * SL_WRONG_THREAD on the loop's own thread, for as long as the loop is there. The job's callback may still be to
 * come. */
SL_API sl_status sl_job_wait(sl_job *job, uint64_t timeout_ns);

/* Asks for the end of a job; it ends with SL_CANCELLED unless it ends otherwise before. */
SL_API void sl_job_cancel(sl_job *job);
SL_API void sl_job_release(sl_job *job); /* takes NULL; a job that runs goes on */

/* Whether the job has ended, and how. `message` may be NULL; else it gets the job's own text, valid until release. */
SL_API bool sl_job_ended(const sl_job *job, sl_status *status, const char **message);

typedef struct sl_device_figures {
    sl_device device;
    uint64_t busy_ns; /* its compute lane had something under way */
    uint64_t stages;  /* stage executions */
} sl_device_figures;

typedef struct sl_link_figures {
    char from[SL_DEVICE_TEXT], to[SL_DEVICE_TEXT]; /* "host" too */
    uint64_t busy_ns, bytes, copies;
} sl_link_figures;

typedef struct sl_pipeline_counts {
    uint64_t wall_ns;                /* since the pipeline was opened or the figures were reset; virtual time on sim */
    uint64_t micro_batches, actions; /* enqueued */
    uint64_t parks;                  /* times that a worker or the driver went to sleep */
    int n_devices, n_links;
} sl_pipeline_counts;

/* Figures since opening or the last reset; busy times are 0 unless `measure`. Any thread, also while jobs run. */
SL_API void sl_pipeline_get_counts(sl_pipeline *pipeline, sl_pipeline_counts *counts);
SL_API bool sl_pipeline_get_device(sl_pipeline *pipeline, int i, sl_device_figures *figures);
SL_API bool sl_pipeline_get_link(sl_pipeline *pipeline, int i, sl_link_figures *figures);
SL_API void sl_pipeline_reset_figures(sl_pipeline *pipeline);
SL_API const sl_plan *sl_pipeline_plan(const sl_pipeline *pipeline);

/* A feed makes micro-batches one by one instead of jobs: generation, where the next one is known only when an earlier
 * one has come back. With plan.groups = G, `next` is asked for micro-batch k once k - G has ended and `ended` was told;
 * groups take turns: k belongs to group k % G. */
struct sl_micro_batch {
    uint32_t rows[SL_MAX_ROW_COUNTS]; /* by row count, 0 allowed but for the first */
    const void **inputs;              /* [inputs of the graph] host memory of the micro-batch's rows */
    void **outputs;                   /* [outputs of the graph] */
    sl_segment *segments;             /* [plan.max_segments] to be filled; NULL where no op of the graph reads them */
    uint32_t n_segments;
};

typedef enum sl_feed_answer {
    SL_FEED_BATCH, /* the micro-batch was filled */
    SL_FEED_PASS,  /* nothing for this turn: an empty one goes round, which costs nothing */
    SL_FEED_IDLE   /* nothing at all: ask again after sl_pipeline_poke */
} sl_feed_answer;

struct sl_feed {
    /* On the driver's thread: may not block, allocate or call the library, but for the calls that say so. The memory
     * that inputs and outputs point at is borrowed until `ended`; where that says SL_LOST or SL_STALLED something may
     * still run, and it stays borrowed until the pipeline is closed, and for good where something hangs: see `memory`.
     */
    sl_feed_answer (*next)(void *user, uint64_t k, sl_micro_batch *micro_batch);
    /* On the driver's thread, once for each SL_FEED_BATCH, in order: its outputs are written, or why not. */
    void (*ended)(void *user, uint64_t k, sl_status status, const char *message);
    /* On the loop, some time after sl_pipeline_notify: several calls may become one. May be NULL. */
    void (*deliver)(void *user);
    void *user;
    sl_tensor *memory; /* that inputs and outputs lie in: the pipeline holds a reference for as long as anything of it
                          may touch it. NULL: the feed sees to that itself */
};

SL_API void sl_pipeline_poke(sl_pipeline *pipeline);   /* any thread, a feed's hooks too; never blocks */
SL_API void sl_pipeline_notify(sl_pipeline *pipeline); /* the same */

/* Jobs of a feed: begun by whoever asks for something (counted against queue_limit: SL_BUSY), ended by the feed. Wait,
 * cancel, release and the callback are those of every job; a cancel sets a flag that the feed looks at. */
SL_API sl_status sl_job_begin(sl_pipeline *pipeline, sl_job_fn on_done, void *user, sl_job **job);
SL_API bool sl_job_cancelled(const sl_job *job); /* any thread, hooks too */
/* Any thread, hooks too; once, and not after the pipeline's on_closed. The callback comes after a `deliver` that is
 * due. Takes the feed's reference. Where the pipeline has ended the job itself, because it failed, that is all. A close
 * ends what still lives with SL_CANCELLED, and takes the references that are left. */
SL_API void sl_job_end(sl_job *job, sl_status status, const char *message);

SL_END_C
#endif
