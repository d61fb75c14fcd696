#include "conformance.h"

static uint64_t copy_ns(int from, int to, size_t bytes) {
    if (bytes == 0)
        return 0;
    if (from == SLI_HOST || to == SLI_HOST)
        return 100 + bytes;
    return from == 0 && to == 1 ? 7 : 30 + 2 * bytes;
}

int main(void) {
    static const char topology[] =
        "{\"links\": {\"latency_ns\": 30, \"bytes_per_s\": 5e8,"
        "             \"each\": [{\"from\": \"host\", \"both_ways\": true, \"latency_ns\": 100, \"bytes_per_s\": 1e9},"
        "                        {\"from\": 0, \"to\": 1, \"latency_ns\": 7, \"bytes_per_s\": 0}]}}";
    static const conformance_setup setup = {.name = "conformance of sim",
                                            .platform = &sli_sim_platform,
                                            .n_devices = 3,
                                            .options = {.sim_topology = topology},
                                            .copy_ns = copy_ns};
    return conformance_main(&setup);
}
