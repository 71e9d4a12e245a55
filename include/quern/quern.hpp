// quern.hpp: a thin C++17 layer over quern.h. Handles are owned, errors are thrown as quern::Error, nothing else is
// added.
//
//   quern::Session session(quern::Model::Load("model.onnx"));
//   std::vector<float> pixels(1 * 3 * 224 * 224);
//   std::vector<quern::Value> outputs = session.Run({quern::Value::Wrap({1, 3, 224, 224}, pixels.data())});
//   const float* probability = outputs[0].data<float>();
#ifndef QUERN_HPP_
#define QUERN_HPP_

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "quern/quern.h"

namespace quern {
// Inline and named, so that these classes never share symbols with the library's own.
inline namespace cxx {

// A failed call: what() is quern_error_message.
class Error : public std::runtime_error {
 public:
  explicit Error(quern_status status) : std::runtime_error(quern_error_message()), status_(status) {}
  Error(quern_status status, const std::string& message) : std::runtime_error(message), status_(status) {}
  quern_status status() const { return status_; }

 private:
  quern_status status_;
};

inline void Check(quern_status status) {
  if (status != QUERN_OK) throw Error(status);
}

// Takes over a text that the library allocated.
inline std::string TakeText(char* text) {
  const std::unique_ptr<void, void (*)(void*)> owner(text, quern_buffer_free);
  return std::string(text);
}

// The element type of a C++ type; bool and std::uint8_t share a size but not a type.
template <typename T>
struct DTypeOf;
template <>
struct DTypeOf<float> {
  static constexpr std::int32_t value = QUERN_F32;
};
template <>
struct DTypeOf<double> {
  static constexpr std::int32_t value = QUERN_F64;
};
template <>
struct DTypeOf<std::int8_t> {
  static constexpr std::int32_t value = QUERN_I8;
};
template <>
struct DTypeOf<std::uint8_t> {
  static constexpr std::int32_t value = QUERN_U8;
};
template <>
struct DTypeOf<std::int16_t> {
  static constexpr std::int32_t value = QUERN_I16;
};
template <>
struct DTypeOf<std::uint16_t> {
  static constexpr std::int32_t value = QUERN_U16;
};
template <>
struct DTypeOf<std::int32_t> {
  static constexpr std::int32_t value = QUERN_I32;
};
template <>
struct DTypeOf<std::uint32_t> {
  static constexpr std::int32_t value = QUERN_U32;
};
template <>
struct DTypeOf<std::int64_t> {
  static constexpr std::int32_t value = QUERN_I64;
};
template <>
struct DTypeOf<std::uint64_t> {
  static constexpr std::int32_t value = QUERN_U64;
};
template <>
struct DTypeOf<bool> {
  static constexpr std::int32_t value = QUERN_BOOL;
};

using Shape = std::vector<std::int64_t>;

// Any value; copies are handles on the same content. A default one is empty: an omitted optional input.
class Value {
 public:
  Value() = default;
  explicit Value(quern_value* taken) : handle_(taken, quern_value_free) {}

  // A tensor with uninitialised memory of its own.
  static Value Tensor(std::int32_t dtype, const Shape& shape) {
    quern_value* v = nullptr;
    Check(quern_tensor_create(dtype, Rank(shape), shape.data(), &v));
    return Value(v);
  }
  // With a copy of the elements, row-major.
  template <typename T>
  static Value Tensor(const Shape& shape, const std::vector<T>& elements) {
    Value v = Tensor(DTypeOf<T>::value, shape);
    if (v.num_elements() != static_cast<std::int64_t>(elements.size())) {
      throw Error(QUERN_INVALID_ARGUMENT, "the shape has " + std::to_string(v.num_elements()) + " elements, " +
                                              std::to_string(elements.size()) + " were given");
    }
    T* to = v.data<T>();
    for (std::size_t i = 0; i < elements.size(); ++i) to[i] = elements[i];
    return v;
  }
  // A view of contiguous memory that outlives it.
  template <typename T>
  static Value Wrap(const Shape& shape, T* data) {
    std::size_t elements = 1;
    for (std::int64_t d : shape) elements *= static_cast<std::size_t>(d);
    quern_value* v = nullptr;
    Check(quern_tensor_wrap(DTypeOf<T>::value, Rank(shape), shape.data(), nullptr, data, elements * sizeof(T), nullptr,
                            nullptr, &v));
    return Value(v);
  }
  // With strides in elements; `bytes` is the size of the memory.
  static Value Wrap(std::int32_t dtype, const Shape& shape, const Shape& strides, void* data, std::size_t bytes,
                    quern_release_fn release = nullptr, void* user = nullptr) {
    quern_value* v = nullptr;
    Check(quern_tensor_wrap(dtype, Rank(shape), shape.data(), strides.empty() ? nullptr : strides.data(), data, bytes,
                            release, user, &v));
    return Value(v);
  }
  static Value Strings(const Shape& shape, const std::vector<std::string>& strings) {
    std::vector<const char*> texts;
    std::vector<std::size_t> lengths;
    for (const std::string& s : strings) texts.push_back(s.data()), lengths.push_back(s.size());
    std::size_t elements = 1;
    for (std::int64_t d : shape) elements *= static_cast<std::size_t>(d);
    if (elements != strings.size()) throw Error(QUERN_INVALID_ARGUMENT, "the shape does not fit the strings");
    quern_value* v = nullptr;
    Check(quern_strings_create(Rank(shape), shape.data(), texts.data(), lengths.data(), &v));
    return Value(v);
  }
  static Value Sequence(const std::vector<Value>& elements) {
    const std::vector<const quern_value*> handles = Handles(elements);
    quern_value* v = nullptr;
    Check(quern_sequence_create(handles.data(), handles.size(), &v));
    return Value(v);
  }
  // An optional that holds `element`, or nothing when that is empty.
  static Value Optional(const Value& element) {
    quern_value* v = nullptr;
    Check(quern_optional_create(element.get(), &v));
    return Value(v);
  }
  // keys: an i64 tensor or strings of rank 1.
  static Value Map(const Value& keys, const std::vector<Value>& values) {
    const std::vector<const quern_value*> handles = Handles(values);
    quern_value* v = nullptr;
    Check(quern_map_create(keys.get(), handles.data(), handles.size(), &v));
    return Value(v);
  }
  static Value FromProto(quern_kind kind, std::string_view bytes) {
    quern_value* v = nullptr;
    Check(quern_value_from_proto(kind, bytes.data(), bytes.size(), &v));
    return Value(v);
  }
  std::string ToProto(const std::string& name = {}) const {
    void* bytes = nullptr;
    std::size_t size = 0;
    Check(quern_value_to_proto(get(), name.c_str(), &bytes, &size));
    const std::unique_ptr<void, void (*)(void*)> owner(bytes, quern_buffer_free);
    return std::string(static_cast<const char*>(bytes), size);
  }

  explicit operator bool() const { return handle_ != nullptr; }
  quern_value* get() const { return handle_.get(); }
  quern_kind kind() const { return quern_value_kind(get()); }
  std::int32_t dtype() const { return quern_value_dtype(get()); }
  Shape shape() const { return List(quern_value_dims(get())); }
  Shape strides() const { return List(quern_value_strides(get())); }
  std::int64_t num_elements() const {
    std::int64_t n = 1;
    for (std::int64_t d : shape()) n *= d;
    return n;
  }
  std::size_t bytes() const { return quern_value_bytes(get()); }
  void* raw_data() const { return quern_value_data(get()); }
  // The first element; throws when T is not the element type.
  template <typename T>
  T* data() const {
    if (dtype() != DTypeOf<T>::value) {
      throw Error(QUERN_INVALID_ARGUMENT, std::string("the tensor has element type ") + quern_dtype_name(dtype()));
    }
    return static_cast<T*>(raw_data());
  }
  std::string string(std::size_t index) const {
    const char* text = nullptr;
    std::size_t length = 0;
    Check(quern_value_string(get(), index, &text, &length));
    return std::string(text, length);
  }
  // Of sequences, optionals and maps.
  std::size_t size() const { return quern_value_count(get()); }
  Value element(std::size_t index) const {
    quern_value* v = nullptr;
    Check(quern_value_element(get(), index, &v));
    return Value(v);
  }
  Value keys() const {
    quern_value* v = nullptr;
    Check(quern_value_keys(get(), &v));
    return Value(v);
  }
  // The values of a map of scalars of type T, in the order of its keys.
  template <typename T>
  std::vector<T> numbers() const {
    std::vector<T> values(size());
    Check(quern_value_map_numbers(get(), DTypeOf<T>::value, values.data(), values.size()));
    return values;
  }

 private:
  static std::int32_t Rank(const Shape& shape) { return static_cast<std::int32_t>(shape.size()); }
  static std::vector<const quern_value*> Handles(const std::vector<Value>& values) {
    std::vector<const quern_value*> handles;
    for (const Value& v : values) handles.push_back(v.get());
    return handles;
  }
  Shape List(const std::int64_t* p) const { return p ? Shape(p, p + quern_value_rank(get())) : Shape(); }

  std::shared_ptr<quern_value> handle_;
};

namespace detail {
template <typename T, void (*Free)(T*)>
struct Deleter {
  void operator()(T* p) const { Free(p); }
};
template <typename T, void (*Free)(T*)>
using Handle = std::unique_ptr<T, Deleter<T, Free>>;
}  // namespace detail

// What an untrusted model may ask for; fields as in quern_limits, 0 is the default.
struct Limits : quern_limits {
  Limits() { quern_limits_init(this); }
  // By the name of a field: "memory_bytes".
  Limits& Set(const std::string& name, std::uint64_t value) {
    Check(quern_limits_set(this, name.c_str(), value));
    return *this;
  }
};

class Model;

// A node's attribute, for Model::Node. Keeps what it needs until the node is added.
class Attribute {
 public:
  Attribute(std::string name, std::int64_t value) : Attribute(QUERN_ATTRIBUTE_INT, std::move(name)) {
    raw_.int_value = value;
  }
  Attribute(std::string name, int value) : Attribute(std::move(name), static_cast<std::int64_t>(value)) {}
  Attribute(std::string name, float value) : Attribute(QUERN_ATTRIBUTE_FLOAT, std::move(name)) {
    raw_.float_value = value;
  }
  Attribute(std::string name, double value) : Attribute(std::move(name), static_cast<float>(value)) {}
  Attribute(std::string name, std::string value) : Attribute(QUERN_ATTRIBUTE_STRING, std::move(name)) {
    text_ = std::move(value);
  }
  Attribute(std::string name, const char* value) : Attribute(std::move(name), std::string(value)) {}
  Attribute(std::string name, Value value) : Attribute(QUERN_ATTRIBUTE_TENSOR, std::move(name)) {
    value_ = std::move(value);
  }
  Attribute(std::string name, std::vector<std::int64_t> values) : Attribute(QUERN_ATTRIBUTE_INTS, std::move(name)) {
    ints_ = std::move(values);
  }
  Attribute(std::string name, std::initializer_list<std::int64_t> values)
      : Attribute(std::move(name), std::vector<std::int64_t>(values)) {}
  Attribute(std::string name, std::vector<float> values) : Attribute(QUERN_ATTRIBUTE_FLOATS, std::move(name)) {
    floats_ = std::move(values);
  }
  Attribute(std::string name, std::vector<std::string> values) : Attribute(QUERN_ATTRIBUTE_STRINGS, std::move(name)) {
    strings_ = std::move(values);
  }
  // A subgraph, which must outlive the call that adds the node.
  inline Attribute(std::string name, const Model& graph);

 private:
  friend class Model;
  Attribute(quern_attribute_type type, std::string name) : name_(std::move(name)) {
    quern_attribute_init(&raw_);
    raw_.type = type;
  }
  // Points into this object.
  quern_attribute Get() {
    raw_.name = name_.c_str();
    raw_.string_value = text_.c_str();
    raw_.tensor = value_.get();
    raw_.ints = ints_.data();
    raw_.floats = floats_.data();
    texts_.clear();
    for (const std::string& s : strings_) texts_.push_back(s.c_str());
    raw_.strings = texts_.data();
    raw_.count = ints_.size() + floats_.size() + strings_.size();
    return raw_;
  }

  quern_attribute raw_;
  std::string name_, text_;
  Value value_;
  std::vector<std::int64_t> ints_;
  std::vector<float> floats_;
  std::vector<std::string> strings_;
  std::vector<const char*> texts_;
};

struct SaveOptions {
  std::string format;  // empty: onnx; or text
  std::string stage;   // empty: file; or neutral
  std::vector<std::string> skip_passes;
  bool external_data = false;
  std::uint64_t external_bytes = 0;  // 0: default
  std::string external_name;         // empty: the model's with ".data" behind it
  Limits limits;
};

class Model {
 public:
  static Model Load(const std::string& path, const quern_limits* limits = nullptr) {
    quern_model* m = nullptr;
    Check(quern_model_load(path.c_str(), limits, &m));
    return Model(m);
  }
  // From a copy of the bytes; `folder`: where external data lies.
  static Model LoadMemory(std::string_view bytes, const std::string& folder = {},
                          const quern_limits* limits = nullptr) {
    quern_model* m = nullptr;
    Check(
        quern_model_load_memory(bytes.data(), bytes.size(), 1, folder.empty() ? nullptr : folder.c_str(), limits, &m));
    return Model(m);
  }
  static Model Parse(const std::string& text, const quern_limits* limits = nullptr) {
    quern_model* m = nullptr;
    Check(quern_model_parse(text.c_str(), limits, &m));
    return Model(m);
  }
  static Model Create(const std::string& name) {
    quern_model* m = nullptr;
    Check(quern_model_create(name.c_str(), &m));
    return Model(m);
  }

  Model& Import(const std::string& domain, int version) {
    Check(quern_model_import(get(), domain.c_str(), version));
    return *this;
  }
  // dims: -1 with a name in `symbols` is a symbolic extent.
  Model& Input(const std::string& name, std::int32_t dtype, const Shape& dims,
               const std::vector<std::string>& symbols = {}) {
    std::vector<const char*> names;
    for (std::size_t i = 0; i < dims.size(); ++i) names.push_back(i < symbols.size() ? symbols[i].c_str() : nullptr);
    Check(quern_model_add_input(get(), name.c_str(), dtype, static_cast<std::int32_t>(dims.size()), dims.data(),
                                names.data()));
    return *this;
  }
  // Of any kind; `type` as the text form prints it: "seq<f32[*]>".
  Model& Input(const std::string& name, const std::string& type) {
    Check(quern_model_add_typed_input(get(), name.c_str(), type.c_str()));
    return *this;
  }
  Model& Constant(const std::string& name, const Value& content) {
    Check(quern_model_add_constant(get(), name.c_str(), content.get()));
    return *this;
  }
  Model& Node(const std::string& op_type, const std::vector<std::string>& inputs,
              const std::vector<std::string>& outputs, std::vector<Attribute> attributes = {},
              const std::string& name = {}, const std::string& domain = {}) {
    std::vector<const char*> in, out;
    for (const std::string& s : inputs) in.push_back(s.c_str());
    for (const std::string& s : outputs) out.push_back(s.c_str());
    std::vector<quern_attribute> raw;
    for (Attribute& a : attributes) raw.push_back(a.Get());
    Check(quern_model_add_node(get(), op_type.c_str(), domain.c_str(), name.c_str(), in.data(), in.size(), out.data(),
                               out.size(), raw.data(), raw.size()));
    return *this;
  }
  Model& Output(const std::string& name) {
    Check(quern_model_add_output(get(), name.c_str()));
    return *this;
  }

  std::string Facts() const {
    char* json = nullptr;
    Check(quern_model_facts(get(), &json));
    return TakeText(json);
  }
  std::string Text(bool full_constants = false) const {
    char* text = nullptr;
    Check(quern_model_text(get(), full_constants, &text));
    return TakeText(text);
  }
  void Save(const std::string& path, const SaveOptions& options = {}) const {
    quern_save_options raw;
    quern_save_options_init(&raw);
    raw.format = options.format.empty() ? nullptr : options.format.c_str();
    raw.stage = options.stage.empty() ? nullptr : options.stage.c_str();
    std::vector<const char*> passes;
    for (const std::string& p : options.skip_passes) passes.push_back(p.c_str());
    raw.skip_passes = passes.data();
    raw.num_skip_passes = passes.size();
    raw.external_data = options.external_data;
    raw.external_bytes = options.external_bytes;
    raw.external_name = options.external_name.empty() ? nullptr : options.external_name.c_str();
    raw.limits = &options.limits;
    Check(quern_model_save(get(), path.c_str(), &raw));
  }
  quern_model* get() const { return handle_.get(); }

 private:
  explicit Model(quern_model* m) : handle_(m) {}
  detail::Handle<quern_model, quern_model_free> handle_;
};

inline Attribute::Attribute(std::string name, const Model& graph) : Attribute(QUERN_ATTRIBUTE_GRAPH, std::move(name)) {
  raw_.graph = graph.get();
}

class Executor {
 public:
  explicit Executor(int threads = 0) {
    quern_executor* e = nullptr;
    Check(quern_executor_create(threads, &e));
    handle_.reset(e);
  }
  explicit Executor(const quern_host_executor& host) {
    quern_executor* e = nullptr;
    Check(quern_executor_from_host(&host, &e));
    handle_.reset(e);
  }
  quern_executor* get() const { return handle_.get(); }

 private:
  detail::Handle<quern_executor, quern_executor_free> handle_;
};

// Stops runs from any thread; must outlive the runs that it was given to.
class Cancel {
 public:
  Cancel() : handle_(quern_cancel_create()) {
    if (!handle_) throw Error(QUERN_RESOURCE_EXHAUSTED, "out of memory");
  }
  void Fire() { quern_cancel_fire(get()); }
  void Reset() { quern_cancel_reset(get()); }
  quern_cancel* get() const { return handle_.get(); }

 private:
  detail::Handle<quern_cancel, quern_cancel_free> handle_;
};

struct SessionOptions {
  int threads = 0;                     // 0: the usable cores
  const Executor* executor = nullptr;  // shared with other sessions
  std::string cpu;                     // empty: QUERN_CPU or native
  std::vector<std::string> providers;  // empty: cpu
  std::string precision;               // empty: fp32
  std::vector<std::string> skip_passes;
  int plan_cache_size = 0;  // 0: default
  Limits limits;            // the model's own are given when it is loaded
  bool overridable_initializers = false;
  bool profile = false;                   // for Facts("profile")
  std::optional<std::string> pack_cache;  // folder; "": none, not given: QUERN_CACHE
  std::uint64_t pack_cache_bytes = 0;     // 0: default
  bool serial_branches = false;           // branches never run at the same time
  bool flush_denormals = false;           // numbers below 2^-126 (float64: 2^-1022) count as 0 in all nodes
  bool keep_denormals = false;            // such numbers are kept where products are summed too
};

class Session;

// Buffers bound to inputs and the outputs that continue them; see quern_state_spec.
class State {
 public:
  std::int64_t length(std::size_t index) const { return quern_state_length(get(), index); }
  void set_length(std::size_t index, std::int64_t length) { Check(quern_state_set_length(get(), index, length)); }
  // The state as it is now; holds until the next run with it.
  Value value(std::size_t index) const {
    quern_value* v = nullptr;
    Check(quern_state_value(get(), index, &v));
    return Value(v);
  }
  quern_state* get() const { return handle_.get(); }

 private:
  friend class Session;
  explicit State(quern_state* s) : handle_(s) {}
  detail::Handle<quern_state, quern_state_free> handle_;
};

class Session {
 public:
  explicit Session(const Model& model, const SessionOptions& options = {}) {
    quern_session_options raw;
    quern_session_options_init(&raw);
    raw.threads = options.threads;
    raw.executor = options.executor ? options.executor->get() : nullptr;
    raw.cpu = options.cpu.empty() ? nullptr : options.cpu.c_str();
    raw.precision = options.precision.empty() ? nullptr : options.precision.c_str();
    raw.plan_cache_size = options.plan_cache_size;
    raw.limits = &options.limits;
    raw.overridable_initializers = options.overridable_initializers;
    raw.profile = options.profile;
    raw.pack_cache = options.pack_cache ? options.pack_cache->c_str() : nullptr;
    raw.pack_cache_bytes = options.pack_cache_bytes;
    raw.serial_branches = options.serial_branches;
    raw.flush_denormals = options.flush_denormals;
    raw.keep_denormals = options.keep_denormals;
    std::vector<const char*> providers, passes;
    for (const std::string& p : options.providers) providers.push_back(p.c_str());
    for (const std::string& p : options.skip_passes) passes.push_back(p.c_str());
    raw.providers = providers.data();
    raw.num_providers = providers.size();
    raw.skip_passes = passes.data();
    raw.num_skip_passes = passes.size();
    quern_session* s = nullptr;
    Check(quern_session_create(model.get(), &raw, &s));
    handle_.reset(s);
  }

  std::size_t num_inputs() const { return quern_session_num_inputs(get()); }
  std::size_t num_outputs() const { return quern_session_num_outputs(get()); }
  // Strings and arrays live as long as the session.
  quern_port input(std::size_t index) const {
    quern_port port;
    quern_port_init(&port);
    Check(quern_session_input(get(), index, &port));
    return port;
  }
  quern_port output(std::size_t index) const {
    quern_port port;
    quern_port_init(&port);
    Check(quern_session_output(get(), index, &port));
    return port;
  }

  std::size_t FindInput(const std::string& name) const {
    std::size_t index = 0;
    Check(quern_session_find_input(get(), name.c_str(), &index));
    return index;
  }

  // One input per port, in order; an empty Value is an omitted optional one. Thread-safe.
  std::vector<Value> Run(const std::vector<Value>& inputs, const quern_run_options* options = nullptr) {
    std::vector<Value> outputs;
    RunInto(inputs, outputs, options);
    return outputs;
  }
  // Tensors in `outputs` are written in place, empty values are replaced by new ones.
  void RunInto(const std::vector<Value>& inputs, std::vector<Value>& outputs,
               const quern_run_options* options = nullptr) {
    RunWith(nullptr, inputs, outputs, options);
  }
  // The slots of bound inputs and outputs are ignored.
  std::vector<Value> Run(State& state, const std::vector<Value>& inputs, const quern_run_options* options = nullptr) {
    std::vector<Value> outputs;
    RunWith(state.get(), inputs, outputs, options);
    return outputs;
  }
  State CreateState(const std::vector<quern_state_spec>& specs) {
    quern_state* s = nullptr;
    Check(quern_state_create(get(), specs.data(), specs.size(), &s));
    return State(s);
  }

  std::string Facts(const std::string& stage = "all") const {
    char* json = nullptr;
    Check(quern_session_facts(get(), stage.c_str(), &json));
    return TakeText(json);
  }
  std::string Text(const std::string& stage) const {
    char* text = nullptr;
    Check(quern_session_text(get(), stage.c_str(), &text));
    return TakeText(text);
  }
  quern_session* get() const { return handle_.get(); }

 private:
  void RunWith(quern_state* state, const std::vector<Value>& inputs, std::vector<Value>& outputs,
               const quern_run_options* options) {
    if (inputs.size() != num_inputs()) {
      throw Error(QUERN_INVALID_ARGUMENT, "the model has " + std::to_string(num_inputs()) + " inputs, " +
                                              std::to_string(inputs.size()) + " were given");
    }
    outputs.resize(num_outputs());
    std::vector<const quern_value*> in;
    std::vector<quern_value*> out;
    for (const Value& v : inputs) in.push_back(v.get());
    for (const Value& v : outputs) out.push_back(v.get());
    const quern_status status = state ? quern_session_run_with_state(get(), state, in.data(), out.data(), options)
                                      : quern_session_run(get(), in.data(), out.data(), options);
    if (status != QUERN_OK) throw Error(status);
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      if (!outputs[i] && out[i]) outputs[i] = Value(out[i]);
    }
  }

  detail::Handle<quern_session, quern_session_free> handle_;
};

// cpu empty: QUERN_CPU or native. measure: 1 one core, 2 also all cores.
inline std::string CpuFacts(const std::string& cpu = {}, int measure = 0) {
  char* json = nullptr;
  Check(quern_cpu_facts(cpu.empty() ? nullptr : cpu.c_str(), measure, &json));
  return TakeText(json);
}

inline std::string KernelFacts(const std::string& cpu = {}, const std::string& family = {}, std::int64_t m = 0,
                               std::int64_t n = 0, std::int64_t k = 0, const std::string& types = {}) {
  char* json = nullptr;
  Check(quern_kernel_facts(cpu.empty() ? nullptr : cpu.c_str(), family.empty() ? nullptr : family.c_str(), m, n, k,
                           types.empty() ? nullptr : types.c_str(), &json));
  return TakeText(json);
}

inline std::string Calibrate(const std::string& cpu, double seconds, quern_progress progress = nullptr,
                             void* user = nullptr) {
  char* text = nullptr;
  Check(quern_calibrate(cpu.empty() ? nullptr : cpu.c_str(), seconds, progress, user, &text));
  return TakeText(text);
}

inline std::string CheckSelection(const std::string& cpu, std::int64_t shapes, quern_progress progress = nullptr,
                                  void* user = nullptr) {
  char* json = nullptr;
  Check(quern_check_selection(cpu.empty() ? nullptr : cpu.c_str(), shapes, progress, user, &json));
  return TakeText(json);
}

}  // namespace cxx
}  // namespace quern

#endif  // QUERN_HPP_
