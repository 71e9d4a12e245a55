#!/usr/bin/env python3
"""Runs models on Quern, onnxruntime and OpenVINO by turns and compares speed, memory and results.

    compare.py MODEL...                       Quern beside the peers that are installed, 1 and 2 threads
    compare.py --setup MODEL...               the same in an environment of its own with all peers, made when needed
    compare.py --self MODEL...                onnxruntime beside itself: checks the method, expect 1.00 +- 0.03
    compare.py --precision fp32,bf16 --threads 1 --alternations 15 --shape image=8x1x8x8 MODEL
    compare.py --stored FOLDER                inputs of test_data_set_0 beside each model (needs the package onnx)
    compare.py --cold 3 --html page.html --json all.json FOLDER

MODEL is an ONNX file, or a folder that is searched for them. Engines in one process disturb each other (worker threads
spin on after a run), so they run in blocks: a pause, two unmeasured runs, then about 0.25 s of measured ones; the order
within each alternation is random. A block counts by its median, an engine by the median over its blocks; the ratio is
the median over alternations of time(peer) / time(Quern): above 1, Quern is faster; below 0.97 it is red and listed as a
loss. Inputs are seeded; symbolic extents are 1, or 128 when their name contains "seq", unless --shape says otherwise.
Outputs are compared with those of the first peer that runs the model in fp32.
"""

import argparse
import json
import os
import pathlib
import random
import shlex
import sys
import time


def parse_shape(text):
    name, _, dims = text.rpartition("=")
    return name, [int(d) for d in dims.split("x") if d]


def words(choices=None):
    """A parser of comma-separated words, of `choices` only."""

    def parse(text):
        found = [w for w in text.split(",") if w]
        for word in found:
            if choices and word not in choices:
                raise argparse.ArgumentTypeError(f"'{word}' is none of {', '.join(choices)}")
        return list(dict.fromkeys(found))

    return parse


def positive(text):
    if (number := int(text)) < 1:
        raise argparse.ArgumentTypeError("at least 1")
    return number


def thread_counts(text):
    return list(dict.fromkeys(positive(t) for t in text.split(",")))


def parse_arguments(arguments):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("models", nargs="+", type=pathlib.Path, metavar="MODEL")
    parser.add_argument("--setup", action="store_true", help="run in .tools/compare-venv, made or completed first")
    parser.add_argument("--self", dest="own", action="store_true", help="compare onnxruntime with itself")
    peers = words(("onnxruntime", "openvino"))
    parser.add_argument("--peers", type=peers, metavar="NAME,NAME", help="default: all that are installed")
    precisions = words(("fp32", "fp32-fast", "bf16"))
    parser.add_argument("--precision", type=precisions, default=["fp32"], metavar="NAME,NAME")
    parser.add_argument("--threads", type=thread_counts, default=[1, 2], metavar="N,N")
    parser.add_argument("--alternations", type=positive, default=9)
    parser.add_argument("--block", type=float, default=0.25, help="seconds measured per block")
    parser.add_argument("--pause", type=float, default=0.1, help="seconds before each block")
    parser.add_argument("--shape", dest="shapes", action="append", type=parse_shape, default=[], metavar="NAME=1x3")
    parser.add_argument("--stored", action="store_true", help="inputs of test_data_set_0 beside each model")
    cold = "also session creation, first run and peak memory: medians of N processes per engine (3)"
    parser.add_argument("--cold", type=positive, default=0, metavar="N", help=cold)
    limit = "fail when Quern's outputs differ by more, relative to the largest, or were not compared"
    parser.add_argument("--max-rel", type=float, help=limit)
    parser.add_argument("--flush-denormals", action="store_true", help="all engines count denormal numbers as 0")
    parser.add_argument("--strict", action="store_true", help="fail on a time that is red")
    parser.add_argument("--seed", type=int, default=0, help="of the order of the blocks")
    parser.add_argument("--color", choices=("auto", "always", "never"), default="auto", help="red for losses")
    parser.add_argument("--json", type=pathlib.Path, help="also write all figures there, after each model")
    parser.add_argument("--html", type=pathlib.Path, help="also write a page with tables and plots there")
    following = [*arguments[1:], ""]
    bare = ["--cold=3" if a == "--cold" and not n.isdigit() else a for a, n in zip(arguments, following)]
    args = parser.parse_args(bare)
    args.shapes = dict(args.shapes)
    for path in (args.json, args.html):
        if path and not path.parent.is_dir():
            parser.error(f"{path}: there is no folder {path.parent}")
    return args


class Progress:
    """What is being done, on stderr: in place on a terminal, elsewhere a line every ten seconds."""

    def __init__(self, stream=sys.stderr, clock=time.monotonic):
        self._stream, self._clock = stream, clock
        self._last, self._shown = clock(), False

    def __call__(self, text):
        if self._stream.isatty():
            self._stream.write(f"\r\x1b[K{text[:118]}")
            self._stream.flush()
            self._shown = True
        elif self._clock() - self._last >= 10:
            self._last = self._clock()
            print(f"... {text}", file=self._stream, flush=True)

    def clear(self):
        if self._shown:
            self._stream.write("\r\x1b[K")
            self._stream.flush()
            self._shown = False


def choose_engines(args):
    """(subject, peers, engines by name, lines about absent ones) as the arguments ask."""
    import engines

    names = ["onnxruntime"] if args.own else ["quern", *(engines.PEERS if args.peers is None else args.peers)]
    there, absent = engines.load(names, args.flush_denormals)
    for name in ("onnxruntime",) if args.own else ("quern", *(args.peers or ())):
        if name in absent:
            sys.exit(f"error: {name} {absent[name]}; --setup makes an environment that has it")
    if args.own:
        pair = {f"onnxruntime ({side})": there["onnxruntime"] for side in "ab"}
        return "onnxruntime (a)", ["onnxruntime (b)"], pair, []
    return "quern", [n for n in there if n != "quern"], there, [f"{name} {why}" for name, why in absent.items()]


def write_whole(path, text):
    """Replaces a file at once, so that an interrupted run leaves the one before."""
    part = path.with_name(path.name + ".part")
    part.write_text(text, encoding="utf-8")
    part.replace(path)


def measure(args):
    """Runs everything that the arguments ask for and writes it; returns (document, whether it was interrupted)."""
    import comparison
    import inputs
    import machine
    import page
    import table

    subject, peers, engines, absent = choose_engines(args)
    if args.stored:
        try:
            import onnx  # noqa: F401
        except ImportError:
            sys.exit("error: --stored needs the package onnx; --setup makes an environment that has it")
    try:
        models = inputs.find_models(args.models)
    except ValueError as error:
        sys.exit(f"error: {error}")
    keys = ("threads", "precision", "alternations", "block", "pause", "shapes", "stored", "cold", "seed")
    settings = {key: getattr(args, key) for key in (*keys, "flush_denormals")}
    document = comparison.new_document(subject, peers, engines, settings, args.own)
    facts = document["machine"] = machine.facts()
    document["command"] = shlex.join(["compare.py", *sys.argv[1:]])
    document["notes"] = [*absent, *comparison.lacking(document, engines)]
    if args.flush_denormals:
        document["notes"].append("denormal numbers count as 0 in all engines")
    load = facts["load_average"]
    if load > 0.5:
        document["notes"].append(f"the load average is {load:.1f} at the start: something else may be running")
    versions = dict.fromkeys(f"{engine.name} {engine.version}" for engine in engines.values())
    print(f"{facts['cpu']}, {facts['usable_cores']} usable cores; {', '.join(versions)}")
    print("\n".join(document["notes"] + [""]) if document["notes"] else "", end="")
    color = args.color == "always" or (args.color == "auto" and sys.stdout.isatty())
    times, progress = table.MainTable(document, inputs.short_names(models), color), Progress()
    print(times.header(), flush=True)

    def on_row(row):
        progress.clear()
        print("\n".join(times.lines(row)), flush=True)
        if args.json:
            write_json(args.json, document)

    interrupted = False
    try:
        comparison.run(document, models, engines, random.Random(args.seed), on_row, progress)
    except KeyboardInterrupt:
        interrupted = True
    progress.clear()
    print("\n".join(table.closing(document, color)))
    if args.json:
        write_json(args.json, document)
    if args.html:
        write_whole(args.html, page.page(document))
    return document, interrupted


def write_json(path, document):
    import results

    whole = document | {"geometric_means": results.geometric_means(document), "losses": results.losses(document)}
    write_whole(path, json.dumps(whole, indent=1) + "\n")


def failure(document, args):
    """Why the run fails as a whole, or None."""
    import results

    if args.max_rel is not None and (found := results.disagreements(document, args.max_rel)):
        limit = f"a difference is larger than {args.max_rel} of the largest expected value, or not known"
        return "\n".join([limit, *(f"    {line}" for line in found)])
    if args.strict and any(loss["figure"] == "time" for loss in results.losses(document)):
        return "a ratio of times is red (--strict)"
    return None


def main():
    arguments = sys.argv[1:]
    args = parse_arguments(arguments)
    if args.setup:
        import environment

        environment.enter(os.path.abspath(__file__), [a for a in arguments if a != "--setup"])
    try:
        import numpy  # noqa: F401
    except ImportError:
        sys.exit("error: there is no numpy here; --setup makes an environment that has all that is needed")
    document, interrupted = measure(args)
    if interrupted:
        sys.exit("error: interrupted; what is shown is what was measured until then")
    if why := failure(document, args):
        sys.exit(f"error: {why}")


if __name__ == "__main__":
    main()
