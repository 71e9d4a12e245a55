#!/usr/bin/env python3
"""Builds backend-test folders of larger models, with onnxruntime's results, for `quern verify`.

    bench_models.py OUT [NAME...] [--shared FOLDER]

NAME is `digits` and `digits_qdq` (shipped in models/), one of conv_models.py (`conv_3x3_nchw`; `convs`: all of them),
a skeleton of FOLDER/bench/skeletons, which the materialize.py beside it fills with seeded weights, or a `light_*` of
FOLDER/conformance/light, whose constant weights light_models.py replaces; without a FOLDER only the first two are made.
A folder that was made of the same files by the same packages is kept. OUT/tolerance.json has the allowed differences,
relative to the largest expected value.
"""

import argparse
import hashlib
import importlib.util
import json
import pathlib
import sys

import numpy as np
import onnx

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests/conformance"))
import light_models  # noqa: E402
from graph_builder import run_onnxruntime, write_folder  # noqa: E402

sys.path.insert(0, str(ROOT / "tests"))
import conv_models  # noqa: E402

TOLERANCE = {"digits_qdq": 0.02}  # a quantized value may round the other way; the rest is float32
DEFAULT_TOLERANCE = 1e-4


def stamp_of(*files):
    """Changes with the content of the files, of the scripts here, and with what computes the expected results."""
    digest = hashlib.sha256()
    for path in (*files, ROOT / "scripts/requirements.txt", ROOT / "tests/conformance/graph_builder.py", __file__):
        digest.update(hashlib.sha256(pathlib.Path(path).read_bytes()).digest())
    return digest.hexdigest()


def shipped(name):
    """A model of models/ and one small and one large batch of held-out digits."""
    images = np.load(ROOT / "models/heldout_images.npy")
    return onnx.load(ROOT / "models" / f"{name}.onnx"), [{"image": images[:1]}, {"image": images[5:42]}]


def materialized(name, shared):
    """A skeleton filled with seeded weights, and one seeded input."""
    spec = importlib.util.spec_from_file_location("materialize", shared / "bench/materialize.py")
    materialize = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(materialize)
    model = materialize.fill(onnx.load(shared / "bench/skeletons" / f"{name}.onnx"))
    return model, [materialize.random_inputs(model)]


def light(name, shared):
    """A light model with seeded weights, two inputs and their results, which differ."""
    model, feeds = light_models.load(shared / "conformance/light" / f"{name}.onnx")
    results = run_onnxruntime(model, feeds)
    first, second = (np.asarray(r[0]) for r in results)
    if np.abs(first - second).max() < 0.01 * np.abs(first).max():
        raise ValueError(f"{name}: both inputs give the same; draw other weights")
    return model, feeds, results


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("names", nargs="*", default=["digits", "digits_qdq"])
    parser.add_argument("--shared", type=pathlib.Path)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    names = [n for name in args.names for n in (conv_models.NAMES if name == "convs" else [name])]
    for name in names:
        folder, stamp = args.out / name, args.out / name / "complete"
        model = ROOT / "models" / f"{name}.onnx"
        if model.exists():
            made_of, make = [model, ROOT / "models/heldout_images.npy"], lambda: shipped(name)
        elif name in conv_models.NAMES:
            made_of, make = [pathlib.Path(conv_models.__file__)], lambda: conv_models.load(name)
        elif not args.shared:
            parser.error(f"{name} is not shipped, and there is no --shared folder")
        elif name.startswith("light_"):
            made_of = [args.shared / "conformance/light" / f"{name}.onnx", pathlib.Path(light_models.__file__)]
            make = lambda: light(name, args.shared)
        else:
            made_of = [args.shared / "bench/skeletons" / f"{name}.onnx", args.shared / "bench/materialize.py"]
            make = lambda: materialized(name, args.shared)
        content = stamp_of(*made_of)
        if stamp.exists() and stamp.read_text() == content:
            continue
        write_folder(folder, *make())
        stamp.write_text(content)
        print(f"wrote {folder}")
    tolerances = {p.name: TOLERANCE.get(p.name, DEFAULT_TOLERANCE) for p in sorted(args.out.iterdir()) if p.is_dir()}
    (args.out / "tolerance.json").write_text(json.dumps(tolerances, indent=1) + "\n")


if __name__ == "__main__":
    main()
