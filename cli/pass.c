/* See pass.h. The main thread waits; tokens are noted on the loop, which is another thread: a sequence's outcome is the
 * loop's until its job's callback has run. */
#include "pass.h"
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    LOOK_NS = 50000000, /* how often the waiting thread looks at Ctrl-C */
    MOST_LOOKS = 200    /* that it drains for, after one */
};

static volatile sig_atomic_t interrupted;

/* The first asks, the second insists: what stands still cannot be drained. */
static void on_interrupt(int signal_number) {
    (void)signal_number;
    if (interrupted)
        _exit(EXIT_INTERRUPTED);
    interrupted = 1;
}

typedef struct under_way { /* one sequence */
    const pass *p;
    outcome *out;
    int last_id;
    sl_sequence *sequence;
    sl_job *job;
    _Atomic bool done; /* its callback has run */
} under_way;

/* FNV-1a over the bits of the logits. */
static uint64_t digest(const float *logits, int n) {
    uint64_t hash = 0xcbf29ce484222325u;
    const unsigned char *bytes = (const unsigned char *)logits;
    for (size_t i = 0; i < (size_t)n * sizeof *logits; i++)
        hash = (hash ^ bytes[i]) * 0x100000001b3u;
    return hash;
}

static bool grow(outcome *o, bool with_digests) {
    int capacity = o->capacity ? 2 * o->capacity : 256;
    int *ids = realloc(o->ids, (size_t)capacity * sizeof *ids);
    o->ids = ids ? ids : o->ids;
    uint64_t *digests = with_digests ? realloc(o->digests, (size_t)capacity * sizeof *digests) : NULL;
    o->digests = digests ? digests : o->digests;
    if (!ids || (with_digests && !digests))
        return false;
    o->capacity = capacity;
    return true;
}

static void on_token(sl_sequence *sequence, int id, const float *logits, void *user) {
    under_way *w = user;
    outcome *o = w->out;
    (void)sequence;
    if (w->p->stream) {
        size_t bytes;
        const char *piece = sl_vocab_piece(w->p->stream, w->last_id, id, &bytes);
        fwrite(piece, 1, bytes, stdout);
        fflush(stdout);
    }
    w->last_id = id;
    if (o->failed || (o->n == o->capacity && !grow(o, logits != NULL))) {
        o->failed = true;
        return;
    }
    if (logits) {
        sl_model_info info;
        sl_model_get_info(w->p->model, &info);
        o->digests[o->n] = digest(logits, info.n_vocab);
    }
    o->ids[o->n++] = id;
}

static void on_done(sl_job *job, sl_status status, const char *message, void *user) {
    under_way *w = user;
    (void)job;
    (void)status;
    (void)message;
    atomic_store(&w->done, true);
}

static sl_status submit(pass *p, sl_generator *g, under_way *all) {
    for (int i = 0; i < p->options.sequences; i++) {
        under_way *w = &all[i];
        const prompt *from = &p->prompts[i % p->n_prompts];
        sl_generate_params params = p->params;
        params.number = i;
        w->p = p;
        w->out = &p->outcomes[i];
        w->last_id = from->ids[from->n - 1];
        SL_TRY(sl_sequence_open(g, &w->sequence));
        SL_TRY(sl_generate(w->sequence, from->ids, from->n, &params, on_token, on_done, w, &w->job));
    }
    return SL_OK;
}

static void show(const pass *p, const under_way *all) {
    int done = 0;
    for (int i = 0; i < p->options.sequences; i++)
        done += atomic_load(&all[i].done);
    fprintf(stderr, "\r%d of %d sequences done", done, p->options.sequences);
}

/* Each job to its end, in order; Ctrl-C cancels all and goes on waiting. */
static sl_status wait_for_all(pass *p, under_way *all) {
    sl_status first = SL_OK;
    char message[1024] = "";
    int looks = 0;
    for (int i = 0; i < p->options.sequences && all[i].job; i++) {
        sl_status status;
        while ((status = sl_job_wait(all[i].job, LOOK_NS)) == SL_TIMED_OUT) {
            if (p->show_progress)
                show(p, all);
            if (p->interrupted && ++looks > MOST_LOOKS) {
                cli_complain("interrupted; what is under way does not end, and is left");
                _exit(EXIT_INTERRUPTED);
            }
            if (!interrupted || p->interrupted)
                continue;
            p->interrupted = true;
            for (int k = i; k < p->options.sequences && all[k].job; k++)
                sl_job_cancel(all[k].job);
        }
        if (status == SL_OK || first != SL_OK || (status == SL_CANCELLED && p->interrupted))
            continue;
        first = status;
        snprintf(message, sizeof message, "%s", sl_last_error());
    }
    if (p->show_progress)
        fprintf(stderr, "\r\033[K");
    return first == SL_OK ? SL_OK : sl_fail(first, "%s", message);
}

static bool take_figures(pass *p, sl_pipeline *pipeline) {
    sl_pipeline_counts counts;
    sl_device_figures figures;
    sl_pipeline_get_counts(pipeline, &counts);
    p->seconds = (double)counts.wall_ns * 1e-9;
    p->shares = calloc((size_t)counts.n_devices + 1, sizeof *p->shares);
    for (int i = 0; p->shares && sl_pipeline_get_device(pipeline, i, &figures); i++) {
        sl_device_format(figures.device, p->shares[i].device);
        p->shares[i].busy = counts.wall_ns ? (double)figures.busy_ns / (double)counts.wall_ns : 0;
        p->n_shares = i + 1;
    }
    return p->shares != NULL;
}

static sl_status go(pass *p, sl_generator *g, under_way *all) {
    sl_pipeline *pipeline = sl_generator_pipeline(g);
    sl_pipeline_reset_figures(pipeline);
    char message[1024];
    sl_status status = submit(p, g, all);
    snprintf(message, sizeof message, "%s", sl_last_error());
    for (int i = 0; status != SL_OK && i < p->options.sequences && all[i].job; i++)
        sl_job_cancel(all[i].job);
    sl_status ended = wait_for_all(p, all);
    status = status == SL_OK ? ended : sl_fail(status, "%s", message);
    if (!take_figures(p, pipeline) && status == SL_OK)
        status = sl_fail(SL_OUT_OF_MEMORY, "out of memory");
    return status;
}

static void show_loading(uint64_t done, uint64_t total, void *user) {
    (void)user;
    fprintf(stderr, "\rloading %3d %%%s", total ? (int)(100 * done / total) : 100, done == total ? "\r\033[K" : "");
}

int pass_run(pass *p) {
    int n = p->options.sequences;
    sl_generator *g = NULL;
    under_way *all = calloc((size_t)n, sizeof *all);
    p->outcomes = calloc((size_t)n, sizeof *p->outcomes);
    if (!all || !p->outcomes) {
        free(all);
        return cli_fail(sl_fail(SL_OUT_OF_MEMORY, "out of memory"));
    }
    signal(SIGINT, on_interrupt);
    p->options.layer_devices = p->layers;
    p->options.pipeline.measure = true;
    p->options.pipeline.progress = p->show_progress ? show_loading : NULL;
    sl_status status = sl_generator_open(p->model, &p->options, &g);
    int code = EXIT_FINE;
    if (status == SL_OK)
        status = go(p, g, all);
    if (status != SL_OK)
        code = cli_fail(status);
    for (int i = 0; i < n; i++) {
        sl_sequence_close(all[i].sequence);
        sl_job_release(all[i].job);
    }
    sl_generator_close(g, NULL, NULL); /* after this the loop has delivered everything */
    for (int i = 0; i < n && code == EXIT_FINE; i++)
        if (p->outcomes[i].failed)
            code = cli_fail(sl_fail(SL_OUT_OF_MEMORY, "out of memory"));
    free(all);
    return code == EXIT_FINE && p->interrupted ? EXIT_INTERRUPTED : code;
}

void pass_free(pass *p) {
    for (int i = 0; p->outcomes && i < p->options.sequences; i++) {
        free(p->outcomes[i].ids);
        free(p->outcomes[i].digests);
    }
    free(p->outcomes);
    free(p->shares);
}

uint64_t pass_tokens(const pass *p) {
    uint64_t n = 0;
    for (int i = 0; i < p->options.sequences; i++)
        n += (uint64_t)p->outcomes[i].n;
    return n;
}
