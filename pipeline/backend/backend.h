/* The contract between the executor and what runs its actions: two tables of functions, without NULL members. A
 * platform is a kind of device in this process (cpu, sim, cuda); a backend is what one pipeline opened on it.
 *
 * A backend has lanes. A lane does its actions strictly in the order of their enqueueing, one after the other. Its
 * timeline is a number that only rises and starts at 0; RECORD raises it, WAIT holds its lane until another lane's
 * number is high enough. An event is the pair (lane, value): nothing to create, free or look up.
 *
 *     lane A:  EXECUTE stage 0 | RECORD 7 |                         timeline of A: ... 6 -> 7
 *     lane B:  WAIT (A, 7)     | COPY     | RECORD 4
 *
 * Handles are dense small numbers, so that a wrapper (sanitizer, trace, bridge) passes arrays on without translating
 * them. What differs between kinds of device and is not an action is data: the capability bits. */
#ifndef SLI_BACKEND_H
#define SLI_BACKEND_H

#include <sluice/memory.h>
#include <sluice/op.h>
#include <sluice/pipeline.h>
#include <stdatomic.h>

#define SLI_NEVER UINT64_MAX
enum {
    SLI_HOST = -1, /* in place of a device's index: host memory */
    SLI_MAX_LANES = 4096,
    SLI_ROWS_FIXED = -1,                   /* sli_extent.rows: no row count */
    SLI_ROWS_SEGMENTS = SL_MAX_ROW_COUNTS, /* the number of segments, as a row count */
    SLI_ROW_COUNTS = SL_MAX_ROW_COUNTS + 1
};

/* ---- What is run ---- */

/* The fate of a job, or of a micro-batch of a feed. Whoever stops it first (an op, a cancel, the driver) says why; from
 * then on payloads MAY be skipped, waits and records never are. Read when an action runs (cpu), or when it is enqueued
 * (cuda, sim). `message` is written by the one who stopped it, before the action that stopped it has passed. */
typedef struct sli_ticket {
    _Atomic int status; /* sl_status */
    char message[512];
} sli_ticket;

/* True if this call stopped it. Any thread, never blocks. `message` may be NULL, and is so for a thread that is neither
 * the driver's nor a lane's: nothing tells the driver when such a thread has written it. */
bool sli_ticket_stop(sli_ticket *ticket, sl_status status, const char *message);

/* One micro-batch on its way. Owned by the driver, constant from the first enqueue of an action that names it until all
 * of them have passed. */
typedef struct sli_batch {
    sli_ticket *ticket;
    uint64_t index;                /* its number since the pipeline was opened */
    uint32_t rows[SLI_ROW_COUNTS]; /* by row count; the last: segments */
    void **io; /* host addresses of this micro-batch's rows: the graph's inputs, its outputs, the segments */
} sli_batch;

/* Bytes of a value for the micro-batch at hand: rows[`rows`] * bytes, or `bytes`; of those the part from `offset`, at
 * most `limit` of it: a piece of a staged copy. */
typedef struct sli_extent {
    int rows; /* SLI_ROWS_FIXED or an index into sli_batch.rows */
    size_t bytes;
    size_t offset, limit; /* limit SIZE_MAX: all */
} sli_extent;

typedef struct sli_operand {
    char *at; /* of the slot (sim: an address, no memory); NULL: batch->io[io] */
    int io;
    int device; /* index of its kind, or SLI_HOST */
    size_t slot_bytes;
    sli_extent extent;
    const char *buffer; /* for messages: "h at cpu:1", and which of its slots; NULL: no name */
    int slot;
} sli_operand;

/* All row counts, the segments too, are 0. */
bool sli_batch_is_empty(const sli_batch *batch);

/* 0 for an empty batch, also where the extent has no row count. */
size_t sli_extent_bytes(const sli_extent *extent, const sli_batch *batch);
char *sli_operand_at(const sli_operand *operand, const sli_batch *batch); /* with the offset */

/* An operand of an op inside a stage: an operand of the work, or memory that is the same for every micro-batch. */
typedef struct sli_ref {
    int operand; /* of the work; -1: `fixed` */
    char *fixed;
    sl_type type; /* row counts as they are in the graph */
    size_t row_bytes;
} sli_ref;

typedef struct sli_op_code {
    const sl_op *op;
    sl_kernel kernel; /* for the stage's kind of device; NULL on sim */
    const void *attributes;
    int n_inputs, n_outputs, n_states;
    sli_ref *inputs, *outputs;
    sl_state_view *states;
    size_t scratch_bytes;
} sli_op_code;

/* A stage compiled: what an EXECUTE does. Constant once bound to memory. */
typedef struct sli_stage_code {
    const char *name;
    sl_device device;
    int n_ops;
    sli_op_code *ops;
    char *scratch;  /* of the device, for the op at hand */
    int descriptor; /* operand that holds the segments; -1: none */
    bool timed;     /* fixed_ns + row_ns * rows[0] instead of the cost rules */
    uint64_t fixed_ns;
    double row_ns;
} sli_stage_code;

/* What one EXECUTE or COPY does, with its slots filled in. Made when a pipeline is opened, one for each combination of
 * slots that occurs, constant from `prepare` to `close`: its address is the key of a captured graph. */
typedef struct sli_work {
    const char *name;           /* for messages: "front", "h: cpu:0 -> cpu:1" */
    const sli_stage_code *code; /* EXECUTE; NULL: COPY */
    int n_reads;                /* operands[0 .. n_reads) are read, the others written; a COPY has one of each */
    int n_operands;
    const sli_operand *operands;
} sli_work;

/* The bytes that a COPY moves: the lesser of its operands' bytes. So a slot of pinned memory that holds a piece of a
 * staged copy has offset 0 and the piece as its limit; the value at the other end says how much there is. */
size_t sli_copy_bytes(const sli_work *work, const sli_batch *batch);

/* Runs the ops of an EXECUTE on `lane`, for backends whose payloads are calls (cpu: they compute; cuda: they launch).
 * Ops whose outputs have no rows are left out, and so is all once the ticket is stopped. An error of an op stops the
 * batch's ticket (SL_STAGE_FAILED) with a sentence that names stage, op, micro-batch and device. */
void sli_work_execute(const sli_work *work, const sli_batch *batch, sl_lane *lane);

/* The time that an EXECUTE takes on a device of this speed: its stage's own time, or operations / speed by the cost
 * rules; 0 if neither is there, and for an empty batch. */
uint64_t sli_work_cost_ns(const sli_work *work, const sli_batch *batch, double operations_per_s);

enum sli_action_kind { SLI_WAIT, SLI_RECORD, SLI_EXECUTE, SLI_COPY };

typedef struct sli_action {
    uint8_t kind;
    uint16_t lane; /* that does it */
    uint16_t of;   /* WAIT: the lane that is waited for */
    union {
        uint64_t value;         /* WAIT, RECORD: on the timeline of `of`, of `lane` */
        const sli_batch *batch; /* EXECUTE, COPY */
    };
    const sli_work *work; /* EXECUTE, COPY */
} sli_action;

/* ---- Lanes ---- */

/* What ops see of a lane. Backends embed it. */
struct sl_lane {
    sl_device device;
    int threads;
    void *native;
    void (*parallel)(sl_lane *lane, int n_parts, void (*run)(int part, int n_parts, void *user), void *user);
};

typedef struct sli_lane_desc {
    int from, to; /* devices' indices or SLI_HOST. The same: the device's compute lane. Else a lane of that link */
    uint32_t n_actions; /* most that are enqueued and not yet done: the plan's credits bound it */
    uint32_t n_events;  /* most records between the oldest that is unreached or still to be waited for and the newest */
} sli_lane_desc;

typedef struct sli_lane_figures {
    uint64_t busy_ns;  /* payloads under way; 0 unless the backend was opened with `measure` */
    uint64_t payloads; /* done: of batches that are not empty, and not skipped */
    uint64_t bytes;    /* copied */
} sli_lane_figures;

/* ---- The tables ---- */

typedef struct sli_backend sli_backend;

typedef struct sli_backend_options {
    const sl_cpu_options *cpu; /* borrowed for the call; may be NULL */
    const char *sim_topology;  /* the same */
    bool measure;
} sli_backend_options;

typedef enum sli_capability {
    SLI_READS_HOST = 1, /* kernels can read any host memory: weights are used in place */
    SLI_HAS_DATA = 2,   /* memory can be read and written; without: virtual time */
    SLI_REAL_TIME = 4   /* its clock is CLOCK_MONOTONIC */
} sli_capability;

typedef struct sli_platform {
    sl_device_kind kind;
    unsigned capabilities;

    /* Once, under a lock, before anything else but the settings: finds devices. 0: none, and `absence` (static or own)
     * says why. -1: out of host memory (sl_last_error): it is asked again. */
    int (*find)(const char **absence);

    /* Any thread. */
    sl_status (*info)(int device, sl_device_info *info);

    /* Memory of a device, or pinned host memory (SLI_HOST), as the device gives it: slow, may block, 64-byte aligned.
     * Any thread. SL_OUT_OF_MEMORY without a sentence: the caller knows the figures. Limits and categories are the
     * caller's business (pipeline/memory.h). */
    sl_status (*allocate)(int device, size_t bytes, void **at);
    void (*release)(int device, void *at, size_t bytes);

    /* Copies and waits for it; either end may be SLI_HOST. Any thread. SL_NO_DATA on a platform without data. */
    sl_status (*copy)(int to_device, void *to, int from_device, const void *from, size_t bytes);
    sl_status (*zero)(int device, void *at, size_t bytes);

    /* Any thread. Opens a backend without lanes: cheap. */
    sl_status (*open)(const sli_backend_options *options, sli_backend **backend);

    /* The kernel of an op on this platform; NULL: it has none. */
    sl_kernel (*kernel)(const sl_op *op);
} sli_platform;

typedef struct sli_backend_ops {
    /* Any thread, blocks, no other call in flight. SL_OK: nothing runs any more; lanes and memory are freed.
     * SL_STALLED: something did not end within grace_ns. Then nothing is freed, and all that it may touch (memory,
     * works, batches, tickets, host buffers) stays borrowed for good. */
    sl_status (*close)(sli_backend *b, uint64_t grace_ns);

    /* Open time only. Zeroed memory (what closes a ring is read before it is written; poison where that is asked for)
     * from sli_memory_allocate with this category; SLI_HOST: pinned. Freed by close. */
    sl_status (*allocate)(sli_backend *b, int device, size_t bytes, sl_memory_category category, void **at);

    /* Open time only, blocks. Whether copies from one device to the other can go directly: access is there and a check
     * of the content passed. The verdict is kept. Logs one warning when a link corrupts. */
    bool (*peer_works)(sli_backend *b, int from, int to);

    /* Open time only. cuda: a non-blocking stream and n_events events from a pool. */
    sl_status (*lane_create)(sli_backend *b, const sli_lane_desc *desc, uint16_t *lane);

    /* Open time only; may block; once for each work before its first enqueue. cuda: warm the kernels, capture. */
    sl_status (*prepare)(sli_backend *b, int device, const sli_work *work);

    /* Driver thread. Never blocks, allocates or locks. The array may mix lanes; in it and in what came before, the
     * RECORD of a value precedes every WAIT for it, and a lane records 1, 2, 3 and so on. Nothing need start before the
     * call returns. The array is the caller's again on return. SL_LOST: the device's runtime failed (sl_last_error says
     * how), some of the array may run, timelines stop anywhere; after that only reached, await, poke and close are
     * called. What the driver enqueues because it saw a value reached says so by a WAIT too: free on cpu and cuda, and
     * the only way that sim can know. A batch whose rows are all 0 has empty payloads.
     * cuda: RECORD: entry = value % n_events; cudaEventRecord. WAIT: nothing if the value was seen reached, else
     * cudaStreamWaitEvent. COPY: cudaMemcpyPeerAsync, or cudaMemcpyAsync if an end is the host.
     * sim: the end of an action is known when it is enqueued, so enqueue is the whole simulation. */
    sl_status (*enqueue)(sli_backend *b, const sli_action *actions, size_t n);

    /* Any thread, never blocks. The value the lane has reached, perhaps a little old, never too high. A lost lane just
     * stands still. cuda: it moves only while somebody awaits. */
    uint64_t (*reached)(sli_backend *b, uint16_t lane);

    /* Driver thread only; the one call that blocks. SL_OK: the lane has reached `value`, or somebody poked: look at
     * reached. SL_LOST: a device or its runtime failed. SL_STALLED: deadline_ns of CLOCK_MONOTONIC came first
     * (SLI_NEVER: none); awaiting again is allowed. `value` need not be enqueued yet; SLI_NEVER: only a poke or the
     * deadline ends it. It gives credits back and ends jobs; no order between lanes comes from it. cpu: the driver's
     * thread serves lanes meanwhile. sim: returns at once for a value that is reached; else waits for a poke. */
    sl_status (*await)(sli_backend *b, uint16_t lane, uint64_t value, uint64_t deadline_ns);

    /* Any thread, also a callback's; never blocks. The running await, or the next one, returns. */
    void (*poke)(sli_backend *b);

    /* Driver thread. Pokes `whom`, always the same one, once the lane has reached `value`: at once if it has, and now
     * and then for nothing. Of several watches of a lane the least counts, and then they are all over: watch again
     * before each await. For who awaits in one backend and needs another's values too. */
    void (*watch)(sli_backend *b, uint16_t lane, uint64_t value, sli_backend *whom);

    /* Any thread. When a value still kept was reached, on the backend's clock; SL_INVALID otherwise, and on a backend
     * that keeps no times. */
    sl_status (*when)(sli_backend *b, uint16_t lane, uint64_t value, uint64_t *ns);

    /* Any thread. The backend's clock: CLOCK_MONOTONIC, or on sim the latest end of any action. */
    uint64_t (*now_ns)(sli_backend *b);

    /* Any thread, also while lanes run: perhaps a little old. */
    void (*lane_figures)(sli_backend *b, uint16_t lane, sli_lane_figures *figures);
    uint64_t (*parks)(sli_backend *b); /* times that a thread which serves this backend went to sleep */
} sli_backend_ops;

struct sli_backend {
    const sli_backend_ops *ops;
};

/* NULL: this build does not know the kind. */
const sli_platform *sli_platform_get(sl_device_kind kind);
extern const sli_platform sli_cpu_platform, sli_sim_platform;

uint64_t sli_now_ns(void);          /* CLOCK_MONOTONIC */
uint64_t sli_after_ns(uint64_t ns); /* now and `ns` later; SLI_NEVER stays so */

#endif
