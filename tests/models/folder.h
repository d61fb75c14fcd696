/* A temporary folder for tests that need files of their own. One a test; leave it with folder_remove. */
#ifndef TESTS_MODELS_FOLDER_H
#define TESTS_MODELS_FOLDER_H

#include "support.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct folder {
    char path[256];
    char file[512]; /* what folder_file gave last */
} folder;

static inline folder folder_make(void) {
    folder f;
    const char *base = getenv("TMPDIR");
    snprintf(f.path, sizeof f.path, "%s/sluice-test-XXXXXX", base ? base : "/tmp");
    ck_assert_msg(mkdtemp(f.path) != NULL, "%s", f.path);
    return f;
}

/* The path of a file in it, valid until the next call. */
static inline const char *folder_file(folder *f, const char *name) {
    snprintf(f->file, sizeof f->file, "%s/%s", f->path, name);
    return f->file;
}

static inline void folder_write(folder *f, const char *name, const void *content, size_t bytes) {
    FILE *file = fopen(folder_file(f, name), "wb");
    ck_assert_msg(file != NULL, "%s", f->file);
    ck_assert_uint_eq(fwrite(content, 1, bytes, file), bytes);
    fclose(file);
}

static inline void folder_write_text(folder *f, const char *name, const char *text) {
    folder_write(f, name, text, strlen(text));
}

static inline void folder_link(folder *f, const char *name, const char *target) {
    ck_assert_int_eq(symlink(target, folder_file(f, name)), 0);
}

static inline void folder_remove(folder *f) {
    char command[300];
    snprintf(command, sizeof command, "rm -r '%s'", f->path);
    ck_assert_int_eq(test_run(command, NULL, 0), 0);
}

#endif
