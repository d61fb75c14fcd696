/* What ops ask of the lane that they run on. The backend that made it has filled it in. */
#include "backend/backend.h"

void sl_lane_parallel(sl_lane *lane, int n_parts, void (*run)(int part, int n_parts, void *user), void *user) {
    if (n_parts > 1)
        lane->parallel(lane, n_parts, run, user);
    else if (n_parts == 1)
        run(0, 1, user);
}

int sl_lane_threads(const sl_lane *lane) {
    return lane->threads;
}

sl_device sl_lane_device(const sl_lane *lane) {
    return lane->device;
}

void *sl_lane_native(sl_lane *lane) {
    return lane->native;
}
