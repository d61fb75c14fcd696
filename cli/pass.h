/* One pass of `sluice run`: sequences through a generator, and what came out. */
#ifndef CLI_PASS_H
#define CLI_PASS_H

#include "cli.h"

typedef struct prompt {
    int *ids;
    int n;
} prompt;

typedef struct outcome { /* of one sequence */
    int *ids;
    int n, capacity;
    uint64_t *digests; /* [capacity] of each token's logits, where they were asked for; else NULL */
    bool failed;       /* out of memory while it was noted */
} outcome;

typedef struct share { /* of a device's time */
    char device[SL_DEVICE_TEXT];
    double busy;
} share;

typedef struct pass {
    /* In. */
    sl_model *model;
    const sl_device *layers;
    sl_generator_options options;
    sl_generate_params params;
    const prompt *prompts; /* sequence i starts with prompts[i % n_prompts] */
    int n_prompts;
    const sl_vocab *stream; /* print the text of the one sequence as it comes; NULL: do not */
    bool show_progress;
    /* Out, freed by pass_free. */
    outcome *outcomes; /* [options.sequences] */
    share *shares;
    int n_shares;
    double seconds; /* virtual ones on simulated devices */
    bool interrupted;
} pass;

int pass_run(pass *p); /* an exit code */
void pass_free(pass *p);
uint64_t pass_tokens(const pass *p);

/* The text of an outcome's ids after the last id of its prompt: valid UTF-8 if `clean`, where bytes that are no
 * character become U+FFFD. The caller frees; NULL when there is no memory. */
char *pass_text(const pass *p, int i, const sl_vocab *vocab, bool clean, size_t *bytes);

#endif
