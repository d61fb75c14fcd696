/* Payloads: what an EXECUTE or a COPY does on a CPU lane, how long it takes, and what may go wrong with it on purpose.
 *
 * Modelled time. A lane whose backend has a speed or a link's figures, or a stage with a time of its own, keeps a
 * timeline beside the real one: a payload begins when the lane and all that it waited for have got there, and ends its
 * cost, or its real duration where that is longer, later. The lane goes on when that instant has come. So what a thread
 * was late by is not added up, and a model's closed form holds. Copies between two devices take bytes / bandwidth +
 * latency; so does each half of a copy that is staged through the host, since the bytes cross the same link; the host's
 * own copies to and from a device are as fast as they are.
 *
 * Threads: whoever serves the lane. */
#include "cpu_internal.h"
#include <stdio.h>
#include <string.h>

enum { MOST_GRAIN_NS = 20000 };

static const sli_batch *batch_of(const sli_entry *e) {
    return (const sli_batch *)(uintptr_t)e->value;
}

static const sli_work *work_of(const sli_entry *e) {
    return (const sli_work *)(e->what & (uintptr_t)SLI_ADDRESS);
}

static bool is_skipped(const sli_batch *batch) {
    return atomic_load_explicit(&batch->ticket->status, memory_order_relaxed) != SL_OK ||
           (batch->rows[0] == 0 && sli_batch_is_empty(batch));
}

static bool is_share_of(const sli_server *w, const sli_cpu_lane *l) {
    return l->shard == w->index % sli_n_shards(l->c);
}

/* A copy before what computes; of the worker's own share, whose data its core has; the oldest micro-batch. */
sli_cpu_lane *sli_better_pick(const sli_server *w, sli_cpu_lane *a, sli_cpu_lane *b) {
    if (!a)
        return b;
    bool a_computes = a->from == a->to, b_computes = b->from == b->to;
    bool a_is_own = is_share_of(w, a), b_is_own = is_share_of(w, b);
    if (a_computes != b_computes)
        return a_computes ? b : a;
    if (a_is_own != b_is_own)
        return a_is_own ? a : b;
    return batch_of(sli_head_entry(b))->index < batch_of(sli_head_entry(a))->index ? b : a;
}

/* ---- How long it takes ---- */

static uint64_t expect_ns(const sli_cost *cost, uint32_t rows) {
    return rows <= cost->rows ? cost->ns : (uint64_t)((double)cost->ns * rows / cost->rows);
}

/* What is known of a payload before it runs. */
typedef struct known {
    const sli_work *work;
    const sli_batch *batch;
    sli_cost *cost; /* where its time is kept; NULL: a copy, or a stage that was never prepared */
    size_t bytes;   /* of a copy */
} known;

static known look_at(const sli_cpu_lane *l, const sli_entry *e) {
    known k = {.work = work_of(e), .batch = batch_of(e)};
    if (k.work->code)
        k.cost = sli_cost_find(l->c, k.work->code);
    else
        k.bytes = sli_copy_bytes(k.work, k.batch);
    return k;
}

static bool is_short(const known *k) {
    if (!k->work->code)
        return k->bytes <= SLI_SHORT_COPY;
    return k->cost && k->cost->never_blocks && k->cost->rows && expect_ns(k->cost, k->batch->rows[0]) < SLI_SHORT_NS;
}

static void learn(sli_cpu *c, sli_cost *cost, const sli_batch *batch, uint64_t ns) {
    uint64_t grain = sli_load(&c->grain_ns), now = ns < MOST_GRAIN_NS ? ns : MOST_GRAIN_NS;
    cost->rows = batch->rows[0] ? batch->rows[0] : 1;
    cost->ns = ns;
    cost->unmeasured = 0;
    sli_put(&c->grain_ns, grain ? (3 * grain + now) / 4 + 1 : now + 1);
}

static uint64_t model_ns(const sli_cpu_lane *l, const known *k) {
    const sli_cpu *c = l->c;
    const sli_work *work = k->work;
    if (work->code)
        return sli_work_cost_ns(work, k->batch, c->operations_per_s);
    bool from_io = work->operands[0].device == SLI_HOST && !work->operands[0].at;
    bool to_io = work->operands[1].device == SLI_HOST && !work->operands[1].at;
    if (l->from == l->to || from_io || to_io || !k->bytes)
        return 0;
    return c->link_latency_ns +
           (c->link_bytes_per_s > 0 ? (uint64_t)((double)k->bytes / c->link_bytes_per_s * 1e9) : 0);
}

/* SLI_LATER until the modelled end has come. */
static sli_outcome resume(sli_cpu_lane *l) {
    if (l->phase == SLI_HUNG) {
        sli_hold_lane(l, &l->c->never, SLI_NEVER);
        return SLI_LATER;
    }
    if (sli_now_ns() < l->time_ns) {
        sli_hold_lane(l, &l->c->pool->clock_ns, l->time_ns);
        return SLI_LATER;
    }
    l->phase = SLI_AT_START;
    return SLI_DONE;
}

/* ---- What it does ---- */

void sli_move_bytes(bool corrupts, void *to, const void *from, size_t bytes) {
    memcpy(to, from, bytes);
    if (corrupts && bytes) {
        ((unsigned char *)to)[bytes / 2] ^= 0x55;
        ((unsigned char *)to)[bytes - 1] ^= 0xaa;
    }
}

static void copy(sli_cpu_lane *l, char *to, const char *from, size_t bytes) {
    if (bytes <= SLI_SHORT_COPY || l->corrupts)
        sli_move_bytes(l->corrupts, to, from, bytes);
    else
        sli_copy_in_parts(l, to, from, bytes);
}

static void call(sli_cpu_lane *l, const known *k) {
    sli_add(&l->payloads, 1);
    if (k->work->code) {
        sli_work_execute(k->work, k->batch, &l->base);
        return;
    }
    if (k->bytes)
        copy(l, sli_operand_at(&k->work->operands[1], k->batch), sli_operand_at(&k->work->operands[0], k->batch),
             k->bytes);
    sli_add(&l->bytes, k->bytes);
}

static void fail_stage(const sli_cpu_lane *l, const sli_work *work, const sli_batch *batch) {
    char message[sizeof batch->ticket->message];
    snprintf(message, sizeof message, "stage '%s', micro-batch %llu, cpu:%d: fails, as the fault stage:%d:%llu asks",
             work->name, (unsigned long long)batch->index, l->to, l->to, (unsigned long long)l->fail_at);
    sli_ticket_stop(batch->ticket, SL_STAGE_FAILED, message);
}

/* True if a fault has taken the payload's place. */
static bool is_faulty(sli_cpu_lane *l, const sli_work *work, const sli_batch *batch) {
    uint64_t n = ++l->ran;
    if (n == l->hang_at) {
        l->phase = SLI_HUNG;
        atomic_fetch_add(&l->c->n_hung, 1);
        return true;
    }
    if (n == l->fail_at)
        fail_stage(l, work, batch);
    return n == l->fail_at;
}

static void begin_on_timeline(sli_cpu_lane *l) {
    uint64_t enqueued = sli_load(&l->c->enqueued_ns);
    if (l->was_empty && enqueued > l->time_ns)
        l->time_ns = enqueued;
    l->was_empty = false;
}

/* With all that may be asked for beside the call. */
static sli_outcome run_watched(sli_cpu_lane *l, const known *k) {
    sli_cpu *c = l->c;
    if (is_faulty(l, k->work, k->batch))
        return l->phase == SLI_HUNG ? SLI_LATER : SLI_DONE;
    bool modelled = sli_is_modelled(c);
    uint64_t cost = modelled ? model_ns(l, k) : 0;
    begin_on_timeline(l);
    if (c->poison)
        sli_poison_before(c, k->work);
    uint64_t from = sli_now_ns();
    call(l, k);
    uint64_t took = sli_now_ns() - from;
    if (c->poison)
        sli_poison_after(c, k->work);
    took = took > cost ? took : cost;
    if (c->measure)
        sli_add(&l->busy_ns, took);
    if (!modelled)
        return SLI_DONE;
    l->time_ns += took;
    l->phase = SLI_IN_MODEL;
    return SLI_LATER;
}

static sli_outcome run(sli_server *w, sli_cpu_lane *l, const known *k) {
    bool measures = k->cost && ++k->cost->unmeasured >= SLI_MEASURE_EACH;
    sli_outcome outcome = SLI_DONE;
    l->server = w;
    uint64_t from = measures ? sli_now_ns() : 0;
    if (l->plain)
        call(l, k);
    else
        outcome = run_watched(l, k);
    if (measures)
        learn(l->c, k->cost, k->batch, sli_now_ns() - from);
    return outcome;
}

sli_outcome sli_payload_serve(sli_server *w, sli_cpu_lane *l, const sli_entry *e) {
    if (l->phase != SLI_AT_START)
        return resume(l);
    if (is_skipped(batch_of(e)))
        return SLI_DONE;
    known k = look_at(l, e);
    if (!is_short(&k))
        return SLI_LONG;
    return run(w, l, &k) == SLI_LATER ? resume(l) : SLI_DONE;
}

sli_outcome sli_payload_run_outside(sli_server *w, sli_cpu_lane *l, const sli_entry *e) {
    if (is_skipped(batch_of(e)))
        return SLI_DONE;
    known k = look_at(l, e);
    if (k.cost)
        k.cost->unmeasured = SLI_MEASURE_EACH;
    return run(w, l, &k);
}
