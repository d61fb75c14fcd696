/* libFuzzer target: the safetensors reader on any bytes. Built with -DSLUICE_FUZZ=ON and clang:
 *     build/fuzz/tests/fuzz/fuzz_safetensors -max_total_time=60 corpus tests/data/safetensors */
#include <safetensors.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
    sli_safetensors parsed;
    if (sli_safetensors_parse("fuzzed", bytes, n, &parsed) != SL_OK)
        return 0;
    volatile unsigned char last = 0;
    for (int i = 0; i < parsed.n_tensors; i++) /* all that is claimed can be read */
        for (size_t b = 0; b < parsed.tensors[i].bytes; b++)
            last = ((const unsigned char *)parsed.tensors[i].data)[b];
    (void)last;
    sli_safetensors_free(&parsed);
    return 0;
}
