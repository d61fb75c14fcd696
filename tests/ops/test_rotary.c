#include "oracle.h"

static const sl_rotary_options cases_of[] = {
    {3, 10, 10, SL_ROTARY_HALVES, 10000, 70002, SL_ROTARY_PLAIN, 0, 0, 0, 0},
    {2, 12, 12, SL_ROTARY_INTERLEAVED, 10000, 70002, SL_ROTARY_PLAIN, 0, 0, 0, 0},
    {2, 10, 6, SL_ROTARY_HALVES, 500, 70002, SL_ROTARY_PLAIN, 0, 0, 0, 0},
    {1, 11, 4, SL_ROTARY_INTERLEAVED, 10000, 70002, SL_ROTARY_PLAIN, 0, 0, 0, 0},
    {2, 64, 64, SL_ROTARY_HALVES, 500000, 70002, SL_ROTARY_LLAMA3, 8, 1, 4, 8192},
};
static const char *const names[] = {"halves", "interleaved", "partial", "partial_interleaved", "llama3"};

static const sl_segment segments[] = {{1, 70000, 0, 2}, {0, 0, 2, 3}, {2, 511, 5, 1}};

/* Reads rows [first, end) of a table in pieces of odd sizes, as a device may load it. */
static void read_rows(const sl_source *source, char *table, size_t row_bytes, size_t first, size_t end) {
    for (size_t at = first * row_bytes, n = 1; at < end * row_bytes; at += n, n = n * 3 + 2) {
        n = n < end * row_bytes - at ? n : end * row_bytes - at;
        ck_assert_int_eq(source->read(source->user, at, table + at, n), SL_OK);
    }
}

/* The table, with the rows that the segments below need; NaN elsewhere. */
static float *make_table(op_call *c, const sl_rotary_options *o) {
    sl_source source;
    size_t row_bytes = (size_t)o->rotary_dim * sizeof(float), rows = (size_t)o->max_positions;
    char *table = op_memory(c, rows * row_bytes);
    ck_assert_int_eq(sli_rotary_source(o, &source), SL_OK);
    read_rows(&source, table, row_bytes, 0, rows < 3 ? rows : 3);
    if (rows > 70001) {
        read_rows(&source, table, row_bytes, 511, 512);
        read_rows(&source, table, row_bytes, 70000, 70002);
    }
    source.release(source.user);
    return (float *)table;
}

START_TEST(heads_are_turned_as_numpy_turns_them) {
    oracle o = oracle_open("rotary");
    for (int i = 0; i < 5; i++)
        for (int threads = 1; threads < 4; threads += 2) {
            const sl_rotary_options *options = &cases_of[i];
            char x[40], y[40];
            op_call c;
            snprintf(x, sizeof x, "%s_x", names[i]);
            snprintf(y, sizeof y, "%s_y", names[i]);
            op_begin(&c, &sli_op_rotary, options);
            oracle_input(&c, &o, x);
            op_input(&c, SL_F32, options->max_positions, options->rotary_dim, make_table(&c, options));
            op_segments(&c, segments, 3);
            float *out = op_output(&c, SL_F32, 6, c.inputs[0].shape.dims[1]);
            ck_assert_int_eq(op_run(&c, threads), SL_OK);
            oracle_near(&o, y, out, 3e-7);
            op_done(&c);
        }
    oracle_close(&o);
}
END_TEST

START_TEST(a_position_past_the_table_is_named) {
    sl_rotary_options options = cases_of[0];
    options.max_positions = 4;
    float x[3][30] = {{0}};
    op_call c;
    op_begin(&c, &sli_op_rotary, &options);
    op_input(&c, SL_F32, 3, 30, x);
    op_input(&c, SL_F32, 4, 10, make_table(&c, &options));
    op_segments(&c, (sl_segment[]){{0, 2, 0, 3}}, 1);
    op_output(&c, SL_F32, 3, 30);
    ck_assert_int_ne(op_run(&c, 1), SL_OK);
    ck_assert(strstr(sl_last_error(), "positions 2 to 4; the table of angles holds 0 to 3"));
    op_done(&c);
}
END_TEST

static void refuses(sl_rotary_options o, const char *words) {
    sl_type x = op_type(SL_F32, SL_ROWS, 30);
    op_refuses(&sli_op_rotary, &o, 1, &x, 0, words);
}

START_TEST(options_that_make_no_sense_are_refused) {
    const sl_rotary_options good = cases_of[0], llama3 = cases_of[4];
    sl_rotary_options o;
    refuses((o = good, o.n_heads = 0, o), "n_heads is 0");
    refuses((o = good, o.rotary_dim = 5, o),
            "rotary_dim is 5; expected an even number from 2 to head_dim, which is 10");
    refuses((o = good, o.rotary_dim = 12, o), "rotary_dim is 12");
    refuses((o = good, o.base = -1, o), "base is -1");
    refuses((o = good, o.max_positions = 0, o), "max_positions is 0");
    refuses((o = good, o.scaling = 7, o), "scaling is 7");
    refuses((o = llama3, o.factor = 0, o), "llama3 scaling has factor 0");
    refuses((o = llama3, o.high_freq_factor = 1, o), "low_freq_factor below high_freq_factor");
    refuses((o = good, o.n_heads = 4, o), "input 0 (x) is [rows, 30] f32; expected [rows, 40] f32");
}
END_TEST

/* ---- In a graph ---- */

START_TEST(ops_with_the_same_angles_share_a_table) {
    sl_graph *g = sl_graph_create();
    sl_value x = sl_graph_input(g, "x", SL_F32, SL_ROWS, 32);
    sl_stage s = sl_graph_stage(g, "s", "cpu:0");
    sl_rotary_options q = {.n_heads = 4, .head_dim = 8, .max_positions = 64}, k = q, other = q;
    k.pairs = SL_ROTARY_INTERLEAVED;
    other.base = 500000;
    sl_value a = sl_rotary(g, s, x, &q);
    sl_value b = sl_rotary(g, s, a, &k); /* one more value: the op's, and no second table */
    ck_assert_int_eq(b.id - a.id, 1);
    sl_value c = sl_rotary(g, s, b, &other);
    ck_assert_int_eq(c.id - b.id, 2);
    ck_assert_int_ne(sl_graph_find_weight(g, "rotary table 64 x 8, base 10000").id, 0);
    ck_assert_int_eq(sl_graph_status(g), SL_OK);
    sl_graph_destroy(g);
}
END_TEST

START_TEST(wrong_options_are_the_graphs_error) {
    sl_graph *g = sl_graph_create();
    sl_value x = sl_graph_input(g, "x", SL_F32, SL_ROWS, 32);
    sl_stage s = sl_graph_stage(g, "s", "cpu:0");
    sl_rotary(g, s, x, &(sl_rotary_options){.n_heads = 4, .head_dim = 8});
    ck_assert_int_eq(sl_graph_status(g), SL_INVALID);
    ck_assert_msg(strstr(sl_last_error(), "max_positions is 0"), "%s", sl_last_error());
    sl_graph_destroy(g);
}
END_TEST

int main(void) {
    const test_case cases[] = {TEST(heads_are_turned_as_numpy_turns_them), TEST(a_position_past_the_table_is_named),
                               TEST(options_that_make_no_sense_are_refused),
                               TEST(ops_with_the_same_angles_share_a_table), TEST(wrong_options_are_the_graphs_error)};
    return test_main("rotary", cases, sizeof cases / sizeof *cases);
}
