/* Claims about faults: how they are written, and that each does what it says and nothing else. */
#include "backend/cpu_faults.h"
#include "cpu_chain.h"
#include "support.h"
#include <stdio.h>

static const uint64_t moment_ns = 20000000, patience_ns = UINT64_C(20000000000);
static const chain_options three_stages = {.n_stages = 3, .n_devices = 3, .depth = 2, .op = &calm_mix};

static sli_backend_options with_faults(const char *faults) {
    static sl_cpu_options cpu;
    cpu = (sl_cpu_options){.faults = faults};
    return (sli_backend_options){.cpu = &cpu};
}

/* ---- Their text ---- */

START_TEST(faults_are_read) {
    sli_faults f;
    ck_assert_int_eq(sli_faults_parse("", 4, &f), SL_OK);
    ck_assert_int_eq(f.count, 0);
    ck_assert_int_eq(sli_faults_parse("no-peer:0-1,corrupt:3-0,alloc:2,enqueue:18446744073709551615,hang:1:3,"
                                      "hang-link:1-2:1,stage:0:7",
                                      4, &f),
                     SL_OK);
    ck_assert_int_eq(f.count, 7);
    ck_assert(sli_faults_have(&f, SLI_FAULT_NO_PEER, 0, 1));
    ck_assert(!sli_faults_have(&f, SLI_FAULT_NO_PEER, 1, 0)); /* the direction matters */
    ck_assert(sli_faults_have(&f, SLI_FAULT_CORRUPT, 3, 0));
    ck_assert(!sli_faults_have(&f, SLI_FAULT_CORRUPT, 0, 1));
    ck_assert_uint_eq(sli_faults_at(&f, SLI_FAULT_ALLOC, 0, 0), 2);
    ck_assert_uint_eq(sli_faults_at(&f, SLI_FAULT_ENQUEUE, 0, 0), UINT64_MAX);
    ck_assert_uint_eq(sli_faults_at(&f, SLI_FAULT_HANG, 1, 1), 3);
    ck_assert_uint_eq(sli_faults_at(&f, SLI_FAULT_HANG_LINK, 1, 2), 1);
    ck_assert_uint_eq(sli_faults_at(&f, SLI_FAULT_STAGE, 0, 0), 7);
    ck_assert_uint_eq(sli_faults_at(&f, SLI_FAULT_STAGE, 1, 1), 0);
}
END_TEST

START_TEST(wrong_faults_are_refused_with_the_known_ones) {
    static const char *const wrong[] = {"x",
                                        ",",
                                        "alloc:1,",
                                        ",alloc:1",
                                        "alloc",
                                        "alloc:",
                                        "alloc:0",
                                        "alloc:01",
                                        "alloc:-1",
                                        "alloc:+1",
                                        "alloc: 1",
                                        "alloc:1 ",
                                        "alloc:1:2",
                                        "alloc:18446744073709551616",
                                        "Alloc:1",
                                        "no-peer",
                                        "no-peer:0",
                                        "no-peer:0-",
                                        "no-peer:-1",
                                        "no-peer:0-0",
                                        "no-peer:0-4",
                                        "no-peer:4-0",
                                        "no-peer:0-1:1",
                                        "no-peer:00-1",
                                        "no-peers:0-1",
                                        "hang:0",
                                        "hang:0:0",
                                        "hang:4:1",
                                        "hang:0-1:1",
                                        "hang-link:0:1",
                                        "hang-link:0-1",
                                        "stage:a:1",
                                        "stage:0:1;stage:1:1"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        sli_faults f;
        ck_assert_msg(sli_faults_parse(wrong[i], 4, &f) == SL_INVALID, "'%s' was read", wrong[i]);
        static const char *const kinds[] = {"no-peer:A-B", "corrupt:A-B", "alloc:N",  "enqueue:N",
                                            "hang:D:N",    "hang-link:",  "stage:D:N"};
        for (int k = 0; k < 7; k++)
            ck_assert_msg(strstr(sl_last_error(), kinds[k]) != NULL, "'%s': %s", wrong[i], sl_last_error());
    }
}
END_TEST

START_TEST(too_many_faults_are_refused) {
    char text[400] = "";
    for (int i = 0; i <= SLI_MOST_FAULTS; i++)
        strcat(text, i ? ",alloc:1" : "alloc:1");
    sli_faults f;
    ck_assert_int_eq(sli_faults_parse(text, 4, &f), SL_INVALID);
}
END_TEST

START_TEST(a_wrong_fault_refuses_the_backend) {
    begin_cpu(NULL);
    sli_backend *b;
    sli_backend_options options = with_faults("hnag:1:1");
    ck_assert_int_eq(sli_cpu_platform.open(&options, &b), SL_INVALID);
    ck_assert_ptr_nonnull(strstr(sl_last_error(), "hnag"));
}
END_TEST

START_TEST(faults_come_from_the_setting_unless_options_say_else) {
    static const char *const settings[] = {"SLUICE_FAULTS", "alloc:1", NULL};
    begin_cpu(settings);
    sli_backend *b;
    void *at;
    for (int i = 0; i < 2; i++) {
        sli_backend_options options = with_faults(i ? "" : NULL);
        ck_assert_int_eq(sli_cpu_platform.open(&options, &b), SL_OK);
        ck_assert_int_eq(b->ops->allocate(b, 0, 64, SL_MEMORY_SLOTS, &at), i ? SL_OK : SL_OUT_OF_MEMORY);
        ck_assert_int_eq(b->ops->close(b, patience_ns), SL_OK);
    }
}
END_TEST

/* ---- What they do ---- */

START_TEST(the_nth_allocation_fails_and_no_other) {
    begin_cpu(NULL);
    sli_backend *b;
    void *at;
    sli_backend_options options = with_faults("alloc:3");
    ck_assert_int_eq(sli_cpu_platform.open(&options, &b), SL_OK);
    for (int n = 1; n <= 5; n++) {
        sl_status status = b->ops->allocate(b, n % 3 - 1, 64, SL_MEMORY_SLOTS, &at);
        ck_assert_int_eq(status, n == 3 ? SL_OUT_OF_MEMORY : SL_OK);
        ck_assert(n != 3 || strstr(sl_last_error(), "alloc:3"));
    }
    ck_assert_int_eq(b->ops->close(b, patience_ns), SL_OK);
}
END_TEST

/* Half of its actions were enqueued; nothing ends well after it, and closing does. */
START_TEST(the_nth_enqueueing_loses_the_backend) {
    begin_cpu(NULL);
    sli_backend_options options = with_faults("enqueue:3");
    fixture *f = fixture_open(&options);
    int a = add_lane(f, 0, 0), b = add_lane(f, 1, 1);
    put_record(f, a);
    settle(f);
    sli_action actions[4] = {{.kind = SLI_RECORD, .lane = (uint16_t)a, .value = 2},
                             {.kind = SLI_RECORD, .lane = (uint16_t)a, .value = 3},
                             {.kind = SLI_WAIT, .lane = (uint16_t)b, .of = (uint16_t)a, .value = 3},
                             {.kind = SLI_RECORD, .lane = (uint16_t)b, .value = 1}};
    ck_assert_int_eq(f->b->ops->enqueue(f->b, actions, 0), SL_OK);
    ck_assert_int_eq(f->b->ops->enqueue(f->b, actions, 4), SL_LOST);
    ck_assert_ptr_nonnull(strstr(sl_last_error(), "enqueue:3"));
    ck_assert_int_eq(f->b->ops->await(f->b, (uint16_t)b, 1, SLI_NEVER), SL_LOST);
    ck_assert_int_eq(f->b->ops->enqueue(f->b, actions, 4), SL_LOST);
    f->b->ops->poke(f->b);
    ck_assert_uint_le(f->b->ops->reached(f->b, (uint16_t)a), 3);
    fixture_close(f);
}
END_TEST

/* Runs the chain until nothing moves: micro-batches that ended before the fault are right. */
static void run_into_hang(const char *faults, uint64_t n_right) {
    sli_backend_options options = with_faults(faults);
    chain_options o = three_stages;
    o.n_ahead = CHAIN_BATCHES;
    chain *c = chain_open(&o, &options);
    chain_run(c, 20);
    sli_backend *b = c->f->b;
    uint16_t last = (uint16_t)c->last_lane;
    while (b->ops->reached(b, last) < n_right)
        ck_assert_int_eq(b->ops->await(b, last, n_right, sli_after_ns(patience_ns)), SL_OK);
    ck_assert_int_eq(b->ops->await(b, last, n_right + 1, sli_after_ns(moment_ns)), SL_STALLED);
    ck_assert_uint_eq(b->ops->reached(b, last), n_right);
    for (uint64_t k = 0; k < n_right; k++)
        for (int e = 0; e < WORDS; e++)
            ck_assert_uint_eq(c->output[k][e], chain_expected(c, c->input[k][e]));
    uint64_t before = sli_cpu_abandoned();
    chain_abandon(c, moment_ns);
    ck_assert_uint_eq(sli_cpu_abandoned(), before + 1);
}

static void run_well(void) {
    sli_backend_options options = with_faults("");
    chain *c = chain_open(&three_stages, &options);
    chain_run(c, 50);
    chain_settle(c);
    ck_assert_int_eq(chain_wrong(c, 50), 0);
    chain_close(c);
}

START_TEST(a_hung_lane_holds_no_worker_and_the_next_backend_works) {
    static const char *const settings[] = {"SLUICE_CPU_WORKERS", "1", NULL};
    begin_cpu(settings);
    run_into_hang("hang:1:5", 4);
    run_well();
    run_into_hang("hang:0:1", 0);
    run_well();
    run_into_hang("hang-link:1-2:3", 2);
    run_well();
}
END_TEST

START_TEST(other_lanes_go_on_beside_a_hung_one) {
    begin_cpu(NULL);
    sli_backend_options options = with_faults("hang:0:1");
    fixture *f = fixture_open(&options);
    int hung = add_lane(f, 0, 0), free_one = add_lane(f, 1, 1);
    test_work *a = add_mix(f, 0, 1, 0, NULL, add_slot(f, 0, SLOT)),
              *b = add_mix(f, 1, 1, 0, NULL, add_slot(f, 1, SLOT));
    for (int i = 0; i < 50; i++) {
        put(f, hung, a, NULL);
        put_record(f, hung);
        put(f, free_one, b, NULL);
        put_record(f, free_one);
    }
    flush(f);
    wait_until(f, free_one, 50);
    ck_assert_uint_eq(f->b->ops->reached(f->b, (uint16_t)hung), 0);
    static fixture *volatile kept; /* what hangs may touch it for good: no leak to a checker */
    kept = f;
    ck_assert_ptr_nonnull(kept);
    ck_assert_int_eq(f->b->ops->close(f->b, moment_ns), SL_STALLED);
}
END_TEST

START_TEST(a_failing_stage_stops_its_job_alone) {
    begin_cpu(NULL);
    sli_backend_options options = with_faults("stage:1:3");
    fixture *f = fixture_open(&options);
    sli_ticket tickets[5] = {0};
    sli_batch batches[5];
    int lane = add_lane(f, 1, 1), other = add_lane(f, 0, 0);
    test_work *w = add_mix(f, 1, 1, 0, NULL, add_slot(f, 1, SLOT)),
              *v = add_mix(f, 0, 1, 0, NULL, add_slot(f, 0, SLOT));
    for (int k = 0; k < 5; k++) {
        batches[k] = (sli_batch){.ticket = &tickets[k], .index = 70 + (uint64_t)k, .rows = {1}};
        put(f, other, v, &batches[k]);
        put_record(f, other);
        put_wait(f, lane, other, f->recorded[other]);
        put(f, lane, w, &batches[k]);
        put_record(f, lane);
    }
    settle(f);
    for (int k = 0; k < 5; k++)
        ck_assert_int_eq(atomic_load(&tickets[k].status), k == 2 ? SL_STAGE_FAILED : SL_OK);
    static const char *const words[] = {"stage", "micro-batch 72", "cpu:1", "stage:1:3"};
    for (int i = 0; i < 4; i++)
        ck_assert_msg(strstr(tickets[2].message, words[i]) != NULL, "%s", tickets[2].message);
    fixture_close(f);
}
END_TEST

/* ---- Links ---- */

static int n_warnings;
static char warning[512];

static void count_warning(sl_log_level level, const char *message, void *user) {
    (void)user;
    if (level != SL_LOG_WARNING)
        return;
    n_warnings++;
    snprintf(warning, sizeof warning, "%s", message);
}

START_TEST(links_are_checked_each_way_and_a_corrupt_one_is_told_once) {
    begin_cpu(NULL);
    sl_set_log(count_warning, NULL);
    sli_backend *b;
    sli_backend_options options = with_faults("corrupt:0-1,no-peer:2-3");
    ck_assert_int_eq(sli_cpu_platform.open(&options, &b), SL_OK);
    for (int again = 0; again < 3; again++)
        for (int from = 0; from < 4; from++)
            for (int to = 0; to < 4; to++) {
                bool bad = (from == 0 && to == 1) || (from == 2 && to == 3);
                ck_assert_msg(b->ops->peer_works(b, from, to) == !bad, "%d -> %d", from, to);
            }
    ck_assert_int_eq(n_warnings, 1);
    ck_assert_ptr_nonnull(strstr(warning, "cpu:0 -> cpu:1"));
    ck_assert(b->ops->peer_works(b, SLI_HOST, 1) && b->ops->peer_works(b, 1, SLI_HOST));
    ck_assert_int_eq(b->ops->close(b, patience_ns), SL_OK);
}
END_TEST

/* Direct copies come wrong, the way back and the way through the host do not. */
START_TEST(a_corrupt_link_corrupts_its_direct_copies) {
    begin_cpu(NULL);
    sli_backend_options options = with_faults("corrupt:0-1");
    fixture *f = fixture_open(&options);
    uint32_t words[WORDS], found[WORDS];
    place a = add_slot(f, 0, SLOT), b = add_slot(f, 1, SLOT), half = add_slot(f, SLI_HOST, SLOT);
    int there = add_lane(f, 0, 1), back = add_lane(f, 1, 0), up = add_lane(f, 0, SLI_HOST),
        down = add_lane(f, SLI_HOST, 1);
    fill_words(words, WORDS, 1);
    write_words(a, words, WORDS);
    put(f, there, add_copy(f, a, b, SLOT), NULL);
    put_record(f, there);
    settle(f);
    read_words(b, found, WORDS);
    ck_assert_mem_ne(found, words, SLOT);
    put(f, up, add_copy(f, a, half, SLOT), NULL);
    put_wait(f, down, up, put_record(f, up));
    put(f, down, add_copy(f, half, b, SLOT), NULL);
    put_record(f, down);
    settle(f);
    expect_words(b, words, WORDS, "staged");
    memset(a.at, 0, SLOT);
    put(f, back, add_copy(f, b, a, SLOT), NULL);
    put_record(f, back);
    settle(f);
    expect_words(a, words, WORDS, "back");
    fixture_close(f);
}
END_TEST

int main(void) {
    const test_case cases[] = {
        TEST(faults_are_read),
        TEST(wrong_faults_are_refused_with_the_known_ones),
        TEST(too_many_faults_are_refused),
        TEST(a_wrong_fault_refuses_the_backend),
        TEST(faults_come_from_the_setting_unless_options_say_else),
        TEST(the_nth_allocation_fails_and_no_other),
        TEST(the_nth_enqueueing_loses_the_backend),
        TEST(a_hung_lane_holds_no_worker_and_the_next_backend_works),
        TEST(other_lanes_go_on_beside_a_hung_one),
        TEST(a_failing_stage_stops_its_job_alone),
        TEST(links_are_checked_each_way_and_a_corrupt_one_is_told_once),
        TEST(a_corrupt_link_corrupts_its_direct_copies),
    };
    return test_main("cpu faults", cases, sizeof cases / sizeof *cases);
}
