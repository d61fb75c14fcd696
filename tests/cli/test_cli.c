/* Claims about the command: what it prints, its exit codes, its complaints. Each runs the program that was built. */
#include "support.h"
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SLUICE "SLUICE_CPU_DEVICES=4 " SLUICE_COMMAND " "

static char output[1 << 20];

/* Runs `sluice ARGUMENTS`; stdout alone, or with stderr, in `output`. */
static int sluice(const char *arguments) {
    char command[4096];
    snprintf(command, sizeof command, SLUICE "%s 2>/dev/null", arguments);
    return test_run(command, output, sizeof output);
}

static int sluice_words(const char *arguments) {
    char command[4096];
    snprintf(command, sizeof command, SLUICE "%s 2>&1 >/dev/null", arguments);
    return test_run(command, output, sizeof output);
}

static json_t *json_of(const char *arguments) {
    json_error_t error;
    ck_assert_int_eq(sluice(arguments), 0);
    json_t *root = json_loads(output, 0, &error);
    ck_assert_msg(root != NULL, "%s: %s in %.200s", arguments, error.text, output);
    return root;
}

static void make_model(void) {
    ck_assert_int_eq(sluice("synth cli-test-model --layers 4 --width 32 --feed-forward 48 --heads 4 --kv-heads 2 "
                            "--vocabulary 97 --context 64 --seed 3"),
                     0);
    ck_assert_str_eq(output, "");
}

static void says(const char *arguments, int code, const char *words) {
    int got = sluice_words(arguments);
    ck_assert_msg(got == code, "`sluice %s` exits %d, not %d: %s", arguments, got, code, output);
    ck_assert_msg(strstr(output, words) != NULL, "`sluice %s` says %s", arguments, output);
    ck_assert_int_ne(sluice(arguments), 0);
    ck_assert_msg(output[0] == '\0', "`sluice %s` prints on stdout: %.200s", arguments, output);
}

START_TEST(wrong_use_exits_2_and_names_the_word) {
    make_model();
    says("", 2, "a command is missing");
    says("fly", 2, "'fly'");
    says("run", 2, "MODEL is missing");
    says("run a b", 2, "'b'");
    says("run cli-test-model --wings 3", 2, "--wings");
    says("run cli-test-model -n", 2, "needs a value");
    says("run cli-test-model -n x", 2, "'x'");
    says("run cli-test-model -n 0", 2, "'0'");
    says("run cli-test-model --ids 1,,2", 2, "1,,2");
    says("run cli-test-model --ids 1,-2", 2, "1,-2");
    says("run cli-test-model --ids 97", 2, "id 97");
    says("run cli-test-model --ids 1 --top-p 1.5", 2, "1.5");
    says("run cli-test-model --ids 1 --temperature nan", 2, "nan");
    says("run cli-test-model --ids 1 --seed -1", 2, "-1");
    says("run cli-test-model --ids 1 --devices cpu:0,cpu:x", 2, "cpu:x");
    says("run cli-test-model --ids 1 --devices ''", 2, "");
    says("run cli-test-model --ids 1 --devices cpu:0,cpu:1 --split 1,2,1", 2, "3 parts for 2 devices");
    says("run cli-test-model --ids 1 --devices cpu:0,cpu:1 --split 1,2", 2, "4");
    says("run cli-test-model --ids 1 --pin layers.9=cpu:0", 2, "9");
    says("run cli-test-model --ids 1 --context 65", 2, "65");
    says("run cli-test-model --ids 1 --devices sim:0 --verify", 2, "--verify");
    says("plan cli-test-model --format xml", 2, "xml");
    says("synth x --type f64", 2, "f64");
    says("synth x --width 30 --heads 4", 2, "30");
    says("help fly", 2, "'fly'");
}
END_TEST

START_TEST(a_missing_device_exits_3_and_lists_what_is_there) {
    make_model();
    says("run cli-test-model --ids 1 --devices cpu:7", 3, "cpu:3");
    says("run cli-test-model --ids 1 --devices cuda:0", 3, "cuda");
}
END_TEST

START_TEST(too_little_memory_exits_4_before_loading) {
    char command[512];
    make_model();
    snprintf(command, sizeof command, "SLUICE_CPU_DEVICES=2 SLUICE_CPU_MEMORY=50k %s run cli-test-model --ids 1 2>&1",
             SLUICE_COMMAND);
    ck_assert_int_eq(test_run(command, output, sizeof output), 4);
    ck_assert_ptr_nonnull(strstr(output, "cpu:0"));
    ck_assert_ptr_nonnull(strstr(output, "weights"));
}
END_TEST

START_TEST(bad_files_exit_6_and_are_named) {
    make_model();
    says("run no-such-model --ids 1", 6, "no-such-model");
    says("inspect no-such-file", 6, "no-such-file");
    says("inspect " TEST_DATA "/safetensors/bad_overlap_inside.safetensors", 6, "bad_overlap_inside");
    ck_assert_int_eq(test_run("rm -rf cli-test-other && mkdir cli-test-other && "
                              "cp cli-test-model/model.safetensors cli-test-other/ && "
                              "echo '{\"model_type\": \"mamba\"}' > cli-test-other/config.json",
                              NULL, 0),
                     0);
    says("run cli-test-other --ids 1", 6, "mamba");
    ck_assert_int_eq(test_run("echo '{' > cli-test-other/config.json", NULL, 0), 0);
    says("run cli-test-other --ids 1", 6, "config.json");
    says("run cli-test-model --ids 1 --vocab no-such-vocab", 6, "no-such-vocab");
}
END_TEST

START_TEST(a_wrong_setting_is_named_with_what_is_allowed) {
    ck_assert_int_eq(test_run("SLUICE_CPU_DEVICES=lots " SLUICE_COMMAND " devices 2>&1", output, sizeof output), 2);
    ck_assert_ptr_nonnull(strstr(output, "SLUICE_CPU_DEVICES"));
    ck_assert_int_eq(test_run("SLUICE_CPU_DEVICE=2 " SLUICE_COMMAND " env 2>&1", output, sizeof output), 2);
    ck_assert_ptr_nonnull(strstr(output, "SLUICE_CPU_DEVICES"));
}
END_TEST

static void same_ids(const char *a, const char *b) {
    json_t *x = json_of(a), *y = json_of(b);
    ck_assert_msg(json_equal(json_object_get(x, "sequences"), json_object_get(y, "sequences")), "%s and %s differ", a,
                  b);
    json_decref(x);
    json_decref(y);
}

START_TEST(run_prints_the_new_ids_and_they_do_not_depend_on_the_split) {
    make_model();
    json_t *root = json_of("run cli-test-model --ids 1,2,3 -n 20 --ignore-eos --sequences 2 --json");
    json_t *sequences = json_object_get(root, "sequences");
    ck_assert_uint_eq(json_array_size(sequences), 2);
    ck_assert_uint_eq(json_array_size(json_object_get(json_array_get(sequences, 0), "ids")), 20);
    ck_assert(json_real_value(json_object_get(root, "tokens_per_s")) > 0);
    json_decref(root);
#define RUN "run cli-test-model --ids 1,2,3 --ids 4 -n 20 --ignore-eos --sequences 3 --temperature 1 --seed 9 --json "
    same_ids(RUN "--devices cpu:0", RUN "--devices cpu:0,cpu:1");
    same_ids(RUN "--devices cpu:0", RUN "--devices cpu:0,cpu:1,cpu:2,cpu:3");
    same_ids(RUN "--devices cpu:0", RUN "--devices cpu:3,cpu:1 --split 3,1 --chunk 1 --groups 3");
    same_ids(RUN "--devices cpu:0", RUN "--devices cpu:0,cpu:1 --pin layers.0=cpu:2,layers.2-3=cpu:0");
    ck_assert_int_eq(sluice(RUN "--devices cpu:0,cpu:1 --verify"), 0);
#undef RUN
}
END_TEST

START_TEST(plain_output_is_ids_a_line_without_a_vocabulary) {
    make_model();
    ck_assert_int_eq(sluice("run cli-test-model --ids 1 -n 3 --ignore-eos --sequences 2"), 0);
    int a[3], b[3], used = 0;
    ck_assert_int_eq(sscanf(output, "%d %d %d\n%d %d %d\n%n", &a[0], &a[1], &a[2], &b[0], &b[1], &b[2], &used), 6);
    ck_assert_int_eq(used, (int)strlen(output));
    ck_assert_int_eq(memcmp(a, b, sizeof a), 0);
}
END_TEST

START_TEST(simulated_devices_run_the_same_command) {
    make_model();
    json_t *root = json_of("run cli-test-model --ids 1 -n 5 --devices sim:0,sim:1 --json");
    ck_assert_uint_eq(json_array_size(json_object_get(json_array_get(json_object_get(root, "sequences"), 0), "ids")),
                      5);
    json_decref(root);
}
END_TEST

START_TEST(devices_env_plan_and_inspect_print_json) {
    make_model();
    json_t *root = json_of("devices --json");
    ck_assert_uint_eq(json_array_size(json_object_get(root, "devices")), 4);
    ck_assert_ptr_nonnull(json_object_get(json_object_get(root, "absent"), "cuda"));
    json_decref(root);
    root = json_of("env --json");
    ck_assert_ptr_nonnull(json_object_get(root, "instruction_set"));
    ck_assert_uint_gt(json_array_size(json_object_get(root, "settings")), 10);
    json_decref(root);
    json_decref(json_of("plan cli-test-model --devices cpu:0,cpu:1 --format json"));
    root = json_of("inspect cli-test-model --json");
    ck_assert_int_eq(json_integer_value(json_object_get(json_object_get(root, "model"), "layers")), 4);
    json_decref(root);
    ck_assert_int_eq(sluice("plan cli-test-model --devices cpu:0,cpu:1"), 0);
    ck_assert_ptr_nonnull(strstr(output, "cpu:1"));
    ck_assert_int_eq(sluice("plan cli-test-model --devices cpu:0,cpu:1 --format dot"), 0);
    ck_assert_ptr_nonnull(strstr(output, "digraph"));
}
END_TEST

START_TEST(help_and_version_say_what_there_is) {
    static const char *const commands[] = {"run", "plan", "inspect", "devices", "env", "synth"};
    ck_assert_int_eq(sluice("help"), 0);
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        char line[64];
        ck_assert_ptr_nonnull(strstr(output, commands[i]));
        snprintf(line, sizeof line, "help %s", commands[i]);
        ck_assert_int_eq(sluice(line), 0);
        ck_assert_ptr_nonnull(strstr(output, "--"));
        snprintf(line, sizeof line, "%s --help", commands[i]);
        ck_assert_int_eq(sluice(line), 0);
        ck_assert_int_eq(sluice("help"), 0);
    }
    ck_assert_int_eq(sluice("version"), 0);
    ck_assert_int_eq(strncmp(output, "sluice 0.", 9), 0);
}
END_TEST

START_TEST(an_interrupt_drains_and_exits_130) {
    char command[512];
    make_model();
    snprintf(
        command, sizeof command,
        "SLUICE_CPU_DEVICES=2 SLUICE_CPU_SPEED=1M sh -c '%s run cli-test-model --ids 1 -n 63 --ignore-eos --devices "
        "cpu:0,cpu:1 --json & p=$!; sleep 0.5; kill -INT $p; wait $p; echo code $?' 2>/dev/null",
        SLUICE_COMMAND);
    test_run(command, output, sizeof output);
    ck_assert_msg(strstr(output, "code 130") != NULL, "%s", output);
    ck_assert_ptr_nonnull(strstr(output, "\"sequences\""));
}
END_TEST

START_TEST(a_corrupt_result_is_found_by_verify) {
    make_model();
    /* A link that corrupts is demoted to a staged one, and the result stays right. */
    ck_assert_int_eq(test_run("SLUICE_CPU_DEVICES=2 SLUICE_FAULTS=corrupt:0-1 " SLUICE_COMMAND
                              " run cli-test-model --ids 1 -n 8 --ignore-eos --devices cpu:0,cpu:1 --verify 2>&1",
                              output, sizeof output),
                     0);
    ck_assert_ptr_nonnull(strstr(output, "warning"));
}
END_TEST

START_TEST(stories_are_told_as_published) {
    char *folder = test_shared("models/stories260K"), command[4096];
    if (!folder)
        SKIP("no SLUICE_TEST_DATA");
    for (int n = 200; n <= 256; n += 56) {
        snprintf(
            command, sizeof command,
            "run %s --devices cpu:0,cpu:1 --split 3,2 --ids 1 -n %d --stop-ids 1 --ignore-eos --vocab %s/tok512.bin "
            "--temperature 0 --sequences 4 --json",
            folder, n, folder);
        json_t *root = json_of(command);
        char path[4096];
        snprintf(path, sizeof path, "%s/expected_greedy_n%d.stdout.txt", folder, n);
        char *expected = test_read_file(path, NULL);
        for (size_t i = 0; i < 4; i++) {
            const char *text =
                json_string_value(json_object_get(json_array_get(json_object_get(root, "sequences"), i), "text"));
            ck_assert_uint_eq(strlen(text) + 1, strlen(expected));
            ck_assert_int_eq(strncmp(text, expected, strlen(text)), 0);
        }
        free(expected);
        json_decref(root);
    }
    free(folder);
}
END_TEST

int main(void) {
    const test_case cases[] = {
        TEST(wrong_use_exits_2_and_names_the_word),
        TEST(a_missing_device_exits_3_and_lists_what_is_there),
        TEST(too_little_memory_exits_4_before_loading),
        TEST(bad_files_exit_6_and_are_named),
        TEST(a_wrong_setting_is_named_with_what_is_allowed),
        TEST(run_prints_the_new_ids_and_they_do_not_depend_on_the_split),
        TEST(plain_output_is_ids_a_line_without_a_vocabulary),
        TEST(simulated_devices_run_the_same_command),
        TEST(devices_env_plan_and_inspect_print_json),
        TEST(help_and_version_say_what_there_is),
        TEST(an_interrupt_drains_and_exits_130),
        TEST(a_corrupt_result_is_found_by_verify),
        TEST(stories_are_told_as_published),
    };
    return test_main("cli", cases, sizeof cases / sizeof *cases);
}
