/* The sanitizer: wraps a backend and proves, from the enqueued actions alone, that waits order every two accesses to
 * the same bytes of which one writes. It needs no run to go wrong: timing, data and the kind of device do not matter.
 *
 * What the host saw reached before it enqueued orders accesses to the host memory of micro-batches (io) and nothing
 * else: between lanes only waits count. */
#ifndef SLI_SAN_H
#define SLI_SAN_H

#include "backend.h"

typedef struct sli_san_access {
    const sli_work *work;
    uint64_t micro_batch;
    uint64_t value; /* the first that its lane records after it: whoever waits for that is ordered behind it */
    uint16_t lane;
    bool writes;
    int operand; /* of the work; -1: memory of the stage's own (state, scratch, activations) */
} sli_san_access;

typedef struct sli_san_report {
    sli_san_access earlier, later; /* in the order of enqueueing; `later` needs a wait for (earlier.lane, value) */
    const char *at;                /* the bytes that both touch */
    size_t bytes;
    const char *sentence;
} sli_san_report;

/* On the driver's thread, in enqueue; borrows the report. */
typedef void (*sli_san_fn)(const sli_san_report *report, void *user);

/* Takes `inner`, unless it fails. The wrapper allocates while it enqueues; without memory it says so once and checks no
 * more. Works are borrowed until the next close. */
sl_status sli_san_create(sli_backend *inner, sli_backend **wrapped);

/* Who is told of each report. NULL, at first: the log, of the first few. */
void sli_san_listen(sli_backend *wrapped, sli_san_fn report, void *user);

/* Unordered accesses so far, and waits for what nobody had enqueued. Any thread. */
uint64_t sli_san_reports(const sli_backend *wrapped);
bool sli_san_is_off(const sli_backend *wrapped); /* it ran out of memory */

#endif
