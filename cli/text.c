/* Ids to text for the command's output. */
#include "pass.h"
#include <stdlib.h>
#include <string.h>

/* The bytes of the UTF-8 character at `at`, or 0 if there is none (Unicode 15, table 3-7). */
static size_t character(const unsigned char *at, size_t left) {
    size_t n = at[0] < 0x80 ? 1 : at[0] >= 0xc2 && at[0] < 0xe0 ? 2 : at[0] >= 0xe0 && at[0] < 0xf0 ? 3 : 4;
    if (at[0] >= 0xf5 || (at[0] >= 0x80 && at[0] < 0xc2) || n > left)
        return 0;
    for (size_t i = 1; i < n; i++)
        if ((at[i] & 0xc0) != 0x80)
            return 0;
    bool bad = (at[0] == 0xe0 && at[1] < 0xa0) || (at[0] == 0xed && at[1] >= 0xa0) || (at[0] == 0xf0 && at[1] < 0x90) ||
               (at[0] == 0xf4 && at[1] >= 0x90);
    return bad ? 0 : n;
}

static size_t copy_clean(char *to, const char *from, size_t bytes) {
    char *start = to;
    for (size_t i = 0; i < bytes;) {
        size_t n = character((const unsigned char *)from + i, bytes - i);
        memcpy(to, n ? from + i : "\xef\xbf\xbd", n ? n : 3);
        to += n ? n : 3;
        i += n ? n : 1;
    }
    return (size_t)(to - start);
}

char *pass_text(const pass *p, int i, const sl_vocab *vocab, bool clean, size_t *bytes) {
    const outcome *o = &p->outcomes[i];
    const prompt *from = &p->prompts[i % p->n_prompts];
    size_t total = 0, n;
    for (int k = 0; k < o->n; k++) {
        sl_vocab_piece(vocab, k ? o->ids[k - 1] : from->ids[from->n - 1], o->ids[k], &n);
        total += n;
    }
    char *text = malloc(total + 1), *tidy = clean ? malloc(3 * total + 1) : NULL;
    if (text && (tidy || !clean)) {
        char *at = text;
        for (int k = 0; k < o->n; k++) {
            const char *piece = sl_vocab_piece(vocab, k ? o->ids[k - 1] : from->ids[from->n - 1], o->ids[k], &n);
            memcpy(at, piece, n);
            at += n;
        }
        *bytes = total;
        if (!clean)
            return text;
        *bytes = copy_clean(tidy, text, total);
    }
    free(text);
    return tidy;
}
