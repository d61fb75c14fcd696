/* What an op is. The library's own ops and a user's have the same rights: both are a constant sl_op.
 *
 * An op reads inputs and writes outputs. Values are [rows, columns...]: the leading dimension may be a row count, which
 * differs from micro-batch to micro-batch; rows mix through state alone, so an op gives row r of its outputs from row r
 * of its inputs and from state (an op that gathers rows by index is the exception, and says so in `mixes_rows`). */
#ifndef SLUICE_OP_H
#define SLUICE_OP_H

#include <sluice/device.h>
#include <sluice/dtype.h>
#include <sluice/tensor.h>

SL_BEGIN_C

/* A lane: where an op's work is put. Borrowed for the call. */
typedef struct sl_lane sl_lane;

enum {
    SL_MAX_OPERANDS = 12, /* inputs and, apart from them, outputs of an op */
    SL_MAX_STATES = 4,    /* states of an op */
    SL_MAX_ROW_COUNTS = 4 /* row counts of a graph */
};

/* A leading dimension below 0 is a row count of the graph, not a number: the first is SL_ROWS, which every graph has;
 * sl_graph_rows makes more. */
#define SL_ROWS (-1)

typedef struct sl_shape {
    int rank; /* 1 to SL_MAX_RANK */
    int64_t dims[SL_MAX_RANK];
} sl_shape;

typedef struct sl_type { /* of a value */
    sl_dtype dtype;
    sl_shape shape;
} sl_type;

/* What a kernel sees of a value. On a CPU device `data` is readable (an input) or writable (an output) during the call;
 * on a GPU it is a device address. Rows of the micro-batch at hand are filled in: dims[0] is a number. */
typedef struct sl_view {
    void *data;
    sl_dtype dtype;
    sl_shape shape;
    size_t row_bytes; /* of the last dimension */
} sl_view;

/* Part of a micro-batch that belongs to one sequence: rows first_row .. first_row + n_rows of row count SL_ROWS
 * continue the sequence at `place` of every state, whose length before them is `position`. The segments of a
 * micro-batch cover its rows in order, without gaps. */
typedef struct sl_segment {
    int32_t place;
    int32_t position;
    int32_t first_row;
    int32_t n_rows;
} sl_segment;

/* What differs from micro-batch to micro-batch. Counts are known on the host when work is enqueued; the segments lie in
 * the device's memory (on a CPU device: readable). */
typedef struct sl_descriptor {
    uint32_t rows[SL_MAX_ROW_COUNTS];
    uint32_t n_segments;
    const sl_segment *segments;
    uint64_t micro_batch; /* its number since the pipeline was opened, for messages */
} sl_descriptor;

/* Memory of a stage that lives across micro-batches, with a place for each sequence. */
typedef struct sl_state_view {
    void *data;
    sl_dtype dtype;
    int64_t n_places;
    int64_t n_rows;   /* of a place: the longest sequence */
    int64_t columns;  /* of a row */
    size_t row_bytes; /* place p, row r is at data + (p * n_rows + r) * row_bytes */
} sl_state_view;

typedef struct sl_call {
    const void *attributes;
    int n_inputs, n_outputs, n_states;
    const sl_view *inputs;
    const sl_view *outputs;
    const sl_state_view *states;
    const sl_descriptor *descriptor;
    void *scratch; /* scratch_bytes of device memory, 64-byte aligned, with any content; NULL if 0 were asked for */
    size_t scratch_bytes;
} sl_call;

/* Does the op (CPU), or launches it (GPU). Not SL_OK fails the job, with the sentence of sl_fail. On a GPU it neither
 * waits nor leaves an error behind. */
typedef sl_status (*sl_kernel)(sl_lane *lane, const sl_call *call);

typedef struct sl_cost {
    double operations; /* additions and multiplications, and functions as their makers count them */
    double bytes_read;
    double bytes_written;
} sl_cost;

typedef struct sl_op {
    const char *name; /* "linear"; unique among the ops of a graph */
    size_t attribute_bytes;

    /* The shape rule: from the types of the inputs (and attributes) those of the outputs, as many as `*n_outputs` says
     * after. `is_weight[i]` tells whether input i is a weight. SL_INVALID with a sentence that names the input, what
     * was found and what was expected; the caller puts stage and op before it. Called while the graph is built. */
    sl_status (*shape)(const void *attributes, int n_inputs, const sl_type *inputs, const bool *is_weight,
                       int *n_outputs, sl_type *outputs);

    /* The cost rule, with row counts filled in. Views have no data. */
    void (*cost)(const sl_call *call, sl_cost *cost);

    /* Scratch for the largest micro-batch on a device of `threads` threads; NULL: none. Views have no data. */
    size_t (*scratch)(const sl_call *call, int threads);

    sl_kernel cpu;  /* NULL: not on CPU devices */
    sl_kernel cuda; /* NULL: not on GPUs, unless the CUDA module brings a kernel of this name */

    /* The state rule: SL_INVALID with a sentence unless the states fit; NULL: any do. Views have no data. Called while
     * the graph is built, before the shape rule. */
    sl_status (*states)(const void *attributes, int n_states, const sl_state_view *states);

    bool uses_descriptor; /* reads descriptor->segments: they are sent to its device */
    bool mixes_rows;      /* gathers rows by index within the micro-batch */
    bool never_blocks;    /* its CPU kernel waits for nothing: no lock, file, sleep or other thread. Where it is short,
                             too, it may run on a thread that has more to look after, which saves a hand-over */
} sl_op;

/* CPU: calls run(part, n_parts, user) for each part, on this thread and on workers that are free; returns when all have
 * returned. n_parts is the caller's choice (sl_lane_threads gives the device's number of threads). The results must not
 * depend on n_parts. */
SL_API void sl_lane_parallel(sl_lane *lane, int n_parts, void (*run)(int part, int n_parts, void *user), void *user);
SL_API int sl_lane_threads(const sl_lane *lane);
SL_API sl_device sl_lane_device(const sl_lane *lane);

/* cudaStream_t of a lane of a GPU, whose device is current in a kernel's call; NULL elsewhere. */
SL_API void *sl_lane_native(sl_lane *lane);

/* Elements of a shape without its last dimension, and its last dimension: a value as a matrix. Row counts must be
 * filled in. */
static inline int64_t sl_shape_rows(const sl_shape *shape) {
    int64_t n = 1;
    for (int d = 0; d + 1 < shape->rank; d++)
        n *= shape->dims[d];
    return n;
}

static inline int64_t sl_shape_columns(const sl_shape *shape) {
    return shape->dims[shape->rank - 1];
}

SL_END_C
#endif
