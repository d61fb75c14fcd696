/* Poison: slots hold NaN patterns (bytes 0xff, which are NaN as f32, f16 and bf16) from when all have read them until
 * they are written, and from when a payload begins to write them until it has. Who reads a slot is learned when works
 * are prepared: an operand of a stage, or of a copy by its name, reads each slot once for each micro-batch.
 *
 * Threads: `reads` is counted by whoever runs a reader; the last reader, or the writer, is alone at the slot if the
 * plan's waits are right, and if they are not, that is what poison is for. */
#include "cpu_internal.h"
#include <sluice/memory.h>
#include <string.h>

typedef struct reader {
    const void *payload; /* a stage's code, a copy's name */
    int operand;
    size_t offset;
} reader;

typedef struct slot {
    char *at; /* NULL: an empty entry */
    size_t bytes;
    int n_readers, capacity;
    reader *readers;
    _Atomic int reads;
} slot;

struct sli_poison {
    size_t n, mask;
    slot *slots; /* open addressing by `at` */
};

static slot *find(const struct sli_poison *p, const char *at) {
    for (size_t i = ((uintptr_t)at >> 6) * 0x9e3779b97f4a7c15u >> 20;; i++) {
        slot *s = &p->slots[i & p->mask];
        if (!s->at || s->at == at)
            return s;
    }
}

static sl_status grow(struct sli_poison *p) {
    struct sli_poison larger = {p->n, p->mask ? 2 * p->mask + 1 : 63, NULL};
    if (p->slots && p->n < p->mask / 2)
        return SL_OK;
    larger.slots = sl_calloc(larger.mask + 1, sizeof *larger.slots);
    if (!larger.slots)
        return SL_OUT_OF_MEMORY;
    for (size_t i = 0; p->slots && i <= p->mask; i++)
        if (p->slots[i].at) {
            slot *to = find(&larger, p->slots[i].at), *from = &p->slots[i];
            to->at = from->at, to->bytes = from->bytes, to->readers = from->readers;
            to->n_readers = from->n_readers, to->capacity = from->capacity;
            atomic_store(&to->reads, atomic_load(&from->reads));
        }
    sl_free(p->slots);
    *p = larger;
    return SL_OK;
}

static sl_status add_reader(slot *s, reader r) {
    for (int i = 0; i < s->n_readers; i++)
        if (s->readers[i].payload == r.payload && s->readers[i].operand == r.operand &&
            s->readers[i].offset == r.offset)
            return SL_OK;
    if (s->n_readers == s->capacity) {
        int capacity = s->capacity ? 2 * s->capacity : 4;
        reader *readers = sl_realloc(s->readers, (size_t)capacity * sizeof *readers);
        if (!readers)
            return SL_OUT_OF_MEMORY;
        s->readers = readers;
        s->capacity = capacity;
    }
    s->readers[s->n_readers++] = r;
    return SL_OK;
}

sl_status sli_poison_learn(sli_cpu *c, const sli_work *work) {
    if (!c->poison)
        return SL_OK;
    if (!c->poisons && !(c->poisons = sl_calloc(1, sizeof *c->poisons)))
        return SL_OUT_OF_MEMORY;
    for (int i = 0; i < work->n_reads; i++) {
        const sli_operand *o = &work->operands[i];
        const void *payload = work->code ? (const void *)work->code : (const void *)work->name;
        if (!o->at)
            continue;
        SL_TRY(grow(c->poisons));
        slot *s = find(c->poisons, o->at);
        c->poisons->n += !s->at;
        s->at = o->at;
        s->bytes = o->slot_bytes > s->bytes ? o->slot_bytes : s->bytes;
        SL_TRY(add_reader(s, (reader){payload, i, o->extent.offset}));
    }
    return SL_OK;
}

void sli_poison_free(sli_cpu *c) {
    struct sli_poison *p = c->poisons;
    for (size_t i = 0; p && p->slots && i <= p->mask; i++)
        sl_free(p->slots[i].readers);
    if (p)
        sl_free(p->slots);
    sl_free(p);
}

/* What is about to be written: a piece of a slot, or all of it. */
static void poison_output(const sli_cpu *c, const sli_operand *o) {
    const sli_extent *x = &o->extent;
    if (!o->at || x->offset >= o->slot_bytes)
        return;
    size_t rest = o->slot_bytes - x->offset;
    memset(o->at + x->offset, 0xff, rest < x->limit ? rest : x->limit);
    slot *s = c->poisons && c->poisons->slots ? find(c->poisons, o->at) : NULL;
    if (s && s->at)
        atomic_store(&s->reads, 0);
}

void sli_poison_before(sli_cpu *c, const sli_work *work) {
    for (int i = work->n_reads; i < work->n_operands; i++)
        poison_output(c, &work->operands[i]);
}

void sli_poison_after(sli_cpu *c, const sli_work *work) {
    for (int i = 0; i < work->n_reads; i++) {
        char *at = work->operands[i].at;
        slot *s = at && c->poisons && c->poisons->slots ? find(c->poisons, at) : NULL;
        if (s && s->at && atomic_fetch_add(&s->reads, 1) + 1 == s->n_readers)
            memset(s->at, 0xff, s->bytes);
    }
}
