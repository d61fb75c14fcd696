/* What finding the devices means, between the files of the registry: settings.c reads the settings, device.c asks the
 * platforms, memory.c keeps a ledger for each device that was found, memory_text.c says what did not fit. */
#ifndef SLI_REGISTRY_H
#define SLI_REGISTRY_H

#include <sluice/memory.h>

/* Reads the settings if that was not done. A wrong one leaves them unread: the next call finds it again. */
sl_status sli_settings_read(void);

/* The ledgers of `count` devices of a kind. Called once a kind, under the lock of device.c. */
sl_status sli_memory_prepare(sl_device_kind kind, int count);

/* SL_OUT_OF_MEMORY with its sentence, for a device or, NULL, for the pinned pool. */
sl_status sli_memory_fail(const sl_device *device, const sl_memory_figures *figures, size_t bytes,
                          sl_memory_category category);

/* What the list "auto" means: all GPUs, else all CPU devices; the log hears once which. */
sl_status sli_devices_auto(sl_device *devices, int capacity, int *count);

/* Text for a message: what is no printable ASCII is written as \xNN, and what is long is cut. Returns `to`. */
enum { SLI_QUOTE = 64 };
const char *sli_quote(const char *text, char to[SLI_QUOTE]);

#endif
