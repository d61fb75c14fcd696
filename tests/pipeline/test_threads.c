/* Eight threads submit to one pipeline, wait, cancel, and let go, while its queue is short: every job that was taken
 * ends once, and what ended well is right. */
#include "random_graph.h"
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

enum { THREADS = 8, COLUMNS = 3 };

static sl_pipeline *pipeline;
static _Atomic uint64_t n_taken, n_ended, n_busy, n_cancelled, n_good;

static void hear(sl_job *job, sl_status status, const char *message, void *user) {
    (void)job, (void)message, (void)user;
    atomic_fetch_add(&n_ended, 1);
    atomic_fetch_add(status == SL_OK ? &n_good : &n_cancelled, 1);
}

static void open_pipeline(void) {
    ck_assert_int_eq(sl_setting_set("SLUICE_CPU_DEVICES", "2"), SL_OK);
    sl_graph *g = sl_graph_create();
    sl_value v = sl_graph_input(g, "x", SL_I32, SL_ROWS, COLUMNS);
    for (uint32_t j = 0; j < 3; j++) {
        char name[8];
        snprintf(name, sizeof name, "s%u", j);
        g_attributes a = {.salt = j, .columns = COLUMNS};
        v = sl_graph_op1(g, sl_graph_stage(g, name, j == 1 ? "cpu:1" : "cpu:0"), &g_mix_op, &a, 1, &v, 0, NULL);
    }
    sl_graph_output(g, "y", v);
    sl_pipeline_options options = {.queue_limit = 3, .plan.micro_batch_rows = 4};
    ck_assert_msg(sl_pipeline_open(g, &options, &pipeline) == SL_OK, "%s", sl_last_error());
    sl_graph_destroy(g);
}

static sl_tensor *rows_of(int64_t n, uint64_t *seed) {
    sl_tensor *x;
    ck_assert_int_eq(sl_tensor_create((sl_device){SL_CPU, 0}, SL_I32, 2, (int64_t[]){n, COLUMNS}, 0, &x), SL_OK);
    for (int64_t e = 0; e < n * COLUMNS; e++)
        ((uint32_t *)sl_tensor_data(x))[e] = (uint32_t)test_random(seed);
    return x;
}

static void check(const sl_tensor *x, const sl_tensor *y) {
    const uint32_t *in = sl_tensor_data(x), *out = sl_tensor_data(y);
    for (size_t e = 0; e < sl_tensor_bytes(x) / 4; e++)
        ck_assert_uint_eq(out[e], g_mix(2, g_mix(1, g_mix(0, in[e]))));
}

static void one_job(uint64_t *seed) {
    int64_t n = 1 + (int64_t)test_below(seed, 40);
    sl_tensor *x = rows_of(n, seed), *y = rows_of(n, seed);
    sl_job *job;
    sl_status status;
    while ((status = sl_pipeline_submit(pipeline, &x, &y, hear, NULL, &job)) == SL_BUSY) {
        atomic_fetch_add(&n_busy, 1);
        sched_yield();
    }
    ck_assert_int_eq(status, SL_OK);
    atomic_fetch_add(&n_taken, 1);
    bool cancels = test_below(seed, 3) == 0;
    for (uint64_t spin = test_below(seed, 3000); cancels && spin > 0; spin--)
        atomic_load(&n_taken);
    if (cancels)
        sl_job_cancel(job);
    if (test_below(seed, 4) == 0)
        sl_job_wait(job, test_below(seed, 20000)); /* perhaps too short */
    status = sl_job_wait(job, SL_FOREVER);
    ck_assert(status == SL_OK || (cancels && status == SL_CANCELLED));
    if (status == SL_OK)
        check(x, y);
    sl_job_release(job);
    sl_tensor_release(x);
    sl_tensor_release(y);
}

static void *work(void *arg) {
    uint64_t seed = (uint64_t)(uintptr_t)arg;
    for (int i = test_cases(3000) / THREADS; i >= 0; i--)
        one_job(&seed);
    return NULL;
}

START_TEST(eight_threads_submit_and_cancel) {
    pthread_t threads[THREADS];
    uint64_t seed = test_seed();
    open_pipeline();
    for (int t = 0; t < THREADS; t++)
        ck_assert_int_eq(pthread_create(&threads[t], NULL, work, (void *)(uintptr_t)test_random(&seed)), 0);
    for (int t = 0; t < THREADS; t++)
        pthread_join(threads[t], NULL);
    sl_pipeline_close(pipeline, NULL, NULL);
    printf("%llu jobs, %llu times busy, %llu cancelled\n", (unsigned long long)n_taken, (unsigned long long)n_busy,
           (unsigned long long)n_cancelled);
    ck_assert_uint_eq(n_ended, n_taken);
    ck_assert_uint_eq(n_good + n_cancelled, n_taken);
    ck_assert_uint_gt(n_good, 0);
}
END_TEST

int main(void) {
    const test_case cases[] = {TEST_FOR(eight_threads_submit_and_cancel, 200)};
    return test_main("threads", cases, sizeof cases / sizeof *cases);
}
