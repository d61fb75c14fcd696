/* `sluice synth`: a seeded model of a given shape as a checkpoint. */
#include "cli.h"

static sl_synth_options shape = {
    .family = "llama", .n_layers = 8, .n_embd = 256, .n_ff = 688, .n_heads = 8, .n_vocab = 4096, .n_context = 512};
static const char *dtype = "f32";

static const cli_option options[] = {
    {"family", 0, CLI_TEXT, &shape.family, 0, 0, "NAME", "llama (the default)"},
    {"layers", 0, CLI_COUNT, &shape.n_layers, 1, 10000, "N", "decoder layers (8)"},
    {"width", 0, CLI_COUNT, &shape.n_embd, 1, 1 << 20, "N", "of the residual stream (256)"},
    {"feed-forward", 0, CLI_COUNT, &shape.n_ff, 1, 1 << 22, "N", "width of the feed-forward part (688)"},
    {"heads", 0, CLI_COUNT, &shape.n_heads, 1, 1 << 16, "N", "attention heads (8)"},
    {"kv-heads", 0, CLI_COUNT, &shape.n_kv_heads, 0, 1 << 16, "N", "KV heads; 0: as many as heads"},
    {"vocabulary", 0, CLI_COUNT, &shape.n_vocab, 1, 1 << 24, "N", "token ids (4096)"},
    {"context", 0, CLI_COUNT, &shape.n_context, 1, 1 << 24, "N", "longest sequence (512)"},
    {"type", 0, CLI_TEXT, &dtype, 0, 0, "NAME", "f32 (the default), f16 or bf16"},
    {"seed", 0, CLI_SEED, &shape.seed, 0, 0, "N", "of the weights (0)"},
};
enum { N_OPTIONS = sizeof options / sizeof *options };

static void help(void) {
    cli_print_options(options, N_OPTIONS);
}

static int run(int argc, char **argv) {
    const char *folder;
    if (!cli_parse(argc, argv, options, N_OPTIONS, &folder, 1, "FOLDER"))
        return EXIT_USAGE;
    if (shape.n_kv_heads == 0)
        shape.n_kv_heads = shape.n_heads;
    sl_status status = sl_dtype_parse(dtype, &shape.dtype);
    if (status == SL_OK)
        status = sl_model_synth(folder, &shape);
    return status == SL_OK ? EXIT_FINE : cli_fail(status);
}

const cli_command cli_synth = {"synth", "FOLDER", "writes a seeded model of a given shape", run, help};
