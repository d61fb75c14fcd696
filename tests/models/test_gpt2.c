/* tiny-random-gpt2: states and logits against PyTorch, ids and logits against those that onnxruntime-genai publishes,
 * the same bits for every split and both layouts of the matrices. */
#include "folder.h"
#include "forward.h"
#include "npz.h"
#include <jansson.h>
#include <sluice/device.h>

enum { N = 64, LAYERS = 5, PROMPT = 4, GREEDY = 10 };

/* The folder has its weights under names of their own: a folder of links. */
static sl_model *open_layout(const char *weights) {
    folder links = folder_make();
    char path[128];
    snprintf(path, sizeof path, "models/tiny-random-gpt2/%s", weights);
    char *config = test_shared("models/tiny-random-gpt2/config.json"), *file = test_shared(path);
    sl_model *model = NULL;
    if (config) {
        folder_link(&links, "config.json", config);
        folder_link(&links, "model.safetensors", file);
        ck_assert_msg(sl_model_open(links.path, &model) == SL_OK, "%s", sl_last_error());
    }
    folder_remove(&links);
    free(config);
    free(file);
    return model;
}

static sl_model *open_gpt2(void) {
    return open_layout("model-hf-layout.safetensors");
}

static void read_tokens(const npz *z, int32_t tokens[N]) {
    size_t n;
    const char *array = npz_array(z, "tokens", "<i8", &n);
    ck_assert_uint_eq(n, N);
    for (size_t i = 0; i < N; i++) {
        int64_t id;
        memcpy(&id, array + i * sizeof id, sizeof id);
        tokens[i] = (int32_t)id;
    }
}

static npz open_states(int32_t tokens[N]) {
    char *path = test_shared("models/tiny-random-gpt2/ref_torch113_layer_states_64tok.npz");
    npz z = npz_open(path);
    free(path);
    read_tokens(&z, tokens);
    return z;
}

static void assert_array(const npz *z, const char *name, const float *found, size_t n_expected) {
    size_t n;
    const char *array = npz_array(z, name, "<f4", &n);
    float *expected = malloc(n_expected * sizeof *expected);
    ck_assert_ptr_nonnull(expected);
    ck_assert_uint_eq(n, n_expected);
    memcpy(expected, array, n * sizeof *expected);
    assert_near(name, found, expected, n, 1e-4);
    free(expected);
}

START_TEST(states_and_logits_are_pytorchs) {
    sl_model *model = open_gpt2();
    if (!model)
        SKIP("SLUICE_TEST_DATA is not set");
    int32_t tokens[N];
    npz z = open_states(tokens);
    forward f = forward_open(model, "5", N, 1);
    results r = results_make(&f, N);
    forward_sequence(&f, 0, N, tokens, N, &r);
    for (int i = 0; i <= LAYERS; i++) {
        char name[16] = "embed";
        if (i)
            snprintf(name, sizeof name, "layer%d", i - 1);
        assert_array(&z, name, r.states[i], N * (size_t)f.info.n_embd);
    }
    assert_array(&z, "logits", r.logits, N * (size_t)f.info.n_vocab);
    results_free(&r);
    forward_close(&f);
    npz_close(&z);
    sl_model_release(model);
}
END_TEST

START_TEST(splits_and_layouts_give_the_same_bits) {
    static const char *const splits[] = {"14", "221", "1112", "11111"};
    sl_model *model = open_gpt2(), *other = open_layout("model-nn-linear-layout.safetensors");
    if (!model)
        SKIP("SLUICE_TEST_DATA is not set");
    int32_t tokens[N];
    npz z = open_states(tokens);
    forward one = forward_open(model, "5", N, 1);
    results expected = results_make(&one, N);
    forward_sequence(&one, 0, N, tokens, N, &expected);
    for (size_t i = 0; i < 2 * sizeof splits / sizeof *splits; i++) {
        const char *split = splits[i / 2];
        forward f = forward_open(i % 2 ? other : model, split, N, 1);
        results r = results_make(&f, N);
        forward_sequence(&f, 0, N, tokens, N >> i % 6, &r);
        assert_same_rows(split, &f, &r, 0, &expected, 0, N);
        results_free(&r);
        forward_close(&f);
    }
    results_free(&expected);
    forward_close(&one);
    npz_close(&z);
    sl_model_release(model);
    sl_model_release(other);
}
END_TEST

static void assert_published(const json_t *list, const float *logits, size_t n) {
    ck_assert_uint_eq(json_array_size(list), n / 200);
    for (size_t i = 0; i < n / 200; i++) {
        float expected = (float)json_number_value(json_array_get(list, i));
        assert_near("published logits", &logits[200 * i], &expected, 1, 1e-3);
    }
}

static int32_t id_at(const json_t *sequences, size_t s, size_t i) {
    return (int32_t)json_integer_value(json_array_get(json_array_get(sequences, s), i));
}

START_TEST(ids_and_logits_are_the_published_ones) {
    sl_model *model = open_gpt2();
    if (!model)
        SKIP("SLUICE_TEST_DATA is not set");
    char *path = test_shared("models/tiny-random-gpt2/expected.json");
    json_t *root = json_load_file(path, 0, NULL), *greedy = json_object_get(root, "greedy");
    const json_t *input = json_object_get(greedy, "input"), *expected = json_object_get(greedy, "expected");
    forward f = forward_open(model, "23", 2 * PROMPT, 2);
    results r = results_make(&f, 2 * PROMPT);
    int32_t ids[2 * PROMPT];
    for (size_t i = 0; i < 2 * PROMPT; i++)
        ids[i] = id_at(input, i / PROMPT, i % PROMPT);
    sl_segment segments[] = {{0, 0, 0, PROMPT}, {1, 0, PROMPT, PROMPT}};
    forward_rows(&f, 2 * PROMPT, ids, 2, segments, &r, 0);
    assert_published(json_object_get(root, "prompt_logits_every_200th_of_2x4x1000"), r.logits, 2 * PROMPT * 1000);
    int32_t next[] = {r.next[PROMPT - 1], r.next[2 * PROMPT - 1]};
    for (size_t i = PROMPT; i < GREEDY; i++) {
        ck_assert_int_eq(next[0], id_at(expected, 0, i));
        ck_assert_int_eq(next[1], id_at(expected, 1, i));
        sl_segment step[] = {{0, (int32_t)i, 0, 1}, {1, (int32_t)i, 1, 1}};
        forward_rows(&f, 2, next, 2, step, &r, 0);
        if (i == PROMPT)
            assert_published(json_object_get(root, "second_generated_token_logits_every_200th_of_2x1x1000"), r.logits,
                             2000);
        memcpy(next, r.next, sizeof next);
    }
    results_free(&r);
    forward_close(&f);
    json_decref(root);
    free(path);
    sl_model_release(model);
}
END_TEST

int main(void) {
    const test_case cases[] = {
        TEST(states_and_logits_are_pytorchs),
        TEST(splits_and_layouts_give_the_same_bits),
        TEST(ids_and_logits_are_the_published_ones),
    };
    if (sl_setting_set("SLUICE_CPU_DEVICES", "5") != SL_OK)
        return 2;
    return test_main("gpt2", cases, sizeof cases / sizeof *cases);
}
