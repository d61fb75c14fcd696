/* Bytes from one device's memory to another's, by whichever platform knows both ends: a CPU device's memory is host
 * memory for every other kind. */
#include "backend/backend.h"
#include "error.h"
#include "tensor.h"

sl_status sli_copy(sl_device to, void *destination, sl_device from, const void *source, size_t bytes) {
    if (to.kind == from.kind)
        return sli_platform_get(to.kind)->copy(to.index, destination, from.index, source, bytes);
    if (from.kind == SL_CPU)
        return sli_platform_get(to.kind)->copy(to.index, destination, SLI_HOST, source, bytes);
    if (to.kind == SL_CPU)
        return sli_platform_get(from.kind)->copy(SLI_HOST, destination, from.index, source, bytes);
    char a[SL_DEVICE_TEXT], b[SL_DEVICE_TEXT];
    return sl_fail(SL_NO_DATA, "nothing can be copied from %s to %s: a simulated device holds no data",
                   sl_device_format(from, a), sl_device_format(to, b));
}
