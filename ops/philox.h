/* Philox4x32-10: random numbers as a function of a counter and a key (Salmon et al. 2011, "Parallel random numbers: as
 * easy as 1, 2, 3"). Nothing is kept from one draw to the next, so a draw does not depend on company or order. Plain
 * integers: the same on every kind of device. */
#ifndef SLI_PHILOX_H
#define SLI_PHILOX_H

#include <stdint.h>

typedef struct sli_philox {
    uint32_t word[4];
} sli_philox;

static inline sli_philox sli_philox_draw(sli_philox counter, uint32_t key0, uint32_t key1) {
    uint32_t *c = counter.word;
    for (int round = 0; round < 10; round++) {
        uint64_t a = (uint64_t)0xD2511F53u * c[0], b = (uint64_t)0xCD9E8D57u * c[2];
        sli_philox next = {
            {(uint32_t)(b >> 32) ^ c[1] ^ key0, (uint32_t)b, (uint32_t)(a >> 32) ^ c[3] ^ key1, (uint32_t)a}};
        counter = next;
        key0 += 0x9E3779B9u;
        key1 += 0xBB67AE85u;
    }
    return counter;
}

/* Uniform in [0, 1), a multiple of 2^-53, for the draw of `position` in `sequence` under a seed. */
static inline double sli_philox_uniform(uint32_t seed_low, uint32_t seed_high, uint32_t sequence, uint32_t position) {
    sli_philox d = sli_philox_draw((sli_philox){{position, sequence, 0, 0}}, seed_low, seed_high);
    uint64_t bits = (uint64_t)d.word[1] << 32 | d.word[0];
    return (double)(bits >> 11) * 0x1p-53;
}

#endif
