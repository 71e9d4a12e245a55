"""Kinds of graphs of com.microsoft: mixtures of experts.

onnxruntime has no second product of its own (fc3) and no SwiGLU of halves on CPUs; the unit tests cover them.
"""

import numpy as np
from microsoft_base import MS, Feeds, kind, outputs, uniform


def routing(b, f, tokens, experts):
    """Scores and attributes of the choice; scores differ clearly, as rounding must not change the choice."""
    order = np.argsort(b.rng.random((tokens, experts)), axis=1)
    scores = f.add((order * 0.7 - 1).astype(np.float32))
    return scores, {"k": int(b.rng.integers(1, experts + 1)), "normalize_routing_weights": b.pick(0, 1)}


def activation(b):
    """Attributes of the activation, and the rows of the first weights for each unit."""
    name = b.pick("relu", "gelu", "silu", "identity", "swiglu", "swiglu")
    attributes = {"activation_type": name}
    if name != "swiglu":
        return attributes, 1
    attributes |= {"swiglu_fusion": 1, "activation_alpha": 1.7, "activation_beta": b.pick(0.0, 1.0)}
    if b.pick(False, True):
        attributes["swiglu_limit"] = 1.5
    return attributes, 2


def tokens_of(b, hidden):
    """A shape of tokens, packed or by batch, and their number."""
    batch, length = int(b.rng.integers(1, 4)), int(b.rng.integers(1, 20))
    return ([batch, length, hidden], batch * length) if b.pick(False, True) else ([length, hidden], length)


@kind()
def experts(b):
    """MoE: activations, routing, biases, tokens in two and three dimensions."""
    f = Feeds(b)
    hidden, units, count = int(b.rng.integers(5, 70)), int(b.rng.integers(3, 50)), int(b.rng.integers(2, 9))
    shape, tokens = tokens_of(b, hidden)
    x = f.normal(*shape)
    for _ in range(4):
        scores, attributes = routing(b, f, tokens, count)
        form, fused = activation(b)
        first = [b.weight(count, fused * units, hidden, fan_in=hidden), b.pick(b.bias((count, fused * units)), "")]
        second = [b.weight(count, hidden, units, fan_in=units), b.pick(b.bias((count, hidden)), "")]
        outputs(b, b.op("MoE", x, scores, *first, *second, domain=MS, **attributes, **form), len(shape))
    return [f.values]


def quantized(b, forms):
    """A QMoE for each (bits, block), with and without zero points and given weights of the experts."""
    f = Feeds(b)
    hidden, units, count = 32 * int(b.rng.integers(1, 5)), 32 * int(b.rng.integers(1, 4)), int(b.rng.integers(2, 6))
    shape, tokens = tokens_of(b, hidden)
    x = f.normal(*shape)
    for bits, block in forms:
        packed, zero_points = 8 // bits, b.pick(False, True)

        def weights(rows, k):
            scale_shape = (count, rows, k // block) if block else (count, rows)
            zero_shape = (count, rows, -(-(k // block) // packed)) if block else (count, -(-rows // packed))
            scales = uniform(b, *scale_shape, low=0.5, high=1) * np.float32(2.0 ** (1 - bits) * k**-0.5)
            shapes = ((count, rows, k // packed), zero_shape)
            values, zeros = (b.rng.integers(0, 256, s).astype(np.uint8) for s in shapes)
            return b.const(values), b.const(scales), b.const(zeros) if zero_points else ""

        scores, attributes = routing(b, f, tokens, count)
        form, fused = activation(b)
        q1, s1, z1 = weights(fused * units, hidden)
        q2, s2, z2 = weights(hidden, units)
        b1, b2 = b.pick(b.bias((count, fused * units)), ""), b.pick(b.bias((count, hidden)), "")
        given = b.pick(f.add(uniform(b, tokens, count, low=0.1, high=1)), "")
        inputs = [x, scores, q1, s1, b1, q2, s2, b2, "", "", "", z1, z2, "", given]
        attributes |= form | {"expert_weight_bits": bits} | ({"block_size": block} if block else {})
        outputs(b, b.op("QMoE", *inputs, domain=MS, **attributes), len(shape))
    return [f.values]


@kind()
def quantized_experts(b):
    """QMoE by row, and of 4 bits by block."""
    return quantized(b, ((2, 0), (4, 0), (8, 0), (4, b.pick(16, 32))))


@kind(tolerance=2e-2)
def experts_by_blocks(b):
    """QMoE of 8 and 2 bits by block, which onnxruntime multiplies with tokens that it has rounded to int8."""
    return quantized(b, ((8, 16), (8, 32), (2, 16), (2, 32)))
