/* What the three forms of a printed plan share. */
#ifndef SLI_PLAN_PRINT_H
#define SLI_PLAN_PRINT_H

#include "plan.h"
#include "text.h"

const char *sli_plan_device_text(const sl_plan *plan, int device, char text[SL_DEVICE_TEXT]); /* "host" too */
const char *sli_plan_why_text(sli_depth_why why);                /* a clause: "a depth option" */
const char *sli_plan_route_text(sli_route route);                /* "peer" */
uint64_t sli_plan_stage_weights(const sl_plan *plan, int stage); /* bytes that its ops use */
uint64_t sli_plan_stage_state(const sl_plan *plan, int stage);

/* Which payload a WAIT of the program waits for, and of how many steps before. */
uint32_t sli_plan_waited(const sl_plan *plan, const sli_plan_action *wait, int64_t *steps);

void sli_plan_print_text(const sl_plan *plan, sli_text *text);
void sli_plan_print_json(const sl_plan *plan, sli_text *text);
void sli_plan_print_dot(const sl_plan *plan, sli_text *text);

#endif
