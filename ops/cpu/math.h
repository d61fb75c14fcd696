/* exp, tanh and erf of arrays, with the instruction set of sl_cpu_isa(); the same bits in each, and for an element
 * wherever it stands. Within 2 ulp of the exact value wherever that is a normal number; exp overflows to infinity and
 * goes through the subnormals to 0; infinities give the limits, NaN the one quiet NaN. `y` may be `x`; any alignment.
 * Kernels that are compiled for each instruction set use vmath.h directly. */
#ifndef SLI_MATH_H
#define SLI_MATH_H

#include <sluice/device.h>

void sli_exp_f32(const float *x, float *y, size_t n);
void sli_tanh_f32(const float *x, float *y, size_t n);
void sli_erf_f32(const float *x, float *y, size_t n);

/* The same with an instruction set of choice: what tests compare. */
typedef struct sli_math_kernels {
    void (*exp)(const float *x, float *y, size_t n);
    void (*tanh)(const float *x, float *y, size_t n);
    void (*erf)(const float *x, float *y, size_t n);
} sli_math_kernels;

/* Never NULL: plain C where this build does not have it. That the machine has it is the caller's business. */
const sli_math_kernels *sli_math_kernels_for(sl_isa isa);

#endif
