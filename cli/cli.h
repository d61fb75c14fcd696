/* What the commands of `sluice` share: exit codes, options, complaints. stdout is data only; words go to stderr. */
#ifndef CLI_H
#define CLI_H

#include <jansson.h>
#include <sluice/sluice.h>
#include <stdio.h>

enum exit_code {
    EXIT_FINE = 0,
    EXIT_FAILED = 1,
    EXIT_USAGE = 2,
    EXIT_NO_DEVICE = 3,
    EXIT_NO_MEMORY = 4,
    EXIT_DIFFERS = 5,
    EXIT_BAD_FILE = 6,
    EXIT_INTERRUPTED = 130
};

typedef struct cli_command {
    const char *name;
    const char *arguments; /* "MODEL"; "" */
    const char *meaning;
    int (*run)(int argc, char **argv); /* argv[0] is the command's name; returns an exit code */
    void (*help)(void);                /* its options, on stdout */
} cli_command;

extern const cli_command cli_devices, cli_env, cli_inspect, cli_plan, cli_run, cli_synth;

typedef enum cli_kind { CLI_FLAG, CLI_TEXT, CLI_COUNT, CLI_REAL, CLI_SEED, CLI_TEXTS } cli_kind;

typedef struct cli_texts { /* an option that may come more than once */
    const char **items;
    int n;
} cli_texts;

typedef struct cli_option {
    const char *name; /* "devices" for --devices */
    char letter;      /* 'n' for -n; 0: none */
    cli_kind kind;
    void *target;       /* bool *, const char **, int *, float *, uint64_t *, cli_texts * */
    double least, most; /* CLI_COUNT, CLI_REAL */
    const char *value;  /* "LIST" */
    const char *meaning;
} cli_option;

/* Options anywhere, then `n_arguments` arguments into `arguments`. True, or false after a complaint. */
bool cli_parse(int argc, char **argv, const cli_option *options, int n_options, const char **arguments, int n_arguments,
               const char *names);
void cli_texts_free(cli_texts *texts);
void cli_print_options(const cli_option *options, int n);

/* "1,2,3" -> ids; false after a complaint. The caller frees. */
bool cli_parse_ints(const char *option, const char *text, int **ints, int *n);

/* Writes "sluice: ..." to stderr. */
void cli_complain(const char *format, ...) SL_PRINTF(1, 2);
/* Complains with sl_last_error and gives the exit code for a status. */
int cli_fail(sl_status status);
/* The same where a file was to be read: what is wrong with it, or unsupported in it, is exit code 6. */
int cli_fail_file(sl_status status);

/* The devices of an option, checked; the caller frees. */
int cli_devices_of(const char *text, sl_device **devices, int *n);

/* Prints and frees; an exit code: 1 where stdout cannot be written. */
int cli_print_json(json_t *root);

/* A name from a file, left-aligned: control characters do not reach the terminal. */
void cli_print_name(const char *name, int width);

/* 1,234,567 bytes as "1.2 MB". */
const char *cli_bytes(uint64_t bytes, char text[32]);

#endif
