// quern._quern: sessions and values for the Python package. Tensors cross without copies, the GIL is released while a
// model is compiled or runs. What is convenient for people is in the package's Python files.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string_view>

#include "quern/quern.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

// ONNX's number of an element type as the buffer protocol writes it; 0 when there is none.
std::int32_t DTypeOfFormat(const char* format, Py_ssize_t bytes) {
  if (!format) return QUERN_U8;
  const std::string_view text(*format == '@' ? format + 1 : format);
  if (text == "?") return QUERN_BOOL;
  if (text == "e") return QUERN_F16;
  if (text == "f") return QUERN_F32;
  if (text == "d") return QUERN_F64;
  if (text == "Zf") return QUERN_C64;
  if (text == "Zd") return QUERN_C128;
  if (text.size() != 1) return 0;
  if (std::string_view("bhilq").find(text[0]) != text.npos) {
    return bytes == 1 ? QUERN_I8 : bytes == 2 ? QUERN_I16 : bytes == 4 ? QUERN_I32 : QUERN_I64;
  }
  if (std::string_view("BHILQ").find(text[0]) != text.npos) {
    return bytes == 1 ? QUERN_U8 : bytes == 2 ? QUERN_U16 : bytes == 4 ? QUERN_U32 : QUERN_U64;
  }
  return 0;
}

// Whether an array can have this type as it is.
bool IsNumPyType(std::int32_t dtype) {
  switch (dtype) {
    case QUERN_BOOL:
    case QUERN_F16:
    case QUERN_F32:
    case QUERN_F64:
    case QUERN_I8:
    case QUERN_I16:
    case QUERN_I32:
    case QUERN_I64:
    case QUERN_U8:
    case QUERN_U16:
    case QUERN_U32:
    case QUERN_U64:
    case QUERN_C64:
    case QUERN_C128:
      return true;
    default:
      return false;
  }
}

// The NumPy type that holds an element: types that NumPy lacks come as unsigned integers of their size.
nb::dlpack::dtype ArrayDType(std::int32_t dtype) {
  auto make = [](nb::dlpack::dtype_code code, std::size_t bytes) {
    return nb::dlpack::dtype{static_cast<std::uint8_t>(code), static_cast<std::uint8_t>(8 * bytes), 1};
  };
  const std::size_t bytes = quern_dtype_block_elements(dtype) == 1 ? quern_dtype_block_bytes(dtype) : 1;
  switch (dtype) {
    case QUERN_BOOL:
      return make(nb::dlpack::dtype_code::Bool, 1);
    case QUERN_F16:
    case QUERN_F32:
    case QUERN_F64:
      return make(nb::dlpack::dtype_code::Float, bytes);
    case QUERN_I8:
    case QUERN_I16:
    case QUERN_I32:
    case QUERN_I64:
      return make(nb::dlpack::dtype_code::Int, bytes);
    case QUERN_C64:
    case QUERN_C128:
      return make(nb::dlpack::dtype_code::Complex, bytes);
    default:
      return make(nb::dlpack::dtype_code::UInt, bytes);
  }
}

// A value over an array's memory, which it keeps alive; none when the C ABI does not take that memory as it is, or
// NumPy does not show it. dtype 0: the array's own; else its bits are read as that type. With `packed`, the shape of
// the value, the array is the bytes of a type below a byte.
std::optional<quern::Value> WrapArray(PyObject* array, std::int32_t dtype = 0, const quern::Shape* packed = nullptr) {
  struct Release {
    void operator()(Py_buffer* b) const {
      PyBuffer_Release(b);
      delete b;
    }
  };
  auto* shown = new Py_buffer();
  if (PyObject_GetBuffer(array, shown, PyBUF_STRIDES | PyBUF_FORMAT) != 0) {
    PyErr_Clear();
    delete shown;
    return std::nullopt;
  }
  std::unique_ptr<Py_buffer, Release> buffer(shown);
  const std::int32_t own = DTypeOfFormat(buffer->format, buffer->itemsize);
  if (own == 0) return std::nullopt;
  const std::size_t part = static_cast<std::size_t>(buffer->itemsize) / (own == QUERN_C64 || own == QUERN_C128 ? 2 : 1);
  if (reinterpret_cast<std::uintptr_t>(buffer->buf) % part != 0) return std::nullopt;
  quern::Shape shape, strides;
  std::int64_t last = 0;
  bool empty = false;
  for (int i = 0; i < buffer->ndim; ++i) {
    if (buffer->strides[i] < 0 || buffer->strides[i] % buffer->itemsize != 0) return std::nullopt;
    shape.push_back(buffer->shape[i]);
    strides.push_back(buffer->strides[i] / buffer->itemsize);
    last += (shape.back() - 1) * strides.back();
    empty |= shape.back() == 0;
  }
  // NumPy vouches that the memory is as large as shape and strides say.
  const std::size_t bytes = empty ? 0 : static_cast<std::size_t>((last + 1) * buffer->itemsize);
  if (packed) {
    shape = *packed;
    strides.clear();
  }
  quern::Value value = quern::Value::Wrap(
      dtype ? dtype : own, shape, strides, buffer->buf, bytes,
      [](void* user, void*) {
        nb::gil_scoped_acquire gil;
        Release()(static_cast<Py_buffer*>(user));
      },
      buffer.get());
  buffer.release();
  return value;
}

quern::Value ArrayValue(nb::handle array, std::int32_t dtype, const std::optional<quern::Shape>& packed) {
  std::optional<quern::Value> value = WrapArray(array.ptr(), dtype, packed ? &*packed : nullptr);
  if (!value) throw quern::Error(QUERN_UNSUPPORTED, "this NumPy element type has no counterpart in ONNX");
  return *std::move(value);
}

// A tensor as an array that shares its memory; sub-byte types as their bytes.
nb::object ToArray(const quern::Value& value) {
  std::vector<std::size_t> shape;
  std::vector<std::int64_t> strides;
  const quern::Shape dims = value.shape(), steps = value.strides();
  if (quern_dtype_block_elements(value.dtype()) == 1) {
    for (std::size_t i = 0; i < dims.size(); ++i) {
      shape.push_back(static_cast<std::size_t>(dims[i]));
      strides.push_back(steps[i]);
    }
  } else {
    shape.push_back(value.bytes());
    strides.push_back(1);
  }
  auto* kept = new quern::Value(value);
  nb::capsule owner(kept, [](void* p) noexcept { delete static_cast<quern::Value*>(p); });
  return nb::cast(nb::ndarray<nb::numpy>(value.raw_data(), shape.size(), shape.data(), owner, strides.data(),
                                         ArrayDType(value.dtype())));
}

nb::list StringList(const quern::Value& value) {
  nb::list texts;
  const auto count = static_cast<std::size_t>(value.num_elements());
  for (std::size_t i = 0; i < count; ++i) {
    const char* text = nullptr;
    std::size_t length = 0;
    quern::Check(quern_value_string(value.get(), i, &text, &length));
    texts.append(nb::steal(PyUnicode_DecodeUTF8(text, static_cast<Py_ssize_t>(length), "surrogateescape")));
  }
  return texts;
}

nb::tuple DescribePort(const quern_port& port) {
  nb::list shape;
  for (std::int32_t i = 0; i < port.rank; ++i) {
    if (port.dims[i] >= 0) {
      shape.append(port.dims[i]);
    } else {
      shape.append(nb::str(port.symbols[i]));
    }
  }
  return nb::make_tuple(nb::str(port.name), nb::str(port.type_text), shape, static_cast<int>(port.kind), port.dtype,
                        port.has_default != 0);
}

quern::Limits MakeLimits(const std::map<std::string, std::uint64_t>& limits) {
  quern::Limits made;
  for (const auto& [name, value] : limits) made.Set(name, value);
  return made;
}

// A value of a map: the number, where it holds one; else by `convert`.
nb::object MapElement(quern::Value value, const nb::callable& convert) {
  const bool one = value.kind() == QUERN_KIND_TENSOR && quern_value_rank(value.get()) == 0;
  if (one && value.dtype() == QUERN_I64) return nb::int_(*value.data<std::int64_t>());
  nb::object thing = convert(nb::cast(std::move(value)));
  return one ? thing.attr("item")() : thing;
}

// The values of a map of float32 scalars, as classifiers give, at once; nothing for other maps.
std::optional<std::vector<float>> FloatsOf(const quern::Value& map) {
  if (map.size() == 0) return std::nullopt;
  const quern::Value first = map.element(0);
  if (first.dtype() != QUERN_F32 || quern_value_rank(first.get()) != 0) return std::nullopt;
  try {
    return map.numbers<float>();
  } catch (const quern::Error&) {
    return std::nullopt;  // of other shapes behind the first
  }
}

nb::dict ToDict(const quern::Value& map, const nb::callable& convert) {
  const quern::Value keys = map.keys();
  const nb::list texts = keys.kind() == QUERN_KIND_STRINGS ? StringList(keys) : nb::list();
  const auto* integers = keys.kind() == QUERN_KIND_STRINGS ? nullptr : keys.data<std::int64_t>();
  const std::optional<std::vector<float>> floats = FloatsOf(map);
  nb::dict dict;
  for (std::size_t i = 0; i < map.size(); ++i) {
    const nb::object key = integers ? nb::object(nb::int_(integers[i])) : nb::object(texts[i]);
    dict[key] =
        floats ? nb::object(nb::float_(static_cast<double>((*floats)[i]))) : MapElement(map.element(i), convert);
  }
  return dict;
}

// The elements of a sequence: maps as dictionaries, others by `convert`.
nb::list ToList(const quern::Value& sequence, const nb::callable& convert) {
  nb::list list;
  for (std::size_t i = 0; i < sequence.size(); ++i) {
    quern::Value element = sequence.element(i);
    if (element.kind() == QUERN_KIND_MAP) {
      list.append(ToDict(element, convert));
    } else {
      list.append(convert(nb::cast(std::move(element))));
    }
  }
  return list;
}

class PyModel {
 public:
  // source: a path or bytes; `text`: it is the text form itself.
  PyModel(nb::object source, bool text, const std::map<std::string, std::uint64_t>& limits)
      : limits_(MakeLimits(limits)) {
    if (nb::isinstance<nb::str>(source)) {
      const auto given = nb::cast<std::string>(source);
      nb::gil_scoped_release release;
      model_.emplace(text ? quern::Model::Parse(given, &limits_) : quern::Model::Load(given, &limits_));
    } else {
      const auto bytes = nb::cast<nb::bytes>(source);
      const std::string_view view(bytes.c_str(), bytes.size());
      nb::gil_scoped_release release;
      model_.emplace(quern::Model::LoadMemory(view, {}, &limits_));
    }
  }

  std::string Text(bool full_constants) const {
    nb::gil_scoped_release release;
    return model_->Text(full_constants);
  }
  std::string Facts() const {
    nb::gil_scoped_release release;
    return model_->Facts();
  }
  void Save(const std::string& path, const std::string& format, const std::string& stage,
            std::vector<std::string> skip_passes, bool external_data, std::uint64_t external_bytes,
            const std::string& external_name) const {
    quern::SaveOptions options;
    options.format = format;
    options.stage = stage;
    options.skip_passes = std::move(skip_passes);
    options.external_data = external_data;
    options.external_bytes = external_bytes;
    options.external_name = external_name;
    options.limits = limits_;
    nb::gil_scoped_release release;
    model_->Save(path, options);
  }
  const quern::Model& model() const { return *model_; }

 private:
  quern::Limits limits_;
  std::optional<quern::Model> model_;
};

class PySession {
 public:
  PySession(nb::object source, int threads, const std::string& cpu, std::vector<std::string> providers,
            const std::string& precision, const std::map<std::string, std::uint64_t>& limits,
            bool overridable_initializers, std::optional<std::string> pack_cache, std::uint64_t pack_cache_bytes,
            std::vector<std::string> skip_passes, bool serial_branches, bool flush_denormals, bool keep_denormals) {
    quern::SessionOptions options;
    options.pack_cache = std::move(pack_cache);
    options.pack_cache_bytes = pack_cache_bytes;
    options.skip_passes = std::move(skip_passes);
    options.serial_branches = serial_branches;
    options.flush_denormals = flush_denormals;
    options.keep_denormals = keep_denormals;
    options.limits = MakeLimits(limits);
    options.threads = threads;
    options.cpu = cpu;
    options.providers = std::move(providers);
    options.precision = precision;
    options.overridable_initializers = overridable_initializers;
    if (nb::isinstance<PyModel>(source)) {
      const auto& model = nb::cast<const PyModel&>(source);
      nb::gil_scoped_release release;
      session_.emplace(model.model(), options);
    } else if (nb::isinstance<nb::str>(source)) {
      const auto path = nb::cast<std::string>(source);
      nb::gil_scoped_release release;
      session_.emplace(quern::Model::Load(path, &options.limits), options);
    } else {
      const auto bytes = nb::cast<nb::bytes>(source);
      const std::string_view view(bytes.c_str(), bytes.size());
      nb::gil_scoped_release release;
      session_.emplace(quern::Model::LoadMemory(view, {}, &options.limits), options);
    }
    for (std::size_t i = 0; i < session_->num_inputs(); ++i) {
      const quern_port& port = session_->input(i);
      takes_arrays_.push_back(port.kind == QUERN_KIND_TENSOR && IsNumPyType(port.dtype));
    }
    array_type_ = nb::module_::import_("numpy").attr("ndarray");
  }

  // Whether the array is an input's value as it is.
  bool TakesAsArray(std::size_t input, nb::handle thing) const {
    return takes_arrays_[input] && thing.type().is(array_type_);
  }

  nb::list Inputs() const {
    nb::list ports;
    for (std::size_t i = 0; i < session_->num_inputs(); ++i) ports.append(DescribePort(session_->input(i)));
    return ports;
  }
  nb::list Outputs() const {
    nb::list ports;
    for (std::size_t i = 0; i < session_->num_outputs(); ++i) ports.append(DescribePort(session_->output(i)));
    return ports;
  }

  std::string Facts(const std::string& stage) const {
    nb::gil_scoped_release release;
    return session_->Facts(stage);
  }
  quern::Session& session() { return *session_; }

 private:
  std::optional<quern::Session> session_;
  std::vector<bool> takes_arrays_;  // by input: a tensor of a type that NumPy has
  nb::object array_type_;
};

// feeds: per input a thing or None; to_value(index, thing) makes a Value of what is neither that nor an array of a type
// that NumPy has. want: a flag per output, or None for all; None comes for those that are not wanted, arrays for
// tensors of NumPy's types, a Value for the rest.
nb::list RunSession(PySession& self, nb::list feeds, nb::object want, nb::callable to_value) {
  std::vector<quern::Value> inputs, outputs;
  inputs.reserve(feeds.size());
  for (nb::handle feed : feeds) {
    const std::size_t index = inputs.size();
    std::optional<quern::Value> value;
    if (feed.is_none()) {
      value.emplace();
    } else if (self.TakesAsArray(index, feed)) {
      value = WrapArray(feed.ptr());
    }
    inputs.push_back(value ? *std::move(value) : nb::cast<quern::Value>(to_value(index, feed)));
  }
  std::vector<std::uint8_t> flags;
  quern_run_options options;
  quern_run_options_init(&options);
  if (!want.is_none()) {
    for (nb::handle flag : want) flags.push_back(nb::cast<bool>(flag));
    options.want = flags.data();
  }
  {
    nb::gil_scoped_release release;
    self.session().RunInto(inputs, outputs, &options);
  }
  nb::list result;
  for (quern::Value& v : outputs) {
    if (!v) {
      result.append(nb::none());
    } else if (v.kind() == QUERN_KIND_TENSOR && IsNumPyType(v.dtype())) {
      result.append(ToArray(v));
    } else {
      result.append(nb::cast(std::move(v)));
    }
  }
  return result;
}

void TranslateError(const std::exception_ptr& pointer, void*) {
  try {
    std::rethrow_exception(pointer);
  } catch (const quern::Error& e) {
    try {
      const nb::object type = nb::module_::import_("quern._errors").attr("of_status")(static_cast<int>(e.status()));
      PyErr_SetString(type.ptr(), e.what());
    } catch (nb::python_error& inner) {
      inner.restore();
    }
  }
}

}  // namespace

NB_MODULE(_quern, m) {
  nb::register_exception_translator(TranslateError);
  m.attr("version") = quern_version();

  nb::class_<quern::Value>(m, "Value")
      .def_static("array", &ArrayValue, "array"_a, "dtype"_a = 0, nb::arg("packed").none() = nb::none())
      .def_static("strings", [](const quern::Shape& shape,
                                const std::vector<std::string>& texts) { return quern::Value::Strings(shape, texts); })
      .def_static("sequence",
                  [](const std::vector<quern::Value>& elements) { return quern::Value::Sequence(elements); })
      .def_static(
          "optional",
          [](nb::object element) {
            return quern::Value::Optional(element.is_none() ? quern::Value() : nb::cast<quern::Value>(element));
          },
          nb::arg("element").none())
      .def_static("map", [](const quern::Value& keys,
                            const std::vector<quern::Value>& values) { return quern::Value::Map(keys, values); })
      .def_prop_ro("kind", [](const quern::Value& v) { return static_cast<int>(v.kind()); })
      .def_prop_ro("dtype", &quern::Value::dtype)
      .def_prop_ro("shape", &quern::Value::shape)
      .def("to_array", &ToArray)
      .def("to_strings", &StringList)
      .def("to_dict", &ToDict)
      .def("to_list", &ToList)
      .def("__len__", &quern::Value::size)
      .def("__getitem__", &quern::Value::element);

  nb::class_<PyModel>(m, "Model")
      .def(nb::init<nb::object, bool, const std::map<std::string, std::uint64_t>&>(), "source"_a, "text"_a, "limits"_a)
      .def("text", &PyModel::Text)
      .def("facts", &PyModel::Facts)
      .def("save", &PyModel::Save);

  nb::class_<PySession>(m, "Session")
      .def(nb::init<nb::object, int, const std::string&, std::vector<std::string>, const std::string&,
                    const std::map<std::string, std::uint64_t>&, bool, std::optional<std::string>, std::uint64_t,
                    std::vector<std::string>, bool, bool, bool>(),
           "source"_a, "threads"_a, "cpu"_a, "providers"_a, "precision"_a, "limits"_a, "overridable_initializers"_a,
           "pack_cache"_a.none(), "pack_cache_bytes"_a, "skip_passes"_a, "serial_branches"_a, "flush_denormals"_a,
           "keep_denormals"_a)
      .def("inputs", &PySession::Inputs)
      .def("outputs", &PySession::Outputs)
      .def("find_input", [](PySession& self, const std::string& name) { return self.session().FindInput(name); })
      .def("facts", &PySession::Facts)
      .def("run", &RunSession, "feeds"_a, nb::arg("want").none(), "to_value"_a);

  m.def("set_log_level", [](int level) { quern_set_log(static_cast<quern_log_level>(level), nullptr, nullptr); });
  m.def(
      "cpu_facts", [](const std::string& cpu, bool measure) { return quern::CpuFacts(cpu, measure); },
      nb::call_guard<nb::gil_scoped_release>());
  m.def("kernel_facts", [](const std::string& cpu, const std::string& family, std::int64_t rows, std::int64_t columns,
                           std::int64_t depth, const std::string& types) {
    return quern::KernelFacts(cpu, family, rows, columns, depth, types);
  });
}
