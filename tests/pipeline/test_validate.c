/* What makes a whole graph wrong: each rule is broken by a graph of its own, and the sentence says what and where. */
#include "plans.h"

static sl_status refuse(sl_graph *g, const sl_plan_options *options, const char *word) {
    sl_plan *p;
    ck_assert_int_eq(sl_graph_status(g), SL_OK);
    sl_status status = sl_plan_create(g, options, &p);
    ck_assert_msg(status != SL_OK, "accepted; expected an error with '%s'", word);
    ck_assert_msg(strstr(sl_last_error(), word) != NULL, "'%s' is not in: %s", word, sl_last_error());
    ck_assert_ptr_null(p);
    return status;
}

static void accept(sl_graph *g, const sl_plan_options *options) {
    sl_plan_destroy(must_compile(g, options, NULL));
}

START_TEST(a_cycle_is_rejected) {
    sl_graph *g = sl_graph_create();
    sl_value x = sl_graph_input(g, "x", SL_F32, SL_ROWS, 4);
    sl_stage a = sl_graph_stage(g, "a", "sim:0"), b = sl_graph_stage(g, "b", "sim:1"),
             c = sl_graph_stage(g, "c", "sim:2");
    sl_value first = join(g, a, 1, &x), second = join(g, b, 1, &first), third = join(g, c, 1, &second);
    sl_graph_output(g, "y", join(g, b, 1, &third)); /* b reads c, and c reads b */
    ck_assert_int_eq(refuse(g, NULL, "cycle"), SL_INVALID);
    bool from_b = strstr(sl_last_error(), "'b' reads 'c.join' of 'c', 'c' reads 'b.join' of 'b'");
    bool from_c = strstr(sl_last_error(), "'c' reads 'b.join' of 'b', 'b' reads 'c.join' of 'c'");
    ck_assert_msg(from_b || from_c, "%s", sl_last_error());
    sl_graph_destroy(g);
}
END_TEST

START_TEST(a_graph_without_input_or_output_is_rejected) {
    sl_graph *g = sl_graph_create();
    refuse(g, NULL, "no input");
    sl_value x = sl_graph_input(g, "x", SL_F32, SL_ROWS, 4);
    refuse(g, NULL, "no output");
    sl_stage s = sl_graph_stage(g, "s", "sim:0");
    sl_graph_output(g, "y", join(g, s, 1, &x));
    accept(g, NULL);
    sl_graph_destroy(g);
}
END_TEST

START_TEST(a_stage_without_ops_is_rejected) {
    chain c;
    make_chain(&c, 2, NULL);
    end_chain(&c);
    sl_graph_stage(c.g, "idle", "sim:3");
    refuse(c.g, NULL, "stage 'idle' has no op");
    sl_graph_destroy(c.g);
}
END_TEST

START_TEST(an_input_that_nobody_reads_is_rejected) {
    chain c;
    make_chain(&c, 2, NULL);
    end_chain(&c);
    sl_graph_input(c.g, "spare", SL_F32, SL_ROWS, 4);
    refuse(c.g, NULL, "no op reads input 'spare'");
    sl_graph_destroy(c.g);
}
END_TEST

START_TEST(a_stage_that_leads_nowhere_is_rejected) {
    chain c;
    make_chain(&c, 3, NULL);
    sl_graph_output(c.g, "y", c.values[1]);
    refuse(c.g, NULL, "stage 's2' leads to no output");
    sl_graph_destroy(c.g);
}
END_TEST

START_TEST(what_a_useful_stage_reads_is_useful) {
    sl_graph *g = sl_graph_create();
    sl_value x = sl_graph_input(g, "x", SL_F32, SL_ROWS, 4);
    sl_stage c = sl_graph_stage(g, "c", "sim:0"), d = sl_graph_stage(g, "d", "sim:1"),
             o = sl_graph_stage(g, "o", "sim:2");
    sl_value v = join(g, c, 1, &x);
    sl_graph_output(g, "y", join(g, o, 1, &v));
    sl_value late = join(g, d, 1, &x);
    join(g, c, 1, &late);
    accept(g, NULL);
    sl_graph_destroy(g);
}
END_TEST

START_TEST(unconnected_parts_are_rejected) {
    for (int joined = 0; joined < 2; joined++) {
        sl_graph *g = sl_graph_create();
        sl_value x = sl_graph_input(g, "x", SL_F32, SL_ROWS, 4), z = sl_graph_input(g, "z", SL_F32, SL_ROWS, 4);
        sl_stage a = sl_graph_stage(g, "a", "sim:0"), b = sl_graph_stage(g, "b", "sim:1");
        sl_graph_output(g, "y", join(g, a, 1, &x));
        sl_graph_output(g, "w", join(g, b, joined ? 2 : 1, (sl_value[]){z, x}));
        if (joined)
            accept(g, NULL); /* a shared input is enough */
        else
            refuse(g, NULL, "stages 'a' and 'b' are not connected");
        sl_graph_destroy(g);
    }
}
END_TEST

START_TEST(a_device_that_is_not_there_is_rejected) {
    chain c;
    make_chain(&c, 2, (int[]){0, 60000});
    end_chain(&c);
    ck_assert_int_eq(refuse(c.g, NULL, "stage 's1'"), SL_NO_DEVICE);
    sl_graph_destroy(c.g);
}
END_TEST

START_TEST(two_kinds_of_device_are_rejected) {
    sl_graph *g = sl_graph_create();
    sl_value x = sl_graph_input(g, "x", SL_F32, SL_ROWS, 4);
    sl_stage a = sl_graph_stage(g, "a", "sim:0"), b = sl_graph_stage(g, "b", "cpu:0");
    sl_value h = join(g, a, 1, &x);
    sl_graph_output(g, "y", join(g, b, 1, &h));
    ck_assert_int_eq(refuse(g, NULL, "stage 'a' is on sim:0 and stage 'b' on cpu:0"), SL_UNSUPPORTED);
    sl_graph_stage_move(g, b, "sim:1");
    accept(g, NULL);
    sl_graph_destroy(g);
}
END_TEST

START_TEST(an_op_without_a_kernel_is_rejected) {
    static const sl_op bare = {.name = "bare", .shape = same_type};
    sl_graph *g = sl_graph_create();
    sl_value x = sl_graph_input(g, "x", SL_F32, SL_ROWS, 4);
    sl_stage a = sl_graph_stage(g, "a", "cpu:0");
    sl_graph_output(g, "y", sl_graph_op1(g, a, &bare, NULL, 1, &x, 0, NULL));
    ck_assert_int_eq(refuse(g, NULL, "stage 'a', op 'bare': it has no kernel for cpu"), SL_UNSUPPORTED);
    sl_graph_stage_move(g, a, "sim:0");
    accept(g, NULL);
    sl_graph_destroy(g);
}
END_TEST

START_TEST(strict_mode_moves_only_what_was_asked_for) {
    sl_graph *g = sl_graph_create();
    static const float data[16];
    sl_plan_options strict = {.strict = true};
    sl_value x = sl_graph_input(g, "x", SL_F32, SL_ROWS, 4);
    sl_value w = sl_graph_weight_source(g, "w", SL_F32, 2, (int64_t[]){4, 4}, &(sl_source){.memory = data});
    sl_stage a = sl_graph_stage(g, "front", "sim:0"), b = sl_graph_stage(g, "back", "sim:1");
    sl_value h = join(g, a, 1, &x);
    sl_graph_output(g, "y", join(g, b, 2, (sl_value[]){h, w}));
    accept(g, NULL);
    refuse(g, &strict, "stage 'back', op 'join'"); /* stage, op, both tensors, both devices, the mend */
    static const char *const parts[] = {"'front.join' [rows, 4] f32", "sim:0", "'w' [4, 4] f32", "sim:1",
                                        "sl_graph_to(graph, value, \"sim:1\")"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        ck_assert_msg(strstr(sl_last_error(), parts[i]) != NULL, "'%s' is not in: %s", parts[i], sl_last_error());
    sl_graph_to(g, h, "sim:2");
    refuse(g, &strict, "stage 'back'");
    ck_assert_int_eq(sl_graph_to(g, h, "sim:1").id, h.id);
    accept(g, &strict);
    sl_graph_destroy(g);
}
END_TEST

START_TEST(a_depth_of_no_edge_is_rejected) {
    chain c;
    make_chain(&c, 3, NULL);
    end_chain(&c);
    sl_graph_edge_depth(c.g, c.values[0], "sim:2", 3);
    refuse(c.g, NULL, "'s0.join' 3 slots at sim:2");
    sl_graph_edge_depth(c.g, c.values[0], "sim:2", 0);
    sl_graph_edge_depth(c.g, c.values[0], "sim:1", 3);
    accept(c.g, NULL);
    sl_graph_destroy(c.g);
}
END_TEST

START_TEST(options_out_of_range_are_rejected) {
    chain c;
    make_chain(&c, 2, NULL);
    end_chain(&c);
    refuse(c.g, &(sl_plan_options){.depth = -1}, "depth is -1");
    refuse(c.g, &(sl_plan_options){.depth = 4097}, "depth is 4097");
    refuse(c.g, &(sl_plan_options){.micro_batch_rows = UINT32_MAX}, "micro_batch_rows is 4294967295");
    refuse(c.g, &(sl_plan_options){.max_segments = UINT32_MAX}, "max_segments is 4294967295");
    refuse(c.g, &(sl_plan_options){.groups = 1 << 20}, "groups is 1048576");
    refuse(c.g, &(sl_plan_options){.credits = 1 << 20}, "credits is 1048576");
    refuse(c.g, &(sl_plan_options){.route = (sl_route_choice)7}, "route is 7");
    accept(c.g, &(sl_plan_options){.depth = 4096, .window = UINT32_MAX, .staging_bytes = 1});
    sl_graph_destroy(c.g);
}
END_TEST

START_TEST(depths_without_common_factors_are_rejected) {
    chain c;
    make_chain(&c, 2, NULL);
    end_chain(&c);
    sl_graph_edge_depth(c.g, c.x, "sim:0", 4093);
    sl_graph_source_depth(c.g, c.values[0], 7);
    refuse(c.g, NULL, "'x at sim:0' has 4093, 's0.join' has 7");
    sl_graph_edge_depth(c.g, c.x, "sim:0", 4095);
    sl_graph_source_depth(c.g, c.values[0], 5); /* divides it */
    accept(c.g, NULL);
    sl_graph_destroy(c.g);
}
END_TEST

int main(void) {
    const test_case cases[] = {
        TEST(a_cycle_is_rejected),
        TEST(a_graph_without_input_or_output_is_rejected),
        TEST(a_stage_without_ops_is_rejected),
        TEST(an_input_that_nobody_reads_is_rejected),
        TEST(a_stage_that_leads_nowhere_is_rejected),
        TEST(what_a_useful_stage_reads_is_useful),
        TEST(unconnected_parts_are_rejected),
        TEST(a_device_that_is_not_there_is_rejected),
        TEST(two_kinds_of_device_are_rejected),
        TEST(an_op_without_a_kernel_is_rejected),
        TEST(strict_mode_moves_only_what_was_asked_for),
        TEST(a_depth_of_no_edge_is_rejected),
        TEST(options_out_of_range_are_rejected),
        TEST(depths_without_common_factors_are_rejected),
    };
    return test_main("validate", cases, sizeof cases / sizeof *cases);
}
