/* Claims about payloads: their bytes, what an op is called with, what fails and how, what they cost. */
#include "backend/backend.h"
#include "support.h"
#include <math.h>
#include <pthread.h>
#include <string.h>

/* ---- Tickets ---- */

START_TEST(the_first_to_stop_a_ticket_says_why) {
    sli_ticket t = {0};
    ck_assert(sli_ticket_stop(&t, SL_STAGE_FAILED, "first"));
    ck_assert(!sli_ticket_stop(&t, SL_CANCELLED, "second"));
    ck_assert_int_eq(t.status, SL_STAGE_FAILED);
    ck_assert_str_eq(t.message, "first");
}
END_TEST

START_TEST(a_long_reason_is_cut_and_none_is_allowed) {
    sli_ticket t = {0}, silent = {0};
    char text[2000];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    ck_assert(sli_ticket_stop(&t, SL_LOST, text));
    ck_assert_uint_eq(strlen(t.message), sizeof t.message - 1);
    ck_assert(sli_ticket_stop(&silent, SL_CANCELLED, NULL));
    ck_assert_str_eq(silent.message, "");
}
END_TEST

typedef struct stopper {
    sli_ticket *tickets;
    sl_status status;
    int won;
} stopper;

enum { TICKETS = 2000, STOPPERS = 4 };

static void *stop_all(void *user) {
    stopper *s = user;
    for (int i = 0; i < TICKETS; i++)
        s->won += sli_ticket_stop(&s->tickets[i], s->status, sl_status_name(s->status));
    return NULL;
}

START_TEST(of_many_threads_one_stops_a_ticket) {
    static sli_ticket tickets[TICKETS];
    pthread_t threads[STOPPERS];
    stopper stoppers[STOPPERS];
    int won = 0;
    for (int i = 0; i < STOPPERS; i++) {
        stoppers[i] = (stopper){tickets, (sl_status)(SL_INVALID + i), 0};
        ck_assert_int_eq(pthread_create(&threads[i], NULL, stop_all, &stoppers[i]), 0);
    }
    for (int i = 0; i < STOPPERS; i++) {
        pthread_join(threads[i], NULL);
        won += stoppers[i].won;
    }
    ck_assert_int_eq(won, TICKETS);
    for (int i = 0; i < TICKETS; i++)
        ck_assert_str_eq(tickets[i].message, sl_status_name((sl_status)tickets[i].status));
}
END_TEST

/* ---- Extents and operands ---- */

static const sli_batch some_rows = {.rows = {7, 0, 3, 0, 5}};

START_TEST(bytes_are_rows_times_bytes_or_fixed) {
    static const struct {
        sli_extent extent;
        size_t bytes;
    } cases[] = {
        {{0, 12, 0, SIZE_MAX}, 84},
        {{1, 12, 0, SIZE_MAX}, 0},
        {{2, 12, 0, SIZE_MAX}, 36},
        {{SLI_ROWS_SEGMENTS, 16, 0, SIZE_MAX}, 80},
        {{SLI_ROWS_FIXED, 100, 0, SIZE_MAX}, 100},
        {{0, 12, 80, SIZE_MAX}, 4},
        {{0, 12, 84, SIZE_MAX}, 0},
        {{0, 12, 90, SIZE_MAX}, 0},
        {{0, 12, 0, 50}, 50},
        {{0, 12, 50, 50}, 34},
        {{0, 12, 20, 50}, 50},
        {{0, 12, 0, 0}, 0},
        {{SLI_ROWS_FIXED, 100, 60, 60}, 40},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        ck_assert_msg(sli_extent_bytes(&cases[i].extent, &some_rows) == cases[i].bytes, "case %zu", i);
}
END_TEST

START_TEST(an_empty_batch_has_no_bytes_at_all) {
    sli_batch empty = {.index = 9}, segments = {.rows = {[SLI_ROWS_SEGMENTS] = 1}};
    sli_extent fixed = {SLI_ROWS_FIXED, 100, 0, SIZE_MAX};
    ck_assert(sli_batch_is_empty(&empty));
    ck_assert(!sli_batch_is_empty(&some_rows));
    ck_assert(!sli_batch_is_empty(&segments));
    ck_assert_uint_eq(sli_extent_bytes(&fixed, &empty), 0);
    ck_assert_uint_eq(sli_extent_bytes(&fixed, &segments), 100);
}
END_TEST

START_TEST(an_operand_lies_in_its_slot_or_in_the_batch) {
    char slot[64], host[64];
    void *io[] = {NULL, host};
    sli_batch batch = {.rows = {1}, .io = io};
    sli_operand in_slot = {.at = slot, .io = 1, .extent = {.offset = 8}};
    sli_operand in_batch = {.io = 1, .extent = {.offset = 16}};
    ck_assert_ptr_eq(sli_operand_at(&in_slot, &batch), slot + 8);
    ck_assert_ptr_eq(sli_operand_at(&in_batch, &batch), host + 16);
}
END_TEST

START_TEST(a_copy_moves_the_lesser_of_its_ends) {
    sli_operand ends[2] = {{.extent = {0, 4, 0, 16}}, {.extent = {0, 4, 16, 16}}}; /* a piece's slot, its value */
    sli_work copy = {.n_reads = 1, .n_operands = 2, .operands = ends};
    ck_assert_uint_eq(sli_copy_bytes(&copy, &some_rows), 12);
    sli_operand swapped[2] = {ends[1], ends[0]};
    copy.operands = swapped;
    ck_assert_uint_eq(sli_copy_bytes(&copy, &some_rows), 12);
}
END_TEST

/* ---- Execution ---- */

typedef struct seen {
    int calls;
    sl_lane *lane;
    sl_call call;
    sl_view inputs[SL_MAX_OPERANDS], outputs[SL_MAX_OPERANDS];
    sl_descriptor descriptor;
    sl_state_view state;
    sl_status answer;
    bool silent;
    sli_ticket *stop;
} seen;

static sl_status look(sl_lane *lane, const sl_call *call) {
    seen *s = *(seen *const *)call->attributes;
    s->calls++;
    s->lane = lane;
    s->call = *call;
    memcpy(s->inputs, call->inputs, (size_t)call->n_inputs * sizeof *call->inputs);
    memcpy(s->outputs, call->outputs, (size_t)call->n_outputs * sizeof *call->outputs);
    s->descriptor = *call->descriptor;
    if (call->n_states)
        s->state = call->states[0];
    if (s->stop)
        sli_ticket_stop(s->stop, SL_CANCELLED, NULL);
    if (s->answer != SL_OK && !s->silent)
        sl_fail(s->answer, "id 9 is not in 0 .. 8");
    return s->answer;
}

static void cost_of(const sl_call *call, sl_cost *cost) {
    cost->operations = 1000 * (double)call->outputs[0].shape.dims[0];
}

static const sl_op look_op = {.name = "look", .cost = cost_of};
static const sl_op free_op = {.name = "free"};

/* A stage of two ops: x [rows, 3] and w [2, 3] -> t [rows, 2] (fixed memory) -> y [second rows, 2]. */
typedef struct stage {
    seen seen[2];
    seen *attributes[2];
    sli_ref refs[4];
    sl_state_view state;
    sli_op_code ops[2];
    sli_stage_code code;
    sli_operand operands[3];
    sli_work work;
    sli_ticket ticket;
    sli_batch batch;
    void *io[1];
    float x[10 * 3], w[2 * 3], t[10 * 2], y[10 * 2];
    sl_segment segments[4];
    char scratch[64];
} stage;

static sl_type type_of(int64_t rows, int64_t columns) {
    return (sl_type){SL_F32, {2, {rows, columns}}};
}

static void stage_make(stage *s) {
    memset(s, 0, sizeof *s);
    s->refs[0] = (sli_ref){0, NULL, type_of(SL_ROWS, 3), 12};
    s->refs[1] = (sli_ref){-1, (char *)s->w, type_of(2, 3), 12};
    s->refs[2] = (sli_ref){-1, (char *)s->t, type_of(SL_ROWS, 2), 8};
    s->refs[3] = (sli_ref){2, NULL, type_of(SL_ROWS - 1, 2), 8};
    s->state = (sl_state_view){s->scratch, SL_F32, 2, 4, 1, 4};
    for (int i = 0; i < 2; i++) {
        s->attributes[i] = &s->seen[i];
        s->ops[i] = (sli_op_code){.op = &look_op,
                                  .kernel = look,
                                  .attributes = &s->attributes[i],
                                  .n_inputs = i ? 1 : 2,
                                  .n_outputs = 1,
                                  .n_states = i,
                                  .inputs = i ? &s->refs[2] : s->refs,
                                  .outputs = i ? &s->refs[3] : &s->refs[2],
                                  .states = &s->state,
                                  .scratch_bytes = i ? 40 : 0};
    }
    s->operands[0] = (sli_operand){.io = 0, .extent = {0, 12, 0, SIZE_MAX}};
    s->operands[1] = (sli_operand){.at = (char *)s->segments};
    s->operands[2] = (sli_operand){.at = (char *)s->y, .extent = {1, 8, 0, SIZE_MAX}};
    s->code = (sli_stage_code){
        .name = "front", .device = {SL_CPU, 2}, .n_ops = 2, .ops = s->ops, .scratch = s->scratch, .descriptor = 1};
    s->work = (sli_work){.name = "front", .code = &s->code, .n_reads = 2, .n_operands = 3, .operands = s->operands};
    s->io[0] = s->x;
    s->batch = (sli_batch){.ticket = &s->ticket, .index = 12, .rows = {7, 4, 0, 0, 3}, .io = s->io};
}

START_TEST(rows_that_are_the_last_dimension_have_their_bytes) {
    stage s;
    sl_lane lane = {.threads = 1};
    stage_make(&s);
    s.refs[0].type = (sl_type){SL_F32, {1, {SL_ROWS}}};
    s.refs[0].row_bytes = 4; /* as a plan says it: of an element */
    sli_work_execute(&s.work, &s.batch, &lane);
    ck_assert_int_eq(s.seen[0].inputs[0].shape.dims[0], 7);
    ck_assert_uint_eq(s.seen[0].inputs[0].row_bytes, 7 * 4);
}
END_TEST

START_TEST(an_op_is_called_with_the_rows_at_hand) {
    stage s;
    sl_lane lane = {.threads = 1};
    stage_make(&s);
    sli_work_execute(&s.work, &s.batch, &lane);
    const seen *a = &s.seen[0], *b = &s.seen[1];
    ck_assert_int_eq(a->calls, 1);
    ck_assert_int_eq(b->calls, 1);
    ck_assert_ptr_eq(a->lane, &lane);
    ck_assert_int_eq(a->call.n_inputs, 2);
    ck_assert_ptr_eq(a->inputs[0].data, s.x);
    ck_assert_ptr_eq(a->inputs[1].data, s.w);
    ck_assert_ptr_eq(a->outputs[0].data, s.t);
    ck_assert_int_eq(a->inputs[0].shape.dims[0], 7);
    ck_assert_int_eq(a->inputs[0].shape.dims[1], 3);
    ck_assert_uint_eq(a->inputs[0].row_bytes, 12);
    ck_assert_int_eq(a->inputs[1].shape.dims[0], 2);
    ck_assert_int_eq(a->outputs[0].shape.dims[0], 7);
    ck_assert_ptr_null(a->call.scratch);
    ck_assert_ptr_eq(b->inputs[0].data, s.t);
    ck_assert_ptr_eq(b->outputs[0].data, s.y);
    ck_assert_int_eq(b->outputs[0].shape.dims[0], 4);
    ck_assert_ptr_eq(b->call.scratch, s.scratch);
    ck_assert_uint_eq(b->call.scratch_bytes, 40);
    ck_assert_int_eq(b->state.n_rows, 4);
}
END_TEST

START_TEST(an_op_reads_the_descriptor) {
    stage s;
    stage_make(&s);
    sli_work_execute(&s.work, &s.batch, NULL);
    const sl_descriptor *d = &s.seen[1].descriptor;
    ck_assert_uint_eq(d->rows[0], 7);
    ck_assert_uint_eq(d->rows[1], 4);
    ck_assert_uint_eq(d->n_segments, 3);
    ck_assert_ptr_eq(d->segments, s.segments);
    ck_assert_uint_eq(d->micro_batch, 12);
    s.code.descriptor = -1;
    sli_work_execute(&s.work, &s.batch, NULL);
    ck_assert_ptr_null(s.seen[1].descriptor.segments);
}
END_TEST

START_TEST(an_op_without_output_rows_is_left_out) {
    stage s;
    stage_make(&s);
    s.batch.rows[1] = 0;
    sli_work_execute(&s.work, &s.batch, NULL);
    ck_assert_int_eq(s.seen[0].calls, 1);
    ck_assert_int_eq(s.seen[1].calls, 0);
    memset(s.batch.rows, 0, sizeof s.batch.rows);
    s.ops[0].outputs = &s.refs[1]; /* of a fixed shape: even so */
    sli_work_execute(&s.work, &s.batch, NULL);
    ck_assert_int_eq(s.seen[0].calls, 1);
}
END_TEST

START_TEST(a_failing_op_says_where) {
    stage s;
    stage_make(&s);
    s.seen[0].answer = SL_INVALID;
    sli_work_execute(&s.work, &s.batch, NULL);
    ck_assert_int_eq(s.ticket.status, SL_STAGE_FAILED);
    ck_assert_str_eq(s.ticket.message, "stage 'front', op 'look', micro-batch 12, cpu:2: id 9 is not in 0 .. 8");
    ck_assert_int_eq(s.seen[1].calls, 0);
}
END_TEST

START_TEST(a_silent_failure_borrows_nobodys_sentence) {
    stage s;
    stage_make(&s);
    sl_fail(SL_IO, "an old sentence");
    s.seen[0].answer = SL_UNSUPPORTED;
    s.seen[0].silent = true;
    sli_work_execute(&s.work, &s.batch, NULL);
    ck_assert_str_eq(s.ticket.message, "stage 'front', op 'look', micro-batch 12, cpu:2: unsupported");
}
END_TEST

START_TEST(the_first_reason_stays) {
    stage s;
    stage_make(&s);
    s.seen[0].stop = &s.ticket;
    s.seen[0].answer = SL_INVALID;
    sli_work_execute(&s.work, &s.batch, NULL);
    ck_assert_int_eq(s.ticket.status, SL_CANCELLED);
    ck_assert_str_eq(s.ticket.message, "");
}
END_TEST

START_TEST(a_stopped_ticket_leaves_out_the_rest) {
    stage s;
    stage_make(&s);
    s.seen[0].stop = &s.ticket;
    sli_work_execute(&s.work, &s.batch, NULL);
    ck_assert_int_eq(s.seen[1].calls, 0);
    sli_work_execute(&s.work, &s.batch, NULL);
    ck_assert_int_eq(s.seen[0].calls, 1);
}
END_TEST

/* ---- Costs ---- */

START_TEST(a_stage_with_its_own_time_costs_that) {
    stage s;
    stage_make(&s);
    s.code.timed = true;
    s.code.fixed_ns = 100;
    s.code.row_ns = 2.5;
    ck_assert_uint_eq(sli_work_cost_ns(&s.work, &s.batch, 0), 100 + 18);
    ck_assert_uint_eq(sli_work_cost_ns(&s.work, &s.batch, 1e9), 100 + 18);
    s.batch.rows[0] = 8;
    ck_assert_uint_eq(sli_work_cost_ns(&s.work, &s.batch, 0), 120);
    memset(s.batch.rows, 0, sizeof s.batch.rows);
    ck_assert_uint_eq(sli_work_cost_ns(&s.work, &s.batch, 0), 0);
}
END_TEST

START_TEST(cost_rules_add_up_over_the_speed) {
    stage s;
    stage_make(&s);
    ck_assert_uint_eq(sli_work_cost_ns(&s.work, &s.batch, 0), 0);
    ck_assert_uint_eq(sli_work_cost_ns(&s.work, &s.batch, 1e9), 7000 + 4000);
    ck_assert_uint_eq(sli_work_cost_ns(&s.work, &s.batch, 3e12), 4); /* 3.67 */
    s.batch.rows[1] = 0;
    ck_assert_uint_eq(sli_work_cost_ns(&s.work, &s.batch, 1e9), 7000);
    s.ops[0].op = &free_op;
    ck_assert_uint_eq(sli_work_cost_ns(&s.work, &s.batch, 1e9), 0);
}
END_TEST

START_TEST(no_time_is_longer_than_a_clock_holds) {
    stage s;
    stage_make(&s);
    ck_assert_uint_le(sli_work_cost_ns(&s.work, &s.batch, 1e-300), INT64_MAX);
    s.code.timed = true;
    s.code.row_ns = INFINITY;
    ck_assert_uint_le(sli_work_cost_ns(&s.work, &s.batch, 0), INT64_MAX);
    s.code.row_ns = NAN;
    ck_assert_uint_eq(sli_work_cost_ns(&s.work, &s.batch, 0), 0);
}
END_TEST

int main(void) {
    const test_case cases[] = {
        TEST(the_first_to_stop_a_ticket_says_why),
        TEST(a_long_reason_is_cut_and_none_is_allowed),
        TEST(of_many_threads_one_stops_a_ticket),
        TEST(bytes_are_rows_times_bytes_or_fixed),
        TEST(an_empty_batch_has_no_bytes_at_all),
        TEST(an_operand_lies_in_its_slot_or_in_the_batch),
        TEST(a_copy_moves_the_lesser_of_its_ends),
        TEST(an_op_is_called_with_the_rows_at_hand),
        TEST(rows_that_are_the_last_dimension_have_their_bytes),
        TEST(an_op_reads_the_descriptor),
        TEST(an_op_without_output_rows_is_left_out),
        TEST(a_failing_op_says_where),
        TEST(a_silent_failure_borrows_nobodys_sentence),
        TEST(the_first_reason_stays),
        TEST(a_stopped_ticket_leaves_out_the_rest),
        TEST(a_stage_with_its_own_time_costs_that),
        TEST(cost_rules_add_up_over_the_speed),
        TEST(no_time_is_longer_than_a_clock_holds),
    };
    return test_main("stage", cases, sizeof cases / sizeof *cases);
}
