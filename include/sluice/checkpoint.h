/* Checkpoints: the tensors of a file, mapped and checked. Today safetensors, one file or several with an index. */
#ifndef SLUICE_CHECKPOINT_H
#define SLUICE_CHECKPOINT_H

#include <sluice/graph.h>

SL_BEGIN_C

typedef struct sl_checkpoint sl_checkpoint;

/* A .safetensors file, a .safetensors.index.json, or a folder that holds model.safetensors.index.json or
 * model.safetensors. Maps the files; nothing of the tensors is read. SL_IO, SL_BAD_FILE (the message names the file,
 * the tensor and the rule that is broken). Returns a reference. */
SL_API sl_status sl_checkpoint_open(const char *path, sl_checkpoint **checkpoint);
SL_API sl_checkpoint *sl_checkpoint_retain(sl_checkpoint *checkpoint);
SL_API void sl_checkpoint_release(sl_checkpoint *checkpoint); /* takes NULL */

typedef struct sl_checkpoint_tensor {
    const char *name;
    const char *type_name; /* as the file says: "F32", "I64", "F8_E4M3" */
    bool readable;         /* `dtype` is set: a type that graphs can use */
    sl_dtype dtype;
    int rank; /* can be more than SL_MAX_RANK */
    const int64_t *shape;
    size_t bytes;
    const void *data; /* in the mapped file, as it lies: perhaps not aligned */
    const char *file;
} sl_checkpoint_tensor;

SL_API int sl_checkpoint_count(const sl_checkpoint *checkpoint);
/* The `i`th in the order of names; false past the end. All pointers are the checkpoint's. */
SL_API bool sl_checkpoint_at(const sl_checkpoint *checkpoint, int i, sl_checkpoint_tensor *tensor);
SL_API bool sl_checkpoint_find(const sl_checkpoint *checkpoint, const char *name, sl_checkpoint_tensor *tensor);

/* The `i`th entry of __metadata__; false past the end. */
SL_API bool sl_checkpoint_metadata(const sl_checkpoint *checkpoint, int i, const char **key, const char **value);

/* A tensor of the checkpoint as a weight of a graph, which keeps a reference to the checkpoint. Expects `rank` and
 * `shape`: else the graph's error names the file, the tensor, what was found and what was expected; so it does when the
 * tensor is missing, or its type is none of ours. `transposed`: `shape` is what is wanted, and the file holds [in, out]
 * where [out, in] is asked for; it is turned as it is read. */
SL_API sl_value sl_checkpoint_weight(sl_checkpoint *checkpoint, sl_graph *graph, const char *name, int rank,
                                     const int64_t *shape, bool transposed);

/* Writes a safetensors file: see `sluice synth`. `fill` writes the bytes of tensor i to `destination`, in order. */
typedef struct sl_checkpoint_entry {
    const char *name;
    sl_dtype dtype;
    int rank;
    int64_t shape[SL_MAX_RANK];
} sl_checkpoint_entry;
SL_API sl_status sl_checkpoint_write(const char *path, int n_entries, const sl_checkpoint_entry *entries,
                                     sl_status (*fill)(void *user, int i, void *destination, size_t bytes), void *user);

SL_END_C
#endif
