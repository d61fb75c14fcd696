/* Sleeping on a number: Linux's futex, of this process alone. */
#ifndef SLI_FUTEX_H
#define SLI_FUTEX_H

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Sleeps while the word is `value`, until a wake, perhaps for nothing. False: deadline_ns of CLOCK_MONOTONIC has come
 * (UINT64_MAX: never does). */
static inline bool sli_futex_wait(_Atomic uint32_t *word, uint32_t value, uint64_t deadline_ns) {
    struct timespec at = {.tv_sec = (time_t)(deadline_ns / 1000000000u), .tv_nsec = (long)(deadline_ns % 1000000000u)};
    long rc = syscall(SYS_futex, word, FUTEX_WAIT_BITSET_PRIVATE, value, deadline_ns == UINT64_MAX ? NULL : &at, NULL,
                      FUTEX_BITSET_MATCH_ANY);
    return rc == 0 || errno != ETIMEDOUT;
}

static inline void sli_futex_wake(_Atomic uint32_t *word) {
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

#endif
