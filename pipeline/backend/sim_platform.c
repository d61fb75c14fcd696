/* Simulated devices: as many as are asked for, without memory behind their addresses and without kernels. What runs on
 * them is sim.c.
 *
 * The topology of the process is part of the registry of devices: set once, by the first find, and constant after. The
 * next free address is the memory of all simulated devices: one atomic, any thread. */
#include "error.h"
#include "settings.h"
#include "sim.h"
#include <stdio.h>
#include <string.h>

static sli_topology *topology;
static _Atomic uint64_t next_address = UINT64_C(1) << 48; /* no address of a program: touching it is an error at once */

const sli_topology *sli_sim_topology(void) {
    return topology;
}

void *sli_sim_addresses(size_t bytes) {
    uint64_t rounded = ((uint64_t)bytes + 4095) & ~UINT64_C(4095);
    return (void *)(uintptr_t)atomic_fetch_add(&next_address, rounded);
}

static int sim_find(const char **absence) {
    static char why[512];
    const sli_settings *settings = sli_settings_get();
    sl_status status = topology ? SL_OK : sli_topology_read(settings->sim_topology, &topology);
    if (status == SL_OUT_OF_MEMORY)
        return -1;
    if (status != SL_OK) {
        snprintf(why, sizeof why, "sim: %s", sl_last_error());
        *absence = why;
        return 0;
    }
    int count = sli_topology_count(topology);
    if (!count)
        count = settings->sim_devices;
    *absence = count ? "" : "sim: SLUICE_SIM_DEVICES is 0";
    return count;
}

static sl_status sim_info(int device, sl_device_info *info) {
    sli_sim_device d;
    sli_topology_get_device(topology, device, &d);
    *info = (sl_device_info){.memory_bytes = d.memory_bytes, .threads = 1, .operations_per_s = d.operations_per_s};
    memcpy(info->name, d.name, sizeof info->name);
    return SL_OK;
}

static sl_status sim_allocate(int device, size_t bytes, void **at) {
    (void)device;
    *at = sli_sim_addresses(bytes);
    return SL_OK;
}

static void sim_release(int device, void *at, size_t bytes) {
    (void)device, (void)at, (void)bytes;
}

static sl_status sim_copy(int to_device, void *to, int from_device, const void *from, size_t bytes) {
    (void)to, (void)from;
    int device = to_device == SLI_HOST ? from_device : to_device;
    return sl_fail(SL_NO_DATA, "sim:%d has no data: %zu bytes were to be copied to or from its memory", device, bytes);
}

static sl_status sim_zero(int device, void *at, size_t bytes) {
    (void)device, (void)at, (void)bytes;
    return SL_OK;
}

static sl_kernel sim_kernel(const sl_op *op) {
    (void)op;
    return NULL;
}

const sli_platform sli_sim_platform = {
    .kind = SL_SIM,
    .capabilities = 0,
    .find = sim_find,
    .info = sim_info,
    .allocate = sim_allocate,
    .release = sim_release,
    .copy = sim_copy,
    .zero = sim_zero,
    .open = sli_sim_open,
    .kernel = sim_kernel,
};
