"""Elements of a synthetic model, worked out from the description in models/synth.c: the literals of test_synth.c.
Usage: python synth.py (NumPy)"""
import numpy as np

M = (1 << 64) - 1


def mix(z):
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & M
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & M
    return z ^ (z >> 31)


def element(seed, tensor, i, columns):
    key = mix((seed + mix(tensor + 1)) & M)
    bits = mix((key + (i + 1) * 0x9E3779B97F4A7C15) & M)
    total = sum(bits >> (16 * k) & 0xFFFF for k in range(4))
    unit = np.float32(total - 2 * 0xFFFF) * np.float32(1 / (65536 * 0.57735026918962576))
    return unit * np.float32(1 / np.sqrt(columns))


# Tensor 12 is layers.1's k_proj: the embedding, nine of layer 0, then norm, q, k.
print([float(element(7, 12, 500 * i, 64)).hex() for i in range(4)])
