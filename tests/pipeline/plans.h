/* Graphs and plans for tests: ops without content, chains, and two judges of a plan that know nothing of how it was
 * compiled. Both replay its program step by step, as the driver does:
 *
 *   replay_ns      virtual time: a lane is in order, a wait lasts until its record, a payload takes what it is given
 *   count_races    vector clocks: two payloads that touch the same slot, one of them writing, and nothing orders them;
 *                  or a payload that finds another micro-batch's content in its slot */
#ifndef TESTS_PLANS_H
#define TESTS_PLANS_H

#include "graph.h"
#include "plan.h"
#include "support.h"
#include <sluice/sluice.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static inline void *zeroed(int64_t n, size_t bytes) {
    void *memory = n >= 0 && n < INT32_MAX ? calloc((size_t)n + 1, bytes) : NULL;
    if (!memory)
        ck_abort_msg("no memory for %lld x %zu bytes", (long long)n, bytes);
    return memory;
}

/* ---- Ops ---- */

/* The type of the first input, whatever else is read. */
static inline sl_status same_type(const void *attributes, int n_inputs, const sl_type *inputs, const bool *is_weight,
                                  int *n_outputs, sl_type *outputs) {
    (void)attributes, (void)is_weight;
    if (n_inputs < 1)
        return sl_fail(SL_INVALID, "has no input; expected one or more");
    *n_outputs = 1;
    outputs[0] = inputs[0];
    return SL_OK;
}

static inline sl_status no_kernel_call(sl_lane *lane, const sl_call *call) {
    (void)lane, (void)call;
    return SL_OK;
}

static const sl_op join_op = {.name = "join", .shape = same_type, .cpu = no_kernel_call};
static const sl_op place_op = {.name = "place", .shape = same_type, .cpu = no_kernel_call, .uses_descriptor = true};

static inline sl_value join(sl_graph *g, sl_stage s, int n, const sl_value *inputs) {
    return sl_graph_op1(g, s, &join_op, NULL, n, inputs, 0, NULL);
}

/* ---- Chains ---- */

enum { MOST_STAGES = 640 };

typedef struct chain {
    sl_graph *g;
    sl_value x, values[MOST_STAGES];
    sl_stage stages[MOST_STAGES];
    int n;
} chain;

/* n stages on sim:device_of[j], each reading the one before; no output yet. */
static inline void make_chain(chain *c, int n, const int *device_of) {
    char name[32];
    *c = (chain){.g = sl_graph_create(), .n = n};
    c->x = sl_graph_input(c->g, "x", SL_F32, SL_ROWS, 16);
    for (int j = 0; j < n; j++) {
        snprintf(name, sizeof name, "s%d", j);
        c->stages[j] = sl_graph_stage_on(c->g, name, (sl_device){SL_SIM, device_of ? device_of[j] : j});
        c->values[j] = join(c->g, c->stages[j], 1, j ? &c->values[j - 1] : &c->x);
    }
}

static inline void end_chain(chain *c) {
    sl_graph_output(c->g, "y", c->values[c->n - 1]);
}

static inline sl_plan *must_compile(const sl_graph *g, const sl_plan_options *options, const sli_plan_extras *extras) {
    sl_plan *p = NULL;
    sl_status status = sli_plan_compile(g, options, extras, &p);
    ck_assert_msg(status == SL_OK, "refused: %s", sl_last_error());
    return p;
}

/* ---- Virtual time ---- */

typedef uint64_t (*duration_fn)(const sl_plan *p, int payload, const void *user);

typedef struct virtual_lane {
    uint64_t now;
    int64_t value;
    uint64_t *times; /* [steps * rate + 1] of each value */
} virtual_lane;

static inline void replay_action(const sl_plan *p, const sli_plan_action *a, int64_t step, int64_t m,
                                 virtual_lane *lanes, duration_fn duration, const void *user) {
    virtual_lane *l = &lanes[a->lane];
    int64_t value = step * a->rate + a->offset;
    if (a->kind == SLI_WAIT && value > 0) {
        if (lanes[a->of].value < value) /* not ck_assert, which writes a mark each time */
            ck_abort_msg("a wait stands before its record: this deadlocks");
        uint64_t at = lanes[a->of].times[value];
        l->now = at > l->now ? at : l->now;
    } else if (a->kind == SLI_RECORD) {
        if (value != l->value + 1)
            ck_abort_msg("record %lld after %lld", (long long)value, (long long)l->value);
        l->times[l->value = value] = l->now;
    } else if (a->kind == SLI_EXECUTE || a->kind == SLI_COPY) {
        int64_t batch = step - p->payloads[a->payload].lag;
        l->now += batch >= 0 && batch < m ? duration(p, (int)a->payload, user) : 0;
    }
}

/* When the last of m micro-batches has left every lane, if the host enqueues a step once it is at most `credits` ahead
 * of the last one that has ended; 0: at once. */
static inline uint64_t replay_with_credits(const sl_plan *p, int64_t m, duration_fn duration, const void *user,
                                           int64_t credits) {
    int64_t steps = m + p->max_lag;
    virtual_lane *lanes = zeroed(p->n_lanes, sizeof *lanes);
    uint64_t *ends = zeroed(steps, sizeof *ends), end = 0;
    for (int l = 0; l < p->n_lanes; l++)
        lanes[l].times = zeroed(steps * p->lanes[l].rate + 1, sizeof(uint64_t));
    for (int64_t step = 0; step < steps; step++) {
        uint64_t enqueued = credits && step >= credits ? ends[step - credits] : 0;
        for (int l = 0; l < p->n_lanes; l++)
            lanes[l].now = enqueued > lanes[l].now ? enqueued : lanes[l].now;
        for (size_t i = 0; i < p->n_program; i++)
            replay_action(p, &p->program[i], step, m, lanes, duration, user);
        for (int l = 0; l < p->n_lanes; l++)
            ends[step] = lanes[l].now > ends[step] ? lanes[l].now : ends[step];
        end = ends[step] > end ? ends[step] : end;
    }
    for (int l = 0; l < p->n_lanes; l++)
        free(lanes[l].times);
    free(lanes);
    free(ends);
    return end;
}

static inline uint64_t replay_ns(const sl_plan *p, int64_t m, duration_fn duration, const void *user) {
    return replay_with_credits(p, m, duration, user, 0);
}

/* ---- Vector clocks ---- */

typedef struct touched { /* by an earlier payload */
    int lane;
    int64_t time; /* of its lane, when the payload ended */
    bool wrote;
    int64_t unit; /* micro-batch, or piece number */
    uint32_t payload;
    size_t from, to; /* bytes */
} touched;

typedef struct slot_history {
    int n, room;
    touched *all;
} slot_history;

typedef struct verdict {
    int64_t races, stale, ring; /* ring: an input is copied although its group is not back */
    uint32_t first, second;     /* payloads of the first race */
} verdict;

typedef struct judge {
    const sl_plan *p;
    int64_t *clocks;      /* [lanes][lanes] */
    int64_t **recorded;   /* [lanes][values * lanes] */
    slot_history **slots; /* [buffers][depth] */
    int64_t *ended;       /* [payloads] ends of its lane when it last ended; of batch k at [payload * steps + k] */
    int64_t steps;
    verdict v;
} judge;

static inline touched touch_of(const judge *j, const sli_plan_operand *o, uint32_t payload, int64_t batch, bool wrote) {
    int lane = j->p->payloads[payload].lane;
    size_t all = o->extent.rows < 0 ? o->extent.bytes : o->extent.bytes * j->p->max_rows[o->extent.rows];
    size_t rest = all > o->extent.offset ? all - o->extent.offset : 0;
    return (touched){.lane = lane,
                     .time = j->clocks[lane * j->p->n_lanes + lane] + 1,
                     .wrote = wrote,
                     .unit = (batch - o->distance) * o->pieces + o->piece,
                     .payload = payload,
                     .from = o->extent.offset,
                     .to = o->extent.offset + (rest < o->extent.limit ? rest : o->extent.limit)};
}

static inline void judge_touch(judge *j, const sli_plan_operand *o, uint32_t payload, int64_t batch, bool wrote) {
    touched now = touch_of(j, o, payload, batch, wrote);
    slot_history *h = &j->slots[o->buffer][sli_operand_slot(j->p, o, batch)];
    int64_t content = -1;
    for (int k = 0; k < h->n; k++) {
        const touched *t = &h->all[k];
        if (t->to <= now.from || now.to <= t->from)
            continue;
        if (t->wrote)
            content = t->unit;
        if ((t->wrote || wrote) && j->clocks[now.lane * j->p->n_lanes + t->lane] < t->time && !j->v.races++) {
            j->v.first = t->payload;
            j->v.second = payload;
        }
    }
    j->v.stale += !wrote && content != now.unit;
    if (h->n == h->room)
        h->all = realloc(h->all, (size_t)(h->room = h->room ? 2 * h->room : 8) * sizeof *h->all);
    h->all[h->n++] = now;
}

/* In a ring, an input's copy comes after all outputs' copies of its group's last micro-batch. */
static inline void judge_ring(judge *j, uint32_t payload, int64_t batch) {
    const sl_plan *p = j->p;
    int64_t last = batch - p->options.groups;
    if (!p->options.groups || p->payloads[payload].operands[0].buffer >= 0 || last < 0)
        return;
    for (int o = 0; o < p->n_payloads; o++) {
        const sli_payload *out = &p->payloads[o];
        if (out->kind != SLI_COPY || out->operands[1].buffer >= 0)
            continue;
        int64_t ended = j->ended[o * j->steps + last];
        j->v.ring += ended == 0 || j->clocks[p->payloads[payload].lane * p->n_lanes + out->lane] < ended;
    }
}

static inline void judge_payload(judge *j, uint32_t payload, int64_t step) {
    const sli_payload *p = &j->p->payloads[payload];
    int64_t batch = step - p->lag;
    int lane = p->lane;
    if (batch < 0)
        return;
    judge_ring(j, payload, batch);
    for (int i = 0; i < p->n_operands; i++)
        if (p->operands[i].buffer >= 0)
            judge_touch(j, &p->operands[i], payload, batch, i >= p->n_reads);
    j->ended[payload * j->steps + batch] = ++j->clocks[lane * j->p->n_lanes + lane];
}

static inline void judge_action(judge *j, const sli_plan_action *a, int64_t step) {
    int n = j->p->n_lanes;
    int64_t value = step * a->rate + a->offset, *own = j->clocks + a->lane * n;
    if (a->kind == SLI_WAIT && value > 0)
        for (int l = 0; l < n; l++) {
            int64_t seen = j->recorded[a->of][value * n + l];
            own[l] = seen > own[l] ? seen : own[l];
        }
    else if (a->kind == SLI_RECORD)
        memcpy(j->recorded[a->lane] + value * n, own, (size_t)n * sizeof *own);
    else if (a->kind != SLI_WAIT)
        judge_payload(j, a->payload, step);
}

static inline verdict judge_plan(const sl_plan *p, int64_t steps) {
    int n = p->n_lanes;
    judge j = {.p = p, .steps = steps};
    j.clocks = zeroed(n * n, sizeof *j.clocks);
    j.recorded = zeroed(n, sizeof *j.recorded);
    j.slots = zeroed(p->n_buffers, sizeof *j.slots);
    j.ended = zeroed(p->n_payloads * steps, sizeof *j.ended);
    for (int l = 0; l < n; l++)
        j.recorded[l] = zeroed((steps * p->lanes[l].rate + 1) * n, sizeof **j.recorded);
    for (int i = 0; i < p->n_buffers; i++)
        j.slots[i] = zeroed(p->buffers[i].depth, sizeof **j.slots);
    for (int64_t step = 0; step < steps; step++)
        for (size_t i = 0; i < p->n_program; i++)
            judge_action(&j, &p->program[i], step);
    for (int l = 0; l < n; l++)
        free(j.recorded[l]);
    for (int i = 0; i < p->n_buffers; i++) {
        for (int k = 0; k < p->buffers[i].depth; k++)
            free(j.slots[i][k].all);
        free(j.slots[i]);
    }
    free(j.clocks);
    free(j.recorded);
    free(j.slots);
    free(j.ended);
    return j.v;
}

/* Steps after which every wait has had something to wait for. */
static inline int64_t enough_steps(const sl_plan *p) {
    int64_t longest = 0;
    for (size_t i = 0; i < p->n_program; i++)
        if (p->program[i].kind == SLI_WAIT) {
            int64_t steps = (p->program[i].rate - p->program[i].offset) / p->program[i].rate;
            longest = steps > longest ? steps : longest;
        }
    return 2 * longest + p->max_lag + 4;
}

/* The good plan has no race; each wait left out makes one. */
static inline void every_wait_matters(const sl_graph *g, const sl_plan_options *options, int *total) {
    int n_waits = 1;
    int64_t steps = 0;
    for (int drop = 0; drop <= n_waits; drop++) {
        sl_plan *p = must_compile(g, options, &(sli_plan_extras){.drop_wait = drop});
        steps = drop ? steps : enough_steps(p);
        verdict v = judge_plan(p, steps);
        n_waits = p->n_waits;
        if (drop)
            ck_assert_msg(v.races || v.ring, "wait %d of %d left out: nothing is wrong", drop, n_waits);
        else
            ck_assert_msg(!v.races && !v.stale && !v.ring, "races %d (%s, %s), stale %d, ring %d", (int)v.races,
                          p->payloads[v.first].name, p->payloads[v.second].name, (int)v.stale, (int)v.ring);
        sl_plan_destroy(p);
    }
    *total += n_waits;
}

/* ---- Random graphs ---- */

typedef struct random_graph {
    sl_graph *g;
    sl_plan_options options;
    int n_stages, n_devices;
} random_graph;

/* n_devices 0: one for each stage. */
static inline void random_stage(sl_graph *g, uint64_t *seed, int j, sl_value *values, int *n_values, int n_devices,
                                bool *is_read) {
    char name[32];
    sl_value inputs[4];
    int n = 1 + (int)test_below(seed, 3), device = n_devices ? (int)test_below(seed, (uint64_t)n_devices) : j;
    snprintf(name, sizeof name, "s%d", j);
    sl_stage s = sl_graph_stage_on(g, name, (sl_device){SL_SIM, device});
    for (int i = 0; i < n; i++) {
        int from = i == 0 && *n_values > 2 ? *n_values - 1 : (int)test_below(seed, (uint64_t)*n_values);
        if (j > 0 && i == 0 && from < 2)
            from = 2 + (int)test_below(seed, (uint64_t)j); /* each stage but the first reads another: one part */
        inputs[i] = values[from];
        is_read[from] = true;
    }
    values[*n_values] = sl_graph_op1(g, s, test_below(seed, 4) ? &join_op : &place_op, NULL, n, inputs, 0, NULL);
    if (test_below(seed, 3) == 0) /* something inside */
        values[*n_values] = join(g, s, 1, &values[*n_values]);
    ++*n_values;
}

/* n_stages and one more, skips and branches, two inputs. Returns the number of values; the last is an output. */
static inline int random_stages(random_graph *r, uint64_t *seed, sl_value values[64]) {
    bool is_read[64] = {false};
    int n_values = 2;
    r->g = sl_graph_create();
    values[0] = sl_graph_input(r->g, "a", SL_F32, SL_ROWS, 16);
    values[1] = sl_graph_input(r->g, "b", SL_F32, SL_ROWS, 8);
    for (int j = 0; j < r->n_stages; j++)
        random_stage(r->g, seed, j, values, &n_values, r->n_devices, is_read);
    sl_value last[] = {values[n_values - 1], values[0], values[1]};
    sl_stage end = sl_graph_stage_on(r->g, "end", (sl_device){SL_SIM, r->n_devices ? 0 : r->n_stages});
    sl_graph_output(r->g, "end", join(r->g, end, 3, last));
    for (int v = 2; v < n_values - 1; v++)
        if (!is_read[v] || test_below(seed, 5) == 0) {
            char name[32];
            snprintf(name, sizeof name, "y%d", v);
            sl_graph_output(r->g, name, values[v]);
        }
    return n_values;
}

/* Up to `most` stages on fewer or as many devices, some depths and options given. */
static inline void make_random(random_graph *r, uint64_t *seed, int most) {
    sl_value values[64];
    r->n_stages = 2 + (int)test_below(seed, (uint64_t)most - 1);
    r->n_devices = 1 + (int)test_below(seed, (uint64_t)r->n_stages);
    int n_values = random_stages(r, seed, values);
    for (int v = 2; v < n_values; v++)
        if (test_below(seed, 4) == 0)
            sl_graph_source_depth(r->g, values[v], 1 + (int)test_below(seed, 4));
    r->options = (sl_plan_options){.micro_batch_rows = 4, .staging_bytes = 128};
    r->options.depth = (int)test_below(seed, 4);
    r->options.window = test_below(seed, 3) ? 0 : 1 + (uint32_t)test_below(seed, 8);
    r->options.groups = test_below(seed, 3) ? 0 : 1 + (uint32_t)test_below(seed, 8);
    r->options.route = test_below(seed, 3) ? SL_ROUTE_AUTO : SL_ROUTE_STAGED;
}

#endif
