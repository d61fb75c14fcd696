/* The version of the library: at compile time by macros, at run time by a call. Both follow semantic versioning. */
#ifndef SLUICE_VERSION_H
#define SLUICE_VERSION_H

#include <sluice/export.h>

#define SL_VERSION_MAJOR 0
#define SL_VERSION_MINOR 1
#define SL_VERSION_PATCH 0
#define SL_VERSION "0.1.0"

SL_BEGIN_C

/* The version of the library that is loaded, as "0.1.0"; static. It differs from SL_VERSION if a program built against
 * one version runs with another. */
SL_API const char *sl_version(void);

SL_END_C
#endif
