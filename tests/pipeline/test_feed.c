/* Claims about feeds: when hooks are called, that a ring's turns carry values round, idle turns and pokes, jobs of a
 * feed and their ends. On a plan made by hand. */
#include "hand_plan.h"
#include <semaphore.h>

enum { MOST_GROUPS = 8, ROWS = 3 };

typedef struct script { /* a feed that turns values round, group by group */
    uint32_t groups;
    _Atomic uint64_t limit; /* turns; then idle */
    uint64_t asked, told;
    bool one_by_one;  /* idle while anything is under way */
    uint32_t pass_of; /* this group has nothing to do; UINT32_MAX: none */
    int32_t in[MOST_GROUPS][ROWS], out[MOST_GROUPS][ROWS];
    uint64_t rounds[MOST_GROUPS];
    uint32_t rows; /* of a micro-batch */
    sl_status worst;
    char message[256];
    sem_t over; /* posted when all that was asked for was told */
    sl_pipeline *p;
    _Atomic int delivered;
    _Atomic(sl_job *) ends_next; /* by `ended` */
} script;

static sl_feed_answer next(void *user, uint64_t k, sl_micro_batch *mb) {
    script *s = user;
    uint32_t group = (uint32_t)(k % s->groups);
    ck_assert_uint_eq(k, s->asked);
    ck_assert_uint_le(k + 1, s->told + s->groups);
    if (k >= atomic_load(&s->limit) || (s->one_by_one && s->asked > s->told))
        return SL_FEED_IDLE;
    s->asked++;
    if (group == s->pass_of) {
        s->told++; /* an empty turn is not told */
        return SL_FEED_PASS;
    }
    mb->rows[0] = s->rows;
    mb->inputs[0] = s->in[group];
    mb->outputs[0] = s->out[group];
    return SL_FEED_BATCH;
}

static void ended(void *user, uint64_t k, sl_status status, const char *message) {
    script *s = user;
    uint32_t group = (uint32_t)(k % s->groups);
    s->told++;
    if (status != SL_OK && s->worst == SL_OK) {
        s->worst = status;
        snprintf(s->message, sizeof s->message, "%s", message);
    }
    if (status != SL_LOST && status != SL_STALLED) /* then what was lost may still write */
        memcpy(s->in[group], s->out[group], sizeof s->in[group]);
    s->rounds[group]++;
    sl_job *job = atomic_exchange(&s->ends_next, NULL);
    if (job) {
        sl_pipeline_notify(s->p);
        sl_job_end(job, SL_OK, "");
    }
    if (k + 1 == atomic_load(&s->limit))
        sem_post(&s->over);
}

static void deliver(void *user) {
    script *s = user;
    atomic_fetch_add(&s->delivered, 1);
}

static void start(script *s, hand_options *o, uint32_t groups, uint64_t limit, sli_backend *(*wrap)(sli_backend *)) {
    memset(s, 0, sizeof *s);
    s->groups = groups;
    s->limit = limit;
    s->pass_of = UINT32_MAX;
    s->rows = ROWS;
    sem_init(&s->over, 0, 0);
    for (int g = 0; g < MOST_GROUPS; g++)
        for (int r = 0; r < ROWS; r++)
            s->in[g][r] = s->out[g][r] = 100 * g + r;
    *o = (hand_options){SL_CPU, 3, 2, 4, 4, groups, 0};
    sl_feed feed = {next, ended, deliver, s, NULL};
    sl_pipeline_options options = {.feed = &feed, .patience_ns = 50000000};
    s->p = hand_open(o, &options, wrap);
}

static void wait_over(script *s) {
    while (sem_wait(&s->over)) {
    }
}

START_TEST(values_go_round_the_ring) {
    for (uint32_t groups = 1; groups <= MOST_GROUPS; groups++) {
        script s;
        hand_options o;
        start(&s, &o, groups, 40 * groups, NULL);
        wait_over(&s);
        sl_pipeline_close(s.p, NULL, NULL);
        ck_assert_int_eq(s.worst, SL_OK);
        ck_assert_uint_eq(s.told, 40 * groups);
        for (uint32_t g = 0; g < groups; g++)
            for (int r = 0; r < ROWS; r++)
                ck_assert_int_eq(s.in[g][r], hand_result(100 * (int)g + r, 3 * 40));
        sem_destroy(&s.over);
    }
}
END_TEST

START_TEST(a_poke_wakes_an_idle_feed) {
    script s;
    hand_options o;
    start(&s, &o, 2, 6, NULL);
    wait_over(&s);
    for (int round = 0; round < 20; round++) {
        atomic_fetch_add(&s.limit, 5);
        sl_pipeline_poke(s.p);
        wait_over(&s);
    }
    sl_pipeline_close(s.p, NULL, NULL);
    ck_assert_uint_eq(s.told, 6 + 20 * 5);
    sem_destroy(&s.over);
}
END_TEST

START_TEST(an_idle_feed_is_asked_again_when_a_micro_batch_has_ended) {
    script s;
    hand_options o;
    start(&s, &o, 3, 0, NULL);
    s.one_by_one = true;
    atomic_store(&s.limit, 30);
    sl_pipeline_poke(s.p); /* once */
    wait_over(&s);
    sl_pipeline_close(s.p, NULL, NULL);
    ck_assert_uint_eq(s.told, 30);
    sem_destroy(&s.over);
}
END_TEST

START_TEST(a_group_that_passes_holds_up_no_other) {
    script s;
    hand_options o;
    start(&s, &o, 3, 0, NULL);
    s.pass_of = 1; /* before any turn: the limit is 0 */
    atomic_store(&s.limit, 3 * 30);
    sl_pipeline_poke(s.p);
    wait_over(&s);
    sl_pipeline_counts counts;
    sl_pipeline_get_counts(s.p, &counts);
    sl_pipeline_close(s.p, NULL, NULL);
    ck_assert_uint_eq(s.rounds[0], 30);
    ck_assert_uint_eq(s.rounds[1], 0);
    ck_assert_uint_eq(s.rounds[2], 30);
    ck_assert_uint_eq(counts.micro_batches, 60);
    for (int r = 0; r < ROWS; r++)
        ck_assert_int_eq(s.in[2][r], hand_result(200 + r, 3 * 30));
    sem_destroy(&s.over);
}
END_TEST

START_TEST(a_micro_batch_that_does_not_fit_is_refused) {
    script s;
    hand_options o;
    start(&s, &o, 1, 0, NULL);
    s.rows = 5; /* of 4 */
    atomic_store(&s.limit, 1);
    sl_pipeline_poke(s.p);
    wait_over(&s);
    ck_assert_int_eq(s.worst, SL_INVALID);
    ck_assert_ptr_nonnull(strstr(s.message, "more rows or segments"));
    s.worst = SL_OK;
    s.rows = ROWS;
    atomic_store(&s.limit, 2);
    sl_pipeline_poke(s.p);
    wait_over(&s);
    ck_assert_int_eq(s.worst, SL_OK);
    sl_pipeline_close(s.p, NULL, NULL);
    ck_assert_int_eq(s.in[0][0], hand_result(0, 3));
    sem_destroy(&s.over);
}
END_TEST

START_TEST(an_op_that_fails_ends_its_micro_batch_alone) {
    script s;
    hand_options o;
    start(&s, &o, 4, 0, NULL);
    s.in[2][1] = -77;
    atomic_store(&s.limit, 4);
    sl_pipeline_poke(s.p);
    wait_over(&s);
    sl_pipeline_close(s.p, NULL, NULL);
    ck_assert_int_eq(s.worst, SL_STAGE_FAILED);
    ck_assert_ptr_nonnull(strstr(s.message, "op 'bump', micro-batch 2, cpu:0: it is -77"));
    ck_assert_int_eq(s.in[3][0], hand_result(300, 3));
    sem_destroy(&s.over);
}
END_TEST

/* ---- Jobs ---- */

typedef struct heard {
    script *s;
    _Atomic int calls;
    sl_status status;
    int delivered; /* before the callback */
    char message[128];
} heard;

static void hear(sl_job *job, sl_status status, const char *message, void *user) {
    heard *h = user;
    (void)job;
    h->status = status;
    h->delivered = atomic_load(&h->s->delivered);
    snprintf(h->message, sizeof h->message, "%s", message);
    atomic_fetch_add(&h->calls, 1);
}

START_TEST(a_job_is_ended_by_the_feed_after_its_delivery) {
    script s;
    hand_options o;
    start(&s, &o, 2, 0, NULL);
    for (int round = 0; round < 50; round++) {
        heard h = {.s = &s};
        sl_job *job;
        ck_assert_int_eq(sl_job_begin(s.p, hear, &h, &job), SL_OK);
        int delivered = atomic_load(&s.delivered);
        atomic_store(&s.ends_next, job);
        atomic_fetch_add(&s.limit, 1);
        sl_pipeline_poke(s.p);
        ck_assert_int_eq(sl_job_wait(job, SL_FOREVER), SL_OK);
        sl_job_release(job);
        while (!atomic_load(&h.calls))
            sched_yield();
        ck_assert_int_gt(h.delivered, delivered);
    }
    sl_pipeline_close(s.p, NULL, NULL);
    sem_destroy(&s.over);
}
END_TEST

START_TEST(jobs_of_a_feed_count_against_the_limit_and_can_be_cancelled) {
    script s;
    hand_options o;
    sl_job *jobs[1025], *more;
    start(&s, &o, 2, 0, NULL);
    for (int i = 0; i < 1024; i++)
        ck_assert_int_eq(sl_job_begin(s.p, NULL, NULL, &jobs[i]), SL_OK);
    ck_assert_int_eq(sl_job_begin(s.p, NULL, NULL, &more), SL_BUSY);
    ck_assert_ptr_null(more);
    sl_job_end(jobs[7], SL_STAGE_FAILED, "no");
    ck_assert_int_eq(sl_job_begin(s.p, NULL, NULL, &jobs[1024]), SL_OK);
    ck_assert(!sl_job_cancelled(jobs[9]));
    sl_job_cancel(jobs[9]);
    ck_assert(sl_job_cancelled(jobs[9]));
    ck_assert(!sl_job_ended(jobs[9], NULL, NULL));
    sl_tensor *x = hand_tensor(1, 0);
    ck_assert_int_eq(sl_pipeline_submit(s.p, &x, &x, NULL, NULL, NULL), SL_INVALID);
    sl_tensor_release(x);
    sl_pipeline_close(s.p, NULL, NULL); /* ends what lives */
    for (int i = 0; i < 1025; i++) {
        ck_assert_int_eq(sl_job_wait(jobs[i], 0), i == 7 ? SL_STAGE_FAILED : SL_CANCELLED);
        ck_assert_str_eq(sl_last_error(), i == 7 ? "no" : "the pipeline was closed");
        sl_job_release(jobs[i]);
    }
    sem_destroy(&s.over);
}
END_TEST

/* ---- Loss ---- */

static sli_backend_ops broken;
static const sli_backend_ops *sound;
static _Atomic int calls_left;

static sl_status enqueue_fails(sli_backend *b, const sli_action *actions, size_t n) {
    return atomic_fetch_sub(&calls_left, 1) > 0 ? sound->enqueue(b, actions, n) : sl_fail(SL_LOST, "the bus is gone");
}

static sli_backend *failing(sli_backend *b) {
    sound = b->ops;
    broken = *sound;
    broken.enqueue = enqueue_fails;
    b->ops = &broken;
    return b;
}

START_TEST(a_loss_is_told_and_ends_the_jobs) {
    for (int calls = 0; calls < 12; calls++) {
        script s;
        hand_options o;
        heard h = {.s = &s};
        sl_job *job, *more;
        atomic_store(&calls_left, calls);
        start(&s, &o, 3, 0, failing);
        ck_assert_int_eq(sl_job_begin(s.p, hear, &h, &job), SL_OK);
        atomic_store(&s.limit, 300);
        sl_pipeline_poke(s.p);
        ck_assert_int_eq(sl_job_wait(job, SL_FOREVER), SL_LOST);
        ck_assert_str_eq(sl_last_error(), "the bus is gone");
        ck_assert_int_eq(sl_job_begin(s.p, hear, &h, &more), SL_LOST);
        sl_job_end(job, SL_OK, ""); /* the feed's reference, nothing else */
        sl_pipeline_close(s.p, NULL, NULL);
        ck_assert_int_eq(h.calls, 1);
        ck_assert_int_eq(h.status, SL_LOST);
        ck_assert_int_eq(s.worst, SL_LOST);
        ck_assert_str_eq(s.message, "the bus is gone");
        ck_assert_uint_eq(s.told, s.asked);
        sl_job_release(job);
        sem_destroy(&s.over);
    }
}
END_TEST

int main(void) {
    const test_case cases[] = {
        TEST(values_go_round_the_ring),
        TEST(a_poke_wakes_an_idle_feed),
        TEST(an_idle_feed_is_asked_again_when_a_micro_batch_has_ended),
        TEST(a_group_that_passes_holds_up_no_other),
        TEST(a_micro_batch_that_does_not_fit_is_refused),
        TEST(an_op_that_fails_ends_its_micro_batch_alone),
        TEST(a_job_is_ended_by_the_feed_after_its_delivery),
        TEST(jobs_of_a_feed_count_against_the_limit_and_can_be_cancelled),
        TEST(a_loss_is_told_and_ends_the_jobs),
    };
    return test_main("feed", cases, sizeof cases / sizeof *cases);
}
