/* Device strings, the current device and its guard, tensors on devices.
 *
 * The devices of this program are virtual ones: parts of the CPU that have memory of their own. With `cuda:N` for
 * `cpu:N` it is the same program on GPUs. */
#include <sluice/sluice.h>
#include <stdio.h>

static int complain(const char *what) {
    fprintf(stderr, "%s: %s\n", what, sl_last_error());
    return 1;
}

/* A string is parsed, or refused at the character that is wrong. */
static void parse(const char *text) {
    sl_device device;
    char name[SL_DEVICE_TEXT];
    if (sl_device_parse(text, &device) == SL_OK)
        printf("  %-10s is %s\n", text, sl_device_format(device, name));
    else
        printf("  %s\n", sl_last_error());
}

static void show_current(const char *when) {
    char name[SL_DEVICE_TEXT];
    printf("  %-16s %s\n", when, sl_device_format(sl_device_current(SL_CPU), name));
}

/* torch.cuda.set_device and `with torch.cuda.device(n):`. Guards nest, and set back what was current before. */
static sl_status guards(void) {
    sl_device_guard outer, inner;
    show_current("at first");
    SL_TRY(sl_device_guard_enter(&outer, (sl_device){SL_CPU, 2}));
    show_current("in a guard");
    parse("cpu");
    SL_TRY(sl_device_guard_enter(&inner, (sl_device){SL_CPU, 1}));
    show_current("in two guards");
    sl_device_guard_leave(&inner);
    show_current("in one again");
    sl_device_guard_leave(&outer);
    show_current("at last");
    return SL_OK;
}

/* t.to(device): the same tensor where it is already there, else a copy. */
static sl_status move(sl_device from, sl_device to) {
    float content[6] = {1, 2, 3, 4, 5, 6}, back[6];
    char name[SL_DEVICE_TEXT];
    sl_tensor *a, *same, *b;
    SL_TRY(sl_tensor_create(from, SL_F32, 2, (const int64_t[]){2, 3}, 0, &a));
    SL_TRY(sl_tensor_write(a, content, sizeof content));
    SL_TRY(sl_tensor_to(a, from, 0, &same));
    SL_TRY(sl_tensor_to(a, to, 0, &b));
    SL_TRY(sl_tensor_read(b, back, sizeof back));
    sl_memory_figures figures;
    SL_TRY(sl_memory_get(to, &figures));
    printf("  to its own device: %s tensor\n", same == a ? "the same" : "another");
    printf("  to %s: %s tensor, its last element %g\n", sl_device_format(to, name), b == a ? "the same" : "another",
           (double)back[5]);
    printf("  %s holds %llu bytes\n", name, (unsigned long long)figures.allocated);
    sl_tensor_release(a);
    sl_tensor_release(same);
    sl_tensor_release(b);
    uint64_t freed;
    SL_TRY(sl_memory_trim(to, &freed)); /* torch.cuda.empty_cache */
    printf("  trim gave back %llu bytes\n", (unsigned long long)freed);
    return SL_OK;
}

int main(void) {
    sl_device devices[2];
    int n;
    sl_setting_set("SLUICE_CPU_DEVICES", "4"); /* at first there are as many as cores */
    if (sl_devices_find() != SL_OK)            /* a wrong environment variable, for example */
        return complain("devices");
    printf("%d CPU devices\n", sl_device_count(SL_CPU));

    puts("strings");
    static const char *const texts[] = {"cpu", "CUDA:1", "sim:3", "cuda:", "cuda:-1", "cuda:01", " cuda:0", "mps"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        parse(texts[i]);
    if (sl_device_parse_list("cpu:0,cpu:3", devices, 2, &n) != SL_OK)
        return complain("list");
    printf("  a list of %d\n", n);
    printf("  cpu:99: %s\n", sl_status_name(sl_device_check((sl_device){SL_CPU, 99})));

    puts("the current device");
    if (guards() != SL_OK)
        return complain("guards");

    puts("tensors");
    if (move(devices[0], devices[1]) != SL_OK)
        return complain("move");
    return 0;
}
