"""Arguments of compare.py, engines that are absent, when it fails, its environment, the whole on a shipped model."""

import io
import json
import pathlib
import subprocess
import sys

import numpy as np
import pytest
from fakes import document, row

import compare
import engines
import environment

ROOT = pathlib.Path(__file__).resolve().parents[3]


def test_arguments():
    args = compare.parse_arguments(["a.onnx", "--threads", "1,4", "--precision", "fp32,bf16", "--shape", "x:0=2x3"])
    assert (args.threads, args.precision, args.shapes) == ([1, 4], ["fp32", "bf16"], {"x:0": [2, 3]})
    assert (args.cold, args.peers, args.own, args.alternations, args.block, args.pause) == (
        0,
        None,
        False,
        9,
        0.25,
        0.1,
    )


@pytest.mark.parametrize(
    ("words", "processes"),
    [(["m", "--cold"], 3), (["--cold", "m"], 3), (["--cold", "5", "m"], 5), (["--cold=2", "m"], 2), (["m"], 0)],
)
def test_cold_with_and_without_a_number(words, processes):
    args = compare.parse_arguments(words)
    assert (args.cold, args.models) == (processes, [pathlib.Path("m")])


@pytest.mark.parametrize(
    "words",
    [["--peers", "tvm", "m"], ["--precision", "fp8", "m"], ["--threads", "0", "m"], ["--cold=0", "m"], []]
    + [["m", "--json", "nowhere/x.json"], ["--set", "m"]],
)
def test_arguments_that_are_refused(words):
    with pytest.raises(SystemExit):
        compare.parse_arguments(words)


class Installed:
    def __init__(self, flush_denormals=False):
        self.version = "9"


class Absent:
    def __init__(self, flush_denormals=False):
        raise ModuleNotFoundError("No module named 'openvino'", name="openvino")


class Broken:
    def __init__(self, flush_denormals=False):
        raise ImportError("libfoo.so: no such file")


def test_absent_peers_are_told_and_asked_ones_are_errors(monkeypatch):
    monkeypatch.setattr(engines, "ENGINES", {"quern": Installed, "onnxruntime": Broken, "openvino": Absent})
    subject, peers, there, lines = compare.choose_engines(compare.parse_arguments(["m"]))
    assert (subject, peers, list(there)) == ("quern", [], ["quern"])
    assert lines == ["onnxruntime cannot be imported: libfoo.so: no such file", "openvino is not installed"]
    with pytest.raises(SystemExit, match="openvino is not installed; --setup"):
        compare.choose_engines(compare.parse_arguments(["m", "--peers", "openvino"]))


def test_onnxruntime_beside_itself(monkeypatch):
    monkeypatch.setattr(engines, "ENGINES", {"onnxruntime": Installed})
    subject, peers, there, _ = compare.choose_engines(compare.parse_arguments(["m", "--self"]))
    assert (subject, peers) == ("onnxruntime (a)", ["onnxruntime (b)"])
    assert there[subject] is there[peers[0]]


# Peers change the thread or the process for good, so that tests behind would not find it as it was.
@pytest.mark.parametrize("flush", [False, True])
def test_quern_flushes_denormals_when_asked(tmp_path, flush):
    onnx = pytest.importorskip("onnx")
    x, y = (onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [4, 8]) for name in "xy")
    node = onnx.helper.make_node("Add", ["x", "x"], ["y"])
    imports = [onnx.helper.make_opsetid("", 17)]
    model = onnx.helper.make_model(onnx.helper.make_graph([node], "g", [x], [y]), opset_imports=imports, ir_version=8)
    onnx.save(model, tmp_path / "sum.onnx")
    small = np.full((4, 8), 1e-39, np.float32)
    there, _ = engines.load(["quern"], flush)
    (sums,) = there["quern"].open(tmp_path / "sum.onnx", 1, "fp32").bind({"x": small})()
    assert (sums == 0).all() == flush


def test_when_it_fails():
    good = document([row("net", own=[1.0], peer=[1.0])])
    good["rows"][0]["engines"]["own"]["difference"] = {"absolute": 1.0, "relative": 0.02, "reason": None}
    slow = document([row("net", own=[1.0], peer=[0.9])])
    plain, strict = compare.parse_arguments(["m"]), compare.parse_arguments(["m", "--strict"])
    assert compare.failure(good, plain) is None and compare.failure(slow, plain) is None
    assert compare.failure(good, strict) is None and "--strict" in compare.failure(slow, strict)
    own = document([row("net", own=[1.0], peer=[1.04])], tolerance=0.03)
    assert compare.failure(own, plain) is None and "--strict" in compare.failure(own, strict)
    assert compare.failure(good, compare.parse_arguments(["m", "--max-rel", "0.02"])) is None
    assert "net" in compare.failure(good, compare.parse_arguments(["m", "--max-rel", "0.01"]))
    assert "net" in compare.failure(slow, compare.parse_arguments(["m", "--max-rel", "0.5"]))


def test_progress_is_rare_off_a_terminal():
    times, stream = iter([0, 1, 2, 11, 11, 12]), io.StringIO()
    progress = compare.Progress(stream, lambda: next(times))
    for text in ("a", "b", "c", "d"):
        progress(text)
    progress.clear()
    assert stream.getvalue() == "... c\n"


def test_stamp_follows_names_and_content(tmp_path):
    (tmp_path / "src/deep").mkdir(parents=True)
    (tmp_path / "src/deep/a.cc").write_text("a")
    (tmp_path / "top").write_text("t")
    stamps = [environment.stamp_of(tmp_path, ["src", "top"])]
    assert stamps[0] == environment.stamp_of(tmp_path, ["src", "top"])
    (tmp_path / "src/deep/a.cc").write_text("b")
    stamps.append(environment.stamp_of(tmp_path, ["src", "top"]))
    (tmp_path / "src/deep/a.cc").rename(tmp_path / "src/b.cc")
    stamps.append(environment.stamp_of(tmp_path, ["src", "top"]))
    assert len(set(stamps)) == 3


def test_a_step_runs_once_per_stamp_and_again_after_failing(tmp_path):
    stamp, log = tmp_path / ".stamp", tmp_path / "log"
    step = [sys.executable, "-c", f"open({str(log)!r}, 'a').write('x')"]
    for text in ("1", "1", "2"):
        environment.once(stamp, text, "a step", step)
    assert log.read_text() == "xx"
    with pytest.raises(SystemExit, match="error: a step failed"):
        environment.once(stamp, "3", "a step", [sys.executable, "-c", "raise SystemExit(1)"])
    environment.once(stamp, "2", "a step", step)
    assert log.read_text() == "xxx"


def test_the_requirements_agree_with_those_of_the_tests():
    def versions(path):
        lines = (line.split("#")[0].strip() for line in (ROOT / path).read_text().splitlines())
        return dict(line.split("==") for line in lines if line)

    ours, tests = versions("bench/compare/requirements.txt"), versions("scripts/requirements.txt")
    assert {name: ours[name] for name in ours.keys() & tests.keys()} == {
        n: tests[n] for n in ours.keys() & tests.keys()
    }
    assert {"onnxruntime", "numpy", "onnx"} <= ours.keys() & tests.keys()


def test_a_shipped_model_from_the_command_line(tmp_path):
    command = [sys.executable, ROOT / "bench/compare/compare.py", "--alternations", "2", "--block", "0.001"]
    command += ["--pause", "0", "--threads", "1", "--precision", "fp32,bf16", "--cold", "1", "--max-rel", "0.03"]
    command += ["--json", tmp_path / "all.json", "--html", tmp_path / "page.html", ROOT / "models/digits.onnx"]
    done = subprocess.run([*command, "--peers", "onnxruntime"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "onnxruntime: bf16 is not available" in done.stdout
    made = json.loads((tmp_path / "all.json").read_text())
    assert (made["version"], made["subject"], made["peers"]) == (2, "quern", ["onnxruntime"])
    assert [(r["model"], r["precision"], r["threads"]) for r in made["rows"]] == [
        ("digits", "fp32", 1),
        ("digits", "bf16", 1),
    ]
    for engine in ("quern", "onnxruntime"):
        assert len(made["rows"][0]["engines"][engine]["blocks_ms"]) == 2
        assert made["rows"][0]["cold"][engine]["peak_bytes"] > 0
    assert "unavailable" in made["rows"][1]["engines"]["onnxruntime"]
    assert made["geometric_means"][0]["peer"] == "onnxruntime"
    assert made["machine"]["cpu"] in done.stdout
    assert "digits" in (tmp_path / "page.html").read_text()


def test_models_that_are_not_there_are_an_error(tmp_path):
    command = [sys.executable, ROOT / "bench/compare/compare.py", tmp_path / "none.onnx"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1 and "none.onnx: no ONNX model there" in done.stderr
    assert "Traceback" not in done.stderr
