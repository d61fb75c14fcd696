/* A plan made by hand, for tests of the executor that are to depend on no planner: a chain of n stages, one a device,
 *
 *     host -copy-> x at 0 -stage 0-> h0 at 0 -copy-> h0 at 1 -stage 1-> ... -copy-> host
 *
 * Payload q has lane q to itself, writes buffer q and reads buffer q - 1; it waits for payload q - 1 of the same
 * micro-batch and for payload q + 1 of the one `depth` earlier. Values are i32 [rows, 1]; each stage does 3 v + 1. */
#ifndef TESTS_HAND_PLAN_H
#define TESTS_HAND_PLAN_H

#include "executor.h"
#include "support.h"
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static inline int32_t hand_result(int32_t v, int n_stages) {
    uint32_t u = (uint32_t)v;
    for (int j = 0; j < n_stages; j++)
        u = 3 * u + 1;
    return (int32_t)u;
}

/* While it is not 0, a row of -88 holds its stage. */
static _Atomic int hand_holds;

static inline sl_status hand_kernel(sl_lane *lane, const sl_call *call) {
    (void)lane;
    const int32_t *in = call->inputs[0].data;
    int32_t *out = call->outputs[0].data;
    for (int64_t r = 0; r < call->outputs[0].shape.dims[0]; r++) {
        if (in[r] == -77)
            return sl_fail(SL_INVALID, "it is -77");
        while (in[r] == -88 && atomic_load(&hand_holds))
            sched_yield();
        out[r] = hand_result(in[r], 1);
    }
    return SL_OK;
}

static inline void *hand_array(size_t n, size_t bytes) {
    void *array = sl_calloc(n, bytes);
    ck_assert_ptr_nonnull(array);
    return array;
}

static inline char *hand_name(const char *format, int i) {
    char text[64];
    snprintf(text, sizeof text, "%s %d", format, i);
    char *name = sl_strdup(text);
    ck_assert_ptr_nonnull(name);
    return name;
}

static const sl_op hand_op = {.name = "bump", .cpu = hand_kernel};

typedef struct hand_options {
    sl_device_kind kind;
    int n_stages, depth;
    uint32_t micro_batch_rows, credits, groups;
    uint64_t stage_ns; /* 0: not timed */
} hand_options;

static inline void hand_stages(sl_plan *p, const hand_options *o, sl_type type) {
    for (int j = 0; j < o->n_stages; j++) {
        sli_plan_op *op = hand_array(1, sizeof *op);
        *op = (sli_plan_op){.op = &hand_op, .n_inputs = 1, .n_outputs = 1};
        op->inputs = hand_array(1, sizeof *op->inputs);
        op->outputs = hand_array(1, sizeof *op->outputs);
        op->inputs[0] = (sli_plan_ref){.place = SLI_IN_SLOT, .index = 0, .type = type, .row_bytes = 4};
        op->outputs[0] = (sli_plan_ref){.place = SLI_IN_SLOT, .index = 1, .type = type, .row_bytes = 4};
        p->stages[j] = (sli_plan_stage){.name = hand_name("stage", j),
                                        .device = j,
                                        .n_ops = 1,
                                        .ops = op,
                                        .descriptor = -1,
                                        .timed = o->stage_ns > 0,
                                        .fixed_ns = o->stage_ns};
        p->devices[j].device = (sl_device){o->kind, j};
    }
}

static inline void hand_payloads(sl_plan *p, const hand_options *o) {
    int last = 2 * o->n_stages;
    size_t slot = (o->micro_batch_rows * 4 + 63) / 64 * 64;
    for (int q = 0; q <= last; q++) {
        bool is_stage = q % 2;
        int device = is_stage ? q / 2 : q == last ? q / 2 - 1 : q / 2;
        sli_payload *l = &p->payloads[q];
        *l = (sli_payload){.kind = is_stage ? SLI_EXECUTE : SLI_COPY,
                           .name = is_stage ? hand_name("stage", q / 2) : hand_name("hop", q / 2),
                           .lane = (uint16_t)q,
                           .device = device,
                           .stage = q / 2,
                           .n_reads = 1,
                           .n_operands = 2,
                           .n_works = (uint32_t)o->depth};
        l->operands = hand_array(2, sizeof *l->operands);
        for (int i = 0; i < 2; i++)
            l->operands[i] = (sli_plan_operand){.buffer = i == 0      ? q - 1
                                                          : q == last ? -1
                                                                      : q,
                                                .io = i,
                                                .pieces = 1,
                                                .extent = {.rows = 0, .bytes = 4, .limit = SIZE_MAX}};
        p->lanes[q] = (sli_plan_lane){.from = q == 0 ? SLI_HOST : (q - 1) / 2,
                                      .to = q == last ? SLI_HOST : q / 2,
                                      .rate = 1,
                                      .n_actions = 4 * (o->credits + 1),
                                      .n_events = (uint32_t)o->depth + o->credits + 2};
        if (q == last)
            continue;
        sl_memory_figures *m = &p->devices[q / 2].memory;
        p->buffers[q] = (sli_buffer){.name = hand_name("buffer", q),
                                     .device = q / 2,
                                     .depth = o->depth,
                                     .slot_bytes = slot,
                                     .offset = m->by_category[SL_MEMORY_SLOTS]};
        m->by_category[SL_MEMORY_SLOTS] += slot * (size_t)o->depth;
    }
}

static inline void hand_program(sl_plan *p, int depth) {
    int n = p->n_payloads;
    for (int q = 0; q < n; q++) {
        sli_plan_action *out = p->program + p->n_program, a = {.lane = (uint16_t)q, .rate = 1};
        a.kind = SLI_WAIT;
        if (q > 0) {
            a.of = (uint16_t)(q - 1);
            a.offset = 1;
            *out++ = a;
        }
        if (q + 1 < n) {
            a.of = (uint16_t)(q + 1);
            a.offset = 1 - depth;
            *out++ = a;
        }
        *out++ = (sli_plan_action){.kind = p->payloads[q].kind, .lane = (uint16_t)q, .payload = (uint32_t)q};
        a = (sli_plan_action){.kind = SLI_RECORD, .lane = (uint16_t)q, .of = (uint16_t)q, .rate = 1, .offset = 1};
        *out++ = a;
        p->ends[q] = a;
        p->n_program = (size_t)(out - p->program);
    }
}

static inline sl_plan *hand_plan(const hand_options *o) {
    sl_type type = {SL_I32, {2, {SL_ROWS, 1}}};
    int n = 2 * o->n_stages + 1;
    sl_plan *p = hand_array(1, sizeof *p);
    *p = (sl_plan){.kind = o->kind,
                   .options = {.micro_batch_rows = o->micro_batch_rows, .max_segments = 1, .groups = o->groups},
                   .n_devices = o->n_stages,
                   .n_stages = o->n_stages,
                   .n_buffers = n - 1,
                   .n_payloads = n,
                   .n_lanes = n,
                   .n_ends = n,
                   .credits = o->credits,
                   .n_row_counts = 1,
                   .max_rows = {o->micro_batch_rows},
                   .n_inputs = 1,
                   .n_outputs = 1};
    p->devices = hand_array((size_t)n, sizeof *p->devices);
    p->stages = hand_array((size_t)n, sizeof *p->stages);
    p->buffers = hand_array((size_t)n, sizeof *p->buffers);
    p->payloads = hand_array((size_t)n, sizeof *p->payloads);
    p->lanes = hand_array((size_t)n, sizeof *p->lanes);
    p->program = hand_array(4 * (size_t)n, sizeof *p->program);
    p->ends = hand_array((size_t)n, sizeof *p->ends);
    p->input_types = hand_array(1, sizeof type);
    p->output_types = hand_array(1, sizeof type);
    p->input_names = hand_array(1, sizeof(char *));
    p->output_names = hand_array(1, sizeof(char *));
    p->input_types[0] = p->output_types[0] = type;
    p->input_names[0] = sl_strdup("x");
    p->output_names[0] = sl_strdup("y");
    p->row_names[0] = sl_strdup("rows");
    hand_stages(p, o, type);
    hand_payloads(p, o);
    hand_program(p, o->depth);
    return p;
}

/* A pipeline on it. `wrap` may change the backend; NULL. `uv_loop`: NULL for a loop of its own. */
static inline sl_pipeline *hand_open_on(void *uv_loop, const hand_options *o, const sl_pipeline_options *options,
                                        sli_backend *(*wrap)(sli_backend *)) {
    static const sl_pipeline_options none;
    options = options ? options : &none;
    sl_setting_set("SLUICE_CPU_DEVICES", "8"); /* unless they are found already */
    ck_assert_msg(sl_devices_find() == SL_OK, "%s", sl_last_error());
    const sli_platform *platform = sli_platform_get(o->kind);
    sli_backend_options backend_options = {.cpu = options->cpu, .sim_topology = options->sim_topology};
    sli_backend *backend;
    ck_assert_msg(platform->open(&backend_options, &backend) == SL_OK, "%s", sl_last_error());
    if (wrap)
        backend = wrap(backend);
    sl_pipeline *p = NULL;
    sl_status status = sli_pipeline_start(hand_plan(o), platform, backend, options, uv_loop, &p);
    ck_assert_msg(status == SL_OK, "%s", sl_last_error());
    return p;
}

static inline sl_pipeline *hand_open(const hand_options *o, const sl_pipeline_options *options,
                                     sli_backend *(*wrap)(sli_backend *)) {
    return hand_open_on(NULL, o, options, wrap);
}

/* An i32 tensor [rows, 1] on cpu:0 with first, first + 1, ... */
static inline sl_tensor *hand_tensor(int64_t rows, int32_t first) {
    sl_tensor *t;
    int64_t shape[] = {rows, 1};
    ck_assert_msg(sl_tensor_create((sl_device){SL_CPU, 0}, SL_I32, 2, shape, 0, &t) == SL_OK, "%s", sl_last_error());
    int32_t *data = sl_tensor_data(t);
    for (int64_t r = 0; r < rows; r++)
        data[r] = first + (int32_t)r;
    return t;
}

#endif
