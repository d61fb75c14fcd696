/* Devices: what is there, how it is named, which one this thread means by default, and the settings in force.
 *
 * A device string is `KIND` or `KIND:INDEX`, in any letter case: `cpu`, `cpu:1`, `cuda`, `cuda:0`, `sim:3`. Without an
 * index it is the thread's current device of that kind. `auto` is not a device: where a list of devices is asked for it
 * takes all GPUs and else all CPU devices.
 *
 * The devices are found once, at the first call that needs them; nothing changes them after. */
#ifndef SLUICE_DEVICE_H
#define SLUICE_DEVICE_H

#include <sluice/status.h>

SL_BEGIN_C

typedef enum sl_device_kind { SL_CPU, SL_CUDA, SL_SIM, SL_DEVICE_KINDS } sl_device_kind;

typedef struct sl_device {
    sl_device_kind kind;
    int index;
} sl_device;

enum { SL_DEVICE_TEXT = 24 }; /* bytes that hold every device's text and its NUL */

/* Parses; does not ask whether the device is there. SL_INVALID names the character that is wrong (`cuda:01`, ` cpu`,
 * `cuda:0x1`, an index above 65,535), or the kind that is known elsewhere but not here (`mps`, `xpu`, `hip`). */
SL_API sl_status sl_device_parse(const char *text, sl_device *device);

/* "cuda:0", into `text`, which is returned. Parsing it gives the same device. */
SL_API const char *sl_device_format(sl_device device, char text[SL_DEVICE_TEXT]);

SL_API bool sl_device_equal(sl_device a, sl_device b);

/* SL_NO_DEVICE unless it is there; the message lists what is. */
SL_API sl_status sl_device_check(sl_device device);

/* torch.cuda.is_available and device_count. 0 where the kind is not there; SL_SIM has as many as are asked for:
 * SLUICE_SIM_DEVICES, 1,024 at first. */
SL_API int sl_device_count(sl_device_kind kind);
SL_API const char *sl_device_kind_name(sl_device_kind kind); /* "cuda"; static */

/* Why a kind has no device, in one sentence ("cuda: this build has no CUDA module"); "" if it has some. Static. */
SL_API const char *sl_device_absence(sl_device_kind kind);

typedef struct sl_device_info {
    char name[96];
    uint64_t memory_bytes;   /* 0: not limited */
    int threads;             /* that one device computes with (CPU devices) */
    double operations_per_s; /* the modelled speed; 0: as fast as it is */
} sl_device_info;

SL_API sl_status sl_device_get_info(sl_device device, sl_device_info *info);

/* A list such as "cpu:0,cpu:1", or "auto". At most `capacity` devices are written; `*count` says how many there are.
 * Each is checked. */
SL_API sl_status sl_device_parse_list(const char *text, sl_device *devices, int capacity, int *count);

/* torch.cuda.set_device and current_device, for each kind on its own; index 0 at a thread's start. No call of the
 * library changes a thread's current device, but this one and the guard. */
SL_API sl_status sl_device_set_current(sl_device device);
SL_API sl_device sl_device_current(sl_device_kind kind);

/* with torch.cuda.device(n): guards nest, and are left in the reverse order on the same thread.
 *     sl_device_guard guard;
 *     SL_TRY(sl_device_guard_enter(&guard, device));
 *     ...
 *     sl_device_guard_leave(&guard);   sets back what was current before */
typedef struct sl_device_guard {
    sl_device before;
    bool entered; /* false after a failing enter: then leave does nothing */
} sl_device_guard;

SL_API sl_status sl_device_guard_enter(sl_device_guard *guard, sl_device device);
SL_API void sl_device_guard_leave(sl_device_guard *guard);

/* Settings: options of the process. Each has a name, which is its environment variable, and a value; in order of
 * precedence: sl_setting_set, the environment, the default. They are read when the devices are found. */
typedef struct sl_setting {
    const char *name;    /* "SLUICE_CPU_DEVICES" */
    const char *value;   /* in force */
    const char *origin;  /* "default", "environment", "program" */
    const char *meaning; /* one sentence: what it does, and which values there are */
} sl_setting;

/* Sets one before the devices are found; SL_INVALID if it comes later, if there is no such setting (the message lists
 * them), or if the value cannot be read (the message says what is allowed). Not to be called by two threads at once. */
SL_API sl_status sl_setting_set(const char *name, const char *value);

/* The `i`th; false past the end. Finds the devices if that was not done. */
SL_API bool sl_setting_get(int i, sl_setting *setting);

/* Finds the devices now. An error in an environment variable is returned here, and by every call that needs a device;
 * also a variable SLUICE_* that nothing knows is one (the message lists the known ones). */
SL_API sl_status sl_devices_find(void);

/* The instruction set that CPU kernels use: the best that this machine has, or SLUICE_ISA. All give the same bits. */
typedef enum sl_isa { SL_ISA_PLAIN, SL_ISA_AVX2, SL_ISA_AVX512 } sl_isa;
SL_API sl_isa sl_cpu_isa(void);
SL_API const char *sl_isa_name(sl_isa isa); /* "avx512"; static */

SL_END_C
#endif
