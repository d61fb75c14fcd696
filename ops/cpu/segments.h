/* The segments of a micro-batch as CPU kernels read them: which position each row has. */
#ifndef SLI_SEGMENTS_H
#define SLI_SEGMENTS_H

#include <sluice/op.h>

/* SL_INVALID, with a sentence, unless the segments tile the rows in order and no sequence is longer than `longest`.
 * `what` holds the positions: "the table of angles". */
sl_status sli_check_segments(const sl_descriptor *d, int64_t rows, int64_t longest, const char *what);

/* The segment of a row, in checked segments, from that of an earlier row (or the first) on. */
static inline const sl_segment *sli_segment_of(const sl_segment *s, int64_t row) {
    while (row >= (int64_t)s->first_row + s->n_rows)
        s++;
    return s;
}

static inline int32_t sli_position_of(const sl_segment *s, int64_t row) {
    return s->position + (int32_t)(row - s->first_row);
}

#endif
