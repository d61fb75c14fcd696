/* Faults of CPU devices and links, asked for by text: `no-peer:0-1,hang:1:40`. A and B are devices, N counts from 1.
 *
 *   no-peer:A-B          no direct copies from A to B: they are staged through the host
 *   corrupt:A-B          direct copies from A to B deliver wrong bytes
 *   alloc:N              the backend's Nth allocation fails
 *   enqueue:N            the Nth enqueueing fails as a lost device does, halfway
 *   hang:D:N             the Nth payload on device D's compute lane never ends
 *   hang-link:A-B:N      nor does the Nth copy from A to B
 *   stage:D:N            the Nth payload on device D's compute lane fails its job
 *
 * Payloads that are skipped do not count. */
#ifndef SLI_CPU_FAULTS_H
#define SLI_CPU_FAULTS_H

#include <sluice/status.h>

enum { SLI_MOST_FAULTS = 32 };

typedef enum sli_fault_kind {
    SLI_FAULT_NO_PEER,
    SLI_FAULT_CORRUPT,
    SLI_FAULT_ALLOC,
    SLI_FAULT_ENQUEUE,
    SLI_FAULT_HANG,
    SLI_FAULT_HANG_LINK,
    SLI_FAULT_STAGE,
    SLI_FAULT_KINDS
} sli_fault_kind;

typedef struct sli_fault {
    sli_fault_kind kind;
    int from, to; /* of a device both */
    uint64_t n;
} sli_fault;

typedef struct sli_faults {
    int count;
    sli_fault of[SLI_MOST_FAULTS];
} sli_faults;

/* Devices are checked against `n_devices`. SL_INVALID names what is wrong and lists what there is. */
sl_status sli_faults_parse(const char *text, int n_devices, sli_faults *faults);

/* N of the first fault of this kind there; 0: none. Kinds without a device or a link: from and to are 0. */
uint64_t sli_faults_at(const sli_faults *faults, sli_fault_kind kind, int from, int to);
bool sli_faults_have(const sli_faults *faults, sli_fault_kind kind, int from, int to);

#endif
