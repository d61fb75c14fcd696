/* Tensors: made, shared, moved, converted. Their memory is memory.c's business, their bytes' way copy.c's.
 *
 * Threads: a tensor is constant but for its count of references and what its memory holds; who writes that while others
 * read is the caller's business. */
#include "tensor.h"
#include "backend/backend.h"
#include "error.h"
#include "memory.h"
#include <string.h>

struct sl_tensor {
    _Atomic int references;
    sl_device device;
    sl_dtype dtype;
    int rank;
    int64_t shape[SL_MAX_RANK];
    size_t bytes;
    void *data; /* of the device */
    bool pinned;
    bool wrapped;                            /* the user's memory: */
    void (*release)(void *data, void *user); /* may be NULL */
    void *user;
};

sl_status sli_shape_bytes(sl_dtype dtype, int rank, const int64_t *shape, size_t *bytes) {
    if (rank < 0 || rank > SL_MAX_RANK || (rank > 0 && !shape))
        return sl_fail(SL_INVALID, "a tensor of rank %d%s: 0 to %d dimensions were expected", rank,
                       rank > 0 && !shape ? " without a shape" : "", SL_MAX_RANK);
    size_t row;
    SL_TRY(sl_row_bytes(dtype, rank > 0 ? shape[rank - 1] : 1, &row));
    int64_t total = (int64_t)row;
    bool wraps = false, empty = row == 0;
    for (int d = 0; d < rank - 1; d++) {
        if (shape[d] < 0)
            return sl_fail(SL_INVALID, "dimension %d of a tensor is %lld: 0 or more was expected", d,
                           (long long)shape[d]);
        empty = empty || shape[d] == 0;
        wraps = __builtin_mul_overflow(total, shape[d], &total) || wraps;
    }
    if (wraps && !empty)
        return sl_fail(SL_INVALID, "a tensor of %s is too large: its bytes do not fit 63 bits", sl_dtype_name(dtype));
    *bytes = empty ? 0 : (size_t)total;
    return SL_OK;
}

/* Without memory. */
static sl_status make(sl_device device, sl_dtype dtype, int rank, const int64_t *shape, sl_tensor **tensor) {
    size_t bytes = 0;
    SL_TRY(sl_device_check(device));
    SL_TRY(sli_shape_bytes(dtype, rank, shape, &bytes));
    sl_tensor *t = sl_calloc(1, sizeof *t);
    if (!t)
        return SL_OUT_OF_MEMORY;
    t->references = 1;
    t->device = device;
    t->dtype = dtype;
    t->rank = rank;
    t->bytes = bytes;
    if (rank > 0)
        memcpy(t->shape, shape, (size_t)rank * sizeof *shape);
    *tensor = t;
    return SL_OK;
}

static sl_status check_flags(unsigned flags, sl_device device) {
    if (flags & ~(unsigned)(SL_TENSOR_PINNED | SL_TENSOR_COPY))
        return sl_fail(SL_INVALID, "tensor flags 0x%x: SL_TENSOR_PINNED and SL_TENSOR_COPY are known", flags);
    char name[SL_DEVICE_TEXT];
    if ((flags & SL_TENSOR_PINNED) && device.kind != SL_CPU)
        return sl_fail(SL_INVALID,
                       "a tensor on %s cannot be pinned: pinned memory is the host's, so a CPU device was "
                       "expected",
                       sl_device_format(device, name));
    return SL_OK;
}

/* With memory of any content. */
static sl_status make_with_memory(sl_device device, sl_dtype dtype, int rank, const int64_t *shape, unsigned flags,
                                  sl_tensor **tensor) {
    sl_tensor *t;
    SL_TRY(check_flags(flags, device));
    SL_TRY(make(device, dtype, rank, shape, &t));
    t->pinned = flags & SL_TENSOR_PINNED;
    sl_status status = t->pinned ? sli_pinned_allocate(t->bytes, &t->data)
                                 : sli_memory_allocate(device, t->bytes, SL_MEMORY_TENSORS, &t->data);
    if (status != SL_OK) {
        sl_free(t);
        return status;
    }
    *tensor = t;
    return SL_OK;
}

sl_status sl_tensor_create(sl_device device, sl_dtype dtype, int rank, const int64_t *shape, unsigned flags,
                           sl_tensor **tensor) {
    sl_tensor *t;
    SL_TRY(make_with_memory(device, dtype, rank, shape, flags, &t));
    sl_status status = t->bytes ? sli_platform_get(device.kind)->zero(device.index, t->data, t->bytes) : SL_OK;
    if (status != SL_OK) {
        sl_tensor_release(t);
        return status;
    }
    *tensor = t;
    return SL_OK;
}

sl_status sl_tensor_wrap(void *data, sl_dtype dtype, int rank, const int64_t *shape,
                         void (*release)(void *data, void *user), void *user, sl_tensor **tensor) {
    sl_tensor *t;
    SL_TRY(make((sl_device){SL_CPU, 0}, dtype, rank, shape, &t));
    uint32_t alignment = sl_dtype_get(dtype)->alignment;
    if ((!data && t->bytes) || (uintptr_t)data % alignment) {
        sl_free(t);
        return sl_fail(SL_INVALID,
                       "memory at %p cannot be a tensor of %s: an address that is a multiple of %u was "
                       "expected",
                       data, sl_dtype_name(dtype), alignment);
    }
    t->data = data;
    t->wrapped = true;
    t->release = release;
    t->user = user;
    *tensor = t;
    return SL_OK;
}

sl_tensor *sl_tensor_retain(sl_tensor *tensor) {
    atomic_fetch_add(&tensor->references, 1);
    return tensor;
}

void sl_tensor_release(sl_tensor *tensor) {
    if (!tensor || atomic_fetch_sub(&tensor->references, 1) > 1)
        return;
    if (tensor->wrapped && tensor->release)
        tensor->release(tensor->data, tensor->user);
    else if (!tensor->wrapped && tensor->pinned)
        sli_pinned_release(tensor->data, tensor->bytes);
    else if (!tensor->wrapped)
        sli_memory_release(tensor->device, tensor->data, tensor->bytes, SL_MEMORY_TENSORS);
    sl_free(tensor);
}

sl_device sl_tensor_device(const sl_tensor *tensor) {
    return tensor->device;
}

sl_dtype sl_tensor_dtype(const sl_tensor *tensor) {
    return tensor->dtype;
}

int sl_tensor_rank(const sl_tensor *tensor) {
    return tensor->rank;
}

const int64_t *sl_tensor_shape(const sl_tensor *tensor) {
    return tensor->shape;
}

size_t sl_tensor_bytes(const sl_tensor *tensor) {
    return tensor->bytes;
}

bool sl_tensor_is_pinned(const sl_tensor *tensor) {
    return tensor->pinned;
}

void *sli_tensor_address(const sl_tensor *tensor) {
    return tensor->data;
}

void *sl_tensor_data(const sl_tensor *tensor) {
    if (tensor->device.kind == SL_CPU)
        return tensor->data;
    char name[SL_DEVICE_TEXT];
    sl_fail(tensor->device.kind == SL_SIM ? SL_NO_DATA : SL_INVALID,
            "the memory of a tensor on %s cannot be read by the host: %s", sl_device_format(tensor->device, name),
            tensor->device.kind == SL_SIM ? "a simulated device holds no data" : "use sl_tensor_read or sl_tensor_cpu");
    return NULL;
}

/* ---- Moving ---- */

static sl_status copy_to_new(sl_tensor *tensor, sl_device device, unsigned flags, sl_tensor **result) {
    sl_tensor *t;
    SL_TRY(make_with_memory(device, tensor->dtype, tensor->rank, tensor->shape, flags, &t));
    sl_status status = SL_OK;
    if (t->bytes && device.kind != SL_SIM)
        status = sli_copy(device, t->data, tensor->device, tensor->data, t->bytes);
    if (status != SL_OK) {
        sl_tensor_release(t);
        return status;
    }
    *result = t;
    return SL_OK;
}

sl_status sl_tensor_to(sl_tensor *tensor, sl_device device, unsigned flags, sl_tensor **result) {
    SL_TRY(sl_device_check(device));
    SL_TRY(check_flags(flags, device));
    bool pinned_enough = tensor->pinned || !(flags & SL_TENSOR_PINNED);
    if (sl_device_equal(tensor->device, device) && pinned_enough && !(flags & SL_TENSOR_COPY)) {
        *result = sl_tensor_retain(tensor);
        return SL_OK;
    }
    return copy_to_new(tensor, device, flags, result);
}

sl_status sl_tensor_cuda(sl_tensor *tensor, int index, sl_tensor **result) {
    return sl_tensor_to(tensor, (sl_device){SL_CUDA, index}, SL_TENSOR_DEFAULT, result);
}

sl_status sl_tensor_cpu(sl_tensor *tensor, sl_tensor **result) {
    if (tensor->device.kind == SL_CPU) {
        *result = sl_tensor_retain(tensor);
        return SL_OK;
    }
    return sl_tensor_to(tensor, sl_device_current(SL_CPU), SL_TENSOR_DEFAULT, result);
}

static sl_status check_transfer(const sl_tensor *tensor, size_t bytes, const char *verb) {
    char name[SL_DEVICE_TEXT];
    sl_device_format(tensor->device, name);
    if (bytes != tensor->bytes)
        return sl_fail(SL_INVALID, "%zu bytes were to be %s a tensor of %zu bytes on %s: all of them were expected",
                       bytes, verb, tensor->bytes, name);
    if (tensor->device.kind == SL_SIM)
        return sl_fail(SL_NO_DATA, "a tensor on %s cannot be %s: a simulated device holds no data", name, verb);
    return SL_OK;
}

sl_status sl_tensor_write(sl_tensor *tensor, const void *source, size_t bytes) {
    SL_TRY(check_transfer(tensor, bytes, "written to"));
    if (bytes == 0)
        return SL_OK;
    return sli_platform_get(tensor->device.kind)->copy(tensor->device.index, tensor->data, SLI_HOST, source, bytes);
}

sl_status sl_tensor_read(const sl_tensor *tensor, void *destination, size_t bytes) {
    SL_TRY(check_transfer(tensor, bytes, "read from"));
    if (bytes == 0)
        return SL_OK;
    return sli_platform_get(tensor->device.kind)
        ->copy(SLI_HOST, destination, tensor->device.index, tensor->data, bytes);
}

/* ---- Converting ---- */

/* On another device than a CPU: through host memory. */
static sl_status convert_through_host(const sl_tensor *from, sl_tensor *to, size_t count) {
    char *wide = sl_malloc(from->bytes), *narrow = wide ? sl_malloc(to->bytes) : NULL;
    sl_status status = narrow ? sl_tensor_read(from, wide, from->bytes) : SL_OUT_OF_MEMORY;
    if (status == SL_OK)
        status = sl_convert(to->dtype, narrow, from->dtype, wide, count);
    if (status == SL_OK)
        status = sl_tensor_write(to, narrow, to->bytes);
    sl_free(wide);
    sl_free(narrow);
    return status;
}

static sl_status convert_content(const sl_tensor *from, sl_tensor *to) {
    const sl_dtype_info *info = sl_dtype_get(from->dtype);
    size_t count = from->bytes / info->block_bytes * info->block_elements;
    if (from->device.kind == SL_SIM || count == 0)
        return SL_OK;
    if (from->device.kind == SL_CPU)
        return sl_convert(to->dtype, to->data, from->dtype, from->data, count);
    return convert_through_host(from, to, count);
}

sl_status sl_tensor_to_dtype(sl_tensor *tensor, sl_dtype dtype, sl_tensor **result) {
    if (dtype == tensor->dtype) {
        *result = sl_tensor_retain(tensor);
        return SL_OK;
    }
    sl_tensor *t;
    SL_TRY(sl_convert(dtype, NULL, tensor->dtype, NULL, 0)); /* refuses pairs that cannot be */
    unsigned flags = tensor->pinned ? SL_TENSOR_PINNED : SL_TENSOR_DEFAULT;
    SL_TRY(make_with_memory(tensor->device, dtype, tensor->rank, tensor->shape, flags, &t));
    sl_status status = convert_content(tensor, t);
    if (status != SL_OK) {
        sl_tensor_release(t);
        return status;
    }
    *result = t;
    return SL_OK;
}
