"""The values that tests/ops compare with: inputs and, computed in float64, outputs.

python3 tests/oracles/ops.py     writes tests/data/ops/*.bin

A file is records: a line `name dtype rows columns` (f32, f64, i32, f16, bf16 as its 16 bits), then the elements.
"""
import math
import os
import numpy as np

FOLDER = os.path.join(os.path.dirname(__file__), "..", "data", "ops")
rng = np.random.default_rng(20240607)


class Writer:
    def __init__(self, name):
        self.file = open(os.path.join(FOLDER, name + ".bin"), "wb")

    def put(self, name, dtype, array):
        array = np.atleast_2d(np.asarray(array))
        kind = {"f32": "<f4", "f64": "<f8", "i32": "<i4", "f16": "<f2", "bf16": "<u2"}[dtype]
        self.file.write(f"{name} {dtype} {array.shape[0]} {array.shape[1]}\n".encode())
        self.file.write(array.astype(kind).tobytes())


def normal(*shape, scale=1.0):
    return (rng.standard_normal(shape) * scale).astype(np.float32)


def to_bf16(x):
    """Bits, rounded to nearest even."""
    bits = np.asarray(x, np.float32).view(np.uint32).astype(np.uint64)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def of_bf16(bits):
    return (bits.astype(np.uint32) << 16).view(np.float32)


def f64(x):
    return np.asarray(x, np.float64)


def erf(x):
    return np.vectorize(math.erf)(x)


def silu(x):
    return x / (1 + np.exp(-x))


def elementwise():
    w = Writer("elementwise")
    a, b = normal(7, 37, scale=3), normal(7, 37)
    a[0, :8] = [0, -0.0, 1e-30, -1e-30, 30, -30, 88, -88]
    row = normal(1, 37)
    w.put("a", "f32", a)
    w.put("b", "f32", b)
    w.put("row", "f32", row)
    w.put("row_f16", "f16", row.astype(np.float16))
    w.put("row_bf16", "bf16", to_bf16(row))
    x, y = f64(a), f64(b)
    w.put("add", "f64", x + y)
    w.put("mul", "f64", x * y)
    w.put("add_row", "f64", x + f64(row))
    w.put("mul_row_f16", "f64", x * f64(row.astype(np.float16)))
    w.put("add_row_bf16", "f64", x + f64(of_bf16(to_bf16(row))))
    w.put("scale", "f64", x * f64(np.float32(0.3)))
    w.put("relu", "f64", np.maximum(x, 0))
    w.put("gelu", "f64", 0.5 * x * (1 + erf(x / math.sqrt(2))))
    w.put("gelu_tanh", "f64", 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))))
    w.put("silu", "f64", silu(x))
    w.put("silu_gated", "f64", silu(x) * y)


def rows():
    w = Writer("rows")
    x = normal(5, 83, scale=2)
    weight, bias = normal(1, 83), normal(1, 83)
    w.put("x", "f32", x)
    w.put("weight", "f32", weight)
    w.put("weight_bf16", "bf16", to_bf16(weight))
    w.put("bias", "f32", bias)
    w.put("bias_f16", "f16", bias.astype(np.float16))
    v = f64(x)
    e = np.exp(v - v.max(axis=1, keepdims=True))
    w.put("softmax", "f64", e / e.sum(axis=1, keepdims=True))
    wide = normal(1, 3003, scale=4)
    w.put("wide", "f32", wide)
    e = np.exp(f64(wide) - f64(wide).max(axis=1, keepdims=True))
    w.put("softmax_wide", "f64", e / e.sum(axis=1, keepdims=True))
    rms = v / np.sqrt((v * v).mean(axis=1, keepdims=True) + 1e-5)
    w.put("rms_norm", "f64", rms * f64(weight))
    w.put("rms_norm_bf16", "f64", rms * f64(of_bf16(to_bf16(weight))))
    far = (normal(3, 61) + 1000).astype(np.float32)  # a mean that is far from 0
    w.put("far", "f32", far)
    for name, t in (("", x), ("_far", far)):
        t = f64(t)
        d = t - t.mean(axis=1, keepdims=True)
        d = d / np.sqrt((d * d).mean(axis=1, keepdims=True) + 1e-5)
        n = t.shape[1]
        w.put("layer_norm" + name, "f64", d * f64(weight[:, :n]) + f64(bias[:, :n]))
        w.put("layer_norm_plain" + name, "f64", d * f64(weight[:, :n]))
        w.put("layer_norm_f16" + name, "f64",
              d * f64(of_bf16(to_bf16(weight[:, :n]))) + f64(bias[:, :n].astype(np.float16)))


def lookup():
    w = Writer("lookup")
    table = normal(11, 19)
    ids = np.array([[3], [0], [10], [3], [7]], np.int32)
    w.put("ids", "i32", ids)
    w.put("f32", "f32", table)
    w.put("f16", "f16", table.astype(np.float16))
    w.put("bf16", "bf16", to_bf16(table))
    w.put("rows_f32", "f32", table[ids[:, 0]])
    w.put("rows_f16", "f32", table.astype(np.float16)[ids[:, 0]])
    w.put("rows_bf16", "f32", of_bf16(to_bf16(table))[ids[:, 0]])
    x = normal(6, 19)  # segments: 2 rows from position 9, 1 from 0, 3 from 4
    w.put("x", "f32", x)
    w.put("positions_f16", "f64", f64(x) + f64(table.astype(np.float16))[[9, 10, 0, 4, 5, 6]])


def frequencies(dim, base, llama3=None):
    f = base ** (-np.arange(0, dim, 2, dtype=np.float64) / dim)
    if llama3:  # as transformers' _compute_llama3_parameters
        factor, low, high, old = llama3
        wavelen = 2 * math.pi / f
        smooth = (old / wavelen - low) / (high - low)
        blended = (1 - smooth) * f / factor + smooth * f
        f = np.where(wavelen > old / low, f / factor, np.where(wavelen < old / high, f, blended))
    return f


ROTARY = {  # name: heads, head_dim, rotary_dim, pairs, base, llama3
    "halves": (3, 10, 10, 0, 10000.0, None),
    "interleaved": (2, 12, 12, 1, 10000.0, None),
    "partial": (2, 10, 6, 0, 500.0, None),
    "partial_interleaved": (1, 11, 4, 1, 10000.0, None),
    "llama3": (2, 64, 64, 0, 500000.0, (8.0, 1.0, 4.0, 8192)),
}


def rotary():
    w = Writer("rotary")
    positions = np.array([70000, 70001, 0, 1, 2, 511], np.int64)
    for name, (heads, dim, turned, pairs, base, llama3) in ROTARY.items():
        x = normal(len(positions), heads * dim)
        angle = positions[:, None, None] * frequencies(turned, base, llama3)[None, None, :]
        v = f64(x).reshape(len(positions), heads, dim)
        y = v.copy()
        half = turned // 2
        first = slice(0, half) if pairs == 0 else slice(0, turned, 2)
        second = slice(half, turned) if pairs == 0 else slice(1, turned, 2)
        c, s = np.cos(angle), np.sin(angle)
        y[:, :, first] = v[:, :, first] * c - v[:, :, second] * s
        y[:, :, second] = v[:, :, second] * c + v[:, :, first] * s
        w.put(name + "_x", "f32", x)
        w.put(name + "_y", "f64", y.reshape(len(positions), heads * dim))


ATTENTION = {  # name: heads, kv heads, head_dim, [(place, cached, rows)], scale
    "grouped": (6, 2, 20, [(2, 5, 3), (0, 0, 4), (1, 130, 1)], 0.0),
    "one_head": (1, 1, 8, [(0, 0, 67)], 0.0),
    "many_keys": (2, 2, 33, [(0, 190, 7)], 0.7),
}


def attention():
    w = Writer("attention")
    for name, (heads, kv_heads, dim, segments, scale) in ATTENTION.items():
        rows = sum(n for _, _, n in segments)
        q = normal(rows, heads * dim)
        k = normal(rows, kv_heads * dim)
        v = normal(rows, kv_heads * dim)
        past = [(normal(cached, kv_heads * dim), normal(cached, kv_heads * dim)) for _, cached, _ in segments]
        y = np.zeros((rows, heads, dim))
        row = 0
        for (_, cached, n), (pk, pv) in zip(segments, past):
            keys = f64(np.concatenate([pk, k[row:row + n]])).reshape(-1, kv_heads, dim)
            values = f64(np.concatenate([pv, v[row:row + n]])).reshape(-1, kv_heads, dim)
            for i in range(n):
                for h in range(heads):
                    g = h * kv_heads // heads
                    s = keys[:cached + i + 1, g] @ f64(q[row + i].reshape(heads, dim)[h])
                    s = s * (scale or 1 / math.sqrt(dim))
                    e = np.exp(s - s.max())
                    y[row + i, h] = (e / e.sum()) @ values[:cached + i + 1, g]
            row += n
        w.put(name + "_q", "f32", q)
        w.put(name + "_k", "f32", k)
        w.put(name + "_v", "f32", v)
        w.put(name + "_past_k", "f32", np.concatenate([p[0] for p in past] + [np.zeros((0, kv_heads * dim))]))
        w.put(name + "_past_v", "f32", np.concatenate([p[1] for p in past] + [np.zeros((0, kv_heads * dim))]))
        w.put(name + "_y", "f64", y.reshape(rows, heads * dim))


if __name__ == "__main__":
    os.makedirs(FOLDER, exist_ok=True)
    for write in (elementwise, rows, lookup, rotary, attention):
        write()
