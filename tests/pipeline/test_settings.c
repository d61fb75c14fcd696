/* settings.c, settings_text.c, isa.c. Each test is a process of its own, so that each reads its own environment. */
#include "settings.h"
#include "support.h"
#include <float.h>
#include <math.h>
#include <sched.h>
#include <sluice/memory.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int cores(void) {
    cpu_set_t set;
    ck_assert_int_eq(sched_getaffinity(0, sizeof set, &set), 0);
    return CPU_COUNT(&set);
}

static sl_setting get(const char *name) {
    sl_setting setting = {0};
    for (int i = 0; sl_setting_get(i, &setting); i++)
        if (strcmp(setting.name, name) == 0)
            return setting;
    ck_abort_msg("no setting %s", name);
    return setting;
}

static void says(const char *part) {
    ck_assert_msg(strstr(sl_last_error(), part) != NULL, "'%s' does not say '%s'", sl_last_error(), part);
}

/* ---- Numbers ---- */

START_TEST(quantities_read_with_their_suffix) {
    static const struct {
        const char *text;
        double value;
    } good[] = {{"0", 0},
                {"64", 64},
                {"512M", 512e6},
                {"1.5G", 1.5e9},
                {"8Gi", 8589934592.0},
                {"1Ki", 1024},
                {"1K", 1000},
                {"1k", 1000},
                {"2T", 2e12},
                {"2Ti", 2199023255552.0},
                {"0.25Mi", 262144},
                {"1e9", 1e9},
                {"1.5e-3", 1.5e-3},
                {"1E+2K", 1e5},
                {"64B", 64},
                {"64MiB", 67108864},
                {"3GB", 3e9},
                {"007", 7},
                {"0.0000001", 1e-7},
                {"1e308", 1e308},
                {"123456789012345678901234567890", 123456789012345678901234567890.0}};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        double value = -1;
        ck_assert_msg(sli_parse_quantity(good[i].text, &value), "%s", good[i].text);
        ck_assert_msg(fabs(value - good[i].value) <= 2 * DBL_EPSILON * good[i].value, "%s: %g", good[i].text, value);
    }
}
END_TEST

START_TEST(what_is_no_quantity_is_refused_and_changes_nothing) {
    static const char *const bad[] = {"",    " 1",    "1 ",    "-1",  "+1",  "1.",  ".5",  ".",   "K",     "1m",
                                      "1Gb", "1KK",   "1.2.3", "1e",  "1e+", "e9",  "nan", "inf", "0x10",  "1,5",
                                      "1i",  "1KiBB", "1e999", "1\n", "M1",  "1 K", "1E",  "1Ei", "1_000", "1'000"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        double value = 42;
        ck_assert_msg(!sli_parse_quantity(bad[i], &value), "'%s' was read as %g", bad[i], value);
        ck_assert(value == 42);
    }
}
END_TEST

/* strtod is the oracle, where this program's locale is "C". */
START_TEST(random_decimals_read_as_strtod_reads_them) {
    uint64_t seed = test_seed();
    for (int n = test_cases(200000); n > 0; n--) {
        char text[64];
        int length = 0, digits = 1 + (int)test_below(&seed, 24), point = (int)test_below(&seed, 26);
        for (int i = 0; i < digits; i++) {
            if (i == point && i > 0)
                text[length++] = '.';
            text[length++] = (char)('0' + test_below(&seed, 10));
        }
        text[length] = '\0';
        if (test_below(&seed, 2))
            snprintf(text + length, sizeof text - (size_t)length, "e%d", (int)test_below(&seed, 60) - 30);
        double value = -1, expected = strtod(text, NULL);
        if (!sli_parse_quantity(text, &value) || !(fabs(value - expected) <= 1e-15 * expected))
            ck_abort_msg("%s: %.17g, not %.17g", text, value, expected);
    }
}
END_TEST

START_TEST(times_read_with_their_unit) {
    static const struct {
        const char *text;
        uint64_t ns;
    } good[] = {{"0", 0},
                {"100", 100},
                {"7ns", 7},
                {"20us", 20000},
                {"1.5ms", 1500000},
                {"2s", 2000000000},
                {"0.4ns", 0},
                {"0.5ns", 1},
                {"1e3us", 1000000},
                {"9223372036854775000", 9223372036854775000u},
                {"9e9s", 9000000000000000000u}};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        uint64_t ns = 1;
        ck_assert_msg(sli_parse_ns(good[i].text, &ns), "%s", good[i].text);
        ck_assert_msg(ns == good[i].ns, "%s: %llu", good[i].text, (unsigned long long)ns);
    }
    static const char *const bad[] = {"",    "-1",   "1 us",  "1min", "us",   "1u",
                                      "1US", "1e20", "1e10s", "nan",  "1usx", "1h"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        uint64_t ns = 42;
        ck_assert_msg(!sli_parse_ns(bad[i], &ns) && ns == 42, "%s", bad[i]);
    }
}
END_TEST

START_TEST(counts_are_digits_within_their_limit) {
    uint64_t count = 42;
    ck_assert(sli_parse_count("65535", 65535, &count) && count == 65535);
    ck_assert(sli_parse_count("000", 0, &count) && count == 0);
    ck_assert(sli_parse_count("999999999999999999", 999999999999999999u, &count) && count == 999999999999999999u);
    static const char *const bad[] = {"", "-0", "+1", "1.0", " 1", "1 ", "0x1", "100", "18446744073709551617", "1e1"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        ck_assert_msg(!sli_parse_count(bad[i], 99, &count), "%s", bad[i]);
    ck_assert_uint_eq(count, 999999999999999999u);
}
END_TEST

/* ---- Values in force ---- */

START_TEST(defaults_are_what_the_header_says) {
    const sli_settings *s = sli_settings_get();
    ck_assert_ptr_nonnull(s);
    ck_assert_int_eq(s->cpu_devices, cores() < 2 ? 2 : cores());
    ck_assert_int_eq(s->cpu_threads, 1);
    ck_assert_uint_eq(s->cpu_memory_bytes, 0);
    ck_assert(s->cpu_operations_per_s == 0 && s->link_bytes_per_s == 0);
    ck_assert_uint_eq(s->link_latency_ns, 0);
    ck_assert_str_eq(s->faults, "");
    ck_assert_str_eq(s->order, "eager");
    ck_assert(!s->poison);
    ck_assert_int_eq(s->workers, cores());
    ck_assert_int_eq(s->sim_devices, 1024);
    ck_assert_str_eq(s->sim_topology, "");
    ck_assert_uint_eq(s->pinned_bytes, 1073741824);
    ck_assert_str_eq(get("SLUICE_CPU_MEMORY").origin, "default");
}
END_TEST

START_TEST(one_core_gives_two_devices_and_one_worker) {
    cpu_set_t all, one;
    ck_assert_int_eq(sched_getaffinity(0, sizeof all, &all), 0);
    CPU_ZERO(&one);
    for (size_t c = 0; c < CPU_SETSIZE && CPU_COUNT(&one) == 0; c++)
        if (CPU_ISSET(c, &all))
            CPU_SET(c, &one);
    ck_assert_int_eq(sched_setaffinity(0, sizeof one, &one), 0);
    ck_assert_int_eq(sli_settings_get()->cpu_devices, 2);
    ck_assert_int_eq(sli_settings_get()->workers, 1);
}
END_TEST

START_TEST(every_setting_reaches_its_field) {
    static const char *const pairs[][2] = {{"SLUICE_CPU_DEVICES", "7"},
                                           {"SLUICE_CPU_THREADS", "3"},
                                           {"SLUICE_CPU_MEMORY", "1.5M"},
                                           {"SLUICE_CPU_SPEED", "2G"},
                                           {"SLUICE_LINK_BANDWIDTH", "12.5Ki"},
                                           {"SLUICE_LINK_LATENCY", "20us"},
                                           {"SLUICE_CPU_ORDER", "random:17"},
                                           {"SLUICE_CPU_POISON", "1"},
                                           {"SLUICE_CPU_WORKERS", "1"},
                                           {"SLUICE_SIM_DEVICES", "0"},
                                           {"SLUICE_SIM_TOPOLOGY", "{}"},
                                           {"SLUICE_PINNED_MEMORY", "1"},
                                           {"SLUICE_ISA", "plain"}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        if (i % 2)
            ck_assert_int_eq(sl_setting_set(pairs[i][0], pairs[i][1]), SL_OK);
        else
            setenv(pairs[i][0], pairs[i][1], 1);
    const sli_settings *s = sli_settings_get();
    ck_assert_msg(s != NULL, "%s", sl_last_error());
    ck_assert(s->cpu_devices == 7 && s->cpu_threads == 3 && s->cpu_memory_bytes == 1500000);
    ck_assert(s->cpu_operations_per_s == 2e9 && s->link_bytes_per_s == 12800 && s->link_latency_ns == 20000);
    ck_assert(s->poison && s->workers == 1 && s->sim_devices == 0 && s->pinned_bytes == 1);
    ck_assert(s->isa == SL_ISA_PLAIN && sl_cpu_isa() == SL_ISA_PLAIN);
    ck_assert_str_eq(s->order, "random:17");
    ck_assert_str_eq(s->sim_topology, "{}");
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        sl_setting setting = get(pairs[i][0]);
        ck_assert_str_eq(setting.value, pairs[i][1]);
        ck_assert_str_eq(setting.origin, i % 2 ? "program" : "environment");
        ck_assert_msg(strlen(setting.meaning) > 20, "%s", setting.name);
    }
}
END_TEST

START_TEST(the_program_goes_before_the_environment) {
    setenv("SLUICE_CPU_DEVICES", "nonsense that nobody reads", 1);
    ck_assert_int_eq(sl_setting_set("SLUICE_CPU_DEVICES", "3"), SL_OK);
    ck_assert_int_eq(sl_setting_set("SLUICE_CPU_DEVICES", "5"), SL_OK);
    ck_assert_int_eq(sl_device_count(SL_CPU), 5);
    ck_assert_str_eq(get("SLUICE_CPU_DEVICES").value, "5");
    ck_assert_str_eq(get("SLUICE_CPU_DEVICES").origin, "program");
}
END_TEST

START_TEST(what_is_in_force_is_shown_not_what_was_asked_for) {
    setenv("SLUICE_CPU_WORKERS", "1024", 1);
    setenv("SLUICE_ISA", "auto", 1);
    char number[16];
    snprintf(number, sizeof number, "%d", cores());
    ck_assert_str_eq(get("SLUICE_CPU_WORKERS").value, number);
    ck_assert_str_eq(get("SLUICE_ISA").value, sl_isa_name(sl_cpu_isa()));
    ck_assert_int_eq(sli_settings_get()->workers, cores());
}
END_TEST

START_TEST(the_table_ends) {
    sl_setting setting;
    int n = 0;
    while (sl_setting_get(n, &setting)) {
        ck_assert(strncmp(setting.name, "SLUICE_", 7) == 0);
        n++;
    }
    ck_assert_int_eq(n, 14);
    ck_assert(!sl_setting_get(-1, &setting) && !sl_setting_get(n + 1, &setting));
}
END_TEST

START_TEST(values_outlive_the_environment) {
    setenv("SLUICE_CPU_ORDER", "newest", 1);
    ck_assert_str_eq(sli_settings_get()->order, "newest");
    setenv("SLUICE_CPU_ORDER", "laaaate", 1);
    unsetenv("SLUICE_CPU_ORDER");
    ck_assert_str_eq(sli_settings_get()->order, "newest");
}
END_TEST

/* ---- What is wrong ---- */

START_TEST(wrong_values_are_refused_with_what_is_allowed) {
    static const char *const wrong[][3] = {
        {"SLUICE_CPU_DEVICES", "0", "1 to 1024"},
        {"SLUICE_CPU_DEVICES", "1025", "1 to 1024"},
        {"SLUICE_CPU_DEVICES", "two", "'two'"},
        {"SLUICE_CPU_DEVICES", "", "''"},
        {"SLUICE_CPU_THREADS", "-1", "1 to 256"},
        {"SLUICE_CPU_MEMORY", "1.5", "whole bytes"},
        {"SLUICE_CPU_MEMORY", "1e19", "whole bytes"},
        {"SLUICE_CPU_MEMORY", "-1", "512M"},
        {"SLUICE_CPU_SPEED", "fast", "operations a second"},
        {"SLUICE_LINK_BANDWIDTH", "inf", "bytes a second"},
        {"SLUICE_LINK_LATENCY", "1m", "20us"},
        {"SLUICE_CPU_ORDER", "EAGER", "eager, late, newest or random:SEED"},
        {"SLUICE_CPU_ORDER", "random:", "random:SEED"},
        {"SLUICE_CPU_ORDER", "random:x", "random:SEED"},
        {"SLUICE_CPU_POISON", "yes", "0 or 1"},
        {"SLUICE_CPU_WORKERS", "0", "1 to 1024"},
        {"SLUICE_SIM_DEVICES", "65537", "0 to 65536"},
        {"SLUICE_PINNED_MEMORY", "0", "at least 1"},
        {"SLUICE_ISA", "sse2", "auto, plain, avx2 or avx512"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        ck_assert_int_eq(sl_setting_set(wrong[i][0], wrong[i][1]), SL_INVALID);
        says(wrong[i][0]);
        says(wrong[i][2]);
        setenv(wrong[i][0], wrong[i][1], 1);
        ck_assert_int_eq(sl_devices_find(), SL_INVALID);
        says(wrong[i][0]);
        says(wrong[i][2]);
        unsetenv(wrong[i][0]);
    }
    ck_assert_int_eq(sl_devices_find(), SL_OK);
}
END_TEST

START_TEST(an_unknown_variable_is_an_error_that_lists_the_known_ones) {
    setenv("SLUICE_CPU_DEVICE", "4", 1);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(sl_devices_find(), SL_INVALID);
        says("SLUICE_CPU_DEVICE is no setting");
        says("SLUICE_CPU_DEVICES, SLUICE_CPU_THREADS");
        says("SLUICE_ISA");
    }
    ck_assert_int_eq(sl_setting_set("SLUICE_NONE", "1"), SL_INVALID);
    says("SLUICE_NONE is no setting");
    says("SLUICE_ISA");
    ck_assert_int_eq(sl_setting_set("SLUICE_CPU_DEVICES2", "1"), SL_INVALID);
    ck_assert_int_eq(sl_setting_set("", "1"), SL_INVALID);
    ck_assert_int_eq(sl_setting_set(NULL, "1"), SL_INVALID);
    ck_assert_int_eq(sl_setting_set("SLUICE_ISA", NULL), SL_INVALID);
}
END_TEST

START_TEST(a_wrong_variable_fails_every_call_that_needs_a_device) {
    setenv("SLUICE_CPU_THREADS", "many", 1);
    sl_device cpu = {SL_CPU, 0}, list[2];
    sl_device_info info;
    sl_device_guard guard;
    sl_memory_figures figures;
    sl_setting setting;
    int n;
    ck_assert_int_eq(sl_device_check(cpu), SL_INVALID);
    ck_assert_int_eq(sl_device_get_info(cpu, &info), SL_INVALID);
    ck_assert_int_eq(sl_device_set_current(cpu), SL_INVALID);
    ck_assert_int_eq(sl_device_guard_enter(&guard, cpu), SL_INVALID);
    ck_assert_int_eq(sl_device_parse_list("auto", list, 2, &n), SL_INVALID);
    ck_assert_int_eq(sl_device_parse_list("cpu:0", list, 2, &n), SL_INVALID);
    ck_assert_int_eq(sl_memory_get(cpu, &figures), SL_INVALID);
    ck_assert_int_eq(sl_memory_get_pinned(&figures), SL_INVALID);
    says("SLUICE_CPU_THREADS");
    ck_assert_int_eq(sl_device_count(SL_CPU), 0);
    ck_assert_str_ne(sl_device_absence(SL_CPU), "");
    ck_assert(!sl_setting_get(0, &setting));
    unsetenv("SLUICE_CPU_THREADS");
    ck_assert_int_eq(sl_device_check(cpu), SL_OK);
}
END_TEST

START_TEST(variables_of_tests_and_of_others_are_left_alone) {
    setenv("SLUICE_TEST_ANYTHING", "1", 1);
    setenv("SLUICER", "1", 1);
    setenv("XSLUICE_CPU", "1", 1);
    ck_assert_int_eq(sl_devices_find(), SL_OK);
}
END_TEST

START_TEST(a_setting_comes_too_late_once_the_devices_are_found) {
    ck_assert_int_eq(sl_setting_set("SLUICE_CPU_DEVICES", "3"), SL_OK);
    ck_assert_int_eq(sl_devices_find(), SL_OK);
    ck_assert_int_eq(sl_setting_set("SLUICE_CPU_DEVICES", "4"), SL_INVALID);
    says("too late");
    ck_assert_int_eq(sl_device_count(SL_CPU), 3);
}
END_TEST

/* ---- The instruction set ---- */

static bool kernel_lists(const char *flag) {
    char command[96];
    snprintf(command, sizeof command, "grep -m1 '^flags' /proc/cpuinfo | grep -qw %s", flag);
    return test_run(command, NULL, 0) == 0;
}

START_TEST(the_instruction_set_is_the_best_that_the_kernel_lists) {
    if (!kernel_lists("fpu"))
        SKIP("/proc/cpuinfo lists no flags");
    bool avx2 = kernel_lists("avx2") && kernel_lists("fma") && kernel_lists("f16c");
    bool avx512 = avx2 && kernel_lists("avx512f") && kernel_lists("avx512bw") && kernel_lists("avx512dq") &&
                  kernel_lists("avx512vl");
    ck_assert_int_eq(sl_cpu_isa(), avx512 ? SL_ISA_AVX512 : avx2 ? SL_ISA_AVX2 : SL_ISA_PLAIN);
    sl_isa isa;
    ck_assert_int_eq(sli_isa_parse("avx2", &isa), avx2 ? SL_OK : SL_INVALID);
    ck_assert_int_eq(sli_isa_parse("avx512", &isa), avx512 ? SL_OK : SL_INVALID);
    if (!avx512)
        says("this machine has no avx512");
}
END_TEST

START_TEST(instruction_sets_have_names) {
    ck_assert_str_eq(sl_isa_name(SL_ISA_PLAIN), "plain");
    ck_assert_str_eq(sl_isa_name(SL_ISA_AVX2), "avx2");
    ck_assert_str_eq(sl_isa_name(SL_ISA_AVX512), "avx512");
    ck_assert_str_eq(sl_isa_name((sl_isa)17), "unknown");
}
END_TEST

int main(void) {
    const test_case cases[] = {
        TEST(quantities_read_with_their_suffix),
        TEST(what_is_no_quantity_is_refused_and_changes_nothing),
        TEST(random_decimals_read_as_strtod_reads_them),
        TEST(times_read_with_their_unit),
        TEST(counts_are_digits_within_their_limit),
        TEST(defaults_are_what_the_header_says),
        TEST(one_core_gives_two_devices_and_one_worker),
        TEST(every_setting_reaches_its_field),
        TEST(the_program_goes_before_the_environment),
        TEST(what_is_in_force_is_shown_not_what_was_asked_for),
        TEST(the_table_ends),
        TEST(values_outlive_the_environment),
        TEST(wrong_values_are_refused_with_what_is_allowed),
        TEST(an_unknown_variable_is_an_error_that_lists_the_known_ones),
        TEST(a_wrong_variable_fails_every_call_that_needs_a_device),
        TEST(variables_of_tests_and_of_others_are_left_alone),
        TEST(a_setting_comes_too_late_once_the_devices_are_found),
        TEST(the_instruction_set_is_the_best_that_the_kernel_lists),
        TEST(instruction_sets_have_names),
    };
    return test_main("settings", cases, sizeof cases / sizeof *cases);
}
