/* Arrays that grow by one: what graphs and plans are built of. The room is the next power of two, so that an array
 * needs no field for it. */
#ifndef SLI_ARRAY_H
#define SLI_ARRAY_H

#include <sluice/memory.h>
#include <string.h>

/* Makes room for element `n` of `array`, which has n elements of `element_bytes` and was grown by this alone; gives
 * where the array now is, or NULL, with the old one whole. Element n is zeroed. */
static inline void *sli_array_grow(void *array, int n, size_t element_bytes) {
    if ((n & (n - 1)) == 0) { /* 0 or a power of two: full */
        size_t room = n ? 2 * (size_t)n : 1;
        array = room > SIZE_MAX / element_bytes ? NULL : sl_realloc(array, room * element_bytes);
    }
    if (array)
        memset((char *)array + (size_t)n * element_bytes, 0, element_bytes);
    return array;
}

/* sli_array_grow for a typed field: `array` is set unless it fails. True if there is room. */
#define SLI_ROOM(array, n) sli_array_room(&(array), (n), sizeof *(array))

static inline bool sli_array_room(void *field, int n, size_t element_bytes) {
    void *array; /* copied as bytes: the field is a pointer of another type */
    memcpy(&array, field, sizeof array);
    array = sli_array_grow(array, n, element_bytes);
    if (array)
        memcpy(field, &array, sizeof array);
    return array != NULL;
}

#endif
