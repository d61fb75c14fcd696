/* See math.h: chooses the kernels of ops/cpu/vector/math_arrays.c. */
#include "cpu/math.h"
#include "cpu/dispatch.h"

SLI_DECLARE_FOR_ISAS(const sli_math_kernels, sli_math);

const sli_math_kernels *sli_math_kernels_for(sl_isa isa) {
    static const sli_math_kernels *const kernels[] = SLI_FOR_ISAS(sli_math);
    return kernels[isa];
}

void sli_exp_f32(const float *x, float *y, size_t n) {
    sli_math_kernels_for(sl_cpu_isa())->exp(x, y, n);
}

void sli_tanh_f32(const float *x, float *y, size_t n) {
    sli_math_kernels_for(sl_cpu_isa())->tanh(x, y, n);
}

void sli_erf_f32(const float *x, float *y, size_t n) {
    sli_math_kernels_for(sl_cpu_isa())->erf(x, y, n);
}
