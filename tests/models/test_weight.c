/* Tensors as weights: as they lie, in part, turned, converted; against the same worked out element by element. */
#include "folder.h"
#include "support.h"
#include <sluice/memory.h>
#include <weight.h>

enum { ROWS = 6, COLUMNS = 1000 }; /* more than one piece */

static float element(int64_t i) {
    return (float)(i % 2039) * 0.5f; /* exact in f16 up to 2048 halves, in f32 */
}

static sl_status fill(void *user, int i, void *destination, size_t bytes) {
    (void)user;
    size_t size = i == 0 ? sizeof(float) : 2;
    for (size_t k = 0; k < bytes / size; k++) {
        float value = element((int64_t)k);
        SL_TRY(sl_convert(i == 0 ? SL_F32 : SL_F16, (char *)destination + k * size, SL_F32, &value, 1));
    }
    return SL_OK;
}

static sl_checkpoint *open_checkpoint(folder *f) {
    const sl_checkpoint_entry entries[] = {{"w", SL_F32, 2, {ROWS, COLUMNS}}, {"h", SL_F16, 2, {ROWS, COLUMNS}}};
    sl_checkpoint *checkpoint;
    const char *path = folder_file(f, "model.safetensors");
    ck_assert_int_eq(sl_checkpoint_write(path, 2, entries, fill, NULL), SL_OK);
    ck_assert_int_eq(sl_checkpoint_open(path, &checkpoint), SL_OK);
    return checkpoint;
}

/* The weight whole, and then in ranges that cut elements and pieces. */
static void assert_content(const sl_source *source, size_t size, const void *expected, size_t n) {
    size_t bytes = n * size;
    if (source->memory) {
        ck_assert_mem_eq(source->memory, expected, bytes);
        return;
    }
    unsigned char *read = malloc(bytes);
    ck_assert_ptr_nonnull(read);
    ck_assert_int_eq(source->read(source->user, 0, read, bytes), SL_OK);
    ck_assert_mem_eq(read, expected, bytes);
    uint64_t state = test_seed();
    for (int i = 0; i < 200; i++) {
        size_t at = test_below(&state, bytes), length = test_below(&state, bytes - at + 1);
        memset(read, 0xee, bytes);
        ck_assert_int_eq(source->read(source->user, at, read + at, length), SL_OK);
        ck_assert_mem_eq(read + at, (const unsigned char *)expected + at, length);
        ck_assert(at + length == bytes || read[at + length] == 0xee);
    }
    free(read);
}

static void assert_weight(const sli_weight *weight, sl_dtype expected_type, float (*at)(int64_t row, int64_t column)) {
    folder f = folder_make();
    sl_checkpoint *checkpoint = open_checkpoint(&f);
    sl_dtype dtype;
    sl_source source;
    ck_assert_msg(sli_weight_source(checkpoint, weight, &dtype, &source) == SL_OK, "%s", sl_last_error());
    ck_assert_int_eq(dtype, expected_type);
    sl_checkpoint_release(checkpoint); /* the source holds it */
    size_t size = sl_dtype_get(dtype)->block_bytes, n = (size_t)(weight->shape[0] * weight->shape[1]);
    unsigned char *expected = malloc(n * size);
    ck_assert_ptr_nonnull(expected);
    for (size_t i = 0; i < n; i++) {
        float value = at((int64_t)i / weight->shape[1], (int64_t)i % weight->shape[1]);
        ck_assert_int_eq(sl_convert(dtype, expected + i * size, SL_F32, &value, 1), SL_OK);
    }
    assert_content(&source, size, expected, n);
    source.release(source.user);
    free(expected);
    folder_remove(&f);
}

static float straight(int64_t row, int64_t column) {
    return element(row * COLUMNS + column);
}

static float from_row_2(int64_t row, int64_t column) {
    return element((row + 2) * COLUMNS + column);
}

static float turned(int64_t row, int64_t column) {
    return element(column * COLUMNS + row);
}

static float turned_from_300(int64_t row, int64_t column) {
    return element(column * COLUMNS + row + 300);
}

START_TEST(a_whole_tensor_is_used_as_it_lies) {
    assert_weight(&(sli_weight){.name = "w", .rank = 2, .shape = {ROWS, COLUMNS}}, SL_F32, straight);
    assert_weight(&(sli_weight){.name = "h", .rank = 2, .shape = {ROWS, COLUMNS}}, SL_F16, straight);
}
END_TEST

START_TEST(rows_of_a_tensor_are_used_as_they_lie) {
    assert_weight(&(sli_weight){.name = "w", .rank = 2, .shape = {3, COLUMNS}, .first = 2, .total = ROWS}, SL_F32,
                  from_row_2);
    assert_weight(&(sli_weight){.name = "h", .rank = 2, .shape = {3, COLUMNS}, .first = 2, .total = ROWS}, SL_F16,
                  from_row_2);
}
END_TEST

START_TEST(a_tensor_is_turned_as_it_is_read) {
    assert_weight(&(sli_weight){.name = "w", .rank = 2, .shape = {COLUMNS, ROWS}, .transposed = true}, SL_F32, turned);
    assert_weight(&(sli_weight){.name = "h", .rank = 2, .shape = {COLUMNS, ROWS}, .transposed = true}, SL_F16, turned);
}
END_TEST

START_TEST(columns_of_a_turned_tensor_are_rows) {
    const sli_weight weight = {
        .name = "w", .rank = 2, .shape = {250, ROWS}, .transposed = true, .first = 300, .total = COLUMNS};
    assert_weight(&weight, SL_F32, turned_from_300);
}
END_TEST

START_TEST(a_tensor_is_converted_as_it_is_read) {
    assert_weight(&(sli_weight){.name = "h", .rank = 2, .shape = {ROWS, COLUMNS}, .f32 = true}, SL_F32, straight);
    assert_weight(&(sli_weight){.name = "h", .rank = 2, .shape = {3, COLUMNS}, .first = 2, .total = ROWS, .f32 = true},
                  SL_F32, from_row_2);
    assert_weight(&(sli_weight){.name = "w", .rank = 2, .shape = {ROWS, COLUMNS}, .f32 = true}, SL_F32, straight);
}
END_TEST

static void assert_graph_fails(const char *path, const char *name, int rank, const int64_t *shape, bool transposed,
                               sl_status expected, const char *word) {
    sl_checkpoint *checkpoint;
    ck_assert_int_eq(sl_checkpoint_open(path, &checkpoint), SL_OK);
    sl_graph *graph = sl_graph_create();
    ck_assert_int_eq(sl_checkpoint_weight(checkpoint, graph, name, rank, shape, transposed).id, 0);
    ck_assert_int_eq(sl_graph_status(graph), expected);
    ck_assert_msg(strstr(sl_last_error(), word) != NULL, "no '%s': %s", word, sl_last_error());
    ck_assert_msg(strstr(sl_last_error(), name) != NULL, "%s", sl_last_error());
    sl_graph_destroy(graph);
    sl_checkpoint_release(checkpoint);
}

START_TEST(what_does_not_fit_is_the_graphs_error) {
    folder f = folder_make();
    sl_checkpoint_release(open_checkpoint(&f));
    const char *path = folder_file(&f, "model.safetensors");
    const int64_t good[] = {ROWS, COLUMNS, 1, 1}, other[] = {ROWS, COLUMNS + 1};
    assert_graph_fails(path, "x", 2, good, false, SL_BAD_FILE, "no tensor 'x'");
    assert_graph_fails(path, "w", 2, other, false, SL_BAD_FILE, "[6, 1000] where [6, 1001] is expected");
    assert_graph_fails(path, "w", 2, good, true, SL_BAD_FILE, "[6, 1000] where [1000, 6] is expected");
    assert_graph_fails(path, "w", 1, good, false, SL_BAD_FILE, "where [6] is expected");
    assert_graph_fails(path, "w", 4, good, false, SL_BAD_FILE, "where [6, 1000, 1, 1] is expected");
    assert_graph_fails(path, "w", 5, good, false, SL_INVALID, "rank 5");
    assert_graph_fails(path, "w", 1, good, true, SL_INVALID, "rank 1");
    folder_remove(&f);
    const int64_t scalar[] = {1};
    sl_checkpoint *checkpoint;
    sl_checkpoint_tensor t;
    const char *many = TEST_DATA "/safetensors/ok_many_dtypes.safetensors";
    ck_assert_int_eq(sl_checkpoint_open(many, &checkpoint), SL_OK);
    for (int i = 0; sl_checkpoint_at(checkpoint, i, &t); i++)
        if (!t.readable)
            assert_graph_fails(many, t.name, 1, scalar, false, SL_UNSUPPORTED, t.type_name);
    sl_checkpoint_release(checkpoint);
}
END_TEST

START_TEST(a_graph_keeps_the_checkpoint_of_its_weights) {
    folder f = folder_make();
    sl_checkpoint *checkpoint = open_checkpoint(&f);
    sl_graph *graph = sl_graph_create();
    sl_type type;
    sl_value w = sl_checkpoint_weight(checkpoint, graph, "w", 2, (const int64_t[]){ROWS, COLUMNS}, false);
    sl_value h = sl_checkpoint_weight(checkpoint, graph, "h", 2, (const int64_t[]){COLUMNS, ROWS}, true);
    sl_checkpoint_release(checkpoint);
    ck_assert_int_eq(sl_graph_value_type(graph, w, &type), SL_OK);
    ck_assert_int_eq(type.dtype, SL_F32);
    ck_assert_int_eq(sl_graph_value_type(graph, h, &type), SL_OK);
    ck_assert_int_eq(type.dtype, SL_F16);
    ck_assert_int_eq(type.shape.dims[0], COLUMNS);
    sl_graph_destroy(graph);
    folder_remove(&f);
}
END_TEST

int main(void) {
    const test_case cases[] = {
        TEST(a_whole_tensor_is_used_as_it_lies),
        TEST(rows_of_a_tensor_are_used_as_they_lie),
        TEST(a_tensor_is_turned_as_it_is_read),
        TEST(columns_of_a_turned_tensor_are_rows),
        TEST(a_tensor_is_converted_as_it_is_read),
        TEST(what_does_not_fit_is_the_graphs_error),
        TEST(a_graph_keeps_the_checkpoint_of_its_weights),
    };
    return test_main("weight", cases, sizeof cases / sizeof *cases);
}
