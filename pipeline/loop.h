/* The loop: a libuv loop that delivers a pipeline's callbacks, on a thread of its own or the user's. loop.c alone knows
 * libuv. */
#ifndef SLI_LOOP_H
#define SLI_LOOP_H

#include <sluice/status.h>

typedef struct sli_loop sli_loop;

typedef struct sli_loop_hooks {
    bool (*deliver)(void *user); /* on the loop, some time after a send; true: nobody sends any more, close */
    void (*closed)(void *user);  /* on the loop, the last call from it */
    void (*left)(void *user);    /* after it, when the loop touches nothing of ours any more */
    void *user;
} sli_loop_hooks;

/* `uv_loop`: the user's uv_loop_t, whose thread this is; NULL: a loop and a thread of our own. */
sl_status sli_loop_open(void *uv_loop, const sli_loop_hooks *hooks, sli_loop **out);

/* Any thread, until deliver said true. Several sends may become one call. Never blocks. */
void sli_loop_send(sli_loop *loop);

/* A held loop stays alive. Hold: any thread, before what is to be delivered is sent. Drop: on the loop. */
void sli_loop_hold(sli_loop *loop);
void sli_loop_drop(sli_loop *loop);

bool sli_loop_is_this_thread(const sli_loop *loop);

/* Waits until `left` was called. Not on the loop's thread; then, and instead, sli_loop_detach. Before the close is
 * asked for or after, once. */
void sli_loop_join(sli_loop *loop);
void sli_loop_detach(sli_loop *loop);

void sli_loop_free(sli_loop *loop); /* after `left`, and the join; takes NULL */

#endif
