/* See linear.h: a product cut into blocks that stay in the caches, and into parts for threads.
 *
 *     for each part of the outputs                                      a thread
 *       for each block of outputs
 *         for each block of the inner dimension                         its weights are packed, if there are rows
 * enough for each block of rows for each tile: 4 outputs by up to 6 rows                  registers
 *
 * Cuts change which element is computed when, never how: those of the inner dimension are part of the order of sums.
 *
 * Rows are cut into panels, the rows of a tile, of even height. With few rows x and w are read as they lie. With more,
 * x is packed first, by all threads; with many, weights too: both then lie in the order in which they are read, weights
 * of two bytes as four. */
#include "cpu/linear.h"
#include "cpu/dispatch.h"
#include "cpu/parallel.h"
#include "cpu/simd.h"

enum {
    ROWS_AT_ONCE = 512, /* more rows are done one such chunk after the other: bounds the scratch */
    ROWS_TO_PACK = 24,  /* with more rows than this weights are packed */
    BLOCK_QUADS = 32,   /* weights that are packed at once */
    BLOCK_ROWS = 96     /* rows whose block of x stays in the second cache while all quads of a block pass */
};

SLI_DECLARE_FOR_ISAS(const sli_linear_kernels, sli_linear);

const sli_linear_kernels *sli_linear_kernels_for(sl_isa isa) {
    static const sli_linear_kernels *const kernels[] = SLI_FOR_ISAS(sli_linear);
    return kernels[isa];
}

/* How a chunk of rows is computed. */
typedef struct run {
    const sli_linear_kernels *kernels;
    sli_linear of;
    bool pack_x, pack_w;
    size_t padded;                     /* of.in to a multiple of 16 */
    size_t n_panels, height, n_higher; /* rows of a panel; the first n_higher have one more */
    size_t n_quads, block_quads, block_panels;
    float *x; /* packed: panel after panel */
    float *w; /* packed: w_floats of each part */
    size_t w_floats;
} run;

/* A block of tiles, of one part. */
typedef struct block {
    const run *run;
    size_t quad, n_quads;
    size_t panel, n_panels;
    size_t k, n_k;
    const float *w; /* packed: quads of n_k, padded; NULL: as they lie */
} block;

static size_t least(size_t a, size_t b) {
    return a < b ? a : b;
}

static size_t round_up(size_t n, size_t to) {
    return (n + to - 1) / to * to;
}

static size_t w_floats_of(size_t rows, size_t in, size_t out) {
    size_t quads = rows > ROWS_TO_PACK ? least(BLOCK_QUADS, (out + SLI_QUAD - 1) / SLI_QUAD) : 1;
    return quads * SLI_QUAD * round_up(least(in, SLI_LINEAR_BLOCK), SLI_LANES);
}

size_t sli_linear_scratch(size_t rows, size_t in, size_t out, int threads) {
    size_t x = least(rows, ROWS_AT_ONCE) * round_up(in, SLI_LANES);
    return sizeof(float) * (x + (size_t)threads * w_floats_of(rows, in, out));
}

/* The first row of panel p. */
static size_t panel_row(const run *r, size_t p) {
    return p * r->height + least(p, r->n_higher);
}

static void pack_x(int part, int n_parts, void *user) {
    const run *r = user;
    size_t end = (size_t)sli_part_begin((int64_t)r->n_panels, part + 1, n_parts);
    for (size_t p = (size_t)sli_part_begin((int64_t)r->n_panels, part, n_parts); p < end; p++) {
        size_t row = panel_row(r, p);
        int height = (int)(panel_row(r, p + 1) - row);
        r->kernels->pack[SL_F32](r->of.x + row * r->of.in, r->of.in, height, height, r->of.in, r->x + row * r->padded);
    }
}

static const char *weight_at(const run *r, size_t output, size_t k) {
    return (const char *)r->of.w + (output * r->of.in + k) * (r->of.w_dtype == SL_F32 ? 4 : 2);
}

static void pack_w(const block *b, float *to) {
    const run *r = b->run;
    for (size_t q = b->quad; q < b->quad + b->n_quads; q++, to += SLI_QUAD * round_up(b->n_k, SLI_LANES)) {
        int outputs = (int)least(r->of.out - q * SLI_QUAD, SLI_QUAD);
        r->kernels->pack[r->of.w_dtype](weight_at(r, q * SLI_QUAD, b->k), r->of.in, outputs, SLI_QUAD, b->n_k, to);
    }
}

static void set_length(const block *b, sli_tile *t) {
    const run *r = b->run;
    size_t n = r->pack_x && b->w ? round_up(b->n_k, SLI_LANES) : b->n_k; /* zeros are there */
    t->steps = n / SLI_LANES;
    t->rest = n % SLI_LANES;
    t->first = b->k == 0;
    t->last = b->k + b->n_k == r->of.in;
}

static void set_quad(const block *b, size_t q, sli_tile *t) {
    const run *r = b->run;
    size_t output = q * SLI_QUAD;
    t->w_row = b->w ? SLI_LANES : r->of.in;
    t->w_step = b->w ? SLI_QUAD * SLI_LANES : SLI_LANES;
    t->w = b->w ? (const char *)(b->w + (q - b->quad) * SLI_QUAD * round_up(b->n_k, SLI_LANES))
                : weight_at(r, output, b->k);
    t->bias = r->of.bias ? r->of.bias + output : NULL;
    t->outputs = (int)least(r->of.out - output, SLI_QUAD);
}

static void do_tile(const block *b, size_t q, size_t p, sli_tile *t) {
    const run *r = b->run;
    size_t row = panel_row(r, p), height = panel_row(r, p + 1) - row;
    t->x_row = r->pack_x ? SLI_LANES : r->of.in;
    t->x_step = r->pack_x ? height * SLI_LANES : SLI_LANES;
    t->x = r->pack_x ? r->x + row * r->padded + b->k * height : r->of.x + row * r->of.in + b->k;
    t->y_row = r->of.out;
    t->y = r->of.y + row * r->of.out + q * SLI_QUAD;
    const sli_tile_fn *tiles = b->w ? r->kernels->packed : r->kernels->plain[r->of.w_dtype];
    tiles[height - 1](t);
}

static void do_block(const block *b) {
    sli_tile t;
    set_length(b, &t);
    for (size_t q = b->quad; q < b->quad + b->n_quads; q++) {
        set_quad(b, q, &t);
        for (size_t p = b->panel; p < b->panel + b->n_panels; p++)
            do_tile(b, q, p, &t);
    }
}

/* All rows for the block's quads, from k_begin to k_end of the inner dimension. */
static void do_quads(block *b, float *w, size_t k_begin, size_t k_end) {
    const run *r = b->run;
    bool cut = (b->quad + b->n_quads) * SLI_QUAD > r->of.out;
    b->w = r->pack_w || cut ? w : NULL;
    for (b->k = k_begin; b->k < k_end; b->k += b->n_k) {
        b->n_k = least(SLI_LINEAR_BLOCK, r->of.in - b->k);
        if (b->w)
            pack_w(b, w);
        for (b->panel = 0; b->panel < r->n_panels; b->panel += b->n_panels) {
            b->n_panels = least(r->block_panels, r->n_panels - b->panel);
            do_block(b);
        }
    }
}

/* Quads of the block that begins at `quad`. A tile reads four outputs: a last quad of fewer is a block of its own,
 * which is packed. */
static size_t quads_of(const run *r, size_t quad, size_t end) {
    size_t n = least(r->block_quads, end - quad), whole = r->of.out / SLI_QUAD;
    return r->pack_w || quad >= whole ? n : least(n, whole - quad);
}

/* Weights that are not packed are read from end to end. */
static void do_part(int part, int n_parts, void *user) {
    const run *r = user;
    size_t begin = (size_t)sli_part_begin((int64_t)r->n_quads, part, n_parts);
    size_t end = (size_t)sli_part_begin((int64_t)r->n_quads, part + 1, n_parts);
    size_t n_k = r->pack_w ? SLI_LINEAR_BLOCK : r->of.in;
    block b = {.run = r};
    for (size_t k = 0; k < r->of.in; k += n_k)
        for (b.quad = begin; b.quad < end; b.quad += b.n_quads) {
            b.n_quads = quads_of(r, b.quad, end);
            do_quads(&b, r->w + (size_t)part * r->w_floats, k, least(k + n_k, r->of.in));
        }
}

static void lay_out(run *r, float *scratch) {
    size_t tile_rows = (size_t)r->kernels->tile_rows;
    r->padded = round_up(r->of.in, SLI_LANES);
    r->n_panels = (r->of.rows + tile_rows - 1) / tile_rows;
    r->height = r->of.rows / r->n_panels;
    r->n_higher = r->of.rows % r->n_panels;
    r->n_quads = (r->of.out + SLI_QUAD - 1) / SLI_QUAD;
    r->pack_x = r->n_panels > 1;
    r->pack_w = r->of.rows > ROWS_TO_PACK;
    r->block_quads = r->pack_w ? BLOCK_QUADS : r->of.in <= SLI_LINEAR_BLOCK ? r->n_quads : 1;
    r->block_panels = r->pack_w ? BLOCK_ROWS / tile_rows : r->n_panels;
    r->w_floats = w_floats_of(r->of.rows, r->of.in, r->of.out);
    r->x = scratch;
    r->w = scratch + (r->pack_x ? r->of.rows * r->padded : 0);
}

void sli_linear_run(const sli_linear_kernels *kernels, sl_lane *lane, const sli_linear *product, void *scratch) {
    for (size_t row = 0; row < product->rows; row += ROWS_AT_ONCE) {
        run r = {.kernels = kernels, .of = *product};
        r.of.rows = least(ROWS_AT_ONCE, product->rows - row);
        r.of.x += row * product->in;
        r.of.y += row * product->out;
        lay_out(&r, scratch);
        double operations = 2.0 * (double)r.of.rows * (double)r.of.in;
        int n_parts = sli_parts(lane, (int64_t)r.n_quads, operations * SLI_QUAD);
        if (r.pack_x)
            sl_lane_parallel(lane, sli_parts(lane, (int64_t)r.n_panels, (double)r.padded), pack_x, &r);
        sl_lane_parallel(lane, n_parts, do_part, &r);
    }
}
