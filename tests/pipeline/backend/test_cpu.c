/* Claims about the CPU backend's threads: right bytes in every arrangement, what blocks holds up nothing else, what
 * does not end is abandoned, and nothing is left behind. */
#include "backend/cpu_internal.h"
#include "cpu_chain.h"
#include "support.h"
#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <sluice/memory.h>
#include <stdio.h>

static const uint64_t moment_ns = 20000000, patience_ns = UINT64_C(20000000000);

/* ---- Right bytes ---- */

static void run_arrangement(const chain_options *o, int workers) {
    chain *c = chain_open(o, NULL);
    for (int part = 0; part < 3; part++) {
        uint64_t m = part == 0 ? 1 : 60;
        chain_run(c, m);
        chain_settle(c);
        ck_assert_msg(chain_wrong(c, m) == 0, "%d workers, %d devices, depth %d, skip %d, op %s, %u ahead", workers,
                      o->n_devices, o->depth, o->skip, o->op->name, o->n_ahead);
    }
    chain_close(c);
}

/* More workers than cores too: the pool that is there first decides. */
static void run_arrangements(int workers) {
    sli_pool *pool;
    begin_cpu(NULL);
    ck_assert_int_eq(sli_pool_retain(workers, workers, &pool), SL_OK);
    for (int devices = 1; devices <= CHAIN_DEVICES; devices++)
        for (int depth = 1; depth <= CHAIN_DEPTH; depth++)
            for (int i = 0; i < 8; i++) {
                chain_options o = {.n_stages = 5,
                                   .n_devices = devices,
                                   .depth = depth,
                                   .skip = i & 1,
                                   .op = i & 2 ? &calm_mix : &mix_op,
                                   .n_ahead = i & 4 ? 32 : 3};
                run_arrangement(&o, workers);
            }
    sli_pool_release(pool);
}

START_TEST(one_worker_gives_right_bytes) {
    run_arrangements(1);
}
END_TEST

START_TEST(two_workers_give_right_bytes) {
    run_arrangements(2);
}
END_TEST

START_TEST(three_workers_give_right_bytes) {
    run_arrangements(3);
}
END_TEST

START_TEST(more_workers_than_cores_give_right_bytes) {
    run_arrangements(6);
}
END_TEST

/* Lane l waits for lane l - 1, and the first for the last one's record before. */
START_TEST(there_may_be_thousands_of_lanes) {
    enum { ROUNDS = 3 };
    begin_cpu(NULL);
    sli_backend *b;
    ck_assert_int_eq(sli_cpu_platform.open(NULL, &b), SL_OK);
    sli_lane_desc desc = {.n_actions = 3 * ROUNDS, .n_events = ROUNDS};
    uint16_t lane;
    for (int l = 0; l < SLI_MAX_LANES; l++) {
        desc.from = l * 4 / SLI_MAX_LANES, desc.to = (desc.from + 1) % 4;
        ck_assert_int_eq(b->ops->lane_create(b, &desc, &lane), SL_OK);
        ck_assert_int_eq(lane, l);
    }
    ck_assert_int_eq(b->ops->lane_create(b, &desc, &lane), SL_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(sl_last_error(), "4096"));
    for (uint64_t round = 1; round <= ROUNDS; round++)
        for (int l = 0; l < SLI_MAX_LANES; l++) {
            sli_action actions[2] = {
                {.kind = SLI_WAIT, .lane = (uint16_t)l, .of = (uint16_t)(l ? l - 1 : SLI_MAX_LANES - 1)},
                {.kind = SLI_RECORD, .lane = (uint16_t)l, .value = round}};
            actions[0].value = l ? round : round - 1;
            ck_assert_int_eq(b->ops->enqueue(b, actions, 2), SL_OK);
        }
    while (b->ops->reached(b, SLI_MAX_LANES - 1) < ROUNDS)
        ck_assert_int_eq(b->ops->await(b, SLI_MAX_LANES - 1, ROUNDS, sli_after_ns(patience_ns)), SL_OK);
    ck_assert_int_eq(b->ops->close(b, patience_ns), SL_OK);
}
END_TEST

/* ---- Several backends ---- */

static void *drive(void *user) {
    chain_options o = {.n_stages = 4, .n_devices = 3, .depth = 2, .op = user};
    for (int i = 0; i < 5; i++) {
        chain *c = chain_open(&o, NULL);
        chain_run(c, 100);
        chain_settle(c);
        uintptr_t wrong = (uintptr_t)chain_wrong(c, 100);
        chain_close(c);
        if (wrong)
            return (void *)wrong;
    }
    return NULL;
}

START_TEST(several_backends_share_the_pool) {
    enum { DRIVERS = 4 };
    pthread_t threads[DRIVERS];
    begin_cpu(NULL);
    for (int i = 0; i < DRIVERS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, drive, (void *)(uintptr_t)(i % 2 ? &calm_mix : &mix_op)), 0);
    for (int i = 0; i < DRIVERS; i++) {
        void *wrong;
        pthread_join(threads[i], &wrong);
        ck_assert_ptr_null(wrong);
    }
}
END_TEST

static bool is_worker(const char *task) {
    char path[300], name[32] = "";
    snprintf(path, sizeof path, "/proc/self/task/%s/comm", task);
    FILE *f = fopen(path, "re");
    bool read = f && fgets(name, sizeof name, f);
    if (f)
        fclose(f);
    return read && strncmp(name, "sluice cpu ", 11) == 0;
}

/* A thread has its name and is out of the list a moment after it was started and joined. */
static void expect_workers(int expected) {
    int n = -1;
    for (int i = 0; i < 10000 && n != expected; i++) {
        DIR *tasks = opendir("/proc/self/task");
        ck_assert_ptr_nonnull(tasks);
        n = 0;
        for (struct dirent *e; (e = readdir(tasks));)
            n += is_worker(e->d_name);
        closedir(tasks);
        sched_yield();
    }
    ck_assert_int_eq(n, expected);
}

START_TEST(the_pool_has_as_many_threads_as_it_was_told_and_ends_with_the_last_backend) {
    static const char *const settings[] = {"SLUICE_CPU_WORKERS", "1", NULL};
    sli_backend *b[3];
    begin_cpu(settings);
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(sli_cpu_platform.open(NULL, &b[i]), SL_OK);
    expect_workers(1);
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(b[i]->ops->close(b[i], patience_ns), SL_OK);
    expect_workers(0);
}
END_TEST

/* ---- Memory ---- */

static _Atomic int64_t n_held, n_calls, fails_at = -1;

static bool fails_now(void) {
    return atomic_load(&n_calls) + 1 == atomic_load(&fails_at) && atomic_fetch_add(&n_calls, 1) >= 0;
}

static void *counting_allocate(size_t bytes, void *user) {
    (void)user;
    if (fails_now())
        return NULL;
    void *memory = malloc(bytes);
    atomic_fetch_add(&n_held, memory != NULL);
    atomic_fetch_add(&n_calls, 1);
    return memory;
}

static void *counting_reallocate(void *memory, size_t bytes, void *user) {
    (void)user;
    if (fails_now())
        return NULL;
    void *larger = realloc(memory, bytes);
    atomic_fetch_add(&n_held, !memory && larger);
    atomic_fetch_add(&n_calls, 1);
    return larger;
}

static void counting_release(void *memory, void *user) {
    (void)user;
    atomic_fetch_sub(&n_held, 1);
    free(memory);
}

static void count_memory(void) {
    static const sl_allocator counting = {counting_allocate, counting_reallocate, counting_release, NULL};
    sl_set_allocator(&counting);
}

START_TEST(opening_and_closing_leaves_nothing) {
    count_memory();
    begin_cpu(NULL);
    chain_options o = {.n_stages = 3, .n_devices = 2, .depth = 2, .op = &calm_mix};
    int64_t before = 0;
    for (int i = 0; i < test_cases(1000); i++) {
        chain *c = chain_open(&o, NULL);
        chain_run(c, 3);
        chain_close(c);
        if (i == 0)
            before = atomic_load(&n_held);
    }
    ck_assert_int_eq(atomic_load(&n_held), before);
    expect_workers(0);
}
END_TEST

START_TEST(nothing_is_allocated_between_opening_and_closing) {
    count_memory();
    begin_cpu(NULL);
    chain_options o = {.n_stages = 4, .n_devices = 2, .depth = 2};
    chain *c = chain_open(&o, NULL);
    chain_run(c, 2);
    int64_t before = atomic_load(&n_calls);
    chain_run(c, 300);
    chain_settle(c);
    ck_assert_int_eq(atomic_load(&n_calls), before);
    chain_close(c);
}
END_TEST

static sl_status build(sli_backend *b) {
    static sli_stage_code codes[40];
    static sli_operand operands[40];
    static sli_work works[40];
    uint16_t lane;
    for (int i = 0; i < 40; i++) {
        sli_lane_desc desc = {i % 4, i / 4 % 4, 10, 10};
        void *at;
        SL_TRY(b->ops->lane_create(b, &desc, &lane));
        SL_TRY(b->ops->allocate(b, i % 4, 64, SL_MEMORY_SLOTS, &at));
        codes[i] = (sli_stage_code){.name = "stage", .device = {SL_CPU, 0}, .descriptor = -1};
        operands[i] = (sli_operand){.at = at, .slot_bytes = 64, .extent = {SLI_ROWS_FIXED, 64, 0, SIZE_MAX}};
        works[i] =
            (sli_work){.name = "stage", .code = &codes[i], .n_reads = 1, .n_operands = 1, .operands = &operands[i]};
        SL_TRY(b->ops->prepare(b, 0, &works[i]));
    }
    b->ops->peer_works(b, 0, 1); /* false is a fine answer */
    return SL_OK;
}

START_TEST(memory_that_is_not_there_is_a_clean_error) {
    count_memory();
    begin_cpu(NULL);
    sl_cpu_options cpu = {.poison = true};
    sli_backend_options options = {.cpu = &cpu, .measure = true};
    int64_t before = 0, n_failed = 0;
    for (int64_t n = 0;; n++) {
        sli_backend *b = NULL;
        atomic_store(&fails_at, n == 0 ? -1 : atomic_load(&n_calls) + n);
        sl_status status = sli_cpu_platform.open(&options, &b);
        if (status == SL_OK) {
            status = build(b);
            ck_assert_int_eq(b->ops->close(b, patience_ns), SL_OK);
        }
        bool failed = n > 0 && atomic_load(&n_calls) >= atomic_load(&fails_at);
        atomic_store(&fails_at, -1);
        if (n == 0)
            before = atomic_load(&n_held);
        ck_assert_int_eq(atomic_load(&n_held), before);
        ck_assert_msg(status == SL_OK || (status == SL_OUT_OF_MEMORY && failed), "%d: %s", (int)n, sl_last_error());
        n_failed += status != SL_OK;
        if (n > 0 && !failed)
            break;
    }
    ck_assert_int_gt(n_failed, 100);
}
END_TEST

/* ---- What blocks ---- */

typedef struct gate {
    _Atomic int open, inside;
} gate;

static gate the_gate;

static sl_status wait_at_gate(sl_lane *lane, const sl_call *call) {
    (void)lane, (void)call;
    atomic_fetch_add(&the_gate.inside, 1);
    while (!atomic_load(&the_gate.open))
        sched_yield();
    atomic_fetch_sub(&the_gate.inside, 1);
    return SL_OK;
}

static const sl_op gate_op = {.name = "gate", .attribute_bytes = sizeof(mix_attributes), .cpu = wait_at_gate};

/* A gate on lane 0 of device 0, and a stage on lane 1 of device 1. */
static fixture *open_with_gate(test_work **gated, test_work **free_one) {
    fixture *f = fixture_open(NULL);
    place a = add_slot(f, 0, SLOT), b = add_slot(f, 1, SLOT);
    add_lane(f, 0, 0);
    add_lane(f, 1, 1);
    *gated = add_stage(f, 0, &gate_op, gate_op.cpu, 0, NULL, a);
    *free_one = add_stage(f, 1, &mix_op, mix_op.cpu, 0, NULL, b);
    atomic_store(&the_gate.open, 0);
    return f;
}

static void put_gate(fixture *f, test_work *gated) {
    put(f, 0, gated, NULL);
    put_record(f, 0);
    flush(f);
}

static void *poke_when_inside(void *user) {
    sli_backend *b = user;
    while (!atomic_load(&the_gate.inside))
        sched_yield();
    b->ops->poke(b);
    return NULL;
}

START_TEST(a_poked_driver_comes_back_while_a_payload_blocks) {
    static const char *const settings[] = {"SLUICE_CPU_WORKERS", "1", NULL};
    test_work *gated, *other;
    pthread_t poker;
    begin_cpu(settings);
    fixture *f = open_with_gate(&gated, &other);
    put_gate(f, gated);
    ck_assert_int_eq(pthread_create(&poker, NULL, poke_when_inside, f->b), 0);
    ck_assert_int_eq(f->b->ops->await(f->b, 0, 1, SLI_NEVER), SL_OK);
    ck_assert_uint_eq(f->b->ops->reached(f->b, 0), 0);
    pthread_join(poker, NULL);
    ck_assert_int_eq(f->b->ops->await(f->b, 0, 1, sli_after_ns(moment_ns)), SL_STALLED);
    atomic_store(&the_gate.open, 1);
    settle(f);
    fixture_close(f);
}
END_TEST

START_TEST(a_payload_that_blocks_holds_up_its_lane_alone) {
    test_work *gated, *other;
    sli_pool *pool;
    begin_cpu(NULL);
    ck_assert_int_eq(sli_pool_retain(2, 2, &pool), SL_OK);
    fixture *f = open_with_gate(&gated, &other), *g = fixture_open(NULL);
    f->b->ops->await(f->b, 0, 1, sli_after_ns(moment_ns)); /* all park */
    put(f, 0, gated, NULL);
    put_record(f, 0);
    for (int i = 0; i < 100; i++) { /* in the same call: who runs the gate has to leave these to another */
        put(f, 1, other, NULL);
        put_record(f, 1);
    }
    flush(f);
    wait_until(f, 1, 100);
    add_lane(g, 0, 0);
    test_work *third = add_mix(g, 0, 1, 0, NULL, add_slot(g, 0, SLOT));
    for (int i = 0; i < 100; i++) {
        put(g, 0, third, NULL);
        put_record(g, 0);
    }
    settle(g);
    fixture_close(g);
    ck_assert_uint_eq(f->b->ops->reached(f->b, 0), 0);
    atomic_store(&the_gate.open, 1);
    settle(f);
    fixture_close(f);
    sli_pool_release(pool);
}
END_TEST

/* The one worker is lost with each; those that are open, and those that come, have another. */
START_TEST(what_does_not_end_is_abandoned_and_the_next_backend_works) {
    static const char *const settings[] = {"SLUICE_CPU_WORKERS", "1", NULL};
    test_work *gated, *other;
    begin_cpu(settings);
    uint64_t before = sli_cpu_abandoned();
    chain_options o = {.n_stages = 3, .n_devices = 2, .depth = 2, .op = &mix_op};
    chain *open = chain_open(&o, NULL);
    for (int i = 0; i < 3; i++) {
        fixture *f = open_with_gate(&gated, &other);
        static __attribute__((used)) fixture *volatile kept[3];
        kept[i] = f;
        put_gate(f, gated);
        ck_assert_int_eq(f->b->ops->await(f->b, 0, 1, sli_after_ns(moment_ns)), SL_STALLED);
        while (!atomic_load(&the_gate.inside))
            sched_yield();
        ck_assert_int_eq(f->b->ops->close(f->b, moment_ns), SL_STALLED);
        ck_assert_uint_eq(sli_cpu_abandoned(), before + (uint64_t)i + 1);
        chain_run(open, 30);
        chain_settle(open);
        ck_assert_int_eq(chain_wrong(open, 30), 0);
        run_arrangement(&o, 1);
        atomic_store(&the_gate.open, i == 1); /* one of them comes back when nobody waits for it */
        while (i == 1 && atomic_load(&the_gate.inside))
            sched_yield();
    }
    atomic_store(&the_gate.open, 1);
    chain_close(open);
}
END_TEST

/* The worker may be anywhere on its way to the payload. */
START_TEST(a_close_without_grace_loses_no_worker) {
    static const char *const settings[] = {"SLUICE_CPU_WORKERS", "1", NULL};
    test_work *gated, *other;
    begin_cpu(settings);
    chain_options o = {.n_stages = 3, .n_devices = 2, .depth = 2, .op = &mix_op};
    chain *open = chain_open(&o, NULL);
    for (int i = 0; i < 40; i++) {
        fixture *f = open_with_gate(&gated, &other);
        static __attribute__((used)) fixture *volatile kept[40];
        kept[i] = f;
        put_gate(f, gated);
        for (int k = 0; k < i % 8; k++)
            f->b->ops->await(f->b, 0, 1, 1);
        ck_assert_int_eq(f->b->ops->close(f->b, 0), SL_STALLED);
        chain_run(open, 5);
        chain_settle(open);
        ck_assert_int_eq(chain_wrong(open, 5), 0);
        atomic_store(&the_gate.open, 1);
        while (atomic_load(&the_gate.inside))
            sched_yield();
    }
    chain_close(open);
}
END_TEST

START_TEST(close_waits_for_a_payload_that_ends_within_the_grace) {
    test_work *gated, *other;
    begin_cpu(NULL);
    fixture *f = open_with_gate(&gated, &other);
    put_gate(f, gated);
    f->b->ops->await(f->b, 0, 1, sli_after_ns(moment_ns));
    atomic_store(&the_gate.open, 1);
    fixture_close(f);
}
END_TEST

/* ---- Broken plans ---- */

START_TEST(more_actions_than_were_promised_are_refused) {
    begin_cpu(NULL);
    sli_backend *b;
    uint16_t lane;
    sli_lane_desc desc = {.n_actions = 16, .n_events = 4};
    ck_assert_int_eq(sli_cpu_platform.open(NULL, &b), SL_OK);
    ck_assert_int_eq(b->ops->lane_create(b, &desc, &lane), SL_OK);
    ck_assert_int_eq(b->ops->lane_create(b, &desc, &lane), SL_OK);
    sli_action wait = {.kind = SLI_WAIT, .lane = 0, .of = 1, .value = 1};
    for (int i = 0; i < 16; i++)
        ck_assert_int_eq(b->ops->enqueue(b, &wait, 1), SL_OK);
    ck_assert_int_eq(b->ops->enqueue(b, &wait, 1), SL_LOST);
    ck_assert_ptr_nonnull(strstr(sl_last_error(), "n_actions"));
    ck_assert_int_eq(b->ops->enqueue(b, &wait, 1), SL_LOST);
    ck_assert_int_eq(b->ops->await(b, 0, 1, SLI_NEVER), SL_LOST);
    ck_assert_int_eq(b->ops->close(b, patience_ns), SL_OK);
}
END_TEST

START_TEST(a_record_that_is_not_the_next_is_refused) {
    begin_cpu(NULL);
    fixture *f = fixture_open(NULL);
    add_lane(f, 0, 0);
    sli_action record = {.kind = SLI_RECORD, .lane = 0, .value = 2};
    ck_assert_int_eq(f->b->ops->enqueue(f->b, &record, 1), SL_LOST);
    fixture_close(f);
}
END_TEST

START_TEST(a_lane_of_a_device_that_is_not_there_is_refused) {
    begin_cpu(NULL);
    fixture *f = fixture_open(NULL);
    uint16_t lane;
    sli_lane_desc descs[] = {{0, 4, 4, 4}, {4, 4, 4, 4}, {-2, 0, 4, 4}, {SLI_HOST, SLI_HOST, 4, 4}};
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(f->b->ops->lane_create(f->b, &descs[i], &lane), SL_NO_DEVICE);
    fixture_close(f);
}
END_TEST

/* ---- Figures ---- */

START_TEST(times_are_kept_where_they_are_measured) {
    begin_cpu(NULL);
    for (int measure = 0; measure < 2; measure++) {
        sli_backend_options options = {.measure = measure};
        chain_options o = {.n_stages = 3, .n_devices = 2, .depth = 2};
        chain *c = chain_open(&o, &options);
        uint64_t begin = sli_now_ns(), before = begin, ns = 0;
        chain_run(c, 20);
        chain_settle(c);
        for (uint64_t v = 1; v <= 20; v++) {
            sl_status status = c->f->b->ops->when(c->f->b, (uint16_t)c->last_lane, v, &ns);
            ck_assert_int_eq(status, measure ? SL_OK : SL_INVALID);
            ck_assert(!measure || (ns >= before && ns <= sli_now_ns()));
            before = ns;
        }
        ck_assert_int_eq(c->f->b->ops->when(c->f->b, (uint16_t)c->last_lane, 21, &ns), SL_INVALID);
        ck_assert_int_eq(c->f->b->ops->when(c->f->b, (uint16_t)c->last_lane, 0, &ns), SL_INVALID);
        sli_lane_figures figures;
        c->f->b->ops->lane_figures(c->f->b, (uint16_t)c->compute[0], &figures);
        ck_assert_uint_eq(figures.payloads, 40);
        ck_assert(measure ? figures.busy_ns > 0 && figures.busy_ns <= sli_now_ns() - begin : figures.busy_ns == 0);
        chain_close(c);
    }
}
END_TEST

int main(void) {
    const test_case cases[] = {
        TEST_FOR(one_worker_gives_right_bytes, 200),
        TEST_FOR(two_workers_give_right_bytes, 200),
        TEST_FOR(three_workers_give_right_bytes, 200),
        TEST_FOR(more_workers_than_cores_give_right_bytes, 200),
        TEST(there_may_be_thousands_of_lanes),
        TEST_FOR(several_backends_share_the_pool, 200),
        TEST(the_pool_has_as_many_threads_as_it_was_told_and_ends_with_the_last_backend),
        TEST_FOR(opening_and_closing_leaves_nothing, 200),
        TEST(nothing_is_allocated_between_opening_and_closing),
        TEST_FOR(memory_that_is_not_there_is_a_clean_error, 120),
        TEST(a_poked_driver_comes_back_while_a_payload_blocks),
        TEST(a_payload_that_blocks_holds_up_its_lane_alone),
        TEST(what_does_not_end_is_abandoned_and_the_next_backend_works),
        TEST(a_close_without_grace_loses_no_worker),
        TEST(close_waits_for_a_payload_that_ends_within_the_grace),
        TEST(more_actions_than_were_promised_are_refused),
        TEST(a_record_that_is_not_the_next_is_refused),
        TEST(a_lane_of_a_device_that_is_not_there_is_refused),
        TEST(times_are_kept_where_they_are_measured),
    };
    return test_main("cpu", cases, sizeof cases / sizeof *cases);
}
