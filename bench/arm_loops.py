#!/usr/bin/env python3
"""Instructions of the main loops of the Arm GEMM kernels, counted in their objects: no Arm hardware is needed.

The main loop of an object is the innermost loop with the most multiply-accumulates; of several the shortest. Where
an object has outer products, only loops of them count: it is left out if they are in none. Lengths are 128 bits for
SVE and 512 for SME. `--mca CPU` adds what llvm-mca's model of a CPU says (NEON and SVE only):
neoverse-n1, neoverse-n2, neoverse-v1, neoverse-v2, ...

    cmake --preset aarch64 && cmake --build build/aarch64 --target ukernel_test
    bench/arm_loops.py [--mca neoverse-v1] [OBJECT...]

OBJECTs may be of any library; without them, the rows of build/aarch64 are shown.
"""

import argparse
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
ARM = re.compile(r"gemm_.*_(neon|sve|sme)\w*\.cc\.o$")
BRANCH = re.compile(r"^(?:b(?:\.\w+)?|cbn?z|tbn?z)\s(?:.*\s)?(?:0x)?([0-9a-f]+) <")

OUTER = re.compile(r"(?:[us]|us|su|f|bf)mopa ")

# Multiply-accumulates of one instruction: by mnemonic, at 128 bits, or 512 for outer products.
LANES = {"4s": 4, "8h": 8, "2d": 2, "s": 4, "h": 8, "d": 2}


def macs(text):
    """Multiply-accumulates of an instruction; 0 for others."""
    name, _, operands = text.partition(" ")
    if name in ("sdot", "udot", "usdot", "sudot"):
        return 16
    if name in ("smmla", "ummla", "usmmla"):
        return 32
    if name in ("bfmmla",):
        return 16
    if name in ("bfdot",) or (name == "fdot"):
        return 8
    if name in ("smull", "smull2", "umull", "umull2", "smlal", "smlal2", "umlal", "umlal2"):
        return 8 if re.search(r"\.(8b|16b)", operands) else 4
    if re.match(r"(fmlal|bfmlal)[2bt]?$", name):
        return 4
    if name in ("fmla", "fmls"):
        kind = re.match(r"[vz](?:a\.|\d+\.)(\w+)", operands)
        return LANES.get(kind[1], 0) if kind else 4
    if re.match(r"(smopa|umopa|usmopa|sumopa)$", name):
        return 16 * 16 * 4
    if name in ("bfmopa", "fmopa"):
        halves = name == "bfmopa" or re.search(r"z\d+\.h", operands)
        return 16 * 16 * (2 if halves else 1)
    return 0


def functions(objdump, path):
    command = [objdump, "-d", "--no-show-raw-insn", "--mattr=+all", str(path)]
    name, code = "", []
    for line in subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines():
        if head := re.match(r"^[0-9a-f]+ <(.*)>:$", line):
            yield name, code
            name, code = head[1], []
        elif instruction := re.match(r"^ *([0-9a-f]+):\s+(\S.*)$", line):
            text = re.sub(r"\s+", " ", instruction[2].split("//")[0]).strip()
            code.append((int(instruction[1], 16), text))
    yield name, code


def loops(code):
    """Innermost loops: from the target of a branch back to the last branch to it, no other loop within."""
    index = {address: i for i, (address, _) in enumerate(code)}
    ends = {}
    for i, (_, text) in enumerate(code):
        jump = BRANCH.match(text)
        target = index.get(int(jump[1], 16), i + 1) if jump else i + 1
        if target <= i:
            ends[target] = i
    for begin, end in ends.items():
        if not any(begin < other <= end for other in ends):
            yield [text for _, text in code[begin : end + 1]]


def main_loop(objdump, path):
    best, most = None, 0
    all_code = [code for _, code in functions(objdump, path)]
    outer = any(OUTER.match(text) for code in all_code for _, text in code)
    for code in all_code:
        for loop in loops(code):
            if outer and not any(OUTER.match(text) for text in loop):
                continue
            total = sum(macs(text) for text in loop)
            if total > most or (total == most and best and len(loop) < len(best)):
                best, most = loop, total
    return best


def mca(loop, cpu):
    """Cycles of one iteration, or None where the model lacks an instruction."""
    text = ".Lloop:\n" + "".join(re.sub(r"(?:0x)?[0-9a-f]+ <.*>", ".Lloop", line) + "\n" for line in loop)
    command = ["llvm-mca-19", "-mtriple=aarch64", f"-mcpu={cpu}", "-mattr=+all", "-iterations=200"]
    result = subprocess.run(command, input=text, capture_output=True, text=True)
    cycles = re.search(r"Total Cycles:\s+(\d+)", result.stdout)
    return int(cycles[1]) / 200 if cycles else None


def row(name, loop, cpu):
    multiplying = [text for text in loop if macs(text)]
    total = sum(macs(text) for text in loop)
    loads = sum(text.startswith(("ld", "prf")) for text in loop)
    spills = sum(bool(re.search(r"\[sp\b", text)) for text in loop)
    rest = len(loop) - len(multiplying) - loads
    kinds = "+".join(sorted({text.split(" ")[0] for text in multiplying}))
    cells = [
        name,
        f"{len(multiplying)} {kinds}",
        str(loads),
        str(rest),
        str(spills),
        f"{(loads + rest) / len(multiplying):.2f}",
        f"{1000 * len(loop) / total:.1f}",
    ]
    if cpu:
        cycles = mca(loop, cpu)
        cells.append(f"{total / cycles:.1f}" if cycles else "-")
    return cells


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("objects", nargs="*", type=pathlib.Path)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/aarch64")
    parser.add_argument("--objdump", default="llvm-objdump-19")
    parser.add_argument("--mca", metavar="CPU")
    args = parser.parse_args()
    objects = args.objects or sorted(p for p in args.build.rglob("*.o") if ARM.search(p.name))
    if not objects:
        sys.exit(f"error: no objects of Arm kernels in {args.build}")
    head = ["main loop of", "multiplying", "loads", "others", "on the stack", "not multiplying, per one that is"]
    head += ["instructions per 1000 MAC"] + ([f"MAC/cycle, {args.mca}"] if args.mca else [])
    table = [head, ["---"] * len(head)]
    for path in objects:
        if loop := main_loop(args.objdump, path):
            table.append(row(path.name.removesuffix(".o").removesuffix(".cc"), loop, args.mca))
    for cells in table:
        print("| " + " | ".join(cells) + " |")


main()
