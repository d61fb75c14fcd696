/* GPT-2 (Radford et al. 2019): layer norms with biases, learned positions, fused q, k and v, a plain MLP, head tied to
 * the embedding. Checkpoints with and without the prefix `transformer.`, with matrices [in, out] as Hugging Face's
 * Conv1D stores them, or [out, in]. */
#include "model.h"
#include "show.h"
#include "weight.h"
#include <math.h>
#include <string.h>

enum { /* bits of the layout */
       HAS_PREFIX = 1,
       OUT_IN = 2,       /* matrices are [out, in] */
       HAS_QKV_BIAS = 4, /* some files leave these biases out */
};

static sl_status read_activation(const sli_keys *keys, sli_activation *activation) {
    static const struct {
        const char *name;
        sli_activation activation;
    } known[] = {{"gelu_new", sl_gelu_tanh},  {"gelu_pytorch_tanh", sl_gelu_tanh},
                 {"gelu_fast", sl_gelu_tanh}, {"gelu", sl_gelu},
                 {"relu", sl_relu},           {"silu", sl_silu},
                 {"swish", sl_silu}};
    const char *name;
    SL_TRY(sli_key_text_or(keys, "activation_function", "gelu_new", &name));
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!strcmp(known[i].name, name)) {
            *activation = known[i].activation;
            return SL_OK;
        }
    return sl_fail(SL_UNSUPPORTED,
                   "%s: 'activation_function' is '%s', which is not supported; supported are gelu_new, "
                   "gelu_pytorch_tanh, gelu_fast, gelu, relu, silu",
                   keys->file, sli_show(name).text);
}

static sl_status refuse_cross_attention(const sli_keys *keys) {
    bool cross;
    SL_TRY(sli_key_bool_or(keys, "add_cross_attention", false, &cross));
    return cross ? sl_fail(SL_UNSUPPORTED, "%s: 'add_cross_attention' is true, which is not supported", keys->file)
                 : SL_OK;
}

static sl_status configure(const sli_keys *keys, sli_config *config) {
    sl_model_info *info = &config->info;
    const char *positions = sli_key(keys, "n_positions") || !sli_key(keys, "n_ctx") ? "n_positions" : "n_ctx";
    SL_TRY(sli_key_int(keys, "n_embd", 1, SLI_MAX_DIMENSION / 4, &info->n_embd));
    SL_TRY(sli_key_int(keys, "n_head", 1, SLI_MAX_DIMENSION, &info->n_heads));
    SL_TRY(sli_key_int(keys, "n_layer", 1, SLI_MAX_LAYERS, &info->n_layers));
    SL_TRY(sli_key_int(keys, positions, 1, SLI_MAX_DIMENSION, &info->n_context));
    SL_TRY(sli_key_int(keys, "vocab_size", 1, SLI_MAX_DIMENSION, &info->n_vocab));
    SL_TRY(sli_key_int_or(keys, "n_inner", 1, SLI_MAX_DIMENSION, 4 * info->n_embd, &info->n_ff));
    SL_TRY(sli_key_number(keys, "layer_norm_epsilon", 0, &config->eps));
    if (info->n_embd % info->n_heads)
        return sl_fail(SL_BAD_FILE, "%s: 'n_embd' is %d: a multiple of 'n_head', %d, is expected", keys->file,
                       info->n_embd, info->n_heads);
    info->n_kv_heads = info->n_heads;
    info->head_dim = info->n_embd / info->n_heads;
    SL_TRY(sli_key_bool_or(keys, "tie_word_embeddings", true, &info->tied_head));
    SL_TRY(sli_key_bool_or(keys, "scale_attn_weights", true, &config->scale_scores));
    SL_TRY(sli_key_bool_or(keys, "scale_attn_by_inverse_layer_idx", false, &config->scale_scores_by_layer));
    SL_TRY(refuse_cross_attention(keys));
    return read_activation(keys, &config->activation);
}

static sli_name named(int layout, const char *name) {
    return sli_name_of("%s%s", layout & HAS_PREFIX ? "transformer." : "", name);
}

static sli_name in_layer(int layout, int layer, const char *name) {
    return sli_name_of("%sh.%d.%s", layout & HAS_PREFIX ? "transformer." : "", layer, name);
}

/* Biases of q, k and v are in all layers or in none. */
static sl_status recognise_bias(const sl_model *model, int *layout) {
    if (sli_has_tensor(model, in_layer(*layout, 0, "attn.c_attn.bias").text))
        *layout |= HAS_QKV_BIAS;
    for (int layer = 1; layer < model->config.info.n_layers; layer++) {
        sli_name name = in_layer(*layout, layer, "attn.c_attn.bias");
        if (!(*layout & HAS_QKV_BIAS) && sli_has_tensor(model, name.text))
            return sl_fail(SL_BAD_FILE, "%s: the checkpoint beside it has the tensor '%s', but not that of layer 0",
                           model->config_path, name.text);
    }
    return SL_OK;
}

/* The fused matrix is never square: its shape says how all are laid out. */
static sl_status recognise(const sl_model *model, int *layout) {
    sl_checkpoint_tensor fused;
    *layout = sli_has_tensor(model, "wte.weight") ? 0 : HAS_PREFIX;
    sli_name embedding = named(*layout, "wte.weight"), name = in_layer(*layout, 0, "attn.c_attn.weight");
    if (!sli_has_tensor(model, embedding.text))
        return sl_fail(SL_BAD_FILE,
                       "%s: the checkpoint beside it has none of the tensors 'wte.weight' and '%s', with which a GPT-2 "
                       "begins",
                       model->config_path, embedding.text);
    int64_t n = model->config.info.n_embd;
    if (sl_checkpoint_find(model->checkpoint, name.text, &fused) && fused.rank == 2 && fused.shape[0] == 3 * n &&
        fused.shape[1] == n)
        *layout |= OUT_IN;
    return recognise_bias(model, layout);
}

/* x w^T + b, with rows first .. first + out of a matrix and a bias of `total` rows (0: of all). */
static sl_value project(sli_builder *b, sl_stage s, int layer, const char *module, sl_value x, int64_t in, int64_t out,
                        int64_t first, int64_t total) {
    int layout = b->model->layout;
    sli_name weight = in_layer(layout, layer, sli_name_of("%s.weight", module).text),
             bias = in_layer(layout, layer, sli_name_of("%s.bias", module).text);
    sl_value w = sli_weight_add(b->model->checkpoint, b->graph,
                                &(sli_weight){.name = weight.text,
                                              .rank = 2,
                                              .shape = {out, in},
                                              .transposed = !(layout & OUT_IN),
                                              .first = first,
                                              .total = total});
    if (total && !(layout & HAS_QKV_BIAS))
        return sl_linear(b->graph, s, x, w, SL_NONE);
    sl_value c = sli_weight_add(
        b->model->checkpoint, b->graph,
        &(sli_weight){.name = bias.text, .rank = 1, .shape = {out}, .first = first, .total = total, .f32 = true});
    return sl_linear(b->graph, s, x, w, c);
}

static sl_value norm(sli_builder *b, sl_stage s, sli_name name, sl_value x) {
    const sli_config *config = &b->model->config;
    sl_value weight = sli_vector(b, sli_name_of("%s.weight", name.text).text, config->info.n_embd);
    sl_value bias = sli_vector(b, sli_name_of("%s.bias", name.text).text, config->info.n_embd);
    return sl_layer_norm(b->graph, s, x, weight, bias, (float)config->eps);
}

static float score_scale(const sli_config *config, int layer) {
    double scale = config->scale_scores ? 1 / sqrt((double)config->info.head_dim) : 1;
    return (float)(config->scale_scores_by_layer ? scale / (layer + 1) : scale);
}

static sl_value attention(sli_builder *b, sl_stage s, int layer, sl_value x) {
    const sli_config *config = &b->model->config;
    int64_t n = config->info.n_embd;
    sl_value qkv[3], h = norm(b, s, in_layer(b->model->layout, layer, "ln_1"), x);
    for (int i = 0; i < 3; i++)
        qkv[i] = project(b, s, layer, "attn.c_attn", h, n, n, i * n, 3 * n);
    sl_value a = sli_attend(b, s, layer, qkv[0], qkv[1], qkv[2], score_scale(config, layer));
    return project(b, s, layer, "attn.c_proj", a, n, n, 0, 0);
}

static sl_value mlp(sli_builder *b, sl_stage s, int layer, sl_value x) {
    const sli_config *config = &b->model->config;
    int64_t n = config->info.n_embd, ff = config->info.n_ff;
    sl_value h = norm(b, s, in_layer(b->model->layout, layer, "ln_2"), x);
    h = config->activation(b->graph, s, project(b, s, layer, "mlp.c_fc", h, n, ff, 0, 0));
    return project(b, s, layer, "mlp.c_proj", h, ff, n, 0, 0);
}

static sl_value embed(sli_builder *b, sl_stage s, sl_value ids) {
    const sl_model_info *info = &b->model->config.info;
    int layout = b->model->layout;
    b->embedding = sli_matrix(b, named(layout, "wte.weight").text, info->n_vocab, info->n_embd);
    sl_value positions = sli_matrix(b, named(layout, "wpe.weight").text, info->n_context, info->n_embd);
    return sl_position_embedding(b->graph, s, sl_embedding(b->graph, s, ids, b->embedding), positions);
}

static sl_value build_layer(sli_builder *b, sl_stage s, int layer, sl_value x) {
    x = sl_add(b->graph, s, x, attention(b, s, layer, x));
    return sl_add(b->graph, s, x, mlp(b, s, layer, x));
}

static sl_value head(sli_builder *b, sl_stage s, sl_value x) {
    const sl_model_info *info = &b->model->config.info;
    x = norm(b, s, named(b->model->layout, "ln_f"), x);
    sl_value w = info->tied_head ? b->embedding : sli_matrix(b, "lm_head.weight", info->n_vocab, info->n_embd);
    return sl_linear(b->graph, s, x, w, SL_NONE);
}

const sli_family sli_family_gpt2 = {
    .name = "gpt2",
    .configure = configure,
    .recognise = recognise,
    .embed = embed,
    .layer = build_layer,
    .head = head,
};
