/* Sampling: a row's candidates are laid side by side in the order of falling logits, equal ones by id, and the one that
 * the drawn number points at is taken. Heaps give that order as far as it is needed. Sums are in f64. */
#include "cpu/kernels.h"
#include "cpu/parallel.h"
#include "cpu/vector_kernels.h"
#include "philox.h"
#include <math.h>
#include <stdatomic.h>

/* ---- Candidates in order ---- */

/* Ids that are put in order as far as it is asked for: the first n_heap are a heap, the best first; behind them lie
 * those that were taken from it, the last first. */
typedef struct tier {
    int32_t *ids;
    int64_t n, n_heap; /* n_heap -1: not a heap yet */
} tier;

/* The likely ones apart: mostly the others need not be put in order at all. */
typedef struct candidates {
    const float *logits; /* [n_ids] */
    float *weights;      /* [n_ids] exp((logit - largest) / temperature) */
    int32_t *ids;        /* [n_ids] memory of the tiers */
    int64_t n_ids, n;
    float likely_from; /* the least logit of a likely one */
    tier likely, other;
} candidates;

#define LIKELY 12.0f /* temperatures below the largest logit, or nearer: weights of exp(-12) and more */

static bool is_better(const candidates *c, int32_t a, int32_t b) {
    return c->logits[a] > c->logits[b] || (c->logits[a] == c->logits[b] && a < b);
}

static void sift_down(const candidates *c, const tier *t, int64_t i) {
    int32_t id = t->ids[i];
    for (int64_t child; (child = 2 * i + 1) < t->n_heap; i = child) {
        if (child + 1 < t->n_heap && is_better(c, t->ids[child + 1], t->ids[child]))
            child++;
        if (!is_better(c, t->ids[child], id))
            break;
        t->ids[i] = t->ids[child];
    }
    t->ids[i] = id;
}

/* Fills the tiers, the likely one from the front of the memory and the other one from its end. NaN is no candidate. */
static void sort_out(candidates *c) {
    int64_t front = 0, back = c->n_ids;
    for (int64_t id = 0; id < c->n_ids; id++) {
        if (c->logits[id] >= c->likely_from)
            c->ids[front++] = (int32_t)id;
        else if (!isnan(c->logits[id]))
            c->ids[--back] = (int32_t)id;
        else
            c->weights[id] = 0;
    }
    c->likely = (tier){c->ids, front, -1};
    c->other = (tier){c->ids + back, c->n_ids - back, -1};
    c->n = c->likely.n + c->other.n;
}

/* The `i`th best of a tier. */
static int32_t best_of(const candidates *c, tier *t, int64_t i) {
    if (t->n_heap < 0) {
        t->n_heap = t->n;
        for (int64_t k = t->n / 2 - 1; k >= 0; k--)
            sift_down(c, t, k);
    }
    while (t->n - t->n_heap <= i) {
        int32_t best = t->ids[0];
        t->ids[0] = t->ids[--t->n_heap];
        t->ids[t->n_heap] = best;
        if (t->n_heap)
            sift_down(c, t, 0);
    }
    return t->ids[t->n - 1 - i];
}

/* The `i`th best, i below n. */
static int32_t candidate(candidates *c, int64_t i) {
    return i < c->likely.n ? best_of(c, &c->likely, i) : best_of(c, &c->other, i - c->likely.n);
}

/* ---- One row ---- */

typedef struct params {
    float temperature, top_p;
    int32_t top_k;
    double drawn; /* in [0, 1) */
} params;

static params params_of(const sl_call *call, int64_t row) {
    const int32_t *ints = (const int32_t *)call->inputs[1].data + row * SL_SAMPLE_INTS;
    const float *floats = (const float *)call->inputs[2].data + row * SL_SAMPLE_FLOATS;
    return (params){.temperature = floats[SL_SAMPLE_TEMPERATURE],
                    .top_p = floats[SL_SAMPLE_TOP_P],
                    .top_k = ints[SL_SAMPLE_TOP_K],
                    .drawn =
                        sli_philox_uniform((uint32_t)ints[SL_SAMPLE_SEED_LOW], (uint32_t)ints[SL_SAMPLE_SEED_HIGH],
                                           (uint32_t)ints[SL_SAMPLE_SEQUENCE], (uint32_t)ints[SL_SAMPLE_POSITION])};
}

/* The weight of the first `n` candidates. All are added in the order of ids, so that they need not be sorted. */
static double weight_of(candidates *c, int64_t n) {
    double sum = 0;
    for (int64_t id = 0; n == c->n && id < c->n_ids; id++)
        sum += c->weights[id];
    for (int64_t i = 0; n < c->n && i < n; i++)
        sum += c->weights[candidate(c, i)];
    return sum;
}

/* Cuts `*n` to the fewest candidates whose weight reaches `share` of `total`; returns their weight. */
static double cut_to_share(candidates *c, double share, double total, int64_t *n) {
    double sum = 0;
    for (int64_t i = 0; i < *n; i++) {
        sum += c->weights[candidate(c, i)];
        if (sum >= share * total)
            *n = i + 1;
    }
    return sum;
}

static int32_t draw(candidates *c, const params *p) {
    sort_out(c);
    int64_t n = p->top_k > 0 && p->top_k < c->n ? p->top_k : c->n;
    double total = weight_of(c, n), sum = 0;
    if (p->top_p > 0 && p->top_p < 1)
        total = cut_to_share(c, (double)p->top_p, total, &n);
    int32_t last = candidate(c, 0);
    for (int64_t i = 0; i < n; i++) {
        int32_t id = candidate(c, i);
        sum += c->weights[id];
        if (sum > p->drawn * total)
            return id;
        if (c->weights[id] > 0)
            last = id;
    }
    return last; /* where rounding has left the sum below its total */
}

/* ---- All rows ---- */

typedef struct job {
    const sl_call *call;
    int64_t rows, n;
    size_t part_bytes;   /* of scratch */
    _Atomic int64_t bad; /* the first row without a finite largest logit; `rows`: none */
} job;

static size_t part_bytes(int64_t n) {
    return ((size_t)n * (sizeof(float) + sizeof(int32_t)) + 63) / 64 * 64;
}

size_t sli_cpu_sample_scratch(const sl_call *call, int threads) {
    const sl_shape *logits = &call->inputs[0].shape;
    int64_t parts = logits->dims[0] < threads ? logits->dims[0] : threads;
    return (size_t)parts * part_bytes(logits->dims[1]);
}

static void note_bad(job *j, int64_t row) {
    int64_t first = atomic_load(&j->bad);
    while (row < first && !atomic_compare_exchange_weak(&j->bad, &first, row))
        ;
}

static int32_t sample_row(job *j, int64_t r, candidates *c) {
    const sli_row_kernels *kernels = sli_rows_for(sl_cpu_isa());
    const float *logits = (const float *)j->call->inputs[0].data + r * j->n;
    float largest = kernels->largest(logits, (size_t)j->n);
    params p = params_of(j->call, r);
    if (!isfinite(largest)) {
        note_bad(j, r);
        return 0;
    }
    if (p.temperature == 0) {
        int32_t id = 0;
        while (logits[id] != largest)
            id++;
        return id;
    }
    c->logits = logits;
    c->n_ids = j->n;
    c->likely_from = largest - LIKELY * p.temperature;
    kernels->weigh(logits, largest, p.temperature, c->weights, (size_t)j->n);
    return draw(c, &p);
}

static void sample_part(int part, int n_parts, void *user) {
    job *j = user;
    float *scratch = (float *)((char *)j->call->scratch + (size_t)part * j->part_bytes);
    candidates c = {.weights = scratch, .ids = (int32_t *)(scratch + j->n)};
    int64_t end = sli_part_begin(j->rows, part + 1, n_parts);
    for (int64_t r = sli_part_begin(j->rows, part, n_parts); r < end; r++)
        ((int32_t *)j->call->outputs[0].data)[r] = sample_row(j, r, &c);
}

static sl_status check_params(const sl_call *call, int64_t row) {
    params p = params_of(call, row);
    if (!(p.temperature >= 0) || isinf(p.temperature))
        return sl_fail(SL_INVALID, "row %lld: temperature %g is not a number of 0 or more", (long long)row,
                       (double)p.temperature);
    if (!(p.top_p >= 0 && p.top_p <= 1))
        return sl_fail(SL_INVALID, "row %lld: top_p %g is not in 0 to 1", (long long)row, (double)p.top_p);
    if (p.top_k < 0)
        return sl_fail(SL_INVALID, "row %lld: top_k %d is not 0 (all) or more", (long long)row, p.top_k);
    return SL_OK;
}

sl_status sli_cpu_sample(sl_lane *lane, const sl_call *call) {
    const sl_shape *logits = &call->inputs[0].shape;
    job j = {.call = call, .rows = logits->dims[0], .n = logits->dims[1], .part_bytes = part_bytes(logits->dims[1])};
    atomic_init(&j.bad, j.rows);
    for (int64_t r = 0; r < j.rows; r++)
        SL_TRY(check_params(call, r));
    sl_lane_parallel(lane, sli_parts(lane, j.rows, 20.0 * (double)j.n), sample_part, &j);
    int64_t bad = atomic_load(&j.bad);
    if (bad < j.rows)
        return sl_fail(SL_INVALID, "row %lld: the largest of its %lld logits is not finite; nothing can be drawn",
                       (long long)bad, (long long)j.n);
    return SL_OK;
}
