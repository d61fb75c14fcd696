/* Mutation: a plan is run, as compiled and bound, under the sanitizer, once as it is and once without each of its
 * waits. The good plan gives no report; each other one does, and names the wait that was left out. Nothing waits on the
 * host here, so that nothing but waits orders anything. */
#include "backend/san.h"
#include "bind.h"
#include "plans.h"

enum { IO = 64, IO_BYTES = 4096, MOST_TOKENS = 20000 };

/* Memory of the host that nobody follows: of micro-batches, and of tokens. */
#define HOST ((char *)(uintptr_t)(1 << 20))
#define TOKENS ((char *)(uintptr_t)(1 << 30))

typedef struct missing { /* a wait, by the payloads that it orders */
    uint16_t lane, of;
    const char *behind;    /* the payload that waits */
    uint64_t rate, offset; /* of the value; rate 0: any. A piece of a small micro-batch may have no bytes to miss */
} missing;

typedef struct token { /* a copy of a byte to or from memory that closes a ring */
    sli_work work;
    sli_operand ends[2];
} token;

typedef struct replay {
    sl_plan *plan;
    sli_binding *bound;
    sli_backend *b; /* the sanitizer's */
    const missing *wanted;
    bool named;
    char sentence[1024]; /* of the first report */
    sli_ticket ticket;
    sli_batch *batches; /* [steps] */
    void **io;          /* [steps][plan's inputs, outputs, segments] */
    token *tokens;      /* [MOST_TOKENS] */
    int n_tokens;
    sli_batch none;
} replay;

static void keep(const sli_san_report *report, void *user) {
    replay *r = user;
    if (!r->sentence[0])
        snprintf(r->sentence, sizeof r->sentence, "%s", report->sentence);
    const missing *w = r->wanted;
    if (w && report->later.lane == w->lane && report->earlier.lane == w->of &&
        (w->rate == 0 || (report->earlier.value - w->offset) % w->rate == 0) &&
        strcmp(report->later.work->name, w->behind) == 0)
        r->named = true;
}

static void make_batches(replay *r, int64_t steps, bool ragged) {
    const sl_plan *p = r->plan;
    int n_io = p->n_inputs + p->n_outputs + 1;
    ck_assert_int_le(n_io, IO);
    r->batches = calloc((size_t)steps, sizeof *r->batches);
    r->io = calloc((size_t)(steps * n_io), sizeof *r->io);
    r->tokens = calloc(MOST_TOKENS, sizeof *r->tokens);
    r->none = (sli_batch){.ticket = &r->ticket};
    for (int64_t k = 0; k < steps; k++) {
        for (int i = 0; i < n_io; i++)
            r->io[k * n_io + i] = HOST + (k * IO + i) * IO_BYTES;
        r->batches[k] = (sli_batch){.ticket = &r->ticket, .index = (uint64_t)k, .io = r->io + k * n_io};
        for (int c = 0; c < SLI_ROW_COUNTS; c++)
            r->batches[k].rows[c] = ragged && p->max_rows[c] ? 1 + (uint32_t)k % p->max_rows[c] : p->max_rows[c];
        r->batches[k].rows[SLI_ROWS_SEGMENTS] = 1;
    }
}

static void enqueue(replay *r, sli_action action) {
    ck_assert_msg(r->b->ops->enqueue(r->b, &action, 1) == SL_OK, "%s", sl_last_error());
}

static void enqueue_token(replay *r, const sli_payload *p, uint16_t lane, int64_t k, char *from, char *to) {
    ck_assert_int_lt(r->n_tokens, MOST_TOKENS);
    token *t = &r->tokens[r->n_tokens++];
    for (int i = 0; i < 2; i++)
        t->ends[i] = (sli_operand){.at = i ? to : from, .extent = {SLI_ROWS_FIXED, 1, 0, SIZE_MAX}};
    t->work = (sli_work){.name = p->name, .n_reads = 1, .n_operands = 2, .operands = t->ends};
    enqueue(r, (sli_action){.kind = SLI_COPY, .lane = lane, .batch = &r->batches[k], .work = &t->work});
}

/* What closes a ring is the host, which takes all outputs before it gives the group's next inputs. Here each output's
 * copy leaves a token, and each input's copy takes all of them. */
static void close_ring(replay *r, uint32_t payload, uint16_t lane, int64_t k, bool before) {
    const sl_plan *p = r->plan;
    const sli_payload *own = &p->payloads[payload];
    char *mine = TOKENS + k * p->n_payloads, *last = mine - (int64_t)p->options.groups * p->n_payloads;
    char *elsewhere = TOKENS + (1 << 24) + (int64_t)r->n_tokens * p->n_payloads;
    if (before && own->kind == SLI_COPY && own->operands[0].buffer < 0 && k >= p->options.groups)
        for (int o = 0; o < p->n_payloads; o++)
            if (p->payloads[o].kind == SLI_COPY && p->payloads[o].operands[1].buffer < 0)
                enqueue_token(r, own, lane, k, last + o, elsewhere + o);
    if (!before && own->kind == SLI_COPY && own->operands[1].buffer < 0)
        enqueue_token(r, own, lane, k, elsewhere, mine + payload);
}

static void enqueue_payload(replay *r, const sli_plan_action *a, int64_t step, int64_t steps) {
    const sli_bound_payload *p = &r->bound->payloads[a->payload];
    int64_t k = step - p->lag, n = p->n_works;
    bool is_there = k >= 0 && k < steps, in_ring = is_there && r->plan->options.groups;
    if (in_ring)
        close_ring(r, a->payload, a->lane, k, true);
    enqueue(r, (sli_action){.kind = a->kind,
                            .lane = a->lane,
                            .work = &p->works[(k % n + n) % n],
                            .batch = is_there ? &r->batches[k] : &r->none});
    if (in_ring)
        close_ring(r, a->payload, a->lane, k, false);
}

static void enqueue_step(replay *r, int64_t step, int64_t steps) {
    for (const sli_plan_action *a = r->bound->program; a < r->bound->program + r->plan->n_program; a++) {
        int64_t value = step * a->rate + a->offset;
        if (a->kind == SLI_EXECUTE || a->kind == SLI_COPY)
            enqueue_payload(r, a, step, steps);
        else if (value > 0)
            enqueue(r, (sli_action){.kind = a->kind, .lane = a->lane, .of = a->of, .value = (uint64_t)value});
    }
}

static sli_backend *open_sanitized(const char *topology) {
    sli_backend *sim = NULL, *san = NULL;
    ck_assert_int_eq(sl_devices_find(), SL_OK);
    ck_assert_int_eq(sli_sim_platform.open(&(sli_backend_options){.sim_topology = topology}, &sim), SL_OK);
    ck_assert_int_eq(sli_san_create(sim, &san), SL_OK);
    return san;
}

typedef struct subject {
    const sl_graph *g;
    sl_plan_options options;
    const char *topology;
    bool ragged; /* micro-batches of all sizes; else all are full */
} subject;

/* Runs the plan without wait number `drop`; its reports. */
static uint64_t reports_without(const subject *s, int drop, int64_t steps, replay *r) {
    r->b = open_sanitized(s->topology);
    sli_san_listen(r->b, keep, r);
    r->plan = must_compile(s->g, &s->options, &(sli_plan_extras){.backend = r->b, .drop_wait = drop});
    sl_status status = sli_bind(r->plan, &sli_sim_platform, r->b, &(sli_bind_options){0}, &r->bound);
    ck_assert_msg(status == SL_OK, "%s", sl_last_error());
    make_batches(r, steps, s->ragged);
    for (int64_t step = 0; step < steps; step++)
        enqueue_step(r, step, steps);
    uint64_t reports = sli_san_reports(r->b);
    ck_assert(!sli_san_is_off(r->b));
    ck_assert_int_eq(r->b->ops->close(r->b, SLI_NEVER), SL_OK);
    sli_unbind(r->bound);
    sl_plan_destroy(r->plan);
    free(r->batches);
    free(r->io);
    free(r->tokens);
    return reports;
}

/* The drop-th wait of the good plan, counted from 1. */
static missing wait_number(const sl_plan *p, int drop) {
    size_t at = 0;
    for (int n = 0; n < drop; at++)
        n += p->program[at].kind == SLI_WAIT;
    const sli_plan_action *a = &p->program[at - 1];
    for (; p->program[at].kind == SLI_WAIT; at++)
        ;
    int64_t rate = a->rate;
    return (missing){.lane = a->lane,
                     .of = a->of,
                     .behind = p->payloads[p->program[at].payload].name,
                     .rate = (uint64_t)rate,
                     .offset = (uint64_t)(((a->offset % rate) + rate) % rate)};
}

typedef struct tally {
    int plans, waits, named;
} tally;

static void every_wait_is_missed(const char *what, const subject *s, tally *t) {
    sli_backend *b = open_sanitized(s->topology);
    sl_plan *good = must_compile(s->g, &s->options, &(sli_plan_extras){.backend = b});
    int64_t steps = enough_steps(good) + (s->ragged ? 40 : 0);
    for (int drop = 0; drop <= good->n_waits; drop++) {
        missing wanted = {0};
        replay r = {.wanted = NULL};
        if (drop) {
            wanted = wait_number(good, drop);
            wanted.rate = s->ragged ? 0 : wanted.rate;
            r.wanted = &wanted;
        }
        uint64_t reports = reports_without(s, drop, steps, &r);
        if (!drop)
            ck_assert_msg(reports == 0, "%s: %d reports: %s", what, (int)reports, r.sentence);
        else
            ck_assert_msg(reports > 0, "%s: wait %d of %d (lane %d for lane %d, before '%s') is not missed", what, drop,
                          good->n_waits, wanted.lane, wanted.of, wanted.behind);
        t->named += r.named;
        ck_assert_msg(!drop || r.named, "%s: wait %d of %d (lane %d for lane %d, before '%s') is not named: %s", what,
                      drop, good->n_waits, wanted.lane, wanted.of, wanted.behind, r.sentence);
    }
    t->plans++;
    t->waits += good->n_waits;
    sl_plan_destroy(good);
    b->ops->close(b, 0);
}

/* ---- Four devices with a skip, a state and a staged link ---- */

static void make_four(chain *c) {
    *c = (chain){.g = sl_graph_create(), .n = 4};
    c->x = sl_graph_input(c->g, "x", SL_F32, SL_ROWS, 16);
    for (int j = 0; j < 4; j++) {
        char name[32];
        snprintf(name, sizeof name, "s%d", j);
        c->stages[j] = sl_graph_stage_on(c->g, name, (sl_device){SL_SIM, j});
        sl_value inputs[2] = {j ? c->values[j - 1] : c->x, c->values[0]};
        sl_state state = {0};
        if (j == 1)
            state = sl_graph_state(c->g, c->stages[j], "cache", SL_F32, 2, 8, 16);
        c->values[j] = sl_graph_op1(c->g, c->stages[j], j == 1 ? &place_op : &join_op, NULL, j == 3 ? 2 : 1, inputs,
                                    j == 1, &state);
    }
    end_chain(c);
}

static const char one_staged[] = "{\"links\": {\"each\": [{\"from\": 1, \"to\": 2, \"peer\": false}]}}";

START_TEST(each_wait_of_four_devices_is_missed) {
    tally t = {0};
    chain c;
    make_four(&c);
    for (int depth = 0; depth <= 3; depth++)
        for (uint32_t window = 0; window <= 4; window += 4)
            for (int ragged = 0; ragged < 2; ragged++) {
                subject s = {.g = c.g, .topology = one_staged, .ragged = ragged};
                s.options =
                    (sl_plan_options){.micro_batch_rows = 8, .staging_bytes = 128, .depth = depth, .window = window};
                every_wait_is_missed("four devices", &s, &t);
            }
    sl_graph_destroy(c.g);
    printf("%d plans, %d waits left out, all missed and named\n", t.plans, t.waits);
}
END_TEST

START_TEST(the_link_between_them_is_staged) {
    chain c;
    make_four(&c);
    sli_backend *b = open_sanitized(one_staged);
    sl_plan *p = must_compile(c.g, &(sl_plan_options){.micro_batch_rows = 8, .staging_bytes = 128},
                              &(sli_plan_extras){.backend = b});
    int staged = 0, pieces = 0;
    for (int e = 0; e < p->n_edges; e++)
        if (p->edges[e].route == SLI_ROUTE_STAGED) {
            staged++;
            pieces = p->edges[e].pieces;
        }
    ck_assert_int_eq(staged, 1);
    ck_assert_int_gt(pieces, 1);
    ck_assert_int_eq(p->n_states, 1);
    sl_plan_destroy(p);
    b->ops->close(b, 0);
    sl_graph_destroy(c.g);
}
END_TEST

/* ---- Goldens ---- */

static void numbers(const char *text, int *out) {
    for (const char *at = text; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
        *out++ = atoi(at);
}

START_TEST(each_wait_of_the_goldens_is_missed) {
    char *all = test_read_file(TEST_DATA "/forward_buffers.tsv", NULL), *at = NULL;
    tally t = {0};
    for (char *line = strtok_r(all, "\n", &at); line; line = strtok_r(NULL, "\n", &at)) {
        char slots[128], name[SL_DEVICE_TEXT];
        unsigned long long window;
        int n, depth[16];
        chain c;
        if (sscanf(line, "%d %*s %*s %*s %127s %llu", &n, slots, &window) != 3)
            continue;
        numbers(slots, depth);
        make_chain(&c, n, NULL);
        for (int j = 0; j + 1 < n; j++) {
            sl_graph_source_depth(c.g, c.values[j], depth[j]);
            sl_graph_edge_depth(c.g, c.values[j], sl_device_format((sl_device){SL_SIM, j + 1}, name), depth[j]);
        }
        end_chain(&c);
        subject s = {.g = c.g, .options = {.micro_batch_rows = 1, .window = (uint32_t)window}};
        every_wait_is_missed(line, &s, &t);
        sl_graph_destroy(c.g);
    }
    free(all);
    ck_assert_int_eq(t.plans, 60);
    printf("%d plans, %d waits left out, all missed and named\n", t.plans, t.waits);
}
END_TEST

/* ---- Others ---- */

START_TEST(each_wait_of_a_ring_is_missed) {
    tally t = {0};
    for (uint32_t groups = 1; groups <= 6; groups++) {
        chain c;
        make_chain(&c, 4, NULL);
        end_chain(&c);
        subject s = {.g = c.g, .options = {.groups = groups}};
        every_wait_is_missed("ring", &s, &t);
        sl_graph_destroy(c.g);
    }
    printf("%d plans, %d waits left out, all missed and named\n", t.plans, t.waits);
}
END_TEST

START_TEST(each_wait_of_shared_devices_is_missed) {
    static const int places[][6] = {{0, 1, 0, 1, 0, 1}, {0, 0, 1, 1, 2, 2}, {0, 1, 2, 0, 1, 2}, {0, 1, 1, 1, 1, 0}};
    tally t = {0};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        chain c;
        make_chain(&c, 6, places[i]);
        end_chain(&c);
        subject s = {.g = c.g};
        every_wait_is_missed("shared devices", &s, &t);
        sl_graph_destroy(c.g);
    }
    printf("%d plans, %d waits left out, all missed and named\n", t.plans, t.waits);
}
END_TEST

START_TEST(each_wait_of_random_graphs_is_missed) {
    uint64_t seed = test_seed();
    tally t = {0};
    for (int i = 0; i < test_cases(100); i++) {
        random_graph r;
        char what[64];
        snprintf(what, sizeof what, "random graph %d", i);
        make_random(&r, &seed, 6);
        subject s = {.g = r.g, .options = r.options, .ragged = test_below(&seed, 2)};
        every_wait_is_missed(what, &s, &t);
        sl_graph_destroy(r.g);
    }
    printf("%d plans, %d waits left out, all missed and named\n", t.plans, t.waits);
}
END_TEST

START_TEST(good_random_graphs_give_no_report) {
    uint64_t seed = test_seed();
    for (int i = 0; i < test_cases(500); i++) {
        random_graph g;
        make_random(&g, &seed, 10);
        subject s = {.g = g.g, .options = g.options, .ragged = test_below(&seed, 2)};
        replay r = {.wanted = NULL};
        uint64_t reports = reports_without(&s, 0, 60, &r);
        ck_assert_msg(reports == 0, "graph %d: %d reports: %s", i, (int)reports, r.sentence);
        sl_graph_destroy(g.g);
    }
}
END_TEST

int main(void) {
    const test_case cases[] = {
        TEST_FOR(each_wait_of_four_devices_is_missed, 240), TEST(the_link_between_them_is_staged),
        TEST_FOR(each_wait_of_the_goldens_is_missed, 240),  TEST(each_wait_of_a_ring_is_missed),
        TEST(each_wait_of_shared_devices_is_missed),        TEST_FOR(each_wait_of_random_graphs_is_missed, 240),
        TEST_FOR(good_random_graphs_give_no_report, 240),
    };
    return test_main("mutation", cases, sizeof cases / sizeof *cases);
}
