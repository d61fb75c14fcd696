/* Plans of chains, skips, rings and shared devices: the times that come out of them, replayed. */
#include "plans.h"

/* Stages and hops by number; copies from and to the host take no time. */
typedef struct times {
    const uint64_t *stage, *hop; /* [stages], [stages - 1]; a hop is that of its maker */
    uint64_t output;             /* of copies to the host */
} times;

static uint64_t take(const sl_plan *p, int payload, const void *user) {
    const times *t = user;
    const sli_payload *at = &p->payloads[payload];
    if (at->kind == SLI_EXECUTE)
        return t->stage[at->stage];
    if (at->operands[0].buffer < 0)
        return 0;
    if (at->operands[1].buffer < 0)
        return t->output;
    return t->hop[atoi(at->name + 1)]; /* "s2.join: ..." */
}

static int numbers(const char *text, uint64_t *out) {
    int n = 0;
    for (const char *at = text; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
        out[n++] = strtoull(at, NULL, 10);
    return n;
}

static void give_depths(chain *c, const uint64_t *depth) {
    char device[SL_DEVICE_TEXT];
    for (int j = 0; j + 1 < c->n; j++) {
        snprintf(device, sizeof device, "sim:%d", j + 1);
        sl_graph_source_depth(c->g, c->values[j], (int)depth[j]);
        sl_graph_edge_depth(c->g, c->values[j], device, (int)depth[j]);
    }
}

START_TEST(forward_goldens_hold_to_the_last_digit) {
    char line[1024], stage[128], hop[128], slots[128];
    int n, rows = 0;
    unsigned long long m, window, expected;
    FILE *f = fopen(TEST_DATA "/forward_buffers.tsv", "r");
    ck_assert_ptr_nonnull(f);
    while (fgets(line, sizeof line, f)) {
        uint64_t t[16], x[16], depth[16];
        chain c;
        if (sscanf(line, "%d %llu %127s %127s %127s %llu %llu", &n, &m, stage, hop, slots, &window, &expected) != 7)
            continue;
        numbers(stage, t);
        numbers(hop, x);
        numbers(slots, depth);
        make_chain(&c, n, NULL);
        give_depths(&c, depth);
        end_chain(&c);
        sl_plan *p = must_compile(c.g, &(sl_plan_options){.window = (uint32_t)window}, NULL);
        ck_assert_msg(replay_ns(p, (int64_t)m, take, &(times){t, x, 0}) == expected, "row %d: %s", rows, line);
        sl_plan_destroy(p);
        sl_graph_destroy(c.g);
        rows++;
    }
    fclose(f);
    ck_assert_int_eq(rows, 60);
}
END_TEST

/* The recurrence that defines the goldens: a slot is held from the start of what fills it to the end of what empties
 * it.
 */
static uint64_t later(uint64_t a, uint64_t b) {
    return a > b ? a : b;
}

static uint64_t recurrence(int n, int m, const uint64_t *t, const uint64_t *x, const uint64_t *depth, int window) {
    static uint64_t stage[16][128], copy[16][128]; /* ends */
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++) {
            uint64_t start = i ? stage[j][i - 1] : 0;
            if (j)
                start = later(start, copy[j - 1][i]);
            if (j + 1 < n && i >= (int)depth[j])
                start = later(start, copy[j][i - (int)depth[j]]);
            if (!j && i >= window)
                start = later(start, stage[n - 1][i - window]);
            stage[j][i] = start + t[j];
            start = later(stage[j][i], i ? copy[j][i - 1] : 0);
            if (j + 1 < n && i >= (int)depth[j])
                start = later(start, stage[j + 1][i - (int)depth[j]]);
            copy[j][i] = start + x[j];
        }
    return stage[n - 1][m - 1];
}

START_TEST(random_chains_meet_the_recurrence) {
    uint64_t seed = test_seed();
    for (int i = 0; i < test_cases(500); i++) {
        uint64_t t[16], x[16], depth[16];
        int n = 2 + (int)test_below(&seed, 9), m = 1 + (int)test_below(&seed, 100),
            window = 1 + (int)test_below(&seed, 30);
        for (int j = 0; j < n; j++) {
            t[j] = test_below(&seed, 20);
            x[j] = test_below(&seed, 25);
            depth[j] = 1 + test_below(&seed, 4);
        }
        chain c;
        make_chain(&c, n, NULL);
        give_depths(&c, depth);
        end_chain(&c);
        sl_plan *p = must_compile(c.g, &(sl_plan_options){.window = (uint32_t)window}, NULL);
        ck_assert_uint_eq(replay_ns(p, m, take, &(times){t, x, 0}), recurrence(n, m, t, x, depth, window));
        sl_plan_destroy(p);
        sl_graph_destroy(c.g);
    }
}
END_TEST

/* ---- Skips ---- */

static const uint64_t tens[] = {10, 10, 10, 10, 10, 10, 10}, twos[] = {2, 2, 2, 2, 2, 2, 2};

/* Chain of n on devices of their own with a skip from the first to the last. */
static void make_skip(chain *c, int n) {
    char name[32];
    make_chain(c, n - 1, NULL);
    snprintf(name, sizeof name, "s%d", n - 1);
    c->stages[n - 1] = sl_graph_stage_on(c->g, name, (sl_device){SL_SIM, n - 1});
    c->values[n - 1] = join(c->g, c->stages[n - 1], 2, (sl_value[]){c->values[n - 2], c->values[0]});
    c->n = n;
    end_chain(c);
}

static const sli_buffer *buffer_named(const sl_plan *p, const char *name) {
    for (int i = 0; i < p->n_buffers; i++)
        if (!strcmp(p->buffers[i].name, name))
            return &p->buffers[i];
    ck_abort_msg("no buffer '%s'", name);
    return NULL;
}

START_TEST(a_skip_has_a_slot_for_each_stage_and_copy_on_its_way_round) {
    for (int given = 0; given <= 3; given += 3) {
        chain c;
        make_skip(&c, 4);
        sl_graph_edge_depth(c.g, c.values[0], "sim:3", given);
        sl_plan *p = must_compile(c.g, NULL, NULL);
        ck_assert_int_eq(buffer_named(p, "s0.join at sim:3")->depth, given ? 3 : 6);
        ck_assert_int_eq(buffer_named(p, "s0.join")->depth, 2);
        ck_assert_int_eq(buffer_named(p, "s1.join at sim:2")->depth, 2);
        ck_assert_uint_eq(replay_ns(p, 200, take, &(times){tens, tens, 0}), given ? 3230 : 2060);
        sl_plan_destroy(p);
        sl_graph_destroy(c.g);
    }
}
END_TEST

START_TEST(an_uneven_diamond_stalls_nobody) {
    chain c;
    make_chain(&c, 5, NULL); /* 0 .. 4 is the long branch, 5 the short one */
    sl_stage b = sl_graph_stage(c.g, "s5", "sim:5"), end = sl_graph_stage(c.g, "s6", "sim:6");
    c.values[5] = join(c.g, b, 1, &c.values[0]);
    sl_graph_output(c.g, "y", join(c.g, end, 2, (sl_value[]){c.values[4], c.values[5]}));
    sl_plan *p = must_compile(c.g, NULL, NULL), *stalls = must_compile(c.g, &(sl_plan_options){.depth = 2}, NULL);
    uint64_t ideal = 6 * 10 + 5 * 10 + 199 * 10;
    ck_assert_uint_eq(replay_ns(p, 200, take, &(times){tens, tens, 0}), ideal);
    ck_assert_uint_gt(replay_ns(stalls, 200, take, &(times){tens, tens, 0}), ideal + 500);
    sl_plan_destroy(p);
    sl_plan_destroy(stalls);
    sl_graph_destroy(c.g);
}
END_TEST

static uint64_t take_ten(const sl_plan *p, int payload, const void *user) {
    const sli_payload *at = &p->payloads[payload];
    (void)user;
    return at->kind == SLI_COPY && (at->operands[0].buffer < 0 || at->operands[1].buffer < 0) ? 0 : 10;
}

START_TEST(planned_depths_stall_no_graph) {
    uint64_t seed = test_seed();
    for (int i = 0; i < test_cases(300); i++) {
        random_graph r = {.n_stages = 2 + (int)test_below(&seed, 9)};
        sl_value values[64];
        random_stages(&r, &seed, values);
        sl_plan_options options = {.route = i % 2 ? SL_ROUTE_STAGED : SL_ROUTE_AUTO};
        sl_plan *planned = must_compile(r.g, &options, NULL);
        options.depth = 64;
        sl_plan *large = must_compile(r.g, &options, NULL);
        ck_assert_uint_eq(replay_ns(planned, 100, take_ten, NULL), replay_ns(large, 100, take_ten, NULL));
        sl_plan_destroy(planned);
        sl_plan_destroy(large);
        sl_graph_destroy(r.g);
    }
}
END_TEST

START_TEST(a_staged_skip_has_a_slot_for_each_half_of_a_copy) {
    chain c;
    make_skip(&c, 4);
    sl_plan *p = must_compile(c.g, &(sl_plan_options){.route = SL_ROUTE_STAGED}, NULL);
    ck_assert_int_eq(buffer_named(p, "s0.join at sim:3")->depth, 3 * 2 + 3 - 1); /* its own first half is over */
    ck_assert_int_eq(buffer_named(p, "s1.join at sim:2")->depth, 2);
    sl_plan_destroy(p);
    sl_graph_destroy(c.g);
}
END_TEST

/* ---- Copies ---- */

START_TEST(a_value_is_copied_once_to_each_device) {
    sl_graph *g = sl_graph_create();
    sl_value x = sl_graph_input(g, "x", SL_F32, SL_ROWS, 16), h, ends[4];
    h = join(g, sl_graph_stage(g, "a", "sim:0"), 1, &x);
    for (int j = 0; j < 4; j++) {
        char name[16];
        snprintf(name, sizeof name, "b%d", j);
        sl_stage s = sl_graph_stage_on(g, name, (sl_device){SL_SIM, j / 2});
        ends[j] = join(g, s, 2, (sl_value[]){h, x});
        ends[j] = join(g, s, 2, (sl_value[]){ends[j], h});
        snprintf(name, sizeof name, "y%d", j);
        sl_graph_output(g, name, ends[j]);
    }
    sl_plan *p = must_compile(g, NULL, NULL);
    int between = 0, inputs = 0;
    for (int i = 0; i < p->n_payloads; i++) {
        const sli_payload *at = &p->payloads[i];
        if (at->kind == SLI_COPY && at->operands[0].buffer < 0)
            inputs++;
        else if (at->kind == SLI_COPY && at->operands[1].buffer >= 0)
            between++;
        else if (at->kind == SLI_EXECUTE && at->stage > 0)
            ck_assert_int_eq(at->n_operands, 3); /* h, x and what it makes */
    }
    ck_assert_int_eq(between, 1);
    ck_assert_int_eq(inputs, 2);
    ck_assert_int_eq(p->n_edges, 2 + 1 + 1 + 4); /* x at both, h copied and aliased, the outputs */
    sl_plan_destroy(p);
    sl_graph_destroy(g);
}
END_TEST

START_TEST(pieces_are_the_whole_in_order) {
    for (size_t bytes = 1; bytes < 4000; bytes = bytes * 3 / 2 + 1) {
        chain c;
        make_chain(&c, 2, NULL);
        end_chain(&c);
        sl_plan *p = must_compile(
            c.g, &(sl_plan_options){.micro_batch_rows = 33, .route = SL_ROUTE_STAGED, .staging_bytes = bytes}, NULL);
        size_t at[2] = {0, 0}, piece = (bytes + 63) / 64 * 64 < 33 * 64 ? (bytes + 63) / 64 * 64 : 33 * 64;
        for (int i = 0; i < p->n_payloads; i++) {
            const sli_plan_operand *o = p->payloads[i].operands;
            if (p->payloads[i].kind != SLI_COPY || o[0].buffer < 0 || o[1].buffer < 0)
                continue;
            bool out = p->buffers[o[1].buffer].device == SLI_HOST;
            const sli_plan_operand *value = &o[out ? 0 : 1], *pinned = &o[out ? 1 : 0];
            ck_assert_uint_eq(value->extent.offset, at[out]);
            ck_assert_uint_eq(value->extent.limit, piece);
            ck_assert_int_eq(pinned->piece, (int)(at[out] / piece));
            ck_assert(pinned->extent.offset == 0 && pinned->extent.limit == piece && pinned->extent.rows < 0);
            ck_assert_uint_le(piece, p->buffers[pinned->buffer].slot_bytes);
            at[out] += piece;
        }
        ck_assert(at[0] == at[1] && at[0] >= 33 * 64 && at[0] - piece < 33 * 64);
        sl_plan_destroy(p);
        sl_graph_destroy(c.g);
    }
}
END_TEST

START_TEST(a_link_without_peer_access_is_staged_or_refused_by_name) {
    ck_assert_int_eq(
        sl_setting_set("SLUICE_SIM_TOPOLOGY", "{\"links\": {\"each\": [{\"from\": 1, \"to\": 2, \"peer\": false}]}}"),
        SL_OK);
    chain c;
    make_chain(&c, 4, NULL);
    end_chain(&c);
    sl_plan *p = must_compile(c.g, NULL, NULL);
    int n = 0;
    for (int i = 0; i < p->n_edges; i++)
        if (p->edges[i].route != SLI_ROUTE_HOST)
            ck_assert_int_eq(p->edges[i].route, n++ == 1 ? SLI_ROUTE_STAGED : SLI_ROUTE_PEER);
    ck_assert_int_eq(n, 3);
    ck_assert_uint_gt(p->pinned_bytes, 0);
    sl_plan_destroy(p);
    ck_assert_int_eq(sl_plan_create(c.g, &(sl_plan_options){.route = SL_ROUTE_PEER}, &p), SL_UNSUPPORTED);
    ck_assert_msg(strstr(sl_last_error(), "sim:1 cannot copy directly to sim:2") != NULL, "%s", sl_last_error());
    sl_graph_destroy(c.g);
}
END_TEST

START_TEST(too_many_pieces_are_refused) {
    chain c;
    sl_plan *p;
    make_chain(&c, 2, NULL);
    end_chain(&c);
    sl_plan_options options = {.micro_batch_rows = 2000, .route = SL_ROUTE_STAGED, .staging_bytes = 64};
    ck_assert_int_eq(sl_plan_create(c.g, &options, &p), SL_INVALID);
    ck_assert_ptr_nonnull(strstr(sl_last_error(), "staging_bytes"));
    sl_graph_destroy(c.g);
}
END_TEST

/* ---- Credits ---- */

static uint64_t take_by_number(const sl_plan *p, int payload, const void *user) {
    uint64_t seed = *(const uint64_t *)user + (uint64_t)payload;
    (void)p;
    return test_below(&seed, 20);
}

START_TEST(credits_cost_no_time) {
    uint64_t seed = test_seed();
    int tight = 0;
    for (int i = 0; i < test_cases(300); i++) {
        random_graph r;
        make_random(&r, &seed, 8);
        sl_plan *p = must_compile(r.g, &r.options, NULL);
        uint64_t free_ns = replay_ns(p, 60, take_by_number, &seed);
        ck_assert_uint_eq(replay_with_credits(p, 60, take_by_number, &seed, p->credits), free_ns);
        tight += replay_with_credits(p, 60, take_by_number, &seed, 1) > free_ns;
        sl_plan_destroy(p);
        sl_graph_destroy(r.g);
    }
    ck_assert_int_gt(tight, 0);
}
END_TEST

START_TEST(credits_are_enough_and_no_less_than_asked_for) {
    chain c;
    make_chain(&c, 4, NULL);
    end_chain(&c);
    sl_plan *p = must_compile(c.g, NULL, NULL), *more = must_compile(c.g, &(sl_plan_options){.credits = 500}, NULL);
    sl_plan *less = must_compile(c.g, &(sl_plan_options){.credits = 1}, NULL);
    ck_assert_uint_eq(p->slots_hold, 2 + 3 * (2 + 2) + 2); /* of the input, of 3 links at both ends, of the output */
    ck_assert_uint_eq(less->credits, 2 * 9 - 1);           /* 4 stages, 3 hops, a copy in and a copy out */
    ck_assert_uint_eq(more->credits, 500);
    ck_assert_uint_eq(p->credits, 64); /* small steps are many a wake */
    sl_plan *deep = must_compile(c.g, &(sl_plan_options){.depth = 50}, NULL);
    ck_assert_uint_eq(deep->slots_hold, 8 * 50);
    ck_assert_uint_gt(deep->credits, deep->slots_hold);
    sl_plan_destroy(deep);
    sl_plan_destroy(p);
    sl_plan_destroy(more);
    sl_plan_destroy(less);
    sl_graph_destroy(c.g);
}
END_TEST

/* ---- Rings ---- */

START_TEST(a_ring_fills_with_groups) {
    static const double want[] = {20.8, 41.6, 0, 83.1, 99.6}; /* the table of the goldens; 3 groups are not in it */
    for (int groups = 1; groups <= 5; groups++) {
        chain c;
        make_chain(&c, 4, NULL);
        end_chain(&c);
        sl_plan *p = must_compile(c.g, &(sl_plan_options){.groups = (uint32_t)groups}, NULL);
        double ns = (double)replay_ns(p, 200 * groups, take, &(times){tens, twos, 2});
        double busy = 100.0 * 10 * 200 * groups / ns;
        if (want[groups - 1] > 0)
            ck_assert_msg(busy > want[groups - 1] - 0.05 && busy < want[groups - 1] + 0.05, "%d groups: %.2f", groups,
                          busy);
        sl_plan_destroy(p);
        sl_graph_destroy(c.g);
    }
}
END_TEST

START_TEST(a_ring_of_one_device_a_stage_steadies_at_its_shares) {
    static const double want[] = {20.8, 41.7, 0, 83.3, 100};
    for (int groups = 1; groups <= 5; groups++) {
        chain c;
        make_chain(&c, 4, NULL);
        end_chain(&c);
        sl_plan *p = must_compile(c.g, &(sl_plan_options){.groups = (uint32_t)groups}, NULL);
        times t = {tens, twos, 2};
        double ns = (double)(replay_ns(p, 400 * groups, take, &t) - replay_ns(p, 200 * groups, take, &t));
        double busy = 100.0 * 10 * 200 * groups / ns;
        if (want[groups - 1] > 0)
            ck_assert_msg(busy > want[groups - 1] - 0.05 && busy < want[groups - 1] + 0.05, "%d groups: %.2f", groups,
                          busy);
        sl_plan_destroy(p);
        sl_graph_destroy(c.g);
    }
}
END_TEST

/* ---- Shared devices ---- */

START_TEST(alternating_stages_take_turns) {
    chain c;
    make_chain(&c, 4, (int[]){0, 1, 0, 1});
    end_chain(&c);
    sl_plan *p = must_compile(c.g, NULL, NULL);
    ck_assert_int_eq(p->max_lag, 6); /* 3 hops, a step for each lane that is entered */
    ck_assert_uint_eq(replay_ns(p, 100, take, &(times){tens, tens, 0}), 2030);
    sl_plan *ring = must_compile(c.g, &(sl_plan_options){.groups = 200}, NULL); /* no lags, and nothing else */
    ck_assert_int_eq(ring->max_lag, 0);
    ck_assert_uint_eq(replay_ns(ring, 100, take, &(times){tens, tens, 0}), 5020);
    sl_plan_destroy(p);
    sl_plan_destroy(ring);
    sl_graph_destroy(c.g);
}
END_TEST

/* However stages are put on two devices: in the end the busiest device or link decides, whatever the times. */
START_TEST(shared_devices_are_as_fast_as_their_load) {
    uint64_t seed = test_seed();
    int with_lags = 0;
    for (int i = 0; i < test_cases(200); i++) {
        random_graph r = {.n_stages = 3 + (int)test_below(&seed, 8), .n_devices = 2};
        sl_value values[64];
        random_stages(&r, &seed, values);
        sl_plan *p = must_compile(r.g, NULL, NULL);
        uint64_t busiest = 0, busy;
        for (int l = 0; l < p->n_lanes; l++) {
            busy = 0;
            for (int k = 0; k < p->n_payloads; k++)
                busy += p->payloads[k].lane == l ? take_by_number(p, k, &seed) : 0;
            busiest = busy > busiest ? busy : busiest;
        }
        uint64_t ns = replay_ns(p, 400, take_by_number, &seed) - replay_ns(p, 200, take_by_number, &seed);
        if (p->max_lag > 0) /* else values go one way alone, and slots can decide */
            ck_assert_uint_eq(ns, 200 * busiest);
        with_lags += p->max_lag > 0;
        sl_plan_destroy(p);
        sl_graph_destroy(r.g);
    }
    ck_assert_int_gt(with_lags, 0);
}
END_TEST

START_TEST(neighbours_on_one_device_need_no_lag) {
    chain c;
    make_chain(&c, 4, (int[]){0, 0, 1, 1});
    end_chain(&c);
    sl_plan *p = must_compile(c.g, NULL, NULL);
    ck_assert_int_eq(p->max_lag, 0);
    ck_assert_uint_eq(replay_ns(p, 100, take, &(times){tens, tens, 0}), 100 * 20 + 10 + 20);
    sl_plan_destroy(p);
    sl_graph_destroy(c.g);
}
END_TEST

START_TEST(a_depth_that_is_given_lowers_lags) {
    chain c;
    make_chain(&c, 6, (int[]){0, 1, 0, 1, 0, 1});
    sl_graph_output(c.g, "y", join(c.g, c.stages[5], 2, (sl_value[]){c.values[5], c.values[0]}));
    sl_graph_edge_depth(c.g, c.values[0], "sim:1", 1);
    sl_plan *p = must_compile(c.g, NULL, NULL);
    ck_assert_int_eq(buffer_named(p, "s0.join at sim:1")->depth, 1);
    ck_assert_int_eq(p->max_lag, 2);
    verdict v = judge_plan(p, 40);
    ck_assert_int_eq(v.races + v.stale, 0);
    sl_plan_destroy(p);
    sl_graph_destroy(c.g);
}
END_TEST

int main(void) {
    const test_case cases[] = {
        TEST(forward_goldens_hold_to_the_last_digit),
        TEST(random_chains_meet_the_recurrence),
        TEST(a_skip_has_a_slot_for_each_stage_and_copy_on_its_way_round),
        TEST(an_uneven_diamond_stalls_nobody),
        TEST(planned_depths_stall_no_graph),
        TEST(a_staged_skip_has_a_slot_for_each_half_of_a_copy),
        TEST(a_value_is_copied_once_to_each_device),
        TEST(pieces_are_the_whole_in_order),
        TEST(a_link_without_peer_access_is_staged_or_refused_by_name),
        TEST(too_many_pieces_are_refused),
        TEST(credits_cost_no_time),
        TEST(credits_are_enough_and_no_less_than_asked_for),
        TEST(a_ring_fills_with_groups),
        TEST(a_ring_of_one_device_a_stage_steadies_at_its_shares),
        TEST(alternating_stages_take_turns),
        TEST(shared_devices_are_as_fast_as_their_load),
        TEST(neighbours_on_one_device_need_no_lag),
        TEST(a_depth_that_is_given_lowers_lags),
    };
    return test_main("plan", cases, sizeof cases / sizeof *cases);
}
