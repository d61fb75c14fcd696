/* See json.h. */
#include "json.h"
#include "mapping.h"
#include "show.h"

static sl_status parse_error(const char *what, const json_error_t *error) {
    sli_shown text = sli_show(error->text);
    if (!*error->text || json_error_code(error) == json_error_out_of_memory)
        return sl_fail(SL_OUT_OF_MEMORY, "%s: out of host memory while its JSON was read", what);
    switch (json_error_code(error)) {
    case json_error_duplicate_key:
        return sl_fail(SL_BAD_FILE, "%s: a key occurs twice in one object: %s (byte %d)", what, text.text,
                       error->position);
    case json_error_null_character:
    case json_error_null_byte_in_key:
        return sl_fail(SL_BAD_FILE, "%s: the escape \\u0000 in a string is not supported (byte %d)", what,
                       error->position);
    case json_error_numeric_overflow:
        return sl_fail(SL_BAD_FILE, "%s: a number does not fit 63 bits: %s (byte %d)", what, text.text,
                       error->position);
    default:
        return sl_fail(SL_BAD_FILE, "%s: not sound JSON: %s (byte %d)", what, text.text, error->position);
    }
}

sl_status sli_json_parse(const char *what, const char *text, size_t bytes, json_t **root) {
    json_error_t error;
    *root = json_loadb(text ? text : "", bytes, JSON_REJECT_DUPLICATES, &error);
    return *root ? SL_OK : parse_error(what, &error);
}

sl_status sli_json_load(const char *path, json_t **root) {
    sli_mapping mapping;
    SL_TRY(sli_map_file(path, &mapping));
    sl_status status = sli_json_parse(path, (const char *)mapping.data, mapping.bytes, root);
    sli_unmap_file(&mapping);
    if (status == SL_OK && !json_is_object(*root)) {
        status = sl_fail(SL_BAD_FILE, "%s: it holds %s where an object is expected", path, sli_json_kind(*root));
        json_decref(*root);
        *root = NULL;
    }
    return status;
}

void sli_json_free_text(char *text) {
    json_malloc_t allocate;
    json_free_t release;
    json_get_alloc_funcs(&allocate, &release);
    release(text);
}

const char *sli_json_kind(const json_t *value) {
    if (!value)
        return "nothing";
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        return "an object";
    case JSON_ARRAY:
        return "an array";
    case JSON_STRING:
        return "a string";
    case JSON_INTEGER:
        return "an integer";
    case JSON_REAL:
        return "a number with a fraction or an exponent";
    case JSON_TRUE:
    case JSON_FALSE:
        return "a boolean";
    default:
        return "null";
    }
}
