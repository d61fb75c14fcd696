/* Where layers lie: parts, splits, pins, and everything that does not add up. */
#include "support.h"
#include <model.h>
#include <stdio.h>
#include <string.h>

enum { LAYERS = 7 };

static const sl_model model = {.config = {.info = {.n_layers = LAYERS}}};
static const sl_device devices[] = {{SL_SIM, 0}, {SL_SIM, 1}, {SL_SIM, 2}, {SL_SIM, 3},
                                    {SL_SIM, 4}, {SL_SIM, 5}, {SL_SIM, 6}, {SL_SIM, 7}};

/* "0001122": the index of each layer's device. */
static void assert_placed(int n, const int *split, const char *pins, const char *expected) {
    sl_device placed[LAYERS];
    char text[LAYERS + 1] = "";
    ck_assert_msg(sl_model_place(&model, n, devices, split, pins, placed) == SL_OK, "%s", sl_last_error());
    for (int i = 0; i < LAYERS; i++) {
        ck_assert_int_eq(placed[i].kind, SL_SIM);
        text[i] = (char)('0' + placed[i].index);
    }
    ck_assert_str_eq(text, expected);
}

static void assert_refused(int n, const int *split, const char *pins, sl_status expected, const char *word) {
    sl_device placed[LAYERS];
    sl_status status = sl_model_place(&model, n, devices, split, pins, placed);
    ck_assert_msg(status == expected, "%s: %s", pins ? pins : "split", sl_status_name(status));
    ck_assert_msg(strstr(sl_last_error(), word) != NULL, "no '%s': %s", word, sl_last_error());
}

START_TEST(parts_are_even_and_the_larger_ones_first) {
    assert_placed(1, NULL, NULL, "0000000");
    assert_placed(2, NULL, NULL, "0000111");
    assert_placed(3, NULL, NULL, "0001122");
    assert_placed(5, NULL, NULL, "0011234");
    assert_placed(7, NULL, NULL, "0123456");
    assert_refused(8, NULL, NULL, SL_INVALID, "8 devices for 7 layers");
    assert_refused(0, NULL, NULL, SL_INVALID, "0 devices");
    assert_refused(-1, NULL, NULL, SL_INVALID, "-1 devices");
}
END_TEST

START_TEST(a_split_says_how_many) {
    assert_placed(3, (const int[]){1, 4, 2}, NULL, "0111122");
    assert_refused(2, (const int[]){3, 3}, NULL, SL_INVALID, "adds up to 6 layers, but the model has 7");
    assert_refused(2, (const int[]){7, 0}, NULL, SL_INVALID, "part 2 of the split is 0");
    assert_refused(2, (const int[]){8, -1}, NULL, SL_INVALID, "part 2 of the split is -1");
    assert_refused(2, (const int[]){2147483647, 2147483647}, NULL, SL_INVALID, "adds up to 4294967294");
}
END_TEST

START_TEST(pins_go_over_parts) {
    assert_placed(2, NULL, "layers.0=sim:5", "5000111");
    assert_placed(2, NULL, "layers.1-3=sim:4,layers.6=SIM:7", "0444117");
    assert_placed(1, NULL, "layers.0-6=sim:3", "3333333");
    assert_placed(2, (const int[]){6, 1}, "layers.5-5=sim:2", "0000021");
}
END_TEST

START_TEST(pins_that_are_none_are_refused_at_the_character) {
    assert_refused(1, NULL, "", SL_INVALID, "character 1");
    assert_refused(1, NULL, "layer.0=sim:0", SL_INVALID, "'layers.'");
    assert_refused(1, NULL, " layers.0=sim:0", SL_INVALID, "character 1");
    assert_refused(1, NULL, "layers.=sim:0", SL_INVALID, "character 8");
    assert_refused(1, NULL, "layers.00=sim:0", SL_INVALID, "character 8");
    assert_refused(1, NULL, "layers.-1=sim:0", SL_INVALID, "character 8");
    assert_refused(1, NULL, "layers.0-=sim:0", SL_INVALID, "character 10");
    assert_refused(1, NULL, "layers.0:sim:0", SL_INVALID, "character 9");
    assert_refused(1, NULL, "layers.0-1-2=sim:0", SL_INVALID, "character 11");
    assert_refused(1, NULL, "layers.0=sim:0,", SL_INVALID, "character 16");
    assert_refused(1, NULL, "layers.0=sim:0,,layers.1=sim:0", SL_INVALID, "character 16");
    assert_refused(1, NULL, "layers.0=", SL_INVALID, "");
    assert_refused(1, NULL, "layers.0=sim:0 ", SL_INVALID, "");
    assert_refused(1, NULL, "layers.0=xpu:0", SL_INVALID, "xpu");
}
END_TEST

START_TEST(pins_of_what_is_not_there_are_refused) {
    assert_refused(1, NULL, "layers.7=sim:0", SL_INVALID, "no layer 7: the model has layers 0 to 6");
    assert_refused(1, NULL, "layers.5-7=sim:0", SL_INVALID, "no layer 7");
    assert_refused(1, NULL, "layers.99999999999999999999=sim:0", SL_INVALID, "no layer 99999999999999999999");
    assert_refused(1, NULL, "layers.3-2=sim:0", SL_INVALID, "run backwards");
    assert_refused(1, NULL, "layers.0-2=sim:0,layers.2=sim:1", SL_INVALID, "layer 2 is pinned twice");
    assert_refused(1, NULL, "layers.0=sim:60000", SL_NO_DEVICE, "sim");
}
END_TEST

int main(void) {
    const test_case cases[] = {
        TEST(parts_are_even_and_the_larger_ones_first),
        TEST(a_split_says_how_many),
        TEST(pins_go_over_parts),
        TEST(pins_that_are_none_are_refused_at_the_character),
        TEST(pins_of_what_is_not_there_are_refused),
    };
    return test_main("place", cases, sizeof cases / sizeof *cases);
}
