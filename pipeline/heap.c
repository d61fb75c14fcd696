#include "heap.h"

static bool before(sli_heap_entry a, sli_heap_entry b) {
    return a.key < b.key || (a.key == b.key && a.item < b.item);
}

void sli_heap_push(sli_heap *heap, int64_t key, int item) {
    sli_heap_entry *e = heap->entries, pushed = {key, item};
    int i = heap->n++;
    for (; i > 0 && before(pushed, e[(i - 1) / 2]); i = (i - 1) / 2)
        e[i] = e[(i - 1) / 2];
    e[i] = pushed;
}

sli_heap_entry sli_heap_pop(sli_heap *heap) {
    sli_heap_entry *e = heap->entries, first = e[0], last = e[--heap->n];
    int i = 0;
    for (int child = 1; child < heap->n; child = 2 * i + 1) {
        child += child + 1 < heap->n && before(e[child + 1], e[child]);
        if (!before(e[child], last))
            break;
        e[i] = e[child];
        i = child;
    }
    e[i] = last;
    return first;
}
