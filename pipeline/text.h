/* Text that grows: what plans are printed into. After a failure of memory it stays as it is and says so at the end. */
#ifndef SLI_TEXT_H
#define SLI_TEXT_H

#include <sluice/memory.h>

typedef struct sli_text { /* begins zeroed */
    char *at;             /* n bytes and a NUL */
    size_t n, room;
    bool failed;
} sli_text;

void sli_text_add(sli_text *text, const char *format, ...) SL_PRINTF(2, 3);

/* Spaces up to column `column` of the line that began at byte `line`; one at least. */
void sli_text_pad(sli_text *text, size_t line, size_t column);

/* `string` in quotes as JSON has it; what is no UTF-8 becomes U+FFFD. Good for Graphviz, too. */
void sli_text_quote(sli_text *text, const char *string);

/* Hands the string over, to be given to sl_free; SL_OUT_OF_MEMORY if something is missing, and then it is freed. */
sl_status sli_text_take(sli_text *text, char **string);

#endif
