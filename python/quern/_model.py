"""Model: what a file holds, to look at, convert and compile."""

import json
import os

from . import _quern


def source_of(path_or_bytes, wanted):
    """The bytes, or the path as a string; a TypeError says what is `wanted` instead."""
    if isinstance(path_or_bytes, (bytes, bytearray, memoryview)):
        return bytes(path_or_bytes)
    if isinstance(path_or_bytes, (str, os.PathLike)):
        return os.fsdecode(path_or_bytes)
    raise TypeError(f"{wanted} are needed, not {type(path_or_bytes).__name__}")


class Model:
    """A model that is not compiled: an ONNX file or its bytes. InferenceSession takes it instead of a path."""

    def __init__(self, path_or_bytes, limits=None):
        self._model = _quern.Model(source_of(path_or_bytes, "a path or bytes"), False, _limits(limits))

    @classmethod
    def parse(cls, text, limits=None):
        """The model of a graph in text form, as `text(full_constants=True)` gives it."""
        model = cls.__new__(cls)
        model._model = _quern.Model(str(text), True, _limits(limits))
        return model

    def text(self, full_constants=False):
        """The graph in readable form; large constants are shortened unless `full_constants`."""
        return self._model.text(full_constants)

    def facts(self):
        """Inputs, outputs, operators with counts, parameters, operator sets, metadata."""
        return json.loads(self._model.facts())

    def save(
        self,
        path,
        stage="file",
        format="onnx",
        external_data=False,
        external_bytes=0,
        external_name=None,
        skip_passes=(),
    ):
        """Writes the model to `path`, which is replaced as a whole or not at all.

        stage: "file", or "neutral" for the graph as the passes leave it. format: "onnx" or "text". external_data: put
        initializers of at least `external_bytes` (0: 1024) into a file beside the model, `external_name` or the model's
        name with ".data" behind it. skip_passes: names of graph passes to leave out.
        """
        self._model.save(
            os.fsdecode(path),
            format,
            stage,
            list(skip_passes),
            bool(external_data),
            int(external_bytes),
            external_name or "",
        )


def _limits(limits):
    return {str(name): int(value) for name, value in (limits or {}).items()}
