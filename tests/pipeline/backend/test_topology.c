/* Claims about topologies: what they say, and how wrong ones are refused. */
#include "backend/topology.h"
#include "support.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static sli_topology *read_text(const char *text) {
    sli_topology *t = NULL;
    ck_assert_msg(sli_topology_read(text, &t) == SL_OK, "%s", sl_last_error());
    return t;
}

static const char example[] = /* as in <sluice/pipeline.h> */
    " {\"devices\": {\"count\": 4, \"name\": \"H100\", \"memory_bytes\": 80e9, \"operations_per_s\": 6e13,"
    "              \"each\": [{\"index\": 3, \"operations_per_s\": 3e13}]},"
    "  \"links\": {\"bytes_per_s\": 5e10, \"latency_ns\": 2000, \"peer\": true,"
    "            \"each\": [{\"to\": \"host\", \"both_ways\": true, \"bytes_per_s\": 2.5e10},"
    "                     {\"from\": 0, \"to\": 3, \"peer\": false}]}}";

START_TEST(devices_are_as_described) {
    sli_topology *t = read_text(example);
    sli_sim_device d;
    ck_assert_int_eq(sli_topology_count(t), 4);
    for (int i = 0; i < 4; i++) {
        sli_topology_get_device(t, i, &d);
        ck_assert_str_eq(d.name, "H100");
        ck_assert_uint_eq(d.memory_bytes, 80000000000);
        ck_assert_double_eq(d.operations_per_s, i == 3 ? 3e13 : 6e13);
    }
    sli_topology_destroy(t);
}
END_TEST

START_TEST(links_are_as_described) {
    sli_topology *t = read_text(example);
    sli_sim_link l;
    for (int from = -1; from < 4; from++)
        for (int to = -1; to < 4; to++) {
            if (from == to)
                continue;
            sli_topology_get_link(t, from, to, &l);
            ck_assert_double_eq(l.bytes_per_s, from == SLI_HOST || to == SLI_HOST ? 2.5e10 : 5e10);
            ck_assert_uint_eq(l.latency_ns, 2000);
            ck_assert_int_eq(l.peer, !(from == 0 && to == 3));
        }
    sli_topology_destroy(t);
}
END_TEST

START_TEST(the_last_entry_that_matches_counts) {
    sli_topology *t = read_text("{\"links\": {\"latency_ns\": 1, \"each\": [{\"from\": 1, \"latency_ns\": 2},"
                                "{\"from\": 1, \"to\": 2, \"latency_ns\": 3}, {\"to\": 5, \"latency_ns\": 4},"
                                "{\"from\": 6, \"to\": 7, \"both_ways\": true, \"latency_ns\": 5}]}}");
    static const int cases[][3] = {{0, 1, 1}, {1, 0, 2}, {1, 2, 3}, {2, 1, 1}, {1, 5, 4},
                                   {5, 1, 1}, {6, 7, 5}, {7, 6, 5}, {6, 5, 4}, {1, -1, 2}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sli_sim_link l;
        sli_topology_get_link(t, cases[i][0], cases[i][1], &l);
        ck_assert_msg(l.latency_ns == (uint64_t)cases[i][2], "case %zu: %d", i, (int)l.latency_ns);
        ck_assert(l.peer);
    }
    sli_topology_destroy(t);
}
END_TEST

START_TEST(nothing_said_is_no_limit_and_no_time) {
    static const char *const texts[] = {NULL, "", "{}", "{\"devices\": {}, \"links\": {}}", "  \n"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        sli_topology *t = read_text(texts[i]);
        sli_sim_device d;
        sli_sim_link l;
        sli_topology_get_device(t, 77, &d);
        sli_topology_get_link(t, 0, 1, &l);
        ck_assert_int_eq(sli_topology_count(t), 0);
        ck_assert_uint_eq(d.memory_bytes, 0);
        ck_assert_double_eq(d.operations_per_s, 0);
        ck_assert_uint_gt(strlen(d.name), 0);
        ck_assert(l.peer);
        ck_assert_uint_eq(sli_sim_copy_ns(&l, 1000000), 0);
        sli_topology_destroy(t);
    }
}
END_TEST

START_TEST(a_copy_takes_latency_and_bytes_over_bandwidth) {
    static const struct {
        double bytes_per_s;
        uint64_t latency_ns;
        size_t bytes;
        uint64_t ns;
    } cases[] = {{1e9, 0, 1000, 1000},
                 {1e9, 50, 1000, 1050},
                 {0, 50, 1000, 50},
                 {3e9, 0, 1, 0},
                 {3e9, 0, 2, 1},
                 {2e9, 7, 3, 9},
                 {5e10, 2000, 1 << 20, 22972},
                 {1e-9, 0, 1, UINT64_C(1000000000000000000)}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sli_sim_link l = {cases[i].bytes_per_s, cases[i].latency_ns, true};
        ck_assert_msg(sli_sim_copy_ns(&l, cases[i].bytes) == cases[i].ns, "case %zu: %llu", i,
                      (unsigned long long)sli_sim_copy_ns(&l, cases[i].bytes));
    }
    ck_assert_uint_ge(sli_sim_copy_ns(&(sli_sim_link){1e-200, 0, true}, 1), UINT64_C(1000000000000000000));
}
END_TEST

static void expect_refused(const char *text, sl_status status, const char *part) {
    sli_topology *t = NULL;
    sl_status found = sli_topology_read(text, &t);
    ck_assert_msg(found == status, "%s: %s", text, sl_status_name(found));
    ck_assert_msg(strstr(sl_last_error(), part) != NULL, "%s: '%s' holds no '%s'", text, sl_last_error(), part);
    ck_assert_ptr_null(t);
}

START_TEST(wrong_keys_and_values_are_refused_by_name) {
    static const char *const cases[][2] = {
        {"{\"device\": {}}", "device is no key; expected one of devices, links"},
        {"{\"devices\": 4}", "devices is 4; expected an object"},
        {"{\"devices\": {\"memory\": 1}}", "devices.memory is no key; expected one of count, name, memory_bytes"},
        {"{\"devices\": {\"count\": 0}}", "devices.count is 0; expected a whole number from 1"},
        {"{\"devices\": {\"count\": -1}}", "devices.count is -1"},
        {"{\"devices\": {\"count\": 65537}}", "devices.count is 65537"},
        {"{\"devices\": {\"count\": 1.5}}", "devices.count is 1.5"},
        {"{\"devices\": {\"count\": \"4\"}}", "devices.count is \"4\""},
        {"{\"devices\": {\"count\": null}}", "devices.count is null"},
        {"{\"devices\": {\"name\": 4}}", "devices.name is 4; expected a string"},
        {"{\"devices\": {\"memory_bytes\": -5}}", "devices.memory_bytes is -5"},
        {"{\"devices\": {\"memory_bytes\": 1e300}}", "devices.memory_bytes is 1"},
        {"{\"devices\": {\"operations_per_s\": -1}}", "devices.operations_per_s is -1"},
        {"{\"devices\": {\"operations_per_s\": true}}", "devices.operations_per_s is true"},
        {"{\"devices\": {\"each\": {}}}", "devices.each is {}; expected a list"},
        {"{\"devices\": {\"each\": [3]}}", "devices.each[0] is 3; expected an object"},
        {"{\"devices\": {\"each\": [{}]}}", "devices.each[0].index is missing"},
        {"{\"devices\": {\"each\": [{\"index\": 1}, {\"index\": 1}]}}", "devices.each[1].index is 1, as in"},
        {"{\"devices\": {\"count\": 2, \"each\": [{\"index\": 2}]}}", "devices.each[0].index is 2, but devices.count"},
        {"{\"devices\": {\"each\": [{\"index\": 0, \"speed\": 2}]}}", "devices.each[0].speed is no key"},
        {"{\"links\": []}", "links is []; expected an object"},
        {"{\"links\": {\"latency\": 1}}", "links.latency is no key; expected one of bytes_per_s, latency_ns, peer"},
        {"{\"links\": {\"latency_ns\": 0.5}}", "links.latency_ns is 0.5"},
        {"{\"links\": {\"peer\": 1}}", "links.peer is 1; expected true or false"},
        {"{\"links\": {\"each\": [{\"from\": \"cpu\"}]}}", "links.each[0].from is \"cpu\"; expected a device's number"},
        {"{\"links\": {\"each\": [{\"from\": -1}]}}", "links.each[0].from is -1"},
        {"{\"links\": {\"each\": [{\"from\": 1.0}]}}", "links.each[0].from is 1.0"},
        {"{\"links\": {\"each\": [{\"from\": 1, \"to\": 1}]}}", "links.each[0].from and to are the same"},
        {"{\"links\": {\"each\": [{\"from\": \"host\", \"to\": \"host\"}]}}", "from and to are the same"},
        {"{\"devices\": {\"count\": 2}, \"links\": {\"each\": [{\"to\": 2}]}}", "links.each[0].to is 2, but"},
        {"{\"links\": {\"each\": [{}, {\"two_ways\": true}]}}", "links.each[1].two_ways is no key"},
        {"{\"devices\": {\"count\": 1, \"count\": 2}}", "duplicate object key"},
        {"{\"devices\": {}", "line 1"},
        {"{\n\"devices\": {}\n} x", "line 3"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        expect_refused(cases[i][0], SL_INVALID, cases[i][1]);
}
END_TEST

START_TEST(long_values_are_cut_in_messages) {
    char text[600] = "{\"devices\": {\"name\": \"";
    memset(text + strlen(text), 'n', 200);
    strcat(text, "\"}}");
    expect_refused(text, SL_INVALID, "nnn...");
}
END_TEST

static void expect_refused_file(const char *text, const char *part) {
    char path[] = "/tmp/sluice-topology-XXXXXX";
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
    expect_refused(path, SL_BAD_FILE, part);
    unlink(path);
}

START_TEST(a_file_is_read_and_named_in_errors) {
    char path[] = "/tmp/sluice-topology-XXXXXX", message[128];
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, example, strlen(example)), (ssize_t)strlen(example));
    sli_topology *t = read_text(path);
    ck_assert_int_eq(sli_topology_count(t), 4);
    sli_topology_destroy(t);
    ck_assert_int_eq(ftruncate(fd, 40), 0);
    close(fd);
    snprintf(message, sizeof message, "'%s': line 1", path);
    expect_refused(path, SL_BAD_FILE, message);
    unlink(path);
    expect_refused(path, SL_IO, path);
    expect_refused("/", SL_BAD_FILE, "'/'");
    expect_refused_file("[1]", "the topology is [1]; expected an object");
}
END_TEST

int main(void) {
    const test_case cases[] = {
        TEST(devices_are_as_described),
        TEST(links_are_as_described),
        TEST(the_last_entry_that_matches_counts),
        TEST(nothing_said_is_no_limit_and_no_time),
        TEST(a_copy_takes_latency_and_bytes_over_bandwidth),
        TEST(wrong_keys_and_values_are_refused_by_name),
        TEST(long_values_are_cut_in_messages),
        TEST(a_file_is_read_and_named_in_errors),
    };
    return test_main("topology", cases, sizeof cases / sizeof *cases);
}
