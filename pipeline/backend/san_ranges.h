/* Who touched which bytes last: disjoint ranges of addresses, each with its last write and the reads since. A range is
 * cut where an access begins or ends inside it, and made whole again by a write. One thread. */
#ifndef SLI_SAN_RANGES_H
#define SLI_SAN_RANGES_H

#include "san.h"

typedef struct sli_range {
    uintptr_t from, to;
    sli_san_access write;  /* work NULL: none yet */
    sli_san_access *reads; /* [n_reads], the last one of each lane */
    size_t n_reads, capacity;
} sli_range;

typedef struct sli_ranges {
    sli_range **all; /* [n], in the order of addresses */
    size_t n, capacity;
} sli_ranges;

void sli_ranges_clear(sli_ranges *ranges);

/* Makes ranges [*first, *first + *n) be all of [from, to) and nothing else. False: no memory. */
bool sli_ranges_cut(sli_ranges *ranges, uintptr_t from, uintptr_t to, size_t *first, size_t *n);

/* Notes a read of a range; false: no memory. Notes a write of several, which become one. */
bool sli_range_read(sli_range *range, const sli_san_access *access);
void sli_ranges_write(sli_ranges *ranges, size_t first, size_t n, const sli_san_access *access);

/* Drops the ranges that `over` says nobody needs any more. */
void sli_ranges_drop(sli_ranges *ranges, bool (*over)(const sli_range *range, void *user), void *user);

#endif
