/* Calls of an op's kernel by hand: views, states, segments and scratch of a made-up micro-batch, on a made-up lane. */
#ifndef TESTS_OP_CALL_H
#define TESTS_OP_CALL_H

#include "../../pipeline/backend/backend.h"
#include "isas.h"
#include "ops.h"
#include "support.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- A lane whose parts run on threads of their own ---- */

typedef struct part_run {
    int part, n_parts;
    void (*run)(int part, int n_parts, void *user);
    void *user;
} part_run;

static inline void *run_part(void *argument) {
    part_run *p = argument;
    p->run(p->part, p->n_parts, p->user);
    return NULL;
}

/* The parts run at once, the last one on this thread. */
static inline void parallel_parts(sl_lane *lane, int n_parts, void (*run)(int part, int n_parts, void *user),
                                  void *user) {
    pthread_t threads[64];
    part_run parts[64];
    ck_assert_int_le(n_parts, lane->threads);
    for (int i = 0; i < n_parts; i++)
        parts[i] = (part_run){i, n_parts, run, user};
    for (int i = 0; i + 1 < n_parts; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, run_part, &parts[i]), 0);
    run_part(&parts[n_parts - 1]);
    for (int i = 0; i + 1 < n_parts; i++)
        pthread_join(threads[i], NULL);
}

/* ---- A call ---- */

typedef struct op_call {
    const sl_op *op;
    sl_call call;
    sl_view inputs[SL_MAX_OPERANDS], outputs[SL_MAX_OPERANDS];
    sl_state_view states[SL_MAX_STATES];
    sl_descriptor descriptor;
    void *owned[32]; /* freed by op_done */
    int n_owned;
} op_call;

static inline void op_begin(op_call *c, const sl_op *op, const void *attributes) {
    memset(c, 0, sizeof *c);
    c->op = op;
    c->call = (sl_call){.attributes = attributes,
                        .inputs = c->inputs,
                        .outputs = c->outputs,
                        .states = c->states,
                        .descriptor = &c->descriptor};
}

static inline void op_done(op_call *c) {
    while (c->n_owned)
        free(c->owned[--c->n_owned]);
}

/* Memory of exactly this size, so that ASan sees what is beyond; full of NaN. */
static inline void *op_memory(op_call *c, size_t bytes) {
    void *memory;
    ck_assert_int_eq(posix_memalign(&memory, 64, bytes ? bytes : 1), 0);
    memset(memory, 0xff, bytes);
    ck_assert_int_lt(c->n_owned, 32);
    return c->owned[c->n_owned++] = memory;
}

static inline sl_view op_view(sl_dtype dtype, int64_t rows, int64_t columns, const void *data) {
    sl_view v = {(void *)(uintptr_t)data, dtype, {2, {rows, columns}}, 0};
    ck_assert_int_eq(sl_row_bytes(dtype, columns, &v.row_bytes), SL_OK);
    return v;
}

static inline void op_input(op_call *c, sl_dtype dtype, int64_t rows, int64_t columns, const void *data) {
    c->inputs[c->call.n_inputs++] = op_view(dtype, rows, columns, data);
}

static inline void *op_output(op_call *c, sl_dtype dtype, int64_t rows, int64_t columns) {
    sl_view v = op_view(dtype, rows, columns, NULL);
    v.data = op_memory(c, v.row_bytes * (size_t)rows);
    c->outputs[c->call.n_outputs++] = v;
    return v.data;
}

static inline float *op_state(op_call *c, int64_t places, int64_t rows, int64_t columns) {
    size_t row_bytes = (size_t)columns * sizeof(float);
    float *data = op_memory(c, row_bytes * (size_t)(rows * places));
    c->states[c->call.n_states++] = (sl_state_view){data, SL_F32, places, rows, columns, row_bytes};
    return data;
}

static inline void op_segments(op_call *c, const sl_segment *segments, uint32_t n) {
    c->descriptor.segments = segments;
    c->descriptor.n_segments = n;
}

/* Runs the kernel on a device of `threads` threads, with the scratch that its rule asks for. */
static inline sl_status op_run(op_call *c, int threads) {
    sl_lane lane = {.threads = threads, .parallel = parallel_parts};
    size_t bytes = c->op->scratch ? c->op->scratch(&c->call, threads) : 0;
    void *scratch = bytes ? aligned_alloc(64, (bytes + 63) / 64 * 64) : NULL;
    if (bytes)
        memset(scratch, 0xff, bytes);
    c->call.scratch = scratch;
    c->call.scratch_bytes = bytes;
    sl_status status = c->op->cpu(&lane, &c->call);
    free(scratch);
    return status;
}

/* What the shape rule says of [rows, columns] inputs as in the call; row counts where `rows[i]` is below 0. */
static inline sl_status op_shape(const sl_op *op, const void *attributes, int n, const sl_type *inputs,
                                 unsigned weights, sl_type *output) {
    bool is_weight[SL_MAX_OPERANDS];
    int n_outputs = 0;
    for (int i = 0; i < n; i++)
        is_weight[i] = weights >> i & 1;
    sl_type outputs[SL_MAX_OPERANDS];
    sl_status status = op->shape(attributes, n, inputs, is_weight, &n_outputs, outputs);
    if (status == SL_OK) {
        ck_assert_int_eq(n_outputs, 1);
        *output = outputs[0];
    }
    return status;
}

/* The rule says no, and its sentence holds `words`. */
static inline void op_refuses(const sl_op *op, const void *attributes, int n, const sl_type *inputs, unsigned weights,
                              const char *words) {
    sl_type output;
    ck_assert_int_eq(op_shape(op, attributes, n, inputs, weights, &output), SL_INVALID);
    ck_assert_msg(strstr(sl_last_error(), words), "\"%s\" is not in \"%s\"", words, sl_last_error());
}

static inline sl_type op_type(sl_dtype dtype, int64_t rows, int64_t columns) {
    return (sl_type){dtype, {2, {rows, columns}}};
}

/* ---- Values ---- */

/* Normal-looking numbers: the sum of four uniform ones, in -2 to 2. */
static inline float op_random(uint64_t *state) {
    float sum = -2;
    for (int i = 0; i < 4; i++)
        sum += (float)(test_random(state) >> 40) * 0x1p-24f;
    return sum;
}

/* The same, and now and then a number that is none, or is at an end of the range. */
static inline float op_odd(uint64_t *state) {
    static const uint32_t bits[] = {0x7fc12345, 0xffc00001, 0xff800000, 0x7f800000, 0x80000000,
                                    0,          1,          0x80000001, 0x7f7fffff, 0xff7fffff};
    float f = op_random(state);
    if (!test_below(state, 20))
        memcpy(&f, &bits[test_below(state, sizeof bits / sizeof *bits)], sizeof f);
    return f;
}

static inline float *op_randoms(op_call *c, uint64_t *state, int64_t n) {
    float *x = op_memory(c, (size_t)n * sizeof *x);
    for (int64_t i = 0; i < n; i++)
        x[i] = op_random(state);
    return x;
}

#define FOR_EACH_ISA(isa) for (sl_isa isa = SL_ISA_PLAIN; isa <= best_isa(); isa++)

#endif
