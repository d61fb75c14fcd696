#include "cpu/vector_kernels.h"
#include "oracle.h"

/* Runs an op on oracle inputs and compares with an oracle output, for 1 and 3 threads. */
static void check(const sl_op *op, const void *attributes, const char *a, const char *b, const char *expected) {
    oracle o = oracle_open("elementwise");
    for (int threads = 1; threads <= 3; threads += 2) {
        op_call c;
        op_begin(&c, op, attributes);
        oracle_input(&c, &o, a);
        if (b)
            oracle_input(&c, &o, b);
        float *y = op_output(&c, SL_F32, c.inputs[0].shape.dims[0], c.inputs[0].shape.dims[1]);
        ck_assert_int_eq(op_run(&c, threads), SL_OK);
        oracle_near(&o, expected, y, 3e-7);
        op_done(&c);
    }
    oracle_close(&o);
}

START_TEST(sums_and_products_are_numpys) {
    check(&sli_op_add, NULL, "a", "b", "add");
    check(&sli_op_mul, NULL, "a", "b", "mul");
    check(&sli_op_scale, &(sli_scale){0.3f}, "a", NULL, "scale");
}
END_TEST

START_TEST(one_row_is_used_for_every_row_in_every_type) {
    check(&sli_op_add, NULL, "a", "row", "add_row");
    check(&sli_op_mul, NULL, "a", "row_f16", "mul_row_f16");
    check(&sli_op_add, NULL, "a", "row_bf16", "add_row_bf16");
}
END_TEST

START_TEST(activations_are_numpys) {
    check(&sli_op_relu, NULL, "a", NULL, "relu");
    check(&sli_op_gelu, NULL, "a", NULL, "gelu");
    check(&sli_op_gelu_tanh, NULL, "a", NULL, "gelu_tanh");
    check(&sli_op_silu, NULL, "a", NULL, "silu");
    check(&sli_op_silu_gated, NULL, "a", "b", "silu_gated");
}
END_TEST

START_TEST(nan_and_infinity_go_through) {
    const float x[] = {NAN, INFINITY, -INFINITY, 1e30f, -1e30f};
    float y[5];
    FOR_EACH_ISA(isa) {
        const sli_elementwise_kernels *k = sli_elementwise_for(isa);
        void (*const unary[])(const float *, float *, size_t) = {k->relu, k->gelu, k->gelu_tanh, k->silu};
        for (int i = 0; i < 4; i++) {
            unary[i](x, y, 5);
            ck_assert(isnan(y[0]));
            ck_assert(y[1] == INFINITY);
            ck_assert(y[3] == 1e30f);
            ck_assert(y[4] == 0.0f);
        }
    }
}
END_TEST

/* Each element on its own, at the start of an array, against all in one array, in every instruction set. */
static void check_places(uint64_t seed) {
    enum { N = 67 };
    float a[N], b[N], all[N], first[N], one;
    for (int i = 0; i < N; i++) {
        a[i] = op_odd(&seed);
        b[i] = op_odd(&seed);
    }
    for (int f = 0; f < 8; f++)
        FOR_EACH_ISA(isa) {
            const sli_elementwise_kernels *k = sli_elementwise_for(isa);
            void (*const unary[])(const float *, float *, size_t) = {k->relu, k->gelu, k->gelu_tanh, k->silu};
            void (*const binary[])(const float *, const float *, float *, size_t) = {k->add, k->mul, k->silu_gated};
            for (int n = N, i = 0; i <= N; i++, n = 1) {
                const float *pa = i ? a + i - 1 : a, *pb = i ? b + i - 1 : b;
                float *y = i ? &one : all;
                if (f < 4)
                    unary[f](pa, y, (size_t)n);
                else if (f < 7)
                    binary[f - 4](pa, pb, y, (size_t)n);
                else
                    k->scale(pa, 0.3f, y, (size_t)n);
                if (i)
                    ck_assert_mem_eq(&one, &all[i - 1], sizeof one);
            }
            if (isa == SL_ISA_PLAIN)
                memcpy(first, all, sizeof all);
            ck_assert_mem_eq(first, all, sizeof all);
            for (int i = 0; i < N; i++) /* NaN is the one quiet NaN */
                ck_assert(all[i] == all[i] || !memcmp(&all[i], &(uint32_t){0x7fc00000}, sizeof *all));
        }
}

START_TEST(an_element_has_the_same_bits_wherever_it_stands) {
    uint64_t seed = test_seed();
    for (int i = 0; i < test_cases(200); i++)
        check_places(test_random(&seed));
}
END_TEST

START_TEST(turned_pairs_have_the_same_bits_in_every_instruction_set) {
    uint64_t seed = test_seed();
    for (int round = 0; round < test_cases(400); round++) {
        enum { MOST = 70 };
        size_t n = 1 + test_below(&seed, MOST);
        float x[2 * MOST], c[MOST], s[MOST], y[2][2 * MOST], first[2][2 * MOST];
        for (size_t i = 0; i < 2 * n; i++)
            x[i] = op_odd(&seed);
        for (size_t i = 0; i < n; i++) {
            c[i] = op_random(&seed);
            s[i] = op_random(&seed);
        }
        FOR_EACH_ISA(isa) {
            sli_elementwise_for(isa)->turn_halves(x, c, s, y[0], n);
            sli_elementwise_for(isa)->turn_interleaved(x, c, s, y[1], n);
            for (int f = 0; f < 2; f++) {
                if (isa == SL_ISA_PLAIN)
                    memcpy(first[f], y[f], 2 * n * sizeof(float));
                ck_assert_mem_eq(first[f], y[f], 2 * n * sizeof(float));
            }
        }
    }
}
END_TEST

START_TEST(many_threads_write_the_same_bits) {
    enum { ROWS = 97, COLUMNS = 1031 };
    uint64_t seed = test_seed();
    float *one = NULL;
    op_call c;
    op_begin(&c, &sli_op_silu_gated, NULL);
    for (int i = 0; i < 2; i++)
        op_input(&c, SL_F32, ROWS, COLUMNS, op_randoms(&c, &seed, ROWS * COLUMNS));
    for (int threads = 1; threads <= 7; threads += 3) {
        c.call.n_outputs = 0;
        float *y = op_output(&c, SL_F32, ROWS, COLUMNS);
        ck_assert_int_eq(op_run(&c, threads), SL_OK);
        one = one ? one : y;
        ck_assert_mem_eq(one, y, sizeof *y * ROWS * COLUMNS);
    }
    op_done(&c);
}
END_TEST

START_TEST(no_rows_are_no_work) {
    op_call c;
    op_begin(&c, &sli_op_add, NULL);
    op_input(&c, SL_F32, 0, 5, NULL);
    op_input(&c, SL_F32, 0, 5, NULL);
    op_output(&c, SL_F32, 0, 5);
    ck_assert_int_eq(op_run(&c, 2), SL_OK);
    op_done(&c);
}
END_TEST

START_TEST(a_shape_that_does_not_fit_is_refused_by_name) {
    sl_type rows = op_type(SL_F32, SL_ROWS, 64), out;
    sl_type narrow = op_type(SL_F32, SL_ROWS, 32), ids = op_type(SL_I32, SL_ROWS, 64);
    sl_type row = {SL_BF16, {1, {64}}}, other = op_type(SL_F32, SL_ROWS - 1, 64);
    ck_assert_int_eq(op_shape(&sli_op_add, NULL, 2, (sl_type[]){rows, rows}, 0, &out), SL_OK);
    ck_assert(out.dtype == SL_F32 && out.shape.dims[0] == SL_ROWS && out.shape.dims[1] == 64);
    ck_assert_int_eq(op_shape(&sli_op_mul, NULL, 2, (sl_type[]){rows, row}, 2, &out), SL_OK);
    op_refuses(&sli_op_add, NULL, 2, (sl_type[]){rows, narrow}, 0,
               "input 1 (b) is [rows, 32] f32; expected [rows, 64] f32 like input 0 (a), or a weight [64]");
    op_refuses(&sli_op_add, NULL, 2, (sl_type[]){rows, other}, 0, "input 1 (b) is [rows of count 2, 64] f32");
    op_refuses(&sli_op_mul, NULL, 2, (sl_type[]){rows, row}, 0, "input 1 (b) is [64] bf16");
    op_refuses(&sli_op_gelu, NULL, 1, &ids, 0, "input 0 (x) is [rows, 64] i32; expected [rows, columns] f32");
    op_refuses(&sli_op_silu_gated, NULL, 2, (sl_type[]){rows, narrow}, 0, "input 1 (up) is [rows, 32] f32");
}
END_TEST

START_TEST(a_cost_counts_elements_and_bytes) {
    op_call c;
    sl_cost cost;
    op_begin(&c, &sli_op_add, NULL);
    op_input(&c, SL_F32, 7, 5, NULL);
    op_input(&c, SL_BF16, 1, 5, NULL);
    op_output(&c, SL_F32, 7, 5);
    c.op->cost(&c.call, &cost);
    ck_assert(cost.operations == 35 && cost.bytes_read == 7 * 20 + 10 && cost.bytes_written == 7 * 20);
    op_done(&c);
}
END_TEST

int main(void) {
    const test_case cases[] = {TEST(sums_and_products_are_numpys),
                               TEST(one_row_is_used_for_every_row_in_every_type),
                               TEST(activations_are_numpys),
                               TEST(nan_and_infinity_go_through),
                               TEST(an_element_has_the_same_bits_wherever_it_stands),
                               TEST(turned_pairs_have_the_same_bits_in_every_instruction_set),
                               TEST(many_threads_write_the_same_bits),
                               TEST(no_rows_are_no_work),
                               TEST(a_shape_that_does_not_fit_is_refused_by_name),
                               TEST(a_cost_counts_elements_and_bytes)};
    return test_main("elementwise", cases, sizeof cases / sizeof *cases);
}
