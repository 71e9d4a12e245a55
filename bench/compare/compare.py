#!/usr/bin/env python3
"""Runs models on Quern and on onnxruntime by turns and compares speed and results.

    compare.py MODEL.onnx...                  Quern beside onnxruntime, 1 and 2 threads
    compare.py --self MODEL.onnx...           onnxruntime beside itself: checks the method, expect 1.00 +- 0.03
    compare.py --threads 1 --alternations 15 --shape image=8x1x8x8 --json out.json MODEL.onnx
    compare.py --stored FOLDER/model.onnx     inputs of FOLDER/test_data_set_0 (needs the package onnx)

Engines in one process disturb each other (worker threads spin on after a run), so they run in blocks: a pause, two
unmeasured runs, then about 0.25 s of measured ones; the order within each alternation is random. A block counts by
its median, an engine by the median over its blocks; the ratio is the median over alternations of
time(onnxruntime) / time(Quern): above 1, Quern is faster. Inputs are seeded; symbolic dimensions are 1, or 128 when
their name contains "seq", unless --shape says otherwise.
"""

import argparse
import json
import os
import pathlib
import random
import statistics
import sys
import time

import numpy as np

DTYPES = {
    "tensor(float)": np.float32,
    "tensor(double)": np.float64,
    "tensor(float16)": np.float16,
    "tensor(int64)": np.int64,
    "tensor(int32)": np.int32,
    "tensor(int8)": np.int8,
    "tensor(uint8)": np.uint8,
    "tensor(bool)": np.bool_,
}


def make_feeds(session, shapes, seed=0):
    """One seeded array per input of an onnxruntime-like session."""
    rng, feeds = np.random.default_rng(seed), {}
    for i in session.get_inputs():
        if i.type not in DTYPES:
            raise SystemExit(f"error: input '{i.name}' has type {i.type}, which this script cannot make up")
        shape = shapes.get(i.name) or [
            d if isinstance(d, int) and d > 0 else 128 if "seq" in str(d) else 1 for d in i.shape
        ]
        dtype = np.dtype(DTYPES[i.type])
        if dtype.kind == "f":
            feeds[i.name] = rng.standard_normal(shape).astype(dtype)
        elif dtype.kind == "b" or "mask" in i.name:
            feeds[i.name] = np.ones(shape, dtype)
        else:
            feeds[i.name] = rng.integers(0, 100, shape).astype(dtype)
    return feeds


def stored_feeds(path):
    """The arrays of test_data_set_0 beside the model, by input name."""
    import onnx

    files = sorted((path.parent / "test_data_set_0").glob("input_*.pb"))
    if not files:
        raise SystemExit(f"error: no test_data_set_0/input_*.pb beside {path}")
    tensors = [onnx.TensorProto.FromString(f.read_bytes()) for f in files]
    return {t.name: onnx.numpy_helper.to_array(t) for t in tensors}


def open_session(module, path, threads):
    options = module.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    if module.__name__ == "onnxruntime":
        options.inter_op_num_threads = 1
        return module.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return module.InferenceSession(str(path), options)


def measure_block(run, pause, seconds):
    """Median time of one run in seconds, over a block of about `seconds`."""
    time.sleep(pause)
    run()
    run()
    times, end = [], time.perf_counter() + seconds
    while len(times) < 3 or time.perf_counter() < end:
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def alternate(runs, args, rng):
    """runs: two callables. Returns the block medians of each, one per alternation."""
    blocks = ([], [])
    for _ in range(args.alternations):
        order = [0, 1]
        rng.shuffle(order)
        for side in order:
            blocks[side].append(measure_block(runs[side], args.pause, args.block))
    return blocks


def difference(ours, theirs):
    """Largest |ours - theirs| over all outputs, and the same relative to that output's max|theirs|."""
    worst, worst_relative = 0.0, 0.0
    for a, b in zip(ours, theirs, strict=True):
        a, b = np.asarray(a), np.asarray(b)
        if a.shape != b.shape or a.dtype != b.dtype:
            return float("inf"), float("inf")
        if not b.size or b.dtype.kind not in "fiub":
            continue
        a, b = a.astype(np.float64), b.astype(np.float64)
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        delta = float(np.where(same, 0.0, np.nan_to_num(np.abs(a - b), nan=np.inf)).max())
        worst = max(worst, delta)
        finite = np.abs(b[np.isfinite(b)])
        scale = float(finite.max()) if finite.size else 1.0
        worst_relative = max(worst_relative, delta / scale if scale else delta)
    return worst, worst_relative


def compare(path, threads, args, engines, rng):
    sessions = [open_session(m, path, threads) for m in engines]
    feeds = stored_feeds(path) if args.stored else make_feeds(sessions[1], args.shapes)
    outputs = [s.run(None, feeds) for s in sessions]
    blocks = alternate([lambda s=s: s.run(None, feeds) for s in sessions], args, rng)
    delta, relative = difference(*outputs)
    return {
        "model": str(path),
        "threads": threads,
        "alternations": args.alternations,
        "engines": [m.__name__ for m in engines],
        "median_ms": [1e3 * statistics.median(b) for b in blocks],
        "ratio": statistics.median(b / a for a, b in zip(*blocks)),
        "max_abs_difference": delta,
        "max_relative_difference": relative,
    }


def parse_shape(text):
    name, _, dims = text.rpartition("=")
    return name, [int(d) for d in dims.split("x") if d]


def cpu_name():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return os.uname().machine


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", type=pathlib.Path)
    parser.add_argument("--self", dest="own", action="store_true", help="compare onnxruntime with itself")
    parser.add_argument("--threads", type=lambda s: [int(t) for t in s.split(",")], default=[1, 2], metavar="N,N")
    parser.add_argument("--alternations", type=int, default=9)
    parser.add_argument("--block", type=float, default=0.25, help="seconds measured per block")
    parser.add_argument("--pause", type=float, default=0.1, help="seconds before each block")
    parser.add_argument("--shape", dest="shapes", action="append", type=parse_shape, default=[], metavar="NAME=1x3")
    parser.add_argument("--stored", action="store_true", help="inputs of test_data_set_0 beside each model")
    parser.add_argument("--max-rel", type=float, help="fail when a relative difference is larger")
    parser.add_argument("--seed", type=int, default=0, help="of the order of the blocks")
    parser.add_argument("--json", type=pathlib.Path, help="also write the rows there")
    args = parser.parse_args()
    args.shapes = dict(args.shapes)

    import onnxruntime

    ours = onnxruntime
    if not args.own:
        import quern as ours
    rng, rows = random.Random(args.seed), []
    names = ("onnxruntime (a)", "onnxruntime (b)") if args.own else ("quern", "onnxruntime")
    print(f"{cpu_name()}, {len(os.sched_getaffinity(0))} usable cores, onnxruntime {onnxruntime.__version__}")
    print(
        f"{'model':28} {'threads':>7} {names[0] + ' ms':>18} {names[1] + ' ms':>18} "
        f"{'ratio':>7} {'max diff':>10} {'/ max':>9}"
    )
    for path in args.models:
        for threads in args.threads:
            row = compare(path, threads, args, (ours, onnxruntime), rng)
            rows.append(row)
            a, b = row["median_ms"]
            name = path.parent.name if path.stem == "model" else path.stem
            print(
                f"{name:28} {threads:7} {a:18.4f} {b:18.4f} {row['ratio']:7.2f} "
                f"{row['max_abs_difference']:10.2e} {row['max_relative_difference']:9.2e}",
                flush=True,
            )
    if args.json:
        args.json.write_text(json.dumps({"version": 1, "cpu": cpu_name(), "rows": rows}, indent=1) + "\n")
    if args.max_rel is not None and any(not row["max_relative_difference"] <= args.max_rel for row in rows):
        sys.exit(f"error: a difference is larger than {args.max_rel} of the largest expected value")


if __name__ == "__main__":
    main()
