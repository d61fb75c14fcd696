/* linear: values against sums in float64, and the promise of one order of sums: the same bits whatever the number of
 * rows, the place of an element, the number of threads and the instruction set. */
#include "cpu/linear.h"
#include "op_call.h"
#include <math.h>

/* ---- The order of sums, written down again as plainly as it can be ---- */

static float plain_block(const float *x, const float *w, int n) {
    float sums[16] = {0};
    for (int k = 0; k < (n + 15) / 16 * 16; k++)
        sums[k % 16] = fmaf(k < n ? x[k] : 0, k < n ? w[k] : 0, sums[k % 16]);
    for (int half = 8; half; half /= 2)
        for (int i = 0; i < half; i++)
            sums[i] += sums[i + half];
    return sums[0];
}

static float plain_sum(const float *x, const float *w, int n, const float *bias) {
    float sum = plain_block(x, w, n < 1024 ? n : 1024);
    for (int k = 1024; k < n; k += 1024)
        sum += plain_block(x + k, w + k, n - k < 1024 ? n - k : 1024);
    return bias ? sum + *bias : sum;
}

/* ---- A product with weights of each type ---- */

typedef struct problem {
    int rows, in, out;
    float *x, *w, *bias; /* w: as the weights of every type are, in f32 */
    char *stored;        /* w in `type`; at an address that is aligned for it and no more */
    void *owned;
    sl_dtype type;
} problem;

static problem problem_make(int rows, int in, int out, sl_dtype type, uint64_t *seed) {
    problem p = {.rows = rows, .in = in, .out = out, .type = type};
    size_t n = (size_t)in * (size_t)out, element = type == SL_F32 ? 4 : 2;
    p.x = malloc(sizeof(float) * (size_t)rows * (size_t)in);
    p.w = malloc(sizeof(float) * n);
    p.bias = malloc(sizeof(float) * (size_t)out);
    p.owned = malloc(element * (n + 1));
    p.stored = (char *)p.owned + element; /* nothing readable is after it, so ASan sees what is read beyond */
    for (int i = 0; i < rows * in; i++)
        p.x[i] = op_random(seed);
    for (size_t i = 0; i < n; i++)
        p.w[i] = op_random(seed);
    for (int i = 0; i < out; i++)
        p.bias[i] = op_random(seed);
    ck_assert_int_eq(sl_convert(type, p.stored, SL_F32, p.w, n), SL_OK);
    ck_assert_int_eq(sl_convert(SL_F32, p.w, type, p.stored, n), SL_OK);
    return p;
}

static void problem_free(problem *p) {
    free(p->x);
    free(p->w);
    free(p->bias);
    free(p->owned);
}

/* Rows first .. first + rows of it, to y [rows, out]. */
static void compute(const problem *p, sl_isa isa, int threads, bool bias, int first, int rows, float *y) {
    const sli_linear_kernels *kernels = sli_linear_kernels_for(isa);
    sl_lane lane = {.threads = threads, .parallel = parallel_parts};
    size_t bytes = sli_linear_scratch((size_t)rows, (size_t)p->in, (size_t)p->out, threads);
    void *scratch = aligned_alloc(64, (bytes + 63) / 64 * 64);
    memset(scratch, 0xff, bytes);
    sli_linear product = {.x = p->x + (size_t)first * (size_t)p->in,
                          .w = p->stored,
                          .w_dtype = p->type,
                          .bias = bias ? p->bias : NULL,
                          .y = y,
                          .rows = (size_t)rows,
                          .in = (size_t)p->in,
                          .out = (size_t)p->out};
    memset(y, 0xff, sizeof *y * (size_t)rows * (size_t)p->out);
    sli_linear_run(kernels, &lane, &product, scratch);
    free(scratch);
}

static float *expected_of(const problem *p, bool bias) {
    float *y = malloc(sizeof *y * (size_t)p->rows * (size_t)p->out);
    for (int r = 0; r < p->rows; r++)
        for (int o = 0; o < p->out; o++)
            y[r * p->out + o] =
                plain_sum(p->x + r * p->in, p->w + (size_t)o * (size_t)p->in, p->in, bias ? &p->bias[o] : NULL);
    return y;
}

static void same_bits(const problem *p, const float *y, const float *expected, int rows, const char *what) {
    for (int i = 0; i < rows * p->out; i++)
        ck_assert_msg(!memcmp(&y[i], &expected[i], sizeof *y), "%s: [%d, %d] of %d x %d x %d %s: %a, not %a", what,
                      i / p->out, i % p->out, rows, p->in, p->out, sl_dtype_name(p->type), (double)y[i],
                      (double)expected[i]);
}

/* ---- Tests ---- */

START_TEST(every_number_of_rows_has_the_same_bits) {
    uint64_t seed = test_seed();
    for (sl_dtype type = SL_F32; type <= SL_BF16; type++) {
        problem p = problem_make(64, 75, 23, type, &seed);
        float *expected = expected_of(&p, true), *y = malloc(sizeof *y * 64 * 23);
        FOR_EACH_ISA(isa)
        for (int rows = 1; rows <= 64; rows++) {
            int first = rows % 3 == 0 ? 64 - rows : 0;
            compute(&p, isa, 1 + rows % 2, true, first, rows, y);
            same_bits(&p, y, expected + first * p.out, rows, sl_isa_name(isa));
        }
        free(y);
        free(expected);
        problem_free(&p);
    }
}
END_TEST

START_TEST(odd_sizes_have_the_same_bits) {
    static const int sizes[][3] = {{1, 1, 1},    {2, 15, 3},    {3, 16, 4},    {5, 17, 5},    {7, 31, 1},
                                   {1, 33, 130}, {25, 129, 66}, {13, 1023, 9}, {30, 1600, 6}, {50, 1025, 5},
                                   {4, 2100, 3}, {1, 3073, 10}, {30, 40, 150}, {100, 16, 18}};
    uint64_t seed = test_seed();
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (sl_dtype type = SL_F32; type <= SL_BF16; type++) {
            problem p = problem_make(sizes[i][0], sizes[i][1], sizes[i][2], type, &seed);
            float *expected = expected_of(&p, i % 2), *y = malloc(sizeof *y * (size_t)(p.rows * p.out));
            FOR_EACH_ISA(isa)
            for (int threads = 1; threads <= 3; threads++) {
                compute(&p, isa, threads, i % 2, 0, p.rows, y);
                same_bits(&p, y, expected, p.rows, sl_isa_name(isa));
            }
            free(y);
            free(expected);
            problem_free(&p);
        }
}
END_TEST

START_TEST(random_sizes_have_the_same_bits) {
    uint64_t seed = test_seed();
    for (int i = 0; i < test_cases(60); i++) {
        int rows = 1 + (int)test_below(&seed, i % 4 ? 40 : 600), in = 1 + (int)test_below(&seed, i % 8 ? 300 : 2000);
        problem p = problem_make(rows, in, 1 + (int)test_below(&seed, 150), (sl_dtype)(i % 3), &seed);
        float *first = malloc(sizeof *first * (size_t)(p.rows * p.out)),
              *y = malloc(sizeof *y * (size_t)(p.rows * p.out));
        compute(&p, best_isa(), 1, true, 0, rows, first);
        FOR_EACH_ISA(isa) {
            compute(&p, isa, 2, true, 0, rows, y);
            same_bits(&p, y, first, rows, sl_isa_name(isa));
        }
        int r = (int)test_below(&seed, (uint64_t)rows); /* a row alone */
        compute(&p, best_isa(), 1, true, r, 1, y);
        same_bits(&p, y, first + r * p.out, 1, "one row");
        free(first);
        free(y);
        problem_free(&p);
    }
}
END_TEST

START_TEST(more_rows_than_a_chunk_have_the_same_bits) {
    uint64_t seed = test_seed();
    problem p = problem_make(1100, 40, 9, SL_F32, &seed);
    float *expected = expected_of(&p, true), *y = malloc(sizeof *y * 1100 * 9);
    compute(&p, best_isa(), 2, true, 0, 1100, y);
    same_bits(&p, y, expected, 1100, "1100 rows");
    free(y);
    free(expected);
    problem_free(&p);
}
END_TEST

/* The error of a sum of n products by 16 partial sums is below about (n / 16 + 5) * 2^-24 * sum |x w|. */
START_TEST(values_are_those_of_sums_in_float64) {
    uint64_t seed = test_seed();
    problem p = problem_make(37, 1531, 41, SL_F32, &seed);
    float *y = malloc(sizeof *y * 37 * 41);
    compute(&p, best_isa(), 2, true, 0, 37, y);
    for (int r = 0; r < p.rows; r++)
        for (int o = 0; o < p.out; o++) {
            double sum = (double)p.bias[o], size = fabs(sum);
            for (int k = 0; k < p.in; k++) {
                double product = (double)p.x[r * p.in + k] * (double)p.w[o * p.in + k];
                sum += product;
                size += fabs(product);
            }
            ck_assert_double_le(fabs((double)y[r * p.out + o] - sum), (p.in / 16.0 + 5) * 0x1p-24 * size);
        }
    free(y);
    problem_free(&p);
}
END_TEST

/* Padding with zeros must not meet an infinity, and every NaN has the same bits. */
START_TEST(infinities_and_nan_stay_in_their_own_elements) {
    uint64_t seed = test_seed();
    for (int rows = 1; rows <= 40; rows += 13) {
        problem p = problem_make(rows, 35, 6, SL_F32, &seed);
        float *y = malloc(sizeof *y * (size_t)rows * 6), *w = (float *)p.stored;
        w[0 * 35 + 34] = INFINITY;
        w[2 * 35 + 3] = -NAN;
        w[3 * 35 + 5] = INFINITY;
        w[3 * 35 + 21] = -INFINITY;
        p.x[34] = 2, p.x[5] = p.x[21] = 1;
        FOR_EACH_ISA(isa) {
            compute(&p, isa, 1, true, 0, rows, y);
            uint32_t bits[6];
            memcpy(bits, y, sizeof bits);
            ck_assert_float_eq(y[0], INFINITY);
            ck_assert(isfinite(y[1]) && isfinite(y[4]) && isfinite(y[5]));
            ck_assert_uint_eq(bits[2], 0x7fc00000);
            ck_assert_uint_eq(bits[3], 0x7fc00000);
        }
        free(y);
        problem_free(&p);
    }
}
END_TEST

START_TEST(the_op_computes_with_each_type_of_bias) {
    uint64_t seed = test_seed();
    problem p = problem_make(3, 20, 10, SL_BF16, &seed);
    for (int type = -1; type <= SL_BF16; type++) {
        op_call c;
        op_begin(&c, &sli_op_linear, NULL);
        uint16_t stored[20];
        float bias[10];
        op_input(&c, SL_F32, 3, 20, p.x);
        op_input(&c, SL_BF16, 10, 20, p.stored);
        if (type >= 0) {
            sl_convert((sl_dtype)type, stored, SL_F32, p.bias, 10);
            sl_convert(SL_F32, bias, (sl_dtype)type, stored, 10);
            op_input(&c, (sl_dtype)type, 1, 10, stored);
        }
        float *y = op_output(&c, SL_F32, 3, 10);
        ck_assert_int_eq(op_run(&c, 2), SL_OK);
        for (int i = 0; i < 30; i++)
            ck_assert_float_eq(y[i],
                               plain_sum(p.x + i / 10 * 20, p.w + i % 10 * 20, 20, type >= 0 ? &bias[i % 10] : NULL));
        op_done(&c);
    }
    problem_free(&p);
}
END_TEST

START_TEST(no_rows_are_no_work) {
    op_call c;
    op_begin(&c, &sli_op_linear, NULL);
    op_input(&c, SL_F32, 0, 20, NULL);
    op_input(&c, SL_F32, 10, 20, NULL);
    op_output(&c, SL_F32, 0, 10);
    ck_assert_int_eq(op_run(&c, 2), SL_OK);
    op_done(&c);
}
END_TEST

/* A plan asks for the largest micro-batch; each smaller one must find room. */
START_TEST(scratch_for_more_rows_is_enough_for_fewer) {
    for (size_t rows = 1, before = 0; rows < 600; rows++) {
        size_t bytes = sli_linear_scratch(rows, 1700, 40, 2);
        ck_assert_uint_ge(bytes, before);
        before = bytes;
    }
}
END_TEST

START_TEST(shapes_are_checked) {
    sl_type output, x = op_type(SL_F32, SL_ROWS, 64), w = op_type(SL_F16, 32, 64), b = op_type(SL_F32, 1, 32);
    ck_assert_int_eq(op_shape(&sli_op_linear, NULL, 2, (sl_type[]){x, w}, 2, &output), SL_OK);
    ck_assert_int_eq(op_shape(&sli_op_linear, NULL, 3, (sl_type[]){x, w, b}, 6, &output), SL_OK);
    ck_assert(output.dtype == SL_F32 && output.shape.rank == 2);
    ck_assert(output.shape.dims[0] == SL_ROWS && output.shape.dims[1] == 32);
    op_refuses(&sli_op_linear, NULL, 2, (sl_type[]){x, op_type(SL_F32, 64, 32)}, 2,
               "input 1 (w) is [64, 32] f32; expected a weight [n, 64]");
    op_refuses(&sli_op_linear, NULL, 2, (sl_type[]){x, w}, 0, "it is no weight");
    op_refuses(&sli_op_linear, NULL, 2, (sl_type[]){op_type(SL_F16, SL_ROWS, 64), w}, 2, "input 0 (x)");
    op_refuses(&sli_op_linear, NULL, 2, (sl_type[]){x, op_type(SL_I32, 32, 64)}, 2, "f32, f16 or bf16");
    op_refuses(&sli_op_linear, NULL, 3, (sl_type[]){x, w, op_type(SL_F32, 1, 31)}, 6, "input 2 (b)");
    op_refuses(&sli_op_linear, NULL, 2, (sl_type[]){x, op_type(SL_F32, 0, 64)}, 2, "at least one row");
}
END_TEST

START_TEST(cost_counts_products_and_bytes) {
    op_call c;
    op_begin(&c, &sli_op_linear, NULL);
    op_input(&c, SL_F32, 5, 64, NULL);
    op_input(&c, SL_BF16, 32, 64, NULL);
    op_input(&c, SL_F32, 1, 32, NULL);
    op_output(&c, SL_F32, 5, 32);
    sl_cost cost;
    sli_op_linear.cost(&c.call, &cost);
    ck_assert_double_eq(cost.operations, 2.0 * 5 * 64 * 32 + 5 * 32);
    ck_assert_double_eq(cost.bytes_read, 5 * 64 * 4 + 32 * 64 * 2 + 32 * 4);
    ck_assert_double_eq(cost.bytes_written, 5 * 32 * 4);
    op_done(&c);
}
END_TEST

int main(void) {
    const test_case cases[] = {
        TEST(every_number_of_rows_has_the_same_bits),
        TEST(odd_sizes_have_the_same_bits),
        TEST(random_sizes_have_the_same_bits),
        TEST(more_rows_than_a_chunk_have_the_same_bits),
        TEST(values_are_those_of_sums_in_float64),
        TEST(infinities_and_nan_stay_in_their_own_elements),
        TEST(the_op_computes_with_each_type_of_bias),
        TEST(no_rows_are_no_work),
        TEST(scratch_for_more_rows_is_enough_for_fewer),
        TEST(shapes_are_checked),
        TEST(cost_counts_products_and_bytes),
    };
    return test_main("linear", cases, sizeof cases / sizeof *cases);
}
