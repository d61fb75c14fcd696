/* Whole pipelines under the sanitizer: what the driver enqueues for jobs, cancels, feeds and leavings is ordered, by
 * waits alone, and host memory by what the driver saw. */
#include "backend/san.h"
#include "executor.h"
#include "plans.h"

typedef struct sanitized {
    sl_pipeline *p;
    sli_backend *b;
    char sentence[1024]; /* of the first report */
} sanitized;

static void keep(const sli_san_report *report, void *user) {
    sanitized *s = user;
    if (!s->sentence[0])
        snprintf(s->sentence, sizeof s->sentence, "%s", report->sentence);
}

static void open_sanitized(sanitized *s, const sl_graph *g, sl_device_kind kind, const sl_pipeline_options *options) {
    sli_backend *inner = NULL;
    const sli_platform *platform = sli_platform_get(kind);
    sli_backend_options backend = {.cpu = options->cpu, .sim_topology = options->sim_topology};
    *s = (sanitized){.p = NULL};
    ck_assert_int_eq(sl_devices_find(), SL_OK);
    ck_assert_msg(platform->open(&backend, &inner) == SL_OK, "%s", sl_last_error());
    ck_assert_int_eq(sli_san_create(inner, &s->b), SL_OK);
    sli_san_listen(s->b, keep, s);
    sl_plan *plan = must_compile(g, &options->plan, &(sli_plan_extras){.backend = s->b});
    ck_assert_msg(sli_pipeline_start(plan, platform, s->b, options, NULL, &s->p) == SL_OK, "%s", sl_last_error());
}

/* All jobs have ended: nothing is enqueued any more. */
static void close_sanitized(sanitized *s) {
    ck_assert_msg(sli_san_reports(s->b) == 0, "%d reports: %s", (int)sli_san_reports(s->b), s->sentence);
    ck_assert(!sli_san_is_off(s->b));
    sl_pipeline_close(s->p, NULL, NULL);
}

/* ---- Jobs ---- */

enum { JOBS = 12 };

typedef struct tensors {
    int n;
    sl_tensor *all[16];
} tensors;

static tensors make_tensors(const sl_plan *p, bool outputs, int64_t rows) {
    tensors t = {.n = outputs ? p->n_outputs : p->n_inputs};
    ck_assert_int_le(t.n, 16);
    for (int i = 0; i < t.n; i++) {
        const sl_type *type = outputs ? &p->output_types[i] : &p->input_types[i];
        int64_t shape[2] = {rows, type->shape.dims[1]};
        ck_assert_int_eq(sl_tensor_create((sl_device){SL_CPU, 0}, type->dtype, 2, shape, 0, &t.all[i]), SL_OK);
    }
    return t;
}

static void release_tensors(tensors *t) {
    for (int i = 0; i < t->n; i++)
        sl_tensor_release(t->all[i]);
}

/* Several in flight, of any rows and cut, some cancelled; the tensors of a job that has ended serve the next one. */
static void run_jobs(sanitized *s, uint64_t *seed) {
    tensors in[JOBS], out[JOBS];
    sl_job *jobs[JOBS];
    for (int round = 0; round < 3; round++) {
        for (int j = 0; j < JOBS; j++) {
            if (round == 0) {
                int64_t rows = 1 + (int64_t)test_below(seed, 40);
                in[j] = make_tensors(s->p->plan, false, rows);
                out[j] = make_tensors(s->p->plan, true, rows);
            }
            sl_job_options o = {.micro_batches = (uint32_t)test_below(seed, 12)};
            ck_assert_msg(sl_pipeline_submit_with(s->p, &o, in[j].all, out[j].all, NULL, NULL, &jobs[j]) == SL_OK, "%s",
                          sl_last_error());
            if (test_below(seed, 5) == 0)
                sl_job_cancel(jobs[j]);
        }
        for (int j = 0; j < JOBS; j++) {
            sl_status status = sl_job_wait(jobs[j], SL_FOREVER);
            ck_assert_msg(status == SL_OK || status == SL_CANCELLED, "%s", sl_last_error());
            sl_job_release(jobs[j]);
        }
    }
    for (int j = 0; j < JOBS; j++) {
        release_tensors(&in[j]);
        release_tensors(&out[j]);
    }
}

START_TEST(jobs_of_random_graphs_are_ordered) {
    uint64_t seed = test_seed();
    for (int i = 0; i < test_cases(100); i++) {
        random_graph r;
        sanitized s;
        make_random(&r, &seed, 8);
        r.options.groups = 0; /* rings are for feeds */
        open_sanitized(&s, r.g, SL_SIM, &(sl_pipeline_options){.plan = r.options});
        run_jobs(&s, &seed);
        close_sanitized(&s);
        sl_graph_destroy(r.g);
    }
}
END_TEST

START_TEST(jobs_on_cpu_devices_are_ordered) {
    uint64_t seed = test_seed();
    setenv("SLUICE_CPU_DEVICES", "4", 1);
    for (int i = 0; i < test_cases(40); i++) {
        sanitized s;
        chain c;
        make_chain(&c, 6, NULL);
        for (int j = 0; j < 6; j++) {
            char device[SL_DEVICE_TEXT];
            snprintf(device, sizeof device, "cpu:%d", (int)test_below(&seed, 4));
            sl_graph_stage_move(c.g, c.stages[j], device);
        }
        end_chain(&c);
        sl_pipeline_options options = {.plan = {.micro_batch_rows = 4, .staging_bytes = 128}};
        options.plan.route = i % 2 ? SL_ROUTE_STAGED : SL_ROUTE_AUTO;
        open_sanitized(&s, c.g, SL_CPU, &options);
        run_jobs(&s, &seed);
        close_sanitized(&s);
        sl_graph_destroy(c.g);
    }
}
END_TEST

/* The output of a job that has ended is the input of the next: no wait orders them, the host does. */
START_TEST(what_a_job_wrote_the_next_may_read) {
    sanitized s;
    chain c;
    make_chain(&c, 2, NULL);
    sl_graph_stage_move(c.g, c.stages[0], "cpu:0");
    sl_graph_stage_move(c.g, c.stages[1], "cpu:1");
    end_chain(&c);
    open_sanitized(&s, c.g, SL_CPU, &(sl_pipeline_options){.plan = {.micro_batch_rows = 4}});
    tensors x = make_tensors(s.p->plan, false, 20), y = make_tensors(s.p->plan, true, 20);
    for (int k = 0; k < 20; k++) {
        sl_job *job;
        tensors *from = k % 2 ? &y : &x, *to = k % 2 ? &x : &y;
        ck_assert_int_eq(sl_pipeline_submit(s.p, from->all, to->all, NULL, NULL, &job), SL_OK);
        ck_assert_int_eq(sl_job_wait(job, SL_FOREVER), SL_OK);
        sl_job_release(job);
    }
    close_sanitized(&s);
    release_tensors(&x);
    release_tensors(&y);
    sl_graph_destroy(c.g);
}
END_TEST

START_TEST(pipelines_that_are_closed_in_flight_are_ordered) {
    uint64_t seed = test_seed();
    for (int i = 0; i < test_cases(50); i++) {
        sanitized s;
        chain c;
        make_chain(&c, 4, NULL);
        end_chain(&c);
        open_sanitized(&s, c.g, SL_SIM, &(sl_pipeline_options){.plan = {.micro_batch_rows = 2}});
        tensors in = make_tensors(s.p->plan, false, 50), out = make_tensors(s.p->plan, true, 50);
        for (uint64_t j = test_below(&seed, 4); j > 0; j--) {
            sl_job *job;
            ck_assert_int_eq(sl_pipeline_submit(s.p, in.all, NULL, NULL, NULL, &job), SL_OK);
            if (test_below(&seed, 2))
                sl_job_wait(job, SL_FOREVER);
            sl_job_release(job);
        }
        sl_pipeline_close(s.p, NULL, NULL); /* the sanitizer goes with it: the listener has what it said */
        ck_assert_msg(!s.sentence[0], "%s", s.sentence);
        release_tensors(&in);
        release_tensors(&out);
        sl_graph_destroy(c.g);
    }
}
END_TEST

/* ---- Rings ---- */

enum { MOST_GROUPS = 6, TURNS = 100, ROWS = 4, COLUMNS = 16 };

typedef struct ring {
    float memory[MOST_GROUPS][ROWS * COLUMNS]; /* what a group's last turn wrote, its next one reads */
    uint32_t groups;
    uint64_t given, told;
    sl_pipeline *p;
    sl_job *_Atomic job;
} ring;

static sl_feed_answer next_turn(void *user, uint64_t k, sl_micro_batch *m) {
    ring *r = user;
    if (r->given == TURNS || !atomic_load(&r->job))
        return SL_FEED_IDLE;
    if (k % 7 == 3)
        return SL_FEED_PASS;
    r->given++;
    m->rows[0] = 1 + (uint32_t)k % ROWS;
    m->inputs[0] = r->memory[k % r->groups];
    m->outputs[0] = r->memory[k % r->groups];
    return SL_FEED_BATCH;
}

static void turn_ended(void *user, uint64_t k, sl_status status, const char *message) {
    ring *r = user;
    (void)k, (void)message;
    if (status == SL_OK && ++r->told == TURNS)
        sl_job_end(atomic_load(&r->job), SL_OK, "");
}

static void run_ring(sl_device_kind kind) {
    for (uint32_t groups = 1; groups <= MOST_GROUPS; groups++) {
        sanitized s;
        chain c;
        ring r = {.groups = groups};
        sl_feed feed = {.next = next_turn, .ended = turn_ended, .user = &r};
        sl_job *job;
        make_chain(&c, 4, NULL);
        for (int j = 0; j < 4 && kind == SL_CPU; j++)
            sl_graph_stage_move(c.g, c.stages[j], j % 2 ? "cpu:1" : "cpu:0");
        end_chain(&c);
        open_sanitized(&s, c.g, kind,
                       &(sl_pipeline_options){.plan = {.micro_batch_rows = ROWS, .groups = groups}, .feed = &feed});
        ck_assert_int_eq(sl_job_begin(s.p, NULL, NULL, &job), SL_OK);
        atomic_store(&r.job, job);
        sl_pipeline_poke(s.p);
        ck_assert_int_eq(sl_job_wait(job, SL_FOREVER), SL_OK);
        sl_job_release(job);
        close_sanitized(&s);
        sl_graph_destroy(c.g);
    }
}

START_TEST(a_ring_through_the_same_host_memory_is_ordered) {
    run_ring(SL_SIM);
}
END_TEST

START_TEST(a_ring_on_cpu_devices_is_ordered) {
    run_ring(SL_CPU);
}
END_TEST

int main(void) {
    const test_case cases[] = {
        TEST_FOR(jobs_of_random_graphs_are_ordered, 240),
        TEST_FOR(jobs_on_cpu_devices_are_ordered, 240),
        TEST(what_a_job_wrote_the_next_may_read),
        TEST(pipelines_that_are_closed_in_flight_are_ordered),
        TEST(a_ring_through_the_same_host_memory_is_ordered),
        TEST(a_ring_on_cpu_devices_is_ordered),
    };
    return test_main("sanitized", cases, sizeof cases / sizeof *cases);
}
