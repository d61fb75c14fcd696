#include "cpu/vector_kernels.h"
#include "oracle.h"

typedef struct shape {
    const char *name;
    sl_attention_options options;
    int n_segments;
    sl_segment segments[3];
} shape;

static const float default_scale_20 = 0.2236068f, default_scale_8 = 0.35355339f;

/* As in tests/oracles/ops.py. */
static shape shape_of(int i) {
    const shape shapes[] = {
        {"grouped", {6, 2, 20, default_scale_20}, 3, {{2, 5, 0, 3}, {0, 0, 3, 4}, {1, 130, 7, 1}}},
        {"one_head", {1, 1, 8, default_scale_8}, 1, {{0, 0, 0, 67}}},
        {"many_keys", {2, 2, 33, 0.7f}, 1, {{0, 190, 0, 7}}},
    };
    return shapes[i];
}

/* Writes what earlier micro-batches left in the caches: NaN stays where nothing was written. */
static void fill_past(op_call *c, const oracle *o, const shape *s, int state, const char *what) {
    char name[40];
    snprintf(name, sizeof name, "%s_past_%s", s->name, what);
    oracle_array past = oracle_get(o, name);
    const sl_state_view *v = &c->states[state];
    const char *from = past.data;
    for (int i = 0; i < s->n_segments; i++) {
        size_t bytes = (size_t)s->segments[i].position * v->row_bytes;
        memcpy((char *)v->data + (size_t)s->segments[i].place * (size_t)v->n_rows * v->row_bytes, from, bytes);
        from += bytes;
    }
}

START_TEST(attention_is_numpys) {
    oracle o = oracle_open("attention");
    for (int i = 0; i < 3; i++)
        for (int threads = 1; threads <= 5; threads += 2) {
            shape s = shape_of(i);
            char name[40];
            op_call c;
            op_begin(&c, &sli_op_attention, &s.options);
            for (const char *p = "qkv"; *p; p++) {
                snprintf(name, sizeof name, "%s_%c", s.name, *p);
                oracle_input(&c, &o, name);
            }
            op_state(&c, 3, 200, c.inputs[1].shape.dims[1]);
            op_state(&c, 3, 200, c.inputs[1].shape.dims[1]);
            fill_past(&c, &o, &s, 0, "k");
            fill_past(&c, &o, &s, 1, "v");
            op_segments(&c, s.segments, (uint32_t)s.n_segments);
            float *y = op_output(&c, SL_F32, c.inputs[0].shape.dims[0], c.inputs[0].shape.dims[1]);
            ck_assert_int_eq(op_run(&c, threads), SL_OK);
            snprintf(name, sizeof name, "%s_y", s.name);
            oracle_near(&o, name, y, 3e-6);
            op_done(&c);
        }
    oracle_close(&o);
}
END_TEST

/* ---- Sameness ---- */

/* Sequences of tokens, whose q, k and v are made once; they are fed in any cut and company. */
typedef struct world {
    sl_attention_options options;
    int n_sequences, length;
    int64_t q_columns, kv_columns;
    const float *q, *k, *v; /* [n_sequences * length, columns] */
} world;

static const float *row_of(const float *x, int64_t columns, const world *w, int sequence, int position) {
    return x + ((int64_t)sequence * w->length + position) * columns;
}

typedef struct feeding { /* a run over all tokens of all sequences */
    op_call c;
    world w;
    int place[8], fed[8]; /* by sequence */
    float *y;             /* [n_sequences * length, q_columns] */
} feeding;

static void feeding_begin(feeding *f, const world *w, bool reversed_places) {
    f->w = *w;
    op_begin(&f->c, &sli_op_attention, &f->w.options);
    op_state(&f->c, 8, w->length, w->kv_columns);
    op_state(&f->c, 8, w->length, w->kv_columns);
    f->y = op_memory(&f->c, (size_t)(w->n_sequences * w->length * w->q_columns) * sizeof *f->y);
    for (int s = 0; s < w->n_sequences; s++) {
        f->place[s] = reversed_places ? 7 - s : s;
        f->fed[s] = 0;
    }
}

/* Feeds rows[s] more tokens of each sequence s in one micro-batch. */
static void feed(feeding *f, const int *rows, int threads) {
    const world *w = &f->w;
    op_call batch = f->c;
    sl_segment segments[8];
    int total = 0, n = 0;
    batch.n_owned = 0;
    batch.call.inputs = batch.inputs, batch.call.outputs = batch.outputs, batch.call.states = batch.states;
    batch.call.descriptor = &batch.descriptor;
    for (int s = 0; s < w->n_sequences; s++)
        total += rows[s];
    float *q = op_memory(&batch, (size_t)(total * w->q_columns) * sizeof *q);
    float *k = op_memory(&batch, (size_t)(total * w->kv_columns) * sizeof *k);
    float *v = op_memory(&batch, (size_t)(total * w->kv_columns) * sizeof *v);
    for (int s = 0, r = 0; s < w->n_sequences; r += rows[s++]) {
        segments[n++] = (sl_segment){f->place[s], f->fed[s], r, rows[s]};
        memcpy(q + r * w->q_columns, row_of(w->q, w->q_columns, w, s, f->fed[s]),
               (size_t)(rows[s] * w->q_columns) * sizeof *q);
        memcpy(k + r * w->kv_columns, row_of(w->k, w->kv_columns, w, s, f->fed[s]),
               (size_t)(rows[s] * w->kv_columns) * sizeof *k);
        memcpy(v + r * w->kv_columns, row_of(w->v, w->kv_columns, w, s, f->fed[s]),
               (size_t)(rows[s] * w->kv_columns) * sizeof *v);
    }
    op_input(&batch, SL_F32, total, w->q_columns, q);
    op_input(&batch, SL_F32, total, w->kv_columns, k);
    op_input(&batch, SL_F32, total, w->kv_columns, v);
    op_segments(&batch, segments, (uint32_t)n);
    float *y = op_output(&batch, SL_F32, total, w->q_columns);
    ck_assert_int_eq(op_run(&batch, threads), SL_OK);
    for (int s = 0, r = 0; s < w->n_sequences; f->fed[s] += rows[s], r += rows[s], s++)
        memcpy(f->y + (s * w->length + f->fed[s]) * w->q_columns, y + r * w->q_columns,
               (size_t)(rows[s] * w->q_columns) * sizeof *y);
    op_done(&batch);
}

static world make_world(op_call *owner, uint64_t *seed) {
    world w = {.n_sequences = 1 + (int)test_below(seed, 4), .length = 1 + (int)test_below(seed, 160)};
    int kv_heads = 1 + (int)test_below(seed, 3), dim = 1 + (int)test_below(seed, 80);
    int heads = kv_heads * (1 + (int)test_below(seed, 5));
    w.options = (sl_attention_options){heads, kv_heads, dim, 0.3f};
    w.q_columns = heads * dim;
    w.kv_columns = kv_heads * dim;
    int64_t rows = w.n_sequences * w.length;
    w.q = op_randoms(owner, seed, rows * w.q_columns);
    w.k = op_randoms(owner, seed, rows * w.kv_columns);
    w.v = op_randoms(owner, seed, rows * w.kv_columns);
    return w;
}

/* One token at a time, alone, on one thread; against random chunks with random company, places swapped, on more. */
START_TEST(chunks_company_places_and_threads_change_no_bit) {
    uint64_t seed = test_seed();
    for (int round = 0; round < test_cases(300); round++) {
        op_call owner;
        feeding alone, mixed;
        op_begin(&owner, &sli_op_attention, NULL);
        world w = make_world(&owner, &seed);
        feeding_begin(&alone, &w, false);
        feeding_begin(&mixed, &w, true);
        for (int s = 0; s < w.n_sequences; s++)
            for (int i = 0; i < w.length; i++) {
                int rows[8] = {0};
                rows[s] = 1;
                feed(&alone, rows, 1);
            }
        for (bool left = true; left;) {
            int rows[8];
            left = false;
            for (int s = 0; s < w.n_sequences; s++) {
                int most = w.length - mixed.fed[s];
                rows[s] = (int)test_below(&seed, (uint64_t)most + 1);
                left |= rows[s] < most;
            }
            feed(&mixed, rows, 1 + (int)test_below(&seed, 4));
        }
        ck_assert_mem_eq(alone.y, mixed.y, (size_t)(w.n_sequences * w.length * w.q_columns) * sizeof(float));
        op_done(&alone.c);
        op_done(&mixed.c);
        op_done(&owner);
    }
}
END_TEST

/* A tile of random queries, in every instruction set. */
START_TEST(every_instruction_set_gives_the_same_bits) {
    uint64_t seed = test_seed();
    for (int round = 0; round < test_cases(1000); round++) {
        op_call owner;
        op_begin(&owner, &sli_op_attention, NULL);
        int dim = 1 + (int)test_below(&seed, 140), n = 1 + (int)test_below(&seed, SLI_TILE_QUERIES);
        int stride = dim + (int)test_below(&seed, 20), keys = n + (int)test_below(&seed, 300);
        sli_attention_tile t = {.stride = (size_t)stride, .head_dim = (size_t)dim, .scale = 0.2f, .n_queries = n};
        t.keys = op_randoms(&owner, &seed, (int64_t)keys * stride);
        float *values = op_randoms(&owner, &seed, (int64_t)keys * stride);
        if (round % 4 == 0)
            values[test_below(&seed, (uint64_t)(keys * stride))] = op_odd(&seed);
        t.values = values;
        const float *q = op_randoms(&owner, &seed, (int64_t)n * dim);
        float *y = op_memory(&owner, (size_t)(n * dim) * sizeof *y);
        float *first = op_memory(&owner, (size_t)(n * dim) * sizeof *y);
        for (int i = 0; i < n; i++) {
            t.q[i] = q + i * dim;
            t.y[i] = y + i * dim;
            t.n_keys[i] = keys - n + i + 1;
        }
        FOR_EACH_ISA(isa) {
            sli_attention_for(isa)->attend(&t);
            if (isa == SL_ISA_PLAIN)
                memcpy(first, y, (size_t)(n * dim) * sizeof *y);
            ck_assert_mem_eq(first, y, (size_t)(n * dim) * sizeof *y);
        }
        op_done(&owner);
    }
}
END_TEST

/* A later row of the same micro-batch, and what lies after a sequence's end, may be anything. */
START_TEST(nan_in_a_later_row_does_not_reach_an_earlier_one) {
    enum { ROWS = 9, DIM = 5 };
    uint64_t seed = test_seed();
    float y[2][ROWS * DIM];
    for (int bad = 0; bad < 2; bad++) {
        uint64_t same = seed;
        op_call c;
        sl_attention_options o = {1, 1, DIM, 0.5f};
        op_begin(&c, &sli_op_attention, &o);
        for (int i = 0; i < 3; i++) {
            float *x = op_randoms(&c, &same, ROWS * DIM);
            if (bad && i)
                x[(ROWS - 1) * DIM] = NAN;
            op_input(&c, SL_F32, ROWS, DIM, x);
        }
        op_state(&c, 1, 50, DIM);
        op_state(&c, 1, 50, DIM);
        op_segments(&c, (sl_segment[]){{0, 0, 0, ROWS}}, 1);
        float *out = op_output(&c, SL_F32, ROWS, DIM);
        ck_assert_int_eq(op_run(&c, 1), SL_OK);
        memcpy(y[bad], out, sizeof y[bad]);
        op_done(&c);
    }
    ck_assert_mem_eq(y[0], y[1], sizeof(float) * (ROWS - 1) * DIM);
    ck_assert(isnan(y[1][(ROWS - 1) * DIM]));
}
END_TEST

/* Weights sum to 1 whatever the scores, also where they are all far below 0, and where a part has few keys. */
START_TEST(equal_values_come_back) {
    enum { DIM = 3, MOST = 150 };
    for (int keys = 1; keys <= MOST; keys++) {
        float k[MOST * DIM], v[MOST * DIM], y[DIM];
        const float q[DIM] = {-300, 0, 0};
        for (int i = 0; i < keys * DIM; i++) {
            k[i] = 1 + 0.001f * (float)i;
            v[i] = 7;
        }
        FOR_EACH_ISA(isa) {
            sli_attention_for(isa)->attend(&(sli_attention_tile){.keys = k,
                                                                 .values = v,
                                                                 .stride = DIM,
                                                                 .head_dim = DIM,
                                                                 .scale = 1,
                                                                 .n_queries = 1,
                                                                 .q = {q},
                                                                 .y = {y},
                                                                 .n_keys = {keys}});
            for (int d = 0; d < DIM; d++)
                ck_assert_float_eq_tol(y[d], 7, 7e-6f);
        }
    }
}
END_TEST

/* ---- What is refused ---- */

static void refuses_segment(sl_segment segment, const char *words) {
    op_call c;
    float x[3][4] = {{0}};
    sl_attention_options o = {2, 2, 2, 1};
    op_begin(&c, &sli_op_attention, &o);
    for (int i = 0; i < 3; i++)
        op_input(&c, SL_F32, 3, 4, x);
    op_state(&c, 2, 10, 4);
    op_state(&c, 2, 10, 4);
    op_segments(&c, &segment, 1);
    op_output(&c, SL_F32, 3, 4);
    ck_assert_int_ne(op_run(&c, 1), SL_OK);
    ck_assert_msg(strstr(sl_last_error(), words), "%s", sl_last_error());
    op_done(&c);
}

START_TEST(a_sequence_outside_of_its_cache_is_refused) {
    refuses_segment((sl_segment){0, 8, 0, 3}, "positions 8 to 10; the cache holds 0 to 9");
    refuses_segment((sl_segment){2, 0, 0, 3}, "segment 0 has place 2; the caches have places 0 to 1");
    refuses_segment((sl_segment){-1, 0, 0, 3}, "place -1");
}
END_TEST

START_TEST(shapes_and_options_that_do_not_fit_are_refused) {
    sl_type q = op_type(SL_F32, SL_ROWS, 64), kv = op_type(SL_F32, SL_ROWS, 32), out;
    sl_attention_options good = {8, 4, 8, 1}, odd = {8, 3, 8, 1}, scale = {8, 4, 8, -1};
    ck_assert_int_eq(op_shape(&sli_op_attention, &good, 3, (sl_type[]){q, kv, kv}, 0, &out), SL_OK);
    ck_assert(out.dtype == SL_F32 && out.shape.dims[1] == 64);
    op_refuses(&sli_op_attention, &good, 3, (sl_type[]){q, q, kv}, 0,
               "input 1 (k) is [rows, 64] f32; expected [rows, 32] f32");
    sl_state_view cache = {NULL, SL_F32, 4, 100, 32, 128}, narrow = {NULL, SL_F32, 4, 100, 31, 124};
    sl_state_view fewer = {NULL, SL_F32, 3, 100, 32, 128}, half = {NULL, SL_F16, 4, 100, 32, 64};
    const sl_op *op = &sli_op_attention;
    ck_assert_int_eq(op->states(&good, 2, (sl_state_view[]){cache, cache}), SL_OK);
    ck_assert_int_eq(op->states(&odd, 2, (sl_state_view[]){cache, cache}), SL_INVALID);
    ck_assert(strstr(sl_last_error(), "n_heads is 8 and n_kv_heads 3"));
    ck_assert_int_eq(op->states(&scale, 2, (sl_state_view[]){cache, cache}), SL_INVALID);
    ck_assert(strstr(sl_last_error(), "scale is -1"));
    ck_assert_int_eq(op->states(&good, 2, (sl_state_view[]){cache, narrow}), SL_INVALID);
    ck_assert(strstr(sl_last_error(), "state 1 (v_cache) has rows of 31 f32; expected 32 f32"));
    ck_assert_int_eq(op->states(&good, 2, (sl_state_view[]){half, cache}), SL_INVALID);
    ck_assert_int_eq(op->states(&good, 2, (sl_state_view[]){cache, fewer}), SL_INVALID);
    ck_assert(strstr(sl_last_error(), "state 1 (v_cache) has 3 places of 100 rows; expected 4 of 100"));
}
END_TEST

START_TEST(a_state_that_does_not_fit_is_the_graphs_error) {
    sl_graph *g = sl_graph_create();
    sl_value x = sl_graph_input(g, "x", SL_F32, SL_ROWS, 32);
    sl_stage s = sl_graph_stage(g, "s", "cpu:0");
    sl_state k = sl_graph_state(g, s, "k", SL_F32, 1, 10, 31), v = sl_graph_state(g, s, "v", SL_F32, 1, 10, 32);
    sl_attention(g, s, x, x, x, k, v, &(sl_attention_options){.n_heads = 4, .n_kv_heads = 4, .head_dim = 8});
    ck_assert_int_eq(sl_graph_status(g), SL_INVALID);
    ck_assert_msg(strstr(sl_last_error(), "stage 's', op 'attention': state 0 (k_cache) has rows of 31 f32"), "%s",
                  sl_last_error());
    sl_graph_destroy(g);
}
END_TEST

START_TEST(one_state_for_both_caches_and_no_options_are_the_graphs_error) {
    for (int i = 0; i < 2; i++) {
        sl_graph *g = sl_graph_create();
        sl_value x = sl_graph_input(g, "x", SL_F32, SL_ROWS, 32);
        sl_stage s = sl_graph_stage(g, "s", "cpu:0");
        sl_state k = sl_graph_state(g, s, "k", SL_F32, 1, 10, 32), v = sl_graph_state(g, s, "v", SL_F32, 1, 10, 32);
        sl_attention(g, s, x, x, x, k, i ? v : k, i ? NULL : &(sl_attention_options){4, 4, 8, 0});
        ck_assert_int_eq(sl_graph_status(g), SL_INVALID);
        ck_assert(strstr(sl_last_error(), i ? "n_heads is 0 and n_kv_heads 0" : "are one state; make two"));
        sl_graph_destroy(g);
    }
}
END_TEST

START_TEST(a_cost_counts_pairs_of_queries_and_keys) {
    op_call c;
    sl_cost known, unknown;
    sl_attention_options o = {4, 2, 10, 1};
    op_begin(&c, &sli_op_attention, &o);
    op_input(&c, SL_F32, 3, 40, NULL);
    op_input(&c, SL_F32, 3, 20, NULL);
    op_input(&c, SL_F32, 3, 20, NULL);
    c.call.n_states = 2;
    c.states[0] = c.states[1] = (sl_state_view){NULL, SL_F32, 2, 100, 20, 80};
    op_output(&c, SL_F32, 3, 40);
    op_segments(&c, (sl_segment[]){{0, 10, 0, 2}, {1, 0, 2, 1}}, 2);
    c.op->cost(&c.call, &known);
    ck_assert(known.operations == (11 + 12 + 1) * 4 * (4 * 10 + 14));
    ck_assert(known.bytes_read == 3 * (160 + 80 + 80) + 2 * (12 + 1) * 80);
    ck_assert(known.bytes_written == 3 * (160 + 80 + 80));
    op_segments(&c, NULL, 2);
    c.op->cost(&c.call, &unknown);
    ck_assert(unknown.operations == 3 * 50 * 4 * (4 * 10 + 14));
    op_done(&c);
}
END_TEST

int main(void) {
    const test_case cases[] = {TEST(attention_is_numpys),
                               TEST(chunks_company_places_and_threads_change_no_bit),
                               TEST(every_instruction_set_gives_the_same_bits),
                               TEST(nan_in_a_later_row_does_not_reach_an_earlier_one),
                               TEST(equal_values_come_back),
                               TEST(a_sequence_outside_of_its_cache_is_refused),
                               TEST(shapes_and_options_that_do_not_fit_are_refused),
                               TEST(a_state_that_does_not_fit_is_the_graphs_error),
                               TEST(one_state_for_both_caches_and_no_options_are_the_graphs_error),
                               TEST(a_cost_counts_pairs_of_queries_and_keys)};
    return test_main("attention", cases, sizeof cases / sizeof *cases);
}
