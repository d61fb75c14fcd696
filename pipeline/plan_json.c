/* A plan as JSON. Buffers, payloads and lanes are referred to by their index; devices by name, and "host" is one. */
#include "plan_print.h"

/* `"key": ` with a comma before it unless it is the first of its object. */
static void key(sli_text *t, const char *name, bool first) {
    sli_text_add(t, "%s\"%s\": ", first ? "" : ", ", name);
}

static void string_at(sli_text *t, const char *name, const char *value, bool first) {
    key(t, name, first);
    sli_text_quote(t, value);
}

static void number_at(sli_text *t, const char *name, long long value) {
    sli_text_add(t, ", \"%s\": %lld", name, value);
}

static void device_at(const sl_plan *p, sli_text *t, const char *name, int device, bool first) {
    char text[SL_DEVICE_TEXT];
    string_at(t, name, sli_plan_device_text(p, device, text), first);
}

static const char *between(int i) {
    return i ? ",\n    " : "\n    ";
}

static void print_figures(const sl_plan *p, sli_text *t) {
    const sl_plan_options *o = &p->options;
    sli_text_add(t,
                 "  \"credits\": %u, \"slots_hold\": %u, \"max_lag\": %d, \"waits\": %d, \"waits_implied\": %d, "
                 "\"pinned_bytes\": %zu,\n",
                 p->credits, p->slots_hold, p->max_lag, p->n_waits, p->n_implied, p->pinned_bytes);
    sli_text_add(t,
                 "  \"options\": {\"micro_batch_rows\": %u, \"max_segments\": %u, \"depth\": %d, \"window\": %u, "
                 "\"groups\": %u, \"strict\": %s, \"staging_bytes\": %zu},\n",
                 o->micro_batch_rows, o->max_segments, o->depth, o->window, o->groups, o->strict ? "true" : "false",
                 o->staging_bytes);
    sli_text_add(t, "  \"row_counts\": [");
    for (int r = 0; r < p->n_row_counts; r++) {
        sli_text_add(t, "%s{", r ? ", " : "");
        string_at(t, "name", p->row_names[r], true);
        number_at(t, "max", p->max_rows[r]);
        sli_text_add(t, "}");
    }
    sli_text_add(t, "],\n");
}

static void print_devices(const sl_plan *p, sli_text *t) {
    sli_text_add(t, "  \"devices\": [");
    for (int d = 0; d < p->n_devices; d++) {
        const sl_memory_figures *f = &p->devices[d].memory;
        sli_text_add(t, "%s{", between(d));
        device_at(p, t, "device", d, true);
        for (int c = SL_MEMORY_WEIGHTS; c < SL_MEMORY_CATEGORIES; c++)
            number_at(t, sl_memory_category_name((sl_memory_category)c), (long long)f->by_category[c]);
        number_at(t, "peak", (long long)f->peak);
        number_at(t, "limit", (long long)f->limit);
        sli_text_add(t, "}");
    }
    sli_text_add(t, "],\n");
}

static void print_stages(const sl_plan *p, sli_text *t) {
    sli_text_add(t, "  \"stages\": [");
    for (int j = 0; j < p->n_stages; j++) {
        const sli_plan_stage *s = &p->stages[j];
        sli_text_add(t, "%s{", between(j));
        string_at(t, "name", s->name, true);
        device_at(p, t, "device", s->device, false);
        key(t, "ops", false);
        for (int k = 0; k < s->n_ops; k++) {
            sli_text_add(t, "%s", k ? ", " : "[");
            sli_text_quote(t, s->ops[k].op->name);
        }
        sli_text_add(t, "]");
        number_at(t, "weights", (long long)sli_plan_stage_weights(p, j));
        number_at(t, "state", (long long)sli_plan_stage_state(p, j));
        if (s->timed)
            sli_text_add(t, ", \"fixed_ns\": %llu, \"row_ns\": %.17g", (unsigned long long)s->fixed_ns, s->row_ns);
        sli_text_add(t, "}");
    }
    sli_text_add(t, "],\n");
}

static void print_buffers(const sl_plan *p, sli_text *t) {
    sli_text_add(t, "  \"buffers\": [");
    for (int i = 0; i < p->n_buffers; i++) {
        const sli_buffer *b = &p->buffers[i];
        sli_text_add(t, "%s{", between(i));
        string_at(t, "name", b->name, true);
        device_at(p, t, "device", b->device, false);
        number_at(t, "depth", b->depth);
        string_at(t, "why", sli_plan_why_text(b->why), false);
        number_at(t, "slot_bytes", (long long)b->slot_bytes);
        number_at(t, "offset", (long long)b->offset);
        sli_text_add(t, "}");
    }
    sli_text_add(t, "],\n");
}

/* A buffer's index, or null. */
static void buffer_at(sli_text *t, const char *name, int buffer) {
    if (buffer >= 0)
        number_at(t, name, buffer);
    else
        sli_text_add(t, ", \"%s\": null", name);
}

static void print_edges(const sl_plan *p, sli_text *t) {
    sli_text_add(t, "  \"edges\": [");
    for (int i = 0; i < p->n_edges; i++) {
        const sli_plan_edge *e = &p->edges[i];
        sli_text_add(t, "%s{", between(i));
        string_at(t, "value", e->name, true);
        device_at(p, t, "from", e->from, false);
        device_at(p, t, "to", e->to, false);
        string_at(t, "route", sli_plan_route_text(e->route), false);
        number_at(t, "pieces", e->pieces);
        buffer_at(t, "source", e->source);
        buffer_at(t, "staging", e->staging);
        buffer_at(t, "destination", e->destination);
        sli_text_add(t, "}");
    }
    sli_text_add(t, "],\n");
}

static void print_lanes(const sl_plan *p, sli_text *t) {
    sli_text_add(t, "  \"lanes\": [");
    for (int l = 0; l < p->n_lanes; l++) {
        sli_text_add(t, "%s{", between(l));
        device_at(p, t, "from", p->lanes[l].from, true);
        device_at(p, t, "to", p->lanes[l].to, false);
        number_at(t, "records", p->lanes[l].rate);
        number_at(t, "most_actions", p->lanes[l].n_actions);
        number_at(t, "most_events", p->lanes[l].n_events);
        sli_text_add(t, "}");
    }
    sli_text_add(t, "],\n");
}

static void print_payloads(const sl_plan *p, sli_text *t) {
    sli_text_add(t, "  \"payloads\": [");
    for (int i = 0; i < p->n_payloads; i++) {
        const sli_payload *at = &p->payloads[i];
        sli_text_add(t, "%s{", between(i));
        string_at(t, "name", at->name, true);
        string_at(t, "kind", at->kind == SLI_EXECUTE ? "execute" : "copy", false);
        number_at(t, "lane", at->lane);
        number_at(t, "lag", at->lag);
        number_at(t, "works", at->n_works);
        for (int writes = 0; writes < 2; writes++) {
            key(t, writes ? "writes" : "reads", false);
            sli_text_add(t, "[");
            for (int k = writes ? at->n_reads : 0, n = 0; k < (writes ? at->n_operands : at->n_reads); k++)
                if (at->operands[k].buffer >= 0)
                    sli_text_add(t, "%s%d", n++ ? ", " : "", at->operands[k].buffer);
            sli_text_add(t, "]");
        }
        sli_text_add(t, "}");
    }
    sli_text_add(t, "],\n");
}

/* In the order of the step: each payload with what it waits for, and its record. */
static void print_step(const sl_plan *p, sli_text *t) {
    size_t waits = 0;
    int n = 0;
    sli_text_add(t, "  \"step\": [");
    for (size_t i = 0; i < p->n_program; i++) {
        const sli_plan_action *a = &p->program[i];
        waits += a->kind == SLI_WAIT;
        if (a->kind != SLI_EXECUTE && a->kind != SLI_COPY)
            continue;
        sli_text_add(t, "%s{\"payload\": %u, \"waits\": [", between(n++), a->payload);
        for (size_t w = i - waits; w < i; w++) {
            int64_t steps;
            uint32_t of = sli_plan_waited(p, &p->program[w], &steps);
            sli_text_add(t, "%s{\"payload\": %u, \"steps\": %lld}", w > i - waits ? ", " : "", of, (long long)steps);
        }
        waits = 0;
        sli_text_add(t, "]");
        if (i + 1 < p->n_program && p->program[i + 1].kind == SLI_RECORD)
            number_at(t, "record", p->program[i + 1].offset);
        sli_text_add(t, "}");
    }
    sli_text_add(t, "]\n");
}

void sli_plan_print_json(const sl_plan *p, sli_text *t) {
    sli_text_add(t, "{\n  \"kind\": \"%s\",\n", sl_device_kind_name(p->kind));
    print_figures(p, t);
    print_devices(p, t);
    print_stages(p, t);
    print_buffers(p, t);
    print_edges(p, t);
    print_lanes(p, t);
    print_payloads(p, t);
    print_step(p, t);
    sli_text_add(t, "}\n");
}
