/* Where a plan puts bytes: liveness inside stages, slots, states, weights, and what is refused because it does not fit.
 */
#include "plans.h"

static const sl_device sim0 = {SL_SIM, 0};

static sl_memory_figures memory_of(const sl_plan *p, int device) {
    sl_memory_figures f;
    ck_assert_int_eq(sl_plan_memory(p, device, NULL, &f), SL_OK);
    return f;
}

/* ---- Inside a stage ---- */

START_TEST(a_chain_of_ops_takes_turns_in_two_places) {
    sl_graph *g = sl_graph_create();
    sl_value x = sl_graph_input(g, "x", SL_F32, SL_ROWS, 32), h = x;
    sl_stage s = sl_graph_stage_on(g, "s", sim0);
    for (int i = 0; i < 100; i++)
        h = join(g, s, 1, &h);
    sl_graph_output(g, "y", h);
    sl_plan *p = must_compile(g, &(sl_plan_options){.micro_batch_rows = 8}, NULL);
    ck_assert_uint_eq(memory_of(p, 0).by_category[SL_MEMORY_ACTIVATIONS], 2 * 8 * 32 * 4);
    sl_plan_destroy(p);
    sl_graph_destroy(g);
}
END_TEST

/* Ops of any width; their values have the width that the attribute says. */
static sl_status any_width(const void *attributes, int n_inputs, const sl_type *inputs, const bool *is_weight,
                           int *n_outputs, sl_type *outputs) {
    (void)n_inputs, (void)is_weight;
    *n_outputs = 1;
    outputs[0] = inputs[0];
    outputs[0].shape.dims[1] = *(const int64_t *)attributes;
    return SL_OK;
}

static size_t scratch_of(const sl_call *call, int threads) {
    return (size_t)(call->inputs[0].shape.dims[0] * call->inputs[0].shape.dims[1] * threads);
}

static const sl_op wide_op = {
    .name = "wide", .attribute_bytes = sizeof(int64_t), .shape = any_width, .cpu = no_kernel_call};
static const sl_op scratch_op = {.name = "scratch", .shape = same_type, .scratch = scratch_of, .cpu = no_kernel_call};

typedef struct lifetime {
    int from, to;
    size_t at, bytes;
} lifetime;

START_TEST(values_that_live_at_once_lie_apart) {
    uint64_t seed = test_seed();
    for (int i = 0; i < test_cases(300); i++) {
        static lifetime lives[64];
        sl_value values[48];
        int reads_of[48][2], n_ops = 2 + (int)test_below(&seed, 40);
        sl_graph *g = sl_graph_create();
        values[0] = sl_graph_input(g, "x", SL_F32, SL_ROWS, 16);
        sl_stage s = sl_graph_stage_on(g, "s", sim0);
        for (int k = 0; k < n_ops; k++) {
            int64_t width = 1 + (int64_t)test_below(&seed, 100);
            sl_value in[2];
            for (int n = 0; n < 2; n++) {
                reads_of[k][n] = (int)test_below(&seed, (uint64_t)k + 1);
                in[n] = values[reads_of[k][n]];
            }
            values[k + 1] = sl_graph_op1(g, s, &wide_op, &width, 2, in, 0, NULL);
        }
        sl_graph_output(g, "y", values[n_ops]);
        sl_plan *p = must_compile(g, &(sl_plan_options){.micro_batch_rows = 3}, NULL);
        /* the oracle: value v lives from op v - 1 to the last op that reads it */
        size_t block = memory_of(p, 0).by_category[SL_MEMORY_ACTIVATIONS], sum = 0;
        for (int v = 1; v < n_ops; v++) {
            const sli_plan_ref *out = &p->stages[0].ops[v - 1].outputs[0];
            lives[v] = (lifetime){v - 1, v - 1, out->offset, 3 * out->row_bytes};
            for (int k = v; k < n_ops; k++)
                if (reads_of[k][0] == v || reads_of[k][1] == v)
                    lives[v].to = k;
            ck_assert_int_eq(out->place, SLI_IN_ACTIVATIONS);
            ck_assert_uint_eq(out->offset % 64, 0);
            ck_assert_uint_le(out->offset + lives[v].bytes, block);
            sum += (lives[v].bytes + 63) / 64 * 64;
            for (int w = 1; w < v; w++) {
                bool at_once = lives[w].from <= lives[v].to && lives[v].from <= lives[w].to;
                bool apart = lives[w].at + lives[w].bytes <= lives[v].at || lives[v].at + lives[v].bytes <= lives[w].at;
                ck_assert(!at_once || apart);
            }
            for (int k = v; k < n_ops; k++) /* its readers look where it is */
                for (int n = 0; n < 2; n++)
                    if (reads_of[k][n] == v)
                        ck_assert_uint_eq(p->stages[0].ops[k].inputs[n].offset, out->offset);
        }
        ck_assert_uint_le(block, sum);
        ck_assert_int_eq(p->stages[0].ops[n_ops - 1].outputs[0].place, SLI_IN_SLOT);
        sl_plan_destroy(p);
        sl_graph_destroy(g);
    }
}
END_TEST

START_TEST(stages_of_a_device_share_activations_and_scratch) {
    sl_graph *g = sl_graph_create();
    sl_value x = sl_graph_input(g, "x", SL_F32, SL_ROWS, 16), h = x;
    for (int j = 0; j < 3; j++) {
        char name[16];
        snprintf(name, sizeof name, "s%d", j);
        sl_stage s = sl_graph_stage_on(g, name, sim0);
        for (int i = 0; i < 2 + j; i++)
            h = sl_graph_op1(g, s, &scratch_op, NULL, 1, &h, 0, NULL);
    }
    sl_graph_output(g, "y", h);
    sl_plan *p = must_compile(g, &(sl_plan_options){.micro_batch_rows = 4}, NULL);
    ck_assert_uint_eq(memory_of(p, 0).by_category[SL_MEMORY_ACTIVATIONS], 2 * 4 * 16 * 4);
    ck_assert_uint_eq(memory_of(p, 0).by_category[SL_MEMORY_SCRATCH], 4 * 16);
    ck_assert_uint_eq(p->stages[0].ops[0].scratch_bytes, 4 * 16);
    sl_plan_destroy(p);
    sl_graph_destroy(g);
}
END_TEST

/* ---- Slots ---- */

START_TEST(slots_lie_apart_in_their_blocks) {
    uint64_t seed = test_seed();
    for (int i = 0; i < test_cases(200); i++) {
        random_graph r;
        make_random(&r, &seed, 8);
        sl_plan *p = must_compile(r.g, &r.options, NULL);
        for (int a = 0; a < p->n_buffers; a++) {
            const sli_buffer *x = &p->buffers[a];
            size_t end = x->offset + x->slot_bytes * (size_t)x->depth;
            ck_assert_uint_eq(x->offset % 64, 0);
            ck_assert(x->why == SLI_DEPTH_WINDOW || x->slot_bytes % 64 == 0);
            ck_assert_uint_le(end, x->device == SLI_HOST ? p->pinned_bytes
                                                         : memory_of(p, x->device).by_category[SL_MEMORY_SLOTS]);
            for (int b = 0; b < a; b++) {
                const sli_buffer *y = &p->buffers[b];
                ck_assert(x->device != y->device || y->offset + y->slot_bytes * (size_t)y->depth <= x->offset ||
                          end <= y->offset);
            }
        }
        sl_plan_destroy(p);
        sl_graph_destroy(r.g);
    }
}
END_TEST

START_TEST(row_counts_size_their_slots) {
    sl_graph *g = sl_graph_create();
    int64_t sequences = sl_graph_rows(g, "sequences", 5);
    sl_value x = sl_graph_input(g, "x", SL_F32, SL_ROWS, 16), z = sl_graph_input(g, "z", SL_I32, sequences, 16);
    sl_stage s = sl_graph_stage_on(g, "s", sim0);
    sl_graph_output(g, "y", sl_graph_op1(g, s, &place_op, NULL, 2, (sl_value[]){z, x}, 0, NULL));
    sl_plan *p = must_compile(g, &(sl_plan_options){.micro_batch_rows = 7, .max_segments = 3}, NULL);
    ck_assert_uint_eq(p->max_rows[0], 7);
    ck_assert_uint_eq(p->max_rows[1], 5);
    ck_assert_uint_eq(p->max_rows[SLI_ROWS_SEGMENTS], 3);
    ck_assert(p->has_segments && p->stages[0].descriptor >= 0);
    const sli_plan_operand *d = &p->payloads[3].operands[p->stages[0].descriptor];
    ck_assert_str_eq(p->payloads[3].name, "s");
    ck_assert(d->extent.rows == SLI_ROWS_SEGMENTS && d->extent.bytes == sizeof(sl_segment));
    ck_assert_uint_eq(memory_of(p, 0).by_category[SL_MEMORY_SLOTS], 2 * (7 * 64 + 5 * 64 + 64 + 5 * 64));
    sl_plan_destroy(p);
    sl_graph_destroy(g);
}
END_TEST

START_TEST(a_graph_says_how_many_rows_at_most) {
    static const uint32_t cases[][3] = {/* of the graph, of the options, in force */
                                        {0, 0, 32},
                                        {0, 9, 9},
                                        {12, 0, 12},
                                        {12, 9, 9},
                                        {12, 90, 12}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        chain c;
        make_chain(&c, 2, NULL);
        end_chain(&c);
        sl_graph_set_rows(c.g, SL_ROWS, "tokens", cases[i][0]);
        sl_plan *p = must_compile(c.g, &(sl_plan_options){.micro_batch_rows = cases[i][1]}, NULL);
        ck_assert_uint_eq(p->max_rows[0], cases[i][2]);
        ck_assert_uint_eq(p->options.micro_batch_rows, cases[i][2]);
        ck_assert_str_eq(p->row_names[0], "tokens");
        sl_plan_destroy(p);
        sl_graph_destroy(c.g);
    }
}
END_TEST

START_TEST(values_of_any_rank_have_their_bytes) {
    sl_graph *g = sl_graph_create();
    sl_value flat = sl_graph_input_shaped(g, "flat", &(sl_type){SL_F32, {1, {SL_ROWS}}});
    sl_value cube = sl_graph_input_shaped(g, "cube", &(sl_type){SL_F16, {4, {SL_ROWS, 3, 5, 7}}});
    sl_stage s = sl_graph_stage_on(g, "s", sim0);
    sl_graph_output(g, "y", join(g, s, 2, (sl_value[]){flat, cube}));
    sl_plan *p = must_compile(g, NULL, NULL);
    const sli_payload *stage = &p->payloads[2];
    ck_assert_uint_eq(stage->operands[0].extent.bytes, 4);
    ck_assert_uint_eq(stage->operands[1].extent.bytes, 3 * 5 * 7 * 2);
    ck_assert_uint_eq(p->stages[0].ops[0].inputs[1].row_bytes, 7 * 2);
    sl_plan_destroy(p);
    sl_graph_destroy(g);
}
END_TEST

/* ---- States and weights ---- */

START_TEST(states_and_weights_are_counted) {
    static const float data[1000];
    sl_graph *g = sl_graph_create();
    sl_value x = sl_graph_input(g, "x", SL_F32, SL_ROWS, 16);
    sl_value w = sl_graph_weight_source(g, "w", SL_F16, 2, (int64_t[]){10, 33}, &(sl_source){.memory = data});
    sl_stage a = sl_graph_stage_on(g, "a", sim0), b = sl_graph_stage(g, "b", "sim:1"),
             c = sl_graph_stage(g, "c", "sim:0");
    sl_state k = sl_graph_state(g, a, "k", SL_F32, 4, 10, 3), v = sl_graph_state(g, c, "v", SL_F16, 1, 1, 1);
    sl_value h = sl_graph_op1(g, a, &join_op, NULL, 2, (sl_value[]){x, w}, 1, &k);
    h = join(g, b, 2, (sl_value[]){h, w});
    sl_graph_output(g, "y", sl_graph_op1(g, c, &join_op, NULL, 2, (sl_value[]){h, w}, 1, &v));
    sl_plan *p = must_compile(g, NULL, NULL);
    ck_assert_int_eq(p->n_weights, 2);
    for (int d = 0; d < 2; d++)
        ck_assert_uint_eq(memory_of(p, d).by_category[SL_MEMORY_WEIGHTS], 704); /* 660, to the next 64 */
    ck_assert_uint_eq(memory_of(p, 0).by_category[SL_MEMORY_STATE], 512 + 64);
    ck_assert_uint_eq(p->states[1].offset, 512);
    ck_assert_uint_eq(memory_of(p, 1).by_category[SL_MEMORY_STATE], 0);
    for (int d = 0; d < 2; d++) {
        sl_memory_figures f = memory_of(p, d);
        uint64_t sum = 0;
        for (int i = 0; i < SL_MEMORY_CATEGORIES; i++)
            sum += f.by_category[i];
        ck_assert_uint_eq(sum, f.peak);
    }
    ck_assert_int_eq(sl_plan_memory(p, 2, NULL, NULL), SL_INVALID);
    sl_plan_destroy(p);
    sl_graph_destroy(g);
}
END_TEST

START_TEST(a_tensor_where_it_is_used_is_not_counted_again) {
    sl_tensor *t;
    ck_assert_int_eq(sl_tensor_create((sl_device){SL_CPU, 0}, SL_F32, 2, (int64_t[]){16, 16}, 0, &t), SL_OK);
    sl_graph *g = sl_graph_create();
    sl_value x = sl_graph_input(g, "x", SL_F32, SL_ROWS, 16), w = sl_graph_weight(g, "w", t);
    sl_stage a = sl_graph_stage(g, "a", "cpu:0"), b = sl_graph_stage(g, "b", "cpu:1");
    sl_value h = join(g, a, 2, (sl_value[]){x, w});
    sl_graph_output(g, "y", join(g, b, 2, (sl_value[]){h, w}));
    sl_plan *p = must_compile(g, NULL, NULL);
    ck_assert_uint_eq(memory_of(p, 0).by_category[SL_MEMORY_WEIGHTS], 0);
    ck_assert_uint_eq(memory_of(p, 1).by_category[SL_MEMORY_WEIGHTS], 1024);
    sl_plan_destroy(p);
    sl_graph_destroy(g);
    sl_tensor_release(t);
}
END_TEST

/* ---- What does not fit ---- */

START_TEST(what_does_not_fit_is_refused_with_the_missing_bytes) {
    ck_assert_int_eq(sl_setting_set("SLUICE_SIM_TOPOLOGY", "{\"devices\": {\"memory_bytes\": 4000}}"), SL_OK);
    chain c;
    make_chain(&c, 2, NULL);
    end_chain(&c);
    sl_plan *p = must_compile(c.g, &(sl_plan_options){.micro_batch_rows = 15}, NULL);
    ck_assert_uint_eq(memory_of(p, 0).peak, 4 * 15 * 64);
    ck_assert_uint_eq(memory_of(p, 0).limit, 4000);
    sl_plan_destroy(p);
    ck_assert_int_eq(sl_plan_create(c.g, &(sl_plan_options){.micro_batch_rows = 16}, &p), SL_OUT_OF_MEMORY);
    static const char *const parts[] = {
        "sim:0", "4096 bytes (slots 4096)", "4000", "96 are missing", "micro_batch_rows",
        "depth", "SLUICE_SIM_TOPOLOGY"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        ck_assert_msg(strstr(sl_last_error(), parts[i]) != NULL, "'%s' is not in: %s", parts[i], sl_last_error());
    sl_graph_destroy(c.g);
}
END_TEST

START_TEST(pinned_memory_that_does_not_fit_is_refused) {
    ck_assert_int_eq(sl_setting_set("SLUICE_PINNED_MEMORY", "300"), SL_OK);
    chain c;
    make_chain(&c, 2, NULL);
    end_chain(&c);
    sl_plan_options options = {.micro_batch_rows = 8, .route = SL_ROUTE_STAGED, .staging_bytes = 128};
    sl_plan_destroy(must_compile(c.g, &options, NULL));
    options.staging_bytes = 256;
    sl_plan *p;
    ck_assert_int_eq(sl_plan_create(c.g, &options, &p), SL_OUT_OF_MEMORY);
    ck_assert_msg(strstr(sl_last_error(), "212 are missing") && strstr(sl_last_error(), "staging_bytes"), "%s",
                  sl_last_error());
    sl_graph_destroy(c.g);
}
END_TEST

START_TEST(sizes_that_wrap_are_refused) {
    sl_graph *g = sl_graph_create();
    sl_value x = sl_graph_input(g, "x", SL_F32, SL_ROWS, INT64_MAX / 16);
    sl_graph_output(g, "y", join(g, sl_graph_stage_on(g, "s", sim0), 1, &x));
    sl_plan *p;
    ck_assert_int_eq(sl_graph_status(g), SL_OK);
    ck_assert_int_eq(sl_plan_create(g, NULL, &p), SL_OUT_OF_MEMORY);
    ck_assert_ptr_nonnull(strstr(sl_last_error(), "micro_batch_rows"));
    sl_graph_destroy(g);
}
END_TEST

/* ---- The host's own heap ---- */

static long allocations_left;

static void *allocate_some(size_t bytes, void *user) {
    (void)user;
    return allocations_left-- > 0 ? malloc(bytes) : NULL;
}

static void *reallocate_some(void *memory, size_t bytes, void *user) {
    (void)user;
    return allocations_left-- > 0 ? realloc(memory, bytes) : NULL;
}

static void release_some(void *memory, void *user) {
    (void)user;
    free(memory);
}

static sl_status build_compile_print(void) {
    static const float data[256];
    sl_plan *p = NULL;
    char *text[3] = {NULL};
    sl_graph *g = sl_graph_create();
    sl_value x = sl_graph_input(g, "x", SL_F32, SL_ROWS, 16);
    sl_value w = sl_graph_weight_source(g, "w", SL_F32, 2, (int64_t[]){16, 16}, &(sl_source){.memory = data});
    int64_t width = 16;
    sl_graph_rows(g, "sequences", 3);
    sl_stage a = sl_graph_stage_on(g, "a", sim0), b = sl_graph_stage(g, "b", "sim:1"),
             c = sl_graph_stage(g, "c", "sim:0");
    sl_state k = sl_graph_state(g, a, "k", SL_F32, 4, 10, 3);
    sl_value h = sl_graph_op1(g, a, &place_op, NULL, 2, (sl_value[]){x, w}, 1, &k);
    h = sl_graph_op1(g, b, &wide_op, &width, 1, &h, 0, NULL);
    sl_graph_to(g, h, "sim:0");
    sl_graph_edge_depth(g, h, "sim:0", 3);
    sl_graph_output(g, "y", join(g, c, 2, (sl_value[]){h, x}));
    sl_plan_options options = {.route = SL_ROUTE_STAGED, .staging_bytes = 1024, .window = 2};
    sl_status status = sl_plan_create(g, &options, &p);
    for (int f = 0; f < 3 && status == SL_OK; f++)
        status = sl_plan_format_as(p, (sl_plan_format)f, &text[f]);
    for (int f = 0; f < 3; f++)
        sl_free(text[f]);
    sl_plan_destroy(p);
    sl_graph_destroy(g);
    return status;
}

START_TEST(each_allocation_may_fail) {
    ck_assert_int_eq(sl_devices_find(), SL_OK); /* what is found once is not counted here */
    ck_assert_int_eq(build_compile_print(), SL_OK);
    sl_set_allocator(&(sl_allocator){allocate_some, reallocate_some, release_some, NULL});
    long n = 0;
    for (bool ended = false; !ended; n++) {
        allocations_left = n;
        sl_status status = build_compile_print();
        ended = status == SL_OK;
        ck_assert_msg(ended || status == SL_OUT_OF_MEMORY || n < 2, /* < 2: no graph */ "allocation %ld: %s, %s", n,
                      sl_status_name(status), sl_last_error());
    }
    sl_set_allocator(NULL);
    printf("%ld allocations failed in turn\n", n - 1);
    ck_assert_int_gt(n, 100);
}
END_TEST

int main(void) {
    const test_case cases[] = {
        TEST(a_chain_of_ops_takes_turns_in_two_places),
        TEST(values_that_live_at_once_lie_apart),
        TEST(stages_of_a_device_share_activations_and_scratch),
        TEST(slots_lie_apart_in_their_blocks),
        TEST(row_counts_size_their_slots),
        TEST(a_graph_says_how_many_rows_at_most),
        TEST(values_of_any_rank_have_their_bytes),
        TEST(states_and_weights_are_counted),
        TEST(a_tensor_where_it_is_used_is_not_counted_again),
        TEST(what_does_not_fit_is_refused_with_the_missing_bytes),
        TEST(pinned_memory_that_does_not_fit_is_refused),
        TEST(sizes_that_wrap_are_refused),
        TEST(each_allocation_may_fail),
    };
    return test_main("plan_memory", cases, sizeof cases / sizeof *cases);
}
