/* The safetensors format: what a header says, with every rule of the format enforced.
 *
 *     8 bytes: n, little-endian | n bytes: JSON | data, to the end of the file
 *
 * Nothing in the file is trusted. Mapping files and joining shards is for checkpoint.c. */
#ifndef SLI_SAFETENSORS_H
#define SLI_SAFETENSORS_H

#include <sluice/checkpoint.h>

typedef struct sli_safetensors {
    int n_tensors, n_metadata;
    sl_checkpoint_tensor *tensors; /* [n_tensors] in the order of names; `data` points into the bytes parsed */
    char **metadata;               /* [n_metadata][2]: key, value */
} sli_safetensors;

/* Parses the whole content of a file, which is borrowed until sli_safetensors_free; `file` (borrowed as long) is what
 * sentences call it. SL_BAD_FILE, SL_OUT_OF_MEMORY; then nothing is to be freed. */
sl_status sli_safetensors_parse(const char *file, const void *bytes, size_t n, sli_safetensors *result);
void sli_safetensors_free(sli_safetensors *parsed); /* takes a zeroed one */

/* By name, by bisection of a sorted array; NULL if there is none. */
const sl_checkpoint_tensor *sli_tensor_find(const sl_checkpoint_tensor *tensors, int n, const char *name);
int sli_tensor_compare(const void *a, const void *b); /* for qsort: by name */

#endif
