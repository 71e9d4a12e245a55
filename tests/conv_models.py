"""Single convolutions as models: the shapes that MLAS is quoted for, batch 1, with the image's channels first or last.

Channels last is what a model says that has a Transpose on either side; an engine may do without them or not.
"""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

# name: input channels, output channels, kernel, stride, pad, input height and width
CASES = {
    "3x3": (64, 64, 3, 1, 1, 56),
    "3x3_stride2": (64, 64, 3, 2, 1, 56),
    "stem_7x7": (3, 64, 7, 2, 3, 224),
    "1x1": (64, 256, 1, 1, 0, 56),
}
NAMES = [f"conv_{case}_{layout}" for case in CASES for layout in ("nchw", "nhwc")]


def load(name):
    """The model of one of NAMES with seeded weights and bias, and one seeded input."""
    case, layout = name.removeprefix("conv_").rsplit("_", 1)
    channels, results, kernel, stride, pad, side = CASES[case]
    random = np.random.default_rng(3)
    fan_in = channels * kernel * kernel
    weights = (random.standard_normal((results, channels, kernel, kernel)) / np.sqrt(fan_in)).astype(np.float32)
    bias = random.standard_normal(results).astype(np.float32)
    last = layout == "nhwc"
    extent = (side + 2 * pad - kernel) // stride + 1
    attributes = {"strides": [stride] * 2, "pads": [pad] * 4, "kernel_shape": [kernel] * 2}
    operand, output = ("first", "second") if last else ("image", "result")
    nodes = [helper.make_node("Conv", [operand, "weights", "bias"], [output], **attributes)]
    if last:
        nodes.insert(0, helper.make_node("Transpose", ["image"], ["first"], perm=[0, 3, 1, 2]))
        nodes.append(helper.make_node("Transpose", ["second"], ["result"], perm=[0, 2, 3, 1]))
    shape = [1, side, side, channels] if last else [1, channels, side, side]
    out = [1, extent, extent, results] if last else [1, results, extent, extent]
    graph = helper.make_graph(
        nodes,
        name,
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("result", TensorProto.FLOAT, out)],
        [numpy_helper.from_array(weights, "weights"), numpy_helper.from_array(bias, "bias")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    return model, [{"image": random.standard_normal(shape).astype(np.float32)}]
