/* Attention of a tile of queries that read the same keys and values, for one instruction set.
 *
 *     positions  0 .. 63 | 64 .. 127 | 128 ..        cut into parts at fixed positions
 *     of a part: its scores (q k^T times the scale), its largest score, its weights exp(score - largest), their sum,
 *                and the sum of weights times values
 *     parts are combined from the first to the last, as Milakov and Gimelshein (2018) do; at the end y is divided by
 *     the sum of all weights
 *
 * What a query gets depends on nothing but itself and its keys: a score is 16 partial sums and one tree, a sum of
 * weights too; a sum of values goes from key to key. Keys after a query's last one are not looked at: other queries of
 * the tile may have them, and they may be NaN. */
#include "cpu/simd_at.h"
#include "cpu/simd_sum4.h"
#include "cpu/vector_kernels.h"
#include "cpu/vmath.h"
#include <math.h>

/* How many queries and vectors of values are in registers at once: 32 of them, or 16 of half the size. */
#if defined(SLI_SIMD_AVX512_H)
enum { SCORE_QUERIES = 4, VALUE_QUERIES = 4, VALUE_VECTORS = 4 };
#else
enum { SCORE_QUERIES = 1, VALUE_QUERIES = 4, VALUE_VECTORS = 1 };
#endif
enum { KEYS_AT_ONCE = 4, MOST_QUERIES = 4, MOST_VECTORS = 4 };

#define INLINE static inline __attribute__((always_inline))

/* A part at work. Lanes of the vectors of SLI_TILE_QUERIES are the tile's queries. */
typedef struct part {
    const sli_attention_tile *tile;
    int64_t begin;                                  /* position of the first key */
    int first;                                      /* queries from here on have keys in the part */
    int counts[SLI_TILE_QUERIES];                   /* how many */
    float weights[SLI_TILE_QUERIES][SLI_PART_KEYS]; /* at first the scores */
    float largest[SLI_TILE_QUERIES], total[SLI_TILE_QUERIES];
    float all_largest[SLI_TILE_QUERIES], all_total[SLI_TILE_QUERIES]; /* of this part and those before */
    float old[SLI_TILE_QUERIES], new[SLI_TILE_QUERIES]; /* the factors of what was there before, and of this part */
} part;

_Static_assert((int)SLI_TILE_QUERIES == (int)SLI_LANES, "a vector holds one number for each query of a tile");

static const float *key_at(const part *p, int64_t key) {
    return p->tile->keys + (size_t)(p->begin + key) * p->tile->stride;
}

INLINE sli_vf load(const float *x, size_t n) {
    return n == SLI_LANES ? sli_vf_load(x) : sli_vf_load_part(x, n);
}

/* ---- Scores ---- */

/* Adds the products of 16 elements (or the last `width`) of `n` queries and 4 keys. */
INLINE void score_step(const float *const *q, int n, const float *const *keys, size_t i, size_t width,
                       sli_vf sums[MOST_QUERIES][KEYS_AT_ONCE]) {
    sli_vf key[KEYS_AT_ONCE];
    for (int c = 0; c < KEYS_AT_ONCE; c++)
        key[c] = load(keys[c] + i, width);
    for (int t = 0; t < n; t++) {
        sli_vf query = load(q[t] + i, width);
        for (int c = 0; c < KEYS_AT_ONCE; c++)
            sums[t][c] = sli_vf_fma(query, key[c], sums[t][c]);
    }
}

/* Scores of `n` queries and 4 keys, to scores[t][0 .. 3]. */
INLINE void score(const float *const *q, int n, const float *const *keys, size_t dim, float *scores) {
    sli_vf sums[MOST_QUERIES][KEYS_AT_ONCE];
    size_t i = 0;
    for (int t = 0; t < n; t++)
        for (int c = 0; c < KEYS_AT_ONCE; c++)
            sums[t][c] = sli_vf_set1(0.0f);
    for (; i + SLI_LANES <= dim; i += SLI_LANES)
        score_step(q, n, keys, i, SLI_LANES, sums);
    if (i < dim)
        score_step(q, n, keys, i, dim - i, sums);
    for (int t = 0; t < n; t++)
        sli_vf_sum4(sums[t], scores + t * SLI_PART_KEYS);
}

/* Where less than 4 keys are left the last one stands in for the others: what it gives is not used. */
static void score_all(part *p) {
    const sli_attention_tile *tile = p->tile;
    const int n_keys = p->counts[tile->n_queries - 1];
    for (int j = 0; j < n_keys; j += KEYS_AT_ONCE) {
        const float *keys[KEYS_AT_ONCE];
        for (int c = 0; c < KEYS_AT_ONCE; c++)
            keys[c] = key_at(p, j + c < n_keys ? j + c : n_keys - 1);
        int t = p->first;
        for (; t + SCORE_QUERIES <= tile->n_queries; t += SCORE_QUERIES)
            score(tile->q + t, SCORE_QUERIES, keys, tile->head_dim, &p->weights[t][j]);
        for (; t < tile->n_queries; t++)
            score(tile->q + t, 1, keys, tile->head_dim, &p->weights[t][j]);
    }
}

/* ---- Weights ---- */

/* From a query's scores its weights: 0 after its last key. */
static void weigh(part *p, int t) {
    float *w = p->weights[t];
    sli_vf most = sli_vf_set1(-INFINITY), total = sli_vf_set1(0.0f), scale = sli_vf_set1(p->tile->scale);
    int n = (p->counts[t] + SLI_LANES - 1) / SLI_LANES * SLI_LANES;
    for (int j = p->counts[t]; j < n; j++)
        w[j] = -INFINITY;
    for (int j = 0; j < n; j += SLI_LANES) {
        sli_vf scaled = sli_vf_mul(sli_vf_load(w + j), scale);
        sli_vf_store(w + j, scaled);
        most = sli_vf_max(most, scaled);
    }
    p->largest[t] = sli_vf_largest(most);
    for (int j = 0; j < n; j += SLI_LANES) {
        sli_vf e = sli_v_exp(sli_vf_sub(sli_vf_load(w + j), sli_vf_set1(p->largest[t])));
        sli_vf_store(w + j, e);
        total = sli_vf_add(total, e);
    }
    p->total[t] = sli_vf_sum(total);
}

/* Joins the part's largest scores and sums of weights to those before, for all queries at once. A query without a key
 * in the part keeps what it has: its largest is -infinity, its sum 0. */
static void join(part *p) {
    sli_vf before = sli_vf_load(p->all_largest), here = sli_vf_load(p->largest), most = sli_vf_max(before, here);
    sli_vf old = sli_v_exp(sli_vf_sub(before, most)), new = sli_v_exp(sli_vf_sub(here, most));
    sli_vf total = sli_vf_mul(sli_vf_load(p->total), new);
    sli_vf_store(p->all_total, sli_vf_fma(sli_vf_load(p->all_total), old, total));
    sli_vf_store(p->all_largest, most);
    sli_vf_store(p->old, old);
    sli_vf_store(p->new, new);
}

/* ---- Values ---- */

/* y = y * old + sum * new, or the sum alone in the first part, for `width` elements. */
INLINE void join_values(const part *p, int t, float *y, sli_vf sum, size_t width) {
    if (p->begin > 0)
        sum = sli_vf_fma(load(y, width), sli_vf_set1(p->old[t]), sli_vf_mul(sum, sli_vf_set1(p->new[t])));
    if (width == SLI_LANES)
        sli_vf_store(y, sum);
    else
        sli_vf_store_part(y, sum, width);
}

/* Sums of weights times values for queries t to t + n, elements d on: `vectors` of `width` elements. Queries of a later
 * row have more keys than the first: those that all have come first. */
INLINE void add_values(const part *p, int t, int n, size_t d, int vectors, size_t width) {
    const sli_attention_tile *tile = p->tile;
    const float *values = tile->values + (size_t)p->begin * tile->stride + d;
    sli_vf sums[MOST_QUERIES][MOST_VECTORS];
    for (int k = 0; k < n; k++)
        for (int c = 0; c < vectors; c++)
            sums[k][c] = sli_vf_set1(0.0f);
    for (int j = 0; j < p->counts[t]; j++)
        for (int c = 0; c < vectors; c++) {
            sli_vf value = load(values + (size_t)j * tile->stride + c * SLI_LANES, width);
            for (int k = 0; k < n; k++)
                sums[k][c] = sli_vf_fma(sli_vf_set1(p->weights[t + k][j]), value, sums[k][c]);
        }
    for (int k = 0; k < n; k++)
        for (int j = p->counts[t]; j < p->counts[t + k]; j++)
            for (int c = 0; c < vectors; c++)
                sums[k][c] = sli_vf_fma(sli_vf_set1(p->weights[t + k][j]),
                                        load(values + (size_t)j * tile->stride + c * SLI_LANES, width), sums[k][c]);
    for (int k = 0; k < n; k++)
        for (int c = 0; c < vectors; c++)
            join_values(p, t + k, tile->y[t + k] + d + c * SLI_LANES, sums[k][c], width);
}

INLINE void add_all_values(const part *p, int t, int n, int vectors) {
    size_t d = 0, dim = p->tile->head_dim, step = (size_t)vectors * SLI_LANES;
    for (; d + step <= dim; d += step)
        add_values(p, t, n, d, vectors, SLI_LANES);
    for (; d + SLI_LANES <= dim; d += SLI_LANES)
        add_values(p, t, n, d, 1, SLI_LANES);
    if (d < dim)
        add_values(p, t, n, d, 1, dim - d);
}

/* ---- The tile ---- */

/* Counts each query's keys in the part that begins at p->begin. */
static void count_keys(part *p) {
    p->first = p->tile->n_queries;
    for (int t = p->tile->n_queries - 1; t >= 0; t--) {
        int64_t n = p->tile->n_keys[t] - p->begin;
        p->counts[t] = n < 0 ? 0 : n < SLI_PART_KEYS ? (int)n : SLI_PART_KEYS;
        if (p->counts[t])
            p->first = t;
    }
}

static void attend_part(part *p) {
    const int end = p->tile->n_queries;
    count_keys(p);
    score_all(p);
    for (int t = 0; t < SLI_TILE_QUERIES; t++) {
        p->largest[t] = -INFINITY;
        p->total[t] = 0;
        if (t >= p->first && t < end)
            weigh(p, t);
    }
    join(p);
    int t = p->first;
    for (; t + VALUE_QUERIES <= end; t += VALUE_QUERIES)
        add_all_values(p, t, VALUE_QUERIES, VALUE_VECTORS);
    for (; t < end; t++)
        add_all_values(p, t, 1, MOST_VECTORS);
}

static void attend(const sli_attention_tile *tile) {
    part p;
    p.tile = tile;
    for (int t = 0; t < SLI_TILE_QUERIES; t++) {
        p.all_largest[t] = -INFINITY;
        p.all_total[t] = 0;
    }
    for (p.begin = 0; p.begin < tile->n_keys[tile->n_queries - 1]; p.begin += SLI_PART_KEYS)
        attend_part(&p);
    for (int t = 0; t < tile->n_queries; t++) {
        sli_vf total = sli_vf_set1(p.all_total[t]);
        for (size_t d = 0; d < tile->head_dim; d += SLI_LANES)
            sli_store_at(tile->y[t], d, tile->head_dim, sli_vf_div(sli_load_at(tile->y[t], d, tile->head_dim), total));
    }
}

extern const sli_attention_kernels SLI_FOR_ISA(sli_attention);
const sli_attention_kernels SLI_FOR_ISA(sli_attention) = {.attend = attend};
