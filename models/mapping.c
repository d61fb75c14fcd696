/* See mapping.h. */
#include "mapping.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static sl_status cannot(const char *path) {
    char reason[128];
    return sl_fail(SL_IO, "%s: cannot be read: %s", path, strerror_r(errno, reason, sizeof reason));
}

static sl_status map_open_file(const char *path, int file, sli_mapping *mapping) {
    struct stat about;
    if (fstat(file, &about))
        return cannot(path);
    if (!S_ISREG(about.st_mode))
        return sl_fail(SL_IO, "%s: cannot be read: it is %s and no plain file", path,
                       S_ISDIR(about.st_mode) ? "a folder" : "a device, a pipe or a socket");
    if (!about.st_size)
        return SL_OK;
    void *data = mmap(NULL, (size_t)about.st_size, PROT_READ, MAP_PRIVATE, file, 0);
    if (data == MAP_FAILED)
        return cannot(path);
    *mapping = (sli_mapping){data, (size_t)about.st_size};
    return SL_OK;
}

sl_status sli_map_file(const char *path, sli_mapping *mapping) {
    *mapping = (sli_mapping){0};
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe must not block us */
    if (file < 0)
        return cannot(path);
    sl_status status = map_open_file(path, file, mapping);
    close(file);
    return status;
}

void sli_unmap_file(sli_mapping *mapping) {
    if (mapping->data)
        munmap((void *)(uintptr_t)mapping->data, mapping->bytes);
    *mapping = (sli_mapping){0};
}
