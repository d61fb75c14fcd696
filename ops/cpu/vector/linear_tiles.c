/* The tiles of linear.h for one instruction set. A tile has SLI_QUAD outputs and as many rows as leave their sums in
 * registers: 6 with 32 registers of 16 lanes. AVX2 has 16 of 8 lanes: there a tile has 3 rows and is done in two
 * passes, sums 0 to 7 and then sums 8 to 15, since no sum depends on another before the end. */
#include "cpu/linear.h"
#include "cpu/simd.h"
#include "cpu/simd_sum4.h"

/* Plain C is the oracle: left as loops and calls, or one file takes minutes to compile. */
#if !defined(__AVX2__)
#define UNROLL
#define INLINE static inline
#elif defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#define INLINE static inline __attribute__((always_inline))
#else
#define UNROLL _Pragma("GCC unroll 32")
#define INLINE static inline __attribute__((always_inline))
#endif

#if defined(__AVX512F__)
#include "cpu/linear_avx512.h"
#elif defined(__AVX2__)
#include "cpu/linear_avx2.h"
#else
#include "cpu/linear_plain.h"
#endif

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

/* One step: LANES elements of the inner dimension. */
INLINE void step(sl_dtype type, int rows, const sli_tile *t, size_t x_at, size_t w_at, size_t have,
                 lanes sums[SLI_TILE_ROWS * SLI_QUAD]) {
    lanes x[SLI_TILE_ROWS];
    UNROLL
    for (int r = 0; r < rows; r++)
        x[r] = load_x(t->x + x_at + (size_t)r * t->x_row, have);
    UNROLL
    for (int o = 0; o < SLI_QUAD; o++) {
        lanes w = load_weight(type, t->w, w_at + (size_t)o * t->w_row, have);
        UNROLL
        for (int r = 0; r < rows; r++)
            sums[r * SLI_QUAD + o] = lanes_fma(x[r], w, sums[r * SLI_QUAD + o]);
    }
}

/* The sums from `lane` on, LANES of them. */
INLINE void pass(sl_dtype type, int rows, const sli_tile *t, size_t lane) {
    lanes sums[SLI_TILE_ROWS * SLI_QUAD];
    UNROLL
    for (int i = 0; i < rows * SLI_QUAD; i++)
        sums[i] = t->first ? lanes_zero() : lanes_load(t->sums + i * SLI_LANES + lane);
    size_t x_at = lane, w_at = lane;
    for (size_t s = 0; s < t->steps; s++, x_at += t->x_step, w_at += t->w_step)
        step(type, rows, t, x_at, w_at, LANES, sums);
    if (t->rest)
        step(type, rows, t, x_at, w_at, t->rest > lane ? t->rest - lane : 0, sums);
    UNROLL
    for (int i = 0; i < rows * SLI_QUAD; i++)
        lanes_store(t->sums + i * SLI_LANES + lane, sums[i]);
}

INLINE void tile(sl_dtype type, int rows, const sli_tile *t) {
    UNROLL
    for (size_t lane = 0; lane < SLI_LANES; lane += LANES)
        pass(type, rows, t, lane);
}

#define TILE(type, rows)                                                                                               \
    static void tile_##type##_##rows(const sli_tile *t) {                                                              \
        tile(SL_##type, rows, t);                                                                                      \
    }
#define TILES(type) TILE(type, 1) TILE(type, 2) TILE(type, 3) TILE(type, 4) TILE(type, 5) TILE(type, 6)
#define TILE_NAMES(type)                                                                                               \
    { tile_##type##_1, tile_##type##_2, tile_##type##_3, tile_##type##_4, tile_##type##_5, tile_##type##_6 }
TILES(F32)
TILES(F16)
TILES(BF16)

static void finish(const float *sums, int rows, int outputs, const float *bias, float *y, size_t y_row) {
    size_t n = (size_t)outputs;
    for (int r = 0; r < rows; r++, sums += SLI_QUAD * SLI_LANES, y += y_row) {
        sli_vf v[SLI_QUAD];
        float of[SLI_LANES] = {0};
        UNROLL
        for (int o = 0; o < SLI_QUAD; o++)
            v[o] = sli_vf_load(sums + o * SLI_LANES);
        sli_vf_sum4(v, of);
        sli_vf sum = sli_vf_load(of);
        if (bias)
            sum = sli_vf_add(sum, sli_vf_load_part(bias, n));
        sli_vf_store_part(y, sli_vf_nan_if_nan(sum, sum), n);
    }
}

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
    .tile = {[SL_F32] = TILE_NAMES(F32), [SL_F16] = TILE_NAMES(F16), [SL_BF16] = TILE_NAMES(BF16)},
    .finish = finish,
    .pack = {[SL_F32] = pack_F32, [SL_F16] = pack_F16, [SL_BF16] = pack_BF16},
};
