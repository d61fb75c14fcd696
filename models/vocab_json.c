/* tokenizer.json, as Hugging Face's tokenizers writes it, as far as ids to text need it: the tokens, which of them are
 * special, and the decoder, whose steps are applied to each token once. What several tokens make together (a character
 * of several bytes) is made by joining their bytes. */
#include "keys.h"
#include "show.h"
#include "vocab.h"
#include <sluice/memory.h>
#include <string.h>

enum { MAX_STEPS = 16, MAX_TOKEN = 1 << 20 };

typedef enum step_kind { STEP_BYTE_LEVEL, STEP_REPLACE, STEP_BYTE_FALLBACK, STEP_STRIP, STEP_SPACE_BEFORE } step_kind;

typedef struct step {
    step_kind kind;
    const char *from, *to; /* REPLACE; STRIP: `from` is the character */
    int begin, end;        /* STRIP: how many at most */
} step;

typedef struct decoder {
    const char *path;
    int n_steps;
    step steps[MAX_STEPS];
    bool fused; /* what follows is about the text, not about each token */
    sl_vocab *vocab;
    char *buffers[2]; /* a token before and after a step */
    size_t capacity;
} decoder;

/* ---- The decoder's description ---- */

static sl_status unsupported(const decoder *d, const char *what) {
    return sl_fail(SL_UNSUPPORTED,
                   "%s: decoder '%s' is not supported; supported are ByteLevel, Replace of a string, "
                   "ByteFallback, Fuse, Strip, Metaspace and sequences of them",
                   d->path, sli_show(what).text);
}

static sl_status add_step(decoder *d, step s) {
    if (d->n_steps == MAX_STEPS)
        return sl_fail(SL_UNSUPPORTED, "%s: the decoder has more than %d steps", d->path, MAX_STEPS);
    d->steps[d->n_steps++] = s;
    return SL_OK;
}

static sl_status read_replace(decoder *d, const sli_keys *keys) {
    sli_keys pattern;
    bool found;
    step s = {.kind = STEP_REPLACE};
    SL_TRY(sli_key_object(keys, "pattern", "decoder.pattern.", &pattern, &found));
    if (!found || !sli_key(&pattern, "String"))
        return unsupported(d, "Replace of a pattern");
    SL_TRY(sli_key_text(&pattern, "String", &s.from));
    SL_TRY(sli_key_text(keys, "content", &s.to));
    if (!*s.from)
        return sl_fail(SL_BAD_FILE, "%s: a decoder's 'Replace' has an empty pattern", d->path);
    return add_step(d, s);
}

static sl_status read_strip(decoder *d, const sli_keys *keys) {
    step s = {.kind = STEP_STRIP};
    SL_TRY(sli_key_text(keys, "content", &s.from));
    SL_TRY(sli_key_int(keys, "start", 0, 1 << 20, &s.begin));
    SL_TRY(sli_key_int(keys, "stop", 0, 1 << 20, &s.end));
    if (!d->fused)
        return add_step(d, s);
    if (strcmp(s.from, " ") != 0 || s.end)
        return unsupported(d, "Strip of a text's end, or of others than spaces");
    d->vocab->strip = (uint32_t)s.begin;
    return SL_OK;
}

static sl_status read_metaspace(decoder *d, const sli_keys *keys) {
    step s = {.kind = STEP_REPLACE, .to = " "};
    bool prefix;
    const char *scheme;
    SL_TRY(sli_key_text_or(keys, "replacement", "\xe2\x96\x81", &s.from));
    SL_TRY(sli_key_bool_or(keys, "add_prefix_space", true, &prefix));
    SL_TRY(sli_key_text_or(keys, "prepend_scheme", prefix ? "always" : "never", &scheme));
    if (!*s.from)
        return sl_fail(SL_BAD_FILE, "%s: a decoder's 'Metaspace' has an empty replacement", d->path);
    if (strcmp(scheme, "never") != 0)
        d->vocab->strip = UINT32_MAX;
    return add_step(d, s);
}

static sl_status read_decoder(decoder *d, const sli_keys *keys);

static sl_status read_sequence(decoder *d, const sli_keys *keys) {
    const json_t *list = sli_key(keys, "decoders");
    if (!json_is_array(list))
        return sl_fail(SL_BAD_FILE, "%s: a decoder's 'Sequence' has no list 'decoders'", d->path);
    for (size_t i = 0; i < json_array_size(list); i++)
        SL_TRY(read_decoder(d, &(sli_keys){d->path, "decoder.", json_array_get(list, i)}));
    return SL_OK;
}

static sl_status read_decoder(decoder *d, const sli_keys *keys) {
    const char *type;
    SL_TRY(sli_key_text(keys, "type", &type));
    if (!strcmp(type, "Sequence"))
        return read_sequence(d, keys);
    if (!strcmp(type, "ByteLevel"))
        return add_step(d, (step){.kind = STEP_BYTE_LEVEL});
    if (!strcmp(type, "ByteFallback"))
        return add_step(d, (step){.kind = STEP_BYTE_FALLBACK});
    if (!strcmp(type, "Replace"))
        return read_replace(d, keys);
    if (!strcmp(type, "Strip"))
        return read_strip(d, keys);
    if (!strcmp(type, "Metaspace"))
        return read_metaspace(d, keys);
    if (strcmp(type, "Fuse") != 0)
        return unsupported(d, type);
    d->fused = true;
    return SL_OK;
}

/* ---- Its steps, on one token ---- */

/* GPT-2 writes each byte as a character: printable ones of Latin-1 as themselves, the others, in order, from U+0100. */
static int byte_of(unsigned code) {
    if ((code >= 33 && code <= 126) || (code >= 161 && code <= 172) || (code >= 174 && code <= 255))
        return (int)code;
    if (code < 256 || code > 256 + 67)
        return -1;
    unsigned n = code - 256;
    return (int)(n < 33 ? n : n < 67 ? 127 + n - 33 : 173);
}

/* A token with a character that stands for no byte is taken as it is: added tokens are plain text. */
static size_t decode_bytes(const char *from, size_t n, char *to) {
    size_t made = 0;
    for (size_t i = 0; i < n; made++) {
        unsigned c = (unsigned char)from[i++];
        if (c >= 0xc0 && c < 0xe0 && i < n)
            c = (c & 0x1f) << 6 | ((unsigned char)from[i++] & 0x3f);
        else if (c >= 0x80)
            c = UINT32_MAX; /* longer ones stand for none */
        int byte = byte_of(c);
        if (byte < 0) {
            memcpy(to, from, n);
            return n;
        }
        to[made] = (char)byte;
    }
    return made;
}

static size_t replace(const step *s, const char *from, size_t n, char *to) {
    size_t m = strlen(s->from), k = strlen(s->to), made = 0;
    for (size_t i = 0; i < n;) {
        if (n - i >= m && !memcmp(from + i, s->from, m)) {
            memcpy(to + made, s->to, k);
            made += k;
            i += m;
        } else {
            to[made++] = from[i++];
        }
    }
    return made;
}

static size_t strip(const step *s, const char *from, size_t n, char *to) {
    size_t m = strlen(s->from), begin = 0, end = n;
    for (int i = 0; m && i < s->begin && end - begin >= m && !memcmp(from + begin, s->from, m); i++)
        begin += m;
    for (int i = 0; m && i < s->end && end - begin >= m && !memcmp(from + end - m, s->from, m); i++)
        end -= m;
    memcpy(to, from + begin, end - begin);
    return end - begin;
}

static size_t apply(const step *s, const char *from, size_t n, char *to) {
    int byte;
    switch (s->kind) {
    case STEP_BYTE_LEVEL:
        return decode_bytes(from, n, to);
    case STEP_REPLACE:
        return replace(s, from, n, to);
    case STEP_STRIP:
        return strip(s, from, n, to);
    case STEP_SPACE_BEFORE:
        to[0] = ' ';
        memcpy(to + 1, from, n);
        return n + 1;
    case STEP_BYTE_FALLBACK:
        break;
    }
    if ((byte = sli_byte_token(from, n)) < 0) {
        memcpy(to, from, n);
        return n;
    }
    to[0] = (char)byte;
    return 1;
}

/* The most bytes that any step can make of n. */
static size_t bound(const decoder *d, size_t n) {
    size_t most = n;
    for (int i = 0; i < d->n_steps; i++) {
        if (d->steps[i].kind == STEP_SPACE_BEFORE)
            most++;
        if (d->steps[i].kind == STEP_REPLACE)
            most *= strlen(d->steps[i].to) + 1;
        if (most > MAX_TOKEN)
            return SIZE_MAX;
    }
    return most + 1;
}

static sl_status reserve(decoder *d, size_t bytes) {
    for (int i = 0; bytes > d->capacity && i < 2; i++) {
        char *buffer = sl_realloc(d->buffers[i], bytes);
        if (!buffer)
            return SL_OUT_OF_MEMORY;
        d->buffers[i] = buffer;
    }
    d->capacity = bytes > d->capacity ? bytes : d->capacity;
    return SL_OK;
}

static sl_status add_token(decoder *d, const char *token, json_int_t id, bool special) {
    size_t n = strlen(token), most = bound(d, n);
    if (id < 0 || id > SLI_MAX_ID)
        return sl_fail(SL_BAD_FILE, "%s: token '%s' has the id %lld: 0 to %d is expected", d->path,
                       sli_show(token).text, (long long)id, SLI_MAX_ID);
    if (most == SIZE_MAX)
        return sl_fail(SL_BAD_FILE, "%s: token '%s' is too long", d->path, sli_show(token).text);
    SL_TRY(reserve(d, most));
    memcpy(d->buffers[0], token, n);
    for (int i = 0; i < d->n_steps; i++) {
        n = apply(&d->steps[i], d->buffers[0], n, d->buffers[1]);
        char *made = d->buffers[1];
        d->buffers[1] = d->buffers[0];
        d->buffers[0] = made;
    }
    return sli_vocab_set(d->vocab, (int)id, d->buffers[0], n, special);
}

/* ---- The tokens ---- */

static sl_status read_map(decoder *d, json_t *map) {
    const char *token;
    json_t *id;
    json_object_foreach(map, token, id) {
        if (!json_is_integer(id))
            return sl_fail(SL_BAD_FILE, "%s: token '%s' has %s where an id is expected", d->path, sli_show(token).text,
                           sli_json_kind(id));
        json_int_t number = json_integer_value(id);
        if (number >= 0 && number < d->vocab->n && d->vocab->pieces[number].known)
            return sl_fail(SL_BAD_FILE, "%s: token '%s' has the id %lld, which another one has", d->path,
                           sli_show(token).text, (long long)number);
        SL_TRY(add_token(d, token, number, false));
    }
    return SL_OK;
}

static sl_status read_list(decoder *d, const json_t *list) {
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *token = json_array_get(json_array_get(list, i), 0);
        if (!json_is_string(token))
            return sl_fail(SL_BAD_FILE, "%s: 'model.vocab': entry %zu is no pair of a token and its score", d->path, i);
        SL_TRY(add_token(d, json_string_value(token), (json_int_t)i, false));
    }
    return SL_OK;
}

static sl_status read_added(decoder *d, const json_t *list) {
    for (size_t i = 0; i < json_array_size(list); i++) {
        sli_keys keys = {d->path, "added_tokens.", json_array_get(list, i)};
        const char *content;
        int id;
        bool special;
        SL_TRY(sli_key_text(&keys, "content", &content));
        SL_TRY(sli_key_int(&keys, "id", 0, SLI_MAX_ID, &id));
        SL_TRY(sli_key_bool_or(&keys, "special", false, &special));
        SL_TRY(add_token(d, content, id, special));
    }
    return SL_OK;
}

static sl_status read_tokens(decoder *d, const sli_keys *root) {
    sli_keys keys;
    bool found;
    SL_TRY(sli_key_object(root, "model", "model.", &keys, &found));
    json_t *tokens = found ? json_object_get(keys.object, "vocab") : NULL;
    if (!json_is_object(tokens) && !json_is_array(tokens))
        return sl_fail(SL_BAD_FILE, "%s: 'model.vocab' is %s where an object or an array is expected", d->path,
                       sli_json_kind(tokens));
    SL_TRY(json_is_object(tokens) ? read_map(d, tokens) : read_list(d, tokens));
    const json_t *added = sli_key(root, "added_tokens");
    if (added && !json_is_array(added))
        return sl_fail(SL_BAD_FILE, "%s: 'added_tokens' is %s where an array is expected", d->path,
                       sli_json_kind(added));
    return read_added(d, added);
}

/* Without a decoder, tokens are words: joined by spaces. */
static sl_status read_all(decoder *d, const sli_keys *root) {
    sli_keys keys;
    bool found;
    SL_TRY(sli_key_object(root, "decoder", "decoder.", &keys, &found));
    if (found) {
        SL_TRY(read_decoder(d, &keys));
    } else {
        SL_TRY(add_step(d, (step){.kind = STEP_SPACE_BEFORE}));
        d->vocab->strip = 1;
    }
    return read_tokens(d, root);
}

sl_status sli_vocab_read_json(const char *path, sl_vocab *vocab) {
    json_t *root;
    SL_TRY(sli_json_load(path, &root));
    decoder d = {.path = path, .vocab = vocab};
    sl_status status = read_all(&d, &(sli_keys){path, "", root});
    sl_free(d.buffers[0]);
    sl_free(d.buffers[1]);
    json_decref(root);
    return status;
}
