/* How many steps a stage stays behind. A lane is in order, so where a device holds stages 0 and 2 and another stage 1,
 * the step 0, 2 on the first device leaves it idle while micro-batch i goes 0 -> 1 -> 2. If stage 2 takes an earlier
 * micro-batch instead, nobody waits:
 *
 *     step        0           1           2           3
 *     cpu:0    0(0) ----   0(1) ----   0(2) 2(0)   0(3) 2(1)          stage(micro-batch)
 *     cpu:1         ----   1(0) ----   1(1) ----   1(2) 3(0)
 *
 * That is so wherever values go from a device round to the same one; each crossing of such a circle costs a step. There
 * are no lags elsewhere, none between neighbours on one device, and none in a ring, where the next micro-batch of a
 * group waits for the last one's end. A lag may not exceed the slots on its way: depths that somebody gave lower the
 * lags, others are raised. */
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

/* ---- Wishes ---- */

static int *lag_of_stage(const sli_build *b, int stage) {
    return &b->p->payloads[b->stage_payload[stage]].lag;
}

static void wish_for_stages(const sli_build *b, const word *reach, size_t n_words) {
    int from, to;
    for (int i = 0; i < b->n_reads; i++) { /* makers come first in it */
        const sli_read *r = &b->reads[i];
        if (r->value < 0 || b->g->values[r->value].kind != SLI_VALUE_MADE)
            continue;
        bool on_circle = crosses(b, r, &from, &to) && leads(reach, n_words, to, from);
        int lag = *lag_of_stage(b, b->g->values[r->value].stage) + on_circle, *own = lag_of_stage(b, r->stage);
        *own = lag > *own ? lag : *own;
    }
}

static bool is_input(const sli_payload *payload) {
    return payload->kind == SLI_COPY && payload->operands[0].buffer < 0;
}

/* A copy follows its maker; an input's goes with its first reader. Dependencies are in the order of buffers, where a
 * value's own comes before the pinned one of its copy. */
static void wish_for_copies(const sli_build *b) {
    sli_payload *payloads = b->p->payloads;
    for (int i = 0; i < b->p->n_payloads; i++)
        if (is_input(&payloads[i]))
            payloads[i].lag = INT_MAX;
    for (int i = 0; i < b->n_deps; i++) {
        const sli_dep *d = &b->deps[i];
        if (d->buffer < 0 || d->is_back)
            continue;
        sli_payload *from = &payloads[d->from], *to = &payloads[d->to];
        if (to->kind == SLI_COPY)
            to->lag = from->lag;
        if (is_input(from) && to->lag < from->lag)
            from->lag = to->lag;
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
            if (!d->is_back && payloads[d->to].kind == SLI_COPY) /* a copy follows its maker */
                changed |= lower(&payloads[d->to].lag, payloads[d->from].lag);
        }
        for (int i = 0; i < b->n_spans; i++)
            changed |= lower(lag_of_stage(b, b->spans[i].last),
                             *lag_of_stage(b, b->spans[i].first) + (int64_t)b->p->options.window);
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
    wish_for_stages(b, reach, n_words);
    sl_free(reach);
    wish_for_copies(b);
    lower_lags(b);
    for (int i = 0; i < p->n_payloads; i++)
        p->max_lag = p->payloads[i].lag > p->max_lag ? p->payloads[i].lag : p->max_lag;
    raise_depths(b);
    return SL_OK;
}
