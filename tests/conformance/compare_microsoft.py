#!/usr/bin/env python3
"""Writes seeded graphs of com.microsoft operators with expected results, as folders of the ONNX backend-test layout.

    compare_microsoft.py OUT [--seeds N] [--kinds a,b] [--list]

`quern verify OUT --rtol 0 --tolerance OUT/tolerance.json` compares. A kind is a family of graphs that goes through the
forms of one operator. The results are onnxruntime's, without graph optimizations; for what its CPU build has no kernel
for, they are computed here in double.
"""

import argparse
import itertools
import json
import pathlib
import zlib

import numpy as np
from graph_builder import Builder, write_folder
from onnx import TensorProto

KINDS = {}
MS = "com.microsoft"


def kind(tolerance=1e-4):
    """Registers Builder -> feeds, or -> (feeds, expected outputs); `tolerance` is relative to the largest value."""

    def add(function):
        KINDS[function.__name__] = (function, tolerance)
        return function

    return add


def ints(b, *shape, low=0, high=2):
    return b.rng.integers(low, high, shape).astype(np.int32)


def uniform(b, *shape, low=0.5, high=1.5):
    return (low + (high - low) * b.rng.random(shape)).astype(np.float32)


class Feeds:
    """One set of inputs, declared in the graph as they are made."""

    def __init__(self, b):
        self.b, self.values = b, {}

    def add(self, array, name=None):
        array = np.asarray(array)
        name = name or f"in{len(self.values)}"
        dtype = {"f": TensorProto.FLOAT, "i": TensorProto.INT32, "u": TensorProto.UINT8}[array.dtype.kind]
        if array.dtype == np.int64:
            dtype = TensorProto.INT64
        if array.dtype == np.int8:
            dtype = TensorProto.INT8
        self.b.input(name, [f"{name}_{i}" for i in range(array.ndim)], dtype)
        self.values[name] = array
        return name

    def normal(self, *shape):
        return self.add(self.b.normal(*shape))


def outputs(b, names, *ranks):
    for name, rank in zip([names] if isinstance(names, str) else names, ranks):
        b.output(name, rank=rank)


@kind()
def embed_layer_norm(b):
    """EmbedLayerNormalization with and without segments, positions, a mask and the sum."""
    n, s, hidden = 2, int(b.rng.integers(3, 9)), 4 * int(b.rng.integers(2, 7))
    f = Feeds(b)
    words = f.add(ints(b, n, s, high=17))
    segments = f.add(ints(b, n, s, high=2))
    keep = np.sort(ints(b, n, s), axis=1)[:, ::-1].copy()
    mask = f.add(keep)
    places = [f.add(ints(b, n, s, high=11)), f.add(ints(b, 1, s, high=11)), ""]
    tables = [b.weight(rows, hidden, fan_in=1) for rows in (17, 11, 2)]
    for with_segments in (True, False):
        for place in places:
            last = [tables[2] if with_segments else "", b.weight(hidden, fan_in=1), b.bias(hidden), mask, place]
            ids = [words, segments if with_segments else ""]
            y, count, total = b.op(
                "EmbedLayerNormalization", *ids, *tables[:2], *last, domain=MS, outputs=3, epsilon=b.pick(1e-12, 1e-3)
            )
            outputs(b, [y, total], 3, 3)
            b.output(count, TensorProto.INT32, rank=1)
    inputs = [words, segments, *tables, b.weight(hidden, fan_in=1), b.bias(hidden)]
    y, count = b.op("EmbedLayerNormalization", *inputs, domain=MS, outputs=2, mask_index_type=1)
    outputs(b, y, 3)
    b.output(count, TensorProto.INT32, rank=1)
    return [f.values]


def kept(b, *shape):
    """A mask that keeps the first key: what is hidden whole is left to rounding."""
    mask = ints(b, *shape)
    mask[..., 0] = 1
    return mask


def masks(b, f, n, s, total):
    """One of each form that Attention takes."""
    end = np.maximum(1, ints(b, n, low=1, high=total + 1))
    start = np.minimum(end - 1, ints(b, n, high=total))
    query = np.concatenate([end, np.arange(n + 1) * s, np.arange(n + 1) * total]).astype(np.int32)
    forms = [end, np.concatenate([end, start]), query, kept(b, n, total), ints(b, n, 1), kept(b, n, s, total)]
    return ["", *(f.add(form.astype(np.int32)) for form in forms)]


@kind()
def attention(b):
    """Attention in every form of its mask, with a bias of scores, a scale and other sizes of values."""
    n, s, heads, width = 2, int(b.rng.integers(2, 8)), b.pick(2, 3), int(b.rng.integers(5, 20))
    f = Feeds(b)
    x = f.normal(n, s, width)
    extra = [f.normal(b.pick(1, n), b.pick(1, heads), s, s), ""]
    for mask in masks(b, f, n, s, s):
        sizes = [heads * int(k) for k in b.rng.integers(2, 9, 2)]
        sizes = [sizes[0], sizes[0], sizes[1]]
        columns = sum(sizes)
        attributes = {"num_heads": heads, "qkv_hidden_sizes": sizes, "unidirectional": b.pick(0, 1)}
        if b.rng.random() < 0.5:
            attributes["scale"] = 0.3
        if b.rng.random() < 0.5 or attributes["unidirectional"]:
            attributes["mask_filter_value"] = -7.5
        inputs = [x, b.weight(width, columns, fan_in=width), b.bias(columns), mask, "", b.pick(*extra)]
        outputs(b, b.op("Attention", *inputs, domain=MS, **attributes), 3)
    y = b.op("Attention", x, b.weight(width, 6 * heads, fan_in=width), b.bias(6 * heads), domain=MS, num_heads=heads)
    outputs(b, y, 3)
    return [f.values]


@kind()
def attention_cache(b):
    """Attention that goes on from a past, or starts one."""
    n, s, past, heads, size = 2, int(b.rng.integers(1, 5)), int(b.rng.integers(1, 6)), b.pick(2, 4), b.pick(4, 6)
    width = heads * size
    f = Feeds(b)
    x, cache = f.normal(n, s, width), f.normal(2, n, heads, past, size)
    for mask in masks(b, f, n, s, past + s):
        for causal in (0, 1):
            y, present = b.op(
                "Attention",
                *(x, b.weight(width, 3 * width), b.bias(3 * width), mask, cache),
                domain=MS,
                outputs=2,
                num_heads=heads,
                unidirectional=causal,
                mask_filter_value=-5.5,
            )
            outputs(b, [y, present], 3, 5)
    y = b.op(
        "Attention", x, b.weight(width, 3 * width), b.bias(3 * width), domain=MS, outputs=2, num_heads=heads
    )
    outputs(b, y, 3, 5)
    return [f.values]


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def split_heads(x, heads):
    """[n, s, heads * size] as [n, heads, s, size]."""
    return x.reshape(*x.shape[:2], heads, -1).transpose(0, 2, 1, 3)


def attend(q, k, v, bias, scale=None):
    """Of [n, heads, rows, size], in double; [n, s, heads * size]."""
    scores = q @ k.transpose(0, 1, 3, 2) * (scale or 1 / np.sqrt(q.shape[-1])) + bias
    y = (softmax(scores) @ v).transpose(0, 2, 1, 3)
    return y.reshape(*y.shape[:2], -1)


def rotate_halves(x, first, rotated):
    """Rotary embedding of [n, heads, s, size] with base 10000, halves paired."""
    half = rotated // 2
    angle = (first + np.arange(x.shape[2]))[:, None] / 10000.0 ** (2 * np.arange(half) / rotated)
    a, c, rest = x[..., :half], x[..., half:rotated], x[..., rotated:]
    cos, sin = np.cos(angle), np.sin(angle)
    return np.concatenate([a * cos - c * sin, c * cos + a * sin, rest], -1)


@kind()
def attention_forms(b):
    """Attention with rotation, a 4-D mask or a cache of fixed size (computed here)."""
    n, s, past, heads, size, most = 2, int(b.rng.integers(1, 4)), int(b.rng.integers(1, 4)), 2, b.pick(8, 32), 9
    width = heads * size
    f = Feeds(b)
    x = b.normal(n, s, width)
    weights, bias = (b.rng.standard_normal((width, 3 * width)) / np.sqrt(width)).astype(np.float32), b.normal(3 * width)
    cache, keep = b.normal(2, n, heads, most, size), ints(b, n, 1, most, most)
    total = past + s
    keep[:, 0, np.arange(most), np.arange(most)] = 1
    names = [f.add(a) for a in (x, weights, bias)]
    length = f.add(np.array([past], np.int32))
    full, short, mask = f.add(cache), f.add(cache[:, :, :, :past].copy()), f.add(keep)
    hide = np.where(keep[:, :, past:total, :total] > 0, 0.0, -10000.0)
    expected = []
    for shares in (0, 1):
        for rotated in (0, size, size // 2):
            attributes = {"num_heads": heads, "past_present_share_buffer": shares}
            if rotated:
                attributes.update(do_rotary=1, rotary_embedding_dim=0 if rotated == size else rotated)
            tail = [full, "", length] if shares else [short]
            y, present = b.op("Attention", *names, mask, *tail, domain=MS, outputs=2, **attributes)
            outputs(b, [y, present], 3, 5)
            q, k, v = (split_heads(p, heads) for p in np.split(x.astype(np.float64) @ weights + bias, 3, -1))
            if rotated:
                q, k = (rotate_halves(p, past, rotated) for p in (q, k))
            old = cache.astype(np.float64)
            k, v = (np.concatenate([old[i, :, :, :past], now], 2) for i, now in ((0, k), (1, v)))
            expected.append(attend(q, k, v, hide))
            joined = np.stack([k, v])
            expected.append(np.concatenate([joined, old[:, :, :, total:]], 3) if shares else joined)
    return [f.values], [[e.astype(np.float32) for e in expected]]


@kind()
def multi_head(b):
    """MultiHeadAttention of separate inputs: masks, biases, a past, keys that come transposed, one query."""
    n, s, other, past = 2, int(b.rng.integers(2, 6)), int(b.rng.integers(2, 7)), int(b.rng.integers(1, 5))
    heads, size, value_size = b.pick(2, 3), b.pick(4, 8), b.pick(4, 6)
    width, values = heads * size, heads * value_size
    f = Feeds(b)
    q, k, v = f.normal(n, s, width), f.normal(n, other, width), f.normal(n, other, values)
    bias = b.bias(2 * width + values)
    lengths = ints(b, n, low=1, high=other + 1)
    forms = [
        lengths,
        np.concatenate([lengths, np.arange(n + 1) * s, np.arange(n + 1) * other]).astype(np.int32),
        kept(b, n, other),
        kept(b, n, s, other),
    ]
    scores = f.normal(b.pick(1, n), b.pick(1, heads), s, other)
    for mask in ["", *(f.add(form) for form in forms)]:
        attributes = {"num_heads": heads, **({"scale": 0.4} if b.rng.random() < 0.5 else {})}
        if b.rng.random() < 0.5:
            attributes["mask_filter_value"] = -6.5
        inputs = [q, k, v, b.pick(bias, ""), mask, b.pick(scores, "")]
        y = b.op("MultiHeadAttention", *inputs, domain=MS, outputs=4, **attributes)
        outputs(b, y, 3, 4, 4, 4)
    y = b.op("MultiHeadAttention", q, k, v, bias, domain=MS, num_heads=heads)
    outputs(b, y, 3)
    # Self-attention that goes on from a past; one cache of rows in use, one of fixed size.
    same = f.normal(n, s, width)
    old_k, old_v = f.normal(n, heads, past, size), f.normal(n, heads, past, size)
    scores = f.normal(1, heads, s, past + s)
    both = b.bias(3 * width)
    for causal in (0, 1):
        for mask in ("", f.add(kept(b, n, past + s))):
            inputs = [q, same, q, b.pick(both, ""), mask, b.pick(scores, ""), old_k, old_v]
            y = b.op("MultiHeadAttention", *inputs, domain=MS, outputs=4, num_heads=heads, unidirectional=causal)
            outputs(b, y, 3, 4, 4, 4)
    # Keys and values that were projected before.
    for mask in ("", f.add(kept(b, n, past))):
        inputs = [q, old_k, old_v, "", mask]
        outputs(b, b.op("MultiHeadAttention", *inputs, domain=MS, num_heads=heads), 3)
    outputs(b, b.op("MultiHeadAttention", q, old_k, old_v, both, domain=MS, num_heads=heads), 3)
    # More keys than queries in the order of time, and a cache of fixed size.
    outputs(b, b.op("MultiHeadAttention", q, k, v, domain=MS, num_heads=heads, unidirectional=1), 3)
    token, used = f.normal(n, 1, width), f.add(np.array([past - 1], np.int32))
    inputs = [token, token, token, both, "", "", old_k, old_v, used]
    outputs(b, b.op("MultiHeadAttention", *inputs, domain=MS, outputs=3, num_heads=heads), 3, 4, 4)
    return [f.values]


@kind()
def multi_head_packed(b):
    """MultiHeadAttention of packed inputs (computed here)."""
    n, s, other, heads, size = 2, int(b.rng.integers(2, 6)), int(b.rng.integers(2, 7)), b.pick(2, 3), b.pick(4, 8)
    width = heads * size
    f = Feeds(b)
    q, kv, qkv = b.normal(n, s, width), b.normal(n, other, heads, 2, size), b.normal(n, s, heads, 3, size)
    bias, scores, keep = b.normal(3 * width), b.normal(1, 1, s, other), ints(b, n, other)
    keep[:, 0] = 1
    query, key_value, packed = f.add(q), f.add(kv), f.add(qkv)
    inputs = [query, key_value, "", "", f.add(keep), f.add(scores)]
    y = b.op("MultiHeadAttention", *inputs, domain=MS, outputs=3, num_heads=heads)
    outputs(b, y, 3, 4, 4)
    k, v = (kv[:, :, :, i].transpose(0, 2, 1, 3).astype(np.float64) for i in range(2))
    hide = scores + np.where(keep[:, None, None] > 0, 0.0, -10000.0)
    expected = [attend(split_heads(q.astype(np.float64), heads), k, v, hide), k, v]
    for with_bias in (True, False):
        inputs = [packed, "", "", f.add(bias) if with_bias else ""]
        y = b.op("MultiHeadAttention", *inputs, domain=MS, outputs=3, num_heads=heads)
        outputs(b, y, 3, 4, 4)
        parts = [qkv[:, :, :, i].transpose(0, 2, 1, 3).astype(np.float64) for i in range(3)]
        if with_bias:
            parts = [p + bias.reshape(3, 1, heads, 1, size)[i] for i, p in enumerate(parts)]
        expected += [attend(*parts, 0), *parts[1:]]
    return [f.values], [[e.astype(np.float32) for e in expected]]


def group_query_graph(b, n, s, total, lengths, past, forms, resident=None):
    """Nodes of GroupQueryAttention of one step; `past` rows of cache, none when 0; `resident` rows are left in it."""
    kv_heads, groups, size = b.pick(1, 2), b.pick(1, 2, 3), b.pick(16, 32)
    heads = kv_heads * groups
    width, kv_width = heads * size, kv_heads * size
    f = Feeds(b)
    q, k, v = f.normal(n, s, width), f.normal(n, s, kv_width), f.normal(n, s, kv_width)
    packed = f.normal(n, s, width + 2 * kv_width)
    cache = [f.normal(n, kv_heads, past, size), f.normal(n, kv_heads, past, size)] if past else ["", ""]
    counts, most = f.add(np.asarray(lengths, np.int32) - 1), f.add(np.array([total], np.int32))
    full = f.add(np.full(n, total - 1, np.int32))
    half = b.pick(size // 2, 8)
    angle = np.arange(total + 9)[:, None] / 100.0 ** (np.arange(half) / half)
    caches = [b.const(np.cos(angle).astype(np.float32)), b.const(np.sin(angle).astype(np.float32))]
    if s == 1:
        where = np.asarray(lengths, np.int64)[:, None] - 1
    else:
        where = np.broadcast_to(total - s + 2 + np.arange(s, dtype=np.int64), (n, s)).copy()
    positions, scores = f.add(where), f.normal(b.pick(1, n), b.pick(1, heads), s, total)
    sink = f.normal(heads)
    for form in forms:
        inputs = [packed, "", ""] if form.pop("packed", 0) else [q, k, v]
        # What padding sees of a window, and the scores of keys that a sample lacks, are each engine's own.
        inputs += [*cache, full if "qk_output" in form or ("local_window_size" in form and s > 1) else counts]
        inputs += [most]
        if form.get("do_rotary"):
            inputs += [*caches, positions if form.pop("positions", 0) else ""]
        else:
            inputs += ["", "", ""]
        inputs += [scores if form.pop("bias", 0) else "", sink if form.pop("sink", 0) else ""]
        count = 4 if form.get("qk_output") else 3
        attributes = {"num_heads": heads, "kv_num_heads": kv_heads, **form}
        made = b.op("GroupQueryAttention", *inputs, domain=MS, outputs=count, **attributes)
        if resident is not None:
            ends = [b.const(np.array([v], np.int64)) for v in (0, resident, 2)]
            made[1:] = [b.op("Slice", cache_rows, *ends) for cache_rows in made[1:]]
        outputs(b, made, 3, 4, 4, 4)
    return [f.values]


def group_query_forms(b):
    window = int(b.rng.integers(1, 5))
    return [
        {},
        {"scale": 0.2, "softcap": 1.5},
        {"do_rotary": 1},
        {"do_rotary": 1, "rotary_interleaved": 1, "packed": 1},
        {"do_rotary": 1, "positions": 1},
        {"local_window_size": window},
        {"local_window_size": window, "packed": 1, "smooth_softmax": 1, "softcap": 2.5, "bias": 1},
        {"smooth_softmax": 1},
        {"sink": 1},
        {"bias": 1, "softcap": 0.9},
        {"qk_output": 1, "softcap": 1.1, "bias": 1},
        {"qk_output": 2, "sink": 1},
    ]


@kind()
def group_query_prompt(b):
    """GroupQueryAttention of a first prompt, with and without an empty cache of fixed size."""
    n, s = b.pick(1, 2), int(b.rng.integers(2, 9))
    lengths = [s, int(b.rng.integers(1, s + 1))][:n]
    return group_query_graph(b, n, s, s, lengths, b.pick(0, s + 2), group_query_forms(b))


@kind()
def group_query_step(b):
    """GroupQueryAttention of one new token per sample, the samples of different lengths."""
    n, past = 2, int(b.rng.integers(2, 9))
    lengths = [past + 1, int(b.rng.integers(1, past + 2))]
    return group_query_graph(b, n, 1, past + 1, lengths, b.pick(past, past + 4), group_query_forms(b))


@kind()
def group_query_chunk(b):
    """GroupQueryAttention of several tokens that follow a past."""
    s, past = int(b.rng.integers(2, 5)), int(b.rng.integers(2, 9))
    return group_query_graph(b, 1, s, past + s, [past + s], b.pick(past, past + s + 3), group_query_forms(b))


@kind()
def group_query_sliding(b):
    """GroupQueryAttention whose cache holds a window of the sequence."""
    s, window = b.pick(1, 1, 3, 12), int(b.rng.integers(1, 6))
    rows = window + int(b.rng.integers(0, 4))
    n = b.pick(1, 2) if s == 1 else 1
    past = int(b.rng.integers(0, 20)) if s > 1 else int(b.rng.integers(1, 20))
    lengths = [past + s, max(2, past + s - int(b.rng.integers(0, 4)))][:n]
    forms = [{}, {"do_rotary": 1}, {"do_rotary": 1, "positions": 1, "sink": 1}, {"bias": 1, "softcap": 2.0}]
    forms = [{"local_window_size": window, "sliding_window_cache": 1, **form} for form in forms]
    slack = rows - window + 1
    resident = min(k if k <= rows else k - slack * -(-(k - rows) // slack) for k in lengths)
    return group_query_graph(b, n, s, max(lengths), lengths, rows, forms, resident)


@kind()
def rotary(b):
    """RotaryEmbedding of 3-D and 4-D inputs, whole heads and parts, pairs in halves or side by side."""
    n, s, heads, size = 2, int(b.rng.integers(1, 6)), b.pick(2, 3), b.pick(16, 32)
    f = Feeds(b)
    flat, apart = f.normal(n, s, heads * size), f.normal(n, heads, s, size)
    first, each = f.add(np.array([3], np.int64)), f.add(b.rng.integers(0, 20, (n, s)))
    for rotated in (size, size // 2):
        angle = np.arange(20)[:, None] / 100.0 ** (np.arange(rotated // 2) / rotated)
        caches = [b.const(np.cos(angle).astype(np.float32)), b.const(np.sin(angle).astype(np.float32))]
        attributes = {} if rotated == size else {"rotary_embedding_dim": rotated, "num_heads": heads}
        for interleaved in (0, 1):
            for x, positions in ((flat, first), (flat, each), (apart, first), (apart, each)):
                y = b.op("RotaryEmbedding", x, positions, *caches, domain=MS, interleaved=interleaved, **attributes)
                outputs(b, y, 3 if x == flat else 4)
    return [f.values]


@kind()
def q_attention(b):
    """QAttention: scales and zero points per tensor and per column, masks, a past."""
    n, s, past, heads, size = 2, int(b.rng.integers(2, 7)), int(b.rng.integers(1, 5)), b.pick(2, 3), b.pick(4, 8)
    width, columns = int(b.rng.integers(5, 20)), 3 * heads * size
    f = Feeds(b)
    cache = f.normal(2, n, heads, past, size)
    forms = [*masks(b, f, n, s, s), *masks(b, f, n, s, past + s)]
    x = f.add(b.rng.integers(0, 256, (n, s, width)).astype(np.uint8))
    for i, mask in enumerate(forms):
        dtype = b.pick(np.int8, np.uint8)
        info = np.iinfo(dtype)
        weights = b.const(b.rng.integers(info.min, info.max + 1, (width, columns)).astype(dtype))
        per_column = b.pick(True, False)
        scale = b.const(uniform(b, *([columns] if per_column else []), low=0.002, high=0.01))
        zero = b.const(np.asarray(b.rng.integers(-9, 10, [columns] if per_column else []) % 50).astype(dtype))
        inputs = [x, weights, b.bias(columns), b.const(np.float32(0.01)), scale, mask, b.const(np.uint8(120)), zero]
        attributes = {"num_heads": heads, "unidirectional": b.pick(0, 1), "mask_filter_value": -8.0}
        if i < 7:
            outputs(b, b.op("QAttention", *inputs, domain=MS, **attributes), 3)
        else:
            outputs(b, b.op("QAttention", *inputs, cache, domain=MS, outputs=2, **attributes), 3, 5)
    return [f.values]


@kind(tolerance=1e-3)
def dynamic_quantize_lstm(b):
    """DynamicQuantizeLSTM: directions, scales per tensor and per column, states, peepholes, lengths."""
    steps, n, width, hidden = int(b.rng.integers(1, 7)), b.pick(1, 3), int(b.rng.integers(3, 20)), b.pick(4, 8, 11)
    f = Feeds(b)
    x = f.normal(steps, n, width)
    lengths = f.add(ints(b, n, low=1, high=steps + 1))
    for direction in ("forward", "reverse", "bidirectional"):
        d = 2 if direction == "bidirectional" else 1
        states = [f.normal(d, n, hidden), f.normal(d, n, hidden)]
        for per_column in (True, False):
            dtype = b.pick(np.int8, np.uint8)
            info = np.iinfo(dtype)
            shape = (d, 4 * hidden) if per_column else (d,)
            weights = [
                b.const(b.rng.integers(info.min, info.max + 1, (d, rows, 4 * hidden)).astype(dtype))
                for rows in (width, hidden)
            ]
            scales = []
            for _ in range(2):
                zero = (0 if dtype == np.int8 else 128) + np.zeros(shape)
                scales += [b.const(uniform(b, *shape, low=0.003, high=0.006)), b.const(zero.astype(dtype))]
            inputs = [x, *weights, b.const(b.normal(d, 8 * hidden) * 0.2), b.pick(lengths, ""), *states]
            inputs += [b.const(b.normal(d, 3 * hidden) * 0.2), *scales]
            y = b.op(
                "DynamicQuantizeLSTM", *inputs, domain=MS, outputs=3, hidden_size=hidden, direction=direction
            )
            outputs(b, y, 4, 3, 3)
    return [f.values]


@kind()
def normalizations(b):
    """SkipLayerNormalization and its simplified forms, with all their outputs."""
    n, s, width = 2, int(b.rng.integers(2, 6)), int(b.rng.integers(5, 40))
    f = Feeds(b)
    x = f.normal(n, s, width)
    skips = [f.normal(n, s, width), f.normal(1, s, width), f.normal(s, width)]
    gamma, beta, bias = b.weight(width, fan_in=1), b.bias(width), b.bias(width)
    for skip in skips:
        for tail in ([beta, bias], ["", bias], [beta], []):
            y = b.op("SkipLayerNormalization", x, skip, gamma, *tail, domain=MS, outputs=4, epsilon=b.pick(1e-12, 0.01))
            outputs(b, [y[0], y[3]], 3, 3)
        for tail in ([bias], []):
            y = b.op("SkipSimplifiedLayerNormalization", x, skip, gamma, *tail, domain=MS, outputs=4, epsilon=1e-5)
            outputs(b, [y[0], y[3]], 3, 3)
    outputs(b, b.op("SimplifiedLayerNormalization", x, gamma, outputs=2, epsilon=1e-4), 3, 3)
    table = b.weight(s, width, fan_in=1)
    outputs(b, b.op("SimplifiedLayerNormalization", x, table, outputs=2, axis=1), 3, 3)
    return [f.values]


@kind()
def group_norms(b):
    """GroupNorm and SkipGroupNorm (computed here)."""
    n, h, w, groups = 2, int(b.rng.integers(1, 6)), int(b.rng.integers(1, 6)), b.pick(1, 2, 4)
    channels = groups * int(b.rng.integers(1, 5))
    f = Feeds(b)
    expected = []
    gamma, beta, bias = (b.normal(channels) for _ in range(3))
    names = [f.add(a) for a in (gamma, beta, bias)]
    for last in (1, 0):
        for shape in (None, "whole", "rows", "ones"):
            x = b.normal(n, h, w, channels)
            attributes = {"groups": groups, "activation": b.pick(0, 1), "channels_last": last, "epsilon": 0.001}

            def place(a):
                return np.ascontiguousarray(a if last else a.transpose(0, 3, 1, 2))

            inputs, total = [f.add(place(x)), *names[:2]], x.astype(np.float64)
            if shape:
                skip = b.normal(n, *((h, w) if shape == "whole" else (1, 1)), channels)
                inputs.append(f.add(skip[:, 0, 0].copy() if shape == "rows" else place(skip)))
                total = total + skip
                if b.rng.random() < 0.5:
                    inputs.append(names[2])
                    total = total + bias
            y = b.op(
                "SkipGroupNorm" if shape else "GroupNorm", *inputs, domain=MS, outputs=2 if shape else 1, **attributes
            )
            outputs(b, y, 4, 4)
            parts = total.reshape(n, h * w, groups, -1)
            mean, variance = parts.mean((1, 3), keepdims=True), parts.var((1, 3), keepdims=True)
            result = ((parts - mean) / np.sqrt(variance + 0.001)).reshape(total.shape) * gamma + beta
            if attributes["activation"]:
                result = result / (1 + np.exp(-result))
            expected += [place(result)] + ([place(total)] if shape else [])
    return [f.values], [[e.astype(np.float32) for e in expected]]


@kind()
def activations(b):
    """Gelu in its forms."""
    width = int(b.rng.integers(3, 50))
    f = Feeds(b)
    x = f.add(3 * b.normal(2, 3, width))
    for op, tail, attributes in (
        ("Gelu", [], {}),
        ("BiasGelu", [b.bias(width)], {}),
        ("FastGelu", [], {}),
        ("FastGelu", [b.bias(width)], {}),
        ("QuickGelu", [], {}),
        ("QuickGelu", [], {"alpha": -0.7}),
    ):
        outputs(b, b.op(op, x, *tail, domain=MS, **attributes), 3)
    return [f.values]


FUSED = [
    ("Relu", []),
    ("Tanh", []),
    ("Sigmoid", []),
    ("LeakyRelu", [0.2]),
    ("Clip", [-0.5, 0.7]),
    ("HardSigmoid", [0.3, 0.4]),
]


@kind()
def fused_conv(b):
    """FusedConv through its activations, with and without a bias and a summand."""
    c, size = b.pick(2, 4), int(b.rng.integers(5, 9))
    f = Feeds(b)
    x, z = f.normal(2, c, size, size), f.normal(2, 4, size, size)
    for activation, params in FUSED:
        group = b.pick(1, 2)
        extra = {"activation_params": params} if params else {}
        inputs = [x, b.weight(4, c // group, 3, 3), b.pick("", b.bias(4)), b.pick("", z)]
        y = b.op("FusedConv", *inputs, domain=MS, activation=activation, group=group, pads=[1] * 4, **extra)
        outputs(b, y, 4)
    return [f.values]


@kind()
def fused_gemm(b):
    """FusedGemm through its activations, in the four transpositions."""
    m, k, n = (int(v) for v in b.rng.integers(2, 20, 3))
    f = Feeds(b)
    sides = [[f.normal(m, k), f.normal(k, m)], [f.normal(k, n), f.normal(n, k)]]
    for activation, params in FUSED:
        if activation == "Clip":
            continue
        ta, tb = b.pick(0, 1), b.pick(0, 1)
        extra = dict(zip(("activation_alpha", "activation_beta"), params))
        c = b.pick([], [b.bias(n)], [b.weight(m, n)], [b.weight(m, 1)])
        inputs = [sides[0][ta], sides[1][tb], *c]
        y = b.op(
            "FusedGemm", *inputs, domain=MS, activation=activation, transA=ta, transB=tb, alpha=0.5, beta=1.5, **extra
        )
        outputs(b, y, 2)
    return [f.values]


@kind()
def fused_matmul(b):
    """FusedMatMul with transposed matrices and batches."""
    n, o, m, k, c = (int(v) for v in b.rng.integers(2, 6, 5))
    f = Feeds(b)
    for batch_a, batch_b, ta, tb in itertools.product((0, 1), repeat=4):
        left, right = ([k, m] if ta else [m, k]), ([c, k] if tb else [k, c])
        a = [left[0], n, o, left[1]] if batch_a else [n, o, *left]
        d = [right[0], n, o, right[1]] if batch_b else [n, o, *right]
        attributes = {"transA": ta, "transB": tb, "transBatchA": batch_a, "transBatchB": batch_b}
        y = b.op("FusedMatMul", f.normal(*a), f.normal(*d), domain=MS, alpha=b.pick(1.0, 0.25), **attributes)
        outputs(b, y, 4)
    outputs(b, b.op("FusedMatMul", f.normal(m, k), f.normal(n, k, c), domain=MS, alpha=2.0), 3)
    return [f.values]


@kind()
def matmul_nbits(b):
    """MatMulNBits of 2, 4 and 8 bits: zero points absent, packed and as floats, a bias, an uneven last block."""
    k, n = int(b.rng.integers(17, 80)), int(b.rng.integers(3, 20))
    f = Feeds(b)
    x = f.normal(2, 3, k)
    for bits, zeros in itertools.product((2, 4, 8), ("none", "packed", "float")):
        block = b.pick(16, 32)
        blocks = -(-k // block)
        weight = b.rng.integers(0, 256, (n, blocks, block * bits // 8)).astype(np.uint8)
        scale = uniform(b, n, blocks, low=0.1, high=1.0) / 2**bits
        zero = ""
        if zeros == "packed":
            zero = b.const(b.rng.integers(0, 256, (n, -(-blocks * bits // 8))).astype(np.uint8))
        if zeros == "float" and bits < 8:  # onnxruntime has it for fewer bits
            zero = b.const(uniform(b, n, blocks, low=0.0, high=2.0**bits))
        inputs = [x, b.const(weight), b.const(scale), zero, "", b.pick("", b.bias(n))]
        outputs(b, b.op("MatMulNBits", *inputs, domain=MS, K=k, N=n, bits=bits, block_size=block), 3)
    return [f.values]


@kind()
def matmul_nbits_groups(b):
    """MatMulNBits whose rows belong to groups in any order, with zero points as floats (computed here)."""
    k, n, block = int(b.rng.integers(17, 80)), int(b.rng.integers(3, 20)), 16
    blocks = -(-k // block)
    f = Feeds(b)
    rows = b.normal(2, 3, k)
    x, expected = f.add(rows), []
    for bits in (2, 4, 8):
        q = b.rng.integers(0, 2**bits, (n, blocks * block))
        per_byte = 8 // bits
        weight = (q.reshape(n, blocks, -1, per_byte) << bits * np.arange(per_byte)).sum(-1).astype(np.uint8)
        scale, zero = uniform(b, n, blocks, low=0.1, high=1.0) / 2**bits, uniform(b, n, blocks, low=0.0, high=2.0**bits)
        group = ints(b, k, high=blocks)
        inputs = [x, b.const(weight), b.const(scale.astype(np.float32)), b.const(zero), b.const(group)]
        outputs(b, b.op("MatMulNBits", *inputs, domain=MS, K=k, N=n, bits=bits, block_size=block), 3)
        matrix = (q[:, :k] - zero.astype(np.float64)[:, group]) * scale.astype(np.float32)[:, group]
        expected.append((rows @ matrix.T).astype(np.float32))
    return [f.values], [expected]


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
