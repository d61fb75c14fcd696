/* Micro-batches from a feed's hooks, which run on the driver's thread. In a ring, turn t is asked for once the feed was
 * told of turn t - groups (the plan has the waits that close it); a turn without a micro-batch goes round as an empty
 * step. */
#include "driver.h"

static bool is_sound(const sl_plan *plan, const sl_micro_batch *mb) {
    bool sound = mb->rows[0] > 0 && mb->n_segments <= plan->options.max_segments;
    for (int c = 0; c < plan->n_row_counts; c++)
        sound = sound && mb->rows[c] <= plan->max_rows[c];
    return sound;
}

static void take_micro_batch(sli_driver *d, sli_slot *slot, const sl_micro_batch *mb) {
    const sl_plan *plan = d->bound->plan;
    sli_ticket *ticket = &d->tickets[slot - d->slots];
    atomic_store(&ticket->status, SL_OK);
    slot->batch.ticket = ticket;
    slot->fed = true;
    d->n_real++;
    if (!is_sound(plan, mb)) {
        sli_ticket_stop(ticket, SL_INVALID,
                        "the feed's micro-batch has no rows, or more rows or segments than the "
                        "plan has room for");
        return;
    }
    for (int c = 0; c < plan->n_row_counts; c++)
        slot->batch.rows[c] = mb->rows[c];
    slot->batch.rows[SLI_ROWS_SEGMENTS] = mb->n_segments;
}

/* A ring has no lags, so turns are steps there. */
static bool group_is_back(const sli_driver *d) {
    uint32_t groups = d->bound->plan->options.groups;
    return !groups || d->turn < groups || (int64_t)(d->turn - groups) < d->told;
}

bool sli_feed_add_step(sli_driver *d) {
    const sl_plan *plan = d->bound->plan;
    const sl_feed *feed = &d->p->feed;
    if (d->feed_idle || d->closing || !group_is_back(d))
        return false;
    sli_slot *slot = sli_steps_slot(d, d->step);
    sli_steps_clear(d, slot);
    sl_micro_batch mb = {.inputs = (const void **)slot->batch.io,
                         .outputs = slot->batch.io + plan->n_inputs,
                         .segments = slot->segments};
    sl_feed_answer answer = feed->next(feed->user, d->turn, &mb);
    if (answer == SL_FEED_IDLE) {
        d->feed_idle = true;
        return false;
    }
    slot->turn = d->turn;
    if (answer == SL_FEED_BATCH)
        take_micro_batch(d, slot, &mb);
    d->last_real = d->step;
    d->turn++;
    sli_steps_add(d);
    return true;
}

void sli_feed_tell(sli_driver *d, int64_t end) {
    const sl_feed *feed = &d->p->feed;
    sl_status lost = sli_driver_failure(d);
    for (; d->told < end; d->told++) {
        const sli_slot *slot = sli_steps_slot(d, d->told);
        if (!slot->fed)
            continue;
        const sli_ticket *ticket = slot->batch.ticket;
        sl_status status = lost ? lost : (sl_status)atomic_load(&ticket->status);
        feed->ended(feed->user, slot->turn, status, lost ? d->p->why : status ? ticket->message : "");
        d->feed_idle = false;
    }
}

void sli_feed_stop(sli_driver *d, const char *why) {
    for (int64_t step = d->told; step < d->step; step++) {
        const sli_slot *slot = sli_steps_slot(d, step);
        if (slot->fed)
            sli_ticket_stop(slot->batch.ticket, SL_CANCELLED, why);
    }
}
