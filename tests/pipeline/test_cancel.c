/* Claims about a cancel at every point of a job's life: it ends once, soon, and touches nobody else; a conversation
 * goes on from where it was. The point is chosen by counting: the k-th call of an op cancels. */
#include "random_graph.h"
#include <sched.h>
#include <stdatomic.h>

enum { COLUMNS = 4, PLACE = 1 };

static _Atomic int n_calls, cancel_at; /* of the op "count"; 0: never */
static sl_job *victim;                 /* written by its submit, before it can run */

static sl_status count_rows(sl_lane *lane, const sl_call *call) {
    if (atomic_fetch_add(&n_calls, 1) + 1 == atomic_load(&cancel_at))
        sl_job_cancel(victim);
    return g_mix_rows(lane, call);
}

static const sl_op count_op = {
    .name = "count", .attribute_bytes = sizeof(g_attributes), .shape = g_shape, .cpu = count_rows};

/* x -> count on cpu:0 -> keep on cpu:1 -> count on cpu:2 -> y */
static sl_pipeline *open_conversation(uint32_t credits) {
    sl_graph *g = sl_graph_create();
    g_attributes a = {.salt = 1, .columns = COLUMNS};
    sl_value v = sl_graph_input(g, "x", SL_I32, SL_ROWS, COLUMNS);
    v = sl_graph_op1(g, sl_graph_stage(g, "in", "cpu:0"), &count_op, &a, 1, &v, 0, NULL);
    sl_stage middle = sl_graph_stage(g, "middle", "cpu:1");
    sl_state state = sl_graph_state(g, middle, "kept", SL_I32, G_PLACES, G_LONG, COLUMNS);
    v = sl_graph_op1(g, middle, &g_keep_op, &a, 1, &v, 1, &state);
    v = sl_graph_op1(g, sl_graph_stage(g, "out", "cpu:2"), &count_op, &a, 1, &v, 0, NULL);
    sl_graph_output(g, "y", v);
    sl_pipeline *p;
    sl_pipeline_options options = {.plan = {.micro_batch_rows = 2, .credits = credits}};
    ck_assert_msg(sl_pipeline_open(g, &options, &p) == SL_OK, "%s", sl_last_error());
    sl_graph_destroy(g);
    return p;
}

typedef struct talk { /* a sequence as it should be, and what is said next */
    uint32_t said[G_LONG][COLUMNS];
    int length;
} talk;

static uint32_t expected(const talk *t, int at, int column) {
    uint32_t h = 1;
    for (int q = 0; q <= at; q++)
        h = g_mix(h, g_mix(1, t->said[q][column]));
    return g_mix(1, h);
}

static sl_tensor *rows_of(int n, uint32_t seed) {
    sl_tensor *x;
    ck_assert_int_eq(sl_tensor_create((sl_device){SL_CPU, 0}, SL_I32, 2, (int64_t[]){n, COLUMNS}, 0, &x), SL_OK);
    for (int e = 0; e < n * COLUMNS; e++)
        ((uint32_t *)sl_tensor_data(x))[e] = g_mix(seed, (uint32_t)e);
    return x;
}

static void hear(sl_job *job, sl_status status, const char *message, void *user) {
    (void)job, (void)status, (void)message;
    atomic_fetch_add((_Atomic int *)user, 1);
}

/* Says n rows; they count only if the job ends well. Its status. */
static sl_status say(sl_pipeline *p, talk *t, int n, uint32_t seed, int cancel) {
    sl_tensor *x = rows_of(n, seed), *y = rows_of(n, 0);
    sl_segment segment = {PLACE, t->length, 0, n};
    sl_job_options options = {.segments = &segment, .n_segments = 1};
    _Atomic int ends = 0;
    atomic_store(&n_calls, 0);
    atomic_store(&cancel_at, cancel);
    ck_assert_msg(sl_pipeline_submit_with(p, &options, &x, &y, hear, (void *)&ends, &victim) == SL_OK, "%s",
                  sl_last_error());
    sl_status status = sl_job_wait(victim, SL_FOREVER);
    ck_assert(status == SL_OK || strcmp(sl_last_error(), "the job was cancelled") == 0);
    while (!atomic_load(&ends))
        sched_yield();
    if (status == SL_OK) {
        memcpy(t->said[t->length], sl_tensor_data(x), (size_t)n * COLUMNS * 4);
        t->length += n;
        for (int e = 0; e < n * COLUMNS; e++)
            ck_assert_uint_eq(((uint32_t *)sl_tensor_data(y))[e],
                              expected(t, t->length - n + e / COLUMNS, e % COLUMNS));
    }
    ck_assert_int_eq(atomic_load(&ends), 1);
    sl_job_cancel(victim); /* too late: for nothing */
    ck_assert_int_eq(sl_job_wait(victim, 0), status);
    sl_job_release(victim);
    sl_tensor_release(x);
    sl_tensor_release(y);
    return status;
}

static void converse(uint32_t credits) {
    enum { ROWS = 17, CALLS = 2 * 9 }; /* 9 micro-batches, which two stages count */
    talk t = {.length = 0};
    sl_pipeline *p = open_conversation(credits);
    int cancelled = 0;
    ck_assert_int_eq(say(p, &t, 5, 1, 0), SL_OK);
    for (int k = 1; k <= CALLS; k++) {
        cancelled += say(p, &t, ROWS, (uint32_t)k, k) == SL_CANCELLED;
        ck_assert_int_eq(say(p, &t, 3, (uint32_t)(100 + k), 0), SL_OK);
    }
    ck_assert_int_ge(cancelled, CALLS / 3);
    sl_pipeline_close(p, NULL, NULL);
}

START_TEST(a_conversation_goes_on_from_where_it_was_after_a_cancel_anywhere) {
    ck_assert_int_eq(sl_setting_set("SLUICE_CPU_DEVICES", "3"), SL_OK);
    converse(0);
    converse(1);
    converse(2);
}
END_TEST

/* A second job is under way behind the first, which is cancelled at the k-th call. */
static void cancel_beside_another(sl_pipeline *p, int k) {
    sl_tensor *x = rows_of(20, 1), *y = rows_of(20, 0), *z = rows_of(20, 0);
    _Atomic int ends = 0;
    sl_job *other;
    atomic_store(&n_calls, 0);
    atomic_store(&cancel_at, k);
    ck_assert_int_eq(sl_pipeline_submit(p, &x, &y, hear, (void *)&ends, &victim), SL_OK);
    ck_assert_int_eq(sl_pipeline_submit(p, &x, &z, hear, (void *)&ends, &other), SL_OK);
    ck_assert_msg(sl_job_wait(other, SL_FOREVER) == SL_OK, "%s", sl_last_error());
    sl_status status = sl_job_wait(victim, 0); /* jobs end in their order */
    ck_assert(status == SL_OK || status == SL_CANCELLED);
    talk t = {.length = 20};
    memcpy(t.said, sl_tensor_data(x), 20 * COLUMNS * 4);
    for (int e = 0; e < 20 * COLUMNS; e++)
        ck_assert_uint_eq(((uint32_t *)sl_tensor_data(z))[e], expected(&t, e / COLUMNS, e % COLUMNS));
    while (atomic_load(&ends) < 2)
        sched_yield();
    sl_job_release(victim);
    sl_job_release(other);
    sl_tensor_release(x);
    sl_tensor_release(y);
    sl_tensor_release(z);
}

START_TEST(a_cancel_touches_no_other_job) {
    ck_assert_int_eq(sl_setting_set("SLUICE_CPU_DEVICES", "3"), SL_OK);
    sl_pipeline *p = open_conversation(0);
    for (int round = 0; round < 3; round++)
        for (int k = 1; k <= 40; k++)
            cancel_beside_another(p, k);
    sl_pipeline_close(p, NULL, NULL);
}
END_TEST

START_TEST(a_close_at_any_point_ends_all) {
    ck_assert_int_eq(sl_setting_set("SLUICE_CPU_DEVICES", "3"), SL_OK);
    for (int k = 0; k < 40; k++) {
        sl_pipeline *p = open_conversation(0);
        sl_tensor *x = rows_of(20, 1), *y = rows_of(20, 0);
        sl_job *jobs[3];
        _Atomic int ends = 0;
        atomic_store(&n_calls, 0);
        atomic_store(&cancel_at, 0);
        for (int i = 0; i < 3; i++)
            ck_assert_int_eq(sl_pipeline_submit(p, &x, &y, hear, (void *)&ends, &jobs[i]), SL_OK);
        while (atomic_load(&n_calls) < k)
            sched_yield();
        sl_pipeline_close(p, NULL, NULL);
        ck_assert_int_eq(atomic_load(&ends), 3);
        for (int i = 0; i < 3; i++) {
            ck_assert(sl_job_ended(jobs[i], NULL, NULL));
            sl_job_release(jobs[i]);
        }
        sl_tensor_release(x);
        sl_tensor_release(y);
    }
}
END_TEST

int main(void) {
    const test_case cases[] = {
        TEST(a_conversation_goes_on_from_where_it_was_after_a_cancel_anywhere),
        TEST(a_cancel_touches_no_other_job),
        TEST(a_close_at_any_point_ends_all),
    };
    return test_main("cancel", cases, sizeof cases / sizeof *cases);
}
