/* The plan's program written out for a step: values of events, works by slots, micro-batches by lags. No decisions. */
#include "driver.h"

void sli_steps_clear(sli_driver *d, sli_slot *slot) {
    slot->batch.ticket = &d->skipped;
    slot->batch.index = d->n_real;
    for (int c = 0; c < SLI_ROW_COUNTS; c++)
        slot->batch.rows[c] = 0;
    slot->fed = false;
}

static sli_action *add_payload(sli_driver *d, sli_action *out, const sli_plan_action *a) {
    const sli_bound_payload *p = &d->bound->payloads[a->payload];
    uint32_t *cursor = &d->cursors[a->payload];
    int64_t micro_batch = d->step - p->lag;
    const sli_slot *slot = micro_batch < 0 ? &d->none : sli_steps_slot(d, micro_batch);
    *out++ = (sli_action){.kind = a->kind, .lane = a->lane, .batch = &slot->batch, .work = &p->works[*cursor]};
    *cursor = *cursor + 1 == p->n_works ? 0 : *cursor + 1;
    return out;
}

void sli_steps_add(sli_driver *d) {
    const sli_plan_action *program = d->bound->program;
    sli_action *out = d->actions + d->n_actions;
    for (const sli_plan_action *a = program; a < program + d->bound->plan->n_program; a++) {
        if (a->kind == SLI_EXECUTE || a->kind == SLI_COPY) {
            out = add_payload(d, out, a);
            continue;
        }
        int64_t value = d->step * a->rate + a->offset;
        *out = (sli_action){.kind = a->kind, .lane = a->lane, .of = a->of, .value = (uint64_t)value};
        out += value > 0;
    }
    d->n_actions = (size_t)(out - d->actions);
    d->step++;
}

sl_status sli_steps_flush(sli_driver *d) {
    sl_pipeline *p = d->p;
    size_t n = d->n_actions;
    if (!n)
        return SL_OK;
    d->n_actions = 0;
    uint64_t before = atomic_load_explicit(&p->n_actions, memory_order_relaxed);
    atomic_store_explicit(&p->n_actions, before + n, memory_order_relaxed);
    atomic_store_explicit(&p->n_micro_batches, d->n_real, memory_order_relaxed);
    return d->backend->ops->enqueue(d->backend, d->actions, n);
}
