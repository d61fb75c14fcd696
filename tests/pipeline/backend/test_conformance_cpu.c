#include "conformance.h"

int main(void) {
    static const conformance_setup setup = {
        .name = "conformance of cpu", .platform = &sli_cpu_platform, .n_devices = 2, .on_host = true};
    return conformance_main(&setup);
}
