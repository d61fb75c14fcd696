/* Typed reads from a JSON object such as config.json, with sentences that name file and key. A key whose value is null
 * counts as missing. */
#ifndef SLI_KEYS_H
#define SLI_KEYS_H

#include "json.h"

typedef struct sli_keys {
    const char *file;
    const char *within; /* "" at the top, "rope_scaling." inside of that object */
    const json_t *object;
} sli_keys;

/* NULL if it is missing. */
const json_t *sli_key(const sli_keys *keys, const char *name);

/* SL_BAD_FILE if it is missing, of another type, or outside of min .. max. */
sl_status sli_key_int(const sli_keys *keys, const char *name, int min, int max, int *value);
/* Any JSON number of `min` or more. */
sl_status sli_key_number(const sli_keys *keys, const char *name, double min, double *value);
/* Valid as long as the object. */
sl_status sli_key_text(const sli_keys *keys, const char *name, const char **value);

/* The same with a value that stands for a missing one. */
sl_status sli_key_int_or(const sli_keys *keys, const char *name, int min, int max, int otherwise, int *value);
sl_status sli_key_number_or(const sli_keys *keys, const char *name, double min, double otherwise, double *value);
sl_status sli_key_text_or(const sli_keys *keys, const char *name, const char *otherwise, const char **value);
sl_status sli_key_bool_or(const sli_keys *keys, const char *name, bool otherwise, bool *value);

/* An object inside: its keys. SL_BAD_FILE if it is there and no object; `found` says whether it is there. */
sl_status sli_key_object(const sli_keys *keys, const char *name, const char *within, sli_keys *inside, bool *found);

#endif
