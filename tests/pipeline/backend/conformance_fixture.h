/* What the claims of the conformance suite are written with: a backend with lanes, slots, works and a list of actions
 * that are enqueued together; the op "mix", whose result tells its inputs and their order. */
#ifndef TESTS_CONFORMANCE_FIXTURE_H
#define TESTS_CONFORMANCE_FIXTURE_H

#include "conformance.h"
#include "support.h"

extern const conformance_setup *conformance; /* of this program */

enum { MAX_TEST_LANES = 32, MAX_TEST_ACTIONS = 4096, N_IO = 6, WORDS = 64, SLOT = WORDS * 4 };

/* "mix": out[e] is a hash of the salt and of in_k[e] for each input k. Rows of one word. Counts its calls, if asked to
 * and on the host. */
typedef struct mix_attributes {
    uint32_t salt;
    _Atomic uint64_t *count;
} mix_attributes;
uint32_t mix_word(uint32_t salt, int n_inputs, const uint32_t *words); /* the reference: words[k] = in_k[e] */
sl_status mix_on_host(sl_lane *lane, const sl_call *call);
sl_status fail_on_host(sl_lane *lane, const sl_call *call); /* sl_fail(SL_INVALID, "no, says the test") */
extern const sl_op mix_op, fail_op;

typedef struct place { /* an operand: of a device or of the host, at an address or of the batch's io */
    int device;
    char *at;
    int io;
} place;

typedef struct test_work {
    sli_work work;
    sli_stage_code code;
    sli_op_code op;
    mix_attributes attributes;
    sli_ref refs[SL_MAX_OPERANDS + 1];
    sli_operand operands[SL_MAX_OPERANDS + 1];
    struct test_work *next;
} test_work;

typedef struct fixture {
    sli_backend *b;
    int n_lanes;
    uint64_t recorded[MAX_TEST_LANES]; /* last value, enqueued or to be */
    sli_action actions[MAX_TEST_ACTIONS];
    size_t n_actions;
    sli_ticket ticket;
    sli_batch batch; /* one row, io is `io` */
    void *io[N_IO];
    test_work *works;
} fixture;

void find_devices(void); /* for claims about the platform alone */

/* All fail the test where the backend says no. `options` NULL: the setup's. */
fixture *fixture_open(const sli_backend_options *options);
void fixture_close(fixture *f);

uint16_t add_lane(fixture *f, int from, int to); /* many events */
uint16_t add_lane_of(fixture *f, int from, int to, uint32_t n_events);
place add_slot(fixture *f, int device, size_t bytes);
place io_place(int io); /* host memory of the batch */

/* A stage of one mix on `device`, of WORDS words each; it takes 10 ns where time is virtual. */
test_work *add_mix(fixture *f, int device, uint32_t salt, int n_inputs, const place *inputs, place output);
test_work *add_fail(fixture *f, int device, place output);
/* The same with an op of the kind of mix; `kernel` is used where kernels do not run on the host. */
test_work *add_stage(fixture *f, int device, const sl_op *op, sl_kernel kernel, int n_inputs, const place *inputs,
                     place output);
test_work *add_copy(fixture *f, place from, place to, size_t bytes);
void prepare(fixture *f, int device, test_work *w); /* once its operands are as they should be */

void put_wait(fixture *f, int lane, int of, uint64_t value);
uint64_t put_record(fixture *f, int lane);
void put(fixture *f, int lane, const test_work *w, const sli_batch *batch); /* NULL: the fixture's */
void flush(fixture *f);  /* enqueues what was put, and spoils the array */
void settle(fixture *f); /* flushes; then all lanes have reached what they recorded */
void wait_until(fixture *f, int lane, uint64_t value);

bool has_data(void);
bool has_kernels(void); /* and data */
void write_words(place p, const uint32_t *words, size_t n);
void read_words(place p, uint32_t *words, size_t n);
void expect_words(place p, const uint32_t *words, size_t n, const char *what);
void fill_words(uint32_t *words, size_t n, uint64_t seed);

/* The claims by file, for conformance_main. */
typedef struct claims {
    test_case cases[24];
    size_t n;
} claims;
claims claims_of(const test_case *cases, size_t n);
claims conformance_lanes(void);
claims conformance_waiting(void);
claims conformance_bytes(void);
claims conformance_random(void);

#endif
