/* A graph that is no chain: a skip from the first stage straight to the last, and a branch with an output of its own.
 *
 *        +-------------- skip ---------------+
 *        |                                   v
 *   x -> first (cpu:0) -> middle (cpu:1) -> last (cpu:2) -> sum
 *                            |
 *                            +-> side
 *
 * The same graph is then asked what it would do and how it would be laid out, without being opened. */
#include <sluice/sluice.h>
#include <stdio.h>
#include <string.h>

enum { ROWS = 10, WIDTH = 4 };

static int complain(void) {
    fprintf(stderr, "%s\n", sl_last_error());
    return 1;
}

static sl_graph *build(void) {
    sl_graph *g = sl_graph_create();
    if (!g)
        return NULL;
    sl_value x = sl_graph_input(g, "x", SL_F32, SL_ROWS, WIDTH);
    sl_stage first = sl_graph_stage(g, "first", "cpu:0");
    sl_stage middle = sl_graph_stage(g, "middle", "cpu:1");
    sl_stage last = sl_graph_stage(g, "last", "cpu:2");
    sl_value a = sl_scale(g, first, x, 2);
    sl_value b = sl_scale(g, middle, a, 10);
    sl_graph_output(g, "sum", sl_add(g, last, a, b)); /* a skips the middle */
    sl_graph_output(g, "side", sl_relu(g, middle, b));
    return g;
}

static int show_plan(const sl_graph *g) {
    sl_plan *plan;
    sl_plan_figures figures;
    if (sl_plan_create(g, NULL, &plan) != SL_OK)
        return complain();
    sl_plan_get_figures(plan, &figures);
    printf("%d stages on %d devices\n", figures.n_stages, sl_plan_n_devices(plan));
    char *text;
    if (sl_plan_format_as(plan, SL_PLAN_DOT, &text) != SL_OK)
        return complain();
    printf("as Graphviz: %s...\n", strstr(text, "digraph") ? "digraph" : "?");
    sl_free(text);
    sl_plan_destroy(plan);
    return 0;
}

int main(void) {
    const sl_device host = {SL_CPU, 0};
    const int64_t shape[] = {ROWS, WIDTH};
    sl_tensor *x = NULL, *out[2] = {NULL, NULL};
    sl_setting_set("SLUICE_CPU_DEVICES", "3"); /* at first there are as many as cores */
    if (sl_tensor_create(host, SL_F32, 2, shape, 0, &x) != SL_OK ||
        sl_tensor_create(host, SL_F32, 2, shape, 0, &out[0]) != SL_OK ||
        sl_tensor_create(host, SL_F32, 2, shape, 0, &out[1]) != SL_OK)
        return complain();
    for (int i = 0; i < ROWS * WIDTH; i++)
        ((float *)sl_tensor_data(x))[i] = (float)(i - 20);

    sl_graph *g = build();
    sl_pipeline *p;
    sl_job *job;
    if (show_plan(g) || sl_pipeline_open(g, &(sl_pipeline_options){.micro_batches = 3}, &p) != SL_OK)
        return complain();
    sl_graph_destroy(g);
    if (sl_pipeline_submit(p, &x, out, NULL, NULL, &job) != SL_OK || sl_job_wait(job, SL_FOREVER) != SL_OK)
        return complain();
    sl_job_release(job);
    sl_pipeline_close(p, NULL, NULL);
    const float *sum = sl_tensor_data(out[0]), *side = sl_tensor_data(out[1]);
    printf("10 rows in 3 micro-batches: x -20 -> %g and %g, x 19 -> %g and %g\n", (double)sum[0], (double)side[0],
           (double)sum[39], (double)side[39]);
    sl_tensor_release(x);
    sl_tensor_release(out[0]);
    sl_tensor_release(out[1]);
    return 0;
}
