/* Memory: the host allocator of the library, and figures of every device. */
#ifndef SLUICE_MEMORY_H
#define SLUICE_MEMORY_H

#include <sluice/device.h>

SL_BEGIN_C

/* All memory that the library itself takes from the host's heap (not the devices' memory). Each function may be called
 * on any thread. `allocate` gives memory aligned for any type or NULL; `release` takes NULL. */
typedef struct sl_allocator {
    void *(*allocate)(size_t bytes, void *user);
    void *(*reallocate)(void *memory, size_t bytes, void *user);
    void (*release)(void *memory, void *user);
    void *user;
} sl_allocator;

/* Copies `allocator`; NULL: malloc and its kin. Call it before anything else of the library: memory is given back to
 * the allocator in force. */
SL_API void sl_set_allocator(const sl_allocator *allocator);

/* From the allocator in force. NULL when there is none (sl_last_error is set), or for a product that wraps; 0 bytes
 * give a pointer that can be freed. sl_calloc zeroes. */
SL_API void *sl_malloc(size_t bytes);
SL_API void *sl_calloc(size_t count, size_t bytes);
SL_API void *sl_realloc(void *memory, size_t bytes);
SL_API char *sl_strdup(const char *text);
SL_API void sl_free(void *memory); /* takes NULL */

typedef enum sl_memory_category {
    SL_MEMORY_TENSORS, /* sl_tensor of the user */
    SL_MEMORY_WEIGHTS,
    SL_MEMORY_ACTIVATIONS, /* inside a stage, by liveness */
    SL_MEMORY_STATE,
    SL_MEMORY_SLOTS,   /* values between stages, inputs, outputs, descriptors */
    SL_MEMORY_SCRATCH, /* of an op while it runs */
    SL_MEMORY_CATEGORIES
} sl_memory_category;

SL_API const char *sl_memory_category_name(sl_memory_category category); /* "weights"; static */

typedef struct sl_memory_figures {              /* bytes */
    uint64_t limit;                             /* what the device has, or its configured limit; 0: not limited */
    uint64_t allocated;                         /* in use now */
    uint64_t reserved;                          /* taken from the device: allocated, and kept for the next allocation */
    uint64_t peak;                              /* largest `allocated` since the start or the last reset */
    uint64_t by_category[SL_MEMORY_CATEGORIES]; /* sums to `allocated` */
} sl_memory_figures;

/* torch.cuda.memory_allocated, memory_reserved, max_memory_allocated and mem_get_info in one call. Any thread. */
SL_API sl_status sl_memory_get(sl_device device, sl_memory_figures *figures);
SL_API sl_status sl_memory_reset_peak(sl_device device);

/* torch.cuda.empty_cache: gives back what is reserved and not in use. Safe on any thread while pipelines run.
 * `freed_bytes` may be NULL. */
SL_API sl_status sl_memory_trim(sl_device device, uint64_t *freed_bytes);

/* Pinned host memory (what an asynchronous copy of a GPU needs) comes from a bounded pool of the process:
 * SLUICE_PINNED_MEMORY. `allocated` and `peak` are those of the pool; all of it counts as slots. Any thread. */
SL_API sl_status sl_memory_get_pinned(sl_memory_figures *figures);

/* Gives back what the pool holds and nothing uses. `freed_bytes` may be NULL. Any thread. */
SL_API sl_status sl_memory_trim_pinned(uint64_t *freed_bytes);

SL_END_C
#endif
