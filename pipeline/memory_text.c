/* What is said when memory does not fit: whose, who holds how much, and which knobs help. The figures are memory.c's.
 */
#include "error.h"
#include "memory.h"
#include "registry.h"
#include <stdio.h>

const char *sl_memory_category_name(sl_memory_category category) {
    static const char *const names[] = {"tensors", "weights", "activations", "state", "slots", "scratch"};
    return (unsigned)category < SL_MEMORY_CATEGORIES ? names[category] : "unknown";
}

const char *sli_memory_knob(sl_memory_category category) {
    static const char *const knobs[] = {
        [SL_MEMORY_TENSORS] = "release tensors",
        [SL_MEMORY_WEIGHTS] = "use more devices, another split or a smaller weight type",
        [SL_MEMORY_ACTIVATIONS] = "use smaller micro-batches (micro_batch_rows)",
        [SL_MEMORY_STATE] = "use fewer places (sequences) or shorter ones (context)",
        [SL_MEMORY_SLOTS] = "use smaller micro-batches (micro_batch_rows) or fewer slots (depth)",
        [SL_MEMORY_SCRATCH] = "use smaller micro-batches (micro_batch_rows)",
    };
    return (unsigned)category < SL_MEMORY_CATEGORIES ? knobs[category] : "";
}

const char *sli_memory_limit_knob(sl_device_kind kind) {
    return kind == SL_CPU ? "SLUICE_CPU_MEMORY" : kind == SL_SIM ? "SLUICE_SIM_TOPOLOGY" : NULL;
}

const char *sli_memory_holders(const uint64_t by_category[SL_MEMORY_CATEGORIES], char text[SLI_HOLDERS_TEXT]) {
    size_t used = 0;
    for (int c = 0; c < SL_MEMORY_CATEGORIES; c++)
        if (by_category[c])
            used += (size_t)snprintf(text + used, SLI_HOLDERS_TEXT - used, "%s%s %llu", used ? ", " : "",
                                     sl_memory_category_name(c), (unsigned long long)by_category[c]);
    if (!used)
        snprintf(text, SLI_HOLDERS_TEXT, "nothing");
    return text;
}

static sl_memory_category largest(const sl_memory_figures *figures, sl_memory_category asked) {
    for (int c = 0; c < SL_MEMORY_CATEGORIES; c++)
        if (figures->by_category[c] > figures->by_category[asked])
            asked = c;
    return asked;
}

/* "use ..., or use ..., or raise SLUICE_CPU_MEMORY": for what was asked and for who holds most. */
static void describe_knobs(const char *limit_knob, const sl_memory_figures *figures, sl_memory_category asked,
                           char *text, size_t capacity) {
    sl_memory_category holder = largest(figures, asked);
    bool both = holder != asked && figures->by_category[holder] > 0;
    const char *knob = figures->limit ? limit_knob : NULL;
    snprintf(text, capacity, "%s%s%s%s%s", sli_memory_knob(asked), both ? ", or " : "",
             both ? sli_memory_knob(holder) : "", knob ? ", or raise " : "", knob ? knob : "");
}

sl_status sli_memory_fail(const sl_device *device, const sl_memory_figures *figures, size_t bytes,
                          sl_memory_category category) {
    char name[SL_DEVICE_TEXT], holders[SLI_HOLDERS_TEXT], knobs[256];
    const char *where = device ? sl_device_format(*device, name) : "pinned host memory";
    const char *limit_knob = device ? sli_memory_limit_knob(device->kind) : "SLUICE_PINNED_MEMORY";
    uint64_t left = figures->limit > figures->allocated ? figures->limit - figures->allocated : 0;
    char room[128] = "and there are no more";
    if (figures->limit && bytes > left)
        snprintf(room, sizeof room, "%llu of its limit of %llu are free, %llu are missing", (unsigned long long)left,
                 (unsigned long long)figures->limit, (unsigned long long)(bytes - left));
    describe_knobs(limit_knob, figures, category, knobs, sizeof knobs);
    return sl_fail(SL_OUT_OF_MEMORY,
                   "%s is out of memory: %zu bytes (%s) were asked for, %s; in use: %s. To mend it: %s", where, bytes,
                   sl_memory_category_name(category), room, sli_memory_holders(figures->by_category, holders), knobs);
}
