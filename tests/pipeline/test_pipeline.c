/* Claims about pipelines from the public side: opening, weights from tensors, mapped memory and readers, progress,
 * errors that leave nothing behind, and a thousand lives without growth. */
#include "random_graph.h"
#include "settings.h"
#include <dirent.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>

enum { COLUMNS = 8, ROWS = 20 };

static void set_devices(const char *n) {
    ck_assert_int_eq(sl_setting_set("SLUICE_CPU_DEVICES", n), SL_OK);
}

static sl_tensor *tensor(int64_t rows, int64_t columns, uint32_t seed) {
    sl_tensor *t;
    ck_assert_msg(sl_tensor_create((sl_device){SL_CPU, 0}, SL_I32, 2, (int64_t[]){rows, columns}, 0, &t) == SL_OK, "%s",
                  sl_last_error());
    uint32_t *data = sl_tensor_data(t);
    for (int64_t e = 0; e < rows * columns; e++)
        data[e] = g_mix(seed, (uint32_t)e);
    return t;
}

static sl_value mix(sl_graph *g, sl_stage s, sl_value x, sl_value w, uint32_t salt) {
    g_attributes a = {.salt = salt, .columns = COLUMNS, .weight = {false, true}};
    sl_value in[] = {x, w};
    return sl_graph_op1(g, s, &g_mix_op, &a, w.id ? 2 : 1, in, 0, NULL);
}

static uint32_t mixed(uint32_t x, const uint32_t *w, uint32_t salt) {
    uint32_t h = g_mix(salt, x);
    return w ? g_mix(h, *w) : h;
}

/* x -> front on `one`, with a weight -> back on `two`, with the same weight -> y */
static sl_graph *two_stages(const char *one, const char *two, sl_value (*weight)(sl_graph *, void *), void *user) {
    sl_graph *g = sl_graph_create();
    sl_value x = sl_graph_input(g, "x", SL_I32, SL_ROWS, COLUMNS), w = weight(g, user);
    sl_value h = mix(g, sl_graph_stage(g, "front", one), x, w, 1);
    sl_graph_output(g, "y", mix(g, sl_graph_stage(g, "back", two), h, w, 2));
    return g;
}

static void check_two_stages(sl_pipeline *p, const uint32_t *w) {
    sl_tensor *x = tensor(ROWS, COLUMNS, 7), *y = tensor(ROWS, COLUMNS, 0);
    sl_job *job;
    ck_assert_msg(sl_pipeline_submit(p, &x, &y, NULL, NULL, &job) == SL_OK, "%s", sl_last_error());
    ck_assert_msg(sl_job_wait(job, SL_FOREVER) == SL_OK, "%s", sl_last_error());
    sl_job_release(job);
    const uint32_t *in = sl_tensor_data(x), *out = sl_tensor_data(y);
    for (int e = 0; e < ROWS * COLUMNS; e++) {
        const uint32_t *own = w ? w + e % COLUMNS : NULL;
        ck_assert_uint_eq(out[e], mixed(mixed(in[e], own, 1), own, 2));
    }
    sl_tensor_release(x);
    sl_tensor_release(y);
}

static sl_pipeline *must_open(sl_graph *g, const sl_pipeline_options *options) {
    sl_pipeline *p;
    ck_assert_msg(sl_pipeline_open(g, options, &p) == SL_OK, "%s", sl_last_error());
    sl_graph_destroy(g);
    return p;
}

/* ---- Weights ---- */

static sl_value no_weight(sl_graph *g, void *user) {
    (void)g, (void)user;
    return (sl_value){0};
}

static sl_value from_tensor(sl_graph *g, void *user) {
    return sl_graph_weight(g, "w", user);
}

typedef struct source { /* a weight from elsewhere */
    sl_source source;
    uint32_t content[1 << 21]; /* 8 MiB: more than one piece */
    int64_t columns;
    int reads, releases, fails_at;
    size_t most;
} source;

static sl_status read_source(void *user, size_t offset, void *destination, size_t bytes) {
    source *s = user;
    s->most = bytes > s->most ? bytes : s->most;
    if (s->reads++ == s->fails_at)
        return sl_fail(SL_IO, "the disk is gone");
    memcpy(destination, (const char *)s->content + offset, bytes);
    return SL_OK;
}

static void release_source(void *user) {
    ((source *)user)->releases++;
}

static source *make_source(int64_t columns) {
    source *s = calloc(1, sizeof *s);
    ck_assert_ptr_nonnull(s);
    for (size_t e = 0; e < (size_t)columns; e++)
        s->content[e] = g_mix(3, (uint32_t)e);
    s->columns = columns;
    s->fails_at = -1;
    s->source = (sl_source){.release = release_source, .user = s};
    return s;
}

static sl_value from_source(sl_graph *g, void *user) {
    source *s = user;
    return sl_graph_weight_source(g, "w", SL_I32, 2, (int64_t[]){1, s->columns}, &s->source);
}

static uint64_t bytes_of(int device, sl_memory_category category) {
    sl_memory_figures figures;
    ck_assert_int_eq(sl_memory_get((sl_device){SL_CPU, device}, &figures), SL_OK);
    return figures.by_category[category];
}

START_TEST(a_pipeline_of_two_devices_gives_the_bits_of_one) {
    set_devices("2");
    sl_tensor *w = tensor(1, COLUMNS, 9);
    static const char *const places[][2] = {{"cpu:0", "cpu:0"}, {"cpu:0", "cpu:1"}, {"cpu:1", "cpu:0"}};
    for (int i = 0; i < 3; i++)
        for (uint32_t rows = 1; rows < 24; rows += 3) {
            sl_pipeline_options options = {.plan.micro_batch_rows = rows};
            sl_pipeline *p = must_open(two_stages(places[i][0], places[i][1], from_tensor, w), &options);
            check_two_stages(p, sl_tensor_data(w));
            sl_pipeline_close(p, NULL, NULL);
        }
    sl_tensor_release(w);
}
END_TEST

START_TEST(a_tensor_is_used_where_it_lies_and_copied_elsewhere) {
    set_devices("2");
    sl_tensor *w = tensor(1, COLUMNS, 9);
    sl_pipeline *p = must_open(two_stages("cpu:0", "cpu:1", from_tensor, w), NULL);
    ck_assert_uint_eq(bytes_of(0, SL_MEMORY_WEIGHTS), 0);
    ck_assert_uint_ge(bytes_of(1, SL_MEMORY_WEIGHTS), COLUMNS * 4);
    check_two_stages(p, sl_tensor_data(w));
    sl_pipeline_close(p, NULL, NULL);
    ck_assert_uint_eq(bytes_of(1, SL_MEMORY_WEIGHTS), 0);
    sl_tensor_release(w);
}
END_TEST

START_TEST(mapped_memory_is_used_in_place_and_counted) {
    set_devices("2");
    source *s = make_source(COLUMNS);
    s->source.memory = s->content;
    sl_pipeline *p = must_open(two_stages("cpu:0", "cpu:1", from_source, s), NULL);
    ck_assert_uint_eq(bytes_of(0, SL_MEMORY_WEIGHTS), COLUMNS * 4);
    ck_assert_uint_eq(bytes_of(1, SL_MEMORY_WEIGHTS), COLUMNS * 4);
    check_two_stages(p, s->content);
    s->content[0] ^= 1; /* in place: the pipeline sees it */
    check_two_stages(p, s->content);
    ck_assert_int_eq(s->releases, 0);
    sl_pipeline_close(p, NULL, NULL);
    ck_assert_int_eq(s->releases, 1);
    ck_assert_int_eq(s->reads, 0);
    ck_assert_uint_eq(bytes_of(0, SL_MEMORY_WEIGHTS) + bytes_of(1, SL_MEMORY_WEIGHTS), 0);
    free(s);
}
END_TEST

START_TEST(mapped_memory_that_is_not_aligned_is_copied) {
    set_devices("2");
    source *s = make_source(COLUMNS);
    uint32_t content[COLUMNS];
    memcpy(content, s->content, sizeof content);
    char *odd = memmove((char *)s->content + 1, s->content, sizeof content);
    s->source.memory = odd;
    sl_pipeline *p = must_open(two_stages("cpu:0", "cpu:1", from_source, s), NULL);
    odd[0] ^= 1; /* a copy: it does not */
    check_two_stages(p, content);
    sl_pipeline_close(p, NULL, NULL);
    free(s);
}
END_TEST

typedef struct progress {
    uint64_t done, total;
    int calls;
} progress;

static void on_progress(uint64_t done, uint64_t total, void *user) {
    progress *p = user;
    ck_assert_uint_ge(done, p->done);
    ck_assert(p->calls == 0 || total == p->total);
    *p = (progress){done, total, p->calls + 1};
}

START_TEST(a_source_is_read_once_a_device_in_pieces_with_progress) {
    set_devices("2");
    source *s = make_source(1 << 21);
    s->source.read = read_source;
    progress seen = {0};
    sl_pipeline_options options = {.progress = on_progress, .progress_user = &seen};
    sl_pipeline *p = must_open(two_stages("cpu:0", "cpu:1", from_source, s), &options);
    ck_assert_uint_eq(seen.total, 2 * sizeof s->content);
    ck_assert_uint_eq(seen.done, seen.total);
    ck_assert_int_ge(seen.calls, 4);
    ck_assert_uint_le(s->most, 4 << 20);
    int reads = s->reads;
    check_two_stages(p, s->content);
    ck_assert_int_eq(s->reads, reads);
    sl_pipeline_close(p, NULL, NULL);
    free(s);
}
END_TEST

START_TEST(a_source_that_cannot_be_read_fails_by_name_and_leaves_nothing) {
    set_devices("2");
    for (int at = 0; at < 4; at++) {
        source *s = make_source(1 << 21);
        sl_pipeline *p;
        s->source.read = read_source;
        s->fails_at = at;
        sl_graph *g = two_stages("cpu:0", "cpu:1", from_source, s);
        ck_assert_int_eq(sl_pipeline_open(g, NULL, &p), SL_IO);
        ck_assert_ptr_null(p);
        ck_assert_ptr_nonnull(strstr(sl_last_error(), "weight 'w'"));
        ck_assert_ptr_nonnull(strstr(sl_last_error(), "the disk is gone"));
        sl_graph_destroy(g);
        ck_assert_int_eq(s->releases, 1);
        for (int d = 0; d < 2; d++)
            for (int c = 0; c < SL_MEMORY_CATEGORIES; c++)
                ck_assert_uint_eq(bytes_of(d, (sl_memory_category)c), 0);
        free(s);
    }
}
END_TEST

/* ---- State ---- */

/* Adds its input to what the state holds, and gives that. */
static sl_status add_to_state(sl_lane *lane, const sl_call *call) {
    (void)lane;
    uint32_t *kept = call->states[0].data, *out = call->outputs[0].data;
    const uint32_t *in = call->inputs[0].data;
    for (int64_t r = 0; r < call->outputs[0].shape.dims[0]; r++)
        for (int c = 0; c < COLUMNS; c++)
            out[r * COLUMNS + c] = kept[c] += in[r * COLUMNS + c];
    return SL_OK;
}

START_TEST(a_state_begins_with_zeroes_also_where_memory_is_poisoned) {
    static const sl_op add_op = {
        .name = "add", .attribute_bytes = sizeof(g_attributes), .shape = g_shape, .cpu = add_to_state};
    sl_cpu_options cpu = {.poison = true};
    sl_pipeline_options options = {.cpu = &cpu};
    g_attributes a = {.columns = COLUMNS};
    set_devices("2");
    sl_graph *g = sl_graph_create();
    sl_value x = sl_graph_input(g, "x", SL_I32, SL_ROWS, COLUMNS);
    sl_stage s = sl_graph_stage(g, "sum", "cpu:1");
    sl_state state = sl_graph_state(g, s, "kept", SL_I32, 1, 1, COLUMNS);
    sl_graph_output(g, "y", sl_graph_op1(g, s, &add_op, &a, 1, &x, 1, &state));
    sl_pipeline *p = must_open(g, &options);
    sl_tensor *in = tensor(ROWS, COLUMNS, 7), *out = tensor(ROWS, COLUMNS, 0);
    sl_job *job;
    ck_assert_msg(sl_pipeline_submit(p, &in, &out, NULL, NULL, &job) == SL_OK, "%s", sl_last_error());
    ck_assert_int_eq(sl_job_wait(job, SL_FOREVER), SL_OK);
    sl_job_release(job);
    for (int c = 0; c < COLUMNS; c++) {
        uint32_t sum = 0;
        for (int r = 0; r < ROWS; r++)
            sum += ((const uint32_t *)sl_tensor_data(in))[r * COLUMNS + c];
        ck_assert_uint_eq(((const uint32_t *)sl_tensor_data(out))[(ROWS - 1) * COLUMNS + c], sum);
    }
    sl_pipeline_close(p, NULL, NULL);
    sl_tensor_release(in);
    sl_tensor_release(out);
}
END_TEST

/* ---- Errors of opening ---- */

START_TEST(the_graphs_first_error_comes_out_of_open) {
    set_devices("2");
    sl_pipeline *p;
    sl_graph *g = sl_graph_create();
    sl_graph_stage(g, "front", "cpu:01");
    ck_assert_int_eq(sl_pipeline_open(g, NULL, &p), SL_INVALID);
    ck_assert_ptr_null(p);
    ck_assert_ptr_nonnull(strstr(sl_last_error(), "cpu:01"));
    sl_graph_destroy(g);
    ck_assert_int_eq(sl_pipeline_open(NULL, NULL, &p), SL_INVALID);
    g = sl_graph_create();
    ck_assert_int_eq(sl_pipeline_open(g, NULL, &p), SL_INVALID);
    sl_graph_destroy(g);
}
END_TEST

static void refuses(const sl_pipeline_options *options, const char *word) {
    sl_pipeline *p;
    sl_graph *g = two_stages("cpu:0", "cpu:1", no_weight, NULL);
    ck_assert_int_eq(sl_pipeline_open(g, options, &p), SL_INVALID);
    ck_assert_ptr_null(p);
    ck_assert_msg(strstr(sl_last_error(), word) != NULL, "no '%s': %s", word, sl_last_error());
    sl_graph_destroy(g);
}

START_TEST(options_that_make_no_sense_are_refused_by_name) {
    set_devices("2");
    static const double no_speeds[] = {-1, 0.5, 1e-300, 1e19, INFINITY, NAN};
    for (size_t i = 0; i < sizeof no_speeds / sizeof *no_speeds; i++) {
        refuses(&(sl_pipeline_options){.cpu = &(sl_cpu_options){.operations_per_s = no_speeds[i]}}, "operations_per_s");
        refuses(&(sl_pipeline_options){.cpu = &(sl_cpu_options){.link_bytes_per_s = no_speeds[i]}}, "link_bytes_per_s");
    }
    refuses(&(sl_pipeline_options){.feed = &(sl_feed){0}}, "next");
}
END_TEST

START_TEST(a_piece_of_a_staged_copy_may_be_larger_than_any_value) {
    set_devices("2");
    sl_pipeline_options options = {.plan.staging_bytes = SIZE_MAX, .plan.route = SL_ROUTE_STAGED};
    sl_pipeline_close(must_open(two_stages("cpu:0", "cpu:1", no_weight, NULL), &options), NULL, NULL);
}
END_TEST

START_TEST(a_device_that_is_not_there_is_an_error_that_lists_what_is) {
    set_devices("2");
    sl_pipeline *p;
    static const char *const missing[] = {"cpu:2", "cuda:0"};
    for (int i = 0; i < 2; i++) {
        sl_graph *g = two_stages("cpu:0", missing[i], no_weight, NULL);
        sl_graph *alone = two_stages(missing[i], missing[i], no_weight, NULL);
        ck_assert_int_ne(sl_pipeline_open(g, NULL, &p), SL_OK);
        ck_assert_int_eq(sl_pipeline_open(alone, NULL, &p), SL_NO_DEVICE);
        ck_assert_msg(strstr(sl_last_error(), missing[i]) && strstr(sl_last_error(), "cpu:0"), "%s", sl_last_error());
        sl_graph_destroy(g);
        sl_graph_destroy(alone);
    }
}
END_TEST

/* ---- A thousand lives ---- */

static _Atomic int64_t n_blocks, fails_in; /* fails_in: 1: the next allocation fails; 0: none does */

static bool fails(void) {
    return atomic_load(&fails_in) > 0 && atomic_fetch_sub(&fails_in, 1) == 1;
}

static void *count_allocate(size_t bytes, void *user) {
    (void)user;
    if (fails())
        return NULL;
    atomic_fetch_add(&n_blocks, 1);
    return malloc(bytes);
}

static void *count_reallocate(void *memory, size_t bytes, void *user) {
    (void)user;
    if (fails())
        return NULL;
    atomic_fetch_add(&n_blocks, memory == NULL);
    return realloc(memory, bytes);
}

static void count_release(void *memory, void *user) {
    (void)user;
    atomic_fetch_sub(&n_blocks, 1);
    free(memory);
}

static int entries(const char *folder) {
    DIR *dir = opendir(folder);
    int n = 0;
    ck_assert_ptr_nonnull(dir);
    while (readdir(dir))
        n++;
    closedir(dir);
    return n;
}

static void live_once(sl_tensor *w, int i) {
    sl_pipeline *p = must_open(two_stages("cpu:0", i % 2 ? "cpu:1" : "cpu:0", from_tensor, w), NULL);
    check_two_stages(p, sl_tensor_data(w));
    sl_pipeline_close(p, NULL, NULL);
}

static const sl_allocator counting = {count_allocate, count_reallocate, count_release, NULL};

/* A pipeline's life with the n-th allocation failing; false if it ended well. */
static bool life_fails(sl_graph *g, int n, sl_tensor *x, sl_tensor *y) {
    sl_pipeline *p = NULL;
    sl_job *job = NULL;
    atomic_store(&fails_in, n);
    sl_status status = sl_pipeline_open(g, NULL, &p);
    ck_assert((status == SL_OK) == (p != NULL));
    if (status == SL_OK)
        status = sl_pipeline_submit(p, &x, &y, NULL, NULL, &job);
    if (status == SL_OK)
        status = sl_job_wait(job, SL_FOREVER);
    sl_job_release(job);
    sl_pipeline_close(p, NULL, NULL);
    bool is_over = atomic_exchange(&fails_in, 0) > 0;
    /* Or well, with a worker less in the pool. */
    ck_assert_msg(status == SL_OK || status == SL_OUT_OF_MEMORY, "allocation %d: %s", n, sl_last_error());
    ck_assert(!is_over || status == SL_OK);
    return !is_over;
}

START_TEST(an_allocation_that_fails_anywhere_is_an_error_and_leaves_nothing) {
    sl_set_allocator(&counting);
    set_devices("2");
    sl_tensor *w = tensor(1, COLUMNS, 9), *x = tensor(ROWS, COLUMNS, 7), *y = tensor(ROWS, COLUMNS, 0);
    sl_graph *g = two_stages("cpu:0", "cpu:1", from_tensor, w);
    life_fails(g, 1 << 20, x, y); /* what is kept for the next time */
    int64_t blocks = atomic_load(&n_blocks);
    uint64_t slots = bytes_of(0, SL_MEMORY_SLOTS) + bytes_of(1, SL_MEMORY_SLOTS);
    int n = 1;
    while (life_fails(g, n, x, y)) {
        ck_assert_msg(atomic_load(&n_blocks) == blocks, "allocation %d: %lld blocks are left", n,
                      (long long)(atomic_load(&n_blocks) - blocks));
        ck_assert_uint_eq(bytes_of(0, SL_MEMORY_SLOTS) + bytes_of(1, SL_MEMORY_SLOTS), slots);
        n++;
    }
    printf("%d allocations in a life\n", n - 1);
    ck_assert_int_gt(n, 100);
    sl_graph_destroy(g);
    sl_tensor *all[] = {w, x, y};
    for (int i = 0; i < 3; i++)
        sl_tensor_release(all[i]);
}
END_TEST

START_TEST(a_thousand_lives_leave_nothing_behind) {
    sl_set_allocator(&counting);
    set_devices("2");
    sl_tensor *w = tensor(1, COLUMNS, 9);
    for (int i = 0; i < 4; i++)
        live_once(w, i);
    int64_t blocks = atomic_load(&n_blocks);
    int files = entries("/proc/self/fd"), threads = entries("/proc/self/task");
    for (int i = 0; i < 1000; i++)
        live_once(w, i);
    ck_assert_int_eq(atomic_load(&n_blocks), blocks);
    ck_assert_int_eq(entries("/proc/self/fd"), files);
    ck_assert_int_le(entries("/proc/self/task"), threads);
    sl_tensor_release(w);
}
END_TEST

int main(void) {
    const test_case cases[] = {
        TEST(a_pipeline_of_two_devices_gives_the_bits_of_one),
        TEST(a_tensor_is_used_where_it_lies_and_copied_elsewhere),
        TEST(mapped_memory_is_used_in_place_and_counted),
        TEST(mapped_memory_that_is_not_aligned_is_copied),
        TEST(a_source_is_read_once_a_device_in_pieces_with_progress),
        TEST(a_source_that_cannot_be_read_fails_by_name_and_leaves_nothing),
        TEST(a_state_begins_with_zeroes_also_where_memory_is_poisoned),
        TEST(the_graphs_first_error_comes_out_of_open),
        TEST(options_that_make_no_sense_are_refused_by_name),
        TEST(a_piece_of_a_staged_copy_may_be_larger_than_any_value),
        TEST(a_device_that_is_not_there_is_an_error_that_lists_what_is),
        TEST_FOR(an_allocation_that_fails_anywhere_is_an_error_and_leaves_nothing, 200),
        TEST_FOR(a_thousand_lives_leave_nothing_behind, 200),
    };
    return test_main("pipeline", cases, sizeof cases / sizeof *cases);
}
