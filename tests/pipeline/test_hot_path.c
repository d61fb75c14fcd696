/* Claims that are counted: the driver neither allocates, locks nor waits on the host from a credit to its last enqueue
 * (that is, outside of await), and longer jobs cost no thread of the process an allocation or a mutex more.
 *
 * The program's own malloc, pthread_mutex_lock and syscall stand before libc's and count. */
#include "hand_plan.h"
#include <dlfcn.h>
#include <linux/futex.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdarg.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { COUNTS = 0 };
#else
enum { COUNTS = 1 };

void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *memory, size_t bytes);
#endif

typedef struct tally {
    uint64_t allocations, mutexes, waits;
} tally;

static _Thread_local tally own;
static _Atomic uint64_t all_allocations, all_mutexes;

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
static void count_allocation(void) {
    own.allocations++;
    atomic_fetch_add(&all_allocations, 1);
}

void *malloc(size_t bytes) {
    count_allocation();
    return __libc_malloc(bytes);
}

void *calloc(size_t count, size_t bytes) {
    count_allocation();
    return __libc_calloc(count, bytes);
}

void *realloc(void *memory, size_t bytes) {
    count_allocation();
    return __libc_realloc(memory, bytes);
}

int pthread_mutex_lock(pthread_mutex_t *mutex) {
    static int (*real)(pthread_mutex_t *);
    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "pthread_mutex_lock");
    own.mutexes++;
    atomic_fetch_add(&all_mutexes, 1);
    return real(mutex);
}

/* What the library sleeps with; sem_wait of others counts too. */
long syscall(long number, ...) {
    static long (*real)(long, ...);
    long a[6];
    va_list args;
    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "syscall");
    va_start(args, number);
    for (int i = 0; i < 6; i++)
        a[i] = va_arg(args, long);
    va_end(args);
    long op = a[1] & FUTEX_CMD_MASK;
    own.waits += number == SYS_futex && (op == FUTEX_WAIT || op == FUTEX_WAIT_BITSET);
    return real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
#endif

/* ---- A backend that looks at the driver between two awaits ---- */

static sli_backend_ops watched;
static const sli_backend_ops *sound;
static tally at_return; /* of the last await; the driver's */
static tally outside;   /* sums of what happened between awaits */
static bool watching;   /* set while the driver sleeps */
static uint64_t n_awaits;

static sl_status await_counts(sli_backend *b, uint16_t lane, uint64_t value, uint64_t deadline_ns) {
    if (watching) {
        outside.allocations += own.allocations - at_return.allocations;
        outside.mutexes += own.mutexes - at_return.mutexes;
        outside.waits += own.waits - at_return.waits;
        n_awaits++;
    }
    sl_status status = sound->await(b, lane, value, deadline_ns);
    at_return = own;
    return status;
}

static sli_backend *watch(sli_backend *b) {
    sound = b->ops;
    watched = *sound;
    watched.await = await_counts;
    b->ops = &watched;
    return b;
}

static void run(sl_pipeline *p, sl_tensor *x, sl_tensor *y, uint32_t m) {
    sl_job *job;
    sl_job_options o = {.micro_batches = m};
    ck_assert_int_eq(sl_pipeline_submit_with(p, &o, &x, &y, NULL, NULL, &job), SL_OK);
    ck_assert_msg(sl_job_wait(job, SL_FOREVER) == SL_OK, "%s", sl_last_error());
    sl_job_release(job);
}

typedef struct totals {
    uint64_t allocations, mutexes;
} totals;

static totals cost_of(sl_pipeline *p, sl_tensor *x, sl_tensor *y, uint32_t m) {
    totals t = {atomic_load(&all_allocations), atomic_load(&all_mutexes)};
    run(p, x, y, m);
    return (totals){atomic_load(&all_allocations) - t.allocations, atomic_load(&all_mutexes) - t.mutexes};
}

static void expect_nothing(sl_device_kind kind) {
    hand_options o = {kind, 4, 2, 1, 8, 0, 0};
    sl_pipeline *p = hand_open(&o, NULL, watch);
    sl_tensor *x = hand_tensor(20000, 0), *y = hand_tensor(20000, 0), *few = hand_tensor(40, 0),
              *out = hand_tensor(40, 0);
    for (int i = 0; i < 4; i++) /* what is done once */
        run(p, few, out, 0);
    watching = true;
    totals small = cost_of(p, few, out, 0), large = cost_of(p, x, y, 0);
    run(p, few, out, 0);
    sl_pipeline_close(p, NULL, NULL);
    ck_assert_uint_gt(n_awaits, 0);
    ck_assert_uint_eq(outside.allocations, 0);
    ck_assert_uint_eq(outside.mutexes, 0);
    ck_assert_uint_eq(outside.waits, 0);
    ck_assert_msg(large.allocations <= small.allocations + 2, "%llu more allocations for 19,960 more micro-batches",
                  (unsigned long long)(large.allocations - small.allocations));
    ck_assert_msg(large.mutexes <= small.mutexes + 2, "%llu more mutexes for 19,960 more micro-batches",
                  (unsigned long long)(large.mutexes - small.mutexes));
    sl_tensor *all[] = {x, y, few, out};
    for (int i = 0; i < 4; i++)
        sl_tensor_release(all[i]);
}

START_TEST(the_driver_allocates_locks_and_waits_nowhere_in_simulation) {
    if (!COUNTS)
        SKIP("a sanitizer owns malloc");
    expect_nothing(SL_SIM);
}
END_TEST

START_TEST(the_driver_allocates_locks_and_waits_nowhere_on_cpu_devices) {
    if (!COUNTS)
        SKIP("a sanitizer owns malloc");
    expect_nothing(SL_CPU);
}
END_TEST

int main(void) {
    const test_case cases[] = {
        TEST(the_driver_allocates_locks_and_waits_nowhere_in_simulation),
        TEST(the_driver_allocates_locks_and_waits_nowhere_on_cpu_devices),
    };
    return test_main("hot_path", cases, sizeof cases / sizeof *cases);
}
