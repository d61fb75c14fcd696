/* Claims about the simulator alone: exact times, devices and limits of a topology, and how it answers a driver that
 * breaks the contract. What every backend promises is in the conformance suite. */
#include "backend/backend.h"
#include "memory.h"
#include "support.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *topology; /* of the next backend; NULL: the process's */

static sli_backend *sim_open(bool measure) {
    sli_backend *b = NULL;
    ck_assert_int_eq(sl_devices_find(), SL_OK);
    sli_backend_options options = {.sim_topology = topology, .measure = measure};
    ck_assert_msg(sli_sim_platform.open(&options, &b) == SL_OK, "%s", sl_last_error());
    return b;
}

static uint16_t lane_between(sli_backend *b, int from, int to, uint32_t n_events) {
    uint16_t lane = 0;
    sli_lane_desc desc = {from, to, 1000, n_events};
    ck_assert_msg(b->ops->lane_create(b, &desc, &lane) == SL_OK, "%s", sl_last_error());
    return lane;
}

static sl_status act(sli_backend *b, sli_action a) {
    return b->ops->enqueue(b, &a, 1);
}

static void record(sli_backend *b, int lane, uint64_t value) {
    ck_assert_int_eq(act(b, (sli_action){.kind = SLI_RECORD, .lane = (uint16_t)lane, .value = value}), SL_OK);
}

static sl_status wait_for(sli_backend *b, int lane, int of, uint64_t value) {
    return act(b, (sli_action){.kind = SLI_WAIT, .lane = (uint16_t)lane, .of = (uint16_t)of, .value = value});
}

static void run(sli_backend *b, int lane, const sli_work *w, const sli_batch *batch) {
    sli_action a = {.kind = w->code ? SLI_EXECUTE : SLI_COPY, .lane = (uint16_t)lane, .batch = batch, .work = w};
    ck_assert_int_eq(act(b, a), SL_OK);
}

static sli_ticket ticket;
static const sli_batch one_row = {.ticket = &ticket, .rows = {1}};

static uint64_t time_of(sli_backend *b, int lane, uint64_t value) {
    uint64_t ns = 0;
    ck_assert_int_eq(b->ops->when(b, (uint16_t)lane, value, &ns), SL_OK);
    return ns;
}

/* ---- Chains, as the goldens describe them: each wait by the one rule of order, none left out ---- */

enum { MOST_STAGES = 16 };

typedef struct chain {
    int n;
    uint64_t m, window, t[MOST_STAGES], c[MOST_STAGES], depth[MOST_STAGES];
} chain;

typedef struct chain_works {
    sli_stage_code codes[MOST_STAGES];
    sli_work stages[MOST_STAGES], copies[MOST_STAGES];
    sli_operand ends[2];
    uint16_t compute[MOST_STAGES], link[MOST_STAGES];
} chain_works;

static void chain_topology(const chain *c, char *text, size_t capacity) {
    int used = snprintf(text, capacity, "{\"links\": {\"each\": [");
    for (int j = 0; j + 1 < c->n; j++)
        used += snprintf(text + used, capacity - (size_t)used, "%s{\"from\": %d, \"to\": %d, \"latency_ns\": %d}",
                         j ? ", " : "", j, j + 1, (int)c->c[j]);
    snprintf(text + used, capacity - (size_t)used, "]}}");
}

static void chain_build(sli_backend *b, const chain *c, chain_works *w) {
    for (int i = 0; i < 2; i++)
        w->ends[i] = (sli_operand){.extent = {SLI_ROWS_FIXED, 64, 0, SIZE_MAX}};
    for (int j = 0; j < c->n; j++) {
        w->codes[j] = (sli_stage_code){.timed = true, .fixed_ns = c->t[j], .descriptor = -1};
        w->stages[j] = (sli_work){.name = "stage", .code = &w->codes[j]};
        w->copies[j] = (sli_work){.name = "copy", .n_reads = 1, .n_operands = 2, .operands = w->ends};
        w->compute[j] = lane_between(b, j, j, (uint32_t)c->m);
        if (j + 1 < c->n)
            w->link[j] = lane_between(b, j, j + 1, (uint32_t)c->m);
    }
}

static void wait_for_earlier(sli_backend *b, int lane, int of, uint64_t i, uint64_t distance) {
    if (i >= distance)
        ck_assert_int_eq(wait_for(b, lane, of, i - distance + 1), SL_OK);
}

static void chain_step(sli_backend *b, const chain *c, chain_works *w, uint64_t i) {
    for (int j = 0; j < c->n; j++) {
        bool last = j + 1 == c->n;
        if (j == 0)
            wait_for_earlier(b, w->compute[0], w->compute[c->n - 1], i, c->window);
        else
            wait_for_earlier(b, w->compute[j], w->link[j - 1], i, 0);
        if (!last)
            wait_for_earlier(b, w->compute[j], w->link[j], i, c->depth[j]);
        run(b, w->compute[j], &w->stages[j], &one_row);
        record(b, w->compute[j], i + 1);
        if (last)
            continue;
        wait_for_earlier(b, w->link[j], w->compute[j], i, 0);
        wait_for_earlier(b, w->link[j], w->compute[j + 1], i, c->depth[j]);
        run(b, w->link[j], &w->copies[j], &one_row);
        record(b, w->link[j], i + 1);
    }
}

static uint64_t makespan(const chain *c) {
    char text[2048];
    chain_works w;
    chain_topology(c, text, sizeof text);
    topology = text;
    sli_backend *b = sim_open(false);
    chain_build(b, c, &w);
    for (uint64_t i = 0; i < c->m; i++)
        chain_step(b, c, &w, i);
    uint64_t end = b->ops->now_ns(b);
    ck_assert_uint_eq(end, time_of(b, w.compute[c->n - 1], c->m));
    ck_assert_int_eq(b->ops->close(b, 0), SL_OK);
    return end;
}

START_TEST(a_chain_fills_and_drains) {
    chain c = {.n = 4, .m = 8, .window = 1000, .t = {10, 10, 10, 10}, .c = {2, 2, 2}, .depth = {1, 1, 1}};
    ck_assert_uint_eq(makespan(&c), 130);
    c.depth[0] = c.depth[1] = c.depth[2] = 2;
    ck_assert_uint_eq(makespan(&c), 116);
    c.c[0] = c.c[1] = c.c[2] = 12;
    ck_assert_uint_eq(makespan(&c), 160);
    c.depth[0] = c.depth[1] = c.depth[2] = 1;
    ck_assert_uint_eq(makespan(&c), 230);
}
END_TEST

static void numbers(const char *text, uint64_t *out) {
    for (const char *at = text; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
        *out++ = strtoull(at, NULL, 10);
}

START_TEST(every_golden_row_is_met) {
    char *all = test_read_file(TEST_DATA "/forward_buffers.tsv", NULL), *at = NULL;
    int rows = 0;
    for (char *line = strtok_r(all, "\n", &at); line; line = strtok_r(NULL, "\n", &at)) {
        char t[128], copies[128], depth[128];
        unsigned long long m, window, expected;
        chain c = {.n = 0};
        if (sscanf(line, "%d %llu %127s %127s %127s %llu %llu", &c.n, &m, t, copies, depth, &window, &expected) != 7)
            continue;
        numbers(t, c.t);
        numbers(copies, c.c);
        numbers(depth, c.depth);
        c.m = m;
        c.window = window;
        uint64_t found = makespan(&c);
        ck_assert_msg(found == expected, "%s: %llu", line, (unsigned long long)found);
        rows++;
    }
    ck_assert_int_ge(rows, 60);
    free(all);
}
END_TEST

/* ---- Costs ---- */

static void cost_of(const sl_call *call, sl_cost *cost) {
    cost->operations = 100 * (double)call->inputs[0].shape.dims[0];
}

static const sl_op costly = {.name = "costly", .cost = cost_of};

START_TEST(cost_rules_run_at_the_speed_of_the_device) {
    topology = "{\"devices\": {\"operations_per_s\": 1e9, \"each\": [{\"index\": 1, \"operations_per_s\": 5e8},"
               "{\"index\": 2, \"operations_per_s\": 0}]}}";
    sli_backend *b = sim_open(true);
    sli_operand operands[2] = {{.at = NULL}};
    sli_ref refs[2] = {{.operand = 0, .type = {SL_F32, {2, {SL_ROWS, 1}}}},
                       {.operand = 1, .type = {SL_F32, {2, {SL_ROWS, 1}}}}};
    sli_op_code op = {.op = &costly, .n_inputs = 1, .n_outputs = 1, .inputs = refs, .outputs = refs + 1};
    sli_stage_code code = {.n_ops = 1, .ops = &op, .descriptor = -1};
    sli_work w = {.code = &code, .n_reads = 1, .n_operands = 2, .operands = operands};
    sli_batch batch = {.ticket = &ticket};
    uint64_t at[3] = {0}, payloads[3] = {0};
    for (int d = 0; d < 3; d++)
        lane_between(b, d, d, 100);
    for (uint32_t k = 1; k <= 30; k++)
        for (int d = 0; d < 3; d++) { /* one code on devices of several speeds, rows that change */
            for (uint32_t rows = 1 + k % 3; rows < 6; rows += 2) {
                batch.rows[0] = rows;
                run(b, d, &w, &batch);
                at[d] += (uint64_t)(d == 2 ? 0 : 100 * (d + 1)) * rows;
                payloads[d]++;
            }
            record(b, d, k);
            ck_assert_uint_eq(time_of(b, d, k), at[d]);
        }
    for (int d = 0; d < 3; d++) {
        sli_lane_figures figures;
        b->ops->lane_figures(b, (uint16_t)d, &figures);
        ck_assert_uint_eq(figures.busy_ns, at[d]);
        ck_assert_uint_eq(figures.payloads, payloads[d]);
    }
    ck_assert_uint_eq(b->ops->now_ns(b), at[1]);
    b->ops->close(b, 0);
}
END_TEST

START_TEST(busy_time_is_that_of_payloads_alone) {
    topology = "{\"links\": {\"latency_ns\": 5, \"bytes_per_s\": 1e9}}";
    sli_backend *b = sim_open(true);
    sli_operand ends[2] = {{.extent = {0, 10, 0, SIZE_MAX}}, {.extent = {0, 10, 0, SIZE_MAX}}};
    sli_stage_code code = {.timed = true, .fixed_ns = 100, .row_ns = 1, .descriptor = -1};
    sli_work stage = {.code = &code}, copy = {.n_reads = 1, .n_operands = 2, .operands = ends};
    sli_batch batch = {.ticket = &ticket, .rows = {3}};
    sli_lane_figures figures;
    int a = lane_between(b, 0, 0, 4), c = lane_between(b, 0, 1, 4);
    run(b, a, &stage, &batch);
    record(b, a, 1);
    ck_assert_int_eq(wait_for(b, c, a, 1), SL_OK);
    run(b, c, &copy, &batch);
    record(b, c, 1);
    ck_assert_uint_eq(time_of(b, c, 1), 103 + 35);
    b->ops->lane_figures(b, (uint16_t)c, &figures);
    ck_assert_uint_eq(figures.busy_ns, 35);
    ck_assert_uint_eq(figures.bytes, 30);
    b->ops->close(b, 0);
}
END_TEST

/* ---- Drivers that break the contract ---- */

START_TEST(a_wait_before_its_record_is_refused) {
    topology = NULL;
    sli_backend *b = sim_open(false);
    int a = lane_between(b, 0, 0, 4), c = lane_between(b, 1, 1, 4);
    ck_assert_int_eq(wait_for(b, c, a, 1), SL_LOST);
    ck_assert_str_eq(sl_last_error(), "sim: lane 1 waits for value 1 of lane 0, which is at 0 and keeps the last 4");
    b->ops->close(b, 0);
}
END_TEST

START_TEST(a_wait_for_what_is_no_more_kept_is_refused) {
    topology = NULL;
    sli_backend *b = sim_open(false);
    int a = lane_between(b, 0, 0, 3), c = lane_between(b, 1, 1, 4);
    for (uint64_t v = 1; v <= 10; v++) {
        uint64_t ns;
        record(b, a, v);
        ck_assert_int_eq(wait_for(b, c, a, v > 2 ? v - 2 : 1), SL_OK);
        ck_assert_int_eq(b->ops->when(b, (uint16_t)a, v > 2 ? v - 2 : 1, &ns), SL_OK);
        if (v > 3)
            ck_assert_int_eq(b->ops->when(b, (uint16_t)a, v - 3, &ns), SL_INVALID);
    }
    ck_assert_int_eq(wait_for(b, c, a, 7), SL_LOST);
    b->ops->close(b, 0);
}
END_TEST

START_TEST(a_record_out_of_turn_is_refused) {
    topology = NULL;
    sli_backend *b = sim_open(false);
    lane_between(b, 0, 0, 4);
    record(b, 0, 1);
    static const uint64_t wrong[] = {1, 0, 3};
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(act(b, (sli_action){.kind = SLI_RECORD, .value = wrong[i]}), SL_LOST);
    ck_assert_uint_eq(b->ops->reached(b, 0), 1);
    b->ops->close(b, 0);
}
END_TEST

/* ---- Devices and memory ---- */

START_TEST(a_device_that_the_topology_lacks_is_refused) {
    topology = "{\"devices\": {\"count\": 2}}";
    sli_backend *b = sim_open(false);
    void *at;
    uint16_t lane;
    static const int ends[][2] = {{2, 2}, {0, 2}, {2, SLI_HOST}, {SLI_HOST, 7}};
    for (int i = 0; i < 4; i++) {
        sli_lane_desc desc = {ends[i][0], ends[i][1], 10, 10};
        ck_assert_int_eq(b->ops->lane_create(b, &desc, &lane), SL_NO_DEVICE);
        ck_assert_ptr_nonnull(strstr(sl_last_error(), "the topology has 2 devices"));
    }
    ck_assert_int_eq(b->ops->allocate(b, 2, 10, SL_MEMORY_SLOTS, &at), SL_NO_DEVICE);
    ck_assert_uint_eq(lane_between(b, 0, 1, 2), 0);
    b->ops->close(b, 0);
}
END_TEST

START_TEST(a_broken_topology_opens_nothing) {
    sli_backend *b = NULL;
    sli_backend_options options = {.sim_topology = "{\"devices\": {\"cout\": 2}}"};
    ck_assert_int_eq(sl_devices_find(), SL_OK);
    ck_assert_int_eq(sli_sim_platform.open(&options, &b), SL_INVALID);
    ck_assert_ptr_nonnull(strstr(sl_last_error(), "devices.cout is no key"));
    ck_assert_ptr_null(b);
}
END_TEST

START_TEST(memory_counts_against_the_limit_of_the_topology) {
    topology = "{\"devices\": {\"memory_bytes\": 1000, \"each\": [{\"index\": 1, \"memory_bytes\": 0}]}}";
    sl_memory_figures before, during, after;
    sli_backend *b = sim_open(false);
    void *at;
    ck_assert_int_eq(sl_memory_get((sl_device){SL_SIM, 0}, &before), SL_OK);
    ck_assert_int_eq(b->ops->allocate(b, 0, 600, SL_MEMORY_WEIGHTS, &at), SL_OK);
    ck_assert_int_eq(b->ops->allocate(b, 0, 401, SL_MEMORY_SLOTS, &at), SL_OUT_OF_MEMORY);
    ck_assert_ptr_nonnull(strstr(sl_last_error(), "sim:0 is out of memory: 401 bytes"));
    ck_assert_int_eq(b->ops->allocate(b, 0, 400, SL_MEMORY_SLOTS, &at), SL_OK);
    ck_assert_int_eq(b->ops->allocate(b, 1, (size_t)1 << 50, SL_MEMORY_SLOTS, &at), SL_OK);
    ck_assert_int_eq(b->ops->allocate(b, SLI_HOST, 5000, SL_MEMORY_SLOTS, &at), SL_OK);
    ck_assert_int_eq(sl_memory_get((sl_device){SL_SIM, 0}, &during), SL_OK);
    ck_assert_uint_eq(during.allocated - before.allocated, 1000);
    ck_assert_uint_eq(during.by_category[SL_MEMORY_WEIGHTS] - before.by_category[SL_MEMORY_WEIGHTS], 600);
    b->ops->close(b, 0);
    ck_assert_int_eq(sl_memory_get((sl_device){SL_SIM, 0}, &after), SL_OK);
    ck_assert_uint_eq(after.allocated, before.allocated);
}
END_TEST

START_TEST(there_are_no_more_lanes_than_the_contract_allows) {
    topology = NULL;
    sli_backend *b = sim_open(false);
    uint16_t lane;
    sli_lane_desc desc = {0, 0, 1, 1};
    for (int l = 0; l < SLI_MAX_LANES; l++) {
        ck_assert_int_eq(b->ops->lane_create(b, &desc, &lane), SL_OK);
        ck_assert_int_eq(lane, l);
    }
    ck_assert_int_eq(b->ops->lane_create(b, &desc, &lane), SL_UNSUPPORTED);
    b->ops->close(b, 0);
}
END_TEST

START_TEST(peers_are_as_the_topology_says) {
    topology = "{\"links\": {\"each\": [{\"from\": 1, \"to\": 0, \"peer\": false}]}}";
    sli_backend *b = sim_open(false);
    ck_assert(b->ops->peer_works(b, 0, 1));
    ck_assert(!b->ops->peer_works(b, 1, 0));
    ck_assert(b->ops->peer_works(b, 1, 1));
    b->ops->close(b, 0);
}
END_TEST

/* ---- The process's topology ---- */

START_TEST(the_topology_of_the_process_makes_its_devices) {
    sl_device_info info;
    void *at;
    setenv("SLUICE_SIM_TOPOLOGY",
           "{\"devices\": {\"count\": 3, \"name\": \"toy\", \"memory_bytes\": 100, \"operations_per_s\": 7}}", 1);
    ck_assert_int_eq(sl_device_count(SL_SIM), 3);
    ck_assert_int_eq(sl_device_get_info((sl_device){SL_SIM, 2}, &info), SL_OK);
    ck_assert_str_eq(info.name, "toy");
    ck_assert_uint_eq(info.memory_bytes, 100);
    ck_assert_double_eq(info.operations_per_s, 7);
    ck_assert_int_eq(sli_memory_allocate((sl_device){SL_SIM, 0}, 101, SL_MEMORY_TENSORS, &at), SL_OUT_OF_MEMORY);
    ck_assert_int_eq(sl_device_check((sl_device){SL_SIM, 3}), SL_NO_DEVICE);
    topology = NULL;
    sli_backend *b = sim_open(false);
    ck_assert_int_eq(b->ops->allocate(b, 0, 101, SL_MEMORY_SLOTS, &at), SL_OUT_OF_MEMORY);
    b->ops->close(b, 0);
}
END_TEST

START_TEST(without_one_there_are_as_many_as_were_asked_for) {
    setenv("SLUICE_SIM_DEVICES", "5", 1);
    ck_assert_int_eq(sl_device_count(SL_SIM), 5);
}
END_TEST

START_TEST(a_broken_topology_of_the_process_says_why_there_are_none) {
    setenv("SLUICE_SIM_TOPOLOGY", "/nowhere/at/all.json", 1);
    ck_assert_int_eq(sl_device_count(SL_SIM), 0);
    ck_assert_ptr_nonnull(strstr(sl_device_absence(SL_SIM), "/nowhere/at/all.json"));
    ck_assert_int_eq(sl_device_check((sl_device){SL_SIM, 0}), SL_NO_DEVICE);
    ck_assert_ptr_nonnull(strstr(sl_last_error(), "/nowhere/at/all.json"));
}
END_TEST

START_TEST(addresses_are_apart_and_lead_nowhere) {
    void *a = NULL, *b = NULL;
    ck_assert_int_eq(sl_devices_find(), SL_OK);
    ck_assert_int_eq(sli_sim_platform.allocate(0, (size_t)1 << 45, &a), SL_OK);
    ck_assert_int_eq(sli_sim_platform.allocate(1, 1, &b), SL_OK);
    ck_assert_uint_ge((uintptr_t)b - (uintptr_t)a, (size_t)1 << 45);
    ck_assert_uint_ge((uintptr_t)a, (uintptr_t)1 << 48); /* no user address on a 48-bit machine */
}
END_TEST

int main(void) {
    const test_case cases[] = {
        TEST(a_chain_fills_and_drains),
        TEST(every_golden_row_is_met),
        TEST(cost_rules_run_at_the_speed_of_the_device),
        TEST(busy_time_is_that_of_payloads_alone),
        TEST(a_wait_before_its_record_is_refused),
        TEST(a_wait_for_what_is_no_more_kept_is_refused),
        TEST(a_record_out_of_turn_is_refused),
        TEST(a_device_that_the_topology_lacks_is_refused),
        TEST(a_broken_topology_opens_nothing),
        TEST(memory_counts_against_the_limit_of_the_topology),
        TEST(there_are_no_more_lanes_than_the_contract_allows),
        TEST(peers_are_as_the_topology_says),
        TEST(the_topology_of_the_process_makes_its_devices),
        TEST(without_one_there_are_as_many_as_were_asked_for),
        TEST(a_broken_topology_of_the_process_says_why_there_are_none),
        TEST(addresses_are_apart_and_lead_nowhere),
    };
    return test_main("sim", cases, sizeof cases / sizeof *cases);
}
