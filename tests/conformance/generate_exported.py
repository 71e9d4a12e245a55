#!/usr/bin/env python3
"""Writes attention, windows and moves of channels as exporters of PyTorch and TensorFlow write them out, with
onnxruntime's results, as folders of the ONNX backend-test layout.

    generate_exported.py OUT [--seeds N]

Each seed draws other numbers and sizes, in one of two operator sets, with Attention and without (masks have a row for
each query, as onnxruntime's Attention asks for). OUT/fused.json says which operators the neutral passes make of each.
`quern verify OUT --rtol 0 --tolerance OUT/tolerance.json` compares.
"""

import argparse
import json
import pathlib
import zlib

import numpy as np
import onnx
import onnx.parser
from graph_builder import write_folder

OPSETS = [17, 23]
TOLERANCE = 2e-5
LOOSE = {"half": 2e-3}
FORMS = {}  # name -> (signature, body, function that draws the feeds, operators)


def form(name, signature, body, **fused):
    """Registers a form; the function decorated draws its feeds."""

    def register(function):
        FORMS[name] = (signature, body, function, fused)
        return function

    return register


def draw(rng, *shape):
    return rng.standard_normal(shape, dtype=np.float32)


def heads(rng, queries=None, kv_heads=3):
    """Queries, keys and values [batch, heads, length, 8] of drawn sizes."""
    b, n, m = (int(rng.integers(low, 9)) for low in (1, 1, 2))
    n = queries or n
    return {"q": draw(rng, b, 3, n, 8), "k": draw(rng, b, kv_heads, m, 8), "v": draw(rng, b, kv_heads, m, 8)}


QKV = "float[b,3,n,8] q, float[b,3,m,8] k, float[b,3,m,8] v"
OUT = "(float[b,3,n,8] y)"
SCORES = "t = Transpose<perm=[0,1,3,2]>(k) p = MatMul(q, t) "
VALUES = " w = Softmax<axis=-1>(a) y = MatMul(w, v)"


@form(
    "where_bool",
    f"({QKV}, bool[b,1,n,m] c) => {OUT} <float low = {{-3.4028235e38}}>",
    SCORES + "a = Where(c, p, low)" + VALUES,
    Attention=1,
    Softmax=0,
)
def where_bool(rng):
    feed = heads(rng)
    seen = rng.random((len(feed["q"]), 1, feed["q"].shape[2], feed["k"].shape[2])) < 0.6
    seen[..., 0] = True
    return feed | {"c": seen}


@form(
    "causal_slice",
    f"({QKV}) => {OUT} <float low = {{-10000}}, float one = {{1}}, int64[1] zero = {{0}}, int64[2] axes = {{2, 3}}, "
    "int64[1] two = {2}, int64[1] three = {3}, int64[4] all = {1, 1, 16, 16}, float scale = {0.35355338}>",
    "tri0 = ConstantOfShape<value=float[1] {1}>(all) tri = Trilu<upper=0>(tri0) sq = Shape(q) sk = Shape(k) "
    "nn = Slice(sq, two, three) mm = Slice(sk, two, three) from = Sub(mm, nn) starts = Concat<axis=0>(from, zero) "
    "ends = Concat<axis=0>(mm, mm) c = Slice(tri, starts, ends, axes) "
    + SCORES
    + "ps = Mul(p, scale) z = Mul(ps, c) r = Sub(one, c) h = Mul(r, low) a = Add(z, h)"
    + VALUES,
    Attention=1,
    Softmax=0,
)
def causal_slice(rng):
    return heads(rng, queries=2)


@form(
    "grouped",
    f"(float[b,3,n,8] q, float[b,1,m,8] k, float[b,1,m,8] v) => {OUT} <int64[1] two = {{2}}, int64[2] g = {{1, 3}}, "
    "int64[1] h = {3}, int64[1] d = {8}>",
    "s = Shape(k) bb = Shape<start=0, end=1>(k) mm = Shape<start=2, end=3>(k) w5 = Concat<axis=0>(bb, g, mm, d) "
    "w4 = Concat<axis=0>(bb, h, mm, d) k5 = Unsqueeze(k, two) v5 = Unsqueeze(v, two) ke = Expand(k5, w5) "
    "ve = Expand(v5, w5) kr = Reshape(ke, w4) vr = Reshape(ve, w4) t = Transpose<perm=[0,1,3,2]>(kr) "
    "a = MatMul(q, t) w = Softmax<axis=-1>(a) y = MatMul(w, vr)",
    Attention=1,
    Expand=0,
)
def grouped(rng):
    return heads(rng, kv_heads=1)


@form(
    "half",
    f"({QKV}) => {OUT}",
    "q1 = Cast<to=10>(q) k1 = Cast<to=10>(k) v1 = Cast<to=10>(v) t = Transpose<perm=[0,1,3,2]>(k1) p = MatMul(q1, t) "
    "a = Cast<to=1>(p) w = Softmax<axis=-1>(a) w1 = Cast<to=10>(w) y1 = MatMul(w1, v1) y = Cast<to=1>(y1)",
    Attention=1,
    Softmax=0,
)
def half(rng):
    return {name: 0.3 * value for name, value in heads(rng).items()}


@form(
    "guarded",
    f"({QKV}, bool[b,1,n,m] c) => {OUT} <float inf = {{-3.4028235e38}}, float zero = {{0}}>",
    SCORES + "o = Where(c, zero, inf) a = Add(p, o) w0 = Softmax<axis=-1>(a) i = IsNaN(w0) w = Where(i, zero, w0) "
    "y = MatMul(w, v)",
    Attention=1,
    IsNaN=0,
)
def guarded(rng):
    feed = heads(rng)
    seen = rng.random((len(feed["q"]), 1, feed["q"].shape[2], feed["k"].shape[2])) < 0.6
    seen[..., 0] = True
    return feed | {"c": seen}


ROWS = "(float[b,n,3,8] q, float[b,m,3,8] k, float[b,m,3,8] v) => (float[b,n,3,8] y)"


def rows(rng):
    return {name: np.ascontiguousarray(v.transpose(0, 2, 1, 3)) for name, v in heads(rng).items()}


form(
    "flax",
    ROWS,
    'a = Einsum<equation="bqhd,bkhd->bhqk">(q, k) w = Softmax<axis=-1>(a) '
    'y = Einsum<equation="bhqk,bkhd->bqhd">(w, v)',
    Attention=1,
    Einsum=0,
    Transpose=0,
)(rows)
form(
    "keras",
    ROWS,
    'a = Einsum<equation="aecd,abcd->acbe">(k, q) w = Softmax<axis=-1>(a) '
    'y = Einsum<equation="acbe,aecd->abcd">(w, v)',
    Attention=1,
    Einsum=0,
    Transpose=0,
)(rows)


@form(
    "bart",
    "(float[b,n,24] q, float[b,m,24] k, float[b,m,24] v, float[b,1,n,m] mask) => (float[b,n,24] y) "
    "<int64[2] two = {3, 8}, int64[1] h = {3}, int64[1] minus = {-1}, int64[1] d = {8}, int64[3] all = {0, 0, -1}>",
    "bb = Shape<start=0, end=1>(q) nn = Shape<start=1, end=2>(q) mm = Shape<start=1, end=2>(k) "
    "sq = Concat<axis=0>(bb, nn, two) sk = Concat<axis=0>(bb, mm, two) jq = Concat<axis=0>(minus, nn, d) "
    "jk = Concat<axis=0>(minus, mm, d) sw = Concat<axis=0>(bb, h, nn, mm) jw = Concat<axis=0>(minus, nn, mm) "
    "sy = Concat<axis=0>(bb, h, nn, d) q4 = Reshape(q, sq) k4 = Reshape(k, sk) v4 = Reshape(v, sk) "
    "qt = Transpose<perm=[0,2,1,3]>(q4) kt = Transpose<perm=[0,2,1,3]>(k4) vt = Transpose<perm=[0,2,1,3]>(v4) "
    "q3 = Reshape(qt, jq) k3 = Reshape(kt, jk) v3 = Reshape(vt, jk) t = Transpose<perm=[0,2,1]>(k3) "
    "p = MatMul(q3, t) r = Reshape(p, sw) c = Add(r, mask) j = Reshape(c, jw) w = Softmax<axis=-1>(j) "
    "o = MatMul(w, v3) o4 = Reshape(o, sy) ot = Transpose<perm=[0,2,1,3]>(o4) y = Reshape(ot, all)",
    Attention=1,
    Transpose=0,
)
def bart(rng):
    b, n, m = (int(rng.integers(1, 9)) for _ in range(3))
    return {"q": draw(rng, b, n, 24), "k": draw(rng, b, m, 24), "v": draw(rng, b, m, 24), "mask": draw(rng, b, 1, n, m)}


@form(
    "swin",
    "(float[8,3,4,8] q, float[8,3,4,8] k, float[8,3,4,8] v, float[1,3,4,4] bias, float[1,4,1,4,4] mask) => "
    "(float[8,3,4,8] y) <int64[5] apart = {2, 4, 3, 4, 4}, int64[4] back = {-1, 3, 4, 4}, float scale = {0.35355338}>",
    "qs = Mul(q, scale) t = Transpose<perm=[0,1,3,2]>(k) p = MatMul(qs, t) c = Add(p, bias) r = Reshape(c, apart) "
    "e = Add(r, mask) a = Reshape(e, back)" + VALUES,
    Attention=1,
    Softmax=0,
)
def swin(rng):
    feed = {name: draw(rng, 8, 3, 4, 8) for name in "qkv"}
    return feed | {"bias": draw(rng, 1, 3, 4, 4), "mask": -100 * (rng.random((1, 4, 1, 4, 4)) < 0.5).astype(np.float32)}


@form(
    "pixel_shuffle",
    "(float[b,12,h,w] x) => (float[b,3,i,j] y) <int64[2] c = {3, 2}, int64[1] two = {2}, int64[1] three = {3}>",
    "bb = Shape<start=0, end=1>(x) hh = Shape<start=2, end=3>(x) ww = Shape<start=3, end=4>(x) h2 = Mul(hh, two) "
    "w2 = Mul(ww, two) s = Concat<axis=0>(bb, c, two, hh, ww) r = Concat<axis=0>(bb, three, h2, w2) "
    "a = Reshape(x, s) t = Transpose<perm=[0,1,4,2,5,3]>(a) y = Reshape(t, r)",
    DepthToSpace=1,
    Transpose=0,
)
def pixel_shuffle(rng):
    b, h, w = (int(rng.integers(1, 9)) for _ in range(3))
    return {"x": draw(rng, b, 12, h, w)}


def build(name, seed):
    """The model of a form and its feeds: of two sizes where these are open."""
    signature, body, function, _ = FORMS[name]
    opset = OPSETS[seed % len(OPSETS)]
    text = f'<ir_version: 8, opset_import: ["": {opset}]> {name} {signature} {{ {body} }}'
    rng = np.random.default_rng(zlib.crc32(f"{name}/{seed}".encode()))
    return onnx.parser.parse_model(text), [function(rng), function(rng)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--seeds", type=int, default=2, help="models per form")
    args = parser.parse_args()
    tolerances, fused = {}, {}
    for name, (_, _, _, operators) in FORMS.items():
        for seed in range(args.seeds):
            model, feeds = build(name, seed)
            folder = f"{name}_{seed}"
            write_folder(args.out / folder, model, feeds)
            tolerances[folder] = LOOSE.get(name, TOLERANCE)
            fused[folder] = operators
    (args.out / "tolerance.json").write_text(json.dumps(tolerances, indent=1) + "\n")
    (args.out / "fused.json").write_text(json.dumps(fused, indent=1) + "\n")
    print(f"wrote {len(tolerances)} models to {args.out}")


if __name__ == "__main__":
    main()
