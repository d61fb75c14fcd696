/* What a user asks of the places of values: where they are wanted, and in how many slots. */
#include "array.h"
#include "error.h"
#include "graph.h"

/* The index of a value that is no weight, and the device of a string; false, and the graph's error, if one is wrong. */
static bool value_at(sl_graph *g, sl_value value, const char *device, const char *what, int *index, sl_device *parsed) {
    *parsed = (sl_device){SL_CPU, 0};
    *index = sli_graph_is_good(g) ? sli_graph_value_index(g, value, what) : -1;
    if (*index < 0)
        return false;
    sl_status status = device ? sl_device_parse(device, parsed) : sl_fail(SL_INVALID, "there is no device (NULL)");
    if (status != SL_OK)
        sli_graph_take_error(g, sli_fail_within(status, "%s of '%s': ", what, g->values[*index].name));
    return status == SL_OK;
}

sl_value sl_graph_to(sl_graph *g, sl_value value, const char *device) {
    sl_device parsed;
    int index;
    if (!value_at(g, value, device, "sl_graph_to", &index, &parsed))
        return (sl_value){0};
    if (!SLI_ROOM(g->asked, g->n_asked)) {
        sli_graph_take_error(g, SL_OUT_OF_MEMORY);
        return (sl_value){0};
    }
    g->asked[g->n_asked++] = (sli_graph_at){index, parsed, 0};
    return value;
}

bool sli_graph_asked(const sl_graph *g, int value, sl_device device) {
    for (int i = 0; i < g->n_asked; i++)
        if (g->asked[i].value == value && sl_device_equal(g->asked[i].device, device))
            return true;
    return false;
}

static bool check_depth(sl_graph *g, int index, int depth) {
    if (depth < 0 || depth > SLI_MAX_DEPTH)
        sl_graph_fail(g, SL_INVALID, "'%s' is given %d slots; expected 1 to %d, or 0 for the plan's choice",
                      g->values[index].name, depth, SLI_MAX_DEPTH);
    else if (g->values[index].kind == SLI_VALUE_WEIGHT)
        sl_graph_fail(g, SL_INVALID, "'%s' is a weight, which has no slots; expected an input or what an op makes",
                      g->values[index].name);
    return sli_graph_is_good(g);
}

void sl_graph_source_depth(sl_graph *g, sl_value value, int depth) {
    int index = sli_graph_is_good(g) ? sli_graph_value_index(g, value, "sl_graph_source_depth") : -1;
    if (index < 0 || !check_depth(g, index, depth))
        return;
    if (g->values[index].kind == SLI_VALUE_INPUT)
        sl_graph_fail(
            g, SL_INVALID,
            "'%s' is an input, made on the host without slots; sl_graph_edge_depth sets them where it is read",
            g->values[index].name);
    else
        g->values[index].source_depth = depth;
}

void sl_graph_edge_depth(sl_graph *g, sl_value value, const char *device, int depth) {
    sl_device parsed;
    int index;
    if (!value_at(g, value, device, "sl_graph_edge_depth", &index, &parsed) || !check_depth(g, index, depth))
        return;
    for (int i = 0; i < g->n_depths; i++)
        if (g->depths[i].value == index && sl_device_equal(g->depths[i].device, parsed)) {
            g->depths[i].depth = depth;
            return;
        }
    if (SLI_ROOM(g->depths, g->n_depths))
        g->depths[g->n_depths++] = (sli_graph_at){index, parsed, depth};
    else
        sli_graph_take_error(g, SL_OUT_OF_MEMORY);
}
