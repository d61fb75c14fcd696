/* Which device each layer lies on: contiguous parts, then pins. */
#include "model.h"
#include "show.h"
#include <sluice/memory.h>
#include <stdlib.h>
#include <string.h>

static sl_status check_split(int n_layers, int n_devices, const int *split) {
    int64_t sum = 0;
    for (int i = 0; i < n_devices; i++) {
        if (split[i] < 1)
            return sl_fail(SL_INVALID, "part %d of the split is %d layers: 1 or more is expected", i + 1, split[i]);
        sum += split[i];
    }
    if (sum != n_layers)
        return sl_fail(SL_INVALID, "the split adds up to %lld layers, but the model has %d", (long long)sum, n_layers);
    return SL_OK;
}

static sl_status place_parts(int n_layers, int n_devices, const sl_device *devices, const int *split,
                             sl_device *layer_devices) {
    if (n_devices < 1 || n_devices > n_layers)
        return sl_fail(SL_INVALID, "%d devices for %d layers: 1 to %d are expected, so that each has a layer",
                       n_devices, n_layers, n_layers);
    if (split)
        SL_TRY(check_split(n_layers, n_devices, split));
    for (int i = 0, layer = 0; i < n_devices; i++) {
        int n = split ? split[i] : n_layers / n_devices + (i < n_layers % n_devices);
        while (n--)
            layer_devices[layer++] = devices[i];
    }
    return SL_OK;
}

/* ---- Pins: layers.FIRST[-LAST]=DEVICE, separated by commas ---- */

typedef struct pins {
    const char *text, *at; /* all, and where the parser is */
    int n_layers;
    bool *pinned; /* [n_layers] */
} pins;

static sl_status wrong_pin(const pins *p, const char *expected) {
    return sl_fail(SL_INVALID, "pins '%s': at character %d ('%s') %s is expected; a pin is layers.0-2=cpu:0",
                   sli_show(p->text).text, (int)(p->at - p->text) + 1, sli_show(p->at).text, expected);
}

static sl_status parse_layer(pins *p, int *layer) {
    size_t digits = strspn(p->at, "0123456789");
    if (!digits || (digits > 1 && *p->at == '0'))
        return wrong_pin(p, "a layer's number");
    long number = digits > 9 ? p->n_layers : strtol(p->at, NULL, 10);
    if (number >= p->n_layers)
        return sl_fail(SL_INVALID, "pins '%s': there is no layer %.*s: the model has layers 0 to %d",
                       sli_show(p->text).text, (int)(digits < 20 ? digits : 20), p->at, p->n_layers - 1);
    p->at += digits;
    *layer = (int)number;
    return SL_OK;
}

static sl_status parse_range(pins *p, int *first, int *last) {
    static const char word[] = "layers.";
    if (strncmp(p->at, word, sizeof word - 1) != 0)
        return wrong_pin(p, "'layers.'");
    p->at += sizeof word - 1;
    SL_TRY(parse_layer(p, first));
    *last = *first;
    if (*p->at == '-') {
        p->at++;
        SL_TRY(parse_layer(p, last));
    }
    if (*last < *first)
        return sl_fail(SL_INVALID, "pins '%s': layers %d-%d run backwards", sli_show(p->text).text, *first, *last);
    if (*p->at != '=')
        return wrong_pin(p, *first == *last ? "'-' or '='" : "'='");
    p->at++;
    return SL_OK;
}

static sl_status parse_device(pins *p, sl_device *device) {
    char text[64];
    size_t n = strcspn(p->at, ",");
    if (n >= sizeof text)
        return wrong_pin(p, "a device");
    memcpy(text, p->at, n);
    text[n] = '\0';
    SL_TRY(sl_device_parse(text, device));
    SL_TRY(sl_device_check(*device));
    p->at += n;
    return SL_OK;
}

static sl_status parse_pin(pins *p, sl_device *layer_devices) {
    int first = 0, last = 0;
    sl_device device = {SL_CPU, 0};
    SL_TRY(parse_range(p, &first, &last));
    SL_TRY(parse_device(p, &device));
    for (int layer = first; layer <= last; layer++) {
        if (p->pinned[layer])
            return sl_fail(SL_INVALID, "pins '%s': layer %d is pinned twice", sli_show(p->text).text, layer);
        p->pinned[layer] = true;
        layer_devices[layer] = device;
    }
    return SL_OK;
}

static sl_status place_pins(int n_layers, const char *text, sl_device *layer_devices) {
    pins p = {text, text, n_layers, sl_calloc((size_t)n_layers, sizeof *p.pinned)};
    if (!p.pinned)
        return SL_OUT_OF_MEMORY;
    sl_status status = parse_pin(&p, layer_devices);
    while (status == SL_OK && *p.at == ',') {
        p.at++;
        status = parse_pin(&p, layer_devices);
    }
    sl_free(p.pinned);
    return status;
}

sl_status sl_model_place(const sl_model *model, int n_devices, const sl_device *devices, const int *split,
                         const char *given_pins, sl_device *layer_devices) {
    int n_layers = model->config.info.n_layers;
    SL_TRY(place_parts(n_layers, n_devices, devices, split, layer_devices));
    return given_pins ? place_pins(n_layers, given_pins, layer_devices) : SL_OK;
}
