"""ONNX's backend interface (onnx.backend.base) over Quern; needs the package onnx.

    import quern.backend
    outputs = quern.backend.prepare(onnx.load("model.onnx")).run([array])

onnx's own suite runs against it: onnx.backend.test.BackendTest(quern.backend, __name__).
"""

import onnx
from onnx import helper
from onnx.backend.base import Backend, BackendRep, namedtupledict

from . import InferenceSession, Unsupported, get_device

__all__ = ["QuernBackend", "QuernBackendRep", "is_compatible", "prepare", "run_model", "run_node", "supports_device"]


class QuernBackendRep(BackendRep):
    """A session; `run` takes one array for each input in the graph's order, or a dict from names."""

    def __init__(self, session):
        self._session = session

    def run(self, inputs, **kwargs):
        names = [i.name for i in self._session.get_inputs()]
        if isinstance(inputs, dict):
            feeds = inputs
        else:
            values = list(inputs) if isinstance(inputs, (list, tuple)) else [inputs]
            if len(values) > len(names):
                raise ValueError(f"{len(values)} inputs given; the model has {len(names)}: {', '.join(names)}")
            feeds = dict(zip(names, values))
        outputs = self._session.run(None, feeds)
        return namedtupledict("Outputs", [o.name for o in self._session.get_outputs()])(*outputs)


class QuernBackend(Backend):
    @classmethod
    def is_compatible(cls, model, device="CPU", **kwargs):
        """Whether a session of the model can be made."""
        try:
            cls.prepare(model, device, **kwargs)
        except Unsupported:
            return False
        return True

    @classmethod
    def prepare(cls, model, device="CPU", **kwargs):
        """A QuernBackendRep of a ModelProto, a path or bytes; `kwargs` go to InferenceSession."""
        if not cls.supports_device(device):
            raise ValueError(f"device {device!r}: Quern runs on {get_device()} only")
        if isinstance(model, onnx.ModelProto):
            model = model.SerializeToString()
        return QuernBackendRep(InferenceSession(model, **kwargs))

    @classmethod
    def run_model(cls, model, inputs, device="CPU", **kwargs):
        return cls.prepare(model, device, **kwargs).run(inputs)

    @classmethod
    def run_node(cls, node, inputs, device="CPU", outputs_info=None, **kwargs):
        """Runs one NodeProto, by default in the operator's newest version (`opset_version` names another)."""
        version = kwargs.pop("opset_version", None)
        if version is None:
            version = onnx.defs.get_schema(node.op_type, node.domain).since_version
        names = [name for name in node.input if name]
        arrays = dict(zip(names, inputs))
        graph_inputs = [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
            for name, array in arrays.items()
        ]
        graph_outputs = [onnx.ValueInfoProto(name=name) for name in node.output if name]
        graph = helper.make_graph([node], "node", graph_inputs, graph_outputs)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid(node.domain, version)])
        return cls.prepare(model, device, **kwargs).run(arrays)

    @classmethod
    def supports_device(cls, device):
        """"CPU", with or without an ordinal."""
        return device.partition(":")[0] == "CPU"


is_compatible = QuernBackend.is_compatible
prepare = QuernBackend.prepare
run_model = QuernBackend.run_model
run_node = QuernBackend.run_node
supports_device = QuernBackend.supports_device
