/* Generation: a model with seeded weights, split over two devices, goes on from three prompts at once. The ids of a
 * sequence do not depend on its company: the second is generated again alone. */
#include <sluice/sluice.h>
#include <stdio.h>
#include <string.h>

enum { N = 12, SEQUENCES = 3 };

typedef struct text {
    int ids[N], n;
} text;

static void on_token(sl_sequence *sequence, int id, const float *logits, void *user) {
    text *t = user;
    (void)sequence;
    (void)logits;
    t->ids[t->n++] = id;
}

static int complain(void) {
    fprintf(stderr, "%s\n", sl_last_error());
    return 1;
}

static const int prompts[SEQUENCES][3] = {{1, 2, 3}, {4, 5, 6}, {7, 8, 9}};
static const sl_generate_params params = {.max_tokens = N, .temperature = 0.8f, .seed = 42, .ignore_eos = true};

/* The sequences `first` to `last`, together. */
static int generate(sl_generator *g, int first, int last, text *texts) {
    sl_sequence *sequences[SEQUENCES];
    sl_job *jobs[SEQUENCES];
    for (int i = first; i <= last; i++) {
        sl_generate_params p = params;
        p.number = i; /* what is drawn depends on (seed, number, position) alone */
        if (sl_sequence_open(g, &sequences[i]) != SL_OK ||
            sl_generate(sequences[i], prompts[i], 3, &p, on_token, NULL, &texts[i], &jobs[i]) != SL_OK)
            return complain();
    }
    for (int i = first; i <= last; i++) {
        if (sl_job_wait(jobs[i], SL_FOREVER) != SL_OK)
            return complain();
        sl_job_release(jobs[i]);
        printf("sequence %d keeps %d tokens\n", i, sl_sequence_length(sequences[i]));
        sl_sequence_close(sequences[i]);
    }
    return 0;
}

int main(void) {
    const sl_synth_options shape = {.family = "llama",
                                    .n_layers = 4,
                                    .n_embd = 32,
                                    .n_ff = 64,
                                    .n_heads = 4,
                                    .n_kv_heads = 2,
                                    .n_vocab = 100,
                                    .n_context = 32,
                                    .seed = 1};
    const sl_device devices[] = {{SL_CPU, 0}, {SL_CPU, 1}};
    sl_device layers[4];
    sl_model *model;
    sl_generator *together, *alone;
    static text texts[SEQUENCES], again[SEQUENCES];
    if (sl_model_synth("example-model", &shape) != SL_OK || sl_model_open("example-model", &model) != SL_OK ||
        sl_model_place(model, 2, devices, NULL, NULL, layers) != SL_OK)
        return complain();
    const sl_generator_options many = {.layer_devices = layers, .sequences = SEQUENCES};
    const sl_generator_options one = {.sequences = 1};
    if (sl_generator_open(model, &many, &together) != SL_OK || sl_generator_open(model, &one, &alone) != SL_OK)
        return complain();
    int rc = generate(together, 0, SEQUENCES - 1, texts) || generate(alone, 1, 1, again);
    sl_generator_close(together, NULL, NULL); /* after this all tokens have been handed over */
    sl_generator_close(alone, NULL, NULL);
    sl_model_release(model);
    printf("sequence 1 has %d tokens, alone on one device %s\n", texts[1].n,
           memcmp(&texts[1], &again[1], sizeof(text)) == 0 ? "the same" : "others");
    return rc;
}
