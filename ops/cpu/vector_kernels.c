/* See vector_kernels.h: chooses among what vector/ makes. */
#include "cpu/vector_kernels.h"
#include "cpu/dispatch.h"

SLI_DECLARE_FOR_ISAS(const sli_elementwise_kernels, sli_elementwise);
SLI_DECLARE_FOR_ISAS(const sli_row_kernels, sli_rows);
SLI_DECLARE_FOR_ISAS(const sli_attention_kernels, sli_attention);

const sli_elementwise_kernels *sli_elementwise_for(sl_isa isa) {
    static const sli_elementwise_kernels *const kernels[] = SLI_FOR_ISAS(sli_elementwise);
    return kernels[isa];
}

const sli_row_kernels *sli_rows_for(sl_isa isa) {
    static const sli_row_kernels *const kernels[] = SLI_FOR_ISAS(sli_rows);
    return kernels[isa];
}

const sli_attention_kernels *sli_attention_for(sl_isa isa) {
    static const sli_attention_kernels *const kernels[] = SLI_FOR_ISAS(sli_attention);
    return kernels[isa];
}
