/* Ids to text, for whatever file the vocabulary came from. llama2.c's format is read here, tokenizer.json in
 * vocab_json.c. A vocabulary does not change after it was opened: any thread may read it. */
#include "vocab.h"
#include "checkpoint.h"
#include "mapping.h"
#include <sluice/memory.h>
#include <string.h>
#include <sys/stat.h>

static sl_status grow_ids(sl_vocab *vocab, int n) {
    if (n > vocab->capacity) {
        int capacity = n + n / 2 + 256;
        sli_piece *pieces = sl_realloc(vocab->pieces, (size_t)capacity * sizeof *pieces);
        if (!pieces)
            return SL_OUT_OF_MEMORY;
        vocab->pieces = pieces;
        vocab->capacity = capacity;
    }
    if (n > vocab->n) {
        memset(vocab->pieces + vocab->n, 0, (size_t)(n - vocab->n) * sizeof *vocab->pieces);
        vocab->n = n;
    }
    return SL_OK;
}

static sl_status grow_text(sl_vocab *vocab, size_t bytes) {
    if (vocab->text_capacity - vocab->text_bytes >= bytes)
        return SL_OK;
    size_t capacity = 2 * vocab->text_capacity + bytes + 4096;
    char *text = sl_realloc(vocab->text, capacity);
    if (!text)
        return SL_OUT_OF_MEMORY;
    vocab->text = text;
    vocab->text_capacity = capacity;
    return SL_OK;
}

sl_status sli_vocab_set(sl_vocab *vocab, int id, const char *text, size_t bytes, bool special) {
    SL_TRY(grow_ids(vocab, id + 1));
    SL_TRY(grow_text(vocab, bytes));
    vocab->pieces[id] = (sli_piece){vocab->text_bytes, (uint32_t)bytes, true, special};
    if (bytes)
        memcpy(vocab->text + vocab->text_bytes, text, bytes);
    vocab->text_bytes += bytes;
    return SL_OK;
}

static int hex(char c) {
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

int sli_byte_token(const char *text, size_t bytes) {
    if (bytes != 6 || memcmp(text, "<0x", 3) != 0 || text[5] != '>' || hex(text[3]) < 0 || hex(text[4]) < 0)
        return -1;
    return hex(text[3]) * 16 + hex(text[4]);
}

/* llama2.c: i32 longest token, then to the end of the file, for each id, f32 score, i32 bytes, text. Ids 0 to 2 are
 * unknown, begin and end. As in its run.c, a space after the begin is left out. */
sl_status sli_vocab_read_llama2(const char *path, sl_vocab *vocab) {
    enum { HEAD = 4, ENTRY = 8, SPECIAL = 3 };
    sli_mapping file;
    SL_TRY(sli_map_file(path, &file));
    sl_status status = SL_OK;
    int32_t longest = 0, bytes;
    if (file.bytes >= HEAD)
        memcpy(&longest, file.data, sizeof longest);
    if (longest < 1)
        status = sl_fail(SL_BAD_FILE, "%s: it does not begin with the length of the longest token", path);
    size_t at = HEAD;
    for (int id = 0; status == SL_OK && at < file.bytes; id++) {
        bytes = -1;
        if (file.bytes - at >= ENTRY)
            memcpy(&bytes, file.data + at + 4, sizeof bytes);
        at += ENTRY;
        if (bytes < 0 || (size_t)bytes > file.bytes - at || id > SLI_MAX_ID) {
            status = sl_fail(SL_BAD_FILE, "%s: token %d is cut off, or its length is wrong", path, id);
            break;
        }
        const char *text = (const char *)file.data + at;
        int byte = sli_byte_token(text, (size_t)bytes);
        char one = (char)byte;
        status = sli_vocab_set(vocab, id, byte < 0 ? text : &one, byte < 0 ? (size_t)bytes : 1, id < SPECIAL);
        at += (size_t)bytes;
    }
    vocab->strip = 1;
    sli_unmap_file(&file);
    return status;
}

static sl_status read_folder(const char *folder, sl_vocab *vocab) {
    char *path = sli_path_in(folder, "tokenizer.json");
    if (!path)
        return SL_OUT_OF_MEMORY;
    sl_status status = sli_vocab_read_json(path, vocab);
    sl_free(path);
    return status;
}

static sl_status read_any(const char *path, sl_vocab *vocab) {
    struct stat about;
    if (!stat(path, &about) && S_ISDIR(about.st_mode))
        return read_folder(path, vocab);
    if (sli_ends_with(path, ".json"))
        return sli_vocab_read_json(path, vocab);
    if (sli_ends_with(path, ".bin"))
        return sli_vocab_read_llama2(path, vocab);
    return sl_fail(
        SL_UNSUPPORTED,
        "%s: not a vocabulary that is supported: a tokenizer.json, a folder with one, or a tokNNN.bin of llama2.c",
        path);
}

sl_status sl_vocab_open(const char *path, sl_vocab **result) {
    *result = NULL;
    if (!path || !*path)
        return sl_fail(SL_IO, "a vocabulary is to be opened, and its path is empty");
    sl_vocab *vocab = sl_calloc(1, sizeof *vocab);
    if (!vocab)
        return SL_OUT_OF_MEMORY;
    sl_status status = read_any(path, vocab);
    if (status == SL_OK)
        *result = vocab;
    else
        sl_vocab_close(vocab);
    return status;
}

void sl_vocab_close(sl_vocab *vocab) {
    if (!vocab)
        return;
    sl_free(vocab->pieces);
    sl_free(vocab->text);
    sl_free(vocab);
}

int sl_vocab_size(const sl_vocab *vocab) {
    return vocab->n;
}

static bool gives_bytes(const sl_vocab *vocab, int id) {
    return id >= 0 && id < vocab->n && vocab->pieces[id].known && !vocab->pieces[id].special;
}

const char *sl_vocab_piece(const sl_vocab *vocab, int previous, int id, size_t *bytes) {
    *bytes = 0;
    if (!gives_bytes(vocab, id))
        return "";
    const sli_piece *piece = &vocab->pieces[id];
    bool at_begin = previous < 0 || (previous < vocab->n && vocab->pieces[previous].special);
    size_t skipped = 0;
    while (at_begin && skipped < vocab->strip && skipped < piece->bytes && vocab->text[piece->at + skipped] == ' ')
        skipped++;
    *bytes = piece->bytes - skipped;
    return vocab->text + piece->at + skipped;
}
