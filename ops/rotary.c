/* Rotary position embedding: each head of a row is turned by the angles of the row's position. The cosines and sines
 * are a weight [max_positions, rotary_dim] which is computed here, in f64, when a device loads it: one for all ops of a
 * graph with the same options, and nothing that a kind of device would have to know. */
#include "cpu/kernels.h"
#include "rules.h"
#include <math.h>
#include <sluice/memory.h>
#include <stdio.h>
#include <string.h>

/* ---- The table: row p has rotary_dim / 2 cosines of p * frequency, then as many sines ---- */

typedef struct table {
    int dim;
    double frequencies[]; /* [dim / 2] */
} table;

/* Llama 3.1's scaling: slow turns are slowed by `factor`, fast ones are left, and in between it is blended. */
static double scale_llama3(const sl_rotary_options *o, double frequency) {
    const double tau = 6.283185307179586476925286766559;
    double turns = o->original_max_positions * frequency / tau; /* over the context of the training */
    if (turns < o->low_freq_factor)
        return frequency / o->factor;
    if (turns > o->high_freq_factor)
        return frequency;
    double blend = (turns - o->low_freq_factor) / (o->high_freq_factor - o->low_freq_factor);
    return (1 - blend) * frequency / o->factor + blend * frequency;
}

static float table_element(const table *t, size_t index) {
    size_t k = index % (size_t)t->dim, half = (size_t)t->dim / 2;
    size_t position = index / (size_t)t->dim;
    double angle = (double)position * t->frequencies[k < half ? k : k - half];
    return (float)(k < half ? cos(angle) : sin(angle));
}

static sl_status read_table(void *user, size_t offset, void *destination, size_t bytes) {
    for (size_t done = 0; done < bytes;) {
        size_t inside = (offset + done) % sizeof(float), n = sizeof(float) - inside;
        float value = table_element(user, (offset + done) / sizeof(float));
        if (n > bytes - done)
            n = bytes - done;
        memcpy((char *)destination + done, (char *)&value + inside, n);
        done += n;
    }
    return SL_OK;
}

sl_status sli_rotary_source(const sl_rotary_options *o, sl_source *source) {
    int half = o->rotary_dim / 2;
    table *t = sl_malloc(sizeof *t + (size_t)half * sizeof *t->frequencies);
    if (!t)
        return SL_OUT_OF_MEMORY;
    t->dim = o->rotary_dim;
    for (int k = 0; k < half; k++) {
        double frequency = pow(o->base, -2.0 * k / o->rotary_dim);
        t->frequencies[k] = o->scaling == SL_ROTARY_LLAMA3 ? scale_llama3(o, frequency) : frequency;
    }
    *source = (sl_source){.read = read_table, .release = sl_free, .user = t};
    return SL_OK;
}

/* The name says all that the content depends on, so that a weight of this name is this table. */
static sl_value find_table(sl_graph *g, const sl_rotary_options *o) {
    char name[256];
    size_t n = (size_t)snprintf(name, sizeof name, "rotary table %d x %d, base %.17g", o->max_positions, o->rotary_dim,
                                o->base);
    if (o->scaling == SL_ROTARY_LLAMA3)
        snprintf(name + n, sizeof name - n, ", llama3 %.17g %.17g %.17g %d", o->factor, o->low_freq_factor,
                 o->high_freq_factor, o->original_max_positions);
    sl_value found = sl_graph_find_weight(g, name);
    sl_source source;
    if (found.id || sl_graph_status(g) != SL_OK)
        return found;
    if (sli_rotary_source(o, &source) != SL_OK) {
        sl_graph_fail(g, SL_OUT_OF_MEMORY, "%s: no host memory for it", name);
        return found;
    }
    return sl_graph_weight_source(g, name, SL_F32, 2, (int64_t[]){o->max_positions, o->rotary_dim}, &source);
}

/* ---- The op ---- */

static sl_status check_llama3(const sl_rotary_options *o) {
    if (!(o->factor > 0) || !(o->low_freq_factor > 0) || !(o->high_freq_factor > o->low_freq_factor) ||
        o->original_max_positions < 1)
        return sl_fail(SL_INVALID,
                       "llama3 scaling has factor %g, low_freq_factor %g, high_freq_factor %g, original_max_positions "
                       "%d; expected numbers above 0, with low_freq_factor below high_freq_factor",
                       o->factor, o->low_freq_factor, o->high_freq_factor, o->original_max_positions);
    return SL_OK;
}

static sl_status check_options(const sl_rotary_options *o) {
    if (o->n_heads < 1 || o->head_dim < 2)
        return sl_fail(SL_INVALID, "n_heads is %d and head_dim %d; expected 1 and 2 at least", o->n_heads, o->head_dim);
    if (o->rotary_dim < 2 || o->rotary_dim > o->head_dim || o->rotary_dim % 2)
        return sl_fail(SL_INVALID, "rotary_dim is %d; expected an even number from 2 to head_dim, which is %d",
                       o->rotary_dim, o->head_dim);
    if (o->pairs != SL_ROTARY_HALVES && o->pairs != SL_ROTARY_INTERLEAVED)
        return sl_fail(SL_INVALID, "pairs is %d; expected SL_ROTARY_HALVES or SL_ROTARY_INTERLEAVED", (int)o->pairs);
    if (!(o->base > 0) || isinf(o->base))
        return sl_fail(SL_INVALID, "base is %g; expected a number above 0, such as 10000", o->base);
    if (o->max_positions < 1)
        return sl_fail(SL_INVALID, "max_positions is %d; expected the longest sequence, 1 at least", o->max_positions);
    if (o->scaling == SL_ROTARY_LLAMA3)
        return check_llama3(o);
    if (o->scaling != SL_ROTARY_PLAIN)
        return sl_fail(SL_INVALID, "scaling is %d; expected SL_ROTARY_PLAIN or SL_ROTARY_LLAMA3", (int)o->scaling);
    return SL_OK;
}

static sl_status shape(const void *attributes, int n_inputs, const sl_type *inputs, const bool *is_weight,
                       int *n_outputs, sl_type *outputs) {
    const sl_rotary_options *o = attributes;
    (void)is_weight;
    SL_TRY(check_options(o));
    SL_TRY(sli_need_tokens(0, "x", &inputs[0], (int64_t)o->n_heads * o->head_dim));
    if (n_inputs > 1)
        SL_TRY(sli_need_matrix(1, "table", &inputs[1], SL_F32, o->rotary_dim));
    *n_outputs = 1;
    outputs[0] = inputs[0];
    return SL_OK;
}

static void cost(const sl_call *call, sl_cost *cost) {
    const sl_rotary_options *o = call->attributes;
    const sl_view *x = &call->inputs[0];
    double rows = (double)x->shape.dims[0];
    *cost = (sl_cost){.operations = rows * 3 * o->n_heads * o->rotary_dim,
                      .bytes_read = sli_view_bytes(x) + rows * (double)call->inputs[1].row_bytes,
                      .bytes_written = sli_view_bytes(x)};
}

const sl_op sli_op_rotary = {.name = "rotary",
                             .attribute_bytes = sizeof(sl_rotary_options),
                             .shape = shape,
                             .cost = cost,
                             .cpu = sli_cpu_rotary,
                             .never_blocks = true,
                             .uses_descriptor = true};

/* Options that are wrong make no table: the shape rule, which says what is wrong, comes first. */
sl_value sl_rotary(sl_graph *g, sl_stage s, sl_value x, const sl_rotary_options *options) {
    sl_rotary_options o = options ? *options : (sl_rotary_options){0};
    if (!o.rotary_dim)
        o.rotary_dim = o.head_dim;
    if (o.base == 0)
        o.base = 10000;
    if (check_options(&o) != SL_OK)
        return sl_graph_op1(g, s, &sli_op_rotary, &o, 1, &x, 0, NULL);
    return sl_graph_op1(g, s, &sli_op_rotary, &o, 2, (sl_value[]){x, find_table(g, &o)}, 0, NULL);
}
