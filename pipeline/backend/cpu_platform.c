/* CPU devices as a platform: how many, what they are, their memory. They are virtual: each has a limit and lanes of its
 * own, and host memory. What runs on them is cpu.c's business; limits are memory.c's. */
#include "backend.h"
#include "cpu.h"
#include "error.h"
#include "settings.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { ALIGNMENT = 64, HUGE_PAGE = 2 << 20 };

static int cpu_find(const char **absence) {
    *absence = "cpu: none was asked for";
    return sli_settings_get()->cpu_devices;
}

/* The processor's name as the kernel gives it; "CPU" where it gives none. */
static void read_name(char *name, size_t capacity) {
    snprintf(name, capacity, "CPU");
    FILE *f = fopen("/proc/cpuinfo", "re");
    char line[256];
    while (f && fgets(line, sizeof line, f)) {
        const char *colon = strchr(line, ':');
        if (strncmp(line, "model name", 10) != 0 || !colon || colon[1] != ' ')
            continue;
        snprintf(name, capacity, "%.*s", (int)strcspn(colon + 2, "\n"), colon + 2);
        break;
    }
    if (f)
        fclose(f);
}

static sl_status cpu_info(int device, sl_device_info *info) {
    (void)device;
    const sli_settings *settings = sli_settings_get();
    read_name(info->name, sizeof info->name);
    info->memory_bytes = settings->cpu_memory_bytes;
    info->threads = settings->cpu_threads;
    info->operations_per_s = settings->cpu_operations_per_s;
    return SL_OK;
}

/* A block that the machine could never back is refused here: the kernel would promise it and end the process later. */
static bool could_be_there(size_t bytes) {
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    return pages <= 0 || page <= 0 || bytes / (size_t)page < (size_t)pages;
}

/* Whole huge pages are asked for where weights stream through a block: fewer misses of the TLB. The rest of a block
 * keeps its small pages, so that nothing is resident that was not asked for. */
static sl_status cpu_allocate(int device, size_t bytes, void **at) {
    (void)device;
    size_t huge = bytes / HUGE_PAGE * HUGE_PAGE;
    if (!could_be_there(bytes) || posix_memalign(at, huge ? HUGE_PAGE : ALIGNMENT, bytes) != 0)
        return SL_OUT_OF_MEMORY;
    if (huge)
        madvise(*at, huge, MADV_HUGEPAGE); /* no harm if it is refused */
    return SL_OK;
}

static void cpu_release(int device, void *at, size_t bytes) {
    (void)device, (void)bytes;
    free(at);
}

static sl_status cpu_copy(int to_device, void *to, int from_device, const void *from, size_t bytes) {
    (void)to_device, (void)from_device;
    memmove(to, from, bytes);
    return SL_OK;
}

static sl_status cpu_zero(int device, void *at, size_t bytes) {
    (void)device;
    memset(at, 0, bytes);
    return SL_OK;
}

static sl_kernel cpu_kernel(const sl_op *op) {
    return op->cpu;
}

const sli_platform sli_cpu_platform = {
    .kind = SL_CPU,
    .capabilities = SLI_READS_HOST | SLI_HAS_DATA | SLI_REAL_TIME,
    .find = cpu_find,
    .info = cpu_info,
    .allocate = cpu_allocate,
    .release = cpu_release,
    .copy = cpu_copy,
    .zero = cpu_zero,
    .open = sli_cpu_backend_open,
    .kernel = cpu_kernel,
};
