/* `sluice plan`: what a split would do, and whether it fits, without loading anything. */
#include "placement.h"
#include <stdlib.h>
#include <string.h>

static placement where;
static int sequences = 1, chunk = 32, context, groups;
static const char *format = "text";

static const cli_option options[] = {
    PLACEMENT_OPTIONS(where),
    {"sequences", 0, CLI_COUNT, &sequences, 1, 65536, "N", "places for sequences (1)"},
    {"groups", 0, CLI_COUNT, &groups, 0, 4096, "N", "micro-batches on their way round at once; 0: one for each device"},
    {"chunk", 0, CLI_COUNT, &chunk, 1, 65536, "N", "most rows of a prompt in a micro-batch (32)"},
    {"context", 0, CLI_COUNT, &context, 0, 1 << 24, "N", "longest sequence; 0: the model's"},
    {"format", 0, CLI_TEXT, &format, 0, 0, "NAME", "text (the default), json or dot"},
};
enum { N_OPTIONS = sizeof options / sizeof *options };

static void help(void) {
    cli_print_options(options, N_OPTIONS);
}

static sl_status print_plan(const sl_model *model, sl_plan_format as) {
    sl_graph *graph = sl_model_graph(model, &(sl_model_graph_options){.layer_devices = where.layers,
                                                                      .max_rows = (uint32_t)(chunk + sequences),
                                                                      .max_sequences = (uint32_t)sequences,
                                                                      .n_places = sequences,
                                                                      .context = context});
    if (!graph)
        return SL_OUT_OF_MEMORY;
    int parts = 1;
    for (int i = 1; i < where.n_layers; i++)
        parts += !sl_device_equal(where.layers[i], where.layers[i - 1]);
    sl_plan *plan = NULL;
    char *text = NULL;
    sl_status status = sl_plan_create(graph,
                                      &(sl_plan_options){.micro_batch_rows = (uint32_t)(chunk + sequences),
                                                         .max_segments = (uint32_t)sequences,
                                                         .groups = (uint32_t)(groups ? groups : parts)},
                                      &plan);
    if (status == SL_OK)
        status = sl_plan_format_as(plan, as, &text);
    if (status == SL_OK)
        printf("%s", text);
    sl_free(text);
    sl_plan_destroy(plan);
    sl_graph_destroy(graph);
    return status;
}

static int run(int argc, char **argv) {
    static const char *const names[] = {"text", "json", "dot"};
    const char *path;
    int as = 0;
    if (!cli_parse(argc, argv, options, N_OPTIONS, &path, 1, "MODEL"))
        return EXIT_USAGE;
    while (as < 3 && strcmp(format, names[as]) != 0)
        as++;
    if (as == 3) {
        cli_complain("--format is '%s'; there are text, json and dot", format);
        return EXIT_USAGE;
    }
    sl_model *model;
    sl_status status = sl_model_open(path, &model);
    if (status != SL_OK)
        return cli_fail_file(status);
    int code = placement_resolve(&where, model);
    if (code == EXIT_FINE && (status = print_plan(model, (sl_plan_format)as)) != SL_OK)
        code = cli_fail(status);
    free(where.layers);
    sl_model_release(model);
    return code;
}

const cli_command cli_plan = {"plan", "MODEL", "how a model would be split, run and laid out in memory", run, help};
