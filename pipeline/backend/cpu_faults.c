/* Reads the text of faults. See cpu_faults.h. */
#include "cpu_faults.h"
#include "error.h"
#include <stdio.h>
#include <string.h>

typedef enum what { LINK = 1, DEVICE = 2, NUMBER = 4 } what; /* what follows a kind's name, in this order */

static const struct {
    const char *name;
    unsigned takes;
} kinds[SLI_FAULT_KINDS] = {
    [SLI_FAULT_NO_PEER] = {"no-peer", LINK},        [SLI_FAULT_CORRUPT] = {"corrupt", LINK},
    [SLI_FAULT_ALLOC] = {"alloc", NUMBER},          [SLI_FAULT_ENQUEUE] = {"enqueue", NUMBER},
    [SLI_FAULT_HANG] = {"hang", DEVICE | NUMBER},   [SLI_FAULT_HANG_LINK] = {"hang-link", LINK | NUMBER},
    [SLI_FAULT_STAGE] = {"stage", DEVICE | NUMBER},
};

static const char known[] = "no-peer:A-B, corrupt:A-B, alloc:N, enqueue:N, hang:D:N, hang-link:A-B:N and stage:D:N, "
                            "with devices A, B, D from 0 and N from 1, separated by commas";

static sl_status refuse(const char *fault, size_t length, const char *why) {
    return sl_fail(SL_INVALID, "the fault '%.*s' %s; there are %s", (int)(length < 60 ? length : 60), fault, why,
                   known);
}

/* Digits alone, without a leading zero; moves `*at` behind them. */
static bool read_number(const char **at, const char *end, uint64_t most, uint64_t *value) {
    const char *begin = *at;
    *value = 0;
    for (; *at < end && **at >= '0' && **at <= '9'; ++*at) {
        uint64_t digit = (uint64_t)(**at - '0');
        if (*value > (most - digit) / 10)
            return false;
        *value = *value * 10 + digit;
    }
    return *at > begin && (*begin != '0' || *at == begin + 1);
}

static bool read_char(const char **at, const char *end, char c) {
    if (*at >= end || **at != c)
        return false;
    ++*at;
    return true;
}

/* NULL, or why not. */
static const char *read_fault(const char *at, const char *end, int n_devices, sli_fault *fault) {
    unsigned takes = kinds[fault->kind].takes;
    uint64_t from = 0, to = 0, most = (uint64_t)n_devices - 1;
    if (takes & (LINK | DEVICE)) {
        if (!read_char(&at, end, ':') || !read_number(&at, end, UINT32_MAX, &from))
            return takes & LINK ? "needs a link, such as :0-1" : "needs a device, such as :0";
        to = from;
    }
    if (takes & LINK && (!read_char(&at, end, '-') || !read_number(&at, end, UINT32_MAX, &to)))
        return "needs a link, such as :0-1";
    if (from > most || to > most)
        return "names a CPU device that is not there";
    if (takes & LINK && from == to)
        return "names a link from a device to itself";
    fault->from = (int)from;
    fault->to = (int)to;
    fault->n = 1;
    if (takes & NUMBER && (!read_char(&at, end, ':') || !read_number(&at, end, UINT64_MAX, &fault->n) || !fault->n))
        return "needs a count from 1, such as :1";
    return at == end ? NULL : "has something behind it";
}

static sl_status add_fault(const char *text, size_t length, int n_devices, sli_faults *faults) {
    size_t name = 0;
    while (name < length && text[name] != ':')
        name++;
    if (faults->count == SLI_MOST_FAULTS)
        return refuse(text, length, "is one too many (32 at most)");
    for (int k = 0; k < SLI_FAULT_KINDS; k++) {
        if (strlen(kinds[k].name) != name || memcmp(kinds[k].name, text, name) != 0)
            continue;
        sli_fault *fault = &faults->of[faults->count++];
        fault->kind = (sli_fault_kind)k;
        const char *why = read_fault(text + name, text + length, n_devices, fault);
        return why ? refuse(text, length, why) : SL_OK;
    }
    return refuse(text, length, "is not known");
}

sl_status sli_faults_parse(const char *text, int n_devices, sli_faults *faults) {
    *faults = (sli_faults){0};
    for (const char *at = text; *text;) {
        size_t length = strcspn(at, ",");
        SL_TRY(add_fault(at, length, n_devices, faults));
        at += length;
        if (!*at++)
            break;
    }
    return SL_OK;
}

uint64_t sli_faults_at(const sli_faults *faults, sli_fault_kind kind, int from, int to) {
    for (int i = 0; i < faults->count; i++) {
        const sli_fault *f = &faults->of[i];
        if (f->kind == kind && f->from == from && f->to == to)
            return f->n;
    }
    return 0;
}

bool sli_faults_have(const sli_faults *faults, sli_fault_kind kind, int from, int to) {
    return sli_faults_at(faults, kind, from, to) != 0;
}
