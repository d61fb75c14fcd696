/* What hangs: from the program and the values that the lanes have reached. A lane's next payload either waits for
 * another lane, or it is under way and does not end. Runs once, when a pipeline is lost. */
#include "driver.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void start_view(sli_lane_view *view) {
    *view = (sli_lane_view){.running = -1, .waiting = -1, .blocked_on = -1, .reached = view->reached};
}

static void see_record(sli_lane_view *view, uint64_t value) {
    if (value <= view->reached)
        start_view(view); /* all before it has passed */
    else
        view->owes = view->is_seen = true;
}

static void see_payload(sli_lane_view *view, int payload, int64_t step) {
    view->step = step;
    if (view->blocked_on >= 0) {
        view->waiting = payload;
        view->owes = view->is_seen = true;
    } else if (view->running < 0) {
        view->running = payload;
    }
}

static void see_action(sli_driver *d, const sli_plan_action *a, int64_t step) {
    sli_lane_view *view = &d->views[a->lane];
    int64_t value = step * a->rate + a->offset;
    if (view->is_seen)
        return;
    if (a->kind == SLI_RECORD)
        see_record(view, (uint64_t)value);
    else if (a->kind != SLI_WAIT)
        see_payload(view, (int)a->payload, step);
    else if (view->blocked_on < 0 && value > 0 && d->views[a->of].reached < (uint64_t)value)
        view->blocked_on = a->of;
}

static void see_lanes(sli_driver *d) {
    const sli_binding *bound = d->bound;
    for (const sli_lane_end *e = bound->ends; e < bound->ends + bound->n_ends; e++) {
        d->views[e->lane].reached = d->backend->ops->reached(d->backend, e->lane);
        start_view(&d->views[e->lane]);
    }
    for (int64_t step = d->steps_ended; step < d->step; step++)
        for (size_t i = 0; i < bound->plan->n_program; i++)
            see_action(d, &bound->program[i], step);
}

/* The lane that could go on and does not; else one that may hang before its next wait; -1: none. */
static int find_culprit(const sli_driver *d) {
    int maybe = -1;
    for (int e = 0; e < d->bound->n_ends; e++) {
        uint16_t lane = d->bound->ends[e].lane;
        const sli_lane_view *v = &d->views[lane];
        if (v->owes && v->blocked_on < 0)
            return lane;
        if (v->owes && v->running >= 0 && maybe < 0)
            maybe = lane;
    }
    return maybe;
}

typedef struct writer {
    char text[SLI_STALL_TEXT];
    size_t n;
} writer;

static void put(writer *w, const char *format, ...) SL_PRINTF(2, 3);
static void put(writer *w, const char *format, ...) {
    va_list args;
    va_start(args, format);
    int n = vsnprintf(w->text + w->n, SLI_STALL_TEXT - w->n, format, args);
    va_end(args);
    w->n += (size_t)n < SLI_STALL_TEXT - w->n ? (size_t)n : SLI_STALL_TEXT - w->n - 1;
}

/* "stage 'front' of micro-batch 3 on cpu:0" */
static void put_payload(writer *w, const sli_driver *d, int payload, int64_t step) {
    const sl_plan *plan = d->bound->plan;
    if (payload < 0) {
        put(w, "a record");
        return;
    }
    const sli_payload *p = &plan->payloads[payload];
    int64_t micro_batch = step - p->lag;
    char device[SL_DEVICE_TEXT];
    put(w, "%s '%s'", p->kind == SLI_EXECUTE ? "stage" : "copy", p->name);
    if (micro_batch >= 0)
        put(w, " of micro-batch %llu", (unsigned long long)sli_steps_slot(d, micro_batch)->batch.index);
    if (p->kind == SLI_EXECUTE)
        put(w, " on %s", sl_device_format(plan->devices[p->device].device, device));
}

static void put_waiting(writer *w, const sli_driver *d, int culprit) {
    enum { NAMED = 3 };
    int named = 0, waiting = 0;
    for (int e = 0; e < d->bound->n_ends; e++) {
        const sli_lane_view *v = &d->views[d->bound->ends[e].lane];
        waiting += v->blocked_on >= 0;
        if (v->blocked_on != culprit || v->waiting < 0 || named == NAMED)
            continue;
        put(w, "%s", named++ ? ", " : "; for it waits ");
        put_payload(w, d, v->waiting, v->step);
    }
    if (waiting > named)
        put(w, named ? ", and %d more lanes behind" : "; %d lanes wait behind it", waiting - named);
}

static void describe(writer *w, const sli_driver *d) {
    int culprit = find_culprit(d);
    double ms = (double)d->p->patience_ns * 1e-6;
    if (culprit < 0) {
        put(w, "nothing has moved for %g ms, and every lane waits for another", ms);
        return;
    }
    put_payload(w, d, d->views[culprit].running, d->views[culprit].step);
    put(w, " has not ended, and nothing has moved for %g ms", ms);
    put_waiting(w, d, culprit);
}

void sli_stall_describe(sli_driver *d, char text[SLI_STALL_TEXT]) {
    writer w = {.n = 0};
    see_lanes(d);
    describe(&w, d);
    memcpy(text, w.text, w.n + 1);
}
