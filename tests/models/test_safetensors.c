/* The safetensors reader against every file of tests/data/safetensors, against files of other kinds that are made here,
 * and against random damage. */
#include "support.h"
#include <safetensors.h>
#include <sluice/memory.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Parses a copy that ends where the file ends, so that the address sanitizer sees each byte too far. */
static sl_status parse(const void *bytes, size_t n, sli_safetensors *parsed, void **copy) {
    *copy = malloc(n ? n : 1);
    ck_assert_ptr_nonnull(*copy);
    if (n)
        memcpy(*copy, bytes, n);
    return sli_safetensors_parse("made.safetensors", *copy, n, parsed);
}

/* A file of this header and so many bytes of data. */
static char *make(const char *header, size_t data_bytes, size_t *n) {
    size_t length = strlen(header);
    char *file = calloc(1, 8 + length + data_bytes);
    ck_assert_ptr_nonnull(file);
    for (int i = 0; i < 8; i++)
        file[i] = (char)(length >> (8 * i));
    memcpy(file + 8, header, length);
    *n = 8 + length + data_bytes;
    return file;
}

static void assert_refused(const char *header, size_t data_bytes, const char *word) {
    sli_safetensors parsed;
    void *copy;
    size_t n;
    char *file = make(header, data_bytes, &n);
    sl_status status = parse(file, n, &parsed, &copy);
    ck_assert_msg(status == SL_BAD_FILE, "%s was not refused", header);
    ck_assert_msg(strstr(sl_last_error(), word) != NULL, "%s: the sentence lacks '%s': %s", header, word,
                  sl_last_error());
    ck_assert_ptr_nonnull(strstr(sl_last_error(), "made.safetensors"));
    free(copy);
    free(file);
}

static void assert_accepted(const char *header, size_t data_bytes, int n_tensors) {
    sli_safetensors parsed;
    void *copy;
    size_t n;
    char *file = make(header, data_bytes, &n);
    sl_status status = parse(file, n, &parsed, &copy);
    ck_assert_msg(status == SL_OK, "%s was refused: %s", header, sl_last_error());
    ck_assert_int_eq(parsed.n_tensors, n_tensors);
    sli_safetensors_free(&parsed);
    free(copy);
    free(file);
}

/* Calls `each` with the name and the verdict of every file in the folder. */
static void for_each_file(void (*each)(const char *name, const char *path, const char *verdict)) {
    char *verdicts = test_read_file(TEST_DATA "/safetensors/VERDICTS.tsv", NULL), *rest = verdicts;
    int n = 0;
    for (char *line; (line = strsep(&rest, "\n"));) {
        char *verdict = strchr(line, '\t');
        if (*line == '#' || !verdict)
            continue;
        *verdict++ = '\0';
        char path[512];
        snprintf(path, sizeof path, TEST_DATA "/safetensors/%s", line);
        each(line, path, verdict);
        n++;
    }
    ck_assert_int_ge(n, 70);
    free(verdicts);
}

/* Where we are stricter than the reference, and where the JSON library is. */
static const char *const refused_by_us[][2] = {
    {"odd_duplicate_tensor_name_other_shape.safetensors", "twice"},
    {"odd_metadata_null.safetensors", "__metadata__"},
    {"odd_nul_escape_in_name.safetensors", "\\u0000"},
    {"odd_shape_zero_times_huge.safetensors", "63 bits"},
};

static const char *word_of_ours(const char *name) {
    for (size_t i = 0; i < sizeof refused_by_us / sizeof *refused_by_us; i++)
        if (!strcmp(refused_by_us[i][0], name))
            return refused_by_us[i][1];
    return NULL;
}

static void check_verdict(const char *name, const char *path, const char *verdict) {
    sl_checkpoint *checkpoint;
    sl_status status = sl_checkpoint_open(path, &checkpoint);
    const char *word = word_of_ours(name);
    if (word || !strncmp(verdict, "REJECT", 6)) {
        ck_assert_msg(status == SL_BAD_FILE, "%s: %s", name, sl_status_name(status));
        ck_assert_msg(strstr(sl_last_error(), name) != NULL, "%s: %s", name, sl_last_error());
        ck_assert_msg(!word || strstr(sl_last_error(), word), "%s: %s", name, sl_last_error());
        ck_assert_ptr_null(checkpoint);
        return;
    }
    int n = -1;
    ck_assert_int_eq(sscanf(verdict, "ACCEPT %d tensors", &n), 1);
    ck_assert_msg(status == SL_OK, "%s: %s", name, sl_last_error());
    ck_assert_int_eq(sl_checkpoint_count(checkpoint), n);
    sl_checkpoint_release(checkpoint);
}

START_TEST(every_file_gets_the_verdict_of_the_reference_reader) {
    for_each_file(check_verdict);
}
END_TEST

START_TEST(a_refusal_names_the_tensor_and_the_rule) {
    static const char *const cases[][3] = {
        {"bad_data_one_byte_long", "the tensors end at 16", "17 bytes"},
        {"bad_dtype_lowercase", "tensor 't'", "\"f32\""},
        {"bad_dtype_size_mismatch", "tensor 't'", "F64 needs 32 bytes"},
        {"bad_end_past_eof", "tensor 't'", "ends at 4194304"},
        {"bad_file_empty", "0 bytes", "header length"},
        {"bad_len_100000001", "100000001", "limit"},
        {"bad_len_u64_max", "18446744073709551615", "limit"},
        {"bad_len_past_eof", "header length", "bytes follow"},
        {"bad_metadata_int_value", "__metadata__", "an integer"},
        {"bad_missing_shape", "tensor 't'", "no 'shape'"},
        {"bad_missing_offsets", "tensor 't'", "no 'data_offsets'"},
        {"bad_overlap_partial", "overlap", "tensor 'a'"},
        {"bad_shape_float", "tensor 't'", "a plain integer"},
        {"bad_shape_negative", "tensor 't'", "negative"},
        {"bad_shape_product_wraps_to_4", "tensor 't'", "64 bits"},
        {"bad_zero_sized_off_the_chain", "tensor 'z'", "overlap"},
        {"bad_offsets_reversed", "tensor 't'", "behind its end"},
        {"bad_duplicate_dtype_field", "twice", "dtype"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char path[512];
        sl_checkpoint *checkpoint;
        snprintf(path, sizeof path, TEST_DATA "/safetensors/%s.safetensors", cases[i][0]);
        ck_assert_int_eq(sl_checkpoint_open(path, &checkpoint), SL_BAD_FILE);
        const char *said = strstr(sl_last_error(), ".safetensors: "); /* the file's own name holds such words too */
        ck_assert_ptr_nonnull(said);
        for (int k = 1; k < 3; k++)
            ck_assert_msg(strstr(said, cases[i][k]) != NULL, "%s lacks '%s': %s", cases[i][0], cases[i][k], said);
    }
}
END_TEST

START_TEST(only_plain_non_negative_integers_are_numbers) {
    static const char *const bad[] = {"2.0",   "2e0",  "+2",   "02",  "-2", "0x2",
                                      "\"2\"", "true", "null", "[2]", "2.", ".2"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char header[128];
        snprintf(header, sizeof header, "{\"t\":{\"dtype\":\"U8\",\"shape\":[%s],\"data_offsets\":[0,2]}}", bad[i]);
        assert_refused(header, 2, "made.safetensors");
        snprintf(header, sizeof header, "{\"t\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,%s]}}", bad[i]);
        assert_refused(header, 2, "made.safetensors");
    }
    assert_refused("{\"t\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[-0,2]}}", 2, "-0");
    assert_accepted("{\"-0, \\\"-0 \":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2],\"x\":-0.5}}", 2, 1);
    assert_refused("{\"t\":{\"dtype\":\"U8\",\"shape\":[18446744073709551618],\"data_offsets\":[0,2]}}", 2, "63 bits");
}
END_TEST

START_TEST(types_smaller_than_a_byte_fill_whole_bytes) {
    assert_accepted("{\"t\":{\"dtype\":\"F4\",\"shape\":[6],\"data_offsets\":[0,3]}}", 3, 1);
    assert_accepted("{\"t\":{\"dtype\":\"F6_E2M3\",\"shape\":[2,2],\"data_offsets\":[0,3]}}", 3, 1);
    assert_refused("{\"t\":{\"dtype\":\"F4\",\"shape\":[3],\"data_offsets\":[0,2]}}", 2, "whole number of bytes");
    assert_refused("{\"t\":{\"dtype\":\"F6_E3M2\",\"shape\":[3],\"data_offsets\":[0,2]}}", 2, "whole number of bytes");
    assert_refused("{\"t\":{\"dtype\":\"F4\",\"shape\":[6],\"data_offsets\":[0,6]}}", 6, "needs 3 bytes");
}
END_TEST

START_TEST(every_byte_of_the_data_belongs_to_one_tensor) {
#define U8(name, n, from, to) "\"" name "\":{\"dtype\":\"U8\",\"shape\":[" n "],\"data_offsets\":[" from "," to "]}"
    assert_accepted("{" U8("b", "2", "2", "4") "," U8("a", "2", "0", "2") "}", 4, 2);
    assert_refused("{" U8("a", "2", "0", "2") "," U8("b", "1", "3", "4") "}", 4, "a hole");
    assert_refused("{" U8("a", "1", "1", "2") "}", 2, "a hole");
    assert_refused("{" U8("a", "2", "0", "2") "," U8("b", "2", "1", "3") "}", 3, "overlap");
    assert_refused("{" U8("a", "2", "0", "2") "," U8("b", "2", "0", "2") "}", 2, "overlap");
    assert_refused("{" U8("a", "2", "0", "2") "}", 3, "3 bytes of data");
    assert_refused("{}", 1, "1 bytes of data");
    assert_accepted("{" U8("a", "2", "0", "2") "," U8("z", "0", "2", "2") "," U8("y", "0", "0", "0") "}", 2, 3);
#undef U8
}
END_TEST

START_TEST(a_key_that_occurs_twice_is_refused_anywhere) {
    assert_refused("{\"__metadata__\":{\"a\":\"1\",\"a\":\"2\"}}", 0, "twice");
    assert_refused("{\"__metadata__\":{},\"__metadata__\":{}}", 0, "twice");
    assert_refused("{\"t\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0],\"x\":{\"y\":1,\"y\":1}}}", 0,
                   "twice");
    assert_refused("{\"t\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]},\"\\u0074\":{}}", 0, "twice");
}
END_TEST

START_TEST(what_is_no_description_of_a_tensor_is_refused) {
    assert_refused("{\"t\":[\"U8\",[2],[0,2]]}", 2, "an array");
    assert_refused("{\"t\":null}", 0, "null");
    assert_refused("{\"t\":{\"dtype\":1,\"shape\":[0],\"data_offsets\":[0,0]}}", 0, "'dtype'");
    assert_refused("{\"t\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0,0]}}", 0, "3 numbers");
    assert_refused("{\"t\":{\"dtype\":\"U8\",\"shape\":{},\"data_offsets\":[0,0]}}", 0, "'shape'");
    assert_refused(" {}", 0, "begin with '{'");
    assert_refused("{\"t\xff\":{}}", 0, "JSON");
    assert_refused("{\"\\ud800\":{}}", 0, "JSON");
}
END_TEST

/* A tensor with a field of its own that is nested, so that the whole header is `depth` deep. */
static char *nested(int depth) {
    static const char head[] = "{\"t\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0],\"x\":";
    size_t n = sizeof head - 1, inner = (size_t)depth - 2;
    char *header = malloc(n + 2 * inner + 3);
    ck_assert_ptr_nonnull(header);
    memcpy(header, head, n);
    memset(header + n, '[', inner);
    memset(header + n + inner, ']', inner);
    strcpy(header + n + 2 * inner, "}}");
    return header;
}

START_TEST(nesting_is_limited_as_in_the_reference_reader) {
    static const int too_deep[] = {128, 200, 3000, 200000};
    char *header = nested(127);
    assert_accepted(header, 0, 1);
    free(header);
    for (size_t i = 0; i < sizeof too_deep / sizeof *too_deep; i++) {
        header = nested(too_deep[i]);
        assert_refused(header, 0, "nested deeper than 127");
        free(header);
    }
}
END_TEST

START_TEST(hostile_names_are_shown_on_one_line_and_cut) {
    char header[1024], name[600];
    memset(name, 'x', sizeof name);
    memcpy(name, "a\\n\\u0007\xc3\xa9", 11);
    name[sizeof name - 1] = '\0';
    snprintf(header, sizeof header, "{\"%s\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,2]}}", name);
    assert_refused(header, 2, "'a??\xc3\xa9xxx");
    ck_assert_ptr_null(strchr(sl_last_error(), '\n'));
    ck_assert_uint_lt(strlen(sl_last_error()), 400);
}
END_TEST

/* What must hold of everything that is accepted, worked out in another way than by the reader. */
static void check_sound(const sli_safetensors *parsed, const unsigned char *file, size_t n) {
    size_t total = 0;
    unsigned sum = 0;
    for (int i = 0; i < parsed->n_tensors; i++) {
        const sl_checkpoint_tensor *t = &parsed->tensors[i];
        const unsigned char *data = t->data;
        ck_assert(data >= file + 8 && data + t->bytes <= file + n);
        ck_assert(!i || strcmp(parsed->tensors[i - 1].name, t->name) < 0);
        for (size_t b = 0; b < t->bytes; b++)
            sum += data[b];
        total += t->bytes;
    }
    size_t header = 0;
    for (int i = 7; i >= 0; i--)
        header = header << 8 | file[i];
    ck_assert_uint_eq(total, n - 8 - header);
    *(volatile unsigned *)&sum = sum;
}

static uint64_t random_state;
static int n_accepted;

/* Damage of a kind that keeps much of the structure: a byte changed, a digit changed, a piece doubled or cut out; the
 * header's length is put right in half of the cases. */
static size_t damage(unsigned char *file, size_t n, size_t capacity) {
    size_t before = n;
    for (uint64_t k = 1 + test_below(&random_state, 3); k-- && n > 8;) {
        size_t at = test_below(&random_state, n), piece = test_below(&random_state, 12);
        static const char likely[] = "0123456789\"{}[],:-.eE \\u\0\xff";
        switch (test_below(&random_state, 4)) {
        case 0:
            file[at] = (unsigned char)test_random(&random_state);
            break;
        case 1:
            file[at] = (unsigned char)likely[test_below(&random_state, sizeof likely - 1)];
            break;
        case 2:
            piece = piece < n - at ? piece : n - at;
            memmove(file + at, file + at + piece, n - at - piece);
            n -= piece;
            break;
        default:
            piece = piece < n - at ? piece : n - at;
            if (n + piece <= capacity) {
                memmove(file + at + piece, file + at, n - at);
                n += piece;
            }
        }
    }
    if (n >= 8 && before >= 8 && test_below(&random_state, 2)) {
        int64_t length = (int64_t)file[0] + 256 * (int64_t)file[1] + (int64_t)n - (int64_t)before;
        file[0] = (unsigned char)length;
        file[1] = (unsigned char)(length >> 8);
    }
    return n;
}

static void damage_file(const char *name, const char *path, const char *verdict) {
    (void)name, (void)verdict;
    size_t n;
    char *content = test_read_file(path, &n);
    unsigned char *file = malloc(n + 64);
    ck_assert_ptr_nonnull(file);
    for (int i = test_cases(4000); i--;) {
        memcpy(file, content, n);
        size_t m = damage(file, n, n + 64);
        sli_safetensors parsed;
        void *copy;
        sl_status status = parse(file, m, &parsed, &copy);
        ck_assert_msg(status == SL_OK || status == SL_BAD_FILE, "%s: %s", path, sl_last_error());
        if (status == SL_OK) {
            check_sound(&parsed, copy, m);
            sli_safetensors_free(&parsed);
            n_accepted++;
        }
        free(copy);
    }
    free(file);
    free(content);
}

START_TEST(damage_is_refused_or_harmless) {
    random_state = test_seed();
    for_each_file(damage_file);
    printf("%d damaged files were still sound\n", n_accepted);
    ck_assert_int_gt(n_accepted, 0);
}
END_TEST

static int allocations_left;

static void *allocate(size_t bytes, void *user) {
    (void)user;
    return allocations_left-- > 0 ? malloc(bytes) : NULL;
}

static void *reallocate(void *memory, size_t bytes, void *user) {
    (void)user;
    return allocations_left-- > 0 ? realloc(memory, bytes) : NULL;
}

static void release(void *memory, void *user) {
    (void)user;
    free(memory);
}

START_TEST(each_failing_allocation_is_an_error_without_a_leak) {
    sl_set_allocator(&(sl_allocator){allocate, reallocate, release, NULL});
    int n = 0;
    for (sl_status status = SL_OUT_OF_MEMORY; status != SL_OK; n++) {
        sl_checkpoint *checkpoint;
        allocations_left = n;
        status = sl_checkpoint_open(TEST_DATA "/safetensors/ok_metadata_last.safetensors", &checkpoint);
        ck_assert(status == SL_OK || status == SL_OUT_OF_MEMORY);
        sl_checkpoint_release(checkpoint);
    }
    ck_assert_int_gt(n, 5);
}
END_TEST

int main(void) {
    const test_case cases[] = {
        TEST(every_file_gets_the_verdict_of_the_reference_reader), TEST(a_refusal_names_the_tensor_and_the_rule),
        TEST(only_plain_non_negative_integers_are_numbers),        TEST(types_smaller_than_a_byte_fill_whole_bytes),
        TEST(every_byte_of_the_data_belongs_to_one_tensor),        TEST(a_key_that_occurs_twice_is_refused_anywhere),
        TEST(what_is_no_description_of_a_tensor_is_refused),       TEST(nesting_is_limited_as_in_the_reference_reader),
        TEST(hostile_names_are_shown_on_one_line_and_cut),         TEST(damage_is_refused_or_harmless),
        TEST(each_failing_allocation_is_an_error_without_a_leak),
    };
    return test_main("safetensors", cases, sizeof cases / sizeof *cases);
}
