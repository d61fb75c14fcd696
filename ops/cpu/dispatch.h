/* Choosing among what ops/cpu/vector makes for each instruction set. A file there defines, say,
 *     const sli_math_kernels SLI_FOR_ISA(sli_math) = {...};
 * and one that is compiled once says
 *     SLI_DECLARE_FOR_ISAS(const sli_math_kernels, sli_math);
 *     static const sli_math_kernels *const kernels[] = SLI_FOR_ISAS(sli_math);   then kernels[sl_cpu_isa()]
 * Where the build has no vector instruction sets (SLI_HAS_X86 is 0), each entry is plain C. */
#ifndef SLI_DISPATCH_H
#define SLI_DISPATCH_H

#include <sluice/device.h>

#if SLI_HAS_X86
#define SLI_DECLARE_FOR_ISAS(type, name) extern type name##_plain, name##_avx2, name##_avx512
#define SLI_FOR_ISAS(name)                                                                                             \
    { [SL_ISA_PLAIN] = &name##_plain, [SL_ISA_AVX2] = &name##_avx2, [SL_ISA_AVX512] = &name##_avx512 }
#else
#define SLI_DECLARE_FOR_ISAS(type, name) extern type name##_plain
#define SLI_FOR_ISAS(name)                                                                                             \
    { [SL_ISA_PLAIN] = &name##_plain, [SL_ISA_AVX2] = &name##_plain, [SL_ISA_AVX512] = &name##_plain }
#endif

#endif
