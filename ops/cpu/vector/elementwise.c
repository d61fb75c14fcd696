/* Arrays, element by element, for one instruction set. Plain loops are left to the compiler, which turns them into
 * vectors without changing a bit. */
#include "cpu/simd_at.h"
#include "cpu/vector_kernels.h"
#include "cpu/vmath.h"
#include <math.h>

#define UNARY(name, expression)                                                                                        \
    static void name##_array(const float *px, float *y, size_t n) {                                                    \
        for (size_t i = 0; i < n; i += SLI_LANES) {                                                                    \
            sli_vf x = sli_load_at(px, i, n);                                                                          \
            sli_store_at(y, i, n, expression);                                                                         \
        }                                                                                                              \
    }

#define BINARY(name, expression)                                                                                       \
    static void name##_arrays(const float *pa, const float *pb, float *y, size_t n) {                                  \
        for (size_t i = 0; i < n; i += SLI_LANES) {                                                                    \
            sli_vf a = sli_load_at(pa, i, n), b = sli_load_at(pb, i, n);                                               \
            sli_store_at(y, i, n, expression);                                                                         \
        }                                                                                                              \
    }

/* x / (1 + exp(-x)) */
static inline sli_vf sigmoid_times(sli_vf x) {
    sli_vf e = sli_v_exp(sli_vf_sub(sli_vf_set1(0.0f), x));
    return sli_vf_div(x, sli_vf_add(sli_vf_set1(1.0f), e));
}

/* x / 2 * (1 + f) */
static inline sli_vf half_and(sli_vf x, sli_vf f) {
    sli_vf half = sli_vf_mul(sli_vf_set1(0.5f), x);
    return sli_vf_mul(half, sli_vf_add(sli_vf_set1(1.0f), f));
}

/* sqrt(2 / pi) * (x + 0.044715 x^3) */
static inline sli_vf tanh_argument(sli_vf x) {
    sli_vf inner = sli_vf_fma(sli_vf_mul(sli_vf_set1(0.044715f), sli_vf_mul(x, x)), x, x);
    return sli_vf_mul(sli_vf_set1(0.7978845608028654f), inner);
}

UNARY(relu, sli_vf_max(sli_vf_set1(0.0f), x)) /* in this order NaN stays NaN */
UNARY(gelu, half_and(x, sli_v_erf(sli_vf_mul(sli_vf_set1(0.70710678118654752f), x))))
UNARY(gelu_tanh, half_and(x, sli_v_tanh(tanh_argument(x))))
UNARY(silu, sigmoid_times(x))
BINARY(add, sli_vf_add(a, b))
BINARY(mul, sli_vf_mul(a, b))
BINARY(silu_gated, sli_vf_mul(sigmoid_times(a), b))

static void widen_f16(const uint16_t *x, float *y, size_t n) {
    for (size_t i = 0; i < n; i += SLI_LANES)
        sli_store_at(y, i, n, n - i >= SLI_LANES ? sli_vf_load_f16(x + i) : sli_vf_load_f16_part(x + i, n - i));
}

/* As sli_store_at does it. */
static inline float one_nan(float x) {
    return x == x ? x : NAN;
}

static void scale_array(const float *x, float factor, float *y, size_t n) {
    for (size_t i = 0; i < n; i++)
        y[i] = one_nan(factor * x[i]);
}

static void turn_halves(const float *x, const float *cosines, const float *sines, float *y, size_t n) {
    for (size_t i = 0; i < n; i++) {
        float a = x[i], b = x[i + n];
        y[i] = one_nan(a * cosines[i] - b * sines[i]);
        y[i + n] = one_nan(b * cosines[i] + a * sines[i]);
    }
}

static void turn_interleaved(const float *x, const float *cosines, const float *sines, float *y, size_t n) {
    for (size_t i = 0; i < n; i++) {
        float a = x[2 * i], b = x[2 * i + 1];
        y[2 * i] = one_nan(a * cosines[i] - b * sines[i]);
        y[2 * i + 1] = one_nan(b * cosines[i] + a * sines[i]);
    }
}

extern const sli_elementwise_kernels SLI_FOR_ISA(sli_elementwise);
const sli_elementwise_kernels SLI_FOR_ISA(sli_elementwise) = {.add = add_arrays,
                                                              .mul = mul_arrays,
                                                              .silu_gated = silu_gated_arrays,
                                                              .scale = scale_array,
                                                              .relu = relu_array,
                                                              .gelu = gelu_array,
                                                              .gelu_tanh = gelu_tanh_array,
                                                              .silu = silu_array,
                                                              .widen_f16 = widen_f16,
                                                              .turn_halves = turn_halves,
                                                              .turn_interleaved = turn_interleaved};
