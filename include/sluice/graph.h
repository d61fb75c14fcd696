/* The graph: stages pinned to devices, and the values that they make and read.
 *
 * Building needs no check a call: the graph keeps its first error, later calls do nothing, and sl_plan_create and
 * sl_pipeline_open return it. A graph is built by one thread at a time. Nothing is allocated on a device before a
 * pipeline is opened. */
#ifndef SLUICE_GRAPH_H
#define SLUICE_GRAPH_H

#include <sluice/op.h>
#include <sluice/tensor.h>

SL_BEGIN_C

typedef struct sl_graph sl_graph;

/* Handles: small values that are copied. id 0 is none: what a failed call returns. */
typedef struct sl_value {
    int id;
} sl_value;
typedef struct sl_stage {
    int id;
} sl_stage;
typedef struct sl_state {
    int id;
} sl_state;

/* NULL when there is no memory. */
SL_API sl_graph *sl_graph_create(void);
SL_API void sl_graph_destroy(sl_graph *graph); /* takes NULL; plans and pipelines made of it stay whole */

/* The first error of the graph: SL_OK while there is none; its sentence is then sl_last_error's. */
SL_API sl_status sl_graph_status(const sl_graph *graph);

/* Makes this the graph's error, unless it has one: for what builds graphs on top of these calls and finds something
 * wrong itself, such as a reader of files. `status` is not SL_OK. */
SL_API void sl_graph_fail(sl_graph *graph, sl_status status, const char *format, ...) SL_PRINTF(3, 4);

/* A row count: `name` for messages, and the most rows that one micro-batch can have (0: micro_batch_rows of the
 * options). Returns its dimension, SL_ROWS - 1 and so on. SL_ROWS is named "rows"; sl_graph_set_rows changes that. */
SL_API int64_t sl_graph_rows(sl_graph *graph, const char *name, uint32_t max);
SL_API void sl_graph_set_rows(sl_graph *graph, int64_t dimension, const char *name, uint32_t max);

/* An input of each job, [rows, columns] or of any shape whose leading dimension is a row count. The order of the calls
 * is the order of a job's inputs. */
SL_API sl_value sl_graph_input(sl_graph *graph, const char *name, sl_dtype dtype, int64_t rows, int64_t columns);
SL_API sl_value sl_graph_input_shaped(sl_graph *graph, const char *name, const sl_type *type);

/* A weight from a tensor (retained). Each device that uses it holds it once: the tensor itself where it lies there. */
SL_API sl_value sl_graph_weight(sl_graph *graph, const char *name, sl_tensor *tensor);

/* A weight from elsewhere, such as a file: read once for each device that uses it when a pipeline is opened. */
typedef struct sl_source {
    /* The content in host memory as it lies, valid until `release`: a mapped file. CPU devices use it in place where it
     * is aligned for its type. NULL: `read` brings it. */
    const void *memory;
    /* Writes bytes [offset, offset + bytes) of the weight to host memory. NULL if `memory` is not. Any thread. */
    sl_status (*read)(void *user, size_t offset, void *destination, size_t bytes);
    void (*release)(void *user); /* once, when the graph and all its pipelines are gone; may be NULL */
    void *user;
} sl_source;
SL_API sl_value sl_graph_weight_source(sl_graph *graph, const char *name, sl_dtype dtype, int rank,
                                       const int64_t *shape, const sl_source *source);

/* The weight of this name; id 0, and no error, if there is none. For builders whose ops share a weight. */
SL_API sl_value sl_graph_find_weight(const sl_graph *graph, const char *name);

/* A stage, pinned to a device by its string ("cuda:1"). The order of the calls is the order in which stages on one
 * device are run where nothing else decides. */
SL_API sl_stage sl_graph_stage(sl_graph *graph, const char *name, const char *device);
SL_API sl_stage sl_graph_stage_on(sl_graph *graph, const char *name, sl_device device);

/* The time that the stage takes in a simulation, and on CPU devices as a modelled time: fixed_ns + row_ns for each row
 * of SL_ROWS, instead of the cost rules of its ops. */
SL_API void sl_graph_stage_time(sl_graph *graph, sl_stage stage, uint64_t fixed_ns, double row_ns);

/* Memory of a stage's device that lives across micro-batches: `n_places` sequences of at most `n_rows` rows of
 * `columns` elements. Only ops of this stage use it. Zeroed when the pipeline is opened. */
SL_API sl_state sl_graph_state(sl_graph *graph, sl_stage stage, const char *name, sl_dtype dtype, int64_t n_places,
                               int64_t n_rows, int64_t columns);

/* An op in a stage. `op` is borrowed until the graph, its plans and pipelines are gone; `attributes`
 * (op->attribute_bytes of them) are copied. Outputs are written to `outputs` (ids 0 after an error). The plain
 * functions of <sluice/ops.h> come down to this. */
SL_API void sl_graph_op(sl_graph *graph, sl_stage stage, const sl_op *op, const void *attributes, int n_inputs,
                        const sl_value *inputs, int n_states, const sl_state *states, int n_outputs, sl_value *outputs);

/* An op of one output. */
SL_API sl_value sl_graph_op1(sl_graph *graph, sl_stage stage, const sl_op *op, const void *attributes, int n_inputs,
                             const sl_value *inputs, int n_states, const sl_state *states);

/* Asks by name for `value` at `device`: with `strict`, only what was asked for is moved. Returns the value itself. */
SL_API sl_value sl_graph_to(sl_graph *graph, sl_value value, const char *device);

/* An output of each job. The order of the calls is the order of a job's outputs. An input can't be an output. */
SL_API void sl_graph_output(sl_graph *graph, const char *name, sl_value value);

/* Editing: moves a stage to another device; gives a value another number of slots at its maker (0: the plan's choice)
 * or at a device that reads it. */
SL_API void sl_graph_stage_move(sl_graph *graph, sl_stage stage, const char *device);
SL_API void sl_graph_source_depth(sl_graph *graph, sl_value value, int depth);
SL_API void sl_graph_edge_depth(sl_graph *graph, sl_value value, const char *device, int depth);

/* Reading. Names are the graph's own; counts are those of calls that succeeded. */
SL_API sl_status sl_graph_value_type(const sl_graph *graph, sl_value value, sl_type *type);
SL_API int sl_graph_n_inputs(const sl_graph *graph);
SL_API int sl_graph_n_outputs(const sl_graph *graph);
SL_API int sl_graph_n_stages(const sl_graph *graph);
SL_API const char *sl_graph_input_name(const sl_graph *graph, int i);
SL_API const char *sl_graph_output_name(const sl_graph *graph, int i);
SL_API const char *sl_graph_stage_name(const sl_graph *graph, int j);

SL_END_C
#endif
