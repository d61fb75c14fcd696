/* The index of a sharded checkpoint, model.safetensors.index.json:
 *     {"metadata": {...}, "weight_map": {"model.norm.weight": "model-00002-of-00002.safetensors", ...}}
 * Which shards there are, and whether each tensor is where the index says. */
#include "checkpoint.h"
#include "json.h"
#include "show.h"
#include <sluice/memory.h>
#include <stdio.h>
#include <string.h>

static sl_status check_entry(const char *path, const char *name, const json_t *value) {
    sli_shown tensor = sli_show(name);
    if (!json_is_string(value))
        return sl_fail(SL_BAD_FILE, "%s: tensor '%s' is mapped to %s where a file's name is expected", path,
                       tensor.text, sli_json_kind(value));
    const char *file = json_string_value(value);
    if (!*file || strchr(file, '/') || !strcmp(file, ".") || !strcmp(file, ".."))
        return sl_fail(SL_BAD_FILE,
                       "%s: tensor '%s' is mapped to \"%s\": shards lie beside the index, and their names have no '/'",
                       path, tensor.text, sli_show(file).text);
    return SL_OK;
}

static sl_status load_map(const char *path, json_t **root, json_t **map) {
    SL_TRY(sli_json_load(path, root));
    *map = json_object_get(*root, "weight_map");
    const char *found = !*map ? "missing" : !json_is_object(*map) ? "no object" : "empty";
    if (json_is_object(*map) && json_object_size(*map))
        return SL_OK;
    json_decref(*root);
    return sl_fail(SL_BAD_FILE, "%s: 'weight_map' is %s where an object that maps tensors to files is expected", path,
                   found);
}

static sl_status open_shard(const char *index, const char *name, const char *file, sl_checkpoint *checkpoint) {
    char *path = sli_path_beside(index, file);
    if (!path)
        return SL_OUT_OF_MEMORY;
    sl_status status = sli_shard_open(path, &checkpoint->shards[checkpoint->n_shards++]);
    if (status == SL_IO) {
        char why[512];
        snprintf(why, sizeof why, "%s", sl_last_error());
        sl_fail(SL_IO, "%s (a shard that %s names, for tensor '%s' and perhaps others)", why, index,
                sli_show(name).text);
    }
    sl_free(path);
    return status;
}

/* Opens each file that is named, once, in the order of their first mention. */
static sl_status open_shards(const char *path, json_t *map, json_t *seen, sl_checkpoint *checkpoint) {
    const char *name;
    json_t *value;
    json_object_foreach(map, name, value) {
        SL_TRY(check_entry(path, name, value));
        if (json_object_set(seen, json_string_value(value), json_true()))
            return sl_fail(SL_OUT_OF_MEMORY, "%s: out of host memory while it was read", path);
    }
    if (!(checkpoint->shards = sl_calloc(json_object_size(seen), sizeof *checkpoint->shards)))
        return SL_OUT_OF_MEMORY;
    json_object_foreach(map, name, value) {
        const char *file = json_string_value(value);
        if (json_object_del(seen, file))
            continue; /* it is open */
        SL_TRY(open_shard(path, name, file, checkpoint));
    }
    return SL_OK;
}

sl_status sli_index_open(const char *path, sl_checkpoint *checkpoint) {
    json_t *root, *map;
    SL_TRY(load_map(path, &root, &map));
    json_t *seen = json_object();
    sl_status status = seen ? open_shards(path, map, seen, checkpoint)
                            : sl_fail(SL_OUT_OF_MEMORY, "%s: out of host memory while it was read", path);
    json_decref(seen);
    json_decref(root);
    return status;
}

static sl_status check_map(const char *path, json_t *map, const sl_checkpoint *checkpoint) {
    const char *name;
    json_t *value;
    json_object_foreach(map, name, value) {
        sl_checkpoint_tensor tensor;
        const char *file = json_string_value(value);
        if (!sl_checkpoint_find(checkpoint, name, &tensor))
            return sl_fail(SL_BAD_FILE, "%s: tensor '%s' is not in the file that the index names, %s", path,
                           sli_show(name).text, sli_show(file).text);
        const char *slash = strrchr(tensor.file, '/');
        if (strcmp(slash ? slash + 1 : tensor.file, file) != 0)
            return sl_fail(SL_BAD_FILE, "%s: tensor '%s' is in %s, not in %s as the index says", path,
                           sli_show(name).text, tensor.file, sli_show(file).text);
    }
    return SL_OK;
}

sl_status sli_index_check(const char *path, const sl_checkpoint *checkpoint) {
    json_t *root, *map;
    SL_TRY(load_map(path, &root, &map));
    sl_status status = check_map(path, map, checkpoint);
    json_decref(root);
    return status;
}
