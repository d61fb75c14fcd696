/* The end of a backend: what was enqueued ends, the workers leave, all is freed. What does not end within the grace
 * stays borrowed for good: it is counted, and still pointed at. */
#include "cpu_internal.h"
#include "memory.h"

static bool is_drained(const sli_cpu *c) {
    for (int i = 0; i < c->n_lanes; i++)
        if (sli_see(&c->lanes[i]->head) != sli_see(&c->lanes[i]->tail))
            return false;
    return true;
}

/* A lane that hangs by a fault never ends; where enqueueing failed, waits may have lost their records. */
static bool drain(sli_cpu *c, uint64_t deadline_ns) {
    for (int turn = 0; !is_drained(c); turn++) {
        if (atomic_load(&c->is_lost))
            return true;
        if (atomic_load(&c->n_hung) || sli_now_ns() >= deadline_ns)
            return false;
        sli_pause(turn);
    }
    return true;
}

static void release_block(const sli_block *b) {
    if (b->device == SLI_HOST)
        sli_pinned_release(b->at, b->bytes);
    else
        sli_memory_release((sl_device){SL_CPU, b->device}, b->at, b->bytes, b->category);
}

static void free_all(sli_cpu *c) {
    for (int i = 0; i < c->n_lanes; i++)
        sli_cpu_lane_free(c->lanes[i]);
    for (size_t i = 0; i < c->n_blocks; i++)
        release_block(&c->blocks[i]);
    sli_poison_free(c);
    sl_free(c->lanes);
    sl_free(c->blocks);
    sli_cost_free(c);
    sl_free(c->peers);
    sl_free(c->shard_memory);
    sl_free(c->memory);
}

sl_status sli_cpu_close(sli_backend *b, uint64_t grace_ns) {
    sli_cpu *c = (sli_cpu *)b;
    sli_pool *p = c->pool;
    uint64_t deadline_ns = sli_after_ns(grace_ns);
    atomic_store(&c->awaits, true);
    sli_driver_gives_up(c);
    sli_hand_over(c);
    bool ended = drain(c, deadline_ns);
    if (c->counted)
        atomic_fetch_sub(&p->running, 1);
    ended = sli_pool_remove(c, deadline_ns) && ended;
    if (ended)
        free_all(c);
    else
        sli_pool_abandon(c);
    sli_pool_release(p);
    return ended ? SL_OK : SL_STALLED;
}
