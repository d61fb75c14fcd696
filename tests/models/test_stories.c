/* stories260K, a trained Llama: states and logits against PyTorch and llama2.c, and the same bits for every split,
 * chunk and company. */
#include "folder.h"
#include "forward.h"
#include "npz.h"
#include <jansson.h>

enum { N = 200, LAYERS = 5 };

typedef struct fixture {
    sl_model *model;
    int32_t tokens[N];
    npz states;
} fixture;

static bool open_fixture(fixture *x) {
    char *path = test_shared("models/stories260K"),
         *states = test_shared("models/stories260K/ref_torch113_layer_states.npz");
    if (!path)
        return false;
    ck_assert_msg(sl_model_open(path, &x->model) == SL_OK, "%s", sl_last_error());
    x->states = npz_open(states);
    size_t n;
    const char *tokens = npz_array(&x->states, "tokens", "<i4", &n);
    ck_assert_uint_eq(n, N);
    memcpy(x->tokens, tokens, sizeof x->tokens);
    free(path);
    free(states);
    return true;
}

static void close_fixture(fixture *x) {
    npz_close(&x->states);
    sl_model_release(x->model);
}

static void copy_array(const fixture *x, const char *name, float *to, size_t n_expected) {
    size_t n;
    const char *array = npz_array(&x->states, name, "<f4", &n);
    ck_assert_uint_eq(n, n_expected);
    memcpy(to, array, n * sizeof *to); /* it lies anyhow in the file */
}

static void assert_reference(const fixture *x, const forward *f, const results *r) {
    size_t embd = N * (size_t)f->info.n_embd, vocab = N * (size_t)f->info.n_vocab;
    float *expected = malloc(vocab * sizeof *expected);
    ck_assert_ptr_nonnull(expected);
    for (int i = 0; i <= LAYERS; i++) {
        char name[16] = "embed";
        if (i)
            snprintf(name, sizeof name, "layer%d", i - 1);
        copy_array(x, name, expected, embd);
        assert_near(name, r->states[i], expected, embd, 1e-4);
    }
    copy_array(x, "logits", expected, vocab);
    assert_near("PyTorch's logits", r->logits, expected, vocab, 1e-4);
    char *path = test_shared("models/stories260K/ref_runc_logits_200x512_f32le.bin"), *logits;
    size_t bytes;
    logits = test_read_file(path, &bytes);
    ck_assert_uint_eq(bytes, vocab * sizeof *expected);
    memcpy(expected, logits, bytes);
    assert_near("run.c's logits", r->logits, expected, vocab, 1e-4);
    free(logits);
    free(path);
    free(expected);
}

/* The `number`th of the 16 ways to cut five layers into parts: a bit says whether a part ends behind a layer. */
static void split_of(int number, char split[LAYERS + 1]) {
    int n = 0, run = 1;
    for (int layer = 0; layer < LAYERS; layer++, run++)
        if (layer == LAYERS - 1 || number >> layer & 1) {
            split[n++] = (char)('0' + run);
            run = 0;
        }
    split[n] = '\0';
}

START_TEST(states_and_logits_are_those_of_the_references) {
    fixture x;
    if (!open_fixture(&x))
        SKIP("SLUICE_TEST_DATA is not set");
    forward f = forward_open(x.model, "5", N, 1);
    results r = results_make(&f, N);
    forward_sequence(&f, 0, N, x.tokens, N, &r);
    assert_reference(&x, &f, &r);
    ck_assert_mem_eq(r.next, x.tokens + 1, (N - 1) * sizeof *r.next); /* they were greedy */
    results_free(&r);
    forward_close(&f);
    close_fixture(&x);
}
END_TEST

START_TEST(every_split_gives_the_same_bits) {
    fixture x;
    if (!open_fixture(&x))
        SKIP("SLUICE_TEST_DATA is not set");
    forward one = forward_open(x.model, "5", N, 1);
    results expected = results_make(&one, N);
    forward_sequence(&one, 0, N, x.tokens, N, &expected);
    for (int number = 0; number < 1 << (LAYERS - 1); number++) {
        char split[LAYERS + 1];
        split_of(number, split);
        forward f = forward_open(x.model, split, 64, 1);
        results r = results_make(&f, N);
        forward_sequence(&f, 0, N, x.tokens, 64 - (size_t)number, &r);
        assert_same_rows(split, &f, &r, 0, &expected, 0, N);
        results_free(&r);
        forward_close(&f);
    }
    results_free(&expected);
    forward_close(&one);
    close_fixture(&x);
}
END_TEST

START_TEST(every_chunk_gives_the_same_bits) {
    static const size_t chunks[] = {1, 2, 3, 16, 17, 199};
    fixture x;
    if (!open_fixture(&x))
        SKIP("SLUICE_TEST_DATA is not set");
    forward f = forward_open(x.model, "32", N, 2);
    results expected = results_make(&f, N), r = results_make(&f, N);
    forward_sequence(&f, 0, N, x.tokens, N, &expected);
    for (size_t i = 0; i < sizeof chunks / sizeof *chunks; i++) {
        char what[32];
        snprintf(what, sizeof what, "chunk %zu", chunks[i]);
        forward_sequence(&f, (int)(i % 2), N, x.tokens, chunks[i], &r);
        assert_same_rows(what, &f, &r, 0, &expected, 0, N);
    }
    results_free(&r);
    results_free(&expected);
    forward_close(&f);
    close_fixture(&x);
}
END_TEST

/* ---- Several sequences in one micro-batch ---- */

enum { SEQUENCES = 8, LENGTH = 48 };

static void read_prompts(int32_t ids[SEQUENCES][LENGTH]) {
    char *path = test_shared("models/stories260K/ref_runc_prompts.json");
    json_t *root = json_load_file(path, 0, NULL);
    for (size_t s = 0; s < SEQUENCES; s++) {
        const json_t *tokens = json_object_get(json_array_get(json_object_get(root, "cases"), s), "tokens");
        for (size_t i = 0; i < LENGTH; i++)
            ids[s][i] = (int32_t)json_integer_value(json_array_get(tokens, i));
    }
    json_decref(root);
    free(path);
}

/* Sequences 0 .. n-1 advance together by random numbers of rows, with places in a random turn. */
static void run_company(forward *f, int n, int32_t ids[SEQUENCES][LENGTH], results *of_each, uint64_t *state) {
    int position[SEQUENCES] = {0}, left = n * LENGTH;
    results r = results_make(f, SEQUENCES * 8);
    while (left) {
        sl_segment segments[SEQUENCES];
        int32_t rows[SEQUENCES * 8];
        int order[SEQUENCES], n_segments = 0, n_rows = 0, turn = (int)test_below(state, (uint64_t)n);
        for (int k = 0; k < n; k++) {
            int s = (k + turn) % n, most = LENGTH - position[s], take = (int)test_below(state, 9);
            take = take < most ? take : most;
            if (!take)
                continue;
            segments[n_segments] = (sl_segment){s, position[s], n_rows, take};
            order[n_segments++] = s;
            memcpy(rows + n_rows, ids[s] + position[s], (size_t)take * sizeof *rows);
            n_rows += take;
        }
        if (!n_rows)
            continue;
        forward_rows(f, (size_t)n_rows, rows, (uint32_t)n_segments, segments, &r, 0);
        for (int k = 0; k < n_segments; k++) {
            char what[64];
            int s = order[k];
            snprintf(what, sizeof what, "sequence %d of %d at %d", s, n, position[s]);
            assert_same_rows(what, f, &r, (size_t)segments[k].first_row, &of_each[s], (size_t)position[s],
                             (size_t)segments[k].n_rows);
            position[s] += segments[k].n_rows;
            left -= segments[k].n_rows;
        }
    }
    results_free(&r);
}

START_TEST(company_changes_no_bit) {
    static const char *const splits[] = {"5", "14", "221", "1211", "11111"};
    fixture x;
    int32_t ids[SEQUENCES][LENGTH];
    uint64_t state = test_seed();
    int step = test_cases(10) >= 10 ? 1 : 3;
    if (!open_fixture(&x))
        SKIP("SLUICE_TEST_DATA is not set");
    read_prompts(ids);
    forward one = forward_open(x.model, "5", LENGTH, SEQUENCES);
    results alone[SEQUENCES];
    for (int s = 0; s < SEQUENCES; s++) {
        alone[s] = results_make(&one, LENGTH);
        forward_sequence(&one, s, LENGTH, ids[s], LENGTH, &alone[s]);
    }
    for (size_t i = 0; i < sizeof splits / sizeof *splits; i++) {
        forward f = forward_open(x.model, splits[i], SEQUENCES * 8, SEQUENCES);
        for (int n = SEQUENCES; n >= 1; n -= step)
            run_company(&f, n, ids, alone, &state);
        forward_close(&f);
    }
    for (int s = 0; s < SEQUENCES; s++)
        results_free(&alone[s]);
    forward_close(&one);
    close_fixture(&x);
}
END_TEST

START_TEST(metas_names_and_layout_give_the_same_states) {
    fixture x;
    if (!open_fixture(&x))
        SKIP("SLUICE_TEST_DATA is not set");
    folder links = folder_make();
    char *config = test_shared("models/stories260K/config.json"),
         *weights = test_shared("models/stories260K/meta-names.safetensors");
    folder_link(&links, "config.json", config);
    folder_link(&links, "model.safetensors", weights);
    sl_model *model;
    ck_assert_msg(sl_model_open(links.path, &model) == SL_OK, "%s", sl_last_error());
    forward f = forward_open(model, "23", N, 1);
    results r = results_make(&f, N);
    forward_sequence(&f, 0, N, x.tokens, N, &r);
    assert_reference(&x, &f, &r);
    results_free(&r);
    forward_close(&f);
    sl_model_release(model);
    folder_remove(&links);
    free(config);
    free(weights);
    close_fixture(&x);
}
END_TEST

int main(void) {
    const test_case cases[] = {
        TEST(states_and_logits_are_those_of_the_references), TEST_FOR(every_split_gives_the_same_bits, 200),
        TEST_FOR(every_chunk_gives_the_same_bits, 200),      TEST_FOR(company_changes_no_bit, 200),
        TEST(metas_names_and_layout_give_the_same_states),
    };
    if (sl_setting_set("SLUICE_CPU_DEVICES", "5") != SL_OK)
        return 2;
    return test_main("stories", cases, sizeof cases / sizeof *cases);
}
