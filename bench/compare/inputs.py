"""Models to run, and arrays to run them on."""

import pathlib

import numpy as np

DTYPES = {
    "tensor(float)": np.float32,
    "tensor(double)": np.float64,
    "tensor(float16)": np.float16,
    "tensor(bool)": np.bool_,
} | {f"tensor({name})": np.dtype(name) for bits in (8, 16, 32, 64) for name in (f"int{bits}", f"uint{bits}")}


def find_models(places):
    """ONNX files: each place is one, or a folder that is searched. Beside a model.onnx no other file of its folder
    counts. ValueError for a place without any."""
    found = {}
    for place in map(pathlib.Path, places):
        if place.is_dir():
            files = sorted(place.rglob("*.onnx"))
            files = [f for f in files if f.name == "model.onnx" or not (f.parent / "model.onnx").exists()]
        else:
            files = [place] if place.is_file() else []
        if not files:
            raise ValueError(f"{place}: no ONNX model there")
        for file in files:
            found.setdefault(file.resolve(), file)
    return list(found.values())


def short_names(paths):
    """A name per path: the file's, or its folder's when it is model.onnx; with the folder above where two agree."""
    parts = [(p.parent if p.stem == "model" else p.with_suffix("")).resolve().parts for p in paths]
    names = []
    for own in parts:
        length = 1
        while length < len(own) and sum(other[-length:] == own[-length:] for other in parts) > 1:
            length += 1
        names.append("/".join(own[-length:]))
    return names


def make_feeds(inputs, shapes, seed=0):
    """One seeded array per Input. Symbolic extents are 1, or 128 if their name contains "seq"; `shapes` has others."""
    rng, feeds = np.random.default_rng(seed), {}
    for i in inputs:
        if i.type not in DTYPES:
            raise ValueError(f"input '{i.name}' has type {i.type}, which is not made up here: try --stored")
        shape = shapes.get(i.name) or [
            d if isinstance(d, int) and d > 0 else 128 if "seq" in str(d) else 1 for d in i.shape
        ]
        dtype = np.dtype(DTYPES[i.type])
        if dtype.kind == "f":
            feeds[i.name] = rng.standard_normal(shape).astype(dtype)
        elif dtype.kind == "b" or "mask" in i.name:
            feeds[i.name] = np.ones(shape, dtype)
        else:
            feeds[i.name] = rng.integers(0, 100, shape).astype(dtype)
    return feeds


def stored_feeds(path, inputs):
    """The arrays of test_data_set_0 beside the model, by input name; unnamed ones by position."""
    import onnx

    files = list((path.parent / "test_data_set_0").glob("input_*.pb"))
    if not files:
        raise ValueError(f"no test_data_set_0/input_*.pb beside {path}")
    feeds = {}
    for file in files:
        index = int(file.stem.rpartition("_")[2])
        tensor = onnx.TensorProto.FromString(file.read_bytes())
        feeds[tensor.name or inputs[index].name] = onnx.numpy_helper.to_array(tensor)
    return feeds
