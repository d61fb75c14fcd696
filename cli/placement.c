/* See placement.h. */
#include "placement.h"
#include <stdlib.h>
#include <strings.h>

static int place(placement *p, const sl_model *model, const sl_device *devices, int n) {
    int *split = NULL, n_split = 0, code = EXIT_FINE;
    if (p->split && !cli_parse_ints("split", p->split, &split, &n_split))
        return EXIT_USAGE;
    if (split && n_split != n) {
        cli_complain("--split has %d parts for %d devices (%s); give one number for each", n_split, n, p->devices);
        code = EXIT_USAGE;
    }
    sl_model_info info;
    sl_model_get_info(model, &info);
    p->n_layers = info.n_layers;
    p->layers = calloc((size_t)info.n_layers, sizeof *p->layers);
    if (code == EXIT_FINE) {
        sl_status status = p->layers ? sl_model_place(model, n, devices, split, p->pins, p->layers)
                                     : sl_fail(SL_OUT_OF_MEMORY, "out of memory");
        code = status == SL_OK ? EXIT_FINE : cli_fail(status);
    }
    free(split);
    return code;
}

int placement_resolve(placement *p, const sl_model *model) {
    sl_device *devices;
    int n;
    if (!p->devices)
        p->devices = "auto";
    int code = cli_devices_of(p->devices, &devices, &n);
    if (code != EXIT_FINE)
        return code;
    sl_model_info info;
    sl_model_get_info(model, &info);
    if (!strcasecmp(p->devices, "auto") && !p->split && n > info.n_layers)
        n = info.n_layers; /* each device has a layer */
    code = place(p, model, devices, n);
    free(devices);
    return code;
}

bool placement_mixes_kinds(const placement *p) {
    for (int i = 1; i < p->n_layers; i++)
        if (p->layers[i].kind != p->layers[0].kind)
            return true;
    return false;
}

bool placement_is_simulated(const placement *p) {
    return p->n_layers > 0 && p->layers[0].kind == SL_SIM;
}
