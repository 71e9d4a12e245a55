"""Fills the `light` models of the ONNX suite, whose weights are constants, with seeded normals.

In these files every weight is a ConstantOfShape node of one value, so that a swapped channel or a wrong stride changes
nothing. Here each becomes an initializer that keeps the activations of a deep network in range.
"""

import zlib

import numpy as np
import onnx
from graph_builder import run_onnxruntime
from onnx import numpy_helper


def draw(rng, shape, use):
    """A weight of `shape` for its use, (operator, input index): variances and scales are near one and positive."""
    normal = rng.standard_normal(shape)
    if use == ("BatchNormalization", 4):
        array = (1 + 0.2 * normal) ** 2 + 0.05
    elif use in {("BatchNormalization", 1), ("Mul", 0), ("Mul", 1)}:
        array = 1 + 0.1 * normal
    elif len(shape) >= 2:
        array = normal * np.sqrt(2 / np.prod(shape[1:]))
    else:
        array = 0.1 * normal
    return array.astype(np.float32)


def users_of(graph):
    """Value -> (node, input index) of its first user."""
    users = {}
    for node in graph.node:
        for index, name in enumerate(node.input):
            users.setdefault(name, (node, index))
    return users


def use_of(users, name):
    """(operator, input index) of a value, seen through what only gives it another shape."""
    node, index = users[name]
    return use_of(users, node.output[0]) if node.op_type in {"Unsqueeze", "Reshape"} else (node.op_type, index)


def fill(model, seed=0):
    """The model with its ConstantOfShape nodes replaced by initializers; `model` is changed and returned."""
    graph = model.graph
    shapes = {i.name: numpy_helper.to_array(i) for i in graph.initializer}
    users = users_of(graph)
    weights, kept = [], []
    for node in graph.node:
        if node.op_type != "ConstantOfShape":
            kept.append(node)
            continue
        name = node.output[0]
        rng = np.random.default_rng(zlib.crc32(f"{seed}/{name}".encode()))
        weights.append(numpy_helper.from_array(draw(rng, tuple(shapes[node.input[0]]), use_of(users, name)), name))
    if not weights:
        raise ValueError("no ConstantOfShape nodes; is this one of the light models?")
    del graph.node[:]
    graph.node.extend(kept)
    graph.initializer.extend(weights)
    used = {name for node in kept for name in node.input}
    initializers = [i for i in graph.initializer if i.name in used]
    given = {i.name for i in graph.initializer}
    inputs = [i for i in graph.input if i.name not in given]
    for field, left in ((graph.initializer, initializers), (graph.input, inputs)):
        del field[:]
        field.extend(left)
    model.ir_version = max(model.ir_version, 4)  # an initializer need not be an input
    return model


def feed(model, seed, scale):
    """Seeded normals for the model's inputs, times `scale`: deep networks of random weights tell little else apart."""
    rng = np.random.default_rng(seed)
    return {
        i.name: (scale * rng.standard_normal([d.dim_value for d in i.type.tensor_type.shape.dim])).astype(np.float32)
        for i in model.graph.input
    }


def soften(model, feed):
    """Scales the last Gemm so that the Softmax after it, if there is one, does not give a single one."""
    graph = model.graph
    last = graph.node[-1]
    gemm = next((n for n in graph.node if last.op_type == "Softmax" and n.output[0] == last.input[0]), None)
    if gemm is None or gemm.op_type != "Gemm":
        return
    whole = list(graph.output)
    del graph.output[:]
    graph.output.append(onnx.helper.make_tensor_value_info(gemm.output[0], onnx.TensorProto.FLOAT, None))
    scale = 2 / np.std(run_onnxruntime(model, [feed])[0][0])
    del graph.output[:]
    graph.output.extend(whole)
    for i in graph.initializer:
        if i.name in gemm.input[1:]:
            i.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(i) * np.float32(scale), i.name))


def load(path):
    """The filled model and two feeds whose outputs must differ."""
    model = fill(onnx.load(path))
    feeds = [feed(model, 1, 1), feed(model, 2, 3)]
    soften(model, feeds[0])
    return model, feeds
