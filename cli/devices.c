/* `sluice devices`: what is there, and why what is not there is not. `sluice env`: the settings in force. */
#include "cli.h"
#include <string.h>

static bool as_json;

static const cli_option options[] = {
    {.name = "json", .kind = CLI_FLAG, .target = &as_json, .meaning = "print JSON"},
};

static void help(void) {
    cli_print_options(options, 1);
}

static json_t *device_json(sl_device device, const sl_device_info *info) {
    char text[SL_DEVICE_TEXT];
    return json_pack("{s:s, s:s, s:I, s:i, s:f}", "device", sl_device_format(device, text), "name", info->name,
                     "memory_bytes", (json_int_t)info->memory_bytes, "threads", info->threads, "operations_per_s",
                     info->operations_per_s);
}

static void print_device(sl_device device, const sl_device_info *info) {
    char text[SL_DEVICE_TEXT], bytes[32];
    printf("%-8s %-40s %10s %3d thread%s", sl_device_format(device, text), info->name,
           info->memory_bytes ? cli_bytes(info->memory_bytes, bytes) : "no limit", info->threads,
           info->threads == 1 ? " " : "s");
    if (info->operations_per_s > 0)
        printf("  modelled at %.4g operations a second", info->operations_per_s);
    printf("\n");
}

static sl_status list_kind(sl_device_kind kind, json_t *array) {
    for (int i = 0; i < sl_device_count(kind); i++) {
        sl_device device = {kind, i};
        sl_device_info info;
        SL_TRY(sl_device_get_info(device, &info));
        if (as_json)
            json_array_append_new(array, device_json(device, &info));
        else
            print_device(device, &info);
    }
    return SL_OK;
}

static int run_devices(int argc, char **argv) {
    if (!cli_parse(argc, argv, options, 1, NULL, 0, ""))
        return EXIT_USAGE;
    sl_status status = sl_devices_find();
    json_t *list = json_array(), *absent = json_object();
    for (int kind = 0; kind < SL_SIM && status == SL_OK; kind++)
        status = list_kind((sl_device_kind)kind, list);
    if (status != SL_OK) {
        json_decref(list);
        json_decref(absent);
        return cli_fail(status);
    }
    for (int kind = 0; kind < SL_SIM; kind++) {
        const char *why = sl_device_absence((sl_device_kind)kind);
        if (*why)
            json_object_set_new(absent, sl_device_kind_name((sl_device_kind)kind), json_string(why));
        if (*why && !as_json)
            printf("%s\n", why); /* begins with the kind's name */
    }
    if (as_json)
        return cli_print_json(
            json_pack("{s:o, s:o, s:i}", "devices", list, "absent", absent, "simulated", sl_device_count(SL_SIM)));
    printf("sim:N    %d simulated devices: virtual time, no data\n", sl_device_count(SL_SIM));
    json_decref(list);
    json_decref(absent);
    return EXIT_FINE;
}

static int run_env(int argc, char **argv) {
    if (!cli_parse(argc, argv, options, 1, NULL, 0, ""))
        return EXIT_USAGE;
    sl_status status = sl_devices_find();
    if (status != SL_OK)
        return cli_fail(status);
    const char *isa = sl_isa_name(sl_cpu_isa());
    json_t *list = json_array();
    sl_setting s;
    for (int i = 0; sl_setting_get(i, &s); i++)
        if (as_json)
            json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:s}", "name", s.name, "value", s.value, "origin",
                                                  s.origin, "meaning", s.meaning));
        else
            printf("%s=%s  (%s)\n    %s\n", s.name, s.value, s.origin, s.meaning);
    if (as_json)
        return cli_print_json(json_pack("{s:o, s:s}", "settings", list, "instruction_set", isa));
    json_decref(list);
    printf("instruction set in use: %s\n", isa);
    return EXIT_FINE;
}

const cli_command cli_devices = {"devices", "", "the devices that are there", run_devices, help};
const cli_command cli_env = {"env", "", "the settings in force, and what each means", run_env, help};
