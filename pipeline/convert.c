/* Conversions between f32, f16 and bf16, in integers alone, so that no floating-point mode of the caller's thread
 * (flush to zero, rounding) has a say. Widening is exact; narrowing rounds to nearest even; a NaN keeps its sign and
 * the upper bits of its payload. Buffers may have any alignment. */
#include "error.h"
#include <sluice/dtype.h>
#include <string.h>

static uint32_t f16_to_f32(uint16_t half) {
    uint32_t sign = (uint32_t)(half & 0x8000u) << 16, rest = half & 0x7fffu;
    if (rest >= 0x7c00u) /* infinite, NaN */
        return sign | 0x7f800000u | (rest & 0x3ffu) << 13;
    if (rest >= 0x0400u)
        return sign | ((rest << 13) + ((127u - 15u) << 23));
    if (rest == 0)
        return sign;
    unsigned shift = (unsigned)__builtin_clz(rest) - 21u; /* of a subnormal: until its first one is bit 10 */
    return sign | (((rest << shift) & 0x3ffu) << 13) | (127u - 14u - shift) << 23;
}

/* rest >> shift, to nearest even. */
static uint32_t shift_rounded(uint32_t rest, unsigned shift) {
    uint32_t half = 1u << (shift - 1), odd = (rest >> shift) & 1u;
    return (rest + half - 1u + odd) >> shift;
}

static uint16_t f32_to_f16(uint32_t bits) {
    uint32_t sign = (bits >> 16) & 0x8000u, rest = bits & 0x7fffffffu;
    if (rest > 0x7f800000u) {
        uint32_t payload = (rest >> 13) & 0x3ffu;
        return (uint16_t)(sign | 0x7c00u | (payload ? payload : 0x200u));
    }
    if (rest >= 0x477ff000u) /* 65,520: half way from the largest to what would be the next */
        return (uint16_t)(sign | 0x7c00u);
    if (rest >= 0x38800000u) /* 2^-14, the smallest normal; a carry moves on to the exponent, as it should */
        return (uint16_t)(sign | (shift_rounded(rest, 13) - ((127u - 15u) << 10)));
    if (rest < 0x33000000u) /* below 2^-25, half of the smallest */
        return (uint16_t)sign;
    uint32_t mantissa = (rest & 0x7fffffu) | 0x800000u;
    return (uint16_t)(sign | shift_rounded(mantissa, 126u - (rest >> 23)));
}

static uint32_t bf16_to_f32(uint16_t bits) {
    return (uint32_t)bits << 16;
}

static uint16_t f32_to_bf16(uint32_t bits) {
    if ((bits & 0x7fffffffu) > 0x7f800000u)
        return (uint16_t)((bits >> 16) | ((bits & 0x7f0000u) ? 0u : 0x40u));
    return (uint16_t)shift_rounded(bits, 16);
}

static void widen(uint32_t (*one)(uint16_t), char *to, const char *from, size_t count) {
    for (size_t i = 0; i < count; i++) {
        uint16_t narrow;
        memcpy(&narrow, from + 2 * i, 2);
        uint32_t wide = one(narrow);
        memcpy(to + 4 * i, &wide, 4);
    }
}

static void narrow(uint16_t (*one)(uint32_t), char *to, const char *from, size_t count) {
    for (size_t i = 0; i < count; i++) {
        uint32_t wide;
        memcpy(&wide, from + 4 * i, 4);
        uint16_t result = one(wide);
        memcpy(to + 2 * i, &result, 2);
    }
}

/* Widening is exact, so that the one rounding is that of the second step. */
static void renarrow(uint16_t (*second)(uint32_t), uint32_t (*first)(uint16_t), char *to, const char *from,
                     size_t count) {
    for (size_t i = 0; i < count; i++) {
        uint16_t bits;
        memcpy(&bits, from + 2 * i, 2);
        bits = second(first(bits));
        memcpy(to + 2 * i, &bits, 2);
    }
}

static sl_status copy_same(sl_dtype dtype, char *to, const char *from, size_t count) {
    const sl_dtype_info *info = sl_dtype_get(dtype);
    if (!info)
        return sl_fail(SL_INVALID, "%d is no element type", (int)dtype);
    if (count % info->block_elements)
        return sl_fail(SL_INVALID, "%zu elements of %s are no whole number of blocks of %u", count, info->name,
                       info->block_elements);
    if (count)
        memcpy(to, from, count / info->block_elements * info->block_bytes);
    return SL_OK;
}

sl_status sl_convert(sl_dtype to, void *destination, sl_dtype from, const void *source, size_t count) {
    if (to == from)
        return copy_same(to, destination, source, count);
    if (to == SL_F32 && from == SL_F16)
        widen(f16_to_f32, destination, source, count);
    else if (to == SL_F32 && from == SL_BF16)
        widen(bf16_to_f32, destination, source, count);
    else if (to == SL_F16 && from == SL_F32)
        narrow(f32_to_f16, destination, source, count);
    else if (to == SL_BF16 && from == SL_F32)
        narrow(f32_to_bf16, destination, source, count);
    else if (to == SL_F16 && from == SL_BF16)
        renarrow(f32_to_f16, bf16_to_f32, destination, source, count);
    else if (to == SL_BF16 && from == SL_F16)
        renarrow(f32_to_bf16, f16_to_f32, destination, source, count);
    else
        return sl_fail(SL_UNSUPPORTED, "%s cannot be converted to %s: f32, f16 and bf16 can, to each other",
                       sl_dtype_name(from), sl_dtype_name(to));
    return SL_OK;
}
