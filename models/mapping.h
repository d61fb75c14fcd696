/* Files as memory: read-only and mapped, so that nothing is read before it is looked at. */
#ifndef SLI_MAPPING_H
#define SLI_MAPPING_H

#include <sluice/status.h>

typedef struct sli_mapping {
    const unsigned char *data; /* NULL for an empty file */
    size_t bytes;
} sli_mapping;

/* SL_IO names the file and says why: not there, no permission, no plain file. */
sl_status sli_map_file(const char *path, sli_mapping *mapping);
void sli_unmap_file(sli_mapping *mapping); /* takes a zeroed one */

#endif
