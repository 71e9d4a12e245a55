"""Blocks, their order, inputs, differences of outputs, cold processes; with engines that are not there."""

import pathlib
import pickle
import random
import subprocess
import sys

import numpy as np
import pytest
from fakes import Clock, Engine, settings

import cold
import comparison
from engines import Input
from inputs import find_models, make_feeds, short_names, stored_feeds
from machine import parse_cpuinfo, peak_bytes
from measure import alternate, block_orders, difference, measure_block, reason_of

ROOT = pathlib.Path(__file__).resolve().parents[3]


# ---- blocks


def test_orders_are_seeded_permutations():
    orders = block_orders(["a", "b", "c"], 60, random.Random(1))
    assert len(orders) == 60
    assert all(sorted(order) == ["a", "b", "c"] for order in orders)
    assert len({tuple(order) for order in orders}) == 6
    assert orders == block_orders(["a", "b", "c"], 60, random.Random(1))
    assert orders != block_orders(["a", "b", "c"], 60, random.Random(2))


def test_block_pauses_and_leaves_two_runs_out():
    clock, lengths = Clock(), iter([5.0, 5.0, 0.02, 0.04, 0.03, 0.02])

    def run():
        clock.now += next(lengths)

    assert measure_block(run, 0.5, 0.1, clock) == pytest.approx(0.025)
    assert clock.slept == [0.5]
    assert next(lengths, None) is None


def test_block_has_three_runs_however_long():
    clock, runs = Clock(), []

    def run():
        runs.append(clock.now)
        clock.now += 7.0

    assert measure_block(run, 0, 0.1, clock) == pytest.approx(7.0)
    assert len(runs) == 5


def test_alternation_follows_the_orders_and_drops_what_fails():
    ran = []

    def block(run):
        return run()

    def good():
        ran.append("a")
        return len(ran)

    def bad():
        ran.append("b")
        if ran.count("b") == 2:
            raise ValueError("no more")
        return len(ran)

    medians, failed = alternate({"a": good, "b": bad}, [["b", "a"], ["a", "b"], ["b", "a"]], block)
    assert ran == ["b", "a", "a", "b", "a"]
    assert medians == {"a": [2, 3, 5]}
    assert failed == {"b": "no more"}


# ---- outputs


def test_difference_is_absolute_and_relative_to_the_largest_of_each_output():
    a = [np.array([1.0, 2.0]), np.array([100.0, -200.0])]
    b = [np.array([1.0, 2.5]), np.array([100.0, -201.0])]
    found = difference(a, b)
    assert found.absolute == pytest.approx(1.0)
    assert found.relative == pytest.approx(0.2)
    assert found.reason is None


def test_equal_nan_and_infinities_agree():
    values = [np.array([np.nan, np.inf, -np.inf, 1.0], np.float32)]
    assert difference(values, [v.copy() for v in values])[:2] == (0.0, 0.0)


@pytest.mark.parametrize(
    ("ours", "reason"),
    [
        ([np.zeros(3, np.float32)], "float32"),
        ([np.zeros(2)], "(2,)"),
        ([np.array([0.0, np.nan, 0.0])], "NaN"),
        ([np.array([0.0, np.inf, 0.0])], "infinities"),
        ([np.zeros(3), np.zeros(3)], "not the same values"),
    ],
)
def test_what_cannot_be_compared_has_a_reason(ours, reason):
    found = difference(ours, [np.zeros(3)])
    assert (found.absolute, found.relative) == (None, None)
    assert reason in found.reason


def test_maps_sequences_and_texts_are_compared():
    expected = [[{1: np.float32(0.5), 2: np.float32(0.25)}], np.array(["x", "y"], object)]
    assert difference(expected, expected).absolute == 0
    other = [[{1: np.float32(0.5), 2: np.float32(0.75)}], np.array(["x", "y"], object)]
    assert difference(other, expected).absolute == 0.5
    assert difference([expected[0], np.array(["x", "z"], object)], expected).reason == "outputs[1]: texts differ"
    for values in ([], [{1: np.float32(0.5), 3: np.float32(0.25)}]):
        assert difference([values, expected[1]], expected).reason == "the outputs are not the same values"


def test_integers_and_truths_are_compared():
    assert difference([np.array([True, False])], [np.array([True, True])]).absolute == 1
    assert difference([np.array([2**40])], [np.array([2**40 + 3])]).absolute == 3


def test_reasons_are_one_short_line():
    text = reason_of(
        RuntimeError("Exception from src/a/b.cpp:132:\nCheck 'false' failed at src/c.cpp:1:\nno rule for X")
    )
    assert text == "no rule for X"
    assert reason_of(ValueError()) == "ValueError"
    assert len(reason_of(ValueError("x" * 1000))) == 300


# ---- models and inputs


def test_models_of_folders(tmp_path):
    for name in ("a/model.onnx", "a/other.onnx", "b/deep/model.onnx", "c/one.onnx", "c/two.onnx", "c/notes.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    found = find_models([tmp_path, tmp_path / "c/two.onnx"])
    assert [str(f.relative_to(tmp_path)) for f in found] == [
        "a/model.onnx",
        "b/deep/model.onnx",
        "c/one.onnx",
        "c/two.onnx",
    ]
    assert short_names(found) == ["a", "deep", "one", "two"]
    assert find_models([tmp_path / "a/other.onnx"]) == [tmp_path / "a/other.onnx"]
    for nothing in (tmp_path / "c/three.onnx", tmp_path / "empty"):
        with pytest.raises(ValueError, match="no ONNX model there"):
            find_models([nothing])


def test_names_that_agree_get_their_folder(tmp_path):
    paths = [tmp_path / "fp32/net/model.onnx", tmp_path / "int8/net/model.onnx", tmp_path / "fp32/other.onnx"]
    assert short_names(paths) == ["fp32/net", "int8/net", "other"]


def test_made_up_inputs():
    inputs = [
        Input("image", "tensor(float)", ["batch", 3, None]),
        Input("ids", "tensor(int64)", [1, "seq_len"]),
        Input("attention_mask", "tensor(int64)", [1, 4]),
        Input("flag", "tensor(bool)", []),
        Input("wide", "tensor(uint8)", [2]),
    ]
    feeds = make_feeds(inputs, {"wide": [5]})
    assert {name: (f.shape, f.dtype.name) for name, f in feeds.items()} == {
        "image": ((1, 3, 1), "float32"),
        "ids": ((1, 128), "int64"),
        "attention_mask": ((1, 4), "int64"),
        "flag": ((), "bool"),
        "wide": ((5,), "uint8"),
    }
    assert feeds["attention_mask"].all() and feeds["flag"]
    assert (feeds["ids"] >= 0).all() and (feeds["ids"] < 100).all()
    again = make_feeds(inputs, {"wide": [5]})
    assert all((feeds[name] == again[name]).all() for name in feeds)
    with pytest.raises(ValueError, match="input 's' has type tensor"):
        make_feeds([Input("s", "tensor(string)", [1])], {})


def test_stored_inputs(tmp_path):
    import onnx

    folder = tmp_path / "test_data_set_0"
    folder.mkdir()
    arrays = [np.full(2, k, np.float32) for k in range(11)]
    for k, array in enumerate(arrays):
        name = "" if k == 10 else f"in{k}"
        (folder / f"input_{k}.pb").write_bytes(onnx.numpy_helper.from_array(array, name).SerializeToString())
    feeds = stored_feeds(tmp_path / "model.onnx", [Input(f"in{k}", "tensor(float)", [2]) for k in range(11)])
    assert {name: f[0] for name, f in feeds.items()} == {f"in{k}": k for k in range(11)}
    with pytest.raises(ValueError, match="no test_data_set_0"):
        stored_feeds(tmp_path / "elsewhere/model.onnx", [])


# ---- rows


def compared(engines, clock, models=("net.onnx",), **changes):
    """The document of fake engines; the first is the subject."""
    subject, *peers = engines
    document = comparison.new_document(subject, peers, engines, settings(**changes))
    rows = []
    paths = [pathlib.Path(model) for model in models]
    comparison.run(document, paths, engines, random.Random(0), rows.append, start=fake_start, clock=clock)
    assert rows == document["rows"]
    return document


def fake_start(job):
    with open(job["feeds"], "rb") as file:
        assert list(pickle.load(file)) == ["x"]
    return {figure: job["threads"] * 10.0 for figure in cold.FIGURES}


def test_every_model_precision_and_number_of_threads_has_a_row():
    clock = Clock()
    times = {("fp32", 1): 4, ("fp32", 2): 2, ("bf16", 1): 2, ("bf16", 2): 1}
    own = Engine("own", clock, times, error=0.5, precisions=("fp32", "bf16"))
    engines = {"own": own, "peer": Engine("peer", clock, {("fp32", 1): 6, ("fp32", 2): 1})}
    document = compared(engines, clock, ["a.onnx", "b.onnx"], precision=["fp32", "bf16"])
    assert [(r["model"], r["precision"], r["threads"]) for r in document["rows"]] == [
        (model, precision, threads) for model in "ab" for precision in ("fp32", "bf16") for threads in (1, 2)
    ]
    first, second, third = document["rows"][:3]
    assert first["ratios"]["peer"]["median"] == pytest.approx(1.5)
    assert second["ratios"]["peer"]["median"] == pytest.approx(0.5)
    assert first["engines"]["own"]["blocks_ms"] == pytest.approx([4.0] * 5)
    assert first["source"] == "peer" and first["engines"]["peer"]["difference"] is None
    assert first["engines"]["own"]["difference"]["absolute"] == pytest.approx(0.5)
    assert third["ratios"] == {}
    assert third["engines"]["peer"] == {"unavailable": "the fake has it not"}
    assert third["engines"]["own"]["median_ms"] == pytest.approx(2.0)
    assert "cold" not in first
    assert comparison.lacking(document, engines) == ["peer: bf16 is not available, the fake has it not"]


@pytest.mark.parametrize("fails", ["open", "run", 10])
def test_an_engine_that_fails_leaves_the_others(fails):
    clock = Clock()
    engines = {
        "own": Engine("own", clock, 2),
        "bad": Engine("bad", clock, 2, fails=fails),
        "peer": Engine("peer", clock, 3),
    }
    row = compared(engines, clock, threads=[1])["rows"][0]
    assert "bad cannot" in row["engines"]["bad"]["error"]
    assert row["ratios"].keys() == {"peer"}
    assert row["ratios"]["peer"]["median"] == pytest.approx(1.5)


def test_a_model_that_nothing_runs_is_a_row():
    clock = Clock()
    engines = {"own": Engine("own", clock, 2, fails="open"), "peer": Engine("peer", clock, 2, fails="run")}
    rows = compared(engines, clock, threads=[1], cold=2)["rows"]
    assert rows[0]["engines"] == {"own": {"error": "own cannot open net.onnx"}, "peer": {"error": "peer cannot run"}}
    assert rows[0]["ratios"] == {}


def test_expected_outputs_come_from_the_first_peer_that_runs():
    clock = Clock()
    engines = {
        "own": Engine("own", clock, 1),
        "bad": Engine("bad", clock, 1, fails="open"),
        "peer": Engine("peer", clock, 1, error=2.0),
    }
    row = compared(engines, clock, threads=[1])["rows"][0]
    assert row["source"] == "peer"
    assert row["engines"]["own"]["difference"]["absolute"] == pytest.approx(2.0)


# ---- cold processes


def test_cold_figures_of_one_process():
    clock, peaks = Clock(), iter([1000, 5000])
    engine = Engine("own", clock, 3)
    plain_open = engine.open

    def slow_open(*arguments):
        clock.now += 0.25
        return plain_open(*arguments)

    engine.open = slow_open
    job = {"path": pathlib.Path("net.onnx"), "threads": 1, "precision": "fp32", "block": 0.1}
    figures = cold.measure(engine, job, {"x": np.zeros(4, np.float32)}, clock, lambda: next(peaks))
    assert figures == pytest.approx(
        {"create_ms": 250, "first_ms": 3, "steady_ms": 3, "imports_bytes": 1000, "peak_bytes": 5000}
    )


def test_cold_figures_are_medians_over_processes():
    jobs = []

    def start(job):
        jobs.append(job["engine"])
        if job["engine"] == "bad":
            raise RuntimeError("ended by SIGSEGV")
        return {figure: [7.0, 1.0, 2.0][jobs.count("own") - 1] for figure in cold.FIGURES}

    found = cold.measure_engines({"a": "own", "b": "bad"}, {}, 3, random.Random(0), start=start)
    assert found["a"]["create_ms"] == 2.0 and len(found["a"]["processes"]) == 3
    assert found["b"] == {"error": "ended by SIGSEGV"}
    assert jobs.count("own") == 3 and jobs.count("bad") == 1


def test_rows_have_cold_figures_of_the_engines_that_ran():
    clock = Clock()
    engines = {"own": Engine("own", clock, 1), "bad": Engine("bad", clock, 1, fails="open")}
    rows = compared(engines, clock, cold=2)["rows"]
    assert [row["cold"].keys() for row in rows] == [{"own"}, {"own"}]
    assert [row["cold"]["own"]["peak_bytes"] for row in rows] == [10.0, 20.0]


def test_a_process_measures_quern_and_tells_what_fails(tmp_path):
    feeds = tmp_path / "feeds"
    feeds.write_bytes(pickle.dumps({"image": np.zeros((1, 1, 8, 8), np.float32)}))
    job = {"engine": "quern", "path": str(ROOT / "models/digits.onnx"), "threads": 1, "precision": "fp32"}
    job |= {"feeds": str(feeds), "block": 0.001, "flush_denormals": False}
    figures = cold.launch(job)
    assert figures.keys() == set(cold.FIGURES)
    assert figures["peak_bytes"] >= figures["imports_bytes"] > 0
    with pytest.raises(RuntimeError, match="nothing_there"):
        cold.launch(job | {"path": str(tmp_path / "nothing_there.onnx")})
    with pytest.raises(RuntimeError, match="No such file"):
        cold.launch(job | {"feeds": str(tmp_path / "none")})


def test_a_process_that_dies_is_told(monkeypatch):
    dead = subprocess.CompletedProcess([], -11, stdout="", stderr="")
    monkeypatch.setattr(cold.subprocess, "run", lambda *command, **options: dead)
    with pytest.raises(RuntimeError, match="ended by SIGSEGV"):
        cold.launch({})


def test_peak_of_a_process_is_its_own():
    held = np.ones(50_000_000)
    code = "import machine; print(machine.peak_bytes())"
    folder = ROOT / "bench/compare"
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=True)
    assert 1_000_000 < int(done.stdout) < held.nbytes < peak_bytes()


def test_cpuinfo_of_x86_and_arm():
    x86 = "processor : 0\nmodel name\t: A CPU @ 2 GHz\nflags\t\t: fpu avx2 amx_tile\n\nprocessor : 1\nflags : fpu\n"
    assert parse_cpuinfo(x86) == ("A CPU @ 2 GHz", ["avx2", "amx_tile"])
    assert parse_cpuinfo("processor\t: 0\nFeatures\t: fp asimd asimddp sve\n") == (None, ["asimd", "asimddp", "sve"])
