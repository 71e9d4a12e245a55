#!/usr/bin/env python3
"""Writes models of one node each, for operators alone beside other engines.

    operator_models.py OUT [NAME...]     all of them, or those whose names begin with a NAME

    tests/operator_models.py build/operators
    bench/compare/compare.py --setup --threads 1 --alternations 3 --block 0.05 build/operators

Weights, indices and other constants are seeded; inputs are what compare.py draws. Names say what an operator takes:
`softmax_200x128` is Softmax over the last axis of [200, 128]. Layouts are ONNX's, channels first: a convolution or pool
alone pays for two transposes that a whole model does not have.
"""

import argparse
import pathlib

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

FLOAT, INT64, INT32 = TensorProto.FLOAT, TensorProto.INT64, TensorProto.INT32
BOOL, UINT8 = TensorProto.BOOL, TensorProto.UINT8
MICROSOFT = "com.microsoft"
IMAGE = (1, 64, 56, 56)

MODELS = {}
random = np.random.default_rng(0)


def normal(*shape):
    return random.standard_normal(shape).astype(np.float32)


def ints(*numbers):
    return np.array(numbers, dtype=np.int64)


def add(name, op, inputs, attributes=None, outputs=1, result=FLOAT, opset=21, domain=""):
    """An input is a shape (of floats), a pair of type and shape, an array (a constant) or None (omitted)."""
    names, arguments, constants = [], [], []
    for i, value in enumerate(inputs):
        name_of_input = "" if value is None else f"x{i}"
        names.append(name_of_input)
        if isinstance(value, np.ndarray | np.generic):
            constants.append(numpy_helper.from_array(np.asarray(value), name_of_input))
        elif value is not None:
            dtype, shape = value if isinstance(value[-1], tuple) else (FLOAT, value)
            arguments.append(helper.make_tensor_value_info(name_of_input, dtype, shape))
    results = [f"y{i}" for i in range(outputs)]
    node = helper.make_node(op, names, results, domain=domain, **(attributes or {}))
    values = [helper.make_tensor_value_info("y0", result, None)]
    values += [helper.make_empty_tensor_value_info(r) for r in results[1:]]
    imports = [helper.make_opsetid("", opset)] + ([helper.make_opsetid(domain, 1)] if domain else [])
    graph = helper.make_graph([node], name, arguments, values, constants)
    MODELS[name] = helper.make_model(graph, opset_imports=imports, ir_version=10)


def elementwise():
    for op in (
        "Abs Acos Acosh Asin Asinh Atan Atanh Ceil Celu Cos Cosh Elu Erf Exp Floor Gelu HardSigmoid HardSwish "
        "LeakyRelu Log Mish Neg Reciprocal Relu Round Selu Sigmoid Sign Sin Sinh Softplus Softsign Sqrt Tan Tanh"
    ).split():
        add(f"unary_{op}", op, [IMAGE])
    for op in ("IsNaN", "IsInf"):
        add(f"unary_{op}", op, [IMAGE], result=BOOL)
    add("unary_Not", "Not", [(BOOL, IMAGE)], result=BOOL)
    for op in "Add Sub Mul Div Pow Max Min PRelu".split():
        add(f"binary_{op}", op, [IMAGE, IMAGE])
        add(f"channels_{op}", op, [IMAGE, (64, 1, 1)])
    add("binary_Mod", "Mod", [IMAGE, IMAGE], {"fmod": 1})
    for op in "Greater Less Equal GreaterOrEqual".split():
        add(f"binary_{op}", op, [IMAGE, IMAGE], result=BOOL)
    for op in "And Or Xor".split():
        add(f"binary_{op}", op, [(BOOL, IMAGE), (BOOL, IMAGE)], result=BOOL)
    add("where", "Where", [(BOOL, IMAGE), IMAGE, IMAGE])
    add("where_mask", "Where", [(BOOL, (1, 1, 128, 128)), (1, 12, 128, 128), np.float32(-1e9)])
    add("clip", "Clip", [IMAGE, np.float32(-1), np.float32(1)])
    add("cast_to_i64", "Cast", [IMAGE], {"to": INT64}, result=INT64)
    add("cast_from_i64", "Cast", [(INT64, (200000,))], {"to": FLOAT})
    add("cast_from_bool", "Cast", [(BOOL, (200000,))], {"to": FLOAT})
    for op in ("Add", "Mul", "Div"):
        add(f"i64_{op}", op, [(INT64, (100000,)), ints(7)], result=INT64)


def reductions():
    for op in "Sum Mean Max Min Prod L1 L2 SumSquare LogSumExp".split():
        for name, axes in (("last", (-1,)), ("image", (2, 3)), ("channels", (1,))):
            add(f"reduce_{op}_{name}", f"Reduce{op}", [IMAGE, ints(*axes)])
    for axis in (-1, 1):
        name = "last" if axis < 0 else "channels"
        add(f"argmax_{name}", "ArgMax", [(1, 21, 128, 128)], {"axis": axis}, result=INT64)
        add(f"softmax_{name}", "Softmax", [(1, 21, 128, 128)], {"axis": axis})
        add(f"log_softmax_{name}", "LogSoftmax", [(1, 21, 128, 128)], {"axis": axis})
        add(f"cumsum_{name}", "CumSum", [(1, 64, 56, 56), np.int64(axis)])
    for lines, length in ((1000, 10), (400, 64), (200, 128), (200, 197), (64, 1000)):
        add(f"softmax_{lines}x{length}", "Softmax", [(lines, length)], {"axis": -1})
    for name, shape, axis, k in (
        ("topk_5_of_1000", (64, 1000), -1, 5),
        ("topk_300_of_8400", (1, 8400), -1, 300),
        ("topk_3_of_50_channels", (1, 50, 56, 56), 1, 3),
        ("topk_all_of_4096", (16, 4096), -1, 4096),
    ):
        add(name, "TopK", [shape, ints(k)], {"axis": axis}, outputs=2)


def norms():
    for length, lines in ((768, 197), (64, 3136)):
        add(f"layer_norm_{length}", "LayerNormalization", [(1, lines, length), normal(length), normal(length)])
    add("rms_norm", "RMSNormalization", [(1, 197, 768), normal(768)], opset=23)
    add("instance_norm", "InstanceNormalization", [IMAGE, normal(64), normal(64)])
    add("group_norm", "GroupNormalization", [IMAGE, normal(64), normal(64)], {"num_groups": 32})
    four = [normal(64), normal(64), normal(64), abs(normal(64))]
    add("batch_norm", "BatchNormalization", [IMAGE, *four])
    add("lrn", "LRN", [IMAGE], {"size": 5})
    add("mean_variance", "MeanVarianceNormalization", [IMAGE])


def pools():
    for op in ("MaxPool", "AveragePool"):
        for kernel, stride, size in ((2, 2, 112), (3, 2, 112), (3, 1, 56), (5, 1, 40), (13, 1, 20)):
            pads = [kernel // 2 if kernel > 2 else 0] * 4
            window = {"kernel_shape": [kernel] * 2, "strides": [stride] * 2, "pads": pads}
            add(f"{op}_{kernel}_stride{stride}", op, [(1, 64, size, size)], window)
        add(f"{op}_1d", op, [(1, 64, 3000)], {"kernel_shape": [3], "strides": [2]})
        add(f"{op}_3d", op, [(1, 16, 16, 56, 56)], {"kernel_shape": [2] * 3, "strides": [2] * 3})
        add(f"Global{op}", f"Global{op}", [(1, 512, 14, 14)])


def movement():
    for order, shape in (
        ("0231", IMAGE),
        ("0312", (1, 56, 56, 64)),
        ("0213", (1, 128, 12, 64)),
        ("10", (768, 768)),
        ("024135", (1, 14, 4, 14, 4, 96)),
        ("3210", (16, 16, 32, 32)),
    ):
        add(f"transpose_{order}", "Transpose", [shape], {"perm": [int(c) for c in order]})
    for axis in (1, 3):
        add(f"concat_{axis}", "Concat", [IMAGE, IMAGE], {"axis": axis})
    add("split_channels", "Split", [(1, 192, 56, 56)], {"axis": 1, "num_outputs": 3}, outputs=3)
    add("slice_steps", "Slice", [(1, 64, 112, 112), ints(0, 0), ints(112, 112), ints(2, 3), ints(2, 2)])
    for mode in ("constant", "reflect", "edge"):
        add(f"pad_{mode}", "Pad", [IMAGE, ints(0, 0, 1, 1, 0, 0, 1, 1)], {"mode": mode})
    add("tile", "Tile", [(1, 64, 14, 14), ints(1, 1, 4, 4)])
    add("expand", "Expand", [(1, 64, 1, 56), ints(*IMAGE)])
    add("depth_to_space", "DepthToSpace", [IMAGE], {"blocksize": 2})
    add("gather_rows", "Gather", [normal(5000, 768), (INT64, (1, 128))])
    add("gather_columns", "Gather", [(64, 1000), random.integers(0, 1000, 200)], {"axis": 1})
    add("gather_elements", "GatherElements", [(64, 1000), random.integers(0, 1000, (64, 500))], {"axis": 1})
    places = np.stack([random.integers(0, 64, 5000), random.integers(0, 1000, 5000)], 1)
    add("gather_nd", "GatherND", [(64, 1000), places])
    orders = np.stack([random.permutation(1000)[:500] for _ in range(64)])
    add("scatter_elements", "ScatterElements", [(64, 1000), orders, (64, 500)], {"axis": 1})
    add("scatter_nd_add", "ScatterND", [(64, 1000), places, (5000,)], {"reduction": "add"})
    add("one_hot", "OneHot", [(INT64, (128,)), np.int64(1000), np.array([0, 1], np.float32)])
    add("non_zero", "NonZero", [(BOOL, (64, 1000))], result=INT64)
    add("unique", "Unique", [(INT64, (5000,))], outputs=4, result=INT64)
    add("trilu", "Trilu", [(12, 256, 256)])


def images():
    for name, attributes in (
        ("nearest", {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}),
        ("linear", {"mode": "linear"}),
        ("cubic", {"mode": "cubic"}),
    ):
        for direction, shape, scale in (("up", (1, 64, 28, 28), 2), ("down", (1, 3, 256, 256), 0.4)):
            scales = np.array([1, 1, scale, scale], np.float32)
            add(f"resize_{direction}_{name}", "Resize", [shape, None, scales], attributes)
    add("grid_sample", "GridSample", [IMAGE, (1, 56, 56, 2)])
    boxes = np.array([[0, 0, 20, 20], [5, 5, 40, 40], [10, 3, 30, 49]] * 30, np.float32)
    size = {"output_height": 7, "output_width": 7, "sampling_ratio": 2}
    add("roi_align", "RoiAlign", [(1, 256, 50, 50), boxes, np.zeros(90, np.int64)], size)
    corners = random.random((2000, 2))
    boxes = np.concatenate([corners, corners + 0.1], -1)[None].astype(np.float32)
    limits = [np.int64(100), np.float32(0.5), np.float32(0)]
    add("non_max_suppression", "NonMaxSuppression", [boxes, (1, 1, 2000), *limits], result=INT64)


def products():
    for m, k, n in ((1, 1024, 1024), (128, 768, 768), (64, 64, 64), (1, 768, 3072), (7, 300, 50), (1000, 3, 16)):
        add(f"product_{m}x{k}x{n}", "MatMul", [(m, k), normal(k, n)])
        add(f"product_of_inputs_{m}x{k}x{n}", "MatMul", [(m, k), (k, n)])
    add("batched_product", "MatMul", [(12, 128, 64), (12, 64, 128)])
    add("small_products", "MatMul", [(1000, 4, 8), (1000, 8, 4)])
    for m in (1, 128):
        weights = random.integers(0, 255, (4096, 64, 16)).astype(np.uint8)
        scales = (random.random(4096 * 64) * 0.01).astype(np.float32)
        for level in (0, 4):
            form = {"N": 4096, "K": 2048, "bits": 4, "block_size": 32, "accuracy_level": level}
            add(f"nbits_{m}_accuracy{level}", "MatMulNBits", [(1, m, 2048), weights, scales], form, domain=MICROSOFT)
    add("attention", "Attention", [(1, 12, 128, 64)] * 3, opset=23)
    for op, gates in (("LSTM", 4), ("GRU", 3), ("RNN", 1)):
        weights = [normal(1, gates * 128, 128) * 0.1, normal(1, gates * 128, 128) * 0.1]
        add(f"recurrent_{op}", op, [(50, 1, 128), *[w.astype(np.float32) for w in weights]], {"hidden_size": 128}, 2)


def convolutions():
    for name, image, kernel, attributes in (
        ("3x3", IMAGE, (64, 64, 3, 3), {"pads": [1] * 4}),
        ("1x1", IMAGE, (256, 64, 1, 1), {}),
        ("stem", (1, 3, 224, 224), (64, 3, 7, 7), {"pads": [3] * 4, "strides": [2, 2]}),
        ("depthwise_3x3", (1, 128, 56, 56), (128, 1, 3, 3), {"pads": [1] * 4, "group": 128}),
        ("depthwise_7x7", (1, 96, 56, 56), (96, 1, 7, 7), {"pads": [3] * 4, "group": 96}),
        ("groups_of_4", (1, 128, 28, 28), (128, 4, 3, 3), {"pads": [1] * 4, "group": 32}),
        ("dilated", (1, 64, 28, 28), (64, 64, 3, 3), {"pads": [2] * 4, "dilations": [2, 2]}),
        ("1d", (1, 80, 3000), (384, 80, 3), {"pads": [1] * 2}),
        ("1d_of_one_channel", (1, 1, 16000), (128, 1, 10), {"strides": [5]}),
        ("3d", (1, 16, 8, 28, 28), (32, 16, 3, 3, 3), {"pads": [1] * 6}),
        ("patches", (1, 3, 224, 224), (768, 3, 16, 16), {"strides": [16, 16]}),
    ):
        add(f"conv_{name}", "Conv", [image, normal(*kernel)], attributes)
    for name, kernel, attributes in (
        ("2x2", (64, 32, 2, 2), {"strides": [2, 2]}),
        ("4x4", (64, 32, 4, 4), {"strides": [2, 2], "pads": [1] * 4}),
        ("depthwise", (64, 1, 4, 4), {"strides": [2, 2], "pads": [1] * 4, "group": 64}),
    ):
        add(f"conv_transpose_{name}", "ConvTranspose", [(1, 64, 28, 28), normal(*kernel)], attributes)
    window = {"kernel_shape": [3, 3], "pads": [1] * 4}
    add("deform_conv", "DeformConv", [(1, 64, 28, 28), normal(64, 64, 3, 3), (1, 18, 28, 28)], window, opset=22)


def signals():
    for length, complex_parts in ((64, 2), (256, 1), (400, 1), (512, 1), (1024, 1), (4096, 2)):
        form = {"onesided": 2 - complex_parts}
        add(f"dft_{length}", "DFT", [(1, 100, length, complex_parts), None, np.int64(2)], form)
    add("dft_of_columns", "DFT", [(1, 64, 256, 2), None, np.int64(1)])
    for length, step, samples in ((400, 160, 48000), (512, 128, 16000), (1024, 256, 22050)):
        window = np.hanning(length).astype(np.float32)
        add(f"stft_{length}", "STFT", [(1, samples, 1), np.int64(step), window, np.int64(length)])
    for op in ("RandomNormalLike", "RandomUniformLike"):
        add(f"random_{op}", op, [IMAGE], {"seed": 1.0})


def integers():
    scale, zero = np.float32(0.1), np.uint8(3)
    add("quantize", "QuantizeLinear", [IMAGE, scale, zero], result=UINT8)
    add("dequantize", "DequantizeLinear", [(UINT8, IMAGE), scale, zero])
    add("dynamic_quantize", "DynamicQuantizeLinear", [IMAGE], outputs=3, result=UINT8)
    weights = random.integers(-127, 127, (768, 768)).astype(np.int8)
    add("integer_product", "MatMulInteger", [(UINT8, (128, 768)), weights], result=INT32)
    add("linear_add", "QLinearAdd", [(UINT8, IMAGE), scale, zero] * 2 + [scale, zero], result=UINT8, domain=MICROSOFT)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("names", nargs="*", help="beginnings of names; default: all models")
    args = parser.parse_args()
    groups = (elementwise, reductions, norms, pools, movement, images, products, convolutions, signals, integers)
    for group in groups:
        group()
    chosen = [n for n in MODELS if not args.names or n.startswith(tuple(args.names))]
    if not chosen:
        parser.error(f"no model's name begins with {' or '.join(args.names)}; there are {', '.join(MODELS)}")
    for name in chosen:
        folder = args.out / name
        folder.mkdir(parents=True, exist_ok=True)
        onnx.save(MODELS[name], folder / "model.onnx")
    print(f"{len(chosen)} models in {args.out}")


if __name__ == "__main__":
    main()
