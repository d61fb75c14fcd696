/* Claims about generation: the published ids and logits of stories260K for every split, number of sequences and chunk;
 * what a sequence keeps; what is refused. The model is in the shared test data; without it the tests are skipped, but
 * for those on a synthetic model. */
#include "support.h"
#include <jansson.h>
#include <math.h>
#include <pthread.h>
#include <sluice/generate.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_IDS = 512, MAX_SEQUENCES = 16 };

typedef struct transcript { /* of one request */
    int ids[MAX_IDS];
    int n;
    const float *expected; /* [n][512] logits to be met, or NULL */
    double worst;
    bool ended;
} transcript;

/* A job's last callbacks may come after sl_job_wait: a transcript is whole when the job's own callback has run. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t some_ended = PTHREAD_COND_INITIALIZER;

static void note_end(sl_job *job, sl_status status, const char *message, void *user) {
    (void)job, (void)status, (void)message;
    pthread_mutex_lock(&lock);
    ((transcript *)user)->ended = true;
    pthread_cond_broadcast(&some_ended);
    pthread_mutex_unlock(&lock);
}

static void note_token(sl_sequence *sequence, int id, const float *logits, void *user) {
    transcript *t = user;
    (void)sequence;
    if (t->expected && logits)
        for (int i = 0; i < 512; i++)
            t->worst = fmax(t->worst, fabs((double)logits[i] - (double)t->expected[t->n * 512 + i]));
    if (t->n < MAX_IDS)
        t->ids[t->n] = id;
    t->n++;
}

static sl_model *stories(void) {
    char *folder = test_shared("models/stories260K");
    if (!folder)
        return NULL;
    sl_model *model = NULL;
    ck_assert_msg(sl_model_open(folder, &model) == SL_OK, "%s", sl_last_error());
    free(folder);
    return model;
}

static sl_generator *ring(sl_model *model, sl_device_kind kind, int n_devices, sl_generator_options o) {
    sl_device devices[8], layers[64];
    sl_generator *g = NULL;
    for (int i = 0; i < n_devices; i++)
        devices[i] = (sl_device){kind, i};
    ck_assert_msg(sl_model_place(model, n_devices, devices, NULL, NULL, layers) == SL_OK, "%s", sl_last_error());
    o.layer_devices = layers;
    ck_assert_msg(sl_generator_open(model, &o, &g) == SL_OK, "%s", sl_last_error());
    return g;
}

static sl_job *begin(sl_sequence *s, const int *ids, int n, const sl_generate_params *p, transcript *t) {
    sl_job *job = NULL;
    t->ended = false;
    ck_assert_msg(sl_generate(s, ids, n, p, note_token, note_end, t, &job) == SL_OK, "%s", sl_last_error());
    return job;
}

static sl_status wait_for(sl_job *job, transcript *t) {
    sl_status status = sl_job_wait(job, SL_FOREVER);
    pthread_mutex_lock(&lock);
    while (!t->ended)
        pthread_cond_wait(&some_ended, &lock);
    pthread_mutex_unlock(&lock);
    sl_job_release(job);
    return status;
}

static void end(sl_job *job, transcript *t) {
    ck_assert_msg(wait_for(job, t) == SL_OK, "%s", sl_last_error());
}

typedef struct reference {
    int prompt[MAX_IDS], n_prompt, ids[MAX_IDS], n; /* ids: the prompt's too */
} reference;

static int read_references(reference *out, int capacity) {
    char *path = test_shared("models/stories260K/ref_runc_prompts.json");
    json_error_t error;
    json_t *root = json_load_file(path, 0, &error), *cases = json_object_get(root, "cases");
    ck_assert_ptr_nonnull(root);
    int n = (int)json_array_size(cases);
    ck_assert_int_le(n, capacity);
    for (int c = 0; c < n; c++) {
        json_t *one = json_array_get(cases, (size_t)c), *prompt = json_object_get(one, "prompt_tokens"),
               *ids = json_object_get(one, "tokens");
        out[c].n_prompt = (int)json_array_size(prompt);
        out[c].n = (int)json_array_size(ids);
        for (int i = 0; i < out[c].n_prompt; i++)
            out[c].prompt[i] = (int)json_integer_value(json_array_get(prompt, (size_t)i));
        for (int i = 0; i < out[c].n; i++)
            out[c].ids[i] = (int)json_integer_value(json_array_get(ids, (size_t)i));
    }
    json_decref(root);
    free(path);
    return n;
}

static void equals_reference(const transcript *t, const reference *r, int n) {
    ck_assert_int_ge(t->n, n);
    for (int i = 0; i < n && r->n_prompt + i < r->n; i++)
        ck_assert_msg(t->ids[i] == r->ids[r->n_prompt + i], "token %d is %d, not %d", i, t->ids[i],
                      r->ids[r->n_prompt + i]);
}

START_TEST(the_published_ids_for_every_split_and_number_of_sequences) {
    sl_model *model = stories();
    if (!model)
        SKIP("no SLUICE_TEST_DATA");
    static reference refs[32];
    read_references(refs, 32);
    const int bos = 1;
    for (int devices = 1; devices <= 5; devices++)
        for (int sequences = 1; sequences <= 8; sequences += devices == 2 ? 1 : 7) {
            sl_generator *g = ring(model, SL_CPU, devices, (sl_generator_options){.sequences = sequences});
            sl_sequence *s[8];
            sl_job *jobs[8];
            static transcript t[8];
            memset(t, 0, sizeof t);
            for (int i = 0; i < sequences; i++) {
                ck_assert_int_eq(sl_sequence_open(g, &s[i]), SL_OK);
                jobs[i] = begin(s[i], &bos, 1, &(sl_generate_params){.max_tokens = 199}, &t[i]);
            }
            for (int i = 0; i < sequences; i++)
                end(jobs[i], &t[i]);
            for (int i = 0; i < sequences; i++)
                sl_sequence_close(s[i]);
            sl_generator_close(g, NULL, NULL);
            for (int i = 0; i < sequences; i++) {
                ck_assert_int_eq(t[i].n, 199);
                equals_reference(&t[i], &refs[0], 199);
            }
        }
    sl_model_release(model);
}
END_TEST

START_TEST(the_prompts_ids_whatever_the_chunk) {
    sl_model *model = stories();
    if (!model)
        SKIP("no SLUICE_TEST_DATA");
    static reference refs[32];
    static transcript t[32];
    int n = read_references(refs, 32);
    static const int chunks[] = {1, 3, 32};
    for (int c = 0; c < 3; c++) {
        sl_generator *g = ring(model, SL_CPU, 3, (sl_generator_options){.sequences = n, .chunk = chunks[c]});
        sl_sequence *s[32];
        sl_job *jobs[32];
        const int bos = 1;
        memset(t, 0, sizeof t);
        for (int i = 0; i < n; i++) {
            ck_assert_int_eq(sl_sequence_open(g, &s[i]), SL_OK);
            sl_generate_params p = {.max_tokens = 120, .stop_ids = &bos, .n_stop_ids = 1, .ignore_eos = true};
            jobs[i] = begin(s[i], refs[i].prompt, refs[i].n_prompt, &p, &t[i]);
        }
        for (int i = 0; i < n; i++)
            end(jobs[i], &t[i]);
        sl_generator_close(g, NULL, NULL);
        for (int i = 0; i < n; i++) {
            sl_sequence_close(s[i]); /* after the generator, as is allowed */
            equals_reference(&t[i], &refs[i], t[i].n);
            ck_assert(t[i].n == 120 || refs[i].n_prompt + t[i].n <= refs[i].n);
        }
    }
    sl_model_release(model);
}
END_TEST

START_TEST(the_logits_meet_the_reference) {
    sl_model *model = stories();
    if (!model)
        SKIP("no SLUICE_TEST_DATA");
    char *path = test_shared("models/stories260K/ref_runc_logits_200x512_f32le.bin");
    size_t bytes;
    char *logits = test_read_file(path, &bytes);
    ck_assert_uint_eq(bytes, 200 * 512 * 4);
    for (int devices = 1; devices <= 5; devices += 2) {
        sl_generator *g = ring(model, SL_CPU, devices, (sl_generator_options){.logits = true});
        sl_sequence *s;
        static transcript t;
        const int bos = 1;
        t = (transcript){.expected = (const float *)(const void *)logits};
        ck_assert_int_eq(sl_sequence_open(g, &s), SL_OK);
        end(begin(s, &bos, 1, &(sl_generate_params){.max_tokens = 200}, &t), &t);
        sl_sequence_close(s);
        sl_generator_close(g, NULL, NULL);
        ck_assert_int_eq(t.n, 200);
        ck_assert_double_le(t.worst, 1e-4);
    }
    free(logits);
    free(path);
    sl_model_release(model);
}
END_TEST

/* A small model of our own, so that a fresh clone tests the rest. */
static sl_model *small(void) {
    const char *folder = "generate-test-model";
    sl_model *model = NULL;
    sl_synth_options o = {.family = "llama",
                          .n_layers = 4,
                          .n_embd = 32,
                          .n_ff = 48,
                          .n_heads = 4,
                          .n_kv_heads = 2,
                          .n_vocab = 97,
                          .n_context = 64,
                          .dtype = SL_F32,
                          .seed = 7};
    ck_assert_msg(sl_model_synth(folder, &o) == SL_OK, "%s", sl_last_error());
    ck_assert_msg(sl_model_open(folder, &model) == SL_OK, "%s", sl_last_error());
    return model;
}

static void sample_alone(sl_model *model, const int *ids, int n, const sl_generate_params *p, transcript *t) {
    sl_generator *g = ring(model, SL_CPU, 1, (sl_generator_options){.sequences = 1});
    sl_sequence *s;
    ck_assert_int_eq(sl_sequence_open(g, &s), SL_OK);
    end(begin(s, ids, n, p, t), t);
    sl_sequence_close(s);
    sl_generator_close(g, NULL, NULL);
}

START_TEST(draws_do_not_depend_on_company_or_split) {
    sl_model *model = small();
    uint64_t random = test_seed();
    static transcript alone[6], together[6];
    int ids[6][20], n[6];
    sl_generate_params p[6];
    for (int i = 0; i < 6; i++) {
        n[i] = 1 + (int)test_below(&random, 20);
        for (int k = 0; k < n[i]; k++)
            ids[i][k] = (int)test_below(&random, 97);
        p[i] = (sl_generate_params){
            .max_tokens = 30, .temperature = 0.9f, .top_p = 0.95f, .seed = 11, .number = i, .ignore_eos = true};
        sample_alone(model, ids[i], n[i], &p[i], &alone[i]);
    }
    for (int devices = 2; devices <= 4; devices++) {
        sl_generator *g = ring(model, SL_CPU, devices, (sl_generator_options){.sequences = 6, .chunk = 5});
        sl_sequence *s[6];
        sl_job *jobs[6];
        memset(together, 0, sizeof together);
        for (int i = 0; i < 6; i++) {
            ck_assert_int_eq(sl_sequence_open(g, &s[i]), SL_OK);
            jobs[i] = begin(s[i], ids[i], n[i], &p[i], &together[i]);
        }
        for (int i = 0; i < 6; i++)
            end(jobs[i], &together[i]);
        for (int i = 0; i < 6; i++)
            sl_sequence_close(s[i]);
        sl_generator_close(g, NULL, NULL);
        for (int i = 0; i < 6; i++) {
            ck_assert_int_eq(together[i].n, 30);
            ck_assert_int_eq(memcmp(alone[i].ids, together[i].ids, sizeof(int) * 30), 0);
        }
    }
    ck_assert_int_ne(memcmp(alone[0].ids, alone[1].ids, sizeof(int) * 30), 0);
    sl_model_release(model);
}
END_TEST

START_TEST(a_conversation_goes_on_from_where_it_was) {
    sl_model *model = small();
    static transcript whole, first, second, lost;
    const int prompt[] = {5, 6, 7};
    sample_alone(model, prompt, 3, &(sl_generate_params){.max_tokens = 24, .ignore_eos = true}, &whole);
    sl_generator *g = ring(model, SL_CPU, 2, (sl_generator_options){.sequences = 1});
    sl_sequence *s, *none;
    ck_assert_int_eq(sl_sequence_open(g, &s), SL_OK);
    ck_assert_int_eq(sl_sequence_open(g, &none), SL_BUSY);
    end(begin(s, prompt, 3, &(sl_generate_params){.max_tokens = 10, .ignore_eos = true}, &first), &first);
    ck_assert_int_eq(sl_sequence_length(s), 12); /* the last token is drawn and not fed */

    sl_job *job = begin(s, prompt, 3, &(sl_generate_params){.ignore_eos = true}, &lost);
    sl_job_cancel(job);
    sl_status how = wait_for(job, &lost);
    ck_assert(how == SL_CANCELLED || how == SL_OK);
    if (how == SL_OK)
        ck_assert_int_eq(sl_sequence_truncate(s, 12), SL_OK);
    ck_assert_int_eq(sl_sequence_length(s), 12);

    end(begin(s, &first.ids[9], 1, &(sl_generate_params){.max_tokens = 14, .ignore_eos = true}, &second), &second);
    sl_sequence_close(s);
    ck_assert_int_eq(sl_sequence_open(g, &s), SL_OK);
    ck_assert_int_eq(sl_sequence_length(s), 0);
    sl_generator_close(g, NULL, NULL);
    sl_sequence_close(s);
    ck_assert_int_eq(memcmp(whole.ids, first.ids, 10 * sizeof(int)), 0);
    ck_assert_int_eq(memcmp(whole.ids + 10, second.ids, 14 * sizeof(int)), 0);
    sl_model_release(model);
}
END_TEST

START_TEST(a_full_context_ends_the_request) {
    sl_model *model = small();
    static transcript t;
    const int id = 3;
    sl_generator *g = ring(model, SL_CPU, 2, (sl_generator_options){.context = 16});
    sl_sequence *s;
    ck_assert_int_eq(sl_sequence_open(g, &s), SL_OK);
    end(begin(s, &id, 1, &(sl_generate_params){.ignore_eos = true}, &t), &t);
    ck_assert_int_eq(t.n, 16);
    ck_assert_int_eq(sl_sequence_length(s), 16);
    sl_job *job;
    ck_assert_int_eq(sl_generate(s, &id, 1, NULL, note_token, NULL, &t, &job), SL_INVALID);
    ck_assert_ptr_nonnull(strstr(sl_last_error(), "context"));
    sl_sequence_close(s);
    sl_generator_close(g, NULL, NULL);
    sl_model_release(model);
}
END_TEST

START_TEST(bad_requests_are_refused_by_name) {
    sl_model *model = small();
    sl_generator *g = ring(model, SL_CPU, 2, (sl_generator_options){0});
    sl_sequence *s;
    sl_job *job;
    const int bad = 97, good = 1;
    ck_assert_int_eq(sl_sequence_open(g, &s), SL_OK);
    ck_assert_int_eq(sl_generate(s, &bad, 1, NULL, NULL, NULL, NULL, &job), SL_INVALID);
    ck_assert_ptr_nonnull(strstr(sl_last_error(), "id 97"));
    ck_assert_int_eq(sl_generate(s, &good, 0, NULL, NULL, NULL, NULL, &job), SL_INVALID);
    ck_assert_int_eq(sl_generate(s, &good, 1, &(sl_generate_params){.top_p = 2}, NULL, NULL, NULL, &job), SL_INVALID);
    ck_assert_int_eq(sl_generate(s, &good, 1, &(sl_generate_params){.temperature = -1}, NULL, NULL, NULL, &job),
                     SL_INVALID);
    ck_assert_int_eq(sl_sequence_truncate(s, 1), SL_INVALID);
    sl_sequence_close(s);
    sl_generator_close(g, NULL, NULL);
    sl_generator_options o = {.context = 65};
    ck_assert_int_eq(sl_generator_open(model, &o, &g), SL_INVALID);
    o = (sl_generator_options){.sequences = -1};
    ck_assert_int_eq(sl_generator_open(model, &o, &g), SL_INVALID);
    sl_model_release(model);
}
END_TEST

START_TEST(simulated_devices_generate_zeros_and_a_time) {
    sl_model *model = small();
    sl_generator *g = ring(model, SL_SIM, 4, (sl_generator_options){.sequences = 4});
    sl_sequence *s[4];
    sl_job *jobs[4];
    static transcript t[4];
    const int id = 3;
    for (int i = 0; i < 4; i++) {
        ck_assert_int_eq(sl_sequence_open(g, &s[i]), SL_OK);
        jobs[i] = begin(s[i], &id, 1, &(sl_generate_params){.max_tokens = 20}, &t[i]);
    }
    for (int i = 0; i < 4; i++) {
        end(jobs[i], &t[i]);
        sl_sequence_close(s[i]);
    }
    sl_generator_close(g, NULL, NULL);
    for (int i = 0; i < 4; i++) {
        ck_assert_int_eq(t[i].n, 20);
        for (int k = 0; k < 20; k++)
            ck_assert_int_eq(t[i].ids[k], 0);
    }
    sl_model_release(model);
}
END_TEST

START_TEST(closing_ends_what_runs) {
    sl_model *model = small();
    static transcript t[4];
    const int id = 3;
    for (int round = 0; round < 20; round++) {
        sl_generator *g = ring(model, SL_CPU, 2, (sl_generator_options){.sequences = 4});
        sl_sequence *s[4];
        sl_job *jobs[4];
        for (int i = 0; i < 4; i++) {
            ck_assert_int_eq(sl_sequence_open(g, &s[i]), SL_OK);
            jobs[i] = begin(s[i], &id, 1, &(sl_generate_params){.ignore_eos = true}, &t[i]);
        }
        sl_sequence_close(s[0]);
        sl_generator_close(g, NULL, NULL);
        for (int i = 0; i < 4; i++) {
            sl_status how = SL_OK;
            ck_assert(sl_job_ended(jobs[i], &how, NULL));
            ck_assert(how == SL_CANCELLED || how == SL_OK);
            sl_job_release(jobs[i]);
            if (i)
                sl_sequence_close(s[i]);
        }
    }
    sl_model_release(model);
}
END_TEST

int main(void) {
    const test_case cases[] = {
        TEST_FOR(the_published_ids_for_every_split_and_number_of_sequences, 240),
        TEST_FOR(the_prompts_ids_whatever_the_chunk, 120),
        TEST(the_logits_meet_the_reference),
        TEST(draws_do_not_depend_on_company_or_split),
        TEST(a_conversation_goes_on_from_where_it_was),
        TEST(a_full_context_ends_the_request),
        TEST(bad_requests_are_refused_by_name),
        TEST(simulated_devices_generate_zeros_and_a_time),
        TEST(closing_ends_what_runs),
    };
    setenv("SLUICE_CPU_DEVICES", "5", 1);
    return test_main("generate", cases, sizeof cases / sizeof *cases);
}
