/* The plan as the executor sees it: the graph compiled to arrays. What it holds and how it is used:
 *
 *   devices, weights, states, stages    what is to be allocated and loaded when a pipeline is opened
 *   buffers                             the slots of values, at their maker and at each device that reads them
 *   payloads                            the EXECUTEs and COPYs of one step, and the slots they touch
 *   program                             one step: waits, payloads and records in an order that cannot deadlock
 *
 * Step k does, on each lane in order, payload p of micro-batch k - payload.lag. Every event of the program is
 * `step * rate + offset` on its lane's timeline; a WAIT whose value is 0 or less is none. */
#ifndef SLI_PLAN_H
#define SLI_PLAN_H

#include "backend/backend.h"
#include <sluice/plan.h>

/* The content of a weight: shared by the graph, its plans and its pipelines. */
typedef struct sli_weight_data {
    _Atomic int references;
    char *name;
    sl_dtype dtype;
    int rank;
    int64_t shape[SL_MAX_RANK];
    size_t bytes;
    sl_tensor *tensor; /* retained; or NULL: */
    sl_source source;
} sli_weight_data;

sli_weight_data *sli_weight_data_retain(sli_weight_data *data);
void sli_weight_data_release(sli_weight_data *data); /* takes NULL */

typedef struct sli_plan_device {
    sl_device device;
    sl_memory_figures memory; /* by_category: bytes of one block of each category; peak: their sum */
} sli_plan_device;

typedef struct sli_plan_weight { /* a weight at one device that uses it */
    int device;                  /* of the plan's devices, as all `device` fields here; SLI_HOST where that is said */
    sli_weight_data *data;
} sli_plan_weight;

typedef struct sli_plan_state {
    char *name;
    int device;
    sl_dtype dtype;
    int64_t n_places, n_rows, columns;
    size_t row_bytes, bytes;
    size_t offset; /* in its device's block of SL_MEMORY_STATE */
} sli_plan_state;

typedef enum sli_place { SLI_IN_SLOT, SLI_IN_ACTIVATIONS, SLI_IN_WEIGHTS } sli_place;

typedef struct sli_plan_ref { /* an operand of an op */
    sli_place place;
    int index;        /* operand of the stage's payload, or weight */
    size_t offset;    /* in its device's block of SL_MEMORY_ACTIVATIONS, which all stages of the device share */
    sl_type type;     /* row counts are codes */
    size_t row_bytes; /* of the last dimension; of an element, where that is a row count */
} sli_plan_ref;

typedef struct sli_plan_op {
    const sl_op *op;
    void *attributes;
    int n_inputs, n_outputs, n_states;
    sli_plan_ref *inputs, *outputs;
    int *states; /* of the plan's states */
    size_t scratch_bytes;
} sli_plan_op;

typedef struct sli_plan_stage {
    char *name;
    int device;
    int n_ops;
    sli_plan_op *ops;
    int descriptor; /* operand of the payload that holds the segments; -1: no op needs them */
    bool timed;
    uint64_t fixed_ns;
    double row_ns;
} sli_plan_stage;

typedef enum sli_depth_why { /* why a buffer has as many slots as it has */
                             SLI_DEPTH_DEFAULT,
                             SLI_DEPTH_OPTION,  /* sl_plan_options.depth */
                             SLI_DEPTH_GRAPH,   /* sl_graph_source_depth, sl_graph_edge_depth */
                             SLI_DEPTH_WAY,     /* one for each stage and each copy on the longest way round */
                             SLI_DEPTH_LAG,     /* its reader is that many steps behind its writer */
                             SLI_DEPTH_ROUNDED, /* up to a power of two, so that there are fewer combinations of slots
                                                 */
                             SLI_DEPTH_PIECES,  /* of staged copies: one for each half of the way */
                             SLI_DEPTH_WINDOW   /* tokens: sl_plan_options.window */
} sli_depth_why;

typedef struct sli_buffer {
    char *name; /* "h", "h at cpu:1", "h staged cpu:0 -> cpu:1" */
    int device; /* or SLI_HOST: pinned */
    int depth;
    sli_depth_why why;
    size_t slot_bytes;
    size_t offset; /* in its device's block of SL_MEMORY_SLOTS, or of the pinned block */
} sli_buffer;

typedef enum sli_route {
    SLI_ROUTE_ALIAS,  /* on one device: no copy */
    SLI_ROUTE_PEER,   /* one copy */
    SLI_ROUTE_STAGED, /* through pinned host memory, in pieces */
    SLI_ROUTE_HOST    /* an input or an output of the graph: one end is the micro-batch's own host memory */
} sli_route;

typedef struct sli_plan_edge { /* a value and one device that reads it: for people who read the plan */
    char *name;                /* of the value */
    int from, to;              /* devices, or SLI_HOST */
    sli_route route;
    int source, staging, destination; /* buffers; -1: none. An alias has its source alone */
    int pieces;
} sli_plan_edge;

typedef struct sli_plan_operand {
    int buffer;        /* -1: the micro-batch's own host memory, io */
    int io;            /* inputs, then outputs, then the segments */
    int distance;      /* reads what was written this many micro-batches earlier; 0 but for what closes a ring */
    int piece, pieces; /* staged: the slot is that of piece number `micro_batch * pieces + piece`; else 0 and 1 */
    sli_extent extent;
} sli_plan_operand;

typedef struct sli_payload {
    uint8_t kind; /* SLI_EXECUTE, SLI_COPY */
    char *name;
    uint16_t lane;
    int device; /* whose memory manager prepares it */
    int stage;  /* EXECUTE: of the plan's stages */
    int lag;
    int n_reads, n_operands;
    sli_plan_operand *operands;
    uint32_t n_works; /* combinations of slots: work v of micro-batch i is v = i mod n_works */
} sli_payload;

typedef struct sli_plan_lane {
    int from, to;                 /* plan devices or SLI_HOST */
    uint32_t rate;                /* records in a step */
    uint32_t n_actions, n_events; /* of sli_lane_desc */
} sli_plan_lane;

typedef struct sli_plan_action {
    uint8_t kind;
    uint16_t lane, of;
    int64_t rate, offset;
    uint32_t payload; /* EXECUTE, COPY */
} sli_plan_action;

struct sl_plan {
    sl_device_kind kind;     /* of all devices */
    sl_plan_options options; /* filled: no zero means a default any more */

    int n_devices, n_weights, n_states, n_stages, n_buffers, n_payloads, n_lanes, n_ends, n_edges;
    sli_plan_device *devices;
    sli_plan_weight *weights;
    sli_plan_state *states;
    sli_plan_stage *stages;
    sli_buffer *buffers;
    sli_payload *payloads;
    sli_plan_edge *edges;
    sli_plan_lane *lanes;
    size_t pinned_bytes; /* staging slots on the host */

    size_t n_program;
    sli_plan_action *program;
    sli_plan_action *ends; /* each lane's last record: a step has ended when all are reached */
    int n_waits, n_implied, max_lag;
    uint32_t slots_hold; /* most micro-batches from the copies of inputs to those of outputs: slots and windows */
    uint32_t credits;    /* steps that the driver may be ahead of the last one known to have ended */

    int n_row_counts;
    uint32_t max_rows[SLI_ROW_COUNTS]; /* by row count; the last: segments */
    char *row_names[SL_MAX_ROW_COUNTS];

    int n_inputs, n_outputs; /* of a job */
    sl_type *input_types, *output_types;
    char **input_names, **output_names;
    bool has_segments; /* some stage reads the descriptor */
};

typedef struct sli_plan_extras {
    sli_backend *backend; /* asked which links work; NULL: one is opened for it */
    int drop_wait;        /* 1-based: leave this wait out, for mutation tests; 0: none */
    bool keep_implied;    /* leave in what others imply */
} sli_plan_extras;

/* sl_plan_create with more; `extras` may be NULL. */
sl_status sli_plan_compile(const sl_graph *graph, const sl_plan_options *options, const sli_plan_extras *extras,
                           sl_plan **plan);

/* The slot of a buffer that an operand of payload `p` touches for micro-batch i (i may be negative before the first).
 */
int sli_operand_slot(const sl_plan *plan, const sli_plan_operand *operand, int64_t i);

#endif
