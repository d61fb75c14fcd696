/* What is known of stages: whether their ops may block, and what their payloads took. A table by the stage's code, with
 * open addressing.
 *
 * Threads: works are prepared by one thread, perhaps while lanes run: a table that is full stays for its readers until
 * the backend is closed, and the entries never move. An entry's times are those of who serves the stage's lane. */
#include "cpu_internal.h"
#include <sluice/memory.h>

struct sli_cost_table {
    struct sli_cost_table *smaller; /* the one before */
    size_t n, mask;
    _Atomic(sli_cost *) of[];
};

static _Atomic(sli_cost *) *place_of(struct sli_cost_table *t, const sli_stage_code *code) {
    for (size_t i = ((uintptr_t)code >> 3) * 0x9e3779b97f4a7c15u >> 32;; i++) {
        _Atomic(sli_cost *) *place = &t->of[i & t->mask];
        const sli_cost *cost = atomic_load_explicit(place, memory_order_acquire);
        if (!cost || cost->code == code)
            return place;
    }
}

sli_cost *sli_cost_find(const sli_cpu *c, const sli_stage_code *code) {
    struct sli_cost_table *t = atomic_load_explicit(&c->costs, memory_order_acquire);
    return t ? atomic_load_explicit(place_of(t, code), memory_order_relaxed) : NULL;
}

static sl_status grow(sli_cpu *c) {
    struct sli_cost_table *before = atomic_load(&c->costs);
    if (before && before->n < before->mask / 2)
        return SL_OK;
    size_t mask = before ? 2 * before->mask + 1 : 15;
    struct sli_cost_table *t = sl_calloc(1, sizeof *t + (mask + 1) * sizeof *t->of);
    if (!t)
        return SL_OUT_OF_MEMORY;
    t->mask = mask;
    t->smaller = before;
    for (size_t i = 0; before && i <= before->mask; i++) {
        sli_cost *cost = atomic_load(&before->of[i]);
        if (!cost)
            continue;
        atomic_store(place_of(t, cost->code), cost);
        t->n++;
    }
    atomic_store(&c->costs, t);
    return SL_OK;
}

/* Orders other than eager run each payload outside: then nothing else is under way. */
static bool never_blocks(const sli_cpu *c, const sli_stage_code *code) {
    bool never = c->order == SLI_EAGER;
    for (int i = 0; i < code->n_ops; i++)
        never = never && code->ops[i].op->never_blocks;
    return never;
}

sl_status sli_cost_add(sli_cpu *c, const sli_stage_code *code) {
    if (sli_cost_find(c, code))
        return SL_OK;
    SL_TRY(grow(c));
    struct sli_cost_table *t = atomic_load(&c->costs);
    sli_cost *cost = sl_calloc(1, sizeof *cost);
    if (!cost)
        return SL_OUT_OF_MEMORY;
    cost->code = code;
    cost->never_blocks = never_blocks(c, code);
    atomic_store(place_of(t, code), cost);
    t->n++;
    return SL_OK;
}

void sli_cost_free(sli_cpu *c) {
    struct sli_cost_table *t = atomic_load(&c->costs);
    for (size_t i = 0; t && i <= t->mask; i++)
        sl_free(atomic_load(&t->of[i]));
    while (t) {
        struct sli_cost_table *smaller = t->smaller;
        sl_free(t);
        t = smaller;
    }
}
