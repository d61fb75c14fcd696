/* The graph as the planner reads it. Ids are public handles less one: indices into the arrays here. */
#ifndef SLI_GRAPH_H
#define SLI_GRAPH_H

#include "plan.h"
#include <sluice/graph.h>

enum {
    SLI_SENTENCE = 1024,
    SLI_MAX_DEPTH = 4096,
    SLI_MAX_ROWS = 1 << 30,
    SLI_MAX_CREDITS = 1 << 16 /* groups too */
};

typedef enum sli_value_kind { SLI_VALUE_INPUT, SLI_VALUE_WEIGHT, SLI_VALUE_MADE } sli_value_kind;

typedef struct sli_graph_value {
    sli_value_kind kind;
    char *name; /* of a made value: its stage and op, "front.linear", or of the output that it is */
    sl_type type;
    int stage, op; /* MADE: by whom */
    int number;    /* MADE: output of the op; INPUT: of the graph's inputs */
    sli_weight_data *weight;
    int source_depth; /* 0: the plan's choice */
    bool is_output;
} sli_graph_value;

typedef struct sli_graph_op {
    const sl_op *op;
    int stage;
    void *attributes;
    int n_inputs, n_outputs, n_states;
    int inputs[SL_MAX_OPERANDS], outputs[SL_MAX_OPERANDS], states[SL_MAX_STATES];
} sli_graph_op;

typedef struct sli_graph_stage {
    char *name;
    sl_device device;
    int n_ops, *ops; /* in the order of the calls */
    bool timed;
    uint64_t fixed_ns;
    double row_ns;
} sli_graph_stage;

typedef struct sli_graph_state {
    char *name;
    int stage;
    sl_dtype dtype;
    int64_t n_places, n_rows, columns;
} sli_graph_state;

typedef struct sli_graph_at { /* a value at a device */
    int value;
    sl_device device;
    int depth; /* of sl_graph_edge_depth */
} sli_graph_at;

typedef struct sli_graph_output {
    char *name;
    int value;
} sli_graph_output;

typedef struct sli_graph_rows {
    char *name;
    uint32_t max;
} sli_graph_rows;

struct sl_graph {
    sl_status status; /* the first error's */
    char sentence[SLI_SENTENCE];
    int n_values, n_ops, n_stages, n_states, n_inputs, n_outputs, n_asked, n_depths, n_row_counts;
    sli_graph_value *values;
    sli_graph_op *ops;
    sli_graph_stage *stages;
    sli_graph_state *states;
    int *inputs; /* values */
    sli_graph_output *outputs;
    sli_graph_at *asked; /* sl_graph_to */
    sli_graph_at *depths;
    sli_graph_rows rows[SL_MAX_ROW_COUNTS];
};

/* True if calls may change the graph: it is there and has no error. */
bool sli_graph_is_good(const sl_graph *graph);

/* Makes this thread's last error the graph's, unless it has one. */
void sli_graph_take_error(sl_graph *graph, sl_status status);

/* The index of a handle, or -1, and then the graph has an error: `what` says in which call. */
int sli_graph_value_index(sl_graph *graph, sl_value value, const char *what);
int sli_graph_stage_index(sl_graph *graph, sl_stage stage, const char *what);

/* Appends a value, whose name is copied. -1, and the graph's error, when there is no memory. */
int sli_graph_add_value(sl_graph *graph, const sli_graph_value *value, const char *name);

/* Whether a type can be that of a value: rank, dimensions, row counts that the graph has, a type that activations can
 * have (unless it is a weight's). The sentence begins with what is wrong with the type: put words before it. */
sl_status sli_graph_check_type(const sl_graph *graph, const sl_type *type, bool is_weight);

/* "[rows, 64] f32", for messages, into `text`, which is returned. */
enum { SLI_TYPE_TEXT = 160 };
const char *sli_graph_type_text(const sl_graph *graph, const sl_type *type, char text[SLI_TYPE_TEXT]);

/* Whether `value` was asked for at `device` by sl_graph_to. */
bool sli_graph_asked(const sl_graph *graph, int value, sl_device device);

/* The stages in an order in which makers come before readers, else in the order of their calls; how many have one: all,
 * if there is no cycle. `done` [n_stages] tells which. */
int sli_graph_order(const sl_graph *graph, bool *done, int *order);

/* The rules of a graph and of the options, before anything is compiled: see validate.c. */
sl_status sli_graph_validate(const sl_graph *graph, const sl_plan_options *options);

#endif
