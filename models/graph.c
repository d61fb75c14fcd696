/* The graph of a model: what all families share. A run of layers on one device is one stage; the embedding joins the
 * first, the head and the sampling the last; only the residual stream goes from stage to stage. */
#include "model.h"
#include "weight.h"
#include <sluice/memory.h>
#include <stdarg.h>
#include <stdio.h>

sli_name sli_name_of(const char *format, ...) {
    sli_name name;
    va_list args;
    va_start(args, format);
    vsnprintf(name.text, sizeof name.text, format, args);
    va_end(args);
    return name;
}

bool sli_has_tensor(const sl_model *model, const char *name) {
    sl_checkpoint_tensor tensor;
    return sl_checkpoint_find(model->checkpoint, name, &tensor);
}

sl_value sli_matrix(sli_builder *b, const char *name, int64_t out, int64_t in) {
    return sli_weight_add(b->model->checkpoint, b->graph, &(sli_weight){.name = name, .rank = 2, .shape = {out, in}});
}

sl_value sli_vector(sli_builder *b, const char *name, int64_t n) {
    return sli_weight_add(b->model->checkpoint, b->graph, &(sli_weight){.name = name, .rank = 1, .shape = {n}});
}

sl_value sli_bias(sli_builder *b, const char *name, int64_t n) {
    return sli_weight_add(b->model->checkpoint, b->graph,
                          &(sli_weight){.name = name, .rank = 1, .shape = {n}, .f32 = true});
}

sl_value sli_attend(sli_builder *b, sl_stage s, int layer, sl_value q, sl_value k, sl_value v, float scale) {
    const sl_model_info *info = &b->model->config.info;
    sl_attention_options options = {info->n_heads, info->n_kv_heads, info->head_dim, scale};
    int64_t columns = (int64_t)info->n_kv_heads * info->head_dim;
    sl_state k_cache =
        sl_graph_state(b->graph, s, sli_name_of("layers.%d.k", layer).text, SL_F32, b->n_places, b->context, columns);
    sl_state v_cache =
        sl_graph_state(b->graph, s, sli_name_of("layers.%d.v", layer).text, SL_F32, b->n_places, b->context, columns);
    return sl_attention(b->graph, s, q, k, v, k_cache, v_cache, &options);
}

/* ---- The graph ---- */

typedef struct inputs {
    sl_value ids, last, sample_ints, sample_floats;
} inputs;

static inputs add_inputs(sl_graph *g, const sl_model_graph_options *options) {
    sl_graph_set_rows(g, SL_ROWS, "tokens", options->max_rows);
    int64_t sequences = sl_graph_rows(g, "sequences", options->max_sequences);
    inputs in;
    in.ids = sl_graph_input(g, "ids", SL_I32, SL_ROWS, 1);
    in.last = sl_graph_input(g, "last", SL_I32, sequences, 1);
    in.sample_ints = sl_graph_input(g, "sample.ints", SL_I32, sequences, SL_SAMPLE_INTS);
    in.sample_floats = sl_graph_input(g, "sample.floats", SL_F32, sequences, SL_SAMPLE_FLOATS);
    return in;
}

/* How many layers from `first` lie on its device. */
static int run_length(const sl_model *model, const sl_device *devices, int first) {
    int n = 1;
    while (first + n < model->config.info.n_layers && sl_device_equal(devices[first], devices[first + n]))
        n++;
    return n;
}

static sl_stage add_stage(sl_graph *g, int first, int n, sl_device device) {
    sli_name name = n == 1 ? sli_name_of("layers.%d", first) : sli_name_of("layers.%d-%d", first, first + n - 1);
    return sl_graph_stage_on(g, name.text, device);
}

static void add_head(sli_builder *b, sl_stage s, sl_value x, const inputs *in, bool logits_too) {
    x = sl_gather(b->graph, s, x, in->last);
    sl_value logits = b->model->family->head(b, s, x);
    sl_graph_output(b->graph, "next", sl_sample(b->graph, s, logits, in->sample_ints, in->sample_floats));
    if (logits_too)
        sl_graph_output(b->graph, "logits", logits);
}

static void add_states(sl_graph *g, const sl_value *states, int n) {
    for (int i = 0; i < n; i++)
        sl_graph_output(g, sli_name_of("state.%d", i).text, states[i]);
}

/* `states` [n_layers + 1] gets the residual stream before each layer and after the last. */
static void build(sli_builder *b, const sl_model_graph_options *options, sl_value *states) {
    const sli_family *family = b->model->family;
    int n_layers = b->model->config.info.n_layers;
    inputs in = add_inputs(b->graph, options);
    sl_stage stage = {0};
    for (int layer = 0, next_stage = 0; layer < n_layers; layer++) {
        if (layer == next_stage) {
            int n = run_length(b->model, options->layer_devices, layer);
            stage = add_stage(b->graph, layer, n, options->layer_devices[layer]);
            next_stage += n;
        }
        if (!layer)
            states[0] = family->embed(b, stage, in.ids);
        states[layer + 1] = family->layer(b, stage, layer, states[layer]);
        if (sl_graph_status(b->graph) != SL_OK)
            return; /* a file may claim many layers that it does not have */
    }
    add_head(b, stage, states[n_layers], &in, options->logits);
    if (options->layer_states)
        add_states(b->graph, states, n_layers + 1);
}

sl_graph *sl_model_graph(const sl_model *model, const sl_model_graph_options *given) {
    const sl_model_info *info = &model->config.info;
    sl_model_graph_options options = *given;
    options.n_places = given->n_places ? given->n_places : 1;
    options.max_sequences = given->max_sequences ? given->max_sequences : 1;
    options.context = given->context ? given->context : info->n_context;
    sl_graph *graph = sl_graph_create();
    sl_value *states = sl_calloc((size_t)info->n_layers + 1, sizeof *states);
    if (!graph || !states) {
        sl_graph_destroy(graph);
        sl_free(states);
        return NULL;
    }
    sli_builder b = {.model = model, .graph = graph, .n_places = options.n_places, .context = options.context};
    if (!options.layer_devices)
        sl_graph_fail(graph, SL_INVALID,
                      "sl_model_graph: no devices are given: a device for each of %d layers is expected",
                      info->n_layers);
    if (options.context < 1 || options.context > info->n_context)
        sl_graph_fail(graph, SL_INVALID, "sl_model_graph: a context of %d is asked for: the model knows 1 to %d",
                      options.context, info->n_context);
    if (options.n_places < 1)
        sl_graph_fail(graph, SL_INVALID, "sl_model_graph: %d places are asked for: 1 or more is expected",
                      options.n_places);
    if (sl_graph_status(graph) == SL_OK)
        build(&b, &options, states);
    sl_free(states);
    return graph;
}
