"""What the conformance scripts share: a builder of random ONNX graphs and the writer of backend-test folders."""

import pathlib
import shutil
import tempfile

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

OPSET = 20


class Builder:
    """Collects the nodes, weights, inputs and outputs of one graph; values are named by number."""

    def __init__(self, seed, prefix="v"):
        self.rng = np.random.default_rng(seed)
        self.prefix = prefix
        self.nodes, self.initializers, self.inputs, self.outputs = [], [], [], []
        self.count = 0
        self.domains = {"": OPSET}

    def name(self):
        self.count += 1
        return f"{self.prefix}{self.count}"

    def op(self, op_type, *inputs, outputs=1, domain="", **attributes):
        names = [self.name() for _ in range(outputs)]
        self.nodes.append(
            helper.make_node(
                op_type, list(inputs), names, name=f"{op_type.lower()}_{names[0]}", domain=domain, **attributes
            )
        )
        if domain:
            self.domains[domain] = 1
        return names[0] if outputs == 1 else names

    def const(self, array):
        """An initializer, or now and then a Constant node."""
        array = np.asarray(array)
        if self.rng.random() < 0.2:
            return self.op("Constant", value=numpy_helper.from_array(array))
        name = self.name()
        self.initializers.append(numpy_helper.from_array(array, name))
        return name

    def weight(self, *shape, fan_in=None):
        scale = 1.0 / np.sqrt(fan_in or max(1, int(np.prod(shape[1:]))))
        return self.const((self.rng.standard_normal(shape) * scale * 1.4).astype(np.float32))

    def bias(self, n):
        return self.const((self.rng.standard_normal(n) * 0.2).astype(np.float32))

    def input(self, name, shape, dtype=TensorProto.FLOAT):
        self.inputs.append(helper.make_tensor_value_info(name, dtype, shape))
        return name

    def output(self, value, dtype=TensorProto.FLOAT, rank=None):
        info = helper.make_tensor_value_info(value, dtype, None)
        if rank is not None:
            info = helper.make_tensor_value_info(value, dtype, [None] * rank)
        self.outputs.append(info)

    def normal(self, *shape):
        return self.rng.standard_normal(shape).astype(np.float32)

    def pick(self, *options):
        return options[self.rng.integers(len(options))]

    def activation(self, x):
        choice = self.pick(
            *("Relu", "LeakyRelu", "Clip", "HardSigmoid", "Sigmoid", "Tanh", "None"),
            *("Elu", "Selu", "Softplus", "Softsign", "ThresholdedRelu", "HardSwish"),
        )
        if choice == "None":
            return x
        if choice == "LeakyRelu":
            return self.op(choice, x, alpha=0.1)
        if choice == "Clip":
            return self.op(choice, x, self.const(np.float32(0)), self.const(np.float32(6)))
        return self.op(choice, x)

    def conv(self, x, c_in, c_out, kernel=3, stride=1, group=1, dilation=1, pads=None):
        pads = pads if pads is not None else [dilation * (kernel // 2)] * 4
        inputs = [x, self.weight(c_out, c_in // group, kernel, kernel)]
        if self.rng.random() < 0.8:
            inputs.append(self.bias(c_out))
        return self.op(
            "Conv",
            *inputs,
            kernel_shape=[kernel, kernel],
            strides=[stride, stride],
            group=group,
            dilations=[dilation, dilation],
            pads=pads,
        )

    def batch_norm(self, x, c):
        positive = (self.rng.random(c) + 0.5).astype(np.float32)
        return self.op(
            "BatchNormalization",
            x,
            self.const(positive),
            self.bias(c),
            self.bias(c),
            self.const(positive[::-1].copy()),
            epsilon=1e-3,
        )

    def model(self, name):
        graph = helper.make_graph(self.nodes, name, self.inputs, self.outputs, self.initializers)
        return helper.make_model(
            graph,
            producer_name="quern generate_graphs.py",
            ir_version=9,
            opset_imports=[helper.make_opsetid(d, v) for d, v in self.domains.items()],
        )


def run_onnxruntime(model, feeds):
    """The outputs for each of the feeds, without graph optimizations."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return [session.run(None, feed) for feed in feeds]


def optimized_by_onnxruntime(model):
    """The model as onnxruntime's optimizer saves it at the level that keeps it portable (ORT_ENABLE_EXTENDED)."""
    import onnxruntime

    with tempfile.TemporaryDirectory() as folder:
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
        options.optimized_model_filepath = str(pathlib.Path(folder) / "model.onnx")
        options.log_severity_level = 3
        onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        return onnx.load(options.optimized_model_filepath)


def to_proto(value, name=""):
    """TensorProto, SequenceProto (of a list) or MapProto (of a dict; its plain numbers are floats)."""
    if isinstance(value, list):
        kinds = {"tensor": onnx.SequenceProto.TENSOR, "map": onnx.SequenceProto.MAP}
        is_map = bool(value) and isinstance(value[0], dict)
        proto = onnx.SequenceProto(name=name, elem_type=kinds["map" if is_map else "tensor"])
        (proto.map_values if is_map else proto.tensor_values).extend(to_proto(v) for v in value)
        return proto
    if isinstance(value, dict):
        proto = onnx.MapProto(name=name)
        texts = any(isinstance(key, str) for key in value)
        proto.key_type = TensorProto.STRING if texts else TensorProto.INT64
        if texts:
            proto.string_keys.extend(key.encode() for key in value)
        else:
            proto.keys.extend(value)
        proto.values.CopyFrom(to_proto([np.asarray(v, np.float32) for v in value.values()]))
        return proto
    return numpy_helper.from_array(np.asarray(value), name)


def write_folder(folder, model, feeds, results=None):
    """Writes the model and one data set per feeds. Returns the expected outputs: those given, else onnxruntime's."""
    feeds = [{name: v if isinstance(v, dict) else np.asarray(v) for name, v in feed.items()} for feed in feeds]
    results = results or run_onnxruntime(model, feeds)
    for info, array in zip(model.graph.output, results[0]):
        if info.type.HasField("tensor_type") and not info.type.tensor_type.HasField("shape"):  # the format wants a rank
            info.type.tensor_type.shape.dim.extend(onnx.TensorShapeProto.Dimension() for _ in range(array.ndim))
            info.type.tensor_type.shape.SetInParent()
    if {d.domain for d in model.opset_import} == {""}:
        onnx.checker.check_model(model, full_check=True)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    onnx.save(model, folder / "model.onnx")
    for index, feed in enumerate(feeds):
        data = folder / f"test_data_set_{index}"
        data.mkdir()
        for i, value in enumerate(model.graph.input):
            (data / f"input_{i}.pb").write_bytes(to_proto(feed[value.name], value.name).SerializeToString())
        for i, (value, array) in enumerate(zip(model.graph.output, results[index])):
            if isinstance(array, np.ndarray) and array.dtype.kind == "f" and not np.isfinite(array).all():
                raise ValueError(f"{folder.name}: output {i} is not finite; draw milder numbers")
            (data / f"output_{i}.pb").write_bytes(to_proto(array, value.name).SerializeToString())
    return results
