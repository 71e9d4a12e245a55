#!/usr/bin/env python3
"""Writes seeded random models of ai.onnx.ml with onnxruntime's results, as folders of the ONNX backend-test layout.

    generate_ml_models.py OUT [--seeds N] [--kinds a,b] [--list]

`quern verify OUT --rtol 0 --tolerance OUT/tolerance.json` compares. The models look like those that converters of
scikit-learn, LightGBM and XGBoost write: ensembles of random trees with missing values, support vector machines with
votes and probabilities, linear models, encoders, and maps at both ends. Features are multiples of 1/64, so that
comparisons and sums of them are exact.
"""

import numpy as np
from generate_graphs import main
from onnx import TensorProto, helper, numpy_helper

KINDS = {}
DOMAIN = "ai.onnx.ml"


def kind(tolerance=1e-5):
    def add(function):
        KINDS[function.__name__] = (function, tolerance)
        return function

    return add


def op(b, op_type, *inputs, version=1, outputs=1, **attributes):
    value = b.op(op_type, *inputs, outputs=outputs, domain=DOMAIN, **attributes)
    b.domains[DOMAIN] = version
    return value


def grid(b, *shape):
    """Multiples of 1/64 in [-2, 2]."""
    return (b.rng.integers(-128, 129, shape) / 64).astype(np.float32)


def floats(array):
    return [float(v) for v in np.ravel(array)]


def labels(b, count, ints="classlabels_ints", strings="classlabels_strings"):
    """Attributes of `count` labels, and the element type of the output."""
    if b.rng.random() < 0.5:
        return {ints: [int(v) for v in b.rng.permutation(50)[:count]]}, TensorProto.INT64
    return {strings: [f"class {v}" for v in b.rng.permutation(50)[:count]]}, TensorProto.STRING


def rows(b, features, dtype=np.float32, missing=0.0):
    """Feeds of one row and of some."""
    feeds = []
    for n in (1, int(b.rng.integers(2, 70))):
        x = grid(b, n, features)
        if np.issubdtype(dtype, np.integer):
            x = x * 4
        elif missing:
            x[b.rng.random(x.shape) < missing] = np.nan
        feeds.append({"x": x.astype(dtype)})
    return feeds


def input_rows(b, features, dtype=np.float32):
    return b.input("x", ["n", features], helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))


@kind()
def ml_features(b):
    """Scaler, Imputer, Normalizer, Binarizer, ArrayFeatureExtractor and FeatureVectorizer side by side."""
    f = int(b.rng.integers(2, 9))
    input_rows(b, f)
    n = b.pick(1, f)
    b.output(op(b, "Scaler", "x", offset=floats(grid(b, n)), scale=floats(grid(b, n))), rank=2)
    nan = b.pick(True, False)
    filled = op(
        b,
        "Imputer",
        "x",
        imputed_value_floats=floats(grid(b, b.pick(1, f))),
        replaced_value_float=float("nan") if nan else 0.5,
    )
    if not nan:
        filled = op(b, "Imputer", filled, imputed_value_floats=[0.25], replaced_value_float=float("nan"))
    b.output(filled, rank=2)
    b.output(op(b, "Binarizer", filled, threshold=0.25), rank=2)
    picked = op(b, "ArrayFeatureExtractor", filled, b.const(b.rng.integers(0, f, int(b.rng.integers(1, 5)))))
    b.output(picked, rank=2)
    b.output(op(b, "Normalizer", b.op("Abs", filled), norm=b.pick("MAX", "L1", "L2")), rank=2)
    sizes = [int(b.rng.integers(1, f + 3)), int(b.rng.integers(1, 4))]
    b.output(op(b, "FeatureVectorizer", filled, picked, inputdimensions=sizes), rank=2)
    b.outputs.pop(0)  # the offsets of missing values are missing
    return rows(b, f, missing=0.2)


@kind()
def ml_labels(b):
    """LabelEncoder over key and value types, CategoryMapper, OneHotEncoder of strings and numbers."""
    words = [f"w{i}" for i in range(8)]
    known = int(b.rng.integers(2, 8))
    b.input("x", ["n", 3], TensorProto.STRING)
    numbers = [int(v) for v in b.rng.permutation(100)[:known]]
    version = b.pick(2, 4)
    codes = op(b, "LabelEncoder", "x", version=version, keys_strings=words[:known], values_int64s=numbers)
    b.output(codes, TensorProto.INT64, rank=2)
    back = op(
        b,
        "LabelEncoder",
        codes,
        version=version,
        keys_int64s=numbers,
        values_floats=floats(grid(b, known)),
        default_float=-7.5,
    )
    b.output(back, rank=2)
    b.output(op(b, "OneHotEncoder", codes, version=version, cats_int64s=numbers, zeros=1), rank=3)
    b.output(op(b, "OneHotEncoder", "x", version=version, cats_strings=words[1:5]), rank=3)
    mapped = op(b, "CategoryMapper", "x", version=version, cats_strings=words[:known], cats_int64s=numbers)
    b.output(mapped, TensorProto.INT64, rank=2)
    named = op(
        b,
        "CategoryMapper",
        mapped,
        version=version,
        cats_strings=words[:known],
        cats_int64s=numbers,
        default_string="none",
    )
    b.output(named, TensorProto.STRING, rank=2)
    if version == 4:
        tensors = {
            "keys_tensor": numpy_helper.from_array(np.array(numbers, np.int64)),
            "values_tensor": numpy_helper.from_array(np.arange(known).astype(np.int16)),
            "default_tensor": numpy_helper.from_array(np.array([42], np.int16)),
        }
        tensors["keys_tensor"] = helper.make_tensor("keys", TensorProto.STRING, [known], words[:known])
        b.output(op(b, "LabelEncoder", "x", version=4, **tensors), TensorProto.INT16, rank=2)
    return [{"x": np.array(words, object)[b.rng.integers(0, 8, (n, 3))]} for n in (1, 6)]


@kind()
def ml_maps(b):
    """A map as input (DictVectorizer or CastMap), a linear model on it, and a sequence of maps as output (ZipMap)."""
    f = int(b.rng.integers(2, 6))
    if b.rng.random() < 0.5:
        keys, vocabulary = [f"k{i}" for i in range(f)], "string_vocabulary"
    else:
        keys, vocabulary = [int(v) for v in b.rng.permutation(30)[:f]], "int64_vocabulary"
    cast = vocabulary == "int64_vocabulary" and b.rng.random() < 0.5
    key_type = TensorProto.STRING if isinstance(keys[0], str) else TensorProto.INT64
    value = helper.make_tensor_type_proto(TensorProto.FLOAT, None)
    b.inputs.append(helper.make_value_info("x", helper.make_map_type_proto(key_type, value)))
    if cast:
        x = op(b, "CastMap", "x", cast_to="TO_FLOAT", map_form="SPARSE", max_map=30)
        width = 30
    else:
        x = op(b, "DictVectorizer", "x", **{vocabulary: keys})
        width = f
    b.output(x, rank=2)
    classes = int(b.rng.integers(2, 5))
    names, dtype = labels(b, classes)
    label, scores = op(
        b,
        "LinearClassifier",
        x,
        outputs=2,
        coefficients=floats(grid(b, classes, width)),
        intercepts=floats(grid(b, classes)),
        post_transform="SOFTMAX",
        **names,
    )
    b.output(label, dtype, rank=1)
    given = next(iter(names.values()))
    attribute = "classlabels_strings" if dtype == TensorProto.STRING else "classlabels_int64s"
    maps = op(b, "ZipMap", scores, **{attribute: given})
    sequence = helper.make_sequence_type_proto(helper.make_map_type_proto(dtype, value))
    b.outputs.append(helper.make_value_info(maps, sequence))
    feeds = []
    for n in (f, f - 1):
        feeds.append({"x": {k: float(v) for k, v in zip(keys[:n], grid(b, n))}})
    return feeds


@kind(1e-4)
def ml_linear(b):
    """LinearClassifier (one row of coefficients for two labels, or one per class) and LinearRegressor."""
    dtype = b.pick(np.float32, np.float32, np.float64, np.int64, np.int32)
    f, classes = int(b.rng.integers(1, 9)), int(b.rng.integers(2, 6))
    input_rows(b, f, dtype)
    names, label_type = labels(b, classes)
    rows_of_weights = 1 if classes == 2 and b.rng.random() < 0.6 else classes
    label, scores = op(
        b,
        "LinearClassifier",
        "x",
        outputs=2,
        coefficients=floats(grid(b, rows_of_weights, f)),
        intercepts=floats(grid(b, rows_of_weights)),
        post_transform=b.pick("NONE", "LOGISTIC", "SOFTMAX"),
        multi_class=b.pick(0, 1),
        **names,
    )
    b.output(label, label_type, rank=1)
    b.output(scores, rank=2)
    if dtype == np.float32:
        targets = int(b.rng.integers(1, 4))
        y = op(
            b,
            "LinearRegressor",
            "x",
            coefficients=floats(grid(b, targets, f)),
            targets=targets,
            post_transform=b.pick("NONE", "LOGISTIC", "SOFTMAX") if targets > 1 else "NONE",
            **({"intercepts": floats(grid(b, targets))} if b.rng.random() < 0.7 else {}),
        )
        b.output(y, rank=2)
    return rows(b, f, dtype)


def kernel(b, f):
    return {
        "kernel_type": b.pick("LINEAR", "POLY", "RBF", "SIGMOID"),
        "kernel_params": [float((b.rng.random() + 0.2) / f), float(b.rng.random()), float(b.pick(1, 2, 3, 4))],
    }


@kind(1e-3)
def ml_svm_classifier(b):
    """SVMClassifier: votes of pairs, probabilities, two classes, and the linear form without support vectors."""
    dtype = b.pick(np.float32, np.float32, np.float64, np.int64, np.int32)
    f, classes = b.pick(int(b.rng.integers(2, 6)), 40), int(b.rng.integers(2, 7))
    input_rows(b, f, dtype)
    names, label_type = labels(b, classes)
    form = b.pick("pairs", "pairs", "probabilities", "linear")
    if form == "linear":
        attributes = {"coefficients": floats(b.normal(classes, f)), "rho": floats(b.normal(1))}
        attributes |= {"kernel_type": "LINEAR", "kernel_params": [0.0, 0.0, 0.0]}
    else:
        counts = [int(v) for v in b.rng.integers(1, b.pick(5, 120), classes)]
        pairs = classes * (classes - 1) // 2
        attributes = {
            "vectors_per_class": counts,
            "support_vectors": floats(grid(b, sum(counts), f)),
            "coefficients": floats(b.normal(classes - 1, sum(counts))),
            "rho": floats(b.normal(pairs)),
            **kernel(b, f),
        }
        if form == "probabilities":
            attributes |= {"prob_a": floats(-1 - b.rng.random(pairs)), "prob_b": floats(b.normal(pairs) * 0.1)}
    transform = b.pick("NONE", "NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO")
    label, scores = op(b, "SVMClassifier", "x", outputs=2, post_transform=transform, **attributes, **names)
    b.output(label, label_type, rank=1)
    b.output(scores, rank=2)
    return rows(b, f, dtype)


@kind(1e-4)
def ml_svm_regressor(b):
    """SVMRegressor with and without support vectors, and as a test for outliers."""
    f, vectors = b.pick(int(b.rng.integers(2, 6)), 40), b.pick(0, 3, 10, 300)
    input_rows(b, f)
    y = op(
        b,
        "SVMRegressor",
        "x",
        n_supports=vectors,
        coefficients=floats(b.normal(vectors or f)),
        rho=floats(b.normal(1)),
        one_class=b.pick(0, 1),
        **({"support_vectors": floats(grid(b, vectors, f))} if vectors else {}),
        **kernel(b, f),
    )
    b.output(y, rank=2)
    return rows(b, f)


def random_trees(b, f, mode, split):
    """Lists of nodes of random trees, (feature, mode, split, true, false, tracks true) or None for a leaf."""
    trees = []
    for _ in range(int(b.rng.integers(1, 12))):
        nodes, open_nodes = [None], [(0, 0)]
        while open_nodes:
            at, depth = open_nodes.pop()
            if depth == 5 or b.rng.random() < 0.25:
                continue
            yes, no = len(nodes), len(nodes) + 1
            nodes += [None, None]
            nodes[at] = (int(b.rng.integers(f)), mode(), split(), yes, no, int(b.rng.random() < 0.5))
            open_nodes += [(yes, depth + 1), (no, depth + 1)]
        trees.append(nodes)
    return trees


def tree_attributes(b, trees):
    """Attributes nodes_* of versions 1 and 3, and the leaves as (tree, node)."""
    names = ("treeids", "nodeids", "featureids", "values", "modes", "truenodeids", "falsenodeids")
    lists = {name: [] for name in names}
    missing, leaves = [], []
    for t, nodes in enumerate(trees):
        for i, node in enumerate(nodes):
            feature, mode, split, yes, no, track = node or (0, "LEAF", 0.0, 0, 0, 0)
            for name, value in zip(lists, (t, i, feature, split, mode, yes, no)):
                lists[name].append(value)
            missing.append(track)
            if node is None:
                leaves.append((t, i))
    attributes = {f"nodes_{name}": values for name, values in lists.items()}
    if b.rng.random() < 0.7:
        attributes["nodes_missing_value_tracks_true"] = missing
    return attributes, leaves


MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")


def some_trees(b, f):
    mixed, one = b.rng.random() < 0.4, b.pick(*MODES[:4])
    return random_trees(b, f, lambda: b.pick(*MODES) if mixed else one, lambda: float(grid(b, 1)[0]))


@kind(1e-4)
def ml_tree_classifier(b):
    """TreeEnsembleClassifier as converters write it: votes for one of two classes, for any of more; and other forms."""
    dtype = b.pick(np.float32, np.float32, np.float64, np.int64, np.int32)
    f, classes = int(b.rng.integers(1, 6)), b.pick(1, 2, 2, 2, 3, 5)
    input_rows(b, f, dtype)
    nodes, leaves = tree_attributes(b, some_trees(b, f))
    if classes == 1:
        names, label_type = {"classlabels_int64s": [3]}, TensorProto.INT64
    else:
        names, label_type = labels(b, classes, "classlabels_int64s")
    positive, voted = b.pick(True, False), b.pick([0], [0], [1], [0, 1]) if classes == 2 else list(range(classes))
    votes = []
    for tree, node in leaves:
        ids = voted if b.rng.random() < 0.5 else [b.pick(*voted)]
        for c in ids:
            weight = float(grid(b, 1)[0])
            votes.append((tree, node, c, abs(weight) / 16 if positive else weight))
    # Left out: PROBIT, defined between 0 and 1 only, and SOFTMAX_ZERO, NaN in onnxruntime where all scores are 0.
    attributes = {"post_transform": b.pick("NONE", "LOGISTIC", "SOFTMAX")}
    if b.rng.random() < 0.4:
        # One base value where two classes both have votes leaves onnxruntime's second score to chance.
        attributes["base_values"] = floats(grid(b, b.pick(1, 2) if classes == 2 and len(voted) == 1 else classes))
    label, scores = op(
        b,
        "TreeEnsembleClassifier",
        "x",
        outputs=2,
        version=b.pick(1, 3),
        class_treeids=[v[0] for v in votes],
        class_nodeids=[v[1] for v in votes],
        class_ids=[v[2] for v in votes],
        class_weights=[v[3] for v in votes],
        **nodes,
        **attributes,
        **names,
    )
    b.output(label, label_type, rank=1)
    b.output(scores, rank=2)
    return rows(b, f, dtype, missing=0.15)


def as_tensor(attributes, *names):
    """Replaces lists of floats by tensors of doubles."""
    for name in names:
        attributes[f"{name}_as_tensor"] = numpy_helper.from_array(np.array(attributes.pop(name), np.float64))


@kind(1e-4)
def ml_tree_regressor(b):
    """TreeEnsembleRegressor: aggregates, several targets, base values, and doubles in tensors (version 3)."""
    f, targets, version = int(b.rng.integers(1, 6)), b.pick(1, 1, 3), b.pick(1, 3)
    doubles = version == 3 and b.rng.random() < 0.5
    dtype = np.float64 if doubles else b.pick(np.float32, np.float32, np.float64)
    input_rows(b, f, dtype)
    attributes, leaves = tree_attributes(b, some_trees(b, f))
    sparse = b.rng.random() < 0.5
    targets_of = [(t, n, c) for t, n in leaves for c in range(targets) if c == 0 or not sparse or b.rng.random() < 0.5]
    attributes |= {
        "n_targets": targets,
        "target_treeids": [v[0] for v in targets_of],
        "target_nodeids": [v[1] for v in targets_of],
        "target_ids": [v[2] for v in targets_of],
        "target_weights": floats(grid(b, len(targets_of))),
        "aggregate_function": b.pick("SUM", "SUM", "AVERAGE", "MIN", "MAX"),
        "post_transform": b.pick("NONE", "LOGISTIC", "SOFTMAX") if targets > 1 else "NONE",
    }
    if not sparse:  # onnxruntime forgets the base value of a target without a vote
        attributes["base_values"] = floats(grid(b, targets))
    if doubles:
        as_tensor(attributes, "nodes_values", "target_weights", *attributes.keys() & {"base_values"})
    b.output(op(b, "TreeEnsembleRegressor", "x", version=version, **attributes), rank=2)
    return rows(b, f, dtype, missing=0.15)


@kind(1e-4)
def ml_tree_ensemble(b):
    """TreeEnsemble (version 5): all modes with sets of members, aggregates and targets, in float and double."""
    dtype = b.pick(np.float32, np.float64)
    f, targets = int(b.rng.integers(1, 5)), b.pick(1, 2, 3)
    input_rows(b, f, dtype)
    with_sets = b.rng.random() < 0.5
    trees = random_trees(b, f, lambda: int(b.rng.integers(7 if with_sets else 4)), lambda: float(grid(b, 1)[0]))
    branch_at, leaf_at = {}, {}  # places in nodes_* and leaf_* of (tree, node); a lone leaf is also a branch to itself
    for t, nodes in enumerate(trees):
        for i, node in enumerate(nodes):
            if node is None:
                leaf_at[t, i] = len(leaf_at)
            if node is not None or i == 0:
                branch_at[t, i] = len(branch_at)
    names = ("features", "modes", "splits", "true", "true_leaf", "false", "false_leaf", "missing")
    lists = {name: [] for name in names}
    members = []
    for t, i in branch_at:
        feature, mode, split, yes, no, track = trees[t][i] or (0, 0, 0.0, 0, 0, 0)
        for name, child in (("true", yes), ("false", no)):
            leaf = trees[t][child] is None
            lists[name].append((leaf_at if leaf else branch_at)[t, child])
            lists[f"{name}_leaf"].append(int(leaf))
        for name, value in (("features", feature), ("modes", mode), ("splits", split), ("missing", track)):
            lists[name].append(value)
        if mode == 6:
            count = int(b.rng.integers(1, 6))  # of integers: onnxruntime has no other members
            members += [*floats(b.rng.choice(np.arange(-2, 9), count, replace=False)), np.nan]
    attributes = {
        "n_targets": targets,
        "aggregate_function": int(b.rng.integers(4)),
        # The specification has 1 for SOFTMAX and 2 for LOGISTIC, onnxruntime 1.31 the other way round.
        "post_transform": 0,
        "tree_roots": [branch_at[t, 0] for t in range(len(trees))],
        "nodes_featureids": lists["features"],
        "nodes_modes": numpy_helper.from_array(np.array(lists["modes"], np.uint8)),
        "nodes_splits": numpy_helper.from_array(np.array(lists["splits"], dtype)),
        "nodes_truenodeids": lists["true"],
        "nodes_trueleafs": lists["true_leaf"],
        "nodes_falsenodeids": lists["false"],
        "nodes_falseleafs": lists["false_leaf"],
        "leaf_targetids": [int(v) for v in b.rng.integers(0, targets, len(leaf_at))],
        "leaf_weights": numpy_helper.from_array(grid(b, len(leaf_at)).astype(dtype)),
    }
    if members:
        attributes["membership_values"] = numpy_helper.from_array(np.array(members, dtype))
    if b.rng.random() < 0.5:
        attributes["nodes_missing_value_tracks_true"] = lists["missing"]
    y = op(b, "TreeEnsemble", "x", version=5, **attributes)
    b.output(y, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), rank=2)
    feeds = rows(b, f, dtype, missing=0.1)
    if members:  # onnxruntime looks up what is left of a number when its fraction is cut off
        feeds = [{"x": np.round(feed["x"] * 2)} for feed in feeds]
    return feeds


if __name__ == "__main__":
    main(KINDS, __doc__)
