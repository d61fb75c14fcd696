/* Llama-type models (Touvron et al. 2023): RMS norms, rotary positions, grouped KV heads, gated SiLU, head tied to the
 * embedding or its own. Checkpoints with Hugging Face's names and rotary layout (an element of a head turns with the
 * one half a head further), or with Meta's (with its neighbour). */
#include "model.h"
#include "show.h"
#include <string.h>

typedef struct names {
    const char *embedding, *layer, *norm, *head; /* `layer` is a format with the layer's number */
    const char *attention_norm, *q, *k, *v, *o, *mlp_norm, *gate, *up, *down;
    sl_rotary_pairs pairs;
} names;

#define HUGGING_FACE                                                                                                   \
    "input_layernorm", "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj",                 \
        "post_attention_layernorm", "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj", SL_ROTARY_HALVES

static const names layouts[] = {
    {"model.embed_tokens.weight", "model.layers", "model.norm.weight", "lm_head.weight", HUGGING_FACE},
    {"embed_tokens.weight", "layers", "norm.weight", "lm_head.weight", HUGGING_FACE}, /* saved without its head */
    {"tok_embeddings.weight", "layers", "norm.weight", "output.weight", "attention_norm", "attention.wq",
     "attention.wk", "attention.wv", "attention.wo", "ffn_norm", "feed_forward.w1", "feed_forward.w3",
     "feed_forward.w2", SL_ROTARY_INTERLEAVED},
};

static sl_status check_heads(const sli_keys *keys, sli_config *config) {
    sl_model_info *info = &config->info;
    if (info->n_heads % info->n_kv_heads)
        return sl_fail(SL_BAD_FILE,
                       "%s: 'num_attention_heads' is %d: a multiple of 'num_key_value_heads', %d, is expected",
                       keys->file, info->n_heads, info->n_kv_heads);
    if (!sli_key(keys, "head_dim") && info->n_embd % info->n_heads)
        return sl_fail(SL_BAD_FILE,
                       "%s: 'hidden_size' is %d: a multiple of 'num_attention_heads', %d, or a 'head_dim' is expected",
                       keys->file, info->n_embd, info->n_heads);
    SL_TRY(sli_key_int_or(keys, "head_dim", 1, SLI_MAX_DIMENSION, info->n_embd / info->n_heads, &info->head_dim));
    if (info->head_dim % 2)
        return sl_fail(SL_BAD_FILE, "%s: a head has %d elements: an even number is expected, since rotary turns pairs",
                       keys->file, info->head_dim);
    if ((int64_t)info->n_heads * info->head_dim > SLI_MAX_DIMENSION)
        return sl_fail(SL_BAD_FILE, "%s: %d heads of %d elements are more than %d", keys->file, info->n_heads,
                       info->head_dim, SLI_MAX_DIMENSION);
    return SL_OK;
}

static sl_status configure(const sli_keys *keys, sli_config *config) {
    sl_model_info *info = &config->info;
    const char *activation;
    bool interleaved;
    SL_TRY(sli_key_int(keys, "hidden_size", 1, SLI_MAX_DIMENSION, &info->n_embd));
    SL_TRY(sli_key_int(keys, "intermediate_size", 1, SLI_MAX_DIMENSION, &info->n_ff));
    SL_TRY(sli_key_int(keys, "num_hidden_layers", 1, SLI_MAX_LAYERS, &info->n_layers));
    SL_TRY(sli_key_int(keys, "num_attention_heads", 1, SLI_MAX_DIMENSION, &info->n_heads));
    SL_TRY(sli_key_int_or(keys, "num_key_value_heads", 1, SLI_MAX_DIMENSION, info->n_heads, &info->n_kv_heads));
    SL_TRY(sli_key_int(keys, "vocab_size", 1, SLI_MAX_DIMENSION, &info->n_vocab));
    SL_TRY(sli_key_int(keys, "max_position_embeddings", 1, SLI_MAX_DIMENSION, &info->n_context));
    SL_TRY(sli_key_number(keys, "rms_norm_eps", 0, &config->eps));
    SL_TRY(check_heads(keys, config));
    SL_TRY(sli_key_bool_or(keys, "tie_word_embeddings", false, &info->tied_head));
    SL_TRY(sli_key_bool_or(keys, "attention_bias", false, &config->attention_bias));
    SL_TRY(sli_key_bool_or(keys, "mlp_bias", false, &config->mlp_bias));
    SL_TRY(sli_key_text_or(keys, "hidden_act", "silu", &activation));
    if (strcmp(activation, "silu") != 0 && strcmp(activation, "swish") != 0)
        return sl_fail(SL_UNSUPPORTED, "%s: 'hidden_act' is '%s', which is not supported; supported is silu",
                       keys->file, sli_show(activation).text);
    SL_TRY(sli_key_bool_or(keys, "rope_interleaved", false, &interleaved));
    if (interleaved)
        return sl_fail(SL_UNSUPPORTED, "%s: 'rope_interleaved' is true, which is not supported", keys->file);
    return sli_config_rotary(keys, &config->rotary);
}

static sl_status recognise(const sl_model *model, int *layout) {
    for (*layout = 0; *layout < (int)(sizeof layouts / sizeof *layouts); ++*layout)
        if (sli_has_tensor(model, layouts[*layout].embedding))
            return SL_OK;
    return sl_fail(
        SL_BAD_FILE,
        "%s: the checkpoint beside it has none of the tensors '%s' and '%s', with which a Llama model begins",
        model->config_path, layouts[0].embedding, layouts[2].embedding);
}

static const names *names_of(const sli_builder *b) {
    return &layouts[b->model->layout];
}

static sli_name in_layer(const sli_builder *b, int layer, const char *module, const char *what) {
    return sli_name_of("%s.%d.%s.%s", names_of(b)->layer, layer, module, what);
}

static sl_value project(sli_builder *b, sl_stage s, int layer, const char *module, sl_value x, int64_t in, int64_t out,
                        bool has_bias) {
    sl_value w = sli_matrix(b, in_layer(b, layer, module, "weight").text, out, in);
    sl_value bias = has_bias ? sli_bias(b, in_layer(b, layer, module, "bias").text, out) : SL_NONE;
    return sl_linear(b->graph, s, x, w, bias);
}

static sl_value norm(sli_builder *b, sl_stage s, int layer, const char *module, sl_value x) {
    const sli_config *config = &b->model->config;
    sl_value w = sli_vector(b, in_layer(b, layer, module, "weight").text, config->info.n_embd);
    return sl_rms_norm(b->graph, s, x, w, (float)config->eps);
}

static sl_value turn(sli_builder *b, sl_stage s, sl_value x, int n_heads) {
    sl_rotary_options rotary = b->model->config.rotary;
    rotary.n_heads = n_heads;
    rotary.head_dim = b->model->config.info.head_dim;
    rotary.pairs = names_of(b)->pairs;
    rotary.max_positions = b->context;
    return sl_rotary(b->graph, s, x, &rotary);
}

static sl_value attention(sli_builder *b, sl_stage s, int layer, sl_value x) {
    const sli_config *config = &b->model->config;
    const sl_model_info *info = &config->info;
    const names *n = names_of(b);
    int64_t embd = info->n_embd, q_columns = (int64_t)info->n_heads * info->head_dim,
            kv_columns = (int64_t)info->n_kv_heads * info->head_dim;
    sl_value h = norm(b, s, layer, n->attention_norm, x);
    sl_value q = turn(b, s, project(b, s, layer, n->q, h, embd, q_columns, config->attention_bias), info->n_heads);
    sl_value k = turn(b, s, project(b, s, layer, n->k, h, embd, kv_columns, config->attention_bias), info->n_kv_heads);
    sl_value v = project(b, s, layer, n->v, h, embd, kv_columns, config->attention_bias);
    sl_value a = sli_attend(b, s, layer, q, k, v, 0);
    return project(b, s, layer, n->o, a, q_columns, embd, config->attention_bias);
}

static sl_value mlp(sli_builder *b, sl_stage s, int layer, sl_value x) {
    const sli_config *config = &b->model->config;
    const names *n = names_of(b);
    int64_t embd = config->info.n_embd, ff = config->info.n_ff;
    sl_value h = norm(b, s, layer, n->mlp_norm, x);
    sl_value gate = project(b, s, layer, n->gate, h, embd, ff, config->mlp_bias);
    sl_value up = project(b, s, layer, n->up, h, embd, ff, config->mlp_bias);
    return project(b, s, layer, n->down, sl_silu_gated(b->graph, s, gate, up), ff, embd, config->mlp_bias);
}

static sl_value embed(sli_builder *b, sl_stage s, sl_value ids) {
    const sl_model_info *info = &b->model->config.info;
    b->embedding = sli_matrix(b, names_of(b)->embedding, info->n_vocab, info->n_embd);
    return sl_embedding(b->graph, s, ids, b->embedding);
}

static sl_value build_layer(sli_builder *b, sl_stage s, int layer, sl_value x) {
    x = sl_add(b->graph, s, x, attention(b, s, layer, x));
    return sl_add(b->graph, s, x, mlp(b, s, layer, x));
}

static sl_value head(sli_builder *b, sl_stage s, sl_value x) {
    const sl_model_info *info = &b->model->config.info;
    sl_value w = sli_vector(b, names_of(b)->norm, info->n_embd);
    x = sl_rms_norm(b->graph, s, x, w, (float)b->model->config.eps);
    w = info->tied_head ? b->embedding : sli_matrix(b, names_of(b)->head, info->n_vocab, info->n_embd);
    return sl_linear(b->graph, s, x, w, SL_NONE);
}

const sli_family sli_family_llama = {
    .name = "llama",
    .configure = configure,
    .recognise = recognise,
    .embed = embed,
    .layer = build_layer,
    .head = head,
};
