/* Last pass: the step as an array of actions, each event `step * rate + offset`. A record stands only where somebody
 * waits for it, and at each lane's end. */
#include "error.h"
#include "plan_build.h"

/* The last payload of each lane gets a record, as does each that a kept wait refers to. */
static sl_status number_records(sli_build *b) {
    sl_plan *p = b->p;
    b->record = sl_calloc((size_t)p->n_payloads, sizeof *b->record);
    int *last = sl_calloc((size_t)p->n_lanes, sizeof *last);
    if (!b->record || !last) {
        sl_free(last);
        return SL_OUT_OF_MEMORY;
    }
    for (int i = 0; i < b->n_deps; i++)
        if (!b->deps[i].is_lane && !b->deps[i].is_gone)
            b->record[b->deps[i].from] = 1;
    for (int n = 0; n < p->n_payloads; n++)
        last[p->payloads[b->step[n]].lane] = b->step[n];
    for (int l = 0; l < p->n_lanes; l++)
        b->record[last[l]] = 1;
    for (int n = 0; n < p->n_payloads; n++)
        if (b->record[b->step[n]])
            b->record[b->step[n]] = (int)++p->lanes[p->payloads[b->step[n]].lane].rate;
    sl_free(last);
    return SL_OK;
}

static void emit(sli_build *b, sli_plan_action action) {
    b->p->program[b->p->n_program++] = action;
}

static void emit_waits(sli_build *b, int at, const int *first_in, const int *next_in) {
    sl_plan *p = b->p;
    for (int i = first_in[at]; i >= 0; i = next_in[i]) {
        const sli_dep *d = &b->deps[i];
        uint16_t of = p->payloads[d->from].lane;
        int64_t rate = p->lanes[of].rate;
        if (++p->n_waits == b->extras.drop_wait)
            continue;
        emit(b, (sli_plan_action){.kind = SLI_WAIT,
                                  .lane = p->payloads[at].lane,
                                  .of = of,
                                  .rate = rate,
                                  .offset = b->record[d->from] - d->steps * rate});
    }
}

static void emit_payload(sli_build *b, int at) {
    sl_plan *p = b->p;
    uint16_t lane = p->payloads[at].lane;
    sli_plan_action record = {.kind = SLI_RECORD, .lane = lane, .of = lane, .rate = p->lanes[lane].rate};
    record.offset = b->record[at];
    emit(b, (sli_plan_action){.kind = p->payloads[at].kind, .lane = lane, .of = lane, .payload = (uint32_t)at});
    if (!b->record[at])
        return;
    emit(b, record);
    if (b->record[at] == (int)p->lanes[lane].rate)
        p->ends[p->n_ends++] = record;
}

static sl_status emit_step(sli_build *b) {
    size_t n = (size_t)b->p->n_payloads;
    int *first_in = sl_malloc(n * sizeof *first_in), *next_in = sl_malloc((size_t)b->n_deps * sizeof *next_in);
    sl_status status = first_in && next_in ? SL_OK : SL_OUT_OF_MEMORY;
    for (size_t i = 0; i < n && status == SL_OK; i++)
        first_in[i] = -1;
    for (int i = b->n_deps - 1; i >= 0 && status == SL_OK; i--)
        if (!b->deps[i].is_lane && !b->deps[i].is_gone) {
            next_in[i] = first_in[b->deps[i].to];
            first_in[b->deps[i].to] = i;
        }
    for (size_t i = 0; i < n && status == SL_OK; i++) {
        emit_waits(b, b->step[i], first_in, next_in);
        emit_payload(b, b->step[i]);
    }
    sl_free(first_in);
    sl_free(next_in);
    return status;
}

/* Sizes for backends: see sli_lane_desc. */
static sl_status size_lanes(sli_build *b) {
    sl_plan *p = b->p;
    uint64_t steps = (uint64_t)p->credits + 1;
    for (int i = 0; i < b->n_deps; i++) { /* n_events: first the longest distance of a wait for it */
        const sli_dep *d = &b->deps[i];
        sli_plan_lane *lane = &p->lanes[p->payloads[d->from].lane];
        if (!d->is_lane && !d->is_gone && d->steps > lane->n_events)
            lane->n_events = (uint32_t)d->steps;
    }
    for (size_t i = 0; i < p->n_program; i++)
        p->lanes[p->program[i].lane].n_actions++;
    for (int l = 0; l < p->n_lanes; l++) {
        uint64_t events = p->lanes[l].rate * (p->lanes[l].n_events + steps + 1);
        uint64_t actions = p->lanes[l].n_actions * steps;
        if (events > UINT32_MAX || actions > UINT32_MAX)
            return sl_fail(SL_INVALID,
                           "a lane would have %llu actions under way; lower credits, or raise staging_bytes",
                           (unsigned long long)actions);
        p->lanes[l].n_events = (uint32_t)events;
        p->lanes[l].n_actions = (uint32_t)actions;
    }
    return SL_OK;
}

sl_status sli_build_program(sli_build *b) {
    sl_plan *p = b->p;
    size_t n_waits = 0;
    SL_TRY(number_records(b));
    for (int i = 0; i < b->n_deps; i++)
        n_waits += !b->deps[i].is_lane && !b->deps[i].is_gone;
    p->program = sl_calloc(n_waits + 2 * (size_t)p->n_payloads, sizeof *p->program);
    p->ends = sl_calloc((size_t)p->n_lanes, sizeof *p->ends);
    if (!p->program || !p->ends)
        return SL_OUT_OF_MEMORY;
    SL_TRY(emit_step(b));
    return size_lanes(b);
}
