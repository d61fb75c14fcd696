/* Claims about the life of a job: one end, waiting, cancelling, the queue's limit, what is refused, closing. */
#include "hand_plan.h"
#include <pthread.h>

static const hand_options shape = {SL_CPU, 2, 2, 4, 4, 0, 0};

typedef struct heard { /* by callbacks */
    _Atomic int calls;
    _Atomic int status;
    char message[512];
} heard;

static void hear(sl_job *job, sl_status status, const char *message, void *user) {
    heard *h = user;
    sl_status told;
    const char *text;
    ck_assert(sl_job_ended(job, &told, &text));
    ck_assert_int_eq(told, status);
    ck_assert_str_eq(text, message);
    snprintf(h->message, sizeof h->message, "%s", message);
    atomic_store(&h->status, (int)status);
    atomic_fetch_add(&h->calls, 1);
}

static sl_job *submit(sl_pipeline *p, sl_tensor *x, sl_tensor *y, heard *h) {
    sl_job *job;
    ck_assert_msg(sl_pipeline_submit(p, &x, &y, h ? hear : NULL, h, &job) == SL_OK, "%s", sl_last_error());
    return job;
}

static sl_tensor *holding(int64_t rows) {
    sl_tensor *t = hand_tensor(rows, 0);
    ((int32_t *)sl_tensor_data(t))[0] = -88;
    atomic_store(&hand_holds, 1);
    return t;
}

START_TEST(a_job_ends_once_with_status_and_message) {
    sl_pipeline *p = hand_open(&shape, NULL, NULL);
    sl_tensor *x = hand_tensor(9, 3), *bad = hand_tensor(9, -80), *y = hand_tensor(9, 0);
    heard good = {0}, failed = {0};
    sl_job *a = submit(p, x, y, &good), *b = submit(p, bad, y, &failed);
    ck_assert_int_eq(sl_job_wait(a, SL_FOREVER), SL_OK);
    ck_assert_int_eq(sl_job_wait(b, SL_FOREVER), SL_STAGE_FAILED);
    char sentence[512];
    snprintf(sentence, sizeof sentence, "%s", sl_last_error());
    ck_assert_int_eq(sl_job_wait(b, 0), SL_STAGE_FAILED);
    sl_pipeline_close(p, NULL, NULL);
    ck_assert_int_eq(sl_job_wait(b, 0), SL_STAGE_FAILED);
    ck_assert_str_eq(sl_last_error(), sentence);
    ck_assert_int_eq(good.calls, 1);
    ck_assert_int_eq(good.status, SL_OK);
    ck_assert_str_eq(good.message, "");
    ck_assert_int_eq(failed.calls, 1);
    ck_assert_int_eq(failed.status, SL_STAGE_FAILED);
    ck_assert_str_eq(failed.message, sentence);
    sl_job_release(a);
    sl_job_release(b);
    sl_tensor_release(x);
    sl_tensor_release(bad);
    sl_tensor_release(y);
}
END_TEST

START_TEST(a_wait_has_a_limit_and_the_job_goes_on) {
    sl_pipeline *p = hand_open(&shape, NULL, NULL);
    sl_tensor *x = holding(9), *y = hand_tensor(9, 0);
    sl_job *job = submit(p, x, y, NULL);
    sl_status status = SL_BUSY;
    ck_assert_int_eq(sl_job_wait(job, 0), SL_TIMED_OUT);
    ck_assert_int_eq(sl_job_wait(job, 3000000), SL_TIMED_OUT);
    ck_assert_ptr_nonnull(strstr(sl_last_error(), "within 3 ms"));
    ck_assert(!sl_job_ended(job, &status, NULL));
    ck_assert_int_eq(status, SL_BUSY);
    atomic_store(&hand_holds, 0);
    ck_assert_int_eq(sl_job_wait(job, SL_FOREVER), SL_OK);
    sl_job_release(job);
    sl_tensor_release(x);
    sl_tensor_release(y);
    sl_pipeline_close(p, NULL, NULL);
}
END_TEST

START_TEST(a_released_job_goes_on_and_calls_back) {
    sl_pipeline *p = hand_open(&shape, NULL, NULL);
    sl_tensor *x = hand_tensor(50, 3), *y = hand_tensor(50, 0);
    heard h = {0};
    for (int i = 0; i < 100; i++) {
        if (i % 2)
            sl_job_release(submit(p, x, y, &h));
        else
            ck_assert_int_eq(sl_pipeline_submit(p, &x, &y, hear, &h, NULL), SL_OK);
    }
    sl_job *last = submit(p, x, y, NULL);
    ck_assert_int_eq(sl_job_wait(last, SL_FOREVER), SL_OK);
    sl_job_release(last);
    sl_job_release(NULL);
    sl_pipeline_close(p, NULL, NULL);
    ck_assert_int_eq(h.calls, 100);
    ck_assert_int_eq(((int32_t *)sl_tensor_data(y))[49], hand_result(52, 2));
    sl_tensor_release(x);
    sl_tensor_release(y);
}
END_TEST

START_TEST(the_queue_has_a_limit) {
    const sl_pipeline_options options = {.queue_limit = 3};
    sl_pipeline *p = hand_open(&shape, &options, NULL);
    sl_tensor *x = holding(4 * 50), *small = hand_tensor(1, 0), *y = hand_tensor(4 * 50, 0), *z = hand_tensor(1, 0);
    sl_job *jobs[5] = {submit(p, x, y, NULL)};
    while (atomic_load(&p->queued)) /* its turn has come; it holds all credits */
        sched_yield();
    for (int i = 1; i < 4; i++)
        jobs[i] = submit(p, small, z, NULL);
    ck_assert_int_eq(sl_pipeline_submit(p, &small, &z, NULL, NULL, &jobs[4]), SL_BUSY);
    ck_assert_ptr_null(jobs[4]);
    ck_assert_ptr_nonnull(strstr(sl_last_error(), "3 jobs"));
    atomic_store(&hand_holds, 0);
    for (int i = 0; i < 4; i++) {
        ck_assert_int_eq(sl_job_wait(jobs[i], SL_FOREVER), SL_OK);
        sl_job_release(jobs[i]);
    }
    sl_job *again = submit(p, small, z, NULL);
    ck_assert_int_eq(sl_job_wait(again, SL_FOREVER), SL_OK);
    sl_job_release(again);
    sl_tensor_release(x);
    sl_tensor_release(y);
    sl_tensor_release(z);
    sl_tensor_release(small);
    sl_pipeline_close(p, NULL, NULL);
}
END_TEST

START_TEST(a_cancelled_job_that_waits_ends_before_its_turn) {
    sl_pipeline *p = hand_open(&shape, NULL, NULL);
    sl_tensor *x = holding(4 * 50), *small = hand_tensor(1, 7), *y = hand_tensor(4 * 50, 0), *z = hand_tensor(1, 0);
    heard h = {0};
    sl_job *first = submit(p, x, y, NULL), *waiting = submit(p, small, z, &h);
    sl_job_cancel(waiting);
    sl_job_cancel(waiting);
    sl_job_cancel(first);
    atomic_store(&hand_holds, 0);
    ck_assert_int_eq(sl_job_wait(waiting, SL_FOREVER), SL_CANCELLED);
    ck_assert_ptr_nonnull(strstr(sl_last_error(), "the job was cancelled"));
    ck_assert_int_eq(((int32_t *)sl_tensor_data(z))[0], 0);
    ck_assert_int_eq(sl_job_wait(first, SL_FOREVER), SL_CANCELLED);
    sl_job *next = submit(p, small, z, NULL);
    ck_assert_int_eq(sl_job_wait(next, SL_FOREVER), SL_OK);
    ck_assert_int_eq(((int32_t *)sl_tensor_data(z))[0], hand_result(7, 2));
    sl_job_cancel(next);
    ck_assert_int_eq(sl_job_wait(next, 0), SL_OK);
    sl_pipeline_close(p, NULL, NULL);
    ck_assert_int_eq(h.calls, 1);
    ck_assert_int_eq(h.status, SL_CANCELLED);
    sl_job_cancel(next);
    sl_job_release(first);
    sl_job_release(waiting);
    sl_job_release(next);
    sl_tensor_release(x);
    sl_tensor_release(y);
    sl_tensor_release(z);
    sl_tensor_release(small);
}
END_TEST

START_TEST(closing_cancels_what_has_not_ended_and_calls_back_first) {
    for (int round = 0; round < 30; round++) {
        sl_pipeline *p = hand_open(&shape, NULL, NULL);
        sl_tensor *x = hand_tensor(400, 7), *y = hand_tensor(400, 0);
        heard h[8] = {0};
        sl_job *jobs[8];
        for (int i = 0; i < 8; i++)
            jobs[i] = submit(p, x, y, &h[i]);
        if (round % 3 == 0)
            sl_job_wait(jobs[round % 8], SL_FOREVER);
        sl_pipeline_close(p, NULL, NULL);
        for (int i = 0; i < 8; i++) {
            sl_status status;
            ck_assert_int_eq(h[i].calls, 1);
            ck_assert(sl_job_ended(jobs[i], &status, NULL));
            ck_assert_int_eq(h[i].status, status);
            ck_assert(status == SL_OK || status == SL_CANCELLED);
            if (status == SL_CANCELLED)
                ck_assert_str_eq(h[i].message, "the pipeline was closed");
            sl_job_release(jobs[i]);
        }
        sl_tensor_release(x);
        sl_tensor_release(y);
    }
}
END_TEST

/* ---- What is refused ---- */

static void refused(sl_pipeline *p, sl_tensor *x, sl_tensor *y, const char *words[3]) {
    sl_job *job;
    ck_assert_int_eq(sl_pipeline_submit(p, &x, &y, NULL, NULL, &job), SL_INVALID);
    ck_assert_ptr_null(job);
    for (int i = 0; i < 3; i++)
        ck_assert_msg(strstr(sl_last_error(), words[i]) != NULL, "'%s' is not in: %s", words[i], sl_last_error());
}

static sl_tensor *tensor_of(sl_dtype dtype, int rank, int64_t rows, int64_t columns) {
    sl_tensor *t;
    int64_t dims[] = {rows, columns};
    ck_assert_int_eq(sl_tensor_create((sl_device){SL_CPU, 1}, dtype, rank, dims, 0, &t), SL_OK);
    return t;
}

START_TEST(a_job_with_wrong_tensors_is_refused_by_name) {
    sl_pipeline *p = hand_open(&shape, NULL, NULL);
    sl_tensor *good = hand_tensor(3, 0), *types = tensor_of(SL_F32, 2, 3, 1), *rank = tensor_of(SL_I32, 1, 3, 1),
              *columns = tensor_of(SL_I32, 2, 3, 2), *none = tensor_of(SL_I32, 2, 0, 1),
              *four = tensor_of(SL_I32, 2, 4, 1);
    refused(p, NULL, good, (const char *[]){"input 'x'", "NULL", "i32 [rows, 1]"});
    refused(p, good, NULL, (const char *[]){"output 'y'", "NULL", "i32 [rows, 1]"});
    refused(p, types, good, (const char *[]){"input 'x'", "f32 [3, 1]", "i32 [rows, 1]"});
    refused(p, rank, good, (const char *[]){"input 'x'", "i32 [3]", "i32 [rows, 1]"});
    refused(p, columns, good, (const char *[]){"input 'x'", "i32 [3, 2]", "i32 [rows, 1]"});
    refused(p, none, good, (const char *[]){"input 'x'", "i32 [0, 1]", "i32 [rows, 1]"});
    refused(p, good, four, (const char *[]){"output 'y'", "4 'rows'", "3"});
    sl_job_options segments = {.n_segments = 1, .segments = &(sl_segment){0, 0, 0, 3}};
    ck_assert_int_eq(sl_pipeline_submit_with(p, &segments, &good, &good, NULL, NULL, NULL), SL_INVALID);
    segments.segments = NULL;
    ck_assert_int_eq(sl_pipeline_submit_with(p, &segments, &good, &good, NULL, NULL, NULL), SL_INVALID);
    sl_job *job;
    ck_assert_int_eq(sl_job_begin(p, NULL, NULL, &job), SL_INVALID);
    sl_job *fine = submit(p, good, good, NULL);
    ck_assert_int_eq(sl_job_wait(fine, SL_FOREVER), SL_OK);
    sl_job_release(fine);
    sl_pipeline_close(p, NULL, NULL);
    sl_tensor *all[] = {good, types, rank, columns, none, four};
    for (int i = 0; i < 6; i++)
        sl_tensor_release(all[i]);
}
END_TEST

START_TEST(a_simulation_takes_tensors_of_a_shape_alone) {
    hand_options o = shape;
    o.kind = SL_SIM;
    sl_pipeline *p = hand_open(&o, NULL, NULL);
    sl_tensor *x;
    ck_assert_int_eq(sl_tensor_create((sl_device){SL_SIM, 0}, SL_I32, 2, (int64_t[]){9, 1}, 0, &x), SL_OK);
    sl_job *job;
    ck_assert_msg(sl_pipeline_submit(p, &x, NULL, NULL, NULL, &job) == SL_OK, "%s", sl_last_error());
    ck_assert_int_eq(sl_job_wait(job, SL_FOREVER), SL_OK);
    sl_job_release(job);
    sl_tensor_release(x);
    sl_pipeline_close(p, NULL, NULL);
}
END_TEST

int main(void) {
    const test_case cases[] = {
        TEST(a_job_ends_once_with_status_and_message),
        TEST(a_wait_has_a_limit_and_the_job_goes_on),
        TEST(a_released_job_goes_on_and_calls_back),
        TEST(the_queue_has_a_limit),
        TEST(a_cancelled_job_that_waits_ends_before_its_turn),
        TEST(closing_cancels_what_has_not_ended_and_calls_back_first),
        TEST(a_job_with_wrong_tensors_is_refused_by_name),
        TEST(a_simulation_takes_tensors_of_a_shape_alone),
    };
    return test_main("job", cases, sizeof cases / sizeof *cases);
}
