/* Element types: rows of one table. A type is plain (a block is one element) or block-quantised (a block is several
 * elements in a row, which share scales); what is asked of a type is asked here and nowhere else. */
#ifndef SLUICE_DTYPE_H
#define SLUICE_DTYPE_H

#include <sluice/status.h>

SL_BEGIN_C

typedef enum sl_dtype { SL_F32, SL_F16, SL_BF16, SL_I32, SL_DTYPES } sl_dtype;

typedef struct sl_dtype_info {
    const char *name;        /* "f32" */
    uint32_t block_elements; /* 1: plain */
    uint32_t block_bytes;
    uint32_t alignment; /* bytes, of the first element */
    bool is_float;
    bool weights_only; /* block-quantised: no activations, no states */
} sl_dtype_info;

/* Static; NULL for what is no type. */
SL_API const sl_dtype_info *sl_dtype_get(sl_dtype dtype);
SL_API const char *sl_dtype_name(sl_dtype dtype); /* "unknown" for what is none */
SL_API sl_status sl_dtype_parse(const char *name, sl_dtype *dtype);

/* The bytes of a row of `columns` elements: the one place that knows. SL_INVALID if the row is no whole number of
 * blocks, is negative, or does not fit 63 bits. */
SL_API sl_status sl_row_bytes(sl_dtype dtype, int64_t columns, size_t *bytes);

/* Converts `count` elements between f32, f16 and bf16, rounding to nearest even as IEEE 754 says, NaN stays NaN; the
 * same type copies. Other pairs are SL_UNSUPPORTED. The buffers do not overlap. */
SL_API sl_status sl_convert(sl_dtype to, void *destination, sl_dtype from, const void *source, size_t count);

SL_END_C
#endif
