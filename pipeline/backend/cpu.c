/* The CPU backend. */
#include "cpu.h"
#include "error.h"

sl_status sli_cpu_backend_open(const sli_backend_options *options, sli_backend **backend) {
    (void)options, (void)backend;
    return sl_fail(SL_UNSUPPORTED, "CPU devices cannot open pipelines in this build");
}
