/* Which devices there are, found once; which one a thread means by default. Their texts are device_text.c's business.
 *
 * Threads: `counts` and `absence` are written under `lock` while `found` is false, and constant after. What is current
 * is the thread's own. */
#include "backend/backend.h"
#include "error.h"
#include "registry.h"
#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { MOST_DEVICES = 65536 }; /* of a kind: what an index can say */

static struct {
    pthread_mutex_t lock;
    _Atomic bool found;
    int counts[SL_DEVICE_KINDS];
    const char *absence[SL_DEVICE_KINDS];
    atomic_bool said_auto;
} registry = {.lock = PTHREAD_MUTEX_INITIALIZER};

static _Thread_local int current[SL_DEVICE_KINDS];

static sl_status find_kind(sl_device_kind kind) {
    const sli_platform *platform = sli_platform_get(kind);
    const char *absence = "cuda: this build has no CUDA module";
    int count = platform ? platform->find(&absence) : 0;
    if (count < 0)
        return SL_OUT_OF_MEMORY;
    count = count < MOST_DEVICES ? count : MOST_DEVICES;
    SL_TRY(sli_memory_prepare(kind, count));
    registry.counts[kind] = count;
    registry.absence[kind] = count > 0 ? "" : absence;
    return SL_OK;
}

static sl_status find_locked(void) {
    for (int kind = 0; kind < SL_DEVICE_KINDS; kind++)
        SL_TRY(find_kind(kind));
    return SL_OK;
}

sl_status sl_devices_find(void) {
    if (atomic_load(&registry.found))
        return SL_OK;
    SL_TRY(sli_settings_read());
    pthread_mutex_lock(&registry.lock);
    sl_status status = registry.found ? SL_OK : find_locked();
    if (status == SL_OK)
        atomic_store(&registry.found, true);
    pthread_mutex_unlock(&registry.lock);
    return status;
}

static bool is_kind(sl_device_kind kind) {
    return (unsigned)kind < SL_DEVICE_KINDS;
}

int sl_device_count(sl_device_kind kind) {
    return is_kind(kind) && sl_devices_find() == SL_OK ? registry.counts[kind] : 0;
}

const char *sl_device_absence(sl_device_kind kind) {
    if (!is_kind(kind))
        return "there is no such kind of device";
    return sl_devices_find() == SL_OK ? registry.absence[kind] : "the devices cannot be found: a setting is wrong";
}

/* "cpu:0", "sim:0 to sim:1023"; for a kind without devices its absence. */
static int describe_kind(sl_device_kind kind, char *text, size_t capacity) {
    const char *name = sl_device_kind_name(kind);
    int n = registry.counts[kind];
    if (n == 0)
        return snprintf(text, capacity, "%s", registry.absence[kind]);
    return n == 1 ? snprintf(text, capacity, "%s:0", name)
                  : snprintf(text, capacity, "%s:0 to %s:%d", name, name, n - 1);
}

/* "cpu:0 to cpu:3, sim:0 to sim:1023; cuda: this build has no CUDA module" */
static void list_devices(char *text, size_t capacity) {
    size_t used = 0;
    for (int present = 1; present >= 0; present--)
        for (int kind = 0; kind < SL_DEVICE_KINDS; kind++) {
            if ((registry.counts[kind] > 0) != present || used + 3 > capacity)
                continue;
            used += (size_t)snprintf(text + used, capacity - used, "%s", !used ? "" : present ? ", " : "; ");
            used += (size_t)describe_kind(kind, text + used, capacity - used);
        }
}

sl_status sl_device_check(sl_device device) {
    SL_TRY(sl_devices_find());
    if (is_kind(device.kind) && device.index >= 0 && device.index < registry.counts[device.kind])
        return SL_OK;
    char name[SL_DEVICE_TEXT], list[640];
    list_devices(list, sizeof list);
    return sl_fail(SL_NO_DEVICE, "%s is not there; there are: %s", sl_device_format(device, name), list);
}

sl_status sli_devices_auto(sl_device *devices, int capacity, int *count) {
    SL_TRY(sl_devices_find());
    sl_device_kind kind = registry.counts[SL_CUDA] > 0 ? SL_CUDA : SL_CPU;
    *count = registry.counts[kind];
    for (int i = 0; i < *count && i < capacity; i++)
        devices[i] = (sl_device){kind, i};
    if (!atomic_exchange(&registry.said_auto, true))
        sli_log(SL_LOG_INFO, "devices auto: %s:0 to %s:%d", sl_device_kind_name(kind), sl_device_kind_name(kind),
                *count - 1);
    return SL_OK;
}

bool sl_device_equal(sl_device a, sl_device b) {
    return a.kind == b.kind && a.index == b.index;
}

sl_status sl_device_get_info(sl_device device, sl_device_info *info) {
    SL_TRY(sl_device_check(device));
    *info = (sl_device_info){0};
    return sli_platform_get(device.kind)->info(device.index, info);
}

sl_status sl_device_set_current(sl_device device) {
    SL_TRY(sl_device_check(device));
    current[device.kind] = device.index;
    return SL_OK;
}

sl_device sl_device_current(sl_device_kind kind) {
    return (sl_device){kind, is_kind(kind) ? current[kind] : 0};
}

sl_status sl_device_guard_enter(sl_device_guard *guard, sl_device device) {
    *guard = (sl_device_guard){sl_device_current(device.kind), false};
    SL_TRY(sl_device_set_current(device));
    guard->entered = true;
    return SL_OK;
}

void sl_device_guard_leave(sl_device_guard *guard) {
    if (guard->entered)
        current[guard->before.kind] = guard->before.index;
    guard->entered = false;
}
