/* What goes wrong, and what is said of it. Nothing here ends the program. */
#include <sluice/sluice.h>
#include <stdio.h>

static void try(const char *what, sl_status status) {
    printf("%s\n  %s: %s\n", what, sl_status_name(status), status == SL_OK ? "" : sl_last_error());
}

/* Two stages on two devices that nobody asked to join by name. */
static sl_graph *build(void) {
    sl_graph *g = sl_graph_create();
    if (!g)
        return NULL;
    sl_value x = sl_graph_input(g, "x", SL_F32, SL_ROWS, 8);
    sl_stage front = sl_graph_stage(g, "front", "cpu:0"), back = sl_graph_stage(g, "back", "cpu:1");
    sl_graph_output(g, "y", sl_relu(g, back, sl_scale(g, front, x, 2)));
    return g;
}

int main(void) {
    sl_device device;
    sl_plan *plan;
    sl_pipeline *pipeline;
    sl_tensor *t = NULL;
    sl_setting_set("SLUICE_CPU_DEVICES", "4"); /* at first there are as many as cores */
    try("A device string with a wrong character", sl_device_parse("cuda:0x1", &device));
    try("A kind of device that is known elsewhere", sl_device_parse("mps", &device));
    try("A device that is not there", sl_device_check((sl_device){SL_CPU, 99}));

    sl_graph *g = build();
    try("With strict, a value that crosses devices unasked",
        sl_plan_create(g, &(sl_plan_options){.strict = true}, &plan));
    sl_stage third = sl_graph_stage(g, "third", "cpu:0");
    sl_value a = sl_graph_input(g, "a", SL_F32, SL_ROWS, 3), b = sl_graph_input(g, "b", SL_F32, SL_ROWS, 4);
    sl_graph_output(g, "z", sl_add(g, third, a, b));                     /* the graph keeps its first error ... */
    try("Shapes that do not fit", sl_pipeline_open(g, NULL, &pipeline)); /* ... and opening returns it */
    sl_graph_destroy(g);

    try("The memory of a simulated device", sl_tensor_create((sl_device){SL_SIM, 0}, SL_F32, 1, (int64_t[]){4}, 0, &t));
    float data[4];
    try("is not to be read", sl_tensor_read(t, data, sizeof data));
    sl_tensor_release(t);
    return 0;
}
