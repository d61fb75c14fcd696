/* The host heap of the library: one hook, and products that cannot wrap. */
#include "error.h"
#include <sluice/memory.h>
#include <stdlib.h>
#include <string.h>

static void *plain_allocate(size_t bytes, void *user) {
    (void)user;
    return malloc(bytes);
}

static void *plain_reallocate(void *memory, size_t bytes, void *user) {
    (void)user;
    return realloc(memory, bytes);
}

static void plain_release(void *memory, void *user) {
    (void)user;
    free(memory);
}

static const sl_allocator plain = {plain_allocate, plain_reallocate, plain_release, NULL};
static sl_allocator in_force = {plain_allocate, plain_reallocate, plain_release, NULL}; /* set before anything else */

void sl_set_allocator(const sl_allocator *allocator) {
    in_force = allocator ? *allocator : plain;
}

static void *or_fail(void *memory, size_t bytes) {
    if (!memory)
        sl_fail(SL_OUT_OF_MEMORY, "out of host memory: %zu bytes were asked for", bytes);
    return memory;
}

void *sl_malloc(size_t bytes) {
    return or_fail(in_force.allocate(bytes ? bytes : 1, in_force.user), bytes);
}

void *sl_calloc(size_t count, size_t bytes) {
    size_t total;
    if (__builtin_mul_overflow(count, bytes, &total))
        return or_fail(NULL, SIZE_MAX);
    void *memory = sl_malloc(total);
    return memory ? memset(memory, 0, total ? total : 1) : NULL;
}

void *sl_realloc(void *memory, size_t bytes) {
    return or_fail(in_force.reallocate(memory, bytes ? bytes : 1, in_force.user), bytes);
}

char *sl_strdup(const char *text) {
    size_t bytes = strlen(text) + 1;
    char *copy = sl_malloc(bytes);
    return copy ? memcpy(copy, text, bytes) : NULL;
}

void sl_free(void *memory) {
    if (memory)
        in_force.release(memory, in_force.user);
}
