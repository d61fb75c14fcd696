/* device.c, device_text.c. Each test is a process of its own, with 4 CPU devices and 6 simulated ones. */
#include "support.h"
#include <ctype.h>
#include <pthread.h>
#include <regex.h>
#include <sluice/device.h>
#include <sluice/memory.h>
#include <sluice/tensor.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void begin(void) {
    ck_assert_int_eq(sl_setting_set("SLUICE_CPU_DEVICES", "4"), SL_OK);
    ck_assert_int_eq(sl_setting_set("SLUICE_SIM_DEVICES", "6"), SL_OK);
}

static void says(const char *part) {
    ck_assert_msg(strstr(sl_last_error(), part) != NULL, "'%s' does not say '%s'", sl_last_error(), part);
}

/* ---- Strings ---- */

START_TEST(every_device_prints_and_parses_to_itself) {
    for (int kind = 0; kind < SL_DEVICE_KINDS; kind++)
        for (int index = 0; index <= 65535; index++) {
            sl_device device = {(sl_device_kind)kind, index}, again = {SL_CPU, -1};
            char text[SL_DEVICE_TEXT], expected[64];
            snprintf(expected, sizeof expected, "%s:%d", sl_device_kind_name(device.kind), index);
            if (sl_device_format(device, text) != text || strcmp(text, expected) != 0)
                ck_abort_msg("%s prints as %s", expected, text);
            if (sl_device_parse(text, &again) != SL_OK || !sl_device_equal(device, again))
                ck_abort_msg("%s does not parse to itself", text);
        }
}
END_TEST

START_TEST(letter_case_makes_no_difference) {
    static const char *const texts[] = {"CUDA:3", "Cuda:3", "cUDa:3", "cuda:3"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        sl_device device;
        ck_assert_int_eq(sl_device_parse(texts[i], &device), SL_OK);
        ck_assert(device.kind == SL_CUDA && device.index == 3);
    }
}
END_TEST

START_TEST(a_bad_string_is_refused_at_the_bad_character) {
    static const struct {
        const char *text;
        int position; /* from 1 */
        const char *part;
    } bad[] = {
        {"cuda:", 6, "its end"},
        {"cuda:-1", 6, "('-')"},
        {"cuda:01", 7, "leading zeros"},
        {" cuda:0", 1, "(' ')"},
        {"cuda::1", 6, "(':')"},
        {"cuda:0:1", 7, "(':')"},
        {"cuda:0x1", 7, "('x')"},
        {"cuda:65536", 10, "65535"},
        {"cuda:99999999999999999999", 10, "65535"},
        {"cuda:0 ", 7, "(' ')"},
        {"cuda :0", 5, "':' or the end"},
        {"cuda0", 5, "':' or the end"},
        {"cu", 3, "its end"},
        {"cpx", 3, "('x')"},
        {"x", 1, "cpu, cuda, sim"},
        {":0", 1, "(':')"},
        {"cuda:+1", 6, "('+')"},
        {"cuda:1.0", 7, "('.')"},
        {"cuda:00", 7, "leading"},
        {"cpu:a", 5, "('a')"},
        {"cpu,", 4, "(',')"},
        {"sim:1\n", 6, "(\\x0a)"},
        {"\xc3\xa9", 1, "\\xc3"},
        {"auto", 1, "stands alone"},
        {"auto:0", 1, "stands alone"},
        {"cpu:\t1", 5, "\\x09"},
        {"cuda:1,cuda:2", 7, "(',')"},
        {"CUDA:1A", 7, "('A')"},
        {"cudas", 5, "('s')"},
        {"cpucuda", 4, "('c')"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        sl_device device = {SL_SIM, 77};
        char position[32];
        snprintf(position, sizeof position, "character %d (", bad[i].position);
        ck_assert_msg(sl_device_parse(bad[i].text, &device) == SL_INVALID, "%s", bad[i].text);
        says(position);
        if (bad[i].part[0] != '(' || bad[i].part[1] != '\\')
            says(bad[i].part);
        ck_assert(device.kind == SL_SIM && device.index == 77);
    }
    sl_device device;
    ck_assert_int_eq(sl_device_parse("", &device), SL_INVALID);
    says("is empty");
    ck_assert_int_eq(sl_device_parse(NULL, &device), SL_INVALID);
}
END_TEST

START_TEST(what_is_known_elsewhere_is_refused_by_name) {
    static const char *const texts[] = {"mps",    "mps:0", "xpu",  "HIP:1", "rocm",
                                        "Vulkan", "tpu:3", "meta", "gpu",   "gpu:0"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        sl_device device;
        char name[16] = "'";
        size_t n = strcspn(texts[i], ":");
        for (size_t c = 0; c < n; c++)
            name[c + 1] = (char)tolower((unsigned char)texts[i][c]);
        name[n + 1] = '\'';
        ck_assert_int_eq(sl_device_parse(texts[i], &device), SL_INVALID);
        says(name);
        says("cpu, cuda, sim");
    }
}
END_TEST

START_TEST(long_and_binary_strings_are_cut_in_the_message) {
    char text[4096];
    memset(text, 'y', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    sl_device device;
    ck_assert_int_eq(sl_device_parse(text, &device), SL_INVALID);
    says("yyy...");
    memset(text, 0xff, sizeof text - 1);
    ck_assert_int_eq(sl_device_parse(text, &device), SL_INVALID);
    says("\\xff");
    for (const char *c = sl_last_error(); *c; c++)
        ck_assert(*c >= 32 && *c < 127);
}
END_TEST

/* A regular expression is the oracle of what is a device string. */
START_TEST(random_strings_are_accepted_as_a_regular_expression_says) {
    static const char alphabet[] = "cpudasim:::0019 x-CU";
    uint64_t seed = test_seed();
    regex_t grammar;
    ck_assert_int_eq(regcomp(&grammar, "^(cpu|cuda|sim)(:(0|[1-9][0-9]{0,4}))?$", REG_EXTENDED | REG_ICASE), 0);
    static const char *const heads[] = {"", "cpu", "cuda", "sim", "cuda:", "cpu:1", "sim:6553"};
    int accepted = 0;
    for (int n = test_cases(300000); n > 0; n--) {
        char text[32];
        strcpy(text, heads[test_below(&seed, 7)]);
        size_t length = strlen(text), more = (size_t)test_below(&seed, 5);
        for (size_t i = 0; i < more; i++)
            text[length++] = alphabet[test_below(&seed, sizeof alphabet - 1)];
        text[length] = '\0';
        const char *colon = strchr(text, ':');
        bool good = regexec(&grammar, text, 0, NULL, 0) == 0 && (!colon || atol(colon + 1) <= 65535);
        sl_device device;
        if ((sl_device_parse(text, &device) == SL_OK) != good)
            ck_abort_msg("'%s' %s", text, good ? "is good" : "is bad");
        accepted += good;
    }
    ck_assert_int_gt(accepted, 100);
    regfree(&grammar);
}
END_TEST

/* ---- Lists ---- */

START_TEST(a_list_keeps_its_order_and_its_repeats) {
    begin();
    sl_device devices[4];
    int n = 0;
    ck_assert_int_eq(sl_device_parse_list("cpu:3,sim:1,cpu:3,CPU", devices, 4, &n), SL_OK);
    ck_assert_int_eq(n, 4);
    ck_assert(devices[0].index == 3 && devices[1].kind == SL_SIM && devices[2].index == 3 && devices[3].index == 0);
}
END_TEST

START_TEST(a_list_longer_than_the_room_is_counted_and_cut) {
    begin();
    sl_device devices[3] = {{SL_SIM, 5}, {SL_SIM, 5}, {SL_SIM, 5}};
    int n = 0;
    ck_assert_int_eq(sl_device_parse_list("cpu:0,cpu:1,cpu:2,cpu:3", devices, 2, &n), SL_OK);
    ck_assert_int_eq(n, 4);
    ck_assert(devices[1].index == 1 && devices[2].kind == SL_SIM);
    ck_assert_int_eq(sl_device_parse_list("auto", devices, 2, &n), SL_OK);
    ck_assert(n == 4 && devices[0].kind == SL_CPU && devices[1].index == 1 && devices[2].kind == SL_SIM);
    ck_assert_int_eq(sl_device_parse_list("AUTO", NULL, 0, &n), SL_OK);
    ck_assert_int_eq(n, 4);
}
END_TEST

START_TEST(a_bad_list_is_refused_at_its_character_or_device) {
    begin();
    static const struct {
        const char *text;
        sl_status status;
        const char *part;
    } bad[] = {{"", SL_INVALID, "is empty"},
               {"cpu:0,", SL_INVALID, "character 7 (its end)"},
               {",cpu:0", SL_INVALID, "character 1 (',')"},
               {"cpu:0,,cpu:1", SL_INVALID, "character 7 (',')"},
               {"cpu:0, cpu:1", SL_INVALID, "character 7 (' ')"},
               {"cpu:0,cpu:", SL_INVALID, "character 11 (its end)"},
               {"cpu:,cpu:1", SL_INVALID, "character 5 (',')"},
               {"cpu:0;cpu:1", SL_INVALID, "character 6 (';')"},
               {"cpu:0,auto", SL_INVALID, "stands alone"},
               {"auto,cpu:0", SL_INVALID, "stands alone"},
               {"cpu:0,mps", SL_INVALID, "'mps'"},
               {"cpu:0,cpu:4", SL_NO_DEVICE, "cpu:4"},
               {"cuda:0", SL_NO_DEVICE, "no CUDA module"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        sl_device devices[4];
        int n = 42;
        ck_assert_msg(sl_device_parse_list(bad[i].text, devices, 4, &n) == bad[i].status, "%s", bad[i].text);
        says(bad[i].part);
        ck_assert_int_eq(n, 42);
    }
    int n;
    ck_assert_int_eq(sl_device_parse_list(NULL, NULL, 0, &n), SL_INVALID);
}
END_TEST

static int n_logged;
static void count_log(sl_log_level level, const char *message, void *user) {
    (void)user;
    ck_assert_int_eq(level, SL_LOG_INFO);
    ck_assert_ptr_nonnull(strstr(message, "cpu:0 to cpu:3"));
    n_logged++;
}

START_TEST(auto_says_once_which_devices_it_takes) {
    begin();
    sl_set_log(count_log, NULL);
    sl_device devices[4];
    int n;
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(sl_device_parse_list("auto", devices, 4, &n), SL_OK);
    ck_assert_int_eq(n_logged, 1);
}
END_TEST

/* ---- What is there ---- */

START_TEST(a_missing_device_lists_those_that_exist) {
    begin();
    ck_assert_int_eq(sl_device_check((sl_device){SL_CUDA, 1}), SL_NO_DEVICE);
    says("cuda:1 is not there");
    says("cpu:0 to cpu:3");
    says("sim:0 to sim:5");
    says("cuda: this build has no CUDA module");
    ck_assert_int_eq(sl_device_check((sl_device){SL_CPU, 4}), SL_NO_DEVICE);
    ck_assert_int_eq(sl_device_check((sl_device){SL_CPU, -1}), SL_NO_DEVICE);
    ck_assert_int_eq(sl_device_check((sl_device){SL_SIM, 6}), SL_NO_DEVICE);
    ck_assert_int_eq(sl_device_check((sl_device){SL_DEVICE_KINDS, 0}), SL_NO_DEVICE);
    ck_assert_int_eq(sl_device_check((sl_device){SL_CPU, 3}), SL_OK);
    ck_assert_int_eq(sl_device_check((sl_device){SL_SIM, 5}), SL_OK);
}
END_TEST

START_TEST(a_kind_without_devices_says_why) {
    ck_assert_int_eq(sl_setting_set("SLUICE_SIM_DEVICES", "0"), SL_OK);
    ck_assert_int_eq(sl_device_count(SL_SIM), 0);
    ck_assert_ptr_nonnull(strstr(sl_device_absence(SL_SIM), "SLUICE_SIM_DEVICES"));
    ck_assert_int_eq(sl_device_count(SL_CUDA), 0);
    ck_assert_str_eq(sl_device_absence(SL_CUDA), "cuda: this build has no CUDA module");
    ck_assert_str_eq(sl_device_absence(SL_CPU), "");
    ck_assert_int_eq(sl_device_count(SL_DEVICE_KINDS), 0);
    ck_assert_str_ne(sl_device_absence(SL_DEVICE_KINDS), "");
    ck_assert_int_eq(sl_device_check((sl_device){SL_SIM, 0}), SL_NO_DEVICE);
    says("SLUICE_SIM_DEVICES");
}
END_TEST

START_TEST(two_cpu_devices_are_there_at_least) {
    ck_assert_int_ge(sl_device_count(SL_CPU), 2);
    ck_assert_int_eq(sl_device_count(SL_SIM), 1024);
}
END_TEST

START_TEST(info_tells_the_settings) {
    begin();
    ck_assert_int_eq(sl_setting_set("SLUICE_CPU_MEMORY", "3M"), SL_OK);
    ck_assert_int_eq(sl_setting_set("SLUICE_CPU_THREADS", "2"), SL_OK);
    ck_assert_int_eq(sl_setting_set("SLUICE_CPU_SPEED", "4G"), SL_OK);
    sl_device_info info;
    ck_assert_int_eq(sl_device_get_info((sl_device){SL_CPU, 3}, &info), SL_OK);
    ck_assert_uint_gt(strlen(info.name), 0);
    ck_assert_uint_eq(info.memory_bytes, 3000000);
    ck_assert_int_eq(info.threads, 2);
    ck_assert(info.operations_per_s == 4e9);
    ck_assert_int_eq(sl_device_get_info((sl_device){SL_SIM, 5}, &info), SL_OK);
    ck_assert_int_eq(sl_device_get_info((sl_device){SL_CUDA, 0}, &info), SL_NO_DEVICE);
}
END_TEST

START_TEST(kinds_have_names) {
    ck_assert_str_eq(sl_device_kind_name(SL_CPU), "cpu");
    ck_assert_str_eq(sl_device_kind_name(SL_CUDA), "cuda");
    ck_assert_str_eq(sl_device_kind_name(SL_SIM), "sim");
    ck_assert_str_eq(sl_device_kind_name(SL_DEVICE_KINDS), "unknown");
    char text[SL_DEVICE_TEXT];
    ck_assert_str_eq(sl_device_format((sl_device){SL_DEVICE_KINDS, INT32_MIN}, text), "unknown:-2147483648");
}
END_TEST

/* ---- The current device ---- */

START_TEST(a_kind_alone_is_the_current_device) {
    begin();
    sl_device device;
    ck_assert_int_eq(sl_device_parse("cpu", &device), SL_OK);
    ck_assert_int_eq(device.index, 0);
    ck_assert_int_eq(sl_device_set_current((sl_device){SL_CPU, 2}), SL_OK);
    ck_assert_int_eq(sl_device_set_current((sl_device){SL_SIM, 5}), SL_OK);
    ck_assert(sl_device_parse("cpu", &device) == SL_OK && device.index == 2);
    ck_assert(sl_device_parse("SIM", &device) == SL_OK && device.index == 5);
    ck_assert(sl_device_parse("cuda", &device) == SL_OK && device.index == 0);
    ck_assert(sl_device_parse("cpu:1", &device) == SL_OK && device.index == 1);
    ck_assert_int_eq(sl_device_set_current((sl_device){SL_CPU, 4}), SL_NO_DEVICE);
    ck_assert_int_eq(sl_device_current(SL_CPU).index, 2);
    ck_assert_int_eq(sl_device_current(SL_DEVICE_KINDS).index, 0);
}
END_TEST

START_TEST(guards_nest_and_set_back) {
    begin();
    sl_device_guard outer, inner, other;
    ck_assert_int_eq(sl_device_guard_enter(&outer, (sl_device){SL_CPU, 3}), SL_OK);
    ck_assert_int_eq(sl_device_guard_enter(&inner, (sl_device){SL_CPU, 1}), SL_OK);
    ck_assert_int_eq(sl_device_guard_enter(&other, (sl_device){SL_SIM, 4}), SL_OK);
    ck_assert(sl_device_current(SL_CPU).index == 1 && sl_device_current(SL_SIM).index == 4);
    sl_device_guard_leave(&other);
    ck_assert(sl_device_current(SL_CPU).index == 1 && sl_device_current(SL_SIM).index == 0);
    sl_device_guard_leave(&inner);
    ck_assert_int_eq(sl_device_current(SL_CPU).index, 3);
    sl_device_guard_leave(&outer);
    ck_assert_int_eq(sl_device_current(SL_CPU).index, 0);
}
END_TEST

START_TEST(a_guard_that_failed_or_was_left_does_nothing) {
    begin();
    sl_device_guard guard;
    ck_assert_int_eq(sl_device_set_current((sl_device){SL_CPU, 2}), SL_OK);
    ck_assert_int_eq(sl_device_guard_enter(&guard, (sl_device){SL_CPU, 4}), SL_NO_DEVICE);
    ck_assert_int_eq(sl_device_current(SL_CPU).index, 2);
    ck_assert_int_eq(sl_device_set_current((sl_device){SL_CPU, 1}), SL_OK);
    sl_device_guard_leave(&guard);
    ck_assert_int_eq(sl_device_current(SL_CPU).index, 1);
    ck_assert_int_eq(sl_device_guard_enter(&guard, (sl_device){SL_DEVICE_KINDS, 0}), SL_NO_DEVICE);
    sl_device_guard_leave(&guard);
    ck_assert_int_eq(sl_device_guard_enter(&guard, (sl_device){SL_CPU, 3}), SL_OK);
    sl_device_guard_leave(&guard);
    ck_assert_int_eq(sl_device_set_current((sl_device){SL_CPU, 0}), SL_OK);
    sl_device_guard_leave(&guard);
    ck_assert_int_eq(sl_device_current(SL_CPU).index, 0);
}
END_TEST

static void unchanged(void) {
    ck_assert_int_eq(sl_device_current(SL_CPU).index, 2);
    ck_assert_int_eq(sl_device_current(SL_SIM).index, 4);
    ck_assert_int_eq(sl_device_current(SL_CUDA).index, 0);
}

/* Each call once with success and once with failure, on other devices than the current ones. */
START_TEST(no_call_changes_the_current_device) {
    begin();
    ck_assert_int_eq(sl_setting_set("SLUICE_CPU_MEMORY", "1M"), SL_OK);
    ck_assert_int_eq(sl_device_set_current((sl_device){SL_CPU, 2}), SL_OK);
    ck_assert_int_eq(sl_device_set_current((sl_device){SL_SIM, 4}), SL_OK);
    static const sl_device devices[] = {{SL_CPU, 0}, {SL_CPU, 3}, {SL_SIM, 1}, {SL_CUDA, 0}, {SL_CPU, 9}, {SL_SIM, -1}};
    const int64_t shape[] = {3, 5}, huge[] = {1 << 20, 1 << 20};
    float content[15] = {0};
    for (size_t i = 0; i < sizeof devices / sizeof *devices; i++) {
        sl_device d = devices[i], list[2];
        sl_device_info info;
        sl_memory_figures figures;
        sl_tensor *t = NULL, *u = NULL;
        int n;
        char text[SL_DEVICE_TEXT];
        sl_device_parse(sl_device_format(d, text), list);
        sl_device_parse_list(text, list, 2, &n);
        sl_device_get_info(d, &info);
        sl_memory_get(d, &figures);
        sl_memory_reset_peak(d);
        unchanged();
        if (sl_tensor_create(d, SL_F32, 2, huge, 0, &t) == SL_OK) /* a simulated one */
            sl_tensor_release(t);
        unchanged();
        if (sl_tensor_create(d, SL_F32, 2, shape, 0, &t) == SL_OK) {
            unchanged();
            sl_tensor_write(t, content, sizeof content);
            sl_tensor_read(t, content, sizeof content);
            unchanged();
            for (size_t j = 0; j < sizeof devices / sizeof *devices; j++) {
                if (sl_tensor_to(t, devices[j], 0, &u) == SL_OK)
                    sl_tensor_release(u);
                unchanged();
            }
            if (sl_tensor_cpu(t, &u) == SL_OK)
                sl_tensor_release(u);
            ck_assert_int_eq(sl_tensor_cuda(t, 0, &u), SL_NO_DEVICE);
            ck_assert_int_eq(sl_tensor_to_dtype(t, SL_F16, &u), SL_OK);
            sl_tensor_release(u);
            sl_tensor_release(t);
        }
        sl_memory_trim(d, NULL);
        unchanged();
    }
}
END_TEST

enum { THREADS = 8 };
static pthread_barrier_t all;

static void *find_and_set(void *user) {
    int index = (int)(intptr_t)user % 4;
    pthread_barrier_wait(&all);
    intptr_t wrong = sl_device_count(SL_CPU) != 4;
    wrong += sl_device_current(SL_CPU).index != 0;
    wrong += sl_device_set_current((sl_device){SL_CPU, index}) != SL_OK;
    pthread_barrier_wait(&all);
    wrong += sl_device_current(SL_CPU).index != index;
    sl_setting setting;
    wrong += !sl_setting_get(0, &setting) || strcmp(setting.value, "4") != 0;
    return (void *)wrong;
}

START_TEST(threads_find_the_same_devices_and_have_a_current_one_each) {
    begin();
    pthread_t threads[THREADS];
    ck_assert_int_eq(pthread_barrier_init(&all, NULL, THREADS), 0);
    for (intptr_t i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, find_and_set, (void *)i), 0);
    for (int i = 0; i < THREADS; i++) {
        void *wrong;
        ck_assert_int_eq(pthread_join(threads[i], &wrong), 0);
        ck_assert_ptr_null(wrong);
    }
    ck_assert_int_eq(sl_device_current(SL_CPU).index, 0);
    pthread_barrier_destroy(&all);
}
END_TEST

int main(void) {
    const test_case cases[] = {
        TEST(every_device_prints_and_parses_to_itself),
        TEST(letter_case_makes_no_difference),
        TEST(a_bad_string_is_refused_at_the_bad_character),
        TEST(what_is_known_elsewhere_is_refused_by_name),
        TEST(long_and_binary_strings_are_cut_in_the_message),
        TEST(random_strings_are_accepted_as_a_regular_expression_says),
        TEST(a_list_keeps_its_order_and_its_repeats),
        TEST(a_list_longer_than_the_room_is_counted_and_cut),
        TEST(a_bad_list_is_refused_at_its_character_or_device),
        TEST(auto_says_once_which_devices_it_takes),
        TEST(a_missing_device_lists_those_that_exist),
        TEST(a_kind_without_devices_says_why),
        TEST(two_cpu_devices_are_there_at_least),
        TEST(info_tells_the_settings),
        TEST(kinds_have_names),
        TEST(a_kind_alone_is_the_current_device),
        TEST(guards_nest_and_set_back),
        TEST(a_guard_that_failed_or_was_left_does_nothing),
        TEST(no_call_changes_the_current_device),
        TEST(threads_find_the_same_devices_and_have_a_current_one_each),
    };
    return test_main("device", cases, sizeof cases / sizeof *cases);
}
