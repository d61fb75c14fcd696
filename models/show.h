/* How names and shapes of files are shown in sentences: a file can hold anything, and a sentence is one line. */
#ifndef SLI_SHOW_H
#define SLI_SHOW_H

#include <stddef.h>
#include <stdint.h>

enum { SLI_SHOWN = 112 };

typedef struct sli_shown {
    char text[SLI_SHOWN];
} sli_shown;

/* `text` with control characters as '?', cut to fit, between characters, with "..." where it was cut. */
sli_shown sli_show(const char *text);

/* "[2, 3]"; a long shape is cut. */
sli_shown sli_show_shape(int rank, const int64_t *shape);

#endif
