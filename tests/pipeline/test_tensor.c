/* tensor.c, copy.c. Each test is a process of its own, with 4 CPU devices and 1,024 simulated ones. */
#include "support.h"
#include "tensor.h"
#include <pthread.h>
#include <sluice/memory.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const sl_device cpu0 = {SL_CPU, 0}, cpu1 = {SL_CPU, 1}, sim0 = {SL_SIM, 0}, sim1 = {SL_SIM, 1};

static void begin(void) {
    ck_assert_int_eq(sl_setting_set("SLUICE_CPU_DEVICES", "4"), SL_OK);
}

static void says(const char *part) {
    ck_assert_msg(strstr(sl_last_error(), part) != NULL, "'%s' does not say '%s'", sl_last_error(), part);
}

static sl_tensor *create(sl_device device, sl_dtype dtype, int rank, const int64_t *shape, unsigned flags) {
    sl_tensor *t = NULL;
    ck_assert_msg(sl_tensor_create(device, dtype, rank, shape, flags, &t) == SL_OK, "%s", sl_last_error());
    return t;
}

static sl_tensor *create_counting(sl_device device, int64_t rows, int64_t columns) { /* 0, 1, 2, ... */
    sl_tensor *t = create(device, SL_F32, 2, (const int64_t[]){rows, columns}, 0);
    float *data = sl_tensor_data(t);
    for (int64_t i = 0; i < rows * columns; i++)
        data[i] = (float)i;
    return t;
}

static uint64_t allocated(sl_device device) {
    sl_memory_figures figures;
    ck_assert_int_eq(sl_memory_get(device, &figures), SL_OK);
    return figures.allocated;
}

typedef struct countdown {
    long left; /* allocations until one fails */
    long held; /* blocks out */
} countdown;

static void *fail_allocate(size_t bytes, void *user) {
    countdown *c = user;
    if (--c->left == 0)
        return NULL;
    c->held++;
    return malloc(bytes);
}

static void *fail_reallocate(void *memory, size_t bytes, void *user) {
    countdown *c = user;
    if (--c->left == 0)
        return NULL;
    c->held += memory == NULL;
    return realloc(memory, bytes);
}

static void fail_release(void *memory, void *user) {
    countdown *c = user;
    c->held -= memory != NULL;
    free(memory);
}

/* ---- Making ---- */

START_TEST(a_new_tensor_is_what_was_asked_for_and_zero) {
    begin();
    const int64_t shape[] = {2, 3, 4, 5};
    for (int again = 0; again < 2; again++) /* the second time from a block that was freed, and written */
        for (int rank = 0; rank <= 4; rank++)
            for (int d = 0; d < SL_DTYPES; d++) {
                sl_tensor *t = create(cpu1, (sl_dtype)d, rank, shape, 0);
                size_t elements = 1;
                for (int i = 0; i < rank; i++)
                    elements *= (size_t)shape[i];
                ck_assert_uint_eq(sl_tensor_bytes(t), elements * sl_dtype_get((sl_dtype)d)->block_bytes);
                ck_assert(sl_tensor_dtype(t) == (sl_dtype)d && sl_tensor_rank(t) == rank);
                ck_assert(sl_device_equal(sl_tensor_device(t), cpu1) && !sl_tensor_is_pinned(t));
                ck_assert_mem_eq(sl_tensor_shape(t), shape, (size_t)rank * sizeof *shape);
                unsigned char *data = sl_tensor_data(t);
                for (size_t i = 0; i < sl_tensor_bytes(t); i++) {
                    ck_assert_int_eq(data[i], 0);
                    data[i] = 0xff;
                }
                ck_assert_uint_eq(allocated(cpu1), sl_tensor_bytes(t));
                sl_tensor_release(t);
                ck_assert_uint_eq(allocated(cpu1), 0);
            }
}
END_TEST

START_TEST(a_tensor_without_elements_has_no_bytes) {
    begin();
    static const int64_t shapes[][3] = {{0, 3, 4}, {3, 0, 4}, {3, 4, 0}, {INT64_MAX, INT64_MAX, 0}, {INT64_MAX, 0, 3}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        sl_tensor *t = create(cpu0, SL_F32, 3, shapes[i], 0), *u;
        ck_assert_uint_eq(sl_tensor_bytes(t), 0);
        ck_assert_ptr_nonnull(sl_tensor_data(t));
        ck_assert_int_eq(sl_tensor_read(t, NULL, 0), SL_OK);
        ck_assert_int_eq(sl_tensor_write(t, NULL, 0), SL_OK);
        ck_assert_int_eq(sl_tensor_to(t, cpu1, 0, &u), SL_OK);
        sl_tensor_release(u);
        ck_assert_int_eq(sl_tensor_to_dtype(t, SL_F16, &u), SL_OK);
        ck_assert_uint_eq(sl_tensor_bytes(u), 0);
        sl_tensor_release(u);
        sl_tensor_release(t);
    }
}
END_TEST

START_TEST(shapes_that_cannot_be_are_refused) {
    begin();
    static const struct {
        sl_dtype dtype;
        int rank;
        int64_t shape[4];
        const char *part;
    } bad[] = {{SL_F32, -1, {0}, "rank -1"},
               {SL_F32, 5, {1, 1, 1, 1}, "0 to 4"},
               {SL_F32, 1, {-1}, "-1"},
               {SL_F32, 3, {2, -7, 3}, "dimension 1 of a tensor is -7"},
               {SL_F32, 3, {0, -7, 3}, "-7"},
               {SL_F32, 2, {INT64_MAX, 2}, "63 bits"},
               {SL_F32, 2, {(int64_t)1 << 31, (int64_t)1 << 31}, "63 bits"},
               {SL_F32, 4, {1 << 20, 1 << 20, 1 << 21, 1}, "63 bits"},
               {SL_F32, 1, {INT64_MAX}, "63 bits"},
               {SL_F32, 4, {(int64_t)1 << 32, (int64_t)1 << 32, (int64_t)1 << 32, 4}, "63 bits"},
               {SL_DTYPES, 1, {4}, "no element type"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        sl_tensor *t = NULL;
        ck_assert_int_eq(sl_tensor_create(cpu0, bad[i].dtype, bad[i].rank, bad[i].shape, 0, &t), SL_INVALID);
        says(bad[i].part);
        ck_assert_int_eq(sl_tensor_wrap(&t, bad[i].dtype, bad[i].rank, bad[i].shape, NULL, NULL, &t), SL_INVALID);
        says(bad[i].part);
        ck_assert_ptr_null(t);
    }
    sl_tensor *t = NULL;
    ck_assert_int_eq(sl_tensor_create(cpu0, SL_F32, 2, NULL, 0, &t), SL_INVALID);
    says("without a shape");
    ck_assert_int_eq(sl_tensor_create((sl_device){SL_CPU, 4}, SL_F32, 0, NULL, 0, &t), SL_NO_DEVICE);
    ck_assert_int_eq(sl_tensor_create((sl_device){SL_CUDA, 0}, SL_F32, 0, NULL, 0, &t), SL_NO_DEVICE);
    ck_assert_ptr_null(t);
}
END_TEST

START_TEST(a_tensor_that_does_not_fit_leaves_nothing_behind) {
    ck_assert_int_eq(sl_setting_set("SLUICE_CPU_MEMORY", "4K"), SL_OK);
    countdown c = {0, 0};
    sl_set_allocator(&(sl_allocator){fail_allocate, fail_reallocate, fail_release, &c});
    ck_assert_int_eq(sl_devices_find(), SL_OK);
    long before = c.held;
    sl_tensor *t = NULL, *u = NULL, *half = create(cpu0, SL_F32, 1, (const int64_t[]){500}, 0);
    ck_assert_int_eq(sl_tensor_create(cpu0, SL_F32, 1, (const int64_t[]){501}, 0, &t), SL_OUT_OF_MEMORY);
    says("cpu:0 is out of memory");
    says("tensors 2000");
    sl_tensor *other = create(cpu1, SL_F32, 1, (const int64_t[]){501}, 0);
    ck_assert_int_eq(sl_tensor_to(other, cpu0, 0, &u), SL_OUT_OF_MEMORY);
    ck_assert(t == NULL && u == NULL);
    ck_assert_uint_eq(allocated(cpu0), 2000);
    sl_tensor_release(other);
    sl_tensor_release(half);
    ck_assert_int_eq(c.held, before);
}
END_TEST

START_TEST(flags_that_mean_nothing_are_refused) {
    begin();
    sl_tensor *t = NULL, *u = NULL;
    ck_assert_int_eq(sl_tensor_create(cpu0, SL_F32, 0, NULL, 8, &t), SL_INVALID);
    says("0x8");
    ck_assert_int_eq(sl_tensor_create(sim0, SL_F32, 0, NULL, SL_TENSOR_PINNED, &t), SL_INVALID);
    says("sim:0 cannot be pinned");
    t = create(cpu0, SL_F32, 0, NULL, 0);
    ck_assert_int_eq(sl_tensor_to(t, cpu0, 4, &u), SL_INVALID);
    ck_assert_int_eq(sl_tensor_to(t, sim0, SL_TENSOR_PINNED, &u), SL_INVALID);
    ck_assert_ptr_null(u);
    sl_tensor_release(t);
}
END_TEST

/* ---- Memory of the caller ---- */

static int n_released;
static void count_release(void *data, void *user) {
    ck_assert_ptr_eq(user, &n_released);
    ck_assert_int_eq(*(int32_t *)data, 17);
    n_released++;
}

START_TEST(wrapped_memory_is_used_in_place_and_given_back_once) {
    begin();
    int32_t memory[6] = {17, 1, 2, 3, 4, 5};
    sl_tensor *t, *u;
    ck_assert_int_eq(sl_tensor_wrap(memory, SL_I32, 2, (const int64_t[]){2, 3}, count_release, &n_released, &t), SL_OK);
    ck_assert(sl_tensor_data(t) == memory && sl_device_equal(sl_tensor_device(t), cpu0) && sl_tensor_bytes(t) == 24);
    ck_assert_uint_eq(allocated(cpu0), 0);
    ck_assert_int_eq(sl_tensor_to(t, cpu0, 0, &u), SL_OK);
    ck_assert_ptr_eq(u, t);
    sl_tensor_release(t);
    ck_assert_int_eq(n_released, 0);
    sl_tensor_release(u);
    ck_assert_int_eq(n_released, 1);
    ck_assert_int_eq(sl_tensor_wrap(memory, SL_I32, 1, (const int64_t[]){6}, NULL, NULL, &t), SL_OK);
    sl_tensor_release(t);
    sl_tensor_release(NULL);
}
END_TEST

START_TEST(memory_that_is_not_aligned_or_not_there_is_refused) {
    begin();
    _Alignas(8) char memory[32];
    sl_tensor *t = NULL;
    const int64_t shape[] = {3};
    ck_assert_int_eq(sl_tensor_wrap(memory + 2, SL_F32, 1, shape, count_release, NULL, &t), SL_INVALID);
    says("multiple of 4");
    ck_assert_int_eq(sl_tensor_wrap(memory + 1, SL_F16, 1, shape, count_release, NULL, &t), SL_INVALID);
    ck_assert_int_eq(sl_tensor_wrap(NULL, SL_F32, 1, shape, count_release, NULL, &t), SL_INVALID);
    ck_assert_ptr_null(t);
    ck_assert_int_eq(sl_tensor_wrap(memory + 2, SL_F16, 1, shape, NULL, NULL, &t), SL_OK);
    sl_tensor_release(t);
    ck_assert_int_eq(sl_tensor_wrap(NULL, SL_F32, 1, (const int64_t[]){0}, NULL, NULL, &t), SL_OK);
    sl_tensor_release(t);
}
END_TEST

/* ---- Moving ---- */

START_TEST(the_same_tensor_comes_back_where_it_is_already_there) {
    begin();
    sl_tensor *t = create_counting(cpu1, 3, 5), *u, *v;
    ck_assert_int_eq(sl_tensor_to(t, cpu1, 0, &u), SL_OK);
    ck_assert_int_eq(sl_tensor_cpu(t, &v), SL_OK);
    ck_assert(u == t && v == t);
    sl_tensor_release(t);
    sl_tensor_release(u);
    ck_assert(((float *)sl_tensor_data(v))[14] == 14); /* the last reference holds it */
    sl_tensor_release(v);
    ck_assert_uint_eq(allocated(cpu1), 0);
}
END_TEST

START_TEST(a_tensor_moves_with_its_content) {
    begin();
    sl_tensor *t = create_counting(cpu0, 7, 11), *u;
    for (int i = 1; i < 4; i++) {
        ck_assert_int_eq(sl_tensor_to(t, (sl_device){SL_CPU, i}, 0, &u), SL_OK);
        ck_assert(u != t && sl_tensor_device(u).index == i && sl_tensor_data(u) != sl_tensor_data(t));
        ck_assert(sl_tensor_rank(u) == 2 && sl_tensor_shape(u)[0] == 7 && sl_tensor_shape(u)[1] == 11);
        ck_assert_mem_eq(sl_tensor_data(u), sl_tensor_data(t), sl_tensor_bytes(t));
        ck_assert_uint_eq(allocated((sl_device){SL_CPU, i}), 308);
        sl_tensor_release(u);
    }
    ck_assert_int_eq(sl_tensor_to(t, (sl_device){SL_CPU, 4}, 0, &u), SL_NO_DEVICE);
    sl_tensor_release(t);
}
END_TEST

START_TEST(a_copy_that_is_asked_for_is_one) {
    begin();
    sl_tensor *t = create_counting(cpu0, 2, 2), *u;
    ck_assert_int_eq(sl_tensor_to(t, cpu0, SL_TENSOR_COPY, &u), SL_OK);
    ck_assert(u != t);
    ((float *)sl_tensor_data(u))[3] = 40;
    ck_assert(((float *)sl_tensor_data(t))[3] == 3);
    sl_tensor_release(t);
    sl_tensor_release(u);
}
END_TEST

START_TEST(pinned_tensors_come_from_the_pool) {
    begin();
    sl_memory_figures pool;
    sl_tensor *t = create(cpu1, SL_F32, 1, (const int64_t[]){10}, SL_TENSOR_PINNED), *u, *v;
    ck_assert(sl_tensor_is_pinned(t) && sl_device_equal(sl_tensor_device(t), cpu1));
    ck_assert_uint_eq(allocated(cpu1), 0);
    ck_assert(sl_memory_get_pinned(&pool) == SL_OK && pool.allocated == 40);
    ck_assert_int_eq(sl_tensor_to(t, cpu1, SL_TENSOR_PINNED, &u), SL_OK);
    ck_assert_int_eq(sl_tensor_to(t, cpu1, 0, &v), SL_OK);
    ck_assert(u == t && v == t);
    sl_tensor_release(u);
    sl_tensor_release(v);
    ck_assert_int_eq(sl_tensor_to(t, cpu0, 0, &u), SL_OK);
    ck_assert(u != t && !sl_tensor_is_pinned(u));
    ck_assert_int_eq(sl_tensor_to(u, cpu0, SL_TENSOR_PINNED, &v), SL_OK);
    ck_assert(v != u && sl_tensor_is_pinned(v));
    sl_tensor_release(u);
    ck_assert_int_eq(sl_tensor_to_dtype(v, SL_BF16, &u), SL_OK);
    ck_assert(sl_tensor_is_pinned(u));
    sl_tensor_release(u);
    sl_tensor_release(v);
    sl_tensor_release(t);
    ck_assert(sl_memory_get_pinned(&pool) == SL_OK && pool.allocated == 0);
}
END_TEST

START_TEST(the_pinned_pool_can_run_out) {
    ck_assert_int_eq(sl_setting_set("SLUICE_PINNED_MEMORY", "100"), SL_OK);
    sl_tensor *t = NULL;
    ck_assert_int_eq(sl_tensor_create(cpu0, SL_F32, 1, (const int64_t[]){26}, SL_TENSOR_PINNED, &t), SL_OUT_OF_MEMORY);
    says("pinned host memory");
    ck_assert_ptr_null(t);
    t = create(cpu0, SL_F32, 1, (const int64_t[]){25}, SL_TENSOR_PINNED);
    sl_tensor_release(t);
}
END_TEST

START_TEST(a_cuda_tensor_needs_a_cuda_device) {
    begin();
    sl_tensor *t = create_counting(cpu0, 2, 2), *u = NULL;
    ck_assert_int_eq(sl_tensor_cuda(t, 1, &u), SL_NO_DEVICE);
    says("cuda:1 is not there");
    ck_assert_ptr_null(u);
    sl_tensor_release(t);
}
END_TEST

/* ---- Host memory ---- */

START_TEST(all_bytes_are_written_and_read_and_no_other_number) {
    begin();
    sl_tensor *t = create(cpu1, SL_I32, 1, (const int64_t[]){3}, 0);
    const int32_t in[4] = {1, -2, 3, 4};
    int32_t out[4] = {9, 9, 9, 9};
    ck_assert_int_eq(sl_tensor_write(t, in, 12), SL_OK);
    ck_assert_mem_eq(sl_tensor_data(t), in, 12);
    ck_assert_int_eq(sl_tensor_read(t, out, 12), SL_OK);
    ck_assert(out[0] == 1 && out[1] == -2 && out[2] == 3 && out[3] == 9);
    static const size_t wrong[] = {0, 11, 13, 16};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        ck_assert_int_eq(sl_tensor_write(t, in + 1, wrong[i]), SL_INVALID);
        says("12 bytes on cpu:1");
        ck_assert_int_eq(sl_tensor_read(t, out, wrong[i]), SL_INVALID);
    }
    ck_assert_mem_eq(sl_tensor_data(t), in, 12);
    sl_tensor_release(t);
}
END_TEST

/* ---- Simulated devices ---- */

START_TEST(a_simulated_tensor_is_a_shape_alone) {
    begin();
    const int64_t shape[] = {1 << 20, 1 << 20};
    sl_tensor *t = create(sim0, SL_F32, 2, shape, 0), *u, *small = create_counting(cpu0, 2, 3);
    float out[6];
    ck_assert_uint_eq(sl_tensor_bytes(t), (size_t)1 << 42);
    ck_assert_ptr_null(sl_tensor_data(t));
    says("sim:0");
    ck_assert_int_eq(sl_tensor_to(small, sim1, 0, &u), SL_OK);
    ck_assert(sl_tensor_device(u).kind == SL_SIM && sl_tensor_shape(u)[1] == 3);
    ck_assert_uint_eq(allocated(sim1), 24);
    ck_assert_int_eq(sl_tensor_read(u, out, 24), SL_NO_DATA);
    ck_assert_int_eq(sl_tensor_write(u, out, 24), SL_NO_DATA);
    says("sim:1");
    sl_tensor *v = NULL, *w = NULL;
    ck_assert_int_eq(sl_tensor_to(u, cpu0, 0, &v), SL_NO_DATA);
    ck_assert_int_eq(sl_tensor_cpu(u, &v), SL_NO_DATA);
    ck_assert_ptr_null(v);
    ck_assert_int_eq(sl_tensor_to(u, sim0, 0, &v), SL_OK);
    ck_assert_int_eq(sl_tensor_to_dtype(v, SL_F16, &w), SL_OK);
    ck_assert_uint_eq(sl_tensor_bytes(w), 12);
    sl_tensor_release(w);
    sl_tensor_release(v);
    sl_tensor_release(u);
    sl_tensor_release(t);
    sl_tensor_release(small);
    ck_assert(allocated(sim0) == 0 && allocated(sim1) == 0 && allocated(cpu0) == 0);
}
END_TEST

/* ---- Types ---- */

START_TEST(types_convert_on_the_tensors_own_device) {
    begin();
    sl_tensor *t = create_counting(cpu1, 3, 5), *half, *brain, *back;
    ck_assert_int_eq(sl_tensor_to_dtype(t, SL_F32, &half), SL_OK);
    ck_assert_ptr_eq(half, t);
    sl_tensor_release(half);
    ck_assert_int_eq(sl_tensor_to_dtype(t, SL_F16, &half), SL_OK);
    ck_assert(sl_tensor_bytes(half) == 30 && sl_device_equal(sl_tensor_device(half), cpu1));
    ck_assert_int_eq(((uint16_t *)sl_tensor_data(half))[2], 0x4000);
    ck_assert_int_eq(sl_tensor_to_dtype(half, SL_BF16, &brain), SL_OK);
    ck_assert_int_eq(((uint16_t *)sl_tensor_data(brain))[2], 0x4000);
    ck_assert_int_eq(sl_tensor_to_dtype(brain, SL_F32, &back), SL_OK);
    ck_assert_mem_eq(sl_tensor_data(back), sl_tensor_data(t), 60);
    sl_tensor_release(t);
    sl_tensor_release(half);
    sl_tensor_release(brain);
    sl_tensor_release(back);
}
END_TEST

START_TEST(types_that_do_not_convert_are_refused) {
    begin();
    sl_tensor *t = create(cpu0, SL_I32, 1, (const int64_t[]){4}, 0), *u = NULL;
    ck_assert_int_eq(sl_tensor_to_dtype(t, SL_F32, &u), SL_UNSUPPORTED);
    ck_assert_int_eq(sl_tensor_to_dtype(t, SL_DTYPES, &u), SL_UNSUPPORTED);
    ck_assert_ptr_null(u);
    ck_assert_int_eq(sl_tensor_to_dtype(t, SL_I32, &u), SL_OK);
    ck_assert_ptr_eq(u, t);
    sl_tensor_release(u);
    sl_tensor_release(t);
}
END_TEST

/* ---- Threads, and a heap that fails ---- */

static void *share(void *user) {
    sl_tensor *t = user;
    for (int i = 0; i < 10000; i++)
        sl_tensor_release(sl_tensor_retain(t));
    sl_tensor_release(t);
    return NULL;
}

START_TEST(references_are_counted_on_any_thread) {
    begin();
    int32_t memory = 17;
    sl_tensor *t;
    ck_assert_int_eq(sl_tensor_wrap(&memory, SL_I32, 0, NULL, count_release, &n_released, &t), SL_OK);
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, share, sl_tensor_retain(t)), 0);
    sl_tensor_release(t);
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
    ck_assert_int_eq(n_released, 1);
}
END_TEST

static sl_status do_all(void) {
    sl_tensor *t = NULL, *u = NULL, *v = NULL, *w = NULL;
    float content[6] = {1, 2, 3, 4, 5, 6};
    sl_status status = sl_tensor_create(cpu0, SL_F32, 2, (const int64_t[]){2, 3}, 0, &t);
    if (status == SL_OK)
        status = sl_tensor_write(t, content, sizeof content);
    if (status == SL_OK)
        status = sl_tensor_to(t, cpu1, SL_TENSOR_PINNED, &u);
    if (status == SL_OK)
        status = sl_tensor_to_dtype(u, SL_F16, &v);
    if (status == SL_OK)
        status = sl_tensor_wrap(content, SL_F32, 1, (const int64_t[]){6}, NULL, NULL, &w);
    sl_tensor_release(t);
    sl_tensor_release(u);
    sl_tensor_release(v);
    sl_tensor_release(w);
    return status;
}

/* 0: the nth allocation failed, and then all went well; 1: there are not so many; 2: something was wrong. */
static int with_the_nth_failing(long n) {
    countdown c = {n, 0};
    sl_set_allocator(&(sl_allocator){fail_allocate, fail_reallocate, fail_release, &c});
    sl_status status = do_all();
    bool failed = c.left <= 0;
    c.left = 0;
    if (status != (failed ? SL_OUT_OF_MEMORY : SL_OK) || do_all() != SL_OK) /* the devices are found by then */
        return 2;
    long held = c.held;
    if (do_all() != SL_OK || c.held != held || allocated(cpu0) != 0 || allocated(cpu1) != 0)
        return 2;
    return failed ? 0 : 1;
}

/* In a process of its own for each n, since devices are found once. */
START_TEST(whichever_allocation_fails_the_error_is_clean) {
    setenv("SLUICE_CPU_DEVICES", "3", 1);
    long n = 0;
    int verdict = 0, status;
    while (verdict == 0) {
        pid_t child = fork();
        if (child == 0)
            _exit(with_the_nth_failing(n + 1));
        ck_assert(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status));
        verdict = WEXITSTATUS(status);
        n += verdict == 0;
    }
    ck_assert_msg(verdict == 1, "allocation %ld", n + 1);
    ck_assert_int_ge(n, 7); /* a setting, the ledgers of two kinds, four tensors */
}
END_TEST

int main(void) {
    const test_case cases[] = {
        TEST(a_new_tensor_is_what_was_asked_for_and_zero),
        TEST(a_tensor_without_elements_has_no_bytes),
        TEST(shapes_that_cannot_be_are_refused),
        TEST(a_tensor_that_does_not_fit_leaves_nothing_behind),
        TEST(flags_that_mean_nothing_are_refused),
        TEST(wrapped_memory_is_used_in_place_and_given_back_once),
        TEST(memory_that_is_not_aligned_or_not_there_is_refused),
        TEST(the_same_tensor_comes_back_where_it_is_already_there),
        TEST(a_tensor_moves_with_its_content),
        TEST(a_copy_that_is_asked_for_is_one),
        TEST(pinned_tensors_come_from_the_pool),
        TEST(the_pinned_pool_can_run_out),
        TEST(a_cuda_tensor_needs_a_cuda_device),
        TEST(all_bytes_are_written_and_read_and_no_other_number),
        TEST(a_simulated_tensor_is_a_shape_alone),
        TEST(types_convert_on_the_tensors_own_device),
        TEST(types_that_do_not_convert_are_refused),
        TEST(references_are_counted_on_any_thread),
        TEST(whichever_allocation_fails_the_error_is_clean),
    };
    return test_main("tensor", cases, sizeof cases / sizeof *cases);
}
