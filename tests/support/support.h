/* What every test program needs: one main, skips that say why, the test data, seeds that are printed.
 *
 *     START_TEST(a_cycle_is_rejected) { ... ck_assert(...); } END_TEST
 *
 *     int main(void) {
 *         const test_case cases[] = {TEST(a_cycle_is_rejected), ...};
 *         return test_main("graph", cases, sizeof cases / sizeof *cases);
 *     }
 *
 * The last line that a program prints is `N passed, N failed, N skipped`. */
#ifndef TESTS_SUPPORT_H
#define TESTS_SUPPORT_H

#include <check.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct test_case {
    const char *name;
    const TTest *test;
    double timeout_s; /* 0: 60 */
} test_case;

#define TEST(function)                                                                                                 \
    { .name = #function, .test = (function) }
#define TEST_FOR(function, seconds)                                                                                    \
    { .name = #function, .test = (function), .timeout_s = (seconds) }

int test_main(const char *suite, const test_case *cases, size_t n);

/* Ends the running test as skipped, with a reason. */
#define SKIP(...)                                                                                                      \
    do {                                                                                                               \
        test_skip(__VA_ARGS__);                                                                                        \
        return;                                                                                                        \
    } while (0)
void test_skip(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The folder of shared test data ($SLUICE_TEST_DATA) joined with `path`; NULL without it: then SKIP. The string is the
 * caller's to free. */
char *test_shared(const char *path);

/* How many random cases: `full` in a release build, a tenth (at least one) under a sanitizer or in a debug build.
 * $SLUICE_TEST_CASES overrides. */
int test_cases(int full);

/* A seed for random cases: $SLUICE_TEST_SEED or a fixed one; printed. */
uint64_t test_seed(void);

/* SplitMix64: the next number of a sequence. */
uint64_t test_random(uint64_t *state);
/* 0 .. n - 1 */
uint64_t test_below(uint64_t *state, uint64_t n);

/* All of a file, NUL-terminated; aborts the test if it cannot be read. The caller frees. */
char *test_read_file(const char *path, size_t *bytes);

/* Runs a shell command; its exit code. Its output, cut at `capacity`, goes to `output` (may be NULL). */
int test_run(const char *command, char *output, size_t capacity);

#endif
