/* How CPU kernels share work among a device's threads: items are cut into contiguous ranges, as many as pay. */
#ifndef SLI_PARALLEL_H
#define SLI_PARALLEL_H

#include <sluice/op.h>

/* Below this many operations (some microseconds) a part is not worth handing to another thread. */
#define SLI_PART_OPERATIONS 40000.0

/* Into how many parts `items` of `operations` each are cut: 1 to the device's threads. */
static inline int sli_parts(const sl_lane *lane, int64_t items, double operations) {
    double worth = (double)items * operations / SLI_PART_OPERATIONS;
    int n = sl_lane_threads(lane);
    if (n > worth)
        n = (int)worth;
    if (n > items)
        n = (int)items;
    return n > 1 ? n : 1;
}

/* Where part `part` of `items` begins; it ends where the next one begins. */
static inline int64_t sli_part_begin(int64_t items, int part, int n_parts) {
    return items / n_parts * part + items % n_parts * part / n_parts;
}

#endif
