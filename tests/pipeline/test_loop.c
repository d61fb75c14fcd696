/* Claims about callbacks: on which thread they run, what may be called in them, what a loop is kept alive by, how a
 * pipeline closes on its own loop and on the user's. Pipelines are on a plan made by hand. */
#include "hand_plan.h"
#include <pthread.h>
#include <semaphore.h>
#include <sluice/uv.h>

static const hand_options shape = {SL_CPU, 2, 2, 4, 4, 0, 0};

typedef struct scene { /* what callbacks see and do */
    sl_pipeline *p;
    sl_tensor *x, *y;
    pthread_t thread;
    sem_t heard, go;
    _Atomic int calls, closes;
    int left; /* jobs still to be submitted by callbacks */
    sl_status waited;
    char sentence[512];
    sl_job *job;
} scene;

static void set(scene *s) {
    memset(s, 0, sizeof *s);
    s->x = hand_tensor(30, 4);
    s->y = hand_tensor(30, 0);
    sem_init(&s->heard, 0, 0);
    sem_init(&s->go, 0, 0);
}

static void strike(scene *s) {
    sl_tensor_release(s->x);
    sl_tensor_release(s->y);
    sem_destroy(&s->heard);
    sem_destroy(&s->go);
}

static void wait_for(sem_t *sem) {
    while (sem_wait(sem)) {
    }
}

static void submit(scene *s, sl_job_fn on_done, sl_job **job) {
    ck_assert_msg(sl_pipeline_submit(s->p, &s->x, &s->y, on_done, s, job) == SL_OK, "%s", sl_last_error());
}

static void on_closed(void *user) {
    scene *s = user;
    s->thread = pthread_self();
    atomic_fetch_add(&s->closes, 1);
    sem_post(&s->heard);
}

static void hear(sl_job *job, sl_status status, const char *message, void *user) {
    scene *s = user;
    (void)job, (void)message;
    ck_assert(status == SL_OK || status == SL_CANCELLED);
    s->thread = pthread_self();
    atomic_fetch_add(&s->calls, 1);
    sem_post(&s->heard);
}

/* ---- A loop of its own ---- */

static void hear_and_hold(sl_job *job, sl_status status, const char *message, void *user) {
    scene *s = user;
    wait_for(&s->go);
    hear(job, status, message, user);
}

START_TEST(a_callback_that_sleeps_holds_up_no_job) {
    scene s;
    set(&s);
    s.p = hand_open(&shape, NULL, NULL);
    submit(&s, hear_and_hold, NULL);
    for (int i = 0; i < 50; i++) {
        sl_job *job;
        submit(&s, hear, &job);
        ck_assert_int_eq(sl_job_wait(job, SL_FOREVER), SL_OK);
        sl_job_release(job);
    }
    ck_assert_int_eq(s.calls, 0);
    sem_post(&s.go);
    sl_pipeline_close(s.p, NULL, NULL);
    ck_assert_int_eq(s.calls, 51);
    ck_assert(!pthread_equal(s.thread, pthread_self()));
    strike(&s);
}
END_TEST

static void wait_inside(sl_job *job, sl_status status, const char *message, void *user) {
    scene *s = user;
    s->waited = sl_job_wait(job, SL_FOREVER);
    snprintf(s->sentence, sizeof s->sentence, "%s", sl_last_error());
    hear(job, status, message, user);
}

START_TEST(a_wait_inside_a_callback_is_an_error_that_says_why) {
    scene s;
    set(&s);
    s.p = hand_open(&shape, NULL, NULL);
    submit(&s, wait_inside, NULL);
    wait_for(&s.heard);
    ck_assert_int_eq(s.waited, SL_WRONG_THREAD);
    ck_assert_ptr_nonnull(strstr(s.sentence, "thread of its pipeline's loop"));
    sl_pipeline_close(s.p, NULL, NULL);
    strike(&s);
}
END_TEST

static void submit_inside(sl_job *job, sl_status status, const char *message, void *user) {
    scene *s = user;
    sl_job *doomed;
    hear(job, status, message, user);
    if (s->left-- <= 0)
        return;
    submit(s, hear, &doomed);
    sl_job_cancel(doomed);
    sl_job_release(doomed);
    submit(s, submit_inside, NULL);
}

START_TEST(callbacks_submit_and_cancel) {
    scene s;
    set(&s);
    s.p = hand_open(&shape, NULL, NULL);
    s.left = 100;
    submit(&s, submit_inside, NULL);
    for (int i = 0; i < 201; i++)
        wait_for(&s.heard);
    sl_pipeline_close(s.p, NULL, NULL);
    ck_assert_int_eq(s.calls, 201);
    strike(&s);
}
END_TEST

static void close_inside(sl_job *job, sl_status status, const char *message, void *user) {
    scene *s = user;
    hear(job, status, message, user);
    sl_pipeline_close(s->p, s->left ? NULL : on_closed, s);
    ck_assert_int_eq(sl_pipeline_submit(s->p, &s->x, &s->y, NULL, NULL, NULL), SL_CANCELLED);
}

START_TEST(a_callback_closes_its_pipeline) {
    for (int round = 0; round < 20; round++) {
        scene s;
        set(&s);
        s.p = hand_open(&shape, NULL, NULL);
        submit(&s, hear, NULL);
        submit(&s, close_inside, &s.job);
        wait_for(&s.heard); /* both jobs and the close */
        wait_for(&s.heard);
        wait_for(&s.heard);
        ck_assert_int_eq(s.calls, 2);
        ck_assert_int_eq(s.closes, 1);
        ck_assert_int_eq(sl_job_wait(s.job, 0), SL_OK); /* a job outlives its pipeline */
        sl_job_release(s.job);
        strike(&s);
    }
}
END_TEST

START_TEST(a_close_with_a_callback_returns_at_once) {
    scene s;
    set(&s);
    s.p = hand_open(&shape, NULL, NULL);
    submit(&s, hear_and_hold, NULL);
    sl_pipeline_close(s.p, on_closed, &s);
    ck_assert_int_eq(s.closes, 0);
    sem_post(&s.go);
    wait_for(&s.heard);
    wait_for(&s.heard);
    ck_assert_int_eq(s.calls, 1);
    ck_assert_int_eq(s.closes, 1);
    sl_pipeline_close(NULL, NULL, NULL);
    strike(&s);
}
END_TEST

/* ---- The user's loop ---- */

static int n_alive(uv_loop_t *loop) {
    return uv_run(loop, UV_RUN_NOWAIT);
}

START_TEST(an_idle_pipeline_does_not_keep_the_loop_alive) {
    scene s;
    uv_loop_t loop;
    set(&s);
    uv_loop_init(&loop);
    s.p = hand_open_on(&loop, &shape, NULL, NULL);
    ck_assert_int_eq(n_alive(&loop), 0);
    for (int round = 0; round < 5; round++) {
        submit(&s, hear, NULL);
        submit(&s, NULL, NULL);
        ck_assert_int_eq(uv_run(&loop, UV_RUN_DEFAULT), 0); /* until both have ended */
        ck_assert_int_eq(s.calls, round + 1);
        ck_assert(pthread_equal(s.thread, pthread_self()));
    }
    ck_assert_int_eq(n_alive(&loop), 0);
    sl_pipeline_close(s.p, on_closed, &s);
    ck_assert_int_eq(s.closes, 0);
    ck_assert_int_eq(uv_run(&loop, UV_RUN_DEFAULT), 0);
    ck_assert_int_eq(s.closes, 1);
    ck_assert_int_eq(uv_loop_close(&loop), 0);
    strike(&s);
}
END_TEST

START_TEST(a_wait_on_the_users_loop_is_an_error_until_it_is_closed) {
    scene s;
    uv_loop_t loop;
    set(&s);
    uv_loop_init(&loop);
    s.p = hand_open_on(&loop, &shape, NULL, NULL);
    submit(&s, wait_inside, &s.job);
    ck_assert_int_eq(sl_job_wait(s.job, 0), SL_WRONG_THREAD);
    uv_run(&loop, UV_RUN_DEFAULT);
    ck_assert_int_eq(s.waited, SL_WRONG_THREAD);
    sl_pipeline_close(s.p, NULL, NULL); /* returns at once: this is the loop's thread */
    uv_run(&loop, UV_RUN_DEFAULT);
    ck_assert_int_eq(uv_loop_close(&loop), 0);
    ck_assert_int_eq(sl_job_wait(s.job, 0), SL_OK);
    sl_job_release(s.job);
    strike(&s);
}
END_TEST

static void tick(uv_timer_t *timer) {
    int *ticks = timer->data;
    if (++*ticks == 3)
        uv_close((uv_handle_t *)timer, NULL);
}

START_TEST(the_users_handles_and_two_pipelines_share_a_loop) {
    scene a, b;
    uv_loop_t loop;
    uv_timer_t timer;
    int ticks = 0;
    set(&a);
    set(&b);
    uv_loop_init(&loop);
    uv_timer_init(&loop, &timer);
    timer.data = &ticks;
    uv_timer_start(&timer, tick, 0, 1);
    a.p = hand_open_on(&loop, &shape, NULL, NULL);
    b.p = hand_open_on(&loop, &shape, NULL, NULL);
    a.left = b.left = 20;
    submit(&a, submit_inside, NULL);
    submit(&b, submit_inside, NULL);
    uv_run(&loop, UV_RUN_DEFAULT);
    ck_assert_int_eq(ticks, 3);
    ck_assert_int_eq(a.calls, 41);
    ck_assert_int_eq(b.calls, 41);
    a.left = 1;
    submit(&a, close_inside, NULL);
    sl_pipeline_close(b.p, on_closed, &b);
    uv_run(&loop, UV_RUN_DEFAULT);
    ck_assert_int_eq(b.closes, 1);
    ck_assert_int_eq(uv_loop_close(&loop), 0);
    strike(&a);
    strike(&b);
}
END_TEST

static void let_go(uv_async_t *keeper) {
    uv_close((uv_handle_t *)keeper, NULL);
}

typedef struct loop_thread {
    scene s;
    uv_async_t keeper; /* of the loop, until all is over */
} loop_thread;

static void *open_and_run(void *arg) {
    loop_thread *t = arg;
    uv_loop_t loop;
    uv_loop_init(&loop);
    uv_async_init(&loop, &t->keeper, let_go);
    t->s.p = hand_open_on(&loop, &shape, NULL, NULL);
    sem_post(&t->s.heard);
    uv_run(&loop, UV_RUN_DEFAULT);
    ck_assert_int_eq(uv_loop_close(&loop), 0);
    return NULL;
}

START_TEST(other_threads_submit_and_close_while_the_users_loop_runs) {
    loop_thread t;
    pthread_t thread;
    set(&t.s);
    pthread_create(&thread, NULL, open_and_run, &t);
    wait_for(&t.s.heard);
    sl_job *jobs[40];
    for (int i = 0; i < 40; i++)
        submit(&t.s, hear, &jobs[i]);
    for (int i = 0; i < 40; i++) {
        ck_assert_int_eq(sl_job_wait(jobs[i], SL_FOREVER), SL_OK);
        sl_job_release(jobs[i]);
    }
    sl_pipeline_close(t.s.p, NULL, NULL); /* waits for the loop's thread */
    ck_assert_int_eq(t.s.calls, 40);
    ck_assert(pthread_equal(t.s.thread, thread));
    uv_async_send(&t.keeper);
    pthread_join(thread, NULL);
    strike(&t.s);
}
END_TEST

int main(void) {
    const test_case cases[] = {
        TEST(a_callback_that_sleeps_holds_up_no_job),
        TEST(a_wait_inside_a_callback_is_an_error_that_says_why),
        TEST(callbacks_submit_and_cancel),
        TEST(a_callback_closes_its_pipeline),
        TEST(a_close_with_a_callback_returns_at_once),
        TEST(an_idle_pipeline_does_not_keep_the_loop_alive),
        TEST(a_wait_on_the_users_loop_is_an_error_until_it_is_closed),
        TEST(the_users_handles_and_two_pipelines_share_a_loop),
        TEST(other_threads_submit_and_close_while_the_users_loop_runs),
    };
    return test_main("loop", cases, sizeof cases / sizeof *cases);
}
