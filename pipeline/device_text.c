/* Device strings: parsed, refused at the character that is wrong, and printed. Which devices are there is device.c's
 * business. */
#include "error.h"
#include "registry.h"
#include <stdio.h>
#include <string.h>

static const char *const kinds[] = {[SL_CPU] = "cpu", [SL_CUDA] = "cuda", [SL_SIM] = "sim"};

/* What other libraries call devices: refused by name, since the person who writes one means it. */
static const char *const elsewhere[] = {"mps",    "xpu",  "hip",      "rocm",   "gpu",   "metal",  "vulkan",  "opencl",
                                        "opengl", "sycl", "xla",      "tpu",    "npu",   "hpu",    "ipu",     "vpu",
                                        "ve",     "mtia", "maia",     "mkldnn", "ideep", "dml",    "meta",    "lazy",
                                        "fpga",   "host", "directml", "musa",   "mlu",   "webgpu", "openvino"};

enum { MOST_INDEX = 65535 };

typedef struct span { /* one device string, perhaps inside a list */
    const char *noun; /* "device", "devices" */
    const char *text; /* the whole that the user wrote */
    const char *begin, *end;
} span;

const char *sl_device_kind_name(sl_device_kind kind) {
    return (unsigned)kind < SL_DEVICE_KINDS ? kinds[kind] : "unknown";
}

const char *sl_device_format(sl_device device, char text[SL_DEVICE_TEXT]) {
    snprintf(text, SL_DEVICE_TEXT, "%s:%d", sl_device_kind_name(device.kind), device.index);
    return text;
}

const char *sli_quote(const char *text, char to[SLI_QUOTE]) {
    size_t used = 0;
    for (; *text; text++) {
        if (used + 8 > SLI_QUOTE) {
            memcpy(to + used, "...", 4);
            return to;
        }
        unsigned char c = (unsigned char)*text;
        used += (size_t)snprintf(to + used, SLI_QUOTE - used, c >= 32 && c < 127 ? "%c" : "\\x%02x", c);
    }
    to[used] = '\0';
    return to;
}

static sl_status fail_at(const span *s, const char *at, const char *expected) {
    char whole[SLI_QUOTE], letter[SLI_QUOTE];
    sli_quote(s->text, whole);
    if (!*s->text)
        return sl_fail(SL_INVALID, "%s '' is empty: %s", s->noun, expected);
    if (*at)
        sli_quote((const char[]){*at, '\0'}, letter);
    return sl_fail(SL_INVALID, "%s '%s' is wrong at character %d (%s%s%s): %s", s->noun, whole, (int)(at - s->text) + 1,
                   *at ? "'" : "", *at ? letter : "its end", *at ? "'" : "", expected);
}

static char lower(char c) {
    return c >= 'A' && c <= 'Z' ? (char)(c + ('a' - 'A')) : c;
}

/* How many characters of [begin, end) are those of `name`, in any letter case. */
static size_t common(const char *begin, const char *end, const char *name) {
    size_t n = 0;
    while (begin + n < end && name[n] && lower(begin[n]) == name[n])
        n++;
    return n;
}

static bool reads(const char *begin, const char *end, const char *name) {
    return common(begin, end, name) == (size_t)(end - begin) && !name[end - begin];
}

static sl_status refuse_kind(const span *s, const char *end) {
    if (reads(s->begin, end, "auto"))
        return fail_at(s, s->begin, "'auto' is a list of devices, not one, and stands alone");
    for (size_t i = 0; i < sizeof elsewhere / sizeof *elsewhere; i++)
        if (reads(s->begin, end, elsewhere[i]))
            return sl_fail(SL_INVALID, "Sluice has no '%s' devices; the kinds of device are cpu, cuda, sim",
                           elsewhere[i]);
    size_t longest = 0;
    bool whole = false; /* a kind's name, and then more */
    for (int kind = 0; kind < SL_DEVICE_KINDS; kind++) {
        size_t n = common(s->begin, end, kinds[kind]);
        whole = whole || !kinds[kind][n];
        longest = n > longest ? n : longest;
    }
    return fail_at(s, s->begin + longest,
                   whole ? "after the kind, ':' or the end was expected"
                         : "a kind of device was expected: cpu, cuda, sim, as in cpu:1");
}

static sl_status parse_kind(const span *s, const char *end, sl_device_kind *kind) {
    for (int k = 0; k < SL_DEVICE_KINDS; k++)
        if (reads(s->begin, end, kinds[k])) {
            *kind = k;
            return SL_OK;
        }
    return refuse_kind(s, end);
}

static bool is_digit(const span *s, const char *at) {
    return at < s->end && *at >= '0' && *at <= '9';
}

static sl_status parse_index(const span *s, const char *at, int *index) {
    if (!is_digit(s, at))
        return fail_at(s, at, "a digit was expected, as in cpu:1");
    if (*at == '0' && is_digit(s, at + 1))
        return fail_at(s, at + 1, "an index has no leading zeros");
    int value = 0;
    for (; is_digit(s, at); at++) {
        value = value * 10 + (*at - '0');
        if (value > MOST_INDEX)
            return fail_at(s, at, "an index is 65535 at most");
    }
    if (at != s->end)
        return fail_at(s, at, "a digit or the end was expected");
    *index = value;
    return SL_OK;
}

static sl_status parse_span(const span *s, sl_device *device) {
    const char *colon = s->begin;
    while (colon < s->end && *colon != ':')
        colon++;
    sl_device found = {SL_CPU, 0};
    SL_TRY(parse_kind(s, colon, &found.kind));
    if (colon == s->end)
        found.index = sl_device_current(found.kind).index;
    else
        SL_TRY(parse_index(s, colon + 1, &found.index));
    *device = found;
    return SL_OK;
}

sl_status sl_device_parse(const char *text, sl_device *device) {
    if (!text)
        return sl_fail(SL_INVALID, "a device's text is NULL");
    return parse_span(&(span){"device", text, text, text + strlen(text)}, device);
}

sl_status sl_device_parse_list(const char *text, sl_device *devices, int capacity, int *count) {
    if (!text)
        return sl_fail(SL_INVALID, "a list of devices is NULL");
    if (reads(text, text + strlen(text), "auto"))
        return sli_devices_auto(devices, capacity, count);
    int n = 0;
    for (const char *begin = text;; n++) {
        sl_device device = {SL_CPU, 0};
        const char *end = begin + strcspn(begin, ",");
        SL_TRY(parse_span(&(span){"devices", text, begin, end}, &device));
        SL_TRY(sl_device_check(device));
        if (n < capacity)
            devices[n] = device;
        if (!*end)
            break;
        begin = end + 1;
    }
    *count = n + 1;
    return SL_OK;
}
