"""Logits of two small models whose weights are made by a formula, in float64: the literals of tests/models/oracle_models.h.
The models use what stories260K and tiny-random-gpt2 do not: heads wider than n_embd / n_heads, biases, a head of its own,
llama3 scaling; GPT-2 with biases of q, k and v, the erf GELU, a score scale by layer.
Usage: python models.py > ../models/oracle_models.h (NumPy)"""
import math

import numpy as np

M = (1 << 64) - 1
ROWS, VOCAB, KEPT = 40, 20, (0, 7, 23, 39)
ids = [(7 * i + i * i) % VOCAB for i in range(ROWS)]


def mix(z):
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & M
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & M
    return z ^ (z >> 31)


def tensor(name, *shape):
    """Multiples of 1/64 (about 1 for norms: of 1/128), exact in f32, f16 and bf16."""
    key = 0xCBF29CE484222325
    for c in name.encode():
        key = ((key ^ c) * 0x100000001B3) & M
    n = math.prod(shape)
    k = np.array([(mix((key + (i + 1) * 0x9E3779B97F4A7C15) & M) >> 58) - 32 for i in range(n)], float)
    norm = "norm" in name or ".ln_" in name or name.startswith("ln_")
    values = 1 + k / 128 if norm and name.endswith("weight") else k / 64
    return values.reshape(shape)


def linear(x, name, out, has_bias):
    y = x @ tensor(name + ".weight", out, x.shape[1]).T
    return y + tensor(name + ".bias", out) if has_bias else y


def attend(q, k, v, n_heads, n_kv, dim, scale):
    rows = len(q)
    q, k, v = q.reshape(rows, n_heads, dim), k.reshape(rows, n_kv, dim), v.reshape(rows, n_kv, dim)
    out = np.zeros_like(q)
    for h in range(n_heads):
        s = q[:, h] @ k[:, h * n_kv // n_heads].T * scale
        s[np.triu_indices(rows, 1)] = -np.inf
        p = np.exp(s - s.max(1, keepdims=True))
        out[:, h] = p / p.sum(1, keepdims=True) @ v[:, h * n_kv // n_heads]
    return out.reshape(rows, n_heads * dim)


def llama():
    embd, heads, kv, dim, ff, theta = 24, 4, 2, 8, 40, 50.0
    factor, low, high, original = 4.0, 1.0, 4.0, 32

    def norm(x, name):
        return x / np.sqrt((x * x).mean(1, keepdims=True) + 1e-5) * tensor(name + ".weight", embd)

    inv = theta ** (-np.arange(0, dim, 2) / dim)
    for i, f in enumerate(inv):
        wave = 2 * math.pi / f
        smooth = min(max((original / wave - low) / (high - low), 0), 1)
        inv[i] = (1 - smooth) * f / factor + smooth * f
    angle = np.concatenate([np.outer(np.arange(ROWS), inv)] * 2, 1)[:, None]

    def turn(x, n):
        x = x.reshape(ROWS, n, dim)
        half = np.concatenate([-x[..., dim // 2:], x[..., : dim // 2]], -1)
        return (x * np.cos(angle) + half * np.sin(angle)).reshape(ROWS, n * dim)

    x = tensor("model.embed_tokens.weight", VOCAB, embd)[ids]
    for i in range(2):
        at = f"model.layers.{i}."
        h = norm(x, at + "input_layernorm")
        q = turn(linear(h, at + "self_attn.q_proj", heads * dim, True), heads)
        k = turn(linear(h, at + "self_attn.k_proj", kv * dim, True), kv)
        v = linear(h, at + "self_attn.v_proj", kv * dim, True)
        x = x + linear(attend(q, k, v, heads, kv, dim, dim**-0.5), at + "self_attn.o_proj", embd, True)
        h = norm(x, at + "post_attention_layernorm")
        gate, up = linear(h, at + "mlp.gate_proj", ff, True), linear(h, at + "mlp.up_proj", ff, True)
        x = x + linear(gate / (1 + np.exp(-gate)) * up, at + "mlp.down_proj", embd, True)
    return linear(norm(x, "model.norm"), "lm_head", VOCAB, False)


def gpt2():
    embd, heads, ff = 16, 2, 24

    def norm(x, name):
        x = x - x.mean(1, keepdims=True)
        x = x / np.sqrt((x * x).mean(1, keepdims=True) + 1e-5)
        return x * tensor(name + ".weight", embd) + tensor(name + ".bias", embd)

    def conv(x, name, out):  # its weight is [in, out]
        return x @ tensor(name + ".weight", x.shape[1], out) + tensor(name + ".bias", out)

    x = tensor("wte.weight", VOCAB, embd)[ids] + tensor("wpe.weight", 64, embd)[:ROWS]
    for i in range(2):
        at = f"h.{i}."
        q, k, v = np.split(conv(norm(x, at + "ln_1"), at + "attn.c_attn", 3 * embd), 3, 1)
        a = attend(q, k, v, heads, heads, embd // heads, (embd // heads) ** -0.5 / (i + 1))
        x = x + conv(a, at + "attn.c_proj", embd)
        h = conv(norm(x, at + "ln_2"), at + "mlp.c_fc", ff)
        h = 0.5 * h * (1 + np.vectorize(math.erf)(h / math.sqrt(2)))
        x = x + conv(h, at + "mlp.c_proj", embd)
    return linear(norm(x, "ln_f"), "lm_head", VOCAB, False)


def literals(name, logits):
    print(f"static const float {name}[{len(KEPT)}][{VOCAB}] = {{")
    for row in KEPT:
        print("    {" + ", ".join(f"{v:.7g}f" if "." in f"{v:.7g}" else f"{v:.7g}.f" for v in logits[row]) + "},")
    print("};\n")


print("/* Made by tests/oracles/models.py. Logits at some rows. */")
print("#ifndef TESTS_MODELS_ORACLE_MODELS_H\n#define TESTS_MODELS_ORACLE_MODELS_H\n\n/* clang-format off */")
print(f"static const int oracle_rows[{len(KEPT)}] = {{{', '.join(map(str, KEPT))}}};\n")
literals("oracle_llama", llama())
literals("oracle_gpt2", gpt2())
print("/* clang-format on */\n\n#endif")
