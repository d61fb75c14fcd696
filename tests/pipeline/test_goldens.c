/* Numbers to be met, to the last digit, through everything: graph, planner, executor and the simulation. The numbers
 * are of an independent evaluator (tests/data/forward_buffers.tsv; its head says what the columns mean) and of the
 * closed forms beside it. */
#include "plans.h"
#include <math.h>
#include <sched.h>

enum { MAX_STAGES = 16, TOPOLOGY = 4096 };

typedef struct run {
    int n, *device_of;          /* stages; NULL: one a device */
    uint64_t t[MAX_STAGES];     /* of stages, ns */
    uint64_t c[MAX_STAGES];     /* of hops */
    uint64_t depth[MAX_STAGES]; /* of the hops' ends; 0: the plan's choice */
    uint64_t last_hop_ns;       /* from the last device to the host */
    int skip_depth;             /* of an edge from stage 0 to the last; 0: the plan's choice; -1: no such edge */
    uint64_t m;
} run;

static void numbers(const char *text, uint64_t *out) {
    for (const char *at = text; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
        *out++ = strtoull(at, NULL, 10);
}

static const char *topology_of(const run *r, char text[TOPOLOGY]) {
    int n = snprintf(text, TOPOLOGY, "{\"links\": {\"each\": [{\"from\": %d, \"to\": \"host\", \"latency_ns\": %llu}",
                     r->n - 1, (unsigned long long)r->last_hop_ns);
    for (int j = 0; j + 1 < r->n; j++)
        n += snprintf(text + n, (size_t)(TOPOLOGY - n), ", {\"from\": %d, \"to\": %d, \"latency_ns\": %llu}", j, j + 1,
                      (unsigned long long)r->c[j]);
    n += snprintf(text + n, (size_t)(TOPOLOGY - n), ", {\"from\": 0, \"to\": %d, \"latency_ns\": %llu}]}}", r->n - 1,
                  (unsigned long long)r->c[0]);
    ck_assert_int_lt(n, TOPOLOGY);
    return text;
}

/* Stage j makes a value with depth[j] slots, which stage j + 1 reads from as many of its own. */
static void build(chain *c, const run *r) {
    char name[SL_DEVICE_TEXT];
    make_chain(c, r->n, r->device_of);
    for (int j = 0; j < r->n; j++)
        sl_graph_stage_time(c->g, c->stages[j], r->t[j], 0);
    for (int j = 0; j + 1 < r->n && r->depth[j]; j++) {
        sl_graph_source_depth(c->g, c->values[j], (int)r->depth[j]);
        sl_graph_edge_depth(c->g, c->values[j], sl_device_format((sl_device){SL_SIM, j + 1}, name), (int)r->depth[j]);
    }
    if (r->skip_depth >= 0) {
        sl_value both[] = {c->values[r->n - 1], c->values[0]};
        c->values[r->n - 1] = join(c->g, c->stages[r->n - 1], 2, both);
        if (r->skip_depth)
            sl_graph_edge_depth(c->g, c->values[0], sl_device_format((sl_device){SL_SIM, r->n - 1}, name),
                                r->skip_depth);
    }
    end_chain(c);
}

static uint64_t wall_of(sl_pipeline *p) {
    sl_pipeline_counts counts;
    sl_pipeline_get_counts(p, &counts);
    return counts.wall_ns;
}

static sl_tensor *rows_of(uint64_t m) {
    sl_tensor *x;
    ck_assert_int_eq(sl_tensor_create((sl_device){SL_SIM, 0}, SL_F32, 2, (int64_t[]){(int64_t)m, 16}, 0, &x), SL_OK);
    return x;
}

static uint64_t makespan(const run *r, const sl_plan_options *plan) {
    char topology[TOPOLOGY];
    chain c;
    sl_pipeline *p;
    sl_job *job;
    sl_pipeline_options options = {.plan = *plan, .sim_topology = topology_of(r, topology)};
    options.plan.micro_batch_rows = 1;
    build(&c, r);
    ck_assert_msg(sl_pipeline_open(c.g, &options, &p) == SL_OK, "%s", sl_last_error());
    sl_graph_destroy(c.g);
    sl_tensor *x = rows_of(r->m);
    ck_assert_msg(sl_pipeline_submit(p, &x, NULL, NULL, NULL, &job) == SL_OK, "%s", sl_last_error());
    ck_assert_msg(sl_job_wait(job, SL_FOREVER) == SL_OK, "%s", sl_last_error());
    sl_job_release(job);
    sl_tensor_release(x);
    uint64_t ns = wall_of(p);
    sl_pipeline_close(p, NULL, NULL);
    return ns;
}

START_TEST(forward_buffers_are_met) {
    char line[1024], stage[128], hop[128], slots[128];
    unsigned long long m, window, expected;
    int rows = 0, n;
    FILE *f = fopen(TEST_DATA "/forward_buffers.tsv", "r");
    ck_assert_ptr_nonnull(f);
    while (fgets(line, sizeof line, f)) {
        run r = {.skip_depth = -1};
        if (sscanf(line, "%d %llu %127s %127s %127s %llu %llu", &n, &m, stage, hop, slots, &window, &expected) != 7)
            continue;
        r.n = n;
        r.m = m;
        numbers(stage, r.t);
        numbers(hop, r.c);
        numbers(slots, r.depth);
        uint64_t ns = makespan(&r, &(sl_plan_options){.window = (uint32_t)window});
        ck_assert_msg(ns == expected, "row %d takes %llu: %s", rows, (unsigned long long)ns, line);
        rows++;
    }
    fclose(f);
    ck_assert_int_eq(rows, 60);
}
END_TEST

static run even(int n, uint64_t t, uint64_t c, uint64_t depth, uint64_t m) {
    run r = {.n = n, .m = m, .skip_depth = -1};
    for (int j = 0; j < n; j++) {
        r.t[j] = t;
        r.c[j] = c;
        r.depth[j] = depth;
    }
    return r;
}

START_TEST(even_chains_take_their_closed_form) {
    static const sl_plan_options none;
    static const uint64_t want[][3] = {{2, 1, 130}, {2, 2, 116}, {2, 4, 116}, {12, 1, 230}, {12, 2, 160}, {12, 3, 160}};
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        run r = even(4, 10, want[i][0], want[i][1], 8);
        ck_assert_uint_eq(makespan(&r, &none), want[i][2]);
    }
    uint64_t seed = test_seed();
    for (int i = 0; i < test_cases(200); i++) {
        uint64_t s = 2 + test_below(&seed, 6), f = 1 + test_below(&seed, 20), x = test_below(&seed, 20),
                 depth = 2 + test_below(&seed, 3), m = 1 + test_below(&seed, 40);
        uint64_t slots = (f + x + depth - 1) / depth, period = f > x ? f : x;
        if ((f + x) % depth && slots > period)
            continue; /* a fraction of a nanosecond */
        period = slots > period ? slots : period;
        run r = even((int)s, f, x, depth, m);
        ck_assert_uint_eq(makespan(&r, &none), s * f + (s - 1) * x + (m - 1) * period);
    }
}
END_TEST

START_TEST(a_skip_costs_nothing_with_slots_for_the_long_way) {
    static const sl_plan_options none;
    run r = even(4, 10, 10, 2, 200);
    r.skip_depth = 3;
    ck_assert_uint_eq(makespan(&r, &none), 3230);
    r.skip_depth = 6;
    ck_assert_uint_eq(makespan(&r, &none), 2060);
    r.skip_depth = 0;
    ck_assert_uint_eq(makespan(&r, &none), 2060);
}
END_TEST

/* ---- The ring ---- */

typedef struct turns {
    uint64_t asked, limit, told;
    uint64_t groups;
    _Atomic bool over;
} turns;

static sl_feed_answer next_turn(void *user, uint64_t k, sl_micro_batch *mb) {
    turns *t = user;
    ck_assert_uint_eq(k, t->asked);
    ck_assert_uint_lt(t->asked, t->told + t->groups);
    if (t->asked == t->limit)
        return SL_FEED_IDLE;
    t->asked++;
    mb->rows[0] = 1;
    return SL_FEED_BATCH;
}

static void turn_ended(void *user, uint64_t k, sl_status status, const char *message) {
    turns *t = user;
    ck_assert_uint_eq(k, t->told++);
    ck_assert(status == SL_OK || strcmp(message, "the pipeline was closed") == 0);
    atomic_store(&t->over, t->told == t->limit);
}

static uint64_t ring_ns(uint32_t groups, uint64_t rounds) {
    char topology[TOPOLOGY];
    run r = even(4, 10, 2, 0, 0);
    r.last_hop_ns = 2;
    turns t = {.limit = rounds * groups, .groups = groups};
    sl_feed feed = {.next = next_turn, .ended = turn_ended, .user = &t};
    sl_pipeline_options options = {
        .plan = {.micro_batch_rows = 1, .groups = groups}, .sim_topology = topology_of(&r, topology), .feed = &feed};
    chain c;
    sl_pipeline *p;
    build(&c, &r);
    ck_assert_msg(sl_pipeline_open(c.g, &options, &p) == SL_OK, "%s", sl_last_error());
    sl_graph_destroy(c.g);
    while (!atomic_load(&t.over))
        sched_yield();
    uint64_t ns = wall_of(p);
    sl_pipeline_close(p, NULL, NULL);
    return ns;
}

START_TEST(a_ring_fills_with_groups) {
    static const double over_200[] = {20.8, 41.6, 62.4, 83.1, 99.6}, steady[] = {20.8, 41.7, 62.5, 83.3, 100.0};
    for (uint32_t groups = 1; groups <= 5; groups++) {
        double busy = 100.0 * 10 * 200 * groups / (double)ring_ns(groups, 200);
        ck_assert_msg(fabs(busy - over_200[groups - 1]) < 0.051, "%u groups: %.2f %%", groups, busy);
        uint64_t round_ns = (ring_ns(groups, 60) - ring_ns(groups, 50)) / 10;
        busy = 100.0 * 10 * groups / (double)round_ns;
        ck_assert_msg(fabs(busy - steady[groups - 1]) < 0.051, "%u groups, steady: %.2f %%", groups, busy);
    }
}
END_TEST

/* ---- A feed without a ring, on devices that hold several stages ---- */

START_TEST(a_close_tells_a_feed_of_every_micro_batch_that_lags_hold_back) {
    static int device_of[] = {0, 1, 0, 1};
    for (uint64_t limit = 1; limit < 12; limit++) {
        chain c;
        sl_pipeline *p;
        turns t = {.limit = limit, .groups = limit + 1}; /* no ring: all may be asked for */
        sl_feed feed = {.next = next_turn, .ended = turn_ended, .user = &t};
        sl_pipeline_options options = {.plan.micro_batch_rows = 1, .feed = &feed};
        make_chain(&c, 4, device_of);
        end_chain(&c);
        ck_assert_msg(sl_pipeline_open(c.g, &options, &p) == SL_OK, "%s", sl_last_error());
        sl_graph_destroy(c.g);
        sl_plan_figures figures;
        sl_plan_get_figures(sl_pipeline_plan(p), &figures);
        ck_assert_int_gt(figures.max_lag, 0);
        if (limit % 2)
            while (!atomic_load(&t.over))
                sched_yield();
        sl_pipeline_close(p, NULL, NULL);
        ck_assert_uint_eq(t.told, t.asked);
        ck_assert(t.asked == limit || limit % 2 == 0);
    }
}
END_TEST

int main(void) {
    const test_case cases[] = {
        TEST(forward_buffers_are_met),
        TEST(even_chains_take_their_closed_form),
        TEST(a_skip_costs_nothing_with_slots_for_the_long_way),
        TEST(a_ring_fills_with_groups),
        TEST(a_close_tells_a_feed_of_every_micro_batch_that_lags_hold_back),
    };
    return test_main("goldens", cases, sizeof cases / sizeof *cases);
}
