/* What payloads are made of: how many bytes an operand has for the micro-batch at hand, what an EXECUTE calls, what it
 * costs, and how a failing op stops its ticket. Backends decide when; nothing here knows lanes or time. */
#include "backend/backend.h"
#include "error.h"
#include <stdio.h>
#include <string.h>

/* The status first: it decides who stopped it. The message is read after the action that stopped it has passed, or by
 * the thread that stopped it. */
bool sli_ticket_stop(sli_ticket *ticket, sl_status status, const char *message) {
    int running = SL_OK;
    if (!atomic_compare_exchange_strong(&ticket->status, &running, (int)status))
        return false;
    if (message)
        snprintf(ticket->message, sizeof ticket->message, "%s", message);
    return true;
}

bool sli_batch_is_empty(const sli_batch *batch) {
    uint32_t any = 0;
    for (int i = 0; i < SLI_ROW_COUNTS; i++)
        any |= batch->rows[i];
    return !any;
}

size_t sli_extent_bytes(const sli_extent *extent, const sli_batch *batch) {
    size_t all = extent->bytes;
    if (extent->rows >= 0)
        all *= batch->rows[extent->rows];
    else if (sli_batch_is_empty(batch))
        return 0;
    if (extent->offset >= all)
        return 0;
    all -= extent->offset;
    return all < extent->limit ? all : extent->limit;
}

size_t sli_copy_bytes(const sli_work *work, const sli_batch *batch) {
    size_t from = sli_extent_bytes(&work->operands[0].extent, batch);
    size_t to = sli_extent_bytes(&work->operands[1].extent, batch);
    return from < to ? from : to;
}

char *sli_operand_at(const sli_operand *operand, const sli_batch *batch) {
    char *at = operand->at ? operand->at : batch->io[operand->io];
    return at + operand->extent.offset;
}

/* The views of one call, on the caller's stack. */
typedef struct call_views {
    sl_view inputs[SL_MAX_OPERANDS], outputs[SL_MAX_OPERANDS];
    sl_call call;
} call_views;

/* Fills in the rows of the micro-batch. False if there are none. */
static bool view_shape(sl_view *view, const sli_ref *ref, const sli_batch *batch) {
    *view = (sl_view){.dtype = ref->type.dtype, .shape = ref->type.shape, .row_bytes = ref->row_bytes};
    int64_t *rows = &view->shape.dims[0];
    if (*rows < 0) {
        *rows = batch->rows[SL_ROWS - *rows];
        if (view->shape.rank == 1) /* the rows are the last dimension: the plan knows the bytes of one */
            view->row_bytes *= (size_t)*rows;
    }
    return *rows > 0;
}

static void *ref_at(const sli_ref *ref, const sli_work *work, const sli_batch *batch) {
    return ref->operand < 0 ? ref->fixed : sli_operand_at(&work->operands[ref->operand], batch);
}

/* False if the op has nothing to do: all its outputs have no rows. */
static bool make_call(call_views *v, const sli_op_code *op, const sl_descriptor *descriptor, const sli_batch *batch) {
    bool any = op->n_outputs == 0;
    for (int i = 0; i < op->n_inputs; i++)
        view_shape(&v->inputs[i], &op->inputs[i], batch);
    for (int i = 0; i < op->n_outputs; i++)
        any |= view_shape(&v->outputs[i], &op->outputs[i], batch);
    v->call = (sl_call){.attributes = op->attributes,
                        .n_inputs = op->n_inputs,
                        .n_outputs = op->n_outputs,
                        .n_states = op->n_states,
                        .inputs = v->inputs,
                        .outputs = v->outputs,
                        .states = op->states,
                        .descriptor = descriptor,
                        .scratch_bytes = op->scratch_bytes};
    return any;
}

static void add_data(call_views *v, const sli_op_code *op, const sli_work *work, const sli_batch *batch) {
    for (int i = 0; i < op->n_inputs; i++)
        v->inputs[i].data = ref_at(&op->inputs[i], work, batch);
    for (int i = 0; i < op->n_outputs; i++)
        v->outputs[i].data = ref_at(&op->outputs[i], work, batch);
    v->call.scratch = op->scratch_bytes ? work->code->scratch : NULL;
}

/* Field by field: a struct that is put together and then copied costs more than an empty op. */
static void describe(const sli_batch *batch, sl_descriptor *d) {
    memcpy(d->rows, batch->rows, sizeof d->rows);
    d->n_segments = batch->rows[SLI_ROWS_SEGMENTS];
    d->segments = NULL;
    d->micro_batch = batch->index;
}

static void stop_for_op(const sli_stage_code *code, const sli_op_code *op, const sli_batch *batch, sl_status status) {
    char message[sizeof batch->ticket->message], device[SL_DEVICE_TEXT];
    const char *why = sl_last_error();
    if (!*why)
        why = sl_status_name(status);
    snprintf(message, sizeof message, "stage '%s', op '%s', micro-batch %llu, %s: %s", code->name, op->op->name,
             (unsigned long long)batch->index, sl_device_format(code->device, device), why);
    sli_ticket_stop(batch->ticket, SL_STAGE_FAILED, message);
}

void sli_work_execute(const sli_work *work, const sli_batch *batch, sl_lane *lane) {
    const sli_stage_code *code = work->code;
    if (sli_batch_is_empty(batch))
        return;
    sl_descriptor descriptor;
    describe(batch, &descriptor);
    if (code->descriptor >= 0)
        descriptor.segments = (const sl_segment *)sli_operand_at(&work->operands[code->descriptor], batch);
    for (const sli_op_code *op = code->ops; op < code->ops + code->n_ops; op++) {
        call_views v;
        if (atomic_load_explicit(&batch->ticket->status, memory_order_relaxed) != SL_OK)
            return;
        if (!make_call(&v, op, &descriptor, batch))
            continue;
        add_data(&v, op, work, batch);
        sli_clear_error();
        sl_status status = op->kernel(lane, &v.call);
        if (status != SL_OK) {
            stop_for_op(code, op, batch, status);
            return;
        }
    }
}

static uint64_t to_ns(double ns) {
    if (!(ns > 0)) /* NaN too */
        return 0;
    return ns < 9e18 ? (uint64_t)(ns + 0.5) : (uint64_t)9e18;
}

static double stage_operations(const sli_stage_code *code, const sli_batch *batch) {
    sl_descriptor descriptor;
    describe(batch, &descriptor);
    double sum = 0;
    for (const sli_op_code *op = code->ops; op < code->ops + code->n_ops; op++) {
        call_views v;
        sl_cost cost = {0};
        if (!make_call(&v, op, &descriptor, batch) || !op->op->cost)
            continue;
        op->op->cost(&v.call, &cost);
        sum += cost.operations;
    }
    return sum;
}

uint64_t sli_work_cost_ns(const sli_work *work, const sli_batch *batch, double operations_per_s) {
    const sli_stage_code *code = work->code;
    if (sli_batch_is_empty(batch))
        return 0;
    if (code->timed)
        return code->fixed_ns + to_ns(code->row_ns * batch->rows[0]);
    return operations_per_s > 0 ? to_ns(stage_operations(code, batch) / operations_per_s * 1e9) : 0;
}
