#include "oracle.h"

/* ---- embedding ---- */

static void check_embedding(const char *table, const char *expected, int threads) {
    oracle o = oracle_open("lookup");
    oracle_array e = oracle_get(&o, expected);
    op_call c;
    op_begin(&c, &sli_op_embedding, NULL);
    oracle_input(&c, &o, "ids");
    c.inputs[0].shape.dims[1] = 1;
    c.inputs[0].row_bytes = 4;
    oracle_input(&c, &o, table);
    float *y = op_output(&c, SL_F32, e.rows, e.columns);
    ck_assert_int_eq(op_run(&c, threads), SL_OK);
    ck_assert_mem_eq(y, e.data, (size_t)e.rows * (size_t)e.columns * sizeof *y);
    op_done(&c);
    oracle_close(&o);
}

START_TEST(embedding_copies_rows_of_every_type) {
    for (int threads = 1; threads < 3; threads++) {
        check_embedding("f32", "rows_f32", threads);
        check_embedding("f16", "rows_f16", threads);
        check_embedding("bf16", "rows_bf16", threads);
    }
}
END_TEST

static void embed_one(int32_t id, const char *words) {
    static const float table[3][2];
    op_call c;
    op_begin(&c, &sli_op_embedding, NULL);
    op_input(&c, SL_I32, 2, 1, (int32_t[]){1, id});
    op_input(&c, SL_F32, 3, 2, table);
    op_output(&c, SL_F32, 2, 2);
    ck_assert_int_ne(op_run(&c, 1), SL_OK);
    ck_assert_msg(strstr(sl_last_error(), words), "%s", sl_last_error());
    op_done(&c);
}

START_TEST(an_id_outside_of_the_table_names_row_value_and_range) {
    embed_one(3, "row 1: id 3 is not in 0 to 2, the rows of the table");
    embed_one(-1, "row 1: id -1 is not in 0 to 2");
    embed_one(INT32_MIN, "row 1: id -2147483648 is not in 0 to 2");
}
END_TEST

/* ---- position_embedding ---- */

START_TEST(positions_come_from_the_segments) {
    static const sl_segment segments[] = {{4, 9, 0, 2}, {0, 7, 2, 0}, {1, 0, 2, 1}, {0, 4, 3, 3}};
    for (int threads = 1; threads < 4; threads++) {
        oracle o = oracle_open("lookup");
        op_call c;
        op_begin(&c, &sli_op_position_embedding, NULL);
        oracle_input(&c, &o, "x");
        oracle_input(&c, &o, "f16");
        op_segments(&c, segments, 4);
        float *y = op_output(&c, SL_F32, 6, 19);
        ck_assert_int_eq(op_run(&c, threads), SL_OK);
        oracle_near(&o, "positions_f16", y, 2e-7);
        op_done(&c);
        oracle_close(&o);
    }
}
END_TEST

static void refuses_segments(const sl_segment *segments, uint32_t n, const char *words) {
    static const float x[3][2], table[5][2];
    op_call c;
    op_begin(&c, &sli_op_position_embedding, NULL);
    op_input(&c, SL_F32, 3, 2, x);
    op_input(&c, SL_F32, 5, 2, table);
    op_output(&c, SL_F32, 3, 2);
    op_segments(&c, segments, n);
    ck_assert_int_ne(op_run(&c, 1), SL_OK);
    ck_assert_msg(strstr(sl_last_error(), words), "%s", sl_last_error());
    op_done(&c);
}

START_TEST(segments_that_do_not_fit_are_refused) {
    refuses_segments((sl_segment[]){{0, 3, 0, 3}}, 1, "positions 3 to 5; the table holds 0 to 4");
    refuses_segments((sl_segment[]){{0, -1, 0, 3}}, 1, "positions -1 to 1; the table holds 0 to 4");
    refuses_segments((sl_segment[]){{0, 0, 0, 1}, {1, 0, 2, 1}}, 2, "segment 1 has first_row 2");
    refuses_segments((sl_segment[]){{0, 0, 0, 2}}, 1, "the segments hold 2 rows and the micro-batch 3");
    refuses_segments(NULL, 0, "the segments hold 0 rows and the micro-batch 3");
    refuses_segments((sl_segment[]){{0, 0, 0, 4}, {1, 0, 4, -1}}, 2, "segment 1 has first_row 4 and n_rows -1");
    refuses_segments((sl_segment[]){{0, INT32_MAX, 0, INT32_MAX}}, 1, "the table holds 0 to 4");
}
END_TEST

/* ---- gather ---- */

static sl_status gather(sl_dtype dtype, const void *x, const int32_t *index, int n, void *y) {
    op_call c;
    op_begin(&c, &sli_op_gather, NULL);
    op_input(&c, dtype, 4, 3, x);
    op_input(&c, SL_I32, n, 1, index);
    size_t bytes = (size_t)n * c.inputs[0].row_bytes;
    void *out = op_output(&c, dtype, n, 3);
    sl_status status = op_run(&c, 2);
    memcpy(y, out, bytes);
    op_done(&c);
    return status;
}

START_TEST(gather_takes_rows_of_any_type) {
    float x[4][3], y[6][3];
    uint16_t h[4][3], g[6][3];
    static const int32_t index[] = {3, 0, 0, 2, 1, 3};
    for (int i = 0; i < 12; i++) {
        x[i / 3][i % 3] = (float)i;
        h[i / 3][i % 3] = (uint16_t)(i * 7);
    }
    ck_assert_int_eq(gather(SL_F32, x, index, 6, y), SL_OK);
    ck_assert_int_eq(gather(SL_F16, h, index, 6, g), SL_OK);
    for (int r = 0; r < 6; r++) {
        ck_assert_mem_eq(y[r], x[index[r]], sizeof y[r]);
        ck_assert_mem_eq(g[r], h[index[r]], sizeof g[r]);
    }
    ck_assert_int_eq(gather(SL_F32, x, NULL, 0, y), SL_OK);
}
END_TEST

START_TEST(an_index_outside_of_the_micro_batch_names_row_value_and_range) {
    float x[4][3] = {{0}}, y[2][3];
    ck_assert_int_ne(gather(SL_F32, x, (int32_t[]){0, 4}, 2, y), SL_OK);
    ck_assert(strstr(sl_last_error(), "row 1: index 4 is not in 0 to 3, the rows of the micro-batch"));
    ck_assert_int_ne(gather(SL_F32, x, (int32_t[]){-7, 4}, 2, y), SL_OK);
    ck_assert(strstr(sl_last_error(), "row 0: index -7 is not in 0 to 3"));
}
END_TEST

/* ---- Shapes and costs ---- */

START_TEST(shapes_that_do_not_fit_are_refused) {
    sl_type ids = op_type(SL_I32, SL_ROWS, 1), wide = op_type(SL_I32, SL_ROWS, 2), x = op_type(SL_F32, SL_ROWS, 8);
    sl_type table = op_type(SL_F16, 100, 8), narrow = op_type(SL_F16, 100, 7), out;
    sl_type other = op_type(SL_F32, SL_ROWS - 1, 8), index = op_type(SL_I32, SL_ROWS - 1, 1);
    ck_assert_int_eq(op_shape(&sli_op_embedding, NULL, 2, (sl_type[]){ids, table}, 2, &out), SL_OK);
    ck_assert(out.dtype == SL_F32 && out.shape.dims[0] == SL_ROWS && out.shape.dims[1] == 8);
    op_refuses(&sli_op_embedding, NULL, 2, (sl_type[]){wide, table}, 2, "input 0 (ids) is [rows, 2] i32");
    op_refuses(&sli_op_embedding, NULL, 2, (sl_type[]){ids, table}, 0, "it is no weight");
    ck_assert_int_eq(op_shape(&sli_op_position_embedding, NULL, 2, (sl_type[]){x, table}, 2, &out), SL_OK);
    op_refuses(&sli_op_position_embedding, NULL, 2, (sl_type[]){x, narrow}, 2,
               "input 1 (table) is [100, 7] f16; expected a weight [n, 8] in f32, f16 or bf16");
    op_refuses(&sli_op_position_embedding, NULL, 2, (sl_type[]){other, table}, 2, "SL_ROWS as its leading dimension");
    ck_assert_int_eq(op_shape(&sli_op_gather, NULL, 2, (sl_type[]){x, index}, 0, &out), SL_OK);
    ck_assert(out.dtype == SL_F32 && out.shape.dims[0] == SL_ROWS - 1 && out.shape.dims[1] == 8);
    op_refuses(&sli_op_gather, NULL, 2, (sl_type[]){x, x}, 0, "input 1 (index) is [rows, 8] f32");
    op_refuses(&sli_op_gather, NULL, 2, (sl_type[]){table, index}, 1, "input 0 (x) is [100, 8] f16");
}
END_TEST

START_TEST(a_cost_counts_only_the_rows_that_are_looked_up) {
    op_call c;
    sl_cost cost;
    op_begin(&c, &sli_op_embedding, NULL);
    op_input(&c, SL_I32, 5, 1, NULL);
    op_input(&c, SL_BF16, 1000, 8, NULL);
    op_output(&c, SL_F32, 5, 8);
    c.op->cost(&c.call, &cost);
    ck_assert(cost.operations == 0 && cost.bytes_read == 5 * 4 + 5 * 16 && cost.bytes_written == 5 * 32);
    op_done(&c);
}
END_TEST

int main(void) {
    const test_case cases[] = {
        TEST(embedding_copies_rows_of_every_type), TEST(an_id_outside_of_the_table_names_row_value_and_range),
        TEST(positions_come_from_the_segments),    TEST(segments_that_do_not_fit_are_refused),
        TEST(gather_takes_rows_of_any_type),       TEST(an_index_outside_of_the_micro_batch_names_row_value_and_range),
        TEST(shapes_that_do_not_fit_are_refused),  TEST(a_cost_counts_only_the_rows_that_are_looked_up)};
    return test_main("lookup", cases, sizeof cases / sizeof *cases);
}
