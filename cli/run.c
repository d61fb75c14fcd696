/* `sluice run`: a model, split over devices, goes on from ids. */
#include "pass.h"
#include "placement.h"
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static placement where;
static cli_texts ids;
static const char *stop_ids, *vocab_path;
static int n_tokens = 64, sequences, patience_s, groups, chunk, context, top_k;
static float temperature, top_p = 1;
static uint64_t seed;
static bool as_json, verify, stats, ignore_eos;

static const cli_option options[] = {
    PLACEMENT_OPTIONS(where),
    {"ids", 0, CLI_TEXTS, &ids, 0, 0, "1,2,3", "ids to go on from; again for the next sequence (the model's BOS)"},
    {"tokens", 'n', CLI_COUNT, &n_tokens, 1, INT32_MAX, "N", "new tokens of each sequence (64)"},
    {"sequences", 0, CLI_COUNT, &sequences, 1, 65536, "N", "that travel at once; the default is one for each --ids"},
    {"patience", 0, CLI_COUNT, &patience_s, 1, 1000000, "S",
     "seconds that nothing may move before it counts as hung (30)"},
    {"temperature", 0, CLI_REAL, &temperature, 0, 1e6, "T", "0, the default: the likeliest token"},
    {"top-p", 0, CLI_REAL, &top_p, 0, 1, "P", "draw from the fewest tokens that reach P (1)"},
    {"top-k", 0, CLI_COUNT, &top_k, 0, INT32_MAX, "K", "draw from the K likeliest tokens; 0: all"},
    {"seed", 0, CLI_SEED, &seed, 0, 0, "N", "of the draws (0)"},
    {"stop-ids", 0, CLI_TEXT, &stop_ids, 0, 0, "1,2", "beside the model's own"},
    {"ignore-eos", 0, CLI_FLAG, &ignore_eos, 0, 0, NULL, "the model's own stop ids do not stop"},
    {"vocab", 0, CLI_TEXT, &vocab_path, 0, 0, "PATH", "tokenizer.json or tokNNN.bin; the default is the model's"},
    {"groups", 0, CLI_COUNT, &groups, 0, 4096, "N",
     "micro-batches on their way at once; 0: as many as fill the devices"},
    {"chunk", 0, CLI_COUNT, &chunk, 0, 65536, "N", "most rows of a prompt in a micro-batch; 0: 32"},
    {"context", 0, CLI_COUNT, &context, 0, 1 << 24, "N", "longest sequence; 0: the model's"},
    {"json", 0, CLI_FLAG, &as_json, 0, 0, NULL, "print JSON"},
    {"stats", 0, CLI_FLAG, &stats, 0, 0, NULL, "tokens a second and each device's busy share, on stderr"},
    {"verify", 0, CLI_FLAG, &verify, 0, 0, NULL, "run again on one device; exit 5 if a bit differs"},
};
enum { N_OPTIONS = sizeof options / sizeof *options };

static void help(void) {
    cli_print_options(options, N_OPTIONS);
}

/* ---- What is asked for ---- */

static int make_prompts(const sl_model *model, prompt **prompts, int *n) {
    sl_model_info info;
    sl_model_get_info(model, &info);
    *n = ids.n ? ids.n : 1;
    if (sequences == 0)
        sequences = *n;
    if (sequences < ids.n) {
        cli_complain("run: --ids is given %d times for %d sequences; give --sequences %d, or none", ids.n, sequences,
                     ids.n);
        return EXIT_USAGE;
    }
    *prompts = calloc((size_t)*n, sizeof **prompts);
    if (!*prompts)
        return cli_fail(sl_fail(SL_OUT_OF_MEMORY, "out of memory"));
    for (int i = 0; i < ids.n; i++)
        if (!cli_parse_ints("ids", ids.items[i], &(*prompts)[i].ids, &(*prompts)[i].n))
            return EXIT_USAGE;
    if (ids.n)
        return EXIT_FINE;
    if (info.bos_id < 0) {
        cli_complain("run: --ids is missing, and the model names no BOS id to begin with");
        return EXIT_USAGE;
    }
    if (info.bos_id >= info.n_vocab) {
        cli_complain("the model's config.json: bos_token_id is %d, and the vocabulary has %d ids", info.bos_id,
                     info.n_vocab);
        return EXIT_BAD_FILE;
    }
    (*prompts)[0] = (prompt){malloc(sizeof(int)), 1};
    if (!(*prompts)[0].ids)
        return cli_fail(sl_fail(SL_OUT_OF_MEMORY, "out of memory"));
    (*prompts)[0].ids[0] = info.bos_id;
    return EXIT_FINE;
}

static void free_prompts(prompt *prompts, int n) {
    for (int i = 0; prompts && i < n; i++)
        free(prompts[i].ids);
    free(prompts);
}

static int check_vocab(const sl_vocab *vocab, int n_vocab) {
    int size = sl_vocab_size(vocab);
    if (size > 0 && size < n_vocab)
        cli_complain("warning: the vocabulary has %d ids and the model %d: the others have no text", size, n_vocab);
    if (size > 0)
        return EXIT_FINE;
    cli_complain("the vocabulary is empty; give another by --vocab");
    return EXIT_BAD_FILE;
}

/* The vocabulary that was asked for, or the model's own, without which ids are printed. */
static int open_vocab(const char *model_path, int n_vocab, sl_vocab **vocab) {
    char own[4096];
    struct stat st;
    *vocab = NULL;
    snprintf(own, sizeof own, "%s/tokenizer.json", model_path);
    if (!vocab_path && stat(own, &st) != 0)
        return EXIT_FINE;
    sl_status status = sl_vocab_open(vocab_path ? vocab_path : own, vocab);
    if (status == SL_OK)
        return check_vocab(*vocab, n_vocab);
    if (vocab_path)
        return cli_fail_file(status);
    cli_complain("warning: ids instead of text: %s", sl_last_error());
    return EXIT_FINE;
}

static int check_verify(void) {
    if (!verify || (!placement_mixes_kinds(&where) && !placement_is_simulated(&where)))
        return EXIT_FINE;
    cli_complain(placement_mixes_kinds(&where)
                     ? "run: --verify cannot hold for two kinds of device: they round differently"
                     : "run: --verify is for devices that compute; simulated ones have no data");
    return EXIT_USAGE;
}

/* ---- What came out ---- */

static json_t *sequence_json(const pass *p, int i, const sl_vocab *vocab) {
    const outcome *o = &p->outcomes[i];
    json_t *list = json_array();
    for (int k = 0; k < o->n; k++)
        json_array_append_new(list, json_integer(o->ids[k]));
    size_t bytes;
    char *text = vocab ? pass_text(p, i, vocab, true, &bytes) : NULL;
    json_t *one = json_pack("{s:o, s:o}", "ids", list, "text", text ? json_stringn(text, bytes) : json_null());
    free(text);
    return one;
}

static int print_json(const pass *p, const sl_vocab *vocab) {
    json_t *list = json_array(), *devices = json_array();
    for (int i = 0; i < p->options.sequences; i++)
        json_array_append_new(list, sequence_json(p, i, vocab));
    for (int i = 0; i < p->n_shares; i++)
        json_array_append_new(devices,
                              json_pack("{s:s, s:f}", "device", p->shares[i].device, "busy", p->shares[i].busy));
    double rate = p->seconds > 0 ? (double)pass_tokens(p) / p->seconds : 0;
    return cli_print_json(json_pack("{s:o, s:f, s:f, s:o}", "sequences", list, "tokens_per_s", rate, "seconds",
                                    p->seconds, "devices", devices));
}

static int print_plain(const pass *p, const sl_vocab *vocab) {
    for (int i = 0; i < p->options.sequences; i++) {
        const outcome *o = &p->outcomes[i];
        size_t bytes = 0;
        char *text = vocab && !p->stream ? pass_text(p, i, vocab, false, &bytes) : NULL;
        if (text)
            fwrite(text, 1, bytes, stdout);
        for (int k = 0; k < o->n && !vocab; k++)
            printf("%s%d", k ? " " : "", o->ids[k]);
        putchar('\n');
        free(text);
    }
    return EXIT_FINE; /* whether it could be written is seen at the end */
}

static void print_stats(const pass *p) {
    uint64_t n = pass_tokens(p);
    fprintf(stderr, "%llu tokens in %.3f s: %.1f tokens a second; busy:", (unsigned long long)n, p->seconds,
            p->seconds > 0 ? (double)n / p->seconds : 0);
    for (int i = 0; i < p->n_shares; i++)
        fprintf(stderr, "%s %s %.0f %%", i ? "," : "", p->shares[i].device, 100 * p->shares[i].busy);
    fprintf(stderr, "\n");
    if (p->seconds <= 0 && placement_is_simulated(&where))
        fprintf(stderr, "simulated devices and links take no time until SLUICE_SIM_TOPOLOGY gives them speeds\n");
}

static int compare(const pass *a, const pass *b) {
    for (int i = 0; i < a->options.sequences; i++) {
        const outcome *x = &a->outcomes[i], *y = &b->outcomes[i];
        for (int k = 0; k < x->n || k < y->n; k++) {
            if (k < x->n && k < y->n && x->ids[k] == y->ids[k] && x->digests[k] == y->digests[k])
                continue;
            cli_complain("verification failed: sequence %d differs at token %d from the same on one device", i, k);
            return EXIT_DIFFERS;
        }
    }
    fprintf(stderr, "verified: the same bits on one device\n");
    return EXIT_FINE;
}

static int verify_on_one_device(const pass *p) {
    pass one = *p;
    sl_device *layers = malloc((size_t)where.n_layers * sizeof *layers);
    if (!layers)
        return cli_fail(sl_fail(SL_OUT_OF_MEMORY, "out of memory"));
    for (int i = 0; i < where.n_layers; i++)
        layers[i] = where.layers[0];
    one.layers = layers;
    one.stream = NULL;
    one.outcomes = NULL;
    one.shares = NULL;
    one.n_shares = 0;
    int code = pass_run(&one);
    if (code == EXIT_FINE)
        code = compare(p, &one);
    pass_free(&one);
    free(layers);
    return code;
}

static int run_model(sl_model *model, const sl_vocab *vocab, const prompt *prompts, int n_prompts) {
    int *stops = NULL, n_stops = 0;
    if (stop_ids && !cli_parse_ints("stop-ids", stop_ids, &stops, &n_stops))
        return EXIT_USAGE;
    pass p = {.model = model,
              .layers = where.layers,
              .options = {.sequences = sequences,
                          .groups = groups,
                          .chunk = chunk,
                          .context = context,
                          .logits = verify,
                          .pipeline.patience_ns = (uint64_t)patience_s * 1000000000u},
              .params = {.max_tokens = n_tokens,
                         .temperature = temperature,
                         .top_p = top_p,
                         .top_k = top_k,
                         .seed = seed,
                         .stop_ids = stops,
                         .n_stop_ids = n_stops,
                         .ignore_eos = ignore_eos},
              .prompts = prompts,
              .n_prompts = n_prompts,
              .stream = sequences == 1 && !as_json ? vocab : NULL};
    p.show_progress = isatty(STDERR_FILENO) && !p.stream;
    int code = pass_run(&p);
    if (code == EXIT_FINE || code == EXIT_INTERRUPTED) {
        int printed = as_json ? print_json(&p, vocab) : print_plain(&p, vocab);
        if (stats)
            print_stats(&p);
        if (code == EXIT_FINE)
            code = printed;
    }
    if (code == EXIT_FINE && verify)
        code = verify_on_one_device(&p);
    pass_free(&p);
    free(stops);
    return code;
}

static int vocabulary_of(const sl_model *model) {
    sl_model_info info;
    sl_model_get_info(model, &info);
    return info.n_vocab;
}

static int run(int argc, char **argv) {
    const char *path;
    sl_model *model = NULL;
    sl_vocab *vocab = NULL;
    prompt *prompts = NULL;
    int n_prompts = 0, code = EXIT_USAGE;
    if (!cli_parse(argc, argv, options, N_OPTIONS, &path, 1, "MODEL"))
        goto done;
    sl_status status = sl_model_open(path, &model);
    code = status == SL_OK ? placement_resolve(&where, model) : cli_fail_file(status);
    if (code == EXIT_FINE)
        code = check_verify();
    if (code == EXIT_FINE)
        code = make_prompts(model, &prompts, &n_prompts);
    if (code == EXIT_FINE)
        code = open_vocab(path, vocabulary_of(model), &vocab);
    if (code == EXIT_FINE)
        code = run_model(model, vocab, prompts, n_prompts);
done:
    free_prompts(prompts, n_prompts);
    sl_vocab_close(vocab);
    free(where.layers);
    sl_model_release(model);
    cli_texts_free(&ids);
    return code;
}

const cli_command cli_run = {"run", "MODEL", "runs a model, split over devices, from ids on", run, help};
