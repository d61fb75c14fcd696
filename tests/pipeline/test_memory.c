/* memory.c, memory_text.c: figures, limits, what is kept and trimmed. Each test is a process of its own. */
#include "memory.h"
#include "support.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#if defined __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#endif

static const sl_device cpu0 = {SL_CPU, 0}, cpu1 = {SL_CPU, 1}, sim0 = {SL_SIM, 0};

static void set(const char *name, const char *value) {
    ck_assert_msg(sl_setting_set(name, value) == SL_OK, "%s", sl_last_error());
}

static sl_memory_figures get(sl_device device) {
    sl_memory_figures figures;
    ck_assert_msg(sl_memory_get(device, &figures) == SL_OK, "%s", sl_last_error());
    return figures;
}

static void *take(sl_device device, size_t bytes, sl_memory_category category) {
    void *at = NULL;
    ck_assert_msg(sli_memory_allocate(device, bytes, category, &at) == SL_OK, "%s", sl_last_error());
    ck_assert_ptr_nonnull(at);
    return at;
}

static void says(const char *part) {
    ck_assert_msg(strstr(sl_last_error(), part) != NULL, "'%s' does not say '%s'", sl_last_error(), part);
}

static uint64_t sum(const sl_memory_figures *figures) {
    uint64_t total = 0;
    for (int c = 0; c < SL_MEMORY_CATEGORIES; c++)
        total += figures->by_category[c];
    return total;
}

/* ---- Figures ---- */

START_TEST(figures_follow_what_is_held_by_category) {
    void *w = take(cpu1, 1000, SL_MEMORY_WEIGHTS), *s = take(cpu1, 24, SL_MEMORY_STATE);
    sl_memory_figures f = get(cpu1);
    ck_assert_uint_eq(f.limit, 0);
    ck_assert_uint_eq(f.allocated, 1024);
    ck_assert_uint_eq(f.reserved, 1024);
    ck_assert_uint_eq(f.peak, 1024);
    ck_assert_uint_eq(f.by_category[SL_MEMORY_WEIGHTS], 1000);
    ck_assert_uint_eq(f.by_category[SL_MEMORY_STATE], 24);
    ck_assert_uint_eq(sum(&f), f.allocated);
    sli_memory_release(cpu1, w, 1000, SL_MEMORY_WEIGHTS);
    f = get(cpu1);
    ck_assert_uint_eq(f.allocated, 24);
    ck_assert_uint_eq(f.reserved, 1024);
    ck_assert_uint_eq(f.peak, 1024);
    ck_assert_uint_eq(f.by_category[SL_MEMORY_WEIGHTS], 0);
    ck_assert_uint_eq(get(cpu0).reserved, 0);
    sli_memory_release(cpu1, s, 24, SL_MEMORY_STATE);
}
END_TEST

START_TEST(the_peak_starts_again_from_what_is_in_use) {
    void *a = take(cpu0, 700, SL_MEMORY_SLOTS), *b = take(cpu0, 100, SL_MEMORY_SLOTS);
    sli_memory_release(cpu0, a, 700, SL_MEMORY_SLOTS);
    ck_assert_uint_eq(get(cpu0).peak, 800);
    ck_assert_int_eq(sl_memory_reset_peak(cpu0), SL_OK);
    ck_assert_uint_eq(get(cpu0).peak, 100);
    a = take(cpu0, 50, SL_MEMORY_SLOTS);
    ck_assert_uint_eq(get(cpu0).peak, 150);
    sli_memory_release(cpu0, a, 50, SL_MEMORY_SLOTS);
    sli_memory_release(cpu0, b, 100, SL_MEMORY_SLOTS);
}
END_TEST

START_TEST(trim_gives_back_what_is_kept_and_nothing_else) {
    void *a = take(cpu0, 5000, SL_MEMORY_SCRATCH), *b = take(cpu0, 300, SL_MEMORY_SCRATCH);
    memset(b, 7, 300);
    sli_memory_release(cpu0, a, 5000, SL_MEMORY_SCRATCH);
    uint64_t freed = 1;
    ck_assert_int_eq(sl_memory_trim(cpu1, &freed), SL_OK);
    ck_assert_uint_eq(freed, 0);
    ck_assert_int_eq(sl_memory_trim(cpu0, &freed), SL_OK);
    ck_assert_uint_eq(freed, 5000);
    ck_assert_uint_eq(get(cpu0).reserved, 300);
    ck_assert_int_eq(sl_memory_trim(cpu0, NULL), SL_OK);
    for (int i = 0; i < 300; i++)
        ck_assert_int_eq(((char *)b)[i], 7);
    sli_memory_release(cpu0, b, 300, SL_MEMORY_SCRATCH);
}
END_TEST

START_TEST(a_freed_block_serves_the_next_of_its_size) {
    void *a = take(cpu0, 4096, SL_MEMORY_SLOTS), *b = take(cpu0, 4095, SL_MEMORY_SLOTS);
    sli_memory_release(cpu0, a, 4096, SL_MEMORY_SLOTS);
    sli_memory_release(cpu0, b, 4095, SL_MEMORY_SLOTS);
    ck_assert_ptr_eq(take(cpu0, 4096, SL_MEMORY_WEIGHTS), a);
    ck_assert_ptr_eq(take(cpu0, 4095, SL_MEMORY_STATE), b);
    sl_memory_figures f = get(cpu0);
    ck_assert_uint_eq(f.reserved, 8191);
    ck_assert_uint_eq(f.by_category[SL_MEMORY_WEIGHTS], 4096);
    sli_memory_release(cpu0, a, 4096, SL_MEMORY_WEIGHTS);
    sli_memory_release(cpu0, b, 4095, SL_MEMORY_STATE);
}
END_TEST

START_TEST(the_address_sanitizer_sees_who_reads_a_freed_block) {
#if defined __SANITIZE_ADDRESS__
    char *a = take(cpu0, 4096, SL_MEMORY_SLOTS);
    ck_assert(!__asan_address_is_poisoned(a) && !__asan_address_is_poisoned(a + 4095));
    sli_memory_release(cpu0, a, 4096, SL_MEMORY_SLOTS);
    ck_assert(__asan_address_is_poisoned(a) && __asan_address_is_poisoned(a + 4095));
    ck_assert_ptr_eq(take(cpu0, 4096, SL_MEMORY_SLOTS), a);
    ck_assert(!__asan_address_is_poisoned(a) && !__asan_address_is_poisoned(a + 4095));
    sli_memory_release(cpu0, a, 4096, SL_MEMORY_SLOTS);
#else
    SKIP("this build has no address sanitizer");
#endif
}
END_TEST

START_TEST(what_is_kept_never_costs_more_than_the_peak_did) {
    uint64_t most = 0;
    for (size_t bytes = 64; bytes < 200000; bytes += 997) {
        void *a = take(cpu0, bytes, SL_MEMORY_SLOTS);
        most = bytes > most ? bytes : most;
        sl_memory_figures f = get(cpu0);
        ck_assert_uint_le(f.reserved, most);
        sli_memory_release(cpu0, a, bytes, SL_MEMORY_SLOTS);
    }
}
END_TEST

START_TEST(no_more_than_32_blocks_are_kept) {
    void *held[200];
    for (int i = 0; i < 200; i++)
        held[i] = take(cpu0, 128, SL_MEMORY_SLOTS);
    for (int i = 0; i < 200; i++)
        sli_memory_release(cpu0, held[i], 128, SL_MEMORY_SLOTS);
    ck_assert_uint_eq(get(cpu0).reserved, 32 * 128);
    ck_assert_uint_eq(get(cpu1).reserved, 0);
}
END_TEST

START_TEST(blocks_are_aligned_and_no_bytes_are_a_block_too) {
    for (size_t bytes = 1; bytes < 6u << 20; bytes = bytes * 2 + 1) {
        char *a = take(cpu0, bytes, SL_MEMORY_SLOTS);
        ck_assert_uint_eq((uintptr_t)a % 64, 0);
        a[0] = a[bytes - 1] = 1;
        sli_memory_release(cpu0, a, bytes, SL_MEMORY_SLOTS);
    }
    void *nothing = take(cpu0, 0, SL_MEMORY_SLOTS);
    ck_assert_uint_eq(get(cpu0).allocated, 0);
    sli_memory_release(cpu0, nothing, 0, SL_MEMORY_SLOTS);
    sli_memory_release(cpu0, NULL, 0, SL_MEMORY_SLOTS);
    sli_memory_release(cpu0, NULL, 64, SL_MEMORY_SLOTS);
    ck_assert_uint_eq(get(cpu0).allocated, 0);
}
END_TEST

START_TEST(what_is_used_in_place_counts_and_is_not_kept) {
    set("SLUICE_CPU_MEMORY", "1000");
    ck_assert_int_eq(sli_memory_borrow(cpu0, 600, SL_MEMORY_WEIGHTS), SL_OK);
    sl_memory_figures f = get(cpu0);
    ck_assert(f.allocated == 600 && f.reserved == 600 && f.by_category[SL_MEMORY_WEIGHTS] == 600);
    ck_assert_int_eq(sli_memory_borrow(cpu0, 401, SL_MEMORY_WEIGHTS), SL_OUT_OF_MEMORY);
    says("1 are missing");
    void *at;
    ck_assert_int_eq(sli_memory_allocate(cpu0, 401, SL_MEMORY_STATE, &at), SL_OUT_OF_MEMORY);
    sli_memory_return(cpu0, 600, SL_MEMORY_WEIGHTS);
    f = get(cpu0);
    ck_assert(f.allocated == 0 && f.reserved == 0 && f.peak == 600);
    ck_assert_int_eq(sli_memory_borrow(cpu0, 0, SL_MEMORY_WEIGHTS), SL_OK);
    sli_memory_return(cpu0, 0, SL_MEMORY_WEIGHTS);
}
END_TEST

START_TEST(simulated_devices_have_figures_and_addresses_alone) {
    char *a = take(sim0, (size_t)1 << 40, SL_MEMORY_WEIGHTS), *b = take(sim0, (size_t)1 << 40, SL_MEMORY_WEIGHTS);
    ck_assert(a != b);
    ck_assert_uint_eq(get(sim0).allocated, (uint64_t)2 << 40);
    sli_memory_release(sim0, a, (size_t)1 << 40, SL_MEMORY_WEIGHTS);
    sli_memory_release(sim0, b, (size_t)1 << 40, SL_MEMORY_WEIGHTS);
    uint64_t freed;
    ck_assert_int_eq(sl_memory_trim(sim0, &freed), SL_OK);
    ck_assert_uint_eq(freed, (uint64_t)2 << 40);
    ck_assert_uint_eq(get(sim0).reserved, 0);
}
END_TEST

START_TEST(devices_that_are_not_there_have_no_figures) {
    static const sl_device none[] = {{SL_CUDA, 0}, {SL_CPU, -1}, {SL_CPU, 1 << 20}, {SL_DEVICE_KINDS, 0}};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        sl_memory_figures figures;
        void *at;
        ck_assert_int_eq(sl_memory_get(none[i], &figures), SL_NO_DEVICE);
        ck_assert_int_eq(sl_memory_reset_peak(none[i]), SL_NO_DEVICE);
        ck_assert_int_eq(sl_memory_trim(none[i], NULL), SL_NO_DEVICE);
        ck_assert_int_eq(sli_memory_allocate(none[i], 1, SL_MEMORY_SLOTS, &at), SL_NO_DEVICE);
        ck_assert_int_eq(sli_memory_borrow(none[i], 1, SL_MEMORY_SLOTS), SL_NO_DEVICE);
        says("there are: cpu:0");
    }
}
END_TEST

/* ---- Limits ---- */

START_TEST(a_limit_holds_to_the_byte_and_for_each_device) {
    set("SLUICE_CPU_MEMORY", "1000");
    void *a = take(cpu0, 600, SL_MEMORY_WEIGHTS), *b = take(cpu0, 400, SL_MEMORY_STATE), *c;
    ck_assert_uint_eq(get(cpu0).limit, 1000);
    ck_assert_int_eq(sli_memory_allocate(cpu0, 1, SL_MEMORY_SLOTS, &c), SL_OUT_OF_MEMORY);
    c = take(cpu1, 1000, SL_MEMORY_SLOTS);
    sli_memory_release(cpu0, a, 600, SL_MEMORY_WEIGHTS);
    a = take(cpu0, 500, SL_MEMORY_WEIGHTS); /* 600 are kept and have to go */
    ck_assert_uint_eq(get(cpu0).reserved, 900);
    sli_memory_release(cpu0, a, 500, SL_MEMORY_WEIGHTS);
    sli_memory_release(cpu0, b, 400, SL_MEMORY_STATE);
    sli_memory_release(cpu1, c, 1000, SL_MEMORY_SLOTS);
}
END_TEST

START_TEST(out_of_memory_names_the_device_the_holders_what_is_missing_and_the_knobs) {
    set("SLUICE_CPU_MEMORY", "1000000");
    void *a = take(cpu1, 700000, SL_MEMORY_WEIGHTS), *b = take(cpu1, 100000, SL_MEMORY_SLOTS), *c;
    ck_assert_int_eq(sli_memory_allocate(cpu1, 250000, SL_MEMORY_STATE, &c), SL_OUT_OF_MEMORY);
    says("cpu:1 is out of memory");
    says("250000 bytes (state)");
    says("200000 of its limit of 1000000 are free, 50000 are missing");
    says("in use: weights 700000, slots 100000");
    says("fewer places");
    says("more devices");
    says("SLUICE_CPU_MEMORY");
    sli_memory_release(cpu1, a, 700000, SL_MEMORY_WEIGHTS);
    sli_memory_release(cpu1, b, 100000, SL_MEMORY_SLOTS);
}
END_TEST

START_TEST(a_block_that_no_machine_has_is_refused_without_touching_it) {
    size_t ram = (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE);
    const size_t sizes[] = {ram + 65536, (size_t)1 << 50, (size_t)1 << 62, (size_t)INT64_MAX, SIZE_MAX};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        void *at;
        ck_assert_int_eq(sli_memory_allocate(cpu0, sizes[i], SL_MEMORY_WEIGHTS, &at), SL_OUT_OF_MEMORY);
        says("there are no more");
        ck_assert_uint_eq(get(cpu0).allocated, 0);
    }
    void *at;
    ck_assert_int_eq(sli_memory_allocate(sim0, SIZE_MAX, SL_MEMORY_WEIGHTS, &at), SL_OUT_OF_MEMORY);
}
END_TEST

START_TEST(categories_have_names_and_knobs) {
    static const char *const names[] = {"tensors", "weights", "activations", "state", "slots", "scratch"};
    for (int c = 0; c < SL_MEMORY_CATEGORIES; c++) {
        ck_assert_str_eq(sl_memory_category_name((sl_memory_category)c), names[c]);
        ck_assert_str_ne(sli_memory_knob((sl_memory_category)c), "");
    }
    ck_assert_str_eq(sl_memory_category_name(SL_MEMORY_CATEGORIES), "unknown");
    ck_assert_str_eq(sli_memory_knob(SL_MEMORY_CATEGORIES), "");
    uint64_t by_category[SL_MEMORY_CATEGORIES] = {0};
    char text[SLI_HOLDERS_TEXT];
    ck_assert_str_eq(sli_memory_holders(by_category, text), "nothing");
    for (int c = 0; c < SL_MEMORY_CATEGORIES; c++)
        by_category[c] = UINT64_MAX;
    ck_assert_ptr_nonnull(strstr(sli_memory_holders(by_category, text), "scratch 18446744073709551615"));
}
END_TEST

/* ---- The pinned pool ---- */

START_TEST(the_pinned_pool_is_bounded_and_apart_from_the_devices) {
    set("SLUICE_PINNED_MEMORY", "1Ki");
    void *a, *b;
    ck_assert_int_eq(sli_pinned_allocate(1000, &a), SL_OK);
    ck_assert_uint_eq((uintptr_t)a % 64, 0);
    ck_assert_int_eq(sli_pinned_allocate(25, &b), SL_OUT_OF_MEMORY);
    says("pinned host memory is out of memory: 25 bytes");
    says("1 are missing");
    says("SLUICE_PINNED_MEMORY");
    ck_assert_int_eq(sli_pinned_allocate(24, &b), SL_OK);
    sl_memory_figures f;
    ck_assert_int_eq(sl_memory_get_pinned(&f), SL_OK);
    ck_assert(f.limit == 1024 && f.allocated == 1024 && f.peak == 1024 && sum(&f) == 1024);
    ck_assert_uint_eq(get(cpu0).allocated, 0);
    sli_pinned_release(a, 1000);
    sli_pinned_release(b, 24);
    sli_pinned_release(NULL, 0);
    uint64_t freed;
    ck_assert_int_eq(sl_memory_trim(cpu0, &freed), SL_OK);
    ck_assert_uint_eq(freed, 0);
    ck_assert_int_eq(sl_memory_trim_pinned(&freed), SL_OK);
    ck_assert_uint_eq(freed, 1024);
    ck_assert_int_eq(sl_memory_get_pinned(&f), SL_OK);
    ck_assert(f.allocated == 0 && f.reserved == 0 && f.peak == 1024);
}
END_TEST

/* ---- Against a model ---- */

typedef struct holding {
    unsigned char *at; /* NULL: borrowed */
    size_t bytes;
    sl_memory_category category;
    unsigned char mark;
} holding;

typedef struct model {
    holding held[64];
    int n;
    uint64_t allocated, peak, most, limit;
} model;

static void check(const model *m) {
    sl_memory_figures f = get(cpu0);
    uint64_t by_category[SL_MEMORY_CATEGORIES] = {0};
    for (int i = 0; i < m->n; i++)
        by_category[m->held[i].category] += m->held[i].bytes;
    ck_assert_mem_eq(f.by_category, by_category, sizeof by_category);
    ck_assert_uint_eq(f.allocated, m->allocated);
    ck_assert_uint_eq(f.peak, m->peak);
    ck_assert(f.allocated <= f.reserved && f.reserved <= m->most && m->most <= m->limit);
}

static void hold(model *m, uint64_t *seed) {
    static const size_t sizes[] = {1, 64, 100, 4096, 30000, 65536};
    size_t bytes = sizes[test_below(seed, 6)] + test_below(seed, 2);
    holding h = {NULL, bytes, (sl_memory_category)test_below(seed, SL_MEMORY_CATEGORIES),
                 (unsigned char)test_random(seed)};
    bool borrowed = test_below(seed, 4) == 0, fits = m->allocated + bytes <= m->limit;
    void *at = NULL;
    sl_status status =
        borrowed ? sli_memory_borrow(cpu0, bytes, h.category) : sli_memory_allocate(cpu0, bytes, h.category, &at);
    ck_assert_int_eq(status, fits ? SL_OK : SL_OUT_OF_MEMORY);
    if (!fits)
        return;
    h.at = at;
    if (h.at)
        memset(h.at, h.mark, bytes);
    m->held[m->n++] = h;
    m->allocated += bytes;
    m->peak = m->allocated > m->peak ? m->allocated : m->peak;
    m->most = m->allocated > m->most ? m->allocated : m->most;
}

static void drop(model *m, int i) {
    holding h = m->held[i];
    m->held[i] = m->held[--m->n];
    m->allocated -= h.bytes;
    if (!h.at) {
        sli_memory_return(cpu0, h.bytes, h.category);
        return;
    }
    for (size_t b = 0; b < h.bytes; b++)
        if (h.at[b] != h.mark)
            ck_abort_msg("somebody else wrote into a block");
    sli_memory_release(cpu0, h.at, h.bytes, h.category);
}

START_TEST(random_calls_agree_with_a_model) {
    set("SLUICE_CPU_MEMORY", "300K");
    uint64_t seed = test_seed();
    model m = {.limit = 300000};
    for (int n = test_cases(20000); n > 0; n--) {
        uint64_t what = test_below(&seed, 20);
        if (what == 0) {
            uint64_t before = get(cpu0).reserved, freed = 0;
            ck_assert_int_eq(sl_memory_trim(cpu0, &freed), SL_OK);
            ck_assert_uint_eq(get(cpu0).reserved, before - freed);
        } else if (what == 1) {
            ck_assert_int_eq(sl_memory_reset_peak(cpu0), SL_OK);
            m.peak = m.allocated;
        } else if (m.n == 64 || (m.n > 0 && what < 10)) {
            drop(&m, (int)test_below(&seed, (uint64_t)m.n));
        } else {
            hold(&m, &seed);
        }
        check(&m);
    }
    while (m.n > 0)
        drop(&m, 0);
    check(&m);
}
END_TEST

/* ---- Threads ---- */

enum { THREADS = 4 };

static void *churn(void *user) {
    uint64_t seed = (uintptr_t)user;
    intptr_t wrong = 0;
    for (int i = 0; i < 2000; i++) {
        size_t bytes = 64u << test_below(&seed, 6);
        sl_device device = {SL_CPU, (int)test_below(&seed, 2)};
        sl_memory_category category = (sl_memory_category)test_below(&seed, SL_MEMORY_CATEGORIES);
        sl_memory_figures f;
        void *at = NULL;
        wrong += sli_memory_allocate(device, bytes, category, &at) != SL_OK;
        if (at)
            memset(at, (int)i, bytes);
        if (test_below(&seed, 8) == 0)
            wrong += sl_memory_trim(device, NULL) != SL_OK;
        wrong += sl_memory_get(device, &f) != SL_OK || f.allocated > f.reserved || sum(&f) != f.allocated;
        sli_memory_release(device, at, bytes, category);
        wrong += sli_pinned_allocate(bytes, &at) != SL_OK;
        memset(at, (int)i, bytes);
        sli_pinned_release(at, bytes);
    }
    return (void *)wrong;
}

START_TEST(threads_allocate_and_trim_at_once) {
    pthread_t threads[THREADS];
    for (intptr_t i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, churn, (void *)(i + 1)), 0);
    for (int i = 0; i < THREADS; i++) {
        void *wrong;
        ck_assert_int_eq(pthread_join(threads[i], &wrong), 0);
        ck_assert_ptr_null(wrong);
    }
    ck_assert(get(cpu0).allocated == 0 && get(cpu1).allocated == 0);
    sl_memory_figures f;
    ck_assert(sl_memory_get_pinned(&f) == SL_OK && f.allocated == 0);
}
END_TEST

int main(void) {
    const test_case cases[] = {
        TEST(figures_follow_what_is_held_by_category),
        TEST(the_peak_starts_again_from_what_is_in_use),
        TEST(trim_gives_back_what_is_kept_and_nothing_else),
        TEST(a_freed_block_serves_the_next_of_its_size),
        TEST(the_address_sanitizer_sees_who_reads_a_freed_block),
        TEST(what_is_kept_never_costs_more_than_the_peak_did),
        TEST(no_more_than_32_blocks_are_kept),
        TEST(blocks_are_aligned_and_no_bytes_are_a_block_too),
        TEST(what_is_used_in_place_counts_and_is_not_kept),
        TEST(simulated_devices_have_figures_and_addresses_alone),
        TEST(devices_that_are_not_there_have_no_figures),
        TEST(a_limit_holds_to_the_byte_and_for_each_device),
        TEST(out_of_memory_names_the_device_the_holders_what_is_missing_and_the_knobs),
        TEST(a_block_that_no_machine_has_is_refused_without_touching_it),
        TEST(categories_have_names_and_knobs),
        TEST(the_pinned_pool_is_bounded_and_apart_from_the_devices),
        TEST(random_calls_agree_with_a_model),
        TEST(threads_allocate_and_trim_at_once),
    };
    return test_main("memory", cases, sizeof cases / sizeof *cases);
}
