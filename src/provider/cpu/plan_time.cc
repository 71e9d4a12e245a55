#include "provider/cpu/plan_time.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "ops/op.h"

namespace quern::cpu {
namespace {

constexpr size_t kMostNodes = 256;  // what is further back is not taken for known
// As inference, which computes contents for a plan, has it, or less.
constexpr int64_t kMostConstantElements = 4096;
constexpr int64_t kMostElements = 16;

bool HasSymbol(const Dim& d, std::string_view symbol) {
  if (d.is_constant()) return false;
  if (!d.symbol().empty()) return d.symbol() == symbol;
  const std::vector<std::string> all = d.symbols();
  return std::ranges::find(all, symbol) != all.end();
}

// Whether the symbol is in no extent of the graph's inputs: "?N", and names of the model for what its data decides.
bool IsUnknown(std::string_view symbol, const Graph& graph) {
  return symbol.starts_with('?') || std::ranges::none_of(graph.inputs(), [&](const GraphValue* input) {
           const std::optional<Dims>& shape = input->type().shape;
           return shape && std::ranges::any_of(*shape, [&](const Dim& d) { return HasSymbol(d, symbol); });
         });
}

void AddUnknowns(const Dims& dims, const Graph& graph, std::set<std::string>& names) {
  for (const Dim& d : dims) {
    if (d.is_constant()) continue;
    for (std::string& s : d.symbols()) {
      if (IsUnknown(s, graph)) names.insert(std::move(s));
    }
  }
}

bool HasUnknowns(const Dims& dims, const Graph& graph) {
  std::set<std::string> names;
  AddUnknowns(dims, graph, names);
  return !names.empty();
}

// Of a value that is made or read by a node.
const Graph& GraphOf(const GraphValue& v) {
  if (v.producer()) return *v.producer()->graph();
  return *std::ranges::find_if(v.uses(), [](const Use& use) { return use.node != nullptr; })->node->graph();
}

// Unknown extents that a plan has in hand when it comes to the node: those in the types of its inputs, and those in
// contents as far as they follow from types. A Concat with a size that only a run knows has a content with unknowns,
// too.
std::set<std::string> UnknownsAtHand(const Node& node) {
  std::set<std::string> names;
  const Graph& graph = *node.graph();
  std::vector<const Node*> nodes = {&node};
  std::set<const Node*> seen = {&node};
  for (size_t i = 0; i < nodes.size(); ++i) {
    for (const GraphValue* v : nodes[i]->inputs()) {
      if (!v) continue;
      if (v->type().shape) AddUnknowns(*v->type().shape, graph, names);
      if (!v->data() || !HasUnknowns(*v->data(), graph)) continue;
      if (!v->producer()) {  // an input of a cluster: its content comes with the plan
        AddUnknowns(*v->data(), graph, names);
      } else if (nodes.size() < kMostNodes && seen.insert(v->producer()).second) {
        nodes.push_back(v->producer());
      }
    }
  }
  return names;
}

bool Covered(const Dims& dims, const Graph& graph, const std::set<std::string>& at_hand) {
  std::set<std::string> names;
  AddUnknowns(dims, graph, names);
  return std::includes(at_hand.begin(), at_hand.end(), names.begin(), names.end());
}

bool IsSmall(const Value& constant) {
  return constant.is_tensor() && constant.tensor().num_elements() <= kMostConstantElements;
}

// Inference of one node with a name for each extent and content that is at hand, to see whether the outputs' shapes are
// made of those. A Reshape to an unknown extent gives another unknown one, because a content may be -1 where an extent
// may not; and a formula that grows too long becomes an unknown. A plan has numbers for them all.
class NamedInference final : public InferContext {
 public:
  NamedInference(const Node& node, const std::set<std::string>& at_hand) : node_(node), at_hand_(at_hand) {
    for (const GraphValue* v : node.inputs()) {
      types_.push_back(v ? v->type() : ValueType());
      contents_.push_back(v ? ContentOf(*v) : std::nullopt);
      if (types_.back().shape) types_.back().shape = Named(*types_.back().shape);
    }
    outputs_.resize(node.outputs().size());
  }

  // True when the types of all outputs are made of the names.
  bool Covers() {
    const Result<const OpVersion*> version = FindOpVersion(node_);
    if (!version.ok() || !node_.subgraphs().empty() || !(*version)->infer(*this).ok()) return false;
    for (int i = 0; i < node_.num_outputs(); ++i) {
      const ValueType& type = outputs_[static_cast<size_t>(i)];
      if (!node_.output(i)) continue;
      if (!type.is_tensor() || type.dtype == DType::kUndefined || !type.shape) return false;
      std::set<std::string> names;
      AddUnknowns(*type.shape, *node_.graph(), names);
      if (!std::ranges::all_of(names, [](const std::string& s) { return s.starts_with(kNewName); })) return false;
    }
    return true;
  }

  const Node& node() const override { return node_; }
  // Operators ask for optional inputs, and set optional outputs, that the node does not have.
  const ValueType& input_type(int i) const override { return node_.input(i) ? types_[static_cast<size_t>(i)] : none_; }
  const Value* input_constant(int i) const override { return node_.input(i) ? node_.input(i)->constant() : nullptr; }
  std::optional<Dims> input_data(int i) const override {
    return node_.input(i) ? contents_[static_cast<size_t>(i)] : std::nullopt;
  }
  void SetOutputType(int i, ValueType type) override {
    if (node_.output(i)) outputs_[static_cast<size_t>(i)] = std::move(type);
  }
  void SetOutputData(int, Dims) override {}
  Result<std::vector<ValueType>> InferSubgraph(std::string_view, std::vector<ValueType>) override {
    return Unsupported("subgraphs");
  }

 private:
  static constexpr std::string_view kNewName = "extent ";

  Dim NewName() { return Dim::Symbol(std::string(kNewName) + std::to_string(names_++)); }

  Dims Named(Dims dims) {
    for (Dim& d : dims) {
      if (d.is_constant() || !Covered({d}, *node_.graph(), at_hand_)) continue;
      const auto [at, fresh] = named_.try_emplace(d.ToString());
      if (fresh) at->second = NewName();
      d = at->second;
    }
    return dims;
  }

  std::optional<Dims> ContentOf(const GraphValue& v) {
    if (v.data()) return Named(*v.data());
    if (const Value* constant = v.constant()) {
      if (!IsSmall(*constant) || constant->tensor().rank() > 1) return std::nullopt;
      const Result<std::vector<int64_t>> elements = ToInt64s(constant->tensor());
      return elements.ok() ? std::optional<Dims>({elements->begin(), elements->end()}) : std::nullopt;
    }
    if (!IsKnownToPlan(v)) return std::nullopt;
    Dims content;
    for (int64_t i = Product(*v.type().shape).value(); i > 0; --i) content.push_back(NewName());
    return content;
  }

  const Node& node_;
  const std::set<std::string>& at_hand_;
  const ValueType none_;
  std::vector<ValueType> types_, outputs_;
  std::vector<std::optional<Dims>> contents_;
  std::map<std::string, Dim> named_;
  int names_ = 0;
};

}  // namespace

bool IsMadeOfShapes(const GraphValue& value) {
  std::vector<const GraphValue*> values = {&value};
  std::set<const GraphValue*> seen = {&value};
  for (size_t i = 0; i < values.size(); ++i) {
    const GraphValue& v = *values[i];
    if (const Value* constant = v.constant()) {
      if (!IsSmall(*constant)) return false;
      continue;
    }
    if (v.data() && (!HasUnknowns(*v.data(), GraphOf(v)) || (v.producer() && IsPlanTimeNode(*v.producer())))) continue;
    const Node* producer = v.producer();
    const OpDefinition* op = producer ? FindOp(producer->domain(), producer->op_type()) : nullptr;
    if (!op || !op->deterministic || !producer->captures().empty() || !producer->subgraphs().empty()) return false;
    if (!v.type().has_static_shape() || v.type().dtype == DType::kString) return false;
    const Dim elements = Product(*v.type().shape);
    if (!elements.is_constant() || elements.value() > kMostElements) return false;
    for (const GraphValue* input : producer->inputs()) {
      if (input && seen.insert(input).second) values.push_back(input);
    }
    if (values.size() > kMostNodes) return false;
  }
  return true;
}

bool IsKnownToPlan(const GraphValue& value) {
  if (value.is_constant() || value.data()) return true;
  const ValueType& type = value.type();
  return type.is_tensor() && IsIntegerType(type.dtype) && type.shape && type.rank() <= 1 && IsMadeOfShapes(value);
}

bool ShapesFollow(const Node& node) {
  const std::set<std::string> at_hand = UnknownsAtHand(node);
  const bool covered = std::all_of(node.outputs().begin(), node.outputs().end(), [&](const GraphValue* v) {
    return !v || (v->type().kind == ValueKind::kTensor && v->type().dtype != DType::kUndefined && v->type().shape &&
                  Covered(*v->type().shape, *node.graph(), at_hand));
  });
  return covered || NamedInference(node, at_hand).Covers();
}

bool IsPlanTimeNode(const Node& node) {
  if (!node.subgraphs().empty()) return false;
  // Plans see no strings, nor their shapes.
  for (const GraphValue* v : node.inputs()) {
    if (v && v->type().dtype == DType::kString) return false;
  }
  if (node.Is("Shape")) {  // also of a rank that only a plan knows
    const ValueType& x = node.input(0)->type();
    return x.is_tensor() && x.dtype != DType::kUndefined;
  }
  const std::set<std::string> at_hand = UnknownsAtHand(node);
  return std::all_of(node.outputs().begin(), node.outputs().end(), [&](const GraphValue* v) {
    return !v || (v->type().kind == ValueKind::kTensor && v->type().shape && v->data() &&
                  (IsIntegerType(v->type().dtype) || v->type().dtype == DType::kBool) &&
                  Covered(*v->type().shape, *node.graph(), at_hand) && Covered(*v->data(), *node.graph(), at_hand));
  });
}

}  // namespace quern::cpu
