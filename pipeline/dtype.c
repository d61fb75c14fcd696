/* The table of element types, and the one function that knows the bytes of a row. Conversions are convert.c's. */
#include "error.h"
#include "registry.h"
#include <sluice/dtype.h>
#include <stdio.h>
#include <string.h>

static const sl_dtype_info table[SL_DTYPES] = {
    [SL_F32] = {"f32", 1, 4, 4, true, false},
    [SL_F16] = {"f16", 1, 2, 2, true, false},
    [SL_BF16] = {"bf16", 1, 2, 2, true, false},
    [SL_I32] = {"i32", 1, 4, 4, false, false},
};

const sl_dtype_info *sl_dtype_get(sl_dtype dtype) {
    return (unsigned)dtype < SL_DTYPES ? &table[dtype] : NULL;
}

const char *sl_dtype_name(sl_dtype dtype) {
    const sl_dtype_info *info = sl_dtype_get(dtype);
    return info ? info->name : "unknown";
}

static sl_status fail_unknown(const char *name) {
    char list[512], quoted[SLI_QUOTE];
    size_t used = 0;
    for (int i = 0; i < SL_DTYPES && used < sizeof list; i++)
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", table[i].name);
    return sl_fail(SL_INVALID, "'%s' is no element type; there are: %s", sli_quote(name, quoted), list);
}

sl_status sl_dtype_parse(const char *name, sl_dtype *dtype) {
    for (int i = 0; name && i < SL_DTYPES; i++)
        if (strcmp(name, table[i].name) == 0) {
            *dtype = i;
            return SL_OK;
        }
    return fail_unknown(name ? name : "NULL");
}

sl_status sl_row_bytes(sl_dtype dtype, int64_t columns, size_t *bytes) {
    const sl_dtype_info *info = sl_dtype_get(dtype);
    if (!info)
        return sl_fail(SL_INVALID, "%d is no element type", (int)dtype);
    if (columns < 0)
        return sl_fail(SL_INVALID, "a row of %lld %s: 0 or more elements were expected", (long long)columns,
                       info->name);
    if (columns % info->block_elements)
        return sl_fail(SL_INVALID, "a row of %lld %s: a multiple of %u elements was expected", (long long)columns,
                       info->name, info->block_elements);
    int64_t product;
    if (__builtin_mul_overflow(columns / info->block_elements, (int64_t)info->block_bytes, &product))
        return sl_fail(SL_INVALID, "a row of %lld %s does not fit 63 bits", (long long)columns, info->name);
    *bytes = (size_t)product;
    return SL_OK;
}
