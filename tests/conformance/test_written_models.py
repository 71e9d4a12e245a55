"""Models as `quern convert` writes them, at both stages: onnx's checker and strict shape inference take what they take
of the source, onnxruntime computes the same, and reading it gives the same text.

QUERN_COMMAND is the command; QUERN_MODELS lists folders (separated by ':') that are searched for model.onnx files with
test_data_set_* beside them.
"""

import os
import pathlib
import re
import subprocess

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import numpy_helper

COMMAND = os.environ.get("QUERN_COMMAND", "quern")
FOLDERS = [pathlib.Path(top) for top in os.environ.get("QUERN_MODELS", "").split(":") if top]
MODELS = sorted(model for folder in FOLDERS for model in folder.rglob("model.onnx"))
LARGE = 64 << 20  # onnx's checks of larger models take minutes


def convert(*arguments):
    return subprocess.run([COMMAND, "convert", *map(str, arguments)], capture_output=True, text=True)


def objections(path):
    """What onnx has against a model; the empty string when it has nothing."""
    try:
        onnx.checker.check_model(str(path), full_check=True)
        model = onnx.load(str(path))
        onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True, data_prop=True)
    except Exception as error:  # their kinds are many
        return f"{type(error).__name__}: {error}"
    return ""


def session(path):
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 2
    return ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def read_value(path, kind):
    data = path.read_bytes()
    if kind.startswith("seq"):
        return numpy_helper.to_list(onnx.SequenceProto.FromString(data))
    if kind.startswith("optional"):
        return numpy_helper.to_optional(onnx.OptionalProto.FromString(data))
    return numpy_helper.to_array(onnx.TensorProto.FromString(data))


def equal(a, b, rtol):
    if isinstance(a, dict):
        assert a.keys() == b.keys()
        return all(equal(a[k], b[k], rtol) for k in a)
    if isinstance(a, list):
        return len(a) == len(b) and all(equal(x, y, rtol) for x, y in zip(a, b, strict=True))
    if a is None or b is None:
        return a is b
    a, b = np.asarray(a), np.asarray(b)
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if a.dtype.kind in "fc" and rtol:
        scale = np.abs(a[np.isfinite(a)]).max(initial=1e-30)
        return np.allclose(a, b, rtol=rtol, atol=rtol * scale, equal_nan=True)
    return a.tobytes() == b.tobytes() if a.dtype != object else bool((a == b).all())


def text(path, has_functions):
    """The text form with unknown extents numbered as they occur, and without the operator sets that functions bring."""
    numbers = {}
    content = re.sub(r"\?\d+", lambda m: f"?{numbers.setdefault(m[0], len(numbers))}", path.read_text())
    return re.sub(r" opset\([^)]*\)|#\d+\(", "(", content) if has_functions else content


@pytest.mark.parametrize("source", MODELS, ids=lambda p: "/".join(p.parts[-3:-1]) or p.stem)
def test_written(source, tmp_path):
    converted = convert(source, tmp_path / "file.onnx")
    if converted.returncode and re.search("not known|unsupported|not read|older than", converted.stderr):
        pytest.skip("not read: " + re.sub(r".*: ", "", converted.stderr.strip())[:80])
    if "which changed the operator" in converted.stderr:
        pytest.skip("functions of operator sets that one model cannot import")
    assert converted.returncode == 0, converted.stderr
    written = {"file": tmp_path / "file.onnx"}
    neutral = convert(source, tmp_path / "neutral.onnx", "--stage", "neutral")
    if neutral.returncode == 0:
        written["neutral"] = tmp_path / "neutral.onnx"
    for name, path in (("source", source), ("again", written["file"])):
        assert convert(path, tmp_path / f"{name}.txt").returncode == 0
    model = onnx.load(source, load_external_data=False)
    types = [o.type for o in model.graph.output]
    if all(t.WhichOneof("value") and (not t.HasField("tensor_type") or t.tensor_type.HasField("shape")) for t in types):
        # Else the writer has inferred what the file leaves open.
        has_functions = bool(model.functions)
        assert text(tmp_path / "source.txt", has_functions) == text(tmp_path / "again.txt", has_functions)
    if source.stat().st_size < LARGE and not objections(source):
        for stage, path in written.items():
            assert not objections(path), stage
    try:
        original = session(source)
    except Exception:  # onnxruntime does not take it
        return
    for stage, path in written.items():
        copy = session(path)
        assert [o.name for o in copy.get_outputs()] == [o.name for o in original.get_outputs()]
        for data in sorted(source.parent.glob("test_data_set_*"))[:1]:
            feeds = {
                i.name: read_value(data / f"input_{n}.pb", i.type)
                for n, i in enumerate(original.get_inputs())
                if (data / f"input_{n}.pb").exists()
            }
            try:
                expected = original.run(None, feeds)
            except Exception:  # nor this
                break
            assert equal(expected, copy.run(None, feeds), 0 if stage == "file" else 1e-3), stage
