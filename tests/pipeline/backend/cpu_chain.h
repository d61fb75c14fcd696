/* Programs for tests of the CPU backend: a chain of stages over devices, micro-batch after micro-batch, with just the
 * waits that the slots need. Each stage hashes its input (and, with a skip, the first stage's output), so that an
 * output tells whether every slot held the right micro-batch at the right time. */
#ifndef TESTS_CPU_CHAIN_H
#define TESTS_CPU_CHAIN_H

#include "backend/cpu.h"
#include "conformance_fixture.h"
#include <stdlib.h>
#include <string.h>

enum { CHAIN_STAGES = 6, CHAIN_DEVICES = 4, CHAIN_DEPTH = 3, CHAIN_BATCHES = 400 };

/* `mix` that says that it never blocks. */
static const sl_op calm_mix = {
    .name = "calm", .attribute_bytes = sizeof(mix_attributes), .cpu = mix_on_host, .never_blocks = true};

static const conformance_setup cpu_setup = {
    .name = "cpu", .platform = &sli_cpu_platform, .n_devices = CHAIN_DEVICES, .on_host = true};

/* Once at a test's start: `settings` are pairs of names and values, ended by NULL. */
static inline void begin_cpu(const char *const *settings) {
    conformance = &cpu_setup;
    ck_assert_int_eq(sl_setting_set("SLUICE_CPU_DEVICES", "4"), SL_OK);
    for (; settings && *settings; settings += 2)
        ck_assert_int_eq(sl_setting_set(settings[0], settings[1]), SL_OK);
    find_devices();
}

typedef struct chain_slot { /* and who touched it last */
    place at;
    int writer; /* lane, -1: none */
    uint64_t write, reads[MAX_TEST_LANES];
} chain_slot;

typedef struct chain_options {
    int n_stages, n_devices, depth;
    bool skip;        /* the last stage reads the first one's output too */
    const sl_op *op;  /* of the kind of mix; NULL: mix_op */
    uint32_t n_ahead; /* micro-batches that the driver is ahead; 0: 8 */
    int dropped;      /* wait that is left out, from 1; 0: none */
} chain_options;

typedef struct chain {
    chain_options o;
    fixture *f;
    int compute[CHAIN_DEVICES], link[CHAIN_DEVICES + 1][CHAIN_DEVICES + 1];
    chain_slot out[CHAIN_STAGES][CHAIN_DEPTH], in[CHAIN_STAGES + 1][CHAIN_DEPTH], skipped[CHAIN_DEPTH];
    test_work *load[CHAIN_DEPTH], *stage[CHAIN_STAGES][CHAIN_DEPTH], *copy[CHAIN_STAGES][CHAIN_DEPTH];
    test_work *skip[CHAIN_DEPTH], *store[CHAIN_DEPTH];
    int n_waits, last_lane;
    uint64_t ends[CHAIN_BATCHES];
    uint64_t n_done; /* micro-batches since the start */
    sli_batch batches[CHAIN_BATCHES];
    void *io[CHAIN_BATCHES][2];
    uint32_t input[CHAIN_BATCHES][WORDS], output[CHAIN_BATCHES][WORDS];
} chain;

static inline int chain_device(const chain *c, int stage) {
    return stage % c->o.n_devices;
}

static inline int chain_link(chain *c, int from, int to) {
    int *lane = &c->link[from + 1][to + 1];
    if (*lane < 0)
        *lane = add_lane(c->f, from, to);
    return *lane;
}

static inline chain_slot chain_new_slot(chain *c, int device) {
    return (chain_slot){.at = add_slot(c->f, device, SLOT), .writer = -1};
}

static inline test_work *chain_work(chain *c, int device, uint32_t salt, int n_inputs, const place *in, place out) {
    const sl_op *op = c->o.op ? c->o.op : &mix_op;
    test_work *w = add_stage(c->f, device, op, op->cpu, n_inputs, in, out);
    w->attributes.salt = salt;
    return w;
}

static inline void chain_build(chain *c) {
    int n = c->o.n_stages, last = chain_device(c, n - 1);
    memset(c->link, -1, sizeof c->link);
    for (int d = 0; d < c->o.n_devices; d++)
        c->compute[d] = add_lane(c->f, d, d);
    for (int v = 0; v < c->o.depth; v++) {
        c->in[0][v] = chain_new_slot(c, 0);
        c->load[v] = add_copy(c->f, io_place(0), c->in[0][v].at, SLOT);
        c->skipped[v] = chain_new_slot(c, last);
        for (int j = 0; j < n; j++) {
            int d = chain_device(c, j), next = j + 1 < n ? chain_device(c, j + 1) : SLI_HOST;
            place from[2] = {c->in[j][v].at, last == 0 ? c->out[0][v].at : c->skipped[v].at};
            c->out[j][v] = chain_new_slot(c, d);
            c->stage[j][v] = chain_work(c, d, (uint32_t)j + 1, c->o.skip && j == n - 1 ? 2 : 1, from, c->out[j][v].at);
            if (next == SLI_HOST) {
                c->store[v] = add_copy(c->f, c->out[j][v].at, io_place(1), SLOT);
                continue;
            }
            c->in[j + 1][v] = next == d ? c->out[j][v] : chain_new_slot(c, next);
            c->copy[j][v] = next == d ? NULL : add_copy(c->f, c->out[j][v].at, c->in[j + 1][v].at, SLOT);
        }
        if (!c->o.skip || last == 0)
            continue;
        c->skip[v] = add_copy(c->f, c->out[0][v].at, c->skipped[v].at, SLOT);
        c->skip[v]->work.name = "skip"; /* poison tells readers by their names */
        prepare(c->f, last, c->skip[v]);
    }
}

static inline chain *chain_open(const chain_options *o, const sli_backend_options *options) {
    chain *c = calloc(1, sizeof *c);
    ck_assert_ptr_nonnull(c);
    c->o = *o;
    c->f = fixture_open(options);
    chain_build(c);
    return c;
}

static inline void chain_order(chain *c, int lane, int of, uint64_t value) {
    if (of >= 0 && of != lane && value > 0 && ++c->n_waits != c->o.dropped)
        put_wait(c->f, lane, of, value);
}

static inline void chain_touch(chain *c, int lane, chain_slot *s, bool writes) {
    uint64_t next = c->f->recorded[lane] + 1;
    chain_order(c, lane, s->writer, s->write);
    if (!writes) {
        s->reads[lane] = next;
        return;
    }
    for (int l = 0; l < c->f->n_lanes; l++)
        chain_order(c, lane, l, s->reads[l]);
    memset(s->reads, 0, sizeof s->reads);
    s->writer = lane;
    s->write = next;
}

static inline void chain_do(chain *c, int lane, test_work *w, const sli_batch *b, chain_slot *a, chain_slot *a2,
                            chain_slot *to) {
    if (a)
        chain_touch(c, lane, a, false);
    if (a2)
        chain_touch(c, lane, a2, false);
    if (to)
        chain_touch(c, lane, to, true);
    put(c->f, lane, w, b);
    put_record(c->f, lane);
}

/* A stage's output where the next one reads it: the same slot on one device. */
static inline chain_slot *chain_in(chain *c, int j, int v) {
    return j > 0 && !c->copy[j - 1][v] ? &c->out[j - 1][v] : &c->in[j][v];
}

static inline void chain_put(chain *c, uint64_t k) {
    int n = c->o.n_stages, v = (int)(k % (uint64_t)c->o.depth), last = chain_device(c, n - 1);
    const sli_batch *b = &c->batches[k % CHAIN_BATCHES];
    chain_do(c, chain_link(c, SLI_HOST, 0), c->load[v], b, NULL, NULL, &c->in[0][v]);
    for (int j = 0; j < n; j++) {
        int d = chain_device(c, j);
        chain_slot *more = !c->o.skip || j < n - 1 ? NULL : c->skip[v] ? &c->skipped[v] : &c->out[0][v];
        chain_do(c, c->compute[d], c->stage[j][v], b, chain_in(c, j, v), more, &c->out[j][v]);
        if (j == 0 && c->skip[v])
            chain_do(c, chain_link(c, 0, last), c->skip[v], b, &c->out[0][v], NULL, &c->skipped[v]);
        if (j + 1 < n && c->copy[j][v])
            chain_do(c, chain_link(c, d, chain_device(c, j + 1)), c->copy[j][v], b, &c->out[j][v], NULL,
                     &c->in[j + 1][v]);
    }
    c->last_lane = chain_link(c, last, SLI_HOST);
    chain_do(c, c->last_lane, c->store[v], b, &c->out[n - 1][v], NULL, NULL);
    c->ends[k % CHAIN_BATCHES] = c->f->recorded[c->last_lane];
}

/* Enqueues m micro-batches, at most n_ahead of those that have ended, one call each; the last ones may not have ended.
 */
static inline void chain_run(chain *c, uint64_t m) {
    uint32_t ahead = c->o.n_ahead ? c->o.n_ahead : 8;
    for (uint64_t end = c->n_done + m; c->n_done < end; c->n_done++) {
        uint64_t k = c->n_done;
        size_t i = k % CHAIN_BATCHES;
        if (k >= ahead)
            wait_until(c->f, c->last_lane, c->ends[(k - ahead) % CHAIN_BATCHES]);
        c->io[i][0] = c->input[i], c->io[i][1] = c->output[i];
        c->batches[i] = (sli_batch){.ticket = &c->f->ticket, .index = k, .rows = {1}, .io = c->io[i]};
        fill_words(c->input[i], WORDS, k);
        memset(c->output[i], 0, sizeof c->output[i]);
        chain_put(c, k);
        flush(c->f);
    }
}

static inline void chain_settle(chain *c) {
    settle(c->f);
}

static inline uint32_t chain_expected(const chain *c, uint32_t word) {
    uint32_t first = 0, x = word;
    for (int j = 0; j < c->o.n_stages; j++) {
        uint32_t in[2] = {x, first};
        x = mix_word((uint32_t)j + 1, c->o.skip && j == c->o.n_stages - 1 ? 2 : 1, in);
        first = j == 0 ? x : first;
    }
    return x;
}

/* How many of the last m micro-batches have a wrong output. */
static inline int chain_wrong(const chain *c, uint64_t m) {
    int wrong = 0;
    for (uint64_t k = c->n_done - m; k < c->n_done; k++) {
        size_t i = k % CHAIN_BATCHES;
        bool right = true;
        for (int e = 0; e < WORDS; e++)
            right = right && c->output[i][e] == chain_expected(c, c->input[i][e]);
        wrong += !right;
    }
    return wrong;
}

static inline void chain_close(chain *c) {
    fixture_close(c->f);
    free(c);
}

/* Closes what is expected not to end; all that it may touch is kept, and pointed at. */
static inline void chain_abandon(chain *c, uint64_t grace_ns) {
    static __attribute__((used)) chain *volatile kept[64];
    static int n;
    ck_assert_int_eq(c->f->b->ops->close(c->f->b, grace_ns), SL_STALLED);
    kept[n++ % 64] = c;
}

#endif
