/* Generators: opening the ring over a model's graph, sequences, requests, and tokens to the user on the loop. What
 * travels when is generate_feed.c's. See generate.h for who owns what. */
#include "generate.h"
#include <limits.h>
#include <string.h>

/* ---- Lifetime ---- */

static void destroy(sl_generator *g) {
    for (int i = 0; g->turns && i < g->groups; i++)
        sl_free(g->turns[i].parts);
    pthread_mutex_destroy(&g->lock);
    sl_tensor_release(g->memory);
    sl_model_release(g->model);
    sl_free(g->group_sizes);
    sl_free(g->turns);
    sl_free(g->seats);
    sl_free(g);
}

void generator_release(sl_generator *g) {
    if (atomic_fetch_sub(&g->references, 1) == 1)
        destroy(g);
}

static void request_destroy(request *r) {
    if (!r)
        return;
    sl_free((void *)(uintptr_t)r->params.stop_ids);
    sl_free(r->ids);
    sl_free(r->tokens);
    sl_free(r->logits);
    sl_free(r);
}

/* ---- Tokens, on the loop ---- */

static void hand_over(const sl_generator *g, request *r) {
    int n = atomic_load(&r->n_tokens);
    for (; r->delivered < n; r->delivered++) {
        const float *logits = r->logits ? r->logits + (size_t)r->delivered * (size_t)g->info.n_vocab : NULL;
        if (r->on_token)
            r->on_token(r->sequence, r->tokens[r->delivered], logits, r->user);
    }
}

static void unlink_request(sl_generator *g, const request *r) {
    pthread_mutex_lock(&g->lock);
    request **at = &g->requests;
    while (*at != r)
        at = &(*at)->next;
    *at = r->next;
    pthread_mutex_unlock(&g->lock);
}

/* Only the loop takes requests off the list, so it may walk it unlocked once it has the head. */
static void deliver(void *user) {
    sl_generator *g = user;
    pthread_mutex_lock(&g->lock);
    request *r = g->requests;
    pthread_mutex_unlock(&g->lock);
    for (request *next; r; r = next) {
        bool finished = atomic_load(&r->finished); /* before the tokens are counted */
        hand_over(g, r);
        next = r->next;
        if (!finished)
            continue;
        unlink_request(g, r);
        request_destroy(r);
    }
}

/* ---- Opening ---- */

static int count_parts(const sl_device *layers, int n) {
    int parts = 1;
    for (int i = 1; i < n; i++)
        parts += !sl_device_equal(layers[i], layers[i - 1]);
    return parts;
}

/* As many as fill the pipeline: one for each part, and one on its way back where there are sequences for it. */
static int default_groups(int n_parts, int n_places) {
    return n_parts == 1 ? 1 : n_parts + (n_places > n_parts);
}

static sl_status check_options(const sl_generator *g) {
    const struct {
        const char *name;
        int value, most;
    } counts[] = {{"sequences", g->n_places, 1 << 16},
                  {"groups", g->groups, 1 << 12},
                  {"chunk", g->chunk, 1 << 16},
                  {"context", g->context, INT_MAX}};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        if (counts[i].value < 1 || counts[i].value > counts[i].most)
            return sl_fail(SL_INVALID, "generator: %s is %d; allowed is 1 to %d, and 0 for the default", counts[i].name,
                           counts[i].value, counts[i].most);
    if (g->context > g->info.n_context)
        return sl_fail(SL_INVALID, "generator: a context of %d is more than the %d that the model knows", g->context,
                       g->info.n_context);
    return SL_OK;
}

static sl_status read_options(sl_generator *g, const sl_generator_options *o, const sl_device *layers) {
    g->n_places = o->sequences ? o->sequences : 1;
    g->chunk = o->chunk ? o->chunk : 32;
    g->context = o->context ? o->context : g->info.n_context;
    g->groups = o->groups ? o->groups : default_groups(count_parts(layers, g->info.n_layers), g->n_places);
    g->max_rows = g->chunk + g->n_places;
    g->logits = o->logits;
    g->simulated = layers[0].kind == SL_SIM;
    return check_options(g);
}

static size_t aligned(size_t bytes) {
    return (bytes + 63) & ~(size_t)63;
}

/* One pinned block for all turns. */
static sl_status make_turns(sl_generator *g) {
    size_t places = (size_t)g->n_places, rows = (size_t)g->max_rows;
    size_t logits = g->logits ? places * (size_t)g->info.n_vocab : 0;
    size_t sizes[] = {aligned(rows * 4),
                      aligned(places * 4),
                      aligned(places * SL_SAMPLE_INTS * 4),
                      aligned(places * SL_SAMPLE_FLOATS * 4),
                      aligned(places * 4),
                      aligned(logits * 4)};
    size_t total = 0;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        total += sizes[i];
    g->turns = sl_calloc((size_t)g->groups, sizeof *g->turns);
    if (!g->turns)
        return SL_OUT_OF_MEMORY;
    int64_t words = (int64_t)(total / 4) * g->groups;
    SL_TRY(sl_tensor_create((sl_device){SL_CPU, 0}, SL_I32, 1, &words, SL_TENSOR_PINNED, &g->memory));
    char *at = sl_tensor_data(g->memory);
    for (turn *t = g->turns; t < g->turns + g->groups; t++) {
        void *parts[sizeof sizes / sizeof *sizes];
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; at += sizes[i++])
            parts[i] = at;
        *t = (turn){.ids = parts[0], .last = parts[1], .ints = parts[2], .floats = parts[3], .next = parts[4]};
        t->logits = g->logits ? parts[5] : NULL;
        t->parts = sl_calloc(places, sizeof *t->parts);
        if (!t->parts)
            return SL_OUT_OF_MEMORY;
    }
    return SL_OK;
}

static sl_status make_seats(sl_generator *g) {
    g->seats = sl_calloc((size_t)g->n_places, sizeof *g->seats);
    g->group_sizes = sl_calloc((size_t)g->groups, sizeof *g->group_sizes);
    if (!g->seats || !g->group_sizes)
        return SL_OUT_OF_MEMORY;
    for (int i = 0; i < g->n_places; i++) {
        g->seats[i].generator = g;
        g->seats[i].place = i;
    }
    return SL_OK;
}

static sl_status open_ring(sl_generator *g, const sl_generator_options *o, const sl_device *layers) {
    sl_graph *graph = sl_model_graph(g->model, &(sl_model_graph_options){.layer_devices = layers,
                                                                         .max_rows = (uint32_t)g->max_rows,
                                                                         .max_sequences = (uint32_t)g->n_places,
                                                                         .n_places = g->n_places,
                                                                         .context = g->context,
                                                                         .logits = g->logits});
    if (!graph)
        return SL_OUT_OF_MEMORY;
    const sl_feed feed = {generator_next, generator_ended, deliver, g, g->memory};
    sl_pipeline_options p = o->pipeline;
    p.plan.micro_batch_rows = (uint32_t)g->max_rows;
    p.plan.max_segments = (uint32_t)g->n_places;
    p.plan.groups = (uint32_t)g->groups;
    p.feed = &feed;
    if (p.queue_limit == 0 && g->n_places > 1024)
        p.queue_limit = (uint32_t)g->n_places; /* each sequence may have its job */
    sl_status status = sl_pipeline_open(graph, &p, &g->pipeline);
    sl_graph_destroy(graph);
    return status;
}

static sl_status build(sl_generator *g, const sl_generator_options *o, const sl_device *layers) {
    SL_TRY(read_options(g, o, layers));
    SL_TRY(make_seats(g));
    SL_TRY(make_turns(g));
    return open_ring(g, o, layers);
}

sl_status sl_generator_open(sl_model *model, const sl_generator_options *options, sl_generator **generator) {
    static const sl_generator_options none;
    *generator = NULL;
    sl_generator *g = sl_calloc(1, sizeof *g);
    if (!g)
        return SL_OUT_OF_MEMORY;
    atomic_store(&g->references, 1);
    pthread_mutex_init(&g->lock, NULL);
    g->model = sl_model_retain(model);
    sl_model_get_info(model, &g->info);
    options = options ? options : &none;
    sl_device *all_on_cpu = NULL;
    if (!options->layer_devices)
        all_on_cpu = sl_calloc((size_t)g->info.n_layers, sizeof *all_on_cpu); /* zeroes are cpu:0 */
    const sl_device *layers = options->layer_devices ? options->layer_devices : all_on_cpu;
    sl_status status = layers ? build(g, options, layers) : SL_OUT_OF_MEMORY;
    sl_free(all_on_cpu);
    if (status != SL_OK)
        destroy(g);
    else
        *generator = g;
    return status;
}

sl_pipeline *sl_generator_pipeline(sl_generator *generator) {
    return generator->pipeline;
}

/* The pipeline is closed: all jobs have ended, and the loop has run for the last time. What a lost device left behind
 * goes with it. */
static void drop_requests(sl_generator *g) {
    for (request *r = g->requests, *next; r; r = next) {
        next = r->next;
        request_destroy(r);
    }
    g->requests = NULL;
    for (sl_sequence *s = g->seats; s < g->seats + g->n_places; s++) {
        if ((atomic_load(&s->state) & ~SEAT_CLOSING) >= SEAT_SUBMITTED)
            seat_rest(s);
    }
}

static void closed(void *user) {
    sl_generator *g = user;
    void (*on_closed)(void *) = g->on_closed;
    void *on_closed_user = g->on_closed_user;
    drop_requests(g);
    generator_release(g);
    if (on_closed)
        on_closed(on_closed_user);
}

void sl_generator_close(sl_generator *g, void (*on_closed)(void *user), void *user) {
    if (!g)
        return;
    g->on_closed = on_closed;
    g->on_closed_user = user;
    atomic_store(&g->closed, true);
    sl_pipeline *p = g->pipeline;
    if (on_closed) {
        sl_pipeline_close(p, closed, g);
        return;
    }
    sl_pipeline_close(p, NULL, NULL);
    closed(g);
}

/* ---- Sequences ---- */

sl_status sl_sequence_open(sl_generator *g, sl_sequence **sequence) {
    for (sl_sequence *s = g->seats; s < g->seats + g->n_places; s++) {
        int state = SEAT_FREE;
        if (!atomic_compare_exchange_strong(&s->state, &state, SEAT_PREPARING))
            continue;
        atomic_fetch_add(&g->references, 1);
        atomic_store(&s->length, 0);
        atomic_store(&s->state, SEAT_IDLE);
        *sequence = s;
        return SL_OK;
    }
    *sequence = NULL;
    return sl_fail(SL_BUSY,
                   "no place is free: all %d sequences of the generator are open; close one, or open the generator "
                   "with more (sequences)",
                   g->n_places);
}

void seat_move(sl_sequence *s, int state) {
    int now = atomic_load(&s->state);
    while (!atomic_compare_exchange_weak(&s->state, &now, (now & SEAT_CLOSING) | state))
        ;
}

void seat_rest(sl_sequence *s) {
    sl_generator *g = s->generator;
    int now = atomic_load(&s->state);
    while (!atomic_compare_exchange_weak(&s->state, &now, now & SEAT_CLOSING ? SEAT_FREE : SEAT_IDLE))
        ;
    if (now & SEAT_CLOSING)
        generator_release(g);
}

void sl_sequence_close(sl_sequence *s) {
    if (!s)
        return;
    sl_generator *g = s->generator;
    int now = atomic_load(&s->state), then;
    do
        then = now == SEAT_IDLE ? SEAT_FREE : now | SEAT_CLOSING;
    while (!atomic_compare_exchange_weak(&s->state, &now, then));
    if (then == SEAT_FREE)
        generator_release(g);
    else if (!atomic_load(&g->closed))
        sl_pipeline_poke(g->pipeline);
}

int sl_sequence_length(const sl_sequence *s) {
    return atomic_load(&s->length);
}

sl_status sl_sequence_truncate(sl_sequence *s, int length) {
    int state = SEAT_IDLE, now = atomic_load(&s->length);
    if (length < 0 || length > now)
        return sl_fail(SL_INVALID, "a sequence of %d tokens can be cut to 0 to %d, not %d", now, now, length);
    if (!atomic_compare_exchange_strong(&s->state, &state, SEAT_PREPARING))
        return sl_fail(SL_BUSY, "the sequence has a job under way: cut it when that has ended");
    atomic_store(&s->length, length);
    seat_rest(s);
    return SL_OK;
}

/* ---- Requests ---- */

static sl_status check_ids(const sl_sequence *s, const int *ids, int n) {
    const sl_generator *g = s->generator;
    int length = atomic_load(&s->length);
    if (n < 1)
        return sl_fail(SL_INVALID, "generation needs at least one id to go on from");
    if (n > g->context - length)
        return sl_fail(SL_INVALID,
                       "%d ids do not fit: the sequence has %d of %d tokens of its context; pass fewer, cut the "
                       "sequence, or open the generator with a longer context",
                       n, length, g->context);
    for (int i = 0; i < n; i++)
        if (ids[i] < 0 || ids[i] >= g->info.n_vocab)
            return sl_fail(SL_INVALID, "id %d at index %d is not in the vocabulary: 0 to %d", ids[i], i,
                           g->info.n_vocab - 1);
    return SL_OK;
}

static sl_status check_params(const sl_generate_params *p) {
    if (p->max_tokens < 0 || p->top_k < 0 || p->n_stop_ids < 0)
        return sl_fail(SL_INVALID, "max_tokens, top_k and n_stop_ids must not be negative");
    if (!(p->temperature >= 0) || p->temperature > 1e6f)
        return sl_fail(SL_INVALID, "temperature %g is not in 0 to 1,000,000", (double)p->temperature);
    if (!(p->top_p >= 0 && p->top_p <= 1))
        return sl_fail(SL_INVALID, "top_p %g is not in 0 to 1", (double)p->top_p);
    return SL_OK;
}

static int *copy_ints(const int *ids, int n) {
    int *copy = sl_malloc((size_t)n * sizeof *copy);
    if (copy && n)
        memcpy(copy, ids, (size_t)n * sizeof *copy);
    return copy;
}

static request *request_create(sl_sequence *s, const int *ids, int n, const sl_generate_params *params) {
    const sl_generator *g = s->generator;
    int most = g->context - atomic_load(&s->length) - n + 1; /* the last one is drawn, and not fed */
    request *r = sl_calloc(1, sizeof *r);
    if (!r)
        return NULL;
    r->sequence = s;
    r->params = *params;
    r->max_tokens = params->max_tokens && params->max_tokens < most ? params->max_tokens : most;
    r->n_ids = n;
    r->ids = copy_ints(ids, n);
    r->params.stop_ids = copy_ints(params->stop_ids, params->n_stop_ids);
    r->tokens = sl_malloc((size_t)r->max_tokens * sizeof *r->tokens);
    if (g->logits)
        r->logits = sl_calloc((size_t)r->max_tokens, (size_t)g->info.n_vocab * sizeof(float));
    if (r->ids && r->params.stop_ids && r->tokens && (r->logits || !g->logits))
        return r;
    request_destroy(r);
    return NULL;
}

static void hand_in(sl_sequence *s, request *r) {
    sl_generator *g = s->generator;
    r->arrival = atomic_fetch_add(&g->arrivals, 1) + 1;
    s->request = r;
    pthread_mutex_lock(&g->lock);
    r->next = g->requests;
    g->requests = r;
    pthread_mutex_unlock(&g->lock);
    seat_move(s, SEAT_SUBMITTED);
    sl_pipeline_poke(g->pipeline);
}

/* Checks, and makes the request; *out is NULL unless it returns SL_OK. */
static sl_status prepare(sl_sequence *s, const int *ids, int n, const sl_generate_params *params, request **out) {
    static const sl_generate_params none;
    *out = NULL;
    params = params ? params : &none;
    if (atomic_load(&s->generator->closed))
        return sl_fail(SL_CANCELLED, "the generator of this sequence is closed");
    SL_TRY(check_ids(s, ids, n));
    SL_TRY(check_params(params));
    *out = request_create(s, ids, n, params);
    return *out ? SL_OK : SL_OUT_OF_MEMORY;
}

sl_status sl_generate(sl_sequence *s, const int *ids, int n, const sl_generate_params *params, sl_token_fn on_token,
                      sl_job_fn on_done, void *user, sl_job **job) {
    int state = SEAT_IDLE;
    request *r;
    sl_job *begun;
    if (!atomic_compare_exchange_strong(&s->state, &state, SEAT_PREPARING))
        return sl_fail(SL_BUSY, "the sequence has a job under way: wait for it, or cancel it");
    sl_status status = prepare(s, ids, n, params, &r);
    if (status == SL_OK)
        status = sl_job_begin(s->generator->pipeline, on_done, user, &begun);
    if (status != SL_OK || !r) {
        request_destroy(r);
        seat_rest(s);
        return status;
    }
    r->on_token = on_token;
    r->user = user;
    r->job = begun;
    if (job)
        *job = begun; /* before it can end */
    hand_in(s, r);
    if (!job)
        sl_job_release(begun);
    return SL_OK;
}
