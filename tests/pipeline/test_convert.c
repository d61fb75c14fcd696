/* convert.c, against values of NumPy and of fractions (tests/oracles/convert.py), and against what the formats are:
 * sign * mantissa * 2^exponent, worked out here in double. */
#include "support.h"
#include <fenv.h>
#include <math.h>
#include <sluice/dtype.h>
#include <sluice/status.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#if defined __SSE2__
#include <xmmintrin.h>
#endif

/* Check tells its parent of every ck_assert: too slow for each of a million values. */
#define EXPECT(condition, ...)                                                                                         \
    do {                                                                                                               \
        if (!(condition))                                                                                              \
            ck_abort_msg(__VA_ARGS__);                                                                                 \
    } while (0)

typedef struct format { /* of 16 bits */
    sl_dtype dtype;
    int mantissa_bits, bias;
} format;

static const format f16 = {SL_F16, 10, 15}, bf16 = {SL_BF16, 7, 127};

static uint32_t exponent_mask(const format *f) {
    return 0x7fffu >> f->mantissa_bits << f->mantissa_bits;
}

static bool is_nan16(const format *f, uint32_t bits) {
    return (bits & 0x7fffu) > exponent_mask(f);
}

/* What the bits mean, by the definition of the format. Finite or infinite. */
static double meaning(const format *f, uint32_t bits) {
    uint32_t rest = bits & 0x7fffu, mantissa = rest & ((1u << f->mantissa_bits) - 1u);
    int exponent = (int)(rest >> f->mantissa_bits);
    double value;
    if (rest == exponent_mask(f))
        value = INFINITY;
    else if (exponent == 0)
        value = ldexp(mantissa, 1 - f->bias - f->mantissa_bits);
    else
        value = ldexp(mantissa + (1u << f->mantissa_bits), exponent - f->bias - f->mantissa_bits);
    return bits & 0x8000u ? -value : value;
}

static float float_of(uint32_t bits) {
    float value;
    memcpy(&value, &bits, 4);
    return value;
}

static uint32_t bits_of(float value) {
    uint32_t bits;
    memcpy(&bits, &value, 4);
    return bits;
}

static uint16_t narrow(const format *f, uint32_t bits) {
    uint16_t result = 0xaaaa;
    EXPECT(sl_convert(f->dtype, &result, SL_F32, &bits, 1) == SL_OK, "%s", sl_last_error());
    return result;
}

static uint32_t widen(const format *f, uint16_t bits) {
    uint32_t result = 0xaaaaaaaa;
    EXPECT(sl_convert(SL_F32, &result, f->dtype, &bits, 1) == SL_OK, "%s", sl_last_error());
    return result;
}

static void all_widen_to_their_meaning(const format *f) {
    for (uint32_t bits = 0; bits < 65536; bits++) {
        uint32_t wide = widen(f, (uint16_t)bits);
        if (is_nan16(f, bits))
            EXPECT(isnan(float_of(wide)) && wide >> 31 == bits >> 15, "%04x: %08x", bits, wide);
        else
            EXPECT(wide == bits_of((float)meaning(f, bits)), "%04x: %08x", bits, wide);
    }
}

static void all_come_back(const format *f) {
    for (uint32_t bits = 0; bits < 65536; bits++)
        EXPECT(narrow(f, widen(f, (uint16_t)bits)) == bits, "%04x", bits);
}

/* Of each two neighbours the middle goes to the even one, and what lies on either side of it to the nearer one. The
 * middle between the largest number and what would follow it goes to infinity. */
static void each_middle_is_rounded_to_even(const format *f) {
    uint32_t infinity = exponent_mask(f);
    for (uint32_t bits = 0; bits < infinity; bits++) {
        double low = meaning(f, bits), step = low - meaning(f, bits - 1);
        double high = bits + 1 < infinity ? meaning(f, bits + 1) : low + step;
        float middle = (float)(low / 2 + high / 2);
        EXPECT((double)middle == low / 2 + high / 2, "the middle above %04x is no float", bits);
        uint32_t even = bits % 2 ? bits + 1 : bits;
        for (uint32_t sign = 0; sign < 2; sign++) {
            uint32_t m = bits_of(middle) | sign << 31, s = sign << 15;
            EXPECT(narrow(f, m) == (s | even), "middle above %04x", s | bits);
            EXPECT(narrow(f, m - 1) == (s | bits), "below the middle above %04x", s | bits);
            EXPECT(narrow(f, m + 1) == (s | (bits + 1)), "beyond the middle above %04x", s | bits);
        }
    }
}

START_TEST(every_f16_widens_to_what_its_bits_mean) {
    all_widen_to_their_meaning(&f16);
}
END_TEST

START_TEST(every_bf16_widens_to_what_its_bits_mean) {
    all_widen_to_their_meaning(&bf16);
}
END_TEST

START_TEST(every_f16_comes_back_from_f32_with_its_bits) {
    all_come_back(&f16);
}
END_TEST

START_TEST(every_bf16_comes_back_from_f32_with_its_bits) {
    all_come_back(&bf16);
}
END_TEST

START_TEST(f32_to_f16_is_nearest_even_at_every_boundary) {
    each_middle_is_rounded_to_even(&f16);
}
END_TEST

START_TEST(f32_to_bf16_is_nearest_even_at_every_boundary) {
    each_middle_is_rounded_to_even(&bf16);
}
END_TEST

/* Rounding is monotonic, so that boundaries that are right leave no room for a wrong value between them. */
START_TEST(a_larger_f32_never_gives_a_smaller_f16_or_bf16) {
    uint64_t seed = test_seed();
    for (int n = test_cases(2000000); n > 0; n--) {
        uint32_t a = (uint32_t)test_below(&seed, 0x7f800001), b = a + (uint32_t)test_below(&seed, 1 << 14);
        b = b > 0x7f800000 ? 0x7f800000 : b;
        EXPECT(narrow(&f16, a) <= narrow(&f16, b) && narrow(&bf16, a) <= narrow(&bf16, b), "%08x, %08x", a, b);
    }
}
END_TEST

START_TEST(values_of_numpy_and_of_fractions_are_met) {
    char *text = test_read_file(TEST_DATA "/convert.tsv", NULL);
    int rows = 0;
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
        unsigned bits, half, brain;
        if (sscanf(line, "%x\t%x\t%x", &bits, &half, &brain) != 3)
            continue;
        EXPECT(narrow(&f16, bits) == half, "f16 of %08x: %04x, not %04x", bits, narrow(&f16, bits), half);
        EXPECT(narrow(&bf16, bits) == brain, "bf16 of %08x: %04x, not %04x", bits, narrow(&bf16, bits), brain);
        rows++;
    }
    ck_assert_int_gt(rows, 10000);
    free(text);
}
END_TEST

START_TEST(nan_stays_nan_with_its_sign) {
    uint64_t seed = test_seed();
    for (int n = 0; n < 100000; n++) {
        uint32_t payload = 1u << test_below(&seed, 23);
        payload |= n % 2 ? (uint32_t)test_below(&seed, 1 << 23) : 0;
        uint32_t bits = 0x7f800000u | payload | (uint32_t)test_below(&seed, 2) << 31;
        uint16_t half = narrow(&f16, bits), brain = narrow(&bf16, bits);
        EXPECT(is_nan16(&f16, half) && half >> 15 == bits >> 31, "%08x: %04x", bits, half);
        EXPECT(is_nan16(&bf16, brain) && brain >> 15 == bits >> 31, "%08x: %04x", bits, brain);
    }
}
END_TEST

/* Between the two types of 16 bits: nearest, found by trying every value of the target. */
static uint32_t nearest(const format *f, double value) {
    uint32_t low = 0, high = exponent_mask(f);
    double magnitude = fabs(value);
    while (high - low > 1) {
        uint32_t mid = (low + high) / 2;
        if (meaning(f, mid) <= magnitude)
            low = mid;
        else
            high = mid;
    }
    double step = meaning(f, low) - meaning(f, low - 1); /* of the largest number: what would follow it */
    double above = high == exponent_mask(f) ? meaning(f, low) + step : meaning(f, high);
    double down = magnitude - meaning(f, low), up = above - magnitude;
    uint32_t bits = isinf(magnitude) ? exponent_mask(f) : down < up || (down == up && low % 2 == 0) ? low : high;
    return bits | (signbit(value) ? 0x8000u : 0);
}

static void all_convert_to_the_nearest(const format *to, const format *from) {
    for (uint32_t bits = 0; bits < 65536; bits++) {
        uint16_t source = (uint16_t)bits, result = 0;
        EXPECT(sl_convert(to->dtype, &result, from->dtype, &source, 1) == SL_OK, "%s", sl_last_error());
        if (is_nan16(from, bits))
            EXPECT(is_nan16(to, result) && result >> 15 == source >> 15, "%04x: %04x", bits, result);
        else
            EXPECT(result == nearest(to, meaning(from, bits)), "%04x: %04x", bits, result);
    }
}

START_TEST(every_bf16_converts_to_the_nearest_f16) {
    all_convert_to_the_nearest(&f16, &bf16);
}
END_TEST

START_TEST(every_f16_converts_to_the_nearest_bf16) {
    all_convert_to_the_nearest(&bf16, &f16);
}
END_TEST

/* Subnormals would be zeroes, and ties would go up, if the processor's modes had a say. */
START_TEST(the_modes_of_the_thread_have_no_say) {
    ck_assert_int_eq(fesetround(FE_UPWARD), 0);
#if defined __SSE2__
    _mm_setcsr(_mm_getcsr() | 0x8040); /* flush to zero, subnormals are zero */
#endif
    ck_assert_uint_eq(narrow(&f16, 0x33000001), 1);      /* just above half of the smallest f16 */
    ck_assert_uint_eq(narrow(&f16, 0x33000000), 0);      /* half of it */
    ck_assert_uint_eq(narrow(&f16, 0x3f801000), 0x3c00); /* 1 + half a step */
    ck_assert_uint_eq(narrow(&bf16, 0x00008000), 0);
    ck_assert_uint_eq(narrow(&bf16, 0x00018000), 2);
    ck_assert_uint_eq(widen(&bf16, 1), 0x00010000);
    ck_assert_uint_eq(widen(&f16, 1), 0x33800000);
}
END_TEST

/* Any count, any alignment, and nothing beside what was asked for is written. */
START_TEST(arrays_convert_as_their_elements_do) {
    static const sl_dtype types[] = {SL_F32, SL_F16, SL_BF16};
    static const size_t bytes[] = {4, 2, 2};
    uint64_t seed = test_seed();
    for (int n = test_cases(3000); n > 0; n--) {
        size_t a = test_below(&seed, 3), b = test_below(&seed, 3), count = test_below(&seed, 70);
        unsigned char source[400], whole[400], one[8];
        for (size_t i = 0; i < sizeof source; i++)
            source[i] = (unsigned char)test_below(&seed, 256);
        memset(whole, 0x5a, sizeof whole);
        size_t from = test_below(&seed, 7), to = 1 + test_below(&seed, 7);
        ck_assert_int_eq(sl_convert(types[b], whole + to, types[a], source + from, count), SL_OK);
        for (size_t i = 0; i < count; i++) {
            ck_assert_int_eq(sl_convert(types[b], one, types[a], source + from + i * bytes[a], 1), SL_OK);
            ck_assert_mem_eq(one, whole + to + i * bytes[b], bytes[b]);
        }
        ck_assert(whole[to - 1] == 0x5a && whole[to + count * bytes[b]] == 0x5a);
    }
}
END_TEST

START_TEST(the_same_type_copies_and_other_pairs_are_refused) {
    int32_t in[3] = {1, -2, INT32_MAX}, out[3] = {0};
    ck_assert_int_eq(sl_convert(SL_I32, out, SL_I32, in, 3), SL_OK);
    ck_assert_mem_eq(in, out, sizeof in);
    ck_assert_int_eq(sl_convert(SL_F32, NULL, SL_F32, NULL, 0), SL_OK);
    memset(out, 0, sizeof out);
    ck_assert_int_eq(sl_convert(SL_F32, out, SL_I32, in, 3), SL_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(sl_last_error(), "i32 cannot be converted to f32"));
    ck_assert_int_eq(sl_convert(SL_I32, out, SL_F16, in, 3), SL_UNSUPPORTED);
    ck_assert_int_eq(sl_convert(SL_DTYPES, out, SL_F32, in, 3), SL_UNSUPPORTED);
    ck_assert_int_eq(sl_convert(SL_DTYPES, out, SL_DTYPES, in, 3), SL_INVALID);
    ck_assert(out[0] == 0 && out[2] == 0);
}
END_TEST

int main(void) {
    const test_case cases[] = {
        TEST(every_f16_widens_to_what_its_bits_mean),
        TEST(every_bf16_widens_to_what_its_bits_mean),
        TEST(every_f16_comes_back_from_f32_with_its_bits),
        TEST(every_bf16_comes_back_from_f32_with_its_bits),
        TEST(f32_to_f16_is_nearest_even_at_every_boundary),
        TEST(f32_to_bf16_is_nearest_even_at_every_boundary),
        TEST(a_larger_f32_never_gives_a_smaller_f16_or_bf16),
        TEST(values_of_numpy_and_of_fractions_are_met),
        TEST(nan_stays_nan_with_its_sign),
        TEST(every_bf16_converts_to_the_nearest_f16),
        TEST(every_f16_converts_to_the_nearest_bf16),
        TEST(the_modes_of_the_thread_have_no_say),
        TEST(arrays_convert_as_their_elements_do),
        TEST(the_same_type_copies_and_other_pairs_are_refused),
    };
    return test_main("convert", cases, sizeof cases / sizeof *cases);
}
