/* What several commands need: exit codes of statuses, lists of devices, JSON and sizes on stdout. */
#include "cli.h"
#include <stdlib.h>
#include <string.h>

static int exit_code_of(sl_status status) {
    switch (status) {
    case SL_OK:
        return EXIT_FINE;
    case SL_INVALID:
    case SL_UNSUPPORTED:
        return EXIT_USAGE;
    case SL_NO_DEVICE:
        return EXIT_NO_DEVICE;
    case SL_OUT_OF_MEMORY:
        return EXIT_NO_MEMORY;
    case SL_BAD_FILE:
        return EXIT_BAD_FILE;
    default:
        return EXIT_FAILED;
    }
}

int cli_fail(sl_status status) {
    const char *sentence = sl_last_error();
    cli_complain("%s", *sentence ? sentence : sl_status_name(status));
    return exit_code_of(status);
}

int cli_fail_file(sl_status status) {
    int code = cli_fail(status);
    return status == SL_IO || status == SL_UNSUPPORTED ? EXIT_BAD_FILE : code;
}

int cli_devices_of(const char *text, sl_device **devices, int *n) {
    *devices = NULL;
    sl_status status = sl_device_parse_list(text, NULL, 0, n);
    if (status == SL_OK) {
        *devices = calloc((size_t)*n + 1, sizeof **devices);
        status = *devices ? sl_device_parse_list(text, *devices, *n, n) : sl_fail(SL_OUT_OF_MEMORY, "out of memory");
    }
    if (status == SL_OK)
        return EXIT_FINE;
    free(*devices);
    *devices = NULL;
    return cli_fail(status);
}

int cli_print_json(json_t *root) {
    int rc = root ? json_dumpf(root, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(9)) : -1;
    json_decref(root);
    if (rc == 0 && putchar('\n') != EOF && fflush(stdout) == 0)
        return EXIT_FINE;
    cli_complain("the result cannot be written to stdout");
    return EXIT_FAILED;
}

void cli_print_name(const char *name, int width) {
    int n = 0;
    for (const unsigned char *at = (const unsigned char *)name; *at; at++)
        n += *at < 0x20 || *at == 0x7f ? printf("\\x%02x", *at) : printf("%c", *at);
    printf("%*s", n < width ? width - n : 0, "");
}

const char *cli_bytes(uint64_t bytes, char text[32]) {
    static const char *const units[] = {"B", "kB", "MB", "GB", "TB", "PB", "EB"};
    double value = (double)bytes;
    int unit = 0;
    for (; value >= 999.95 && unit < 6; unit++)
        value /= 1000;
    snprintf(text, 32, unit ? "%.1f %s" : "%.0f %s", value, units[unit]);
    return text;
}
