/* A pipeline by hand: two linear layers on two devices. h crosses cpu:0 -> cpu:1; while cpu:1 works on one micro-batch,
 * cpu:0 works on the next. With GPUs only the two device strings change. */
#include <sluice/sluice.h>
#include <stdio.h>

enum { ROWS = 64, WIDTH = 16 };

static int complain(void) {
    fprintf(stderr, "%s\n", sl_last_error());
    return 1;
}

/* A weight of WIDTH x WIDTH: `factor` on the diagonal. */
static sl_tensor *diagonal(float factor) {
    sl_tensor *t = NULL;
    if (sl_tensor_create((sl_device){SL_CPU, 0}, SL_F32, 2, (int64_t[]){WIDTH, WIDTH}, 0, &t) != SL_OK)
        return NULL;
    float *w = sl_tensor_data(t);
    for (int i = 0; i < WIDTH; i++)
        w[i * WIDTH + i] = factor;
    return t;
}

static sl_graph *build(sl_tensor *w1, sl_tensor *w2) {
    sl_graph *g = sl_graph_create();
    if (!g)
        return NULL;
    sl_value x = sl_graph_input(g, "x", SL_F32, SL_ROWS, WIDTH);
    sl_stage front = sl_graph_stage(g, "front", "cpu:0");
    sl_value h = sl_relu(g, front, sl_linear(g, front, x, sl_graph_weight(g, "w1", w1), SL_NONE));
    sl_stage back = sl_graph_stage(g, "back", "cpu:1");
    sl_graph_output(g, "y", sl_linear(g, back, h, sl_graph_weight(g, "w2", w2), SL_NONE));
    return g; /* an error on the way is returned by sl_pipeline_open */
}

static void on_done(sl_job *job, sl_status status, const char *message, void *user) {
    (void)job;
    (void)user;
    printf("the job ended: %s%s\n", sl_status_name(status), message);
}

static int run(sl_pipeline *p, sl_tensor *x, sl_tensor *y) {
    sl_job *job;
    if (sl_pipeline_submit(p, &x, &y, on_done, NULL, &job) != SL_OK)
        return complain();
    sl_status status = sl_job_wait(job, SL_FOREVER);
    sl_job_release(job);
    return status == SL_OK ? 0 : complain();
}

int main(void) {
    const sl_device host = {SL_CPU, 0};
    const int64_t shape[] = {ROWS, WIDTH};
    sl_tensor *w1 = diagonal(2), *w2 = diagonal(10), *x = NULL, *y = NULL;
    if (!w1 || !w2 || sl_tensor_create(host, SL_F32, 2, shape, SL_TENSOR_PINNED, &x) != SL_OK ||
        sl_tensor_create(host, SL_F32, 2, shape, SL_TENSOR_PINNED, &y) != SL_OK)
        return complain();
    for (int i = 0; i < ROWS * WIDTH; i++)
        ((float *)sl_tensor_data(x))[i] = (float)(i % 5) - 1;

    sl_graph *g = build(w1, w2);
    sl_pipeline *p;
    if (sl_pipeline_open(g, &(sl_pipeline_options){.plan.micro_batch_rows = 8}, &p) != SL_OK)
        return complain();
    sl_graph_destroy(g);
    int rc = run(p, x, y);

    sl_pipeline_counts counts;
    sl_pipeline_get_counts(p, &counts);
    sl_pipeline_close(p, NULL, NULL);
    printf("%llu micro-batches of 8 rows\n", (unsigned long long)counts.micro_batches);
    printf("x: -1 0 1 2 3 -> y:");
    for (int i = 0; i < 5; i++)
        printf(" %g", (double)((float *)sl_tensor_data(y))[i]);
    printf("\n");
    sl_tensor_release(w1);
    sl_tensor_release(w2);
    sl_tensor_release(x);
    sl_tensor_release(y);
    return rc;
}
