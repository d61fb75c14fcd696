#include "cpu/vector_kernels.h"
#include "oracle.h"

static void check(const sl_op *op, const void *attributes, const char *const *inputs, const char *expected,
                  double tolerance) {
    oracle o = oracle_open("rows");
    op_call c;
    op_begin(&c, op, attributes);
    for (; *inputs; inputs++)
        oracle_input(&c, &o, *inputs);
    float *y = op_output(&c, SL_F32, c.inputs[0].shape.dims[0], c.inputs[0].shape.dims[1]);
    for (int i = 1; i < c.call.n_inputs; i++) /* the weights of a wider row are cut */
        c.inputs[i].shape.dims[1] = c.inputs[0].shape.dims[1];
    ck_assert_int_eq(op_run(&c, 2), SL_OK);
    oracle_near(&o, expected, y, tolerance);
    op_done(&c);
    oracle_close(&o);
}

#define INPUTS(...)                                                                                                    \
    (const char *const[]) {                                                                                            \
        __VA_ARGS__, NULL                                                                                              \
    }

START_TEST(softmax_is_numpys) {
    check(&sli_op_softmax, NULL, INPUTS("x"), "softmax", 2e-7);
    check(&sli_op_softmax, NULL, INPUTS("wide"), "softmax_wide", 2e-7);
}
END_TEST

START_TEST(rms_norm_is_numpys) {
    check(&sli_op_rms_norm, &(sli_norm){1e-5f}, INPUTS("x", "weight"), "rms_norm", 6e-7);
    check(&sli_op_rms_norm, &(sli_norm){1e-5f}, INPUTS("x", "weight_bf16"), "rms_norm_bf16", 6e-7);
}
END_TEST

START_TEST(layer_norm_is_numpys) {
    sli_norm a = {1e-5f};
    check(&sli_op_layer_norm, &a, INPUTS("x", "weight", "bias"), "layer_norm", 1e-6);
    check(&sli_op_layer_norm, &a, INPUTS("x", "weight"), "layer_norm_plain", 1e-6);
    check(&sli_op_layer_norm, &a, INPUTS("x", "weight_bf16", "bias_f16"), "layer_norm_f16", 1e-6);
}
END_TEST

/* At 1000 an f32 is a multiple of 6e-5: the mean cannot be nearer, but the sum of squares must not cancel. */
START_TEST(layer_norm_holds_where_the_mean_is_far_from_0) {
    sli_norm a = {1e-5f};
    check(&sli_op_layer_norm, &a, INPUTS("far", "weight", "bias"), "layer_norm_far", 2e-4);
    check(&sli_op_layer_norm, &a, INPUTS("far", "weight"), "layer_norm_plain_far", 2e-4);
}
END_TEST

/* ---- Sameness ---- */

static void run_row(const sli_row_kernels *k, int f, const float *x, const float *w, const float *b, float *y,
                    size_t n) {
    if (f == 0)
        k->softmax(x, y, n);
    else if (f == 1)
        k->rms_norm(x, w, 1e-5f, y, n);
    else if (f == 2)
        k->layer_norm(x, w, b, 1e-5f, y, n);
    else
        k->weigh(x, k->largest(x, n), 0.7f, y, n);
}

START_TEST(every_instruction_set_gives_the_same_bits) {
    enum { MOST = 300 };
    uint64_t seed = test_seed();
    float x[MOST], w[MOST], b[MOST], y[MOST], first[MOST];
    for (int round = 0; round < test_cases(400); round++) {
        size_t n = 1 + test_below(&seed, MOST);
        for (size_t i = 0; i < n; i++) {
            x[i] = round % 4 ? 5 * op_random(&seed) : op_odd(&seed);
            w[i] = op_random(&seed);
            b[i] = op_random(&seed);
        }
        for (int f = 0; f < 4; f++)
            FOR_EACH_ISA(isa) {
                run_row(sli_rows_for(isa), f, x, w, b, y, n);
                if (isa == SL_ISA_PLAIN)
                    memcpy(first, y, n * sizeof *y);
                ck_assert_mem_eq(first, y, n * sizeof *y);
            }
    }
}
END_TEST

START_TEST(a_row_alone_and_among_others_has_the_same_bits) {
    enum { ROWS = 33, COLUMNS = 419 };
    const sl_op *const ops[] = {&sli_op_softmax, &sli_op_rms_norm, &sli_op_layer_norm};
    uint64_t seed = test_seed();
    sli_norm a = {1e-6f};
    for (int f = 0; f < 3; f++)
        for (int threads = 1; threads <= 5; threads += 2) {
            op_call c;
            op_begin(&c, ops[f], &a);
            const float *x = op_randoms(&c, &seed, ROWS * COLUMNS);
            op_input(&c, SL_F32, ROWS, COLUMNS, x);
            for (int i = 0; i < f; i++)
                op_input(&c, SL_F32, 1, COLUMNS, op_randoms(&c, &seed, COLUMNS));
            float *all = op_output(&c, SL_F32, ROWS, COLUMNS);
            ck_assert_int_eq(op_run(&c, threads), SL_OK);
            c.call.n_outputs = 0;
            float *one = op_output(&c, SL_F32, 1, COLUMNS);
            for (int r = 0; r < ROWS; r++) {
                c.inputs[0] = op_view(SL_F32, 1, COLUMNS, x + r * COLUMNS);
                ck_assert_int_eq(op_run(&c, 1), SL_OK);
                ck_assert_mem_eq(one, all + r * COLUMNS, COLUMNS * sizeof *one);
            }
            op_done(&c);
        }
}
END_TEST

/* ---- argmax ---- */

static int argmax(const float *x, int n) {
    op_call c;
    op_begin(&c, &sli_op_argmax, NULL);
    op_input(&c, SL_F32, 1, n, x);
    int32_t *y = op_output(&c, SL_I32, 1, 1), index;
    ck_assert_int_eq(op_run(&c, 1), SL_OK);
    index = *y;
    op_done(&c);
    return index;
}

START_TEST(argmax_takes_the_lowest_of_equals) {
    enum { N = 50 };
    for (int best = 0; best < N; best++) {
        float x[N];
        for (int i = 0; i < N; i++)
            x[i] = i >= best ? -1 : -2;
        ck_assert_int_eq(argmax(x, N), best);
    }
    ck_assert_int_eq(argmax((float[]){-0.0f, 0.0f}, 2), 0);
}
END_TEST

START_TEST(argmax_passes_over_nan) {
    ck_assert_int_eq(argmax((float[]){NAN, -3, NAN, -2, NAN}, 5), 3);
    ck_assert_int_eq(argmax((float[]){NAN, NAN}, 2), 0);
    ck_assert_int_eq(argmax((float[]){NAN, -INFINITY}, 2), 1);
    float wide[50] = {0};
    wide[3] = 5; /* the same lane of a vector of 16 */
    wide[19] = NAN;
    wide[35] = 4;
    ck_assert_int_eq(argmax(wide, 50), 3);
}
END_TEST

START_TEST(shapes_and_options_that_do_not_fit_are_refused) {
    sl_type x = op_type(SL_F32, SL_ROWS, 64), w = {SL_F16, {1, {64}}}, short_w = {SL_F32, {1, {63}}}, out;
    sli_norm good = {1e-5f}, bad = {-1.0f}, nan = {NAN};
    ck_assert_int_eq(op_shape(&sli_op_layer_norm, &good, 3, (sl_type[]){x, w, w}, 6, &out), SL_OK);
    op_refuses(&sli_op_rms_norm, &good, 2, (sl_type[]){x, short_w}, 2,
               "input 1 (weight) is [63] f32; expected a weight [64] in f32, f16 or bf16");
    op_refuses(&sli_op_rms_norm, &good, 2, (sl_type[]){x, w}, 0, "it is no weight");
    op_refuses(&sli_op_layer_norm, &good, 3, (sl_type[]){x, w, short_w}, 6, "input 2 (bias) is [63] f32");
    op_refuses(&sli_op_rms_norm, &bad, 2, (sl_type[]){x, w}, 2, "eps is -1");
    op_refuses(&sli_op_rms_norm, &nan, 2, (sl_type[]){x, w}, 2, "eps is nan");
    ck_assert_int_eq(op_shape(&sli_op_argmax, NULL, 1, &x, 0, &out), SL_OK);
    ck_assert(out.dtype == SL_I32 && out.shape.dims[0] == SL_ROWS && out.shape.dims[1] == 1);
}
END_TEST

int main(void) {
    const test_case cases[] = {TEST(softmax_is_numpys),
                               TEST(rms_norm_is_numpys),
                               TEST(layer_norm_is_numpys),
                               TEST(layer_norm_holds_where_the_mean_is_far_from_0),
                               TEST(every_instruction_set_gives_the_same_bits),
                               TEST(a_row_alone_and_among_others_has_the_same_bits),
                               TEST(argmax_takes_the_lowest_of_equals),
                               TEST(argmax_passes_over_nan),
                               TEST(shapes_and_options_that_do_not_fit_are_refused)};
    return test_main("rows", cases, sizeof cases / sizeof *cases);
}
