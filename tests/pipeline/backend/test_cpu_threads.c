/* Claims about devices of several threads: each part is done once, by whoever is free, and the results are those of one
 * thread. */
#include "backend/cpu_internal.h"
#include "cpu_chain.h"
#include "support.h"
#include <sched.h>

enum { MOST_PARTS = 64 };

static struct { _Atomic int done[MOST_PARTS], begun, wrong, nested; } parts;

static void nested_part(int part, int n_parts, void *user) {
    (void)n_parts, (void)user;
    atomic_fetch_add(&parts.nested, part + 1);
}

static void count_part(int part, int n_parts, void *user) {
    atomic_fetch_add(&parts.wrong, part < 0 || part >= n_parts || n_parts > MOST_PARTS);
    atomic_fetch_add(&parts.done[part], 1);
    if (user)
        sl_lane_parallel(user, 3, nested_part, NULL);
}

/* The salt says into how many parts it is cut. */
static sl_status cut(sl_lane *lane, const sl_call *call) {
    const mix_attributes *a = call->attributes;
    sl_lane_parallel(lane, (int)(a->salt & 0xff), count_part, a->salt & 0x100 ? lane : NULL);
    return SL_OK;
}

static const sl_op cut_op = {.name = "cut", .attribute_bytes = sizeof(mix_attributes), .cpu = cut};
static const sl_op calm_cut_op = {
    .name = "calm cut", .attribute_bytes = sizeof(mix_attributes), .cpu = cut, .never_blocks = true};

static void run_cuts(const sl_op *op, uint32_t salt, int times) {
    fixture *f = fixture_open(NULL);
    int n = (int)(salt & 0xff);
    add_lane(f, 0, 0);
    test_work *w = add_stage(f, 0, op, op->cpu, 0, NULL, add_slot(f, 0, SLOT));
    w->attributes.salt = salt;
    memset(&parts, 0, sizeof parts);
    for (int i = 0; i < times; i++) {
        put(f, 0, w, NULL);
        put_record(f, 0);
    }
    settle(f);
    fixture_close(f);
    ck_assert_int_eq(atomic_load(&parts.wrong), 0);
    for (int p = 0; p < MOST_PARTS; p++)
        ck_assert_int_eq(atomic_load(&parts.done[p]), p < n ? times : 0);
    ck_assert_int_eq(atomic_load(&parts.nested), salt & 0x100 ? 6 * n * times : 0);
}

static void run_all_cuts(int workers, const char *threads) {
    const char *const settings[] = {"SLUICE_CPU_THREADS", threads, NULL};
    sli_pool *pool;
    begin_cpu(settings);
    ck_assert_int_eq(sli_pool_retain(workers, workers, &pool), SL_OK);
    for (uint32_t n = 0; n <= MOST_PARTS; n += 1 + n / 3)
        for (uint32_t nested = 0; nested < 2; nested++) {
            run_cuts(&cut_op, n | nested << 8, 60);
            run_cuts(&calm_cut_op, n | nested << 8, 300);
        }
    sli_pool_release(pool);
}

START_TEST(each_part_is_done_once_with_one_worker_and_four_threads) {
    run_all_cuts(1, "4");
}
END_TEST

START_TEST(each_part_is_done_once_with_two_workers) {
    run_all_cuts(2, "2");
}
END_TEST

START_TEST(each_part_is_done_once_with_more_workers_than_cores) {
    run_all_cuts(5, "3");
}
END_TEST

/* ---- Help ---- */

static _Atomic int n_inside, most_inside;

static void meet(int part, int n_parts, void *user) {
    (void)part, (void)user;
    atomic_fetch_add(&n_inside, 1);
    while (atomic_load(&n_inside) < n_parts)
        sched_yield();
}

static sl_status meet_all(sl_lane *lane, const sl_call *call) {
    (void)call;
    atomic_store(&n_inside, 0);
    sl_lane_parallel(lane, sl_lane_threads(lane), meet, NULL);
    return SL_OK;
}

static const sl_op meet_op = {.name = "meet", .attribute_bytes = sizeof(mix_attributes), .cpu = meet_all};

/* Each part waits until all have begun: it ends only if as many workers come to help as the device has threads, also
 * when they sleep. */
START_TEST(sleeping_workers_are_woken_to_help) {
    static const char *const settings[] = {"SLUICE_CPU_THREADS", "3", NULL};
    sli_pool *pool;
    begin_cpu(settings);
    ck_assert_int_eq(sli_pool_retain(3, 3, &pool), SL_OK);
    fixture *f = fixture_open(NULL);
    add_lane(f, 0, 0);
    test_work *w = add_stage(f, 0, &meet_op, meet_op.cpu, 0, NULL, add_slot(f, 0, SLOT));
    for (int i = 0; i < 30; i++) {
        put(f, 0, w, NULL);
        put_record(f, 0);
        settle(f);
        uint64_t before = f->b->ops->parks(f->b);
        f->b->ops->await(f->b, 0, SLI_NEVER, sli_after_ns(2000000)); /* all park */
        ck_assert(i == 0 || f->b->ops->parks(f->b) > before);
    }
    fixture_close(f);
    sli_pool_release(pool);
}
END_TEST

static void note_inside(int part, int n_parts, void *user) {
    (void)part, (void)n_parts, (void)user;
    int now = atomic_fetch_add(&n_inside, 1) + 1, most = atomic_load(&most_inside);
    while (now > most && !atomic_compare_exchange_weak(&most_inside, &most, now)) {
    }
    for (int i = 0; i < 100; i++)
        sched_yield();
    atomic_fetch_sub(&n_inside, 1);
}

static sl_status note_all(sl_lane *lane, const sl_call *call) {
    (void)call;
    sl_lane_parallel(lane, 40, note_inside, NULL);
    return SL_OK;
}

static const sl_op note_op = {.name = "note", .attribute_bytes = sizeof(mix_attributes), .cpu = note_all};

START_TEST(no_more_workers_help_than_the_device_has_threads) {
    static const char *const settings[] = {"SLUICE_CPU_THREADS", "2", NULL};
    sli_pool *pool;
    begin_cpu(settings);
    ck_assert_int_eq(sli_pool_retain(6, 6, &pool), SL_OK);
    fixture *f = fixture_open(NULL);
    add_lane(f, 0, 0);
    test_work *w = add_stage(f, 0, &note_op, note_op.cpu, 0, NULL, add_slot(f, 0, SLOT));
    for (int i = 0; i < 20; i++) {
        put(f, 0, w, NULL);
        put_record(f, 0);
    }
    settle(f);
    ck_assert_int_le(atomic_load(&most_inside), 2);
    fixture_close(f);
    sli_pool_release(pool);
}
END_TEST

/* ---- Sameness ---- */

typedef struct span {
    const sl_call *call;
    uint32_t salt;
} span;

static void mix_span(int part, int n_parts, void *user) {
    const span *s = user;
    const sl_call *call = s->call;
    int64_t n = call->outputs[0].shape.dims[0];
    for (int64_t e = n * part / n_parts; e < n * (part + 1) / n_parts; e++) {
        uint32_t words[2] = {0};
        for (int k = 0; k < call->n_inputs; k++)
            words[k] = ((const uint32_t *)call->inputs[k].data)[e];
        ((uint32_t *)call->outputs[0].data)[e] = mix_word(s->salt, call->n_inputs, words);
    }
}

static sl_status mix_in_parts(sl_lane *lane, const sl_call *call) {
    span s = {call, ((const mix_attributes *)call->attributes)->salt};
    sl_lane_parallel(lane, 2 * sl_lane_threads(lane), mix_span, &s);
    return SL_OK;
}

static const sl_op parted_mix = {.name = "parted", .attribute_bytes = sizeof(mix_attributes), .cpu = mix_in_parts};
static const sl_op calm_parted_mix = {
    .name = "calm parted", .attribute_bytes = sizeof(mix_attributes), .cpu = mix_in_parts, .never_blocks = true};

START_TEST(devices_that_share_workers_get_right_bytes) {
    static const char *const settings[] = {"SLUICE_CPU_THREADS", "3", NULL};
    begin_cpu(settings);
    for (int workers = 1; workers <= 4; workers++) {
        sli_pool *pool;
        ck_assert_int_eq(sli_pool_retain(workers, workers, &pool), SL_OK);
        for (int calm = 0; calm < 2; calm++) {
            chain_options o = {.n_stages = 5,
                               .n_devices = 3,
                               .depth = 2,
                               .skip = true,
                               .op = calm ? &calm_parted_mix : &parted_mix,
                               .n_ahead = 20};
            chain *c = chain_open(&o, NULL);
            chain_run(c, 200);
            chain_settle(c);
            ck_assert_int_eq(chain_wrong(c, 200), 0);
            chain_close(c);
        }
        sli_pool_release(pool);
    }
}
END_TEST

/* ---- Copies ---- */

START_TEST(large_copies_are_whole_whoever_helps) {
    static const size_t more[] = {0, 1, 63, 4097};
    begin_cpu(NULL);
    for (int workers = 1; workers <= 5; workers += 2) {
        sli_pool *pool;
        ck_assert_int_eq(sli_pool_retain(workers, workers, &pool), SL_OK);
        fixture *f = fixture_open(NULL);
        int lane = add_lane(f, 0, 1);
        for (int i = 0; i < 8; i++) {
            size_t bytes = ((size_t)2 << 20) * (size_t)(i / 4 + 1) + more[i % 4], n = bytes / 4 + 2;
            uint32_t *words = malloc(n * 4);
            ck_assert_ptr_nonnull(words);
            place from = add_slot(f, 0, n * 4), to = add_slot(f, 1, n * 4);
            fill_words(words, n, (uint64_t)i);
            write_words(from, words, n);
            put(f, lane, add_copy(f, from, to, bytes), NULL);
            put_record(f, lane);
            settle(f);
            ck_assert_mem_eq(to.at, words, bytes);
            for (size_t k = bytes; k < n * 4; k++)
                ck_assert_int_eq(to.at[k], 0);
            free(words);
        }
        fixture_close(f);
        sli_pool_release(pool);
    }
}
END_TEST

int main(void) {
    const test_case cases[] = {
        TEST_FOR(each_part_is_done_once_with_one_worker_and_four_threads, 120),
        TEST_FOR(each_part_is_done_once_with_two_workers, 120),
        TEST_FOR(each_part_is_done_once_with_more_workers_than_cores, 120),
        TEST_FOR(sleeping_workers_are_woken_to_help, 120),
        TEST_FOR(no_more_workers_help_than_the_device_has_threads, 120),
        TEST_FOR(devices_that_share_workers_get_right_bytes, 120),
        TEST_FOR(large_copies_are_whole_whoever_helps, 120),
    };
    return test_main("cpu threads", cases, sizeof cases / sizeof *cases);
}
