/* Causal attention with grouped KV heads over caches that are states: shape and cost. */
#include "cpu/kernels.h"
#include "rules.h"
#include <math.h>

static sl_status check_options(const sl_attention_options *o) {
    if (o->n_kv_heads < 1 || o->n_heads < 1 || o->n_heads % o->n_kv_heads)
        return sl_fail(SL_INVALID,
                       "n_heads is %d and n_kv_heads %d; expected numbers above 0, the first a multiple of "
                       "the second",
                       o->n_heads, o->n_kv_heads);
    if (o->head_dim < 1)
        return sl_fail(SL_INVALID, "head_dim is %d; expected 1 at least", o->head_dim);
    if (!(o->scale > 0) || isinf(o->scale))
        return sl_fail(SL_INVALID, "scale is %g; expected a number above 0, or 0 for 1 / sqrt(head_dim)",
                       (double)o->scale);
    return SL_OK;
}

static sl_status states(const void *attributes, int n_states, const sl_state_view *states) {
    const sl_attention_options *o = attributes;
    static const char *const names[] = {"k_cache", "v_cache"};
    (void)n_states;
    SL_TRY(check_options(o));
    int64_t columns = (int64_t)o->n_kv_heads * o->head_dim;
    for (int i = 0; i < 2; i++) {
        const sl_state_view *s = &states[i];
        if (s->dtype != SL_F32 || s->columns != columns)
            return sl_fail(SL_INVALID, "state %d (%s) has rows of %lld %s; expected %lld f32, n_kv_heads * head_dim", i,
                           names[i], (long long)s->columns, sl_dtype_name(s->dtype), (long long)columns);
        if (s->n_places != states[0].n_places || s->n_rows != states[0].n_rows)
            return sl_fail(SL_INVALID, "state %d (%s) has %lld places of %lld rows; expected %lld of %lld like k_cache",
                           i, names[i], (long long)s->n_places, (long long)s->n_rows, (long long)states[0].n_places,
                           (long long)states[0].n_rows);
    }
    return SL_OK;
}

static sl_status shape(const void *attributes, int n_inputs, const sl_type *inputs, const bool *is_weight,
                       int *n_outputs, sl_type *outputs) {
    const sl_attention_options *o = attributes;
    (void)n_inputs, (void)is_weight;
    SL_TRY(sli_need_tokens(0, "q", &inputs[0], (int64_t)o->n_heads * o->head_dim));
    SL_TRY(sli_need_tokens(1, "k", &inputs[1], (int64_t)o->n_kv_heads * o->head_dim));
    SL_TRY(sli_need_tokens(2, "v", &inputs[2], (int64_t)o->n_kv_heads * o->head_dim));
    *n_outputs = 1;
    outputs[0] = inputs[0];
    return SL_OK;
}

/* Where the segments are not known (a simulation, a plan), a sequence is taken to be half as long as it can get. */
static void count_keys(const sl_call *call, double *pairs, double *read) {
    const sl_descriptor *d = call->descriptor;
    double longest = (double)call->states[0].n_rows;
    *pairs = (double)call->inputs[0].shape.dims[0] * longest / 2;
    *read = (d->n_segments ? d->n_segments : 1) * longest / 2;
    if (!d->segments)
        return;
    *pairs = *read = 0;
    for (uint32_t i = 0; i < d->n_segments; i++) {
        double before = d->segments[i].position, rows = d->segments[i].n_rows;
        *pairs += rows * before + rows * (rows + 1) / 2;
        *read += before + rows;
    }
}

/* A key costs a query a product of head_dim, its exponential, and head_dim of the sum of values. */
static void cost(const sl_call *call, sl_cost *cost) {
    const sl_attention_options *o = call->attributes;
    double pairs, read;
    count_keys(call, &pairs, &read);
    sli_cost_of_all(call, pairs * o->n_heads * (4.0 * o->head_dim + SLI_FUNCTION_OPERATIONS + 4), cost);
    cost->bytes_read += 2 * read * (double)call->states[0].row_bytes;
    cost->bytes_written += sli_view_bytes(&call->inputs[1]) + sli_view_bytes(&call->inputs[2]);
}

const sl_op sli_op_attention = {.name = "attention",
                                .attribute_bytes = sizeof(sl_attention_options),
                                .shape = shape,
                                .cost = cost,
                                .cpu = sli_cpu_attention,
                                .never_blocks = true,
                                .states = states,
                                .uses_descriptor = true};

sl_value sl_attention(sl_graph *g, sl_stage s, sl_value q, sl_value k, sl_value v, sl_state k_cache, sl_state v_cache,
                      const sl_attention_options *options) {
    sl_attention_options o = options ? *options : (sl_attention_options){0};
    if (k_cache.id && k_cache.id == v_cache.id)
        sl_graph_fail(g, SL_INVALID, "op 'attention': k_cache and v_cache are one state; make two");
    if (o.scale == 0 && o.head_dim > 0)
        o.scale = 1.0f / sqrtf((float)o.head_dim);
    return sl_graph_op1(g, s, &sli_op_attention, &o, 3, (sl_value[]){q, k, v}, 2, (sl_state[]){k_cache, v_cache});
}
