/* Claims about the sanitizer: a missing wait is reported, with both actors, both lanes and the wait that is missing,
 * and what is ordered is not. Random programs are judged by brute force on the graph of all actions. */
#include "backend/san.h"
#include "support.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_ACTIONS = 512, MOST_WORKS = 256 };

typedef struct bench {
    sli_backend *b;
    uint64_t recorded[SLI_MAX_LANES];
    uint64_t n_reports;
    sli_san_report last;
    char sentence[1024];
    sli_ticket ticket;
    sli_batch batch;
    void *io[4];
    sli_work works[MOST_WORKS];
    sli_operand operands[MOST_WORKS][4];
    int n_works;
} bench;

static void keep(const sli_san_report *report, void *user) {
    bench *t = user;
    t->n_reports++;
    t->last = *report;
    snprintf(t->sentence, sizeof t->sentence, "%s", report->sentence);
}

static bench *bench_open(void) {
    bench *t = calloc(1, sizeof *t);
    sli_backend *sim = NULL;
    ck_assert_ptr_nonnull(t);
    ck_assert_int_eq(sl_devices_find(), SL_OK);
    ck_assert_int_eq(sli_sim_platform.open(&(sli_backend_options){0}, &sim), SL_OK);
    ck_assert_int_eq(sli_san_create(sim, &t->b), SL_OK);
    sli_san_listen(t->b, keep, t);
    t->batch = (sli_batch){.ticket = &t->ticket, .index = 3, .rows = {1}, .io = t->io};
    return t;
}

static void bench_close(bench *t) {
    ck_assert(!sli_san_is_off(t->b));
    ck_assert_int_eq(t->b->ops->close(t->b, 0), SL_OK);
    free(t);
}

static int lane_between(bench *t, int from, int to, uint32_t n_events) {
    uint16_t lane = 0;
    sli_lane_desc desc = {from, to, 1000, n_events};
    ck_assert_int_eq(t->b->ops->lane_create(t->b, &desc, &lane), SL_OK);
    return lane;
}

static int lane_of(bench *t, int device) {
    return lane_between(t, device, device, 64);
}

static char *slot_of(bench *t, size_t bytes) {
    void *at = NULL;
    ck_assert_int_eq(t->b->ops->allocate(t->b, 0, bytes, SL_MEMORY_SLOTS, &at), SL_OK);
    return at;
}

/* A copy of bytes [offset, offset + bytes); an end that is NULL is io 0 or io 1. */
static sli_work *copy_of(bench *t, const char *name, char *from, char *to, size_t offset, size_t bytes) {
    ck_assert_int_lt(t->n_works, MOST_WORKS);
    sli_operand *o = t->operands[t->n_works];
    sli_work *w = &t->works[t->n_works++];
    for (int i = 0; i < 2; i++) {
        o[i].at = i ? to : from;
        o[i].io = i;
        o[i].extent = (sli_extent){.rows = SLI_ROWS_FIXED, .bytes = SIZE_MAX / 2, .offset = offset, .limit = bytes};
    }
    *w = (sli_work){.name = name, .n_reads = 1, .n_operands = 2, .operands = o};
    return w;
}

static void enqueue(bench *t, sli_action a) {
    ck_assert_int_eq(t->b->ops->enqueue(t->b, &a, 1), SL_OK);
}

static void run(bench *t, int lane, const sli_work *w) {
    enqueue(t, (sli_action){
                   .kind = w->code ? SLI_EXECUTE : SLI_COPY, .lane = (uint16_t)lane, .batch = &t->batch, .work = w});
}

static uint64_t record(bench *t, int lane) {
    enqueue(t, (sli_action){.kind = SLI_RECORD, .lane = (uint16_t)lane, .value = ++t->recorded[lane]});
    return t->recorded[lane];
}

static void wait_for(bench *t, int lane, int of, uint64_t value) {
    enqueue(t, (sli_action){.kind = SLI_WAIT, .lane = (uint16_t)lane, .of = (uint16_t)of, .value = value});
}

/* ---- By hand ---- */

START_TEST(a_read_that_does_not_wait_for_its_writer_is_reported) {
    for (int waits = 0; waits < 2; waits++) {
        bench *t = bench_open();
        int a = lane_of(t, 0), b = lane_between(t, 0, 1, 8);
        char *x = slot_of(t, 64), *y = slot_of(t, 64), *z = slot_of(t, 64);
        run(t, a, copy_of(t, "make x", y, x, 0, 64));
        uint64_t value = record(t, a);
        if (waits)
            wait_for(t, b, a, value);
        run(t, b, copy_of(t, "take x", x, z, 0, 64));
        ck_assert_uint_eq(t->n_reports, waits ? 0 : 1);
        bench_close(t);
    }
}
END_TEST

START_TEST(a_write_that_does_not_wait_for_each_reader_is_reported) {
    for (int missing = 0; missing < 3; missing++) { /* none, the first, the second */
        bench *t = bench_open();
        int a = lane_of(t, 0), readers[2] = {lane_of(t, 1), lane_of(t, 2)};
        char *x = slot_of(t, 64);
        run(t, a, copy_of(t, "make x", slot_of(t, 64), x, 0, 64));
        uint64_t value = record(t, a);
        for (int i = 0; i < 2; i++) {
            wait_for(t, readers[i], a, value);
            run(t, readers[i], copy_of(t, i ? "second" : "first", x, slot_of(t, 64), 0, 64));
            value = record(t, readers[i]);
            if (missing != i + 1)
                wait_for(t, a, readers[i], value);
            value = 1;
        }
        run(t, a, copy_of(t, "make x again", slot_of(t, 64), x, 0, 64));
        ck_assert_uint_eq(t->n_reports, missing != 0);
        if (missing)
            ck_assert_str_eq(t->last.earlier.work->name, missing == 1 ? "first" : "second");
        bench_close(t);
    }
}
END_TEST

START_TEST(two_writes_in_no_order_are_reported) {
    bench *t = bench_open();
    int a = lane_of(t, 0), b = lane_of(t, 1);
    char *x = slot_of(t, 64);
    run(t, a, copy_of(t, "one", slot_of(t, 64), x, 0, 64));
    run(t, b, copy_of(t, "two", slot_of(t, 64), x, 0, 64));
    ck_assert_uint_eq(t->n_reports, 1);
    bench_close(t);
}
END_TEST

START_TEST(reads_and_a_lanes_own_order_need_no_waits) {
    bench *t = bench_open();
    int a = lane_of(t, 0), b = lane_of(t, 1);
    char *x = slot_of(t, 64);
    run(t, a, copy_of(t, "one", x, slot_of(t, 64), 0, 64));
    run(t, b, copy_of(t, "two", x, slot_of(t, 64), 0, 64));
    char *y = slot_of(t, 64);
    run(t, a, copy_of(t, "three", x, y, 0, 64));
    run(t, a, copy_of(t, "four", x, y, 0, 64));
    ck_assert_uint_eq(t->n_reports, 0);
    bench_close(t);
}
END_TEST

START_TEST(order_goes_through_other_lanes) {
    enum { LANES = 200 }; /* more than a page of a clock */
    bench *t = bench_open();
    char *x = slot_of(t, 64);
    int first = lane_of(t, 0), before = first;
    run(t, first, copy_of(t, "make x", slot_of(t, 64), x, 0, 64));
    for (int i = 1; i < LANES; i++) {
        int lane = lane_of(t, i);
        wait_for(t, lane, before, record(t, before));
        before = lane;
    }
    run(t, before, copy_of(t, "take x", x, slot_of(t, 64), 0, 64));
    ck_assert_uint_eq(t->n_reports, 0);
    run(t, lane_of(t, LANES), copy_of(t, "take x too", x, slot_of(t, 64), 0, 64));
    ck_assert_uint_eq(t->n_reports, 1);
    bench_close(t);
}
END_TEST

START_TEST(a_wait_for_an_earlier_value_is_not_enough) {
    bench *t = bench_open();
    int a = lane_of(t, 0), b = lane_of(t, 1);
    char *x = slot_of(t, 64);
    record(t, a);
    run(t, a, copy_of(t, "make x", slot_of(t, 64), x, 0, 64));
    record(t, a);
    wait_for(t, b, a, 1);
    run(t, b, copy_of(t, "take x", x, slot_of(t, 64), 0, 64));
    ck_assert_uint_eq(t->n_reports, 1);
    ck_assert_uint_eq(t->last.earlier.value, 2);
    bench_close(t);
}
END_TEST

START_TEST(only_bytes_that_both_touch_count) {
    static const struct {
        size_t from, bytes, reports;
    } cases[] = {{0, 10, 0}, {20, 10, 0}, {9, 1, 0}, {10, 1, 1}, {19, 1, 1}, {0, 11, 1}, {19, 10, 1}, {0, 99, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bench *t = bench_open();
        int a = lane_of(t, 0), b = lane_of(t, 1);
        char *x = slot_of(t, 128);
        run(t, a, copy_of(t, "10 to 19", slot_of(t, 128), x, 10, 10));
        run(t, b, copy_of(t, "other", x, slot_of(t, 128), cases[i].from, cases[i].bytes));
        ck_assert_msg(t->n_reports == cases[i].reports, "case %zu", i);
        if (t->n_reports) {
            size_t from = cases[i].from > 10 ? cases[i].from : 10, to = cases[i].from + cases[i].bytes;
            ck_assert_ptr_eq(t->last.at, x + from);
            ck_assert_uint_eq(t->last.bytes, (to < 20 ? to : 20) - from);
        }
        bench_close(t);
    }
}
END_TEST

START_TEST(a_report_names_both_and_the_wait_that_is_missing) {
    bench *t = bench_open();
    int a = lane_between(t, 0, 1, 8), b = lane_of(t, 1);
    char *x = slot_of(t, 64);
    sli_work *w = copy_of(t, "h: sim:0 -> sim:1", slot_of(t, 64), x, 0, 64);
    t->operands[0][1].buffer = "h at sim:1";
    t->operands[0][1].slot = 1;
    record(t, a);
    run(t, a, w);
    record(t, a);
    t->batch.index = 9;
    run(t, b, copy_of(t, "back", x, slot_of(t, 64), 0, 48));
    ck_assert_uint_eq(t->n_reports, 1);
    ck_assert_ptr_eq(t->last.earlier.work, w);
    ck_assert_uint_eq(t->last.earlier.micro_batch, 3);
    ck_assert_uint_eq(t->last.later.micro_batch, 9);
    static const char *const parts[] = {"'h: sim:0 -> sim:1' of micro-batch 3",
                                        "'back' of micro-batch 9",
                                        "lane 0 (device 0 -> device 1)",
                                        "lane 1 (device 1)",
                                        "slot 1 of 'h at sim:1'",
                                        "48 bytes",
                                        "a wait of lane 1 for value 2 of lane 0"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        ck_assert_msg(strstr(t->sentence, parts[i]) != NULL, "no %s in: %s", parts[i], t->sentence);
    bench_close(t);
}
END_TEST

START_TEST(a_wait_for_what_nobody_enqueued_is_counted) {
    bench *t = bench_open();
    int a = lane_of(t, 0), b = lane_of(t, 1);
    sli_action wait = {.kind = SLI_WAIT, .lane = (uint16_t)b, .of = (uint16_t)a, .value = 1};
    ck_assert_int_eq(t->b->ops->enqueue(t->b, &wait, 1), SL_LOST); /* says the simulator */
    ck_assert_uint_eq(sli_san_reports(t->b), 1);
    bench_close(t);
}
END_TEST

START_TEST(the_state_of_a_stage_is_memory_too) {
    for (int waits = 0; waits < 2; waits++) {
        bench *t = bench_open();
        int a = lane_of(t, 0), b = lane_of(t, 0);
        sl_op op = {.name = "remember"};
        sl_state_view state = {.data = slot_of(t, 4096), .n_places = 2, .n_rows = 4, .columns = 2, .row_bytes = 8};
        sli_op_code code = {.op = &op, .n_states = 1, .states = &state};
        sli_stage_code stage = {.name = "keeper", .n_ops = 1, .ops = &code, .descriptor = -1};
        sli_work w = {.name = "keeper", .code = &stage};
        run(t, a, &w);
        uint64_t value = record(t, a);
        if (waits)
            wait_for(t, b, a, value);
        run(t, b, &w);
        ck_assert_uint_eq(t->n_reports, waits ? 0 : 1);
        bench_close(t);
    }
}
END_TEST

START_TEST(an_empty_batch_touches_nothing) {
    bench *t = bench_open();
    int a = lane_of(t, 0), b = lane_of(t, 1);
    char *x = slot_of(t, 64);
    run(t, a, copy_of(t, "one", slot_of(t, 64), x, 0, 64));
    t->batch.rows[0] = 0;
    run(t, b, copy_of(t, "two", slot_of(t, 64), x, 0, 64));
    ck_assert_uint_eq(t->n_reports, 0);
    bench_close(t);
}
END_TEST

/* A job's output is the next one's input: what orders them is that the host saw the first one end. */
START_TEST(what_the_host_saw_orders_io_and_nothing_else) {
    static char user[64];
    for (int saw = 0; saw < 2; saw++)
        for (int io = 0; io < 2; io++) {
            bench *t = bench_open();
            int a = lane_between(t, 0, SLI_HOST, 8), b = lane_between(t, SLI_HOST, 1, 8);
            char *x = io ? NULL : slot_of(t, 64);
            t->io[0] = t->io[1] = user;
            run(t, a, copy_of(t, "out", slot_of(t, 64), x, 0, 64));
            record(t, a);
            if (saw)
                t->b->ops->reached(t->b, (uint16_t)a);
            run(t, b, copy_of(t, "in", x, slot_of(t, 64), 0, 64));
            ck_assert_uint_eq(t->n_reports, saw && io ? 0 : 1);
            bench_close(t);
        }
}
END_TEST

START_TEST(what_the_host_saw_brings_what_was_before_it) {
    static char user[64];
    bench *t = bench_open();
    int a = lane_between(t, 0, SLI_HOST, 8), b = lane_of(t, 1), c = lane_between(t, SLI_HOST, 1, 8);
    t->io[0] = t->io[1] = user;
    run(t, a, copy_of(t, "out", slot_of(t, 64), NULL, 0, 64));
    wait_for(t, b, a, record(t, a));
    record(t, b);
    t->b->ops->await(t->b, (uint16_t)b, 1, SLI_NEVER);
    run(t, c, copy_of(t, "in", NULL, slot_of(t, 64), 0, 64));
    ck_assert_uint_eq(t->n_reports, 0);
    bench_close(t);
}
END_TEST

/* New host memory for each of many jobs: only what is not over is kept, and it still counts. */
START_TEST(old_io_is_forgotten_and_new_io_is_not) {
    enum { JOBS = 5000 };
    bench *t = bench_open();
    int a = lane_between(t, 0, SLI_HOST, 8), b = lane_between(t, 1, SLI_HOST, 8);
    sli_work *w = copy_of(t, "out", slot_of(t, 64), NULL, 0, 64);
    char *memory = (char *)(uintptr_t)(1 << 20); /* nobody follows it */
    for (int k = 0; k < JOBS; k++) {
        t->io[1] = memory + (size_t)k * 64;
        run(t, a, w);
        record(t, a);
        if (k + 1 < JOBS)
            t->b->ops->reached(t->b, (uint16_t)a);
    }
    t->io[1] = memory;
    run(t, b, w);
    ck_assert_uint_eq(t->n_reports, 0);
    t->io[1] = memory + (size_t)(JOBS - 1) * 64;
    run(t, b, w);
    ck_assert_uint_eq(t->n_reports, 1);
    bench_close(t);
}
END_TEST

static bool there_is_none;

static void *take(size_t bytes, void *user) {
    (void)user;
    return there_is_none ? NULL : malloc(bytes);
}

static void *retake(void *memory, size_t bytes, void *user) {
    (void)user;
    return there_is_none ? NULL : realloc(memory, bytes);
}

static void give(void *memory, void *user) {
    (void)user;
    free(memory);
}

START_TEST(without_memory_it_says_so_and_the_program_goes_on) {
    sl_set_allocator(&(sl_allocator){take, retake, give, NULL});
    for (int when = 0; when < 3; when++) {
        there_is_none = false;
        bench *t = bench_open();
        int a = lane_of(t, 0), b = lane_of(t, 1);
        char *x = slot_of(t, 64), *y = slot_of(t, 64);
        there_is_none = when == 0;
        run(t, a, copy_of(t, "one", x, y, 0, 64));
        uint64_t value = record(t, a);
        there_is_none = when <= 1;
        wait_for(t, b, a, value);
        there_is_none = true;
        run(t, b, copy_of(t, "two", y, x, 0, 32)); /* cuts ranges */
        record(t, b);
        ck_assert_uint_eq(t->b->ops->reached(t->b, (uint16_t)b), 1);
        ck_assert(sli_san_is_off(t->b));
        ck_assert_uint_eq(t->n_reports, 0);
        ck_assert_int_eq(t->b->ops->close(t->b, 0), SL_OK);
        free(t);
    }
}
END_TEST

/* ---- At random ---- */

enum { R_LANES = 6, R_PAYLOADS = 40, R_SLOTS = 3, R_BYTES = 48, R_RECORDS = 2000 };

typedef struct payload {
    int lane;
    size_t slot[2], offset[2], bytes; /* read, written */
} payload;

typedef struct oracle { /* sets of payloads */
    payload all[R_PAYLOADS];
    bool pending[R_LANES][R_PAYLOADS]; /* what the lane's next payload has in its past */
    bool at_record[R_LANES][R_RECORDS][R_PAYLOADS];
} oracle;

static bool overlap(const payload *p, int i, const payload *q, int k) {
    return p->slot[i] == q->slot[k] && p->offset[i] < q->offset[k] + q->bytes && q->offset[k] < p->offset[i] + p->bytes;
}

static bool conflict(const payload *p, const payload *q) {
    return overlap(p, 1, q, 1) || overlap(p, 1, q, 0) || overlap(p, 0, q, 1);
}

static void oracle_wait(bench *t, oracle *o, int lane, int of, uint64_t value) {
    if (of == lane || value == 0)
        return;
    wait_for(t, lane, of, value);
    for (int q = 0; q < R_PAYLOADS; q++)
        o->pending[lane][q] |= o->at_record[of][value][q];
}

static void oracle_record(bench *t, oracle *o, int lane) {
    memcpy(o->at_record[lane][record(t, lane)], o->pending[lane], sizeof o->pending[lane]);
}

/* Waits at random, and nearly all those that the payload needs. */
static void add_waits(bench *t, oracle *o, int p, uint64_t *seed) {
    const payload *now = &o->all[p];
    for (uint64_t n = test_below(seed, 3); n > 0; n--) {
        int of = (int)test_below(seed, R_LANES);
        if (t->recorded[of])
            oracle_wait(t, o, now->lane, of, t->recorded[of] - test_below(seed, 4) % t->recorded[of]);
    }
    for (int q = 0; q < p; q++) {
        const payload *before = &o->all[q];
        if (o->pending[now->lane][q] || !conflict(now, before) || test_below(seed, 64) == 0)
            continue;
        oracle_record(t, o, before->lane);
        oracle_wait(t, o, now->lane, before->lane, t->recorded[before->lane]);
    }
}

static bool run_one(uint64_t seed) {
    static oracle o;
    bench *t = bench_open();
    char *slots[R_SLOTS];
    bool races = false;
    memset(&o, 0, sizeof o);
    for (int i = 0; i < R_SLOTS; i++)
        slots[i] = slot_of(t, R_BYTES);
    for (int l = 0; l < R_LANES; l++)
        lane_of(t, l);
    for (int p = 0; p < R_PAYLOADS && !races; p++) {
        payload *now = &o.all[p];
        *now = (payload){.lane = (int)test_below(&seed, R_LANES), .bytes = 1 + test_below(&seed, 6)};
        for (int i = 0; i < 2; i++) {
            now->slot[i] = test_below(&seed, R_SLOTS);
            now->offset[i] = test_below(&seed, R_BYTES - 6);
        }
        add_waits(t, &o, p, &seed);
        for (int q = 0; q < p; q++)
            races |= !o.pending[now->lane][q] && conflict(now, &o.all[q]);
        run(t, now->lane,
            copy_of(t, "copy", slots[now->slot[0]] + now->offset[0], slots[now->slot[1]] + now->offset[1], 0,
                    now->bytes));
        ck_assert_msg((t->n_reports > 0) == races, "payload %d: %d reports", p, (int)t->n_reports);
        o.pending[now->lane][p] = true;
        if (test_below(&seed, 3))
            oracle_record(t, &o, now->lane);
    }
    bench_close(t);
    return races;
}

START_TEST(random_programs_are_judged_as_brute_force_does) {
    uint64_t seed = test_seed();
    int n = test_cases(4000), races = 0;
    for (int c = 0; c < n; c++)
        races += run_one(seed + (uint64_t)c);
    printf("%d programs, %d with a race\n", n, races);
    ck_assert_int_gt(races, 0);
    ck_assert_int_lt(races, n);
}
END_TEST

int main(void) {
    const test_case cases[] = {
        TEST(a_read_that_does_not_wait_for_its_writer_is_reported),
        TEST(a_write_that_does_not_wait_for_each_reader_is_reported),
        TEST(two_writes_in_no_order_are_reported),
        TEST(reads_and_a_lanes_own_order_need_no_waits),
        TEST(order_goes_through_other_lanes),
        TEST(a_wait_for_an_earlier_value_is_not_enough),
        TEST(only_bytes_that_both_touch_count),
        TEST(a_report_names_both_and_the_wait_that_is_missing),
        TEST(a_wait_for_what_nobody_enqueued_is_counted),
        TEST(the_state_of_a_stage_is_memory_too),
        TEST(an_empty_batch_touches_nothing),
        TEST(what_the_host_saw_orders_io_and_nothing_else),
        TEST(what_the_host_saw_brings_what_was_before_it),
        TEST(old_io_is_forgotten_and_new_io_is_not),
        TEST(without_memory_it_says_so_and_the_program_goes_on),
        TEST(random_programs_are_judged_as_brute_force_does),
    };
    return test_main("sanitizer", cases, sizeof cases / sizeof *cases);
}
