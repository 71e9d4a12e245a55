#include "ops/evaluate.h"

#include <unordered_map>

namespace quern {

// Interprets graphs within graphs; depth is bounded by the limits.
class GraphInterpreter {
 public:
  static Result<std::vector<Value>> Run(const Graph& graph, std::span<const Value> inputs, const Limits& limits,
                                        int depth) {
    if (depth > limits.subgraph_depth) return ResourceExhausted("subgraphs are nested too deeply");
    if (inputs.size() != graph.inputs().size()) {
      return InvalidArgument("graph '" + graph.name + "' takes " + std::to_string(graph.inputs().size()) + " inputs, " +
                             std::to_string(inputs.size()) + " are given");
    }
    struct Slot {
      Value value;
      size_t uses = 0;
    };
    std::unordered_map<const GraphValue*, Slot> slots;
    for (size_t i = 0; i < inputs.size(); ++i) slots[graph.inputs()[i]] = {inputs[i], graph.inputs()[i]->uses().size()};
    auto take = [&](const GraphValue* value) -> Result<Value> {
      if (value == nullptr) return Value();
      if (const Value* constant = value->constant()) return *constant;
      auto it = slots.find(value);
      if (it == slots.end()) return Internal("value '" + value->name() + "' is read before it is computed");
      Value result = it->second.value;
      if (--it->second.uses == 0) slots.erase(it);
      return result;
    };
    std::vector<Value> args;
    for (const Node* node = graph.first_node(); node != nullptr; node = node->next()) {
      args.clear();
      for (const auto* list : {&node->inputs(), &node->captures()}) {
        for (const GraphValue* value : *list) {
          QUERN_ASSIGN_OR_RETURN(Value arg, take(value));
          args.push_back(std::move(arg));
        }
      }
      NodeEvalContext context(*node, args, limits, nullptr);
      context.depth_ = depth;
      QUERN_RETURN_IF_ERROR(context.Evaluate());
      std::vector<Value> results = context.TakeOutputs();
      for (int i = 0; i < node->num_outputs(); ++i) {
        const GraphValue* output = node->output(i);
        if (output != nullptr && !output->uses().empty())
          slots[output] = {std::move(results[i]), output->uses().size()};
      }
    }
    std::vector<Value> outputs;
    for (const GraphValue* value : graph.outputs()) {
      QUERN_ASSIGN_OR_RETURN(Value output, take(value));
      outputs.push_back(std::move(output));
    }
    return outputs;
  }
};

Result<Tensor> NodeEvalContext::AllocateOutput(int i, DType dtype, const Shape& shape) {
  const auto what = [&] { return node_.Describe() + ": output " + std::to_string(i); };
  const Result<size_t> bytes = TensorBytes(dtype, shape);
  if (!bytes.ok()) return bytes.status().WithContext(what());
  if (*bytes > static_cast<uint64_t>(limits_.tensor_bytes)) {
    return ResourceExhausted(what() + " would have shape " + shape.ToString() + ", more than the limit of " +
                             std::to_string(limits_.tensor_bytes) + " bytes for one tensor");
  }
  Result<Tensor> tensor = NewTensor(dtype, shape);
  if (!tensor.ok()) return tensor.status().WithContext(what());
  if (i < static_cast<int>(outputs_.size())) outputs_[i] = *tensor;
  return tensor;
}

void NodeEvalContext::SetOutput(int i, Value value) {
  if (i < static_cast<int>(outputs_.size())) outputs_[i] = std::move(value);
}

Result<std::vector<Value>> NodeEvalContext::RunSubgraph(std::string_view attribute, std::vector<Value> inputs) {
  const GraphPtr* graph = node_.FindAttribute<GraphPtr>(attribute);
  if (graph == nullptr) return Error("subgraph '" + std::string(attribute) + "' is missing");
  for (size_t i = node_.num_inputs(); i < inputs_.size(); ++i) inputs.push_back(inputs_[i]);
  Result<std::vector<Value>> outputs = runner_ != nullptr ? runner_->RunSubgraph(**graph, std::move(inputs))
                                                          : GraphInterpreter::Run(**graph, inputs, limits_, depth_ + 1);
  if (!outputs.ok()) return outputs.status().WithContext(node_.Describe() + ", " + std::string(attribute));
  return outputs;
}

Status NodeEvalContext::Evaluate() {
  QUERN_ASSIGN_OR_RETURN(const OpVersion* version, FindOpVersion(node_));
  if (inputs_.size() != node_.inputs().size() + node_.captures().size()) {
    return Internal(node_.Describe() + ": evaluated with a wrong number of inputs");
  }
  for (int i = 0; i < num_inputs(); ++i) {
    const int last = static_cast<int>(version->inputs.size()) - 1;
    const Param* param = last >= 0 ? &version->inputs[std::min(i, last)] : nullptr;
    if (param == nullptr || (i > last && param->arity != Arity::kVariadic)) return Error("has too many inputs");
    if (!HasInput(i)) {
      if (param->arity == Arity::kSingle) return Error(std::string("input ") + param->name + " is missing");
      continue;
    }
    if (param->kind == ValueKind::kNone) continue;
    const ValueKind kind = inputs_[i].kind();
    const bool fits =
        param->kind == ValueKind::kTensor
            ? kind == ValueKind::kTensor || (kind == ValueKind::kStringTensor && param->types.Has(DType::kString))
            : kind == param->kind;
    if (!fits) {
      return Error(std::string("input ") + param->name + " is a " + ValueKindName(kind) + ", a " +
                   ValueKindName(param->kind) + " is needed");
    }
  }
  const int needed = static_cast<int>(version->inputs.size());
  for (int i = num_inputs(); i < needed; ++i) {
    if (version->inputs[i].arity == Arity::kVariadic && i > 0) break;
    if (version->inputs[i].arity != Arity::kOptional) {
      return Error(std::string("input ") + version->inputs[i].name + " is missing");
    }
  }
  QUERN_RETURN_IF_ERROR(CheckElementTypes(
      node_, *version,
      [](const void* user, int i) {
        const Value& value = (*static_cast<const std::span<const Value>*>(user))[i];
        if (value.is_tensor()) return value.tensor().dtype();
        return value.kind() == ValueKind::kStringTensor ? DType::kString : DType::kUndefined;
      },
      &inputs_));
  for (int i = 0; i < num_inputs(); ++i) {
    if (!inputs_[i].is_tensor() || inputs_[i].tensor().is_contiguous()) continue;
    if (dense_inputs_.empty()) {
      dense_inputs_.assign(inputs_.begin(), inputs_.end());
      inputs_ = dense_inputs_;
    }
    const Tensor strided = inputs_[i].tensor();
    Result<Tensor> dense = NewTensor(strided.dtype(), strided.shape());
    if (!dense.ok()) return dense.status().WithContext(node_.Describe() + ": input " + std::to_string(i));
    CopyTensor(strided, *dense);
    dense_inputs_[i] = std::move(dense).value();
  }
  return version->evaluate(*this);
}

Result<std::vector<Value>> EvaluateNode(const Node& node, std::span<const Value> inputs, const Limits& limits,
                                        SubgraphRunner* runner) {
  NodeEvalContext context(node, inputs, limits, runner);
  QUERN_RETURN_IF_ERROR(context.Evaluate());
  return context.TakeOutputs();
}

Result<std::vector<Value>> EvaluateGraph(const Graph& graph, std::span<const Value> inputs, const Limits& limits) {
  return GraphInterpreter::Run(graph, inputs, limits, 0);
}

}  // namespace quern
