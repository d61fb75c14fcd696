/* Claims about what becomes of jobs and pipelines when devices and links misbehave: each fault of the CPU devices ends
 * what it must with a sentence that says where, the results of the others stay right, and the next pipeline in the same
 * process works. A chain of three stages on three devices, with a skip from the first to the last. */
#include "executor.h"
#include "random_graph.h"

enum { COLUMNS = 16, ROWS = 120 };

static const char *const names[] = {"front", "middle", "back"};

static sl_graph *chain_of_three(void) {
    sl_graph *g = sl_graph_create();
    sl_value v = sl_graph_input(g, "x", SL_I32, SL_ROWS, COLUMNS), first = v;
    for (int j = 0; j < 3; j++) {
        sl_stage s = sl_graph_stage_on(g, names[j], (sl_device){SL_CPU, j});
        g_attributes a = {.salt = (uint32_t)j, .columns = COLUMNS};
        sl_value in[] = {v, first};
        v = sl_graph_op1(g, s, &g_mix_op, &a, j == 2 ? 2 : 1, in, 0, NULL);
        first = j == 0 ? v : first;
    }
    sl_graph_output(g, "y", v);
    return g;
}

static uint32_t result_of(uint32_t x) {
    uint32_t front = g_mix(0, x), middle = g_mix(1, front);
    return g_mix(g_mix(2, middle), front);
}

typedef struct fixture {
    sl_tensor *x, *y;
    sl_pipeline_options options;
    sl_cpu_options cpu;
} fixture;

static sl_tensor *tensor(uint32_t seed) {
    sl_tensor *t;
    ck_assert_msg(sl_tensor_create((sl_device){SL_CPU, 0}, SL_I32, 2, (int64_t[]){ROWS, COLUMNS}, 0, &t) == SL_OK, "%s",
                  sl_last_error());
    for (int e = 0; e < ROWS * COLUMNS; e++)
        ((uint32_t *)sl_tensor_data(t))[e] = g_mix(seed, (uint32_t)e);
    return t;
}

static void set(fixture *f) {
    sl_setting_set("SLUICE_CPU_DEVICES", "3");
    *f = (fixture){.options = {.patience_ns = 100000000, .plan = {.micro_batch_rows = 4}}};
    f->options.cpu = &f->cpu;
    f->cpu.faults = "";
    f->x = tensor(5);
    f->y = tensor(0);
}

static void strike(fixture *f) {
    sl_tensor_release(f->x);
    sl_tensor_release(f->y);
}

static sl_status open_chain(fixture *f, const char *faults, sl_pipeline **p) {
    sl_graph *g = chain_of_three();
    f->cpu.faults = faults;
    sl_status status = sl_pipeline_open(g, &f->options, p);
    sl_graph_destroy(g);
    return status;
}

static sl_job *submit(fixture *f, sl_pipeline *p) {
    sl_job *job;
    memset(sl_tensor_data(f->y), 0, ROWS * COLUMNS * 4);
    ck_assert_msg(sl_pipeline_submit(p, &f->x, &f->y, NULL, NULL, &job) == SL_OK, "%s", sl_last_error());
    return job;
}

static void check_result(const fixture *f) {
    const uint32_t *x = sl_tensor_data(f->x), *y = sl_tensor_data(f->y);
    for (int e = 0; e < ROWS * COLUMNS; e++)
        ck_assert_uint_eq(y[e], result_of(x[e]));
}

static void run_well(fixture *f, sl_pipeline *p) {
    sl_job *job = submit(f, p);
    ck_assert_msg(sl_job_wait(job, SL_FOREVER) == SL_OK, "%s", sl_last_error());
    sl_job_release(job);
    check_result(f);
}

static void the_next_pipeline_works(fixture *f) {
    sl_pipeline *p;
    ck_assert_msg(open_chain(f, "", &p) == SL_OK, "%s", sl_last_error());
    run_well(f, p);
    sl_pipeline_close(p, NULL, NULL);
}

static void says(const char *text, const char *word) {
    ck_assert_msg(strstr(text, word) != NULL, "'%s' is not in: %s", word, text);
}

static uint64_t allocated(void) {
    uint64_t sum = 0;
    for (int d = 0; d < 3; d++) {
        sl_memory_figures m;
        ck_assert_int_eq(sl_memory_get((sl_device){SL_CPU, d}, &m), SL_OK);
        sum += m.allocated - m.by_category[SL_MEMORY_TENSORS];
    }
    return sum;
}

/* ---- Links ---- */

static _Atomic int warnings;
static char warning[1024];

static void hear(sl_log_level level, const char *message, void *user) {
    (void)user;
    if (level != SL_LOG_WARNING)
        return;
    atomic_fetch_add(&warnings, 1);
    snprintf(warning, sizeof warning, "%s", message);
}

START_TEST(a_link_without_peer_access_is_staged_and_right) {
    fixture f;
    sl_pipeline *p;
    sl_link_figures link;
    set(&f);
    sl_set_log(hear, NULL);
    ck_assert_int_eq(open_chain(&f, "no-peer:0-1", &p), SL_OK);
    run_well(&f, p);
    for (int i = 0; sl_pipeline_get_link(p, i, &link); i++)
        ck_assert(strcmp(link.from, "cpu:0") || strcmp(link.to, "cpu:1"));
    sl_pipeline_close(p, NULL, NULL);
    ck_assert_int_eq(warnings, 0);
    strike(&f);
}
END_TEST

START_TEST(a_link_that_corrupts_is_staged_with_one_warning) {
    fixture f;
    sl_pipeline *p;
    set(&f);
    sl_set_log(hear, NULL);
    ck_assert_int_eq(open_chain(&f, "corrupt:1-2", &p), SL_OK);
    for (int i = 0; i < 10; i++)
        run_well(&f, p);
    sl_pipeline_close(p, NULL, NULL);
    ck_assert_int_eq(warnings, 1);
    says(warning, "cpu:1");
    says(warning, "cpu:2");
    strike(&f);
}
END_TEST

/* ---- Failing ---- */

START_TEST(an_allocation_that_fails_leaves_nothing_behind) {
    fixture f;
    sl_pipeline *p = NULL;
    char faults[32];
    int n = 0;
    set(&f);
    uint64_t before = allocated();
    do {
        snprintf(faults, sizeof faults, "alloc:%d", ++n);
        sl_status status = open_chain(&f, faults, &p);
        ck_assert(status == SL_OK || status == SL_OUT_OF_MEMORY);
        ck_assert(status == SL_OK || (p == NULL && allocated() == before));
        ck_assert_int_lt(n, 100);
    } while (!p);
    ck_assert_int_gt(n, 3); /* a block a device at least */
    run_well(&f, p);
    sl_pipeline_close(p, NULL, NULL);
    ck_assert_uint_eq(allocated(), before);
    the_next_pipeline_works(&f);
    strike(&f);
}
END_TEST

START_TEST(a_lost_device_ends_every_job_and_the_next_pipeline_works) {
    fixture f;
    sl_pipeline *p;
    char faults[32];
    set(&f);
    for (int n = 1; n <= 10; n++) { /* a job takes 11 calls at least */
        snprintf(faults, sizeof faults, "enqueue:%d", n);
        ck_assert_int_eq(open_chain(&f, faults, &p), SL_OK);
        sl_job *a = submit(&f, p), *b = NULL;
        sl_status second = sl_pipeline_submit(p, &f.x, &f.y, NULL, NULL, &b);
        ck_assert_int_eq(sl_job_wait(a, SL_FOREVER), SL_LOST);
        ck_assert(strlen(sl_last_error()) > 0);
        ck_assert_int_eq(second == SL_OK ? sl_job_wait(b, SL_FOREVER) : second, SL_LOST);
        ck_assert_int_eq(sl_pipeline_submit(p, &f.x, &f.y, NULL, NULL, NULL), SL_LOST);
        says(sl_last_error(), "the pipeline has failed");
        sl_job_release(a);
        sl_job_release(b);
        sl_pipeline_close(p, NULL, NULL);
        the_next_pipeline_works(&f);
    }
    ck_assert_uint_eq(sli_pipelines_abandoned(), 0);
    ck_assert_uint_eq(allocated(), 0);
    strike(&f);
}
END_TEST

START_TEST(a_stage_that_fails_says_which_and_the_pipeline_goes_on) {
    fixture f;
    sl_pipeline *p;
    char faults[32], batch[32];
    set(&f);
    for (int d = 0; d < 3; d++)
        for (int n = 1; n <= 30; n += 7) {
            char device[SL_DEVICE_TEXT];
            snprintf(faults, sizeof faults, "stage:%d:%d", d, n);
            ck_assert_int_eq(open_chain(&f, faults, &p), SL_OK);
            sl_job *job = submit(&f, p);
            ck_assert_int_eq(sl_job_wait(job, SL_FOREVER), SL_STAGE_FAILED);
            says(sl_last_error(), names[d]);
            says(sl_last_error(), sl_device_format((sl_device){SL_CPU, d}, device));
            snprintf(batch, sizeof batch, "micro-batch %d", n - 1);
            says(sl_last_error(), batch);
            sl_job_release(job);
            run_well(&f, p);
            sl_pipeline_close(p, NULL, NULL);
        }
    strike(&f);
}
END_TEST

/* ---- Hanging ---- */

typedef struct hang {
    const char *faults, *culprit, *waits;
} hang;

static void hangs(fixture *f, const hang *h, uint64_t n_before) {
    sl_pipeline *p;
    ck_assert_int_eq(open_chain(f, h->faults, &p), SL_OK);
    sl_job *a = submit(f, p), *b = NULL;
    sl_status second = sl_pipeline_submit(p, &f->x, &f->y, NULL, NULL, &b);
    ck_assert_int_eq(sl_job_wait(a, SL_FOREVER), SL_STALLED);
    char sentence[1024];
    snprintf(sentence, sizeof sentence, "%s", sl_last_error());
    ck_assert_msg(strncmp(sentence, h->culprit, strlen(h->culprit)) == 0, "%s", sentence);
    says(sentence, " has not ended, and nothing has moved for 100 ms");
    says(sentence, h->waits);
    ck_assert_int_eq(second == SL_OK ? sl_job_wait(b, SL_FOREVER) : second, SL_STALLED);
    ck_assert_int_eq(sl_pipeline_submit(p, &f->x, &f->y, NULL, NULL, NULL), SL_STALLED);
    says(sl_last_error(), sentence);
    sl_pipeline_close(p, NULL, NULL);
    ck_assert_uint_eq(sli_pipelines_abandoned(), n_before + 1);
    ck_assert_uint_gt(allocated(), 0); /* what hangs keeps its memory */
    const char *message;
    sl_status status;
    ck_assert(sl_job_ended(a, &status, &message));
    ck_assert_str_eq(message, sentence);
    sl_job_release(a);
    sl_job_release(b);
}

START_TEST(what_hangs_is_named_with_what_waits_and_the_next_pipeline_works) {
    static const hang cases[] = {
        {"hang:0:1", "stage 'front' of micro-batch 0 on cpu:0", "; for it waits "},
        {"hang:1:4", "stage 'middle' of micro-batch 3 on cpu:1", "; for it waits "},
        {"hang:2:30", "stage 'back' of micro-batch 29 on cpu:2", "; for it waits copy"},
        {"hang-link:0-1:5", "copy", "stage 'middle' of micro-batch 4 on cpu:1"},
        {"hang-link:0-2:2", "copy", "stage 'back' of micro-batch 1 on cpu:2"},
    };
    fixture f;
    set(&f);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        hangs(&f, &cases[i], i);
        the_next_pipeline_works(&f);
    }
    strike(&f);
}
END_TEST

START_TEST(tensors_of_a_hung_job_stay_where_they_are) {
    fixture f;
    sl_pipeline *p;
    sl_memory_figures m;
    set(&f);
    ck_assert_int_eq(open_chain(&f, "hang:2:3", &p), SL_OK);
    sl_job *job = submit(&f, p);
    ck_assert_int_eq(sl_job_wait(job, SL_FOREVER), SL_STALLED);
    sl_job_release(job);
    strike(&f);
    sl_pipeline_close(p, NULL, NULL);
    ck_assert_int_eq(sl_memory_get((sl_device){SL_CPU, 0}, &m), SL_OK);
    ck_assert_uint_ge(m.by_category[SL_MEMORY_TENSORS], 2 * ROWS * COLUMNS * 4);
}
END_TEST

START_TEST(a_device_that_is_only_slow_is_no_stall) {
    fixture f;
    sl_pipeline *p;
    set(&f);
    f.options.patience_ns = 200000000;
    sl_graph *g = chain_of_three(); /* each stage takes 20 ms: the whole job far longer than the patience */
    for (int j = 0; j < 3; j++)
        sl_graph_stage_time(g, (sl_stage){j + 1}, 20000000, 0);
    f.options.plan.micro_batch_rows = 8;
    ck_assert_msg(sl_pipeline_open(g, &f.options, &p) == SL_OK, "%s", sl_last_error());
    sl_graph_destroy(g);
    run_well(&f, p);
    sl_pipeline_close(p, NULL, NULL);
    strike(&f);
}
END_TEST

START_TEST(an_unknown_fault_is_an_error_that_lists_the_known_ones) {
    fixture f;
    sl_pipeline *p;
    set(&f);
    ck_assert_int_eq(open_chain(&f, "fire:0", &p), SL_INVALID);
    says(sl_last_error(), "fire");
    says(sl_last_error(), "hang");
    strike(&f);
}
END_TEST

int main(void) {
    const test_case cases[] = {
        TEST(a_link_without_peer_access_is_staged_and_right),
        TEST(a_link_that_corrupts_is_staged_with_one_warning),
        TEST(an_allocation_that_fails_leaves_nothing_behind),
        TEST(a_lost_device_ends_every_job_and_the_next_pipeline_works),
        TEST(a_stage_that_fails_says_which_and_the_pipeline_goes_on),
        TEST(what_hangs_is_named_with_what_waits_and_the_next_pipeline_works),
        TEST(tensors_of_a_hung_job_stay_where_they_are),
        TEST(a_device_that_is_only_slow_is_no_stall),
        TEST(an_unknown_fault_is_an_error_that_lists_the_known_ones),
    };
    return test_main("faults", cases, sizeof cases / sizeof *cases);
}
