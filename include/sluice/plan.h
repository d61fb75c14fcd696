/* The plan: the graph compiled. Where every byte lies, what each lane does in which order, what waits for what. It is
 * what a pipeline runs; on its own it answers "does it fit, and what would it do?" without touching a device. */
#ifndef SLUICE_PLAN_H
#define SLUICE_PLAN_H

#include <sluice/graph.h>
#include <sluice/memory.h>

SL_BEGIN_C

typedef struct sl_plan sl_plan;

typedef enum sl_route_choice { SL_ROUTE_AUTO, SL_ROUTE_PEER, SL_ROUTE_STAGED } sl_route_choice;

/* What shapes the plan. Zeroes are the defaults. */
typedef struct sl_plan_options {
    uint32_t micro_batch_rows; /* most rows of SL_ROWS in a micro-batch; 0: 32 */
    uint32_t max_segments;     /* most segments in a micro-batch; 0: micro_batch_rows */
    int depth;                 /* slots of a value, at its maker and at each device that reads it; 0: 2, and more where
                                  fewer would stall a longer way round (a skip has one for each stage and each copy) */
    uint32_t window;           /* most micro-batches between the first stage's start and the last one's end; 0: as many
                                  as the slots hold */
    uint32_t groups;           /* a ring: micro-batch k begins when k - groups has ended on the host; 0: no ring */
    uint32_t credits;          /* micro-batches enqueued ahead; 0: the plan's choice; raised where too few */
    bool strict;               /* refuse to move a value between devices unless sl_graph_to asked for it */
    sl_route_choice route;     /* of edges between devices */
    size_t staging_bytes;      /* of one piece of a staged copy; 0: 1 MiB */
} sl_plan_options;

/* Compiles. Validates first: the message names the stage, the op, the values, what was found and the mend. SL_INVALID,
 * SL_NO_DEVICE, SL_UNSUPPORTED (an op without a kernel for its device), SL_OUT_OF_MEMORY (which device, what holds how
 * much, how many bytes are missing and which knobs help). Returns a plan; the graph may be destroyed after. */
SL_API sl_status sl_plan_create(const sl_graph *graph, const sl_plan_options *options, sl_plan **plan);
SL_API void sl_plan_destroy(sl_plan *plan); /* takes NULL */

typedef enum sl_plan_format { SL_PLAN_TEXT, SL_PLAN_JSON, SL_PLAN_DOT } sl_plan_format;

/* The plan as text, as JSON or as a Graphviz graph: returns a string to be given to sl_free. */
SL_API sl_status sl_plan_format_as(const sl_plan *plan, sl_plan_format format, char **text);

/* The figures of a plan. Peak bytes of a device by category, for the micro-batches that fit the options. */
SL_API int sl_plan_n_devices(const sl_plan *plan);
SL_API sl_status sl_plan_memory(const sl_plan *plan, int i, sl_device *device, sl_memory_figures *figures);

typedef struct sl_plan_figures {
    int n_stages, n_edges, n_lanes, n_actions; /* n_actions: of a step */
    int n_waits, n_waits_implied;              /* of a step: in it, and left out of it */
    uint32_t credits;
    int max_lag;
} sl_plan_figures;
SL_API void sl_plan_get_figures(const sl_plan *plan, sl_plan_figures *figures);

SL_END_C
#endif
