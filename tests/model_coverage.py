#!/usr/bin/env python3
"""Lists what of the models of the shared folder runs on the reference provider, from `quern inspect --stage partition`.

    model_coverage.py QUERN SHARED              prints docs/coverage.md
    model_coverage.py QUERN SHARED --write      writes it
    model_coverage.py QUERN SHARED --check      fails where a node with more than 4096 output elements, or with an
                                                unknown number of them, runs on reference, and where docs/coverage.md
                                                says something else

The models are those of SHARED/models, SHARED/conformance/light and SHARED/bench/skeletons. A node's elements are those
of its largest output for the given input shapes (those of the model's test data, or batch 1 and sequence 128); where
only a run tells them, they are unknown, which those of the operators in BY_DESIGN may be.
"""

import argparse
import concurrent.futures
import dataclasses
import importlib.util
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import numpy as np
import onnx

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/coverage.md"
MOST_ELEMENTS = 4096
# Operators that run on reference with results of unknown size, by why they do.
BY_DESIGN = {
    "compute nothing themselves; which subgraph runs, or how often, only data tells": "If Loop Scan SequenceMap",
    "of sequences, where the CPU provider takes tensors": "ConcatFromSequence SequenceAt SequenceConstruct "
    "SequenceEmpty SequenceErase SequenceInsert SplitToSequence",
    "of optionals": "Optional OptionalGetElement",
    "of maps": "CastMap DictVectorizer ZipMap",
    "of strings": "RegexFullMatch StringConcat StringNormalizer StringSplit",
}
NO_PROVIDER = "no provider takes it"  # of an operator that Quern does not have
WEIGHTS = "weights.bin"
WEIGHT_BLOCK = 1 << 20  # random values that repeat; no two tensors of a model begin at the same one


@dataclasses.dataclass
class Node:
    name: str
    op: str
    elements: int | None  # of the largest output
    reason: str


@dataclasses.dataclass
class Coverage:
    """What one model's partition says."""

    name: str
    nodes: int = 0
    left: list = dataclasses.field(default_factory=list)  # nodes on the reference provider
    refused: str = ""  # why there is no partition


def broadcast(a, b):
    return b if a == 1 else a


FUNCTIONS = {
    "floordiv": lambda a, b: a // b,
    "ceildiv": lambda a, b: -(-a // b),
    "mod": lambda a, b: a % b,
    "max": max,
    "min": min,
    "broadcast": broadcast,
}


def evaluate(elements, extents):
    """A number of elements as the document has it (a number, a formula, null) as a number, or None."""
    if not isinstance(elements, str):
        return elements
    terms = []
    for quoted, name, other in re.findall(r'"([^"]*)"|([A-Za-z_?][\w.?]*)|(\d+|[-+*(), ])', elements):
        symbol = quoted or name
        if symbol and symbol not in FUNCTIONS:
            if symbol not in extents:
                return None
            terms.append(str(extents[symbol]))
        else:
            terms.append(symbol or other)
    try:
        return eval("".join(terms), {"__builtins__": {}}, FUNCTIONS)
    except (ArithmeticError, SyntaxError):
        return None


def read_partition(document, extents, coverage):
    """Adds the nodes of a partition, and of the graphs that its nodes own, to the coverage."""
    for n in document["partition"]["nodes"]:
        coverage.nodes += 1
        if n["provider"] != "reference":
            continue
        known = [evaluate(e, extents) for e, out in zip(n["elements"], n["outputs"]) if out]
        coverage.left.append(
            Node(
                n["name"] or n["outputs"][0],
                n["op"],
                None if None in known else max(known, default=0),
                "; ".join(r["reason"] for r in n["rejections"]) or "only nodes on reference read it",
            )
        )
    for graph in document.get("subgraphs", []):
        read_partition(graph, extents, coverage)


def bind_extents(model, shapes):
    """Symbolic extent -> number, of inputs whose shapes are given by name."""
    extents = {}
    for i in model.graph.input:
        for d, number in zip(i.type.tensor_type.shape.dim, shapes.get(i.name, ())):
            if d.dim_param:
                extents[d.dim_param] = number
    return extents


def test_data_shapes(model, folder):
    """Shapes of the inputs in the first folder of test data, if there is one."""
    weights = {i.name for i in model.graph.initializer}
    names = [i.name for i in model.graph.input if i.name not in weights]
    shapes = {}
    for index, name in enumerate(names):
        file = folder / "test_data_set_0" / f"input_{index}.pb"
        if file.exists():
            shapes[name] = tuple(onnx.load_tensor(file).dims)
    return shapes


class Skeletons:
    """Models of the benchmark with weights from one file of random values, which tensors share: their content does not
    matter here, but equal ones would be merged."""

    def __init__(self, shared, folder):
        self.folder = pathlib.Path(folder)
        spec = importlib.util.spec_from_file_location("materialize", shared / "bench/materialize.py")
        self.materialize = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(self.materialize)
        self.bytes = 0

    def fill(self, path):
        """Writes the model beside the weights; returns its path and the shapes of its inputs."""
        model = onnx.load(path)
        shapes = {name: feed.shape for name, feed in self.materialize.random_inputs(model).items()}
        for index, tensor in enumerate(model.graph.initializer):
            if not tensor.doc_string.startswith("{") or tensor.HasField("raw_data") or len(tensor.float_data):
                continue
            length = int(np.prod(tensor.dims)) * onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type).itemsize
            offset = index % 1024 * 4096
            tensor.data_location = onnx.TensorProto.EXTERNAL
            for key, value in (("location", WEIGHTS), ("offset", offset), ("length", length)):
                tensor.external_data.add(key=key, value=str(value))
            self.bytes = max(self.bytes, offset + length)
        written = self.folder / path.name
        onnx.save(model, written)
        return written, shapes

    def write_weights(self):
        block = (np.random.default_rng(0).random(WEIGHT_BLOCK, np.float32) + np.float32(0.5)).tobytes()
        with open(self.folder / WEIGHTS, "wb") as file:
            for _ in range(-(-self.bytes // len(block))):
                file.write(block)


def inspect(quern, name, path, extents):
    command = [quern, "inspect", path, "--stage", "partition", "--json", "--threads", "1"]
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    coverage = Coverage(name)
    if done.returncode:
        coverage.refused = (done.stderr.strip().splitlines() or ["no message"])[-1]
    else:
        read_partition(json.loads(done.stdout), extents, coverage)
    return coverage


def survey(quern, shared):
    """Coverage of every model, in the order of the folders."""
    jobs = []
    for path in sorted((shared / "models").glob("*/*.onnx")):
        model = onnx.load(path, load_external_data=False)
        jobs.append((path.parent.name, path, bind_extents(model, test_data_shapes(model, path.parent))))
    for path in sorted((shared / "conformance/light").glob("*.onnx")):
        jobs.append((path.stem, path, {}))
    with tempfile.TemporaryDirectory() as folder:
        skeletons = Skeletons(shared, folder)
        for path in sorted((shared / "bench/skeletons").glob("*.onnx")):
            written, shapes = skeletons.fill(path)
            model = onnx.load(written, load_external_data=False)
            jobs.append((f"bench {path.stem}", written, bind_extents(model, shapes)))
        skeletons.write_weights()
        with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
            return list(pool.map(lambda job: inspect(quern, *job), jobs))


def reason_kind(reason):
    """The reason without the names of one model's values."""
    return re.sub(r"'[^']*' ", "", reason)


def text_of(elements):
    return "not known" if elements is None else str(elements)


def page(coverages):
    """docs/coverage.md."""
    lines = [
        "# Coverage of the CPU provider",
        "",
        "Made of the shared models by `tests/model_coverage.py QUERN SHARED --write`, which asks `quern inspect",
        "--stage partition` about each. Nodes of subgraphs count, too. A node's elements are those of its largest",
        "output for the input shapes of the test data; `--check` fails where a node with more than",
        f"{MOST_ELEMENTS}, or with an unknown number of them, runs on the reference provider. By design that number is",
        "unknown for:",
        "",
        *(f"- {operators.replace(' ', ', ')}: {why}" for why, operators in BY_DESIGN.items()),
        "",
        "| model | nodes | on cpu | on reference | most elements there |",
        "|---|---|---|---|---|",
    ]
    for c in coverages:
        if c.refused:
            continue
        known = [n.elements for n in c.left if n.elements is not None]
        most = str(max(known)) if known else ""
        if len(known) < len(c.left):
            most += (", " if most else "") + f"{len(c.left) - len(known)} not known"
        left = len(c.left)
        lines.append(f"| {c.name} | {c.nodes} | {c.nodes - left} | {left or ''} | {most} |")
    kinds = {}
    for c in coverages:
        for n in c.left:
            kinds.setdefault((n.op, reason_kind(n.reason)), []).append((c.name, n))
    lines += ["", "## What is left", ""]
    lines += ["| nodes | operator | reason | most elements | models |", "|---|---|---|---|---|"]
    if not kinds:
        lines[-2:] = ["Nothing runs on the reference provider."]
    for (op, reason), found in sorted(kinds.items(), key=lambda k: (-len(k[1]), k[0])):
        known = [n.elements for _, n in found if n.elements is not None]
        most = text_of(max(known) if known else None)
        models = list(dict.fromkeys(name for name, _ in found))
        named = ", ".join(models[:3]) + (f" and {len(models) - 3} more" if len(models) > 3 else "")
        lines.append(f"| {len(found)} | {op} | {reason} | {most} | {named} |")
    refused = [c for c in coverages if c.refused]
    if refused:
        lines += ["", "Refused, for operators that Quern does not have:", ""]
        lines += [f"- {c.name}: {re.sub(r'^error: ', '', c.refused).split(' (cpu')[0]}" for c in refused]
    return "\n".join(lines) + "\n"


def findings(coverages):
    """One line per node that must not run on the reference provider, per model without a partition, and where the page
    says something else."""
    by_design = {op for operators in BY_DESIGN.values() for op in operators.split()}
    for c in coverages:
        if c.refused and NO_PROVIDER not in c.refused:
            yield f"{c.name}: {c.refused}"
        for n in c.left:
            if (n.op not in by_design) if n.elements is None else (n.elements > MOST_ELEMENTS):
                size = text_of(n.elements)
                yield f"{c.name}: node '{n.name}' ({n.op}) runs on reference: {n.reason} (elements: {size})"
    if page(coverages) != PAGE.read_text():
        yield f"{PAGE.relative_to(ROOT)} is out of date: write it with --write"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("quern", type=pathlib.Path)
    parser.add_argument("shared", type=pathlib.Path)
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.relative_to(ROOT)}")
    parser.add_argument("--check", action="store_true", help="fail as said above")
    args = parser.parse_args()
    coverages = survey(args.quern, args.shared)
    if args.write:
        PAGE.write_text(page(coverages))
    elif not args.check:
        print(page(coverages), end="")
    if args.check:
        found = list(findings(coverages))
        for line in found:
            print(f"error: {line}")
        unknown = sum(n.elements is None for c in coverages for n in c.left)
        left = sum(len(c.left) for c in coverages)
        print(f"{len(coverages)} models, {left} nodes on reference, {unknown} of unknown size, {len(found)} findings")
        sys.exit(bool(found))


if __name__ == "__main__":
    main()
