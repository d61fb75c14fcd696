/* Checkpoints: opening one file or several, finding tensors by name. What an index says is in index.c, how a tensor
 * becomes a weight in weight.c. A checkpoint does not change after it was opened: any thread may read it. */
#include "checkpoint.h"
#include "show.h"
#include <sluice/memory.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

bool sli_ends_with(const char *text, const char *ending) {
    size_t n = strlen(text), m = strlen(ending);
    return n >= m && !strcmp(text + n - m, ending);
}

static char *join(const char *folder, size_t n, const char *name) {
    size_t bytes = strlen(name) + 1;
    bool slash = n && folder[n - 1] != '/';
    char *path = sl_malloc(n + slash + bytes);
    if (!path)
        return NULL;
    memcpy(path, folder, n);
    if (slash)
        path[n] = '/';
    memcpy(path + n + slash, name, bytes);
    return path;
}

char *sli_path_in(const char *folder, const char *name) {
    return join(folder, strlen(folder), name);
}

char *sli_path_beside(const char *file, const char *name) {
    const char *slash = strrchr(file, '/');
    return join(file, slash ? (size_t)(slash + 1 - file) : 0, name);
}

sl_status sli_shard_open(const char *path, sli_shard *shard) {
    *shard = (sli_shard){0};
    if (!(shard->path = sl_strdup(path)))
        return SL_OUT_OF_MEMORY;
    SL_TRY(sli_map_file(path, &shard->mapping));
    return sli_safetensors_parse(shard->path, shard->mapping.data, shard->mapping.bytes, &shard->content);
}

void sli_shard_close(sli_shard *shard) {
    sli_safetensors_free(&shard->content);
    sli_unmap_file(&shard->mapping);
    sl_free(shard->path);
}

static sl_status open_single(const char *path, sl_checkpoint *checkpoint) {
    if (!(checkpoint->shards = sl_calloc(1, sizeof *checkpoint->shards)))
        return SL_OUT_OF_MEMORY;
    checkpoint->n_shards = 1;
    return sli_shard_open(path, &checkpoint->shards[0]);
}

/* The tensors of all shards as one sorted array; a name that two shards hold is an error. */
static sl_status join_tensors(sl_checkpoint *checkpoint) {
    size_t n = 0;
    for (int i = 0; i < checkpoint->n_shards; i++)
        n += (size_t)checkpoint->shards[i].content.n_tensors;
    if (!(checkpoint->tensors = sl_calloc(n, sizeof *checkpoint->tensors)))
        return SL_OUT_OF_MEMORY;
    for (int i = 0; i < checkpoint->n_shards; i++) {
        const sli_safetensors *content = &checkpoint->shards[i].content;
        for (int k = 0; k < content->n_tensors; k++)
            checkpoint->tensors[checkpoint->n_tensors++] = content->tensors[k];
    }
    qsort(checkpoint->tensors, n, sizeof *checkpoint->tensors, sli_tensor_compare);
    for (size_t i = 1; i < n; i++) {
        const sl_checkpoint_tensor *a = &checkpoint->tensors[i - 1], *b = a + 1;
        if (!strcmp(a->name, b->name))
            return sl_fail(SL_BAD_FILE, "%s: tensor '%s' is in two files: %s and %s", checkpoint->path,
                           sli_show(a->name).text, a->file, b->file);
    }
    return SL_OK;
}

static sl_status open_file(const char *path, sl_checkpoint *checkpoint) {
    bool index = sli_ends_with(path, ".json");
    SL_TRY(index ? sli_index_open(path, checkpoint) : open_single(path, checkpoint));
    SL_TRY(join_tensors(checkpoint));
    return index ? sli_index_check(path, checkpoint) : SL_OK;
}

/* As Hugging Face's loader: one file goes before an index. */
static sl_status open_folder(const char *folder, sl_checkpoint *checkpoint) {
    static const char *const names[] = {"model.safetensors", "model.safetensors.index.json"};
    for (int i = 0; i < 2; i++) {
        struct stat about;
        char *path = sli_path_in(folder, names[i]);
        if (!path)
            return SL_OUT_OF_MEMORY;
        bool there = !stat(path, &about);
        sl_status status = there ? open_file(path, checkpoint) : SL_OK;
        sl_free(path);
        if (there)
            return status;
    }
    return sl_fail(SL_IO, "%s: the folder holds neither %s nor %s", folder, names[0], names[1]);
}

sl_status sl_checkpoint_open(const char *path, sl_checkpoint **result) {
    struct stat about;
    *result = NULL;
    if (!path || !*path)
        return sl_fail(SL_IO, "a checkpoint is to be opened, and its path is empty");
    sl_checkpoint *checkpoint = sl_calloc(1, sizeof *checkpoint);
    if (!checkpoint)
        return SL_OUT_OF_MEMORY;
    checkpoint->references = 1;
    sl_status status = SL_OUT_OF_MEMORY;
    if ((checkpoint->path = sl_strdup(path)))
        status =
            !stat(path, &about) && S_ISDIR(about.st_mode) ? open_folder(path, checkpoint) : open_file(path, checkpoint);
    if (status == SL_OK)
        *result = checkpoint;
    else
        sl_checkpoint_release(checkpoint);
    return status;
}

sl_checkpoint *sl_checkpoint_retain(sl_checkpoint *checkpoint) {
    checkpoint->references++;
    return checkpoint;
}

void sl_checkpoint_release(sl_checkpoint *checkpoint) {
    if (!checkpoint || --checkpoint->references)
        return;
    for (int i = 0; i < checkpoint->n_shards; i++)
        sli_shard_close(&checkpoint->shards[i]);
    sl_free(checkpoint->shards);
    sl_free(checkpoint->tensors);
    sl_free(checkpoint->path);
    sl_free(checkpoint);
}

int sl_checkpoint_count(const sl_checkpoint *checkpoint) {
    return checkpoint->n_tensors;
}

bool sl_checkpoint_at(const sl_checkpoint *checkpoint, int i, sl_checkpoint_tensor *tensor) {
    if (i < 0 || i >= checkpoint->n_tensors)
        return false;
    *tensor = checkpoint->tensors[i];
    return true;
}

bool sl_checkpoint_find(const sl_checkpoint *checkpoint, const char *name, sl_checkpoint_tensor *tensor) {
    const sl_checkpoint_tensor *found = sli_tensor_find(checkpoint->tensors, checkpoint->n_tensors, name);
    if (found)
        *tensor = *found;
    return found;
}

bool sl_checkpoint_metadata(const sl_checkpoint *checkpoint, int i, const char **key, const char **value) {
    for (int k = 0; k < checkpoint->n_shards && i >= 0; k++) {
        const sli_safetensors *content = &checkpoint->shards[k].content;
        if (i < content->n_metadata) {
            *key = content->metadata[2 * (size_t)i];
            *value = content->metadata[2 * (size_t)i + 1];
            return true;
        }
        i -= content->n_metadata;
    }
    return false;
}
