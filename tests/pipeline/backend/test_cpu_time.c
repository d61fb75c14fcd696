/* Claims about modelled time. The timelines that `when` tells are exact where payloads are much shorter than their
 * model; real time is only ever later. */
#include "backend/cpu_internal.h"
#include "cpu_chain.h"
#include "support.h"
#include <time.h>

static const uint64_t ms = 1000000;

/* 1e6 operations a word of its output. */
static void mix_cost(const sl_call *call, sl_cost *cost) {
    cost->operations = 1e6 * (double)call->outputs[0].shape.dims[0];
}

static const sl_op costly_mix = {.name = "costly",
                                 .attribute_bytes = sizeof(mix_attributes),
                                 .cost = mix_cost,
                                 .cpu = mix_on_host,
                                 .never_blocks = true};

static uint64_t when(fixture *f, int lane, uint64_t value) {
    uint64_t ns = 0;
    ck_assert_int_eq(f->b->ops->when(f->b, (uint16_t)lane, value, &ns), SL_OK);
    return ns;
}

/* At least expected, and at most 25 % more: machines are shared. */
static void expect_ratio(uint64_t found_ns, uint64_t expected_ns, const char *what) {
    double ratio = (double)found_ns / (double)expected_ns;
    ck_assert_msg(ratio >= 0.999 && ratio < 1.25, "%s: %.4f of the closed form", what, ratio);
}

/* A chain of n stages of t each on devices of their own, m micro-batches: the last ends (n + m - 1) t after the first
 * one's start. */
START_TEST(a_chain_takes_its_closed_form) {
    enum { M = 12 };
    begin_cpu(NULL);
    for (int devices = 1; devices <= 4; devices += 3) {
        sl_cpu_options cpu = {.operations_per_s = 64e6 / 4e-3}; /* a stage takes 4 ms */
        sli_backend_options options = {.cpu = &cpu, .measure = true};
        chain_options o = {.n_stages = 4, .n_devices = devices, .depth = 3, .op = &costly_mix, .n_ahead = M};
        chain *c = chain_open(&o, &options);
        uint64_t begin = sli_now_ns();
        chain_run(c, M);
        chain_settle(c);
        uint64_t took = sli_now_ns() - begin, stages = devices == 1 ? 4 * M : 4 + M - 1;
        uint64_t first = when(c->f, c->compute[0], 1) - 4 * ms;
        expect_ratio(when(c->f, c->last_lane, M) - first, stages * 4 * ms, "the chain");
        ck_assert_uint_ge(took, stages * 4 * ms);
        ck_assert_int_eq(chain_wrong(c, M), 0);
        sli_lane_figures figures;
        c->f->b->ops->lane_figures(c->f->b, (uint16_t)c->compute[0], &figures);
        expect_ratio(figures.busy_ns, (devices == 1 ? 4 : 1) * M * 4 * ms, "busy");
        chain_close(c);
    }
}
END_TEST

static uint64_t time_copies(int from, int to, bool io, size_t bytes, int n) {
    sl_cpu_options cpu = {.link_bytes_per_s = 1e8, .link_latency_ns = 2 * ms};
    sli_backend_options options = {.cpu = &cpu, .measure = true};
    static char host[1 << 20];
    fixture *f = fixture_open(&options);
    place ends[2];
    for (int i = 0; i < 2; i++) {
        int device = i ? to : from;
        ends[i] = device == SLI_HOST && io ? io_place(0) : add_slot(f, device, bytes);
    }
    f->io[0] = host;
    int lane = add_lane(f, from, to);
    test_work *copy = add_copy(f, ends[0], ends[1], bytes);
    put_record(f, lane);
    for (int i = 0; i < n; i++) {
        put(f, lane, copy, NULL);
        put_record(f, lane);
    }
    settle(f);
    uint64_t took = when(f, lane, (uint64_t)n + 1) - when(f, lane, 2); /* without the first, which began when it came */
    fixture_close(f);
    return took;
}

/* 100 kB at 100 MB/s and 2 ms of latency: 3 ms each. */
START_TEST(a_link_takes_its_bandwidth_and_latency_for_each_copy) {
    begin_cpu(NULL);
    expect_ratio(time_copies(0, 1, false, 100000, 6), 5 * 3 * ms, "device to device");
    expect_ratio(time_copies(0, SLI_HOST, false, 100000, 6), 5 * 3 * ms, "to a staging slot");
    expect_ratio(time_copies(SLI_HOST, 1, false, 100000, 6), 5 * 3 * ms, "from a staging slot");
}
END_TEST

START_TEST(the_hosts_own_memory_and_a_device_alone_know_no_link) {
    begin_cpu(NULL);
    ck_assert_uint_lt(time_copies(SLI_HOST, 0, true, 100000, 6), 5 * 3 * ms / 2);
    ck_assert_uint_lt(time_copies(0, SLI_HOST, true, 100000, 6), 5 * 3 * ms / 2);
    ck_assert_uint_lt(time_copies(1, 1, false, 100000, 6), 5 * 3 * ms / 2);
}
END_TEST

/* The link is as slow as the stages, and nothing but the fill of the pipeline is lost. */
START_TEST(transfer_hides_behind_compute) {
    enum { M = 20 };
    begin_cpu(NULL);
    sl_cpu_options cpu = {.operations_per_s = 64e6 / 2e-3, .link_bytes_per_s = SLOT / 2e-3};
    sli_backend_options options = {.cpu = &cpu, .measure = true};
    chain_options o = {.n_stages = 4, .n_devices = 4, .depth = 3, .op = &costly_mix, .n_ahead = M};
    chain *c = chain_open(&o, &options);
    chain_run(c, M);
    chain_settle(c);
    uint64_t first = when(c->f, c->compute[0], 1) - 2 * ms;
    expect_ratio(when(c->f, c->last_lane, M) - first, (4 + 3 + M - 1) * 2 * ms, "stages and hops");
    chain_close(c);
}
END_TEST

START_TEST(a_stage_with_a_time_of_its_own_takes_it) {
    begin_cpu(NULL);
    sli_backend_options options = {.measure = true};
    fixture *f = fixture_open(&options);
    int before = add_lane(f, 1, 1), lane = add_lane(f, 0, 0); /* one is there when the model begins */
    test_work *w = add_mix(f, 0, 1, 0, NULL, add_slot(f, 0, SLOT));
    w->code.timed = true;
    w->code.fixed_ns = ms;
    w->code.row_ns = 0.25e6;
    prepare(f, 0, w);
    sli_batch batch = {.ticket = &f->ticket, .rows = {4}, .io = f->io}, none = {.ticket = &f->ticket};
    for (int i = 0; i < 6; i++) {
        put(f, lane, w, i == 3 ? &none : &batch);
        put_record(f, lane);
        put_wait(f, before, lane, f->recorded[lane]);
        put_record(f, before);
    }
    settle(f);
    expect_ratio(when(f, lane, 6) - when(f, lane, 1), 4 * 2 * ms, "1 ms and 0.25 ms a row");
    ck_assert_uint_eq(when(f, lane, 4), when(f, lane, 3));
    ck_assert_uint_eq(when(f, before, 6), when(f, lane, 6));
    fixture_close(f);
}
END_TEST

/* A payload that really takes longer than its model ends when it ends. */
static sl_status wait_a_while(sl_lane *lane, const sl_call *call) {
    (void)lane, (void)call;
    for (uint64_t end = sli_after_ns(3 * ms); sli_now_ns() < end;) {
    }
    return SL_OK;
}

static const sl_op slow_op = {.name = "slow", .attribute_bytes = sizeof(mix_attributes), .cpu = wait_a_while};

START_TEST(the_later_of_real_and_modelled_time_counts) {
    begin_cpu(NULL);
    sl_cpu_options cpu = {.operations_per_s = 1e15};
    sli_backend_options options = {.cpu = &cpu, .measure = true};
    fixture *f = fixture_open(&options);
    int lane = add_lane(f, 0, 0);
    test_work *w = add_stage(f, 0, &slow_op, slow_op.cpu, 0, NULL, add_slot(f, 0, SLOT));
    for (int i = 0; i < 4; i++) {
        put(f, lane, w, NULL);
        put_record(f, lane);
    }
    settle(f);
    ck_assert_uint_ge(when(f, lane, 4) - when(f, lane, 1), 3 * 3 * ms);
    fixture_close(f);
}
END_TEST

START_TEST(a_pause_is_no_time_that_a_device_has_saved) {
    begin_cpu(NULL);
    sl_cpu_options cpu = {.operations_per_s = 64e6 / 3e-3};
    sli_backend_options options = {.cpu = &cpu, .measure = true};
    fixture *f = fixture_open(&options);
    int lane = add_lane(f, 0, 0);
    test_work *w = add_stage(f, 0, &costly_mix, costly_mix.cpu, 0, NULL, add_slot(f, 0, SLOT));
    for (uint64_t i = 1; i <= 3; i++) {
        f->b->ops->await(f->b, (uint16_t)lane, SLI_NEVER, sli_after_ns(5 * ms));
        uint64_t begin = sli_now_ns();
        put(f, lane, w, NULL);
        put_record(f, lane);
        settle(f);
        ck_assert_uint_ge(sli_now_ns() - begin, 3 * ms);
        ck_assert_uint_ge(when(f, lane, i), begin + 3 * ms);
    }
    fixture_close(f);
}
END_TEST

static double cpu_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

START_TEST(modelled_time_passes_without_a_core) {
    enum { M = 20 };
    begin_cpu(NULL);
    sl_cpu_options cpu = {.operations_per_s = 64e6 / 10e-3};
    sli_backend_options options = {.cpu = &cpu};
    chain_options o = {.n_stages = 4, .n_devices = 4, .depth = 2, .op = &costly_mix, .n_ahead = M};
    chain *c = chain_open(&o, &options);
    double used = cpu_seconds();
    uint64_t begin = sli_now_ns();
    chain_run(c, M);
    chain_settle(c);
    used = cpu_seconds() - used;
    double took = (double)(sli_now_ns() - begin) * 1e-9;
    ck_assert_msg(used < 0.25 * took, "%.3f of the time", used / took);
    chain_close(c);
}
END_TEST

START_TEST(the_settings_of_the_process_count_where_options_say_nothing) {
    static const char *const settings[] = {"SLUICE_LINK_LATENCY", "3ms", "SLUICE_CPU_SPEED", "16G", NULL};
    begin_cpu(settings);
    sli_backend_options options = {.measure = true};
    fixture *f = fixture_open(&options);
    int lane = add_lane(f, 0, 0), link = add_lane(f, 0, 1);
    test_work *w = add_stage(f, 0, &costly_mix, costly_mix.cpu, 0, NULL, add_slot(f, 0, SLOT));
    test_work *copy = add_copy(f, (place){0, w->operands[0].at, 0}, add_slot(f, 1, SLOT), SLOT);
    for (int i = 0; i < 2; i++) {
        put(f, lane, w, NULL);
        put_record(f, lane);
        put(f, link, copy, NULL);
        put_record(f, link);
    }
    settle(f);
    expect_ratio(when(f, lane, 2) - when(f, lane, 1), 4 * ms, "64 M operations at 16 G/s");
    expect_ratio(when(f, link, 2) - when(f, link, 1), 3 * ms, "latency");
    fixture_close(f);
}
END_TEST

int main(void) {
    const test_case cases[] = {
        TEST(a_chain_takes_its_closed_form),
        TEST(a_link_takes_its_bandwidth_and_latency_for_each_copy),
        TEST(the_hosts_own_memory_and_a_device_alone_know_no_link),
        TEST(transfer_hides_behind_compute),
        TEST(a_stage_with_a_time_of_its_own_takes_it),
        TEST(the_later_of_real_and_modelled_time_counts),
        TEST(a_pause_is_no_time_that_a_device_has_saved),
        TEST(modelled_time_passes_without_a_core),
        TEST(the_settings_of_the_process_count_where_options_say_nothing),
    };
    return test_main("cpu time", cases, sizeof cases / sizeof *cases);
}
