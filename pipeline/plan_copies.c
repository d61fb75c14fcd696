/* Copies: which way a value goes from where it is made to where it is read, and on which lanes.
 *
 *     input    host ---------------------> slot at device      lane host -> device
 *     peer     slot at maker ------------> slot at device      lane maker -> device
 *     staged   slot at maker -> pinned -> slot at device       two lanes of this link alone, piece by piece
 *     output   slot at maker ------------> host                lane maker -> host
 *
 * Each directed link that is staged has two lanes of its own, beside those of inputs and outputs and of other links
 * that use the same host memory: a lane is in order, and a copy that waits for a slot of one reader must not hold up
 * what another device needs. Whether links share a bus is the backend's knowledge. That no two of them can wait for
 * each other follows from the order of the step, as for all lanes. */
#include "error.h"
#include "plan_build.h"
#include <stdio.h>

sl_status sli_build_lane(sli_build *b, int from, int to, int link, uint16_t *lane) {
    sl_plan *p = b->p;
    for (int l = 0; l < p->n_lanes; l++)
        if (p->lanes[l].from == from && p->lanes[l].to == to && b->lane_link[l] == link) {
            *lane = (uint16_t)l;
            return SL_OK;
        }
    if (p->n_lanes == SLI_MAX_LANES)
        return sl_fail(SL_UNSUPPORTED,
                       "the plan needs more than %d lanes, one for each device and two for each staged link; use fewer "
                       "devices",
                       SLI_MAX_LANES);
    if (!SLI_ROOM(p->lanes, p->n_lanes) || !SLI_ROOM(b->lane_link, p->n_lanes))
        return SL_OUT_OF_MEMORY;
    p->lanes[p->n_lanes] = (sli_plan_lane){.from = from, .to = to};
    b->lane_link[p->n_lanes] = link;
    *lane = (uint16_t)p->n_lanes++;
    return SL_OK;
}

/* ---- Parts of a copy ---- */

static sl_status add_copy(sli_build *b, int from, int to, int link, const sli_plan_operand *read,
                          const sli_plan_operand *write, char *name) {
    sl_plan *p = b->p;
    if (!name || !SLI_ROOM(p->payloads, p->n_payloads)) {
        sl_free(name);
        return SL_OUT_OF_MEMORY;
    }
    int at = p->n_payloads++;
    p->payloads[at] =
        (sli_payload){.kind = SLI_COPY, .name = name, .stage = -1, .device = from == SLI_HOST ? to : from};
    SL_TRY(sli_build_lane(b, from, to, link, &p->payloads[at].lane));
    SL_TRY(sli_build_add_operand(b, at, read, false));
    return sli_build_add_operand(b, at, write, true);
}

static sl_status add_edge(sli_build *b, sli_plan_edge edge, const char *name) {
    sl_plan *p = b->p;
    edge.name = sl_strdup(name);
    if (!edge.name || !SLI_ROOM(p->edges, p->n_edges)) {
        sl_free(edge.name);
        return SL_OUT_OF_MEMORY;
    }
    p->edges[p->n_edges++] = edge;
    return SL_OK;
}

/* ---- Inputs and outputs ---- */

sl_status sli_build_input(sli_build *b, int value, int device) {
    const sli_graph_value *v = value < 0 ? NULL : &b->g->values[value];
    sl_type type = v ? v->type : sli_segments_type();
    const char *name = v ? v->name : "segments";
    char text[SL_DEVICE_TEXT];
    sli_extent extent;
    SL_TRY(sli_build_add_slots(b, value, &type, name, device, 1, &extent));
    int buffer = b->p->n_buffers - 1, io = v ? v->number : b->g->n_inputs + b->g->n_outputs;
    sli_plan_operand read = {.buffer = -1, .io = io, .pieces = 1, .extent = extent};
    sli_plan_operand write = {.buffer = buffer, .pieces = 1, .extent = extent};
    SL_TRY(add_edge(b, (sli_plan_edge){NULL, SLI_HOST, device, SLI_ROUTE_HOST, -1, -1, buffer, 1}, name));
    return add_copy(b, SLI_HOST, device, SLI_HOST - 1, &read, &write,
                    sli_build_text("%s: host -> %s", name, sli_build_device_text(b, device, text)));
}

sl_status sli_build_output(sli_build *b, int output) {
    const sli_graph_output *o = &b->g->outputs[output];
    const sli_graph_value *v = &b->g->values[o->value];
    int device = b->p->stages[v->stage].device, buffer = b->at[sli_build_at(b, o->value, device)].index;
    char text[SL_DEVICE_TEXT];
    sli_extent extent;
    size_t slot_bytes;
    SL_TRY(sli_build_extent(b, &v->type, &extent, &slot_bytes));
    sli_plan_operand read = {.buffer = buffer, .pieces = 1, .extent = extent};
    sli_plan_operand write = {.buffer = -1, .io = b->g->n_inputs + output, .pieces = 1, .extent = extent};
    SL_TRY(add_edge(b, (sli_plan_edge){NULL, device, SLI_HOST, SLI_ROUTE_HOST, buffer, -1, -1, 1}, o->name));
    return add_copy(b, device, SLI_HOST, SLI_HOST - 1, &read, &write,
                    sli_build_text("%s: %s -> host", o->name, sli_build_device_text(b, device, text)));
}

/* ---- Between devices ---- */

static sl_status choose_route(sli_build *b, int from, int to, bool *peer) {
    char a[SL_DEVICE_TEXT], c[SL_DEVICE_TEXT];
    sl_route_choice choice = b->p->options.route;
    *peer = false;
    if (choice == SL_ROUTE_STAGED)
        return SL_OK;
    if (!b->backend) {
        SL_TRY(b->platform->open(&(sli_backend_options){.measure = false}, &b->backend));
        b->opened = true;
    }
    *peer = b->backend->ops->peer_works(b->backend, b->p->devices[from].device.index, b->p->devices[to].device.index);
    if (*peer || choice != SL_ROUTE_PEER)
        return SL_OK;
    return sl_fail(SL_UNSUPPORTED,
                   "%s cannot copy directly to %s (no access, or the content check failed), and route is "
                   "SL_ROUTE_PEER; use SL_ROUTE_AUTO, which stages such links through host memory",
                   sli_build_device_text(b, from, a), sli_build_device_text(b, to, c));
}

static sl_status add_peer_copy(sli_build *b, const sli_graph_value *v, const sli_plan_edge *e,
                               const sli_extent *extent) {
    char from[SL_DEVICE_TEXT], to[SL_DEVICE_TEXT];
    sli_plan_operand read = {.buffer = e->source, .pieces = 1, .extent = *extent};
    sli_plan_operand write = {.buffer = e->destination, .pieces = 1, .extent = *extent};
    return add_copy(b, e->from, e->to, SLI_HOST - 1, &read, &write,
                    sli_build_text("%s: %s -> %s", v->name, sli_build_device_text(b, e->from, from),
                                   sli_build_device_text(b, e->to, to)));
}

/* Piece number `piece`: out of its slot into pinned memory, and from there into its slot. */
static sl_status add_piece(sli_build *b, const sli_graph_value *v, const sli_plan_edge *e, const sli_extent *extent,
                           int piece, size_t bytes) {
    char from[SL_DEVICE_TEXT], to[SL_DEVICE_TEXT], part[48] = "";
    sli_extent cut = *extent, pinned = {.rows = SLI_ROWS_FIXED, .bytes = bytes, .limit = bytes};
    cut.offset = (size_t)piece * bytes;
    cut.limit = bytes;
    sli_plan_operand source = {.buffer = e->source, .pieces = 1, .extent = cut};
    sli_plan_operand middle = {.buffer = e->staging, .piece = piece, .pieces = e->pieces, .extent = pinned};
    sli_plan_operand destination = {.buffer = e->destination, .pieces = 1, .extent = cut};
    sli_build_device_text(b, e->from, from);
    sli_build_device_text(b, e->to, to);
    if (e->pieces > 1)
        snprintf(part, sizeof part, ", piece %d of %d", piece + 1, e->pieces);
    SL_TRY(add_copy(b, e->from, SLI_HOST, e->to, &source, &middle,
                    sli_build_text("%s: %s -> host (to %s%s)", v->name, from, to, part)));
    return add_copy(b, SLI_HOST, e->to, e->from, &middle, &destination,
                    sli_build_text("%s: host -> %s (from %s%s)", v->name, to, from, part));
}

static sl_status add_staged_copies(sli_build *b, const sli_graph_value *v, sli_plan_edge *e, const sli_extent *extent) {
    char from[SL_DEVICE_TEXT], to[SL_DEVICE_TEXT];
    size_t piece = b->p->options.staging_bytes, slot = b->p->buffers[e->source].slot_bytes;
    piece = (piece + SLI_ALIGNMENT - 1) / SLI_ALIGNMENT * SLI_ALIGNMENT;
    piece = slot < piece ? slot : piece;
    if ((slot - 1) / piece >= SLI_MAX_PIECES)
        return sl_fail(SL_INVALID, "'%s' has %zu bytes: more than %d pieces of staging_bytes = %zu; raise it", v->name,
                       slot, SLI_MAX_PIECES, b->p->options.staging_bytes);
    e->pieces = (int)((slot - 1) / piece) + 1;
    sli_buffer staging = {.device = SLI_HOST, .depth = 2, .why = SLI_DEPTH_PIECES, .slot_bytes = piece};
    staging.name = sli_build_text("%s staged %s -> %s", v->name, sli_build_device_text(b, e->from, from),
                                  sli_build_device_text(b, e->to, to));
    SL_TRY(sli_build_add_buffer(b, &staging, true));
    e->staging = b->p->n_buffers - 1;
    for (int i = 0; i < e->pieces; i++)
        SL_TRY(add_piece(b, v, e, extent, i, piece));
    return SL_OK;
}

sl_status sli_build_alias(sli_build *b, int value) {
    const sli_graph_value *v = &b->g->values[value];
    int device = b->p->stages[v->stage].device, buffer = b->at[sli_build_at(b, value, device)].index;
    return add_edge(b, (sli_plan_edge){NULL, device, device, SLI_ROUTE_ALIAS, buffer, -1, -1, 1}, v->name);
}

sl_status sli_build_edge(sli_build *b, int value, int device) {
    const sli_graph_value *v = &b->g->values[value];
    int maker = b->p->stages[v->stage].device;
    sli_plan_edge e = {.from = maker, .to = device, .staging = -1, .pieces = 1};
    sli_extent extent;
    bool peer;
    SL_TRY(choose_route(b, maker, device, &peer));
    SL_TRY(sli_build_add_slots(b, value, &v->type, v->name, device, peer ? 1 : 2, &extent));
    e.route = peer ? SLI_ROUTE_PEER : SLI_ROUTE_STAGED;
    e.source = b->at[sli_build_at(b, value, maker)].index;
    e.destination = b->p->n_buffers - 1;
    SL_TRY(peer ? add_peer_copy(b, v, &e, &extent) : add_staged_copies(b, v, &e, &extent));
    return add_edge(b, e, v->name);
}
