/* Claims about the driver, on a plan made by hand, over cpu, sim, and backends that fail: what is enqueued, when jobs
 * end, and what becomes of them when the backend does not do its part. */
#include "hand_plan.h"

static const hand_options on_cpu = {SL_CPU, 3, 2, 8, 4, 0, 0};
static const hand_options on_sim = {SL_SIM, 4, 2, 8, 4, 0, 10};

static sl_job *submit(sl_pipeline *p, sl_tensor *x, sl_tensor *y, uint32_t m) {
    sl_job *job;
    sl_job_options o = {.micro_batches = m};
    ck_assert_msg(sl_pipeline_submit_with(p, &o, &x, &y, NULL, NULL, &job) == SL_OK, "%s", sl_last_error());
    return job;
}

static sl_status end_of(sl_job *job) {
    sl_status status = sl_job_wait(job, SL_FOREVER);
    sl_job_release(job);
    return status;
}

/* ---- What jobs give ---- */

START_TEST(a_job_of_any_rows_and_parts_is_right) {
    sl_pipeline *p = hand_open(&on_cpu, NULL, NULL);
    for (int rows = 1; rows < 40; rows++)
        for (uint32_t m = 1; m < 44; m += 7) {
            sl_tensor *x = hand_tensor(rows, 5), *y = hand_tensor(rows, 0);
            ck_assert_int_eq(end_of(submit(p, x, y, m)), SL_OK);
            const int32_t *out = sl_tensor_data(y);
            for (int r = 0; r < rows; r++)
                ck_assert_int_eq(out[r], hand_result(5 + r, 3));
            sl_tensor_release(x);
            sl_tensor_release(y);
        }
    sl_pipeline_close(p, NULL, NULL);
}
END_TEST

START_TEST(several_jobs_are_under_way_and_all_are_right) {
    enum { JOBS = 200, ROWS = 13 };
    sl_pipeline *p = hand_open(&on_cpu, NULL, NULL);
    sl_tensor *x[JOBS], *y[JOBS];
    sl_job *jobs[JOBS];
    for (int j = 0; j < JOBS; j++) {
        x[j] = hand_tensor(ROWS, 100 * j);
        y[j] = hand_tensor(ROWS, 0);
        jobs[j] = submit(p, x[j], y[j], 4);
    }
    for (int j = 0; j < JOBS; j++) {
        ck_assert_int_eq(end_of(jobs[j]), SL_OK);
        const int32_t *out = sl_tensor_data(y[j]);
        for (int r = 0; r < ROWS; r++)
            ck_assert_int_eq(out[r], hand_result(100 * j + r, 3));
        sl_tensor_release(x[j]);
        sl_tensor_release(y[j]);
    }
    sl_pipeline_counts counts;
    sl_pipeline_get_counts(p, &counts);
    ck_assert_uint_eq(counts.micro_batches, 4 * JOBS);
    sl_pipeline_close(p, NULL, NULL);
}
END_TEST

START_TEST(an_op_that_fails_ends_its_job_alone) {
    sl_pipeline *p = hand_open(&on_cpu, NULL, NULL);
    sl_tensor *x = hand_tensor(30, 1), *bad = hand_tensor(30, 1), *y = hand_tensor(30, 0), *z = hand_tensor(30, 0);
    ((int32_t *)sl_tensor_data(bad))[11] = -77;
    for (int round = 0; round < 20; round++) {
        sl_job *first = submit(p, bad, y, 10), *second = submit(p, x, z, 10);
        ck_assert_int_eq(sl_job_wait(first, SL_FOREVER), SL_STAGE_FAILED);
        char expected[160];
        snprintf(expected, sizeof expected, "stage 'stage 0', op 'bump', micro-batch ");
        ck_assert_msg(strncmp(sl_last_error(), expected, strlen(expected)) == 0, "%s", sl_last_error());
        ck_assert_ptr_nonnull(strstr(sl_last_error(), "cpu:0: it is -77"));
        sl_job_release(first);
        ck_assert_int_eq(end_of(second), SL_OK);
        ck_assert_int_eq(((int32_t *)sl_tensor_data(z))[29], hand_result(30, 3));
    }
    sl_tensor_release(x);
    sl_tensor_release(bad);
    sl_tensor_release(y);
    sl_tensor_release(z);
    sl_pipeline_close(p, NULL, NULL);
}
END_TEST

START_TEST(a_failure_that_is_seen_when_nothing_is_under_way_ends_the_job) {
    hand_options o = on_cpu;
    o.credits = 1;
    sl_pipeline *p = hand_open(&o, NULL, NULL);
    sl_tensor *bad = hand_tensor(30, 1), *y = hand_tensor(30, 0);
    for (int at = 0; at < 30; at++) {
        int32_t *data = sl_tensor_data(bad), before = data[at];
        data[at] = -77;
        ck_assert_int_eq(end_of(submit(p, bad, y, 30)), SL_STAGE_FAILED);
        data[at] = before;
    }
    ck_assert_int_eq(end_of(submit(p, bad, y, 30)), SL_OK);
    sl_tensor_release(bad);
    sl_tensor_release(y);
    sl_pipeline_close(p, NULL, NULL);
}
END_TEST

/* ---- Time, in simulation ---- */

static uint64_t virtual_ns(sl_pipeline *p) {
    sl_pipeline_counts counts;
    sl_pipeline_get_counts(p, &counts);
    return counts.wall_ns;
}

static uint64_t makespan(const hand_options *o, int n_jobs, int64_t rows) {
    static const sl_pipeline_options options = {
        .sim_topology = "{\"links\": {\"latency_ns\": 2, \"each\": [{\"to\": \"host\", \"both_ways\": true, "
                        "\"latency_ns\": 0}]}}"};
    sl_pipeline *p = hand_open(o, &options, NULL);
    sl_tensor *x = hand_tensor(rows, 0);
    sl_job *job = NULL;
    for (int j = 0; j < n_jobs; j++) {
        sl_job_release(job);
        job = submit(p, x, x, 0);
    }
    ck_assert_int_eq(end_of(job), SL_OK);
    uint64_t ns = virtual_ns(p);
    sl_tensor_release(x);
    sl_pipeline_close(p, NULL, NULL);
    return ns;
}

START_TEST(a_chain_takes_its_closed_form) {
    hand_options o = on_sim;
    for (uint64_t m = 1; m <= 40; m++)
        ck_assert_uint_eq(makespan(&o, 1, (int64_t)(8 * m)), 4 * 10 + 3 * 2 + (m - 1) * 10);
    o.depth = 1;
    ck_assert_uint_eq(makespan(&o, 1, 64), 130);
}
END_TEST

START_TEST(the_next_job_follows_without_a_bubble) {
    ck_assert_uint_eq(makespan(&on_sim, 1, 8 * 60), makespan(&on_sim, 60, 8));
    ck_assert_uint_eq(makespan(&on_sim, 1, 8 * 60), makespan(&on_sim, 4, 8 * 15));
}
END_TEST

START_TEST(the_credits_change_no_time) {
    hand_options o = on_sim;
    uint64_t expected = makespan(&o, 1, 400);
    for (o.credits = 1; o.credits < 40; o.credits += 3)
        ck_assert_uint_eq(makespan(&o, 1, 400), expected);
}
END_TEST

/* ---- Backends that fail ---- */

static sli_backend_ops broken;
static const sli_backend_ops *sound;
static int calls_left;
static _Atomic int n_enqueues;

static sl_status enqueue_fails(sli_backend *b, const sli_action *actions, size_t n) {
    return calls_left-- > 0 ? sound->enqueue(b, actions, n) : sl_fail(SL_LOST, "the bus is gone");
}

static sl_status enqueue_forgets(sli_backend *b, const sli_action *actions, size_t n) {
    return calls_left-- > 0 ? sound->enqueue(b, actions, n) : SL_OK;
}

static sl_status enqueue_counts(sli_backend *b, const sli_action *actions, size_t n) {
    atomic_fetch_add(&n_enqueues, 1);
    return sound->enqueue(b, actions, n);
}

static sli_backend *wrap(sli_backend *b, sl_status (*enqueue)(sli_backend *, const sli_action *, size_t)) {
    sound = b->ops;
    broken = *sound;
    broken.enqueue = enqueue;
    b->ops = &broken;
    return b;
}

static sli_backend *failing(sli_backend *b) {
    return wrap(b, enqueue_fails);
}

static sli_backend *forgetting(sli_backend *b) {
    return wrap(b, enqueue_forgets);
}

static sli_backend *counting(sli_backend *b) {
    return wrap(b, enqueue_counts);
}

static void expect_lost(const hand_options *o, int calls, bool forgets, const char *word) {
    sl_pipeline_options options = {.patience_ns = 20000000};
    calls_left = calls;
    sl_pipeline *p = hand_open(o, &options, forgets ? forgetting : failing);
    sl_status expected = forgets ? SL_STALLED : SL_LOST;
    sl_tensor *x = hand_tensor(4000, 0), *y = hand_tensor(4000, 0);
    sl_job *first = submit(p, x, y, 0), *second, *late;
    sl_status submitted = sl_pipeline_submit(p, &x, &y, NULL, NULL, &second);
    ck_assert(submitted == SL_OK || submitted == expected);
    ck_assert_int_eq(sl_job_wait(first, SL_FOREVER), expected);
    ck_assert_msg(strstr(sl_last_error(), word) != NULL, "%s", sl_last_error());
    if (submitted == SL_OK)
        ck_assert_int_eq(sl_job_wait(second, SL_FOREVER), expected);
    ck_assert_int_eq(sl_pipeline_submit(p, &x, &y, NULL, NULL, &late), expected);
    ck_assert_ptr_null(late);
    ck_assert_ptr_nonnull(strstr(sl_last_error(), "the pipeline has failed"));
    ck_assert_ptr_nonnull(strstr(sl_last_error(), word));
    sl_pipeline_close(p, NULL, NULL);
    const char *message;
    sl_status status;
    ck_assert(sl_job_ended(first, &status, &message));
    ck_assert_int_eq(status, expected);
    ck_assert_ptr_nonnull(strstr(message, word));
    sl_job_release(first);
    sl_job_release(second);
    sl_tensor_release(x);
    sl_tensor_release(y);
}

START_TEST(a_lost_backend_ends_every_job) {
    for (int calls = 0; calls < 30; calls += calls < 12 ? 1 : 6) {
        expect_lost(&on_cpu, calls, false, "the bus is gone");
        expect_lost(&on_sim, calls, false, "the bus is gone");
    }
}
END_TEST

START_TEST(a_backend_that_stands_still_is_a_stall) {
    for (int calls = 0; calls < 4; calls++) {
        expect_lost(&on_cpu, calls, true, "nothing has moved for 20 ms");
        expect_lost(&on_sim, calls, true, "nothing has moved for 20 ms");
    }
}
END_TEST

START_TEST(the_next_pipeline_works_after_a_loss) {
    expect_lost(&on_cpu, 3, false, "gone");
    sl_pipeline *p = hand_open(&on_cpu, NULL, NULL);
    sl_tensor *x = hand_tensor(100, 0), *y = hand_tensor(100, 0);
    ck_assert_int_eq(end_of(submit(p, x, y, 0)), SL_OK);
    ck_assert_int_eq(((int32_t *)sl_tensor_data(y))[99], hand_result(99, 3));
    sl_tensor_release(x);
    sl_tensor_release(y);
    sl_pipeline_close(p, NULL, NULL);
}
END_TEST

/* ---- Steps ---- */

START_TEST(steps_are_handed_over_together_once_lanes_have_work) {
    hand_options o = on_sim;
    o.credits = 64;
    atomic_store(&n_enqueues, 0);
    sl_pipeline *p = hand_open(&o, NULL, counting);
    sl_tensor *x = hand_tensor(8 * 1000, 0);
    ck_assert_int_eq(end_of(submit(p, x, x, 0)), SL_OK);
    ck_assert_int_ge(atomic_load(&n_enqueues), 1000 / 8);
    sl_pipeline_counts counts;
    sl_pipeline_get_counts(p, &counts);
    ck_assert_uint_eq(counts.micro_batches, 1000);
    ck_assert_int_eq(counts.n_devices, 4);
    ck_assert_int_eq(counts.n_links, 5);
    sl_tensor_release(x);
    sl_pipeline_close(p, NULL, NULL);
}
END_TEST

START_TEST(figures_count_what_ran_and_reset) {
    sl_pipeline *p = hand_open(&on_cpu, NULL, NULL);
    sl_tensor *x = hand_tensor(64, 0), *y = hand_tensor(64, 0);
    sl_device_figures d;
    sl_link_figures l;
    for (int round = 0; round < 2; round++) {
        ck_assert_int_eq(end_of(submit(p, x, y, 16)), SL_OK);
        for (int i = 0; i < 3; i++) {
            ck_assert(sl_pipeline_get_device(p, i, &d));
            ck_assert_int_eq(d.device.index, i);
            ck_assert_uint_eq(d.stages, 16);
        }
        ck_assert(sl_pipeline_get_link(p, 1, &l));
        ck_assert_str_eq(l.from, "cpu:0");
        ck_assert_str_eq(l.to, "cpu:1");
        ck_assert_uint_eq(l.copies, 16);
        ck_assert_uint_eq(l.bytes, 64 * 4);
        ck_assert(sl_pipeline_get_link(p, 0, &l));
        ck_assert_str_eq(l.from, "host");
        sl_pipeline_reset_figures(p);
        ck_assert(sl_pipeline_get_device(p, 0, &d));
        ck_assert_uint_eq(d.stages, 0);
    }
    ck_assert(!sl_pipeline_get_device(p, 3, &d));
    ck_assert(!sl_pipeline_get_device(p, -1, &d));
    ck_assert(!sl_pipeline_get_link(p, 4, &l));
    sl_tensor_release(x);
    sl_tensor_release(y);
    sl_pipeline_close(p, NULL, NULL);
}
END_TEST

int main(void) {
    const test_case cases[] = {
        TEST(a_job_of_any_rows_and_parts_is_right),
        TEST(several_jobs_are_under_way_and_all_are_right),
        TEST(an_op_that_fails_ends_its_job_alone),
        TEST(a_failure_that_is_seen_when_nothing_is_under_way_ends_the_job),
        TEST(a_chain_takes_its_closed_form),
        TEST(the_next_job_follows_without_a_bubble),
        TEST(the_credits_change_no_time),
        TEST(a_lost_backend_ends_every_job),
        TEST(a_backend_that_stands_still_is_a_stall),
        TEST(the_next_pipeline_works_after_a_loss),
        TEST(steps_are_handed_over_together_once_lanes_have_work),
        TEST(figures_count_what_ran_and_reset),
    };
    return test_main("driver", cases, sizeof cases / sizeof *cases);
}
