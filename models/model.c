/* Models: opening a folder, and checking all of it before anything is run. */
#include "model.h"
#include "checkpoint.h"
#include <sluice/memory.h>
#include <string.h>
#include <sys/stat.h>

/* Builds the graph once for no device in particular, so that a missing or misshapen tensor is found here. */
static sl_status check_tensors(const sl_model *model) {
    int n_layers = model->config.info.n_layers;
    sl_device *devices = sl_calloc((size_t)n_layers, sizeof *devices); /* zeroes: cpu:0 */
    if (!devices)
        return SL_OUT_OF_MEMORY;
    sl_model_graph_options options = {.layer_devices = devices, .max_rows = 1, .context = 1};
    sl_graph *graph = sl_model_graph(model, &options);
    sl_status status = graph ? sl_graph_status(graph) : SL_OUT_OF_MEMORY;
    sl_graph_destroy(graph);
    sl_free(devices);
    return status;
}

static sl_status open_parts(sl_model *model, const char *path) {
    struct stat about;
    bool is_file = !stat(path, &about) && !S_ISDIR(about.st_mode);
    model->config_path = is_file ? sli_path_beside(path, "config.json") : sli_path_in(path, "config.json");
    if (!model->config_path)
        return SL_OUT_OF_MEMORY;
    SL_TRY(sli_config_load(model));
    SL_TRY(sl_checkpoint_open(path, &model->checkpoint));
    SL_TRY(model->family->recognise(model, &model->layout));
    return check_tensors(model);
}

sl_status sl_model_open(const char *path, sl_model **result) {
    *result = NULL;
    if (!path || !*path)
        return sl_fail(SL_IO, "a model is to be opened, and its path is empty");
    sl_model *model = sl_calloc(1, sizeof *model);
    if (!model)
        return SL_OUT_OF_MEMORY;
    model->references = 1;
    sl_status status = open_parts(model, path);
    if (status == SL_OK)
        *result = model;
    else
        sl_model_release(model);
    return status;
}

sl_model *sl_model_retain(sl_model *model) {
    model->references++;
    return model;
}

void sl_model_release(sl_model *model) {
    if (!model || --model->references)
        return;
    sl_checkpoint_release(model->checkpoint);
    sl_free(model->eos_ids);
    sl_free(model->config_path);
    sl_free(model);
}

void sl_model_get_info(const sl_model *model, sl_model_info *info) {
    *info = model->config.info;
}

sl_checkpoint *sl_model_checkpoint(const sl_model *model) {
    return model->checkpoint;
}
