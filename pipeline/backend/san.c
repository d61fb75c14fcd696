/* The order of enqueueing is one possible order of running, so it suffices to check each access against earlier ones.
 * Each lane has a clock: what of other lanes is known to be in its past. A RECORD keeps the clock, a WAIT joins the one
 * that was kept. An access before record v of lane K is in the past of lane L when L's clock has v or more for K.
 *
 * Threads: the driver's alone, but for `seen` (values that any thread saw reached) and the number of reports. */
#include "san.h"
#include "error.h"
#include "san_clock.h"
#include "san_ranges.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { LOGGED = 10, SENTENCE = 768, IO_RANGES = 1024 };

typedef struct san_lane {
    int from, to;
    uint64_t recorded;
    uint32_t n_events;
    sli_clock *clock;
    sli_clock **records; /* [n_events], of value v at v % n_events */
    _Atomic uint64_t seen;
} san_lane;

typedef struct san {
    sli_backend base;
    sli_backend *inner;
    int n_lanes;
    san_lane *lanes[SLI_MAX_LANES];
    sli_ranges slots, io;
    size_t io_limit; /* then what is over is dropped */
    sli_clock *host; /* what the host has seen */
    sli_san_fn report;
    void *user;
    _Atomic uint64_t reports;
    _Atomic bool off;
} san;

#define INNER(b) (((san *)(b))->inner)

/* ---- Reports ---- */

static const char *end_name(int device, char text[16]) {
    if (device == SLI_HOST)
        snprintf(text, 16, "host");
    else
        snprintf(text, 16, "device %d", device);
    return text;
}

static const char *lane_name(const san *s, int lane, char text[64]) {
    char from[16], to[16];
    const san_lane *l = s->lanes[lane];
    if (l->from == l->to)
        snprintf(text, 64, "lane %d (%s)", lane, end_name(l->from, from));
    else
        snprintf(text, 64, "lane %d (%s -> %s)", lane, end_name(l->from, from), end_name(l->to, to));
    return text;
}

/* "slot 1 of 'h at cpu:1'" */
static const char *operand_name(const sli_san_access *a, char text[160]) {
    if (a->operand < 0)
        return "the stage's own memory";
    const sli_operand *o = &a->work->operands[a->operand];
    if (!o->at)
        snprintf(text, 160, "the host memory of input or output %d", o->io);
    else if (o->buffer)
        snprintf(text, 160, "slot %d of '%.120s'", o->slot, o->buffer);
    else
        snprintf(text, 160, "the slot at %p", (void *)o->at);
    return text;
}

static void tell(san *s, sli_san_report report) {
    char sentence[SENTENCE], lanes[2][64], slots[2][160];
    const sli_san_access *a = &report.earlier, *b = &report.later;
    uint64_t n = atomic_fetch_add(&s->reports, 1) + 1;
    if (!s->report && n > LOGGED)
        return;
    snprintf(sentence, sizeof sentence,
             "unordered: '%.100s' of micro-batch %" PRIu64 " on %s %s %s, which '%.100s' of micro-batch %" PRIu64
             " on %s %s (%s), %zu bytes at %p; missing: a wait of lane %d for value %" PRIu64 " of lane %d",
             b->work->name, b->micro_batch, lane_name(s, b->lane, lanes[0]), b->writes ? "writes" : "reads",
             operand_name(b, slots[0]), a->work->name, a->micro_batch, lane_name(s, a->lane, lanes[1]),
             a->writes ? "wrote" : "read", operand_name(a, slots[1]), report.bytes, (const void *)report.at, b->lane,
             a->value, a->lane);
    report.sentence = sentence;
    if (s->report)
        s->report(&report, s->user);
    else
        sli_log(SL_LOG_WARNING, "%s", sentence);
}

static void give_up(san *s) {
    if (!atomic_exchange(&s->off, true))
        sli_log(SL_LOG_WARNING, "the sanitizer ran out of host memory and checks no more");
}

/* ---- What is ordered ---- */

static sli_clock *kept(const san_lane *l, uint64_t value) {
    if (value == 0 || value > l->recorded || l->recorded - value >= l->n_events)
        return NULL;
    return l->records[value % l->n_events];
}

/* All that the host saw, and what was before it. */
static bool learn_what_was_seen(san *s) {
    for (int k = 0; k < s->n_lanes; k++) {
        uint64_t seen = atomic_load_explicit(&s->lanes[k]->seen, memory_order_relaxed);
        const sli_clock *before = kept(s->lanes[k], seen);
        if (seen <= sli_clock_get(s->host, k))
            continue;
        if (!sli_clock_raise(&s->host, k, seen) || (before && !sli_clock_join(&s->host, before)))
            return false;
    }
    return true;
}

static bool is_ordered(san *s, const sli_san_access *earlier, const sli_san_access *later, bool io) {
    if (earlier->lane == later->lane || sli_clock_get(s->lanes[later->lane]->clock, earlier->lane) >= earlier->value)
        return true;
    if (!io)
        return false;
    if (!learn_what_was_seen(s))
        give_up(s);
    return sli_clock_get(s->host, earlier->lane) >= earlier->value;
}

static void check(san *s, const sli_range *range, const sli_san_access *earlier, const sli_san_access *later, bool io) {
    if (!earlier->work || is_ordered(s, earlier, later, io))
        return;
    sli_san_report report = {
        .earlier = *earlier, .later = *later, .at = (const char *)range->from, .bytes = range->to - range->from};
    tell(s, report);
}

static bool touch(san *s, sli_ranges *ranges, const char *at, size_t bytes, const sli_san_access *access) {
    size_t first, n;
    bool io = ranges == &s->io;
    if (bytes == 0)
        return true;
    if (!sli_ranges_cut(ranges, (uintptr_t)at, (uintptr_t)at + bytes, &first, &n))
        return false;
    for (size_t i = first; i < first + n; i++) {
        sli_range *r = ranges->all[i];
        check(s, r, &r->write, access, io);
        for (size_t k = 0; access->writes && k < r->n_reads; k++)
            check(s, r, &r->reads[k], access, io);
        if (!access->writes && !sli_range_read(r, access))
            return false;
    }
    if (access->writes)
        sli_ranges_write(ranges, first, n, access);
    return true;
}

/* ---- What payloads touch ---- */

static bool touch_stage(san *s, const sli_stage_code *code, sli_san_access *access) {
    size_t scratch_bytes = 0;
    access->operand = -1;
    access->writes = true;
    for (const sli_op_code *op = code->ops; op < code->ops + code->n_ops; op++) {
        for (int i = 0; i < op->n_states; i++) {
            const sl_state_view *v = &op->states[i];
            if (!touch(s, &s->slots, v->data, (size_t)(v->n_places * v->n_rows) * v->row_bytes, access))
                return false;
        }
        scratch_bytes = op->scratch_bytes > scratch_bytes ? op->scratch_bytes : scratch_bytes;
    }
    return !code->scratch || touch(s, &s->slots, code->scratch, scratch_bytes, access);
}

static bool touch_operands(san *s, const sli_action *a, sli_san_access *access) {
    for (int i = 0; i < a->work->n_operands; i++) {
        const sli_operand *o = &a->work->operands[i];
        size_t bytes = a->kind == SLI_COPY ? sli_copy_bytes(a->work, a->batch) : sli_extent_bytes(&o->extent, a->batch);
        access->operand = i;
        access->writes = i >= a->work->n_reads;
        if (!o->at && bytes && !a->batch->io[o->io])
            continue; /* a simulated job without memory */
        if (bytes && !touch(s, o->at ? &s->slots : &s->io, sli_operand_at(o, a->batch), bytes, access))
            return false;
    }
    return true;
}

static bool is_seen(const san *s, const sli_san_access *a) {
    return !a->work || atomic_load_explicit(&s->lanes[a->lane]->seen, memory_order_relaxed) >= a->value;
}

static bool is_over(const sli_range *range, void *user) {
    const san *s = user;
    bool over = is_seen(s, &range->write);
    for (size_t i = 0; i < range->n_reads; i++)
        over &= is_seen(s, &range->reads[i]);
    return over;
}

/* Memory of users comes and goes: what the host saw the end of is ordered before all that it enqueues from now on. */
static void drop_old_io(san *s) {
    if (s->io.n < s->io_limit)
        return;
    sli_ranges_drop(&s->io, is_over, s);
    s->io_limit = 2 * s->io.n > IO_RANGES ? 2 * s->io.n : IO_RANGES;
}

static bool see_payload(san *s, const sli_action *a) {
    if (sli_batch_is_empty(a->batch))
        return true;
    sli_san_access access = {
        .work = a->work, .micro_batch = a->batch->index, .value = s->lanes[a->lane]->recorded + 1, .lane = a->lane};
    drop_old_io(s);
    return touch_operands(s, a, &access) && (!a->work->code || touch_stage(s, a->work->code, &access));
}

/* ---- The actions ---- */

static void see_record(san *s, const sli_action *a) {
    san_lane *l = s->lanes[a->lane];
    sli_clock **at = &l->records[a->value % l->n_events];
    sli_clock_release(*at);
    *at = sli_clock_retain(l->clock);
    l->recorded = a->value;
}

static bool see_wait(san *s, const sli_action *a) {
    san_lane *l = s->lanes[a->lane];
    const san_lane *of = s->lanes[a->of];
    if (a->of == a->lane || sli_clock_get(l->clock, a->of) >= a->value)
        return true;
    if (a->value > of->recorded) {
        atomic_fetch_add(&s->reports, 1);
        sli_log(SL_LOG_WARNING, "lane %d waits for value %" PRIu64 " of lane %d, which nobody has enqueued", a->lane,
                a->value, a->of);
    }
    const sli_clock *theirs = kept(of, a->value);
    return (!theirs || sli_clock_join(&l->clock, theirs)) && sli_clock_raise(&l->clock, a->of, a->value);
}

static bool see(san *s, const sli_action *a) {
    if (a->kind == SLI_WAIT)
        return see_wait(s, a);
    if (a->kind != SLI_RECORD)
        return see_payload(s, a);
    see_record(s, a);
    return true;
}

static sl_status san_enqueue(sli_backend *b, const sli_action *actions, size_t n) {
    san *s = (san *)b;
    for (const sli_action *a = actions; a < actions + n && !s->off; a++)
        if (!see(s, a))
            give_up(s);
    return s->inner->ops->enqueue(s->inner, actions, n);
}

static uint64_t san_reached(sli_backend *b, uint16_t lane) {
    san *s = (san *)b;
    _Atomic uint64_t *seen = &s->lanes[lane]->seen;
    uint64_t value = s->inner->ops->reached(s->inner, lane), before = atomic_load_explicit(seen, memory_order_relaxed);
    while (before < value &&
           !atomic_compare_exchange_weak_explicit(seen, &before, value, memory_order_relaxed, memory_order_relaxed))
        ;
    return value;
}

static sl_status san_await(sli_backend *b, uint16_t lane, uint64_t value, uint64_t deadline_ns) {
    sl_status status = INNER(b)->ops->await(INNER(b), lane, value, deadline_ns);
    if (status == SL_OK)
        san_reached(b, lane);
    return status;
}

/* ---- Open and close ---- */

static void destroy_lane(san_lane *l) {
    if (!l)
        return;
    for (uint32_t i = 0; l->records && i < l->n_events; i++)
        sli_clock_release(l->records[i]);
    sli_clock_release(l->clock);
    sl_free(l->records);
    sl_free(l);
}

static san_lane *make_lane(const sli_lane_desc *desc) {
    san_lane *l = sl_calloc(1, sizeof *l);
    if (!l)
        return NULL;
    l->from = desc->from;
    l->to = desc->to;
    l->n_events = desc->n_events ? desc->n_events : 1;
    l->clock = sli_clock_create();
    l->records = sl_calloc(l->n_events, sizeof *l->records);
    if (l->clock && l->records)
        return l;
    destroy_lane(l);
    return NULL;
}

static sl_status san_lane_create(sli_backend *b, const sli_lane_desc *desc, uint16_t *lane) {
    san *s = (san *)b;
    san_lane *l = make_lane(desc);
    if (!l)
        return SL_OUT_OF_MEMORY;
    sl_status status = s->inner->ops->lane_create(s->inner, desc, lane);
    if (status != SL_OK) {
        destroy_lane(l);
        return status;
    }
    s->lanes[*lane] = l;
    s->n_lanes = *lane + 1;
    return SL_OK;
}

static void destroy(san *s) {
    for (int l = 0; l < s->n_lanes; l++)
        destroy_lane(s->lanes[l]);
    sli_ranges_clear(&s->slots);
    sli_ranges_clear(&s->io);
    sli_clock_release(s->host);
    sl_free(s);
}

/* After a stall the inner backend may still poke whoever watches: the wrapper stays, as all that was borrowed does. */
static sl_status san_close(sli_backend *b, uint64_t grace_ns) {
    SL_TRY(INNER(b)->ops->close(INNER(b), grace_ns));
    destroy((san *)b);
    return SL_OK;
}

/* ---- What is passed on ---- */

static sl_status san_allocate(sli_backend *b, int device, size_t bytes, sl_memory_category category, void **at) {
    return INNER(b)->ops->allocate(INNER(b), device, bytes, category, at);
}

static bool san_peer_works(sli_backend *b, int from, int to) {
    return INNER(b)->ops->peer_works(INNER(b), from, to);
}

static sl_status san_prepare(sli_backend *b, int device, const sli_work *work) {
    return INNER(b)->ops->prepare(INNER(b), device, work);
}

static void san_poke(sli_backend *b) {
    INNER(b)->ops->poke(INNER(b));
}

static void san_watch(sli_backend *b, uint16_t lane, uint64_t value, sli_backend *whom) {
    INNER(b)->ops->watch(INNER(b), lane, value, whom);
}

static sl_status san_when(sli_backend *b, uint16_t lane, uint64_t value, uint64_t *ns) {
    return INNER(b)->ops->when(INNER(b), lane, value, ns);
}

static uint64_t san_now_ns(sli_backend *b) {
    return INNER(b)->ops->now_ns(INNER(b));
}

static void san_lane_figures(sli_backend *b, uint16_t lane, sli_lane_figures *figures) {
    INNER(b)->ops->lane_figures(INNER(b), lane, figures);
}

static uint64_t san_parks(sli_backend *b) {
    return INNER(b)->ops->parks(INNER(b));
}

sl_status sli_san_create(sli_backend *inner, sli_backend **wrapped) {
    static const sli_backend_ops ops = {
        .close = san_close,
        .allocate = san_allocate,
        .peer_works = san_peer_works,
        .lane_create = san_lane_create,
        .prepare = san_prepare,
        .enqueue = san_enqueue,
        .reached = san_reached,
        .await = san_await,
        .poke = san_poke,
        .watch = san_watch,
        .when = san_when,
        .now_ns = san_now_ns,
        .lane_figures = san_lane_figures,
        .parks = san_parks,
    };
    san *s = sl_calloc(1, sizeof *s);
    if (!s)
        return SL_OUT_OF_MEMORY;
    s->base.ops = &ops;
    s->inner = inner;
    s->io_limit = IO_RANGES;
    s->host = sli_clock_create();
    if (!s->host) {
        sl_free(s);
        return SL_OUT_OF_MEMORY;
    }
    *wrapped = &s->base;
    return SL_OK;
}

void sli_san_listen(sli_backend *wrapped, sli_san_fn report, void *user) {
    san *s = (san *)wrapped;
    s->report = report;
    s->user = user;
}

uint64_t sli_san_reports(const sli_backend *wrapped) {
    return atomic_load(&((const san *)wrapped)->reports);
}

bool sli_san_is_off(const sli_backend *wrapped) {
    return atomic_load(&((const san *)wrapped)->off);
}
