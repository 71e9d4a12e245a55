"""Times engines in alternating blocks and compares what they compute.

Engines in one process disturb each other (worker threads spin on after a run), so they run in blocks: a pause, two
unmeasured runs, then some tenths of a second of measured ones, in a random order within each alternation.
"""

import collections
import gc
import itertools
import re
import statistics
import time

import numpy as np

from inputs import make_feeds, stored_feeds

# One model with what it runs on; `expected` are the outputs of the engine `source` in fp32, or None.
Prepared = collections.namedtuple("Prepared", "path feeds expected source")
Difference = collections.namedtuple("Difference", "absolute relative reason")


class CannotRun(Exception):
    """No engine runs a model; `reasons` by name."""

    def __init__(self, reasons):
        super().__init__("; ".join(f"{name}: {reason}" for name, reason in reasons.items()))
        self.reasons = reasons


def reason_of(error, limit=300):
    """An exception in one line, without the source lines that OpenVINO puts before its message."""
    text = re.sub(r"(Exception from|Check '.*?' failed at) \S+:\d+:\s*", "", " ".join(str(error).split()))
    text = text or type(error).__name__
    return text if len(text) <= limit else text[: limit - 3] + "..."


def block_orders(names, alternations, rng):
    """For each alternation, all names in a random order."""
    return [rng.sample(names, len(names)) for _ in range(alternations)]


def measure_block(run, pause, seconds, clock=time):
    """Median time of one run in seconds, over a block of about `seconds` and at least three runs."""
    clock.sleep(pause)
    run()
    run()
    times, end = [], clock.perf_counter() + seconds
    while len(times) < 3 or clock.perf_counter() < end:
        start = clock.perf_counter()
        run()
        times.append(clock.perf_counter() - start)
    return statistics.median(times)


def alternate(runs, orders, block, progress=lambda text: None):
    """The block medians of each of `runs` (callables by name), one per order; `block` measures one. What fails is left
    out from then on. Returns (medians by name, reasons by name of those that failed)."""
    medians, failed = {name: [] for name in runs}, {}
    for index, order in enumerate(orders, 1):
        progress(f"alternation {index} of {len(orders)}")
        for name in order:
            if name in failed:
                continue
            try:
                medians[name].append(block(runs[name]))
            except Exception as error:
                failed[name] = reason_of(error)
    return {name: values for name, values in medians.items() if name not in failed}, failed


def _leaves(value, where):
    """(where, array) of all tensors in a value: sequences are lists, maps are dicts."""
    if isinstance(value, dict):
        yield f"{where} keys", np.asarray(list(value))
        for key, element in value.items():
            yield from _leaves(element, f"{where}[{key!r}]")
    elif isinstance(value, (list, tuple)):
        yield f"{where} length", np.asarray(len(value))
        for index, element in enumerate(value):
            yield from _leaves(element, f"{where}[{index}]")
    else:
        yield where, np.asarray(value)


def difference(ours, expected):
    """Largest |ours - expected| over all outputs, and the same relative to that output's largest |expected|; None for
    both, with the reason, where these are not numbers: shapes, types, texts or the number of tensors differ."""
    worst, relative = 0.0, 0.0
    left, right = (list(_leaves(list(v), "outputs")) for v in (ours, expected))
    if [where for where, _ in left] != [where for where, _ in right]:
        return Difference(None, None, "the outputs are not the same values")
    for (where, a), (_, b) in zip(left, right):
        if a.shape != b.shape or (a.dtype != b.dtype and not a.dtype.kind == b.dtype.kind == "U"):
            return Difference(None, None, f"{where}: {a.dtype}{a.shape}, expected {b.dtype}{b.shape}")
        if a.dtype.kind in "OSU":
            if not np.array_equal(a, b):
                return Difference(None, None, f"{where}: texts differ")
            continue
        if not b.size:
            continue
        wide = np.complex128 if b.dtype.kind == "c" else np.float64
        a, b = a.astype(wide), b.astype(wide)
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        with np.errstate(invalid="ignore"):  # of unlike infinities
            delta = float(np.where(same, 0.0, np.abs(a - b)).max())
        if not np.isfinite(delta):
            return Difference(None, None, f"{where}: infinities or NaN differ")
        finite = np.abs(b[np.isfinite(b)])
        scale = float(finite.max()) if finite.size else 1.0
        worst, relative = max(worst, delta), max(relative, delta / scale if scale else delta)
    return Difference(worst, relative, None)


def _copied(value):
    if isinstance(value, dict):
        return {key: _copied(element) for key, element in value.items()}
    return [_copied(v) for v in value] if isinstance(value, (list, tuple)) else np.array(value)


def prepare(path, engines, threads, shapes, stored):
    """Inputs of a model and the outputs of the first engine that runs it; CannotRun when none does."""
    reasons = {}
    for (name, engine), exact in itertools.product(engines.items(), (True, False)):
        try:  # not exact: onnxruntime does not open every quantized model so
            session = engine.open(path, threads, "fp32", exact=exact)
            feeds = stored_feeds(path, session.inputs) if stored else make_feeds(session.inputs, shapes)
            return Prepared(path, feeds, _copied(list(session.bind(feeds)())), name)
        except Exception as error:
            reasons[name] = reason_of(error)
    raise CannotRun(reasons)


def measure_case(prepared, engines, threads, precision, settings, rng, progress=lambda text: None, clock=time):
    """The results of each engine by name: {"blocks_ms", "difference"}, or {"error"} or {"unavailable"} with the reason.
    The difference has "absolute", "relative" and "reason"; none for the outputs that are the expected ones. settings:
    "alternations", "pause" and "block" in seconds."""
    results, runs = {}, {}
    for name, engine in engines.items():
        if reason := engine.lacks(precision):
            results[name] = {"unavailable": reason}
            continue
        progress(f"{name} opens the model")
        try:
            run = engine.open(prepared.path, threads, precision).bind(prepared.feeds)
            found = difference(run(), prepared.expected)._asdict()
        except Exception as error:
            results[name] = {"error": reason_of(error)}
            continue
        own = name == prepared.source and precision == "fp32"
        runs[name], results[name] = run, {"difference": None if own else found}
    orders = block_orders(list(runs), settings["alternations"], rng)
    measured, failed = alternate(
        runs, orders, lambda run: measure_block(run, settings["pause"], settings["block"], clock), progress
    )
    for name, seconds in measured.items():
        results[name]["blocks_ms"] = [1e3 * s for s in seconds]
    for name, reason in failed.items():
        results[name] = {"error": reason}
    runs.clear()
    gc.collect()
    return results
