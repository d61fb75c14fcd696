/* The `sluice` command: finds the subcommand and runs it. */
#include "cli.h"
#include <fcntl.h>
#include <string.h>

static const cli_command *const commands[] = {&cli_run, &cli_plan, &cli_inspect, &cli_devices, &cli_env, &cli_synth};
enum { N_COMMANDS = sizeof commands / sizeof *commands };

static const cli_command *find(const char *name) {
    for (int i = 0; i < N_COMMANDS; i++)
        if (!strcmp(commands[i]->name, name))
            return commands[i];
    return NULL;
}

static int unknown(const char *name) {
    cli_complain("there is no command '%s'; the commands are:", name);
    for (int i = 0; i < N_COMMANDS; i++)
        fprintf(stderr, "  %s\n", commands[i]->name);
    fprintf(stderr, "  version\n  help\n");
    return EXIT_USAGE;
}

static void print_help(void) {
    printf("sluice %s: runs a neural network split by layers over several devices, as a pipeline\n\n", sl_version());
    for (int i = 0; i < N_COMMANDS; i++)
        printf("  sluice %-8s %-8s %s\n", commands[i]->name, commands[i]->arguments, commands[i]->meaning);
    printf("  sluice %-8s %-8s %s\n", "version", "", "the version");
    printf("  sluice %-8s %-8s %s\n", "help", "[COMMAND]", "this, or a command's options");
    printf(
        "\nDevices are cpu:0, cuda:1, sim:2, a list of them, or auto. Settings are environment variables: sluice env.\n"
        "Exit codes: 0 ok, 1 failed, 2 usage, 3 no such device, 4 out of memory, 5 verification failed, 6 bad file,\n"
        "130 interrupted.\n");
}

static bool has_more(int argc, char **argv, int n) {
    if (argc > n)
        cli_complain("%s: '%s' is one argument too many", argv[0], argv[n]);
    return argc > n;
}

static int help(int argc, char **argv) {
    if (has_more(argc, argv, 2))
        return EXIT_USAGE;
    if (argc == 1 || !strcmp(argv[1], "help") || !strcmp(argv[1], "version")) {
        print_help();
        return EXIT_FINE;
    }
    const cli_command *c = find(argv[1]);
    if (!c)
        return unknown(argv[1]);
    printf("sluice %s [OPTION ...] %s\n%s\n\n", c->name, c->arguments, c->meaning);
    c->help();
    return EXIT_FINE;
}

static void warn(sl_log_level level, const char *message, void *user) {
    (void)user;
    if (level == SL_LOG_WARNING)
        fprintf(stderr, "sluice: warning: %s\n", message);
}

/* Closed standard streams are held by something harmless, so that no other file gets their numbers: reading finds the
 * end, writing fails. */
static void hold_streams(void) {
    for (int fd = 0; fd <= 2; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDONLY) < 0)
            return;
}

static int run(int argc, char **argv) {
    if (argc < 1) {
        cli_complain("a command is missing; `sluice help` lists them");
        return EXIT_USAGE;
    }
    const char *name = argv[0];
    if (!strcmp(name, "help") || !strcmp(name, "--help") || !strcmp(name, "-h"))
        return help(argc, argv);
    if (!strcmp(name, "version") || !strcmp(name, "--version")) {
        if (has_more(argc, argv, 1))
            return EXIT_USAGE;
        printf("sluice %s\n", sl_version());
        return EXIT_FINE;
    }
    const cli_command *c = find(name);
    if (!c)
        return unknown(name);
    for (int i = 1; i < argc; i++)
        if (!strcmp(argv[i], "--help"))
            return help(2, (char *[]){argv[i], argv[0], NULL});
    return c->run(argc, argv);
}

int main(int argc, char **argv) {
    hold_streams();
    sl_set_log(warn, NULL);
    int code = run(argc - 1, argv + 1);
    if ((fflush(stdout) == 0 && !ferror(stdout)) || code != EXIT_FINE)
        return code;
    cli_complain("the result cannot be written to stdout");
    return EXIT_FAILED;
}
