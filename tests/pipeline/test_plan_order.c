/* The order of plans, judged by vector clocks: nothing is unordered in a good plan, and each wait that is left in it
 * matters. */
#include "plan_build.h"
#include "plans.h"
#include <time.h>

static void chain_of(chain *c, int n, const int *device_of) {
    make_chain(c, n, device_of);
    end_chain(c);
}

START_TEST(each_wait_of_a_chain_matters) {
    int total = 0;
    for (int depth = 1; depth <= 4; depth++)
        for (uint32_t window = 0; window <= 4; window++) {
            chain c;
            chain_of(&c, 4, NULL);
            every_wait_matters(c.g, &(sl_plan_options){.depth = depth, .window = window}, &total);
            sl_graph_destroy(c.g);
        }
    printf("%d waits left out\n", total);
}
END_TEST

START_TEST(each_wait_of_a_ring_matters) {
    int total = 0;
    for (uint32_t groups = 1; groups <= 6; groups++) {
        chain c;
        chain_of(&c, 4, NULL);
        every_wait_matters(c.g, &(sl_plan_options){.groups = groups}, &total);
        sl_graph_destroy(c.g);
    }
    printf("%d waits left out\n", total);
}
END_TEST

START_TEST(each_wait_of_shared_devices_matters) {
    static const int places[][6] = {{0, 1, 0, 1, 0, 1}, {0, 0, 1, 1, 2, 2}, {0, 1, 2, 0, 1, 2}, {0, 1, 1, 1, 1, 0}};
    int total = 0;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        chain c;
        chain_of(&c, 6, places[i]);
        every_wait_matters(c.g, NULL, &total);
        sl_graph_destroy(c.g);
    }
    printf("%d waits left out\n", total);
}
END_TEST

START_TEST(each_wait_of_a_staged_link_matters) {
    int total = 0;
    for (size_t bytes = 64; bytes <= 512; bytes *= 2) { /* slots of 512: 8, 4, 2 pieces and 1 */
        chain c;
        chain_of(&c, 3, NULL);
        every_wait_matters(
            c.g, &(sl_plan_options){.micro_batch_rows = 8, .route = SL_ROUTE_STAGED, .staging_bytes = bytes}, &total);
        sl_graph_destroy(c.g);
    }
    printf("%d waits left out\n", total);
}
END_TEST

START_TEST(random_graphs_have_no_race_and_no_idle_wait) {
    uint64_t seed = test_seed();
    int n = test_cases(300), total = 0, lags = 0, staged = 0, rings = 0, windows = 0, skips = 0;
    for (int i = 0; i < n; i++) {
        random_graph r;
        make_random(&r, &seed, 7);
        sl_plan *p = must_compile(r.g, &r.options, NULL);
        lags += p->max_lag > 0;
        rings += r.options.groups > 0;
        for (int k = 0; k < p->n_buffers; k++) {
            staged += p->buffers[k].why == SLI_DEPTH_PIECES;
            windows += p->buffers[k].why == SLI_DEPTH_WINDOW;
            skips += p->buffers[k].why == SLI_DEPTH_WAY;
        }
        sl_plan_destroy(p);
        every_wait_matters(r.g, &r.options, &total);
        sl_graph_destroy(r.g);
    }
    printf("%d graphs, %d waits; lags %d, staged %d, rings %d, windows %d, skips %d\n", n, total, lags, staged, rings,
           windows, skips);
    ck_assert(n < 30 || (lags && staged && rings && windows && skips));
}
END_TEST

START_TEST(implied_waits_change_nothing) {
    uint64_t seed = test_seed();
    for (int i = 0; i < test_cases(100); i++) {
        random_graph r;
        make_random(&r, &seed, 7);
        sl_plan *least = must_compile(r.g, &r.options, NULL);
        sl_plan *all = must_compile(r.g, &r.options, &(sli_plan_extras){.keep_implied = true});
        ck_assert_int_ge(all->n_waits, least->n_waits);
        ck_assert_int_eq(all->n_waits + all->n_implied, least->n_waits + least->n_implied);
        verdict v = judge_plan(all, 30);
        ck_assert_int_eq(v.races + v.stale + v.ring, 0);
        sl_plan_destroy(least);
        sl_plan_destroy(all);
        sl_graph_destroy(r.g);
    }
}
END_TEST

/* Three payloads by hand: the sort is asked alone. */
static sl_status sort_of(const sli_dep *deps, int n_deps, int order[3]) {
    sli_payload payloads[3] = {
        {.name = (char *)"a", .lane = 0}, {.name = (char *)"b", .lane = 1}, {.name = (char *)"c"}};
    sl_plan p = {.n_payloads = 3, .payloads = payloads, .n_lanes = 2};
    sli_build b = {.p = &p};
    for (int i = 0; i < n_deps; i++) {
        ck_assert(SLI_ROOM(b.deps, b.n_deps));
        b.deps[b.n_deps++] = deps[i];
    }
    ck_assert_int_eq(sli_build_index(&b), SL_OK);
    sl_status status = sli_build_sort(&b);
    for (int i = 0; i < 3; i++)
        order[i] = b.step[i];
    void *arrays[] = {b.deps, b.out, b.out_first, b.step, b.position, b.far, b.heap.entries};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
        sl_free(arrays[i]);
    return status;
}

START_TEST(a_step_without_an_order_is_refused) {
    int order[3];
    sli_dep deps[] = {{.from = 2, .to = 0, .buffer = -1},
                      {.from = 0, .to = 1, .buffer = -1},
                      {.from = 1, .to = 2, .batches = 1, .buffer = -1}};
    ck_assert_int_eq(sort_of(deps, 3, order), SL_OK);
    ck_assert(order[0] == 2 && order[1] == 0 && order[2] == 1);
    deps[2].batches = 0;
    ck_assert_int_eq(sort_of(deps, 3, order), SL_INVALID);
    ck_assert_msg(strstr(sl_last_error(), "deadlock") && strstr(sl_last_error(), "depth"), "%s", sl_last_error());
}
END_TEST

START_TEST(a_wait_for_a_later_step_is_refused) {
    int order[3];
    sli_dep deps[] = {{.from = 0, .to = 1, .batches = -1, .buffer = -1}};
    ck_assert_int_eq(sort_of(deps, 1, order), SL_INVALID);
    ck_assert_msg(strstr(sl_last_error(), "later step"), "%s", sl_last_error());
}
END_TEST

/* Each record is waited for, or is its lane's last; events and actions are no more than was promised. */
START_TEST(records_stand_only_where_somebody_waits) {
    uint64_t seed = test_seed();
    for (int i = 0; i < test_cases(100); i++) {
        random_graph r;
        make_random(&r, &seed, 9);
        sl_plan *p = must_compile(r.g, &r.options, NULL);
        ck_assert_int_eq(p->n_ends, p->n_lanes);
        for (size_t k = 0; k < p->n_program; k++) {
            const sli_plan_action *a = &p->program[k];
            bool used = a->kind != SLI_RECORD || a->offset == a->rate;
            for (size_t w = 0; w < p->n_program && !used; w++)
                used = p->program[w].kind == SLI_WAIT && p->program[w].of == a->lane &&
                       (p->program[w].offset - a->offset) % a->rate == 0;
            ck_assert(used);
        }
        sl_plan_destroy(p);
        sl_graph_destroy(r.g);
    }
}
END_TEST

START_TEST(large_plans_compile) {
    chain c;
    chain_of(&c, 512, NULL);
    sl_graph_output(c.g, "z", join(c.g, c.stages[511], 2, (sl_value[]){c.values[511], c.values[0]}));
    clock_t from = clock();
    sl_plan *p = must_compile(c.g, NULL, NULL);
    printf("512 stages on 512 devices: %.3f s, %d waits, %d implied, %u credits\n",
           (double)(clock() - from) / CLOCKS_PER_SEC, p->n_waits, p->n_implied, p->credits);
    ck_assert_int_eq(p->n_stages, 512);
    sl_plan_destroy(p);
    sl_graph_destroy(c.g);
}
END_TEST

int main(void) {
    const test_case cases[] = {
        TEST(each_wait_of_a_chain_matters),
        TEST(each_wait_of_a_ring_matters),
        TEST(each_wait_of_shared_devices_matters),
        TEST(each_wait_of_a_staged_link_matters),
        TEST_FOR(random_graphs_have_no_race_and_no_idle_wait, 240),
        TEST(implied_waits_change_nothing),
        TEST(a_step_without_an_order_is_refused),
        TEST(a_wait_for_a_later_step_is_refused),
        TEST(records_stand_only_where_somebody_waits),
        TEST(large_plans_compile),
    };
    return test_main("plan_order", cases, sizeof cases / sizeof *cases);
}
