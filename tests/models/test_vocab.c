/* Ids to text: llama2.c's vocabulary against the texts of its own run.c, tokenizer.json against what Hugging Face's
 * decoders are defined to do. */
#include "folder.h"
#include "support.h"
#include <jansson.h>
#include <sluice/model.h>

static sl_vocab *open_vocab(const char *path) {
    sl_vocab *vocab;
    sl_status status = sl_vocab_open(path, &vocab);
    ck_assert_msg(status == SL_OK, "%s", sl_last_error());
    return vocab;
}

/* The text of ids that follow `previous`. */
static void decode(const sl_vocab *vocab, int previous, int n, const int *ids, char *text, size_t capacity) {
    size_t made = 0;
    for (int i = 0; i < n; i++) {
        size_t bytes;
        const char *piece = sl_vocab_piece(vocab, previous, ids[i], &bytes);
        ck_assert_uint_lt(made + bytes, capacity);
        memcpy(text + made, piece, bytes);
        made += bytes;
        previous = ids[i];
    }
    text[made] = '\0';
}

#define ASSERT_DECODES(vocab, previous, expected, ...)                                                                 \
    do {                                                                                                               \
        const int ids_[] = {__VA_ARGS__};                                                                              \
        char text_[256];                                                                                               \
        decode(vocab, previous, (int)(sizeof ids_ / sizeof *ids_), ids_, text_, sizeof text_);                         \
        ck_assert_str_eq(text_, expected);                                                                             \
    } while (0)

static sl_vocab *open_text(folder *f, const char *json) {
    folder_write_text(f, "tokenizer.json", json);
    return open_vocab(f->path);
}

static void assert_refused(const char *name, const void *content, size_t bytes, sl_status expected, const char *word) {
    folder f = folder_make();
    sl_vocab *vocab;
    folder_write(&f, name, content, bytes);
    ck_assert_int_eq(sl_vocab_open(folder_file(&f, name), &vocab), expected);
    ck_assert_ptr_null(vocab);
    ck_assert_msg(strstr(sl_last_error(), name) != NULL, "%s", sl_last_error());
    ck_assert_msg(strstr(sl_last_error(), word) != NULL, "no '%s': %s", word, sl_last_error());
    folder_remove(&f);
}

static void assert_json_refused(const char *json, sl_status expected, const char *word) {
    assert_refused("tokenizer.json", json, strlen(json), expected, word);
}

/* ---- llama2.c ---- */

START_TEST(llama2_texts_are_those_of_run_c) {
    char *vocab_path = test_shared("models/stories260K/tok512.bin");
    char *prompts_path = test_shared("models/stories260K/ref_runc_prompts.json");
    if (!vocab_path)
        SKIP("SLUICE_TEST_DATA is not set");
    sl_vocab *vocab = open_vocab(vocab_path);
    ck_assert_int_eq(sl_vocab_size(vocab), 512);
    json_t *root = json_load_file(prompts_path, 0, NULL), *cases = json_object_get(root, "cases");
    ck_assert_uint_eq(json_array_size(cases), 15);
    for (size_t c = 0; c < json_array_size(cases); c++) {
        const json_t *given = json_array_get(cases, c), *tokens = json_object_get(given, "tokens");
        const char *expected = json_string_value(json_object_get(given, "text"));
        int ids[512], n = (int)json_array_size(tokens);
        char text[4096];
        for (int i = 0; i < n; i++)
            ids[i] = (int)json_integer_value(json_array_get(tokens, (size_t)i));
        decode(vocab, -1, n, ids, text, sizeof text);
        ck_assert_str_eq(text, expected);
        decode(vocab, ids[0], n - 1, ids + 1, text, sizeof text); /* as a continuation of the begin */
        ck_assert_str_eq(text, expected);
    }
    json_decref(root);
    sl_vocab_close(vocab);
    free(vocab_path);
    free(prompts_path);
}
END_TEST

/* Five tokens: three special ones, a word with a space before it, a byte. */
static const char small_llama2[] = "\6\0\0\0"
                                   "\0\0\0\0\5\0\0\0<unk>"
                                   "\0\0\0\0\5\0\0\0\n<s>\n"
                                   "\0\0\0\0\4\0\0\0</s>"
                                   "\0\0\0\0\3\0\0\0 hi"
                                   "\0\0\0\0\6\0\0\0<0xC3>"
                                   "\0\0\0\0\0\0\0\0";

START_TEST(a_llama2_space_is_left_out_after_the_begin_alone) {
    folder f = folder_make();
    folder_write(&f, "tok6.bin", small_llama2, sizeof small_llama2 - 1);
    sl_vocab *vocab = open_vocab(folder_file(&f, "tok6.bin"));
    ck_assert_int_eq(sl_vocab_size(vocab), 6);
    ASSERT_DECODES(vocab, 1, "hi hi\xc3", 3, 3, 4);
    ASSERT_DECODES(vocab, -1, "hi hi", 1, 3, 3);
    ASSERT_DECODES(vocab, 3, " hi", 3);
    ASSERT_DECODES(vocab, 3, "", 0, 1, 2, 5, 6, -1, 1 << 30);
    sl_vocab_close(vocab);
    folder_remove(&f);
}
END_TEST

START_TEST(a_llama2_file_that_is_cut_is_refused) {
    for (size_t n = 0; n < sizeof small_llama2 - 1; n++) {
        folder f = folder_make();
        sl_vocab *vocab;
        folder_write(&f, "tok.bin", small_llama2, n);
        sl_status status = sl_vocab_open(folder_file(&f, "tok.bin"), &vocab);
        bool between = n == 4 || n == 17 || n == 30 || n == 42 || n == 53 || n == 67; /* two tokens */
        ck_assert_msg(status == (between ? SL_OK : SL_BAD_FILE), "%zu bytes", n);
        sl_vocab_close(vocab);
        folder_remove(&f);
    }
    assert_refused("tok.bin", "\1\0\0\0\0\0\0\0\xff\xff\xff\x7f", 12, SL_BAD_FILE, "token 0");
    assert_refused("tok.bin", "\1\0\0\0\0\0\0\0\xff\xff\xff\xff", 12, SL_BAD_FILE, "token 0");
}
END_TEST

/* ---- tokenizer.json: bytes as characters ---- */

/* GPT-2's bytes_to_unicode as published: printable bytes as they are, the n-th other one as 256 + n. */
static void characters_of_bytes(char text[256][3]) {
    unsigned n = 0;
    for (unsigned b = 0; b < 256; b++) {
        bool printable = (b >= '!' && b <= '~') || (b >= 0xa1 && b <= 0xac) || (b >= 0xae && b <= 0xff);
        unsigned code = printable ? b : 256 + n++;
        if (code < 0x80) {
            text[b][0] = (char)code;
            text[b][1] = '\0';
        } else {
            text[b][0] = (char)(0xc0 | code >> 6);
            text[b][1] = (char)(0x80 | (code & 0x3f));
            text[b][2] = '\0';
        }
    }
}

START_TEST(byte_level_tokens_stand_for_their_bytes) {
    char characters[256][3], both[8];
    characters_of_bytes(characters);
    json_t *map = json_object();
    for (int b = 0; b < 256; b++)
        json_object_set_new(map, characters[b], json_integer(b));
    snprintf(both, sizeof both, "%s%s", characters[0xff], characters[' ']);
    json_object_set_new(map, both, json_integer(256));
    json_t *root =
        json_pack("{s:{s:s, s:o}, s:{s:s}}", "model", "type", "BPE", "vocab", map, "decoder", "type", "ByteLevel");
    char *text = json_dumps(root, 0);
    folder f = folder_make();
    sl_vocab *vocab = open_text(&f, text);
    for (int b = 0; b < 256; b++) {
        size_t bytes;
        const char *piece = sl_vocab_piece(vocab, -1, b, &bytes);
        ck_assert_uint_eq(bytes, 1);
        ck_assert_int_eq((unsigned char)*piece, b);
    }
    ASSERT_DECODES(vocab, -1, "\xff  x", 256, ' ', 'x');
    sl_vocab_close(vocab);
    folder_remove(&f);
    free(text);
    json_decref(root);
}
END_TEST

START_TEST(added_tokens_are_text_and_special_ones_are_none) {
    folder f = folder_make();
    sl_vocab *vocab = open_text(&f, "{\"added_tokens\":[{\"id\":7,\"content\":\"  \\u0120\",\"special\":false},"
                                    "{\"id\":1,\"content\":\"b\",\"special\":true},{\"id\":9,\"content\":\"<end>\","
                                    "\"special\":true}],\"decoder\":{\"type\":\"ByteLevel\"},"
                                    "\"model\":{\"vocab\":{\"\\u0120a\":0,\"b\":1},\"merges\":[]}}");
    ck_assert_int_eq(sl_vocab_size(vocab), 10);
    ASSERT_DECODES(vocab, -1, " a  \xc4\xa0 a", 0, 1, 7, 8, 9, 0);
    sl_vocab_close(vocab);
    folder_remove(&f);
}
END_TEST

START_TEST(the_gpt2_tokenizer_gives_known_words) {
    char *path = test_shared("models/tiny-random-gpt2/tokenizer.json");
    if (!path)
        SKIP("SLUICE_TEST_DATA is not set");
    sl_vocab *vocab = open_vocab(path);
    ASSERT_DECODES(vocab, -1, "Hello world", 15496, 995);
    ASSERT_DECODES(vocab, -1, " \xe2\x80\x94", 851);
    ASSERT_DECODES(vocab, 0, "", 50256);
    ASSERT_DECODES(vocab, 0, "  ", 50286);
    sl_vocab_close(vocab);
    free(path);
}
END_TEST

/* ---- tokenizer.json: pieces ---- */

#define LLAMA_DECODER                                                                                                  \
    "\"decoder\":{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Replace\",\"pattern\":{\"String\":\"\\u2581\"},"     \
    "\"content\":\" \"},{\"type\":\"ByteFallback\"},{\"type\":\"Fuse\"},{\"type\":\"Strip\",\"content\":\" \","        \
    "\"start\":1,\"stop\":0}]}"
#define LLAMA_TOKENS                                                                                                   \
    "\"added_tokens\":[{\"id\":1,\"content\":\"<s>\",\"special\":true}],\"model\":{\"type\":\"BPE\",\"vocab\":"        \
    "{\"<unk>\":0,\"<s>\":1,\"<0x0A>\":2,\"\\u2581\\u2581a\":3,\"b\":4,\"<0xe2>\":5,\"<0xG0>\":6}}"

START_TEST(llama_pieces_have_spaces_bytes_and_a_stripped_begin) {
    folder f = folder_make();
    sl_vocab *vocab = open_text(&f, "{" LLAMA_TOKENS "," LLAMA_DECODER "}");
    ASSERT_DECODES(vocab, -1, " a  ab\n\xe2<0xG0>", 3, 3, 4, 2, 5, 6);
    ASSERT_DECODES(vocab, -1, " ab", 1, 3, 4);
    ASSERT_DECODES(vocab, 4, "  a", 3);
    sl_vocab_close(vocab);
    folder_remove(&f);
}
END_TEST

START_TEST(metaspace_is_a_space_but_at_the_begin) {
    folder f = folder_make();
    sl_vocab *vocab =
        open_text(&f, "{\"model\":{\"type\":\"Unigram\",\"vocab\":[[\"<unk>\",0],[\"\\u2581a\",-1.5],[\"b\",-2]]},"
                      "\"decoder\":{\"type\":\"Metaspace\",\"replacement\":\"\\u2581\",\"add_prefix_space\":true}}");
    ASSERT_DECODES(vocab, -1, "a a", 1, 1);
    sl_vocab_close(vocab);
    vocab = open_text(&f, "{\"model\":{\"vocab\":{\"_a\":1}},\"decoder\":{\"type\":\"Metaspace\","
                          "\"replacement\":\"_\",\"prepend_scheme\":\"never\"}}");
    ASSERT_DECODES(vocab, -1, " a a", 1, 1);
    sl_vocab_close(vocab);
    folder_remove(&f);
}
END_TEST

START_TEST(without_a_decoder_tokens_are_words) {
    folder f = folder_make();
    sl_vocab *vocab =
        open_text(&f, "{\"decoder\":null,\"model\":{\"type\":\"WordLevel\",\"vocab\":{\"a\":0,\"b\":1}}}");
    ASSERT_DECODES(vocab, -1, "a b a", 0, 1, 0);
    sl_vocab_close(vocab);
    folder_remove(&f);
}
END_TEST

START_TEST(a_strip_before_the_text_is_joined_is_of_each_token) {
    folder f = folder_make();
    sl_vocab *vocab = open_text(&f, "{\"model\":{\"vocab\":{\"__a_\":0}},\"decoder\":{\"type\":\"Strip\","
                                    "\"content\":\"_\",\"start\":1,\"stop\":3}}");
    ASSERT_DECODES(vocab, -1, "_a_a", 0, 0);
    sl_vocab_close(vocab);
    folder_remove(&f);
}
END_TEST

START_TEST(what_is_no_tokenizer_is_refused) {
    assert_json_refused("[]", SL_BAD_FILE, "an array");
    assert_json_refused("{}", SL_BAD_FILE, "'model.vocab' is nothing");
    assert_json_refused("{\"model\":{\"vocab\":3}}", SL_BAD_FILE, "'model.vocab' is an integer");
    assert_json_refused("{\"model\":{\"vocab\":{\"a\":\"0\"}}}", SL_BAD_FILE, "token 'a' has a string");
    assert_json_refused("{\"model\":{\"vocab\":{\"a\":-1}}}", SL_BAD_FILE, "the id -1");
    assert_json_refused("{\"model\":{\"vocab\":{\"a\":4611686018427387904}}}", SL_BAD_FILE,
                        "the id 4611686018427387904");
    assert_json_refused("{\"model\":{\"vocab\":{\"a\":1,\"b\":1}}}", SL_BAD_FILE, "which another one has");
    assert_json_refused("{\"model\":{\"vocab\":[[\"a\",0],\"b\"]}}", SL_BAD_FILE, "entry 1");
    assert_json_refused("{\"model\":{\"vocab\":{}},\"added_tokens\":{}}", SL_BAD_FILE, "'added_tokens' is an object");
    assert_json_refused("{\"model\":{\"vocab\":{}},\"added_tokens\":[{\"content\":\"a\"}]}", SL_BAD_FILE,
                        "'added_tokens.id' is missing");
    assert_json_refused("{\"model\":{\"vocab\":{}},\"decoder\":{\"type\":\"WordPiece\"}}", SL_UNSUPPORTED,
                        "'WordPiece'");
    assert_json_refused("{\"model\":{\"vocab\":{}},\"decoder\":{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"a\"}}}",
                        SL_UNSUPPORTED, "Replace");
    assert_json_refused("{\"model\":{\"vocab\":{}},\"decoder\":{\"type\":\"Sequence\"}}", SL_BAD_FILE, "'decoders'");
    assert_refused("tokenizer.model", "x", 1, SL_UNSUPPORTED, "tokNNN.bin");
    sl_vocab *vocab;
    ck_assert_int_eq(sl_vocab_open("/nowhere/tokenizer.json", &vocab), SL_IO);
}
END_TEST

START_TEST(steps_that_would_multiply_a_token_without_end_are_refused) {
    char json[4096], content[200];
    memset(content, 'a', sizeof content - 1);
    content[sizeof content - 1] = '\0';
    int n = snprintf(json, sizeof json,
                     "{\"model\":{\"vocab\":{\"a\":0}},\"decoder\":{\"type\":\"Sequence\",\"decoders\":[");
    for (int i = 0; i < 12; i++)
        n += snprintf(json + n, sizeof json - (size_t)n,
                      "%s{\"type\":\"Replace\",\"pattern\":{\"String\":\"a\"},\"content\":\"%s\"}", i ? "," : "",
                      content);
    snprintf(json + n, sizeof json - (size_t)n, "]}}");
    assert_json_refused(json, SL_BAD_FILE, "too long");
}
END_TEST

int main(void) {
    const test_case cases[] = {
        TEST(llama2_texts_are_those_of_run_c),
        TEST(a_llama2_space_is_left_out_after_the_begin_alone),
        TEST(a_llama2_file_that_is_cut_is_refused),
        TEST(byte_level_tokens_stand_for_their_bytes),
        TEST(added_tokens_are_text_and_special_ones_are_none),
        TEST(the_gpt2_tokenizer_gives_known_words),
        TEST(llama_pieces_have_spaces_bytes_and_a_stripped_begin),
        TEST(metaspace_is_a_space_but_at_the_begin),
        TEST(without_a_decoder_tokens_are_words),
        TEST(a_strip_before_the_text_is_joined_is_of_each_token),
        TEST(what_is_no_tokenizer_is_refused),
        TEST(steps_that_would_multiply_a_token_without_end_are_refused),
    };
    return test_main("vocab", cases, sizeof cases / sizeof *cases);
}
