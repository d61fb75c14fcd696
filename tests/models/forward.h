/* Runs rows of tokens through a model that is split over devices, and keeps every state and the logits. */
#ifndef TESTS_MODELS_FORWARD_H
#define TESTS_MODELS_FORWARD_H

#include "support.h"
#include <sluice/model.h>
#include <sluice/ops.h>
#include <sluice/pipeline.h>
#include <stdlib.h>
#include <string.h>

enum { FORWARD_MAX_LAYERS = 8, FORWARD_MAX_OUTPUTS = FORWARD_MAX_LAYERS + 3 };

typedef struct forward {
    sl_pipeline *pipeline;
    sl_model_info info;
} forward;

/* What came out for a number of rows, in their order. */
typedef struct results {
    size_t n_rows;
    int32_t *next;                         /* [n_rows] */
    float *logits;                         /* [n_rows, n_vocab] */
    float *states[FORWARD_MAX_LAYERS + 1]; /* [n_rows, n_embd] */
} results;

/* `split`: layers of each device ("32": three on cpu:0, two on cpu:1). */
static inline forward forward_open(const sl_model *model, const char *split, uint32_t max_rows, int n_places) {
    forward f;
    sl_device devices[FORWARD_MAX_LAYERS], placed[FORWARD_MAX_LAYERS];
    int counts[FORWARD_MAX_LAYERS], n = (int)strlen(split);
    for (int i = 0; i < n; i++) {
        devices[i] = (sl_device){SL_CPU, i};
        counts[i] = split[i] - '0';
    }
    sl_model_get_info(model, &f.info);
    ck_assert_msg(sl_model_place(model, n, devices, counts, NULL, placed) == SL_OK, "%s", sl_last_error());
    sl_model_graph_options options = {.layer_devices = placed,
                                      .max_rows = max_rows,
                                      .max_sequences = max_rows,
                                      .n_places = n_places,
                                      .logits = true,
                                      .layer_states = true};
    sl_graph *graph = sl_model_graph(model, &options);
    sl_pipeline_options pipeline = {.plan = {.micro_batch_rows = max_rows, .max_segments = (uint32_t)n_places}};
    sl_status status = sl_pipeline_open(graph, &pipeline, &f.pipeline);
    ck_assert_msg(status == SL_OK, "split %s: %s", split, sl_last_error());
    sl_graph_destroy(graph);
    return f;
}

static inline void forward_close(forward *f) {
    sl_pipeline_close(f->pipeline, NULL, NULL);
}

static inline results results_make(const forward *f, size_t n_rows) {
    results r = {.n_rows = n_rows};
    r.next = calloc(n_rows, sizeof *r.next);
    r.logits = calloc(n_rows * (size_t)f->info.n_vocab, sizeof *r.logits);
    for (int i = 0; i <= f->info.n_layers; i++)
        r.states[i] = calloc(n_rows * (size_t)f->info.n_embd, sizeof **r.states);
    return r;
}

static inline void results_free(results *r) {
    free(r->next);
    free(r->logits);
    for (int i = 0; i <= FORWARD_MAX_LAYERS; i++)
        free(r->states[i]);
}

static inline sl_tensor *forward_tensor(void *data, sl_dtype dtype, size_t rows, int64_t columns) {
    sl_tensor *t;
    sl_status status = sl_tensor_wrap(data, dtype, 2, (const int64_t[]){(int64_t)rows, columns}, NULL, NULL, &t);
    ck_assert_msg(status == SL_OK, "%s", sl_last_error());
    return t;
}

/* One micro-batch of `n` rows, greedy, whose results become rows at .. at + n of `r`. */
static inline void forward_rows(forward *f, size_t n, const int32_t *ids, uint32_t n_segments,
                                const sl_segment *segments, results *r, size_t at) {
    const sl_model_info *info = &f->info;
    int32_t *last = calloc(n, sizeof *last), *ints = calloc(n * SL_SAMPLE_INTS, sizeof *ints);
    float *floats = calloc(n * SL_SAMPLE_FLOATS, sizeof *floats);
    for (size_t i = 0; i < n; i++) {
        last[i] = (int32_t)i;
        floats[i * SL_SAMPLE_FLOATS + SL_SAMPLE_TOP_P] = 1;
    }
    sl_tensor *inputs[] = {forward_tensor((void *)(uintptr_t)ids, SL_I32, n, 1), forward_tensor(last, SL_I32, n, 1),
                           forward_tensor(ints, SL_I32, n, SL_SAMPLE_INTS),
                           forward_tensor(floats, SL_F32, n, SL_SAMPLE_FLOATS)};
    sl_tensor *outputs[FORWARD_MAX_OUTPUTS] = {
        forward_tensor(r->next + at, SL_I32, n, 1),
        forward_tensor(r->logits + at * (size_t)info->n_vocab, SL_F32, n, info->n_vocab)};
    for (int i = 0; i <= info->n_layers; i++)
        outputs[2 + i] = forward_tensor(r->states[i] + at * (size_t)info->n_embd, SL_F32, n, info->n_embd);
    sl_job *job;
    sl_job_options options = {.micro_batches = 1, .segments = segments, .n_segments = n_segments};
    sl_status status = sl_pipeline_submit_with(f->pipeline, &options, inputs, outputs, NULL, NULL, &job);
    ck_assert_msg(status == SL_OK, "%s", sl_last_error());
    ck_assert_msg(sl_job_wait(job, SL_FOREVER) == SL_OK, "%s", sl_last_error());
    sl_job_release(job);
    for (int i = 0; i < 4; i++)
        sl_tensor_release(inputs[i]);
    for (int i = 0; i < info->n_layers + 3; i++)
        sl_tensor_release(outputs[i]);
    free(last);
    free(ints);
    free(floats);
}

/* One sequence at a place, in micro-batches of at most `chunk` rows. */
static inline void forward_sequence(forward *f, int place, size_t n, const int32_t *ids, size_t chunk, results *r) {
    for (size_t at = 0; at < n; at += chunk) {
        size_t rows = n - at < chunk ? n - at : chunk;
        sl_segment segment = {place, (int32_t)at, 0, (int32_t)rows};
        forward_rows(f, rows, ids + at, 1, &segment, r, at);
    }
}

static inline void assert_near(const char *what, const float *found, const float *expected, size_t n, double most) {
    for (size_t i = 0; i < n; i++) {
        double distance = (double)found[i] - (double)expected[i];
        ck_assert_msg(distance <= most && distance >= -most, "%s: element %zu is %.9g, not %.9g", what, i,
                      (double)found[i], (double)expected[i]);
    }
}

/* Rows at .. at + n of `a` have the bits of rows from .. of `b`. */
static inline void assert_same_rows(const char *what, const forward *f, const results *a, size_t at, const results *b,
                                    size_t from, size_t n) {
    size_t vocab = (size_t)f->info.n_vocab, embd = (size_t)f->info.n_embd;
    for (int i = 0; i <= f->info.n_layers; i++)
        ck_assert_msg(!memcmp(a->states[i] + at * embd, b->states[i] + from * embd, n * embd * sizeof(float)),
                      "%s: state %d has other bits", what, i);
    ck_assert_msg(!memcmp(a->logits + at * vocab, b->logits + from * vocab, n * vocab * sizeof(float)),
                  "%s: the logits have other bits", what);
    ck_assert_msg(!memcmp(a->next + at, b->next + from, n * sizeof *a->next), "%s: other ids", what);
}

#endif
