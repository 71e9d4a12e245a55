"""The engines that are compared, each behind the same few names.

An engine has a `name`, a `version`, `lacks(precision)` (why it cannot compute so, or None), `note(precision)` (what to
know of its figures, or None) and `open(path, threads, precision, exact=False)`; `exact` asks for the results that
others are held against, where an engine is by default faster than it is right. What that returns has `inputs`, a list
of Input, and `bind(feeds)`: a function without arguments that runs the model once and returns the outputs in the
model's order, valid until the next run. Feeds are arrays by input name; engines read them in place. An engine whose
library is not installed raises ImportError when it is made, and nothing is started before the first `open`.
"""

import collections

PRECISIONS = ("fp32", "fp32-fast", "bf16")

Input = collections.namedtuple("Input", "name type shape")  # as onnxruntime writes them


class Quern:
    name = "quern"

    def __init__(self, flush_denormals=False):
        import quern

        self._library = quern
        self.version = quern.__version__
        self._flush_denormals = flush_denormals

    def lacks(self, precision):
        return None if precision in PRECISIONS else f"there is no precision {precision}"

    def note(self, precision):
        if precision != "fp32" and self._kernel(precision) == self._kernel("fp32"):
            return f"{precision} has no kernels of its own on this CPU; those of fp32 run"
        return None

    def _kernel(self, precision):
        facts = self._library.kernel_facts(family="gemm", shape=(256, 256, 256), types=f"f32,f32,f32,{precision}")
        return facts["selection"]["call"]["chosen"]

    def open(self, path, threads, precision, exact=False):
        options = self._library.SessionOptions()
        options.intra_op_num_threads = threads
        options.log_severity_level = 4
        options.precision = precision
        options.flush_denormals = self._flush_denormals
        return NamedSession(self._library.InferenceSession(str(path), options))


class OnnxRuntime:
    name = "onnxruntime"

    def __init__(self, flush_denormals=False):
        import onnxruntime

        self._library = onnxruntime
        self.version = onnxruntime.__version__
        self._flush_denormals = flush_denormals

    def lacks(self, precision):
        return None if precision == "fp32" else f"its CPU provider has no mode {precision}"

    def note(self, precision):
        return None

    def open(self, path, threads, precision, exact=False):
        options = self._library.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        if exact:  # products of uint8 by int8 saturate on x86-64 without VNNI, unless
            options.add_session_config_entry("session.x64quantprecision", "1")
        if self._flush_denormals:
            options.add_session_config_entry("session.set_denormal_as_zero", "1")
        options.log_severity_level = 4
        return NamedSession(self._library.InferenceSession(str(path), options, providers=["CPUExecutionProvider"]))


class NamedSession:
    """A session of Quern or onnxruntime, whose interfaces have the same names."""

    def __init__(self, session):
        self._session = session
        self.inputs = [Input(i.name, i.type, i.shape) for i in session.get_inputs()]

    def bind(self, feeds):
        session = self._session
        return lambda: session.run(None, feeds)


class OpenVino:
    name = "openvino"
    _HINTS = {"fp32": "f32", "bf16": "bf16"}
    _ELEMENTS = {"f16": "float16", "f32": "float", "f64": "double", "boolean": "bool"} | {
        f"{sign}{bits}": f"{'u' * (sign == 'u')}int{bits}" for sign in "iu" for bits in (8, 16, 32, 64)
    }

    def __init__(self, flush_denormals=False):
        import openvino

        self._library = openvino
        self.version = openvino.__version__.partition("-")[0]
        self._core = None
        self._flush_denormals = flush_denormals

    def _cpu(self):
        if self._core is None:
            self._core = self._library.Core()
        return self._core

    def lacks(self, precision):
        if precision not in self._HINTS:
            return f"it has no mode {precision}"
        if precision == "bf16" and "BF16" not in self._cpu().get_property("CPU", "OPTIMIZATION_CAPABILITIES"):
            return "it has no bf16 on this CPU"
        return None

    def note(self, precision):
        return None

    def open(self, path, threads, precision, exact=False):
        hint = self._HINTS[precision]
        properties = {
            "INFERENCE_NUM_THREADS": threads,
            "NUM_STREAMS": 1,
            "PERFORMANCE_HINT": "LATENCY",
            "INFERENCE_PRECISION_HINT": hint,
        }
        if self._flush_denormals:
            properties["CPU_DENORMALS_OPTIMIZATION"] = True
        compiled = self._cpu().compile_model(str(path), "CPU", properties)
        used = compiled.get_property("INFERENCE_PRECISION_HINT")
        if used != getattr(self._library.Type, hint):
            raise RuntimeError(f"asked for {hint}, it computes in {used.get_type_name()}")
        return self.Session(compiled, self._ELEMENTS)

    class Session:
        def __init__(self, compiled, elements):
            self._request = compiled.create_infer_request()
            self._ports = compiled.inputs
            self.inputs = []
            for port in self._ports:
                element = port.element_type.get_type_name()
                shape = [None if d.is_dynamic else d.get_length() for d in port.partial_shape]
                self.inputs.append(Input(port.any_name, f"tensor({elements.get(element, element)})", shape))

        def bind(self, feeds):
            by_index = {}
            for index, port in enumerate(self._ports):
                known = [name for name in port.names if name in feeds]
                if not known:
                    raise KeyError(f"no array for the input {sorted(port.names)}")
                by_index[index] = feeds[known[0]]
            infer = self._request.infer
            return lambda: tuple(infer(by_index, share_inputs=True, share_outputs=True).values())


ENGINES = {engine.name: engine for engine in (Quern, OnnxRuntime, OpenVino)}
PEERS = tuple(name for name in ENGINES if name != "quern")


def load(names, flush_denormals=False):
    """The engines of these names that are installed, by name, and {name: reason} of the others. `flush_denormals`: they
    count denormal numbers as 0."""
    there, absent = {}, {}
    for name in names:
        try:
            there[name] = ENGINES[name](flush_denormals)
        except ImportError as error:
            absent[name] = "is not installed" if error.name == name else f"cannot be imported: {error}"
    return there, absent
