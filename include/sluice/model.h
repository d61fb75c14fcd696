/* Models: what a folder with config.json and safetensors holds, and the graph that runs it. */
#ifndef SLUICE_MODEL_H
#define SLUICE_MODEL_H

#include <sluice/checkpoint.h>

SL_BEGIN_C

typedef struct sl_model sl_model;

typedef struct sl_model_info {
    const char *family; /* "llama", "gpt2" */
    int n_layers;
    int n_embd;
    int n_ff;
    int n_heads, n_kv_heads, head_dim;
    int n_vocab;
    int n_context; /* longest sequence that the model knows */
    int bos_id;    /* -1: none */
    const int *eos_ids;
    int n_eos_ids;
    bool tied_head;
} sl_model_info;

/* A folder with config.json and safetensors, or one of its safetensors files or indices by name. Everything that the
 * graph needs is checked here: SL_IO, SL_BAD_FILE (which file, which key or tensor, what is wrong), SL_UNSUPPORTED (the
 * message lists what is supported). Returns a reference. */
SL_API sl_status sl_model_open(const char *path, sl_model **model);
SL_API sl_model *sl_model_retain(sl_model *model);
SL_API void sl_model_release(sl_model *model); /* takes NULL */
SL_API void sl_model_get_info(const sl_model *model, sl_model_info *info);
SL_API sl_checkpoint *sl_model_checkpoint(const sl_model *model); /* the model's own */

/* Devices for every layer: n_devices contiguous parts, `split` layers each (NULL: even parts, the larger first), then
 * `pins` ("layers.0-2=cpu:0,layers.4=cpu:1"; NULL: none), whose devices need not be among `devices`. The embedding
 * joins the first layer, the head the last. SL_INVALID says what does not add up, SL_NO_DEVICE what is not there. */
SL_API sl_status sl_model_place(const sl_model *model, int n_devices, const sl_device *devices, const int *split,
                                const char *pins, sl_device *layer_devices);

typedef struct sl_model_graph_options {
    const sl_device *layer_devices; /* [n_layers] */
    uint32_t max_rows;              /* most tokens in a micro-batch; 0: the plan's micro_batch_rows */
    uint32_t max_sequences;         /* most rows of the head in a micro-batch; 0: 1 */
    int n_places;                   /* sequences that have a cache; 0: 1 */
    int context;                    /* longest sequence; 0: the model's */
    bool logits;                    /* an output "logits" [sequences, n_vocab] beside the ids */
    bool layer_states;              /* outputs "state.0" .. "state.n_layers" [rows, n_embd]: the residual stream before
                                       each layer, and after the last */
} sl_model_graph_options;

/* Builds the graph. Inputs, in order: "ids" [rows, 1] i32; "last" [sequences, 1] i32, the rows whose next token is
 * asked for; "sample.ints" [sequences, SL_SAMPLE_INTS]; "sample.floats" [sequences, SL_SAMPLE_FLOATS]. Outputs, in
 * order: "next" [sequences, 1] i32; then "logits", then the layer states, if asked for. Returns a graph, whose status
 * says what is wrong with the options, or NULL when there is no memory. */
SL_API sl_graph *sl_model_graph(const sl_model *model, const sl_model_graph_options *options);

/* Writes a seeded model of a given shape as config.json and model.safetensors into `folder`, which is made if need be.
 * The same options give the same bytes on every machine. SL_INVALID, SL_UNSUPPORTED, SL_IO. */
typedef struct sl_synth_options {
    const char *family; /* "llama"; its head is its own, and a text begins with id 0 */
    int n_layers, n_embd, n_ff, n_heads, n_kv_heads, n_vocab, n_context;
    sl_dtype dtype;
    uint64_t seed;
} sl_synth_options;
SL_API sl_status sl_model_synth(const char *folder, const sl_synth_options *options);

/* Ids to text: tokenizer.json of a folder, or a vocabulary in llama2.c's format. */
typedef struct sl_vocab sl_vocab;
SL_API sl_status sl_vocab_open(const char *path, sl_vocab **vocab); /* a folder, a tokenizer.json or a tokNNN.bin */
SL_API void sl_vocab_close(sl_vocab *vocab);                        /* takes NULL */
SL_API int sl_vocab_size(const sl_vocab *vocab);
/* The bytes of one id (not NUL-terminated; perhaps part of a character): the vocabulary's own. Ids that are special or
 * unknown give no bytes. `previous` is the id before it, or -1 at the begin of a text, where some vocabularies leave
 * out a space. Valid until the vocabulary is closed. */
SL_API const char *sl_vocab_piece(const sl_vocab *vocab, int previous, int id, size_t *bytes);

SL_END_C
#endif
