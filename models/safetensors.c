/* See safetensors.h. The rules are those of the reference reader (huggingface/safetensors), and where that one is laxer
 * than its own specification, the specification's. */
#include "safetensors.h"
#include "json.h"
#include "show.h"
#include <sluice/memory.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_HEADER = 100000000, LENGTH_BYTES = 8, MAX_DEPTH = 127 };

typedef struct type_row {
    const char *name;
    unsigned bits;
    int dtype; /* of graphs; -1: none */
} type_row;

static const type_row types[] = {
    {"BOOL", 8, -1},     {"F4", 4, -1},      {"F6_E2M3", 6, -1},     {"F6_E3M2", 6, -1},  {"U8", 8, -1},
    {"I8", 8, -1},       {"F8_E5M2", 8, -1}, {"F8_E4M3", 8, -1},     {"F8_E8M0", 8, -1},  {"F8_E4M3FNUZ", 8, -1},
    {"I16", 16, -1},     {"U16", 16, -1},    {"F8_E5M2FNUZ", 8, -1}, {"F16", 16, SL_F16}, {"BF16", 16, SL_BF16},
    {"I32", 32, SL_I32}, {"U32", 32, -1},    {"F32", 32, SL_F32},    {"C64", 64, -1},     {"F64", 64, -1},
    {"I64", 64, -1},     {"U64", 64, -1},
};

typedef struct reader {
    const char *file;
    const unsigned char *data; /* what follows the header */
    size_t data_bytes;
    sli_safetensors *result;
} reader;

/* Where a tensor lies while the header is read: `data` of the result, as an offset. */
static size_t offset_of(const reader *r, const sl_checkpoint_tensor *tensor) {
    return (size_t)((const unsigned char *)tensor->data - r->data);
}

static sl_status wrong_field(const reader *r, const char *name, const char *field, const json_t *found,
                             const char *expected) {
    sli_shown shown = sli_show(name);
    if (!found)
        return sl_fail(SL_BAD_FILE, "%s: tensor '%s' has no '%s'", r->file, shown.text, field);
    return sl_fail(SL_BAD_FILE, "%s: tensor '%s': '%s' holds %s where %s is expected", r->file, shown.text, field,
                   sli_json_kind(found), expected);
}

static sl_status read_count(const reader *r, const char *name, const char *field, const json_t *value, int64_t *count) {
    if (!json_is_integer(value))
        return wrong_field(r, name, field, value, "a plain integer");
    *count = json_integer_value(value);
    if (*count < 0)
        return sl_fail(SL_BAD_FILE, "%s: tensor '%s': '%s' holds %lld, which is negative", r->file, sli_show(name).text,
                       field, (long long)*count);
    return SL_OK;
}

static sl_status read_type(const reader *r, const char *name, const json_t *value, const type_row **type) {
    if (!json_is_string(value))
        return wrong_field(r, name, "dtype", value, "a string");
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (!strcmp(types[i].name, json_string_value(value))) {
            *type = &types[i];
            return SL_OK;
        }
    return sl_fail(SL_BAD_FILE,
                   "%s: tensor '%s': 'dtype' is \"%s\", which is none of the format's (BOOL, F4, F6_*, F8_*, F16, "
                   "BF16, F32, F64, C64, I8 to I64, U8 to U64)",
                   r->file, sli_show(name).text, sli_show(json_string_value(value)).text);
}

static sl_status read_shape(const reader *r, sl_checkpoint_tensor *tensor, const json_t *value) {
    if (!json_is_array(value))
        return wrong_field(r, tensor->name, "shape", value, "an array");
    size_t rank = json_array_size(value);
    int64_t *shape = sl_calloc(rank, sizeof *shape);
    if (!shape)
        return SL_OUT_OF_MEMORY;
    tensor->shape = shape;
    tensor->rank = (int)rank;
    for (size_t d = 0; d < rank; d++)
        SL_TRY(read_count(r, tensor->name, "shape", json_array_get(value, d), &shape[d]));
    return SL_OK;
}

/* The bytes that shape and type ask for, in 64 bits and without wrapping. */
static sl_status needed_bytes(const reader *r, const sl_checkpoint_tensor *tensor, const type_row *type,
                              uint64_t *bytes) {
    uint64_t bits = 1;
    bool wraps = false;
    for (int d = 0; d < tensor->rank; d++)
        wraps |= __builtin_mul_overflow(bits, (uint64_t)tensor->shape[d], &bits);
    wraps |= __builtin_mul_overflow(bits, type->bits, &bits);
    if (wraps)
        return sl_fail(SL_BAD_FILE, "%s: tensor '%s': the bits of shape %s in %s do not fit 64 bits", r->file,
                       sli_show(tensor->name).text, sli_show_shape(tensor->rank, tensor->shape).text, type->name);
    if (bits % 8)
        return sl_fail(SL_BAD_FILE, "%s: tensor '%s': shape %s in %s is no whole number of bytes", r->file,
                       sli_show(tensor->name).text, sli_show_shape(tensor->rank, tensor->shape).text, type->name);
    *bytes = bits / 8;
    return SL_OK;
}

static sl_status read_offsets(const reader *r, sl_checkpoint_tensor *tensor, const json_t *value) {
    if (!json_is_array(value))
        return wrong_field(r, tensor->name, "data_offsets", value, "an array");
    if (json_array_size(value) != 2)
        return sl_fail(SL_BAD_FILE, "%s: tensor '%s': 'data_offsets' has %zu numbers where 2 are expected", r->file,
                       sli_show(tensor->name).text, json_array_size(value));
    int64_t begin = 0, end = 0;
    SL_TRY(read_count(r, tensor->name, "data_offsets", json_array_get(value, 0), &begin));
    SL_TRY(read_count(r, tensor->name, "data_offsets", json_array_get(value, 1), &end));
    if (begin > end)
        return sl_fail(SL_BAD_FILE, "%s: tensor '%s': 'data_offsets' begins at %lld, behind its end at %lld", r->file,
                       sli_show(tensor->name).text, (long long)begin, (long long)end);
    if ((uint64_t)end > r->data_bytes)
        return sl_fail(SL_BAD_FILE,
                       "%s: tensor '%s': 'data_offsets' ends at %lld, but the file has %zu bytes of data (offsets "
                       "count from the end of the header)",
                       r->file, sli_show(tensor->name).text, (long long)end, r->data_bytes);
    tensor->data = r->data + begin;
    tensor->bytes = (size_t)(end - begin);
    return SL_OK;
}

static sl_status read_tensor(const reader *r, sl_checkpoint_tensor *tensor, const char *name, const json_t *value) {
    tensor->file = r->file;
    if (!(tensor->name = sl_strdup(name)))
        return SL_OUT_OF_MEMORY;
    if (!json_is_object(value))
        return sl_fail(SL_BAD_FILE, "%s: tensor '%s' is described by %s where an object is expected", r->file,
                       sli_show(name).text, sli_json_kind(value));
    const type_row *type = &types[0];
    uint64_t bytes = 0;
    SL_TRY(read_type(r, name, json_object_get(value, "dtype"), &type));
    SL_TRY(read_shape(r, tensor, json_object_get(value, "shape")));
    SL_TRY(read_offsets(r, tensor, json_object_get(value, "data_offsets")));
    SL_TRY(needed_bytes(r, tensor, type, &bytes));
    if (bytes != tensor->bytes)
        return sl_fail(SL_BAD_FILE, "%s: tensor '%s': shape %s in %s needs %llu bytes, but 'data_offsets' holds %zu",
                       r->file, sli_show(name).text, sli_show_shape(tensor->rank, tensor->shape).text, type->name,
                       (unsigned long long)bytes, tensor->bytes);
    tensor->type_name = type->name;
    tensor->readable = type->dtype >= 0;
    tensor->dtype = tensor->readable ? (sl_dtype)type->dtype : SL_DTYPES;
    return SL_OK;
}

static sl_status read_metadata(const reader *r, json_t *value) {
    if (!json_is_object(value))
        return sl_fail(SL_BAD_FILE, "%s: '__metadata__' is %s where an object is expected", r->file,
                       sli_json_kind(value));
    sli_safetensors *result = r->result;
    result->metadata = sl_calloc(2 * json_object_size(value), sizeof *result->metadata);
    if (!result->metadata)
        return SL_OUT_OF_MEMORY;
    const char *key;
    json_t *text;
    json_object_foreach(value, key, text) {
        if (!json_is_string(text))
            return sl_fail(SL_BAD_FILE, "%s: '__metadata__': '%s' is %s where a string is expected", r->file,
                           sli_show(key).text, sli_json_kind(text));
        char **pair = &result->metadata[2 * (size_t)result->n_metadata++];
        pair[0] = sl_strdup(key);
        pair[1] = sl_strdup(json_string_value(text));
        if (!pair[0] || !pair[1])
            return SL_OUT_OF_MEMORY;
    }
    return SL_OK;
}

static int compare_places(const void *a, const void *b) {
    const sl_checkpoint_tensor *x = a, *y = b;
    const char *begin_x = x->data, *begin_y = y->data;
    if (begin_x != begin_y)
        return begin_x < begin_y ? -1 : 1;
    return x->bytes == y->bytes ? 0 : x->bytes < y->bytes ? -1 : 1;
}

/* The tensors fill the data from its begin to its end: no byte is in two, none is in none. */
static sl_status check_coverage(const reader *r) {
    sl_checkpoint_tensor *tensors = r->result->tensors;
    int n = r->result->n_tensors;
    qsort(tensors, (size_t)n, sizeof *tensors, compare_places);
    size_t end = 0;
    for (int i = 0; i < n; i++) {
        size_t begin = offset_of(r, &tensors[i]);
        if (begin > end)
            return sl_fail(SL_BAD_FILE, "%s: tensor '%s' begins at %zu, but the data before it ends at %zu: a hole",
                           r->file, sli_show(tensors[i].name).text, begin, end);
        if (begin < end)
            return sl_fail(SL_BAD_FILE, "%s: tensor '%s' begins at %zu, but tensor '%s' reaches to %zu: they overlap",
                           r->file, sli_show(tensors[i].name).text, begin, sli_show(tensors[i - 1].name).text, end);
        end = begin + tensors[i].bytes;
    }
    if (end != r->data_bytes)
        return sl_fail(SL_BAD_FILE, "%s: the tensors end at %zu, but the file has %zu bytes of data", r->file, end,
                       r->data_bytes);
    return SL_OK;
}

/* What the JSON library lets pass and the format does not: -0, which it reads as 0, and nesting deeper than the
 * reference reader goes. */
static sl_status scan_header(const char *file, const char *text, size_t n) {
    bool in_string = false;
    int depth = 0;
    for (size_t i = 0; i < n; i++) {
        char next = i + 1 < n ? text[i + 1] : ' ', after = i + 2 < n ? text[i + 2] : ' ';
        if (in_string && text[i] == '\\')
            i++;
        else if (text[i] == '"')
            in_string = !in_string;
        else if (in_string)
            continue;
        else if (text[i] == '-' && next == '0' && after != '.' && after != 'e' && after != 'E')
            return sl_fail(SL_BAD_FILE, "%s: header: -0 is no plain integer (byte %zu)", file, i);
        else if ((text[i] == '{' || text[i] == '[') && ++depth > MAX_DEPTH)
            return sl_fail(SL_BAD_FILE, "%s: header: nested deeper than %d (byte %zu)", file, MAX_DEPTH, i);
        else if (text[i] == '}' || text[i] == ']')
            depth--;
    }
    return SL_OK;
}

static sl_status read_header(const reader *r, json_t *root) {
    sli_safetensors *result = r->result;
    result->tensors = sl_calloc(json_object_size(root), sizeof *result->tensors);
    if (!result->tensors)
        return SL_OUT_OF_MEMORY;
    const char *name;
    json_t *value;
    json_object_foreach(root, name, value) {
        if (!strcmp(name, "__metadata__"))
            SL_TRY(read_metadata(r, value));
        else
            SL_TRY(read_tensor(r, &result->tensors[result->n_tensors++], name, value));
    }
    SL_TRY(check_coverage(r));
    qsort(result->tensors, (size_t)result->n_tensors, sizeof *result->tensors, sli_tensor_compare);
    return SL_OK;
}

static sl_status find_header(const char *file, const unsigned char *bytes, size_t n, size_t *header_bytes) {
    if (n < LENGTH_BYTES)
        return sl_fail(SL_BAD_FILE, "%s: %zu bytes are no safetensors file: it begins with 8 bytes of header length",
                       file, n);
    uint64_t length = 0;
    for (int i = LENGTH_BYTES; i-- > 0;)
        length = length << 8 | bytes[i];
    if (length > MAX_HEADER)
        return sl_fail(SL_BAD_FILE, "%s: the header length is %llu, above the format's limit of %d", file,
                       (unsigned long long)length, MAX_HEADER);
    if (length > n - LENGTH_BYTES)
        return sl_fail(SL_BAD_FILE, "%s: the header length is %llu, but only %zu bytes follow", file,
                       (unsigned long long)length, n - LENGTH_BYTES);
    if (!length || bytes[LENGTH_BYTES] != '{')
        return sl_fail(SL_BAD_FILE, "%s: the header does not begin with '{'", file);
    *header_bytes = (size_t)length;
    return SL_OK;
}

sl_status sli_safetensors_parse(const char *file, const void *bytes, size_t n, sli_safetensors *result) {
    *result = (sli_safetensors){0};
    size_t header_bytes = 0;
    SL_TRY(find_header(file, bytes, n, &header_bytes));
    const char *header = (const char *)bytes + LENGTH_BYTES;
    json_t *root;
    char what[1024];
    snprintf(what, sizeof what, "%.1000s: header", file);
    SL_TRY(scan_header(file, header, header_bytes));
    SL_TRY(sli_json_parse(what, header, header_bytes, &root));
    reader r = {file, (const unsigned char *)header + header_bytes, n - LENGTH_BYTES - header_bytes, result};
    sl_status status = read_header(&r, root);
    json_decref(root);
    if (status != SL_OK)
        sli_safetensors_free(result);
    return status;
}

void sli_safetensors_free(sli_safetensors *parsed) {
    for (int i = 0; i < parsed->n_tensors; i++) {
        sl_free((void *)(uintptr_t)parsed->tensors[i].name);
        sl_free((void *)(uintptr_t)parsed->tensors[i].shape);
    }
    for (int i = 0; i < 2 * parsed->n_metadata; i++)
        sl_free(parsed->metadata[i]);
    sl_free(parsed->tensors);
    sl_free(parsed->metadata);
    *parsed = (sli_safetensors){0};
}

int sli_tensor_compare(const void *a, const void *b) {
    return strcmp(((const sl_checkpoint_tensor *)a)->name, ((const sl_checkpoint_tensor *)b)->name);
}

const sl_checkpoint_tensor *sli_tensor_find(const sl_checkpoint_tensor *tensors, int n, const char *name) {
    sl_checkpoint_tensor key = {.name = name};
    return n ? bsearch(&key, tensors, (size_t)n, sizeof *tensors, sli_tensor_compare) : NULL;
}
