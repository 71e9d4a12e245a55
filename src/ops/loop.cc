// Loop: runs a subgraph while a condition holds, at most M times; values are carried along and outputs collected.
#include <algorithm>
#include <iterator>
#include <limits>

#include "ops/common/any_types.h"
#include "ops/common/elements.h"
#include "ops/common/infer_common.h"
#include "ops/common/sequences.h"

namespace quern {
namespace {

// Opens in `state` what one iteration changes; true when something was opened.
bool Widen(ValueType& state, const ValueType& next) {
  bool changed = false;
  if (state.shape && (!next.shape || next.shape->size() != state.shape->size())) {
    state.shape.reset();
    changed = true;
  } else if (state.shape) {
    for (size_t i = 0; i < state.shape->size(); ++i) {
      Dim& d = (*state.shape)[i];
      const Dim& e = (*next.shape)[i];
      if (d == e || d.has_unknown()) continue;
      d = Dim::Unknown();
      changed = true;
    }
  }
  if (state.kind != next.kind || (!state.element && !next.element)) return changed;
  ValueType held = state.element ? *state.element : ValueType{};
  const ValueType then = next.element ? *next.element : ValueType{};
  const bool told = IsUnknown(held) && !IsUnknown(then);  // an empty sequence does not tell what it will hold
  if (told) held = WithOpenShape(then);
  if (!Widen(held, then) && !told) return changed;
  state.element = std::make_shared<const ValueType>(std::move(held));
  return true;
}

bool IsTrue(const Value* constant) {
  return constant && constant->is_tensor() && constant->tensor().dtype() == DType::kBool &&
         constant->tensor().num_elements() == 1 && *constant->tensor().data<bool>();
}

// The number of iterations, where the trips alone decide it.
std::optional<Dim> Iterations(const InferContext& c) {
  const std::optional<Dims> trips = c.HasInput(0) ? c.input_data(0) : std::nullopt;
  const GraphPtr* body = c.node().FindAttribute<GraphPtr>("body");
  if (!trips || trips->size() != 1 || trips->front().has_unknown() || !body || (*body)->outputs().empty()) return {};
  if (c.HasInput(1) && !IsTrue(c.input_constant(1))) return {};
  const GraphValue* next = (*body)->outputs()[0];
  const bool handed_on = (*body)->inputs().size() > 1 && next == (*body)->inputs()[1];
  if (!handed_on && !IsTrue(next->constant())) return {};
  return trips->front().is_non_negative() ? trips->front() : Dim::Max(trips->front(), Dim(0));
}

Status Infer(InferContext& c) {
  const int states = c.num_inputs() - 2;
  if (states < 0) return c.Error("has " + std::to_string(c.num_inputs()) + " inputs, at least 2 are needed");
  std::vector<ValueType> types = {ValueType::Tensor(DType::kI64, Dims{}), ValueType::Tensor(DType::kBool, Dims{})};
  for (int i = 0; i < states; ++i) {
    if (!c.HasInput(2 + i)) return c.Error("input " + std::to_string(2 + i) + " is omitted but required");
    types.push_back(c.input_type(2 + i));
  }
  std::vector<ValueType> results;
  for (int round = 0; round < 4; ++round) {
    if (round == 3) {
      for (int i = 0; i < states; ++i) types[2 + i] = WithOpenShape(types[2 + i]);
    }
    QUERN_ASSIGN_OR_RETURN(results, c.InferSubgraph("body", types));
    if (static_cast<int>(results.size()) != c.num_outputs() + 1 || c.num_outputs() < states) {
      return c.Error("the body has " + std::to_string(results.size()) + " outputs; the condition, " +
                     std::to_string(states) + " states and " + std::to_string(c.num_outputs() - states) +
                     " collected ones are needed");
    }
    bool changed = false;
    for (int i = 0; i < states; ++i) changed |= Widen(types[2 + i], results[1 + i]);
    if (!changed) break;
  }
  const GraphPtr* body = c.node().FindAttribute<GraphPtr>("body");
  const std::optional<Dim> iterations = Iterations(c);
  for (int i = 0; i < c.num_outputs(); ++i) {
    if (i < states) {
      // An optional state may become what it holds.
      c.SetOutputType(i, types[2 + i].kind == results[1 + i].kind ? types[2 + i] : WithOpenShape(results[1 + i]));
      continue;
    }
    ValueType collected = results[1 + i];
    // Without an iteration, extents that the body does not tell as numbers are 0.
    const bool told = (*body)->outputs()[1 + i]->type().has_static_shape();
    if (collected.shape) {
      collected.shape->insert(collected.shape->begin(), told && iterations ? *iterations : Dim::Unknown());
    }
    c.SetOutputType(i, std::move(collected));
  }
  return OkStatus();
}

Result<bool> Condition(const EvalContext& c, const Value& value) {
  if (!value.is_tensor() || value.tensor().dtype() != DType::kBool || value.tensor().num_elements() != 1) {
    return c.Error("the condition must be one bool");
  }
  return *value.tensor().data<bool>();
}

// Stacks the values of all iterations along a new first dimension.
Status Collect(EvalContext& c, int output, const std::vector<Value>& values, const ValueType& type) {
  Shape shape;
  DType dtype = type.dtype;
  if (values.empty()) {  // extents that only an iteration would tell are 0
    shape.push_back(0);
    if (type.shape) {
      for (const Dim& d : *type.shape) shape.push_back(d.is_constant() ? d.value() : 0);
    }
    if (dtype == DType::kUndefined) return c.Error("the type of output " + std::to_string(output) + " is not known");
  } else {
    shape = ShapeOf(values[0]);
    dtype = ElementTypeOf(values[0]);
    if (shape.rank() == kMaxRank) return c.Error("output " + std::to_string(output) + " has too many dimensions");
    shape.insert(0, static_cast<int64_t>(values.size()));
  }
  QUERN_ASSIGN_OR_RETURN(ElementOutput out, ElementOutput::Make(c, output, dtype, shape));
  const int64_t count = values.empty() ? 0 : ShapeOf(values[0]).num_elements();
  QUERN_RETURN_IF_ERROR(DispatchElements(dtype, [&]<typename T>() -> Status {
    for (size_t i = 0; i < values.size(); ++i) {
      if (ElementTypeOf(values[i]) != dtype || !(ShapeOf(values[i]) == ShapeOf(values[0]))) {
        return c.Error("output " + std::to_string(output) + " changes its type or shape from iteration to iteration");
      }
      QUERN_ASSIGN_OR_RETURN(const ElementInput in, ElementInput::Make(values[i]));
      std::copy_n(in.data<T>(), count, out.data<T>() + static_cast<int64_t>(i) * count);
    }
    return OkStatus();
  }));
  return out.Finish();
}

Status Evaluate(EvalContext& c) {
  const GraphPtr* body = c.node().FindAttribute<GraphPtr>("body");
  if (body == nullptr) return c.Error("the body is missing");
  int64_t trips = std::numeric_limits<int64_t>::max();
  if (c.HasInput(0)) {
    QUERN_ASSIGN_OR_RETURN(const std::vector<int64_t> m, ReadInts(c, 0));
    if (m.size() != 1) return c.Error("M must be one number");
    trips = m[0];
  }
  bool going = true;
  if (c.HasInput(1)) {
    QUERN_ASSIGN_OR_RETURN(going, Condition(c, c.input_value(1)));
  }
  const int states = c.num_inputs() - 2, collected = c.num_outputs() - states;
  if (collected < 0 || static_cast<int>((*body)->outputs().size()) != 1 + c.num_outputs()) {
    return c.Error("the outputs of the body do not fit those of the node");
  }
  std::vector<Value> state;
  for (int i = 0; i < states; ++i) state.push_back(c.input_value(2 + i));
  std::vector<std::vector<Value>> stacks(static_cast<size_t>(collected));
  int64_t collected_bytes = 0;
  for (int64_t i = 0; i < trips && going; ++i) {
    if (i >= c.limits().loop_iterations) {
      return ResourceExhausted(c.node().Describe() + ": more than " + std::to_string(i) + " iterations");
    }
    std::vector<Value> inputs;
    inputs.reserve(2 + state.size() + c.node().captures().size());
    inputs.emplace_back(Tensor::Scalar<int64_t>(i));
    inputs.emplace_back(Tensor::Scalar<bool>(going));
    std::ranges::move(state, std::back_inserter(inputs));
    QUERN_ASSIGN_OR_RETURN(std::vector<Value> results, c.RunSubgraph("body", std::move(inputs)));
    if (static_cast<int>(results.size()) != 1 + states + collected) {
      return c.Error("the body gave " + std::to_string(results.size()) + " outputs, " +
                     std::to_string(1 + states + collected) + " are needed");
    }
    QUERN_ASSIGN_OR_RETURN(going, Condition(c, results[0]));
    for (int s = 0; s < states; ++s) state[s] = std::move(results[1 + s]);
    for (int s = 0; s < collected; ++s) {
      Value& value = results[1 + states + s];
      if (!IsTensorOrStrings(value)) {
        return c.Error("output " + std::to_string(states + s) + " collects tensors only");
      }
      if (value.is_tensor()) collected_bytes += static_cast<int64_t>(value.tensor().bytes());
      stacks[s].push_back(std::move(value));
    }
    if (collected_bytes > c.limits().tensor_bytes) {
      return ResourceExhausted(c.node().Describe() + ": the collected outputs exceed the limit of " +
                               std::to_string(c.limits().tensor_bytes) + " bytes for one tensor");
    }
  }
  for (int s = 0; s < states; ++s) c.SetOutput(s, std::move(state[s]));
  for (int s = 0; s < collected; ++s) {
    const GraphValue* value = (*body)->outputs()[1 + states + s];
    QUERN_RETURN_IF_ERROR(Collect(c, states + s, stacks[s], value->type()));
  }
  return OkStatus();
}

constexpr AttrSpec kAttributes[] = {{"body", AttrType::kGraph, true}};
constexpr TypeSet StateTypes(int since) { return AnyTypes(since == 13 ? 12 : since); }  // bfloat16 came with set 16
template <int kSince>
constexpr Param kInputs[] = {{"M", "I", kInt64Type, Arity::kOptional},
                             {"cond", "B", kBoolType, Arity::kOptional},
                             {"v_initial", "V", StateTypes(kSince), Arity::kVariadic, ValueKind::kNone, false}};
template <int kSince>
constexpr Param kOutputs[] = {
    {"v_final_and_scan_outputs", "V", StateTypes(kSince), Arity::kVariadic, ValueKind::kNone, false}};
template <int kSince>
constexpr OpVersion kVersion = {kSince, kInputs<kSince>, kOutputs<kSince>, kAttributes, Infer, Evaluate};
constexpr OpVersion kVersions[] = {kVersion<1>,  kVersion<11>, kVersion<13>, kVersion<16>, kVersion<19>,
                                   kVersion<21>, kVersion<23>, kVersion<24>, kVersion<25>};

}  // namespace

extern constinit const OpDefinition kOpLoop = {"", "Loop", kVersions};

}  // namespace quern
