/* Checkpoints as callers see them: folders, shards and their index, what is written is what is read. */
#include "folder.h"
#include "support.h"
#include <sluice/checkpoint.h>
#include <sluice/memory.h>

static sl_status fill_counting(void *user, int i, void *destination, size_t bytes) {
    int *calls = user;
    ck_assert_int_eq(i, (*calls)++);
    for (size_t b = 0; b < bytes; b++)
        ((unsigned char *)destination)[b] = (unsigned char)(16 * i + (int)b);
    return SL_OK;
}

/* A file of f32 tensors with these names, two elements each. */
static void write_shard(folder *f, const char *file, int n, const char *const *names) {
    sl_checkpoint_entry entries[8] = {{0}};
    int calls = 0;
    for (int i = 0; i < n; i++)
        entries[i] = (sl_checkpoint_entry){names[i], SL_F32, 1, {2}};
    ck_assert_int_eq(sl_checkpoint_write(folder_file(f, file), n, entries, fill_counting, &calls), SL_OK);
    ck_assert_int_eq(calls, n);
}

static void write_two_shards(folder *f) {
    write_shard(f, "one.safetensors", 2, (const char *const[]){"a", "c"});
    write_shard(f, "two.safetensors", 1, (const char *const[]){"b"});
}

static void assert_open_fails(folder *f, sl_status expected, const char *word, const char *other_word) {
    sl_checkpoint *checkpoint;
    sl_status status = sl_checkpoint_open(f->path, &checkpoint);
    ck_assert_msg(status == expected, "%s: %s", sl_status_name(status), status == SL_OK ? "" : sl_last_error());
    ck_assert_ptr_null(checkpoint);
    ck_assert_msg(strstr(sl_last_error(), word) != NULL, "no '%s': %s", word, sl_last_error());
    ck_assert_msg(strstr(sl_last_error(), other_word) != NULL, "no '%s': %s", other_word, sl_last_error());
}

static void assert_index_refused(const char *index, sl_status expected, const char *word, const char *other_word) {
    folder f = folder_make();
    write_two_shards(&f);
    folder_write_text(&f, "model.safetensors.index.json", index);
    assert_open_fails(&f, expected, word, other_word);
    folder_remove(&f);
}

START_TEST(what_is_written_is_what_is_read) {
    folder f = folder_make();
    const sl_checkpoint_entry entries[] = {{"w", SL_F16, 2, {2, 3}},
                                           {"b \"quoted\" \xc3\xa9", SL_F32, 1, {2}},
                                           {"scalar", SL_I32, 0, {0}},
                                           {"empty", SL_BF16, 2, {0, 5}}};
    int calls = 0;
    const char *path = folder_file(&f, "model.safetensors"), *key, *value;
    ck_assert_int_eq(sl_checkpoint_write(path, 4, entries, fill_counting, &calls), SL_OK);
    sl_checkpoint *checkpoint;
    ck_assert_int_eq(sl_checkpoint_open(f.path, &checkpoint), SL_OK);
    ck_assert_int_eq(sl_checkpoint_count(checkpoint), 4);
    for (int i = 0; i < 4; i++) {
        sl_checkpoint_tensor t;
        ck_assert(sl_checkpoint_find(checkpoint, entries[i].name, &t));
        ck_assert_int_eq(t.dtype, entries[i].dtype);
        ck_assert(t.readable);
        ck_assert_int_eq(t.rank, entries[i].rank);
        for (int d = 0; d < t.rank; d++)
            ck_assert_int_eq(t.shape[d], entries[i].shape[d]);
        for (size_t b = 0; b < t.bytes; b++)
            ck_assert_uint_eq(((const unsigned char *)t.data)[b], 16u * (unsigned)i + b);
        ck_assert_str_eq(t.file, path);
    }
    ck_assert(sl_checkpoint_metadata(checkpoint, 0, &key, &value));
    ck_assert_str_eq(key, "format");
    ck_assert_str_eq(value, "pt");
    ck_assert(!sl_checkpoint_metadata(checkpoint, 1, &key, &value));
    ck_assert(!sl_checkpoint_metadata(checkpoint, -1, &key, &value));
    sl_checkpoint_release(checkpoint);
    folder_remove(&f);
}
END_TEST

START_TEST(the_data_begins_at_a_multiple_of_eight) {
    folder f = folder_make();
    char name[32] = "";
    for (int n = 0; n < 9; n++) {
        name[n] = 'n';
        write_shard(&f, "model.safetensors", 1, (const char *const[]){name});
        size_t bytes;
        char *content = test_read_file(folder_file(&f, "model.safetensors"), &bytes);
        ck_assert_uint_eq((bytes - 8) % 8, 0);
        ck_assert_uint_eq((unsigned char)content[0] % 8, 0);
        free(content);
    }
    folder_remove(&f);
}
END_TEST

START_TEST(tensors_come_in_the_order_of_names) {
    folder f = folder_make();
    write_shard(&f, "model.safetensors", 3, (const char *const[]){"b", "c", "a"});
    sl_checkpoint *checkpoint;
    sl_checkpoint_tensor t;
    ck_assert_int_eq(sl_checkpoint_open(folder_file(&f, "model.safetensors"), &checkpoint), SL_OK);
    for (int i = 0; i < 3; i++) {
        ck_assert(sl_checkpoint_at(checkpoint, i, &t));
        ck_assert_str_eq(t.name, ((const char *const[]){"a", "b", "c"})[i]);
        ck_assert_uint_eq(*(const unsigned char *)t.data, ((const unsigned char[]){32, 0, 16})[i]);
    }
    ck_assert(!sl_checkpoint_at(checkpoint, 3, &t));
    ck_assert(!sl_checkpoint_at(checkpoint, -1, &t));
    ck_assert(!sl_checkpoint_find(checkpoint, "d", &t));
    ck_assert(!sl_checkpoint_find(checkpoint, "", &t));
    sl_checkpoint_release(checkpoint);
    folder_remove(&f);
}
END_TEST

START_TEST(types_that_graphs_cannot_use_are_listed_but_not_readable) {
    sl_checkpoint *checkpoint;
    sl_checkpoint_tensor t;
    ck_assert_int_eq(sl_checkpoint_open(TEST_DATA "/safetensors/ok_many_dtypes.safetensors", &checkpoint), SL_OK);
    int readable = 0;
    for (int i = 0; sl_checkpoint_at(checkpoint, i, &t); i++) {
        bool ours = !strcmp(t.type_name, "F32") || !strcmp(t.type_name, "F16") || !strcmp(t.type_name, "BF16") ||
                    !strcmp(t.type_name, "I32");
        ck_assert_msg(t.readable == ours, "%s", t.type_name);
        readable += t.readable;
    }
    ck_assert_int_eq(readable, 4);
    sl_checkpoint_release(checkpoint);
}
END_TEST

START_TEST(a_rank_of_2000_is_listed) {
    sl_checkpoint *checkpoint;
    sl_checkpoint_tensor t;
    ck_assert_int_eq(sl_checkpoint_open(TEST_DATA "/safetensors/odd_rank_2000_ones.safetensors", &checkpoint), SL_OK);
    ck_assert(sl_checkpoint_at(checkpoint, 0, &t));
    ck_assert_int_eq(t.rank, 2000);
    ck_assert_int_eq(t.shape[1999], 1);
    sl_checkpoint_release(checkpoint);
}
END_TEST

START_TEST(an_index_joins_its_shards) {
    folder f = folder_make();
    write_two_shards(&f);
    folder_write_text(&f, "model.safetensors.index.json",
                      "{\"metadata\":{\"total_size\":24},\"weight_map\":{\"a\":\"one.safetensors\","
                      "\"b\":\"two.safetensors\",\"c\":\"one.safetensors\"}}");
    sl_checkpoint *checkpoint;
    sl_checkpoint_tensor t;
    ck_assert_msg(sl_checkpoint_open(f.path, &checkpoint) == SL_OK, "%s", sl_last_error());
    ck_assert_int_eq(sl_checkpoint_count(checkpoint), 3);
    ck_assert(sl_checkpoint_at(checkpoint, 1, &t));
    ck_assert_str_eq(t.name, "b");
    ck_assert_ptr_nonnull(strstr(t.file, "/two.safetensors"));
    ck_assert_ptr_eq(sl_checkpoint_retain(checkpoint), checkpoint);
    sl_checkpoint_release(checkpoint);
    ck_assert(sl_checkpoint_find(checkpoint, "c", &t));
    ck_assert_uint_eq(*(const unsigned char *)t.data, 16);
    sl_checkpoint_release(checkpoint);
    ck_assert_int_eq(sl_checkpoint_open(folder_file(&f, "model.safetensors.index.json"), &checkpoint), SL_OK);
    ck_assert_int_eq(sl_checkpoint_count(checkpoint), 3);
    sl_checkpoint_release(checkpoint);
    folder_remove(&f);
}
END_TEST

START_TEST(a_missing_shard_is_named_with_a_tensor_of_it) {
    assert_index_refused("{\"weight_map\":{\"a\":\"one.safetensors\",\"b\":\"three.safetensors\"}}", SL_IO,
                         "three.safetensors", "tensor 'b'");
}
END_TEST

START_TEST(a_tensor_that_its_shard_lacks_is_named) {
    assert_index_refused("{\"weight_map\":{\"a\":\"one.safetensors\",\"x\":\"two.safetensors\"}}", SL_BAD_FILE,
                         "tensor 'x'", "two.safetensors");
    assert_index_refused("{\"weight_map\":{\"a\":\"two.safetensors\",\"b\":\"one.safetensors\"}}", SL_BAD_FILE,
                         "tensor 'a'", "as the index says");
}
END_TEST

START_TEST(a_tensor_in_two_shards_is_refused) {
    folder f = folder_make();
    write_two_shards(&f);
    write_shard(&f, "three.safetensors", 2, (const char *const[]){"d", "c"});
    folder_write_text(&f, "model.safetensors.index.json",
                      "{\"weight_map\":{\"c\":\"one.safetensors\",\"d\":\"three.safetensors\"}}");
    assert_open_fails(&f, SL_BAD_FILE, "tensor 'c' is in two files", "three.safetensors");
    folder_remove(&f);
}
END_TEST

START_TEST(shards_lie_beside_the_index_and_nowhere_else) {
    static const char *const names[] = {"../one.safetensors", "/one.safetensors", "sub/one.safetensors", "..", ".", ""};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char index[128];
        snprintf(index, sizeof index, "{\"weight_map\":{\"a\":\"%s\"}}", names[i]);
        assert_index_refused(index, SL_BAD_FILE, "tensor 'a'", "beside the index");
    }
}
END_TEST

START_TEST(an_index_that_is_none_is_refused) {
    assert_index_refused("{}", SL_BAD_FILE, "weight_map", "missing");
    assert_index_refused("{\"weight_map\":{}}", SL_BAD_FILE, "weight_map", "empty");
    assert_index_refused("{\"weight_map\":[]}", SL_BAD_FILE, "weight_map", "no object");
    assert_index_refused("[]", SL_BAD_FILE, "index.json", "an array");
    assert_index_refused("", SL_BAD_FILE, "index.json", "JSON");
    assert_index_refused("{\"weight_map\":{\"a\":1}}", SL_BAD_FILE, "tensor 'a'", "an integer");
    assert_index_refused("{\"weight_map\":{\"a\":\"one.safetensors\",\"a\":\"two.safetensors\"}}", SL_BAD_FILE, "twice",
                         "index.json");
}
END_TEST

START_TEST(a_bad_shard_is_named) {
    folder f = folder_make();
    write_two_shards(&f);
    folder_write(&f, "two.safetensors", "\2\0\0\0\0\0\0\0{}x", 11);
    folder_write_text(&f, "model.safetensors.index.json",
                      "{\"weight_map\":{\"a\":\"one.safetensors\",\"b\":\"two.safetensors\"}}");
    assert_open_fails(&f, SL_BAD_FILE, "two.safetensors", "1 bytes of data");
    folder_remove(&f);
}
END_TEST

START_TEST(what_is_not_there_or_no_file_is_named) {
    folder f = folder_make();
    sl_checkpoint *checkpoint;
    assert_open_fails(&f, SL_IO, f.path, "model.safetensors.index.json");
    ck_assert_int_eq(sl_checkpoint_open(folder_file(&f, "none.safetensors"), &checkpoint), SL_IO);
    ck_assert_ptr_nonnull(strstr(sl_last_error(), "none.safetensors"));
    ck_assert_int_eq(sl_checkpoint_open("/dev/null", &checkpoint), SL_IO);
    char command[600];
    snprintf(command, sizeof command, "mkfifo '%s'", folder_file(&f, "model.safetensors"));
    ck_assert_int_eq(test_run(command, NULL, 0), 0);
    assert_open_fails(&f, SL_IO, "model.safetensors", "no plain file");
    folder_remove(&f);
}
END_TEST

static sl_status fill_failing(void *user, int i, void *destination, size_t bytes) {
    (void)user, (void)destination, (void)bytes;
    return i == 1 ? sl_fail(SL_STAGE_FAILED, "no more") : SL_OK;
}

START_TEST(a_write_that_fails_leaves_no_file) {
    folder f = folder_make();
    const char *path = folder_file(&f, "model.safetensors");
    const sl_checkpoint_entry good[] = {{"a", SL_F32, 1, {1}}, {"b", SL_F32, 1, {1}}};
    const sl_checkpoint_entry twice[] = {{"a", SL_F32, 1, {1}}, {"a", SL_F32, 1, {1}}};
    const sl_checkpoint_entry negative[] = {{"a", SL_F32, 1, {-1}}};
    const sl_checkpoint_entry huge[] = {{"a", SL_F32, 2, {INT64_MAX, 8}}};
    const sl_checkpoint_entry bad_text[] = {{"\xff", SL_F32, 1, {1}}};
    int calls = 0;
    ck_assert_int_eq(sl_checkpoint_write(path, 2, good, fill_failing, NULL), SL_STAGE_FAILED);
    ck_assert_str_eq(sl_last_error(), "no more");
    ck_assert_int_eq(sl_checkpoint_write(path, 2, twice, fill_counting, &calls), SL_INVALID);
    ck_assert_int_eq(sl_checkpoint_write(path, 1, negative, fill_counting, &calls), SL_INVALID);
    ck_assert_int_eq(sl_checkpoint_write(path, 1, huge, fill_counting, &calls), SL_INVALID);
    ck_assert_int_eq(sl_checkpoint_write(path, 1, bad_text, fill_counting, &calls), SL_INVALID);
    ck_assert_int_eq(calls, 0);
    assert_open_fails(&f, SL_IO, "neither", "model.safetensors");
    ck_assert_int_eq(rmdir(f.path), 0); /* not even a part of one */
    ck_assert_int_eq(sl_checkpoint_write(path, 2, good, fill_counting, &calls), SL_IO);
    ck_assert_ptr_nonnull(strstr(sl_last_error(), path));
}
END_TEST

int main(void) {
    const test_case cases[] = {
        TEST(what_is_written_is_what_is_read),
        TEST(the_data_begins_at_a_multiple_of_eight),
        TEST(tensors_come_in_the_order_of_names),
        TEST(types_that_graphs_cannot_use_are_listed_but_not_readable),
        TEST(a_rank_of_2000_is_listed),
        TEST(an_index_joins_its_shards),
        TEST(a_missing_shard_is_named_with_a_tensor_of_it),
        TEST(a_tensor_that_its_shard_lacks_is_named),
        TEST(a_tensor_in_two_shards_is_refused),
        TEST(shards_lie_beside_the_index_and_nowhere_else),
        TEST(an_index_that_is_none_is_refused),
        TEST(a_bad_shard_is_named),
        TEST(what_is_not_there_or_no_file_is_named),
        TEST(a_write_that_fails_leaves_no_file),
    };
    return test_main("checkpoint", cases, sizeof cases / sizeof *cases);
}
