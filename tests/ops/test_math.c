/* exp, tanh and erf against libm's double functions, over all floats in a stride, and between instruction sets. */
#include "cpu/math.h"
#include "isas.h"
#include "support.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

typedef void (*array_fn)(const float *x, float *y, size_t n);

enum { EXP, TANH, ERF, FUNCTIONS, BLOCK = 4096 };
static const char *const names[] = {"exp", "tanh", "erf"};
static double (*const oracles[])(double) = {exp, tanh, erf};

static array_fn function_of(const sli_math_kernels *kernels, int function) {
    return function == EXP ? kernels->exp : function == TANH ? kernels->tanh : kernels->erf;
}

static float float_of(uint32_t bits) {
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static uint32_t bits_of(float f) {
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

/* |y - exact| in units of the last place of a float of exact's size. */
static double ulps(float y, double exact) {
    int exponent;
    frexp(exact, &exponent);
    return fabs((double)y - exact) / ldexp(1.0, exponent - 24);
}

/* Every float in a long run; a number that is no divisor of 2^32, so that all exponents and endings are met. */
static uint64_t stride(void) {
    return (uint64_t)(1 + 30001 / test_cases(100));
}

static void fill(float *x, uint64_t *bits, uint64_t stride) {
    for (int i = 0; i < BLOCK; i++, *bits += stride)
        x[i] = float_of((uint32_t)*bits);
}

/* The largest error over every `stride`th float whose result is a normal number; its place in `*at`. */
static double worst_of(array_fn run, double (*oracle)(double), uint64_t stride, float *at) {
    static float x[BLOCK], y[BLOCK];
    double worst = 0;
    for (uint64_t bits = 0; bits <= UINT32_MAX;) {
        fill(x, &bits, stride);
        run(x, y, BLOCK);
        for (int i = 0; i < BLOCK; i++) {
            double exact = oracle((double)x[i]);
            if (!(fabs(exact) >= 0x1p-126 && fabs(exact) < 0x1.ffffffp+127))
                continue;
            double error = ulps(y[i], exact);
            if (error > worst || isnan(error)) {
                worst = error;
                *at = x[i];
            }
        }
    }
    return worst;
}

START_TEST(results_are_within_2_ulp_over_all_floats) {
    const sli_math_kernels *kernels = sli_math_kernels_for(best_isa());
    for (int function = 0; function < FUNCTIONS; function++) {
        float at = 0;
        double worst = worst_of(function_of(kernels, function), oracles[function], stride(), &at);
        printf("%s: at most %.3f ulp, at %a\n", names[function], worst, (double)at);
        ck_assert_msg(worst <= 2, "%s(%a) is %f ulp away", names[function], (double)at, worst);
    }
}
END_TEST

START_TEST(bits_are_the_same_in_every_instruction_set) {
    static float x[BLOCK], plain[BLOCK], other[BLOCK];
    for (sl_isa isa = SL_ISA_AVX2; isa <= best_isa(); isa++)
        for (int function = 0; function < FUNCTIONS; function++)
            for (uint64_t bits = 0; bits <= UINT32_MAX;) {
                fill(x, &bits, 5 * stride() + 2);
                function_of(sli_math_kernels_for(SL_ISA_PLAIN), function)(x, plain, BLOCK);
                function_of(sli_math_kernels_for(isa), function)(x, other, BLOCK);
                for (int i = 0; i < BLOCK; i++)
                    ck_assert_msg(bits_of(plain[i]) == bits_of(other[i]), "%s(%a): plain %a, %s %a", names[function],
                                  (double)x[i], (double)plain[i], sl_isa_name(isa), (double)other[i]);
            }
}
END_TEST

START_TEST(ends_of_the_range_are_sensible) {
    float x[] = {INFINITY, -INFINITY, NAN, 0.0f, -0.0f, 88.8f, 3e38f, -87.5f, -103.9f, -200.0f, -3e38f, 1e-40f};
    enum { N = sizeof x / sizeof *x };
    float y[N];
    for (sl_isa isa = SL_ISA_PLAIN; isa <= best_isa(); isa++) {
        const sli_math_kernels *kernels = sli_math_kernels_for(isa);
        kernels->exp(x, y, N);
        for (int i = 0; i < N; i++) /* subnormals may be off by one unit, the smallest float */
            ck_assert(isnan(x[i]) ? isnan(y[i]) : y[i] == expf(x[i]) || fabsf(y[i] - expf(x[i])) <= 0x1p-149f);
        ck_assert(y[3] == 1.0f && y[4] == 1.0f && y[5] == INFINITY && y[9] == 0.0f);
        kernels->tanh(x, y, N);
        for (int i = 0; i < N; i++)
            ck_assert(isnan(x[i]) ? isnan(y[i]) : fabsf(x[i]) > 80 ? y[i] == copysignf(1, x[i]) : y[i] == x[i]);
        ck_assert(signbit(y[4]) && !signbit(y[3]));
        kernels->erf(x, y, N);
        for (int i = 0; i < N; i++)
            ck_assert(isnan(x[i]) ? isnan(y[i]) : y[i] == erff(x[i]));
        ck_assert(signbit(y[4]) && !signbit(y[3]));
    }
}
END_TEST

START_TEST(an_element_does_not_depend_on_its_place) {
    enum { N = 70 };
    float x[N], y[N + 1], whole[N];
    for (int i = 0; i < N; i++)
        x[i] = 0.37f * (float)(i - 30);
    for (sl_isa isa = SL_ISA_PLAIN; isa <= best_isa(); isa++)
        for (int function = 0; function < FUNCTIONS; function++) {
            array_fn run = function_of(sli_math_kernels_for(isa), function);
            run(x, whole, N);
            for (int first = 0; first < N; first++)
                for (int n = 0; first + n <= N; n++) {
                    memset(y, 0x55, sizeof y);
                    run(x + first, y, (size_t)n);
                    ck_assert(!memcmp(y, whole + first, (size_t)n * sizeof *y) && bits_of(y[n]) == 0x55555555);
                }
        }
}
END_TEST

START_TEST(results_may_take_the_place_of_the_arguments) {
    float x[37], y[37];
    for (int i = 0; i < 37; i++)
        x[i] = y[i] = (float)i / 9 - 2;
    sli_exp_f32(x, x, 37);
    sli_tanh_f32(x, x, 37);
    sli_erf_f32(x, x, 37);
    const sli_math_kernels *plain = sli_math_kernels_for(SL_ISA_PLAIN);
    float z[37];
    plain->exp(y, z, 37);
    plain->tanh(z, y, 37);
    plain->erf(y, z, 37);
    ck_assert(!memcmp(x, z, sizeof x));
}
END_TEST

int main(void) {
    const test_case cases[] = {
        TEST_FOR(results_are_within_2_ulp_over_all_floats, 200),
        TEST_FOR(bits_are_the_same_in_every_instruction_set, 200),
        TEST(ends_of_the_range_are_sensible),
        TEST(an_element_does_not_depend_on_its_place),
        TEST(results_may_take_the_place_of_the_arguments),
    };
    return test_main("math", cases, sizeof cases / sizeof *cases);
}
