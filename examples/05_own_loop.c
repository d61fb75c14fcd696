/* Callbacks on the program's own libuv loop, beside its own timers: jobs are submitted, one after the other, from the
 * callbacks of those before; when the last has ended the pipeline is closed, and the loop runs dry. */
#include <sluice/sluice.h>
#include <sluice/uv.h>
#include <stdio.h>

enum { ROWS = 6, WIDTH = 2, JOBS = 3 };

typedef struct program {
    sl_pipeline *pipeline;
    sl_tensor *x, *y;
    int jobs_left;
} program;

static void on_closed(void *user) {
    (void)user;
    printf("closed\n");
}

static void on_done(sl_job *job, sl_status status, const char *message, void *user) {
    program *p = user;
    (void)job;
    printf("a job ended: %s%s, y[0] = %g\n", sl_status_name(status), message,
           (double)((float *)sl_tensor_data(p->y))[0]);
    sl_tensor *next = p->x; /* the outputs of this job are the inputs of the next */
    p->x = p->y;
    p->y = next;
    if (status == SL_OK && --p->jobs_left > 0 &&
        sl_pipeline_submit(p->pipeline, &p->x, &p->y, on_done, p, NULL) == SL_OK)
        return;
    sl_pipeline_close(p->pipeline, on_closed, NULL);
}

static sl_graph *build(void) {
    sl_graph *g = sl_graph_create();
    if (!g)
        return NULL;
    sl_value x = sl_graph_input(g, "x", SL_F32, SL_ROWS, WIDTH);
    sl_stage a = sl_graph_stage(g, "a", "cpu:0"), b = sl_graph_stage(g, "b", "cpu:1");
    sl_graph_output(g, "y", sl_scale(g, b, sl_scale(g, a, x, 2), 5));
    return g;
}

int main(void) {
    program p = {.jobs_left = JOBS};
    const int64_t shape[] = {ROWS, WIDTH};
    uv_loop_t loop;
    uv_loop_init(&loop);
    sl_graph *g = build();
    if (sl_tensor_create((sl_device){SL_CPU, 0}, SL_F32, 2, shape, 0, &p.x) != SL_OK ||
        sl_tensor_create((sl_device){SL_CPU, 0}, SL_F32, 2, shape, 0, &p.y) != SL_OK ||
        sl_pipeline_open_on(&loop, g, NULL, &p.pipeline) != SL_OK) {
        fprintf(stderr, "%s\n", sl_last_error());
        return 1;
    }
    sl_graph_destroy(g);
    ((float *)sl_tensor_data(p.x))[0] = 1;
    if (sl_pipeline_submit(p.pipeline, &p.x, &p.y, on_done, &p, NULL) != SL_OK) {
        fprintf(stderr, "%s\n", sl_last_error());
        return 1;
    }
    uv_run(&loop, UV_RUN_DEFAULT); /* returns when nothing is left to wait for */
    printf("the loop is the program's: closing it says %s\n", uv_loop_close(&loop) == 0 ? "ok" : "busy");
    sl_tensor_release(p.x);
    sl_tensor_release(p.y);
    return 0;
}
