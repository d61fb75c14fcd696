/* Runs all claims of the suite over one setup. */
#include "conformance.h"
#include "conformance_fixture.h"
#include <string.h>

int conformance_main(const conformance_setup *setup) {
    claims parts[] = {conformance_lanes(), conformance_waiting(), conformance_bytes(), conformance_random()};
    test_case cases[64];
    size_t n = 0;
    conformance = setup;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        memcpy(cases + n, parts[i].cases, parts[i].n * sizeof *cases);
        n += parts[i].n;
    }
    return test_main(setup->name, cases, n);
}
