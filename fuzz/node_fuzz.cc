// Graphs of one node, valid and almost valid: any operator and version, types, shapes, attributes and contents drawn
// from the input. The CPU provider and the reference provider load and run them; nothing may crash, and where both run,
// types and shapes of the results agree.
#include <fuzzer/FuzzedDataProvider.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <span>

#include "base/float16.h"
#include "base/log.h"
#include "graph/text.h"
#include "ops/op.h"
#include "parallel/executor.h"
#include "provider/host.h"
#include "session/session.h"

namespace quern {
namespace {

constexpr std::array<const char*, 62> kWords = {"",
                                                "NOTSET",
                                                "SAME_UPPER",
                                                "SAME_LOWER",
                                                "VALID",
                                                "constant",
                                                "edge",
                                                "reflect",
                                                "wrap",
                                                "nearest",
                                                "linear",
                                                "cubic",
                                                "bilinear",
                                                "bicubic",
                                                "zeros",
                                                "border",
                                                "reflection",
                                                "half_pixel",
                                                "asymmetric",
                                                "align_corners",
                                                "tf_crop_and_resize",
                                                "floor",
                                                "ceil",
                                                "round_prefer_floor",
                                                "round_prefer_ceil",
                                                "stretch",
                                                "not_larger",
                                                "not_smaller",
                                                "sum",
                                                "mean",
                                                "none",
                                                "add",
                                                "mul",
                                                "min",
                                                "max",
                                                "avg",
                                                "DCR",
                                                "CRD",
                                                "tanh",
                                                "forward",
                                                "reverse",
                                                "bidirectional",
                                                "Sigmoid",
                                                "Tanh",
                                                "Relu",
                                                "LeakyRelu",
                                                "TF",
                                                "IDF",
                                                "TFIDF",
                                                "LOWER",
                                                "UPPER",
                                                "SOFTMAX",
                                                "LOGISTIC",
                                                "PROBIT",
                                                "BRANCH_LEQ",
                                                "LEAF",
                                                "L1",
                                                "L2",
                                                "ij,jk->ik",
                                                "...ii->...i",
                                                "RBF",
                                                "half_pixel_symmetric"};

class NodeMaker {
 public:
  explicit NodeMaker(FuzzedDataProvider& data) : data_(data), graph_(std::make_unique<Graph>()) {}

  // Null where the draw has no graph.
  std::unique_ptr<Graph> Make();
  // One per graph input.
  const std::vector<Value>& inputs() const { return inputs_; }

 private:
  bool OneIn(int n) { return data_.ConsumeIntegralInRange<int>(0, n - 1) == n - 1; }
  // Mostly small.
  int64_t Number() {
    if (!OneIn(24)) return data_.ConsumeIntegralInRange<int64_t>(-3, 6);
    constexpr std::array<int64_t, 8> kOdd = {INT64_MIN, INT64_MAX, INT32_MIN, INT32_MAX,
                                             255,       -129,      1 << 20,   int64_t{1} << 40};
    return data_.PickValueInArray(kOdd);
  }
  float Real() {
    constexpr std::array<float, 12> kReals = {
        0, 1, -1, 0.5f, 2, -0.25f, 1e-6f, 3e38f, 1e-40f, 7, __builtin_inff(), __builtin_nanf("")};
    return data_.PickValueInArray(kReals);
  }
  DType Type(const Param& param);
  Shape DrawShape();
  Value DrawTensor(DType dtype, const Shape& shape);
  GraphValue* Input(const Param& param, size_t index);
  bool SetAttribute(const AttrSpec& spec);

  FuzzedDataProvider& data_;
  std::unique_ptr<Graph> graph_;
  std::vector<Value> inputs_;
  std::map<std::string, DType> types_;  // of type variables
  Shape base_;
  std::map<std::string, Attribute, std::less<>> attributes_;
};

DType NodeMaker::Type(const Param& param) {
  std::vector<DType> allowed;
  for (int t = 0; t < 128; ++t) {
    const DType type = static_cast<DType>(t);
    if (param.types.Has(type) && type != DType::kUndefined && !IsBlockType(type)) allowed.push_back(type);
  }
  if (allowed.empty() || OneIn(40)) return OneIn(2) ? DType::kF32 : DType::kI64;
  const DType drawn = allowed[data_.ConsumeIntegralInRange<size_t>(0, allowed.size() - 1)];
  if (!*param.type_var || OneIn(40)) return drawn;
  return types_.emplace(param.type_var, drawn).first->second;
}

// Shapes of one node's inputs resemble each other.
Shape NodeMaker::DrawShape() {
  const auto extent = [&] { return data_.ConsumeIntegralInRange<int64_t>(OneIn(12) ? 0 : 1, 4); };
  Shape shape = base_;
  switch (data_.ConsumeIntegralInRange<int>(0, 5)) {
    case 0:
    case 1:
      return shape;
    case 2: {  // broadcast or changed in one place
      if (shape.rank() > 0) shape[data_.ConsumeIntegralInRange<int>(0, shape.rank() - 1)] = OneIn(2) ? 1 : extent();
      return shape;
    }
    case 3: {
      const int rank = data_.ConsumeIntegralInRange<int>(0, base_.rank());
      Shape tail;
      for (int d = base_.rank() - rank; d < base_.rank(); ++d) tail.push_back(base_[d]);
      return tail;
    }
    case 4:
      return Shape{base_.rank() > 1 ? base_[1] : extent()};
    default: {
      Shape own;
      for (int d = data_.ConsumeIntegralInRange<int>(0, 5); d > 0; --d) own.push_back(extent());
      return own;
    }
  }
}

Value NodeMaker::DrawTensor(DType dtype, const Shape& shape) {
  const size_t count = static_cast<size_t>(shape.num_elements());
  if (dtype == DType::kString) {
    StringTensor strings;
    strings.shape = shape;
    for (size_t i = 0; i < count; ++i) strings.values.emplace_back(data_.PickValueInArray(kWords));
    return Value(std::move(strings));
  }
  std::vector<int64_t> numbers(count);
  for (int64_t& n : numbers) n = dtype == DType::kBool ? OneIn(2) : Number();
  Result<Tensor> tensor = FromInt64s(dtype, shape, numbers);
  const bool integers = tensor.ok();
  if (!integers) tensor = Tensor::Allocate(dtype, shape);
  if (!tensor.ok()) return Value();
  const auto fill = [&]<typename T>(std::span<T> elements) {
    const bool whole = OneIn(2);
    for (T& e : elements) e = static_cast<T>(whole ? static_cast<float>(Number()) : Real());
  };
  if (dtype == DType::kF32) {
    fill(tensor->values<float>());
  } else if (dtype == DType::kF64) {
    fill(tensor->values<double>());
  } else if (dtype == DType::kF16) {
    fill(tensor->values<Float16>());
  } else if (dtype == DType::kBF16) {
    fill(tensor->values<BFloat16>());
  } else if (!integers) {
    std::memset(tensor->raw_data(), data_.ConsumeIntegral<uint8_t>(), tensor->bytes());
  } else if (dtype != DType::kBool && OneIn(8)) {
    char* bytes = static_cast<char*>(tensor->raw_data());
    for (size_t i = 0; i < tensor->bytes(); ++i) bytes[i] = data_.ConsumeIntegral<char>();
  }
  return Value(*std::move(tensor));
}

GraphValue* NodeMaker::Input(const Param& param, size_t index) {
  const std::string name = "x" + std::to_string(index);
  Value value = DrawTensor(Type(param), DrawShape());
  ValueType type = TypeOf(value);
  if (param.kind == ValueKind::kSequence) {
    ValueSequence elements(data_.ConsumeIntegralInRange<size_t>(0, 3), value);
    value = Value::Sequence(std::move(elements));
    type = TypeOf(value);
  } else if (param.kind == ValueKind::kOptional) {
    value = Value::Optional(OneIn(3) ? Value() : std::move(value));
    type = TypeOf(value);
  } else if (OneIn(3)) {
    return graph_->AddConstant(name, std::move(value));
  } else if (OneIn(3) && type.shape) {  // known only when it runs
    for (size_t d = 0; d < type.shape->size(); ++d) {
      if (OneIn(2)) (*type.shape)[d] = Dim::Symbol(name + "_" + std::to_string(d));
    }
  } else if (OneIn(6)) {
    type.shape.reset();
  }
  inputs_.push_back(std::move(value));
  return graph_->AddInput(name, std::move(type));
}

// False where a graph would be needed.
bool NodeMaker::SetAttribute(const AttrSpec& spec) {
  const size_t length = data_.ConsumeIntegralInRange<size_t>(0, 6);
  const auto list = [&]<typename T>(std::vector<T> items, auto draw) {
    for (size_t i = 0; i < length; ++i) items.push_back(draw());
    return items;
  };
  const auto word = [&] { return std::string(data_.PickValueInArray(kWords)); };
  Attribute& to = attributes_[spec.name];
  switch (spec.type) {
    case AttrType::kInt:
      to = Number();
      return true;
    case AttrType::kFloat:
      to = Real();
      return true;
    case AttrType::kString:
      to = word();
      return true;
    case AttrType::kTensor:
      to = DrawTensor(OneIn(2) ? DType::kF32 : DType::kI64, Shape{static_cast<int64_t>(length)});
      return true;
    case AttrType::kInts:
      to = list(std::vector<int64_t>(), [&] { return Number(); });
      return true;
    case AttrType::kFloats:
      to = list(std::vector<float>(), [&] { return Real(); });
      return true;
    case AttrType::kStrings:
      to = list(std::vector<std::string>(), word);
      return true;
    case AttrType::kTensors:
      to = list(std::vector<Value>(), [&] { return DrawTensor(DType::kF32, Shape{2}); });
      return true;
    case AttrType::kType:
      to = ValueType::Tensor(OneIn(2) ? DType::kF32 : DType::kI64, Dims{});
      return true;
    case AttrType::kGraph:
    case AttrType::kGraphs:
      return false;
  }
  return false;
}

std::unique_ptr<Graph> NodeMaker::Make() {
  const auto ops = AllOps();
  const OpDefinition& op = *ops[data_.ConsumeIntegralInRange<size_t>(0, ops.size() - 1)];
  const OpVersion& version = op.versions[data_.ConsumeIntegralInRange<size_t>(0, op.versions.size() - 1)];
  graph_->name = "node";
  graph_->opset_imports[op.domain] = version.since;
  for (int d = data_.ConsumeIntegralInRange<int>(0, 5); d > 0; --d) {
    base_.push_back(data_.ConsumeIntegralInRange<int64_t>(OneIn(12) ? 0 : 1, 4));
  }
  NodeSpec init{.name = "node", .domain = op.domain, .op_type = op.name};
  for (const Param& param : version.inputs) {
    if (param.arity == Arity::kOptional && OneIn(2)) {
      init.inputs.push_back(nullptr);
      continue;
    }
    size_t times = param.arity == Arity::kVariadic ? data_.ConsumeIntegralInRange<size_t>(0, 4) : 1;
    for (; times > 0; --times) init.inputs.push_back(Input(param, init.inputs.size()));
  }
  while (!init.inputs.empty() && (init.inputs.back() == nullptr || OneIn(60))) init.inputs.pop_back();
  for (const AttrSpec& spec : version.attributes) {
    if ((spec.required ? !OneIn(60) : OneIn(2)) && !SetAttribute(spec)) return nullptr;
  }
  init.attributes = std::move(attributes_);
  size_t outputs = 0;
  for (const Param& param : version.outputs) {
    outputs += param.arity == Arity::kVariadic ? data_.ConsumeIntegralInRange<size_t>(1, 4) : 1;
  }
  outputs = data_.ConsumeIntegralInRange<size_t>(std::min<size_t>(outputs, version.min_outputs), outputs);
  for (size_t i = 0; i < std::max<size_t>(outputs, 1); ++i) init.outputs.push_back("y" + std::to_string(i));
  for (GraphValue* y : graph_->AddNode(std::move(init))->outputs()) graph_->AddOutput(y);
  return std::move(graph_);
}

[[noreturn]] void Fail(const Graph& graph, const std::string& what) {
  std::fprintf(stderr, "node_fuzz: %s\n%s\n", what.c_str(), PrintGraph(graph, {.full_constants = true}).c_str());
  std::abort();
}

void Check(const Graph& graph, const Status& status) {
  if (status.ok()) return;
  if (status.message().empty()) Fail(graph, "an error without a message");
  if (status.code() == StatusCode::kInternal) Fail(graph, "an internal error: " + std::string(status.message()));
}

// Results of two runs, the second by the kept plan.
struct Outcome {
  Status status;
  std::vector<Value> outputs;  // empty after an error
};
Outcome RunOn(const Graph& graph, const char* provider, const std::vector<Value>& inputs) {
  static const auto executor = std::make_shared<InlineExecutor>();
  SessionOptions options;
  options.executor = executor;
  options.providers = {provider};
  options.limits.tensor_bytes = 4 << 20;
  options.limits.memory_bytes = 128 << 20;
  Result<std::unique_ptr<Session>> session = Session::Create(graph.Clone(), options);
  Check(graph, session.status());
  if (!session.ok()) return {session.status(), {}};
  std::vector<Value> outputs;
  for (int round = 0; round < 2; ++round) {
    outputs.assign((*session)->outputs().size(), Value());
    const Status status = (*session)->Run(inputs, outputs);
    Check(graph, status);
    if (!status.ok()) return {status, {}};
  }
  return {OkStatus(), std::move(outputs)};
}

// Elements that are moved, counted or compared have one right value; floats are rounded in another order.
bool SameElements(const Tensor& a, const Tensor& b) {
  if (IsFloatType(a.dtype()) || a.dtype() == DType::kC64 || a.dtype() == DType::kC128) return true;
  return a.bytes() == 0 || std::memcmp(a.raw_data(), b.raw_data(), a.bytes()) == 0;
}

// Operators whose integers come from floats, which another order of sums may round another way, or from chance.
bool RoundsFloats(const Node& node) {
  for (const GraphValue* v : node.inputs()) {
    if (v && v->type().is_tensor() && IsFloatType(v->type().dtype)) return true;
  }
  const OpDefinition* op = FindOp(node.domain(), node.op_type());
  return !node.subgraphs().empty() || !op || !op->deterministic;
}

}  // namespace
}  // namespace quern

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  using namespace quern;
  static const bool print = std::getenv("QUERN_FUZZ_PRINT") != nullptr;
  ProcessLogger().SetLevel(print ? LogLevel::kVerbose : LogLevel::kOff);
  FuzzedDataProvider data(bytes, size);
  NodeMaker maker(data);
  const std::unique_ptr<Graph> graph = maker.Make();
  if (!graph) return 0;
  if (print) std::fputs(PrintGraph(*graph, {.full_constants = true}).c_str(), stderr);
  const Outcome expected = RunOn(*graph, "reference", maker.inputs());
  const Outcome actual = RunOn(*graph, "cpu", maker.inputs());
  if (!expected.status.ok()) return 0;
  if (!actual.status.ok()) {
    if (actual.status.code() == StatusCode::kResourceExhausted) return 0;  // what it packs and widens counts, too
    Fail(*graph, "the CPU provider fails alone: " + std::string(actual.status.message()));
  }
  for (size_t i = 0; i < expected.outputs.size(); ++i) {
    const Value &e = expected.outputs[i], &a = actual.outputs[i];
    const bool same =
        e.kind() == a.kind() &&
        (!e.is_tensor() || (e.tensor().dtype() == a.tensor().dtype() && e.tensor().shape() == a.tensor().shape()));
    if (!same) Fail(*graph, "the providers' results differ in type or shape");
    if (e.is_tensor() && !RoundsFloats(*graph->first_node()) && !SameElements(e.tensor(), a.tensor())) {
      Fail(*graph, "the providers' elements differ");
    }
  }
  return 0;
}
