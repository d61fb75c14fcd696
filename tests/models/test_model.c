/* Models and their graphs: inputs, outputs, stages and states of a split; names and layouts that are known; what a
 * checkpoint lacks is named when the model is opened. */
#include "remake.h"
#include "support.h"
#include <sluice/model.h>
#include <sluice/ops.h>
#include <sluice/plan.h>

static const sl_synth_options shape = {"llama", 5, 32, 48, 4, 2, 64, 40, SL_F32, 1};

static folder make_model(void) {
    folder f = folder_make();
    ck_assert_msg(sl_model_synth(f.path, &shape) == SL_OK, "%s", sl_last_error());
    return f;
}

static sl_model *open_model(const char *path) {
    sl_model *model;
    ck_assert_msg(sl_model_open(path, &model) == SL_OK, "%s", sl_last_error());
    return model;
}

/* Puts a changed checkpoint in place of the folder's own. */
static void change_model(folder *f, void (*change)(remade *)) {
    char from[600], to[600];
    snprintf(from, sizeof from, "%s/model.safetensors", f->path);
    snprintf(to, sizeof to, "%s/changed.safetensors", f->path);
    remake(from, to, change);
    ck_assert_int_eq(rename(to, from), 0);
}

static void change_config(folder *f, const char *from, const char *to) {
    char command[600];
    snprintf(command, sizeof command, "sed -i 's/%s/%s/' '%s/config.json'", from, to, f->path);
    ck_assert_int_eq(test_run(command, NULL, 0), 0);
}

static void assert_refused(void (*change)(remade *), sl_status expected, const char *word) {
    folder f = make_model();
    sl_model *model;
    change_model(&f, change);
    ck_assert_int_eq(sl_model_open(f.path, &model), expected);
    ck_assert_ptr_null(model);
    ck_assert_msg(strstr(sl_last_error(), word) != NULL, "no '%s': %s", word, sl_last_error());
    folder_remove(&f);
}

/* ---- Graphs ---- */

static sl_graph *graph_of(const sl_model *model, const char *devices, bool all_outputs) {
    sl_device placed[8];
    int n = (int)strlen(devices);
    for (int i = 0; i < n; i++)
        placed[i] = (sl_device){SL_SIM, devices[i] - '0'};
    sl_graph *graph = sl_model_graph(model, &(sl_model_graph_options){.layer_devices = placed,
                                                                      .max_rows = 8,
                                                                      .max_sequences = 2,
                                                                      .n_places = 2,
                                                                      .logits = all_outputs,
                                                                      .layer_states = all_outputs});
    ck_assert_ptr_nonnull(graph);
    ck_assert_msg(sl_graph_status(graph) == SL_OK, "%s", sl_last_error());
    return graph;
}

static void assert_stages(const sl_model *model, const char *devices, int n, const char *const *names) {
    sl_graph *graph = graph_of(model, devices, false);
    ck_assert_int_eq(sl_graph_n_stages(graph), n);
    for (int j = 0; j < n; j++)
        ck_assert_str_eq(sl_graph_stage_name(graph, j), names[j]);
    sl_graph_destroy(graph);
}

START_TEST(a_run_of_layers_on_one_device_is_a_stage) {
    folder f = make_model();
    sl_model *model = open_model(f.path);
    assert_stages(model, "00000", 1, (const char *const[]){"layers.0-4"});
    assert_stages(model, "00111", 2, (const char *const[]){"layers.0-1", "layers.2-4"});
    assert_stages(model, "01234", 5, (const char *const[]){"layers.0", "layers.1", "layers.2", "layers.3", "layers.4"});
    assert_stages(model, "01100", 3, (const char *const[]){"layers.0", "layers.1-2", "layers.3-4"});
    sl_model_release(model);
    folder_remove(&f);
}
END_TEST

START_TEST(inputs_and_outputs_come_in_the_promised_order) {
    static const char *const inputs[] = {"ids", "last", "sample.ints", "sample.floats"};
    static const char *const outputs[] = {"next",    "logits",  "state.0", "state.1",
                                          "state.2", "state.3", "state.4", "state.5"};
    folder f = make_model();
    sl_model *model = open_model(f.path);
    sl_graph *graph = graph_of(model, "00112", true);
    ck_assert_int_eq(sl_graph_n_inputs(graph), 4);
    ck_assert_int_eq(sl_graph_n_outputs(graph), 8);
    for (int i = 0; i < 4; i++)
        ck_assert_str_eq(sl_graph_input_name(graph, i), inputs[i]);
    for (int i = 0; i < 8; i++)
        ck_assert_str_eq(sl_graph_output_name(graph, i), outputs[i]);
    sl_graph_destroy(graph);
    graph = graph_of(model, "00112", false);
    ck_assert_int_eq(sl_graph_n_outputs(graph), 1);
    sl_graph_destroy(graph);
    sl_model_release(model);
    folder_remove(&f);
}
END_TEST

static void assert_options_refused(const sl_model *model, sl_model_graph_options options, const char *word) {
    sl_graph *graph = sl_model_graph(model, &options);
    ck_assert_ptr_nonnull(graph);
    ck_assert_int_eq(sl_graph_status(graph), SL_INVALID);
    ck_assert_msg(strstr(sl_last_error(), word) != NULL, "no '%s': %s", word, sl_last_error());
    sl_graph_destroy(graph);
}

START_TEST(options_that_make_no_sense_are_the_graphs_error) {
    static const sl_device devices[5] = {{SL_CPU, 0}};
    folder f = make_model();
    sl_model *model = open_model(f.path);
    assert_options_refused(model, (sl_model_graph_options){.max_rows = 1}, "a device for each of 5 layers");
    assert_options_refused(model, (sl_model_graph_options){.layer_devices = devices, .context = 41}, "1 to 40");
    assert_options_refused(model, (sl_model_graph_options){.layer_devices = devices, .context = -1}, "context of -1");
    assert_options_refused(model, (sl_model_graph_options){.layer_devices = devices, .n_places = -1}, "-1 places");
    sl_model_release(model);
    folder_remove(&f);
}
END_TEST

START_TEST(a_model_stays_while_it_is_held) {
    folder f = make_model();
    sl_model *model = open_model(f.path);
    ck_assert_ptr_eq(sl_model_retain(model), model);
    sl_model_release(model);
    sl_graph *graph = graph_of(model, "00000", false);
    sl_model_release(model); /* the graph holds the checkpoint */
    ck_assert_int_eq(sl_graph_status(graph), SL_OK);
    sl_graph_destroy(graph);
    sl_model_release(NULL);
    folder_remove(&f);
}
END_TEST

/* What a device holds for a layer: all matrices and norms of the shape above, in f32. */
enum { EMBD = 32, KV = 16, FF = 48, LAYER = 4 * (2 * EMBD + 2 * EMBD * EMBD + 2 * KV * EMBD + 3 * FF * EMBD) };

static uint64_t weight_bytes(const sl_plan *plan, int i) {
    sl_device device;
    sl_memory_figures figures;
    ck_assert_int_eq(sl_plan_memory(plan, i, &device, &figures), SL_OK);
    return figures.by_category[SL_MEMORY_WEIGHTS];
}

START_TEST(a_device_holds_its_own_layers_alone) {
    static const int layers[] = {2, 2, 1};
    enum { EMBEDDING = 4 * 64 * EMBD, NORM = 4 * EMBD, SLACK = 4096 /* alignment, and rotary's table: 40 rows of 8 */ };
    folder f = make_model();
    sl_model *model = open_model(f.path);
    sl_graph *graph = graph_of(model, "00112", false);
    sl_plan *plan;
    ck_assert_msg(sl_plan_create(graph, NULL, &plan) == SL_OK, "%s", sl_last_error());
    ck_assert_int_eq(sl_plan_n_devices(plan), 3);
    for (int i = 0; i < 3; i++) {
        uint64_t own = (uint64_t)layers[i] * LAYER + (i != 1 ? EMBEDDING : 0) + (i == 2 ? NORM : 0);
        ck_assert_uint_ge(weight_bytes(plan, i), own);
        ck_assert_uint_le(weight_bytes(plan, i), own + SLACK);
    }
    sl_plan_destroy(plan);
    sl_graph_destroy(graph);
    sl_model_release(model);
    folder_remove(&f);
}
END_TEST

/* ---- What a checkpoint has ---- */

static void without_k(remade *t) {
    if (!strcmp(t->name, "model.layers.3.self_attn.k_proj.weight"))
        t->name[0] = '\0';
}

static void with_a_short_v(remade *t) {
    if (!strcmp(t->name, "model.layers.2.self_attn.v_proj.weight"))
        t->shape[0] = 8;
}

static void with_a_flat_norm(remade *t) {
    if (!strcmp(t->name, "model.norm.weight"))
        t->rank = 2;
}

static void without_embedding(remade *t) {
    if (!strcmp(t->name, "model.embed_tokens.weight"))
        strcpy(t->name, "embeddings");
}

static void without_head(remade *t) {
    if (!strcmp(t->name, "lm_head.weight"))
        strcpy(t->name, "head");
}

START_TEST(a_missing_or_misshapen_tensor_is_named_when_the_model_is_opened) {
    assert_refused(without_k, SL_BAD_FILE, "no tensor 'model.layers.3.self_attn.k_proj.weight'");
    assert_refused(with_a_short_v, SL_BAD_FILE, "[8, 32] where [16, 32] is expected");
    assert_refused(with_a_short_v, SL_BAD_FILE, "model.layers.2.self_attn.v_proj.weight");
    assert_refused(with_a_flat_norm, SL_BAD_FILE, "where [32] is expected");
    assert_refused(without_embedding, SL_BAD_FILE, "'model.embed_tokens.weight'");
    assert_refused(without_head, SL_BAD_FILE, "no tensor 'lm_head.weight'");
}
END_TEST

START_TEST(what_the_config_promises_the_checkpoint_must_hold) {
    static const char *const changes[][3] = {
        {"\"hidden_act\": \"silu\"", "\"attention_bias\": true", "no tensor 'model.layers.0.self_attn.q_proj.bias'"},
        {"\"hidden_act\": \"silu\"", "\"mlp_bias\": true", "no tensor 'model.layers.0.mlp.gate_proj.bias'"},
        {"\"num_hidden_layers\": 5", "\"num_hidden_layers\": 6", "'model.layers.5.input_layernorm.weight'"},
        {"\"num_hidden_layers\": 5", "\"num_hidden_layers\": 16000", "'model.layers.5.input_layernorm.weight'"},
        {"\"vocab_size\": 64", "\"vocab_size\": 65", "[64, 32] where [65, 32] is expected"},
    };
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        folder f = make_model();
        sl_model *model;
        change_config(&f, changes[i][0], changes[i][1]);
        ck_assert_msg(sl_model_open(f.path, &model) == SL_BAD_FILE, "%s", changes[i][1]);
        ck_assert_msg(strstr(sl_last_error(), changes[i][2]) != NULL, "no '%s': %s", changes[i][2], sl_last_error());
        folder_remove(&f);
    }
}
END_TEST

static void without_prefix(remade *t) {
    size_t n = strlen("model.");
    if (!strncmp(t->name, "model.", n))
        memmove(t->name, t->name + n, strlen(t->name) - n + 1);
}

/* Hugging Face's names to Meta's: the part behind the layer's number. */
static void to_meta(remade *t) {
    static const char *const names[][2] = {
        {"embed_tokens.", "tok_embeddings."},    {"lm_head.", "output."},
        {"input_layernorm.", "attention_norm."}, {"self_attn.q_proj.", "attention.wq."},
        {"self_attn.k_proj.", "attention.wk."},  {"self_attn.v_proj.", "attention.wv."},
        {"self_attn.o_proj.", "attention.wo."},  {"post_attention_layernorm.", "ffn_norm."},
        {"mlp.gate_proj.", "feed_forward.w1."},  {"mlp.up_proj.", "feed_forward.w3."},
        {"mlp.down_proj.", "feed_forward.w2."},
    };
    without_prefix(t);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char *at = strstr(t->name, names[i][0]);
        if (at)
            snprintf(at, sizeof t->name - (size_t)(at - t->name), "%sweight", names[i][1]);
    }
}

START_TEST(other_names_of_a_llama_are_known) {
    void (*const changes[])(remade *) = {without_prefix, to_meta};
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        folder f = make_model();
        change_model(&f, changes[i]);
        sl_model_release(open_model(f.path));
        folder_remove(&f);
    }
}
END_TEST

START_TEST(a_file_opens_with_the_config_beside_it) {
    folder f = make_model();
    char path[600];
    snprintf(path, sizeof path, "%s/model.safetensors", f.path);
    sl_model_release(open_model(path));
    folder_remove(&f);
}
END_TEST

/* ---- GPT-2, from a Llama's tensors ---- */

static const char gpt2_config[] = "{\"model_type\":\"gpt2\",\"n_embd\":8,\"n_head\":2,\"n_layer\":1,\"n_positions\":16,"
                                  "\"vocab_size\":10,\"layer_norm_epsilon\":1e-05}";

static sl_status fill_nothing(void *user, int i, void *destination, size_t bytes) {
    (void)user, (void)i;
    memset(destination, 0, bytes);
    return SL_OK;
}

/* `order`: Conv1D's [in, out] or a linear's [out, in]. */
static folder make_gpt2(const char *prefix, bool in_out, bool qkv_bias) {
    folder f = folder_make();
    const struct {
        const char *name;
        int64_t a, b;
    } tensors[] = {
        {"wte.weight", 10, 8},
        {"wpe.weight", 16, 8},
        {"ln_f.weight", 8, 0},
        {"ln_f.bias", 8, 0},
        {"h.0.ln_1.weight", 8, 0},
        {"h.0.ln_1.bias", 8, 0},
        {"h.0.ln_2.weight", 8, 0},
        {"h.0.ln_2.bias", 8, 0},
        {"h.0.attn.c_proj.bias", 8, 0},
        {"h.0.mlp.c_fc.bias", 32, 0},
        {"h.0.mlp.c_proj.bias", 8, 0},
        {"h.0.attn.c_attn.weight", 24, -8},
        {"h.0.attn.c_proj.weight", 8, -8},
        {"h.0.mlp.c_fc.weight", 32, -8},
        {"h.0.mlp.c_proj.weight", 8, -32},
        {"h.0.attn.c_attn.bias", 24, 0},
    };
    enum { N = sizeof tensors / sizeof *tensors };
    char names[N][64];
    sl_checkpoint_entry entries[N];
    for (int i = 0; i < N; i++) {
        int64_t a = tensors[i].a, b = tensors[i].b;
        bool swap = b < 0 && in_out;
        b = b < 0 ? -b : b;
        snprintf(names[i], sizeof names[i], "%s%s", prefix, tensors[i].name);
        entries[i] = (sl_checkpoint_entry){names[i], SL_F32, b ? 2 : 1, {swap ? b : a, swap ? a : b}};
    }
    folder_write_text(&f, "config.json", gpt2_config);
    ck_assert_int_eq(
        sl_checkpoint_write(folder_file(&f, "model.safetensors"), N - !qkv_bias, entries, fill_nothing, NULL), SL_OK);
    return f;
}

START_TEST(a_gpt2_opens_in_all_its_layouts) {
    for (int i = 0; i < 8; i++) {
        folder f = make_gpt2(i & 1 ? "transformer." : "", i & 2, i & 4);
        sl_model *model = open_model(f.path);
        sl_graph *graph = graph_of(model, "0", true);
        ck_assert_int_eq(sl_graph_n_outputs(graph), 4);
        sl_graph_destroy(graph);
        sl_model_release(model);
        folder_remove(&f);
    }
}
END_TEST

START_TEST(a_gpt2_without_its_own_head_is_refused_where_it_should_have_one) {
    folder f = make_gpt2("", true, true);
    sl_model *model;
    change_config(&f, "}", ",\"tie_word_embeddings\":false}");
    ck_assert_int_eq(sl_model_open(f.path, &model), SL_BAD_FILE);
    ck_assert_ptr_nonnull(strstr(sl_last_error(), "no tensor 'lm_head.weight'"));
    folder_remove(&f);
}
END_TEST

int main(void) {
    const test_case cases[] = {
        TEST(a_run_of_layers_on_one_device_is_a_stage),
        TEST(inputs_and_outputs_come_in_the_promised_order),
        TEST(options_that_make_no_sense_are_the_graphs_error),
        TEST(a_model_stays_while_it_is_held),
        TEST(a_device_holds_its_own_layers_alone),
        TEST(a_missing_or_misshapen_tensor_is_named_when_the_model_is_opened),
        TEST(what_the_config_promises_the_checkpoint_must_hold),
        TEST(other_names_of_a_llama_are_known),
        TEST(a_file_opens_with_the_config_beside_it),
        TEST(a_gpt2_opens_in_all_its_layouts),
        TEST(a_gpt2_without_its_own_head_is_refused_where_it_should_have_one),
    };
    return test_main("model", cases, sizeof cases / sizeof *cases);
}
