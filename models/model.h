/* Inside of a model: what was read when it was opened. It does not change after; any thread may read it. */
#ifndef SLI_MODEL_H
#define SLI_MODEL_H

#include "family.h"

struct sl_model {
    _Atomic int references;
    const sli_family *family;
    int layout; /* how the checkpoint names its tensors: the family's own */
    sli_config config;
    int *eos_ids;
    char *config_path; /* what sentences about the model begin with */
    sl_checkpoint *checkpoint;
};

/* Reads config.json into family, config and eos_ids. */
sl_status sli_config_load(sl_model *model);

#endif
