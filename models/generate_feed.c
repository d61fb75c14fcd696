/* The hooks of a generator, on the driver's thread: which rows go into turn k, and what becomes of what came back. They
 * neither block nor allocate. See generate.h for who owns what.
 *
 * A sequence first sends its prompt, in chunks that take part in any turn, one chunk behind the other: so one prompt
 * alone fills the pipeline. With its last chunk it joins the group of that turn, if the group has room, and from then
 * on has one row in each turn of that group. Turn k comes when k - groups has ended: then the token that the row needs
 * is there. Groups are kept even: each takes at most its share of the sequences that run. */
#include "generate.h"
#include <stdio.h>
#include <string.h>

/* ---- How a request ends ---- */

static void stop(sl_sequence *s, sl_status fate, const char *message) {
    if (s->stopping)
        return;
    s->stopping = true;
    s->fate = fate;
    snprintf(s->message, sizeof s->message, "%s", message);
}

static void finish(sl_sequence *s) {
    sl_generator *g = s->generator;
    request *r = s->request;
    sl_job *job = r->job;
    sl_status fate = s->fate;
    char message[sizeof s->message];
    memcpy(message, s->message, sizeof message); /* the seat may be another request's once it is idle */
    if (fate == SL_OK)
        atomic_store(&s->length, s->position);
    if (s->group >= 0)
        g->group_sizes[s->group]--;
    g->n_running--;
    s->request = NULL;
    seat_rest(s);
    atomic_store(&r->finished, true); /* r is the loop's */
    sl_pipeline_notify(g->pipeline);
    sl_job_end(job, fate, message);
}

static void finish_if_over(sl_sequence *s) {
    if (s->stopping && s->in_flight == 0)
        finish(s);
}

static bool is_in(const sl_sequence *s, int state) {
    return (atomic_load(&s->state) & ~SEAT_CLOSING) == state;
}

static bool is_running(const sl_sequence *s) {
    return is_in(s, SEAT_RUNNING);
}

/* Its user no longer wants it. */
static void stop_if_unwanted(sl_sequence *s) {
    if (sl_job_cancelled(s->request->job))
        stop(s, SL_CANCELLED, "the generation was cancelled");
    else if (atomic_load(&s->state) & SEAT_CLOSING)
        stop(s, SL_CANCELLED, "the sequence was closed");
}

/* ---- Who is there ---- */

static void start(sl_generator *g, sl_sequence *s) {
    s->fed = 0;
    s->position = atomic_load(&s->length);
    s->group = -1;
    s->in_flight = 0;
    s->waiting = s->stopping = false;
    s->fate = SL_OK;
    s->message[0] = '\0';
    g->n_running++;
    seat_move(s, SEAT_RUNNING);
}

static void look_at_seats(sl_generator *g) {
    for (sl_sequence *s = g->seats; s < g->seats + g->n_places; s++) {
        if (is_in(s, SEAT_SUBMITTED))
            start(g, s);
        if (!is_running(s))
            continue;
        stop_if_unwanted(s);
        finish_if_over(s);
    }
}

/* ---- What goes into a turn ---- */

static void ask_for_token(sl_generator *g, turn *t, sl_sequence *s, int row) {
    const sl_generate_params *p = &s->request->params;
    int h = t->n_heads++;
    t->parts[t->n_parts - 1].head = h;
    t->last[h] = row;
    int32_t *ints = &t->ints[(size_t)h * SL_SAMPLE_INTS];
    ints[SL_SAMPLE_SEED_LOW] = (int32_t)(uint32_t)p->seed;
    ints[SL_SAMPLE_SEED_HIGH] = (int32_t)(uint32_t)(p->seed >> 32);
    ints[SL_SAMPLE_SEQUENCE] = p->number;
    ints[SL_SAMPLE_POSITION] = s->position;
    ints[SL_SAMPLE_TOP_K] = p->top_k;
    float *floats = &t->floats[(size_t)h * SL_SAMPLE_FLOATS];
    floats[SL_SAMPLE_TEMPERATURE] = p->temperature;
    floats[SL_SAMPLE_TOP_P] = p->top_p > 0 ? p->top_p : 1.0f;
    if (g->simulated)
        t->next[h] = 0;
    s->waiting = true;
}

static void add_rows(turn *t, sl_sequence *s, const int *ids, int n, sl_micro_batch *mb) {
    for (int i = 0; i < n; i++)
        t->ids[t->n_rows + i] = ids[i];
    mb->segments[t->n_parts] =
        (sl_segment){.place = s->place, .position = s->position, .first_row = t->n_rows, .n_rows = n};
    t->parts[t->n_parts++] = (turn_part){s, -1};
    t->n_rows += n;
    s->position += n;
    s->in_flight++;
}

static void add_decoding(sl_generator *g, turn *t, int group, sl_micro_batch *mb) {
    for (sl_sequence *s = g->seats; s < g->seats + g->n_places; s++) {
        if (!is_running(s) || s->group != group || s->waiting || s->stopping)
            continue;
        add_rows(t, s, &s->last_id, 1, mb);
        ask_for_token(g, t, s, t->n_rows - 1);
    }
}

/* The oldest request with a prompt to be sent, but for those that have had their part in this turn. */
static sl_sequence *oldest_prompt(sl_generator *g, uint64_t after) {
    sl_sequence *oldest = NULL;
    for (sl_sequence *s = g->seats; s < g->seats + g->n_places; s++) {
        bool sends = is_running(s) && !s->stopping && s->fed < s->request->n_ids && s->request->arrival > after;
        if (sends && (!oldest || s->request->arrival < oldest->request->arrival))
            oldest = s;
    }
    return oldest;
}

static void add_prompts(sl_generator *g, turn *t, int group, sl_micro_batch *mb) {
    int room = g->chunk;
    int share = (g->n_running + g->groups - 1) / g->groups;
    uint64_t after = 0;
    for (sl_sequence *s; room > 0 && (s = oldest_prompt(g, after)); after = s->request->arrival) {
        request *r = s->request;
        int left = r->n_ids - s->fed, n = left < room ? left : room;
        bool joins = n == left;
        if (joins && g->group_sizes[group] >= share && --n == 0) /* the last row waits for a group with room */
            continue;
        joins = joins && n == left;
        add_rows(t, s, r->ids + s->fed, n, mb);
        s->fed += n;
        room -= n;
        if (!joins)
            continue;
        s->group = group;
        g->group_sizes[group]++;
        ask_for_token(g, t, s, t->n_rows - 1);
    }
}

sl_feed_answer generator_next(void *user, uint64_t k, sl_micro_batch *mb) {
    sl_generator *g = user;
    int group = (int)(k % (uint64_t)g->groups);
    turn *t = &g->turns[group];
    t->n_parts = t->n_rows = t->n_heads = 0;
    look_at_seats(g);
    add_decoding(g, t, group, mb);
    add_prompts(g, t, group, mb);
    if (t->n_rows == 0)
        return g->n_running ? SL_FEED_PASS : SL_FEED_IDLE;
    mb->rows[0] = (uint32_t)t->n_rows;
    mb->rows[1] = (uint32_t)t->n_heads;
    mb->n_segments = (uint32_t)t->n_parts;
    mb->inputs[0] = t->ids;
    mb->inputs[1] = t->last;
    mb->inputs[2] = t->ints;
    mb->inputs[3] = t->floats;
    mb->outputs[0] = t->next;
    if (g->logits)
        mb->outputs[1] = t->logits;
    return SL_FEED_BATCH;
}

/* ---- What came back ---- */

static bool is_stop(const sl_generator *g, const request *r, int id) {
    if (g->simulated)
        return false;
    for (int i = 0; i < r->params.n_stop_ids; i++)
        if (r->params.stop_ids[i] == id)
            return true;
    for (int i = 0; i < g->info.n_eos_ids && !r->params.ignore_eos; i++)
        if (g->info.eos_ids[i] == id)
            return true;
    return false;
}

static void take_token(sl_generator *g, sl_sequence *s, const turn *t, int head) {
    request *r = s->request;
    int id = t->next[head], n = atomic_load(&r->n_tokens);
    s->waiting = false;
    if (is_stop(g, r, id)) {
        stop(s, SL_OK, "");
        return;
    }
    r->tokens[n] = s->last_id = id;
    if (r->logits)
        memcpy(r->logits + (size_t)n * (size_t)g->info.n_vocab, t->logits + (size_t)head * (size_t)g->info.n_vocab,
               (size_t)g->info.n_vocab * sizeof(float));
    atomic_store(&r->n_tokens, n + 1);
    if (n + 1 == r->max_tokens)
        stop(s, SL_OK, "");
    sl_pipeline_notify(g->pipeline);
}

/* Nothing will be asked for again: what is not on its way ends now, the rest with its own micro-batch. */
static void stop_all(sl_generator *g, sl_status status, const char *message) {
    for (sl_sequence *s = g->seats; s < g->seats + g->n_places; s++) {
        if (is_in(s, SEAT_SUBMITTED))
            start(g, s);
        if (!is_running(s))
            continue;
        stop(s, status, message);
        finish_if_over(s);
    }
}

void generator_ended(void *user, uint64_t k, sl_status status, const char *message) {
    sl_generator *g = user;
    const turn *t = &g->turns[k % (uint64_t)g->groups];
    for (const turn_part *p = t->parts; p < t->parts + t->n_parts; p++) {
        sl_sequence *s = p->sequence;
        s->in_flight--;
        if (status != SL_OK)
            stop(s, status, message);
        stop_if_unwanted(s);
        if (p->head >= 0 && !s->stopping)
            take_token(g, s, t, p->head);
        finish_if_over(s);
    }
    if (status == SL_LOST || status == SL_STALLED)
        stop_all(g, status, message);
}
