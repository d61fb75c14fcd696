/* Orders other than eager: they make many missing waits a wrong answer at once. Waits and records pass as they can; of
 * the lanes that have come to a payload one is chosen, and nothing else runs until that payload has ended. Lanes move
 * only while the driver awaits something that is not reached, so that it has enqueued all it could before.
 *
 *   late      the oldest micro-batch, and in it what was enqueued last: readers run before what they forgot to wait for
 *   newest    the newest micro-batch, and in it what was enqueued first: writers run before those that they overtake
 *   random    any, by a seed: the same choices for the same stream of actions
 *
 * Threads: whoever keeps the backend's one shard. */
#include "cpu_internal.h"
#include "error.h"
#include "settings.h"
#include <string.h>

sl_status sli_order_parse(const char *text, sli_order *order, uint64_t *seed) {
    static const char *const names[] = {[SLI_EAGER] = "eager", [SLI_LATEST] = "late", [SLI_NEWEST] = "newest"};
    for (int i = 0; i <= SLI_NEWEST; i++)
        if (strcmp(text, names[i]) == 0) {
            *order = (sli_order)i;
            return SL_OK;
        }
    *order = SLI_RANDOM;
    if (strncmp(text, "random:", 7) == 0 && sli_parse_count(text + 7, 999999999999999999u, seed))
        return SL_OK;
    return sl_fail(SL_INVALID, "the order '%.60s' of CPU actions is none; there are: eager, late, newest, random:SEED",
                   text);
}

bool sli_order_allows(const sli_cpu *c) {
    if (c->order == SLI_EAGER)
        return true;
    return atomic_load(&c->awaits) && !atomic_load(&c->is_busy) && !sli_is_reached(c);
}

/* SplitMix64 (Steele, Lea, Flood 2014). */
static uint64_t draw(uint64_t *state) {
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static uint64_t micro_batch(sli_cpu_lane *l) {
    return ((const sli_batch *)(uintptr_t)sli_head_entry(l)->value)->index;
}

static bool is_before(sli_cpu *c, sli_cpu_lane *a, sli_cpu_lane *b) {
    uint64_t i = micro_batch(a), k = micro_batch(b);
    if (c->order == SLI_LATEST)
        return i != k ? i < k : a->rank > b->rank;
    return i != k ? i > k : a->rank < b->rank;
}

static sli_cpu_lane *choose(sli_cpu *c, const sli_shard *s) {
    sli_cpu_lane *best = NULL;
    uint64_t n = 0;
    for (sli_cpu_lane *l = sli_first_lane(s); l; l = sli_next_lane(l)) {
        if (!atomic_load_explicit(&l->is_long, memory_order_relaxed) || !sli_lane_is_ready(l))
            continue;
        n++;
        if (!best || (c->order == SLI_RANDOM ? draw(&c->seed) % n == 0 : is_before(c, l, best)))
            best = l;
    }
    return best;
}

bool sli_serve_in_order(sli_server *w, sli_shard *s) {
    sli_cpu *c = s->c;
    if (w->pick || !sli_order_allows(c))
        return false;
    bool did = sli_serve_shard(w, s);
    w->pick = sli_order_allows(c) ? choose(c, s) : NULL;
    return did;
}
