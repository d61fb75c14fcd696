/* Ledgers: who holds how much of each device's memory and of the pinned pool, how much there may be, and the freed
 * blocks that are kept for the next allocation of the same size. The sentences are memory_text.c's; the raw memory is
 * the platforms'.
 *
 *     reserved = allocated + kept <= most that was ever allocated at once <= limit
 *
 * so that keeping blocks never costs a program more than its own peak. Bytes count as they were asked for.
 *
 * Threads: each ledger has a lock, held while the platform allocates or frees, since memory that is on its way back
 * would else be missing and not counted. `kinds` is written while devices are found, and constant after. */
#include "memory.h"
#include "backend/backend.h"
#include "error.h"
#include "registry.h"
#include "settings.h"
#include <pthread.h>
#include <string.h>

#ifndef __has_feature /* clang's way of saying it */
#define __has_feature(name) 0
#endif
#if defined __SANITIZE_ADDRESS__ || __has_feature(address_sanitizer)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(at, bytes) ((void)(at), (void)(bytes))
#define ASAN_UNPOISON_MEMORY_REGION(at, bytes) ((void)(at), (void)(bytes))
#endif

enum { MOST_KEPT = 32 }; /* blocks of a ledger */

typedef struct block {
    void *at;
    size_t bytes;
} block;

typedef struct ledger {
    pthread_mutex_t lock;
    const sli_platform *platform;
    sl_device device;
    int index; /* of the device, or SLI_HOST: the pinned pool */
    bool limit_known;
    sl_memory_figures figures;
    uint64_t most; /* largest `allocated` ever, which no reset touches */
    int n_kept;
    block kept[MOST_KEPT]; /* the oldest first */
} ledger;

typedef struct kind_ledgers {
    int count;
    ledger *of; /* [count] */
} kind_ledgers;

static struct {
    kind_ledgers kinds[SL_DEVICE_KINDS];
    ledger pinned;
} registry = {.pinned = {.lock = PTHREAD_MUTEX_INITIALIZER, .index = SLI_HOST}};

sl_status sli_memory_prepare(sl_device_kind kind, int count) {
    kind_ledgers *k = &registry.kinds[kind];
    if (k->of || count <= 0)
        return SL_OK;
    ledger *of = sl_calloc((size_t)count, sizeof *of);
    if (!of)
        return SL_OUT_OF_MEMORY;
    for (int i = 0; i < count; i++) {
        pthread_mutex_init(&of[i].lock, NULL);
        of[i].device = (sl_device){kind, i};
        of[i].index = i;
        of[i].platform = sli_platform_get(kind);
    }
    *k = (kind_ledgers){count, of};
    return SL_OK;
}

static ledger *ledger_of(sl_device device) {
    return &registry.kinds[device.kind].of[device.index];
}

/* Pinned memory is a GPU's to give where there is one; else any host memory does. */
static sl_status find_limit(ledger *l) {
    if (l->limit_known)
        return SL_OK;
    if (l->index == SLI_HOST) {
        l->platform = sli_platform_get(sl_device_count(SL_CUDA) > 0 ? SL_CUDA : SL_CPU);
        l->figures.limit = sli_settings_get()->pinned_bytes;
    } else {
        sl_device_info info = {0};
        SL_TRY(l->platform->info(l->index, &info));
        l->figures.limit = info.memory_bytes;
    }
    l->limit_known = true;
    return SL_OK;
}

/* Locked if it is SL_OK. */
static sl_status open_ledger(ledger *l) {
    SL_TRY(sl_devices_find());
    pthread_mutex_lock(&l->lock);
    sl_status status = find_limit(l);
    if (status != SL_OK)
        pthread_mutex_unlock(&l->lock);
    return status;
}

static sl_status open_device(sl_device device, ledger **l) {
    SL_TRY(sl_device_check(device));
    *l = ledger_of(device);
    return open_ledger(*l);
}

/* A kept block is nobody's: whoever still reads it is told by the address sanitizer. */
static void hide(const ledger *l, block b) {
    if (l->index == SLI_HOST || l->device.kind == SL_CPU)
        ASAN_POISON_MEMORY_REGION(b.at, b.bytes);
}

static void show(const ledger *l, block b) {
    if (l->index == SLI_HOST || l->device.kind == SL_CPU)
        ASAN_UNPOISON_MEMORY_REGION(b.at, b.bytes);
}

static block take_kept(ledger *l, int i) {
    block b = l->kept[i];
    memmove(&l->kept[i], &l->kept[i + 1], (size_t)(l->n_kept - i - 1) * sizeof b);
    l->n_kept--;
    show(l, b);
    return b;
}

static void drop_oldest(ledger *l) {
    block b = take_kept(l, 0);
    l->platform->release(l->index, b.at, b.bytes);
    l->figures.reserved -= b.bytes;
}

static void drop_all(ledger *l) {
    while (l->n_kept > 0)
        drop_oldest(l);
}

static void *reuse(ledger *l, size_t bytes) {
    for (int i = l->n_kept - 1; i >= 0; i--)
        if (l->kept[i].bytes == bytes)
            return take_kept(l, i).at;
    return NULL;
}

static bool fits(const ledger *l, size_t bytes) {
    uint64_t limit = l->figures.limit ? l->figures.limit : INT64_MAX;
    return l->figures.allocated <= limit && bytes <= limit - l->figures.allocated;
}

/* Frees kept blocks until `bytes` more keep the promise at the top. */
static void make_room(ledger *l, size_t bytes) {
    uint64_t after = l->figures.allocated + bytes, most = after > l->most ? after : l->most;
    while (l->n_kept > 0 && l->figures.reserved + bytes > most)
        drop_oldest(l);
}

static void count_in(ledger *l, size_t bytes, sl_memory_category category) {
    sl_memory_figures *f = &l->figures;
    f->allocated += bytes;
    f->by_category[category] += bytes;
    f->peak = f->allocated > f->peak ? f->allocated : f->peak;
    l->most = f->allocated > l->most ? f->allocated : l->most;
}

static void count_out(ledger *l, size_t bytes, sl_memory_category category) {
    l->figures.allocated -= bytes;
    l->figures.by_category[category] -= bytes;
}

static sl_status fail(const ledger *l, size_t bytes, sl_memory_category category) {
    bool pinned = l->index == SLI_HOST;
    return sli_memory_fail(pinned ? NULL : &l->device, &l->figures, bytes, category);
}

static sl_status allocate_raw(ledger *l, size_t bytes, void **at) {
    make_room(l, bytes);
    sl_status status = l->platform->allocate(l->index, bytes, at);
    if (status == SL_OUT_OF_MEMORY && l->n_kept > 0) {
        drop_all(l);
        status = l->platform->allocate(l->index, bytes, at);
    }
    if (status == SL_OK)
        l->figures.reserved += bytes;
    return status;
}

static sl_status allocate(ledger *l, size_t bytes, sl_memory_category category, void **at) {
    static _Alignas(64) const char nothing[64]; /* what no bytes point at */
    if (bytes == 0) {
        *at = (void *)nothing;
        return SL_OK;
    }
    if (!fits(l, bytes))
        return fail(l, bytes, category);
    *at = reuse(l, bytes);
    sl_status status = *at ? SL_OK : allocate_raw(l, bytes, at);
    if (status == SL_OK)
        count_in(l, bytes, category);
    return status == SL_OUT_OF_MEMORY ? fail(l, bytes, category) : status;
}

static void keep(ledger *l, void *at, size_t bytes, sl_memory_category category) {
    if (l->n_kept == MOST_KEPT)
        drop_oldest(l);
    block b = {at, bytes};
    hide(l, b);
    l->kept[l->n_kept++] = b;
    count_out(l, bytes, category);
}

sl_status sli_memory_allocate(sl_device device, size_t bytes, sl_memory_category category, void **at) {
    ledger *l;
    SL_TRY(open_device(device, &l));
    sl_status status = allocate(l, bytes, category, at);
    pthread_mutex_unlock(&l->lock);
    return status;
}

void sli_memory_release(sl_device device, void *at, size_t bytes, sl_memory_category category) {
    if (!at || bytes == 0)
        return;
    ledger *l = ledger_of(device);
    pthread_mutex_lock(&l->lock);
    keep(l, at, bytes, category);
    pthread_mutex_unlock(&l->lock);
}

sl_status sli_memory_borrow(sl_device device, size_t bytes, sl_memory_category category) {
    ledger *l;
    SL_TRY(open_device(device, &l));
    sl_status status = fits(l, bytes) ? SL_OK : fail(l, bytes, category);
    if (status == SL_OK) {
        make_room(l, bytes);
        l->figures.reserved += bytes;
        count_in(l, bytes, category);
    }
    pthread_mutex_unlock(&l->lock);
    return status;
}

void sli_memory_return(sl_device device, size_t bytes, sl_memory_category category) {
    if (bytes == 0)
        return;
    ledger *l = ledger_of(device);
    pthread_mutex_lock(&l->lock);
    l->figures.reserved -= bytes;
    count_out(l, bytes, category);
    pthread_mutex_unlock(&l->lock);
}

sl_status sli_pinned_allocate(size_t bytes, void **at) {
    SL_TRY(open_ledger(&registry.pinned));
    sl_status status = allocate(&registry.pinned, bytes, SL_MEMORY_SLOTS, at);
    pthread_mutex_unlock(&registry.pinned.lock);
    return status;
}

void sli_pinned_release(void *at, size_t bytes) {
    if (!at || bytes == 0)
        return;
    pthread_mutex_lock(&registry.pinned.lock);
    keep(&registry.pinned, at, bytes, SL_MEMORY_SLOTS);
    pthread_mutex_unlock(&registry.pinned.lock);
}

/* ---- Figures ---- */

static void read_and_unlock(ledger *l, sl_memory_figures *figures) {
    *figures = l->figures;
    pthread_mutex_unlock(&l->lock);
}

static void trim_and_unlock(ledger *l, uint64_t *freed_bytes) {
    uint64_t before = l->figures.reserved;
    drop_all(l);
    if (freed_bytes)
        *freed_bytes = before - l->figures.reserved;
    pthread_mutex_unlock(&l->lock);
}

sl_status sl_memory_get(sl_device device, sl_memory_figures *figures) {
    ledger *l;
    SL_TRY(open_device(device, &l));
    read_and_unlock(l, figures);
    return SL_OK;
}

sl_status sl_memory_get_pinned(sl_memory_figures *figures) {
    SL_TRY(open_ledger(&registry.pinned));
    read_and_unlock(&registry.pinned, figures);
    return SL_OK;
}

sl_status sl_memory_reset_peak(sl_device device) {
    ledger *l;
    SL_TRY(open_device(device, &l));
    l->figures.peak = l->figures.allocated;
    pthread_mutex_unlock(&l->lock);
    return SL_OK;
}

sl_status sl_memory_trim(sl_device device, uint64_t *freed_bytes) {
    ledger *l;
    SL_TRY(open_device(device, &l));
    trim_and_unlock(l, freed_bytes);
    return SL_OK;
}

sl_status sl_memory_trim_pinned(uint64_t *freed_bytes) {
    SL_TRY(open_ledger(&registry.pinned));
    trim_and_unlock(&registry.pinned, freed_bytes);
    return SL_OK;
}
