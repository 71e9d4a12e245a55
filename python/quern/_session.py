"""InferenceSession and what belongs to it, named as in onnxruntime."""

import json
import os

from . import _quern
from ._errors import InvalidArgument
from ._model import Model, source_of
from ._values import from_value, to_value

# Element types as onnxruntime writes them.
_ELEMENTS = {
    "f32": "float",
    "u8": "uint8",
    "i8": "int8",
    "u16": "uint16",
    "i16": "int16",
    "i32": "int32",
    "i64": "int64",
    "f16": "float16",
    "f64": "double",
    "u32": "uint32",
    "u64": "uint64",
    "c64": "complex64",
    "c128": "complex128",
    "bf16": "bfloat16",
    "f8e4m3fn": "float8e4m3fn",
    "f8e4m3fnuz": "float8e4m3fnuz",
    "f8e5m2": "float8e5m2",
    "f8e5m2fnuz": "float8e5m2fnuz",
    "u4": "uint4",
    "i4": "int4",
    "f4e2m1": "float4e2m1",
    "f8e8m0": "float8e8m0",
    "u2": "uint2",
    "i2": "int2",
    "f6e2m3": "float6e2m3",
    "f6e3m2": "float6e3m2",
}
_PROVIDERS = {"CPUExecutionProvider": "cpu"}


def _type_name(text):
    """'seq<f32[*]>' as 'seq(tensor(float))'."""
    for short, long in (("seq<", "seq("), ("opt<", "optional(")):
        if text.startswith(short):
            return long + _type_name(text[len(short) : -1]) + ")"
    if text.startswith("map<"):
        key, _, value = text[4:-1].partition(",")
        return f"map({_ELEMENTS.get(key, key)},{_type_name(value)})"
    element = text.partition("[")[0]
    return f"tensor({_ELEMENTS.get(element, element)})"


class NodeArg:
    """An input or output: `name`, `type` ('tensor(float)'), `shape` (numbers, names of symbolic extents, or None)."""

    def __init__(self, name, type_text, shape, kind, dtype, has_default):
        self.name = name
        self.type = _type_name(type_text)
        self.shape = [None if isinstance(d, str) and d.startswith("?") else d for d in shape]
        self._kind = kind
        self._dtype = dtype
        self._has_default = has_default

    def __repr__(self):
        return f"NodeArg(name='{self.name}', type='{self.type}', shape={self.shape})"


class SessionOptions:
    """Options of a session. From `cpu` on they are Quern's own: see `quern run --help`."""

    def __init__(self):
        self.intra_op_num_threads = 0  # 0: the cores that the process may use
        self.inter_op_num_threads = 0  # accepted; branches share the threads, see serial_branches
        self.log_severity_level = 2  # 0 verbose, 1 info, 2 warning, 3 error, 4 off; of the whole process
        self.cpu = None
        self.precision = None
        self.overridable_initializers = False  # True: feeds may replace initializers that the file lists as inputs too
        self.pack_cache = None  # folder for packed weights; "" for none, None: that of QUERN_CACHE
        self.pack_cache_bytes = 0  # its limit; 0: QUERN_CACHE_LIMIT, or 8 GB
        self.skip_passes = []  # names of passes to leave out; `quern inspect` lists them
        self.serial_branches = False  # True: never run branches at the same time, where that is faster
        self.flush_denormals = False  # True: numbers below 2^-126 count as 0 in all nodes; they slow many CPUs down
        self.keep_denormals = False  # True: such numbers are kept where products are summed too
        self.limits = {}  # what a model may ask for, by the names of quern_limits: {"memory_bytes": 1 << 30}
        self._config = {}

    def add_session_config_entry(self, key, value):
        """onnxruntime's free-form settings: "session.set_denormal_as_zero" is flush_denormals, others do nothing."""
        self._config[str(key)] = str(value)
        if key == "session.set_denormal_as_zero":
            self.flush_denormals = str(value) == "1"

    def get_session_config_entry(self, key):
        return self._config[key]


class InferenceSession:
    """A model (path, bytes or quern.Model), compiled.

    `run` may be called by several threads at once; it does not hold the GIL while it computes.
    """

    def __init__(self, path_or_bytes, sess_options=None, providers=None, provider_options=None):
        options = sess_options or SessionOptions()
        names = [p[0] if isinstance(p, (tuple, list)) else p for p in providers or ()]
        names = [_PROVIDERS.get(n, n) for n in names]
        if isinstance(path_or_bytes, Model):
            source = path_or_bytes._model
        else:
            source = source_of(path_or_bytes, "a path, bytes or a Model")
        if sess_options is not None:
            _quern.set_log_level(int(options.log_severity_level))
        self._session = _quern.Session(
            source,
            int(options.intra_op_num_threads),
            options.cpu or "",
            names,
            options.precision or "",
            {str(name): int(value) for name, value in options.limits.items()},
            bool(options.overridable_initializers),
            None if options.pack_cache is None else os.fspath(options.pack_cache),
            int(options.pack_cache_bytes),
            [str(name) for name in options.skip_passes],
            bool(options.serial_branches),
            bool(options.flush_denormals),
            bool(options.keep_denormals),
        )
        self._options = options
        self._providers = names or ["cpu"]
        if "reference" not in self._providers:
            self._providers.append("reference")
        self._inputs = [NodeArg(*port) for port in self._session.inputs()]
        self._outputs = [NodeArg(*port) for port in self._session.outputs()]
        self._input_index = {port.name: i for i, port in enumerate(self._inputs)}
        self._output_index = {port.name: i for i, port in enumerate(self._outputs)}

    def get_inputs(self):
        return [port for port in self._inputs if not port._has_default]

    def get_overridable_initializers(self):
        """Inputs that need no feed; none unless SessionOptions.overridable_initializers is set."""
        return [port for port in self._inputs if port._has_default]

    def get_outputs(self):
        return list(self._outputs)

    def get_providers(self):
        """Providers in order of preference; `reference` takes what the others leave."""
        return list(self._providers)

    def get_session_options(self):
        return self._options

    def run(self, output_names, input_feed, run_options=None):
        """The outputs named (None or empty: all), in that order. Arrays are read in place; results own their memory."""
        feeds = [None] * len(self._inputs)
        for name, thing in input_feed.items():
            index = self._input_index.get(name)
            if index is None:
                self._session.find_input(name)  # raises the error that says what there is
            feeds[index] = thing
        wanted = want = None
        if output_names:
            for name in output_names:
                if name not in self._output_index:
                    raise InvalidArgument(f"there is no output '{name}'; the model gives {self._names(self._outputs)}")
            wanted = [self._output_index[name] for name in output_names]
            chosen = set(wanted)
            want = [i in chosen for i in range(len(self._outputs))]
        results = self._session.run(feeds, want, self._to_value)
        results = [from_value(r) if type(r) is _quern.Value else r for r in results]
        return results if wanted is None else [results[i] for i in wanted]

    def _to_value(self, index, thing):
        return to_value(thing, self._inputs[index])

    def facts(self, stage="all"):
        """What the session is made of: see quern_session_facts."""
        return json.loads(self._session.facts(stage))

    @staticmethod
    def _names(ports):
        return ", ".join(f"'{p.name}'" for p in ports) or "none"
