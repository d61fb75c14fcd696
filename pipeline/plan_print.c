/* A plan as text for people. JSON and Graphviz are plan_json.c and plan_dot.c. */
#include "plan_print.h"
#include "error.h"

/* ---- Shared words ---- */

const char *sli_plan_device_text(const sl_plan *p, int device, char text[SL_DEVICE_TEXT]) {
    return device == SLI_HOST ? "host" : sl_device_format(p->devices[device].device, text);
}

const char *sli_plan_why_text(sli_depth_why why) {
    static const char *const texts[] = {
        [SLI_DEPTH_DEFAULT] = "the default",
        [SLI_DEPTH_OPTION] = "the option depth",
        [SLI_DEPTH_GRAPH] = "given in the graph",
        [SLI_DEPTH_WAY] = "one for each stage and each copy on the longest way round",
        [SLI_DEPTH_LAG] = "its reader lags behind",
        [SLI_DEPTH_ROUNDED] = "rounded up, so that slots combine in fewer ways",
        [SLI_DEPTH_PIECES] = "one for each half of the way",
        [SLI_DEPTH_WINDOW] = "the option window",
    };
    return texts[why];
}

const char *sli_plan_route_text(sli_route route) {
    static const char *const texts[] = {"alias", "peer", "staged", "host"};
    return texts[route];
}

uint64_t sli_plan_stage_weights(const sl_plan *p, int stage) {
    uint64_t bytes = 0;
    for (int w = 0; w < p->n_weights; w++) {
        bool used = false;
        for (int k = 0; k < p->stages[stage].n_ops && !used; k++)
            for (int i = 0; i < p->stages[stage].ops[k].n_inputs; i++) {
                const sli_plan_ref *ref = &p->stages[stage].ops[k].inputs[i];
                used |= ref->place == SLI_IN_WEIGHTS && ref->index == w;
            }
        bytes += used ? p->weights[w].data->bytes : 0;
    }
    return bytes;
}

uint64_t sli_plan_stage_state(const sl_plan *p, int stage) {
    uint64_t bytes = 0;
    for (int s = 0; s < p->n_states; s++) {
        bool used = false;
        for (int k = 0; k < p->stages[stage].n_ops; k++)
            for (int i = 0; i < p->stages[stage].ops[k].n_states; i++)
                used |= p->stages[stage].ops[k].states[i] == s;
        bytes += used ? p->states[s].bytes : 0;
    }
    return bytes;
}

uint32_t sli_plan_waited(const sl_plan *p, const sli_plan_action *wait, int64_t *steps) {
    int64_t record = ((wait->offset - 1) % wait->rate + wait->rate) % wait->rate + 1;
    *steps = (record - wait->offset) / wait->rate;
    uint32_t payload = 0;
    for (size_t i = 0; i < p->n_program; i++) {
        const sli_plan_action *a = &p->program[i];
        if (a->lane == wait->of && (a->kind == SLI_EXECUTE || a->kind == SLI_COPY))
            payload = a->payload;
        if (a->lane == wait->of && a->kind == SLI_RECORD && a->offset == record)
            break;
    }
    return payload;
}

/* ---- Sections ---- */

static void print_count(sli_text *t, int n, const char *what, const char *then) {
    sli_text_add(t, "%d %s%s%s", n, what, n == 1 ? "" : "s", then);
}

static void print_head(const sl_plan *p, sli_text *t) {
    sl_plan_figures f;
    sl_plan_get_figures(p, &f);
    sli_text_add(t, "plan: ");
    print_count(t, f.n_stages, "stage", " on ");
    print_count(t, p->n_devices, "device", ", ");
    print_count(t, f.n_edges, "edge", " between stages, ");
    print_count(t, f.n_lanes, "lane", "\n");
    sli_text_add(t, "micro-batches of at most");
    for (int r = 0; r < p->n_row_counts; r++)
        sli_text_add(t, "%s %u %s", r ? "," : "", p->max_rows[r], p->row_names[r]);
    if (p->has_segments)
        sli_text_add(t, ", %u segments", p->max_rows[SLI_ROWS_SEGMENTS]);
    sli_text_add(t, "\n");
    if (p->options.groups)
        sli_text_add(t, "a ring of %u groups: a micro-batch begins when the one %u before has ended\n",
                     p->options.groups, p->options.groups);
}

/* Each kind once, in the order of its first op. */
static void print_ops(const sli_plan_stage *s, sli_text *t) {
    bool first = true;
    for (int k = 0; k < s->n_ops; k++) {
        int before = 0, same = 0;
        for (int i = 0; i < s->n_ops; i++)
            if (s->ops[i].op == s->ops[k].op) {
                before += i < k;
                same += i >= k;
            }
        if (before)
            continue;
        sli_text_add(t, "%s%s", first ? "" : ", ", s->ops[k].op->name);
        if (same > 1)
            sli_text_add(t, " x %d", same);
        first = false;
    }
}

static void print_stages(const sl_plan *p, sli_text *t) {
    char device[SL_DEVICE_TEXT];
    sli_text_add(t, "\nstages\n");
    for (int j = 0; j < p->n_stages; j++) {
        const sli_plan_stage *s = &p->stages[j];
        size_t line = t->n;
        sli_text_add(t, "  %s", s->name);
        sli_text_pad(t, line, 20);
        sli_text_add(t, "%s", sli_plan_device_text(p, s->device, device));
        sli_text_pad(t, line, 30);
        print_ops(s, t);
        sli_text_add(t, "; weights %llu bytes, state %llu bytes", (unsigned long long)sli_plan_stage_weights(p, j),
                     (unsigned long long)sli_plan_stage_state(p, j));
        if (s->timed)
            sli_text_add(t, "; takes %llu ns and %g ns a row", (unsigned long long)s->fixed_ns, s->row_ns);
        for (int i = 0; i < p->n_payloads; i++)
            if (p->payloads[i].kind == SLI_EXECUTE && p->payloads[i].stage == j && p->payloads[i].lag)
                sli_text_add(t, "; lags by %d", p->payloads[i].lag);
        sli_text_add(t, "\n");
    }
}

static void print_slots(const sl_plan *p, sli_text *t, int buffer, const char *where) {
    if (buffer < 0)
        return;
    const sli_buffer *b = &p->buffers[buffer];
    sli_text_add(t, "; %s: %d x %zu bytes (%s)", where, b->depth, b->slot_bytes, sli_plan_why_text(b->why));
}

static void print_edges(const sl_plan *p, sli_text *t) {
    char from[SL_DEVICE_TEXT], to[SL_DEVICE_TEXT];
    sli_text_add(t, "\nedges\n");
    for (int i = 0; i < p->n_edges; i++) {
        const sli_plan_edge *e = &p->edges[i];
        size_t line = t->n;
        sli_text_add(t, "  %s", e->name);
        sli_text_pad(t, line, 20);
        sli_text_add(t, "%s -> %s", sli_plan_device_text(p, e->from, from), sli_plan_device_text(p, e->to, to));
        sli_text_pad(t, line, 38);
        sli_text_add(t, "%s", sli_plan_route_text(e->route));
        if (e->pieces > 1)
            sli_text_add(t, " in %d pieces", e->pieces);
        print_slots(p, t, e->source, e->route == SLI_ROUTE_ALIAS ? "slots" : "at its maker");
        print_slots(p, t, e->staging, "pinned");
        print_slots(p, t, e->destination, "at its reader");
        sli_text_add(t, "\n");
    }
    for (int i = 0; i < p->n_buffers; i++)
        if (p->buffers[i].why == SLI_DEPTH_WINDOW)
            sli_text_add(t, "  %s: %d tokens\n", p->buffers[i].name, p->buffers[i].depth);
}

static void print_lanes(const sl_plan *p, sli_text *t) {
    char from[SL_DEVICE_TEXT], to[SL_DEVICE_TEXT];
    sli_text_add(t, "\nlanes\n");
    for (int l = 0; l < p->n_lanes; l++) {
        const sli_plan_lane *lane = &p->lanes[l];
        size_t line = t->n;
        if (lane->from == lane->to)
            sli_text_add(t, "  %d: %s computes", l, sli_plan_device_text(p, lane->from, from));
        else
            sli_text_add(t, "  %d: copies %s -> %s", l, sli_plan_device_text(p, lane->from, from),
                         sli_plan_device_text(p, lane->to, to));
        sli_text_pad(t, line, 34);
        print_count(t, (int)lane->rate, "record", " a step");
        sli_text_add(t, "; at most %u actions and %u events under way\n", lane->n_actions, lane->n_events);
    }
}

static void print_number(sli_text *t, const char *letter, int64_t less) {
    if (less)
        sli_text_add(t, "(%s-%lld)", letter, (long long)less);
    else
        sli_text_add(t, "(%s)", letter);
}

/* A line a payload. What it waits for is of the micro-batch in brackets, counted from the step's number. */
static void print_step(const sl_plan *p, sli_text *t) {
    sli_text_add(t, "\nstep k\n");
    size_t waits = 0; /* actions that are waits of the next payload */
    for (size_t i = 0; i < p->n_program; i++) {
        const sli_plan_action *a = &p->program[i];
        if (a->kind == SLI_WAIT)
            waits++;
        if (a->kind != SLI_EXECUTE && a->kind != SLI_COPY)
            continue;
        size_t line = t->n;
        sli_text_add(t, "  lane %d", a->lane);
        sli_text_pad(t, line, 12);
        sli_text_add(t, "%s", p->payloads[a->payload].name);
        print_number(t, "k", p->payloads[a->payload].lag);
        if (waits)
            sli_text_pad(t, line, 44);
        for (size_t w = i - waits; w < i; w++) {
            int64_t steps;
            uint32_t of = sli_plan_waited(p, &p->program[w], &steps);
            sli_text_add(t, "%s%s", w == i - waits ? "after " : ", ", p->payloads[of].name);
            print_number(t, "k", steps + p->payloads[of].lag);
        }
        waits = 0;
        sli_text_add(t, "\n");
    }
    sli_text_add(t,
                 "%d waits; %d more are left out, since others imply them. What waits stands behind what it waits "
                 "for, so nothing can deadlock.\n",
                 p->n_waits, p->n_implied);
    sli_text_add(
        t, "the host runs at most %u steps ahead; at most %u micro-batches are under way; the largest lag is %d\n",
        p->credits, p->slots_hold, p->max_lag);
}

static void print_memory(const sl_plan *p, sli_text *t) {
    char device[SL_DEVICE_TEXT];
    sli_text_add(t, "\nbytes     %14s %14s %14s %14s %14s %14s %14s\n", "weights", "activations", "state", "slots",
                 "scratch", "all", "limit");
    for (int d = 0; d < p->n_devices; d++) {
        const sl_memory_figures *f = &p->devices[d].memory;
        size_t line = t->n;
        sli_text_add(t, "%s", sli_plan_device_text(p, d, device));
        sli_text_pad(t, line, 10);
        for (int c = SL_MEMORY_WEIGHTS; c < SL_MEMORY_CATEGORIES; c++)
            sli_text_add(t, "%14llu ", (unsigned long long)f->by_category[c]);
        sli_text_add(t, "%14llu ", (unsigned long long)f->peak);
        if (f->limit)
            sli_text_add(t, "%14llu\n", (unsigned long long)f->limit);
        else
            sli_text_add(t, "%14s\n", "none");
    }
    if (p->pinned_bytes)
        sli_text_add(t, "pinned host memory for staged copies: %zu bytes\n", p->pinned_bytes);
}

void sli_plan_print_text(const sl_plan *p, sli_text *t) {
    print_head(p, t);
    print_stages(p, t);
    print_edges(p, t);
    print_lanes(p, t);
    print_step(p, t);
    print_memory(p, t);
}

sl_status sl_plan_format_as(const sl_plan *p, sl_plan_format format, char **string) {
    sli_text t = {0};
    *string = NULL;
    switch (format) {
    case SL_PLAN_TEXT:
        sli_plan_print_text(p, &t);
        return sli_text_take(&t, string);
    case SL_PLAN_JSON:
        sli_plan_print_json(p, &t);
        return sli_text_take(&t, string);
    case SL_PLAN_DOT:
        sli_plan_print_dot(p, &t);
        return sli_text_take(&t, string);
    }
    return sl_fail(SL_INVALID, "plan format %d is none; expected SL_PLAN_TEXT, SL_PLAN_JSON or SL_PLAN_DOT",
                   (int)format);
}
