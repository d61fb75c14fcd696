/* See show.h. */
#include "show.h"
#include <stdio.h>
#include <string.h>

sli_shown sli_show(const char *text) {
    sli_shown shown;
    size_t n = strlen(text), kept = n;
    if (n > SLI_SHOWN - 1) {
        kept = SLI_SHOWN - 4;
        while (kept && ((unsigned char)text[kept] & 0xc0) == 0x80)
            kept--;
    }
    for (size_t i = 0; i < kept; i++)
        shown.text[i] = (unsigned char)text[i] < 0x20 || text[i] == 0x7f ? '?' : text[i];
    strcpy(shown.text + kept, kept < n ? "..." : "");
    return shown;
}

sli_shown sli_show_shape(int rank, const int64_t *shape) {
    sli_shown shown = {"["};
    size_t n = 1;
    for (int d = 0; d < rank; d++) {
        char dimension[32];
        size_t bytes = (size_t)snprintf(dimension, sizeof dimension, "%s%lld", d ? ", " : "", (long long)shape[d]);
        if (n + bytes + sizeof ", ...]" > SLI_SHOWN) {
            strcpy(shown.text + n, ", ...");
            n += strlen(", ...");
            break;
        }
        memcpy(shown.text + n, dimension, bytes + 1);
        n += bytes;
    }
    strcpy(shown.text + n, "]");
    return shown;
}
