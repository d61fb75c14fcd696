/* Two small models that use what the trained ones do not, against float64 (oracles/models.py): heads wider than n_embd
 * / n_heads, biases, a head of its own, llama3 scaling; GPT-2 with all its biases and scales. The weights are made by a
 * formula and are exact in f32, f16 and bf16, so that all three give the same bits. */
#include "folder.h"
#include "forward.h"
#include "oracle_models.h"

enum { ROWS = 40, VOCAB = 20, KEPT = sizeof oracle_rows / sizeof *oracle_rows, MOST = 64 };

typedef struct recipe {
    sl_dtype dtype;
    int n;
    sl_checkpoint_entry entries[MOST];
    char names[MOST][64];
} recipe;

static uint64_t mix(uint64_t z) {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static sl_status fill(void *user, int i, void *destination, size_t bytes) {
    const recipe *r = user;
    const char *name = r->names[i];
    bool norm = strstr(name, "norm") || strstr(name, ".ln_") || !strncmp(name, "ln_", 3);
    bool near_one = norm && strstr(name, "weight");
    uint64_t key = 0xcbf29ce484222325u;
    for (const char *c = name; *c; c++)
        key = (key ^ (unsigned char)*c) * 0x100000001b3u;
    size_t size = sl_dtype_get(r->dtype)->block_bytes;
    for (size_t k = 0; k < bytes / size; k++) {
        float number = (float)((int)(mix(key + (k + 1) * 0x9e3779b97f4a7c15u) >> 58) - 32);
        float value = near_one ? 1 + number / 128 : number / 64;
        SL_TRY(sl_convert(r->dtype, (char *)destination + k * size, SL_F32, &value, 1));
    }
    return SL_OK;
}

static void add(recipe *r, int layer, const char *name, const char *what, int64_t rows, int64_t columns) {
    ck_assert_int_lt(r->n, MOST);
    char *full = r->names[r->n];
    if (layer < 0)
        snprintf(full, sizeof r->names[0], "%s.%s", name, what);
    else
        snprintf(full, sizeof r->names[0], name[0] == 'h' ? "h.%d.%s.%s" : "model.layers.%d.%s.%s", layer,
                 name[0] == 'h' ? name + 1 : name, what);
    r->entries[r->n] = (sl_checkpoint_entry){full, r->dtype, columns ? 2 : 1, {rows, columns}};
    r->n++;
}

static void llama_recipe(recipe *r) {
    enum { EMBD = 24, Q = 4 * 8, KV = 2 * 8, FF = 40 };
    static const struct {
        const char *name;
        int64_t out, in;
    } modules[] = {{"self_attn.q_proj", Q, EMBD}, {"self_attn.k_proj", KV, EMBD}, {"self_attn.v_proj", KV, EMBD},
                   {"self_attn.o_proj", EMBD, Q}, {"mlp.gate_proj", FF, EMBD},    {"mlp.up_proj", FF, EMBD},
                   {"mlp.down_proj", EMBD, FF}};
    add(r, -1, "model.embed_tokens", "weight", VOCAB, EMBD);
    add(r, -1, "lm_head", "weight", VOCAB, EMBD);
    add(r, -1, "model.norm", "weight", EMBD, 0);
    for (int layer = 0; layer < 2; layer++) {
        add(r, layer, "input_layernorm", "weight", EMBD, 0);
        add(r, layer, "post_attention_layernorm", "weight", EMBD, 0);
        for (size_t i = 0; i < sizeof modules / sizeof *modules; i++) {
            add(r, layer, modules[i].name, "weight", modules[i].out, modules[i].in);
            add(r, layer, modules[i].name, "bias", modules[i].out, 0);
        }
    }
}

static const char llama_config[] =
    "{\"model_type\":\"llama\",\"hidden_size\":24,\"intermediate_size\":40,\"num_hidden_layers\":2,"
    "\"num_attention_heads\":4,\"num_key_value_heads\":2,\"head_dim\":8,\"vocab_size\":20,"
    "\"max_position_embeddings\":64,\"rms_norm_eps\":1e-05,\"attention_bias\":true,\"mlp_bias\":true,"
    "\"rope_parameters\":{\"rope_type\":\"llama3\",\"rope_theta\":50,\"factor\":4.0,\"low_freq_factor\":1.0,"
    "\"high_freq_factor\":4.0,\"original_max_position_embeddings\":32}}";

/* Names with an 'h' before them are a layer's. */
static void gpt2_recipe(recipe *r) {
    enum { EMBD = 16, FF = 24 };
    static const struct {
        const char *name;
        int64_t in, out;
    } modules[] = {{"hattn.c_attn", EMBD, 3 * EMBD}, {"hattn.c_proj", EMBD, EMBD}, {"hmlp.c_fc", EMBD, FF},
                   {"hmlp.c_proj", FF, EMBD},        {"hln_1", EMBD, 0},           {"hln_2", EMBD, 0}};
    add(r, -1, "wte", "weight", VOCAB, EMBD);
    add(r, -1, "wpe", "weight", 64, EMBD);
    add(r, -1, "lm_head", "weight", VOCAB, EMBD);
    add(r, -1, "ln_f", "weight", EMBD, 0);
    add(r, -1, "ln_f", "bias", EMBD, 0);
    for (int layer = 0; layer < 2; layer++)
        for (size_t i = 0; i < sizeof modules / sizeof *modules; i++) {
            add(r, layer, modules[i].name, "weight", modules[i].in, modules[i].out);
            add(r, layer, modules[i].name, "bias", modules[i].out ? modules[i].out : EMBD, 0);
        }
}

static const char gpt2_config[] =
    "{\"model_type\":\"gpt2\",\"n_embd\":16,\"n_head\":2,\"n_layer\":2,\"n_positions\":64,\"n_inner\":24,"
    "\"vocab_size\":20,\"layer_norm_epsilon\":1e-05,\"activation_function\":\"gelu\",\"tie_word_embeddings\":false,"
    "\"scale_attn_by_inverse_layer_idx\":true}";

static sl_model *make_model(const char *config, void (*describe)(recipe *), sl_dtype dtype) {
    folder f = folder_make();
    recipe *r = calloc(1, sizeof *r);
    ck_assert_ptr_nonnull(r);
    r->dtype = dtype;
    describe(r);
    folder_write_text(&f, "config.json", config);
    ck_assert_int_eq(sl_checkpoint_write(folder_file(&f, "model.safetensors"), r->n, r->entries, fill, r), SL_OK);
    sl_model *model;
    ck_assert_msg(sl_model_open(f.path, &model) == SL_OK, "%s", sl_last_error());
    folder_remove(&f);
    free(r);
    return model;
}

static results run(const sl_model *model, forward *f, const char *split, size_t chunk) {
    int32_t ids[ROWS];
    for (int i = 0; i < ROWS; i++)
        ids[i] = (7 * i + i * i) % VOCAB;
    *f = forward_open(model, split, ROWS, 1);
    results r = results_make(f, ROWS);
    forward_sequence(f, 0, ROWS, ids, chunk, &r);
    return r;
}

static void check(const char *config, void (*describe)(recipe *), const float (*oracle)[VOCAB]) {
    forward f, g;
    sl_model *model = make_model(config, describe, SL_F32);
    results r = run(model, &f, "2", ROWS);
    for (int i = 0; i < KEPT; i++)
        assert_near("logits", r.logits + (ptrdiff_t)oracle_rows[i] * VOCAB, oracle[i], VOCAB, 2e-5);
    sl_model_release(model);
    for (sl_dtype dtype = SL_F16; dtype <= SL_BF16; dtype++) {
        model = make_model(config, describe, dtype);
        results half = run(model, &g, "11", 7);
        assert_same_rows(sl_dtype_name(dtype), &f, &half, 0, &r, 0, ROWS);
        results_free(&half);
        forward_close(&g);
        sl_model_release(model);
    }
    results_free(&r);
    forward_close(&f);
}

START_TEST(a_llama_with_all_its_options_meets_float64) {
    check(llama_config, llama_recipe, oracle_llama);
}
END_TEST

START_TEST(a_gpt2_with_all_its_options_meets_float64) {
    check(gpt2_config, gpt2_recipe, oracle_gpt2);
}
END_TEST

int main(void) {
    const test_case cases[] = {
        TEST(a_llama_with_all_its_options_meets_float64),
        TEST(a_gpt2_with_all_its_options_meets_float64),
    };
    if (sl_setting_set("SLUICE_CPU_DEVICES", "2") != SL_OK)
        return 2;
    return test_main("oracle", cases, sizeof cases / sizeof *cases);
}
