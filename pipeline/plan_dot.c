/* A plan for Graphviz: devices as boxes, stages in them, values as arrows from stage to stage with route and slots. */
#include "plan_print.h"
#include <string.h>

static void print_device(const sl_plan *p, sli_text *t, int device) {
    char name[SL_DEVICE_TEXT];
    sli_text_add(t, "  subgraph cluster_%d {\n    label=\"%s\\n%llu bytes\";\n", device,
                 sli_plan_device_text(p, device, name), (unsigned long long)p->devices[device].memory.peak);
    for (int j = 0; j < p->n_stages; j++) {
        if (p->stages[j].device != device)
            continue;
        sli_text_add(t, "    stage_%d [label=", j);
        sli_text_quote(t, p->stages[j].name);
        sli_text_add(t, "];\n");
    }
    sli_text_add(t, "  }\n");
}

/* The stage whose payload touches a buffer, writing or from stage `from` on reading; -1: no more. */
static int toucher(const sl_plan *p, int buffer, bool writes, int from) {
    for (int i = 0; i < p->n_payloads; i++) {
        const sli_payload *at = &p->payloads[i];
        if (at->kind != SLI_EXECUTE || at->stage < from)
            continue;
        for (int k = writes ? at->n_reads : 0; k < (writes ? at->n_operands : at->n_reads); k++)
            if (at->operands[k].buffer == buffer)
                return at->stage;
    }
    return -1;
}

static void print_arrow(const sl_plan *p, sli_text *t, const sli_plan_edge *e, int from, int to) {
    if (from < 0)
        sli_text_add(t, "  host -> stage_%d", to);
    else if (to < 0)
        sli_text_add(t, "  stage_%d -> host_out", from);
    else
        sli_text_add(t, "  stage_%d -> stage_%d", from, to);
    sli_text_add(t, " [label=");
    sli_text_quote(t, e->name);
    sli_text_add(t, ", tooltip=\"%s", sli_plan_route_text(e->route));
    if (e->pieces > 1)
        sli_text_add(t, " in %d pieces", e->pieces);
    if (e->source >= 0)
        sli_text_add(t, ", %d slots at the maker", p->buffers[e->source].depth);
    if (e->destination >= 0)
        sli_text_add(t, ", %d at the reader: %s", p->buffers[e->destination].depth,
                     sli_plan_why_text(p->buffers[e->destination].why));
    sli_text_add(t, "\"%s];\n",
                 e->route == SLI_ROUTE_STAGED ? ", style=dashed"
                 : e->route == SLI_ROUTE_HOST ? ", style=dotted"
                                              : "");
}

static void print_edge(const sl_plan *p, sli_text *t, const sli_plan_edge *e) {
    int maker = e->source >= 0 ? toucher(p, e->source, true, 0) : -1;
    int read = e->destination >= 0 ? e->destination : e->source;
    if (e->to == SLI_HOST) {
        print_arrow(p, t, e, maker, -1);
        return;
    }
    for (int reader = toucher(p, read, false, 0); reader >= 0; reader = toucher(p, read, false, reader + 1))
        print_arrow(p, t, e, maker, reader);
}

void sli_plan_print_dot(const sl_plan *p, sli_text *t) {
    sli_text_add(t, "digraph plan {\n  rankdir=LR;\n  node [shape=box];\n");
    sli_text_add(t, "  host [shape=plaintext, label=\"inputs\"];\n  host_out [shape=plaintext, label=\"outputs\"];\n");
    for (int d = 0; d < p->n_devices; d++)
        print_device(p, t, d);
    for (int i = 0; i < p->n_edges; i++)
        print_edge(p, t, &p->edges[i]);
    sli_text_add(t, "}\n");
}
