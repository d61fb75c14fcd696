/* Claims about memory and payloads: what is copied where, how much of it, and what an op is given. */
#include "conformance_fixture.h"
#include <stdlib.h>
#include <string.h>

START_TEST(memory_is_zeroed_aligned_and_apart) {
    enum { N = 12 };
    fixture *f = fixture_open(NULL);
    place slots[N];
    uint32_t zeros[1024] = {0};
    for (int i = 0; i < N; i++) {
        size_t bytes = i % 4 == 0 ? 1 : (size_t)i * 333;
        slots[i] = add_slot(f, i % 3 == 2 ? SLI_HOST : i % 3, bytes);
        ck_assert_uint_eq((uintptr_t)slots[i].at % 64, 0);
        expect_words(slots[i], zeros, bytes / 4, "fresh memory");
        for (int k = 0; k < i; k++)
            if (slots[k].device == slots[i].device) {
                size_t other = k % 4 == 0 ? 1 : (size_t)k * 333;
                uintptr_t a = (uintptr_t)slots[i].at, b = (uintptr_t)slots[k].at;
                ck_assert(a + bytes <= b || b + other <= a);
            }
    }
    fixture_close(f);
}
END_TEST

static place some_place(fixture *f, int kind, int io, void *host, size_t bytes) {
    if (kind < 2)
        return add_slot(f, kind, bytes);
    if (kind == 2)
        return add_slot(f, SLI_HOST, bytes);
    f->io[io] = host;
    return io_place(io);
}

/* One copy from one kind of place to another; what surrounds the destination stays. */
static void copy_between(int from_kind, int to_kind, size_t words) {
    enum { EDGE = 16, MOST = 300000 };
    static uint32_t source[MOST + 2 * EDGE], destination[MOST + 2 * EDGE], found[MOST + 2 * EDGE];
    fixture *f = fixture_open(NULL);
    size_t n = words + 2 * EDGE;
    place from = some_place(f, from_kind, 0, source, n * 4), to = some_place(f, to_kind, 1, destination, n * 4);
    int lane = add_lane(f, from.device, to.device);
    test_work *copy = add_copy(f, from, to, n * 4);
    for (int i = 0; i < 2; i++) {
        copy->operands[i].extent.offset = EDGE * 4;
        copy->operands[i].extent.limit = words * 4;
    }
    fill_words(source, n, 1);
    fill_words(destination, n, 2);
    if (from.at)
        write_words(from, source, n);
    if (to.at)
        write_words(to, destination, n);
    put(f, lane, copy, NULL);
    put_record(f, lane);
    settle(f);
    if (to.at && has_data())
        read_words(to, found, n);
    else
        memcpy(found, destination, n * 4);
    fixture_close(f);
    if (!has_data())
        return;
    ck_assert_mem_eq(found + EDGE, source + EDGE, words * 4);
    fill_words(destination, n, 2);
    ck_assert_mem_eq(found, destination, EDGE * 4);
    ck_assert_mem_eq(found + EDGE + words, destination + EDGE + words, EDGE * 4);
}

START_TEST(copies_move_their_bytes_and_no_others) {
    static const size_t sizes[] = {0, 1, 3, 63, 1025, 262147};
    for (int from = 0; from < 4; from++) /* device 0, device 1, pinned, any host memory */
        for (int to = 0; to < 4; to++)
            for (int i = 0; i < 6; i++)
                if (from != to && (from < 2 || to < 2))
                    copy_between(from, to, sizes[i]);
}
END_TEST

START_TEST(rows_say_how_much_is_copied) {
    enum { ROW = 12, MOST = 10 };
    fixture *f = fixture_open(NULL);
    uint32_t source[ROW * MOST], before[ROW * MOST], expected[ROW * MOST];
    place from = add_slot(f, 0, sizeof source), to = add_slot(f, 1, sizeof source);
    int lane = add_lane(f, 0, 1);
    test_work *copy = add_copy(f, from, to, ROW * 4);
    fill_words(source, ROW * MOST, 4);
    fill_words(before, ROW * MOST, 5);
    write_words(from, source, ROW * MOST);
    for (int which = 0; which < SLI_ROW_COUNTS; which++)
        for (uint32_t rows = 0; rows <= MOST; rows += 1 + rows / 3) {
            sli_batch batch = {.ticket = &f->ticket, .rows = {7, 7, 7, 7, 7}, .io = f->io};
            batch.rows[which] = rows;
            for (int i = 0; i < 2; i++)
                copy->operands[i].extent.rows = which;
            write_words(to, before, ROW * MOST);
            put(f, lane, copy, &batch);
            put_record(f, lane);
            settle(f);
            memcpy(expected, before, sizeof before);
            memcpy(expected, source, (size_t)rows * ROW * 4);
            expect_words(to, expected, ROW * MOST, "rows of the batch");
        }
    fixture_close(f);
}
END_TEST

/* As a plan stages an edge: pieces of a value go through slots on the host that hold one piece each. */
START_TEST(pieces_make_the_whole) {
    enum { PIECES = 4, PIECE = 40, WHOLE = PIECES * PIECE, STEPS = 30 };
    fixture *f = fixture_open(NULL);
    uint32_t source[WHOLE], expected[WHOLE], zeros[WHOLE] = {0};
    place from = add_slot(f, 0, sizeof source), to = add_slot(f, 1, sizeof source);
    place half[2] = {add_slot(f, SLI_HOST, PIECE * 4), add_slot(f, SLI_HOST, PIECE * 4)};
    int up = add_lane(f, 0, SLI_HOST), down = add_lane(f, SLI_HOST, 1);
    test_work *ups[PIECES], *downs[PIECES];
    sli_extent row = {.rows = 0, .bytes = 4, .limit = PIECE * 4};
    for (int p = 0; p < PIECES; p++) {
        ups[p] = add_copy(f, from, half[p % 2], PIECE * 4);
        downs[p] = add_copy(f, half[p % 2], to, PIECE * 4);
        ups[p]->operands[0].extent = row;
        ups[p]->operands[0].extent.offset = (size_t)p * PIECE * 4;
        ups[p]->operands[1].extent = row;
        downs[p]->operands[0].extent = row;
        downs[p]->operands[1].extent = ups[p]->operands[0].extent;
    }
    for (uint32_t step = 0; step < STEPS; step++) {
        sli_batch batch = {.ticket = &f->ticket, .rows = {step * WHOLE / (STEPS - 1)}, .io = f->io};
        fill_words(source, WHOLE, step);
        write_words(from, source, WHOLE);
        write_words(to, zeros, WHOLE);
        for (int p = 0; p < PIECES; p++) {
            if (f->recorded[down] >= 2)
                put_wait(f, up, down, f->recorded[down] - 1); /* the half is free */
            put(f, up, ups[p], &batch);
            put_wait(f, down, up, put_record(f, up));
            put(f, down, downs[p], &batch);
            put_record(f, down);
        }
        settle(f);
        memset(expected, 0, sizeof expected);
        memcpy(expected, source, (size_t)batch.rows[0] * 4);
        expect_words(to, expected, WHOLE, "pieces through two halves");
    }
    fixture_close(f);
}
END_TEST

START_TEST(io_is_the_batches_own) {
    enum { N = 20 };
    fixture *f = fixture_open(NULL);
    static uint32_t in[N][WORDS], out[N][WORDS];
    static void *io[N][2];
    sli_batch batches[N];
    uint32_t expected[WORDS];
    place slots[2] = {add_slot(f, 0, SLOT), add_slot(f, 0, SLOT)};
    int up = add_lane(f, SLI_HOST, 0), lane = add_lane(f, 0, 0), down = add_lane(f, 0, SLI_HOST);
    test_work *load = add_copy(f, io_place(0), slots[0], SLOT), *store = add_copy(f, slots[1], io_place(1), SLOT);
    test_work *mix = add_mix(f, 0, 6, 1, &slots[0], slots[1]);
    for (int k = 0; k < N; k++) {
        fill_words(in[k], WORDS, (uint64_t)k);
        io[k][0] = in[k], io[k][1] = out[k];
        batches[k] = (sli_batch){.ticket = &f->ticket, .index = (uint64_t)k, .rows = {1}, .io = io[k]};
        put(f, up, load, &batches[k]);
        put_wait(f, lane, up, put_record(f, up));
        put(f, lane, mix, &batches[k]);
        put_wait(f, down, lane, put_record(f, lane));
        put(f, down, store, &batches[k]);
        put_wait(f, up, down, put_record(f, down));
    }
    settle(f);
    for (int k = 0; k < N && has_kernels(); k++) {
        for (int e = 0; e < WORDS; e++)
            expected[e] = mix_word(6, 1, &in[k][e]);
        ck_assert_mem_eq(out[k], expected, SLOT);
    }
    fixture_close(f);
}
END_TEST

START_TEST(an_empty_batch_does_nothing) {
    fixture *f = fixture_open(NULL);
    uint32_t words[WORDS];
    _Atomic uint64_t calls = 0;
    sli_batch empty = {.ticket = &f->ticket, .io = NULL};
    place slots[2] = {add_slot(f, 0, SLOT), add_slot(f, 1, SLOT)};
    int a = add_lane(f, 0, 0), b = add_lane(f, 0, 1), up = add_lane(f, SLI_HOST, 0);
    test_work *mix = add_mix(f, 0, 1, 0, NULL, slots[0]);
    mix->attributes.count = &calls;
    fill_words(words, WORDS, 8);
    write_words(slots[1], words, WORDS);
    put(f, up, add_copy(f, io_place(0), slots[0], SLOT), &empty); /* has no io */
    put_wait(f, a, up, put_record(f, up));
    put(f, a, mix, &empty);
    put_wait(f, b, a, put_record(f, a));
    put(f, b, add_copy(f, slots[0], slots[1], SLOT), &empty);
    put_record(f, b);
    settle(f);
    expect_words(slots[1], words, WORDS, "what an empty batch left alone");
    ck_assert_uint_eq(atomic_load(&calls), 0);
    if (!has_data())
        ck_assert_uint_eq(f->b->ops->now_ns(f->b), 0);
    fixture_close(f);
}
END_TEST

START_TEST(one_call_or_many_is_the_same) {
    enum { N = 60 };
    uint32_t results[3][WORDS];
    uint64_t ends[3];
    for (int way = 0; way < 3; way++) { /* all at once, action by action, in fives */
        fixture *f = fixture_open(NULL);
        place slots[2] = {add_slot(f, 0, SLOT), add_slot(f, 1, SLOT)};
        int a = add_lane(f, 0, 0), b = add_lane(f, 1, 1);
        place in[2] = {slots[1], slots[0]};
        test_work *there = add_copy(f, slots[0], slots[1], SLOT), *back = add_mix(f, 0, 3, 1, in, slots[0]);
        for (int k = 0; k < N; k++) {
            put(f, a, back, NULL);
            put_wait(f, b, a, put_record(f, a));
            if (way == 1)
                flush(f);
            put(f, b, there, NULL);
            put_wait(f, a, b, put_record(f, b));
            if (way == 1 || (way == 2 && k % 5 == 0))
                flush(f);
        }
        settle(f);
        ends[way] = f->b->ops->now_ns(f->b);
        if (has_kernels())
            read_words(slots[0], results[way], WORDS);
        fixture_close(f);
        if (has_kernels())
            ck_assert_mem_eq(results[way], results[0], SLOT);
        if (!has_data())
            ck_assert_uint_eq(ends[way], ends[0]);
    }
}
END_TEST

START_TEST(peers_are_asked_and_the_answer_stays) {
    fixture *f = fixture_open(NULL);
    for (int from = 0; from < conformance->n_devices; from++)
        for (int to = 0; to < conformance->n_devices; to++) {
            bool works = f->b->ops->peer_works(f->b, from, to);
            ck_assert_int_eq(f->b->ops->peer_works(f->b, from, to), works);
        }
    fixture_close(f);
}
END_TEST

/* ---- The platform ---- */

START_TEST(the_platform_describes_its_devices) {
    find_devices();
    for (int d = 0; d < conformance->n_devices; d++) {
        sl_device_info info = {.name = ""};
        ck_assert_int_eq(conformance->platform->info(d, &info), SL_OK);
        ck_assert_uint_gt(strlen(info.name), 0);
        ck_assert_int_ge(info.threads, 0);
    }
}
END_TEST

START_TEST(the_platform_copies_or_says_that_it_has_no_data) {
    const sli_platform *p = conformance->platform;
    uint32_t words[WORDS], found[WORDS], zeros[WORDS] = {0};
    void *at[2];
    find_devices();
    fill_words(words, WORDS, 9);
    for (int d = 0; d < 2; d++) {
        ck_assert_int_eq(p->allocate(d, SLOT, &at[d]), SL_OK);
        ck_assert_uint_eq((uintptr_t)at[d] % 64, 0);
    }
    if (has_data()) {
        ck_assert_int_eq(p->copy(0, at[0], SLI_HOST, words, SLOT), SL_OK);
        ck_assert_int_eq(p->zero(1, at[1], SLOT), SL_OK);
        ck_assert_int_eq(p->copy(SLI_HOST, found, 1, at[1], SLOT), SL_OK);
        ck_assert_mem_eq(found, zeros, SLOT);
        ck_assert_int_eq(p->copy(1, at[1], 0, at[0], SLOT), SL_OK);
        ck_assert_int_eq(p->copy(SLI_HOST, found, 1, at[1], SLOT), SL_OK);
        ck_assert_mem_eq(found, words, SLOT);
    } else {
        ck_assert_int_eq(p->copy(SLI_HOST, found, 0, at[0], SLOT), SL_NO_DATA);
        ck_assert_uint_gt(strlen(sl_last_error()), 0);
    }
    for (int d = 0; d < 2; d++)
        p->release(d, at[d], SLOT);
}
END_TEST

START_TEST(a_host_kernel_is_the_ops_own) {
    if (!conformance->on_host)
        SKIP("%s runs no kernels on the host", conformance->name);
    ck_assert(conformance->platform->kernel(&mix_op) == mix_on_host);
}
END_TEST

claims conformance_bytes(void) {
    const test_case cases[] = {
        TEST(memory_is_zeroed_aligned_and_apart),
        TEST(copies_move_their_bytes_and_no_others),
        TEST(rows_say_how_much_is_copied),
        TEST(pieces_make_the_whole),
        TEST(io_is_the_batches_own),
        TEST(an_empty_batch_does_nothing),
        TEST(one_call_or_many_is_the_same),
        TEST(peers_are_asked_and_the_answer_stays),
        TEST(the_platform_describes_its_devices),
        TEST(the_platform_copies_or_says_that_it_has_no_data),
        TEST(a_host_kernel_is_the_ops_own),
    };
    return claims_of(cases, sizeof cases / sizeof *cases);
}
