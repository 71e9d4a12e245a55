#!/usr/bin/env python3
"""Writes seeded random ONNX graphs with onnxruntime's results, as folders of the ONNX backend-test layout.

    generate_graphs.py OUT [--seeds N] [--kinds a,b] [--list]

`quern verify OUT --rtol 0 --tolerance OUT/tolerance.json` compares. Each kind below is a family of graphs; every seed
draws other sizes, strides, axes and weights, and inputs of two different shapes where the graph is dynamic.
onnxruntime runs without graph optimizations, so that quantized graphs mean what the specification says; with
`--optimized` each graph is there a second time, as its optimizer saves it, with the same results.
"""

import argparse
import json
import pathlib
import zlib

import numpy as np
from graph_builder import Builder, optimized_by_onnxruntime, write_folder
from onnx import TensorProto, helper, numpy_helper

KINDS = {}


def kind(tolerance=1e-4):
    """Registers a function Builder -> list of feeds; `tolerance` is relative to the largest expected value."""

    def add(function):
        KINDS[function.__name__] = (function, tolerance)
        return function

    return add


@kind()
def conv_net(b):
    """Convolutions of odd sizes, groups, dilations and asymmetric padding, with pooling and a residual branch."""
    c = b.pick(3, 5, 8)
    h, w = int(b.rng.integers(37, 50)), int(b.rng.integers(37, 50))  # two pixels are left after three strides
    b.input("image", ["n", c, h, w])
    x, width = "image", c
    for _ in range(3):
        group = b.pick(1, 1, 2, 4)
        width_in, width = width, 4 * int(b.rng.integers(2, 12))
        if width_in % group:
            group = 1
        kernel = b.pick(1, 3, 3, 5)
        pads = [int(p) for p in b.rng.integers(0, kernel // 2 + 1, 4)] if kernel > 1 else [0] * 4
        x = b.conv(x, width_in, width, kernel, b.pick(1, 1, 2), group, 1, pads)
        if b.rng.random() < 0.5:
            x = b.batch_norm(x, width)
        x = b.activation(x)
    branch = b.activation(b.conv(x, width, width, 3, dilation=b.pick(1, 2)))
    x = b.op("Add", x, branch)
    if b.rng.random() < 0.5:
        x = b.op("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1], ceil_mode=b.pick(0, 1))
    else:
        x = b.op(
            "AveragePool", x, kernel_shape=[2, 3], strides=[1, 2], pads=[0, 1, 0, 1], count_include_pad=b.pick(0, 1)
        )
    b.output(x, rank=4)
    x = b.op("Flatten", b.op("GlobalAveragePool", x), axis=1)
    x = b.op("Gemm", x, b.weight(10, width), b.bias(10), transB=1)
    b.output(b.op("Softmax", x, axis=-1), rank=2)
    return [{"image": b.normal(n, c, h, w)} for n in (1, 3)]


@kind()
def mobile_net(b):
    """Expand, depthwise, project, with ReLU6 and residuals; batch 1 of dynamic height and width."""
    width = 8 * int(b.rng.integers(1, 4))
    b.input("image", [1, 3, "h", "w"])
    x = b.conv("image", 3, width, 3, 2)
    for _ in range(3):
        hidden, stride = width * b.pick(2, 4, 6), b.pick(1, 1, 2)
        out = width if stride == 1 else width + 8
        y = b.op(
            "Clip", b.batch_norm(b.conv(x, width, hidden, 1), hidden), b.const(np.float32(0)), b.const(np.float32(6))
        )
        y = b.op("Relu", b.conv(y, hidden, hidden, b.pick(3, 5), stride, group=hidden))
        y = b.batch_norm(b.conv(y, hidden, out, 1), out)
        x = b.op("Add", x, y) if stride == 1 else y
        width = out
    b.output(b.op("ReduceMean", x, b.const(np.array([2, 3], np.int64)), keepdims=b.pick(0, 1)))
    return [{"image": b.normal(1, 3, *s)} for s in ((33, 40), (24, 19))]


@kind()
def mlp(b):
    """Gemm in its four transpositions with alpha and beta, MatMul + Add, and the activations; dynamic batch."""
    width = int(b.rng.integers(5, 70))
    b.input("x", ["batch", width])
    x = "x"
    for layer in range(4):
        out = int(b.rng.integers(3, 130))
        if layer % 2:
            x = b.op("Add", b.op("MatMul", x, b.weight(width, out, fan_in=width)), b.bias(out))
        else:
            trans_b = b.pick(0, 1)
            shape = (out, width) if trans_b else (width, out)
            c = b.pick("none", "vector", "scalar")
            extra = [] if c == "none" else [b.bias(out) if c == "vector" else b.bias(1)]
            x = b.op(
                "Gemm",
                x,
                b.weight(*shape, fan_in=width),
                *extra,
                transB=trans_b,
                alpha=b.pick(1.0, 0.5),
                beta=b.pick(1.0, 2.0),
            )
        x = b.activation(x)
        width = out
    x = b.op("LayerNormalization", x, b.weight(width, fan_in=1), b.bias(width), axis=-1, epsilon=1e-5)
    b.output(b.op("Gelu", x, approximate=b.pick("none", "tanh")), rank=2)
    # A transposed left side whose rows are the batch.
    b.output(b.op("Gemm", x, x, transA=1), rank=2)
    return [{"x": b.normal(n, int(b.inputs[0].type.tensor_type.shape.dim[1].dim_value))} for n in (1, 7)]


@kind()
def attention(b):
    """Multi-head attention as exporters write it: computed shapes, a mask by Where, dynamic batch and length."""
    heads, size = b.pick(2, 3, 4), b.pick(8, 16, 20)
    width = heads * size
    b.input("tokens", ["batch", "seq", width])
    b.input("mask", ["batch", "seq"], TensorProto.BOOL)
    shape = b.op("Shape", "tokens")
    batch = b.op("Gather", shape, b.const(np.int64(0)), axis=0)
    length = b.op("Gather", shape, b.const(np.int64(1)), axis=0)
    zero = b.const(np.array([0], np.int64))
    split = b.op(
        "Concat",
        b.op("Unsqueeze", batch, zero),
        b.op("Unsqueeze", length, zero),
        b.const(np.array([heads, size], np.int64)),
        axis=0,
    )

    def project():
        y = b.op("Add", b.op("MatMul", "tokens", b.weight(width, width)), b.bias(width))
        return b.op("Reshape", y, split)

    query = b.op("Transpose", project(), perm=[0, 2, 1, 3])
    key = b.op("Transpose", project(), perm=[0, 2, 3, 1])
    value = b.op("Transpose", project(), perm=[0, 2, 1, 3])
    scores = b.op("Div", b.op("MatMul", query, key), b.const(np.float32(np.sqrt(size))))
    keep = b.op("Unsqueeze", "mask", b.const(np.array([1, 2], np.int64)))
    scores = b.op("Where", keep, scores, b.const(np.float32(-1e9)))
    mixed = b.op("Transpose", b.op("MatMul", b.op("Softmax", scores, axis=-1), value), perm=[0, 2, 1, 3])
    mixed = b.op("Reshape", mixed, b.const(np.array([0, -1, width], np.int64)))
    x = b.op("Add", "tokens", b.op("MatMul", mixed, b.weight(width, width)))
    x = b.op("LayerNormalization", x, b.weight(width, fan_in=1), b.bias(width), axis=2)
    hidden = b.op("Gelu", b.op("Add", b.op("MatMul", x, b.weight(width, 3 * width, fan_in=width)), b.bias(3 * width)))
    b.output(b.op("Add", x, b.op("MatMul", hidden, b.weight(3 * width, width))), rank=3)
    feeds = []
    for n, seq in ((1, 9), (2, 33)):
        keep = b.rng.random((n, seq)) < 0.8
        keep[:, 0] = True
        feeds.append({"tokens": b.normal(n, seq, width), "mask": keep})
    return feeds


@kind()
def recurrent(b):
    """Two LSTMs: one with initial states and a random direction, one on its transposed output; dynamic length."""
    size, hidden, direction = (
        int(b.rng.integers(3, 20)),
        int(b.rng.integers(4, 36)),
        b.pick("forward", "reverse", "bidirectional"),
    )
    d = 2 if direction == "bidirectional" else 1
    b.input("x", ["seq", "batch", size])
    b.input("h0", [d, "batch", hidden])
    b.input("c0", [d, "batch", hidden])
    y, h, c = b.op(
        "LSTM",
        "x",
        b.weight(d, 4 * hidden, size, fan_in=size),
        b.weight(d, 4 * hidden, hidden, fan_in=hidden),
        b.bias((d, 8 * hidden)),
        "",
        "h0",
        "c0",
        outputs=3,
        hidden_size=hidden,
        direction=direction,
    )
    y = b.op("Reshape", b.op("Transpose", y, perm=[0, 2, 1, 3]), b.const(np.array([0, 0, -1], np.int64)))
    y2, h2 = b.op(
        "LSTM",
        y,
        b.weight(1, 4 * hidden, d * hidden, fan_in=d * hidden),
        b.weight(1, 4 * hidden, hidden, fan_in=hidden),
        outputs=2,
        hidden_size=hidden,
    )
    b.output(b.op("Squeeze", y2, b.const(np.array([1], np.int64))), rank=3)
    for v in (h, c, h2):
        b.output(v, rank=3)
    return [
        {"x": b.normal(s, n, size), "h0": b.normal(d, n, hidden), "c0": b.normal(d, n, hidden)}
        for s, n in ((5, 1), (12, 3))
    ]


@kind()
def recurrent_forms(b):
    """LSTM, GRU and RNN with sequence lengths, named activations, clipping, peepholes and coupled gates."""
    size, n = int(b.rng.integers(3, 20)), int(b.rng.integers(1, 4))
    b.input("x", ["seq", n, size])
    b.input("lengths", [n], TensorProto.INT32)
    for op, gates, functions in (("LSTM", 4, 3), ("GRU", 3, 2), ("RNN", 1, 1)):
        hidden, direction = int(b.rng.integers(4, 36)), b.pick("forward", "reverse", "bidirectional")
        d = 2 if direction == "bidirectional" else 1
        attributes = {"hidden_size": hidden, "direction": direction}
        if op == "GRU":
            attributes["linear_before_reset"] = b.pick(0, 1)
        if b.pick(False, True):
            attributes["clip"] = b.pick(0.5, 2.0)
        if b.pick(False, True):
            names = [b.pick("Sigmoid", "HardSigmoid")]
            names += [b.pick("Tanh", "Relu", "Softsign") for _ in range(functions - 1)]
            attributes["activations"] = names * d
            if count := names.count("HardSigmoid") * d:
                attributes |= {"activation_alpha": [0.25] * count, "activation_beta": [0.4] * count}
        weights = [b.weight(d, gates * hidden, columns, fan_in=columns) for columns in (size, hidden)]
        inputs = ["x", *weights, b.bias((d, 2 * gates * hidden)), b.pick("lengths", "lengths", "")]
        inputs.append(b.pick(b.weight(d, n, hidden, fan_in=1), ""))
        if op == "LSTM":
            inputs += [b.weight(d, n, hidden, fan_in=1), b.pick(b.weight(d, 3 * hidden, fan_in=9), "")]
        for y, rank in zip(b.op(op, *inputs, outputs=3 if op == "LSTM" else 2, **attributes), (4, 3, 3)):
            b.output(y, rank=rank)
    return [
        {"x": b.normal(s, n, size), "lengths": b.rng.integers(1, s + 1, n).astype(np.int32)} for s in (1, 5, 12)
    ]


@kind()
def broadcast(b):
    """Elementwise arithmetic and logic on dynamic shapes that broadcast both ways, scalars included."""
    k = int(b.rng.integers(2, 9))
    b.input("a", ["n", 1, k])
    b.input("b", ["m", 1])
    b.input("i", ["n", "m", k], TensorProto.INT64)
    x = b.op(b.pick("Add", "Sub", "Mul"), "a", "b")
    for _ in range(4):
        side = b.pick(b.const(np.float32(0.7)), b.weight(k, fan_in=1), b.weight(1, 1, 1), "b", "a")
        x = b.op(b.pick("Add", "Sub", "Mul", "Max", "Sum"), *b.pick((x, side), (side, x)))
        x = b.op("Tanh", x)
    positive = b.op("Add", b.op("Exp", x), b.const(np.float32(0.5)))
    x = b.op("Div", x, b.op("Sqrt", positive))
    x = b.op("Mul", b.op("Reciprocal", positive), b.op("Pow", x, b.const(np.float32(2))))
    f = b.op("Cast", "i", to=TensorProto.FLOAT)
    same = b.op("Equal", "i", b.const(np.int64(3)))
    large = b.op("GreaterOrEqual", f, b.const(np.float32(2.5)))
    either = b.op("And", b.op("Not", same), large)
    b.output(b.op("Where", either, x, f), rank=3)
    b.output(either, TensorProto.BOOL, rank=3)
    b.output(b.op("Mul", b.op("Add", "i", b.const(np.int64(-4))), "i"), TensorProto.INT64, rank=3)
    return [
        {"a": b.normal(n, 1, k), "b": b.normal(m, 1), "i": b.rng.integers(0, 7, (n, m, k))} for n, m in ((2, 3), (1, 5))
    ]


@kind()
def reductions(b):
    """ReduceMean over random axes, softmax and log-softmax over each axis, pooling as a reduction."""
    shape = [int(s) for s in b.rng.integers(2, 9, 4)]
    b.input("x", ["n", *shape[1:]])
    axis = int(b.rng.integers(-4, 4))
    b.output(b.op("Softmax", "x", axis=axis), rank=4)
    b.output(b.op("LogSoftmax", "x", axis=int(b.rng.integers(-4, 4))), rank=4)
    axes = sorted(int(a) for a in b.rng.choice(4, 2, replace=False))
    kept = b.op("ReduceMean", "x", b.const(np.array(axes, np.int64)), keepdims=1)
    centred = b.op("Sub", "x", kept)
    variance = b.op(
        "ReduceMean", b.op("Mul", centred, centred), b.const(np.array([a - 4 for a in axes], np.int64)), keepdims=1
    )
    b.output(b.op("Div", centred, b.op("Sqrt", b.op("Add", variance, b.const(np.float32(1e-3))))), rank=4)
    b.output(b.op("ReduceMean", "x", keepdims=b.pick(0, 1)))
    b.output(b.op("GlobalAveragePool", "x"), rank=4)
    return [{"x": b.normal(n, *shape[1:])} for n in (shape[0], 1)]


@kind()
def rearrange(b):
    """Slices of negative step, gathers of negative index, split, concat, pad, expand, transpose, depth to space."""
    h, w = int(b.rng.integers(6, 12)), int(b.rng.integers(6, 12))
    b.input("x", ["n", 8, h, w])

    def ints(*values):
        return b.const(np.array(values, np.int64))

    x = b.op("Slice", "x", ints(h - 1, 1), ints(-h - 1, -1), ints(2, 3), ints(-b.pick(1, 2), 1))
    x = b.op(
        "Pad",
        x,
        ints(0, 0, 1, 2, 0, 0, 0, 1),
        *([b.const(np.float32(0.5))] if b.rng.random() < 0.5 else []),
        mode="constant",
    )
    x = b.op("Pad", x, ints(0, 0, 1, 1, 0, 0, 1, 1), mode=b.pick("reflect", "edge"))
    left, right = b.op("Split", x, ints(3, 5), outputs=2, axis=1)
    x = b.op("Concat", right, b.op("Mul", left, b.const(np.float32(2))), axis=-3)
    picked = b.op("Gather", x, b.const(b.rng.integers(-8, 8, (2, 3))), axis=1)
    b.output(picked, rank=5)
    b.output(b.op("DepthToSpace", x, blocksize=2, mode=b.pick("DCR", "CRD")), rank=4)
    flat = b.op("Squeeze", b.op("Unsqueeze", b.op("Flatten", x, axis=2), ints(0)), ints(0))
    b.output(b.op("Transpose", flat, perm=[1, 0]), rank=2)
    b.output(b.op("GatherElements", flat, b.const(b.rng.integers(0, 6, (4, 5))), axis=1), rank=2)
    b.output(b.op("GatherND", "x", b.const(np.array([[0, 3, 2], [-1, -8, -1]], np.int64))), rank=2)
    b.output(b.op("Expand", b.op("Gather", flat, b.const(np.int64(0)), axis=1), ints(3, 1)), rank=2)
    return [{"x": b.normal(n, 8, h, w)} for n in (1, 2)]


@kind()
def upsample(b):
    """A small U-shape: convolution, pooling, Resize in its modes, concat with the skip, depth to space."""
    c, size = 4 * int(b.rng.integers(1, 4)), 2 * int(b.rng.integers(5, 10))
    b.input("image", ["n", 3, size, size])
    skip = b.op("Relu", b.conv("image", 3, c, 3))
    low = b.op("Relu", b.conv(b.op("MaxPool", skip, kernel_shape=[2, 2], strides=[2, 2]), c, 2 * c, 3))
    if b.rng.random() < 0.5:
        up = b.op(
            "Resize",
            low,
            "",
            b.const(np.array([1, 1, 2, 2], np.float32)),
            mode="nearest",
            coordinate_transformation_mode="asymmetric",
            nearest_mode="floor",
        )
    else:
        up = b.op(
            "Resize",
            low,
            "",
            b.const(np.array([1, 1, 2, 2], np.float32)),
            mode="linear",
            coordinate_transformation_mode=b.pick("half_pixel", "align_corners", "asymmetric"),
        )
    x = b.conv(b.op("Concat", up, skip, axis=1), 3 * c, 12, 3)
    x = b.op("Sigmoid", b.op("DepthToSpace", x, blocksize=2))
    b.output(x, rank=4)
    shape = b.op(
        "Concat",
        b.op("Slice", b.op("Shape", x), *(b.const(np.array([v], np.int64)) for v in (0, 2))),
        b.const(np.array([size + 3, size - 1], np.int64)),
        axis=0,
    )
    b.output(b.op("Resize", x, "", "", shape, mode="linear", coordinate_transformation_mode="half_pixel"), rank=4)
    return [{"image": b.normal(n, 3, size, size)} for n in (1, 2)]


@kind()
def branches(b):
    """If with values of the outer graph in both branches, one inside the other; the data sets take each side."""
    k = int(b.rng.integers(3, 20))
    b.input("x", ["n", k])
    b.input("flag", [], TensorProto.BOOL)
    scaled = b.op("Mul", "x", b.weight(k, fan_in=1))
    mean = b.op("ReduceMean", "x", keepdims=0)
    positive = b.op("GreaterOrEqual", mean, b.const(np.float32(0)))

    def branch(prefix, build):
        inner = Builder(b.rng.integers(1 << 30), prefix)
        value = build(inner)
        return helper.make_graph(
            inner.nodes, prefix, [], [helper.make_tensor_value_info(value, TensorProto.FLOAT, None)], inner.initializers
        )

    def deep(inner):
        return inner.op(
            "If",
            positive,
            then_branch=branch("t2_", lambda i: i.op("Add", scaled, i.const(np.float32(1)))),
            else_branch=branch("e2_", lambda i: i.op("Concat", scaled, "x", axis=1)),
        )

    y = b.op(
        "If",
        "flag",
        then_branch=branch("t_", deep),
        else_branch=branch("e_", lambda i: i.op("Tanh", i.op("MatMul", scaled, i.weight(k, 6, fan_in=k)))),
    )
    b.output(y, rank=2)
    b.output(b.op("Exp", b.op("Clip", y, "", b.const(np.float32(1)))), rank=2)
    big = np.abs(b.normal(3, k))
    return [{"x": x, "flag": np.bool_(flag)} for x, flag in ((b.normal(2, k), False), (big, True), (-big, True))]


@kind()
def shape_arithmetic(b):
    """The chains that exporters emit: Shape, Gather, Range, ConstantOfShape, Expand, Equal, Where, Size."""
    k = int(b.rng.integers(2, 6))
    b.input("x", ["batch", "seq", k])
    zero = b.const(np.array([0], np.int64))
    shape = b.op("Shape", "x")
    length = b.op(
        "Squeeze", b.op("Slice", shape, b.const(np.array([1], np.int64)), b.const(np.array([2], np.int64))), zero
    )
    positions = b.op("Range", b.const(np.int64(0)), length, b.const(np.int64(1)))
    rows = b.op("Unsqueeze", positions, b.const(np.array([1], np.int64)))
    causal = b.op("GreaterOrEqual", rows, b.op("Unsqueeze", positions, zero))
    b.output(b.op("Where", causal, b.const(np.float32(0)), b.const(np.float32(-100))), rank=2)
    filled = b.op("ConstantOfShape", shape, value=numpy_helper.from_array(np.array([2.5], np.float32)))
    b.output(b.op("Add", filled, "x"), rank=3)
    target = b.op(
        "Where",
        b.op("Equal", shape, b.const(np.array([-1, -1, -1], np.int64))),
        b.const(np.array([1, 1, 1], np.int64)),
        shape,
    )
    table = b.weight(64, k, fan_in=1)
    b.output(b.op("Add", b.op("Expand", b.op("Gather", table, positions, axis=0), target), "x"), rank=3)
    count = b.op("Div", b.op("Size", "x"), b.const(np.int64(k)))
    flat = b.op(
        "Reshape", "x", b.op("Concat", b.op("Unsqueeze", count, zero), b.const(np.array([k], np.int64)), axis=0)
    )
    b.output(b.op("MatMul", flat, b.weight(k, 5)), rank=2)
    b.output(count, TensorProto.INT64, rank=0)
    return [{"x": b.normal(n, s, k)} for n, s in ((1, 4), (3, 11))]


def quantized(b, array, axis=None):
    """int8 weights with their scale, symmetric, per `axis` or per tensor; returns the dequantized value."""
    other = tuple(i for i in range(array.ndim) if i != axis)
    scale = (np.abs(array).max(other if axis is not None else None) / 127).astype(np.float32)
    shaped = scale if axis is None else np.expand_dims(scale, other)
    q = np.clip(np.rint(array / shaped), -127, 127).astype(np.int8)
    args = {} if axis is None else {"axis": axis}
    return b.op("DequantizeLinear", b.const(q), b.const(scale), b.const(np.zeros(scale.shape, np.int8)), **args), scale


def fake_quantize(b, x, low, high, dtype):
    """QuantizeLinear and DequantizeLinear with an asymmetric range."""
    limits = np.iinfo(dtype)
    scale = np.float32((high - low) / 255)
    zero = dtype(np.clip(np.rint(limits.min - low / scale), limits.min, limits.max))
    s, z = b.const(scale), b.const(zero)
    return b.op("DequantizeLinear", b.op("QuantizeLinear", x, s, z), s, z), scale


@kind(tolerance=0.02)
def qdq_conv(b):
    """int8 convolution in QDQ form: non-zero zero points, padding, int32 bias, per channel or per tensor."""
    dtype, c, size = b.pick(np.uint8, np.int8), int(b.rng.integers(3, 20)), int(b.rng.integers(7, 16))
    b.input("x", ["n", c, size, size])
    x, s_in = fake_quantize(b, "x", -2.5, 3.0, dtype)
    for out, kernel, group in ((int(b.rng.integers(5, 40)), 3, 1), (24, 1, 1), (24, 3, 24)):
        weight = (
            b.normal(out, c // group if group == 1 else 1, kernel, kernel)
            / np.sqrt(kernel * kernel * (c if group == 1 else 1))
        ).astype(np.float32)
        w, s_w = quantized(b, weight, b.pick(None, 0) if group == 1 else 0)
        s_bias = np.broadcast_to(np.float32(s_in) * s_w, (out,)).astype(np.float32)
        bias = b.op(
            "DequantizeLinear",
            b.const(b.rng.integers(-3000, 3000, out).astype(np.int32)),
            b.const(s_bias),
            b.const(np.zeros(out, np.int32)),
            axis=0,
        )
        x = b.op(
            "Conv",
            x,
            w,
            bias,
            kernel_shape=[kernel, kernel],
            pads=[kernel // 2] * 4,
            group=group,
            strides=[b.pick(1, 1, 2)] * 2,
        )
        if b.rng.random() < 0.5:
            x, s_in = fake_quantize(b, b.op("Relu", x), 0.0, 4.0, dtype)
        else:
            x, s_in = fake_quantize(b, x, -4.0, 3.5, dtype)
        c = out
    b.output(x, rank=4)
    return [{"x": b.normal(n, b.inputs[0].type.tensor_type.shape.dim[1].dim_value, size, size)} for n in (1, 2)]


@kind(tolerance=0.02)
def qdq_matmul(b):
    """int8 matrix product in QDQ form, weights per column, dynamic rows, then the quantized value itself as output."""
    dtype, k, n = b.pick(np.uint8, np.int8), int(b.rng.integers(9, 80)), int(b.rng.integers(3, 70))
    b.input("x", ["m", k])
    x, _ = fake_quantize(b, "x", -3.0, 2.0, dtype)
    w, _ = quantized(b, b.normal(k, n) / np.float32(np.sqrt(k)), b.pick(None, 1))
    y = b.op("Add", b.op("MatMul", x, w), b.bias(n))
    y, _ = fake_quantize(b, y, -3.5, 3.0, dtype)
    b.output(y, rank=2)
    scale, zero = b.const(np.float32(1 / 64)), b.const(dtype(5))
    b.output(b.op("QuantizeLinear", "x", scale, zero), helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), rank=2)
    return [{"x": b.normal(m, k)} for m in (1, 6)]


def weights_in_blocks(b, accuracy, *block_sizes):
    """MatMulNBits of com.microsoft: 4-bit weights in blocks along K, one with zero points and a bias, one without."""
    k = 64 * int(b.rng.integers(1, 5))
    b.input("x", ["m", k])
    for has_zeros in (True, False):
        n, block = int(b.rng.integers(5, 60)), b.pick(*block_sizes)
        blocks = k // block
        weight = b.const(b.rng.integers(0, 256, (n, blocks, block // 2)).astype(np.uint8))
        scale = b.const((b.rng.random(n * blocks) / (8 * np.sqrt(k)) + 0.001).astype(np.float32))
        rest = [b.const(b.rng.integers(0, 256, n * -(-blocks // 2)).astype(np.uint8)), "", b.bias(n)]
        attributes = {"K": k, "N": n, "bits": 4, "block_size": block, "accuracy_level": accuracy}
        inputs = ["x", weight, scale, *(rest if has_zeros else [])]
        b.output(b.op("MatMulNBits", *inputs, domain="com.microsoft", **attributes), rank=2)
    return [{"x": b.normal(m, k)} for m in (1, 5, 33)]


@kind()
def matmul_nbits(b):
    """4-bit weights in blocks along K (com.microsoft), rows in float32."""
    return weights_in_blocks(b, b.pick(0, 1), 16, 32, 64)


@kind(tolerance=0.03)
def matmul_nbits_int8(b):
    """4-bit weights in blocks along K (com.microsoft), rows quantized to int8: each engine's own rounding."""
    return weights_in_blocks(b, 4, 32, 64)


def main(kinds=KINDS, description=__doc__):
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", nargs="?", type=pathlib.Path, default=pathlib.Path("generated"))
    parser.add_argument("--seeds", type=int, default=3, help="graphs per kind")
    parser.add_argument("--kinds", help="comma-separated; default: all")
    parser.add_argument("--optimized", action="store_true", help="also as onnxruntime's optimizer saves them")
    parser.add_argument("--list", action="store_true")
    args = parser.parse_args()
    if args.list:
        for name, (function, _) in kinds.items():
            print(f"{name:18}{function.__doc__}")
        return
    names = args.kinds.split(",") if args.kinds else list(kinds)
    tolerances = {}
    for name in names:
        function, tolerance = kinds[name]
        for seed in range(args.seeds):
            builder = Builder(zlib.crc32(f"{name}/{seed}".encode()))
            feeds = function(builder)
            folder = f"{name}_{seed}"
            model = builder.model(folder)
            results = write_folder(args.out / folder, model, feeds)
            tolerances[folder] = tolerance
            if args.optimized:
                write_folder(args.out / f"{folder}_optimized", optimized_by_onnxruntime(model), feeds, results)
                tolerances[f"{folder}_optimized"] = tolerance
    (args.out / "tolerance.json").write_text(json.dumps(tolerances, indent=1) + "\n")
    print(f"wrote {len(tolerances)} graphs to {args.out}")


if __name__ == "__main__":
    main()
