/* The library's ops as the rest of this folder and its tests see them: their descriptions, and what lies behind
 * call->attributes of each. Attributes are flat, so that the kernels of every kind of device read the same. */
#ifndef SLI_OPS_H
#define SLI_OPS_H

#include <sluice/ops.h>

/* ---- Descriptions: attributes in the comment, NULL where there is none ---- */

extern const sl_op sli_op_linear;
extern const sl_op sli_op_embedding;
extern const sl_op sli_op_position_embedding;
extern const sl_op sli_op_gather;
extern const sl_op sli_op_add, sli_op_mul;
extern const sl_op sli_op_scale; /* sli_scale */
extern const sl_op sli_op_relu, sli_op_gelu, sli_op_gelu_tanh, sli_op_silu, sli_op_silu_gated;
extern const sl_op sli_op_softmax;
extern const sl_op sli_op_layer_norm, sli_op_rms_norm; /* sli_norm */
extern const sl_op sli_op_rotary;                      /* sl_rotary_options */
extern const sl_op sli_op_attention;                   /* sl_attention_options */
extern const sl_op sli_op_argmax;
extern const sl_op sli_op_sample;

typedef struct sli_scale {
    float factor;
} sli_scale;

typedef struct sli_norm {
    float eps;
} sli_norm;

/* The content of rotary's table [max_positions, rotary_dim]; zeroes of `options` are filled in already.
 * SL_OUT_OF_MEMORY. */
sl_status sli_rotary_source(const sl_rotary_options *options, sl_source *source);

#endif
