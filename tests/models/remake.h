/* Other checkpoints made of a given one: tensors renamed, left out, reshaped, turned. For tests of what models accept.
 */
#ifndef TESTS_MODELS_REMAKE_H
#define TESTS_MODELS_REMAKE_H

#include "folder.h"
#include <sluice/checkpoint.h>

enum { REMAKE_MAX = 128, REMAKE_NAME = 96 };

typedef struct remade {
    char name[REMAKE_NAME]; /* "" leaves the tensor out */
    int rank;
    int64_t shape[SL_MAX_RANK];
    bool turned; /* rank 2: its content too */
} remade;

typedef struct remake_job {
    sl_checkpoint_tensor from[REMAKE_MAX];
    bool turned[REMAKE_MAX];
} remake_job;

static inline sl_status remake_fill(void *user, int i, void *destination, size_t bytes) {
    const remake_job *job = user;
    const sl_checkpoint_tensor *t = &job->from[i];
    size_t size = sl_dtype_get(t->dtype)->block_bytes;
    memset(destination, 0, bytes);
    if (!job->turned[i]) {
        memcpy(destination, t->data, bytes < t->bytes ? bytes : t->bytes);
        return SL_OK;
    }
    size_t rows = (size_t)t->shape[0], columns = (size_t)t->shape[1];
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < columns; c++)
            memcpy((char *)destination + (c * rows + r) * size, (const char *)t->data + (r * columns + c) * size, size);
    return SL_OK;
}

/* Writes `to` with the tensors of `from` as `change` leaves them; `change` may be NULL. */
static inline void remake(const char *from, const char *to, void (*change)(remade *tensor)) {
    static remake_job job;
    static remade tensors[REMAKE_MAX];
    sl_checkpoint_entry entries[REMAKE_MAX];
    sl_checkpoint *checkpoint;
    int n = 0;
    ck_assert_msg(sl_checkpoint_open(from, &checkpoint) == SL_OK, "%s", sl_last_error());
    for (int i = 0; n < REMAKE_MAX && sl_checkpoint_at(checkpoint, i, &job.from[n]); i++) {
        const sl_checkpoint_tensor *t = &job.from[n];
        remade *m = &tensors[n];
        *m = (remade){.rank = t->rank};
        snprintf(m->name, sizeof m->name, "%s", t->name);
        for (int d = 0; d < t->rank; d++)
            m->shape[d] = t->shape[d];
        if (change)
            change(m);
        if (m->turned) {
            m->shape[0] = t->shape[1];
            m->shape[1] = t->shape[0];
        }
        job.turned[n] = m->turned;
        entries[n] = (sl_checkpoint_entry){m->name, t->dtype, m->rank, {0}};
        memcpy(entries[n].shape, m->shape, sizeof m->shape);
        n += m->name[0] != '\0';
    }
    ck_assert_msg(sl_checkpoint_write(to, n, entries, remake_fill, &job) == SL_OK, "%s", sl_last_error());
    sl_checkpoint_release(checkpoint);
}

#endif
