/* How a job's rows become micro-batches: evenly, each row count on its own, and the segments with the rows. What the
 * tensors are is checked in submit.c. */
#include "cut.h"
#include "error.h"

uint64_t sl_split_rows(uint64_t rows, uint64_t m, uint64_t i, uint64_t *first, uint64_t *n) {
    uint64_t parts = m < rows ? m : rows;
    uint64_t small = parts ? rows / parts : 0, n_large = parts ? rows % parts : 0;
    bool is_there = i < parts;
    if (first)
        *first = is_there ? i * small + (i < n_large ? i : n_large) : rows;
    if (n)
        *n = is_there ? small + (i < n_large) : 0;
    return parts;
}

/* Parts of at most `most` rows; no maximum: one. */
static uint64_t parts_of(uint64_t rows, uint32_t most) {
    return most ? rows / most + (rows % most != 0) : 1;
}

static sl_status too_few_rows(const sl_plan *plan, const uint64_t *rows, int c) {
    return sl_fail(SL_INVALID,
                   "%llu of '%s' need %llu micro-batches of at most %u, but a job of %llu '%s' has no more than that "
                   "many; raise the maximum of '%s' (sl_graph_rows), or submit more rows",
                   (unsigned long long)rows[c], plan->row_names[c],
                   (unsigned long long)parts_of(rows[c], plan->max_rows[c]), plan->max_rows[c],
                   (unsigned long long)rows[0], plan->row_names[0], plan->row_names[c]);
}

sl_status sli_cut_count(const sl_plan *plan, const uint64_t *rows, uint32_t wanted, uint64_t *n_parts) {
    uint64_t m = wanted > 1 ? wanted : 1;
    m = m < rows[0] ? m : rows[0];
    for (int c = 0; c < plan->n_row_counts; c++) {
        uint64_t needed = parts_of(rows[c], plan->max_rows[c]);
        if (needed > rows[0])
            return too_few_rows(plan, rows, c);
        m = m > needed ? m : needed;
    }
    *n_parts = m;
    return SL_OK;
}

/* Segments of the job from `at` that reach into rows [first, first + n), cut to them, into `out` (may be NULL).
 * `*next`: the one that the next micro-batch begins with. */
static uint32_t cut_segments(const sl_job *job, uint32_t at, uint64_t first, uint64_t n, sl_segment *out,
                             uint32_t *next) {
    uint32_t count = 0;
    int64_t from = (int64_t)first, to = (int64_t)(first + n);
    for (; at < job->n_segments && job->segments[at].first_row < to; at++) {
        const sl_segment *s = &job->segments[at];
        int64_t begin = s->first_row > from ? s->first_row : from;
        int64_t end = (int64_t)s->first_row + s->n_rows;
        bool goes_on = end > to;
        if (out)
            out[count] = (sl_segment){.place = s->place,
                                      .position = (int32_t)(s->position + (begin - s->first_row)),
                                      .first_row = (int32_t)(begin - from),
                                      .n_rows = (int32_t)((goes_on ? to : end) - begin)};
        count++;
        if (goes_on)
            break;
    }
    *next = at;
    return count;
}

static sl_status check_segment(const sl_plan *plan, const sl_segment *s, uint32_t at, int64_t expected_row) {
    if (s->first_row != expected_row || s->n_rows < 1)
        return sl_fail(
            SL_INVALID,
            "segment %u has rows %d to %lld; segments follow one another from row 0, without gaps, each with "
            "a row at least: expected it to begin at %lld",
            at, s->first_row, (long long)s->first_row + s->n_rows, (long long)expected_row);
    for (int i = 0; i < plan->n_states; i++) {
        const sli_plan_state *state = &plan->states[i];
        if (s->place < 0 || s->place >= state->n_places)
            return sl_fail(SL_INVALID, "segment %u is at place %d; state '%s' has places 0 to %lld", at, s->place,
                           state->name, (long long)state->n_places - 1);
        if (s->position < 0 || (int64_t)s->position + s->n_rows > state->n_rows)
            return sl_fail(SL_INVALID,
                           "segment %u continues place %d at position %d with %d rows; a place of state '%s' has room "
                           "for %lld rows",
                           at, s->place, s->position, s->n_rows, state->name, (long long)state->n_rows);
    }
    return SL_OK;
}

/* A place is one sequence: a later segment of it goes on where the one before left off, or the outputs would depend on
 * which of them share a micro-batch. */
static sl_status check_place(const sl_job *job, uint32_t at) {
    const sl_segment *s = &job->segments[at];
    for (uint32_t before = at; before-- > 0;) {
        const sl_segment *b = &job->segments[before];
        if (b->place != s->place)
            continue;
        if (b->position + b->n_rows == s->position)
            return SL_OK;
        return sl_fail(SL_INVALID,
                       "segment %u continues place %d at position %d, and segment %u of the same job leaves it at %d: "
                       "give it that position, a place of its own, or a later job",
                       at, s->place, s->position, before, b->position + b->n_rows);
    }
    return SL_OK;
}

sl_status sli_cut_check_segments(const sl_plan *plan, const sl_job *job) {
    int64_t row = 0;
    for (uint32_t s = 0; s < job->n_segments; s++) {
        SL_TRY(check_segment(plan, &job->segments[s], s, row));
        if (plan->n_states)
            SL_TRY(check_place(job, s));
        row += job->segments[s].n_rows;
    }
    if ((uint64_t)row != job->rows[0])
        return sl_fail(SL_INVALID, "the segments have %lld rows in all, the job has %llu", (long long)row,
                       (unsigned long long)job->rows[0]);
    uint32_t at = 0;
    for (uint64_t i = 0; i < job->n_parts; i++) {
        uint64_t first, n;
        sl_split_rows(job->rows[0], job->n_parts, i, &first, &n);
        uint32_t count = cut_segments(job, at, first, n, NULL, &at);
        if (count > plan->options.max_segments)
            return sl_fail(SL_INVALID,
                           "micro-batch %llu of the job would have %u segments, and the plan has room for %u; raise "
                           "max_segments, or cut the job into more micro-batches",
                           (unsigned long long)i, count, plan->options.max_segments);
    }
    return SL_OK;
}

void sli_cut_next(const sl_plan *plan, sl_job *job, sli_batch *batch, sl_segment *segments) {
    uint64_t firsts[SL_MAX_ROW_COUNTS] = {0}, n, i = job->next_part++;
    for (int c = 0; c < plan->n_row_counts; c++) {
        sl_split_rows(job->rows[c], job->n_parts, i, &firsts[c], &n);
        batch->rows[c] = (uint32_t)n;
    }
    for (int v = 0; v < job->n_values; v++) {
        const sli_job_value *value = &job->values[v];
        uint64_t first = value->rows == SLI_ROWS_FIXED ? 0 : firsts[value->rows];
        batch->io[v] = value->at ? value->at + first * value->row_bytes : NULL;
    }
    batch->rows[SLI_ROWS_SEGMENTS] = 0;
    if (!plan->has_segments)
        return;
    batch->rows[SLI_ROWS_SEGMENTS] =
        cut_segments(job, job->next_segment, firsts[0], batch->rows[0], segments, &job->next_segment);
    batch->io[job->n_values] = segments;
}
