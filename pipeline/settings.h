/* The settings of the process, read. Filled at the first use, constant after. */
#ifndef SLI_SETTINGS_H
#define SLI_SETTINGS_H

#include <sluice/device.h>

typedef struct sli_settings {
    int cpu_devices;             /* SLUICE_CPU_DEVICES: the number of cores, at least 2 */
    int cpu_threads;             /* SLUICE_CPU_THREADS: of a device, 1 */
    uint64_t cpu_memory_bytes;   /* SLUICE_CPU_MEMORY: of a device; 0: not limited */
    double cpu_operations_per_s; /* SLUICE_CPU_SPEED; 0: as fast as it is */
    double link_bytes_per_s;     /* SLUICE_LINK_BANDWIDTH; 0: as fast as it is */
    uint64_t link_latency_ns;    /* SLUICE_LINK_LATENCY */
    const char *faults;          /* SLUICE_FAULTS, "" */
    const char *order;           /* SLUICE_CPU_ORDER, "eager" */
    bool poison;                 /* SLUICE_CPU_POISON, 0 */
    int workers;                 /* SLUICE_CPU_WORKERS: threads of the pool; the number of cores */
    int sim_devices;             /* SLUICE_SIM_DEVICES, 1024 */
    const char *sim_topology;    /* SLUICE_SIM_TOPOLOGY: a file or JSON text, "" */
    uint64_t pinned_bytes;       /* SLUICE_PINNED_MEMORY, 1 GiB */
    sl_isa isa;                  /* SLUICE_ISA: auto, plain, avx2, avx512 */
} sli_settings;

/* Reads them if that was not done. NULL when a setting is wrong: sl_last_error says which. */
const sli_settings *sli_settings_get(void);

/* "512M", "1.5G", "64": bytes or any count, with a suffix K M G T (of 1,000) or Ki Mi Gi Ti (of 1,024). */
bool sli_parse_quantity(const char *text, double *value);
/* "20us", "1.5ms", "100": nanoseconds, with a suffix ns us ms s. */
bool sli_parse_ns(const char *text, uint64_t *ns);
/* "12": digits alone, at most `most` (which is below 10^18). */
bool sli_parse_count(const char *text, uint64_t most, uint64_t *count);

/* The instruction set of "auto", "plain", "avx2", "avx512" (AVX2 with FMA and F16C; AVX-512 F, BW, DQ and VL).
 * SL_INVALID lists the names, or says that this machine lacks it. */
sl_status sli_isa_parse(const char *text, sl_isa *isa);

#endif
