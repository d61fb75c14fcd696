/* A heap of (key, item), the least key first, of equal keys the least item: for searches of the planner. */
#ifndef SLI_HEAP_H
#define SLI_HEAP_H

#include <stdbool.h>
#include <stdint.h>

typedef struct sli_heap_entry {
    int64_t key;
    int item;
} sli_heap_entry;

typedef struct sli_heap {
    sli_heap_entry *entries; /* room is the owner's business */
    int n;
} sli_heap;

void sli_heap_push(sli_heap *heap, int64_t key, int item);
sli_heap_entry sli_heap_pop(sli_heap *heap); /* n > 0 */

#endif
