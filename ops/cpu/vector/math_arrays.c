/* The functions of math.h for one instruction set: whole vectors, and a part at the end whose other lanes are 0. */
#include "cpu/math.h"
#include "cpu/vmath.h"

#define EACH_VECTOR(function)                                                                                          \
    size_t i = 0;                                                                                                      \
    for (; i + SLI_LANES <= n; i += SLI_LANES)                                                                         \
        sli_vf_store(y + i, function(sli_vf_load(x + i)));                                                             \
    if (i < n)                                                                                                         \
    sli_vf_store_part(y + i, function(sli_vf_load_part(x + i, n - i)), n - i)

static void exp_array(const float *x, float *y, size_t n) {
    EACH_VECTOR(sli_v_exp);
}

static void tanh_array(const float *x, float *y, size_t n) {
    EACH_VECTOR(sli_v_tanh);
}

static void erf_array(const float *x, float *y, size_t n) {
    EACH_VECTOR(sli_v_erf);
}

extern const sli_math_kernels SLI_FOR_ISA(sli_math);
const sli_math_kernels SLI_FOR_ISA(sli_math) = {.exp = exp_array, .tanh = tanh_array, .erf = erf_array};
