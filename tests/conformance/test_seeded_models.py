"""Models of classical learning on 16 seeded inputs: quern.InferenceSession gives what onnxruntime gives.

QUERN_SHARED names the folder of shared material; needs the packages quern and onnxruntime.
"""

import os
import pathlib

import numpy as np
import onnxruntime
import pytest
import quern

MODELS = pathlib.Path(os.environ["QUERN_SHARED"]) / "models"
ROWS = 7  # of inputs with a symbolic extent


def feeds(session, seed):
    rng = np.random.default_rng(seed)
    drawn = {}
    for port in session.get_inputs():
        shape = [d if isinstance(d, int) else ROWS for d in port.shape]
        drawn[port.name] = (rng.standard_normal(shape) * rng.choice([1, 30])).astype(np.float32)
    return drawn


def check_same(ours, theirs):
    if isinstance(theirs, list):
        assert isinstance(ours, list) and len(ours) == len(theirs)
        for a, b in zip(ours, theirs, strict=True):
            check_same(a, b)
    elif isinstance(theirs, dict):
        assert list(ours) == list(theirs)
        check_same(np.array(list(ours.values())), np.array(list(theirs.values())))
    elif np.asarray(theirs).dtype.kind == "f":
        largest = np.abs(theirs).max()
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-5 * largest)
    else:
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("name", ["lr_mnist_scikit", "lgbm_classifier", "svm_linear_10c"])
def test_same_as_onnxruntime(name):
    path = str(next((MODELS / name).glob("*.onnx")))
    ours, theirs = quern.InferenceSession(path), onnxruntime.InferenceSession(path)
    labels = set()
    for seed in range(16):
        feed = feeds(theirs, seed)
        results = ours.run(None, feed)
        check_same(results, theirs.run(None, feed))
        labels.update(np.ravel([r for r in results if isinstance(r, np.ndarray) and r.dtype == np.int64]).tolist())
    assert len(labels) > 1, "the inputs do not tell classes apart"
