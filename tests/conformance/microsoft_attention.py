"""Kinds of graphs of com.microsoft: the attention operators."""

import numpy as np
from microsoft_base import MS, Feeds, byte_weights, ints, kind, outputs, uniform


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
        weights = b.const(byte_weights(b, dtype, width, columns))
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
