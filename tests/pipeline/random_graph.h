/* Random graphs whose result is known: ops that hash their inputs row by row, and ops that keep rows in a state and
 * hash what a sequence has had so far; beside them an evaluator that knows no pipeline. All values are i32; two row
 * counts. */
#ifndef TESTS_RANDOM_GRAPH_H
#define TESTS_RANDOM_GRAPH_H

#include "support.h"
#include <sluice/sluice.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    G_VALUES = 48,
    G_OPS = 32,
    G_STAGES = 8,
    G_INPUTS = 3,
    G_WEIGHTS = 4,
    G_COLUMNS = 24,
    G_PLACES = 3,
    G_LONG = 512
};

/* ---- Ops ---- */

static inline uint32_t g_mix(uint32_t h, uint32_t v) {
    h ^= v + 0x9e3779b9u + (h << 6) + (h >> 2);
    return h * 0x85ebca6bu ^ h >> 13;
}

typedef struct g_attributes {
    uint32_t salt;
    int32_t columns; /* of the output */
    bool weight[SL_MAX_OPERANDS];
} g_attributes;

static inline sl_status g_shape(const void *attributes, int n_inputs, const sl_type *inputs, const bool *is_weight,
                                int *n_outputs, sl_type *outputs) {
    const g_attributes *a = attributes;
    (void)n_inputs, (void)is_weight;
    *n_outputs = 1;
    outputs[0] = (sl_type){SL_I32, {2, {inputs[0].shape.dims[0], a->columns}}};
    return SL_OK;
}

/* out[r][c] = hash of each in_k[r][c mod its columns]; weights have one row. */
static inline sl_status g_mix_rows(sl_lane *lane, const sl_call *call) {
    const g_attributes *a = call->attributes;
    const sl_view *out = &call->outputs[0];
    (void)lane;
    for (int64_t r = 0; r < out->shape.dims[0]; r++)
        for (int64_t c = 0; c < a->columns; c++) {
            uint32_t h = a->salt;
            for (int k = 0; k < call->n_inputs; k++) {
                const sl_view *in = &call->inputs[k];
                int64_t columns = in->shape.dims[in->shape.rank - 1], row = a->weight[k] ? 0 : r;
                h = g_mix(h, ((const uint32_t *)in->data)[row * columns + c % columns]);
            }
            ((uint32_t *)out->data)[r * a->columns + c] = h;
        }
    return SL_OK;
}

/* state[place][position] = in[r]; out[r] = hash of the sequence up to it. Columns of in, state and out are the same. */
static inline sl_status g_keep_rows(sl_lane *lane, const sl_call *call) {
    const g_attributes *a = call->attributes;
    const sl_descriptor *d = call->descriptor;
    const uint32_t *in = call->inputs[0].data;
    uint32_t *out = call->outputs[0].data, *state = call->states[0].data;
    int64_t n = a->columns;
    (void)lane;
    for (uint32_t s = 0; s < d->n_segments; s++) {
        const sl_segment *g = &d->segments[s];
        uint32_t *sequence = state + g->place * call->states[0].n_rows * n;
        for (int32_t i = 0; i < g->n_rows; i++)
            for (int64_t c = 0; c < n; c++) {
                uint32_t h = a->salt;
                sequence[(g->position + i) * n + c] = in[(g->first_row + i) * n + c];
                for (int32_t q = 0; q <= g->position + i; q++)
                    h = g_mix(h, sequence[q * n + c]);
                out[(g->first_row + i) * n + c] = h;
            }
    }
    return SL_OK;
}

static const sl_op g_mix_op = {
    .name = "mix", .attribute_bytes = sizeof(g_attributes), .shape = g_shape, .cpu = g_mix_rows};
static const sl_op g_keep_op = {.name = "keep",
                                .attribute_bytes = sizeof(g_attributes),
                                .shape = g_shape,
                                .cpu = g_keep_rows,
                                .uses_descriptor = true};

/* ---- The graph, described ---- */

typedef struct g_value {
    int columns, rows; /* rows: which row count */
    bool is_read, is_output;
} g_value;

typedef struct g_op {
    int stage, n_inputs, out;
    int inputs[3]; /* values, or weights where attributes.weight says so */
    bool keeps;
    g_attributes attributes;
} g_op;

typedef struct g_spec {
    int n_inputs, n_values, n_ops, n_stages, n_weights;
    g_value values[G_VALUES]; /* the first n_inputs are the graph's */
    g_op ops[G_OPS];
    int weight_columns[G_WEIGHTS];
    uint32_t weights[G_WEIGHTS][G_COLUMNS];
    bool has_state, has_second; /* row count */
    int source_depth[G_VALUES];
} g_spec;

/* One of the last ones mostly, so that graphs are long; of the row count: else the input that has it. */
static inline int g_pick(const g_spec *s, uint64_t *seed, int rows) {
    uint64_t n = (uint64_t)s->n_values, near = n < 4 ? n : 4;
    int v = (int)(test_below(seed, 3) ? n - 1 - test_below(seed, near) : test_below(seed, n));
    return s->values[v].rows == rows ? v : rows;
}

static inline void g_add_op(g_spec *s, uint64_t *seed, int stage, int first_input, int rows) {
    g_op *op = &s->ops[s->n_ops++];
    *op = (g_op){.stage = stage, .n_inputs = 1 + (int)test_below(seed, 3), .inputs = {first_input}};
    op->keeps = s->has_state && rows == 0 && test_below(seed, 3) == 0;
    op->n_inputs = op->keeps ? 1 : op->n_inputs;
    op->attributes.salt = (uint32_t)test_random(seed);
    op->attributes.columns = op->keeps ? s->values[first_input].columns : 1 + (int32_t)test_below(seed, G_COLUMNS);
    s->values[first_input].is_read = true;
    for (int k = 1; k < op->n_inputs; k++) {
        op->attributes.weight[k] = s->n_weights && test_below(seed, 4) == 0;
        if (op->attributes.weight[k]) {
            op->inputs[k] = (int)test_below(seed, (uint64_t)s->n_weights);
        } else {
            op->inputs[k] = g_pick(s, seed, rows);
            s->values[op->inputs[k]].is_read = true;
        }
    }
    op->out = s->n_values;
    s->values[s->n_values++] = (g_value){.columns = op->attributes.columns, .rows = rows};
}

/* The first op of each stage reads an earlier stage, so that all hangs together. */
static inline void g_add_stage(g_spec *s, uint64_t *seed, int stage) {
    int v = g_pick(s, seed, 0);
    g_add_op(s, seed, stage, stage > 0 && v < s->n_inputs ? s->ops[0].out : v, 0);
    for (uint64_t n = test_below(seed, 3); n > 0; n--) {
        int rows = s->has_second && test_below(seed, 2);
        g_add_op(s, seed, stage, g_pick(s, seed, rows), rows);
    }
}

static inline void g_make(g_spec *s, uint64_t *seed) {
    memset(s, 0, sizeof *s);
    s->has_state = test_below(seed, 2);
    s->has_second = test_below(seed, 3) == 0;
    s->n_inputs = s->has_second ? 2 + (int)test_below(seed, 2) : 1 + (int)test_below(seed, G_INPUTS);
    s->n_stages = 1 + (int)test_below(seed, G_STAGES);
    s->n_weights = (int)test_below(seed, G_WEIGHTS + 1);
    for (int i = 0; i < s->n_inputs; i++)
        s->values[s->n_values++] =
            (g_value){.columns = 1 + (int)test_below(seed, G_COLUMNS), .rows = s->has_second && i == 1};
    for (int w = 0; w < s->n_weights; w++) {
        s->weight_columns[w] = 1 + (int)test_below(seed, G_COLUMNS);
        for (int c = 0; c < G_COLUMNS; c++)
            s->weights[w][c] = (uint32_t)test_random(seed);
    }
    for (int j = 0; j < s->n_stages; j++)
        g_add_stage(s, seed, j);
    for (int i = 0; i < s->n_inputs; i++)
        if (!s->values[i].is_read)
            g_add_op(s, seed, s->n_stages - 1, i, s->values[i].rows);
    s->has_state = false;
    for (int o = 0; o < s->n_ops; o++)
        s->has_state |= s->ops[o].keeps;
    for (int v = s->n_inputs; v < s->n_values; v++) {
        s->values[v].is_output = !s->values[v].is_read || test_below(seed, 6) == 0;
        s->source_depth[v] = test_below(seed, 4) == 0 ? 1 + (int)test_below(seed, 4) : 0;
    }
}

/* ---- As the library's graph ---- */

static inline sl_graph *g_build(const g_spec *s, const sl_device *device_of_stage, sl_tensor *const *weights) {
    sl_graph *g = sl_graph_create();
    sl_value values[G_VALUES], of_weight[G_WEIGHTS];
    sl_stage stages[G_STAGES];
    char name[32];
    int64_t second = s->has_second ? sl_graph_rows(g, "tokens", 16) : 0;
    for (int i = 0; i < s->n_inputs; i++) {
        snprintf(name, sizeof name, "x%d", i);
        values[i] = sl_graph_input(g, name, SL_I32, s->values[i].rows ? second : SL_ROWS, s->values[i].columns);
    }
    for (int w = 0; w < s->n_weights; w++) {
        snprintf(name, sizeof name, "w%d", w);
        of_weight[w] = sl_graph_weight(g, name, weights[w]);
    }
    for (int j = 0; j < s->n_stages; j++) {
        snprintf(name, sizeof name, "s%d", j);
        stages[j] = sl_graph_stage_on(g, name, device_of_stage[j]);
    }
    for (int o = 0; o < s->n_ops; o++) {
        const g_op *op = &s->ops[o];
        sl_value in[3];
        sl_state state;
        for (int k = 0; k < op->n_inputs; k++)
            in[k] = op->attributes.weight[k] ? of_weight[op->inputs[k]] : values[op->inputs[k]];
        snprintf(name, sizeof name, "state%d", o);
        if (op->keeps)
            state = sl_graph_state(g, stages[op->stage], name, SL_I32, G_PLACES, G_LONG, op->attributes.columns);
        values[op->out] = sl_graph_op1(g, stages[op->stage], op->keeps ? &g_keep_op : &g_mix_op, &op->attributes,
                                       op->n_inputs, in, op->keeps, &state);
        if (s->source_depth[op->out])
            sl_graph_source_depth(g, values[op->out], s->source_depth[op->out]);
    }
    for (int v = s->n_inputs; v < s->n_values; v++) {
        snprintf(name, sizeof name, "y%d", v);
        if (s->values[v].is_output)
            sl_graph_output(g, name, values[v]);
    }
    return g;
}

/* ---- Evaluated plainly ---- */

typedef struct g_content { /* of a job: [values][rows * columns]; NULL where it was not made */
    uint32_t *at[G_VALUES];
    uint64_t rows[2];
} g_content;

typedef struct g_memory { /* of the states: [ops][place][position][columns] */
    uint32_t *at[G_OPS];
} g_memory;

static inline void g_evaluate_op(const g_spec *s, const g_op *op, g_content *c, const sl_segment *segments, uint32_t n,
                                 uint32_t *memory) {
    int columns = op->attributes.columns;
    uint64_t rows = c->rows[s->values[op->out].rows];
    uint32_t *out = c->at[op->out] = malloc(rows * (size_t)columns * 4 + 4);
    for (uint64_t r = 0; r < rows && !op->keeps; r++)
        for (int col = 0; col < columns; col++) {
            uint32_t h = op->attributes.salt;
            for (int k = 0; k < op->n_inputs; k++) {
                bool w = op->attributes.weight[k];
                int from = op->inputs[k], m = w ? s->weight_columns[from] : s->values[from].columns;
                h = g_mix(h, w ? s->weights[from][col % m] : c->at[from][r * (uint64_t)m + (uint64_t)(col % m)]);
            }
            out[r * (uint64_t)columns + (uint64_t)col] = h;
        }
    for (uint32_t g = 0; g < n && op->keeps; g++)
        for (int i = 0; i < segments[g].n_rows; i++)
            for (int col = 0; col < columns; col++) {
                uint32_t h = op->attributes.salt, *sequence = memory + segments[g].place * G_LONG * columns;
                int row = segments[g].first_row + i, at = segments[g].position + i;
                sequence[at * columns + col] = c->at[op->inputs[0]][row * columns + col];
                for (int q = 0; q <= at; q++)
                    h = g_mix(h, sequence[q * columns + col]);
                out[row * columns + col] = h;
            }
}

/* The inputs are there; makes all else. */
static inline void g_evaluate(const g_spec *s, g_content *c, const sl_segment *segments, uint32_t n, g_memory *memory) {
    for (int o = 0; o < s->n_ops; o++) {
        if (s->ops[o].keeps && !memory->at[o])
            memory->at[o] = calloc((size_t)G_PLACES * G_LONG * (size_t)s->ops[o].attributes.columns, 4);
        g_evaluate_op(s, &s->ops[o], c, segments, n, memory->at[o]);
    }
}

static inline void g_free_content(const g_spec *s, g_content *c) {
    for (int v = 0; v < s->n_values; v++)
        free(c->at[v]);
}

static inline void g_free_memory(const g_spec *s, g_memory *m) {
    for (int o = 0; o < s->n_ops; o++)
        free(m->at[o]);
}

#endif
