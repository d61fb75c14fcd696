/* Which instruction sets this machine has, by name. Which one kernels use is a setting (settings.c). */
#include "error.h"
#include "settings.h"
#include <string.h>

#if defined __x86_64__
#include <cpuid.h>

static bool has_f16c(void) { /* a name that clang's __builtin_cpu_supports does not know */
    unsigned a, b, c, d;
    return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}

static bool has(sl_isa isa) {
    __builtin_cpu_init();
    bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
    bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                  __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    return isa == SL_ISA_PLAIN || (isa == SL_ISA_AVX2 && avx2) || (isa == SL_ISA_AVX512 && avx512);
}
#else
static bool has(sl_isa isa) {
    return isa == SL_ISA_PLAIN;
}
#endif

static sl_isa best(void) {
    return has(SL_ISA_AVX512) ? SL_ISA_AVX512 : has(SL_ISA_AVX2) ? SL_ISA_AVX2 : SL_ISA_PLAIN;
}

const char *sl_isa_name(sl_isa isa) {
    static const char *const names[] = {[SL_ISA_PLAIN] = "plain", [SL_ISA_AVX2] = "avx2", [SL_ISA_AVX512] = "avx512"};
    return (unsigned)isa <= SL_ISA_AVX512 ? names[isa] : "unknown";
}

sl_status sli_isa_parse(const char *text, sl_isa *isa) {
    if (strcmp(text, "auto") == 0) {
        *isa = best();
        return SL_OK;
    }
    for (sl_isa i = SL_ISA_PLAIN; i <= SL_ISA_AVX512; i++) {
        if (strcmp(text, sl_isa_name(i)) != 0)
            continue;
        if (!has(i))
            return sl_fail(SL_INVALID, "this machine has no %s; its best is %s", text, sl_isa_name(best()));
        *isa = i;
        return SL_OK;
    }
    return sl_fail(SL_INVALID, "expected auto, plain, avx2 or avx512");
}

sl_isa sl_cpu_isa(void) {
    const sli_settings *settings = sli_settings_get();
    return settings ? settings->isa : SL_ISA_PLAIN;
}
