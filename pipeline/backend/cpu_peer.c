/* Whether one CPU device can be copied to from another directly: access is there, and bytes of several sizes arrive as
 * they were sent. The check goes the way that a lane's copy goes. A verdict is kept; a link that corrupts is told once.
 *
 * Threads: open time only. */
#include "cpu_internal.h"
#include "error.h"
#include <sluice/memory.h>
#include <string.h>

enum { MOST_BYTES = 1 << 16 };

struct sli_peer {
    int from, to;
    bool works;
};

static void fill(unsigned char *at, size_t bytes, uint32_t seed) {
    for (size_t i = 0; i < bytes; i++) {
        seed = seed * 1664525u + 1013904223u;
        at[i] = (unsigned char)(seed >> 24);
    }
}

/* Bytes that arrive wrong, of one copy. */
static size_t count_wrong(bool corrupts, unsigned char *to, const unsigned char *from, size_t bytes) {
    size_t wrong = 0;
    memset(to, 0, bytes);
    sli_move_bytes(corrupts, to, from, bytes);
    for (size_t i = 0; i < bytes; i++)
        wrong += to[i] != from[i];
    return wrong;
}

static bool content_is_right(sli_cpu *c, int from, int to) {
    static const size_t sizes[] = {1, 63, 4097, MOST_BYTES};
    unsigned char *buffers = sl_malloc(2 * (size_t)MOST_BYTES);
    bool corrupts = sli_faults_have(&c->faults, SLI_FAULT_CORRUPT, from, to);
    size_t wrong = 0;
    if (!buffers)
        return false; /* staged is right, too */
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes && wrong == 0; i++) {
        fill(buffers, sizes[i], (uint32_t)i + 1);
        wrong = count_wrong(corrupts, buffers + MOST_BYTES, buffers, sizes[i]);
        if (wrong)
            sli_log(SL_LOG_WARNING, "the link cpu:%d -> cpu:%d corrupts bytes (%zu of %zu came wrong): staged instead",
                    from, to, wrong, sizes[i]);
    }
    sl_free(buffers);
    return wrong == 0;
}

bool sli_cpu_peer_works(sli_backend *b, int from, int to) {
    sli_cpu *c = (sli_cpu *)b;
    if (from == to || from == SLI_HOST || to == SLI_HOST)
        return true;
    for (int i = 0; i < c->n_peers; i++)
        if (c->peers[i].from == from && c->peers[i].to == to)
            return c->peers[i].works;
    struct sli_peer *peers = sl_realloc(c->peers, (size_t)(c->n_peers + 1) * sizeof *peers);
    if (!peers)
        return false;
    bool works = !sli_faults_have(&c->faults, SLI_FAULT_NO_PEER, from, to) && content_is_right(c, from, to);
    peers[c->n_peers++] = (struct sli_peer){from, to, works};
    c->peers = peers;
    return works;
}
