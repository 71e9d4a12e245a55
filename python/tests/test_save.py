"""Models that are written: onnx's checker takes them, onnxruntime computes the same, and the text stays."""

import pathlib

import numpy as np
import pytest
import quern

onnx = pytest.importorskip("onnx")
ort = pytest.importorskip("onnxruntime")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

MODELS = pathlib.Path(__file__).resolve().parents[2] / "models"
FLOAT, BOOL, INT64 = TensorProto.FLOAT, TensorProto.BOOL, TensorProto.INT64


def info(name, shape, dtype=FLOAT):
    return helper.make_tensor_value_info(name, dtype, shape)


def model_of(nodes, inputs, outputs, initializers=(), functions=(), opset=17, ir_version=8, full_check=True, **more):
    graph = helper.make_graph(nodes, "g", inputs, outputs, list(initializers), **more)
    imports = [helper.make_opsetid("", opset), helper.make_opsetid("local", 1)]
    made = helper.make_model(graph, opset_imports=imports, functions=list(functions), ir_version=ir_version)
    onnx.checker.check_model(made, full_check=full_check)
    return made


def check(path):
    """Everything that onnx can object to."""
    onnx.checker.check_model(str(path), full_check=True)
    loaded = onnx.load(str(path))
    onnx.shape_inference.infer_shapes(loaded, check_type=True, strict_mode=True, data_prop=True)
    return loaded


def run_ort(source, feeds):
    options = ort.SessionOptions()
    # Without it products of uint8 by int8 saturate on x86-64 without VNNI.
    options.add_session_config_entry("session.x64quantprecision", "1")
    options.log_severity_level = 3
    source = source.SerializeToString() if isinstance(source, onnx.ModelProto) else str(source)
    return ort.InferenceSession(source, options, providers=["CPUExecutionProvider"]).run(None, feeds)


def check_saved(source, tmp_path, feeds, **options):
    """Saves `source` at both stages, checks, runs everywhere; returns the loaded ModelProto of the file stage."""
    proto = source if isinstance(source, onnx.ModelProto) else onnx.load(str(source))
    expected = run_ort(proto, feeds)
    model = quern.Model(proto.SerializeToString())
    loaded = {}
    for stage in ("file", "neutral"):
        path = tmp_path / f"{stage}.onnx"
        model.save(path, stage=stage, **options)
        loaded[stage] = check(path)
        for result in (run_ort(path, feeds), quern.InferenceSession(path).run(None, feeds)):
            for want, got in zip(expected, result, strict=True):
                np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
    saved = quern.Model(tmp_path / "file.onnx")
    assert saved.text(full_constants=True) == model.text(full_constants=True)
    return loaded["file"]


@pytest.mark.parametrize("name", ["digits", "digits_qdq"])
@pytest.mark.parametrize("external", [False, True])
def test_shipped_models(name, external, tmp_path):
    images = np.load(MODELS / "heldout_images.npy")[:8]
    source = MODELS / f"{name}.onnx"
    original = onnx.load(str(source))
    saved = check_saved(source, tmp_path, {"image": images}, external_data=external)
    assert (tmp_path / "file.onnx.data").exists() == external
    before, after = ({t.name: numpy_helper.to_array(t) for t in m.graph.initializer} for m in (original, saved))
    assert before.keys() == after.keys()
    for key, array in before.items():
        assert array.dtype == after[key].dtype and array.tobytes() == after[key].tobytes()


def test_options(tmp_path):
    model = quern.Model(MODELS / "digits.onnx")
    model.save(tmp_path / "m.onnx", external_data=True, external_bytes=1, external_name="weights.bin")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["m.onnx", "weights.bin"]
    tensors = onnx.load(tmp_path / "m.onnx", load_external_data=False).graph.initializer
    assert {e.value for t in tensors for e in t.external_data if e.key == "location"} == {"weights.bin"}
    model.save(tmp_path / "m.txt", format="text")
    text = (tmp_path / "m.txt").read_text()
    assert text == model.text(full_constants=True)
    parsed = quern.Model.parse(text)
    assert parsed.text() == model.text()
    images = np.load(MODELS / "heldout_images.npy")[:4]
    results = [quern.InferenceSession(m).run(None, {"image": images})[0] for m in (model, parsed)]
    np.testing.assert_array_equal(*results)
    assert model.facts()["nodes"] == parsed.facts()["nodes"]
    plain, fused = tmp_path / "plain.onnx", tmp_path / "fused.onnx"
    model.save(plain, stage="neutral", skip_passes=["fuse_conv_batch_norm", "fold_constants"])
    model.save(fused, stage="neutral")
    assert len(onnx.load(plain).graph.node) >= len(onnx.load(fused).graph.node)
    with pytest.raises(quern.InvalidArgument, match="stage"):
        model.save(tmp_path / "x.onnx", stage="no such")
    with pytest.raises(quern.NotFound):
        model.save(tmp_path / "no" / "x.onnx")
    with pytest.raises(TypeError):
        quern.Model(3)
    with pytest.raises(quern.QuernError):
        quern.Model.parse("graph {")


def test_subgraphs(tmp_path):
    node = helper.make_node
    k = numpy_helper.from_array(np.array([2.0], np.float32), "k")

    def branch(op, *inputs):
        return helper.make_graph([node(op, list(inputs), ["b"])], op, [], [info("b", None)])

    body = helper.make_graph(
        [node("Add", ["v", "r"], ["w"]), node("Identity", ["p"], ["q"]), node("Mul", ["w", "k"], ["s"])],
        "body",
        [info("i", [], INT64), info("p", [], BOOL), info("v", None)],
        [info("q", [], BOOL), info("w", None), info("s", None)],
    )
    nodes = [
        node("If", ["c"], ["r"], then_branch=branch("Neg", "x"), else_branch=branch("Add", "x", "k")),
        node("Loop", ["m", "", "x"], ["y", "all"], body=body),
    ]
    made = model_of(
        nodes,
        [info("c", [], BOOL), info("x", ["n"]), info("m", [], INT64)],
        [info("y", ["n"]), info("all", ["t", "n"])],
        [k],
    )
    for choice in (True, False):
        feeds = {"c": np.array(choice), "x": np.arange(3, dtype=np.float32), "m": np.array(2)}
        check_saved(made, tmp_path, feeds)


def test_sequences_and_optionals(tmp_path):
    node = helper.make_node
    sequence = helper.make_sequence_type_proto(helper.make_tensor_type_proto(FLOAT, ["n"]))
    optional = helper.make_optional_type_proto(helper.make_tensor_type_proto(FLOAT, ["n"]))
    nodes = [
        node("SequenceConstruct", ["a", "a"], ["fixed"]),
        node("SequenceInsert", ["fixed", "x"], ["s"]),
        node("SequenceAt", ["s", "two"], ["y"]),
        node("Optional", ["y"], ["o"]),
        node("OptionalGetElement", ["o"], ["z"]),
    ]
    made = model_of(
        nodes,
        [info("x", ["n"])],
        [info("z", ["n"]), helper.make_value_info("s", sequence)],
        [numpy_helper.from_array(np.ones(3, np.float32), "a"), numpy_helper.from_array(np.array(2), "two")],
        value_info=[helper.make_value_info("o", optional)],
    )
    feeds = {"x": np.arange(3, dtype=np.float32)}
    want = run_ort(made, feeds)
    model = quern.Model(made.SerializeToString())
    for stage in ("file", "neutral"):
        model.save(tmp_path / "m.onnx", stage=stage)
        check(tmp_path / "m.onnx")
        got = run_ort(tmp_path / "m.onnx", feeds)
        np.testing.assert_array_equal(got[0], want[0])
        assert len(got[1]) == 3
        for a, b in zip(got[1], want[1], strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(
    "dtype",
    [
        TensorProto.FLOAT16,
        TensorProto.BFLOAT16,
        TensorProto.FLOAT8E4M3FN,
        TensorProto.FLOAT8E5M2FNUZ,
        TensorProto.INT4,
        TensorProto.UINT4,
        TensorProto.FLOAT4E2M1,
        TensorProto.FLOAT6E2M3,
        TensorProto.FLOAT6E3M2,
        TensorProto.UINT2,
        TensorProto.INT2,
        TensorProto.DOUBLE,
        TensorProto.COMPLEX64,
        TensorProto.UINT64,
        TensorProto.BOOL,
        TensorProto.STRING,
    ],
)
def test_element_types(dtype, tmp_path):
    """Tensors that onnx packs are those that Quern writes, byte for byte; in a graph that returns them."""
    values = [b"a", b"", b"\xc3\xa9"] if dtype == TensorProto.STRING else [1, 0, 1]
    tensor = helper.make_tensor("w", dtype, [3], values)
    graph = helper.make_graph([], "g", [], [info("w", [3], dtype)], [tensor])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 28)], ir_version=14)
    quern.Model(made.SerializeToString()).save(tmp_path / "m.onnx")
    (saved,) = check(tmp_path / "m.onnx").graph.initializer
    if dtype == TensorProto.STRING:
        assert list(saved.string_data) == values
    else:
        assert numpy_helper.to_array(saved).tobytes() == numpy_helper.to_array(tensor).tobytes()


def test_functions(tmp_path):
    """Calls in calls and in subgraphs, attributes passed on and by default, overloads."""
    node, imports = helper.make_node, [helper.make_opsetid("", 17), helper.make_opsetid("local", 1)]

    def refer(to, name, of, kind=onnx.AttributeProto.FLOAT):
        to.attribute.append(onnx.AttributeProto(name=name, ref_attr_name=of, type=kind))
        return to

    leaky = refer(node("LeakyRelu", ["a"], ["t"]), "alpha", "slope")
    inner = helper.make_function(
        "local", "Inner", ["a", "b"], ["r"], [leaky, node("Mul", ["t", "b"], ["r"])], imports, ["slope"]
    )
    call = refer(node("Inner", ["x", "x"], ["u"], "in", domain="local"), "slope", "k")
    other = node("Inner", ["x", "s"], ["u"], domain="local", slope=0.25)
    then, otherwise = (helper.make_graph([n], "b", [], [info("u", None)]) for n in (call, other))
    choose = node("If", ["c"], ["w"], then_branch=then, else_branch=otherwise)
    outer = helper.make_function(
        "local", "Outer", ["c", "x"], ["w", "s"], [node("Neg", ["x"], ["s"]), choose], imports, []
    )
    outer.attribute_proto.append(helper.make_attribute("k", 0.5))
    nodes = [
        node("Outer", ["c", "x"], ["p", "q"], "one", domain="local"),
        node("Outer", ["c", "q"], ["y", ""], "two", domain="local", k=2.0),
    ]
    made = model_of(
        nodes, [info("c", [], BOOL), info("x", ["n"])], [info("y", ["n"]), info("p", ["n"])], (), [inner, outer]
    )
    for choice in (True, False):
        feeds = {"c": np.array(choice), "x": np.array([-1, 0, 2], np.float32)}
        saved = check_saved(made, tmp_path, feeds)
        assert not saved.functions
        assert {"one/If", "two/If"} <= {n.name for n in saved.graph.node}


def test_recursive_functions_are_named():
    call = [helper.make_node("F", ["a"], ["b"], domain="local")]
    function = helper.make_function("local", "F", ["a"], ["b"], call, [helper.make_opsetid("local", 1)])
    graph = helper.make_graph(
        [helper.make_node("F", ["x"], ["y"], domain="local")], "g", [info("x", [1])], [info("y", [1])]
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("local", 1)], functions=[function])
    with pytest.raises(quern.InvalidArgument, match=r"circle: local\.F -> local\.F"):
        quern.Model(made.SerializeToString())


def test_sparse_tensors(tmp_path):
    values = helper.make_tensor("w", FLOAT, [2], [1.0, 2.0])
    for dims, places in (([2], [1, 5]), ([2, 2], [[0, 1], [1, 2]])):
        indices = helper.make_tensor("i", INT64, dims, np.array(places).flatten())
        sparse = helper.make_sparse_tensor(values, indices, [2, 3])
        nodes = [
            helper.make_node("Constant", [], ["c"], sparse_value=sparse),
            helper.make_node("Add", ["x", "w"], ["t"]),
            helper.make_node("Mul", ["t", "c"], ["y"]),
        ]
        ends = [info("x", [2, 3])], [info("y", [2, 3])]
        made = model_of(nodes, *ends, sparse_initializer=[sparse], full_check=False)  # onnx infers no dense form
        x = np.arange(6, dtype=np.float32).reshape(2, 3)
        dense = np.array([[0, 1, 0], [0, 0, 2]], np.float32)
        np.testing.assert_array_equal(run_ort(made, {"x": x})[0], (x + dense) * dense)
        model = quern.Model(made.SerializeToString())
        for stage in ("file", "neutral"):
            model.save(tmp_path / "m.onnx", stage=stage)
            check(tmp_path / "m.onnx")
            for y in (run_ort(tmp_path / "m.onnx", {"x": x}), quern.InferenceSession(model).run(None, {"x": x})):
                np.testing.assert_array_equal(y[0], (x + dense) * dense)
