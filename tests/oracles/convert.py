"""Values of tests/data/convert.tsv: float32 bits, and the float16 and bfloat16 that are nearest to them (ties to even).

python3 tests/oracles/convert.py > tests/data/convert.tsv

float16 is NumPy's. bfloat16, which NumPy lacks, is worked out with fractions: of the two neighbours on the grid of its
exponent the nearer one, of two that are equally near the even one."""
import math
from fractions import Fraction
import numpy as np


def bf16_bits(f):
    if math.isinf(f) or f == 0:
        return int(np.float32(f).view(np.uint32)) >> 16
    exponent = max(math.frexp(abs(f))[1] - 1, -126)
    units = round(Fraction(abs(f)) / Fraction(2) ** (exponent - 7))  # Python rounds halves of fractions to even
    if Fraction(units) * Fraction(2) ** (exponent - 7) >= Fraction(2) ** 128:
        bits = 0x7F80
    else:
        bits = int(np.float32(float(units) * 2.0 ** (exponent - 7)).view(np.uint32)) >> 16
    return bits | (0x8000 if f < 0 else 0)


def interesting(random):
    edges = [0, 1, 2, 0x7FFFFF, 0x800000, 0x800001, 0x7F7FFFFF, 0x7F7F8000, 0x7F7F7FFF, 0x7F800000]
    for exponent in range(256):
        for mantissa in (0, 1, 0xFFF, 0x1000, 0x1001, 0x1FFF, 0x2000, 0x3000, 0x7FFF, 0x8000, 0x8001, 0x18000, 0x7FEFFF,
                         0x7FF000, 0x7FFFFF):
            edges.append(exponent << 23 | mantissa)
    near = [(int(random.integers(100, 145)) << 23) | int(random.integers(0, 1 << 23)) for _ in range(1500)]
    return edges + near + [int(x) for x in random.integers(0, 0x7F800000, 500)]


def main():
    print("# f32 bits\tf16 bits\tbf16 bits; made by tests/oracles/convert.py")
    random = np.random.default_rng(4)
    rows = {bits | sign for bits in interesting(random) if bits <= 0x7F800000 for sign in (0, 0x80000000)}
    with np.errstate(over="ignore", under="ignore"):
        for bits in sorted(rows):
            f = np.uint32(bits).view(np.float32)
            half = int(f.astype(np.float16).view(np.uint16))
            brain = bf16_bits(float(f)) if bits != 0x80000000 else 0x8000
            print(f"{bits:08x}\t{half:04x}\t{brain:04x}")


main()
