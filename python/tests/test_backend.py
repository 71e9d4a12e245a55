"""quern.backend, and arrays of element types below a byte."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import quern
import quern.backend

ml_dtypes = pytest.importorskip("ml_dtypes")


def model(nodes, inputs, outputs, opset=25):
    make = helper.make_tensor_value_info
    graph = helper.make_graph(nodes, "g", [make(*i) for i in inputs], [make(*o) for o in outputs])
    return helper.make_model(graph, ir_version=11, opset_imports=[helper.make_opsetid("", opset)])


def test_prepared_models_run_on_lists_and_dicts():
    m = model(
        [helper.make_node("Sub", ["a", "b"], ["y"])],
        [("a", TensorProto.FLOAT, [2]), ("b", TensorProto.FLOAT, [2])],
        [("y", TensorProto.FLOAT, [2])],
    )
    a, b = np.float32([3, 4]), np.float32([1, 1])
    rep = quern.backend.prepare(m)
    np.testing.assert_array_equal(rep.run([a, b])[0], [2, 3])
    np.testing.assert_array_equal(rep.run({"b": b, "a": a}).y, [2, 3])
    with pytest.raises(ValueError, match="3 inputs given; the model has 2: a, b"):
        rep.run([a, b, b])
    np.testing.assert_array_equal(quern.backend.run_model(m, [a, b])["y"], [2, 3])


def test_one_node_runs_in_its_newest_version_or_the_given_one():
    x = np.float32([[-1, 2]])
    node = helper.make_node("Softmax", ["x"], ["y"])
    expected = np.exp(x) / np.exp(x).sum()
    for more in ({}, {"opset_version": 11}):
        np.testing.assert_allclose(quern.backend.run_node(node, [x], **more)[0], expected, rtol=1e-6)


def test_devices_and_compatibility():
    assert quern.backend.supports_device("CPU") and quern.backend.supports_device("CPU:0")
    assert not quern.backend.supports_device("CUDA")
    unknown = model([helper.make_node("NoSuch", ["a"], ["y"])], [("a", 1, [1])], [("y", 1, [1])])
    assert not quern.backend.is_compatible(unknown)
    with pytest.raises(ValueError, match="CUDA"):
        quern.backend.prepare(unknown, "CUDA")


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("int4", TensorProto.INT4),
        ("uint4", TensorProto.UINT4),
        ("int2", TensorProto.INT2),
        ("uint2", TensorProto.UINT2),
        ("float4_e2m1fn", TensorProto.FLOAT4E2M1),
        ("float6_e2m3fn", TensorProto.FLOAT6E2M3),
        ("float6_e3m2fn", TensorProto.FLOAT6E3M2),
    ],
)
@pytest.mark.parametrize("count", [1, 5, 8])
def test_elements_below_a_byte_go_both_ways(name, number, count):
    dtype = getattr(ml_dtypes, name)
    values = np.array([-2, 1, 0, -1, 1, 0, 1, -2] if not name.startswith("u") else [3, 1, 0, 2, 1, 0, 1, 3])[:count]
    x = values.astype(np.float32).astype(dtype)
    m = model([helper.make_node("Identity", ["x"], ["y"])], [("x", number, [count])], [("y", number, [count])])
    (y,) = quern.InferenceSession(m.SerializeToString()).run(None, {"x": x})
    assert y.dtype == x.dtype and y.shape == (count,)
    np.testing.assert_array_equal(y.astype(np.float32), values)


def test_plain_integers_stand_for_elements_below_a_byte():
    m = model([helper.make_node("Cast", ["x"], ["y"], to=1)], [("x", TensorProto.INT4, [3])], [("y", 1, [3])])
    session = quern.InferenceSession(m.SerializeToString())
    np.testing.assert_array_equal(session.run(None, {"x": np.int8([-8, 7, -1])})[0], [-8, 7, -1])
    with pytest.raises(quern.InvalidArgument, match="one byte for each"):
        session.run(None, {"x": np.int64([1, 2, 3])})
    with pytest.raises(quern.InvalidArgument, match=r"\[3\]|shape"):
        session.run(None, {"x": np.int8([1, 2])})


def test_the_suite_of_onnx_accepts_the_backend():
    assert issubclass(quern.backend.QuernBackend, onnx.backend.base.Backend)
