/* Reads arrays of a NumPy .npz: a zip of .npy files, here always stored and not compressed. */
#ifndef TESTS_MODELS_NPZ_H
#define TESTS_MODELS_NPZ_H

#include "support.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct npz {
    char *content;
    size_t bytes;
} npz;

static inline npz npz_open(const char *path) {
    npz z;
    z.content = test_read_file(path, &z.bytes);
    return z;
}

static inline void npz_close(npz *z) {
    free(z->content);
}

static inline uint32_t npz_number(const npz *z, size_t at, int bytes) {
    uint32_t number = 0;
    ck_assert_uint_le(at + (size_t)bytes, z->bytes);
    for (int i = bytes; i-- > 0;)
        number = number << 8 | (unsigned char)z->content[at + (size_t)i];
    return number;
}

/* The content of `name`.npy, whose element type is `type` ("<f4", "<i8"); `*n` gets the number of elements. */
static inline const void *npz_array(const npz *z, const char *name, const char *type, size_t *n) {
    enum { END = 22, CENTRAL = 46, LOCAL = 30 };
    char file[64];
    size_t length = (size_t)snprintf(file, sizeof file, "%s.npy", name);
    size_t at = npz_number(z, z->bytes - END + 16, 4); /* the central directory */
    for (uint32_t k = npz_number(z, z->bytes - END + 10, 2); k--;) {
        uint32_t name_bytes = npz_number(z, at + 28, 2), method = npz_number(z, at + 10, 2);
        uint32_t bytes = npz_number(z, at + 24, 4), local = npz_number(z, at + 42, 4);
        if (name_bytes == length && !memcmp(z->content + at + CENTRAL, file, length)) {
            ck_assert_msg(method == 0, "%s is compressed", file);
            size_t npy = local + LOCAL + npz_number(z, local + 26, 2) + npz_number(z, local + 28, 2);
            size_t header = npz_number(z, npy + 8, 2) + 10;
            ck_assert_int_eq(memcmp(z->content + npy, "\x93NUMPY\x01", 7), 0);
            char *text = strndup(z->content + npy + 10, header - 10);
            ck_assert_msg(strstr(text, type) && strstr(text, "'fortran_order': False"), "%s: %s", file, text);
            free(text);
            *n = (bytes - header) / (size_t)(type[2] - '0');
            return z->content + npy + header;
        }
        at += CENTRAL + name_bytes + npz_number(z, at + 30, 2) + npz_number(z, at + 32, 2);
    }
    ck_abort_msg("%s is not in the file", file);
    return NULL;
}

#endif
