#!/usr/bin/env python3
"""Writes seeded graphs of com.microsoft operators with expected results, as folders of the ONNX backend-test layout.

    compare_microsoft.py OUT [--seeds N] [--kinds a,b] [--list]

`quern verify OUT --rtol 0 --tolerance OUT/tolerance.json` compares. A kind is a family of graphs that goes through the
forms of one operator. The results are onnxruntime's, without graph optimizations; for what its CPU build has no kernel
for, they are computed here in double.
"""

import argparse
import json
import pathlib
import zlib

import microsoft_attention  # noqa: F401  registers its kinds
import microsoft_experts  # noqa: F401
import microsoft_fused  # noqa: F401
import microsoft_quantized  # noqa: F401
from graph_builder import Builder, write_folder
from microsoft_base import KINDS


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", nargs="?", type=pathlib.Path, default=pathlib.Path("microsoft"))
    parser.add_argument("--seeds", type=int, default=2, help="graphs per kind")
    parser.add_argument("--kinds", help="comma-separated; default: all")
    parser.add_argument("--list", action="store_true")
    args = parser.parse_args()
    if args.list:
        for name, (function, _) in KINDS.items():
            print(f"{name:22}{function.__doc__}")
        return
    names = args.kinds.split(",") if args.kinds else list(KINDS)
    tolerances = {}
    for name in names:
        function, tolerance = KINDS[name]
        for seed in range(args.seeds):
            builder = Builder(zlib.crc32(f"{name}/{seed}".encode()))
            made = function(builder)
            feeds, expected = made if isinstance(made, tuple) else (made, None)
            folder = f"{name}_{seed}"
            write_folder(args.out / folder, builder.model(folder), feeds, expected)
            tolerances[folder] = tolerance
    (args.out / "tolerance.json").write_text(json.dumps(tolerances, indent=1) + "\n")
    print(f"wrote {len(tolerances)} graphs to {args.out}")


if __name__ == "__main__":
    main()
