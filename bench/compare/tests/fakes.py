"""Engines whose runs take exactly as long as a test says, by a clock of its own."""

import numpy as np

from comparison import new_document
from engines import Input
from results import summarize_blocks


class Clock:
    """Time that passes only when somebody sleeps or runs."""

    def __init__(self):
        self.now, self.slept = 0.0, []

    def perf_counter(self):
        return self.now

    def sleep(self, seconds):
        self.slept.append(seconds)
        self.now += seconds


class Engine:
    """Gives its input x plus `error`. `milliseconds` of a run by (precision, threads), or one number for all; `fails`:
    at "open", "run", or at the block of that number, counted over all its runs."""

    def __init__(self, name, clock, milliseconds, error=0.0, fails=None, precisions=("fp32",)):
        self.name, self.version = name, "1.0"
        self._clock, self._milliseconds, self._error, self._fails = clock, milliseconds, error, fails
        self._precisions = precisions
        self.runs = 0

    def lacks(self, precision):
        return None if precision in self._precisions else "the fake has it not"

    def note(self, precision):
        return None

    def open(self, path, threads, precision, exact=False):
        if self._fails == "open":
            raise RuntimeError(f"{self.name} cannot open {path.name}")
        times = self._milliseconds
        seconds = (times[precision, threads] if isinstance(times, dict) else times) / 1e3
        return _Session(self, seconds)

    def run(self, feeds, seconds):
        self.runs += 1
        if self._fails == "run" or self.runs == self._fails:
            raise RuntimeError(f"{self.name} cannot run")
        self._clock.now += seconds
        return [feeds["x"] + np.float32(self._error)]


class _Session:
    def __init__(self, engine, seconds):
        self._engine, self._seconds = engine, seconds
        self.inputs = [Input("x", "tensor(float)", ["n", 4])]

    def bind(self, feeds):
        return lambda: self._engine.run(feeds, self._seconds)


MACHINE = {
    "cpu": "Fake CPU",
    "flags": ["avx2"],
    "usable_cores": 2,
    "memory_bytes": 1 << 33,
    "system": "System",
    "python": "3",
    "load_average": 0.0,
    "commit": None,
}


def settings(**changes):
    return {
        "threads": [1, 2],
        "precision": ["fp32"],
        "alternations": 5,
        "block": 0.1,
        "pause": 0.01,
        "shapes": {},
        "stored": False,
        "cold": 0,
        "seed": 0,
        "flush_denormals": False,
    } | changes


def document(rows, peers=("peer",), tolerance=None, cold=0):
    """A document of rows, as results.py has it."""
    made = new_document("own", peers, {}, settings(cold=cold))
    return made | {
        "tolerance": tolerance,
        "versions": {"own": "1.0"},
        "machine": MACHINE,
        "command": "compare.py x",
        "notes": [],
        "rows": rows,
    }


def row(model, own, cold=None, precision="fp32", threads=1, **peers):
    """A row with the blocks of the engine "own" and of peers, in milliseconds; or a text, why an engine failed.
    cold: {engine: (create_ms, first_ms, bytes after imports, peak bytes)}."""
    engines = {
        name: {"error": blocks} if isinstance(blocks, str) else {"blocks_ms": blocks, "difference": None}
        for name, blocks in {"own": own, **peers}.items()
    }
    made = {"model": model, "path": f"{model}.onnx", "precision": precision, "threads": threads, "source": "peer"}
    made["engines"] = engines
    if cold:
        keys = ("create_ms", "first_ms", "imports_bytes", "peak_bytes")
        made["cold"] = {e: {**dict(zip(keys, values)), "steady_ms": 1.0} for e, values in cold.items()}
    summarize_blocks(made, "own", list(peers))
    return made
