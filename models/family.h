/* What a model family is: one file in families/ that reads config.json and builds embedding, layers and head. What is
 * common to all (stages, devices, inputs, sampling) is in graph.c. */
#ifndef SLI_FAMILY_H
#define SLI_FAMILY_H

#include "keys.h"
#include <sluice/model.h>
#include <sluice/ops.h>

enum { SLI_MAX_DIMENSION = 1 << 24, SLI_MAX_LAYERS = 1 << 14 };

typedef sl_value (*sli_activation)(sl_graph *g, sl_stage s, sl_value x);

/* All that config.json says and the graph needs; what a family has no use for stays zero. */
typedef struct sli_config {
    sl_model_info info; /* eos_ids are the model's */
    double eps;         /* of the norms */
    bool attention_bias, mlp_bias;
    sl_rotary_options rotary; /* n_heads and max_positions are filled in where it is used */
    sli_activation activation;
    bool scale_scores, scale_scores_by_layer; /* gpt2: by 1 / sqrt(head_dim), and by 1 / (layer + 1) */
} sli_config;

/* What a layer is built with. */
typedef struct sli_builder {
    const sl_model *model;
    sl_graph *graph;
    int n_places, context;
    sl_value embedding; /* the table, once it is there: a tied head reads it too */
} sli_builder;

typedef struct sli_family {
    const char *name; /* model_type */
    /* From config.json: all of `config` but the ids of bos and eos. */
    sl_status (*configure)(const sli_keys *keys, sli_config *config);
    /* Recognises how the checkpoint names and lays out its tensors: a number that is the family's own. */
    sl_status (*recognise)(const sl_model *model, int *layout);
    sl_value (*embed)(sli_builder *b, sl_stage s, sl_value ids); /* ids [rows, 1] -> [rows, n_embd] */
    sl_value (*layer)(sli_builder *b, sl_stage s, int layer, sl_value x);
    sl_value (*head)(sli_builder *b, sl_stage s, sl_value x); /* final norm and head -> [.., n_vocab] */
} sli_family;

extern const sli_family sli_family_llama;
extern const sli_family sli_family_gpt2;

/* Looks the family up by its name, without case. NULL: none. `list` (may be NULL) gets the supported ones. */
const sli_family *sli_family_find(const char *name);
const char *sli_family_list(void); /* "llama, gpt2" */

/* ---- For families: what config.json of several says alike ---- */

/* rope_theta, rope_parameters, rope_scaling -> base and scaling. */
sl_status sli_config_rotary(const sli_keys *keys, sl_rotary_options *rotary);

/* ---- For families: weights and caches of the model at hand ---- */

/* A name made of parts: printf into a buffer that is cut. */
enum { SLI_NAME = 160 };
typedef struct sli_name {
    char text[SLI_NAME];
} sli_name;
sli_name sli_name_of(const char *format, ...) SL_PRINTF(1, 2);

bool sli_has_tensor(const sl_model *model, const char *name);
sl_value sli_matrix(sli_builder *b, const char *name, int64_t out, int64_t in); /* [out, in] as the file has it */
sl_value sli_vector(sli_builder *b, const char *name, int64_t n);               /* a norm's weight */
sl_value sli_bias(sli_builder *b, const char *name, int64_t n);                 /* a linear's bias: f32 */

/* Attention over the sequences' caches, which are made here. `scale` 0: 1 / sqrt(head_dim). */
sl_value sli_attend(sli_builder *b, sl_stage s, int layer, sl_value q, sl_value k, sl_value v, float scale);

#endif
