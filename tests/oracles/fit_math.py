"""The coefficients of ops/cpu/vmath.h: near-minimax polynomials by Lawson's reweighted least squares, in float64.

python3 tests/oracles/fit_math.py     prints them, lowest power first, with the largest error in units of 2^-24
"""
import math
import numpy as np


def fit(x, target, scale, degree, rounds=400):
    """p with max |(p(x) - target) * scale| about least; the coefficients after rounding to float32."""
    weight = np.ones_like(x)
    powers = np.vander(x, degree + 1, increasing=True)
    for _ in range(rounds):
        root = np.sqrt(weight) * scale
        coefficients = np.linalg.lstsq(powers * root[:, None], target * root, rcond=None)[0]
        error = np.abs((powers @ coefficients - target) * scale)
        weight = weight * (error + 1e-3 * error.max())
        weight /= weight.sum()
    rounded = coefficients.astype(np.float32).astype(np.float64)
    return rounded, np.abs((powers @ rounded - target) * scale).max() * 2**24


def show(name, result):
    print(f"{name}: error {result[1]:.4f}")
    print("    " + ", ".join(float(np.float32(c)).hex() for c in result[0]))


def nodes(low, high, n=4001):
    return (low + high) / 2 + (high - low) / 2 * np.cos(np.pi * (np.arange(n) + 0.5) / n)


def main():
    # exp(r) = 1 + r + r^2 p(r), |r| <= ln 2 / 2
    r = nodes(-0.3467, 0.3467)
    r = r[np.abs(r) > 1e-3]
    target = np.array([(math.expm1(v) - v) / v**2 for v in r])
    show("exp", fit(r, target, r**2 / np.exp(r), 4))

    # tanh(x) = x + x s p(s), s = x^2
    x = nodes(0.01, TANH_SPLIT)
    target = np.array([(math.tanh(v) / v - 1) / v**2 for v in x])
    show("tanh", fit(x**2, target, x**3 / np.tanh(x), 5))

    # erf(x) = x + x p(s)
    x = nodes(0.001, ERF_SPLIT)
    target = np.array([math.erf(v) / v - 1 for v in x])
    show("erf, small", fit(x**2, target, x / np.array([math.erf(v) for v in x]), 6))

    # erf(x) = 1 - exp(-x - x p(x)); where erfc is below half an ulp of 1 the exponent need not be right
    x = nodes(ERF_SPLIT, 3.95)
    erfc = np.array([math.erfc(v) for v in x])
    target = np.array([-math.log(e) / v - 1 for e, v in zip(erfc, x)])
    show("erf, large", fit(x, target, x * erfc / (1 - erfc), 6))


TANH_SPLIT = 0.55
ERF_SPLIT = 0.93
if __name__ == "__main__":
    main()
