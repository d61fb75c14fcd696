/* Statuses and sentences. A thread's last error is its own; the log's receiver is the process's. */
#include "error.h"
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum { SENTENCE = 1024 };

static _Thread_local char last_error[SENTENCE];

const char *sl_status_name(sl_status status) {
    static const char *const names[] = {
        [SL_OK] = "ok",
        [SL_INVALID] = "invalid",
        [SL_NO_DEVICE] = "no such device",
        [SL_OUT_OF_MEMORY] = "out of memory",
        [SL_BUSY] = "busy",
        [SL_CANCELLED] = "cancelled",
        [SL_TIMED_OUT] = "timed out",
        [SL_STAGE_FAILED] = "stage failed",
        [SL_STALLED] = "stalled",
        [SL_LOST] = "device lost",
        [SL_BAD_FILE] = "bad file",
        [SL_IO] = "cannot read",
        [SL_UNSUPPORTED] = "unsupported",
        [SL_WRONG_THREAD] = "wrong thread",
        [SL_NO_DATA] = "no data",
    };
    return (unsigned)status < SL_STATUS_COUNT ? names[status] : "unknown status";
}

const char *sl_last_error(void) {
    return last_error;
}

sl_status sl_fail(sl_status status, const char *format, ...) {
    char sentence[SENTENCE]; /* an argument may be the last error itself */
    va_list args;
    va_start(args, format);
    vsnprintf(sentence, sizeof sentence, format, args);
    va_end(args);
    memcpy(last_error, sentence, sizeof sentence);
    return status;
}

sl_status sli_fail_within(sl_status status, const char *format, ...) {
    char words[SENTENCE];
    va_list args;
    va_start(args, format);
    vsnprintf(words, sizeof words, format, args);
    va_end(args);
    size_t n = strlen(words), rest = strlen(last_error);
    rest = rest < SENTENCE - 1 - n ? rest : SENTENCE - 1 - n;
    memmove(last_error + n, last_error, rest);
    memcpy(last_error, words, n);
    last_error[n + rest] = '\0';
    return status;
}

void sli_clear_error(void) {
    last_error[0] = '\0';
}

static _Atomic(sl_log_fn) log_fn;
static void *_Atomic log_user;

void sl_set_log(sl_log_fn log, void *user) {
    atomic_store(&log_fn, NULL); /* nobody is called with the other's user */
    atomic_store(&log_user, user);
    atomic_store(&log_fn, log);
}

void sli_log(sl_log_level level, const char *format, ...) {
    sl_log_fn log = atomic_load(&log_fn);
    if (!log)
        return;
    char message[SENTENCE];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    log(level, message, atomic_load(&log_user));
}
