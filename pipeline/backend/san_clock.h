/* Vector clocks for many lanes: for each lane the highest of its values that is known to be in the past. Clocks share
 * what they have in common, so that keeping one for each record of thousands of lanes is not quadratic. One thread. */
#ifndef SLI_SAN_CLOCK_H
#define SLI_SAN_CLOCK_H

#include "backend.h"

typedef struct sli_clock sli_clock; /* constant while it has several owners */

/* Of nothing; NULL: no memory. Returns a reference. */
sli_clock *sli_clock_create(void);
sli_clock *sli_clock_retain(sli_clock *clock);
void sli_clock_release(sli_clock *clock); /* takes NULL */

uint64_t sli_clock_get(const sli_clock *clock, int lane);

/* Changes the owner's clock, which becomes another one where it has other owners. False: no memory, and the clock
 * knows less than it should. */
bool sli_clock_raise(sli_clock **clock, int lane, uint64_t value);
bool sli_clock_join(sli_clock **clock, const sli_clock *other);

#endif
