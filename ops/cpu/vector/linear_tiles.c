/* The tiles of linear.h for one instruction set. A tile has SLI_QUAD outputs and as many rows as leave their sums in
 * registers: 6 with 32 registers of 16 lanes. AVX2 has 16 of 8 lanes: there a tile has 3 rows and is done in two
 * passes, sums 0 to 7 and then sums 8 to 15, since no sum depends on another before the end.
 *
 * Weights that are not packed come from memory, and the next four outputs' are fetched meanwhile: a row begins at
 * another place for each output, which the processor does not foresee. */
#include "cpu/linear.h"
#include "cpu/simd.h"
#include "cpu/simd_sum4.h"

/* Each header has TILE_ROWS; `lanes`, a register of LANES sums; `join`, 16 sums from one or two of them; and what is
 * done with sli_four, the outputs of a row. */
#if defined(SLI_SIMD_AVX512_H)
#include "cpu/linear_avx512.h"
#elif defined(SLI_SIMD_AVX2_H)
#include "cpu/linear_avx2.h"
#else
#include "cpu/linear_plain.h"
#endif

/* From where weights are read: packed (first cache), or as they lie: then those of the next quad are fetched, into the
 * first cache if four outputs' are not too much for it. */
typedef enum source { PACKED, NEAR, FAR } source;

/* Sums stay in registers only where every loop over them is unrolled and every function is part of its caller. Plain C
 * has no such registers. */
#if defined(SLI_SIMD_PLAIN_H)
#define INLINE static
#define UNROLL
#elif defined(__clang__)
#define INLINE static inline __attribute__((always_inline))
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define INLINE static inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 32")
#endif

enum { TILE_SUMS = SLI_TILE_ROWS * SLI_QUAD, NEAR_BYTES = 20000 };

INLINE size_t element_bytes(sl_dtype type) {
    return type == SL_F32 ? 4 : 2;
}

/* LANES of w, from element k on; `have` of them are there (LANES or more: all). */
INLINE lanes load_weight(sl_dtype type, const void *w, size_t k, size_t have) {
    const float *f32 = (const float *)w + k;
    const uint16_t *h16 = (const uint16_t *)w + k;
    uint16_t part[LANES] = {0};
    if (have >= LANES)
        return type == SL_F32 ? lanes_load(f32) : type == SL_F16 ? lanes_load_f16(h16) : lanes_load_bf16(h16);
    if (type == SL_F32)
        return lanes_load_part(f32, have);
    memcpy(part, h16, have * sizeof *h16);
    return type == SL_F16 ? lanes_load_f16(part) : lanes_load_bf16(part);
}

INLINE lanes load_x(const float *x, size_t have) {
    return have >= LANES ? lanes_load(x) : lanes_load_part(x, have);
}

INLINE void fetch_next(sl_dtype type, source from, const sli_tile *t, size_t w_at) {
    const char *next = (const char *)t->w + (w_at + SLI_QUAD * t->w_row) * element_bytes(type);
    if (from == NEAR)
        __builtin_prefetch(next, 0, 3);
    if (from == FAR)
        __builtin_prefetch(next, 0, 2);
}

/* One step: LANES elements of the inner dimension. */
INLINE void step(sl_dtype type, int rows, source from, const sli_tile *t, size_t x_at, size_t w_at, size_t have,
                 lanes sums[TILE_SUMS]) {
    lanes x[SLI_TILE_ROWS];
    UNROLL
    for (int r = 0; r < rows; r++)
        x[r] = load_x(t->x + x_at + (size_t)r * t->x_row, have);
    UNROLL
    for (int o = 0; o < SLI_QUAD; o++) {
        size_t at = w_at + (size_t)o * t->w_row;
        fetch_next(type, from, t, at);
        lanes w = load_weight(type, t->w, at, have);
        UNROLL
        for (int r = 0; r < rows; r++)
            sums[r * SLI_QUAD + o] = lanes_fma(x[r], w, sums[r * SLI_QUAD + o]);
    }
}

/* The sums from `lane` on, LANES of them. */
INLINE void pass(sl_dtype type, int rows, source from, const sli_tile *t, size_t lane, lanes sums[TILE_SUMS]) {
    UNROLL
    for (int i = 0; i < rows * SLI_QUAD; i++)
        sums[i] = lanes_zero();
    size_t x_at = lane, w_at = lane;
    for (size_t s = 0; s < t->steps; s++, x_at += t->x_step, w_at += t->w_step)
        step(type, rows, from, t, x_at, w_at, LANES, sums);
    if (t->rest > lane)
        step(type, rows, PACKED, t, x_at, w_at, t->rest - lane, sums);
    else if (t->rest)
        step(type, rows, PACKED, t, 0, 0, 0, sums);
}

/* Four outputs of a row from their sums. */
INLINE void finish(const sli_tile *t, sli_four sum, float *y) {
    float few[SLI_QUAD] = {0}, few_bias[SLI_QUAD] = {0};
    size_t bytes = (size_t)t->outputs * sizeof *y;
    float *to = t->outputs < SLI_QUAD ? few : y;
    const float *bias = t->bias;
    if (t->outputs < SLI_QUAD) {
        memcpy(few, y, bytes);
        if (bias)
            bias = memcpy(few_bias, bias, bytes);
    }
    if (!t->first)
        sum = four_add(four_load(to), sum);
    if (t->last)
        sum = four_nan(bias ? four_add(sum, four_load(bias)) : sum);
    four_store(to, sum);
    if (t->outputs < SLI_QUAD)
        memcpy(y, few, bytes);
}

INLINE void tile(sl_dtype type, int rows, source from, const sli_tile *t) {
    lanes low[TILE_SUMS], high[TILE_SUMS];
    pass(type, rows, from, t, 0, low);
    if ((int)LANES < SLI_LANES)
        pass(type, rows, PACKED, t, LANES, high);
    UNROLL
    for (int r = 0; r < rows; r++) {
        sli_vf v[SLI_QUAD];
        UNROLL
        for (int o = 0; o < SLI_QUAD; o++)
            v[o] = join(low[r * SLI_QUAD + o], high[r * SLI_QUAD + o]);
        finish(t, sli_vf_sums(v), t->y + (size_t)r * t->y_row);
    }
}

/* 16 of w from element k on, `have` of them, as load_weight. */
INLINE sli_vf load_16(sl_dtype type, const void *w, size_t k, size_t have) {
    const float *f32 = (const float *)w + k;
    const uint16_t *h16 = (const uint16_t *)w + k;
    if (type == SL_F32)
        return have < SLI_LANES ? sli_vf_load_part(f32, have) : sli_vf_load(f32);
    if (type == SL_F16)
        return have < SLI_LANES ? sli_vf_load_f16_part(h16, have) : sli_vf_load_f16(h16);
    return have < SLI_LANES ? sli_vf_load_bf16_part(h16, have) : sli_vf_load_bf16(h16);
}

/* One row as it lies: weights are read once, so that memory is what limits, and a second pass would show. */
INLINE void row(sl_dtype type, source from, const sli_tile *t) {
    sli_vf sums[SLI_QUAD];
    UNROLL
    for (int o = 0; o < SLI_QUAD; o++)
        sums[o] = sli_vf_set1(0);
    size_t k = 0;
    for (size_t s = 0; s < t->steps; s++, k += SLI_LANES) {
        sli_vf x = sli_vf_load(t->x + k);
        UNROLL
        for (int o = 0; o < SLI_QUAD; o++) {
            size_t at = k + (size_t)o * t->w_row;
            fetch_next(type, from, t, at);
            sums[o] = sli_vf_fma(x, load_16(type, t->w, at, SLI_LANES), sums[o]);
        }
    }
    if (t->rest) {
        sli_vf x = sli_vf_load_part(t->x + k, t->rest);
        UNROLL
        for (int o = 0; o < SLI_QUAD; o++)
            sums[o] = sli_vf_fma(x, load_16(type, t->w, k + (size_t)o * t->w_row, t->rest), sums[o]);
    }
    finish(t, sli_vf_sums(sums), t->y);
}

/* Weights as they lie. */
INLINE void plain(sl_dtype type, int rows, const sli_tile *t) {
    source from = SLI_QUAD * t->w_row * element_bytes(type) <= NEAR_BYTES ? NEAR : FAR;
    if (rows > 1)
        tile(type, rows, FAR, t);
    else if (from == NEAR)
        row(type, NEAR, t);
    else
        row(type, FAR, t);
}

#define PLAIN(type, rows)                                                                                              \
    static void plain_##type##_##rows(const sli_tile *t) {                                                             \
        plain(SL_##type, rows, t);                                                                                     \
    }
#define PACKED_ROWS(rows)                                                                                              \
    static void packed_##rows(const sli_tile *t) {                                                                     \
        tile(SL_F32, rows, PACKED, t);                                                                                 \
    }
#if TILE_ROWS > 3
#define MORE(...) __VA_ARGS__
#else
#define MORE(...)
#endif
#define PLAINS(type) PLAIN(type, 1) PLAIN(type, 2) PLAIN(type, 3) MORE(PLAIN(type, 4) PLAIN(type, 5) PLAIN(type, 6))
#define PLAIN_NAMES(type)                                                                                              \
    { plain_##type##_1, plain_##type##_2, plain_##type##_3, MORE(plain_##type##_4, plain_##type##_5, plain_##type##_6) }
PLAINS(F32)
PLAINS(F16)
PLAINS(BF16)
PACKED_ROWS(1)
PACKED_ROWS(2)
PACKED_ROWS(3)
MORE(PACKED_ROWS(4) PACKED_ROWS(5) PACKED_ROWS(6))

INLINE void pack(sl_dtype type, const void *from, size_t row, int rows, int rows_padded, size_t n, float *to) {
    for (size_t k = 0; k < n; k += SLI_LANES)
        for (int r = 0; r < rows_padded; r++)
            for (size_t lane = 0; lane < SLI_LANES; lane += LANES, to += LANES) {
                size_t have = k + lane < n ? n - k - lane : 0;
                lanes_store(to, r < rows ? load_weight(type, from, (size_t)r * row + k + lane, have) : lanes_zero());
            }
}

#define PACK(type)                                                                                                     \
    static void pack_##type(const void *from, size_t row, int rows, int rows_padded, size_t n, float *to) {            \
        pack(SL_##type, from, row, rows, rows_padded, n, to);                                                          \
    }
PACK(F32)
PACK(F16)
PACK(BF16)

extern const sli_linear_kernels SLI_FOR_ISA(sli_linear);
const sli_linear_kernels SLI_FOR_ISA(sli_linear) = {
    .tile_rows = TILE_ROWS,
    .plain = {[SL_F32] = PLAIN_NAMES(F32), [SL_F16] = PLAIN_NAMES(F16), [SL_BF16] = PLAIN_NAMES(BF16)},
    .packed = {packed_1, packed_2, packed_3, MORE(packed_4, packed_5, packed_6)},
    .pack = {[SL_F32] = pack_F32, [SL_F16] = pack_F16, [SL_BF16] = pack_BF16},
};
