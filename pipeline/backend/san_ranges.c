/* A sorted array of pointers to ranges. Accesses are mostly those of before, so that nearly all are one search. */
#include "san_ranges.h"
#include <string.h>

static void destroy_range(sli_range *r) {
    sl_free(r->reads);
    sl_free(r);
}

void sli_ranges_clear(sli_ranges *ranges) {
    for (size_t i = 0; i < ranges->n; i++)
        destroy_range(ranges->all[i]);
    sl_free(ranges->all);
    *ranges = (sli_ranges){0};
}

/* The first range that ends after `at`. */
static size_t find(const sli_ranges *ranges, uintptr_t at) {
    size_t low = 0, high = ranges->n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (ranges->all[middle]->to > at)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* Puts a new range at index i, with the accesses of `like` (NULL: none). */
static bool insert(sli_ranges *ranges, size_t i, uintptr_t from, uintptr_t to, const sli_range *like) {
    if (ranges->n == ranges->capacity) {
        size_t capacity = ranges->capacity ? 2 * ranges->capacity : 64;
        sli_range **all = sl_realloc(ranges->all, capacity * sizeof *all);
        if (!all)
            return false;
        ranges->all = all;
        ranges->capacity = capacity;
    }
    sli_range *r = sl_calloc(1, sizeof *r);
    if (!r)
        return false;
    if (like && like->n_reads) {
        r->reads = sl_malloc(like->n_reads * sizeof *r->reads);
        if (!r->reads) {
            sl_free(r);
            return false;
        }
        memcpy(r->reads, like->reads, like->n_reads * sizeof *r->reads);
        r->n_reads = r->capacity = like->n_reads;
    }
    r->from = from;
    r->to = to;
    if (like)
        r->write = like->write;
    memmove(&ranges->all[i + 1], &ranges->all[i], (ranges->n - i) * sizeof *ranges->all);
    ranges->all[i] = r;
    ranges->n++;
    return true;
}

/* Range i becomes two, cut at `at` inside it. */
static bool split(sli_ranges *ranges, size_t i, uintptr_t at) {
    sli_range *r = ranges->all[i];
    if (!insert(ranges, i + 1, at, r->to, r))
        return false;
    r->to = at;
    return true;
}

bool sli_ranges_cut(sli_ranges *ranges, uintptr_t from, uintptr_t to, size_t *first, size_t *n) {
    size_t i = find(ranges, from);
    if (i < ranges->n && ranges->all[i]->from < from && !split(ranges, i++, from))
        return false;
    *first = i;
    for (uintptr_t at = from; at < to; at = ranges->all[i++]->to) {
        uintptr_t next = i < ranges->n ? ranges->all[i]->from : UINTPTR_MAX;
        if (next > at && !insert(ranges, i, at, next < to ? next : to, NULL))
            return false;
        if (ranges->all[i]->to > to && !split(ranges, i, to))
            return false;
    }
    *n = i - *first;
    return true;
}

bool sli_range_read(sli_range *r, const sli_san_access *access) {
    for (size_t i = 0; i < r->n_reads; i++)
        if (r->reads[i].lane == access->lane) {
            r->reads[i] = *access;
            return true;
        }
    if (r->n_reads == r->capacity) {
        size_t capacity = r->capacity ? 2 * r->capacity : 2;
        sli_san_access *reads = sl_realloc(r->reads, capacity * sizeof *reads);
        if (!reads)
            return false;
        r->reads = reads;
        r->capacity = capacity;
    }
    r->reads[r->n_reads++] = *access;
    return true;
}

void sli_ranges_write(sli_ranges *ranges, size_t first, size_t n, const sli_san_access *access) {
    sli_range *r = ranges->all[first];
    r->to = ranges->all[first + n - 1]->to;
    r->write = *access;
    r->n_reads = 0;
    for (size_t i = first + 1; i < first + n; i++)
        destroy_range(ranges->all[i]);
    memmove(&ranges->all[first + 1], &ranges->all[first + n], (ranges->n - first - n) * sizeof *ranges->all);
    ranges->n -= n - 1;
}

void sli_ranges_drop(sli_ranges *ranges, bool (*over)(const sli_range *range, void *user), void *user) {
    size_t kept = 0;
    for (size_t i = 0; i < ranges->n; i++)
        if (over(ranges->all[i], user))
            destroy_range(ranges->all[i]);
        else
            ranges->all[kept++] = ranges->all[i];
    ranges->n = kept;
}
