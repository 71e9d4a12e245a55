#!/usr/bin/env python3
"""Counts what the passes make of the models of the shared folder, from `quern inspect`.

    fused_models.py QUERN SHARED     fails where a formula is left that should be one operator, or where a
                                     convolutional network keeps operators that belong into its convolutions

The weights of the benchmark's skeletons and of the light models are random values.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import onnx

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests/conformance"))
sys.path.insert(0, str(ROOT / "tests"))
import light_models  # noqa: E402
import model_coverage  # noqa: E402

# Operators after the neutral passes; none of FORMULA's may be left.
SKELETONS = {
    "bert_base": {"Attention": 12},
    "gpt2": {"Attention": 12},
    "minilm_l6": {"Attention": 6},
    "vit_b_16": {"Attention": 12},
    "whisper_tiny_encoder": {"Attention": 4},
}
MODELS = {
    "bert_toy_optimized": {"Attention": 5, "LayerNormalization": 12, "Gelu": 6},
    "gpt2_one_attn": {"Attention": 12, "LayerNormalization": 25, "Gelu": 12},
    "yolox_nano": {"SpaceToDepth": 0, "Slice": 0},
}
FORMULA = {"Softmax", "Erf"}
# Compiled networks whose transposes are at the borders: one in, one out.
NETWORKS = ["resnet50", "light_resnet50", "light_inception_v1", "light_inception_v2"]
MOST_TRANSPOSES = 2
EPILOGUE = {"Add", "BatchNormalization", "Relu", "Sum"}
# Transformers whose queries, keys and values are views of what one product gives: no step of a plan moves elements but
# those at the borders.
TRANSFORMERS = {"vit_b_16": 2}
# Likewise of convolutions and their heads: the image.
DETECTORS = {"yolox_nano": 1}
MOVES = {"Gather", "Slice", "Split", "Transpose"}


def inspect(quern, path, stage):
    """The document of one stage, or an error message."""
    command = [quern, "inspect", path, "--stage", stage, "--json", "--threads", "1"]
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    if done.returncode:
        return None, (done.stderr.strip().splitlines() or ["no message"])[-1]
    return json.loads(done.stdout)[stage], None


def count_operators(quern, path, wanted):
    """One line per operator that does not occur as often as wanted."""
    neutral, error = inspect(quern, path, "neutral")
    if error:
        return [error]
    found = {o["op"]: o["count"] for o in neutral["operators"]}
    lines = [f"{found.get(op, 0)} {op}, not {n}" for op, n in wanted.items() if found.get(op, 0) != n]
    return lines + [f"{found[op]} {op} left" for op in sorted(FORMULA & set(found))]


def check_network(quern, path):
    """One line per operator that a compiled network should not have."""
    compiled, error = inspect(quern, path, "compiled")
    if error:
        return [error]
    lines = [f"{n['op']} '{n['name']}' is no epilogue" for n in compiled["nodes"] if n["op"] in EPILOGUE]
    transposes = [n["outputs"][0] for n in compiled["nodes"] if n["op"] == "Transpose"]
    if len(transposes) > MOST_TRANSPOSES:
        lines.append(f"{len(transposes)} transposes: {', '.join(transposes)}")
    return lines


def check_moves(quern, path, most):
    """A line if more steps than `most` move elements."""
    plan, error = inspect(quern, path, "plan")
    if error:
        return [error]
    steps = [s for cluster in plan["steps"] for s in cluster["steps"] if s["op"] in MOVES]
    return [f"{len(steps)} steps that move elements, as '{steps[-1]['node']}'"] if len(steps) > most else []


def fill_light(path, folder):
    """Writes a light model with seeded weights; returns its path."""
    written = folder / path.name
    onnx.save(light_models.fill(onnx.load(path)), written)
    return written


def survey(quern, shared):
    """Model -> lines about what is not as it should be."""
    found = {}
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        skeletons = model_coverage.Skeletons(shared, folder)
        names = [*SKELETONS, *(n for n in NETWORKS if not n.startswith("light_"))]
        written = {n: skeletons.fill(shared / f"bench/skeletons/{n}.onnx")[0] for n in names}
        skeletons.write_weights()
        for n, wanted in SKELETONS.items():
            found[n] = count_operators(quern, written[n], wanted)
        for n, most in TRANSFORMERS.items():
            found[n] += check_moves(quern, written[n], most)
        for n, wanted in MODELS.items():
            path = shared / f"models/{n}/model.onnx"
            found[n] = count_operators(quern, path, wanted)
            if n in DETECTORS:
                found[n] += check_moves(quern, path, DETECTORS[n])
        for n in NETWORKS:
            path = written.get(n) or fill_light(shared / f"conformance/light/{n}.onnx", folder)
            found[n] = check_network(quern, path)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("quern", type=pathlib.Path)
    parser.add_argument("shared", type=pathlib.Path)
    args = parser.parse_args()
    found = survey(args.quern, args.shared)
    for name, lines in found.items():
        for line in lines:
            print(f"error: {name}: {line}")
    print(f"{len(found)} models, {sum(map(len, found.values()))} findings")
    sys.exit(any(found.values()))


if __name__ == "__main__":
    main()
