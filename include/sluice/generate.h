/* Generation: sequences of tokens that travel a ring of devices.
 *
 *     sl_generator_open(model, &options, &generator);
 *     sl_sequence_open(generator, &sequence);                   takes a place
 *     sl_generate(sequence, ids, n, &params, on_token, on_done, user, &job);
 *     sl_job_wait(job, SL_FOREVER); sl_job_release(job);        its cache is kept: more ids continue it
 *     sl_sequence_close(sequence); sl_generator_close(generator, NULL, NULL);
 */
#ifndef SLUICE_GENERATE_H
#define SLUICE_GENERATE_H

#include <sluice/model.h>
#include <sluice/pipeline.h>

SL_BEGIN_C

typedef struct sl_generator sl_generator;
typedef struct sl_sequence sl_sequence;

/* Zeroes are the defaults. */
typedef struct sl_generator_options {
    const sl_device *layer_devices; /* [n_layers] from sl_model_place; NULL: all on cpu:0 */
    int sequences;                  /* places; 0: 1 */
    int groups;                     /* micro-batches on their way round at once; 0: as many as fill the pipeline */
    int chunk;                      /* most rows of a prompt in one micro-batch; 0: 32 */
    int context;                    /* longest sequence; 0: the model's */
    bool logits;                    /* on_token gets them */
    sl_pipeline_options pipeline;   /* plan.groups, rows and feed are set by the generator */
} sl_generator_options;

SL_API sl_status sl_generator_open(sl_model *model, const sl_generator_options *options, sl_generator **generator);
/* As sl_pipeline_close; jobs under way are cancelled. Its sequences still are to be closed, before it or after. */
SL_API void sl_generator_close(sl_generator *generator, void (*on_closed)(void *user), void *user);
SL_API sl_pipeline *sl_generator_pipeline(sl_generator *generator); /* for its figures and its plan */

/* A place: a sequence's part of every state. SL_BUSY when none is free. Any thread. */
SL_API sl_status sl_sequence_open(sl_generator *generator, sl_sequence **sequence);
SL_API void sl_sequence_close(sl_sequence *sequence);                     /* takes NULL; cancels what runs */
SL_API int sl_sequence_length(const sl_sequence *sequence);               /* tokens whose keys and values are kept */
SL_API sl_status sl_sequence_truncate(sl_sequence *sequence, int length); /* back to an earlier length; not while a job
                                                                             runs: SL_BUSY */

typedef struct sl_generate_params {
    int max_tokens;    /* 0: until a stop id or the context's end */
    float temperature; /* 0: greedy */
    float top_p;       /* 0 or 1: all */
    int top_k;         /* 0: all */
    uint64_t seed;
    int number; /* the sequence's number for the random draws: the same (seed, number, position) draws the same,
                   whatever else runs */
    const int *stop_ids; /* beside the model's own; copied */
    int n_stop_ids;
    bool ignore_eos; /* the model's own stop ids do not stop */
} sl_generate_params;

/* On the loop, a token at a time and in order, all before the job's callback. sl_job_wait may return before the last of
 * them: whoever reads what they left behind waits for the callback, or closes the generator first. `logits` [n_vocab],
 * which the id was drawn from, if the generator was opened with logits, else NULL; valid during the call. The stop id
 * itself is not handed over. */
typedef void (*sl_token_fn)(sl_sequence *sequence, int id, const float *logits, void *user);

/* Continues the sequence: first `ids` (copied; at least one), then new tokens. One job a sequence at a time (SL_BUSY).
 * Ends with SL_OK at max_tokens, at a stop id or when the context is full; after a cancel or an error the sequence has
 * the length that it had before. The last token that was drawn is part of the sequence only once it is fed: pass it
 * first when you continue. SL_INVALID: an id that is not in the vocabulary, or more ids than the context holds. */
SL_API sl_status sl_generate(sl_sequence *sequence, const int *ids, int n, const sl_generate_params *params,
                             sl_token_fn on_token, sl_job_fn on_done, void *user, sl_job **job);

SL_END_C
#endif
