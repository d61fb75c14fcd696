/* The conformance suite: what backend.h promises, as claims that every backend must pass. A program a backend sets it
 * up and runs it (test_conformance_cpu.c); a wrapper runs it over a backend that passes (test_conformance_san.c).
 *
 * Where there is no data, claims about bytes become claims about times, or say nothing. */
#ifndef TESTS_CONFORMANCE_H
#define TESTS_CONFORMANCE_H

#include "backend/backend.h"

typedef struct conformance_setup {
    const char *name;
    const sli_platform *platform;
    int n_devices; /* that may be used: 2 at least */
    sli_backend_options options;
    sli_backend *(*wrap)(sli_backend *inner); /* takes it; NULL: none */
    void (*check)(sli_backend *b);            /* before each close; NULL: nothing */
    /* Kernels of the ops "mix" and "fail" (conformance_fixture.h); NULL: payloads run no kernels. */
    sl_kernel mix, fail;
    /* Kernels are C functions that run on the host: mix_on_host and fail_on_host are used, and some claims count
     * calls. */
    bool on_host;
    /* In virtual time: how long a copy takes, exactly. NULL: no claims about times. */
    uint64_t (*copy_ns)(int from, int to, size_t bytes);
} conformance_setup;

int conformance_main(const conformance_setup *setup);

#endif
