/* Tensors, for the library's own files: bytes of a shape, bytes between devices. */
#ifndef SLI_TENSOR_H
#define SLI_TENSOR_H

#include <sluice/tensor.h>

/* The bytes of a dense tensor. SL_INVALID for a rank or a dimension that is none, or a size above 63 bits. */
sl_status sli_shape_bytes(sl_dtype dtype, int rank, const int64_t *shape, size_t *bytes);

/* Copies between the memory of two devices, and waits for it. SL_NO_DATA where one of them is simulated. Any thread. */
sl_status sli_copy(sl_device to, void *destination, sl_device from, const void *source, size_t bytes);

/* The tensor's memory, an address of its device. */
void *sli_tensor_address(const sl_tensor *tensor);

#endif
