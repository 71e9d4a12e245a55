"""What the kinds of graphs of com.microsoft share: their registry, and inputs drawn as they are declared."""

import numpy as np
from onnx import TensorProto

KINDS = {}
MS = "com.microsoft"


def kind(tolerance=1e-4):
    """Registers Builder -> feeds, or -> (feeds, expected outputs); `tolerance` is relative to the largest value."""

    def add(function):
        KINDS[function.__name__] = (function, tolerance)
        return function

    return add


def ints(b, *shape, low=0, high=2):
    return b.rng.integers(low, high, shape).astype(np.int32)


def uniform(b, *shape, low=0.5, high=1.5):
    return (low + (high - low) * b.rng.random(shape)).astype(np.float32)


def byte_weights(b, dtype, *shape):
    """Weights over all of uint8, or over 7 bits of int8: products of uint8 by int8 saturate in onnxruntime's kernels
    for x86-64 without VNNI, where two of them are added in 16 bits, and its results are what is expected."""
    low, high = (-64, 64) if dtype == np.int8 else (0, 255)
    return b.rng.integers(low, high + 1, shape).astype(dtype)


class Feeds:
    """One set of inputs, declared in the graph as they are made."""

    def __init__(self, b):
        self.b, self.values = b, {}

    def add(self, array, name=None):
        array = np.asarray(array)
        name = name or f"in{len(self.values)}"
        dtype = {"f": TensorProto.FLOAT, "i": TensorProto.INT32, "u": TensorProto.UINT8}[array.dtype.kind]
        if array.dtype == np.int64:
            dtype = TensorProto.INT64
        if array.dtype == np.int8:
            dtype = TensorProto.INT8
        self.b.input(name, [f"{name}_{i}" for i in range(array.ndim)], dtype)
        self.values[name] = array
        return name

    def normal(self, *shape):
        return self.add(self.b.normal(*shape))


def outputs(b, names, *ranks):
    for name, rank in zip([names] if isinstance(names, str) else names, ranks):
        b.output(name, rank=rank)
