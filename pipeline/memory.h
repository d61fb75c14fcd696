/* Memory of devices: limits, figures by category, and the cache that keeps freed blocks until they are trimmed. Above a
 * platform's raw memory, below tensors and backends. Any thread. */
#ifndef SLI_MEMORY_H
#define SLI_MEMORY_H

#include <sluice/memory.h>

/* 64-byte aligned, of any content. SL_OUT_OF_MEMORY names the device, what holds how much, and the knobs. On a device
 * without data: an address, no memory. */
sl_status sli_memory_allocate(sl_device device, size_t bytes, sl_memory_category category, void **at);
void sli_memory_release(sl_device device, void *at, size_t bytes, sl_memory_category category);

/* Counts memory that is used in place (a mapped file) against the device's limit, and back. */
sl_status sli_memory_borrow(sl_device device, size_t bytes, sl_memory_category category);
void sli_memory_return(sl_device device, size_t bytes, sl_memory_category category);

/* Pinned host memory from the bounded pool of the process, as sli_memory_allocate; its category is SL_MEMORY_SLOTS. */
sl_status sli_pinned_allocate(size_t bytes, void **at);
void sli_pinned_release(void *at, size_t bytes);

/* What a person can do when memory of a category does not fit: "smaller micro-batches (micro_batch_rows)". Static. */
const char *sli_memory_knob(sl_memory_category category);
/* The setting that raises a device's limit, or what else does: "SLUICE_CPU_MEMORY"; NULL: nothing. Static. */
const char *sli_memory_limit_knob(sl_device_kind kind);
/* "weights 1024, slots 64" in bytes, without zeroes; "nothing". Returns `text`. */
enum { SLI_HOLDERS_TEXT = 256 };
const char *sli_memory_holders(const uint64_t by_category[SL_MEMORY_CATEGORIES], char text[SLI_HOLDERS_TEXT]);

#endif
