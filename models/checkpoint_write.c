/* Writes a safetensors file: header from the entries, then their bytes in order. The file appears under its name only
 * when it is whole. */
#include "json.h"
#include "show.h"
#include <errno.h>
#include <sluice/checkpoint.h>
#include <sluice/memory.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { ALIGNMENT = 8 };

typedef struct writer {
    const char *path;
    int n_entries;
    const sl_checkpoint_entry *entries;
    size_t *bytes; /* [n_entries] */
    sl_status (*fill)(void *user, int i, void *destination, size_t bytes);
    void *user;
} writer;

static const char *type_name(sl_dtype dtype) {
    static const char *const names[SL_DTYPES] = {"F32", "F16", "BF16", "I32"};
    return (unsigned)dtype < SL_DTYPES ? names[dtype] : NULL;
}

static sl_status entry_bytes(const writer *w, const sl_checkpoint_entry *entry, size_t *bytes) {
    sli_shown name = sli_show(entry->name);
    if (!type_name(entry->dtype))
        return sl_fail(SL_INVALID, "%s: tensor '%s' has a type that the format does not know: %s", w->path, name.text,
                       sl_dtype_name(entry->dtype));
    if (entry->rank < 0 || entry->rank > SL_MAX_RANK)
        return sl_fail(SL_INVALID, "%s: tensor '%s' has rank %d: 0 to %d are allowed", w->path, name.text, entry->rank,
                       SL_MAX_RANK);
    *bytes = sl_dtype_get(entry->dtype)->block_bytes;
    for (int d = 0; d < entry->rank; d++)
        if (entry->shape[d] < 0 || __builtin_mul_overflow(*bytes, (size_t)entry->shape[d], bytes))
            return sl_fail(SL_INVALID,
                           "%s: tensor '%s' has the shape %s: a dimension is negative, or all are too large", w->path,
                           name.text, sli_show_shape(entry->rank, entry->shape).text);
    return SL_OK;
}

/* Adds an entry to the header's object, which then owns what is made here. */
static sl_status describe(const writer *w, json_t *root, const sl_checkpoint_entry *entry, size_t begin, size_t end) {
    if (!strcmp(entry->name, "__metadata__") || json_object_get(root, entry->name))
        return sl_fail(SL_INVALID, "%s: the name '%s' is taken: each tensor needs one of its own", w->path,
                       sli_show(entry->name).text);
    json_t *shape = json_array();
    for (int d = 0; d < entry->rank; d++)
        json_array_append_new(shape, json_integer(entry->shape[d]));
    json_t *about = json_pack("{s:s, s:o, s:[I, I]}", "dtype", type_name(entry->dtype), "shape", shape, "data_offsets",
                              (json_int_t)begin, (json_int_t)end);
    if (!about)
        return sl_fail(SL_OUT_OF_MEMORY, "%s: out of host memory while its header was made", w->path);
    if (json_array_size(json_object_get(about, "shape")) != (size_t)entry->rank ||
        json_object_set_new(root, entry->name, about))
        return sl_fail(SL_INVALID, "%s: the name '%s' is not UTF-8, or there is no memory for it", w->path,
                       sli_show(entry->name).text);
    return SL_OK;
}

static sl_status describe_all(const writer *w, json_t *root) {
    size_t end = 0;
    for (int i = 0; i < w->n_entries; i++) {
        size_t begin = end;
        SL_TRY(entry_bytes(w, &w->entries[i], &w->bytes[i]));
        if (__builtin_add_overflow(end, w->bytes[i], &end) || end > INT64_MAX)
            return sl_fail(SL_INVALID, "%s: the tensors together do not fit 63 bits", w->path);
        SL_TRY(describe(w, root, &w->entries[i], begin, end));
    }
    return SL_OK;
}

static sl_status header_text(const writer *w, char **text) {
    json_t *root = json_pack("{s:{s:s}}", "__metadata__", "format", "pt");
    sl_status status = root ? describe_all(w, root) : SL_OUT_OF_MEMORY;
    *text = status == SL_OK ? json_dumps(root, JSON_COMPACT) : NULL;
    json_decref(root);
    if (status == SL_OUT_OF_MEMORY || (status == SL_OK && !*text))
        return sl_fail(SL_OUT_OF_MEMORY, "%s: out of host memory while its header was made", w->path);
    return status;
}

static sl_status cannot_write(const writer *w) {
    char reason[128];
    return sl_fail(SL_IO, "%s: cannot be written: %s", w->path, strerror_r(errno, reason, sizeof reason));
}

static sl_status put_header(const writer *w, FILE *file) {
    char *text;
    SL_TRY(header_text(w, &text));
    size_t n = strlen(text), padded = (n + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    unsigned char length[8];
    for (int i = 0; i < 8; i++)
        length[i] = (unsigned char)((uint64_t)padded >> (8 * i));
    bool whole = fwrite(length, 1, sizeof length, file) == sizeof length && fwrite(text, 1, n, file) == n &&
                 fwrite("        ", 1, padded - n, file) == padded - n;
    sli_json_free_text(text);
    return whole ? SL_OK : cannot_write(w);
}

static sl_status put_tensor(const writer *w, int i, FILE *file) {
    void *content = sl_malloc(w->bytes[i]);
    if (!content)
        return SL_OUT_OF_MEMORY;
    sl_status status = w->fill(w->user, i, content, w->bytes[i]);
    if (status == SL_OK && fwrite(content, 1, w->bytes[i], file) != w->bytes[i])
        status = cannot_write(w);
    sl_free(content);
    return status;
}

static sl_status put_all(const writer *w, const char *path) {
    FILE *file = fopen(path, "wbe");
    if (!file)
        return cannot_write(w);
    sl_status status = put_header(w, file);
    for (int i = 0; i < w->n_entries && status == SL_OK; i++)
        status = put_tensor(w, i, file);
    if (fclose(file) && status == SL_OK)
        status = cannot_write(w);
    return status;
}

sl_status sl_checkpoint_write(const char *path, int n_entries, const sl_checkpoint_entry *entries,
                              sl_status (*fill)(void *user, int i, void *destination, size_t bytes), void *user) {
    writer w = {path, n_entries, entries, sl_calloc((size_t)n_entries, sizeof *w.bytes), fill, user};
    size_t bytes = strlen(path) + sizeof ".part";
    char *part = sl_malloc(bytes);
    sl_status status = SL_OUT_OF_MEMORY;
    if (w.bytes && part) {
        snprintf(part, bytes, "%s.part", path);
        status = put_all(&w, part);
        if (status == SL_OK && rename(part, path))
            status = cannot_write(&w);
        if (status != SL_OK)
            unlink(part);
    }
    sl_free(part);
    sl_free(w.bytes);
    return status;
}
