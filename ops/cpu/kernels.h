/* The CPU kernels of this folder. */
#ifndef SLI_CPU_KERNELS_H
#define SLI_CPU_KERNELS_H

#include "ops.h"

sl_status sli_cpu_linear(sl_lane *lane, const sl_call *call);
size_t sli_cpu_linear_scratch(const sl_call *call, int threads);
sl_status sli_cpu_embedding(sl_lane *lane, const sl_call *call);
sl_status sli_cpu_position_embedding(sl_lane *lane, const sl_call *call);
sl_status sli_cpu_gather(sl_lane *lane, const sl_call *call);
sl_status sli_cpu_add(sl_lane *lane, const sl_call *call);
sl_status sli_cpu_mul(sl_lane *lane, const sl_call *call);
sl_status sli_cpu_scale(sl_lane *lane, const sl_call *call);
sl_status sli_cpu_relu(sl_lane *lane, const sl_call *call);
sl_status sli_cpu_gelu(sl_lane *lane, const sl_call *call);
sl_status sli_cpu_gelu_tanh(sl_lane *lane, const sl_call *call);
sl_status sli_cpu_silu(sl_lane *lane, const sl_call *call);
sl_status sli_cpu_silu_gated(sl_lane *lane, const sl_call *call);
sl_status sli_cpu_softmax(sl_lane *lane, const sl_call *call);
sl_status sli_cpu_layer_norm(sl_lane *lane, const sl_call *call);
sl_status sli_cpu_rms_norm(sl_lane *lane, const sl_call *call);
sl_status sli_cpu_rotary(sl_lane *lane, const sl_call *call);
sl_status sli_cpu_attention(sl_lane *lane, const sl_call *call);
sl_status sli_cpu_argmax(sl_lane *lane, const sl_call *call);
sl_status sli_cpu_sample(sl_lane *lane, const sl_call *call);
size_t sli_cpu_sample_scratch(const sl_call *call, int threads);

#endif
