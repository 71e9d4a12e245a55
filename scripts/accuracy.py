#!/usr/bin/env python3
"""Share of right predictions, for demo.sh: accuracy.py PROBABILITIES.npy LABELS.npy. Needs only Python itself."""

import ast
import struct
import sys


def read_npy(path):
    """A .npy file of float32 or int64 in C order: (shape, flat values)."""
    with open(path, "rb") as file:
        data = file.read()
    if data[:6] != b"\x93NUMPY":
        sys.exit(f"error: {path} is no .npy file")
    length_bytes = 2 if data[6] == 1 else 4
    start = 8 + length_bytes
    end = start + int.from_bytes(data[8:start], "little")
    header = ast.literal_eval(data[start:end].decode("latin1"))
    code = {"<f4": "f", "<i8": "q"}.get(header["descr"])
    if code is None or header["fortran_order"]:
        sys.exit(f"error: {path}: only float32 and int64 in C order are read here")
    count = (len(data) - end) // struct.calcsize(code)
    return header["shape"], struct.unpack(f"<{count}{code}", data[end:])


def main():
    (rows, classes), scores = read_npy(sys.argv[1])
    _, labels = read_npy(sys.argv[2])
    right = 0
    for row in range(rows):
        line = scores[row * classes : (row + 1) * classes]
        right += line.index(max(line)) == labels[row]
    print(f"{right} of {rows} held-out digits right: {100 * right / rows:.2f} %")


if __name__ == "__main__":
    main()
