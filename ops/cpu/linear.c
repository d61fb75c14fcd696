/* See linear.h: a product cut into blocks that stay in the caches, and into parts for threads.
 *
 *     for each part of the outputs                                    a thread
 *       for each block of outputs (its weights packed, if there are rows enough)
 *         for each block of rows
 *           for each block of the inner dimension                     the sums of all tiles wait in memory
 *             for each tile: 4 outputs by up to 6 rows                registers
 *
 * Cuts change which element is computed when, never how: an element's sums go on from block to block.
 *
 * Rows are cut into panels, the rows of a tile, of even height. With few rows x and w are read as they lie. With more,
 * x is packed first, by all threads; with many, each block of weights too: both then lie in the order in which they are
 * read, weights of two bytes as four. */
#include "cpu/linear.h"
#include "cpu/dispatch.h"
#include "cpu/parallel.h"
#include "cpu/simd.h"

enum {
    ROWS_AT_ONCE = 512, /* more rows are done one such chunk after the other: bounds the scratch */
    ROWS_TO_PACK = 24,  /* with more rows than this weights are packed */
    BLOCK_IN = 768,     /* a panel and a quad of this length fit the first cache together */
    BLOCK_QUADS = 16,   /* such a block of weights, one of rows and their sums fit the second */
    BLOCK_ROWS = 48
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
    size_t padded; /* of.in to a multiple of 16 */
    size_t n_panels, n_quads, block_quads, block_panels;
    size_t tile_floats; /* of a tile's sums */
    float *x;           /* packed: panel after panel; NULL unless pack_x */
    char *parts;        /* scratch of each part, */
    size_t w_floats;    /* packed weights, */
    size_t part_floats; /* and the sums of tiles */
} run;

static size_t least(size_t a, size_t b) {
    return a < b ? a : b;
}

static size_t round_up(size_t n, size_t to) {
    return (n + to - 1) / to * to;
}

static void lay_out(run *r) {
    size_t tile_rows = (size_t)r->kernels->tile_rows;
    r->padded = round_up(r->of.in, SLI_LANES);
    r->n_panels = (r->of.rows + tile_rows - 1) / tile_rows;
    r->n_quads = (r->of.out + SLI_QUAD - 1) / SLI_QUAD;
    r->pack_x = r->n_panels > 1;
    r->pack_w = r->of.rows > ROWS_TO_PACK;
    r->block_quads = r->pack_w ? BLOCK_QUADS : 1;
    r->block_panels = r->pack_w ? BLOCK_ROWS / tile_rows : r->n_panels;
    r->tile_floats = tile_rows * SLI_QUAD * SLI_LANES;
    bool once = r->padded <= BLOCK_IN;
    r->w_floats = r->block_quads * SLI_QUAD * r->padded;
    r->part_floats = r->w_floats + (once ? 1 : r->block_quads * r->block_panels) * r->tile_floats;
}

static size_t x_floats(const run *r) {
    return r->pack_x ? r->of.rows * r->padded : 0;
}

static size_t scratch_of(const sli_linear_kernels *kernels, size_t rows, size_t in, size_t out, int threads) {
    run r = {.kernels = kernels, .of = {.rows = rows, .in = in, .out = out}};
    lay_out(&r);
    return sizeof(float) * (x_floats(&r) + (size_t)threads * r.part_floats);
}

/* The largest chunk need not take the most: few rows have all their panels in one block. */
size_t sli_linear_scratch(const sli_linear_kernels *kernels, size_t rows, size_t in, size_t out, int threads) {
    size_t most = scratch_of(kernels, least(rows, ROWS_AT_ONCE), in, out, threads);
    size_t few = scratch_of(kernels, least(rows, ROWS_TO_PACK), in, out, threads);
    return most > few ? most : few;
}

/* Row `p * rows / n_panels` is the first of panel p: heights differ by one at most. */
static size_t panel_row(const run *r, size_t p) {
    return p * r->of.rows / r->n_panels;
}

static void pack_x(int part, int n_parts, void *user) {
    const run *r = user;
    size_t end = r->n_panels * (size_t)(part + 1) / (size_t)n_parts;
    for (size_t p = r->n_panels * (size_t)part / (size_t)n_parts; p < end; p++) {
        size_t row = panel_row(r, p);
        int height = (int)(panel_row(r, p + 1) - row);
        r->kernels->pack[SL_F32](r->of.x + row * r->of.in, r->of.in, height, height, r->of.in, r->x + row * r->padded);
    }
}

static const char *weight_at(const run *r, size_t output, size_t k) {
    return (const char *)r->of.w + (output * r->of.in + k) * (r->of.w_dtype == SL_F32 ? 4 : 2);
}

static void pack_quad(const run *r, size_t q, float *to) {
    int outputs = (int)least(r->of.out - q * SLI_QUAD, SLI_QUAD);
    r->kernels->pack[r->of.w_dtype](weight_at(r, q * SLI_QUAD, 0), r->of.in, outputs, SLI_QUAD, r->of.in, to);
}

/* A block of tiles, of one part. */
typedef struct block {
    const run *run;
    size_t quad, n_quads;
    size_t panel, n_panels;
    size_t k, n_k;
    float *w;    /* packed quads of the block; NULL: as they lie */
    float *sums; /* of its tiles; of one tile if it is done with at once */
} block;

static void set_x(const block *b, size_t row, size_t height, sli_tile *t) {
    const run *r = b->run;
    t->x_row = r->pack_x ? SLI_LANES : r->of.in;
    t->x_step = r->pack_x ? height * SLI_LANES : SLI_LANES;
    t->x = r->pack_x ? r->x + row * r->padded + b->k * height : r->of.x + row * r->of.in + b->k;
}

static void set_w(const block *b, size_t q, sli_tile *t) {
    const run *r = b->run;
    t->w_row = b->w ? SLI_LANES : r->of.in;
    t->w_step = b->w ? SLI_QUAD * SLI_LANES : SLI_LANES;
    if (b->w)
        t->w = b->w + ((q - b->quad) * r->padded + b->k) * SLI_QUAD;
    else
        t->w = weight_at(r, q * SLI_QUAD, b->k);
}

static void set_length(const block *b, sli_tile *t) {
    const run *r = b->run;
    bool padded = r->pack_x && b->w;
    size_t n = padded ? b->n_k : least(b->n_k, r->of.in - b->k);
    t->steps = n / SLI_LANES;
    t->rest = n % SLI_LANES;
    t->first = b->k == 0;
}

static void do_tile(const block *b, size_t q, size_t p, sli_tile *t) {
    const run *r = b->run;
    size_t row = panel_row(r, p), height = panel_row(r, p + 1) - row;
    bool once = r->padded <= BLOCK_IN;
    set_x(b, row, height, t);
    t->sums = once ? b->sums : b->sums + ((q - b->quad) * r->block_panels + p - b->panel) * r->tile_floats;
    r->kernels->tile[b->w ? SL_F32 : r->of.w_dtype][height - 1](t);
    if (b->k + b->n_k == r->padded) {
        size_t output = q * SLI_QUAD;
        const float *bias = r->of.bias ? r->of.bias + output : NULL;
        r->kernels->finish(t->sums, (int)height, (int)least(r->of.out - output, SLI_QUAD), bias,
                           r->of.y + row * r->of.out + output, r->of.out);
    }
}

static void do_block(const block *b) {
    sli_tile t;
    set_length(b, &t);
    for (size_t q = b->quad; q < b->quad + b->n_quads; q++) {
        set_w(b, q, &t);
        for (size_t p = b->panel; p < b->panel + b->n_panels; p++)
            do_tile(b, q, p, &t);
    }
}

/* All rows and all of the inner dimension for the block's quads. */
static void do_quads(block *b) {
    const run *r = b->run;
    for (b->panel = 0; b->panel < r->n_panels; b->panel += b->n_panels) {
        b->n_panels = least(r->block_panels, r->n_panels - b->panel);
        for (b->k = 0; b->k < r->padded; b->k += b->n_k) {
            b->n_k = least(BLOCK_IN, r->padded - b->k);
            do_block(b);
        }
    }
}

static void do_part(int part, int n_parts, void *user) {
    const run *r = user;
    float *scratch = (float *)r->parts + (size_t)part * r->part_floats;
    size_t end = r->n_quads * (size_t)(part + 1) / (size_t)n_parts;
    block b = {.run = r, .sums = scratch + r->w_floats};
    for (b.quad = r->n_quads * (size_t)part / (size_t)n_parts; b.quad < end; b.quad += b.n_quads) {
        b.n_quads = least(r->block_quads, end - b.quad);
        bool cut = (b.quad + b.n_quads) * SLI_QUAD > r->of.out; /* a tile reads SLI_QUAD outputs */
        b.w = r->pack_w || cut ? scratch : NULL;
        for (size_t q = b.quad; b.w && q < b.quad + b.n_quads; q++)
            pack_quad(r, q, b.w + (q - b.quad) * SLI_QUAD * r->padded);
        do_quads(&b);
    }
}

static void run_chunk(const sli_linear_kernels *kernels, sl_lane *lane, const sli_linear *product, void *scratch) {
    run r = {.kernels = kernels, .of = *product};
    lay_out(&r);
    int n_parts = sli_parts(lane, (int64_t)r.n_quads, 2.0 * SLI_QUAD * (double)r.of.rows * (double)r.of.in);
    r.x = scratch;
    r.parts = (char *)scratch + x_floats(&r) * sizeof(float);
    if (r.pack_x)
        sl_lane_parallel(lane, n_parts, pack_x, &r);
    sl_lane_parallel(lane, n_parts, do_part, &r);
}

void sli_linear_run(const sli_linear_kernels *kernels, sl_lane *lane, const sli_linear *product, void *scratch) {
    for (size_t row = 0; row < product->rows; row += ROWS_AT_ONCE) {
        sli_linear chunk = *product;
        chunk.rows = least(ROWS_AT_ONCE, product->rows - row);
        chunk.x += row * product->in;
        chunk.y += row * product->out;
        run_chunk(kernels, lane, &chunk, scratch);
    }
}
