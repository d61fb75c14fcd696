/* Weights of one row, such as those of a norm: as f32, whatever their type. */
#ifndef SLI_ROW_WEIGHTS_H
#define SLI_ROW_WEIGHTS_H

#include <sluice/op.h>

/* A scratch rule: room for all inputs but the first that are not f32. */
size_t sli_row_weights_scratch(const sl_call *call, int threads);

/* Input i: its data if it is f32, else a copy in the call's scratch, which is converted now. */
const float *sli_row_weight(const sl_call *call, int i);

#endif
