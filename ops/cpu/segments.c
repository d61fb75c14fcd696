/* See segments.h. The host makes the segments; an op that indexes by them checks them all the same. */
#include "cpu/segments.h"

sl_status sli_check_segments(const sl_descriptor *d, int64_t rows, int64_t longest, const char *what) {
    int64_t row = 0;
    for (uint32_t i = 0; i < d->n_segments; i++) {
        const sl_segment *s = &d->segments[i];
        if (s->first_row != row || s->n_rows < 0)
            return sl_fail(SL_INVALID,
                           "segment %u has first_row %d and n_rows %d; expected first_row %lld, as segments "
                           "cover the rows in order",
                           i, s->first_row, s->n_rows, (long long)row);
        if (s->position < 0 || (int64_t)s->position + s->n_rows > longest)
            return sl_fail(
                SL_INVALID,
                "segment %u, rows %d to %lld of the micro-batch, has positions %d to %lld; %s holds 0 to %lld", i,
                s->first_row, (long long)s->first_row + s->n_rows - 1, s->position,
                (long long)s->position + s->n_rows - 1, what, (long long)longest - 1);
        row += s->n_rows;
    }
    if (row != rows)
        return sl_fail(SL_INVALID, "the segments hold %lld rows and the micro-batch %lld; expected as many",
                       (long long)row, (long long)rows);
    return SL_OK;
}
