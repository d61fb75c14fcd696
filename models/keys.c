/* See keys.h. */
#include "keys.h"
#include "show.h"

const json_t *sli_key(const sli_keys *keys, const char *name) {
    const json_t *value = json_object_get(keys->object, name);
    return json_is_null(value) ? NULL : value;
}

static sl_status wrong(const sli_keys *keys, const char *name, const char *expected) {
    const json_t *value = sli_key(keys, name);
    if (!value)
        return sl_fail(SL_BAD_FILE, "%s: '%s%s' is missing: %s is expected", keys->file, keys->within, name, expected);
    return sl_fail(SL_BAD_FILE, "%s: '%s%s' holds %s where %s is expected", keys->file, keys->within, name,
                   sli_json_kind(value), expected);
}

sl_status sli_key_int(const sli_keys *keys, const char *name, int min, int max, int *value) {
    const json_t *found = sli_key(keys, name);
    if (!json_is_integer(found))
        return wrong(keys, name, "an integer");
    json_int_t number = json_integer_value(found);
    if (number < min || number > max)
        return sl_fail(SL_BAD_FILE, "%s: '%s%s' is %lld: %d to %d is expected", keys->file, keys->within, name,
                       (long long)number, min, max);
    *value = (int)number;
    return SL_OK;
}

sl_status sli_key_number(const sli_keys *keys, const char *name, double min, double *value) {
    const json_t *found = sli_key(keys, name);
    if (!json_is_number(found))
        return wrong(keys, name, "a number");
    double number = json_number_value(found);
    if (number < min)
        return sl_fail(SL_BAD_FILE, "%s: '%s%s' is %g: %g or more is expected", keys->file, keys->within, name, number,
                       min);
    *value = number;
    return SL_OK;
}

sl_status sli_key_text(const sli_keys *keys, const char *name, const char **value) {
    const json_t *found = sli_key(keys, name);
    if (!json_is_string(found))
        return wrong(keys, name, "a string");
    *value = json_string_value(found);
    return SL_OK;
}

sl_status sli_key_int_or(const sli_keys *keys, const char *name, int min, int max, int otherwise, int *value) {
    *value = otherwise;
    return sli_key(keys, name) ? sli_key_int(keys, name, min, max, value) : SL_OK;
}

sl_status sli_key_number_or(const sli_keys *keys, const char *name, double min, double otherwise, double *value) {
    *value = otherwise;
    return sli_key(keys, name) ? sli_key_number(keys, name, min, value) : SL_OK;
}

sl_status sli_key_text_or(const sli_keys *keys, const char *name, const char *otherwise, const char **value) {
    *value = otherwise;
    return sli_key(keys, name) ? sli_key_text(keys, name, value) : SL_OK;
}

sl_status sli_key_bool_or(const sli_keys *keys, const char *name, bool otherwise, bool *value) {
    const json_t *found = sli_key(keys, name);
    if (found && !json_is_boolean(found))
        return wrong(keys, name, "true or false");
    *value = found ? json_is_true(found) : otherwise;
    return SL_OK;
}

sl_status sli_key_object(const sli_keys *keys, const char *name, const char *within, sli_keys *inside, bool *found) {
    const json_t *value = sli_key(keys, name);
    *found = value != NULL;
    *inside = (sli_keys){keys->file, within, value};
    return !value || json_is_object(value) ? SL_OK : wrong(keys, name, "an object");
}
