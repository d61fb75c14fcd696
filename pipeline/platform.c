/* The kinds of device that this build knows, and the clock. */
#include "backend/backend.h"
#include <time.h>

const sli_platform *sli_platform_get(sl_device_kind kind) {
    switch (kind) {
    case SL_CPU:
        return &sli_cpu_platform;
    case SL_SIM:
        return &sli_sim_platform;
    case SL_CUDA:
    case SL_DEVICE_KINDS:
        break;
    }
    return NULL;
}

uint64_t sli_now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint64_t sli_after_ns(uint64_t ns) {
    uint64_t now = sli_now_ns();
    return ns < SLI_NEVER - now ? now + ns : SLI_NEVER;
}
