/* What a generator's two files share: generate.c is its API (any thread, the loop), generate_feed.c its hooks (the
 * driver's thread).
 *
 *   a user's thread                     the driver's thread                       the loop
 *   sl_generate: IDLE -> PREPARING
 *     request made    -> SUBMITTED      next: -> RUNNING; prompt chunks, then a
 *     poke                              row a turn
 *                                       ended: token -> request, n_tokens + 1     deliver: tokens
 *                                         last one: -> IDLE, sl_job_end           [delivered, n_tokens) to on_token
 *
 * A seat is the user's in IDLE and PREPARING and the driver's in SUBMITTED and RUNNING. A request is written by the
 * user before SUBMITTED and by the driver after; the loop reads tokens below n_tokens, and drops a request once it is
 * finished and all its tokens are delivered. */
#ifndef MODELS_GENERATE_H
#define MODELS_GENERATE_H

#include <pthread.h>
#include <sluice/generate.h>
#include <sluice/ops.h>
#include <stdatomic.h>

typedef struct request {
    struct request *next; /* of the generator's list, newest first */
    sl_sequence *sequence;
    sl_token_fn on_token;
    void *user;
    sl_job *job;
    uint64_t arrival;
    sl_generate_params params; /* stop_ids: own memory */
    int *ids, n_ids;           /* what is fed first */
    int *tokens, max_tokens;   /* [max_tokens] what came out */
    float *logits;             /* [max_tokens][n_vocab], or NULL */
    _Atomic int n_tokens;
    _Atomic bool finished;
    int delivered; /* the loop's */
} request;

/* SEAT_CLOSING beside a state: its user has closed it, and it becomes FREE instead of IDLE. */
enum seat_state { SEAT_FREE, SEAT_IDLE, SEAT_PREPARING, SEAT_SUBMITTED, SEAT_RUNNING, SEAT_CLOSING = 8 };

struct sl_sequence {
    sl_generator *generator;
    int place;
    _Atomic int state;
    _Atomic int length; /* rows of the states that are kept; a request moves it when it ends well */
    request *request;

    /* While RUNNING. */
    int fed;        /* of request->ids */
    int position;   /* of the next row */
    int group;      /* whose turns it takes; -1 until the last part of the prompt is on its way */
    int in_flight;  /* micro-batches that hold rows of it */
    bool waiting;   /* for a token that is on its way */
    int last_id;    /* the token to be fed next */
    bool stopping;  /* nothing more is fed; it ends when nothing is in flight */
    sl_status fate; /* how it ends */
    char message[256];
};

typedef struct turn_part { /* rows of one sequence in a micro-batch */
    sl_sequence *sequence;
    int head; /* row of the head's outputs; -1: no token is asked for */
} turn_part;

typedef struct turn { /* a micro-batch on its way: memory that inputs and outputs point at, one for each group */
    int n_parts, n_rows, n_heads;
    turn_part *parts; /* [places] */
    int32_t *ids;     /* [max_rows] */
    int32_t *last;    /* [places] */
    int32_t *ints;    /* [places][SL_SAMPLE_INTS] */
    float *floats;    /* [places][SL_SAMPLE_FLOATS] */
    int32_t *next;    /* [places] */
    float *logits;    /* [places][n_vocab], or NULL */
} turn;

struct sl_generator {
    _Atomic int references; /* the opener's, until the pipeline is closed, and one for each sequence that is open */
    sl_model *model;
    sl_model_info info;
    sl_pipeline *pipeline;
    bool simulated;
    int n_places, groups, chunk, context, max_rows;
    bool logits;
    sl_sequence *seats;  /* [n_places] */
    turn *turns;         /* [groups] */
    sl_tensor *memory;   /* pinned: of all turns */
    int *group_sizes;    /* [groups] sequences whose turns they are; the driver's */
    int n_running;       /* the driver's */
    _Atomic bool closed; /* the pipeline is no longer to be called */
    _Atomic uint64_t arrivals;
    pthread_mutex_t lock; /* of the list's head: sl_generate and the loop */
    request *requests;
    void (*on_closed)(void *user);
    void *on_closed_user;
};

/* The hooks of sl_feed; `user` is the generator. */
sl_feed_answer generator_next(void *user, uint64_t k, sl_micro_batch *mb);
void generator_ended(void *user, uint64_t k, sl_status status, const char *message);

/* Any thread. */
void generator_release(sl_generator *generator);
void seat_move(sl_sequence *sequence, int state); /* keeps SEAT_CLOSING */
void seat_rest(sl_sequence *sequence);            /* to IDLE, or gives the place back */

#endif
