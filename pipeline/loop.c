/* Callbacks on a libuv loop: one async handle a pipeline, on a loop and a thread of our own, or on the user's. It
 * delivers and nothing else: no job's work passes through here, so a callback that sleeps holds up callbacks alone.
 *
 * Threads: sends come from anywhere; all else is the loop's thread's. `held` counts what is still to be delivered: the
 * handle keeps a user's loop alive while it is not 0 (our own loop lives until it is closed). */
#include "loop.h"
#include "error.h"
#include "executor.h"
#include "futex.h"
#include "thread.h"
#include <sluice/uv.h>

struct sli_loop {
    uv_loop_t own;
    uv_loop_t *uv;
    uv_async_t async;
    bool is_own;
    pthread_t thread; /* our own loop's, or the user's who opened it */
    sli_loop_hooks hooks;
    _Atomic int held;
    _Atomic bool over; /* the loop has no thread any more */
    _Atomic uint32_t has_left;
};

static void keep_alive(sli_loop *loop) {
    if (loop->is_own || atomic_load(&loop->held) > 0)
        uv_ref((uv_handle_t *)&loop->async);
    else
        uv_unref((uv_handle_t *)&loop->async);
}

static void leave(sli_loop *loop) {
    const sli_loop_hooks hooks = loop->hooks;
    atomic_store(&loop->has_left, 1);
    sli_futex_wake(&loop->has_left);
    hooks.left(hooks.user);
}

static void on_closed(uv_handle_t *handle) {
    sli_loop *loop = handle->data;
    loop->hooks.closed(loop->hooks.user);
    atomic_store(&loop->over, true);
    if (!loop->is_own)
        leave(loop);
}

static void on_send(uv_async_t *async) {
    sli_loop *loop = async->data;
    bool is_last = loop->hooks.deliver(loop->hooks.user);
    keep_alive(loop);
    if (is_last)
        uv_close((uv_handle_t *)async, on_closed);
}

static void *loop_main(void *arg) {
    sli_loop *loop = arg;
    uv_run(&loop->own, UV_RUN_DEFAULT);
    uv_loop_close(&loop->own);
    leave(loop);
    return NULL;
}

static sl_status uv_failed(const char *what, int rc) {
    return sl_fail(rc == UV_ENOMEM ? SL_OUT_OF_MEMORY : SL_IO, "libuv: %s: %s", what, uv_strerror(rc));
}

static void close_own(sli_loop *loop) {
    uv_run(&loop->own, UV_RUN_DEFAULT); /* what is closing */
    uv_loop_close(&loop->own);
}

static sl_status start_own(sli_loop *loop) {
    int rc = uv_loop_init(&loop->own);
    if (rc)
        return uv_failed("a loop", rc);
    rc = uv_async_init(&loop->own, &loop->async, on_send);
    if (rc) {
        close_own(loop);
        return uv_failed("an async handle", rc);
    }
    loop->async.data = loop;
    if (!sli_thread_create(&loop->thread, loop_main, loop))
        return SL_OK;
    uv_close((uv_handle_t *)&loop->async, NULL);
    close_own(loop);
    return sl_fail(SL_OUT_OF_MEMORY, "no thread for a pipeline's loop: the system gives no more");
}

static sl_status start_on(sli_loop *loop) {
    loop->thread = pthread_self();
    int rc = uv_async_init(loop->uv, &loop->async, on_send);
    if (rc)
        return uv_failed("an async handle", rc);
    loop->async.data = loop;
    keep_alive(loop);
    return SL_OK;
}

sl_status sli_loop_open(void *uv_loop, const sli_loop_hooks *hooks, sli_loop **out) {
    sli_loop *loop = sl_calloc(1, sizeof *loop);
    if (!loop)
        return SL_OUT_OF_MEMORY;
    loop->is_own = !uv_loop;
    loop->uv = uv_loop ? uv_loop : &loop->own;
    loop->hooks = *hooks;
    *out = loop; /* before its thread runs */
    sl_status status = loop->is_own ? start_own(loop) : start_on(loop);
    if (status != SL_OK) {
        *out = NULL;
        sl_free(loop);
    }
    return status;
}

void sli_loop_send(sli_loop *loop) {
    uv_async_send(&loop->async);
}

bool sli_loop_is_this_thread(const sli_loop *loop) {
    return !atomic_load(&loop->over) && pthread_equal(loop->thread, pthread_self());
}

void sli_loop_hold(sli_loop *loop) {
    if (atomic_fetch_add(&loop->held, 1) || loop->is_own)
        return;
    if (sli_loop_is_this_thread(loop))
        keep_alive(loop);
    else
        sli_loop_send(loop);
}

void sli_loop_drop(sli_loop *loop) {
    atomic_fetch_sub(&loop->held, 1);
}

void sli_loop_join(sli_loop *loop) {
    if (loop->is_own)
        pthread_join(loop->thread, NULL);
    while (!atomic_load(&loop->has_left))
        sli_futex_wait(&loop->has_left, 0, UINT64_MAX);
}

void sli_loop_detach(sli_loop *loop) {
    if (loop->is_own)
        pthread_detach(loop->thread);
}

void sli_loop_free(sli_loop *loop) {
    sl_free(loop);
}

sl_status sl_pipeline_open_on(uv_loop_t *loop, const sl_graph *graph, const sl_pipeline_options *options,
                              sl_pipeline **pipeline) {
    *pipeline = NULL;
    if (!loop)
        return sl_fail(SL_INVALID, "the loop is NULL; sl_pipeline_open opens a pipeline with a loop of its own");
    return sli_pipeline_open(graph, options, loop, pipeline);
}
