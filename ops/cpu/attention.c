/* Attention: writes the micro-batch's keys and values to the caches, then cuts the queries into tiles, which are shared
 * out. A tile is a run of queries of one segment that read one KV head: the group's heads of a row, then of the next
 * row. How large tiles are changes no bit, so it follows from how many threads there are to be fed.
 *
 * Threads: parts write rows of the caches first; when all have, tiles read them. Each output element has one writer. */
#include "cpu/kernels.h"
#include "cpu/parallel.h"
#include "cpu/segments.h"
#include "cpu/vector_kernels.h"
#include <string.h>

typedef struct job {
    const sl_call *call;
    const sl_attention_options *options;
    int group;        /* heads that share a KV head */
    int tile_queries; /* most queries of a tile */
    int64_t n_tiles;
} job;

/* ---- Caches ---- */

static char *cache_row(const sl_state_view *cache, const sl_segment *s, int64_t position) {
    return (char *)cache->data + (size_t)(s->place * cache->n_rows + position) * cache->row_bytes;
}

static void write_part(int part, int n_parts, void *user) {
    const sl_call *call = ((job *)user)->call;
    const sl_view *k = &call->inputs[1], *v = &call->inputs[2];
    const sl_segment *s = call->descriptor->segments;
    int64_t rows = k->shape.dims[0], end = sli_part_begin(rows, part + 1, n_parts);
    for (int64_t r = sli_part_begin(rows, part, n_parts); r < end; r++) {
        s = sli_segment_of(s, r);
        int64_t position = sli_position_of(s, r);
        memcpy(cache_row(&call->states[0], s, position), (char *)k->data + (size_t)r * k->row_bytes, k->row_bytes);
        memcpy(cache_row(&call->states[1], s, position), (char *)v->data + (size_t)r * v->row_bytes, v->row_bytes);
    }
}

/* ---- Tiles ---- */

static int64_t tiles_of_head(const job *j, const sl_segment *s) {
    return ((int64_t)s->n_rows * j->group + j->tile_queries - 1) / j->tile_queries;
}

static int64_t count_tiles(const job *j) {
    const sl_descriptor *d = j->call->descriptor;
    int64_t n = 0;
    for (uint32_t i = 0; i < d->n_segments; i++)
        n += tiles_of_head(j, &d->segments[i]) * j->options->n_kv_heads;
    return n;
}

/* The `i`th tile of a KV head in a segment. */
static void run_tile(const job *j, const sl_segment *s, int kv_head, int64_t i) {
    const sl_attention_options *o = j->options;
    const sl_call *call = j->call;
    size_t dim = (size_t)o->head_dim, columns = (size_t)o->n_heads * dim;
    sli_attention_tile t = {.keys = (const float *)cache_row(&call->states[0], s, 0) + (size_t)kv_head * dim,
                            .values = (const float *)cache_row(&call->states[1], s, 0) + (size_t)kv_head * dim,
                            .stride = (size_t)call->states[0].columns,
                            .head_dim = dim,
                            .scale = o->scale};
    int64_t begin = i * j->tile_queries, end = begin + j->tile_queries, all = (int64_t)s->n_rows * j->group;
    for (int64_t q = begin; q < end && q < all; q++) {
        int64_t row = q / j->group, head = (int64_t)kv_head * j->group + q % j->group;
        size_t at = (size_t)(s->first_row + row) * columns + (size_t)head * dim;
        t.q[t.n_queries] = (const float *)call->inputs[0].data + at;
        t.y[t.n_queries] = (float *)call->outputs[0].data + at;
        t.n_keys[t.n_queries++] = s->position + row + 1;
    }
    sli_attention_for(sl_cpu_isa())->attend(&t);
}

/* Every n_parts-th tile: later rows have more keys, so that neighbours weigh about the same. */
static void attend_part(int part, int n_parts, void *user) {
    const job *j = user;
    const sl_segment *s = j->call->descriptor->segments;
    int64_t before = 0; /* tiles of earlier segments */
    for (int64_t tile = part; tile < j->n_tiles; tile += n_parts) {
        int64_t of_head = tiles_of_head(j, s);
        while (tile - before >= of_head * j->options->n_kv_heads) {
            before += of_head * j->options->n_kv_heads;
            of_head = tiles_of_head(j, ++s);
        }
        run_tile(j, s, (int)((tile - before) / of_head), (tile - before) % of_head);
    }
}

/* ---- The call ---- */

static sl_status check_places(const sl_descriptor *d, int64_t n_places) {
    for (uint32_t i = 0; i < d->n_segments; i++)
        if (d->segments[i].place < 0 || d->segments[i].place >= n_places)
            return sl_fail(SL_INVALID, "segment %u has place %d; the caches have places 0 to %lld", i,
                           d->segments[i].place, (long long)n_places - 1);
    return SL_OK;
}

/* Operations of all tiles, roughly. */
static double work_of(const job *j) {
    const sl_descriptor *d = j->call->descriptor;
    double pairs = 0;
    for (uint32_t i = 0; i < d->n_segments; i++)
        pairs += (double)d->segments[i].n_rows * (d->segments[i].position + 0.5 * d->segments[i].n_rows + 1);
    return pairs * j->options->n_heads * (4.0 * j->options->head_dim + 16);
}

sl_status sli_cpu_attention(sl_lane *lane, const sl_call *call) {
    const sl_attention_options *o = call->attributes;
    const sl_state_view *cache = &call->states[0];
    int64_t rows = call->inputs[0].shape.dims[0];
    SL_TRY(sli_check_segments(call->descriptor, rows, cache->n_rows, "the cache"));
    SL_TRY(check_places(call->descriptor, cache->n_places));
    job j = {.call = call, .options = o, .group = o->n_heads / o->n_kv_heads, .tile_queries = SLI_TILE_QUERIES};
    int64_t wanted = 2 * (int64_t)sl_lane_threads(lane);
    while ((j.n_tiles = count_tiles(&j)) < wanted && j.tile_queries > 1)
        j.tile_queries /= 2;
    sl_lane_parallel(lane, sli_parts(lane, rows, (double)cache->columns / 2), write_part, &j);
    sl_lane_parallel(lane, sli_parts(lane, j.n_tiles, work_of(&j) / (double)(j.n_tiles ? j.n_tiles : 1)), attend_part,
                     &j);
    return SL_OK;
}
