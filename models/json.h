/* JSON from files, read strictly, with sentences that name the file. What the keys mean is for others. */
#ifndef SLI_JSON_H
#define SLI_JSON_H

#include <jansson.h>
#include <sluice/status.h>

/* Parses all of `text`. A key that occurs twice in one object is an error. `what` is how sentences begin: the file, or
 * the part of it. SL_BAD_FILE, SL_OUT_OF_MEMORY. Returns a reference. */
sl_status sli_json_parse(const char *what, const char *text, size_t bytes, json_t **root);

/* The same with a file, which holds one object. SL_IO too. */
sl_status sli_json_load(const char *path, json_t **root);

/* Frees what json_dumps gave. */
void sli_json_free_text(char *text);

/* "an object", "a string", "an integer", ... */
const char *sli_json_kind(const json_t *value);

#endif
