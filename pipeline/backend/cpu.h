/* The CPU backend: lanes that are queues, served by the process's pool of workers. */
#ifndef SLI_CPU_H
#define SLI_CPU_H

#include "backend.h"

/* sli_platform.open of CPU devices. */
sl_status sli_cpu_backend_open(const sli_backend_options *options, sli_backend **backend);

/* Backends that did not end within their grace, since the process began. */
uint64_t sli_cpu_abandoned(void);

#endif
