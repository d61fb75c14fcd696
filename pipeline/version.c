#include <sluice/version.h>

const char *sl_version(void) {
    return SL_VERSION;
}
