/* Where the layers of a model lie: the options that `run` and `plan` share. */
#ifndef CLI_PLACEMENT_H
#define CLI_PLACEMENT_H

#include "cli.h"

typedef struct placement {
    const char *devices, *split, *pins; /* as given; split and pins may be NULL */
    sl_device *layers;                  /* [n_layers], after placement_resolve */
    int n_layers;
} placement;

#define PLACEMENT_OPTIONS(p)                                                                                           \
    {"devices", 0, CLI_TEXT, &(p).devices, 0, 0, "LIST", "cpu:0,cpu:1, or auto (the default)"},                        \
        {"split", 0, CLI_TEXT, &(p).split, 0, 0, "N,N", "decoder layers on each device; the default is even"}, {       \
        "pin", 0, CLI_TEXT, &(p).pins, 0, 0, "LIST", "layers.0-2=cpu:0,layers.3=cpu:1: over the split"                 \
    }

/* An exit code. The caller frees p->layers. */
int placement_resolve(placement *p, const sl_model *model);
bool placement_mixes_kinds(const placement *p);
bool placement_is_simulated(const placement *p);

#endif
