/* y = x w^T + bias on the CPU.
 *
 * The order of sums of an output element, in every instruction set and wherever the element stands: the inner dimension
 * is cut into blocks of SLI_LINEAR_BLOCK. In a block, 16 partial sums start at 0; its element k goes to sum k mod 16 by
 * fma, k increasing; zeros continue it to a multiple of 16. Then sums i and i + 8 are added, i and i + 4, i and i + 2,
 * i and i + 1. The blocks' sums are added up in their order, and then the bias, if there is one. A NaN becomes the one
 * quiet NaN.
 *
 * Here is what the part that knows blocks (linear.c) and the one that knows instructions (vector/linear_tiles.c) say to
 * each other. A tile is a few rows by SLI_QUAD outputs, over one block of the inner dimension. */
#ifndef SLI_LINEAR_H
#define SLI_LINEAR_H

#include <sluice/op.h>

enum {
    SLI_LINEAR_BLOCK = 1024,
    SLI_QUAD = 4,        /* outputs of a tile */
    SLI_TILE_ROWS = 6,   /* most rows of one, in any instruction set */
    SLI_WEIGHT_TYPES = 3 /* SL_F32, SL_F16, SL_BF16 */
};

typedef struct sli_tile {
    const float *x; /* element k of row r: x[k / 16 * x_step + r * x_row + k % 16] */
    size_t x_row, x_step;
    const void *w; /* the same of output o, in elements of the weight's type; all SLI_QUAD can be read */
    size_t w_row, w_step;
    size_t steps; /* whole groups of 16 of the inner dimension */
    size_t rest;  /* elements after them, 0 to 15: zeros are taken for those that are not there */
    float *y;     /* output o of row r: y[r * y_row + o] */
    size_t y_row;
    int outputs;       /* 1 to SLI_QUAD are written */
    bool first, last;  /* block: else y is added to; then it is finished, with the bias */
    const float *bias; /* of the outputs, or NULL */
} sli_tile;

typedef void (*sli_tile_fn)(const sli_tile *tile);

typedef struct sli_linear_kernels {
    int tile_rows; /* most rows of a tile */

    /* Computes a tile of r rows: plain[t][r - 1] with weights of type t as they lie (their step is 16, and so is that
     * of a single row of x), packed[r - 1] with packed ones. */
    sli_tile_fn plain[SLI_WEIGHT_TYPES][SLI_TILE_ROWS], packed[SLI_TILE_ROWS];

    /* Copies `rows` rows of `n` elements (`row` elements from one to the next) as f32, in the order in which a tile
     * reads them: the step is then rows_padded * 16, the row 16. Zeros fill n up to a multiple of 16, and rows to
     * rows_padded. */
    void (*pack[SLI_WEIGHT_TYPES])(const void *from, size_t row, int rows, int rows_padded, size_t n, float *to);
} sli_linear_kernels;

/* Never NULL: plain C where this build does not have it. That the machine has it is the caller's business. */
const sli_linear_kernels *sli_linear_kernels_for(sl_isa isa);

/* A product. */
typedef struct sli_linear {
    const float *x; /* [rows, in] */
    const void *w;  /* [out, in], aligned as its type is */
    sl_dtype w_dtype;
    const float *bias; /* [out] or NULL */
    float *y;          /* [rows, out] */
    size_t rows, in, out;
} sli_linear;

/* Bytes of scratch that sli_linear_run needs for so many rows or fewer. */
size_t sli_linear_scratch(size_t rows, size_t in, size_t out, int threads);

/* Computes it, in at most as many parts as the lane's device has threads. `scratch` is 64-byte aligned. */
void sli_linear_run(const sli_linear_kernels *kernels, sl_lane *lane, const sli_linear *product, void *scratch);

#endif
