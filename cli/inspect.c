/* `sluice inspect`: what is in a checkpoint: tensors, types, sizes; and the model, if it is the folder of one. */
#include "cli.h"
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static bool as_json;

static const cli_option options[] = {
    {.name = "json", .kind = CLI_FLAG, .target = &as_json, .meaning = "print JSON"},
};

static void help(void) {
    cli_print_options(options, 1);
}

static void print_tensor(const sl_checkpoint_tensor *t) {
    char bytes[32];
    cli_print_name(t->name, 56);
    printf(" %-8s [", t->type_name);
    for (int d = 0; d < t->rank; d++)
        printf("%s%lld", d ? ", " : "", (long long)t->shape[d]);
    printf("]  %s%s\n", cli_bytes(t->bytes, bytes), t->readable ? "" : "  (a type that cannot be run)");
}

static json_t *tensor_json(const sl_checkpoint_tensor *t) {
    json_t *shape = json_array();
    for (int d = 0; d < t->rank; d++)
        json_array_append_new(shape, json_integer(t->shape[d]));
    return json_pack("{s:s, s:s, s:o, s:I, s:s, s:b}", "name", t->name, "type", t->type_name, "shape", shape, "bytes",
                     (json_int_t)t->bytes, "file", t->file, "readable", t->readable);
}

static json_t *tensors_json(const sl_checkpoint *c, uint64_t *total) {
    json_t *list = json_array();
    sl_checkpoint_tensor t;
    for (int i = 0; sl_checkpoint_at(c, i, &t); i++) {
        *total += t.bytes;
        if (as_json)
            json_array_append_new(list, tensor_json(&t));
        else
            print_tensor(&t);
    }
    return list;
}

static json_t *metadata_json(const sl_checkpoint *c) {
    json_t *metadata = json_object();
    const char *key, *value;
    for (int i = 0; sl_checkpoint_metadata(c, i, &key, &value); i++)
        json_object_set_new(metadata, key, json_string(value));
    return metadata;
}

static void print_model(const sl_model_info *m) {
    printf(
        "%s: %d layers, width %d, feed-forward %d, %d heads of %d, %d KV heads, vocabulary %d, context %d, head %s\n",
        m->family, m->n_layers, m->n_embd, m->n_ff, m->n_heads, m->head_dim, m->n_kv_heads, m->n_vocab, m->n_context,
        m->tied_head ? "tied" : "of its own");
}

static json_t *model_json(const sl_model_info *m) {
    return json_pack("{s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:b}", "family", m->family, "layers", m->n_layers,
                     "width", m->n_embd, "feed_forward", m->n_ff, "heads", m->n_heads, "kv_heads", m->n_kv_heads,
                     "head_dim", m->head_dim, "vocabulary", m->n_vocab, "context", m->n_context, "tied_head",
                     m->tied_head);
}

static bool has_config(const char *path) {
    size_t bytes = strlen(path) + sizeof "/config.json";
    char *config = malloc(bytes);
    struct stat st;
    bool has = config && snprintf(config, bytes, "%s/config.json", path) > 0 && stat(config, &st) == 0;
    free(config);
    return has;
}

/* The model, if the path is a folder of one; one that is not supported is said, and its tensors are listed all the
 * same. */
static json_t *describe_model(const char *path) {
    sl_model *model;
    sl_model_info info;
    if (!has_config(path))
        return json_null();
    if (sl_model_open(path, &model) != SL_OK) {
        cli_complain("%s", sl_last_error());
        return json_null();
    }
    sl_model_get_info(model, &info);
    if (!as_json)
        print_model(&info);
    json_t *described = model_json(&info);
    sl_model_release(model);
    return described;
}

static int run(int argc, char **argv) {
    const char *path;
    if (!cli_parse(argc, argv, options, 1, &path, 1, "PATH"))
        return EXIT_USAGE;
    sl_checkpoint *c;
    sl_status status = sl_checkpoint_open(path, &c);
    if (status != SL_OK)
        return cli_fail_file(status);
    uint64_t total = 0;
    json_t *model = describe_model(path), *list = tensors_json(c, &total), *metadata = metadata_json(c);
    char bytes[32];
    int n = sl_checkpoint_count(c);
    sl_checkpoint_release(c);
    if (as_json)
        return cli_print_json(json_pack("{s:o, s:o, s:o, s:I}", "model", model, "metadata", metadata, "tensors", list,
                                        "bytes", (json_int_t)total));
    printf("%d tensors, %s\n", n, cli_bytes(total, bytes));
    json_decref(model);
    json_decref(list);
    json_decref(metadata);
    return EXIT_FINE;
}

const cli_command cli_inspect = {"inspect", "PATH", "what is in a checkpoint", run, help};
