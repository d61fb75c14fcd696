/* How many steps a payload stays behind. A lane is in order, so where a device holds stages 0 and 2 and another one
 * stage 1, a step of 0 and 2 leaves the first device idle while micro-batch i goes 0 -> 1 -> 2. If stage 2 takes an
 * earlier micro-batch instead, nobody waits:
 *
 *     step           0      1      2      3      4              5
 *     cpu:0          0(0)   0(1)   0(2)   0(3)   0(4), 2(0)     0(5), 2(1)          stage(micro-batch)
 *     0 -> 1                (0)    (1)    (2)    (3)            (4)
 *     cpu:1                        1(0)   1(1)   1(2)           1(3)
 *     1 -> 0                              (0)    (1)            (2)
 *
 * Wherever values go from a device round to the same one, each change of lane on such a circle costs a step. Then all
 * that a lane does in a step was made ready in earlier ones, and the busiest lane decides, whatever the times are.
 * There are no lags elsewhere, none between neighbours on one device, and none in a ring, where a group's next
 * micro-batch waits for the end of its last one. A lag may not exceed the slots on its way: depths that somebody gave
 * lower the lags, others are raised. */
#include "error.h"
#include "plan_build.h"
#include <limits.h>

/* ---- Circles of devices ---- */

typedef uint64_t word;
enum { WORD = 64 };

static bool crosses(const sli_build *b, const sli_read *r, int *from, int *to) {
    if (r->value < 0 || b->g->values[r->value].kind != SLI_VALUE_MADE)
        return false;
    *from = b->p->stages[b->g->values[r->value].stage].device;
    *to = b->p->stages[r->stage].device;
    return *from != *to;
}

static bool leads(const word *reach, size_t n_words, int from, int to) {
    return reach[(size_t)from * n_words + (size_t)to / WORD] >> (to % WORD) & 1;
}

/* reach [devices][n_words]: which devices values get to from each (Warshall's closure). */
static void close_reach(const sli_build *b, word *reach, size_t n_words) {
    size_t n = (size_t)b->p->n_devices;
    int from, to;
    for (int i = 0; i < b->n_reads; i++)
        if (crosses(b, &b->reads[i], &from, &to))
            reach[(size_t)from * n_words + (size_t)to / WORD] |= (word)1 << (to % WORD);
    for (size_t via = 0; via < n; via++)
        for (size_t d = 0; d < n; d++)
            if (leads(reach, n_words, (int)d, (int)via))
                for (size_t w = 0; w < n_words; w++)
                    reach[d * n_words + w] |= reach[via * n_words + w];
}

/* A copy between two devices from the second of which values get back to the first. */
static bool is_on_circle(const sli_build *b, const sli_payload *payload, const word *reach, size_t n_words) {
    const sli_plan_lane *lane = &b->p->lanes[payload->lane];
    int link = b->lane_link[payload->lane], none = SLI_HOST - 1;
    int from = lane->from == SLI_HOST ? link : lane->from, to = lane->to == SLI_HOST ? link : lane->to;
    return payload->kind == SLI_COPY && from != none && to != none && leads(reach, n_words, to, from);
}

/* ---- Wishes ---- */

static bool is_input(const sli_payload *payload) {
    return payload->kind == SLI_COPY && payload->operands[0].buffer < 0;
}

static bool is_forward(const sli_build *b, const sli_dep *d) {
    return d->buffer >= 0 && !d->is_back && !is_input(&b->p->payloads[d->from]);
}

/* Where a dependency should cost a step. The halves of a copy in pieces go on side by side. */
static bool wish_for_hops(const sli_build *b, const word *reach, size_t n_words) {
    const sli_payload *payloads = b->p->payloads;
    bool any = false;
    for (int i = 0; i < b->n_deps; i++) {
        sli_dep *d = &b->deps[i];
        const sli_payload *from = &payloads[d->from], *to = &payloads[d->to];
        bool halves = from->kind == SLI_COPY && to->kind == SLI_COPY;
        d->hop = is_forward(b, d) && (is_on_circle(b, from, reach, n_words) || is_on_circle(b, to, reach, n_words)) &&
                 !(halves && to->operands[0].pieces > 1);
        any |= d->hop;
    }
    return any;
}

/* Everything at least as many steps behind what it reads as that should cost; an input's copy goes with its first
 * reader. */
static void wish_for_lags(const sli_build *b) {
    sli_payload *payloads = b->p->payloads;
    for (bool changed = true; changed;) {
        changed = false;
        for (int i = 0; i < b->n_deps; i++) {
            const sli_dep *d = &b->deps[i];
            if (!is_forward(b, d) || payloads[d->to].lag >= payloads[d->from].lag + d->hop)
                continue;
            payloads[d->to].lag = payloads[d->from].lag + d->hop;
            changed = true;
        }
    }
    for (int i = 0; i < b->p->n_payloads; i++)
        if (is_input(&payloads[i]))
            payloads[i].lag = INT_MAX;
    for (int i = 0; i < b->n_deps; i++) {
        const sli_dep *d = &b->deps[i];
        if (is_input(&payloads[d->from]) && payloads[d->from].lag > payloads[d->to].lag)
            payloads[d->from].lag = payloads[d->to].lag;
    }
}

/* ---- What the slots allow ---- */

static bool lower(int *lag, int64_t most) {
    if (*lag <= most)
        return false;
    *lag = (int)most;
    return true;
}

/* The largest lags below the wishes with which no dependency points at a later step. All zero is always one. */
static void lower_lags(const sli_build *b) {
    sli_payload *payloads = b->p->payloads;
    for (bool changed = true; changed;) {
        changed = false;
        for (int i = 0; i < b->n_deps; i++) {
            const sli_dep *d = &b->deps[i];
            if (!d->is_back || b->fixed[d->buffer])
                changed |= lower(&payloads[d->from].lag, payloads[d->to].lag + d->batches);
            if (is_forward(b, d) && payloads[d->to].kind == SLI_COPY) /* a copy follows its maker */
                changed |= lower(&payloads[d->to].lag, payloads[d->from].lag + d->hop);
        }
        for (int i = 0; i < b->n_spans; i++)
            changed |= lower(&payloads[b->stage_payload[b->spans[i].last]].lag,
                             payloads[b->stage_payload[b->spans[i].first]].lag + (int64_t)b->p->options.window);
    }
}

/* So that no writer waits for a reader of the same step. */
static void raise_depths(const sli_build *b) {
    sl_plan *p = b->p;
    for (int i = 0; i < b->n_deps; i++) {
        const sli_dep *d = &b->deps[i];
        if (!d->is_back || b->fixed[d->buffer])
            continue;
        int slots = p->payloads[d->from].lag - p->payloads[d->to].lag + 1;
        if (slots <= p->buffers[d->buffer].depth)
            continue;
        p->buffers[d->buffer].depth = slots;
        p->buffers[d->buffer].why = SLI_DEPTH_LAG;
    }
}

sl_status sli_build_lags(sli_build *b) {
    sl_plan *p = b->p;
    size_t n_words = ((size_t)p->n_devices + WORD - 1) / WORD;
    if (p->options.groups)
        return SL_OK;
    word *reach = sl_calloc((size_t)p->n_devices * n_words, sizeof *reach);
    if (!reach)
        return SL_OUT_OF_MEMORY;
    close_reach(b, reach, n_words);
    bool any = wish_for_hops(b, reach, n_words);
    sl_free(reach);
    if (!any)
        return SL_OK;
    wish_for_lags(b);
    lower_lags(b);
    for (int i = 0; i < p->n_payloads; i++)
        p->max_lag = p->payloads[i].lag > p->max_lag ? p->payloads[i].lag : p->max_lag;
    raise_depths(b);
    return SL_OK;
}
