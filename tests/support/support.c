/* See support.h. Check runs each test in a child, so a skip is told to the parent by a message of its own: a mark in a
 * file that both share. */
#include "support.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

/* Time limits are for a machine of its own at full speed; sanitizers are slower. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SLOWER 4
#else
#define SLOWER 1
#endif

static volatile unsigned *n_skipped; /* shared with the children */

void test_skip(const char *format, ...) {
    va_list args;
    va_start(args, format);
    printf("skipped: ");
    vprintf(format, args);
    printf("\n");
    fflush(stdout);
    va_end(args);
    __atomic_fetch_add(n_skipped, 1, __ATOMIC_SEQ_CST);
}

int test_main(const char *suite, const test_case *cases, size_t n) {
    const char *only = getenv("SLUICE_TEST_ONLY");
    Suite *s = suite_create(suite);
    n_skipped = mmap(NULL, sizeof *n_skipped, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (n_skipped == MAP_FAILED)
        return 2;
    for (size_t i = 0; i < n; i++) {
        if (only && !strstr(cases[i].name, only))
            continue;
        TCase *c = tcase_create(cases[i].name);
        tcase_set_timeout(c, (cases[i].timeout_s > 0 ? cases[i].timeout_s : 60) * SLOWER);
        tcase_add_test(c, cases[i].test);
        suite_add_tcase(s, c);
    }
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner), skipped = (int)*n_skipped;
    int passed = srunner_ntests_run(runner) - failed - skipped;
    srunner_free(runner);
    printf("%d passed, %d failed, %d skipped\n", passed, failed, skipped);
    return failed != 0;
}

char *test_shared(const char *path) {
    const char *folder = getenv("SLUICE_TEST_DATA");
    if (!folder || !*folder)
        return NULL;
    size_t bytes = strlen(folder) + strlen(path) + 2;
    char *joined = malloc(bytes);
    ck_assert_ptr_nonnull(joined);
    snprintf(joined, bytes, "%s/%s", folder, path);
    return joined;
}

int test_cases(int full) {
    const char *text = getenv("SLUICE_TEST_CASES");
    if (text && atoi(text) > 0)
        return atoi(text);
#ifdef NDEBUG
    return full;
#else
    return full >= 10 ? full / 10 : 1;
#endif
}

uint64_t test_seed(void) {
    const char *text = getenv("SLUICE_TEST_SEED");
    uint64_t seed = text ? strtoull(text, NULL, 0) : 20261201;
    printf("seed %llu\n", (unsigned long long)seed);
    fflush(stdout);
    return seed;
}

uint64_t test_random(uint64_t *state) {
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

uint64_t test_below(uint64_t *state, uint64_t n) {
    return test_random(state) % n;
}

char *test_read_file(const char *path, size_t *bytes) {
    FILE *f = fopen(path, "rb");
    ck_assert_msg(f != NULL, "cannot open %s", path);
    ck_assert_int_eq(fseek(f, 0, SEEK_END), 0);
    long size = ftell(f);
    ck_assert_int_ge(size, 0);
    rewind(f);
    char *content = malloc((size_t)size + 1);
    ck_assert_ptr_nonnull(content);
    ck_assert_uint_eq(fread(content, 1, (size_t)size, f), (size_t)size);
    fclose(f);
    content[size] = '\0';
    if (bytes)
        *bytes = (size_t)size;
    return content;
}

int test_run(const char *command, char *output, size_t capacity) {
    FILE *f = popen(command, "r");
    ck_assert_ptr_nonnull(f);
    char chunk[4096];
    size_t n, used = 0;
    while ((n = fread(chunk, 1, sizeof chunk, f)) > 0)
        if (output && capacity) {
            size_t fits = capacity - 1 - used < n ? capacity - 1 - used : n;
            memcpy(output + used, chunk, fits);
            used += fits;
        }
    if (output && capacity)
        output[used] = '\0';
    int status = pclose(f);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
