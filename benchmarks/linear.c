/* sl_linear beside CBLAS, in turns in one run, on the same data: many rows as a share of CBLAS's rate, one row as a
 * share of the read bandwidth of an array of the weights' size. The time is the device's busy time for the stage, as
 * the pipeline measures it; the least of several turns counts. Results are compared before anything is printed. */
#include <cblas.h>
#include <math.h>
#include <sluice/sluice.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { TURNS = 7 };

static double now_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static sl_tensor *filled(int64_t rows, int64_t columns, unsigned seed) {
    sl_tensor *t = NULL;
    if (sl_tensor_create((sl_device){SL_CPU, 0}, SL_F32, 2, (int64_t[]){rows, columns}, SL_TENSOR_PINNED, &t) != SL_OK)
        return NULL;
    float *data = sl_tensor_data(t);
    for (int64_t i = 0; i < rows * columns; i++)
        data[i] = (float)((seed = seed * 1664525u + 1013904223u) >> 8) * 0x1p-23f - 1;
    return t;
}

static sl_pipeline *open_linear(sl_tensor *w, int rows, int64_t in) {
    sl_graph *g = sl_graph_create();
    sl_pipeline *p = NULL;
    if (!g)
        return NULL;
    sl_stage s = sl_graph_stage(g, "linear", "cpu:0");
    sl_value x = sl_graph_input(g, "x", SL_F32, SL_ROWS, in);
    sl_graph_output(g, "y", sl_linear(g, s, x, sl_graph_weight(g, "w", w), SL_NONE));
    sl_pipeline_open(g, &(sl_pipeline_options){.plan.micro_batch_rows = (uint32_t)rows, .measure = true}, &p);
    sl_graph_destroy(g);
    return p;
}

/* Seconds of one stage execution; negative after an error. */
static double ours(sl_pipeline *p, sl_tensor *x, sl_tensor *y) {
    sl_device_figures figures;
    sl_job *job;
    sl_pipeline_reset_figures(p);
    if (sl_pipeline_submit(p, &x, &y, NULL, NULL, &job) != SL_OK || sl_job_wait(job, SL_FOREVER) != SL_OK)
        return -1;
    sl_job_release(job);
    return sl_pipeline_get_device(p, 0, &figures) ? (double)figures.busy_ns * 1e-9 : -1;
}

static double theirs(const float *x, const float *w, float *y, int rows, int in, int out) {
    double from = now_s();
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, rows, out, in, 1, x, in, w, in, 0, y, out);
    return now_s() - from;
}

/* Seconds to read an array once. */
static double reading(const float *w, size_t n) {
    double from = now_s();
    float sums[64] = {0};
    for (size_t i = 0; i + 64 <= n; i += 64)
        for (size_t k = 0; k < 64; k++)
            sums[k] += w[i + k];
    volatile float all = 0;
    for (size_t k = 0; k < 64; k++)
        all = all + sums[k];
    return now_s() - from;
}

static bool agree(const float *a, const float *b, size_t n, int in) {
    for (size_t i = 0; i < n; i++)
        if (!(fabsf(a[i] - b[i]) <= 1e-6f * (float)in))
            return false;
    return true;
}

static double least(double a, double b) {
    return a < b ? a : b;
}

static bool compare(int rows, int in, int out) {
    sl_tensor *x = filled(rows, in, 1), *w = filled(out, in, 2), *y = filled(rows, out, 3);
    sl_pipeline *p = x && w && y ? open_linear(w, rows, in) : NULL;
    float *peer = malloc((size_t)rows * (size_t)out * sizeof *peer);
    double a = INFINITY, b = INFINITY, r = INFINITY;
    bool fine = p && peer;
    for (int turn = 0; fine && turn < TURNS; turn++) {
        double t = ours(p, x, y);
        fine = t > 0;
        a = least(a, t);
        b = least(b, theirs(sl_tensor_data(x), sl_tensor_data(w), peer, rows, in, out));
        r = least(r, reading(sl_tensor_data(w), (size_t)in * (size_t)out));
    }
    fine = fine && agree(sl_tensor_data(y), peer, (size_t)rows * (size_t)out, in);
    double bytes = 4.0 * in * out, flops = 2.0 * rows * in * out;
    if (fine && rows > 1)
        printf("%4d x %4d -> %4d: %6.1f GFLOP/s, CBLAS %6.1f: %.2f of it\n", rows, in, out, flops / a * 1e-9,
               flops / b * 1e-9, b / a);
    else if (fine)
        printf("%4d x %4d -> %4d: %5.1f GB/s of weights, read %5.1f: %.2f of it\n", rows, in, out, bytes / a * 1e-9,
               bytes / r * 1e-9, r / a);
    else
        fprintf(stderr, "%d x %d -> %d: failed: %s\n", rows, in, out,
                p ? "results differ from CBLAS" : sl_last_error());
    sl_pipeline_close(p, NULL, NULL);
    free(peer);
    sl_tensor_release(x);
    sl_tensor_release(w);
    sl_tensor_release(y);
    return fine;
}

int main(void) {
    static const int shapes[][2] = {{576, 576}, {576, 1536}, {1536, 576}, {896, 4864}, {4864, 896}, {2048, 2048}};
    bool fine = true;
    openblas_set_num_threads(1);
    printf("one thread, %s; CBLAS: OpenBLAS, kernel %s\n", sl_isa_name(sl_cpu_isa()), openblas_get_corename());
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        fine = compare(512, shapes[i][0], shapes[i][1]) && fine;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        fine = compare(1, shapes[i][0], shapes[i][1]) && fine;
    return fine ? 0 : 1;
}
