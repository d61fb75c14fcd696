/* config.json: what is read, what stands for what is missing, and what is refused by name. */
#include "folder.h"
#include "support.h"
#include <model.h>
#include <sluice/memory.h>

static const char llama[] =
    "{\"model_type\":\"llama\",\"hidden_size\":64,\"intermediate_size\":172,\"num_hidden_layers\":5,"
    "\"num_attention_heads\":8,\"vocab_size\":512,\"max_position_embeddings\":512,\"rms_norm_eps\":1e-05}";
static const char gpt2[] = "{\"model_type\":\"gpt2\",\"n_embd\":32,\"n_head\":4,\"n_layer\":5,\"n_positions\":512,"
                           "\"vocab_size\":1000,\"layer_norm_epsilon\":1e-05}";

/* Loads `base` with the keys of `changes` in place of its own; a key "-x" leaves x out. */
static sl_status load(const char *base, const char *changes, sl_model *model) {
    folder f = folder_make();
    json_t *config = json_loads(base, 0, NULL), *changed = json_loads(changes, 0, NULL), *value;
    ck_assert_msg(config && changed, "%s", changes);
    const char *key;
    json_object_foreach(changed, key, value) {
        if (*key == '-')
            json_object_del(config, key + 1);
        else
            json_object_set(config, key, value);
    }
    ck_assert_int_eq(json_dump_file(config, folder_file(&f, "config.json"), 0), 0);
    *model = (sl_model){.references = 1, .config_path = sl_strdup(f.file)};
    sl_status status = sli_config_load(model);
    json_decref(config);
    json_decref(changed);
    folder_remove(&f);
    return status;
}

static void unload(sl_model *model) {
    sl_free(model->eos_ids);
    sl_free(model->config_path);
}

static sl_model accepted(const char *base, const char *changes) {
    sl_model model;
    ck_assert_msg(load(base, changes, &model) == SL_OK, "%s: %s", changes, sl_last_error());
    return model;
}

static void assert_refused(const char *base, const char *changes, sl_status expected, const char *word) {
    sl_model model;
    sl_status status = load(base, changes, &model);
    ck_assert_msg(status == expected, "%s: %s", changes, sl_status_name(status));
    ck_assert_msg(strstr(sl_last_error(), word) != NULL, "no '%s': %s", word, sl_last_error());
    ck_assert_ptr_nonnull(strstr(sl_last_error(), "config.json"));
    unload(&model);
}

START_TEST(a_llama_has_these_defaults) {
    sl_model m = accepted(llama, "{}");
    const sl_model_info *info = &m.config.info;
    ck_assert_str_eq(info->family, "llama");
    ck_assert_int_eq(info->n_embd, 64);
    ck_assert_int_eq(info->n_ff, 172);
    ck_assert_int_eq(info->n_layers, 5);
    ck_assert_int_eq(info->n_heads, 8);
    ck_assert_int_eq(info->n_kv_heads, 8);
    ck_assert_int_eq(info->head_dim, 8);
    ck_assert_int_eq(info->n_vocab, 512);
    ck_assert_int_eq(info->n_context, 512);
    ck_assert_int_eq(info->bos_id, -1);
    ck_assert_int_eq(info->n_eos_ids, 0);
    ck_assert(!info->tied_head && !m.config.attention_bias && !m.config.mlp_bias);
    ck_assert_double_eq(m.config.eps, 1e-5);
    ck_assert_double_eq(m.config.rotary.base, 10000);
    ck_assert_int_eq(m.config.rotary.scaling, SL_ROTARY_PLAIN);
    unload(&m);
}
END_TEST

START_TEST(a_llama_says_otherwise) {
    sl_model m = accepted(llama, "{\"num_key_value_heads\":2,\"head_dim\":20,\"tie_word_embeddings\":true,"
                                 "\"attention_bias\":true,\"mlp_bias\":true,\"hidden_act\":\"silu\","
                                 "\"bos_token_id\":1,\"eos_token_id\":[2,7],\"rope_theta\":500000,"
                                 "\"num_attention_heads\":6,\"pad_token_id\":null,\"anything\":[1]}");
    ck_assert_int_eq(m.config.info.n_kv_heads, 2);
    ck_assert_int_eq(m.config.info.head_dim, 20);
    ck_assert(m.config.info.tied_head && m.config.attention_bias && m.config.mlp_bias);
    ck_assert_int_eq(m.config.info.bos_id, 1);
    ck_assert_int_eq(m.config.info.n_eos_ids, 2);
    ck_assert_int_eq(m.config.info.eos_ids[1], 7);
    ck_assert_double_eq(m.config.rotary.base, 500000);
    unload(&m);
    m = accepted(llama, "{\"eos_token_id\":3,\"num_key_value_heads\":null,\"head_dim\":null,\"rope_scaling\":null}");
    ck_assert_int_eq(m.config.info.n_eos_ids, 1);
    ck_assert_int_eq(m.config.info.eos_ids[0], 3);
    unload(&m);
}
END_TEST

#define LLAMA3                                                                                                         \
    "\"factor\":8.0,\"low_freq_factor\":1.0,\"high_freq_factor\":4.0,\"original_max_position_embeddings\":8192"

START_TEST(rotary_scaling_is_read_in_its_old_and_new_places) {
    static const char *const ways[] = {
        "{\"rope_theta\":500000.0,\"rope_scaling\":{\"rope_type\":\"llama3\"," LLAMA3 "}}",
        "{\"rope_theta\":500000.0,\"rope_scaling\":{\"type\":\"llama3\"," LLAMA3 "}}",
        "{\"rope_parameters\":{\"rope_type\":\"llama3\",\"rope_theta\":500000," LLAMA3 "}}",
        "{\"rope_theta\":10000.0,\"rope_parameters\":{\"rope_type\":\"llama3\",\"rope_theta\":500000," LLAMA3 "},"
        "\"rope_scaling\":{\"rope_type\":\"yarn\",\"factor\":2}}",
    };
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        sl_model m = accepted(llama, ways[i]);
        const sl_rotary_options *r = &m.config.rotary;
        ck_assert_int_eq(r->scaling, SL_ROTARY_LLAMA3);
        ck_assert_double_eq(r->base, 500000);
        ck_assert_double_eq(r->factor, 8);
        ck_assert_double_eq(r->low_freq_factor, 1);
        ck_assert_double_eq(r->high_freq_factor, 4);
        ck_assert_int_eq(r->original_max_positions, 8192);
        unload(&m);
    }
    sl_model m = accepted(llama, "{\"rope_parameters\":{\"rope_type\":\"default\",\"rope_theta\":1e6}}");
    ck_assert_double_eq(m.config.rotary.base, 1e6);
    ck_assert_int_eq(m.config.rotary.scaling, SL_ROTARY_PLAIN);
    unload(&m);
}
END_TEST

START_TEST(rotary_scaling_that_we_do_not_have_is_refused_by_name) {
    assert_refused(llama, "{\"rope_scaling\":{\"type\":\"linear\",\"factor\":2}}", SL_UNSUPPORTED, "'linear'");
    assert_refused(llama, "{\"rope_parameters\":{\"rope_type\":\"yarn\",\"factor\":2}}", SL_UNSUPPORTED,
                   "default, llama3");
    assert_refused(llama, "{\"rope_scaling\":{\"factor\":2}}", SL_BAD_FILE, "'rope_scaling.rope_type' is missing");
    assert_refused(llama, "{\"rope_scaling\":{\"rope_type\":\"llama3\",\"factor\":8}}", SL_BAD_FILE,
                   "'rope_scaling.low_freq_factor' is missing");
    assert_refused(llama, "{\"rope_scaling\":[1]}", SL_BAD_FILE, "'rope_scaling' holds an array");
    assert_refused(llama,
                   "{\"rope_scaling\":{\"rope_type\":\"llama3\",\"factor\":8,\"low_freq_factor\":4,"
                   "\"high_freq_factor\":4,\"original_max_position_embeddings\":8192}}",
                   SL_BAD_FILE, "more than low_freq_factor");
    assert_refused(llama, "{\"partial_rotary_factor\":0.5}", SL_UNSUPPORTED, "partial_rotary_factor");
    assert_refused(llama, "{\"rope_theta\":0}", SL_BAD_FILE, "'rope_theta' is 0");
}
END_TEST

static void assert_each_is_needed(const char *base, const char *const *keys, size_t n) {
    for (size_t i = 0; i < n; i++) {
        char changes[64], word[64];
        snprintf(changes, sizeof changes, "{\"-%s\":0}", keys[i]);
        snprintf(word, sizeof word, "'%s' is missing", keys[i]);
        assert_refused(base, changes, SL_BAD_FILE, word);
        snprintf(changes, sizeof changes, "{\"%s\":\"64\"}", keys[i]);
        snprintf(word, sizeof word, "'%s' holds a string", keys[i]);
        assert_refused(base, changes, SL_BAD_FILE, word);
        snprintf(changes, sizeof changes, "{\"%s\":-1}", keys[i]);
        snprintf(word, sizeof word, "'%s' is -1", keys[i]);
        assert_refused(base, changes, SL_BAD_FILE, word);
    }
}

START_TEST(missing_and_misshapen_figures_are_named) {
    static const char *const of_llama[] = {"hidden_size",         "intermediate_size", "num_hidden_layers",
                                           "num_attention_heads", "vocab_size",        "max_position_embeddings",
                                           "rms_norm_eps"};
    static const char *const of_gpt2[] = {"n_embd",      "n_head",     "n_layer",
                                          "n_positions", "vocab_size", "layer_norm_epsilon"};
    assert_each_is_needed(llama, of_llama, sizeof of_llama / sizeof *of_llama);
    assert_each_is_needed(gpt2, of_gpt2, sizeof of_gpt2 / sizeof *of_gpt2);
    assert_refused(llama, "{\"hidden_size\":64.0}", SL_BAD_FILE, "fraction");
    assert_refused(llama, "{\"hidden_size\":1099511627776}", SL_BAD_FILE, "'hidden_size' is 1099511627776");
    assert_refused(llama, "{\"num_hidden_layers\":0}", SL_BAD_FILE, "'num_hidden_layers' is 0");
    assert_refused(llama, "{\"tie_word_embeddings\":1}", SL_BAD_FILE, "'tie_word_embeddings' holds an integer");
    assert_refused(llama, "{\"eos_token_id\":[2,\"x\"]}", SL_BAD_FILE, "'eos_token_id' holds a list with a string");
    assert_refused(llama, "{\"eos_token_id\":-2}", SL_BAD_FILE, "'eos_token_id'");
    assert_refused(llama, "{\"bos_token_id\":[1]}", SL_BAD_FILE, "'bos_token_id' holds an array");
}
END_TEST

START_TEST(heads_that_do_not_divide_are_refused) {
    assert_refused(llama, "{\"num_key_value_heads\":3}", SL_BAD_FILE, "multiple of 'num_key_value_heads', 3");
    assert_refused(llama, "{\"num_attention_heads\":7}", SL_BAD_FILE, "multiple of 'num_attention_heads', 7");
    assert_refused(llama, "{\"head_dim\":7}", SL_BAD_FILE, "even number");
    assert_refused(llama, "{\"num_attention_heads\":64}", SL_BAD_FILE, "even number");
    assert_refused(llama, "{\"head_dim\":16777214}", SL_BAD_FILE, "8 heads of 16777214");
    assert_refused(gpt2, "{\"n_head\":5}", SL_BAD_FILE, "multiple of 'n_head', 5");
}
END_TEST

START_TEST(other_models_are_refused_with_the_list) {
    assert_refused(llama, "{\"model_type\":\"qwen2\"}", SL_UNSUPPORTED,
                   "'qwen2' is not supported; supported are llama");
    assert_refused(llama, "{\"model_type\":\"mistral\"}", SL_UNSUPPORTED, "gpt2");
    assert_refused(llama, "{\"-model_type\":0}", SL_BAD_FILE, "'model_type' is missing");
    assert_refused(llama, "{\"hidden_act\":\"gelu\"}", SL_UNSUPPORTED, "'gelu'");
    assert_refused(llama, "{\"quantization_config\":{\"bits\":4}}", SL_UNSUPPORTED, "quantization_config");
    assert_refused(gpt2, "{\"activation_function\":\"mish\"}", SL_UNSUPPORTED, "'mish'");
    assert_refused(gpt2, "{\"add_cross_attention\":true}", SL_UNSUPPORTED, "add_cross_attention");
}
END_TEST

START_TEST(a_gpt2_is_read) {
    sl_model m = accepted(gpt2, "{\"n_inner\":null,\"eos_token_id\":98,\"activation_function\":\"gelu_new\"}");
    const sl_model_info *info = &m.config.info;
    ck_assert_str_eq(info->family, "gpt2");
    ck_assert_int_eq(info->n_ff, 128);
    ck_assert_int_eq(info->n_kv_heads, 4);
    ck_assert_int_eq(info->head_dim, 8);
    ck_assert_int_eq(info->n_context, 512);
    ck_assert(info->tied_head && m.config.scale_scores && !m.config.scale_scores_by_layer);
    ck_assert(m.config.activation == sl_gelu_tanh);
    unload(&m);
    m = accepted(gpt2, "{\"n_inner\":64,\"-n_positions\":0,\"n_ctx\":256,\"activation_function\":\"gelu\","
                       "\"tie_word_embeddings\":false,\"scale_attn_weights\":false,"
                       "\"scale_attn_by_inverse_layer_idx\":true}");
    ck_assert_int_eq(m.config.info.n_ff, 64);
    ck_assert_int_eq(m.config.info.n_context, 256);
    ck_assert(m.config.activation == sl_gelu);
    ck_assert(!m.config.info.tied_head && !m.config.scale_scores && m.config.scale_scores_by_layer);
    unload(&m);
}
END_TEST

START_TEST(a_config_that_is_none_is_refused) {
    folder f = folder_make();
    sl_model *model;
    ck_assert_int_eq(sl_model_open(f.path, &model), SL_IO);
    ck_assert_ptr_null(model);
    ck_assert_ptr_nonnull(strstr(sl_last_error(), "config.json"));
    folder_write_text(&f, "config.json", "[1]");
    ck_assert_int_eq(sl_model_open(f.path, &model), SL_BAD_FILE);
    folder_write_text(&f, "config.json", "{\"model_type\":\"llama\",\"model_type\":\"gpt2\"}");
    ck_assert_int_eq(sl_model_open(f.path, &model), SL_BAD_FILE);
    ck_assert_ptr_nonnull(strstr(sl_last_error(), "twice"));
    folder_write_text(&f, "config.json", llama);
    ck_assert_int_eq(sl_model_open(f.path, &model), SL_IO);
    ck_assert_ptr_nonnull(strstr(sl_last_error(), "model.safetensors"));
    folder_remove(&f);
}
END_TEST

int main(void) {
    const test_case cases[] = {
        TEST(a_llama_has_these_defaults),
        TEST(a_llama_says_otherwise),
        TEST(rotary_scaling_is_read_in_its_old_and_new_places),
        TEST(rotary_scaling_that_we_do_not_have_is_refused_by_name),
        TEST(missing_and_misshapen_figures_are_named),
        TEST(heads_that_do_not_divide_are_refused),
        TEST(other_models_are_refused_with_the_list),
        TEST(a_gpt2_is_read),
        TEST(a_config_that_is_none_is_refused),
    };
    return test_main("config", cases, sizeof cases / sizeof *cases);
}
