/* How jobs are cut into micro-batches. */
#ifndef SLI_CUT_H
#define SLI_CUT_H

#include "executor.h"

/* The number of micro-batches for these rows: `wanted`, but no more than rows of SL_ROWS and as many as the plan's
 * limits need; 0 wanted: the fewest. SL_INVALID where no number is right. */
sl_status sli_cut_count(const sl_plan *plan, const uint64_t *rows, uint32_t wanted, uint64_t *n_parts);

/* Whether each micro-batch's share of the job's segments fits, and all of them are sound. */
sl_status sli_cut_check_segments(const sl_plan *plan, const sl_job *job);

/* Fills in rows, io and segments of the job's next micro-batch, and moves on. `batch->io` has room for inputs, outputs
 * and the segments, which are written to `segments`. */
void sli_cut_next(const sl_plan *plan, sl_job *job, sli_batch *batch, sl_segment *segments);

#endif
