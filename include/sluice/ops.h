/* The library's ops, each a function that puts one in a stage and returns its output. Values are [rows, columns]; all
 * activations are f32, ids are i32. A wrong shape becomes the graph's error. How each computes, and the order of its
 * sums, is in ops/README.md. */
#ifndef SLUICE_OPS_H
#define SLUICE_OPS_H

#include <sluice/graph.h>

SL_BEGIN_C

#define SL_NONE ((sl_value){0}) /* an optional input that is not there */

/* y = x w^T + b: x [rows, in], w [out, in] in f32, f16 or bf16, b [out] in f32 or SL_NONE; y [rows, out]. Sums in f32,
 * one fixed order for each element (ops/README.md). */
SL_API sl_value sl_linear(sl_graph *g, sl_stage s, sl_value x, sl_value w, sl_value b);

/* Rows of a table by id: ids [rows, 1] i32, table [n, columns] in f32, f16 or bf16; y [rows, columns] f32. An id that
 * is not in 0 .. n-1 fails the job. */
SL_API sl_value sl_embedding(sl_graph *g, sl_stage s, sl_value ids, sl_value table);

/* y[r] = x[r] + table[position of row r]: x [rows, columns], table [longest, columns] in f32, f16 or bf16: learned
 * positions. The position comes from the micro-batch's segments; one that is not in 0 .. longest-1 fails the job. */
SL_API sl_value sl_position_embedding(sl_graph *g, sl_stage s, sl_value x, sl_value table);

/* y[r] = x[index[r]]: x [rows of one count, columns], index [rows of any count, 1] i32. An index outside of the
 * micro-batch's rows fails the job. */
SL_API sl_value sl_gather(sl_graph *g, sl_stage s, sl_value x, sl_value index);

/* Element by element. Both have the same type, or b is a weight of one row [columns] in f32, f16 or bf16, which is used
 * for each row. */
SL_API sl_value sl_add(sl_graph *g, sl_stage s, sl_value a, sl_value b);
SL_API sl_value sl_mul(sl_graph *g, sl_stage s, sl_value a, sl_value b);
SL_API sl_value sl_scale(sl_graph *g, sl_stage s, sl_value x, float factor);

SL_API sl_value sl_relu(sl_graph *g, sl_stage s, sl_value x);
SL_API sl_value sl_gelu(sl_graph *g, sl_stage s, sl_value x);      /* 0.5 x (1 + erf(x / sqrt 2)) */
SL_API sl_value sl_gelu_tanh(sl_graph *g, sl_stage s, sl_value x); /* Hendrycks and Gimpel's tanh form, 0.044715 */
SL_API sl_value sl_silu(sl_graph *g, sl_stage s, sl_value x);      /* x / (1 + exp(-x)) */
SL_API sl_value sl_silu_gated(sl_graph *g, sl_stage s, sl_value gate, sl_value up); /* silu(gate) * up */

SL_API sl_value sl_softmax(sl_graph *g, sl_stage s, sl_value x); /* of each row */

/* (x - mean) / sqrt(variance + eps) * weight + bias of each row; weight and bias are weights [columns] in f32, f16 or
 * bf16; bias may be SL_NONE. */
SL_API sl_value sl_layer_norm(sl_graph *g, sl_stage s, sl_value x, sl_value weight, sl_value bias, float eps);

/* x / sqrt(mean(x^2) + eps) * weight of each row (Zhang and Sennrich 2019). */
SL_API sl_value sl_rms_norm(sl_graph *g, sl_stage s, sl_value x, sl_value weight, float eps);

typedef enum sl_rotary_pairs {
    SL_ROTARY_HALVES,     /* element k of a head is turned with element k + n/2: Hugging Face */
    SL_ROTARY_INTERLEAVED /* element 2k with 2k + 1: Su et al. 2021, Meta */
} sl_rotary_pairs;

typedef enum sl_rotary_scaling { SL_ROTARY_PLAIN, SL_ROTARY_LLAMA3 } sl_rotary_scaling;

typedef struct sl_rotary_options {
    int n_heads;    /* columns = n_heads * head_dim */
    int head_dim;   /* even */
    int rotary_dim; /* the leading elements of a head that are turned; 0: all */
    sl_rotary_pairs pairs;
    double base;       /* 0: 10000 */
    int max_positions; /* the longest sequence: the size of the table, which is computed in f64 */
    sl_rotary_scaling scaling;
    double factor, low_freq_factor, high_freq_factor; /* llama3 */
    int original_max_positions;                       /* llama3 */
} sl_rotary_options;

/* Turns each head of row r by the angles of the row's position, which comes from the micro-batch's segments. The
 * cosines and sines are a weight that this makes; ops with the same angles share it. A position that is not in 0 ..
 * max_positions-1 fails the job. */
SL_API sl_value sl_rotary(sl_graph *g, sl_stage s, sl_value x, const sl_rotary_options *options);

typedef struct sl_attention_options {
    int n_heads, n_kv_heads; /* n_heads is a multiple of n_kv_heads */
    int head_dim;
    float scale; /* of q k^T; 0: 1 / sqrt(head_dim) */
} sl_attention_options;

/* Causal attention with grouped KV heads. q [rows, n_heads * head_dim], k and v [rows, n_kv_heads * head_dim]. First k
 * and v of the micro-batch are written to the caches (f32, [places, longest, n_kv_heads * head_dim]) at the places and
 * positions of its segments; then each row attends to its own sequence up to itself. Keys are cut at fixed positions,
 * and the parts are combined in one order. A place or a position outside of the caches fails the job. */
SL_API sl_value sl_attention(sl_graph *g, sl_stage s, sl_value q, sl_value k, sl_value v, sl_state k_cache,
                             sl_state v_cache, const sl_attention_options *options);

/* The index of each row's largest element, the lowest of equals; [rows, 1] i32. NaN is never it, unless all are: then
 * 0. */
SL_API sl_value sl_argmax(sl_graph *g, sl_stage s, sl_value x);

/* Columns of sl_sample's parameters. */
enum {
    SL_SAMPLE_SEED_LOW,  /* i32 columns: the seed's low and high half, */
    SL_SAMPLE_SEED_HIGH, /* */
    SL_SAMPLE_SEQUENCE,  /* the sequence's number, */
    SL_SAMPLE_POSITION,  /* the position that is drawn, */
    SL_SAMPLE_TOP_K,     /* 0: all */
    SL_SAMPLE_INTS
};
enum {
    SL_SAMPLE_TEMPERATURE, /* f32 columns: 0: argmax */
    SL_SAMPLE_TOP_P,       /* 0 or 1: all */
    SL_SAMPLE_FLOATS
};

/* Draws an id a row from softmax(logits / temperature), cut to the top_k most likely (of equals the lower ids) and then
 * to the fewest of these whose share of their sum reaches top_p. The number drawn is a function of (seed, sequence,
 * position) alone (Philox4x32-10, Salmon et al. 2011); ids are laid out in the order of falling logits, and the one
 * that the number falls on is taken. A row whose largest logit is not finite, and parameters out of range, fail the
 * job. logits [rows, n], ints [rows, SL_SAMPLE_INTS] i32, floats [rows, SL_SAMPLE_FLOATS] f32; [rows, 1] i32. */
SL_API sl_value sl_sample(sl_graph *g, sl_stage s, sl_value logits, sl_value ints, sl_value floats);

SL_END_C
#endif
