/* Sameness: whatever the placement, the depth, the route, the micro-batches, the order of execution and the company of
 * other jobs, a random graph gives the bits that a plain evaluator gives, and so those of one device. */
#include "random_graph.h"

enum { DEVICES = 4, JOBS = 3 };

typedef struct setup {
    sl_device device_of[G_STAGES];
    sl_pipeline_options options;
    sl_cpu_options cpu;
    char order[32];
    uint32_t parts[JOBS];
} setup;

typedef struct counts { /* that the graphs are not all alike */
    int states, second, shared, few_parts, ragged, staged, skips, graphs;
} counts;

static void choose(setup *c, const g_spec *s, uint64_t *seed, counts *n) {
    static const char *const orders[] = {"eager", "late", "newest", NULL};
    bool used[DEVICES] = {false}, shared = false;
    memset(c, 0, sizeof *c);
    for (int j = 0; j < s->n_stages; j++) {
        int d = (int)test_below(seed, DEVICES);
        shared |= used[d];
        used[d] = true;
        c->device_of[j] = (sl_device){SL_CPU, d};
    }
    const char *order = orders[test_below(seed, 4)];
    if (order)
        snprintf(c->order, sizeof c->order, "%s", order);
    else
        snprintf(c->order, sizeof c->order, "random:%llu", (unsigned long long)test_below(seed, 1000));
    c->cpu = (sl_cpu_options){.order = c->order, .poison = true};
    c->options.cpu = &c->cpu;
    c->options.plan = (sl_plan_options){.micro_batch_rows = 1 + (uint32_t)test_below(seed, 12),
                                        .max_segments = 6,
                                        .depth = (int)test_below(seed, 4),
                                        .credits = (uint32_t)test_below(seed, 5),
                                        .window = (uint32_t)test_below(seed, 3) * 2,
                                        .route = (sl_route_choice)test_below(seed, 3),
                                        .staging_bytes = 64 * (size_t)test_below(seed, 8)};
    n->shared += shared;
    n->staged += c->options.plan.route == SL_ROUTE_STAGED;
}

/* ---- Jobs ---- */

typedef struct job {
    g_content content;
    sl_segment segments[4];
    uint32_t n_segments;
    sl_tensor *inputs[G_INPUTS], *outputs[G_VALUES];
    int n_outputs, of_output[G_VALUES];
    sl_job *handle;
} job;

static sl_tensor *tensor(uint64_t rows, int columns, const uint32_t *content) {
    sl_tensor *t;
    int64_t shape[] = {(int64_t)rows, columns};
    ck_assert_msg(sl_tensor_create((sl_device){SL_CPU, 0}, SL_I32, 2, shape, 0, &t) == SL_OK, "%s", sl_last_error());
    if (content)
        memcpy(sl_tensor_data(t), content, rows * (size_t)columns * 4);
    return t;
}

/* Segments at places whose lengths go on from job to job. */
static void cut_rows(job *j, uint64_t *seed, int lengths[G_PLACES]) {
    int32_t row = 0, rows = (int32_t)j->content.rows[0];
    while (row < rows) {
        int32_t n = j->n_segments == 3 ? rows - row : 1 + (int32_t)test_below(seed, (uint64_t)(rows - row));
        int place = (int)test_below(seed, G_PLACES);
        j->segments[j->n_segments++] = (sl_segment){place, lengths[place], row, n};
        lengths[place] += n;
        row += n;
    }
}

static void make_job(job *j, const g_spec *s, uint64_t *seed, int lengths[G_PLACES]) {
    memset(j, 0, sizeof *j);
    j->content.rows[0] = 1 + test_below(seed, 40);
    j->content.rows[1] = 1 + test_below(seed, 20 < j->content.rows[0] ? 20 : j->content.rows[0]);
    for (int i = 0; i < s->n_inputs; i++) {
        uint64_t n = j->content.rows[s->values[i].rows] * (uint64_t)s->values[i].columns;
        j->content.at[i] = malloc(n * 4);
        for (uint64_t e = 0; e < n; e++)
            j->content.at[i][e] = (uint32_t)test_random(seed);
        j->inputs[i] = tensor(j->content.rows[s->values[i].rows], s->values[i].columns, j->content.at[i]);
    }
    for (int v = 0; v < s->n_values; v++)
        if (s->values[v].is_output) {
            j->of_output[j->n_outputs] = v;
            j->outputs[j->n_outputs++] = tensor(j->content.rows[s->values[v].rows], s->values[v].columns, NULL);
        }
    cut_rows(j, seed, lengths);
}

static void free_job(job *j, const g_spec *s) {
    g_free_content(s, &j->content);
    for (int i = 0; i < s->n_inputs; i++)
        sl_tensor_release(j->inputs[i]);
    for (int i = 0; i < j->n_outputs; i++)
        sl_tensor_release(j->outputs[i]);
}

static void check_outputs(const job *j, const g_spec *s, const char *what) {
    for (int i = 0; i < j->n_outputs; i++) {
        int v = j->of_output[i];
        uint64_t n = j->content.rows[s->values[v].rows] * (uint64_t)s->values[v].columns;
        const uint32_t *out = sl_tensor_data(j->outputs[i]);
        for (uint64_t e = 0; e < n; e++)
            ck_assert_msg(out[e] == j->content.at[v][e], "%s: output y%d, element %llu of %llu", what, v,
                          (unsigned long long)e, (unsigned long long)n);
    }
}

static void run_jobs(const g_spec *s, const setup *c, sl_tensor *const *weights, job *jobs, const char *what) {
    sl_pipeline *p;
    sl_graph *g = g_build(s, c->device_of, weights);
    ck_assert_msg(sl_pipeline_open(g, &c->options, &p) == SL_OK, "%s: %s", what, sl_last_error());
    sl_graph_destroy(g);
    for (int i = 0; i < JOBS; i++) {
        job *j = &jobs[i];
        for (int o = 0; o < j->n_outputs; o++)
            memset(sl_tensor_data(j->outputs[o]), 0xee, sl_tensor_bytes(j->outputs[o]));
        sl_job_options o = {c->parts[i], s->has_state ? j->segments : NULL, s->has_state ? j->n_segments : 0};
        ck_assert_msg(sl_pipeline_submit_with(p, &o, j->inputs, j->outputs, NULL, NULL, &j->handle) == SL_OK, "%s: %s",
                      what, sl_last_error());
    }
    for (int i = 0; i < JOBS; i++) {
        ck_assert_msg(sl_job_wait(jobs[i].handle, SL_FOREVER) == SL_OK, "%s: %s", what, sl_last_error());
        sl_job_release(jobs[i].handle);
        check_outputs(&jobs[i], s, what);
    }
    sl_pipeline_close(p, NULL, NULL);
}

static void count_graph(const g_spec *s, const setup *c, const job *jobs, counts *n) {
    bool skips = false;
    for (int o = 0; o < s->n_ops; o++)
        for (int k = 1; k < s->ops[o].n_inputs; k++)
            skips |= !s->ops[o].attributes.weight[k] && s->ops[o].inputs[k] != s->ops[o].inputs[0];
    n->graphs++;
    n->states += s->has_state;
    n->second += s->has_second;
    n->skips += skips;
    for (int i = 0; i < JOBS; i++) {
        uint64_t rows = jobs[i].content.rows[0], most = c->options.plan.micro_batch_rows;
        uint64_t m = (rows + most - 1) / most;
        m = c->parts[i] > m ? c->parts[i] : m;
        m = m < rows ? m : rows;
        n->few_parts += m < (uint64_t)s->n_stages;
        n->ragged += rows % m != 0;
    }
}

static void one_graph(uint64_t *seed, counts *n) {
    static const setup one_device; /* all on cpu:0, as it comes */
    g_spec s;
    setup c;
    job jobs[JOBS];
    sl_tensor *weights[G_WEIGHTS];
    g_memory memory = {{NULL}};
    int lengths[G_PLACES] = {0};
    char what[64];
    snprintf(what, sizeof what, "seed %llu", (unsigned long long)*seed);
    g_make(&s, seed);
    choose(&c, &s, seed, n);
    for (int w = 0; w < s.n_weights; w++)
        weights[w] = tensor(1, s.weight_columns[w], s.weights[w]);
    for (int i = 0; i < JOBS; i++) {
        make_job(&jobs[i], &s, seed, lengths);
        c.parts[i] = (uint32_t)test_below(seed, 50);
        g_evaluate(&s, &jobs[i].content, jobs[i].segments, jobs[i].n_segments, &memory);
    }
    run_jobs(&s, &one_device, weights, jobs, what);
    run_jobs(&s, &c, weights, jobs, what);
    count_graph(&s, &c, jobs, n);
    for (int i = 0; i < JOBS; i++)
        free_job(&jobs[i], &s);
    for (int w = 0; w < s.n_weights; w++)
        sl_tensor_release(weights[w]);
    g_free_memory(&s, &memory);
}

START_TEST(random_graphs_give_the_bits_of_one_device) {
    uint64_t seed = test_seed();
    counts n = {0};
    int cases = test_cases(400);
    ck_assert_int_eq(sl_setting_set("SLUICE_CPU_DEVICES", "4"), SL_OK);
    for (int i = 0; i < cases; i++)
        one_graph(&seed, &n);
    printf(
        "%d graphs: %d with state, %d with two row counts, %d with skips, %d that share a device, %d staged; of their "
        "jobs %d with fewer micro-batches than stages, %d ragged\n",
        n.graphs, n.states, n.second, n.skips, n.shared, n.staged, n.few_parts, n.ragged);
    if (cases < 40)
        return;
    int kinds[] = {n.states, n.second, n.skips, n.shared, n.staged, n.few_parts, n.ragged};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        ck_assert_int_gt(kinds[i], cases / 10);
}
END_TEST

int main(void) {
    const test_case cases[] = {TEST_FOR(random_graphs_give_the_bits_of_one_device, 240)};
    return test_main("sameness", cases, sizeof cases / sizeof *cases);
}
