/* Claims about how jobs are cut: rows, several row counts, segments. The oracle is counting row by row. */
#include "cut.h"
#include "support.h"
#include <stdlib.h>
#include <string.h>

START_TEST(sizes_differ_by_at_most_one_and_none_is_empty) {
    for (uint64_t rows = 1; rows <= 70; rows++)
        for (uint64_t m = 1; m <= 80; m++) {
            uint64_t parts = sl_split_rows(rows, m, 0, NULL, NULL), next = 0, before = UINT64_MAX;
            ck_assert_uint_eq(parts, m < rows ? m : rows);
            for (uint64_t i = 0; i < parts; i++) {
                uint64_t first, n;
                ck_assert_uint_eq(sl_split_rows(rows, m, i, &first, &n), parts);
                ck_assert_uint_eq(first, next);
                ck_assert(n >= rows / parts && n <= rows / parts + 1 && n >= 1);
                ck_assert_msg(n <= before, "%u rows in %u: the larger come first", (unsigned)rows, (unsigned)m);
                before = n;
                next += n;
            }
            ck_assert_uint_eq(next, rows);
        }
}
END_TEST

START_TEST(a_part_past_the_last_is_empty) {
    uint64_t first, n;
    ck_assert_uint_eq(sl_split_rows(3, 5, 3, &first, &n), 3);
    ck_assert_uint_eq(first, 3);
    ck_assert_uint_eq(n, 0);
    ck_assert_uint_eq(sl_split_rows(0, 5, 0, &first, &n), 0);
    ck_assert_uint_eq(n, 0);
}
END_TEST

START_TEST(the_largest_numbers_do_not_wrap) {
    uint64_t first, n, rows = UINT64_MAX, m = UINT64_MAX - 1;
    ck_assert_uint_eq(sl_split_rows(rows, m, m - 1, &first, &n), m);
    ck_assert_uint_eq(n, 1);
    ck_assert_uint_eq(first, UINT64_MAX - 1);
    sl_split_rows(rows, 2, 1, &first, &n);
    ck_assert_uint_eq(first, UINT64_MAX / 2 + 1);
    ck_assert_uint_eq(n, UINT64_MAX / 2);
}
END_TEST

static sl_plan plan_of(uint32_t max_rows, uint32_t max_tokens) {
    static char rows[] = "rows", tokens[] = "tokens";
    return (sl_plan){.n_row_counts = max_tokens ? 2 : 1,
                     .max_rows = {max_rows, max_tokens},
                     .row_names = {rows, tokens},
                     .options.max_segments = 4,
                     .has_segments = true};
}

static uint64_t count(const sl_plan *plan, uint64_t rows, uint64_t tokens, uint32_t wanted) {
    uint64_t counts[SL_MAX_ROW_COUNTS] = {rows, tokens}, m = 0;
    ck_assert_int_eq(sli_cut_count(plan, counts, wanted, &m), SL_OK);
    return m;
}

START_TEST(a_job_has_as_many_parts_as_asked_but_no_fewer_than_fit) {
    sl_plan plan = plan_of(8, 0);
    ck_assert_uint_eq(count(&plan, 1, 0, 0), 1);
    ck_assert_uint_eq(count(&plan, 8, 0, 0), 1);
    ck_assert_uint_eq(count(&plan, 9, 0, 0), 2);
    ck_assert_uint_eq(count(&plan, 100, 0, 0), 13);
    ck_assert_uint_eq(count(&plan, 100, 0, 20), 20);
    ck_assert_uint_eq(count(&plan, 100, 0, 3), 13);
    ck_assert_uint_eq(count(&plan, 5, 0, 1000), 5);
}
END_TEST

START_TEST(each_row_count_has_its_own_limit) {
    sl_plan plan = plan_of(8, 3);
    ck_assert_uint_eq(count(&plan, 8, 3, 0), 1);
    ck_assert_uint_eq(count(&plan, 8, 7, 0), 3);
    ck_assert_uint_eq(count(&plan, 40, 3, 0), 5);
    uint64_t counts[SL_MAX_ROW_COUNTS] = {2, 7}, m;
    ck_assert_int_eq(sli_cut_count(&plan, counts, 0, &m), SL_INVALID);
    ck_assert_ptr_nonnull(strstr(sl_last_error(), "'tokens'"));
}
END_TEST

/* A job of these segments in m parts; the segments of part i. */
typedef struct cutter {
    sl_plan plan;
    sl_job job;
    void *io[1];
    sli_batch batch;
    sl_segment out[64];
} cutter;

static void start(cutter *c, sl_segment *segments, uint32_t n, uint64_t m) {
    memset(c, 0, sizeof *c);
    c->plan = plan_of(1000, 0);
    c->plan.options.max_segments = 64;
    c->job = (sl_job){.n_parts = m, .segments = segments, .n_segments = n};
    for (uint32_t s = 0; s < n; s++)
        c->job.rows[0] += (uint64_t)segments[s].n_rows;
    c->batch.io = c->io;
    ck_assert_msg(sli_cut_check_segments(&c->plan, &c->job) == SL_OK, "%s", sl_last_error());
}

static uint32_t next(cutter *c) {
    sli_cut_next(&c->plan, &c->job, &c->batch, c->out);
    ck_assert_ptr_eq(c->io[0], c->out);
    return c->batch.rows[SLI_ROWS_SEGMENTS];
}

static void expect(const sl_segment *s, int place, int position, int first_row, int n_rows) {
    ck_assert_int_eq(s->place, place);
    ck_assert_int_eq(s->position, position);
    ck_assert_int_eq(s->first_row, first_row);
    ck_assert_int_eq(s->n_rows, n_rows);
}

START_TEST(a_segment_that_is_cut_goes_on_in_the_next_micro_batch) {
    /* rows      0 1 2 3 4 5 6 | 7 8   place 3 from 10, place 1 from 0
     * parts     0 1 2 | 3 4 5 | 6 7 8 */
    sl_segment segments[] = {{3, 10, 0, 7}, {1, 0, 7, 2}};
    cutter c;
    start(&c, segments, 2, 3);
    ck_assert_uint_eq(next(&c), 1);
    expect(&c.out[0], 3, 10, 0, 3);
    ck_assert_uint_eq(next(&c), 1);
    expect(&c.out[0], 3, 13, 0, 3);
    ck_assert_uint_eq(next(&c), 2);
    expect(&c.out[0], 3, 16, 0, 1);
    expect(&c.out[1], 1, 0, 1, 2);
}
END_TEST

START_TEST(each_row_keeps_its_place_and_position) {
    uint64_t seed = test_seed();
    for (int round = 0; round < test_cases(2000); round++) {
        sl_segment segments[12];
        uint32_t n = 1 + (uint32_t)test_below(&seed, 12);
        int32_t place[600], position[600], rows = 0;
        for (uint32_t s = 0; s < n; s++) {
            segments[s] = (sl_segment){(int32_t)test_below(&seed, 9), (int32_t)test_below(&seed, 50), rows,
                                       1 + (int32_t)test_below(&seed, 20)};
            for (int32_t r = 0; r < segments[s].n_rows; r++, rows++) {
                place[rows] = segments[s].place;
                position[rows] = segments[s].position + r;
            }
        }
        cutter c;
        start(&c, segments, n, 1 + test_below(&seed, (uint64_t)rows));
        int32_t row = 0;
        for (uint64_t i = 0; i < c.job.n_parts; i++) {
            uint32_t found = next(&c);
            int32_t at = 0;
            for (uint32_t s = 0; s < found; s++) {
                ck_assert_int_eq(c.out[s].first_row, at);
                for (int32_t r = 0; r < c.out[s].n_rows; r++, at++, row++) {
                    ck_assert_int_eq(c.out[s].place, place[row]);
                    ck_assert_int_eq(c.out[s].position + r, position[row]);
                }
            }
            ck_assert_int_eq(at, (int32_t)c.batch.rows[0]);
        }
        ck_assert_int_eq(row, rows);
    }
}
END_TEST

static void refused(sl_segment *segments, uint32_t n, uint64_t m, const char *word) {
    char name[] = "cache";
    sli_plan_state state = {.name = name, .n_places = 4, .n_rows = 16};
    sl_plan plan = plan_of(1000, 0);
    plan.n_states = 1;
    plan.states = &state;
    sl_job job = {.n_parts = m, .segments = segments, .n_segments = n, .rows = {8}};
    ck_assert_int_eq(sli_cut_check_segments(&plan, &job), SL_INVALID);
    ck_assert_msg(strstr(sl_last_error(), word) != NULL, "'%s' is not in: %s", word, sl_last_error());
}

START_TEST(segments_that_are_wrong_are_refused) {
    refused((sl_segment[]){{0, 0, 1, 8}}, 1, 1, "from row 0");
    refused((sl_segment[]){{0, 0, 0, 4}, {1, 0, 5, 4}}, 2, 1, "without gaps");
    refused((sl_segment[]){{0, 0, 0, 8}, {1, 0, 8, 0}}, 2, 1, "segment 1");
    refused((sl_segment[]){{0, 0, 0, 7}}, 1, 1, "7 rows in all");
    refused((sl_segment[]){{4, 0, 0, 8}}, 1, 1, "places 0 to 3");
    refused((sl_segment[]){{-1, 0, 0, 8}}, 1, 1, "place -1");
    refused((sl_segment[]){{0, 9, 0, 8}}, 1, 1, "room for 16");
    refused((sl_segment[]){{0, INT32_MAX, 0, 8}}, 1, 1, "room for 16");
    refused((sl_segment[]){{0, 0, 0, 4}, {0, 0, 4, 4}}, 2, 1, "leaves it at 4");
    refused((sl_segment[]){{0, 0, 0, 2}, {1, 0, 2, 2}, {0, 3, 4, 4}}, 3, 4, "segment 0 of the same job");
    refused((sl_segment[]){{0, 0, 0, 1}, {1, 0, 1, 1}, {2, 0, 2, 1}, {3, 0, 3, 1}, {0, 1, 4, 4}}, 5, 1, "max_segments");
}
END_TEST

int main(void) {
    const test_case cases[] = {
        TEST(sizes_differ_by_at_most_one_and_none_is_empty),
        TEST(a_part_past_the_last_is_empty),
        TEST(the_largest_numbers_do_not_wrap),
        TEST(a_job_has_as_many_parts_as_asked_but_no_fewer_than_fit),
        TEST(each_row_count_has_its_own_limit),
        TEST(a_segment_that_is_cut_goes_on_in_the_next_micro_batch),
        TEST(each_row_keeps_its_place_and_position),
        TEST(segments_that_are_wrong_are_refused),
    };
    return test_main("split", cases, sizeof cases / sizeof *cases);
}
