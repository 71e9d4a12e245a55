#!/usr/bin/env python3
"""usage: check_spills.py OBJDUMP LIST: no hot loop of the register tiles in LIST keeps vectors in memory.

Register tiles are the families of products, convolutions and peaks; the vector family works on blocks of a row that it
keeps on the stack, so its loops load from there on purpose. A hot loop is an innermost loop with at least eight
multiply-add (or dot product) instructions; a vector load from or store to the stack in it is a spill.
"""
import re
import subprocess
import sys

MULTIPLY_ADD = re.compile(r"^v(fmadd|fnmadd|pdpb|pdpw|pmaddwd|dpbf16)")
SPILL = re.compile(r"^v\w+ .*\(%[re]?sp\b")
TILES = re.compile(r"ukernel_(gemm|dwconv|peak)_")
JUMP = re.compile(r"^j\w+ +(?:.* )?(?:0x)?([0-9a-f]+) <")


def innermost_loops(code):
    index = {address: i for i, (address, _) in enumerate(code)}
    loops = set()
    for i, (_, text) in enumerate(code):
        jump = JUMP.match(text)
        if jump and index.get(int(jump[1], 16), i + 1) <= i:
            loops.add((index[int(jump[1], 16)], i))
    for begin, end in loops:
        if not any(begin <= b and e <= end and (b, e) != (begin, end) for b, e in loops):
            yield [text for _, text in code[begin:end + 1]]


def functions(objdump, path):
    command = [objdump, "-d", "--no-show-raw-insn", path]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    name, code = "", []
    for line in text.splitlines():
        if head := re.match(r"^[0-9a-f]+ <(.*)>:$", line):
            yield name, code
            name, code = head[1], []
        elif instruction := re.match(r"^ *([0-9a-f]+):\s+(\S.*)$", line):
            code.append((int(instruction[1], 16), re.sub(r"\s+", " ", instruction[2])))
    yield name, code


def main():
    objdump, listing = sys.argv[1:]
    hot = bad = 0
    for path in filter(TILES.search, open(listing).read().split("\n")):
        for name, code in functions(objdump, path):
            for loop in innermost_loops(code):
                if sum(bool(MULTIPLY_ADD.match(text)) for text in loop) < 8:
                    continue
                hot += 1
                spills = [text for text in loop if SPILL.match(text)]
                if spills:
                    bad += 1
                    print(f"{path}: {name}: {len(spills)} spills in a loop of {len(loop)} instructions: {spills[0]}")
    print(f"{hot} hot loops, {bad} with spills")
    return 1 if bad or not hot else 0


sys.exit(main())
