#include "text.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static bool make_room(sli_text *t, size_t more) {
    if (t->failed)
        return false;
    if (t->room - t->n > more)
        return true;
    size_t room = 2 * (t->n + more) + 256;
    char *at = sl_realloc(t->at, room);
    t->failed = !at;
    if (t->failed)
        return false;
    t->at = at;
    t->room = room;
    return true;
}

void sli_text_add(sli_text *t, const char *format, ...) {
    va_list args;
    va_start(args, format);
    int length = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (length < 0 || !make_room(t, (size_t)length))
        return;
    va_start(args, format);
    vsnprintf(t->at + t->n, t->room - t->n, format, args);
    va_end(args);
    t->n += (size_t)length;
}

void sli_text_pad(sli_text *t, size_t line, size_t column) {
    size_t at = t->n - line;
    sli_text_add(t, "%*s", at < column ? (int)(column - at) : 1, "");
}

/* Bytes of the UTF-8 character at `s`; 0: it is none. */
static int character(const unsigned char *s) {
    int n = s[0] < 0x80 ? 1 : (s[0] & 0xe0) == 0xc0 ? 2 : (s[0] & 0xf0) == 0xe0 ? 3 : (s[0] & 0xf8) == 0xf0 ? 4 : 0;
    unsigned code = n == 1 ? s[0] : n ? s[0] & (0x7fu >> n) : 0;
    static const unsigned least[] = {0, 0, 0x80, 0x800, 0x10000};
    for (int i = 1; i < n; i++) {
        if ((s[i] & 0xc0) != 0x80)
            return 0;
        code = code << 6 | (s[i] & 0x3f);
    }
    bool is_surrogate = code >= 0xd800 && code < 0xe000;
    return code < least[n] || code > 0x10ffff || is_surrogate ? 0 : n;
}

void sli_text_quote(sli_text *t, const char *string) {
    sli_text_add(t, "\"");
    for (const unsigned char *s = (const unsigned char *)string; *s;) {
        int n = character(s);
        if (*s == '"' || *s == '\\')
            sli_text_add(t, "\\%c", *s);
        else if (*s < 0x20 || *s == 0x7f)
            sli_text_add(t, "\\u%04x", *s);
        else if (n == 0)
            sli_text_add(t, "\\ufffd");
        else
            sli_text_add(t, "%.*s", n, (const char *)s);
        s += n ? n : 1;
    }
    sli_text_add(t, "\"");
}

sl_status sli_text_take(sli_text *t, char **string) {
    sli_text_add(t, "%s", ""); /* an empty one is a string, too */
    *string = t->failed ? NULL : t->at;
    if (t->failed)
        sl_free(t->at);
    *t = (sli_text){0};
    return *string ? SL_OK : SL_OUT_OF_MEMORY;
}
