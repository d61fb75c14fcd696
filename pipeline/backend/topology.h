/* A topology: the devices and links of a simulation, read from JSON. The format is described at sim_topology in
 * <sluice/pipeline.h>. Constant once read; any thread. */
#ifndef SLI_TOPOLOGY_H
#define SLI_TOPOLOGY_H

#include "backend.h"

typedef struct sli_sim_device {
    char name[96];
    uint64_t memory_bytes;   /* 0: not limited */
    double operations_per_s; /* 0: takes no time */
} sli_sim_device;

typedef struct sli_sim_link {
    double bytes_per_s; /* 0: bytes take no time */
    uint64_t latency_ns;
    bool peer;
} sli_sim_link;

typedef struct sli_topology sli_topology;

/* `text` is a file, or the JSON text itself if it begins with '{'; NULL or "" describes unlimited devices without a
 * time of their own. SL_IO, SL_BAD_FILE (SL_INVALID for a text): the sentence names the key, what was found and what
 * was expected. Returns a topology. */
sl_status sli_topology_read(const char *text, sli_topology **topology);
void sli_topology_destroy(sli_topology *topology); /* takes NULL */

int sli_topology_count(const sli_topology *topology); /* 0: not given */
void sli_topology_get_device(const sli_topology *topology, int index, sli_sim_device *device);
/* Either end may be SLI_HOST. */
void sli_topology_get_link(const sli_topology *topology, int from, int to, sli_sim_link *link);

/* The time of a copy. */
uint64_t sli_sim_copy_ns(const sli_sim_link *link, size_t bytes);

#endif
