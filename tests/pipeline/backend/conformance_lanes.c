/* Claims about lanes: their order, their timelines, what holds them and what passes. */
#include "conformance_fixture.h"
#include <pthread.h>
#include <string.h>

START_TEST(lanes_are_numbered_from_0_and_start_at_0) {
    fixture *f = fixture_open(NULL);
    for (int l = 0; l < 4; l++) {
        ck_assert_int_eq(add_lane(f, l % 2, l / 2), l);
        ck_assert_uint_eq(f->b->ops->reached(f->b, (uint16_t)l), 0);
    }
    fixture_close(f);
}
END_TEST

START_TEST(a_backend_without_lanes_closes) {
    fixture_close(fixture_open(NULL));
    fixture *f = fixture_open(NULL);
    add_slot(f, 0, 100);
    fixture_close(f);
}
END_TEST

START_TEST(a_lane_does_its_actions_in_order) {
    enum { N = 500 };
    fixture *f = fixture_open(NULL);
    uint32_t words[WORDS];
    place slots[2] = {add_slot(f, 0, SLOT), add_slot(f, 0, SLOT)};
    int lane = add_lane(f, 0, 0);
    test_work *works[2];
    for (int i = 0; i < 2; i++)
        works[i] = add_mix(f, 0, 77 + (uint32_t)i, 1, &slots[i], slots[1 - i]);
    fill_words(words, WORDS, 1);
    write_words(slots[0], words, WORDS);
    for (int k = 0; k < N; k++) {
        put(f, lane, works[k % 2], NULL);
        put_record(f, lane);
        for (int e = 0; e < WORDS; e++)
            words[e] = mix_word(77 + (uint32_t)k % 2, 1, &words[e]);
    }
    settle(f);
    if (has_kernels())
        expect_words(slots[N % 2], words, WORDS, "after 500 in a row");
    fixture_close(f);
}
END_TEST

START_TEST(a_wait_orders_two_lanes) {
    enum { N = 300 };
    fixture *f = fixture_open(NULL);
    uint32_t words[WORDS], both[2];
    place there = add_slot(f, 0, SLOT), here = add_slot(f, 1, SLOT);
    int lanes[2] = {add_lane(f, 0, 0), add_lane(f, 1, 0)};
    int back = add_lane(f, 0, 1);
    place in[2] = {there, add_slot(f, 0, SLOT)};
    test_work *mix = add_mix(f, 0, 5, 2, in, add_slot(f, 0, SLOT));
    test_work *keep = add_copy(f, (place){0, mix->operands[2].at, 0}, in[1], SLOT);
    test_work *go = add_copy(f, here, there, SLOT), *come = add_copy(f, in[1], here, SLOT);
    fill_words(words, WORDS, 2);
    write_words(here, words, WORDS);
    write_words(in[1], words, WORDS);
    for (int k = 0; k < N; k++) { /* here -> there, mixed with in[1], -> in[1] -> here */
        put(f, lanes[1], go, NULL);
        put_wait(f, lanes[0], lanes[1], put_record(f, lanes[1]));
        put(f, lanes[0], mix, NULL);
        put(f, lanes[0], keep, NULL);
        put_wait(f, back, lanes[0], put_record(f, lanes[0]));
        put(f, back, come, NULL);
        put_wait(f, lanes[1], back, put_record(f, back));
        for (int e = 0; e < WORDS; e++) {
            both[0] = both[1] = words[e];
            words[e] = mix_word(5, 2, both);
        }
    }
    settle(f);
    if (has_kernels())
        expect_words(here, words, WORDS, "after 300 rounds");
    fixture_close(f);
}
END_TEST

START_TEST(waits_of_several_lanes_hold_for_all) {
    enum { N = 5 };
    fixture *f = fixture_open(NULL);
    place in[N], out = add_slot(f, 0, SLOT);
    uint32_t words[N][WORDS], column[N], expected[WORDS];
    int last = add_lane(f, 0, 0), lanes[N];
    for (int i = 0; i < N; i++) {
        in[i] = add_slot(f, 0, SLOT);
        lanes[i] = add_lane(f, 1, 0);
        place from = add_slot(f, 1, SLOT);
        fill_words(words[i], WORDS, (uint64_t)i);
        write_words(from, words[i], WORDS);
        put(f, lanes[i], add_copy(f, from, in[i], SLOT), NULL);
        put_wait(f, last, lanes[i], put_record(f, lanes[i]));
    }
    put(f, last, add_mix(f, 0, 9, N, in, out), NULL);
    put_record(f, last);
    settle(f);
    for (int e = 0; e < WORDS; e++) {
        for (int i = 0; i < N; i++)
            column[i] = words[i][e];
        expected[e] = mix_word(9, N, column);
    }
    if (has_kernels())
        expect_words(out, expected, WORDS, "mix of five copies");
    fixture_close(f);
}
END_TEST

START_TEST(a_wait_for_what_is_reached_passes) {
    fixture *f = fixture_open(NULL);
    int a = add_lane(f, 0, 0), b = add_lane(f, 1, 1);
    uint64_t value = put_record(f, a);
    settle(f);
    put_wait(f, b, a, value);
    put_wait(f, b, a, value);
    put_record(f, b);
    settle(f);
    fixture_close(f);
}
END_TEST

START_TEST(a_value_can_be_waited_for_until_n_events_newer_ones) {
    enum { EVENTS = 4, N = 200 };
    fixture *f = fixture_open(NULL);
    int a = add_lane_of(f, 0, 0, EVENTS), b = add_lane_of(f, 1, 1, 1);
    for (int k = 1; k <= N; k++) {
        put_record(f, a);
        if (k < EVENTS)
            continue;
        put_wait(f, b, a, (uint64_t)(k - EVENTS + 1)); /* the oldest of the last EVENTS */
        put_record(f, b);
        settle(f);
    }
    fixture_close(f);
}
END_TEST

/* Another thread looks while the driver enqueues. */
typedef struct watch_thread {
    fixture *f;
    int n_lanes;
    _Atomic uint64_t enqueued, done; /* of each lane */
    _Atomic uint64_t counted;        /* by the payloads of lane 0 */
    const char *wrong;
} watch_thread;

static void *look(void *user) {
    watch_thread *w = user;
    uint64_t before[MAX_TEST_LANES] = {0};
    while (!atomic_load(&w->done))
        for (int l = 0; l < w->n_lanes; l++) {
            uint64_t now = w->f->b->ops->reached(w->f->b, (uint16_t)l);
            if (now < before[l])
                w->wrong = "a timeline fell";
            if (l == 0 && conformance->on_host && atomic_load(&w->counted) < now)
                w->wrong = "a value was reached before the payload in front of it had ended";
            if (now > atomic_load(&w->enqueued))
                w->wrong = "a value was reached that nobody had enqueued";
            before[l] = now;
        }
    return NULL;
}

START_TEST(a_timeline_only_rises_and_is_never_ahead) {
    enum { N = 2000 };
    fixture *f = fixture_open(NULL);
    watch_thread w = {.f = f, .n_lanes = 3};
    pthread_t thread;
    place slot = add_slot(f, 0, SLOT);
    test_work *mix = add_mix(f, 0, 1, 0, NULL, slot);
    mix->attributes.count = &w.counted;
    for (int l = 0; l < w.n_lanes; l++)
        add_lane(f, l == 0 ? 0 : 1, 0);
    ck_assert_int_eq(pthread_create(&thread, NULL, look, &w), 0);
    for (int k = 0; k < N; k++) {
        put(f, 0, mix, NULL);
        for (int l = 0; l < w.n_lanes; l++)
            put_record(f, l);
        atomic_store(&w.enqueued, (uint64_t)k + 1);
        if (k % 16 == 15)
            settle(f);
        else
            flush(f);
    }
    settle(f);
    atomic_store(&w.done, 1);
    pthread_join(thread, NULL);
    ck_assert_msg(!w.wrong, "%s", w.wrong);
    fixture_close(f);
}
END_TEST

START_TEST(the_payloads_of_a_stopped_ticket_pass) {
    fixture *f = fixture_open(NULL);
    place slots[2] = {add_slot(f, 0, SLOT), add_slot(f, 1, SLOT)};
    int a = add_lane(f, 0, 0), b = add_lane(f, 0, 1), n = 100;
    test_work *mix = add_mix(f, 0, 1, 0, NULL, slots[0]), *copy = add_copy(f, slots[0], slots[1], SLOT);
    ck_assert(sli_ticket_stop(&f->ticket, SL_CANCELLED, NULL));
    for (int k = 0; k < n; k++) {
        put(f, a, mix, NULL);
        put_wait(f, b, a, put_record(f, a));
        put(f, b, copy, NULL);
        put_wait(f, a, b, put_record(f, b));
    }
    settle(f);
    ck_assert_uint_eq(f->b->ops->reached(f->b, (uint16_t)a), (uint64_t)n);
    ck_assert_uint_eq(f->b->ops->reached(f->b, (uint16_t)b), (uint64_t)n);
    if (!has_data())
        ck_assert_uint_eq(f->b->ops->now_ns(f->b), 0);
    fixture_close(f);
}
END_TEST

START_TEST(a_failing_op_stops_its_ticket_and_nobody_waits) {
    if (!conformance->on_host && !conformance->fail)
        SKIP("%s runs no kernels", conformance->name);
    fixture *f = fixture_open(NULL);
    sli_ticket other = {0};
    sli_batch sound = {.ticket = &other, .rows = {1}, .io = f->io};
    uint32_t expected[WORDS];
    place slots[2] = {add_slot(f, 0, SLOT), add_slot(f, 0, SLOT)};
    int a = add_lane(f, 0, 0), b = add_lane(f, 1, 1);
    f->batch.index = 41;
    put(f, a, add_fail(f, 0, slots[0]), NULL);
    put(f, a, add_mix(f, 0, 2, 0, NULL, slots[0]), NULL);
    put(f, a, add_mix(f, 0, 3, 0, NULL, slots[1]), &sound); /* another job's */
    put_wait(f, b, a, put_record(f, a));
    put_record(f, b);
    settle(f);
    ck_assert_int_eq(f->ticket.status, SL_STAGE_FAILED);
    ck_assert_ptr_nonnull(strstr(f->ticket.message, "no, says the test"));
    ck_assert_ptr_nonnull(strstr(f->ticket.message, "'stage'"));
    ck_assert_ptr_nonnull(strstr(f->ticket.message, "'fail'"));
    ck_assert_ptr_nonnull(strstr(f->ticket.message, "micro-batch 41"));
    ck_assert_ptr_nonnull(strstr(f->ticket.message, ":0"));
    ck_assert_int_eq(other.status, SL_OK);
    for (int e = 0; e < WORDS; e++)
        expected[e] = mix_word(3, 0, NULL);
    expect_words(slots[1], expected, WORDS, "another job's slot");
    fixture_close(f);
}
END_TEST

START_TEST(times_follow_the_order) {
    enum { N = 50 };
    sli_backend_options options = conformance->options;
    options.measure = true;
    fixture *f = fixture_open(&options);
    place slots[2] = {add_slot(f, 0, SLOT), add_slot(f, 1, SLOT)};
    int a = add_lane(f, 0, 0), b = add_lane(f, 0, 1);
    test_work *mix = add_mix(f, 0, 1, 0, NULL, slots[0]), *copy = add_copy(f, slots[0], slots[1], SLOT);
    uint64_t times[2][N + 1] = {{0}}, none, now_before = f->b->ops->now_ns(f->b);
    for (int k = 0; k < N; k++) {
        put(f, a, mix, NULL);
        put_wait(f, b, a, put_record(f, a));
        put(f, b, copy, NULL);
        put_wait(f, a, b, put_record(f, b));
    }
    settle(f);
    ck_assert_int_eq(f->b->ops->when(f->b, (uint16_t)a, N + 1, &none), SL_INVALID);
    if (f->b->ops->when(f->b, (uint16_t)a, 1, &none) == SL_OK)
        for (int k = 1; k <= N; k++) {
            ck_assert_int_eq(f->b->ops->when(f->b, (uint16_t)a, (uint64_t)k, &times[0][k]), SL_OK);
            ck_assert_int_eq(f->b->ops->when(f->b, (uint16_t)b, (uint64_t)k, &times[1][k]), SL_OK);
            ck_assert_uint_ge(times[0][k], k > 1 ? times[1][k - 1] : now_before);
            ck_assert_uint_ge(times[1][k], times[0][k]);
            ck_assert_uint_le(times[1][k], f->b->ops->now_ns(f->b));
        }
    fixture_close(f);
}
END_TEST

START_TEST(the_clock_is_what_the_capabilities_say) {
    fixture *f = fixture_open(NULL);
    uint64_t before = sli_now_ns(), now = f->b->ops->now_ns(f->b), after = sli_now_ns();
    if (conformance->platform->capabilities & SLI_REAL_TIME) {
        ck_assert_uint_ge(now, before);
        ck_assert_uint_le(now, after);
    } else {
        ck_assert_uint_eq(now, 0);
    }
    fixture_close(f);
}
END_TEST

START_TEST(figures_count_what_was_done) {
    enum { N = 20 };
    for (int measure = 0; measure < 2; measure++) {
        sli_backend_options options = conformance->options;
        options.measure = measure;
        fixture *f = fixture_open(&options);
        sli_batch empty = {.ticket = &f->ticket, .io = f->io};
        sli_lane_figures figures;
        place slots[2] = {add_slot(f, 0, SLOT), add_slot(f, 1, SLOT)};
        int a = add_lane(f, 0, 0), b = add_lane(f, 0, 1);
        test_work *mix = add_mix(f, 0, 1, 0, NULL, slots[0]), *copy = add_copy(f, slots[0], slots[1], SLOT);
        uint64_t begin = f->b->ops->now_ns(f->b);
        for (int k = 0; k < N; k++) {
            put(f, a, mix, k % 4 == 3 ? &empty : NULL);
            put_wait(f, b, a, put_record(f, a));
            put(f, b, copy, k % 4 == 3 ? &empty : NULL);
            put_wait(f, a, b, put_record(f, b));
        }
        settle(f);
        f->b->ops->lane_figures(f->b, (uint16_t)b, &figures);
        ck_assert_uint_eq(figures.payloads, N - N / 4);
        ck_assert_uint_eq(figures.bytes, (N - N / 4) * SLOT);
        f->b->ops->lane_figures(f->b, (uint16_t)a, &figures);
        ck_assert_uint_eq(figures.payloads, N - N / 4);
        ck_assert_uint_eq(figures.bytes, 0);
        ck_assert_uint_le(figures.busy_ns, f->b->ops->now_ns(f->b) - begin);
        if (!measure)
            ck_assert_uint_eq(figures.busy_ns, 0);
        fixture_close(f);
    }
}
END_TEST

START_TEST(two_backends_know_nothing_of_each_other) {
    fixture *f = fixture_open(NULL), *g = fixture_open(NULL);
    int a = add_lane(f, 0, 0), b = add_lane(g, 0, 0);
    put_record(f, a);
    put_record(f, a);
    put_record(g, b);
    settle(f);
    ck_assert_uint_eq(g->b->ops->reached(g->b, (uint16_t)b), 0);
    settle(g);
    ck_assert_uint_eq(g->b->ops->reached(g->b, (uint16_t)b), 1);
    fixture_close(f);
    put_record(g, b);
    settle(g);
    fixture_close(g);
}
END_TEST

claims conformance_lanes(void) {
    const test_case cases[] = {
        TEST(lanes_are_numbered_from_0_and_start_at_0),
        TEST(a_backend_without_lanes_closes),
        TEST(a_lane_does_its_actions_in_order),
        TEST(a_wait_orders_two_lanes),
        TEST(waits_of_several_lanes_hold_for_all),
        TEST(a_wait_for_what_is_reached_passes),
        TEST(a_value_can_be_waited_for_until_n_events_newer_ones),
        TEST(a_timeline_only_rises_and_is_never_ahead),
        TEST(the_payloads_of_a_stopped_ticket_pass),
        TEST(a_failing_op_stops_its_ticket_and_nobody_waits),
        TEST(times_follow_the_order),
        TEST(the_clock_is_what_the_capabilities_say),
        TEST(figures_count_what_was_done),
        TEST(two_backends_know_nothing_of_each_other),
    };
    return claims_of(cases, sizeof cases / sizeof *cases);
}
