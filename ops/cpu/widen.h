/* Rows of weights as f32, whatever their type. */
#ifndef SLI_WIDEN_H
#define SLI_WIDEN_H

#include <sluice/dtype.h>

/* y[0 .. n) from a row of n elements. SL_UNSUPPORTED for a type that has no conversion to f32. */
sl_status sli_widen(sl_dtype dtype, const void *row, float *y, size_t n);

#endif
