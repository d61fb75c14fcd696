/* Tensors: typed, shaped, reference-counted memory on one device. Dense, row-major; the last dimension is the row. */
#ifndef SLUICE_TENSOR_H
#define SLUICE_TENSOR_H

#include <sluice/device.h>
#include <sluice/dtype.h>

SL_BEGIN_C

enum { SL_MAX_RANK = 4 };

typedef struct sl_tensor sl_tensor;

typedef enum sl_tensor_flags {
    SL_TENSOR_DEFAULT = 0,
    SL_TENSOR_PINNED = 1, /* host memory from the pinned pool: the device must be a CPU device */
    SL_TENSOR_COPY = 2,   /* sl_tensor_to: a new tensor even where nothing changes */
} sl_tensor_flags;

/* A new tensor of zeros; returns a reference. Rank 0 to SL_MAX_RANK, dimensions of 0 or more. SL_INVALID, SL_NO_DEVICE,
 * SL_OUT_OF_MEMORY. Any thread. */
SL_API sl_status sl_tensor_create(sl_device device, sl_dtype dtype, int rank, const int64_t *shape, unsigned flags,
                                  sl_tensor **tensor);

/* A tensor over memory of the caller on device cpu:0, borrowed until the last reference is released; then `release` is
 * called (NULL: nothing is). `data` must be aligned for the type. */
SL_API sl_status sl_tensor_wrap(void *data, sl_dtype dtype, int rank, const int64_t *shape,
                                void (*release)(void *data, void *user), void *user, sl_tensor **tensor);

SL_API sl_tensor *sl_tensor_retain(sl_tensor *tensor); /* returns its argument */
SL_API void sl_tensor_release(sl_tensor *tensor);      /* takes NULL */

SL_API sl_device sl_tensor_device(const sl_tensor *tensor);
SL_API sl_dtype sl_tensor_dtype(const sl_tensor *tensor);
SL_API int sl_tensor_rank(const sl_tensor *tensor);
SL_API const int64_t *sl_tensor_shape(const sl_tensor *tensor); /* [rank], the tensor's own */
SL_API size_t sl_tensor_bytes(const sl_tensor *tensor);
SL_API bool sl_tensor_is_pinned(const sl_tensor *tensor);

/* The memory of a tensor on a CPU device, valid while a reference is held; NULL (and sl_last_error) elsewhere. */
SL_API void *sl_tensor_data(const sl_tensor *tensor);

/* t.to(device): a reference to the same tensor where it is already there, else to a new one with the same content. The
 * content is there when the call returns. A simulated device takes no data: its tensor has a shape alone. */
SL_API sl_status sl_tensor_to(sl_tensor *tensor, sl_device device, unsigned flags, sl_tensor **result);
SL_API sl_status sl_tensor_cuda(sl_tensor *tensor, int index, sl_tensor **result); /* t.cuda(n) */
SL_API sl_status sl_tensor_cpu(sl_tensor *tensor, sl_tensor **result);             /* t.cpu() */

/* t.to(dtype): f32, f16 and bf16, on the tensor's own device; the same tensor where it has that type. */
SL_API sl_status sl_tensor_to_dtype(sl_tensor *tensor, sl_dtype dtype, sl_tensor **result);

/* All of the tensor's bytes from and to host memory; `bytes` must be the tensor's. SL_NO_DATA on a simulated device. */
SL_API sl_status sl_tensor_write(sl_tensor *tensor, const void *source, size_t bytes);
SL_API sl_status sl_tensor_read(const sl_tensor *tensor, void *destination, size_t bytes);

SL_END_C
#endif
