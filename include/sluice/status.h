/* Errors: a status for the program, a sentence for the person. */
#ifndef SLUICE_STATUS_H
#define SLUICE_STATUS_H

#include <sluice/export.h>

SL_BEGIN_C

typedef enum sl_status {
    SL_OK = 0,
    SL_INVALID,       /* an argument, a graph, an option: the message says which and what is allowed */
    SL_NO_DEVICE,     /* the device, or its kind, is not there */
    SL_OUT_OF_MEMORY, /* of a device or of the host: the message says which, what holds how much, and the knobs */
    SL_BUSY,          /* the queue is at its limit: submit again later */
    SL_CANCELLED,     /* by the caller, or because the pipeline was closed */
    SL_TIMED_OUT,     /* a wait's limit passed; what was waited for goes on */
    SL_STAGE_FAILED,  /* an op said no */
    SL_STALLED,       /* a lane stood still for longer than the pipeline's patience */
    SL_LOST,          /* a device or its runtime failed */
    SL_BAD_FILE,      /* a file's content breaks its format */
    SL_IO,            /* a file cannot be opened or read */
    SL_UNSUPPORTED,   /* sound, but not something that this build can do: the message lists what it can */
    SL_WRONG_THREAD,  /* a call that would wait for the thread it is made on */
    SL_NO_DATA,       /* the memory of a simulated device was to be read */
    SL_STATUS_COUNT
} sl_status;

/* "out of memory"; static; "unknown status" for anything else. */
SL_API const char *sl_status_name(sl_status status);

/* The sentence of the last call on this thread that did not return SL_OK; "" if there was none. It is this thread's
 * own, and holds until the thread's next failing call. */
SL_API const char *sl_last_error(void);

/* Sets this thread's sentence and returns `status`: for ops, hooks and sources of the user, whose sentence reaches the
 * error of the job. Never allocates; longer than 1,023 bytes is cut. */
SL_API sl_status sl_fail(sl_status status, const char *format, ...) SL_PRINTF(2, 3);

/* Returns from the calling function with the status of `expression` unless it is SL_OK. */
#define SL_TRY(expression)                                                                                             \
    do {                                                                                                               \
        sl_status sl_try_status = (expression);                                                                        \
        if (sl_try_status != SL_OK)                                                                                    \
            return sl_try_status;                                                                                      \
    } while (0)

typedef enum sl_log_level { SL_LOG_WARNING, SL_LOG_INFO, SL_LOG_DEBUG } sl_log_level;

/* Borrows `message` for the call. Called on any thread, also on the driver's: it must be quick. */
typedef void (*sl_log_fn)(sl_log_level level, const char *message, void *user);

/* Who is told of what is no error ("the link cpu:0 -> cpu:1 corrupts bytes: staged instead"). NULL, at first: nobody.
 * The library itself never prints. Any thread; takes effect at once. */
SL_API void sl_set_log(sl_log_fn log, void *user);

SL_END_C
#endif
