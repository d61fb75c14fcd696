/* The plan while it is compiled. Each file of pipeline/plan_*.c is one pass; plan.c runs them in this order:
 *
 *     plan_stages.c   devices, the order of stages, who reads what
 *     plan_values.c   buffers and payloads: every value at its maker and at each device that reads it
 *     plan_depths.c   slots of the buffers that nobody gave a number
 *     plan_lags.c     how far stages stay behind where a device holds several that are not neighbours
 *     plan_order.c    dependencies from the one rule of order; the step, sorted: the proof
 *     plan_waits.c    which dependencies others imply; how far the host must run ahead
 *     plan_memory.c   where everything lies (stages inside: plan_inside.c), and whether it fits
 *     plan_program.c  the step as actions
 *
 * Everything about order follows from the operands of the payloads: which buffer, read or written, which piece. */
#ifndef SLI_PLAN_BUILD_H
#define SLI_PLAN_BUILD_H

#include "array.h"
#include "graph.h"
#include "heap.h"

enum {
    SLI_ALIGNMENT = 64,
    SLI_DEFAULT_DEPTH = 2,
    SLI_MAX_PIECES = 1024,
    SLI_MAX_WORKS = 4096,     /* combinations of slots of one payload */
    SLI_WORKS_WISHED = 256,   /* above it the planner's own depths are rounded up */
    SLI_CREDITS_LEAST = 64,   /* unless somebody asks for fewer */
    SLI_CREDITS_WISHED = 4096 /* enough for any latency: slots that hold more need not all be fed from ahead */
};

typedef struct sli_read { /* a stage reads a value that it does not make */
    int value;            /* of the graph; -1: the segments */
    int stage;
    int buffer; /* at the stage's device */
    int hops;   /* copies between its maker and its reader */
} sli_read;

typedef struct sli_at { /* a value at a device; those of one value are a list */
    int device, index;  /* index: a buffer; of a weight: of the plan's weights */
    int hops;
    int next;
} sli_at;

typedef struct sli_dep { /* `to` waits for `from` of `steps` steps before */
    int from, to;        /* payloads */
    int64_t batches;     /* the same in micro-batches: what does not depend on lags */
    int64_t steps;
    int buffer;   /* whose slots it is about; -1: none */
    bool is_back; /* a writer waits for a reader, as many slots before */
    bool hop;     /* should cost a step: see plan_lags.c */
    bool is_lane; /* order of one lane: needs no wait */
    bool is_gone; /* others imply it */
} sli_dep;

typedef struct sli_access { /* of a payload to a buffer */
    int payload;
    const sli_plan_operand *operand;
    bool writes;
} sli_access;

typedef struct sli_span { /* a first stage and a last one that it leads to: ends of a window */
    int first, last;      /* stages */
} sli_span;

typedef struct sli_build {
    const sl_graph *g;
    sl_plan *p;
    sli_plan_extras extras;
    const sli_platform *platform;
    sli_backend *backend;
    bool opened; /* the backend is ours to close */

    int *stage_order;         /* [stages] makers before readers */
    int *stage_payload;       /* [stages] */
    bool *is_first, *is_last; /* [stages] reads no other stage; no other stage reads it */
    int n_reads;
    sli_read *reads; /* in the order of stage_order */

    int n_at, *at_first; /* [values + 1]: the last are the segments'; -1: none */
    sli_at *at;
    bool *is_external; /* [values] made ones: some other stage or the host reads it */
    bool *fixed;       /* [buffers] somebody gave the depth */
    int *need;         /* [buffers] slots below which a reader stalls the way round */
    int *lane_link;    /* [lanes] of a staged link: its other end; SLI_HOST - 1: not staged */

    int n_spans;
    sli_span *spans;   /* only where there is a window */
    int *access_first; /* [buffers + 1] */
    sli_access *accesses;
    int n_deps;
    sli_dep *deps;
    int *out_first, *out; /* [payloads + 1], [deps]: dependencies by `from` */
    int *step;            /* [payloads] the order of the step */
    int *position;        /* [payloads] in it */
    int *record;          /* [payloads] its record's number on its lane in a step; 0: none */
    int64_t *far;         /* [payloads] of the last search */
    sli_heap heap;
    int64_t slots_hold; /* micro-batches that first and last payloads can be apart */
    int longest_way;    /* payloads that a micro-batch passes at most, one after the other */
} sli_build;

/* plan_stages.c */
sl_status sli_build_stages(sli_build *b);
int sli_build_at(const sli_build *b, int value, int device); /* of b->at; -1: not there. value -1: segments */
sl_status sli_build_add_at(sli_build *b, int value, sli_at at);
bool sli_build_uses_segments(const sl_graph *g, int stage);

/* plan_values.c */
sl_status sli_build_values(sli_build *b);
sl_status sli_build_extent(const sli_build *b, const sl_type *type, sli_extent *extent, size_t *slot_bytes);
sl_type sli_segments_type(void);
/* The slots of a value (-1: the segments) at a device, `hops` copies away from its maker; its extent. */
sl_status sli_build_add_slots(sli_build *b, int value, const sl_type *type, const char *name, int device, int hops,
                              sli_extent *extent);
sl_status sli_build_add_buffer(sli_build *b, const sli_buffer *buffer, bool fixed); /* takes buffer->name */
sl_status sli_build_add_operand(sli_build *b, int payload, const sli_plan_operand *operand, bool writes);
const char *sli_build_device_text(const sli_build *b, int device, char text[SL_DEVICE_TEXT]); /* "host" too */
char *sli_build_text(const char *format, ...) SL_PRINTF(1, 2); /* NULL when there is no memory */

/* plan_copies.c */
sl_status sli_build_lane(sli_build *b, int from, int to, int link, uint16_t *lane);
sl_status sli_build_input(sli_build *b, int value, int device); /* host -> device */
sl_status sli_build_output(sli_build *b, int output);           /* maker -> host */
sl_status sli_build_edge(sli_build *b, int value, int device);  /* maker -> device that reads */
sl_status sli_build_alias(sli_build *b, int value);             /* read at the maker's device */

/* plan_depths.c */
sl_status sli_build_depths(sli_build *b);
void sli_build_round_depths(sli_build *b);
sl_status sli_build_windows(sli_build *b);
sl_status sli_build_works(sli_build *b);

/* plan_lags.c */
sl_status sli_build_lags(sli_build *b);

/* plan_order.c */
sl_status sli_build_deps(sli_build *b); /* all anew, from the operands and depths as they are; and the index */
sl_status sli_build_sort(sli_build *b);
sl_status sli_build_index(sli_build *b); /* b->out from b->deps: before any search */

/* plan_waits.c */
int64_t sli_build_distance(sli_build *b, int from, int to, int64_t limit, int but, bool in_steps);
sl_status sli_build_waits(sli_build *b);
void sli_build_credits(sli_build *b);

/* plan_memory.c, plan_inside.c */
sl_status sli_build_memory(sli_build *b);
sl_status sli_build_inside(sli_build *b);

/* plan_program.c */
sl_status sli_build_program(sli_build *b);

#endif
