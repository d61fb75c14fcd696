/* Claims about the one call that blocks, and what ends it: await, poke, watch; and about close. */
#include "conformance_fixture.h"
#include <pthread.h>
#include <sched.h>
#include <string.h>

enum { MOMENT_NS = 1000000 };
static const uint64_t patience_ns = UINT64_C(20000000000); /* a lost wake is a failure */

START_TEST(await_returns_at_once_for_what_is_reached) {
    fixture *f = fixture_open(NULL);
    int lane = add_lane(f, 0, 0);
    ck_assert_int_eq(f->b->ops->await(f->b, (uint16_t)lane, 0, SLI_NEVER), SL_OK);
    uint64_t value = put_record(f, lane);
    settle(f);
    for (int i = 0; i < 100; i++)
        ck_assert_int_eq(f->b->ops->await(f->b, (uint16_t)lane, value, SLI_NEVER), SL_OK);
    fixture_close(f);
}
END_TEST

START_TEST(await_of_what_never_comes_ends_at_its_deadline) {
    fixture *f = fixture_open(NULL);
    int lane = add_lane(f, 0, 0);
    for (int i = 0; i < 3; i++) {
        uint64_t deadline = sli_after_ns(MOMENT_NS), value = i == 2 ? SLI_NEVER : 1;
        ck_assert_int_eq(f->b->ops->await(f->b, (uint16_t)lane, value, deadline), SL_STALLED);
        ck_assert_uint_ge(sli_now_ns(), deadline);
    }
    ck_assert_int_eq(f->b->ops->await(f->b, (uint16_t)lane, 1, 1), SL_STALLED); /* long past */
    put_record(f, lane);
    settle(f); /* awaiting again is allowed */
    fixture_close(f);
}
END_TEST

START_TEST(a_poke_before_an_await_is_not_lost) {
    fixture *f = fixture_open(NULL);
    int lane = add_lane(f, 0, 0);
    for (int i = 0; i < 100; i++) {
        for (int k = 0; k <= i % 3; k++)
            f->b->ops->poke(f->b);
        ck_assert_int_eq(f->b->ops->await(f->b, (uint16_t)lane, SLI_NEVER, sli_after_ns(patience_ns)), SL_OK);
    }
    fixture_close(f);
}
END_TEST

enum { POKERS = 4, ROUNDS = 500 };

typedef struct poker {
    sli_backend *b;
    _Atomic int asked, done; /* the driver asks for round n, the poker does it and pokes */
} poker;

static void *poke_each_round(void *user) {
    poker *p = user;
    for (int n = 1; n <= ROUNDS; n++) {
        while (atomic_load(&p->asked) < n)
            sched_yield();
        atomic_store(&p->done, n);
        p->b->ops->poke(p->b);
    }
    return NULL;
}

/* Each round ends only when all have done it: one poke that is lost hangs it. */
START_TEST(no_poke_of_any_thread_is_lost) {
    fixture *f = fixture_open(NULL);
    int lane = add_lane(f, 0, 0);
    pthread_t threads[POKERS];
    poker pokers[POKERS] = {0};
    for (int i = 0; i < POKERS; i++) {
        pokers[i].b = f->b;
        ck_assert_int_eq(pthread_create(&threads[i], NULL, poke_each_round, &pokers[i]), 0);
    }
    for (int n = 1; n <= ROUNDS; n++)
        for (int i = 0; i < POKERS; i++) {
            atomic_store(&pokers[i].asked, n);
            while (atomic_load(&pokers[i].done) < n)
                ck_assert_int_eq(f->b->ops->await(f->b, (uint16_t)lane, SLI_NEVER, sli_after_ns(patience_ns)), SL_OK);
        }
    for (int i = 0; i < POKERS; i++)
        pthread_join(threads[i], NULL);
    fixture_close(f);
}
END_TEST

static void expect_poked(fixture *f, bool poked) {
    uint64_t deadline = sli_after_ns(poked ? patience_ns : MOMENT_NS);
    ck_assert_int_eq(f->b->ops->await(f->b, 0, SLI_NEVER, deadline), poked ? SL_OK : SL_STALLED);
}

START_TEST(a_watch_pokes_when_its_value_is_reached) {
    fixture *f = fixture_open(NULL), *whom = fixture_open(NULL);
    int lane = add_lane(f, 0, 0);
    add_lane(whom, 0, 0);
    f->b->ops->watch(f->b, (uint16_t)lane, 1, whom->b);
    put_record(f, lane);
    settle(f);
    expect_poked(whom, true);
    f->b->ops->watch(f->b, (uint16_t)lane, 1, whom->b); /* reached before */
    expect_poked(whom, true);
    fixture_close(f);
    fixture_close(whom);
}
END_TEST

START_TEST(of_several_watches_the_least_counts) {
    fixture *f = fixture_open(NULL), *whom = fixture_open(NULL);
    int lane = add_lane(f, 0, 0);
    add_lane(whom, 0, 0);
    f->b->ops->watch(f->b, (uint16_t)lane, 1000, whom->b);
    f->b->ops->watch(f->b, (uint16_t)lane, 2, whom->b);
    f->b->ops->watch(f->b, (uint16_t)lane, 3, whom->b);
    put_record(f, lane);
    put_record(f, lane);
    settle(f);
    expect_poked(whom, true);
    fixture_close(f);
    fixture_close(whom);
}
END_TEST

/* As a bridge does it: watch, look, sleep. */
START_TEST(watching_before_each_sleep_misses_nothing) {
    enum { N = 300 };
    fixture *f = fixture_open(NULL), *whom = fixture_open(NULL);
    place slot = add_slot(f, 0, SLOT);
    int lane = add_lane(f, 0, 0);
    add_lane(whom, 0, 0);
    test_work *mix = add_mix(f, 0, 1, 0, NULL, slot);
    for (int k = 0; k < N; k++) {
        put(f, lane, mix, NULL);
        put_record(f, lane);
    }
    flush(f);
    for (uint64_t value = 1; value <= N; value++) {
        f->b->ops->watch(f->b, (uint16_t)lane, value, whom->b);
        if (f->b->ops->reached(f->b, (uint16_t)lane) >= value)
            continue;
        wait_until(f, lane, value); /* a lane may move only while somebody awaits in its own backend */
        expect_poked(whom, true);
    }
    fixture_close(f);
    fixture_close(whom);
}
END_TEST

START_TEST(the_number_of_parks_only_rises) {
    fixture *f = fixture_open(NULL);
    int lane = add_lane(f, 0, 0);
    uint64_t before = f->b->ops->parks(f->b);
    for (int i = 0; i < 10; i++) {
        put_record(f, lane);
        settle(f);
        f->b->ops->await(f->b, (uint16_t)lane, SLI_NEVER, sli_after_ns(MOMENT_NS));
        uint64_t now = f->b->ops->parks(f->b);
        ck_assert_uint_ge(now, before);
        before = now;
    }
    fixture_close(f);
}
END_TEST

START_TEST(close_waits_for_what_was_enqueued) {
    enum { N = 200 };
    uint32_t words[WORDS], found[WORDS] = {0};
    fixture *f = fixture_open(NULL);
    place slot = add_slot(f, 0, SLOT), back[2] = {add_slot(f, 1, SLOT), add_slot(f, 1, SLOT)};
    int lane = add_lane(f, 0, 1), out = add_lane(f, 1, SLI_HOST);
    test_work *copies[2] = {add_copy(f, slot, back[0], SLOT), add_copy(f, slot, back[1], SLOT)};
    f->io[0] = found;
    fill_words(words, WORDS, 3);
    write_words(slot, words, WORDS);
    for (int k = 0; k < N; k++)
        put(f, lane, copies[k % 2], NULL);
    put_wait(f, out, lane, put_record(f, lane));
    put(f, out, add_copy(f, back[0], io_place(0), SLOT), NULL);
    put_record(f, out);
    flush(f);
    fixture_close(f);
    if (has_data())
        ck_assert_mem_eq(found, words, SLOT);
}
END_TEST

claims conformance_waiting(void) {
    const test_case cases[] = {
        TEST(await_returns_at_once_for_what_is_reached), TEST(await_of_what_never_comes_ends_at_its_deadline),
        TEST(a_poke_before_an_await_is_not_lost),        TEST(no_poke_of_any_thread_is_lost),
        TEST(a_watch_pokes_when_its_value_is_reached),   TEST(of_several_watches_the_least_counts),
        TEST(watching_before_each_sleep_misses_nothing), TEST(the_number_of_parks_only_rises),
        TEST(close_waits_for_what_was_enqueued),
    };
    return claims_of(cases, sizeof cases / sizeof *cases);
}
