/* Softmax, norms and the largest element of one row, for one instruction set. Sums are 16 partial sums (elements 0, 16,
 * 32 and so on; 1, 17 and so on) and the tree of sli_vf_sum. */
#include "cpu/simd_at.h"
#include "cpu/vector_kernels.h"
#include "cpu/vmath.h"
#include <math.h>

static float largest(const float *x, size_t n) {
    sli_vf all = sli_vf_set1(-INFINITY);
    size_t i = 0;
    for (; i + SLI_LANES <= n; i += SLI_LANES)
        all = sli_vf_max(sli_vf_load(x + i), all); /* in this order NaN counts for nothing */
    float most = sli_vf_largest(all);
    for (; i < n; i++)
        most = x[i] > most ? x[i] : most;
    return most;
}

static void weigh(const float *x, float most, float temperature, float *y, size_t n) {
    sli_vf m = sli_vf_set1(most), t = sli_vf_set1(temperature);
    for (size_t i = 0; i < n; i += SLI_LANES)
        sli_store_at(y, i, n, sli_v_exp(sli_vf_div(sli_vf_sub(sli_load_at(x, i, n), m), t)));
}

static float sum(const float *x, size_t n) {
    sli_vf all = sli_vf_set1(0.0f);
    for (size_t i = 0; i < n; i += SLI_LANES)
        all = sli_vf_add(all, sli_load_at(x, i, n));
    return sli_vf_sum(all);
}

static void softmax(const float *x, float *y, size_t n) {
    sli_vf m = sli_vf_set1(largest(x, n));
    for (size_t i = 0; i < n; i += SLI_LANES)
        sli_store_at(y, i, n, sli_v_exp(sli_vf_sub(sli_load_at(x, i, n), m)));
    sli_vf total = sli_vf_set1(sum(y, n));
    for (size_t i = 0; i < n; i += SLI_LANES)
        sli_store_at(y, i, n, sli_vf_div(sli_load_at(y, i, n), total));
}

static void rms_norm(const float *x, const float *weight, float eps, float *y, size_t n) {
    sli_vf squares = sli_vf_set1(0.0f);
    for (size_t i = 0; i < n; i += SLI_LANES) {
        sli_vf v = sli_load_at(x, i, n);
        squares = sli_vf_fma(v, v, squares);
    }
    sli_vf factor = sli_vf_set1(1.0f / sqrtf(sli_vf_sum(squares) / (float)n + eps));
    for (size_t i = 0; i < n; i += SLI_LANES) {
        sli_vf v = sli_vf_mul(sli_load_at(x, i, n), factor);
        sli_store_at(y, i, n, sli_vf_mul(v, sli_load_at(weight, i, n)));
    }
}

/* Lanes after the row's end are 0, where the mean would be subtracted: they are taken out of the last vector. */
static float variance(const float *x, float mean, size_t n) {
    sli_vf squares = sli_vf_set1(0.0f), m = sli_vf_set1(mean);
    for (size_t i = 0; i < n; i += SLI_LANES) {
        sli_vf d = sli_vf_sub(sli_load_at(x, i, n), m);
        if (n - i < SLI_LANES) {
            float rest[SLI_LANES];
            sli_vf_store(rest, d);
            d = sli_vf_load_part(rest, n - i);
        }
        squares = sli_vf_fma(d, d, squares);
    }
    return sli_vf_sum(squares) / (float)n;
}

static void layer_norm(const float *x, const float *weight, const float *bias, float eps, float *y, size_t n) {
    float mean = sum(x, n) / (float)n;
    sli_vf m = sli_vf_set1(mean), factor = sli_vf_set1(1.0f / sqrtf(variance(x, mean, n) + eps));
    for (size_t i = 0; i < n; i += SLI_LANES) {
        sli_vf v = sli_vf_mul(sli_vf_sub(sli_load_at(x, i, n), m), factor), w = sli_load_at(weight, i, n);
        v = bias ? sli_vf_fma(v, w, sli_load_at(bias, i, n)) : sli_vf_mul(v, w);
        sli_store_at(y, i, n, v);
    }
}

extern const sli_row_kernels SLI_FOR_ISA(sli_rows);
const sli_row_kernels SLI_FOR_ISA(sli_rows) = {
    .softmax = softmax, .rms_norm = rms_norm, .layer_norm = layer_norm, .largest = largest, .weigh = weigh};
