/* Seeded models: the shape of a real one with random weights, for demos, tests and benchmarks. The same seed gives the
 * same bytes on every machine: each element is a function of (seed, tensor, index), worked out in integers and one
 * product.
 *
 * Every matrix has elements of standard deviation 1 / sqrt(columns), so that what it makes of a normalised row is a row
 * of about the same size, however deep the model is; norms are 1. The head is not tied to the embedding: it would
 * answer with the id it was given. */
#include "checkpoint.h"
#include "family.h"
#include "model.h"
#include <errno.h>
#include <math.h>
#include <sluice/memory.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PER_LAYER = 9, OTHERS = 3, PIECE = 1024 };

typedef struct synth {
    const sl_synth_options *options;
    int n_entries;
    sl_checkpoint_entry *entries;
    sli_name *names;
} synth;

/* SplitMix64's output function: well mixed bits of a counter. */
static uint64_t mix(uint64_t z) {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* The sum of four 16-bit numbers: near enough to a normal one, of mean 0 and standard deviation 1 (Irwin-Hall). */
static float draw(uint64_t key, uint64_t i) {
    uint64_t bits = mix(key + (i + 1) * 0x9e3779b97f4a7c15u);
    int sum = (int)(bits & 0xffff) + (int)(bits >> 16 & 0xffff) + (int)(bits >> 32 & 0xffff) + (int)(bits >> 48);
    return (float)(sum - 2 * 0xffff) * (float)(1.0 / (65536 * 0.57735026918962576));
}

static void fill_piece(const sl_checkpoint_entry *entry, uint64_t key, uint64_t first, size_t n, float *values) {
    float scale = entry->rank == 2 ? (float)(1 / sqrt((double)entry->shape[1])) : 0;
    for (size_t k = 0; k < n; k++)
        values[k] = entry->rank == 2 ? draw(key, first + k) * scale : 1;
}

static sl_status fill(void *user, int i, void *destination, size_t bytes) {
    const synth *s = user;
    const sl_checkpoint_entry *entry = &s->entries[i];
    size_t size = sl_dtype_get(entry->dtype)->block_bytes;
    uint64_t key = mix(s->options->seed + mix((uint64_t)i + 1));
    float values[PIECE];
    for (size_t done = 0, n; done < bytes / size; done += n) {
        n = bytes / size - done < PIECE ? bytes / size - done : PIECE;
        fill_piece(entry, key, done, n, values);
        SL_TRY(sl_convert(entry->dtype, (char *)destination + done * size, SL_F32, values, n));
    }
    return SL_OK;
}

static void add(synth *s, sli_name name, int64_t rows, int64_t columns) {
    s->names[s->n_entries] = name;
    sl_checkpoint_entry *entry = &s->entries[s->n_entries];
    *entry = (sl_checkpoint_entry){s->names[s->n_entries].text, s->options->dtype, columns ? 2 : 1, {rows, columns}};
    s->n_entries++;
}

static void add_layer(synth *s, int layer) {
    const sl_synth_options *o = s->options;
    int64_t kv = (int64_t)(o->n_embd / o->n_heads) * o->n_kv_heads;
    const struct {
        const char *name;
        int64_t rows, columns;
    } tensors[PER_LAYER] = {
        {"input_layernorm", o->n_embd, 0},          {"self_attn.q_proj", o->n_embd, o->n_embd},
        {"self_attn.k_proj", kv, o->n_embd},        {"self_attn.v_proj", kv, o->n_embd},
        {"self_attn.o_proj", o->n_embd, o->n_embd}, {"post_attention_layernorm", o->n_embd, 0},
        {"mlp.gate_proj", o->n_ff, o->n_embd},      {"mlp.up_proj", o->n_ff, o->n_embd},
        {"mlp.down_proj", o->n_embd, o->n_ff},
    };
    for (int i = 0; i < PER_LAYER; i++)
        add(s, sli_name_of("model.layers.%d.%s.weight", layer, tensors[i].name), tensors[i].rows, tensors[i].columns);
}

static sl_status write_weights(const sl_synth_options *options, const char *path) {
    size_t n = (size_t)options->n_layers * PER_LAYER + OTHERS;
    synth s = {options, 0, sl_calloc(n, sizeof *s.entries), sl_calloc(n, sizeof *s.names)};
    sl_status status = SL_OUT_OF_MEMORY;
    if (s.entries && s.names) {
        add(&s, sli_name_of("model.embed_tokens.weight"), options->n_vocab, options->n_embd);
        for (int layer = 0; layer < options->n_layers; layer++)
            add_layer(&s, layer);
        add(&s, sli_name_of("model.norm.weight"), options->n_embd, 0);
        add(&s, sli_name_of("lm_head.weight"), options->n_vocab, options->n_embd);
        status = sl_checkpoint_write(path, s.n_entries, s.entries, fill, &s);
    }
    sl_free(s.entries);
    sl_free(s.names);
    return status;
}

static json_t *describe(const sl_synth_options *o) {
    static const char *const types[] = {[SL_F32] = "float32", [SL_F16] = "float16", [SL_BF16] = "bfloat16"};
    return json_pack("{s:[s], s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:f, s:f, s:s, s:b, s:i, s:n, s:s}",
                     "architectures", "LlamaForCausalLM", "model_type", "llama", "hidden_size", o->n_embd,
                     "intermediate_size", o->n_ff, "num_hidden_layers", o->n_layers, "num_attention_heads", o->n_heads,
                     "num_key_value_heads", o->n_kv_heads, "vocab_size", o->n_vocab, "max_position_embeddings",
                     o->n_context, "rms_norm_eps", 1e-5, "rope_theta", 10000.0, "hidden_act", "silu",
                     "tie_word_embeddings", 0, "bos_token_id", 0, "eos_token_id", "torch_dtype", types[o->dtype]);
}

/* The shape is checked by whoever reads the config: with the same sentences as for any model. */
static sl_status check_shape(const char *path, json_t *config) {
    sli_config read = {0};
    return sli_family_llama.configure(&(sli_keys){path, "", config}, &read);
}

static sl_status write_config(const char *path, json_t *config) {
    if (json_dump_file(config, path, JSON_INDENT(1)))
        return sl_fail(SL_IO, "%s: cannot be written: %s", path, strerror(errno));
    return SL_OK;
}

static sl_status check_options(const sl_synth_options *options) {
    if (!options->family || strcmp(options->family, sli_family_llama.name) != 0)
        return sl_fail(SL_UNSUPPORTED, "synth: the family '%s' is not supported; supported is llama",
                       options->family ? options->family : "");
    if (options->dtype != SL_F32 && options->dtype != SL_F16 && options->dtype != SL_BF16)
        return sl_fail(SL_UNSUPPORTED, "synth: the type %s is not supported; supported are f32, f16, bf16",
                       sl_dtype_name(options->dtype));
    return SL_OK;
}

static sl_status synthesise(const char *folder, const sl_synth_options *options, const char *config_path,
                            const char *weights_path) {
    json_t *config = describe(options);
    if (!config)
        return sl_fail(SL_OUT_OF_MEMORY, "synth: out of host memory");
    sl_status status = check_shape(config_path, config);
    if (status == SL_BAD_FILE)
        status = sl_fail(SL_INVALID, "synth: no such model: %s", sl_last_error());
    if (status == SL_OK && mkdir(folder, 0777) && errno != EEXIST)
        status = sl_fail(SL_IO, "%s: the folder cannot be made: %s", folder, strerror(errno));
    if (status == SL_OK)
        status = write_weights(options, weights_path);
    if (status == SL_OK)
        status = write_config(config_path, config);
    json_decref(config);
    return status;
}

sl_status sl_model_synth(const char *folder, const sl_synth_options *options) {
    SL_TRY(check_options(options));
    char *config_path = sli_path_in(folder, "config.json"), *weights_path = sli_path_in(folder, "model.safetensors");
    sl_status status = SL_OUT_OF_MEMORY;
    if (config_path && weights_path)
        status = synthesise(folder, options, config_path, weights_path);
    sl_free(config_path);
    sl_free(weights_path);
    return status;
}
