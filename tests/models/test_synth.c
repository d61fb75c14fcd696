/* Seeded models: the same bytes for the same seed, a sane spread, shapes that a model accepts. */
#include "folder.h"
#include "support.h"
#include <math.h>
#include <sluice/model.h>

static const sl_synth_options small = {.family = "llama",
                                       .n_layers = 3,
                                       .n_embd = 64,
                                       .n_ff = 96,
                                       .n_heads = 4,
                                       .n_kv_heads = 2,
                                       .n_vocab = 128,
                                       .n_context = 64,
                                       .dtype = SL_F32,
                                       .seed = 7};

static sl_checkpoint *make(folder *f, const sl_synth_options *options) {
    sl_checkpoint *checkpoint;
    ck_assert_msg(sl_model_synth(f->path, options) == SL_OK, "%s", sl_last_error());
    ck_assert_int_eq(sl_checkpoint_open(f->path, &checkpoint), SL_OK);
    return checkpoint;
}

static sl_checkpoint_tensor find(sl_checkpoint *checkpoint, const char *name) {
    sl_checkpoint_tensor t;
    ck_assert_msg(sl_checkpoint_find(checkpoint, name, &t), "%s", name);
    return t;
}

START_TEST(a_synthetic_model_opens_as_a_model) {
    folder f = folder_make();
    sl_model *model;
    sl_model_info info;
    ck_assert_int_eq(sl_model_synth(f.path, &small), SL_OK);
    ck_assert_msg(sl_model_open(f.path, &model) == SL_OK, "%s", sl_last_error());
    sl_model_get_info(model, &info);
    ck_assert_str_eq(info.family, "llama");
    ck_assert_int_eq(info.n_layers, 3);
    ck_assert_int_eq(info.n_embd, 64);
    ck_assert_int_eq(info.n_ff, 96);
    ck_assert_int_eq(info.n_heads, 4);
    ck_assert_int_eq(info.n_kv_heads, 2);
    ck_assert_int_eq(info.head_dim, 16);
    ck_assert_int_eq(info.n_vocab, 128);
    ck_assert_int_eq(info.n_context, 64);
    ck_assert_int_eq(info.bos_id, 0);
    ck_assert_int_eq(info.n_eos_ids, 0);
    ck_assert_int_eq(sl_checkpoint_count(sl_model_checkpoint(model)), 3 * 9 + 3);
    sl_model_release(model);
    folder_remove(&f);
}
END_TEST

START_TEST(a_seed_gives_the_same_bytes_and_another_seed_others) {
    folder f = folder_make(), g = folder_make();
    sl_synth_options other = small;
    other.seed = 8;
    sl_checkpoint *a = make(&f, &small), *b = make(&g, &small);
    sl_checkpoint_tensor s, t;
    for (int i = 0; sl_checkpoint_at(a, i, &s) && sl_checkpoint_at(b, i, &t); i++)
        ck_assert_mem_eq(s.data, t.data, s.bytes);
    sl_checkpoint_release(b);
    b = make(&g, &other);
    for (int i = 0; sl_checkpoint_at(a, i, &s) && sl_checkpoint_at(b, i, &t); i++)
        ck_assert(s.rank == 1 || memcmp(s.data, t.data, s.bytes) != 0);
    sl_checkpoint_release(a);
    sl_checkpoint_release(b);
    folder_remove(&f);
    folder_remove(&g);
}
END_TEST

/* The bytes are promised for every machine and compiler: some elements as they were first made. */
START_TEST(elements_are_what_they_always_were) {
    folder f = folder_make();
    sl_checkpoint *checkpoint = make(&f, &small);
    const float *w = find(checkpoint, "model.layers.1.self_attn.k_proj.weight").data;
    static const float expected[] = {-0x1.b89726p-5f, 0x1.207ea6p-4f, -0x1.d8620ep-3f,
                                     -0x1.ec8f08p-3f}; /* oracles/synth.py */
    for (int i = 0; i < 4; i++)
        ck_assert_msg(memcmp(&w[500 * i], &expected[i], sizeof *w) == 0, "element %d is %a", 500 * i, w[500 * i]);
    sl_checkpoint_release(checkpoint);
    folder_remove(&f);
}
END_TEST

START_TEST(matrices_spread_as_their_columns_ask_and_norms_are_one) {
    folder f = folder_make();
    sl_checkpoint *checkpoint = make(&f, &small);
    sl_checkpoint_tensor t;
    for (int i = 0; sl_checkpoint_at(checkpoint, i, &t); i++) {
        const float *w = t.data;
        double sum = 0, squares = 0, largest = 0, n = (double)t.bytes / 4;
        for (size_t k = 0; k < t.bytes / 4; k++) {
            ck_assert(t.rank == 2 || w[k] == 1);
            sum += w[k];
            squares += (double)w[k] * w[k];
            largest = fmax(largest, fabs((double)w[k]));
        }
        if (t.rank == 1)
            continue;
        double deviation = 1 / sqrt((double)t.shape[1]);
        ck_assert_double_lt(fabs(sum / n), 5 * deviation / sqrt(n));
        ck_assert_double_lt(fabs(sqrt(squares / n) / deviation - 1), 5 / sqrt(n));
        ck_assert_double_lt(largest, 4 * deviation);
    }
    sl_checkpoint_release(checkpoint);
    folder_remove(&f);
}
END_TEST

START_TEST(half_types_are_the_rounded_elements) {
    folder f = folder_make(), g = folder_make();
    sl_checkpoint *whole = make(&f, &small);
    for (int k = 0; k < 2; k++) {
        sl_synth_options options = small;
        options.dtype = k ? SL_BF16 : SL_F16;
        sl_checkpoint *half = make(&g, &options);
        sl_checkpoint_tensor s, t;
        for (int i = 0; sl_checkpoint_at(whole, i, &s); i++) {
            ck_assert(sl_checkpoint_at(half, i, &t));
            ck_assert_int_eq(t.dtype, options.dtype);
            ck_assert_uint_eq(2 * t.bytes, s.bytes);
            uint16_t *rounded = malloc(t.bytes);
            ck_assert_ptr_nonnull(rounded);
            ck_assert_int_eq(sl_convert(t.dtype, rounded, SL_F32, s.data, t.bytes / 2), SL_OK);
            ck_assert_mem_eq(rounded, t.data, t.bytes);
            free(rounded);
        }
        sl_checkpoint_release(half);
    }
    sl_checkpoint_release(whole);
    folder_remove(&f);
    folder_remove(&g);
}
END_TEST

static void assert_refused(sl_synth_options options, sl_status expected, const char *word) {
    folder f = folder_make();
    char path[400];
    snprintf(path, sizeof path, "%s/made", f.path);
    ck_assert_int_eq(sl_model_synth(path, &options), expected);
    ck_assert_msg(strstr(sl_last_error(), word) != NULL, "no '%s': %s", word, sl_last_error());
    ck_assert_int_eq(rmdir(f.path), 0); /* nothing was made */
}

START_TEST(a_shape_that_is_no_model_is_refused_before_anything_is_made) {
    sl_synth_options o = small;
    o.n_heads = 5;
    assert_refused(o, SL_INVALID, "'num_attention_heads' is 5");
    o = small;
    o.n_layers = 0;
    assert_refused(o, SL_INVALID, "'num_hidden_layers' is 0");
    o = small;
    o.n_heads = 0;
    assert_refused(o, SL_INVALID, "'num_attention_heads' is 0");
    o = small;
    o.n_vocab = -1;
    assert_refused(o, SL_INVALID, "'vocab_size' is -1");
    o = small;
    o.dtype = SL_I32;
    assert_refused(o, SL_UNSUPPORTED, "i32");
    o = small;
    o.family = "mamba";
    assert_refused(o, SL_UNSUPPORTED, "'mamba'");
    o.family = NULL;
    assert_refused(o, SL_UNSUPPORTED, "supported is llama");
    ck_assert_int_eq(sl_model_synth("/nowhere/at/all", &small), SL_IO);
    ck_assert_ptr_nonnull(strstr(sl_last_error(), "/nowhere/at/all"));
}
END_TEST

int main(void) {
    const test_case cases[] = {
        TEST(a_synthetic_model_opens_as_a_model),  TEST(a_seed_gives_the_same_bytes_and_another_seed_others),
        TEST(elements_are_what_they_always_were),  TEST(matrices_spread_as_their_columns_ask_and_norms_are_one),
        TEST(half_types_are_the_rounded_elements), TEST(a_shape_that_is_no_model_is_refused_before_anything_is_made),
    };
    return test_main("synth", cases, sizeof cases / sizeof *cases);
}
