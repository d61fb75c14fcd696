/* The table of settings, and the values in force: the first part of the registry, read once under its lock. How numbers
 * are written is settings_text.c's business; what faults and topologies mean is the backends'.
 *
 * Threads: `values` and `entries` are written under `lock` while `read` is false, and constant after. */
#include "settings.h"
#include "error.h"
#include "registry.h"
#include <pthread.h>
#include <sched.h>
#include <sluice/memory.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef enum row_type { COUNT, BYTES, RATE, NS, FLAG, TEXT, ORDER, ISA } row_type;

typedef struct row {
    const char *name;
    row_type type;
    size_t offset;        /* in sli_settings */
    uint64_t least, most; /* of a COUNT or BYTES */
    const char *standard; /* NULL: as many as there are cores */
    const char *expected;
    const char *meaning;
} row;

#define AT(field) offsetof(sli_settings, field)

static const row rows[] = {
    {"SLUICE_CPU_DEVICES", COUNT, AT(cpu_devices), 1, 1024, NULL, "a number from 1 to 1024",
     "How many CPU devices there are, 1 to 1024; at first as many as cores, 2 at least."},
    {"SLUICE_CPU_THREADS", COUNT, AT(cpu_threads), 1, 256, "1", "a number from 1 to 256",
     "Threads that one CPU device computes with, 1 to 256."},
    {"SLUICE_CPU_MEMORY", BYTES, AT(cpu_memory_bytes), 0, INT64_MAX, "0", "whole bytes, such as 512M or 8Gi",
     "Memory limit of a CPU device in bytes, such as 512M or 8Gi; 0: not limited."},
    {"SLUICE_CPU_SPEED", RATE, AT(cpu_operations_per_s), 0, 0, "0", "operations a second, such as 2G or 1.5e9",
     "Modelled speed of a CPU device in operations a second, such as 2G; 0: as fast as it is."},
    {"SLUICE_LINK_BANDWIDTH", RATE, AT(link_bytes_per_s), 0, 0, "0", "bytes a second, such as 100M or 12.5Gi",
     "Modelled bandwidth of a link between CPU devices in bytes a second, such as 100M; 0: as fast as it is."},
    {"SLUICE_LINK_LATENCY", NS, AT(link_latency_ns), 0, 0, "0", "a time, such as 500ns, 20us, 1.5ms or 1s",
     "Modelled latency of a link between CPU devices, such as 20us (ns, us, ms, s; without a unit: ns)."},
    {"SLUICE_FAULTS", TEXT, AT(faults), 0, 0, "", "",
     "Faults of CPU devices and links, separated by commas: no-peer:A-B, corrupt:A-B, alloc:N, enqueue:N, hang:D:N, "
     "hang-link:A-B:N, stage:D:N; empty: none."},
    {"SLUICE_CPU_ORDER", ORDER, AT(order), 0, 0, "eager", "eager, late, newest or random:SEED",
     "Which of the actions that may run a CPU lane runs first: eager, late, newest, random:SEED."},
    {"SLUICE_CPU_POISON", FLAG, AT(poison), 0, 0, "0", "0 or 1",
     "1: CPU memory that was never written, and slots that are free, hold NaN patterns; 0: not."},
    {"SLUICE_CPU_WORKERS", COUNT, AT(workers), 1, 1024, NULL, "a number from 1 to 1024",
     "Threads of the pool that serves CPU lanes, 1 to the number of cores, which is the default and the most."},
    {"SLUICE_SIM_DEVICES", COUNT, AT(sim_devices), 0, 65536, "1024", "a number from 0 to 65536",
     "How many simulated devices there are, 0 to 65536."},
    {"SLUICE_SIM_TOPOLOGY", TEXT, AT(sim_topology), 0, 0, "", "",
     "Speeds and links of simulated devices: a JSON file, or JSON text; empty: stages and links take no time but what "
     "the graph gives them."},
    {"SLUICE_PINNED_MEMORY", BYTES, AT(pinned_bytes), 1, INT64_MAX, "1Gi",
     "whole bytes, at least 1, such as 512M or 8Gi",
     "Limit of the process's pinned host memory in bytes, such as 512M or 8Gi."},
    {"SLUICE_ISA", ISA, AT(isa), 0, 0, "auto", "",
     "Instruction set of CPU kernels: auto (the best there is), plain, avx2, avx512; all give the same bits."},
};

enum { N_ROWS = sizeof rows / sizeof *rows };

typedef struct entry { /* the value of a row */
    char *owned;       /* from the environment or the program; NULL: the default */
    const char *text;  /* in force */
    const char *origin;
    char number[16]; /* what `text` points at where it is none of the above */
} entry;

static struct {
    pthread_mutex_t lock;
    _Atomic bool read;
    char *program[N_ROWS]; /* sl_setting_set, owned */
    entry entries[N_ROWS];
    sli_settings values;
} registry = {.lock = PTHREAD_MUTEX_INITIALIZER};

static int count_cores(void) {
    cpu_set_t cores;
    if (sched_getaffinity(0, sizeof cores, &cores) == 0)
        return CPU_COUNT(&cores);
    long n = sysconf(_SC_NPROCESSORS_ONLN); /* more cores than a cpu_set_t holds */
    return n > 0 ? (int)n : 1;
}

static sl_status fail_unknown(const char *name) {
    char list[640];
    size_t used = 0;
    for (int i = 0; i < N_ROWS; i++)
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", rows[i].name);
    char quoted[SLI_QUOTE];
    return sl_fail(SL_INVALID, "%s is no setting of Sluice; there are: %s", sli_quote(name, quoted), list);
}

static int find_row(const char *name, size_t length) {
    for (int i = 0; i < N_ROWS; i++)
        if (strlen(rows[i].name) == length && memcmp(rows[i].name, name, length) == 0)
            return i;
    return -1;
}

static bool order_is_known(const char *text) {
    uint64_t seed;
    return strcmp(text, "eager") == 0 || strcmp(text, "late") == 0 || strcmp(text, "newest") == 0 ||
           (strncmp(text, "random:", 7) == 0 && sli_parse_count(text + 7, 999999999999999999u, &seed));
}

static bool parse_whole(const row *r, const char *text, uint64_t *value) {
    double quantity;
    if (!sli_parse_quantity(text, &quantity) || quantity < (double)r->least || !(quantity < 0x1p63))
        return false;
    *value = (uint64_t)quantity;
    return (double)*value == quantity;
}

/* Into its field of `to`, which borrows `text`. */
static bool parse_into(const row *r, const char *text, sli_settings *to) {
    void *field = (char *)to + r->offset;
    uint64_t count = 0;
    switch (r->type) {
    case COUNT:
        if (!sli_parse_count(text, r->most, &count) || count < r->least)
            return false;
        *(int *)field = (int)count;
        return true;
    case BYTES:
        return parse_whole(r, text, field);
    case RATE:
        return sli_parse_quantity(text, field);
    case NS:
        return sli_parse_ns(text, field);
    case FLAG:
        *(bool *)field = strcmp(text, "1") == 0;
        return strcmp(text, "0") == 0 || strcmp(text, "1") == 0;
    case TEXT:
        *(const char **)field = text;
        return true;
    case ORDER:
        *(const char **)field = text;
        return order_is_known(text);
    case ISA:
        return sli_isa_parse(text, field) == SL_OK;
    }
    return false;
}

static sl_status read_value(const row *r, const char *text, sli_settings *to) {
    if (parse_into(r, text, to))
        return SL_OK;
    char quoted[SLI_QUOTE];
    if (r->type == ISA)
        return sli_fail_within(SL_INVALID, "%s is '%s': ", r->name, sli_quote(text, quoted));
    return sl_fail(SL_INVALID, "%s is '%s': expected %s", r->name, sli_quote(text, quoted), r->expected);
}

/* What is worked out rather than written: cores, the instruction set, no more workers than cores. */
static void settle(const row *r, entry *e, sli_settings *to) {
    int cores = count_cores();
    if (r->offset == AT(cpu_devices) && !e->owned)
        to->cpu_devices = cores < 2 ? 2 : cores > (int)r->most ? (int)r->most : cores;
    else if (r->offset == AT(workers) && (!e->owned || to->workers > cores))
        to->workers = cores;
    else if (r->type == ISA)
        e->text = sl_isa_name(to->isa);
    if (r->type == COUNT) {
        snprintf(e->number, sizeof e->number, "%d", *(int *)((char *)to + r->offset));
        e->text = e->number;
    }
}

static sl_status resolve(int i) {
    const row *r = &rows[i];
    entry *e = &registry.entries[i];
    const char *environment = getenv(r->name);
    const char *given = registry.program[i] ? registry.program[i] : environment;
    e->origin = registry.program[i] ? "program" : environment ? "environment" : "default";
    if (given && !(e->owned = sl_strdup(given)))
        return SL_OUT_OF_MEMORY;
    e->text = e->owned ? e->owned : r->standard;
    if (e->text)
        SL_TRY(read_value(r, e->text, &registry.values));
    settle(r, e, &registry.values);
    return SL_OK;
}

/* SLUICE_TEST_* is for test programs. */
static sl_status check_environment(void) {
    for (char **variable = environ; variable && *variable; variable++) {
        if (strncmp(*variable, "SLUICE_", 7) != 0 || strncmp(*variable, "SLUICE_TEST_", 12) == 0)
            continue;
        size_t length = strcspn(*variable, "=");
        if (find_row(*variable, length) < 0) {
            char name[64];
            snprintf(name, sizeof name, "%.*s", (int)(length < 60 ? length : 60), *variable);
            return fail_unknown(name);
        }
    }
    return SL_OK;
}

static sl_status read_all(void) {
    sl_status status = check_environment();
    for (int i = 0; i < N_ROWS && status == SL_OK; i++)
        status = resolve(i);
    for (int i = 0; i < N_ROWS && status != SL_OK; i++) {
        sl_free(registry.entries[i].owned);
        registry.entries[i].owned = NULL;
    }
    return status;
}

sl_status sli_settings_read(void) {
    if (atomic_load(&registry.read))
        return SL_OK;
    pthread_mutex_lock(&registry.lock);
    sl_status status = registry.read ? SL_OK : read_all();
    if (status == SL_OK)
        atomic_store(&registry.read, true);
    pthread_mutex_unlock(&registry.lock);
    return status;
}

const sli_settings *sli_settings_get(void) {
    return sli_settings_read() == SL_OK ? &registry.values : NULL;
}

static sl_status set_row(int i, const char *value) {
    sli_settings scratch;
    if (registry.read)
        return sl_fail(SL_INVALID, "%s comes too late: settings are read when the devices are found, and they were",
                       rows[i].name);
    SL_TRY(read_value(&rows[i], value, &scratch));
    char *copy = sl_strdup(value);
    if (!copy)
        return SL_OUT_OF_MEMORY;
    sl_free(registry.program[i]);
    registry.program[i] = copy;
    return SL_OK;
}

sl_status sl_setting_set(const char *name, const char *value) {
    if (!name || !value)
        return sl_fail(SL_INVALID, "a setting's %s is NULL", name ? "value" : "name");
    int i = find_row(name, strlen(name));
    if (i < 0)
        return fail_unknown(name);
    pthread_mutex_lock(&registry.lock);
    sl_status status = set_row(i, value);
    pthread_mutex_unlock(&registry.lock);
    return status;
}

bool sl_setting_get(int i, sl_setting *setting) {
    if (i < 0 || i >= N_ROWS || !sli_settings_get())
        return false;
    const entry *e = &registry.entries[i];
    *setting = (sl_setting){rows[i].name, e->text, e->origin, rows[i].meaning};
    return true;
}
