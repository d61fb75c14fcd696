/* What every public header needs: what leaves the library, C++ linkage, checked formats. */
#ifndef SLUICE_EXPORT_H
#define SLUICE_EXPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SL_API __attribute__((visibility("default")))
#define SL_PRINTF(text, first) __attribute__((format(printf, text, first)))

#ifdef __cplusplus
#define SL_BEGIN_C extern "C" {
#define SL_END_C }
#else
#define SL_BEGIN_C
#define SL_END_C
#endif

#endif
