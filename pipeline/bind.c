/* Brings a plan to a backend: blocks of memory, lanes, works and their slots. Weights are load.c's, stages code.c's.
 * At open time only; what fails half-way is undone by sli_unbind and the backend's close. */
#include "bind.h"
#include "error.h"
#include "memory.h"

static sl_status allocate_blocks(sli_binding *bound) {
    const sl_plan *plan = bound->plan;
    sli_backend *b = bound->backend;
    bound->blocks = sl_calloc((size_t)plan->n_devices, sizeof *bound->blocks);
    if (!bound->blocks)
        return SL_OUT_OF_MEMORY;
    for (int d = 0; d < plan->n_devices; d++)
        for (int c = 0; c < SL_MEMORY_CATEGORIES; c++) {
            uint64_t bytes = plan->devices[d].memory.by_category[c];
            void *at;
            if (!bytes || c == SL_MEMORY_WEIGHTS)
                continue;
            SL_TRY(b->ops->allocate(b, plan->devices[d].device.index, bytes, (sl_memory_category)c, &at));
            bound->blocks[d][c] = at;
        }
    void *pinned = NULL;
    if (plan->pinned_bytes)
        SL_TRY(b->ops->allocate(b, SLI_HOST, plan->pinned_bytes, SL_MEMORY_SLOTS, &pinned));
    bound->pinned = pinned;
    return SL_OK;
}

/* A backend may fill what it allocates with poison; a state begins with zeroes. */
static sl_status zero_states(const sli_binding *bound) {
    const sl_plan *plan = bound->plan;
    for (int d = 0; d < plan->n_devices; d++) {
        uint64_t bytes = plan->devices[d].memory.by_category[SL_MEMORY_STATE];
        if (bytes)
            SL_TRY(bound->platform->zero(plan->devices[d].device.index, bound->blocks[d][SL_MEMORY_STATE], bytes));
    }
    return SL_OK;
}

static sl_status make_segments(sli_binding *bound) {
    const sl_plan *plan = bound->plan;
    size_t n = 4;
    while (n < (size_t)plan->credits + (size_t)plan->max_lag + 2)
        n *= 2;
    bound->n_slots = (uint32_t)n;
    if (!plan->has_segments)
        return SL_OK;
    size_t bytes = n * plan->options.max_segments * sizeof(sl_segment);
    void *at = NULL;
    bound->segments_on_heap = !(bound->platform->capabilities & SLI_HAS_DATA);
    if (bound->segments_on_heap)
        at = sl_calloc(1, bytes);
    else
        SL_TRY(bound->backend->ops->allocate(bound->backend, SLI_HOST, bytes, SL_MEMORY_SLOTS, &at));
    bound->segments = at;
    return at ? SL_OK : SL_OUT_OF_MEMORY;
}

/* ---- Lanes ---- */

static int index_of(const sl_plan *plan, int device) {
    return device == SLI_HOST ? SLI_HOST : plan->devices[device].device.index;
}

static sl_status create_lanes(sli_binding *bound) {
    const sl_plan *plan = bound->plan;
    bound->lanes = sl_calloc((size_t)plan->n_lanes, sizeof *bound->lanes);
    if (!bound->lanes)
        return SL_OUT_OF_MEMORY;
    for (int l = 0; l < plan->n_lanes; l++) {
        const sli_plan_lane *from = &plan->lanes[l];
        sli_lane_desc desc = {.from = index_of(plan, from->from),
                              .to = index_of(plan, from->to),
                              .n_actions = from->n_actions,
                              .n_events = from->n_events};
        SL_TRY(bound->backend->ops->lane_create(bound->backend, &desc, &bound->lanes[l]));
    }
    return SL_OK;
}

static sl_status map_program(sli_binding *bound) {
    const sl_plan *plan = bound->plan;
    bound->program = sl_calloc(plan->n_program, sizeof *bound->program);
    if (!bound->program)
        return SL_OUT_OF_MEMORY;
    for (size_t i = 0; i < plan->n_program; i++) {
        sli_plan_action a = plan->program[i];
        a.lane = bound->lanes[a.lane];
        if (a.kind == SLI_WAIT)
            a.of = bound->lanes[a.of];
        bound->program[i] = a;
    }
    return SL_OK;
}

/* The record that tells that payload number `at` of the program has passed: the next one of its lane. */
static int64_t record_after(const sl_plan *plan, size_t at) {
    for (size_t i = at; i < plan->n_program; i++)
        if (plan->program[i].kind == SLI_RECORD && plan->program[i].lane == plan->program[at].lane)
            return plan->program[i].offset;
    return 0; /* each lane's last action is a record */
}

static sl_status find_ends(sli_binding *bound) {
    const sl_plan *plan = bound->plan;
    bound->ends = sl_calloc((size_t)plan->n_ends, sizeof *bound->ends);
    if (!bound->ends)
        return SL_OUT_OF_MEMORY;
    bound->n_ends = plan->n_ends;
    for (int e = 0; e < plan->n_ends; e++) {
        const sli_plan_action *last = &plan->ends[e];
        int64_t batch_offset = 0;
        for (size_t i = 0; i < plan->n_program; i++) {
            const sli_plan_action *a = &plan->program[i];
            if (a->lane != last->lane || (a->kind != SLI_EXECUTE && a->kind != SLI_COPY))
                continue;
            int64_t offset = plan->payloads[a->payload].lag * last->rate + record_after(plan, i);
            batch_offset = offset > batch_offset ? offset : batch_offset;
        }
        bound->ends[e] = (sli_lane_end){bound->lanes[last->lane], last->rate, last->offset, batch_offset};
    }
    return SL_OK;
}

/* ---- Works ---- */

static sli_operand bind_operand(const sli_binding *bound, const sli_plan_operand *from, int64_t micro_batch) {
    const sl_plan *plan = bound->plan;
    sli_operand o = {.io = from->io, .device = SLI_HOST, .extent = from->extent};
    if (from->buffer < 0)
        return o;
    const sli_buffer *buffer = &plan->buffers[from->buffer];
    char *base = buffer->device == SLI_HOST ? bound->pinned : bound->blocks[buffer->device][SL_MEMORY_SLOTS];
    o.buffer = buffer->name;
    o.slot = sli_operand_slot(plan, from, micro_batch);
    o.at = base + buffer->offset + (size_t)o.slot * buffer->slot_bytes;
    o.device = index_of(plan, buffer->device);
    o.slot_bytes = buffer->slot_bytes;
    return o;
}

static sl_status make_works(sli_binding *bound, int at) {
    const sl_plan *plan = bound->plan;
    const sli_payload *p = &plan->payloads[at];
    size_t n_operands = (size_t)p->n_operands;
    sli_work *works = sl_calloc(p->n_works, sizeof *works);
    sli_operand *operands = sl_calloc(p->n_works * n_operands, sizeof *operands);
    bound->payloads[at] = (sli_bound_payload){works, operands, p->n_works, p->lag};
    if (!works || !operands)
        return SL_OUT_OF_MEMORY;
    for (uint32_t v = 0; v < p->n_works; v++) {
        sli_operand *own = operands + v * n_operands;
        for (size_t i = 0; i < n_operands; i++)
            own[i] = bind_operand(bound, &p->operands[i], v);
        works[v] = (sli_work){.name = p->name,
                              .code = p->kind == SLI_EXECUTE ? &bound->codes[p->stage] : NULL,
                              .n_reads = p->n_reads,
                              .n_operands = p->n_operands,
                              .operands = own};
    }
    for (uint32_t v = 0; v < p->n_works; v++)
        SL_TRY(bound->backend->ops->prepare(bound->backend, index_of(plan, p->device), &works[v]));
    return SL_OK;
}

static sl_status make_payloads(sli_binding *bound) {
    bound->payloads = sl_calloc((size_t)bound->plan->n_payloads, sizeof *bound->payloads);
    if (!bound->payloads)
        return SL_OUT_OF_MEMORY;
    for (int i = 0; i < bound->plan->n_payloads; i++)
        SL_TRY(make_works(bound, i));
    return SL_OK;
}

static sl_status build(sli_binding *bound, const sli_bind_options *options) {
    SL_TRY(allocate_blocks(bound));
    SL_TRY(zero_states(bound));
    SL_TRY(make_segments(bound));
    SL_TRY(sli_weights_load(bound, options));
    SL_TRY(sli_codes_make(bound));
    SL_TRY(create_lanes(bound));
    SL_TRY(map_program(bound));
    SL_TRY(find_ends(bound));
    return make_payloads(bound);
}

sl_status sli_bind(const sl_plan *plan, const sli_platform *platform, sli_backend *backend,
                   const sli_bind_options *options, sli_binding **out) {
    sli_binding *bound = sl_calloc(1, sizeof *bound);
    if (!bound)
        return SL_OUT_OF_MEMORY;
    *bound = (sli_binding){.plan = plan, .platform = platform, .backend = backend};
    sl_status status = build(bound, options);
    if (status != SL_OK)
        sli_unbind(bound);
    else
        *out = bound;
    return status;
}

void sli_unbind(sli_binding *bound) {
    if (!bound)
        return;
    for (int i = 0; bound->payloads && i < bound->plan->n_payloads; i++) {
        sl_free(bound->payloads[i].works);
        sl_free(bound->payloads[i].operands);
    }
    sl_free(bound->payloads);
    sl_free(bound->ends);
    sl_free(bound->program);
    sl_free(bound->lanes);
    sli_codes_free(bound);
    sli_weights_return(bound);
    if (bound->segments_on_heap)
        sl_free(bound->segments);
    sl_free(bound->blocks);
    sl_free(bound);
}
