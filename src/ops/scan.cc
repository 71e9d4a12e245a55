// Scan: runs a subgraph over the steps of one or more inputs; states are carried along and outputs collected. In set 8
// a batch comes first and time second, and the entries of the batch may have lengths of their own.
#include <algorithm>
#include <string>

#include "ops/common/any_types.h"
#include "ops/common/elements.h"
#include "ops/common/infer_common.h"
#include "ops/common/sequences.h"

namespace quern {
namespace {

// What the attributes say. Input k of the lists is scan input k, node input first_input + states + k.
struct Plan {
  int first_input = 0;  // 1 in set 8, whose input 0 is sequence_lens
  int states = 0, scan_inputs = 0, scan_outputs = 0;
  std::vector<int64_t> input_axes, output_axes;  // as given, possibly negative
  std::vector<int64_t> input_reversed, output_reversed;
};

bool HasBatch(const Node& node) { return node.opset() < 9; }

// A list attribute of `count` numbers, by default zeros.
Result<std::vector<int64_t>> List(const Node& node, const char* name, int count, bool flags) {
  std::vector<int64_t> values = node.GetInts(name);
  if (values.empty()) values.assign(static_cast<size_t>(count), 0);
  if (static_cast<int>(values.size()) != count) {
    return InvalidArgument(node.Describe() + ": " + name + " has " + std::to_string(values.size()) + " entries, " +
                           std::to_string(count) + " are needed");
  }
  for (int64_t v : values) {
    if (flags && v != 0 && v != 1) {
      return InvalidArgument(node.Describe() + ": " + name + " has the entry " + std::to_string(v) +
                             ", it must be 0 (forward) or 1 (reverse)");
    }
  }
  return values;
}

Result<Plan> MakePlan(const Node& node) {
  const auto error = [&](std::string message) { return InvalidArgument(node.Describe() + ": " + std::move(message)); };
  Plan p;
  p.first_input = HasBatch(node) ? 1 : 0;
  const int64_t scanned = node.GetInt("num_scan_inputs", 0), given = node.num_inputs() - p.first_input;
  if (scanned < 1 || scanned > given) {
    return error("num_scan_inputs is " + std::to_string(scanned) + ", it must be from 1 to the number of inputs, " +
                 std::to_string(given));
  }
  p.scan_inputs = static_cast<int>(scanned);
  p.states = static_cast<int>(given - scanned);
  p.scan_outputs = node.num_outputs() - p.states;
  if (p.scan_outputs < 0) {
    return error("has " + std::to_string(node.num_outputs()) + " outputs for " + std::to_string(p.states) + " states");
  }
  for (int i = p.first_input; i < node.num_inputs(); ++i) {
    if (node.input(i) == nullptr) return error("input " + std::to_string(i) + " is omitted but required");
  }
  if (HasBatch(node)) {
    p.input_axes.assign(static_cast<size_t>(p.scan_inputs), 0);
    p.output_axes.assign(static_cast<size_t>(p.scan_outputs), 0);
    p.output_reversed = p.output_axes;
    QUERN_ASSIGN_OR_RETURN(p.input_reversed, List(node, "directions", p.scan_inputs, true));
    return p;
  }
  QUERN_ASSIGN_OR_RETURN(p.input_axes, List(node, "scan_input_axes", p.scan_inputs, false));
  QUERN_ASSIGN_OR_RETURN(p.output_axes, List(node, "scan_output_axes", p.scan_outputs, false));
  QUERN_ASSIGN_OR_RETURN(p.input_reversed, List(node, "scan_input_directions", p.scan_inputs, true));
  QUERN_ASSIGN_OR_RETURN(p.output_reversed, List(node, "scan_output_directions", p.scan_outputs, true));
  return p;
}

// Takes dimension `at` off a shape; all inputs must agree on its extent, which `so_far` collects.
Status TakeDimension(const InferContext& c, ValueType& type, int input, int64_t at, std::optional<Dim>& so_far) {
  if (!type.shape) return OkStatus();
  QUERN_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(c.node(), at, type.rank()));
  const Dim d = (*type.shape)[axis];
  if (!so_far || (d.is_constant() && !so_far->is_constant())) {
    so_far = d;
  } else if (d.is_constant() && !(d == *so_far)) {
    return c.Error("input '" + c.node().input(input)->name() + "' has extent " + d.ToString() + " in dimension " +
                   std::to_string(axis) + ", others have " + so_far->ToString());
  }
  type.shape->erase(type.shape->begin() + axis);
  return OkStatus();
}

Status Infer(InferContext& c) {
  QUERN_ASSIGN_OR_RETURN(const Plan p, MakePlan(c.node()));
  std::optional<Dim> batch, steps;
  std::vector<ValueType> types;
  for (int i = 0; i < p.states + p.scan_inputs; ++i) {
    const int input = p.first_input + i;
    types.push_back(c.input_type(input));
    if (HasBatch(c.node())) QUERN_RETURN_IF_ERROR(TakeDimension(c, types.back(), input, 0, batch));
    if (i < p.states) continue;
    QUERN_RETURN_IF_ERROR(TakeDimension(c, types.back(), input, p.input_axes[i - p.states], steps));
  }
  QUERN_ASSIGN_OR_RETURN(std::vector<ValueType> results, c.InferSubgraph("body", types));
  if (static_cast<int>(results.size()) != c.num_outputs()) {
    return c.Error("the body has " + std::to_string(results.size()) + " outputs, the node " +
                   std::to_string(c.num_outputs()));
  }
  for (int i = 0; i < c.num_outputs(); ++i) {
    ValueType type = std::move(results[i]);
    if (i < p.states) {  // a state keeps its type from step to step
      Result<ValueType> kept = MergeTypes(types[i], type);
      if (!kept.ok()) return kept.status().WithContext(c.node().Describe() + ": state " + std::to_string(i));
      type = std::move(kept).value();
    } else if (type.shape) {
      QUERN_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(c.node(), p.output_axes[i - p.states], type.rank() + 1));
      type.shape->insert(type.shape->begin() + axis, steps.value_or(Dim::Unknown()));
    }
    if (HasBatch(c.node()) && type.shape) type.shape->insert(type.shape->begin(), batch.value_or(Dim::Unknown()));
    c.SetOutputType(i, std::move(type));
  }
  return OkStatus();
}

// The part of a value at `index` of dimension `axis`, without that dimension: in the value's memory where it is in one
// piece there.
Result<Value> Slice(EvalContext& c, const Value& value, int axis, int64_t index) {
  if (value.is_tensor() && value.tensor().is_contiguous() && DTypeBytes(value.tensor().dtype()) > 0 &&
      value.tensor().shape().num_elements(0, axis) == 1) {
    const Tensor& t = value.tensor();
    Shape part = t.shape();
    part.erase(axis);
    const auto bytes = static_cast<int64_t>(DTypeBytes(t.dtype()));
    return Value(Tensor::Wrap(t.dtype(), part, static_cast<char*>(t.raw_data()) + index * part.num_elements() * bytes,
                              t.owner()));
  }
  QUERN_ASSIGN_OR_RETURN(const ElementInput in, ElementInput::Make(value));
  const Shape& shape = in.shape();
  Shape part = shape;
  part.erase(axis);
  const int64_t outer = shape.num_elements(0, axis), inner = shape.num_elements(axis + 1, shape.rank());
  QUERN_ASSIGN_OR_RETURN(ElementOutput out, ElementOutput::MakePart(c, in.dtype(), part));
  QUERN_RETURN_IF_ERROR(DispatchElements(in.dtype(), [&]<typename T>() {
    for (int64_t o = 0; o < outer; ++o) {
      std::copy_n(in.data<T>() + (o * shape[axis] + index) * inner, inner, out.data<T>() + o * inner);
    }
    return OkStatus();
  }));
  return out.Take();
}

std::string TypeText(const Value& v) { return TypeToString(TypeOf(v)); }

// Carries `states` through `steps` steps of the scan inputs; appends to collected[k] what each gives for output k.
Status RunSteps(EvalContext& c, const Plan& p, std::span<const Value> scanned, std::span<const int> axes, int64_t steps,
                std::vector<Value>& states, std::vector<ValueSequence>& collected, int64_t& collected_bytes) {
  for (int64_t t = 0; t < steps; ++t) {
    std::vector<Value> inputs;
    inputs.reserve(states.size() + scanned.size() + c.node().captures().size());
    inputs.assign(states.begin(), states.end());
    for (size_t k = 0; k < scanned.size(); ++k) {
      QUERN_ASSIGN_OR_RETURN(Value slice, Slice(c, scanned[k], axes[k], p.input_reversed[k] != 0 ? steps - 1 - t : t));
      inputs.push_back(std::move(slice));
    }
    QUERN_ASSIGN_OR_RETURN(std::vector<Value> results, c.RunSubgraph("body", std::move(inputs)));
    if (static_cast<int>(results.size()) != p.states + p.scan_outputs) {
      return c.Error("the body gave " + std::to_string(results.size()) + " outputs, " +
                     std::to_string(p.states + p.scan_outputs) + " are needed");
    }
    for (size_t i = 0; i < results.size(); ++i) {
      const bool state = static_cast<int>(i) < p.states;
      Value& result = results[i];
      const Value* before = nullptr;  // the type that must not change
      if (state) {
        before = &states[i];
      } else if (ValueSequence& so_far = collected[i - states.size()]; !so_far.empty()) {
        before = &so_far[0];
      }
      if (!IsTensorOrStrings(result) ||
          (before && (ElementTypeOf(result) != ElementTypeOf(*before) || !(ShapeOf(result) == ShapeOf(*before))))) {
        return c.Error("output " + std::to_string(i) + " of the body is " + TypeText(result) + " in step " +
                       std::to_string(t) + (before ? ", it was " + TypeText(*before) : ", it must be a tensor"));
      }
      if (state) {
        states[i] = std::move(result);
        continue;
      }
      if (result.is_tensor()) collected_bytes += static_cast<int64_t>(result.tensor().bytes());
      if (collected_bytes > c.limits().tensor_bytes) {
        return ResourceExhausted(c.node().Describe() + ": the collected outputs exceed the limit of " +
                                 std::to_string(c.limits().tensor_bytes) + " bytes for one tensor");
      }
      collected[i - states.size()].push_back(std::move(result));
    }
  }
  return OkStatus();
}

// Element type and shape of what scan output k collects; from the body's type when nothing was collected, where extents
// that only a step would tell are 0.
Result<std::pair<DType, Shape>> CollectedType(EvalContext& c, const Plan& p, int k, const ValueSequence& collected) {
  if (!collected.empty()) return std::pair(ElementTypeOf(collected[0]), ShapeOf(collected[0]));
  const GraphPtr* body = c.node().FindAttribute<GraphPtr>("body");
  if (body == nullptr || static_cast<int>((*body)->outputs().size()) != p.states + p.scan_outputs) {
    return c.Error("the outputs of the body do not fit those of the node");
  }
  const ValueType& type = (*body)->outputs()[p.states + k]->type();
  if (type.dtype == DType::kUndefined || !type.is_tensor()) {
    return c.Error("the type of output " + std::to_string(p.states + k) + " is not known without a step");
  }
  Shape shape;
  if (type.shape && type.rank() <= kMaxRank) {
    for (const Dim& d : *type.shape) shape.push_back(d.is_constant() ? d.value() : 0);
  }
  return std::pair(type.dtype, shape);
}

// Writes `values`, parts of shape `part`, to output i: value j lies at index order(j) of a dimension of extent `steps`
// that is put in at `axis`; what no value fills is 0 or empty.
template <typename F>
Status Stack(EvalContext& c, int i, DType dtype, const Shape& shape, int64_t outer, int64_t steps, int64_t inner,
             const ValueSequence& values, F order) {
  QUERN_ASSIGN_OR_RETURN(ElementOutput out, ElementOutput::Make(c, i, dtype, shape));
  QUERN_RETURN_IF_ERROR(DispatchElements(dtype, [&]<typename T>() -> Status {
    if (static_cast<int64_t>(values.size()) < steps) std::fill_n(out.data<T>(), out.num_elements(), T{});
    for (size_t j = 0; j < values.size(); ++j) {
      QUERN_ASSIGN_OR_RETURN(const ElementInput in, ElementInput::Make(values[j]));
      const int64_t at = order(static_cast<int64_t>(j));
      for (int64_t o = 0; o < outer; ++o) {
        std::copy_n(in.data<T>() + o * inner, inner, out.data<T>() + (o * steps + at) * inner);
      }
    }
    return OkStatus();
  }));
  return out.Finish();
}

// The number of steps: the extent of all scan inputs along their axes.
Result<int64_t> CountSteps(EvalContext& c, std::span<const Value> scanned, std::span<const int> axes) {
  const int64_t steps = ShapeOf(scanned[0])[axes[0]];
  for (size_t k = 1; k < scanned.size(); ++k) {
    if (const int64_t other = ShapeOf(scanned[k])[axes[k]]; other != steps) {
      return c.Error("scan input " + std::to_string(k) + " has " + std::to_string(other) + " steps, the first has " +
                     std::to_string(steps));
    }
  }
  return steps;
}

Status TooManySteps(const EvalContext& c, int64_t steps) {
  return ResourceExhausted(c.node().Describe() + ": " + std::to_string(steps) + " steps, more than the limit of " +
                           std::to_string(c.limits().loop_iterations));
}

Status Evaluate(EvalContext& c) {
  QUERN_ASSIGN_OR_RETURN(const Plan p, MakePlan(c.node()));
  std::vector<Value> states, scanned;
  std::vector<int> axes;
  for (int i = 0; i < p.states; ++i) states.push_back(c.input_value(i));
  for (int k = 0; k < p.scan_inputs; ++k) {
    scanned.push_back(c.input_value(p.states + k));
    QUERN_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(c.node(), p.input_axes[k], ShapeOf(scanned[k]).rank()));
    axes.push_back(axis);
  }
  QUERN_ASSIGN_OR_RETURN(const int64_t steps, CountSteps(c, scanned, axes));
  if (steps > c.limits().loop_iterations) return TooManySteps(c, steps);
  std::vector<ValueSequence> collected(static_cast<size_t>(p.scan_outputs));
  int64_t bytes = 0;
  QUERN_RETURN_IF_ERROR(RunSteps(c, p, scanned, axes, steps, states, collected, bytes));
  for (int i = 0; i < p.states; ++i) c.SetOutput(i, std::move(states[i]));
  for (int k = 0; k < p.scan_outputs; ++k) {
    QUERN_ASSIGN_OR_RETURN(const auto type, CollectedType(c, p, k, collected[k]));
    const auto& [dtype, part] = type;
    if (part.rank() == kMaxRank) return c.Error("scan output " + std::to_string(k) + " has too many dimensions");
    QUERN_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(c.node(), p.output_axes[k], part.rank() + 1));
    Shape shape = part;
    shape.insert(axis, steps);
    const bool reversed = p.output_reversed[k] != 0;
    QUERN_RETURN_IF_ERROR(Stack(c, p.states + k, dtype, shape, part.num_elements(0, axis), steps,
                                part.num_elements(axis, part.rank()), collected[k],
                                [&](int64_t j) { return reversed ? steps - 1 - j : j; }));
  }
  return OkStatus();
}

// Set 8: entry by entry of the batch.
Status EvaluateBatch(EvalContext& c) {
  QUERN_ASSIGN_OR_RETURN(const Plan p, MakePlan(c.node()));
  for (int i = 0; i < p.states + p.scan_inputs; ++i) {
    const Shape& shape = ShapeOf(c.input_value(1 + i));
    const int needed = i < p.states ? 1 : 2;
    if (shape.rank() < needed || shape[0] != ShapeOf(c.input_value(1 + p.states))[0]) {
      return c.Error("input " + std::to_string(1 + i) + " has shape " + shape.ToString() +
                     "; all inputs must have the same batch in dimension 0" +
                     (needed == 2 ? ", scan inputs time in dimension 1" : ""));
    }
  }
  std::vector<Value> scanned;
  for (int k = 0; k < p.scan_inputs; ++k) scanned.push_back(c.input_value(1 + p.states + k));
  QUERN_ASSIGN_OR_RETURN(const int64_t steps,
                         CountSteps(c, scanned, std::vector<int>(static_cast<size_t>(p.scan_inputs), 1)));
  const int64_t batch = ShapeOf(scanned[0])[0];
  std::vector<int64_t> lengths(static_cast<size_t>(batch <= c.limits().loop_iterations ? batch : 0), steps);
  if (c.HasInput(0)) {
    QUERN_ASSIGN_OR_RETURN(lengths, ReadInts(c, 0));
  }
  if (static_cast<int64_t>(lengths.size()) != batch) {
    if (!c.HasInput(0)) return TooManySteps(c, batch);
    return c.Error("sequence_lens has " + std::to_string(lengths.size()) + " lengths for a batch of " +
                   std::to_string(batch));
  }
  int64_t total = 0;
  for (int64_t length : lengths) {
    if (length < 0 || length > steps) {
      return c.Error("sequence_lens has the length " + std::to_string(length) + ", the scan inputs have " +
                     std::to_string(steps) + " steps");
    }
    if (length > c.limits().loop_iterations - total) return TooManySteps(c, steps);
    total += length;
  }
  std::vector<ValueSequence> final_states(static_cast<size_t>(p.states)),
      collected(static_cast<size_t>(p.scan_outputs));
  const std::vector<int> axes(static_cast<size_t>(p.scan_inputs), 0);
  int64_t bytes = 0;
  for (int64_t b = 0; b < batch; ++b) {
    std::vector<Value> states, entries;
    for (int i = 0; i < p.states + p.scan_inputs; ++i) {
      QUERN_ASSIGN_OR_RETURN(Value entry, Slice(c, c.input_value(1 + i), 0, b));
      (i < p.states ? states : entries).push_back(std::move(entry));
    }
    QUERN_RETURN_IF_ERROR(RunSteps(c, p, entries, axes, lengths[static_cast<size_t>(b)], states, collected, bytes));
    for (int i = 0; i < p.states; ++i) final_states[i].push_back(std::move(states[i]));
  }
  for (int i = 0; i < p.states; ++i) {
    const Shape& shape = ShapeOf(c.input_value(1 + i));
    QUERN_RETURN_IF_ERROR(Stack(c, i, ElementTypeOf(c.input_value(1 + i)), shape, 1, batch,
                                shape.num_elements(1, shape.rank()), final_states[i], [](int64_t b) { return b; }));
  }
  std::vector<int64_t> places;  // of each collected value in [batch * steps]
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t t = 0; t < lengths[static_cast<size_t>(b)]; ++t) places.push_back(b * steps + t);
  }
  for (int k = 0; k < p.scan_outputs; ++k) {
    QUERN_ASSIGN_OR_RETURN(const auto type, CollectedType(c, p, k, collected[k]));
    const auto& [dtype, part] = type;
    if (part.rank() + 2 > kMaxRank) return c.Error("scan output " + std::to_string(k) + " has too many dimensions");
    Shape shape = {batch, steps};
    for (int64_t d : part) shape.push_back(d);
    QUERN_RETURN_IF_ERROR(Stack(c, p.states + k, dtype, shape, 1, batch * steps, part.num_elements(), collected[k],
                                [&](int64_t j) { return places[static_cast<size_t>(j)]; }));
  }
  return OkStatus();
}

constexpr AttrSpec kAttributes8[] = {
    {"body", AttrType::kGraph, true}, {"directions", AttrType::kInts}, {"num_scan_inputs", AttrType::kInt, true}};
constexpr AttrSpec kAttributes9[] = {
    {"body", AttrType::kGraph, true},      {"num_scan_inputs", AttrType::kInt, true},
    {"scan_input_axes", AttrType::kInts},  {"scan_input_directions", AttrType::kInts},
    {"scan_output_axes", AttrType::kInts}, {"scan_output_directions", AttrType::kInts}};
constexpr Param kInputs8[] = {
    {"sequence_lens", "I", kInt64Type, Arity::kOptional},
    {"initial_state_and_scan_inputs", "V", AnyTypes(8), Arity::kVariadic, ValueKind::kTensor, false}};
template <int kSince>
constexpr Param kInputs[] = {
    {"initial_state_and_scan_inputs", "V", AnyTypes(kSince), Arity::kVariadic, ValueKind::kTensor, false}};
template <int kSince>
constexpr Param kOutputs[] = {
    {"final_state_and_scan_outputs", "V", AnyTypes(kSince), Arity::kVariadic, ValueKind::kTensor, false}};
template <int kSince, int kTypes = kSince>
constexpr OpVersion kVersion = {kSince, kInputs<kTypes>, kOutputs<kTypes>, kAttributes9, Infer, Evaluate};
constexpr OpVersion kVersions[] = {{8, kInputs8, kOutputs<8>, kAttributes8, Infer, EvaluateBatch},
                                   kVersion<9>,
                                   kVersion<11>,
                                   kVersion<16>,
                                   kVersion<19>,
                                   kVersion<21>,
                                   kVersion<23>,
                                   kVersion<24>,
                                   kVersion<25>};

}  // namespace

extern constinit const OpDefinition kOpScan = {"", "Scan", kVersions};

}  // namespace quern
