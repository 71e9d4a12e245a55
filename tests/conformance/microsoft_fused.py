"""Kinds of graphs of com.microsoft: embeddings, normalizations, fused and quantized operators."""

import itertools

import numpy as np
from microsoft_base import MS, Feeds, byte_weights, ints, kind, outputs, uniform
from onnx import TensorProto


@kind()
def embed_layer_norm(b):
    """EmbedLayerNormalization with and without segments, positions, a mask and the sum."""
    n, s, hidden = 2, int(b.rng.integers(3, 9)), 4 * int(b.rng.integers(2, 7))
    f = Feeds(b)
    words = f.add(ints(b, n, s, high=17))
    segments = f.add(ints(b, n, s, high=2))
    keep = np.sort(ints(b, n, s), axis=1)[:, ::-1].copy()
    mask = f.add(keep)
    places = [f.add(ints(b, n, s, high=11)), f.add(ints(b, 1, s, high=11)), ""]
    tables = [b.weight(rows, hidden, fan_in=1) for rows in (17, 11, 2)]
    for with_segments in (True, False):
        for place in places:
            last = [tables[2] if with_segments else "", b.weight(hidden, fan_in=1), b.bias(hidden), mask, place]
            ids = [words, segments if with_segments else ""]
            y, count, total = b.op(
                "EmbedLayerNormalization", *ids, *tables[:2], *last, domain=MS, outputs=3, epsilon=b.pick(1e-12, 1e-3)
            )
            outputs(b, [y, total], 3, 3)
            b.output(count, TensorProto.INT32, rank=1)
    inputs = [words, segments, *tables, b.weight(hidden, fan_in=1), b.bias(hidden)]
    y, count = b.op("EmbedLayerNormalization", *inputs, domain=MS, outputs=2, mask_index_type=1)
    outputs(b, y, 3)
    b.output(count, TensorProto.INT32, rank=1)
    return [f.values]


@kind(tolerance=1e-3)
def dynamic_quantize_lstm(b):
    """DynamicQuantizeLSTM: directions, scales per tensor and per column, states, peepholes, lengths."""
    steps, n, width, hidden = int(b.rng.integers(1, 7)), b.pick(1, 3), int(b.rng.integers(3, 20)), b.pick(4, 8, 11)
    f = Feeds(b)
    x = f.normal(steps, n, width)
    lengths = f.add(ints(b, n, low=1, high=steps + 1))
    for direction in ("forward", "reverse", "bidirectional"):
        d = 2 if direction == "bidirectional" else 1
        states = [f.normal(d, n, hidden), f.normal(d, n, hidden)]
        for per_column in (True, False):
            dtype = b.pick(np.int8, np.uint8)
            shape = (d, 4 * hidden) if per_column else (d,)
            weights = [b.const(byte_weights(b, dtype, d, rows, 4 * hidden)) for rows in (width, hidden)]
            scales = []
            for _ in range(2):
                zero = (0 if dtype == np.int8 else 128) + np.zeros(shape)
                scales += [b.const(uniform(b, *shape, low=0.003, high=0.006)), b.const(zero.astype(dtype))]
            inputs = [x, *weights, b.const(b.normal(d, 8 * hidden) * 0.2), b.pick(lengths, ""), *states]
            inputs += [b.const(b.normal(d, 3 * hidden) * 0.2), *scales]
            y = b.op(
                "DynamicQuantizeLSTM", *inputs, domain=MS, outputs=3, hidden_size=hidden, direction=direction
            )
            outputs(b, y, 4, 3, 3)
    return [f.values]


@kind()
def normalizations(b):
    """SkipLayerNormalization and its simplified forms, with all their outputs."""
    n, s, width = 2, int(b.rng.integers(2, 6)), int(b.rng.integers(5, 40))
    f = Feeds(b)
    x = f.normal(n, s, width)
    skips = [f.normal(n, s, width), f.normal(1, s, width), f.normal(s, width)]
    gamma, beta, bias = b.weight(width, fan_in=1), b.bias(width), b.bias(width)
    for skip in skips:
        for tail in ([beta, bias], ["", bias], [beta], []):
            y = b.op("SkipLayerNormalization", x, skip, gamma, *tail, domain=MS, outputs=4, epsilon=b.pick(1e-12, 0.01))
            outputs(b, [y[0], y[3]], 3, 3)
        for tail in ([bias], []):
            y = b.op("SkipSimplifiedLayerNormalization", x, skip, gamma, *tail, domain=MS, outputs=4, epsilon=1e-5)
            outputs(b, [y[0], y[3]], 3, 3)
    outputs(b, b.op("SimplifiedLayerNormalization", x, gamma, outputs=2, epsilon=1e-4), 3, 3)
    table = b.weight(s, width, fan_in=1)
    outputs(b, b.op("SimplifiedLayerNormalization", x, table, outputs=2, axis=1), 3, 3)
    return [f.values]


@kind()
def group_norms(b):
    """GroupNorm and SkipGroupNorm (computed here)."""
    n, h, w, groups = 2, int(b.rng.integers(1, 6)), int(b.rng.integers(1, 6)), b.pick(1, 2, 4)
    channels = groups * int(b.rng.integers(1, 5))
    f = Feeds(b)
    expected = []
    gamma, beta, bias = (b.normal(channels) for _ in range(3))
    names = [f.add(a) for a in (gamma, beta, bias)]
    for last in (1, 0):
        for shape in (None, "whole", "rows", "ones"):
            x = b.normal(n, h, w, channels)
            attributes = {"groups": groups, "activation": b.pick(0, 1), "channels_last": last, "epsilon": 0.001}

            def place(a):
                return np.ascontiguousarray(a if last else a.transpose(0, 3, 1, 2))

            inputs, total = [f.add(place(x)), *names[:2]], x.astype(np.float64)
            if shape:
                skip = b.normal(n, *((h, w) if shape == "whole" else (1, 1)), channels)
                inputs.append(f.add(skip[:, 0, 0].copy() if shape == "rows" else place(skip)))
                total = total + skip
                if b.rng.random() < 0.5:
                    inputs.append(names[2])
                    total = total + bias
            y = b.op(
                "SkipGroupNorm" if shape else "GroupNorm", *inputs, domain=MS, outputs=2 if shape else 1, **attributes
            )
            outputs(b, y, 4, 4)
            parts = total.reshape(n, h * w, groups, -1)
            mean, variance = parts.mean((1, 3), keepdims=True), parts.var((1, 3), keepdims=True)
            result = ((parts - mean) / np.sqrt(variance + 0.001)).reshape(total.shape) * gamma + beta
            if attributes["activation"]:
                result = result / (1 + np.exp(-result))
            expected += [place(result)] + ([place(total)] if shape else [])
    return [f.values], [[e.astype(np.float32) for e in expected]]


@kind()
def before_the_standard(b):
    """LayerNormalization and ThresholdedRelu of ai.onnx in operator sets that have them not yet."""
    b.domains |= {"": b.pick(9, 14), MS: 1}
    f = Feeds(b)
    width = int(b.rng.integers(2, 40))
    x = f.normal(2, int(b.rng.integers(2, 7)), width)
    outputs(b, b.op("LayerNormalization", x, b.weight(width, fan_in=1), axis=b.pick(-1, 2)), 3)
    inputs = [x, b.weight(width, fan_in=1), b.bias(width)]
    outputs(b, b.op("LayerNormalization", *inputs, outputs=3, epsilon=1e-3), 3, 3, 3)
    if b.domains[""] < 10:
        outputs(b, b.op("ThresholdedRelu", x, alpha=0.3), 3)
    return [f.values]


@kind()
def exported(b):
    """What PyTorch's exporter writes with onnxruntime's symbols: Trilu, GridSample and Inverse."""
    f = Feeds(b)
    n, size = int(b.rng.integers(1, 4)), int(b.rng.integers(2, 9))
    square = f.add(b.normal(n, size, size) + 3 * np.eye(size, dtype=np.float32))
    outputs(b, b.op("Inverse", square, domain=MS), 3)
    for upper in (0, 1):
        k = b.pick([], [b.const(np.int64(b.rng.integers(-2, 3)))])
        outputs(b, b.op("Trilu", square, *k, domain=MS, upper=upper), 3)
    image, grid = f.normal(n, 3, 6, 7), f.add(uniform(b, n, 4, 5, 2, low=-1.2, high=1.2))
    for mode in ("bilinear", "nearest", "bicubic"):
        padding = b.pick("zeros", "border", "reflection")
        attributes = {"mode": mode, "padding_mode": padding, "align_corners": b.pick(0, 1)}
        outputs(b, b.op("GridSample", image, grid, domain=MS, **attributes), 4)
    return [f.values]


@kind()
def activations(b):
    """Gelu in its forms."""
    width = int(b.rng.integers(3, 50))
    f = Feeds(b)
    x = f.add(3 * b.normal(2, 3, width))
    for op, tail, attributes in (
        ("Gelu", [], {}),
        ("BiasGelu", [b.bias(width)], {}),
        ("FastGelu", [], {}),
        ("FastGelu", [b.bias(width)], {}),
        ("QuickGelu", [], {}),
        ("QuickGelu", [], {"alpha": -0.7}),
    ):
        outputs(b, b.op(op, x, *tail, domain=MS, **attributes), 3)
    return [f.values]


FUSED = [
    ("Relu", []),
    ("Tanh", []),
    ("Sigmoid", []),
    ("LeakyRelu", [0.2]),
    ("Clip", [-0.5, 0.7]),
    ("HardSigmoid", [0.3, 0.4]),
]
# Activation and its parameters by name, of FusedGemm alone.
FUSED_WITH_GEMM = [
    ("Elu", {"alpha": 0.7}),
    ("Celu", {"alpha": 0.6}),
    ("Selu", {"alpha": 1.5, "gamma": 1.2}),
    ("Softplus", {}),
    ("Softsign", {}),
    ("ThresholdedRelu", {"alpha": 0.3}),
]


@kind()
def fused_conv(b):
    """FusedConv through its activations, with and without a bias and a summand."""
    c, size = b.pick(2, 4), int(b.rng.integers(5, 9))
    f = Feeds(b)
    x, z = f.normal(2, c, size, size), f.normal(2, 4, size, size)
    for activation, params in FUSED:
        group = b.pick(1, 2)
        extra = {"activation_params": params} if params else {}
        inputs = [x, b.weight(4, c // group, 3, 3), b.pick("", b.bias(4)), b.pick("", z)]
        y = b.op("FusedConv", *inputs, domain=MS, activation=activation, group=group, pads=[1] * 4, **extra)
        outputs(b, y, 4)
    return [f.values]


@kind()
def fused_gemm(b):
    """FusedGemm through its activations, in the four transpositions."""
    m, k, n = (int(v) for v in b.rng.integers(2, 20, 3))
    f = Feeds(b)
    sides = [[f.normal(m, k), f.normal(k, m)], [f.normal(k, n), f.normal(n, k)]]
    shared = [(name, dict(zip(("alpha", "beta"), params))) for name, params in FUSED if name != "Clip"]
    for activation, params in shared + FUSED_WITH_GEMM:
        ta, tb = b.pick(0, 1), b.pick(0, 1)
        extra = {f"activation_{name}": value for name, value in params.items()}
        c = b.pick([], [b.bias(n)], [b.weight(m, n)], [b.weight(m, 1)])
        inputs = [sides[0][ta], sides[1][tb], *c]
        y = b.op(
            "FusedGemm", *inputs, domain=MS, activation=activation, transA=ta, transB=tb, alpha=0.5, beta=1.5, **extra
        )
        outputs(b, y, 2)
    return [f.values]


@kind()
def fused_matmul(b):
    """FusedMatMul with transposed matrices and batches."""
    n, o, m, k, c = (int(v) for v in b.rng.integers(2, 6, 5))
    f = Feeds(b)
    for batch_a, batch_b, ta, tb in itertools.product((0, 1), repeat=4):
        left, right = ([k, m] if ta else [m, k]), ([c, k] if tb else [k, c])
        a = [left[0], n, o, left[1]] if batch_a else [n, o, *left]
        d = [right[0], n, o, right[1]] if batch_b else [n, o, *right]
        attributes = {"transA": ta, "transB": tb, "transBatchA": batch_a, "transBatchB": batch_b}
        y = b.op("FusedMatMul", f.normal(*a), f.normal(*d), domain=MS, alpha=b.pick(1.0, 0.25), **attributes)
        outputs(b, y, 4)
    outputs(b, b.op("FusedMatMul", f.normal(m, k), f.normal(n, k, c), domain=MS, alpha=2.0), 3)
    return [f.values]


@kind()
def matmul_nbits(b):
    """MatMulNBits of 2, 4 and 8 bits: zero points absent, packed and as floats, a bias, an uneven last block."""
    k, n = int(b.rng.integers(17, 80)), int(b.rng.integers(3, 20))
    f = Feeds(b)
    x = f.normal(2, 3, k)
    for bits, zeros in itertools.product((2, 4, 8), ("none", "packed", "float")):
        block = b.pick(16, 32)
        blocks = -(-k // block)
        weight = b.rng.integers(0, 256, (n, blocks, block * bits // 8)).astype(np.uint8)
        scale = uniform(b, n, blocks, low=0.1, high=1.0) / 2**bits
        zero = ""
        if zeros == "packed":
            zero = b.const(b.rng.integers(0, 256, (n, -(-blocks * bits // 8))).astype(np.uint8))
        if zeros == "float" and bits < 8:  # onnxruntime has it for fewer bits
            zero = b.const(uniform(b, n, blocks, low=0.0, high=2.0**bits))
        inputs = [x, b.const(weight), b.const(scale), zero, "", b.pick("", b.bias(n))]
        outputs(b, b.op("MatMulNBits", *inputs, domain=MS, K=k, N=n, bits=bits, block_size=block), 3)
    return [f.values]


@kind()
def matmul_nbits_groups(b):
    """MatMulNBits whose rows belong to groups in any order, with zero points as floats (computed here)."""
    k, n, block = int(b.rng.integers(17, 80)), int(b.rng.integers(3, 20)), 16
    blocks = -(-k // block)
    f = Feeds(b)
    rows = b.normal(2, 3, k)
    x, expected = f.add(rows), []
    for bits in (2, 4, 8):
        q = b.rng.integers(0, 2**bits, (n, blocks * block))
        per_byte = 8 // bits
        weight = (q.reshape(n, blocks, -1, per_byte) << bits * np.arange(per_byte)).sum(-1).astype(np.uint8)
        scale, zero = uniform(b, n, blocks, low=0.1, high=1.0) / 2**bits, uniform(b, n, blocks, low=0.0, high=2.0**bits)
        group = ints(b, k, high=blocks)
        inputs = [x, b.const(weight), b.const(scale.astype(np.float32)), b.const(zero), b.const(group)]
        outputs(b, b.op("MatMulNBits", *inputs, domain=MS, K=k, N=n, bits=bits, block_size=block), 3)
        matrix = (q[:, :k] - zero.astype(np.float64)[:, group]) * scale.astype(np.float32)[:, group]
        expected.append((rows @ matrix.T).astype(np.float32))
    return [f.values], [expected]
