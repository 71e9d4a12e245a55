"""The Python package: names of onnxruntime, arrays without copies, all kinds of values, errors as exceptions."""

import pathlib
import sys
import threading

import numpy as np
import pytest
import quern

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402
from quern import _quern  # noqa: E402
from quern._values import from_value, to_value  # noqa: E402

MODELS = pathlib.Path(__file__).resolve().parents[2] / "models"


def model_bytes(nodes, inputs, outputs, initializers=(), opset=17):
    graph = helper.make_graph(nodes, "g", inputs, outputs, list(initializers))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    model.ir_version = 8
    return model.SerializeToString()


def info(name, shape, dtype=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, dtype, shape)


def one_node(op, x_dtype=TensorProto.FLOAT, y_dtype=None, shape=("n", 3), y_shape=None, **attributes):
    """A session of a single operator on one input."""
    node = helper.make_node(op, ["x"], ["y"], **attributes)
    y_dtype = x_dtype if y_dtype is None else y_dtype
    y = info("y", list(shape) if y_shape is None else y_shape, y_dtype)
    return quern.InferenceSession(model_bytes([node], [info("x", list(shape), x_dtype)], [y]))


@pytest.fixture(scope="module")
def digits():
    return quern.InferenceSession(MODELS / "digits.onnx")


@pytest.fixture(scope="module")
def images():
    return np.load(MODELS / "heldout_images.npy")


def test_classifies_digits(digits, images):
    labels = np.load(MODELS / "heldout_labels.npy")
    (probability,) = digits.run(None, {"image": images})
    assert probability.dtype == np.float32 and probability.shape == (len(images), 10)
    assert (probability.argmax(1) == labels).mean() > 0.95
    np.testing.assert_allclose(probability.sum(1), 1, atol=1e-5)


def test_describes_inputs_and_outputs(digits):
    (image,) = digits.get_inputs()
    assert (image.name, image.type, image.shape) == ("image", "tensor(float)", ["batch", 1, 8, 8])
    (probability,) = digits.get_outputs()
    assert probability.name == "probability" and probability.shape[1] == 10
    assert digits.get_providers() == ["cpu", "reference"]
    assert quern.__version__.count(".") == 2


def test_loads_bytes_and_options(images):
    options = quern.SessionOptions()
    options.intra_op_num_threads = 2
    options.log_severity_level = 3
    data = (MODELS / "digits.onnx").read_bytes()
    session = quern.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    reference = quern.InferenceSession(str(MODELS / "digits.onnx"), providers=["reference"])
    expected = reference.run(None, {"image": images[:4]})
    np.testing.assert_allclose(session.run(["probability"], {"image": images[:4]})[0], expected[0], atol=1e-5)
    with pytest.raises(TypeError):
        quern.InferenceSession(3)


def test_passes_can_be_left_out(images):
    options = quern.SessionOptions()
    options.skip_passes = ["fold_constants", "cpu_fuse_epilogue", "cpu_fuse_elementwise"]
    options.serial_branches = True
    feeds = {"image": images[:4]}
    result = quern.InferenceSession(MODELS / "digits.onnx", options).run(["probability"], feeds)
    expected = quern.InferenceSession(MODELS / "digits.onnx").run(["probability"], feeds)
    np.testing.assert_allclose(result[0], expected[0], atol=1e-5)
    options.skip_passes = ["cpu_convert_windows"]
    with pytest.raises(quern.InvalidArgument, match="pass cpu_convert_windows cannot be left out"):
        quern.InferenceSession(MODELS / "digits.onnx", options)


def test_denormals_are_kept_or_flushed():
    x = np.full((4, 8), 1e-39, np.float32)
    node = helper.make_node("Add", ["x", "x"], ["y"])
    model = model_bytes([node], [info("x", ["n", 8], TensorProto.FLOAT)], [info("y", ["n", 8], TensorProto.FLOAT)])
    options = quern.SessionOptions()
    assert (quern.InferenceSession(model, options).run(None, {"x": x})[0] == x + x).all()
    options.add_session_config_entry("session.set_denormal_as_zero", "1")
    assert options.flush_denormals
    assert options.get_session_config_entry("session.set_denormal_as_zero") == "1"
    assert (quern.InferenceSession(model, options).run(None, {"x": x})[0] == 0).all()
    assert x[0, 0] + x[0, 0] > x[0, 0], "the thread is as it was"


def test_products_of_denormals_are_zero_unless_kept():
    x, w = np.full((4, 8), 1e-39, np.float32), np.eye(8, dtype=np.float32)
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    model = model_bytes([node], [info("x", ["n", 8])], [info("y", ["n", 8])], [numpy_helper.from_array(w, "w")])
    options = quern.SessionOptions()
    assert (quern.InferenceSession(model, options).run(None, {"x": x})[0] == 0).all()
    options.keep_denormals = True
    assert (quern.InferenceSession(model, options).run(None, {"x": x})[0] == x).all()
    options.flush_denormals = True
    with pytest.raises(quern.InvalidArgument, match="exclude each other"):
        quern.InferenceSession(model, options)


@pytest.mark.parametrize(
    "view",
    [
        lambda a: a[:, ::2],  # gaps
        lambda a: a.T,
        lambda a: a[::-1],  # negative strides
        lambda a: np.broadcast_to(a[:1], a.shape),
        lambda a: a.astype(">f4"),
        lambda a: np.frombuffer(b"\0" + a.tobytes(), np.uint8)[1:].view(np.float32).reshape(a.shape),  # not aligned
    ],
)
def test_takes_arrays_of_any_layout(view):
    session = one_node("Neg", shape=("n", "m"))
    array = view(np.arange(24, dtype=np.float32).reshape(4, 6))
    (y,) = session.run(None, {"x": array})
    np.testing.assert_array_equal(y, -np.asarray(array))


def test_results_outlive_the_session_and_are_their_own():
    session = one_node("Identity")
    x = np.ones((2, 3), np.float32)
    (y,) = session.run(None, {"x": x})
    x[:] = 5
    assert (y == 1).all(), "the result must not be the caller's memory"
    y += 1
    del session
    assert (y == 2).all()


@pytest.mark.parametrize("view", [lambda a: a, lambda a: a[:, ::2], lambda a: a.T, lambda a: a[1:]])
def test_feeds_are_not_copied(view):
    session = one_node("Neg", shape=("n", "m"))
    x = view(np.arange(24, dtype=np.float32).reshape(4, 6))
    fed = to_value(x, session.get_inputs()[0]).to_array()
    assert np.shares_memory(x, fed)
    np.testing.assert_array_equal(x, fed)
    value = _quern.Value.array(x)
    assert np.shares_memory(x, value.to_array())


def test_results_are_not_copied():
    (array,) = one_node("Neg").run(None, {"x": np.ones((2, 3), np.float32)})
    assert not array.flags.owndata and array.flags.writeable  # the memory is the result's own
    array[0, 0] = 7
    assert array[0, 0] == 7 and array[1, 2] == -1
    value = _quern.Value.array(array)
    again = from_value(value)
    del value, array
    assert again[0, 0] == 7 and again[1, 2] == -1


def test_limits(tmp_path):
    data = model_bytes([helper.make_node("Neg", ["x"], ["y"])], [info("x", [2])], [info("y", [2])])
    (tmp_path / "m.onnx").write_bytes(data)
    options = quern.SessionOptions()
    options.limits = {"model_bytes": len(data), "nodes": 1}
    quern.InferenceSession(data, options)
    options.limits["model_bytes"] -= 1
    for source in (data, tmp_path / "m.onnx"):
        with pytest.raises(quern.ResourceExhausted, match="limit"):
            quern.InferenceSession(source, options)
    options.limits = {"model_bites": 1}
    with pytest.raises(quern.InvalidArgument, match="model_bites.*model_bytes"):
        quern.InferenceSession(data, options)


def test_initializers_that_are_inputs():
    weights = numpy_helper.from_array(np.array([10, 20], np.float32), "w")
    nodes = [helper.make_node("Mul", ["x", "w"], ["y"])]
    data = model_bytes(nodes, [info("x", [2]), info("w", [2])], [info("y", [2])], [weights])
    x, w = np.array([1, 2], np.float32), np.array([3, 4], np.float32)
    session = quern.InferenceSession(data)
    assert [port.name for port in session.get_inputs()] == ["x"] and session.get_overridable_initializers() == []
    assert session.run(None, {"x": x})[0].tolist() == [10, 40]
    with pytest.raises(quern.InvalidArgument, match="'w' is an initializer .* overridable_initializers"):
        session.run(None, {"x": x, "w": w})
    options = quern.SessionOptions()
    options.overridable_initializers = True
    session = quern.InferenceSession(data, options)
    assert [port.name for port in session.get_inputs()] == ["x"]
    assert [port.name for port in session.get_overridable_initializers()] == ["w"]
    assert session.run(None, {"x": x, "w": w})[0].tolist() == [3, 8]
    assert session.run(None, {"x": x})[0].tolist() == [10, 40]


def test_inputs_are_not_kept():
    session = one_node("Neg")
    x = np.ones((2, 3), np.float32)
    before = sys.getrefcount(x)
    for _ in range(10):
        session.run(None, {"x": x})
    assert sys.getrefcount(x) == before


@pytest.mark.parametrize(
    "dtype",
    ["float32", "float64", "float16", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "bool"],
)
def test_element_types(dtype):
    number = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    session = one_node("Identity", number)
    x = np.array([[0, 1, 1], [1, 0, 1]]).astype(dtype)
    (y,) = session.run(None, {"x": x})
    assert y.dtype == x.dtype
    np.testing.assert_array_equal(y, x)


def test_bfloat16():
    session = one_node("Identity", TensorProto.BFLOAT16)
    try:
        import ml_dtypes

        x = np.array([[1.5, -2, 3]], ml_dtypes.bfloat16)
    except ImportError:
        x = np.array([[0x3FC0, 0xC000, 0x4040]], np.uint16)
    (y,) = session.run(None, {"x": x})
    assert y.dtype == x.dtype
    np.testing.assert_array_equal(y.view(np.uint16), x.view(np.uint16))


def test_strings():
    session = one_node("Identity", TensorProto.STRING)
    for x in (np.array([["a", "bc", "grüß"]]), np.array([["a", "bc", "grüß"]], object)):
        (y,) = session.run(None, {"x": x})
        assert y.dtype == object and y.tolist() == [["a", "bc", "grüß"]]


def test_sequences():
    ports = [helper.make_tensor_sequence_value_info(name, TensorProto.FLOAT, None) for name in "st"]
    session = quern.InferenceSession(model_bytes([helper.make_node("Identity", ["s"], ["t"])], ports[:1], ports[1:]))
    assert session.get_inputs()[0].type == "seq(tensor(float))"
    parts = [np.ones((2, 3), np.float32), np.arange(2, dtype=np.float32)]
    (got,) = session.run(None, {"s": parts})
    parts[0][:] = 5
    assert isinstance(got, list) and len(got) == 2
    np.testing.assert_array_equal(got[0], np.ones((2, 3)))  # not the caller's memory
    np.testing.assert_array_equal(got[1], [0, 1])
    assert session.run(None, {"s": []}) == [[]]


def test_maps():
    """A map in, its values in the order of a vocabulary, and a map per row out; numbers are of the declared type."""
    declared = helper.make_map_type_proto(TensorProto.STRING, helper.make_tensor_type_proto(TensorProto.FLOAT, None))
    nodes = [
        helper.make_node("DictVectorizer", ["x"], ["v"], domain="ai.onnx.ml", string_vocabulary=["a", "b"]),
        helper.make_node("ZipMap", ["v"], ["y"], domain="ai.onnx.ml", classlabels_int64s=[7, 8]),
    ]
    maps = helper.make_map_type_proto(TensorProto.INT64, helper.make_tensor_type_proto(TensorProto.FLOAT, None))
    ports = [helper.make_value_info(*p) for p in (("x", declared), ("y", helper.make_sequence_type_proto(maps)))]
    domains = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 1)]
    model = helper.make_model(helper.make_graph(nodes, "g", ports[:1], ports[1:]), opset_imports=domains, ir_version=8)
    session = quern.InferenceSession(model.SerializeToString())
    assert session.get_inputs()[0].type == "map(string,tensor(float))"
    assert session.get_outputs()[0].type == "seq(map(int64,tensor(float)))"
    assert session.run(None, {"x": {"b": 2.5, "c": 3}}) == [[{7: 0.0, 8: 2.5}]]
    assert session.run(None, {"x": {}}) == [[{7: 0.0, 8: 0.0}]]
    for wrong in ({1: 2.0}, {"a": np.float64(1).reshape(1)}, {"a": "text"}):
        with pytest.raises(quern.InvalidArgument, match="input 'x' is a map<string,f32.*its elements are others"):
            session.run(None, {"x": wrong})


def test_maps_in_sequences():
    """Rows of a classifier whose labels are strings, one of them twice: the last column of a label counts."""
    zipped = helper.make_node("ZipMap", ["x"], ["y"], domain="ai.onnx.ml", classlabels_strings=["b", "a", "b"])
    maps = helper.make_map_type_proto(TensorProto.STRING, helper.make_tensor_type_proto(TensorProto.FLOAT, None))
    ports = [info("x", [None, 3]), helper.make_value_info("y", helper.make_sequence_type_proto(maps))]
    domains = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 1)]
    graph = helper.make_graph([zipped], "g", ports[:1], ports[1:])
    session = quern.InferenceSession(helper.make_model(graph, opset_imports=domains, ir_version=8).SerializeToString())
    (rows,) = session.run(None, {"x": np.arange(6, dtype=np.float32).reshape(2, 3)})
    assert rows == [{"b": 2.0, "a": 1.0}, {"b": 5.0, "a": 4.0}]
    assert all(type(v) is float for row in rows for v in row.values())


def test_picks_outputs_by_name():
    nodes = [helper.make_node("Neg", ["x"], ["a"]), helper.make_node("Abs", ["x"], ["b"])]
    session = quern.InferenceSession(model_bytes(nodes, [info("x", [2])], [info("a", [2]), info("b", [2])]))
    x = np.array([1, -2], np.float32)
    b, a = session.run(["b", "a"], {"x": x})
    assert a.tolist() == [-1, 2] and b.tolist() == [1, 2]
    (b,) = session.run(["b"], {"x": x})
    assert b.tolist() == [1, 2]
    with pytest.raises(quern.InvalidArgument, match="'c'.*'a', 'b'"):
        session.run(["c"], {"x": x})


def test_errors_are_python_exceptions(digits, images, tmp_path):
    with pytest.raises(ValueError, match="'picture'.*'image'"):
        digits.run(None, {"picture": images})
    with pytest.raises(quern.InvalidArgument, match="'image'"):
        digits.run(None, {})
    with pytest.raises(quern.InvalidArgument, match="f64"):
        digits.run(None, {"image": images.astype(np.float64)})
    with pytest.raises(quern.InvalidArgument, match="shape"):
        digits.run(None, {"image": images[0]})
    with pytest.raises(FileNotFoundError):
        quern.InferenceSession(tmp_path / "missing.onnx")
    with pytest.raises(quern.CorruptModel):
        quern.InferenceSession((MODELS / "digits.onnx").read_bytes()[:300])
    unknown = helper.make_node("NoSuchOperator", ["x"], ["y"], name="odd")
    with pytest.raises(NotImplementedError, match="odd"):
        quern.InferenceSession(model_bytes([unknown], [info("x", [1])], [info("y", [1])]))
    assert issubclass(quern.Unsupported, quern.QuernError)


def test_threads_share_a_session(digits, images):
    expected = digits.run(None, {"image": images})[0]
    wrong = []

    def work(k):
        for i in range(k, 40, 4):
            got = digits.run(None, {"image": images[i : i + 8]})[0]
            if not np.allclose(got, expected[i : i + 8], atol=1e-6):
                wrong.append(i)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_run_lets_other_threads_go_on():
    """The GIL is not held: a Python thread counts while a product of some size is computed."""
    n = 1024
    weights = numpy_helper.from_array(np.ones((n, n), np.float32), "w")
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"])]
    session = quern.InferenceSession(model_bytes(nodes, [info("x", [n, n])], [info("y", [n, n])], [weights]))
    x = np.ones((n, n), np.float32)
    done, counted = threading.Event(), []

    def count():
        while not done.is_set():
            counted.append(None)
            done.wait(1e-4)

    thread = threading.Thread(target=count)
    thread.start()
    while not counted:
        pass
    sys.setswitchinterval(60)  # nobody is made to give the GIL up
    try:
        before = len(counted)
        for _ in range(3):
            session.run(None, {"x": x})
        during = len(counted) - before
    finally:
        sys.setswitchinterval(0.005)
        done.set()
        thread.join()
    assert during > 0


def test_facts(digits):
    facts = digits.facts("compiled")
    assert facts["version"] == 1
    kernels = [n["kernel"] for n in facts["compiled"]["nodes"]]
    assert any(k.startswith(("gemm_", "conv_", "dwconv_")) for k in kernels), kernels
    assert quern.cpu_facts("haswell")["arch"] == "x86-64"
    choice = quern.kernel_facts("haswell", "gemm", (128, 768, 768), "f32,f32,f32")["selection"]["call"]["chosen"]
    assert choice.endswith("_avx2")
