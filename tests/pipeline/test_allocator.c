/* allocator.c. */
#include "support.h"
#include <sluice/memory.h>
#include <stdlib.h>
#include <string.h>

typedef struct counts {
    int allocated, reallocated, released;
    size_t last_bytes;
    bool fails;
} counts;

static void *count_allocate(size_t bytes, void *user) {
    counts *c = user;
    c->allocated++;
    c->last_bytes = bytes;
    return c->fails ? NULL : malloc(bytes);
}

static void *count_reallocate(void *memory, size_t bytes, void *user) {
    counts *c = user;
    c->reallocated++;
    c->last_bytes = bytes;
    return c->fails ? NULL : realloc(memory, bytes);
}

static void count_release(void *memory, void *user) {
    counts *c = user;
    c->released++;
    free(memory);
}

static counts seen;

static void hook(void) {
    sl_set_allocator(&(sl_allocator){count_allocate, count_reallocate, count_release, &seen});
}

START_TEST(all_memory_goes_through_the_hook) {
    hook();
    char *a = sl_malloc(10), *b = sl_calloc(3, 5), *c = sl_strdup("text"), *d = sl_realloc(NULL, 7);
    ck_assert(a && b && c && d);
    ck_assert_str_eq(c, "text");
    for (int i = 0; i < 15; i++)
        ck_assert_int_eq(b[i], 0);
    d = sl_realloc(d, 700);
    memset(d, 1, 700);
    ck_assert(seen.allocated == 3 && seen.reallocated == 2 && seen.released == 0);
    sl_free(a), sl_free(b), sl_free(c), sl_free(d), sl_free(NULL);
    ck_assert_int_eq(seen.released, 4);
    sl_set_allocator(NULL);
    sl_free(sl_malloc(1));
    ck_assert(seen.allocated == 3 && seen.released == 4);
}
END_TEST

START_TEST(no_bytes_are_a_pointer_that_can_be_freed) {
    char *a = sl_malloc(0), *b = sl_calloc(0, 8), *c = sl_calloc(8, 0), *d = sl_realloc(NULL, 0);
    ck_assert(a && b && c && d);
    d = sl_realloc(d, 0);
    ck_assert_ptr_nonnull(d);
    sl_free(a), sl_free(b), sl_free(c), sl_free(d);
}
END_TEST

START_TEST(memory_that_is_not_there_is_null_with_a_sentence) {
    hook();
    seen.fails = true;
    char kept[] = "kept";
    ck_assert_ptr_null(sl_malloc(1234));
    ck_assert_ptr_nonnull(strstr(sl_last_error(), "1234 bytes"));
    ck_assert_ptr_null(sl_calloc(2, 50));
    ck_assert_ptr_nonnull(strstr(sl_last_error(), "100 bytes"));
    ck_assert_ptr_null(sl_strdup("12345"));
    ck_assert_ptr_nonnull(strstr(sl_last_error(), "6 bytes"));
    ck_assert_ptr_null(sl_realloc(kept, 77));
    ck_assert_ptr_nonnull(strstr(sl_last_error(), "77 bytes"));
    ck_assert_str_eq(kept, "kept");
}
END_TEST

START_TEST(a_product_that_wraps_asks_for_nothing) {
    hook();
    static const size_t pairs[][2] = {{SIZE_MAX, 2}, {SIZE_MAX / 2 + 1, 2}, {(size_t)1 << 32, (size_t)1 << 32}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        ck_assert_ptr_null(sl_calloc(pairs[i][0], pairs[i][1]));
        ck_assert_ptr_null(sl_calloc(pairs[i][1], pairs[i][0]));
        ck_assert_ptr_nonnull(strstr(sl_last_error(), "out of host memory"));
    }
    ck_assert_int_eq(seen.allocated, 0);
}
END_TEST

int main(void) {
    const test_case cases[] = {
        TEST(all_memory_goes_through_the_hook),
        TEST(no_bytes_are_a_pointer_that_can_be_freed),
        TEST(memory_that_is_not_there_is_null_with_a_sentence),
        TEST(a_product_that_wraps_asks_for_nothing),
    };
    return test_main("allocator", cases, sizeof cases / sizeof *cases);
}
