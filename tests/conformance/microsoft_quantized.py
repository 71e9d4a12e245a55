"""Kinds of graphs of com.microsoft: operators on tensors that are quantized as a whole.

Bytes come back as floats. onnxruntime rounds some steps in float32, so that one of 256 steps may differ.
"""

import numpy as np
from microsoft_base import MS, Feeds, kind, outputs, uniform
from onnx import TensorProto

ONE_STEP = 0.02  # outputs reach 50 at least


def draw_bytes(b, dtype, *shape):
    return b.rng.integers(np.iinfo(dtype).min, np.iinfo(dtype).max + 1, shape).astype(dtype)


def scaling(b, dtype, scale=None):
    """A scale and a zero point near the middle of the type."""
    middle = 0 if dtype == np.int8 else 128
    scale = uniform(b, low=0.01, high=0.03) if scale is None else np.float32(scale)
    return [b.const(scale), b.const(dtype(middle + b.rng.integers(-20, 21)))]


def output_bytes(b, y, rank):
    outputs(b, b.op("Cast", y, to=TensorProto.FLOAT), rank)


def part(b, shape):
    """A shape that broadcasts to `shape`."""
    kept = [d if b.rng.random() < 0.7 else 1 for d in shape]
    return kept[int(b.rng.integers(0, 2)) :]


@kind(tolerance=1e-6)
def quantize_linear(b):
    """QuantizeLinear and DequantizeLinear of com.microsoft, of bytes and of 16 bits, by tensor and by axis."""
    f = Feeds(b)
    shape = [int(v) for v in b.rng.integers(2, 9, 3)]
    x = f.normal(*shape)
    for dtype in (np.uint8, np.int8, np.uint16, np.int16):
        axis = int(b.rng.integers(0, 3))
        for part_shape in ([], [shape[axis]]):
            scale = b.const(uniform(b, *part_shape, low=0.01, high=0.03))
            middle = (np.iinfo(dtype).min + np.iinfo(dtype).max + 1) // 2
            zero = b.const((middle + b.rng.integers(-20, 21, part_shape)).astype(dtype))
            q = b.op("QuantizeLinear", x, scale, zero, domain=MS, axis=axis)
            outputs(b, b.op("DequantizeLinear", q, scale, zero, domain=MS, axis=axis), 3)
    return [f.values]


@kind(tolerance=1e-6)
def gather_block_quantized(b):
    """GatherBlockQuantized of tables of 2, 4 and 8 bits in bytes, with and without zero points."""
    f = Feeds(b)
    rows, words = int(b.rng.integers(5, 40)), int(b.rng.integers(1, 9))
    indices = f.add(b.rng.integers(-rows, rows, (2, int(b.rng.integers(1, 7)))).astype(np.int64))
    for bits in (2, 4, 8):
        for block in (16, 32):
            columns = 16 * words
            blocks, packed = -(-columns // block), 8 // bits
            table = b.const(draw_bytes(b, np.uint8, rows, columns // packed))
            inputs = [table, indices, b.const(uniform(b, rows, blocks))]
            zeros = b.const(draw_bytes(b, np.uint8, rows, -(-blocks // packed)))
            attributes = {"bits": bits, "block_size": block, "domain": MS}
            for more in ([], [zeros]):
                outputs(b, b.op("GatherBlockQuantized", *inputs, *more, **attributes), 3)
    return [f.values]


@kind(tolerance=1e-5)
def q_embed_layer_norm(b):
    """QEmbedLayerNormalization with and without segments and a mask."""
    f = Feeds(b)
    n, length, hidden = 2, int(b.rng.integers(2, 9)), int(b.rng.integers(3, 30))
    words = f.add(b.rng.integers(0, 17, (n, length)).astype(np.int32))
    types = f.add(b.rng.integers(0, 2, (n, length)).astype(np.int32))
    mask = f.add(np.sort(b.rng.integers(0, 2, (n, length)), axis=1)[:, ::-1].astype(np.int32))
    for segments, masked in ((1, 1), (1, 0), (0, 1)):
        dtype = b.pick(np.uint8, np.int8)
        shapes = [(17, hidden), (11, hidden), (2, hidden), (hidden,), (hidden,)]
        tables = [b.const(draw_bytes(b, dtype, *shape)) for shape in shapes]
        scales = [scaling(b, dtype) for _ in shapes]
        if not segments:
            tables[2], scales[2] = "", ["", ""]
        inputs = [words, types if segments else "", *tables, mask if masked else ""]
        inputs += [s[0] for s in scales] + [s[1] for s in scales]
        y, count = b.op("QEmbedLayerNormalization", *inputs, domain=MS, outputs=2, epsilon=1e-5)
        outputs(b, y, 3)
        b.output(count, TensorProto.INT32, rank=1)
    return [f.values]


@kind(tolerance=ONE_STEP)
def q_linear_where(b):
    """QLinearWhere: broadcasting, constants, and operands that have the scale of the result already."""
    f = Feeds(b)
    shape = [int(v) for v in b.rng.integers(2, 12, 3)]
    inputs = {dtype: f.add(draw_bytes(b, dtype, *shape)) for dtype in (np.uint8, np.int8)}
    for dtype, full in inputs.items():
        for _ in range(4):
            condition = b.const(b.rng.random(part(b, shape)) < 0.5)
            other = b.const(draw_bytes(b, dtype, *part(b, shape)))
            operands = b.pick([full, other], [other, full])
            result = scaling(b, dtype)
            own = [b.pick(result, scaling(b, dtype)) for _ in operands]
            y = b.op("QLinearWhere", condition, operands[0], *own[0], operands[1], *own[1], *result, domain=MS)
            output_bytes(b, y, 3)
    return [f.values]


@kind(tolerance=ONE_STEP)
def q_linear_elementwise(b):
    """QLinearAdd, QLinearMul, QLinearSigmoid, QLinearLeakyRelu and QLinearConcat."""
    f = Feeds(b)
    shape = [int(v) for v in b.rng.integers(2, 12, 3)]
    for dtype in (np.uint8, np.int8):
        x, quantized = f.add(draw_bytes(b, dtype, *shape)), scaling(b, dtype)
        for op in ("QLinearAdd", "QLinearMul"):
            other = b.const(draw_bytes(b, dtype, *part(b, shape)))
            y = b.op(op, x, *quantized, other, *scaling(b, dtype), *scaling(b, dtype), domain=MS)
            output_bytes(b, y, 3)
        y = b.op("QLinearSigmoid", x, *quantized, *scaling(b, dtype, 1 / 200), domain=MS)
        output_bytes(b, y, 3)
        y = b.op("QLinearLeakyRelu", x, *quantized, *scaling(b, dtype), domain=MS, alpha=b.pick(0.1, 0.3))
        output_bytes(b, y, 3)
        axis = int(b.rng.integers(0, 3))
        more = list(shape)
        more[axis] = int(b.rng.integers(1, 9))
        other = b.const(draw_bytes(b, dtype, *more))
        y = b.op("QLinearConcat", *scaling(b, dtype), x, *quantized, other, *scaling(b, dtype), domain=MS, axis=axis)
        output_bytes(b, y, 3)
    return [f.values]


@kind(tolerance=ONE_STEP)
def q_linear_pools(b):
    """QLinearAveragePool, with windows that end beyond the padding, and QLinearGlobalAveragePool."""
    f = Feeds(b)
    shape = [2, int(b.rng.integers(1, 20)), int(b.rng.integers(6, 15)), int(b.rng.integers(6, 15))]
    for dtype in (np.uint8, np.int8):
        x = f.add(draw_bytes(b, dtype, *shape))
        scales = [*scaling(b, dtype), *scaling(b, dtype, 0.02)]
        for ceil_mode in (0, 1):
            for include in (0, 1):
                kernel = [int(v) for v in b.rng.integers(1, 4, 2)]
                attributes = {
                    "kernel_shape": kernel,
                    "strides": [int(v) for v in b.rng.integers(1, 4, 2)],
                    "pads": [k // 2 for k in kernel] * 2,
                }
                y = b.op(
                    "QLinearAveragePool",
                    *[x, *scales],
                    domain=MS,
                    ceil_mode=ceil_mode,
                    count_include_pad=include,
                    **attributes,
                )
                output_bytes(b, y, 4)
        y = b.op("QLinearGlobalAveragePool", x, *scales[:2], *scaling(b, dtype, 0.005), domain=MS)
        output_bytes(b, y, 4)
    return [f.values]


@kind(tolerance=ONE_STEP)
def channels_last(b):
    """QLinearConv with channels last, followed by NhwcMaxPool, and QLinearConv of com.microsoft as the standard's."""
    f = Feeds(b)
    groups, size = b.pick(1, 2), [int(v) for v in b.rng.integers(6, 15, 2)]
    channels, filters = groups * int(b.rng.integers(1, 9)), groups * int(b.rng.integers(1, 9))
    kernel = [int(v) for v in b.rng.integers(1, 4, 2)]
    for dtype in (np.uint8, np.int8):
        weights = b.const(b.rng.integers(-64, 65, (filters, channels // groups, *kernel)).astype(np.int8))
        per_channel = b.pick([], [filters])
        inputs = [*scaling(b, dtype), weights, b.const(uniform(b, *per_channel, low=0.002, high=0.01))]
        inputs += [b.const(np.zeros(per_channel, np.int8)), *scaling(b, dtype, 0.05)]
        inputs.append(b.const(b.rng.integers(-500, 501, filters).astype(np.int32)))
        window = {"strides": [b.pick(1, 2)] * 2, "pads": [k // 2 for k in kernel] * 2}
        for last in (1, 0):
            x = f.add(draw_bytes(b, dtype, *([2, *size, channels] if last else [2, channels, *size])))
            y = b.op("QLinearConv", x, *inputs, domain=MS, channels_last=last, group=groups, **window)
            output_bytes(b, y, 4)
            if last:
                pool = {"kernel_shape": [2, 3], "strides": [2, 1], "ceil_mode": b.pick(0, 1)}
                output_bytes(b, b.op("NhwcMaxPool", y, domain=MS, **pool), 4)
    return [f.values]


@kind(tolerance=ONE_STEP)
def q_linear_softmax(b):
    """QLinearSoftmax over one axis and over all behind it."""
    f = Feeds(b)
    shape = [int(v) for v in b.rng.integers(2, 6, 3)]
    for dtype, zero in ((np.uint8, 0), (np.int8, -128)):
        x, quantized = f.add(draw_bytes(b, dtype, *shape)), scaling(b, dtype)
        result = [b.const(np.float32(b.pick(1 / 255, 1 / 256, 0.0045))), b.const(dtype(zero))]
        for opset in (12, 13):
            axis = int(b.rng.integers(0, 3))
            y = b.op("QLinearSoftmax", x, *quantized, *result, domain=MS, axis=axis, opset=opset)
            output_bytes(b, y, 3)
    return [f.values]
