/* Inside of a vocabulary: the bytes of each id, made when it is opened, so that a piece is a look-up. */
#ifndef SLI_VOCAB_H
#define SLI_VOCAB_H

#include <sluice/model.h>

enum { SLI_MAX_ID = (1 << 22) - 1 };

typedef struct sli_piece {
    size_t at; /* in the vocabulary's text */
    uint32_t bytes;
    bool known;
    bool special; /* gives no bytes */
} sli_piece;

struct sl_vocab {
    int n, capacity;
    sli_piece *pieces; /* [capacity], n of them in use */
    char *text;
    size_t text_bytes, text_capacity;
    uint32_t strip; /* so many leading spaces are left out at the begin of a text, and after a special id */
};

/* Gives an id its bytes, which are copied; replaces what it had. Grows the vocabulary to hold it. */
sl_status sli_vocab_set(sl_vocab *vocab, int id, const char *text, size_t bytes, bool special);

/* The two formats; the vocabulary is zeroed, and is to be freed also after an error. */
sl_status sli_vocab_read_json(const char *path, sl_vocab *vocab);
sl_status sli_vocab_read_llama2(const char *path, sl_vocab *vocab);

/* "<0x0A>": its byte; -1 for anything else. */
int sli_byte_token(const char *text, size_t bytes);

#endif
