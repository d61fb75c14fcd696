/* Building graphs: handles, names, types, and the first error, which is kept. */
#include "plans.h"

static sl_status failed(sl_graph *g, const char *word) {
    sl_status status = sl_graph_status(g);
    ck_assert_msg(status != SL_OK, "no error; expected one with '%s'", word);
    ck_assert_msg(strstr(sl_last_error(), word) != NULL, "'%s' is not in: %s", word, sl_last_error());
    sl_graph_destroy(g);
    return status;
}

START_TEST(a_graph_tells_what_it_holds) {
    sl_type type;
    sl_graph *g = sl_graph_create();
    sl_value x = sl_graph_input(g, "x", SL_F16, SL_ROWS, 8);
    sl_stage s = sl_graph_stage(g, "front", "CPU:1");
    sl_value first = join(g, s, 1, &x), second = join(g, s, 1, &first);
    sl_graph_output(g, "y", second);
    ck_assert_int_eq(sl_graph_status(g), SL_OK);
    ck_assert_int_eq(sl_graph_n_inputs(g) * 100 + sl_graph_n_outputs(g) * 10 + sl_graph_n_stages(g), 111);
    ck_assert_str_eq(sl_graph_input_name(g, 0), "x");
    ck_assert_str_eq(sl_graph_output_name(g, 0), "y");
    ck_assert_str_eq(sl_graph_stage_name(g, 0), "front");
    ck_assert_ptr_null(sl_graph_input_name(g, 1));
    ck_assert_ptr_null(sl_graph_stage_name(g, -1));
    ck_assert_int_eq(sl_graph_value_type(g, second, &type), SL_OK);
    ck_assert_int_eq(type.dtype, SL_F16);
    ck_assert(type.shape.rank == 2 && type.shape.dims[0] == SL_ROWS && type.shape.dims[1] == 8);
    ck_assert_str_eq(g->values[first.id - 1].name, "front.join");
    ck_assert_str_eq(g->values[second.id - 1].name, "y");
    ck_assert_int_eq(g->stages[0].device.index, 1);
    sl_graph_destroy(g);
}
END_TEST

START_TEST(the_first_error_is_kept) {
    sl_graph *g = sl_graph_create();
    sl_value x = sl_graph_input(g, "x", SL_F32, SL_ROWS, 0);
    ck_assert_int_eq(x.id, 0);
    char first[1024];
    ck_assert_int_eq(sl_graph_status(g), SL_INVALID);
    snprintf(first, sizeof first, "%s", sl_last_error());
    sl_stage s = sl_graph_stage(g, "s", "nonsense");
    ck_assert_int_eq(s.id, 0);
    ck_assert_int_eq(join(g, s, 1, &x).id, 0);
    sl_graph_output(g, "y", x);
    sl_fail(SL_IO, "something else");
    ck_assert_int_eq(sl_graph_status(g), SL_INVALID);
    ck_assert_str_eq(sl_last_error(), first);
    sl_plan *p = (sl_plan *)&g;
    ck_assert_int_eq(sl_plan_create(g, NULL, &p), SL_INVALID);
    ck_assert_str_eq(sl_last_error(), first);
    ck_assert_ptr_null(p);
    sl_graph_destroy(g);
}
END_TEST

START_TEST(no_graph_is_an_error_and_no_crash) {
    sl_plan *p;
    sl_value x = sl_graph_input(NULL, "x", SL_F32, SL_ROWS, 4);
    sl_stage s = sl_graph_stage(NULL, "s", "cpu");
    ck_assert_int_eq(join(NULL, s, 1, &x).id, 0);
    sl_graph_output(NULL, "y", x);
    sl_graph_destroy(NULL);
    ck_assert_int_eq(sl_graph_status(NULL), SL_INVALID);
    ck_assert_int_eq(sl_plan_create(NULL, NULL, &p), SL_INVALID);
    ck_assert_int_eq(sl_graph_n_stages(NULL), 0);
}
END_TEST

START_TEST(wrong_inputs_are_refused) {
    sl_graph *g = sl_graph_create();
    sl_graph_input(g, "x", SL_F32, SL_ROWS, -3);
    failed(g, "input 'x' has -3 in dimension 1");
    g = sl_graph_create();
    sl_graph_input(g, "x", SL_F32, 7, 3);
    failed(g, "input 'x' has 7 in dimension 0");
    g = sl_graph_create();
    sl_graph_input(g, "x", SL_F32, SL_ROWS - 1, 3);
    failed(g, "input 'x' has -2 in dimension 0");
    g = sl_graph_create();
    sl_graph_input(g, "x", (sl_dtype)99, SL_ROWS, 3);
    failed(g, "99");
    g = sl_graph_create();
    sl_graph_input(g, "", SL_F32, SL_ROWS, 3);
    failed(g, "no name");
    g = sl_graph_create();
    sl_graph_input(g, "x", SL_F32, SL_ROWS, 3);
    sl_graph_input(g, "x", SL_F32, SL_ROWS, 3);
    failed(g, "two inputs are named 'x'");
    g = sl_graph_create();
    sl_graph_input_shaped(g, "x", &(sl_type){SL_F32, {5, {SL_ROWS, 1, 1, 1}}});
    failed(g, "rank 5");
    g = sl_graph_create();
    sl_graph_input_shaped(g, "x", &(sl_type){SL_F32, {4, {SL_ROWS, INT64_MAX / 8, INT64_MAX / 8, 8}}});
    failed(g, "2^63");
}
END_TEST

START_TEST(wrong_stages_are_refused) {
    sl_graph *g = sl_graph_create();
    sl_graph_stage(g, "front", "cuda:x");
    failed(g, "stage 'front'");
    g = sl_graph_create();
    sl_graph_stage(g, "front", "cpu");
    sl_graph_stage(g, "front", "cpu");
    failed(g, "two stages are named 'front'");
    g = sl_graph_create();
    sl_graph_stage(g, NULL, "cpu");
    failed(g, "no name");
    g = sl_graph_create();
    sl_graph_stage(g, "s", NULL);
    failed(g, "stage 's'");
    g = sl_graph_create();
    sl_graph_stage_move(g, sl_graph_stage(g, "s", "cpu"), "gpu!");
    failed(g, "stage 's'");
    g = sl_graph_create();
    sl_graph_stage_move(g, (sl_stage){4}, "cpu");
    failed(g, "4 is no stage");
    g = sl_graph_create();
    sl_graph_stage_time(g, sl_graph_stage(g, "s", "cpu"), 3, -1);
    failed(g, "-1 ns");
}
END_TEST

static sl_status two_wanted(const void *attributes, int n_inputs, const sl_type *inputs, const bool *is_weight,
                            int *n_outputs, sl_type *outputs) {
    (void)attributes, (void)is_weight;
    if (n_inputs != 2)
        return sl_fail(SL_INVALID, "has %d inputs; expected 2", n_inputs);
    *n_outputs = 2;
    outputs[0] = outputs[1] = inputs[0];
    return SL_OK;
}

START_TEST(wrong_ops_are_refused) {
    static const sl_op two = {.name = "two", .shape = two_wanted, .cpu = no_kernel_call};
    static const sl_op nameless = {.shape = two_wanted};
    sl_value out[2];
    for (int which = 0; which < 8; which++) {
        sl_graph *g = sl_graph_create();
        sl_value x = sl_graph_input(g, "x", SL_F32, SL_ROWS, 4), pair[2] = {x, x};
        sl_stage s = sl_graph_stage(g, "s", "cpu"), other = sl_graph_stage(g, "other", "cpu");
        sl_state state = sl_graph_state(g, other, "cache", SL_F32, 1, 2, 3);
        if (which == 0)
            sl_graph_op1(g, s, &two, NULL, 1, &x, 0, NULL);
        if (which == 1)
            sl_graph_op1(g, s, &two, NULL, 2, pair, 0, NULL);
        if (which == 2)
            sl_graph_op(g, s, &two, NULL, 2, pair, 1, &state, 2, out);
        if (which == 3)
            sl_graph_op1(g, s, &two, NULL, 2, (sl_value[]){x, {17}}, 0, NULL);
        if (which == 4)
            sl_graph_op1(g, (sl_stage){0}, &two, NULL, 2, pair, 0, NULL);
        if (which == 5)
            sl_graph_op1(g, s, &nameless, NULL, 2, pair, 0, NULL);
        if (which == 6)
            sl_graph_op1(g, s, &two, NULL, 13, pair, 0, NULL);
        if (which == 7)
            sl_graph_op1(g, s, NULL, NULL, 2, pair, 0, NULL);
        static const char *const words[] = {"stage 's', op 'two': has 1 inputs; expected 2",
                                            "stage 's', op 'two': makes 2 outputs, and 1 were asked for",
                                            "state 'cache' belongs to stage 'other'",
                                            "input 1: 17 is no value",
                                            "two: 0 is no stage",
                                            "has no name",
                                            "13 inputs",
                                            "no op"};
        failed(g, words[which]);
    }
}
END_TEST

START_TEST(a_failing_op_makes_no_values) {
    sl_value out[2] = {{5}, {6}};
    static const sl_op two = {.name = "two", .shape = two_wanted, .cpu = no_kernel_call};
    sl_graph *g = sl_graph_create();
    sl_value x = sl_graph_input(g, "x", SL_F32, SL_ROWS, 4);
    sl_graph_op(g, sl_graph_stage(g, "s", "cpu"), &two, NULL, 1, &x, 0, NULL, 2, out);
    ck_assert_int_eq(out[0].id, 0);
    ck_assert_int_eq(out[1].id, 0);
    sl_graph_destroy(g);
}
END_TEST

START_TEST(wrong_outputs_are_refused) {
    for (int which = 0; which < 4; which++) {
        sl_graph *g = sl_graph_create();
        sl_value x = sl_graph_input(g, "x", SL_F32, SL_ROWS, 4), y = join(g, sl_graph_stage(g, "s", "cpu"), 1, &x);
        sl_graph_output(g, "y", y);
        sl_graph_output(g,
                        which == 0   ? "z"
                        : which == 1 ? "y"
                        : which == 2 ? ""
                                     : "w",
                        which == 0   ? x
                        : which == 3 ? (sl_value){9}
                                     : y);
        static const char *const words[] = {"'x' is an input", "two outputs are named 'y'", "no name", "9 is no value"};
        failed(g, words[which]);
    }
}
END_TEST

START_TEST(wrong_states_are_refused) {
    static const int64_t wrong[][3] = {{0, 1, 1}, {1, 0, 1}, {1, 1, -1}, {INT64_MAX / 2, INT64_MAX / 2, 4}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        sl_graph *g = sl_graph_create();
        sl_state s =
            sl_graph_state(g, sl_graph_stage(g, "s", "cpu"), "cache", SL_F32, wrong[i][0], wrong[i][1], wrong[i][2]);
        ck_assert_int_eq(s.id, 0);
        failed(g, "state 'cache'");
    }
}
END_TEST

START_TEST(row_counts_are_dimensions) {
    sl_type type;
    sl_graph *g = sl_graph_create();
    int64_t sequences = sl_graph_rows(g, "sequences", 8);
    ck_assert_int_eq(sequences, SL_ROWS - 1);
    sl_graph_set_rows(g, SL_ROWS, "tokens", 64);
    sl_value last = sl_graph_input(g, "last", SL_I32, sequences, 1);
    ck_assert_int_eq(sl_graph_value_type(g, last, &type), SL_OK);
    char text[SLI_TYPE_TEXT];
    ck_assert_str_eq(sli_graph_type_text(g, &type, text), "[sequences, 1] i32");
    ck_assert_int_eq(sl_graph_rows(g, "c", 0), SL_ROWS - 2);
    ck_assert_int_eq(sl_graph_rows(g, "d", 0), SL_ROWS - 3);
    ck_assert_int_eq(sl_graph_rows(g, "e", 0), 0);
    failed(g, "row count 'e' is one too many");
    g = sl_graph_create();
    sl_graph_set_rows(g, SL_ROWS - 1, "tokens", 64);
    failed(g, "-2 is no row count");
}
END_TEST

/* ---- Weights ---- */

static void count_release(void *user) {
    ++*(int *)user;
}

START_TEST(a_source_is_released_once_when_all_are_gone) {
    int released = 0;
    static const float data[4];
    sl_source source = {.memory = data, .release = count_release, .user = &released};
    sl_graph *g = sl_graph_create();
    sl_value x = sl_graph_input(g, "x", SL_F32, SL_ROWS, 2);
    sl_value w = sl_graph_weight_source(g, "w", SL_F32, 2, (int64_t[]){2, 2}, &source);
    ck_assert_int_eq(sl_graph_find_weight(g, "w").id, w.id);
    ck_assert_int_eq(sl_graph_find_weight(g, "x").id, 0);
    sl_stage a = sl_graph_stage(g, "a", "sim:0"), b = sl_graph_stage(g, "b", "sim:1");
    sl_value h = join(g, a, 2, (sl_value[]){x, w});
    sl_graph_output(g, "y", join(g, b, 2, (sl_value[]){h, w}));
    sl_plan *p = must_compile(g, NULL, NULL);
    ck_assert_int_eq(p->n_weights, 2); /* once for each device, from one source */
    ck_assert_ptr_eq(p->weights[0].data, p->weights[1].data);
    sl_graph_destroy(g);
    ck_assert_int_eq(released, 0);
    sl_plan_destroy(p);
    ck_assert_int_eq(released, 1);
}
END_TEST

START_TEST(a_refused_weight_is_released_at_once) {
    static const float data[4];
    for (int which = 0; which < 4; which++) {
        int released = 0;
        sl_source source = {.memory = data, .release = count_release, .user = &released};
        sl_graph *g = sl_graph_create();
        if (which == 0)
            sl_graph_weight_source(g, "w", SL_F32, 0, NULL, &source);
        if (which == 1)
            sl_graph_weight_source(g, "w", SL_F32, 2, (int64_t[]){2, -2}, &source);
        if (which == 2)
            sl_graph_weight_source(g, "w", SL_F32, 1, (int64_t[]){2},
                                   &(sl_source){.release = count_release, .user = &released});
        if (which == 3) {
            sl_graph_fail(g, SL_BAD_FILE, "an error before, %s", "with words");
            sl_graph_weight_source(g, "w", SL_F32, 1, (int64_t[]){4}, &source);
            ck_assert_int_eq(sl_graph_status(g), SL_BAD_FILE);
        }
        ck_assert_int_eq(released, 1);
        failed(g, which == 3 ? "an error before, with words" : "weight 'w'");
    }
}
END_TEST

START_TEST(a_weight_tensor_is_retained) {
    sl_tensor *t;
    ck_assert_int_eq(sl_tensor_create((sl_device){SL_CPU, 0}, SL_F32, 2, (int64_t[]){3, 2}, 0, &t), SL_OK);
    sl_graph *g = sl_graph_create();
    sl_value w = sl_graph_weight(g, "w", t);
    sl_type type;
    sl_tensor_release(t);
    ck_assert_int_eq(sl_graph_value_type(g, w, &type), SL_OK);
    ck_assert(type.shape.rank == 2 && type.shape.dims[0] == 3 && type.shape.dims[1] == 2);
    ck_assert_uint_eq(g->values[w.id - 1].weight->bytes, 24);
    sl_graph_destroy(g); /* the last reference: leak checkers look here */
}
END_TEST

START_TEST(depths_are_of_values_with_slots) {
    for (int which = 0; which < 6; which++) {
        static const float data[4];
        sl_graph *g = sl_graph_create();
        sl_value x = sl_graph_input(g, "x", SL_F32, SL_ROWS, 4), y = join(g, sl_graph_stage(g, "s", "cpu"), 1, &x);
        sl_value w = sl_graph_weight_source(g, "w", SL_F32, 1, (int64_t[]){4}, &(sl_source){.memory = data});
        if (which == 0)
            sl_graph_source_depth(g, x, 2);
        if (which == 1)
            sl_graph_source_depth(g, y, -1);
        if (which == 2)
            sl_graph_edge_depth(g, y, "cpu:1", 5000);
        if (which == 3)
            sl_graph_edge_depth(g, w, "cpu:1", 2);
        if (which == 4)
            sl_graph_edge_depth(g, y, "cpu:01", 2);
        if (which == 5)
            sl_graph_to(g, (sl_value){0}, "cpu:1");
        static const char *const words[] = {"'x' is an input", "-1 slots", "5000 slots",
                                            "'w' is a weight", "cpu:01",   "0 is no value"};
        failed(g, words[which]);
    }
}
END_TEST

int main(void) {
    const test_case cases[] = {
        TEST(a_graph_tells_what_it_holds),
        TEST(the_first_error_is_kept),
        TEST(no_graph_is_an_error_and_no_crash),
        TEST(wrong_inputs_are_refused),
        TEST(wrong_stages_are_refused),
        TEST(wrong_ops_are_refused),
        TEST(a_failing_op_makes_no_values),
        TEST(wrong_outputs_are_refused),
        TEST(wrong_states_are_refused),
        TEST(row_counts_are_dimensions),
        TEST(a_source_is_released_once_when_all_are_gone),
        TEST(a_refused_weight_is_released_at_once),
        TEST(a_weight_tensor_is_retained),
        TEST(depths_are_of_values_with_slots),
    };
    return test_main("graph", cases, sizeof cases / sizeof *cases);
}
