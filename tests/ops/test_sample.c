#include "oracle.h"
#include "philox.h"

/* ---- The generator ---- */

/* kat_vectors of Random123 1.14, philox4x32 with 10 rounds. */
START_TEST(philox_gives_the_published_numbers) {
    static const struct {
        uint32_t counter[4], key[2], expected[4];
    } known[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         {0xffffffff, 0xffffffff},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        sli_philox counter;
        memcpy(counter.word, known[i].counter, sizeof counter.word);
        sli_philox drawn = sli_philox_draw(counter, known[i].key[0], known[i].key[1]);
        ck_assert_mem_eq(drawn.word, known[i].expected, sizeof drawn.word);
    }
}
END_TEST

START_TEST(a_uniform_number_uses_every_part_of_its_key) {
    double u = sli_philox_uniform(1, 2, 3, 4);
    ck_assert(u >= 0 && u < 1);
    ck_assert(u == sli_philox_uniform(1, 2, 3, 4));
    ck_assert(u != sli_philox_uniform(0, 2, 3, 4) && u != sli_philox_uniform(1, 0, 3, 4));
    ck_assert(u != sli_philox_uniform(1, 2, 0, 4) && u != sli_philox_uniform(1, 2, 3, 0));
    ck_assert(sli_philox_uniform(0, 0, 0, 0) == (0xe169c58d6627e8d5ull >> 11) * 0x1p-53);
}
END_TEST

/* ---- Drawing ---- */

typedef struct params {
    uint64_t seed;
    int sequence, top_k;
    float temperature, top_p;
} params;

/* Draws for positions 0 to rows - 1 from the same logits (NULL rows: from `rows` rows of them). */
static sl_status sample(const float *logits, int n, bool one_row, const params *p, int rows, int threads,
                        int32_t *ids) {
    op_call c;
    op_begin(&c, &sli_op_sample, NULL);
    float *all = op_memory(&c, (size_t)(rows * n) * sizeof *all);
    int32_t *ints = op_memory(&c, (size_t)rows * SL_SAMPLE_INTS * sizeof *ints);
    float *floats = op_memory(&c, (size_t)rows * SL_SAMPLE_FLOATS * sizeof *floats);
    for (int r = 0; r < rows; r++) {
        memcpy(all + r * n, logits + (one_row ? 0 : r * n), (size_t)n * sizeof *all);
        int32_t *i = ints + r * SL_SAMPLE_INTS;
        i[SL_SAMPLE_SEED_LOW] = (int32_t)(uint32_t)p->seed;
        i[SL_SAMPLE_SEED_HIGH] = (int32_t)(uint32_t)(p->seed >> 32);
        i[SL_SAMPLE_SEQUENCE] = p->sequence;
        i[SL_SAMPLE_POSITION] = r;
        i[SL_SAMPLE_TOP_K] = p->top_k;
        floats[r * SL_SAMPLE_FLOATS + SL_SAMPLE_TEMPERATURE] = p->temperature;
        floats[r * SL_SAMPLE_FLOATS + SL_SAMPLE_TOP_P] = p->top_p;
    }
    op_input(&c, SL_F32, rows, n, all);
    op_input(&c, SL_I32, rows, SL_SAMPLE_INTS, ints);
    op_input(&c, SL_F32, rows, SL_SAMPLE_FLOATS, floats);
    int32_t *out = op_output(&c, SL_I32, rows, 1);
    sl_status status = op_run(&c, threads);
    memcpy(ids, out, (size_t)rows * sizeof *ids);
    op_done(&c);
    return status;
}

/* What the header says, by sorting: which ids are kept, and their chances. */
static void chances(const float *logits, int n, const params *p, double *chance) {
    int *order = malloc((size_t)n * sizeof *order);
    double total = 0, sum = 0;
    for (int i = 0; i < n; i++) {
        int at = i;
        for (; at && logits[order[at - 1]] < logits[i]; at--)
            order[at] = order[at - 1];
        order[at] = i;
    }
    int kept = p->top_k && p->top_k < n ? p->top_k : n;
    memset(chance, 0, (size_t)n * sizeof *chance);
    for (int i = 0; i < kept; i++)
        total += exp(((double)logits[order[i]] - (double)logits[order[0]]) / (double)p->temperature);
    for (int i = 0; i < kept && (i == 0 || p->top_p == 0 || sum < (double)p->top_p * total * (1 - 1e-6)); i++)
        sum += chance[order[i]] = exp(((double)logits[order[i]] - (double)logits[order[0]]) / (double)p->temperature);
    for (int i = 0; i < n; i++)
        chance[i] /= sum;
    free(order);
}

/* Chi-square of the counts of many draws. Its mean is the degrees of freedom f, its deviation sqrt(2 f); the seeds are
 * fixed, so this either always passes or never. */
static void check_frequencies(const params *p, uint64_t state) {
    enum { N = 12, DRAWS = 5000 };
    float logits[N];
    double chance[N], chi = 0;
    int counts[N] = {0}, degrees = -1;
    int32_t *ids = malloc(DRAWS * sizeof *ids);
    for (int i = 0; i < N; i++)
        logits[i] = op_random(&state);
    logits[7] = logits[3]; /* equal ones */
    ck_assert_int_eq(sample(logits, N, true, p, DRAWS, 2, ids), SL_OK);
    for (int i = 0; i < DRAWS; i++) {
        ck_assert_int_ge(ids[i], 0);
        ck_assert_int_lt(ids[i], N);
        counts[ids[i]]++;
    }
    chances(logits, N, p, chance);
    for (int i = 0; i < N; i++) {
        double expected = chance[i] * DRAWS;
        ck_assert_msg(expected > 0 || !counts[i], "id %d was cut, and drawn %d times", i, counts[i]);
        if (expected > 0) {
            chi += (counts[i] - expected) * (counts[i] - expected) / expected;
            degrees++;
        }
    }
    ck_assert_msg(chi < degrees + 4 * sqrt(2.0 * degrees) + 4, "chi-square %g for %d degrees", chi, degrees);
    free(ids);
}

START_TEST(ids_are_as_frequent_as_their_chances) {
    for (uint64_t i = 0; i < 3; i++) {
        uint64_t seed = 1 + i * 0x123456789abcull;
        check_frequencies(&(params){.seed = seed, .temperature = 1}, i);
        check_frequencies(&(params){.seed = seed, .temperature = 0.5f, .top_p = 1}, i);
        check_frequencies(&(params){.seed = seed, .temperature = 1, .top_k = 5}, i);
        check_frequencies(&(params){.seed = seed, .temperature = 1.5f, .top_p = 0.8f}, i);
        check_frequencies(&(params){.seed = seed, .temperature = 1, .top_k = 6, .top_p = 0.7f, .sequence = 9}, i);
        check_frequencies(&(params){.seed = seed, .temperature = 1, .top_k = 1}, i);
        check_frequencies(&(params){.seed = seed, .temperature = 1, .top_k = 100, .top_p = 1e-9f}, i);
    }
}
END_TEST

START_TEST(top_p_keeps_the_fewest_that_reach_it) {
    const float quarter[] = {0, 0, 0, 0}; /* each 1/4: two reach 0.5, three are needed for 0.51 */
    int32_t ids[400];
    ck_assert_int_eq(sample(quarter, 4, true, &(params){.temperature = 1, .top_p = 0.5f}, 400, 1, ids), SL_OK);
    for (int i = 0; i < 400; i++)
        ck_assert_int_lt(ids[i], 2);
    int most = 0;
    ck_assert_int_eq(sample(quarter, 4, true, &(params){.temperature = 1, .top_p = 0.51f}, 400, 1, ids), SL_OK);
    for (int i = 0; i < 400; i++)
        most = ids[i] > most ? ids[i] : most;
    ck_assert_int_eq(most, 2);
}
END_TEST

START_TEST(of_equals_the_lowest_ids_are_kept) {
    const float logits[] = {1, 5, 5, 5, 2, 5};
    int32_t ids[200];
    bool seen[6] = {0};
    ck_assert_int_eq(sample(logits, 6, true, &(params){.temperature = 1, .top_k = 2}, 200, 1, ids), SL_OK);
    for (int i = 0; i < 200; i++)
        seen[ids[i]] = true;
    ck_assert(seen[1] && seen[2] && !seen[3] && !seen[5] && !seen[0] && !seen[4]);
}
END_TEST

/* So many unlikely ids that they are drawn as often as the likely ones: falling logits, so that the id that a number
 * falls on is where the sum of chances reaches it. */
START_TEST(the_id_is_where_the_number_falls) {
    enum { N = 300000, ROWS = 12 };
    float *logits = malloc(N * sizeof *logits);
    int32_t ids[ROWS];
    double total = 0;
    params p = {.seed = 3, .temperature = 0.5f, .sequence = 4};
    for (int i = 0; i < N; i++) {
        logits[i] = i < 10 ? -0.01f * (float)i : -6.2f - 1e-6f * (float)i;
        total += exp((double)logits[i] / 0.5);
    }
    ck_assert_int_eq(sample(logits, N, true, &p, ROWS, 3, ids), SL_OK);
    int unlikely = 0;
    for (int r = 0; r < ROWS; r++) {
        double left = total * sli_philox_uniform(3, 0, 4, (uint32_t)r);
        int id = 0;
        for (; left > 0; id++)
            left -= exp((double)logits[id] / 0.5);
        ck_assert_int_le(abs(ids[r] - (id - 1)), 2);
        unlikely += ids[r] >= 10;
    }
    ck_assert(unlikely > 0 && unlikely < ROWS);
    free(logits);
}
END_TEST

START_TEST(temperature_0_takes_the_largest) {
    const float logits[] = {-3, 2, NAN, 2, 1};
    int32_t ids[50];
    ck_assert_int_eq(sample(logits, 5, true, &(params){.top_k = 3, .top_p = 0.9f, .seed = 5}, 50, 2, ids), SL_OK);
    for (int i = 0; i < 50; i++)
        ck_assert_int_eq(ids[i], 1);
}
END_TEST

START_TEST(what_cannot_be_drawn_is_not) {
    const float logits[] = {-INFINITY, 0, NAN, -200, -INFINITY};
    int32_t ids[300];
    ck_assert_int_eq(sample(logits, 5, true, &(params){.temperature = 1}, 300, 1, ids), SL_OK);
    for (int i = 0; i < 300; i++)
        ck_assert_int_eq(ids[i], 1);
}
END_TEST

START_TEST(nan_is_passed_over) {
    const float logits[] = {NAN, 0, NAN, NAN, 0, NAN};
    int32_t ids[1000];
    int counts[6] = {0};
    ck_assert_int_eq(sample(logits, 6, true, &(params){.temperature = 1}, 1000, 1, ids), SL_OK);
    for (int i = 0; i < 1000; i++)
        counts[ids[i]]++;
    ck_assert_int_eq(counts[1] + counts[4], 1000);
    ck_assert(counts[1] > 400 && counts[4] > 400);
}
END_TEST

START_TEST(company_and_threads_change_no_draw) {
    enum { N = 5003, ROWS = 23 };
    uint64_t seed = test_seed();
    float *logits = malloc(sizeof *logits * N * ROWS);
    for (int i = 0; i < N * ROWS; i++)
        logits[i] = 3 * op_random(&seed);
    params p = {.seed = 77, .temperature = 0.9f, .top_p = 0.95f, .top_k = 900};
    int32_t one[ROWS], many[ROWS];
    ck_assert_int_eq(sample(logits, N, false, &p, ROWS, 1, one), SL_OK);
    for (int threads = 2; threads < 6; threads++) {
        ck_assert_int_eq(sample(logits, N, false, &p, ROWS, threads, many), SL_OK);
        ck_assert_mem_eq(one, many, sizeof one);
    }
    for (int r = 0; r < ROWS; r++) { /* the row's own position comes from its place: draw it as the last of r + 1 */
        ck_assert_int_eq(sample(logits + r * N, N, true, &p, r + 1, 3, many), SL_OK);
        ck_assert_int_eq(many[r], one[r]);
    }
    free(logits);
}
END_TEST

/* ---- What is refused ---- */

static void refuses(const float *logits, params p, const char *words) {
    int32_t ids[3];
    ck_assert_int_ne(sample(logits, 3, true, &p, 3, 2, ids), SL_OK);
    ck_assert_msg(strstr(sl_last_error(), words), "%s", sl_last_error());
}

START_TEST(params_and_logits_that_make_no_sense_name_the_row) {
    const float good[] = {0, 1, 2}, nan[] = {NAN, NAN, NAN}, infinite[] = {0, INFINITY, 1};
    refuses(good, (params){.temperature = -1}, "row 0: temperature -1 is not a number of 0 or more");
    refuses(good, (params){.temperature = NAN}, "row 0: temperature");
    refuses(good, (params){.temperature = 1, .top_p = 1.5f}, "row 0: top_p 1.5 is not in 0 to 1");
    refuses(good, (params){.temperature = 1, .top_k = -2}, "row 0: top_k -2 is not 0 (all) or more");
    refuses(nan, (params){.temperature = 1}, "row 0: the largest of its 3 logits is not finite");
    refuses(infinite, (params){.temperature = 0}, "row 0: the largest of its 3 logits is not finite");
}
END_TEST

START_TEST(the_first_bad_row_is_named_whatever_the_threads) {
    enum { N = 9000, ROWS = 12 };
    float *logits = calloc(N * ROWS, sizeof *logits);
    int32_t ids[ROWS];
    for (int r = 5; r < ROWS; r += 3)
        for (int i = 0; i < N; i++)
            logits[r * N + i] = -INFINITY;
    for (int threads = 1; threads < 7; threads++) {
        ck_assert_int_ne(sample(logits, N, false, &(params){.temperature = 1}, ROWS, threads, ids), SL_OK);
        ck_assert_msg(strstr(sl_last_error(), "row 5:"), "%s", sl_last_error());
    }
    free(logits);
}
END_TEST

START_TEST(shapes_that_do_not_fit_are_refused) {
    sl_type logits = op_type(SL_F32, SL_ROWS - 1, 100), ints = op_type(SL_I32, SL_ROWS - 1, SL_SAMPLE_INTS);
    sl_type floats = op_type(SL_F32, SL_ROWS - 1, SL_SAMPLE_FLOATS), other = op_type(SL_I32, SL_ROWS, SL_SAMPLE_INTS);
    sl_type out;
    ck_assert_int_eq(op_shape(&sli_op_sample, NULL, 3, (sl_type[]){logits, ints, floats}, 0, &out), SL_OK);
    ck_assert(out.dtype == SL_I32 && out.shape.dims[0] == SL_ROWS - 1 && out.shape.dims[1] == 1);
    op_refuses(&sli_op_sample, NULL, 3, (sl_type[]){logits, floats, floats}, 0, "input 1 (ints) is");
    op_refuses(&sli_op_sample, NULL, 3, (sl_type[]){logits, other, floats}, 0,
               "input 1 (ints) is [rows, 5] i32; expected as many rows as input 0 (logits), which is [rows of count 2, "
               "100] f32");
}
END_TEST

int main(void) {
    const test_case cases[] = {TEST(philox_gives_the_published_numbers),
                               TEST(a_uniform_number_uses_every_part_of_its_key),
                               TEST(ids_are_as_frequent_as_their_chances),
                               TEST(top_p_keeps_the_fewest_that_reach_it),
                               TEST(of_equals_the_lowest_ids_are_kept),
                               TEST(the_id_is_where_the_number_falls),
                               TEST(temperature_0_takes_the_largest),
                               TEST(what_cannot_be_drawn_is_not),
                               TEST(nan_is_passed_over),
                               TEST(company_and_threads_change_no_draw),
                               TEST(params_and_logits_that_make_no_sense_name_the_row),
                               TEST(the_first_bad_row_is_named_whatever_the_threads),
                               TEST(shapes_that_do_not_fit_are_refused)};
    return test_main("sample", cases, sizeof cases / sizeof *cases);
}
