/* Random programs: payloads on random lanes and slots, ordered by just the waits that their slots need. The bytes must
 * be those of doing them one after the other, and in virtual time each must end when the longest path to it ends. */
#include "conformance_fixture.h"
#include <string.h>

enum { N_PAYLOADS = 120, DEVICES = 3, PLACES = DEVICES + 1 /* and the host */, SLOTS_EACH = 3, MOST_LANES = 16 };

typedef struct slot_model {
    place at;
    uint32_t words[WORDS];
    int writer; /* lane, -1: none */
    uint64_t write, reads[MOST_LANES];
} slot_model;

typedef struct lane_model {
    int from, to; /* 0 .. PLACES - 1; the last is the host */
    uint64_t now_ns, ends_ns[N_PAYLOADS + 1];
    uint64_t knows[MOST_LANES], knew[N_PAYLOADS + 1][MOST_LANES]; /* values of others that are behind it; at a record */
} lane_model;

typedef struct model {
    fixture *f;
    uint64_t seed;
    int n_devices, n_lanes;
    lane_model lanes[MOST_LANES];
    slot_model slots[PLACES][SLOTS_EACH];
} model;

static int device_of(const model *m, int at) {
    return at == m->n_devices ? SLI_HOST : at;
}

static void build(model *m) {
    m->n_devices = conformance->n_devices < DEVICES ? conformance->n_devices : DEVICES;
    for (int d = 0; d <= m->n_devices; d++)
        for (int i = 0; i < SLOTS_EACH; i++) {
            slot_model *s = &m->slots[d][i];
            s->at = add_slot(m->f, device_of(m, d), SLOT);
            s->writer = -1;
            fill_words(s->words, WORDS, test_random(&m->seed));
            write_words(s->at, s->words, WORDS);
        }
    for (int from = 0; from <= m->n_devices; from++)
        for (int to = 0; to <= m->n_devices; to++) {
            if (from == m->n_devices && to == from)
                continue;
            if (from != to && test_below(&m->seed, 4) == 0)
                continue;
            lane_model *l = &m->lanes[add_lane(m->f, device_of(m, from), device_of(m, to))];
            l->from = from, l->to = to;
            m->n_lanes++;
        }
}

/* Waits for (of, value) unless that is known to be behind the lane; then half of the time. */
static void order(model *m, int lane, int of, uint64_t value) {
    lane_model *l = &m->lanes[lane], *o = &m->lanes[of];
    if (of == lane || value == 0 || (l->knows[of] >= value && test_below(&m->seed, 2)))
        return;
    put_wait(m->f, lane, of, value);
    if (o->ends_ns[value] > l->now_ns)
        l->now_ns = o->ends_ns[value];
    for (int k = 0; k < m->n_lanes; k++)
        if (o->knew[value][k] > l->knows[k])
            l->knows[k] = o->knew[value][k];
}

static void touch(model *m, int lane, slot_model *s, bool writes) {
    uint64_t next = m->f->recorded[lane] + 1; /* the record behind the payload at hand */
    if (s->writer >= 0)
        order(m, lane, s->writer, s->write);
    if (!writes) {
        s->reads[lane] = next;
        return;
    }
    for (int k = 0; k < m->n_lanes; k++)
        order(m, lane, k, s->reads[k]);
    memset(s->reads, 0, sizeof s->reads);
    s->writer = lane;
    s->write = next;
}

static slot_model *some_slot(model *m, int at, const slot_model *but) {
    slot_model *s;
    do
        s = &m->slots[at][test_below(&m->seed, SLOTS_EACH)];
    while (s == but);
    return s;
}

static uint64_t add_execute(model *m, int lane) {
    int device = m->lanes[lane].from, n = (int)test_below(&m->seed, 4);
    slot_model *out = some_slot(m, device, NULL), *in[4];
    place places[4];
    uint32_t column[4], salt = (uint32_t)test_random(&m->seed);
    for (int k = 0; k < n; k++) {
        in[k] = some_slot(m, device, out);
        places[k] = in[k]->at;
        touch(m, lane, in[k], false);
    }
    touch(m, lane, out, true);
    for (int e = 0; e < WORDS; e++) {
        for (int k = 0; k < n; k++)
            column[k] = in[k]->words[e];
        out->words[e] = mix_word(salt, n, column);
    }
    test_work *w = add_mix(m->f, device, salt, n, places, out->at);
    w->code.fixed_ns = test_below(&m->seed, 100);
    put(m->f, lane, w, NULL);
    return w->code.fixed_ns;
}

static uint64_t add_transfer(model *m, int lane) {
    int from = m->lanes[lane].from, to = m->lanes[lane].to;
    slot_model *in = some_slot(m, from, NULL), *out = some_slot(m, to, NULL);
    size_t words = test_below(&m->seed, WORDS + 1);
    touch(m, lane, in, false);
    touch(m, lane, out, true);
    memcpy(out->words, in->words, words * 4);
    put(m->f, lane, add_copy(m->f, in->at, out->at, words * 4), NULL);
    return conformance->copy_ns ? conformance->copy_ns(device_of(m, from), device_of(m, to), words * 4) : 0;
}

static void check_times(model *m) {
    for (int l = 0; l < m->n_lanes && conformance->copy_ns; l++)
        for (uint64_t v = 1; v <= m->f->recorded[l]; v++) {
            uint64_t ns = 0;
            ck_assert_int_eq(m->f->b->ops->when(m->f->b, (uint16_t)l, v, &ns), SL_OK);
            ck_assert_msg(ns == m->lanes[l].ends_ns[v], "lane %d, value %d: %d, expected %d", l, (int)v, (int)ns,
                          (int)m->lanes[l].ends_ns[v]);
        }
}

static void run_random(uint64_t seed) {
    static model all;
    model *m = &all;
    memset(m, 0, sizeof *m);
    m->f = fixture_open(NULL);
    m->seed = seed;
    build(m);
    for (int p = 0; p < N_PAYLOADS; p++) {
        int lane = (int)test_below(&m->seed, (uint64_t)m->n_lanes);
        lane_model *l = &m->lanes[lane];
        uint64_t ns = l->from == l->to ? add_execute(m, lane) : add_transfer(m, lane);
        l->now_ns += ns;
        uint64_t value = put_record(m->f, lane);
        l->knows[lane] = value;
        l->ends_ns[value] = l->now_ns;
        memcpy(l->knew[value], l->knows, sizeof l->knows);
        if (test_below(&m->seed, 8) == 0)
            flush(m->f);
        if (test_below(&m->seed, 40) == 0)
            settle(m->f);
    }
    settle(m->f);
    check_times(m);
    for (int d = 0; d <= m->n_devices && has_kernels(); d++)
        for (int i = 0; i < SLOTS_EACH; i++)
            expect_words(m->slots[d][i].at, m->slots[d][i].words, WORDS, "a slot at the end");
    fixture_close(m->f);
}

START_TEST(random_programs_do_what_one_after_the_other_does) {
    uint64_t seed = test_seed();
    for (int c = 0; c < test_cases(400); c++)
        run_random(seed + (uint64_t)c);
}
END_TEST

claims conformance_random(void) {
    const test_case cases[] = {TEST(random_programs_do_what_one_after_the_other_does)};
    return claims_of(cases, sizeof cases / sizeof *cases);
}
