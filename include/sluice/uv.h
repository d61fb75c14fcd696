/* Pipelines on the user's own libuv loop. The one public header that needs libuv. */
#ifndef SLUICE_UV_H
#define SLUICE_UV_H

/* libuv's own header needs POSIX names, which -std=c11 hides. */
#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L
#endif

#include <sluice/pipeline.h>
#include <uv.h>

SL_BEGIN_C

/* sl_pipeline_open with callbacks on `loop`, which is borrowed until the pipeline is closed. To be called on the thread
 * that runs the loop, before it runs or while it does: that thread is the loop's own for sl_job_wait and close. The
 * loop stays the user's: it can be run, stopped and, after on_closed, closed; an idle pipeline does not keep it alive,
 * one with jobs or a close under way does. A close ends on the loop: it has to run until then. */
SL_API sl_status sl_pipeline_open_on(uv_loop_t *loop, const sl_graph *graph, const sl_pipeline_options *options,
                                     sl_pipeline **pipeline);

SL_END_C
#endif
