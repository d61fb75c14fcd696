/* What hangs: from the program and the values that the lanes have reached. A lane's next payload either waits for
 * another lane, or it is under way and does not end. Runs once, when a pipeline is lost. */
#include "driver.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

typedef struct lane_view { /* of the steps that have not ended */
    bool owes;             /* it has a record to come */
    int running, waiting;  /* payloads: not known to have ended; behind the wait; -1: none */
    int64_t step;          /* of the one of both that matters */
    int blocked_on;        /* lane; -1: none */
} lane_view;

/* Returns true when the lane's view is complete. */
static bool see_action(const sli_driver *d, const sli_plan_action *a, int64_t step, uint64_t reached, lane_view *view) {
    int64_t value = step * a->rate + a->offset;
    switch (a->kind) {
    case SLI_RECORD:
        if ((uint64_t)value > reached) {
            view->owes = true;
            return true;
        }
        *view = (lane_view){.running = -1, .waiting = -1, .blocked_on = -1};
        return false;
    case SLI_WAIT:
        if (view->blocked_on < 0 && value > 0 && d->backend->ops->reached(d->backend, a->of) < (uint64_t)value)
            view->blocked_on = a->of;
        return false;
    default:
        if (view->blocked_on >= 0) {
            view->waiting = (int)a->payload;
            view->owes = true;
        } else if (view->running < 0) {
            view->running = (int)a->payload;
        }
        view->step = step;
        return view->owes;
    }
}

static lane_view see_lane(const sli_driver *d, uint16_t lane) {
    const sli_binding *bound = d->bound;
    uint64_t reached = d->backend->ops->reached(d->backend, lane);
    lane_view view = {.running = -1, .waiting = -1, .blocked_on = -1};
    for (int64_t step = d->steps_ended; step < d->step; step++)
        for (size_t i = 0; i < bound->plan->n_program; i++)
            if (bound->program[i].lane == lane && see_action(d, &bound->program[i], step, reached, &view))
                return view;
    return view;
}

/* The lane that could go on and does not; else one that may hang before its next wait; -1: none. */
static int find_culprit(const sli_driver *d, lane_view *view) {
    int maybe = -1;
    for (int e = 0; e < d->bound->n_ends; e++) {
        lane_view v = see_lane(d, d->bound->ends[e].lane);
        bool is_free = v.owes && v.blocked_on < 0;
        if (is_free || (v.owes && v.running >= 0 && maybe < 0)) {
            maybe = e;
            *view = v;
        }
        if (is_free)
            break;
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

static int count_waiting(const sli_driver *d) {
    int n = 0;
    for (int e = 0; e < d->bound->n_ends; e++)
        n += see_lane(d, d->bound->ends[e].lane).blocked_on >= 0;
    return n;
}

static void put_waiting(writer *w, const sli_driver *d, uint16_t culprit) {
    enum { NAMED = 3 };
    int named = 0, waiting = count_waiting(d);
    for (int e = 0; e < d->bound->n_ends && named < NAMED; e++) {
        lane_view v = see_lane(d, d->bound->ends[e].lane);
        if (v.blocked_on != culprit || v.waiting < 0)
            continue;
        put(w, "%s", named++ ? ", " : "; for it waits ");
        put_payload(w, d, v.waiting, v.step);
    }
    if (waiting > named)
        put(w, named ? ", and %d more lanes behind" : "; %d lanes wait behind it", waiting - named);
}

static void describe(writer *w, const sli_driver *d) {
    lane_view view;
    int culprit = find_culprit(d, &view);
    double ms = (double)d->p->patience_ns * 1e-6;
    if (culprit < 0) {
        put(w, "nothing has moved for %g ms, and every lane waits for another", ms);
        return;
    }
    put_payload(w, d, view.running, view.step);
    put(w, " has not ended, and nothing has moved for %g ms", ms);
    put_waiting(w, d, d->bound->ends[culprit].lane);
}

void sli_stall_describe(const sli_driver *d, char text[SLI_STALL_TEXT]) {
    writer w = {.n = 0};
    describe(&w, d);
    memcpy(text, w.text, w.n + 1);
}
