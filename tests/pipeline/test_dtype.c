/* dtype.c. */
#include "support.h"
#include <sluice/dtype.h>
#include <string.h>

static void says(const char *part) {
    ck_assert_msg(strstr(sl_last_error(), part) != NULL, "'%s' does not say '%s'", sl_last_error(), part);
}

START_TEST(every_type_has_a_row_and_parses_from_its_name) {
    for (int i = 0; i < SL_DTYPES; i++) {
        const sl_dtype_info *info = sl_dtype_get((sl_dtype)i);
        ck_assert_ptr_nonnull(info);
        ck_assert(info->name && info->block_elements > 0 && info->block_bytes > 0 && info->alignment > 0);
        ck_assert_str_eq(sl_dtype_name((sl_dtype)i), info->name);
        sl_dtype again = SL_DTYPES;
        ck_assert_int_eq(sl_dtype_parse(info->name, &again), SL_OK);
        ck_assert_int_eq(again, i);
    }
}
END_TEST

START_TEST(the_plain_types_are_what_ieee_and_c_say) {
    ck_assert(sl_dtype_get(SL_F32)->block_bytes == sizeof(float) && sl_dtype_get(SL_F32)->is_float);
    ck_assert(sl_dtype_get(SL_F16)->block_bytes == 2 && sl_dtype_get(SL_F16)->is_float);
    ck_assert(sl_dtype_get(SL_BF16)->block_bytes == 2 && sl_dtype_get(SL_BF16)->is_float);
    ck_assert(sl_dtype_get(SL_I32)->block_bytes == sizeof(int32_t) && !sl_dtype_get(SL_I32)->is_float);
    for (int i = 0; i <= SL_I32; i++)
        ck_assert(sl_dtype_get((sl_dtype)i)->block_elements == 1 && !sl_dtype_get((sl_dtype)i)->weights_only);
}
END_TEST

START_TEST(what_is_no_type_is_refused_with_the_list) {
    static const char *const bad[] = {"", "F32", "f64", "float", "f32 ", "f3", "\n"};
    sl_dtype dtype = SL_I32;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        ck_assert_int_eq(sl_dtype_parse(bad[i], &dtype), SL_INVALID);
        says("f32, f16, bf16, i32");
    }
    ck_assert_int_eq(sl_dtype_parse(NULL, &dtype), SL_INVALID);
    ck_assert_int_eq(dtype, SL_I32);
    ck_assert_ptr_null(sl_dtype_get(SL_DTYPES));
    ck_assert_ptr_null(sl_dtype_get((sl_dtype)-1));
    ck_assert_str_eq(sl_dtype_name(SL_DTYPES), "unknown");
}
END_TEST

START_TEST(a_row_is_as_many_bytes_as_its_blocks) {
    for (int i = 0; i < SL_DTYPES; i++) {
        const sl_dtype_info *info = sl_dtype_get((sl_dtype)i);
        for (int64_t blocks = 0; blocks < 1000; blocks += 7) {
            size_t bytes = 1;
            ck_assert_int_eq(sl_row_bytes((sl_dtype)i, blocks * info->block_elements, &bytes), SL_OK);
            ck_assert_uint_eq(bytes, (size_t)blocks * info->block_bytes);
        }
    }
}
END_TEST

START_TEST(a_row_that_cannot_be_is_refused) {
    size_t bytes = 42;
    ck_assert_int_eq(sl_row_bytes(SL_F32, -1, &bytes), SL_INVALID);
    says("-1 f32");
    ck_assert_int_eq(sl_row_bytes(SL_F32, INT64_MIN, &bytes), SL_INVALID);
    ck_assert_int_eq(sl_row_bytes(SL_F32, INT64_MAX / 4 + 1, &bytes), SL_INVALID);
    says("63 bits");
    ck_assert_int_eq(sl_row_bytes(SL_F16, INT64_MAX, &bytes), SL_INVALID);
    ck_assert_int_eq(sl_row_bytes(SL_DTYPES, 1, &bytes), SL_INVALID);
    ck_assert_uint_eq(bytes, 42);
    ck_assert_int_eq(sl_row_bytes(SL_F32, INT64_MAX / 4, &bytes), SL_OK);
    ck_assert_uint_eq(bytes, (size_t)INT64_MAX / 4 * 4);
}
END_TEST

int main(void) {
    const test_case cases[] = {
        TEST(every_type_has_a_row_and_parses_from_its_name),
        TEST(the_plain_types_are_what_ieee_and_c_say),
        TEST(what_is_no_type_is_refused_with_the_list),
        TEST(a_row_is_as_many_bytes_as_its_blocks),
        TEST(a_row_that_cannot_be_is_refused),
    };
    return test_main("dtype", cases, sizeof cases / sizeof *cases);
}
