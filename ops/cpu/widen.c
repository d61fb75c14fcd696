/* See widen.h. f16 has an instruction in every vector set; other types go the way of all conversions. */
#include "cpu/widen.h"
#include "cpu/vector_kernels.h"

sl_status sli_widen(sl_dtype dtype, const void *row, float *y, size_t n) {
    if (dtype != SL_F16)
        return sl_convert(SL_F32, y, dtype, row, n);
    sli_elementwise_for(sl_cpu_isa())->widen_f16(row, y, n);
    return SL_OK;
}
