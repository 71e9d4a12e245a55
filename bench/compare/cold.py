#!/usr/bin/env python3
"""Cold figures: each of N processes has one engine, which opens a model, runs it first and then steadily.

A process reads a job, {"engine", "path", "threads", "precision", "feeds", "block", "flush_denormals"}, as JSON from
stdin; `feeds` is a pickle of the arrays by input name. Its last line is the result: milliseconds of session creation,
of the first run and the median of later ones, and the peak of resident memory, after the imports and in the end.
Nothing is dropped before: the file is most likely in memory.
"""

import json
import pickle
import signal
import statistics
import subprocess
import sys
import time

import engines
from machine import peak_bytes
from measure import measure_block, reason_of

FIGURES = ("create_ms", "first_ms", "steady_ms", "imports_bytes", "peak_bytes")


def measure(engine, job, feeds, clock=time, memory=peak_bytes):
    """The figures of one process."""
    imports = memory()
    start = clock.perf_counter()
    session = engine.open(job["path"], job["threads"], job["precision"])
    opened = clock.perf_counter()
    run = session.bind(feeds)
    bound = clock.perf_counter()
    run()
    first = clock.perf_counter() - bound
    steady = measure_block(run, 0, job["block"], clock)
    return {
        "create_ms": 1e3 * (opened - start),
        "first_ms": 1e3 * first,
        "steady_ms": 1e3 * steady,
        "imports_bytes": imports,
        "peak_bytes": memory(),
    }


def launch(job):
    """The figures of a fresh process; RuntimeError with what it said when it fails."""
    done = subprocess.run([sys.executable, __file__], input=json.dumps(job), capture_output=True, text=True)
    lines = done.stdout.splitlines()
    if done.returncode < 0:
        raise RuntimeError(f"ended by {signal.Signals(-done.returncode).name}")
    result = json.loads(lines[-1]) if done.returncode == 0 and lines else {"error": done.stderr[-300:]}
    if "error" in result:
        raise RuntimeError(result["error"])
    return result


def measure_engines(names, job, processes, rng, progress=lambda text: None, start=launch):
    """{name: medians of FIGURES with "processes", a list of them, or {"error"}} of engines by name. `names` gives the
    engine of each; their processes take turns in a random order."""
    found, failed = {name: [] for name in names}, {}
    for index in range(processes):
        for name in rng.sample(list(names), len(names)):
            if name in failed:
                continue
            progress(f"process {index + 1} of {processes}, {name}")
            try:
                found[name].append(start(job | {"engine": names[name]}))
            except Exception as error:
                failed[name] = {"error": reason_of(error)}
    return {
        name: failed.get(name)
        or {"processes": found[name]} | {f: statistics.median(p[f] for p in found[name]) for f in FIGURES}
        for name in names
    }


def main():
    job = json.load(sys.stdin)
    with open(job["feeds"], "rb") as file:
        feeds = pickle.load(file)  # of the process that started this one
    try:
        print(json.dumps(measure(engines.ENGINES[job["engine"]](job["flush_denormals"]), job, feeds)))
    except Exception as error:
        print(json.dumps({"error": reason_of(error)}))


if __name__ == "__main__":
    main()
