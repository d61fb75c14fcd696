/* What the kernels of this folder call for an array or a row, compiled for each instruction set (vector/); all give the
 * same bits. Sums along a row are 16 partial sums and one fixed tree over them (ops/README.md). Arrays are dense, with
 * any alignment; `y` may be an input, and does not overlap one otherwise. */
#ifndef SLI_VECTOR_KERNELS_H
#define SLI_VECTOR_KERNELS_H

#include <sluice/device.h>

typedef struct sli_elementwise_kernels {
    void (*add)(const float *a, const float *b, float *y, size_t n);
    void (*mul)(const float *a, const float *b, float *y, size_t n);
    void (*silu_gated)(const float *gate, const float *up, float *y, size_t n);
    void (*scale)(const float *x, float factor, float *y, size_t n);
    void (*relu)(const float *x, float *y, size_t n);
    void (*gelu)(const float *x, float *y, size_t n);
    void (*gelu_tanh)(const float *x, float *y, size_t n);
    void (*silu)(const float *x, float *y, size_t n);
    void (*widen_f16)(const uint16_t *x, float *y, size_t n);
    /* Turns pairs: y[i], y[i + n] from x[i], x[i + n] (halves), or y[2i], y[2i + 1] from x[2i], x[2i + 1]. */
    void (*turn_halves)(const float *x, const float *cosines, const float *sines, float *y, size_t n);
    void (*turn_interleaved)(const float *x, const float *cosines, const float *sines, float *y, size_t n);
} sli_elementwise_kernels;

typedef struct sli_row_kernels { /* of one row, n >= 1 */
    void (*softmax)(const float *x, float *y, size_t n);
    void (*rms_norm)(const float *x, const float *weight, float eps, float *y, size_t n);
    /* `bias` may be NULL. */
    void (*layer_norm)(const float *x, const float *weight, const float *bias, float eps, float *y, size_t n);
    float (*largest)(const float *x, size_t n); /* NaN counts for nothing: -infinity if there is nothing else */
    /* y[i] = exp((x[i] - largest) / temperature) */
    void (*weigh)(const float *x, float largest, float temperature, float *y, size_t n);
} sli_row_kernels;

enum {
    SLI_TILE_QUERIES = 16, /* most queries of a tile */
    SLI_PART_KEYS = 64     /* keys of a part: positions 0 to 63, 64 to 127 and so on */
};

/* Queries that read the same keys and values: heads of one group, of rows of one sequence. */
typedef struct sli_attention_tile {
    const float *keys, *values; /* of position 0 */
    size_t stride;              /* elements from one position to the next */
    size_t head_dim;
    float scale;
    int n_queries;
    const float *q[SLI_TILE_QUERIES]; /* [head_dim] each */
    float *y[SLI_TILE_QUERIES];
    int64_t n_keys[SLI_TILE_QUERIES]; /* at least 1, never falling */
} sli_attention_tile;

typedef struct sli_attention_kernels {
    void (*attend)(const sli_attention_tile *tile);
} sli_attention_kernels;

/* For an instruction set of choice (tests), which may be sl_cpu_isa(). Never NULL. */
const sli_elementwise_kernels *sli_elementwise_for(sl_isa isa);
const sli_row_kernels *sli_rows_for(sl_isa isa);
const sli_attention_kernels *sli_attention_for(sl_isa isa);

#endif
