"""Quern runs ONNX models on CPUs through its own packed micro-kernels. Names follow onnxruntime.

    session = quern.InferenceSession("model.onnx")
    outputs = session.run(None, {"x": array})
"""

import json as _json

from . import _quern
from ._errors import (
    Cancelled,
    CorruptModel,
    InternalError,
    InvalidArgument,
    IoError,
    NotFound,
    QuernError,
    ResourceExhausted,
    Unsupported,
)
from ._model import Model
from ._quern import version as __version__
from ._session import InferenceSession, NodeArg, SessionOptions


def get_available_providers():
    """Names for InferenceSession(providers=...); a path names a shared library over provider.h."""
    return ["cpu", "reference"]


def get_device():
    return "CPU"


def cpu_facts(cpu=None, measure=False):
    """Features, caches and cores of a CPU ("native", "haswell"...); `measure` also times its peaks."""
    return _json.loads(_quern.cpu_facts(cpu or "", measure))


def kernel_facts(cpu=None, family=None, shape=None, types=None):
    """The micro-kernels; with shape (m, n, k), the choice for that product and why."""
    return _json.loads(_quern.kernel_facts(cpu or "", family or "", *(shape or (0, 0, 0)), types or ""))


__all__ = [
    "Cancelled",
    "CorruptModel",
    "InferenceSession",
    "InternalError",
    "InvalidArgument",
    "IoError",
    "Model",
    "NodeArg",
    "NotFound",
    "QuernError",
    "ResourceExhausted",
    "SessionOptions",
    "Unsupported",
    "cpu_facts",
    "get_available_providers",
    "get_device",
    "kernel_facts",
]
