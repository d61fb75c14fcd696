/* Claims about orders other than eager, and about poison: right programs stay right, and a wait that is left out
 * becomes a wrong answer. */
#include "backend/cpu_internal.h"
#include "cpu_chain.h"
#include "support.h"
#include <math.h>
#include <stdio.h>

static const char *const orders[] = {"eager", "late", "newest", "random:1", "random:77"};
enum { N_ORDERS = 5 };

static chain *open_chain(chain_options o, const char *order, bool poison) {
    sl_cpu_options cpu = {.order = order, .poison = poison};
    sli_backend_options options = {.cpu = &cpu};
    return chain_open(&o, &options);
}

START_TEST(orders_are_read) {
    sli_order order;
    uint64_t seed = 0;
    ck_assert_int_eq(sli_order_parse("random:12", &order, &seed), SL_OK);
    ck_assert(order == SLI_RANDOM && seed == 12);
    ck_assert_int_eq(sli_order_parse("newest", &order, &seed), SL_OK);
    ck_assert(order == SLI_NEWEST);
    static const char *const wrong[] = {"", "Eager", "later", "random", "random:", "random:x", "random:-1", "eager "};
    for (int i = 0; i < 8; i++) {
        ck_assert_msg(sli_order_parse(wrong[i], &order, &seed) == SL_INVALID, "'%s' was read", wrong[i]);
        ck_assert_ptr_nonnull(strstr(sl_last_error(), "eager, late, newest, random:SEED"));
    }
}
END_TEST

START_TEST(a_wrong_order_refuses_the_backend) {
    begin_cpu(NULL);
    sl_cpu_options cpu = {.order = "lats"};
    sli_backend_options options = {.cpu = &cpu};
    sli_backend *b;
    ck_assert_int_eq(sli_cpu_platform.open(&options, &b), SL_INVALID);
    ck_assert_ptr_nonnull(strstr(sl_last_error(), "lats"));
}
END_TEST

START_TEST(every_order_gives_right_bytes) {
    begin_cpu(NULL);
    for (int i = 0; i < N_ORDERS; i++)
        for (int devices = 1; devices <= CHAIN_DEVICES; devices++)
            for (int poison = 0; poison < 2; poison++) {
                chain_options o = {.n_stages = 5, .n_devices = devices, .depth = 2, .skip = true, .op = &calm_mix};
                chain *c = open_chain(o, orders[i], poison);
                chain_run(c, 60);
                chain_settle(c);
                ck_assert_msg(chain_wrong(c, 60) == 0, "%s, %d devices, poison %d", orders[i], devices, poison);
                chain_close(c);
            }
}
END_TEST

/* Whether an output was wrong when this wait was left out; 0 if there is no such wait. */
static int run_dropped(const char *order, int dropped, int *n_waits) {
    chain_options o = {.n_stages = 4, .n_devices = 3, .depth = 2, .skip = true, .n_ahead = 16, .dropped = dropped};
    chain *c = open_chain(o, order, true);
    chain_run(c, 16);
    chain_settle(c);
    int wrong = chain_wrong(c, 16);
    *n_waits = c->n_waits;
    chain_close(c);
    return wrong;
}

/* Waits that others imply change nothing, so not all are seen. Each order sees many; together they see most: a wait of
 * the first micro-batches that no order misses is one that others imply. */
START_TEST(waits_that_are_left_out_are_seen) {
    begin_cpu(NULL);
    int n_waits = 1, n_seen = 0, seen_by[N_ORDERS] = {0};
    for (int w = 1; w <= n_waits && w <= 60; w++) {
        bool seen = false;
        for (int i = 1; i < N_ORDERS; i++) {
            bool wrong = run_dropped(orders[i], w, &n_waits) > 0;
            seen_by[i] += wrong;
            seen |= wrong;
        }
        n_seen += seen;
    }
    for (int i = 1; i < N_ORDERS; i++)
        printf("%s saw %d\n", orders[i], seen_by[i]);
    printf("together %d of 60\n", n_seen);
    ck_assert_int_ge(n_seen, 30);
    ck_assert_int_ge(seen_by[1], 20);
    ck_assert_int_ge(seen_by[2], 5);
}
END_TEST

/* ---- The same choices again ---- */

enum { LOGGED = 200 };
static uint64_t log_of[LOGGED];
static _Atomic int n_logged;

static sl_status log_salt(sl_lane *lane, const sl_call *call) {
    (void)lane;
    int i = atomic_fetch_add(&n_logged, 1);
    if (i < LOGGED)
        log_of[i] = call->descriptor->micro_batch * 100 + ((const mix_attributes *)call->attributes)->salt;
    return mix_on_host(lane, call);
}

static const sl_op log_op = {.name = "log", .attribute_bytes = sizeof(mix_attributes), .cpu = log_salt};

static uint64_t hash_of_run(const char *order) {
    chain_options o = {.n_stages = 4, .n_devices = 4, .depth = 2, .op = &log_op, .n_ahead = 10};
    chain *c = open_chain(o, order, false);
    atomic_store(&n_logged, 0);
    chain_run(c, 30);
    chain_settle(c);
    chain_close(c);
    uint64_t h = 0;
    for (int i = 0; i < 120; i++)
        h = h * 1000003 + log_of[i];
    return h;
}

START_TEST(a_seed_gives_the_same_order_again) {
    begin_cpu(NULL);
    uint64_t hashes[N_ORDERS];
    for (int i = 1; i < N_ORDERS; i++) {
        hashes[i] = hash_of_run(orders[i]);
        for (int again = 0; again < 5; again++)
            ck_assert_msg(hash_of_run(orders[i]) == hashes[i], "%s, run %d", orders[i], again);
        for (int k = 1; k < i; k++)
            ck_assert_uint_ne(hashes[k], hashes[i]);
    }
}
END_TEST

/* ---- Poison ---- */

static bool is_poison(const char *at, size_t bytes) {
    for (size_t i = 0; i < bytes; i++)
        if ((unsigned char)at[i] != 0xff)
            return false;
    return true;
}

START_TEST(memory_that_was_never_written_is_nan) {
    begin_cpu(NULL);
    sl_cpu_options cpu = {.poison = true};
    sli_backend_options options = {.cpu = &cpu};
    fixture *f = fixture_open(&options);
    for (int device = SLI_HOST; device < 2; device++) {
        float first;
        place p = add_slot(f, device, 1000);
        ck_assert(is_poison(p.at, 1000));
        memcpy(&first, p.at, sizeof first);
        ck_assert(isnan(first));
    }
    fixture_close(f);
}
END_TEST

/* A slot with two readers is poisoned by the second, and whole by its next writer, which writes a part of it. */
START_TEST(a_slot_is_nan_once_all_have_read_it) {
    begin_cpu(NULL);
    sl_cpu_options cpu = {.poison = true};
    sli_backend_options options = {.cpu = &cpu};
    fixture *f = fixture_open(&options);
    uint32_t words[WORDS];
    place in = add_slot(f, 0, SLOT), slot = add_slot(f, 0, SLOT), a = add_slot(f, 0, SLOT), b = add_slot(f, 0, SLOT);
    int lane = add_lane(f, 0, 0);
    test_work *write = add_mix(f, 0, 1, 0, NULL, slot), *read_a = add_mix(f, 0, 2, 1, &slot, a),
              *read_b = add_mix(f, 0, 3, 1, &slot, b);
    test_work *part = add_copy(f, in, slot, SLOT / 2);
    part->operands[1].slot_bytes = SLOT;
    fill_words(words, WORDS, 4);
    for (int round = 0; round < 3; round++) {
        put(f, lane, write, NULL);
        put(f, lane, read_a, NULL);
        put_record(f, lane);
        settle(f);
        ck_assert(!is_poison(slot.at, SLOT));
        put(f, lane, read_b, NULL);
        put_record(f, lane);
        settle(f);
        ck_assert(is_poison(slot.at, SLOT));
    }
    put(f, lane, write, NULL);
    put_record(f, lane);
    settle(f);
    write_words(in, words, WORDS);
    put(f, lane, part, NULL);
    put_record(f, lane);
    settle(f);
    ck_assert_mem_eq(slot.at, words, SLOT / 2);
    ck_assert(is_poison(slot.at + SLOT / 2, SLOT / 2));
    fixture_close(f);
}
END_TEST

int main(void) {
    const test_case cases[] = {
        TEST(orders_are_read),
        TEST(a_wrong_order_refuses_the_backend),
        TEST_FOR(every_order_gives_right_bytes, 120),
        TEST_FOR(waits_that_are_left_out_are_seen, 120),
        TEST(a_seed_gives_the_same_order_again),
        TEST(memory_that_was_never_written_is_nan),
        TEST(a_slot_is_nan_once_all_have_read_it),
    };
    return test_main("cpu order", cases, sizeof cases / sizeof *cases);
}
