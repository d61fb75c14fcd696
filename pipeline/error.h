/* How the library's own files fail: sl_fail with a sentence, and SL_TRY. Beside it, the log. */
#ifndef SLI_ERROR_H
#define SLI_ERROR_H

#include <sluice/status.h>

/* Puts words before this thread's sentence: "stage 'front', op 'linear': " + what the op's rule said. */
sl_status sli_fail_within(sl_status status, const char *format, ...) SL_PRINTF(2, 3);

/* Makes this thread's sentence "": before a call of the user's code, so that an old one is not taken for its. */
void sli_clear_error(void);

/* Tells the user's log function. Never allocates, never prints. */
void sli_log(sl_log_level level, const char *format, ...) SL_PRINTF(2, 3);

#endif
