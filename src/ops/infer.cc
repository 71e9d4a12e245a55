#include "ops/infer.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <unordered_set>

#include "base/checked_math.h"
#include "ops/common/infer_common.h"
#include "ops/evaluate.h"

namespace quern {
namespace {

// Contents of at most so many elements are computed while inferring.
constexpr int64_t kMaxEvaluatedElements = kMaxPropagatedElements;
// An input of such an evaluation may be larger when it is a constant (a table that Gather reads).
constexpr int64_t kMaxConstantElements = 4096;

// A tensor of the given type with known integer content; nothing when a symbol occurs or the type does not fit.
std::optional<Value> TensorOfData(const Dims& data, const ValueType& type) {
  if (!AllConstant(data) || !type.has_static_shape() || type.rank() > 1) return std::nullopt;
  Shape shape;
  if (type.rank() == 1) shape.push_back(type.shape->front().value());
  std::vector<int64_t> values;
  for (const Dim& d : data) values.push_back(d.value());
  Result<Tensor> t = FromInt64s(type.dtype, shape, values);
  if (!t.ok()) return std::nullopt;
  return Value(std::move(t).value());
}

// The content of a small integer or bool tensor of rank 0 or 1.
std::optional<Dims> DataOfTensor(const Value& value) {
  if (!value.is_tensor()) return std::nullopt;
  const Tensor& t = value.tensor();
  if (t.rank() > 1 || t.num_elements() > kMaxConstantElements) return std::nullopt;
  if (t.dtype() != DType::kBool && (!IsIntegerType(t.dtype()) || DTypeBytes(t.dtype()) == 0)) return std::nullopt;
  Result<std::vector<int64_t>> values = ToInt64s(t);
  if (!values.ok()) return std::nullopt;
  return Dims(values->begin(), values->end());
}

const ValueType kNoType;
const std::optional<Dims> kNoData;

bool SameContent(const Value& a, const Value& b) {
  if (!a.is_tensor() || !b.is_tensor()) return false;
  const Tensor &x = a.tensor(), &y = b.tensor();
  return x.dtype() == y.dtype() && x.shape() == y.shape() && x.is_contiguous() && y.is_contiguous() &&
         (x.bytes() == 0 || std::memcmp(x.raw_data(), y.raw_data(), x.bytes()) == 0);
}

// Whether both say the same; false where that is not looked at.
bool SameFacts(const ValueFacts& a, const ValueFacts& b) {
  if (!(a.type == b.type) || a.data != b.data || !a.content != !b.content) return false;
  return !a.content || a.content == b.content || SameContent(*a.content, *b.content);
}

}  // namespace

const ValueType& ShapeTable::type(const GraphValue* value) const {
  auto it = facts_.find(value);
  return it == facts_.end() ? value->type() : it->second.type;
}
const std::optional<Dims>& ShapeTable::data(const GraphValue* value) const {
  auto it = facts_.find(value);
  return it == facts_.end() ? kNoData : it->second.data;
}
const Value* ShapeTable::content(const GraphValue* value) const {
  if (const Value* constant = value->constant()) return constant;
  auto it = facts_.find(value);
  return it == facts_.end() ? nullptr : it->second.content.get();
}

// One walk over a graph. Writes into the graph when `mutable_graph` is given, else only into its table.
class InferEngine {
 public:
  struct Mode {
    bool write = false;  // check nodes, merge with declared types, write results into graphs
    const InferOptions* options = nullptr;
    int depth = 0;
    bool ignore_declared_shapes = false;  // those of the graph's values
  };

  InferEngine(const Graph& graph, Mode mode) : graph_(graph), mode_(mode) {
    table_.facts_.reserve(graph.inputs().size() + static_cast<size_t>(graph.num_nodes()) * 5 / 4 + 8);
  }
  // Starts from a table that is complete: only nodes of which an input becomes another are inferred.
  InferEngine(const Graph& graph, Mode mode, ShapeTable complete)
      : graph_(graph), mode_(mode), table_(std::move(complete)), updates_(true) {}

  ShapeTable& table() { return table_; }
  std::vector<const GraphValue*>& changed() { return changed_; }

  void SetInput(size_t i, ValueFacts facts) { Set(graph_.inputs()[i], std::move(facts)); }

  Status Run() {
    for (const Node* node = graph_.first_node(); node != nullptr; node = node->next()) {
      if (!updates_ || outdated_.contains(node)) QUERN_RETURN_IF_ERROR(InferNode(*node));
    }
    return OkStatus();
  }

  // Writes what was found into the graph and its subgraphs.
  void Write();

  // What is known of a value; constants give their content.
  ValueFacts FactsOf(const GraphValue* value) {
    const ValueFacts* found = Find(value);
    ValueFacts facts = found ? *found : ValueFacts{value->type(), std::nullopt, nullptr};
    if (const Value* constant = value->constant()) {
      facts.content = std::shared_ptr<const Value>(std::shared_ptr<const Value>(), constant);
      facts.data = DataOfTensor(*constant);
    }
    return facts;
  }
  const ValueType& TypeOfValue(const GraphValue* value) const { return table_.type(value); }
  std::optional<Dims> DataOf(const GraphValue* value) const {
    if (const Value* constant = value->constant()) return DataOfTensor(*constant);
    const ValueFacts* found = Find(value);
    if (!found) return std::nullopt;
    if (found->data) return found->data;
    if (found->content) return DataOfTensor(*found->content);
    return std::nullopt;
  }
  const Value* ContentOf(const GraphValue* value) {
    if (const Value* constant = value->constant()) return constant;
    const ValueFacts* found = Find(value);
    if (!found || found->content || !found->data) return found ? found->content.get() : nullptr;
    const auto [made, is_new] = spelled_.try_emplace(value);
    if (is_new) {
      std::optional<Value> v = TensorOfData(*found->data, found->type);
      if (v) made->second = std::make_shared<const Value>(*std::move(v));
    }
    return made->second.get();
  }

  Result<std::vector<ValueType>> InferSubgraph(const Node& node, std::string_view attribute,
                                               std::vector<ValueType> inputs) {
    const GraphPtr* graph = node.FindAttribute<GraphPtr>(attribute);
    if (graph == nullptr) {
      return InvalidArgument(node.Describe() + ": subgraph '" + std::string(attribute) + "' is missing");
    }
    const size_t formal = (*graph)->inputs().size() - std::min((*graph)->inputs().size(), node.captures().size());
    if (formal != inputs.size()) {
      return InvalidArgument(node.Describe() + ": subgraph '" + std::string(attribute) + "' takes " +
                             std::to_string(formal) + " inputs, the operator gives " + std::to_string(inputs.size()));
    }
    if (mode_.depth + 1 > mode_.options->limits.subgraph_depth) {
      return ResourceExhausted(node.Describe() + ": subgraphs are nested too deeply");
    }
    // An operator may ask more than once (Loop, until its state types settle): the last answer is written.
    Question& question = questions_[graph->get()];
    question.Ask(**graph, inputs);
    std::unique_ptr<InferEngine>& kept = subgraphs_[graph->get()];
    const bool ignores = mode_.ignore_declared_shapes || question.disproved;
    kept = std::make_unique<InferEngine>(**graph, Mode{mode_.write, mode_.options, mode_.depth + 1, ignores});
    InferEngine& inner = *kept;
    const std::string context = node.Describe() + ", " + std::string(attribute);
    for (size_t i = 0; i < inputs.size(); ++i) {
      const GraphValue* formal_input = (*graph)->inputs()[i];
      ValueType declared = formal_input->type();
      if (question.widened[i]) declared.shape = inputs[i].shape;
      Result<ValueType> merged = MergeTypes(inputs[i], declared);
      if (!merged.ok()) {
        if (inputs[i].kind != formal_input->type().kind || inputs[i].dtype != formal_input->type().dtype) {
          return merged.status().WithContext(context + ": input '" + formal_input->name() + "'");
        }
        merged = std::move(inputs[i]);
      }
      inner.SetInput(i, {*std::move(merged), std::nullopt, nullptr});
    }
    for (size_t i = 0; i < node.captures().size(); ++i) inner.SetInput(formal + i, FactsOf(node.captures()[i]));
    if (Status status = inner.Run(); !status.ok()) return status.WithContext(context);
    std::vector<ValueType> outputs;
    for (const GraphValue* value : (*graph)->outputs()) outputs.push_back(inner.TypeOfValue(value));
    return outputs;
  }

  // Of a result of the node that is being inferred.
  ValueFacts& Facts(const GraphValue* value) { return results_[static_cast<size_t>(value->producer_index())]; }

 private:
  class Context;
  // What an operator asked of a subgraph so far. Exporters write the shapes of the first iteration of a loop; a state
  // that another one changes disproves what is declared of it, and of what is computed from it.
  struct Question {
    std::vector<ValueType> inputs;
    std::vector<bool> widened;
    bool disproved = false;

    void Ask(const Graph& graph, const std::vector<ValueType>& next) {
      widened.resize(next.size());
      for (size_t i = 0; i < inputs.size() && i < next.size(); ++i) {
        if (inputs[i].shape == next[i].shape) continue;
        widened[i] = true;
        disproved = disproved || (graph.inputs()[i]->type().shape && graph.inputs()[i]->type().shape != next[i].shape);
      }
      inputs = next;
    }
  };
  const ValueFacts* Find(const GraphValue* value) const {
    const auto it = table_.facts_.find(value);
    return it == table_.facts_.end() ? nullptr : &it->second;
  }
  void Set(const GraphValue* value, ValueFacts facts) {
    const auto [at, is_new] = table_.facts_.try_emplace(value);
    if (!is_new && SameFacts(at->second, facts)) return;
    at->second = std::move(facts);
    changed_.push_back(value);
    if (!updates_) return;
    for (const Use& use : value->uses()) outdated_.insert(use.node);
  }
  Status InferNode(const Node& node);
  Status CheckOutput(const Node& node, int i);
  void EvaluateSmall(const Node& node, const OpDefinition& op);

  const Graph& graph_;
  Mode mode_;
  ShapeTable table_;
  bool updates_ = false;
  std::vector<const GraphValue*> changed_;
  std::unordered_set<const Node*> outdated_;                                     // with updates_
  std::vector<ValueFacts> results_;                                              // of the node at hand
  std::unordered_map<const GraphValue*, std::shared_ptr<const Value>> spelled_;  // data as tensors, or null
  std::unordered_map<const Graph*, std::unique_ptr<InferEngine>> subgraphs_;
  std::unordered_map<const Graph*, Question> questions_;
};

class InferEngine::Context final : public InferContext {
 public:
  Context(InferEngine& engine, const Node& node) : engine_(engine), node_(node) {}
  const Node& node() const override { return node_; }
  const ValueType& input_type(int i) const override {
    return node_.input(i) != nullptr ? engine_.TypeOfValue(node_.input(i)) : kNoType;
  }
  const Value* input_constant(int i) const override {
    return node_.input(i) != nullptr ? engine_.ContentOf(node_.input(i)) : nullptr;
  }
  std::optional<Dims> input_data(int i) const override {
    return node_.input(i) != nullptr ? engine_.DataOf(node_.input(i)) : std::nullopt;
  }
  void SetOutputType(int i, ValueType type) override {
    if (node_.output(i) != nullptr) engine_.Facts(node_.output(i)).type = std::move(type);
  }
  void SetOutputData(int i, Dims data) override {
    if (node_.output(i) == nullptr || data.size() > static_cast<size_t>(kMaxPropagatedElements)) return;
    engine_.Facts(node_.output(i)).data = std::move(data);
  }
  Result<std::vector<ValueType>> InferSubgraph(std::string_view attribute, std::vector<ValueType> inputs) override {
    return engine_.InferSubgraph(node_, attribute, std::move(inputs));
  }

 private:
  InferEngine& engine_;
  const Node& node_;
};

Status InferEngine::InferNode(const Node& node) {
  const OpDefinition* op = FindOp(node.domain(), node.op_type());
  const OpVersion* version = op != nullptr ? FindOpVersion(*op, node.opset()) : nullptr;
  results_.assign(static_cast<size_t>(node.num_outputs()), {});
  if (version != nullptr) {
    Context context(*this, node);
    if (mode_.write) {
      QUERN_RETURN_IF_ERROR(CheckNode(node));
      QUERN_RETURN_IF_ERROR(CheckElementTypes(
          node, *version,
          [](const void* user, int i) {
            const ValueType& type = static_cast<const Context*>(user)->input_type(i);
            return type.is_tensor() ? type.dtype : DType::kUndefined;
          },
          &context));
    }
    QUERN_RETURN_IF_ERROR(version->infer(context));
  } else if (auto* infer = mode_.options->lookup != nullptr ? mode_.options->lookup(node) : nullptr) {
    Context context(*this, node);
    QUERN_RETURN_IF_ERROR(infer(context));
  }
  for (int i = 0; i < node.num_outputs(); ++i) {
    if (node.output(i) != nullptr) QUERN_RETURN_IF_ERROR(CheckOutput(node, i));
  }
  if (version != nullptr) EvaluateSmall(node, *op);
  for (const GraphValue* output : node.outputs()) {
    if (output != nullptr) Set(output, std::move(Facts(output)));
  }
  return OkStatus();
}

// Merges an output's inferred type with the declared one and refuses shapes that cannot exist.
Status InferEngine::CheckOutput(const Node& node, int i) {
  const GraphValue* value = node.output(i);
  ValueType& type = Facts(value).type;
  if (mode_.write || (type.is_tensor() && type.dtype == DType::kUndefined)) {
    ValueType declared = value->type();
    if (mode_.ignore_declared_shapes) declared.shape.reset();
    Result<ValueType> merged = MergeTypes(type, declared);
    if (merged.ok()) {
      if (mode_.write) {
        type = std::move(merged).value();
      } else {  // a declared shape may be symbolic: only the element type is taken
        type.dtype = merged->dtype;
        type.kind = merged->kind;
        if (!type.element) type.element = merged->element;
      }
    } else {
      std::string message = node.Describe() + ": output '" + value->name() + "' is " + TypeToString(type) +
                            " but the model declares " + TypeToString(declared);
      if (mode_.options->strict || type.kind != declared.kind || type.dtype != declared.dtype) {
        return InvalidArgument(std::move(message));
      }
      if (mode_.options->warnings != nullptr) mode_.options->warnings->push_back(std::move(message));
    }
  }
  if (!type.shape) return OkStatus();
  if (type.shape->size() > kMaxRank) {
    return Unsupported(node.Describe() + ": output '" + value->name() + "' would have rank " +
                       std::to_string(type.shape->size()) + ", at most " + std::to_string(kMaxRank) + " is supported");
  }
  int64_t elements = 1;
  for (const Dim& d : *type.shape) {
    if (!d.is_constant()) continue;
    if (d.value() < 0 || (d.value() > 0 && __builtin_mul_overflow(elements, d.value(), &elements))) {
      return InvalidArgument(node.Describe() + ": output '" + value->name() + "' would have shape " +
                             DimsToString(*type.shape));
    }
  }
  return OkStatus();
}

// Computes outputs of a few elements whose inputs are all known: contents that are not integers (scales of Resize) or
// come from operators without propagation of their own.
void InferEngine::EvaluateSmall(const Node& node, const OpDefinition& op) {
  if (!op.deterministic || !node.captures().empty()) return;
  bool wanted = false;
  for (const GraphValue* output : node.outputs()) {
    if (output == nullptr) continue;
    const ValueFacts& facts = Facts(output);
    if (!facts.type.is_tensor()) return;
    if (node.num_inputs() > 0) {
      if (!facts.type.has_static_shape() || facts.type.dtype == DType::kString) return;
      int64_t elements = 1;
      for (const Dim& d : *facts.type.shape) elements *= d.value();
      if (elements > kMaxEvaluatedElements) return;
    }
    wanted |= !facts.data || !AllConstant(*facts.data);
  }
  if (!wanted) return;
  if (node.has_subgraphs()) return;
  std::vector<Value> inputs;
  for (const GraphValue* input : node.inputs()) {
    if (input == nullptr) {
      inputs.emplace_back();
      continue;
    }
    const Value* content = ContentOf(input);
    if (content == nullptr || !content->is_tensor()) return;
    if (content->tensor().num_elements() > kMaxConstantElements) return;
    inputs.push_back(*content);
  }
  // A failure here is a failure of the run, which reports it.
  Result<std::vector<Value>> results = EvaluateNode(node, inputs, mode_.options->limits);
  if (!results.ok()) return;
  for (int i = 0; i < node.num_outputs(); ++i) {
    if (node.output(i) == nullptr || !(*results)[i].has_value()) continue;
    ValueFacts& facts = Facts(node.output(i));
    facts.content = std::make_shared<const Value>(std::move((*results)[i]));
    facts.data = DataOfTensor(*facts.content);
    if (facts.data && facts.data->size() > static_cast<size_t>(kMaxPropagatedElements)) facts.data.reset();
  }
}

void InferEngine::Write() {
  auto write = [&](GraphValue* value) {
    if (value == nullptr) return;
    const ValueFacts* found = Find(value);
    if (!found) return;
    value->set_type(found->type);
    value->set_data(found->data);
  };
  for (GraphValue* input : graph_.inputs()) write(input);
  for (Node* node = graph_.first_node(); node != nullptr; node = node->next()) {
    for (GraphValue* output : node->outputs()) write(output);
  }
  for (const auto& [graph, engine] : subgraphs_) engine->Write();
}

Status InferShapes(Graph& graph, const InferOptions& options) {
  InferEngine engine(graph, {true, &options, 0});
  for (size_t i = 0; i < graph.inputs().size(); ++i) {
    engine.SetInput(i, {graph.inputs()[i]->type(), std::nullopt, nullptr});
  }
  QUERN_RETURN_IF_ERROR(engine.Run());
  engine.Write();
  return OkStatus();
}

Result<std::vector<const GraphValue*>> UpdateConcrete(const Graph& graph, std::span<const ValueType> inputs,
                                                      std::span<const Value> contents, const InferOptions& options,
                                                      ShapeTable& table) {
  if (inputs.size() != graph.inputs().size() || (!contents.empty() && contents.size() != inputs.size())) {
    return InvalidArgument("graph '" + graph.name + "' has " + std::to_string(graph.inputs().size()) + " inputs, " +
                           std::to_string(inputs.size()) + " types are given");
  }
  const InferEngine::Mode mode{.options = &options};
  InferEngine engine = table.empty() ? InferEngine(graph, mode) : InferEngine(graph, mode, std::move(table));
  for (size_t i = 0; i < inputs.size(); ++i) {
    ValueFacts facts{inputs[i], std::nullopt, nullptr};
    if (!contents.empty() && contents[i].is_tensor() && contents[i].tensor().num_elements() <= kMaxEvaluatedElements) {
      // The table may live longer than the caller's memory, or see it written anew.
      QUERN_ASSIGN_OR_RETURN(Tensor copy, contents[i].tensor().Clone());
      facts.content = std::make_shared<const Value>(std::move(copy));
      facts.data = DataOfTensor(*facts.content);
    }
    engine.SetInput(i, std::move(facts));
  }
  QUERN_RETURN_IF_ERROR(engine.Run());
  table = std::move(engine.table());
  return std::move(engine.changed());
}

Result<ShapeTable> InferConcrete(const Graph& graph, std::span<const ValueType> inputs, std::span<const Value> contents,
                                 const InferOptions& options) {
  ShapeTable table;
  QUERN_RETURN_IF_ERROR(UpdateConcrete(graph, inputs, contents, options, table).status());
  return table;
}

}  // namespace quern
