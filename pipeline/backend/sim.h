/* What the two files of the simulator share: the devices that were found, and addresses. */
#ifndef SLI_SIM_H
#define SLI_SIM_H

#include "topology.h"

/* The topology of the process: SLUICE_SIM_TOPOLOGY. NULL until devices are found. */
const sli_topology *sli_sim_topology(void);

/* Addresses that no other allocation has, and behind which there is nothing. Any thread. */
void *sli_sim_addresses(size_t bytes);

sl_status sli_sim_open(const sli_backend_options *options, sli_backend **backend);

#endif
