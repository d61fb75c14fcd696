/* Inside of a checkpoint: mapped files, and the tensors of all of them in the order of names. */
#ifndef SLI_CHECKPOINT_H
#define SLI_CHECKPOINT_H

#include "mapping.h"
#include "safetensors.h"

typedef struct sli_shard {
    char *path;
    sli_mapping mapping;
    sli_safetensors content;
} sli_shard;

struct sl_checkpoint {
    _Atomic int references;
    char *path; /* as it was opened: what sentences call it */
    int n_shards;
    sli_shard *shards;
    int n_tensors;
    sl_checkpoint_tensor *tensors; /* of all shards, which own what they point at */
};

/* Maps and parses one file into `shard`, which is to be given to sli_shard_close also after an error. */
sl_status sli_shard_open(const char *path, sli_shard *shard);
void sli_shard_close(sli_shard *shard);

/* Reads an index and opens the shards that it names. What was opened is the checkpoint's also after an error. */
sl_status sli_index_open(const char *path, sl_checkpoint *checkpoint);
/* After the tensors were joined: each tensor of the index is there, in the file that it says. */
sl_status sli_index_check(const char *path, const sl_checkpoint *checkpoint);

/* `folder`/`name`, or `folder` up to its last '/' with `name` behind it. NULL: no memory. The caller frees. */
char *sli_path_in(const char *folder, const char *name);
char *sli_path_beside(const char *file, const char *name);

bool sli_ends_with(const char *text, const char *ending);

#endif
