/* See conformance_fixture.h. */
#include "conformance_fixture.h"
#include <stdlib.h>
#include <string.h>

const conformance_setup *conformance;

static const uint64_t limit_ns = UINT64_C(30000000000); /* a hang is a failure */

/* ---- Ops ---- */

uint32_t mix_word(uint32_t salt, int n_inputs, const uint32_t *words) {
    uint32_t h = salt;
    for (int k = 0; k < n_inputs; k++) {
        h = (h ^ words[k]) * 0x9e3779b1u;
        h = (h << 7 | h >> 25) + (uint32_t)k;
    }
    return h;
}

sl_status mix_on_host(sl_lane *lane, const sl_call *call) {
    const mix_attributes *attributes = call->attributes;
    (void)lane;
    for (int64_t e = 0; e < call->outputs[0].shape.dims[0]; e++) {
        uint32_t words[SL_MAX_OPERANDS];
        for (int k = 0; k < call->n_inputs; k++)
            words[k] = ((const uint32_t *)call->inputs[k].data)[e];
        ((uint32_t *)call->outputs[0].data)[e] = mix_word(attributes->salt, call->n_inputs, words);
    }
    if (attributes->count)
        atomic_fetch_add(attributes->count, 1);
    return SL_OK;
}

sl_status fail_on_host(sl_lane *lane, const sl_call *call) {
    (void)lane, (void)call;
    return sl_fail(SL_INVALID, "no, says the test");
}

const sl_op mix_op = {.name = "mix", .attribute_bytes = sizeof(mix_attributes), .cpu = mix_on_host};
const sl_op fail_op = {.name = "fail", .attribute_bytes = sizeof(mix_attributes), .cpu = fail_on_host};

/* ---- Open and close ---- */

void find_devices(void) {
    ck_assert_msg(sl_devices_find() == SL_OK, "%s", sl_last_error());
    ck_assert_int_ge(sl_device_count(conformance->platform->kind), conformance->n_devices);
}

fixture *fixture_open(const sli_backend_options *options) {
    fixture *f = calloc(1, sizeof *f);
    ck_assert_ptr_nonnull(f);
    find_devices();
    sl_status status = conformance->platform->open(options ? options : &conformance->options, &f->b);
    ck_assert_msg(status == SL_OK, "open: %s", sl_last_error());
    if (conformance->wrap)
        f->b = conformance->wrap(f->b);
    ck_assert_ptr_nonnull(f->b);
    f->batch = (sli_batch){.ticket = &f->ticket, .rows = {1}, .io = f->io};
    return f;
}

void fixture_close(fixture *f) {
    if (conformance->check)
        conformance->check(f->b);
    ck_assert_int_eq(f->b->ops->close(f->b, limit_ns), SL_OK);
    for (test_work *w = f->works, *next; w; w = next) {
        next = w->next;
        free(w);
    }
    free(f);
}

uint16_t add_lane_of(fixture *f, int from, int to, uint32_t n_events) {
    uint16_t lane = 0;
    sli_lane_desc desc = {.from = from, .to = to, .n_actions = 2 * MAX_TEST_ACTIONS, .n_events = n_events};
    ck_assert_int_lt(f->n_lanes, MAX_TEST_LANES);
    sl_status status = f->b->ops->lane_create(f->b, &desc, &lane);
    ck_assert_msg(status == SL_OK, "lane %d -> %d: %s", from, to, sl_last_error());
    ck_assert_int_eq(lane, f->n_lanes);
    f->n_lanes++;
    return lane;
}

uint16_t add_lane(fixture *f, int from, int to) {
    return add_lane_of(f, from, to, 2 * MAX_TEST_ACTIONS);
}

place add_slot(fixture *f, int device, size_t bytes) {
    void *at = NULL;
    sl_status status = f->b->ops->allocate(f->b, device, bytes, SL_MEMORY_SLOTS, &at);
    ck_assert_msg(status == SL_OK, "%zu bytes on %d: %s", bytes, device, sl_last_error());
    ck_assert_ptr_nonnull(at);
    return (place){.device = device, .at = at};
}

place io_place(int io) {
    return (place){.device = SLI_HOST, .io = io};
}

/* ---- Works ---- */

static test_work *add_work(fixture *f) {
    test_work *w = calloc(1, sizeof *w);
    ck_assert_ptr_nonnull(w);
    w->next = f->works;
    f->works = w;
    return w;
}

static sli_operand operand_of(place p, size_t bytes) {
    return (sli_operand){.at = p.at,
                         .io = p.io,
                         .device = p.device,
                         .slot_bytes = bytes,
                         .extent = {.rows = SLI_ROWS_FIXED, .bytes = bytes, .limit = SIZE_MAX}};
}

void prepare(fixture *f, int device, test_work *w) {
    sl_status status = f->b->ops->prepare(f->b, device, &w->work);
    ck_assert_msg(status == SL_OK, "prepare %s: %s", w->work.name, sl_last_error());
}

test_work *add_stage(fixture *f, int device, const sl_op *op, sl_kernel kernel, int n_inputs, const place *inputs,
                     place output) {
    test_work *w = add_work(f);
    for (int i = 0; i <= n_inputs; i++) {
        w->operands[i] = operand_of(i < n_inputs ? inputs[i] : output, SLOT);
        w->refs[i] = (sli_ref){.operand = i, .type = {SL_I32, {2, {WORDS, 1}}}, .row_bytes = 4};
    }
    w->op = (sli_op_code){.op = op,
                          .kernel = conformance->on_host ? op->cpu : kernel,
                          .attributes = &w->attributes,
                          .n_inputs = n_inputs,
                          .n_outputs = 1,
                          .inputs = w->refs,
                          .outputs = w->refs + n_inputs};
    w->code = (sli_stage_code){.name = "stage",
                               .device = {conformance->platform->kind, device},
                               .n_ops = 1,
                               .ops = &w->op,
                               .descriptor = -1,
                               .timed = !has_data(),
                               .fixed_ns = 10};
    w->work = (sli_work){
        .name = "stage", .code = &w->code, .n_reads = n_inputs, .n_operands = n_inputs + 1, .operands = w->operands};
    prepare(f, device, w);
    return w;
}

test_work *add_mix(fixture *f, int device, uint32_t salt, int n_inputs, const place *inputs, place output) {
    test_work *w = add_stage(f, device, &mix_op, conformance->mix, n_inputs, inputs, output);
    w->attributes.salt = salt;
    return w;
}

test_work *add_fail(fixture *f, int device, place output) {
    return add_stage(f, device, &fail_op, conformance->fail, 0, NULL, output);
}

test_work *add_copy(fixture *f, place from, place to, size_t bytes) {
    test_work *w = add_work(f);
    w->operands[0] = operand_of(from, bytes);
    w->operands[1] = operand_of(to, bytes);
    w->work = (sli_work){.name = "copy", .n_reads = 1, .n_operands = 2, .operands = w->operands};
    prepare(f, to.device == SLI_HOST ? from.device : to.device, w);
    return w;
}

/* ---- Actions ---- */

static sli_action *next_action(fixture *f, enum sli_action_kind kind, int lane) {
    ck_assert_uint_lt(f->n_actions, MAX_TEST_ACTIONS);
    sli_action *a = &f->actions[f->n_actions++];
    *a = (sli_action){.kind = (uint8_t)kind, .lane = (uint16_t)lane};
    return a;
}

void put_wait(fixture *f, int lane, int of, uint64_t value) {
    sli_action *a = next_action(f, SLI_WAIT, lane);
    a->of = (uint16_t)of;
    a->value = value;
}

uint64_t put_record(fixture *f, int lane) {
    return next_action(f, SLI_RECORD, lane)->value = ++f->recorded[lane];
}

void put(fixture *f, int lane, const test_work *w, const sli_batch *batch) {
    sli_action *a = next_action(f, w->work.code ? SLI_EXECUTE : SLI_COPY, lane);
    a->work = &w->work;
    a->batch = batch ? batch : &f->batch;
}

void flush(fixture *f) {
    sl_status status = f->b->ops->enqueue(f->b, f->actions, f->n_actions);
    ck_assert_msg(status == SL_OK, "enqueue: %s", sl_last_error());
    memset(f->actions, 0xee, f->n_actions * sizeof *f->actions);
    f->n_actions = 0;
}

void wait_until(fixture *f, int lane, uint64_t value) {
    uint64_t deadline = sli_after_ns(limit_ns);
    while (f->b->ops->reached(f->b, (uint16_t)lane) < value) {
        sl_status status = f->b->ops->await(f->b, (uint16_t)lane, value, deadline);
        ck_assert_msg(status == SL_OK, "await lane %d, value %llu: %s", lane, (unsigned long long)value,
                      sl_status_name(status));
    }
}

void settle(fixture *f) {
    flush(f);
    for (int l = 0; l < f->n_lanes; l++)
        wait_until(f, l, f->recorded[l]);
}

/* ---- Data ---- */

bool has_data(void) {
    return conformance->platform->capabilities & SLI_HAS_DATA;
}

bool has_kernels(void) {
    return has_data() && (conformance->on_host || conformance->mix);
}

void write_words(place p, const uint32_t *words, size_t n) {
    if (!has_data())
        return;
    if (p.device == SLI_HOST)
        memcpy(p.at, words, n * sizeof *words);
    else
        ck_assert_int_eq(conformance->platform->copy(p.device, p.at, SLI_HOST, words, n * sizeof *words), SL_OK);
}

void read_words(place p, uint32_t *words, size_t n) {
    if (p.device == SLI_HOST)
        memcpy(words, p.at, n * sizeof *words);
    else
        ck_assert_int_eq(conformance->platform->copy(SLI_HOST, words, p.device, p.at, n * sizeof *words), SL_OK);
}

void expect_words(place p, const uint32_t *words, size_t n, const char *what) {
    if (!has_data())
        return;
    uint32_t *found = malloc(n * sizeof *found);
    ck_assert_ptr_nonnull(found);
    read_words(p, found, n);
    for (size_t i = 0; i < n; i++)
        ck_assert_msg(found[i] == words[i], "%s: word %zu is %08x, expected %08x", what, i, found[i], words[i]);
    free(found);
}

void fill_words(uint32_t *words, size_t n, uint64_t seed) {
    for (size_t i = 0; i < n; i++)
        words[i] = (uint32_t)test_random(&seed);
}

claims claims_of(const test_case *cases, size_t n) {
    claims c = {.n = n};
    memcpy(c.cases, cases, n * sizeof *cases);
    return c;
}
