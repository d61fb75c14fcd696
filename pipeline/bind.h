/* A plan on a backend: its blocks of memory, its weights, its lanes, and every payload with its slots filled in. Made
 * when a pipeline is opened; constant after. */
#ifndef SLI_BIND_H
#define SLI_BIND_H

#include "plan.h"

typedef struct sli_bind_options {
    void (*progress)(uint64_t bytes_done, uint64_t bytes_total, void *user); /* of loading weights; may be NULL */
    void *progress_user;
} sli_bind_options;

typedef struct sli_bound_payload {
    sli_work *works;       /* [n_works] */
    sli_operand *operands; /* [n_works][operands of the payload] */
    uint32_t n_works;
    int lag;
} sli_bound_payload;

/* The last records of a lane of the backend: step k has ended there at k * rate + step_offset, micro-batch k, which
 * lags let into later steps, at k * rate + batch_offset. */
typedef struct sli_lane_end {
    uint16_t lane;
    int64_t rate, step_offset, batch_offset;
} sli_lane_end;

/* Weights at the devices that use them. */
typedef struct sli_weights {
    char **at;              /* [plan->n_weights] */
    size_t *borrowed_bytes; /* [plan->n_devices] used in place, counted against the device */
} sli_weights;

typedef struct sli_binding {
    const sl_plan *plan; /* borrowed */
    const sli_platform *platform;
    sli_backend *backend; /* borrowed */

    sli_plan_action *program; /* [plan->n_program] the plan's, with lanes of the backend */
    sli_bound_payload *payloads;
    sli_stage_code *codes; /* [plan->n_stages] */
    int n_ends;
    sli_lane_end *ends; /* in the order of the program */
    uint16_t *lanes;    /* [plan->n_lanes] */

    char *(*blocks)[SL_MEMORY_CATEGORIES]; /* [plan->n_devices] */
    char *pinned;
    sli_weights weights;

    uint32_t n_slots;      /* micro-batches that can be on their way; a power of two */
    sl_segment *segments;  /* [n_slots][plan->options.max_segments] in host memory that devices can read */
    bool segments_on_heap; /* where the platform has no memory of its own */
} sli_binding;

/* Blocks. Borrows plan, platform and backend until sli_unbind. What the backend allocated stays its own. */
sl_status sli_bind(const sl_plan *plan, const sli_platform *platform, sli_backend *backend,
                   const sli_bind_options *options, sli_binding **out);

/* After the backend was closed, or before it runs anything. Takes NULL. */
void sli_unbind(sli_binding *bound);

/* load.c: brings each weight to its device: the tensor itself where it lies there, mapped memory in place where the
 * platform reads it, else into one block a device, in pieces. */
sl_status sli_weights_load(sli_binding *bound, const sli_bind_options *options);
void sli_weights_return(sli_binding *bound);

/* code.c: what the EXECUTEs call. */
sl_status sli_codes_make(sli_binding *bound);
void sli_codes_free(sli_binding *bound);

#endif
