/* Options of the commands, over getopt_long: one table gives the parser, the help and the complaints. */
#include "cli.h"
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_LONG = 256 };

void cli_complain(const char *format, ...) {
    va_list args;
    va_start(args, format);
    fputs("sluice: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
}

static bool read_real(const cli_option *o, const char *text, double *value) {
    char *end;
    errno = 0;
    *value = strtod(text, &end);
    if (end != text && !*end && !errno && isfinite(*value) && *value >= o->least && *value <= o->most &&
        (o->kind != CLI_COUNT || *value == floor(*value)))
        return true;
    cli_complain("--%s is '%s'; expected is %s from %.15g to %.15g", o->name, text,
                 o->kind == CLI_COUNT ? "a whole number" : "a number", o->least, o->most);
    return false;
}

static bool read_seed(const cli_option *o, const char *text) {
    char *end;
    errno = 0;
    *(uint64_t *)o->target = strtoull(text, &end, 10);
    if (*text >= '0' && *text <= '9' && !*end && !errno)
        return true;
    cli_complain("--%s is '%s'; expected is a whole number from 0 to %llu", o->name, text,
                 (unsigned long long)UINT64_MAX);
    return false;
}

static bool append(cli_texts *texts, const char *text) {
    const char **grown = realloc(texts->items, (size_t)(texts->n + 1) * sizeof *grown);
    if (!grown) {
        cli_complain("out of memory");
        return false;
    }
    texts->items = grown;
    texts->items[texts->n++] = text;
    return true;
}

void cli_texts_free(cli_texts *texts) {
    free(texts->items);
}

static bool take(const cli_option *o, const char *text) {
    double value;
    switch (o->kind) {
    case CLI_FLAG:
        *(bool *)o->target = true;
        return true;
    case CLI_TEXT:
        *(const char **)o->target = text;
        return true;
    case CLI_COUNT:
        if (!read_real(o, text, &value))
            return false;
        *(int *)o->target = (int)value;
        return true;
    case CLI_REAL:
        if (!read_real(o, text, &value))
            return false;
        *(float *)o->target = (float)value;
        return true;
    case CLI_SEED:
        return read_seed(o, text);
    case CLI_TEXTS:
        return append(o->target, text);
    }
    return false;
}

static const cli_option *find(const cli_option *options, int n, int code) {
    for (int i = 0; i < n; i++)
        if (code == FIRST_LONG + i || (options[i].letter && code == options[i].letter))
            return &options[i];
    return NULL;
}

static void complain_of_option(const char *command, char **argv, int code) {
    const char *word = argv[optind - 1];
    if (code == ':')
        cli_complain("%s: %s needs a value", command, word);
    else if (optopt && optopt < FIRST_LONG)
        cli_complain("%s: there is no option -%c; `sluice help %s` lists them", command, optopt, command);
    else
        cli_complain("%s: there is no option %s (or it takes no value); `sluice help %s` lists them", command, word,
                     command);
}

static bool parse_options(int argc, char **argv, const cli_option *options, int n) {
    struct option *longs = calloc((size_t)n + 1, sizeof *longs);
    char letters[64] = ":";
    bool fine = longs != NULL;
    for (int i = 0; fine && i < n; i++) {
        int has = options[i].kind == CLI_FLAG ? no_argument : required_argument;
        longs[i] = (struct option){options[i].name, has, NULL, FIRST_LONG + i};
        if (options[i].letter)
            strcat(strncat(letters, &options[i].letter, 1), has == no_argument ? "" : ":");
    }
    opterr = 0;
    optind = 0;
    for (int code; fine && (code = getopt_long(argc, argv, letters, longs, NULL)) != -1;) {
        const cli_option *o = find(options, n, code);
        if (!o)
            complain_of_option(argv[0], argv, code);
        fine = o && take(o, optarg);
    }
    free(longs);
    return fine;
}

bool cli_parse(int argc, char **argv, const cli_option *options, int n_options, const char **arguments, int n_arguments,
               const char *names) {
    if (!parse_options(argc, argv, options, n_options))
        return false;
    int n = argc - optind;
    if (n > n_arguments) {
        cli_complain("%s: '%s' is one argument too many; `sluice help %s` shows its use", argv[0],
                     argv[optind + n_arguments], argv[0]);
        return false;
    }
    if (n < n_arguments) {
        cli_complain("%s: %s is missing; `sluice help %s` shows its use", argv[0], names, argv[0]);
        return false;
    }
    for (int i = 0; i < n; i++)
        arguments[i] = argv[optind + i];
    return true;
}

void cli_print_options(const cli_option *options, int n) {
    for (int i = 0; i < n; i++) {
        char left[64];
        snprintf(left, sizeof left, "%s%c%s--%s%s%s", options[i].letter ? "-" : "",
                 options[i].letter ? options[i].letter : ' ', options[i].letter ? ", " : "   ", options[i].name,
                 options[i].value ? " " : "", options[i].value ? options[i].value : "");
        printf("  %-30s %s\n", left, options[i].meaning);
    }
}

bool cli_parse_ints(const char *option, const char *text, int **ints, int *n) {
    size_t most = strlen(text) / 2 + 1;
    *n = 0;
    *ints = malloc(most * sizeof **ints);
    if (!*ints) {
        cli_complain("out of memory");
        return false;
    }
    for (const char *at = text;; at++) {
        char *end;
        errno = 0;
        long value = strtol(at, &end, 10);
        if (*at < '0' || *at > '9' || errno || value > INT32_MAX || (*end && *end != ',')) {
            cli_complain("--%s is '%s'; expected is a list of whole numbers such as 1,2,3 (wrong at '%s')", option,
                         text, at);
            free(*ints);
            *ints = NULL;
            return false;
        }
        (*ints)[(*n)++] = (int)value;
        at = end;
        if (!*at)
            return true;
    }
}
