#!/usr/bin/env python3
"""Writes the seeds of the fuzz targets to fuzz/corpus/ (needs the onnx package). The files are checked in."""

import pathlib

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
CORPUS = pathlib.Path(__file__).resolve().parent / "corpus"


def info(name, shape, dtype=FLOAT):
    return helper.make_tensor_value_info(name, dtype, shape)


def model(nodes, inputs, outputs, initializers=(), opset=17, **more):
    graph = helper.make_graph(nodes, "g", inputs, outputs, list(initializers), **more)
    imports = [helper.make_opsetid("", opset), helper.make_opsetid("ai.onnx.ml", 3)]
    return helper.make_model(graph, opset_imports=imports, ir_version=8)


def constant(name, values, dtype=np.float32):
    return numpy_helper.from_array(np.array(values, dtype), name)


def branch(op, output, *inputs):
    return helper.make_graph([helper.make_node(op, list(inputs), [output])], op, [], [info(output, None)])


def models():
    node = helper.make_node
    x = info("x", ["n", 3])
    y = info("y", None)
    yield "add", model([node("Add", ["x", "b"], ["y"])], [x], [y], [constant("b", [1, 2, 3])])
    typed = helper.make_tensor("b", FLOAT, [3], [1.0, 2.0, 3.0])
    yield "typed", model([node("Mul", ["x", "b"], ["t"]), node("Relu", ["t"], ["y"])], [x], [y], [typed])
    image = info("x", [1, 2, 6, 6])
    weight = constant("w", np.arange(36).reshape(2, 2, 3, 3))
    conv = node("Conv", ["x", "w"], ["t"], pads=[1, 1, 1, 1], strides=[2, 2])
    pool = node("MaxPool", ["t"], ["y"], kernel_shape=[2, 2])
    yield "conv", model([conv, pool], [image], [y], [weight])
    yield "gemm", model(
        [node("Gemm", ["x", "w", "b"], ["t"], transB=1), node("Softmax", ["t"], ["y"], axis=-1)],
        [x],
        [y],
        [constant("w", np.ones((2, 3))), constant("b", [1, 2])],
    )
    choose = node("If", ["c"], ["y"], then_branch=branch("Neg", "a", "x"), else_branch=branch("Add", "b", "x", "k"))
    yield "if", model([choose], [info("c", [], BOOL), x], [y], [constant("k", [1])])
    body = helper.make_graph(
        [node("Add", ["v", "x"], ["w"]), node("Identity", ["p"], ["q"]), node("Identity", ["w"], ["s"])],
        "body",
        [info("i", [], INT64), info("p", [], BOOL), info("v", None)],
        [info("q", [], BOOL), info("w", None), info("s", None)],
    )
    loop = node("Loop", ["m", "", "x"], ["y", "all"], body=body)
    yield "loop", model([loop], [x], [y, info("all", None)], [constant("m", 3, np.int64)])
    chain = [
        node("Shape", ["x"], ["s"]),
        node("Gather", ["s", "zero"], ["d"], axis=0),
        node("Concat", ["d", "minus"], ["r"], axis=0),
        node("Reshape", ["x", "r"], ["y"]),
    ]
    shapes = [constant("zero", [0], np.int64), constant("minus", [-1], np.int64)]
    yield "shape_chain", model(chain, [x], [y], shapes)
    slices = [constant(n, v, np.int64) for n, v in (("a", [0]), ("e", [-1]), ("ax", [1]), ("st", [1]))]
    yield "slice", model([node("Slice", ["x", "a", "e", "ax", "st"], ["y"])], [x], [y], slices)
    lstm = node("LSTM", ["x", "w", "r"], ["y", "", "c"], hidden_size=2, direction="forward")
    weights = [constant("w", np.ones((1, 8, 3))), constant("r", np.ones((1, 8, 2)))]
    yield "lstm", model([lstm], [info("x", [2, 1, 3])], [y, info("c", None)], weights)
    quantized = [
        node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        node("DequantizeLinear", ["q", "s", "z"], ["y"]),
    ]
    yield "qdq", model(quantized, [x], [y], [constant("s", 0.1), constant("z", 3, np.int8)])
    words = helper.make_tensor("t", TensorProto.STRING, [2], [b"a", b"b"])
    yield "strings", model([node("Identity", ["t"], ["y"])], [], [info("y", [2], TensorProto.STRING)], [words])
    sequence = helper.make_sequence_type_proto(helper.make_tensor_type_proto(FLOAT, None))
    optional = helper.make_value_info("o", helper.make_optional_type_proto(sequence))
    yield "optional", model([node("OptionalHasElement", ["o"], ["y"])], [optional], [info("y", [], BOOL)])
    outside = constant("b", [1, 2, 3])
    outside.ClearField("raw_data")
    outside.data_location = TensorProto.EXTERNAL
    for key, value in (("location", "../weights.bin"), ("offset", "0"), ("length", "12")):
        entry = outside.external_data.add()
        entry.key, entry.value = key, value
    yield "external", model([node("Add", ["x", "b"], ["y"])], [x], [y], [outside])
    yield "functions", functions()
    entries = helper.make_tensor("w", FLOAT, [2], [1.0, 2.0])
    for name, places in (("sparse_linear", [1, 2]), ("sparse_rows", [[0, 1], [0, 2]])):
        dims = [2] if name == "sparse_linear" else [2, 2]
        indices = helper.make_tensor("i", INT64, dims, np.array(places).flatten())
        sparse = helper.make_sparse_tensor(entries, indices, [1, 3])
        weights = helper.make_node("Constant", [], ["c"], sparse_value=sparse)
        add = [weights, node("Add", ["x", "w"], ["t"]), node("Add", ["t", "c"], ["y"])]
        yield name, model(add, [x], [y], sparse_initializer=[sparse])
    unsorted = [node("Neg", ["t"], ["y"]), node("Abs", ["x"], ["t"])]
    yield "unsorted", model(unsorted, [x], [y], value_info=[info("t", ["n", 3])])


def functions():
    """Calls in calls and in subgraphs, attributes that are passed on, defaults, overloads, types of values."""
    node, imports = helper.make_node, [helper.make_opsetid("", 17), helper.make_opsetid("local", 1)]

    def refer(to, name, of, kind):
        to.attribute.append(onnx.AttributeProto(name=name, ref_attr_name=of, type=kind))
        return to

    leaky = refer(node("LeakyRelu", ["a"], ["t"]), "alpha", "slope", onnx.AttributeProto.FLOAT)
    inner = helper.make_function(
        "local", "Inner", ["a"], ["r", "a"], [leaky, node("Neg", ["t"], ["r"])], imports, ["slope"]
    )
    inner.overload = "o"
    call = refer(node("Inner", ["b"], ["u", "v"], "in", domain="local", overload="o"), "slope", "k", 1)
    choose = node("If", ["c"], ["w"], else_branch=helper.make_graph([call], "e", [], [info("u", None)]))
    refer(choose, "then_branch", "g", onnx.AttributeProto.GRAPH)
    outer = helper.make_function("local", "Outer", ["c", "b", "z"], ["w"], [choose], imports, ["g"])
    outer.attribute_proto.append(helper.make_attribute("k", 0.5))
    outer.value_info.append(info("w", ["m", 3]))
    start = node("Outer", ["c", "x"], ["y"], "start", domain="local", g=branch("Abs", "t", "x"))
    made = model([start], [info("c", [], BOOL), info("x", ["n", 3])], [info("y", None)])
    made.opset_import.append(helper.make_opsetid("local", 1))
    made.functions.extend([inner, outer])
    made.ir_version = 10
    return made


def values():
    tensor = constant("t", [[1, 2], [3, 4]])
    yield "tensor", 0, tensor
    yield "typed", 0, helper.make_tensor("t", FLOAT, [2], [1.0, 2.0])
    yield "half", 0, helper.make_tensor("t", TensorProto.FLOAT16, [2], [1.0, 2.0])
    yield "int4", 0, helper.make_tensor("t", TensorProto.INT4, [3], [1, -2, 3])
    yield "complex", 0, helper.make_tensor("t", TensorProto.COMPLEX64, [1], [1 + 2j])
    yield "strings", 0, helper.make_tensor("t", TensorProto.STRING, [2], [b"a", b"bc"])
    yield "uint64", 0, helper.make_tensor("t", TensorProto.UINT64, [1], [2**64 - 1])
    sequence = onnx.SequenceProto(name="s", elem_type=1, tensor_values=[tensor, tensor])
    yield "sequence", 1, sequence
    yield "nested", 1, onnx.SequenceProto(elem_type=3, sequence_values=[sequence])
    yield "optional", 2, onnx.OptionalProto(elem_type=3, sequence_value=sequence)
    yield "none", 2, onnx.OptionalProto(elem_type=0)
    yield "map", 3, onnx.MapProto(key_type=7, keys=[1, 2], values=sequence)
    yield "string_map", 3, onnx.MapProto(key_type=8, string_keys=[b"a", b"b"], values=sequence)


def main():
    for target in ("onnx_reader", "load_run", "tensor_proto"):
        (CORPUS / target).mkdir(parents=True, exist_ok=True)
    for name, proto in models():
        for target in ("onnx_reader", "load_run"):
            (CORPUS / target / f"{name}.onnx").write_bytes(proto.SerializeToString())
    for name, kind, proto in values():
        (CORPUS / "tensor_proto" / name).write_bytes(bytes([kind]) + proto.SerializeToString())


if __name__ == "__main__":
    main()
