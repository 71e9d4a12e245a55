// Elementwise nodes of float32 and bools, of which all but the last are read by the others alone and have the last
// one's shape, become one node that keeps what lies between them in cache:
//   Tanh(Add(Mul(x, s), b))  ->  quern.cpu.Elementwise(x, s, b) {functions = ["Mul", "Add", "Tanh"], ...}
// Operands may broadcast. Constants of one element become numbers of the node. So do nodes that dequantize bytes, which
// several chains may repeat, and those that quantize, with one scale and zero point.
#include <algorithm>
#include <limits>
#include <unordered_map>

#include "provider/cpu/common/elementwise_chain.h"
#include "provider/cpu/common/elementwise_operators.h"
#include "provider/cpu/common/quantization.h"
#include "provider/cpu/passes/edit.h"
#include "provider/cpu/plan_time.h"

namespace quern::cpu {
namespace {

// A node as functions of a chain.
struct Recipe {
  std::string function;     // of the first operands
  std::vector<int> inputs;  // the operands, in the function's order
  bool folds = false;       // its result and each further operand likewise
  float a = 0, b = 0;
  std::optional<float> divisor = {};  // of the result, at last

  int num_steps() const { return (folds ? static_cast<int>(inputs.size()) - 1 : 1) + divisor.has_value(); }
};

bool IsOf(const GraphValue* v, DType dtype) { return v && v->type().dtype == dtype && v->type().shape; }

std::optional<float> NumberOf(const GraphValue* v) {
  const Tensor* t = ConstantTensor(v);
  if (!t || t->dtype() != DType::kF32 || t->num_elements() != 1) return std::nullopt;
  return *t->data<float>();
}

std::optional<Recipe> RecipeOfClip(const Node& node) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  if (node.opset() < 11) {
    return Recipe{.function = "Clip",
                  .inputs = {0},
                  .a = node.GetFloat("min", std::numeric_limits<float>::lowest()),
                  .b = node.GetFloat("max", std::numeric_limits<float>::max())};
  }
  const std::optional<float> low = node.input(1) ? NumberOf(node.input(1)) : -kInfinity;
  const std::optional<float> high = node.input(2) ? NumberOf(node.input(2)) : kInfinity;
  if (!low || !high) return std::nullopt;
  return Recipe{.function = "Clip", .inputs = {0}, .a = *low, .b = *high};
}

std::optional<Recipe> RecipeOfPow(const Node& node) {
  if (const std::optional<UnaryKind> small = FindSmallPower(node)) {
    if (*small == UnaryKind::kCopy) return std::nullopt;
    return Recipe{.function = *small == UnaryKind::kSquare ? "Square" : "Cube", .inputs = {0}};
  }
  return Recipe{.function = "Pow", .inputs = {0, 1}};
}

std::optional<Recipe> RecipeOfUnary(const Node& node) {
  for (const UnaryOperator& o : kUnaryOperators) {
    if (node.op_type() != o.op_type) continue;
    if (o.kind == UnaryKind::kGelu && node.GetString("approximate", "none") == "tanh") {
      return Recipe{.function = "GeluTanh", .inputs = {0}};
    }
    return Recipe{.function = o.op_type,
                  .inputs = {0},
                  .a = o.a.name ? node.GetFloat(o.a.name, o.a.missing) : 0,
                  .b = o.b.name ? node.GetFloat(o.b.name, o.b.missing) : 0};
  }
  return std::nullopt;
}

std::optional<Recipe> RecipeOfFold(const Node& node) {
  const bool sum = node.Is("Sum"), mean = node.Is("Mean");
  const bool folds = std::ranges::any_of(
      kBinaryOperators, [&](const BinaryOperator& o) { return node.op_type() == o.op_type && HasVectorLoop(o.kind); });
  if (!folds || node.num_inputs() < 2) return std::nullopt;
  Recipe recipe{.function = sum || mean ? "Add" : node.op_type(), .inputs = {}, .folds = true};
  for (int i = 0; i < node.num_inputs(); ++i) recipe.inputs.push_back(i);
  if (mean) recipe.divisor = static_cast<float>(node.num_inputs());
  return recipe;
}

std::optional<Recipe> RecipeOfBytes(const Node& node) {
  const bool stores = node.Is("QuantizeLinear");
  const std::optional<Quantization> q = ByteQuantizationOf(node);
  if (!q) return std::nullopt;
  const DType type = (stores ? node.output(0) : node.input(0))->type().dtype;
  return Recipe{.function = std::string(stores ? "Quantize" : "Dequantize") + (type == DType::kI8 ? "I8" : "U8"),
                .inputs = {0},
                .a = q->scales[0],
                .b = static_cast<float>(q->zero_points[0])};
}

std::optional<Recipe> RecipeByName(const Node& node) {
  const std::string& op = node.op_type();
  if (op == "QuantizeLinear" || op == "DequantizeLinear") return RecipeOfBytes(node);
  if (op == "Clip") return RecipeOfClip(node);
  if (op == "Pow") return RecipeOfPow(node);
  if (op == "Greater") return Recipe{.function = "Less", .inputs = {1, 0}};
  if (op == "GreaterOrEqual") return Recipe{.function = "LessOrEqual", .inputs = {1, 0}};
  if (op == "Equal" || op == "Less" || op == "LessOrEqual" || op == "And" || op == "Or" || op == "Xor") {
    return Recipe{.function = op, .inputs = {0, 1}};
  }
  if (op == "Not") return Recipe{.function = op, .inputs = {0}};
  if (op == "Where") return Recipe{.function = op, .inputs = {0, 1, 2}};
  if (op == "Cast") {
    const bool to_bool = node.output(0)->type().dtype == DType::kBool;
    return Recipe{.function = to_bool ? "ToBool" : "ToFloat", .inputs = {0}};
  }
  if (std::optional<Recipe> unary = RecipeOfUnary(node)) return unary;
  return RecipeOfFold(node);
}

// Nothing for nodes that no chain computes: other operators, types and forms, shapes of unknown rank, and what plans
// know.
std::optional<Recipe> RecipeOf(const Node& node, const CpuConfig& config) {
  if (!node.domain().empty() || node.num_outputs() != 1 || IsPlanTimeNode(node)) return std::nullopt;
  // Plans compute these by the operators of ONNX alone.
  if (IsMadeOfShapes(*node.output(0))) return std::nullopt;
  for (const GraphValue* v : node.inputs()) {
    if (v && !v->type().shape) return std::nullopt;
  }
  std::optional<Recipe> recipe = RecipeByName(node);
  if (!recipe) return std::nullopt;
  const std::optional<ChainFunction> function = FindChainFunction(recipe->function);
  if (!function || !IsOf(node.output(0), function->to)) return std::nullopt;
  for (size_t k = 0; k < recipe->inputs.size(); ++k) {
    const bool condition = function->form == ChainFunction::Form::kChoice && k == 0;
    if (!IsOf(node.input(recipe->inputs[k]), condition ? DType::kBool : function->from)) return std::nullopt;
  }
  const CpuOp* op = FindCpuOp("", node.op_type());
  return op && op->reject(node, config).empty() ? recipe : std::nullopt;
}

// The same extents but for ones in front: elements in the same order.
bool SameExtents(const Dims& a, const Dims& b) {
  const auto from = [](const Dims& d) { return std::ranges::find_if(d, [](const Dim& e) { return !(e == Dim(1)); }); };
  return std::equal(from(a), a.end(), from(b), b.end());
}

class Fuser {
 public:
  Fuser(Graph& graph, const CpuConfig& config) : graph_(graph) {
    int place = 0;
    for (Node* node : graph.nodes()) {
      places_[node] = place++;
      if (std::optional<Recipe> r = RecipeOf(*node, config)) recipes_.emplace(node, *std::move(r));
    }
  }

  // The chain that ends with the node becomes one node, where there is one.
  bool FuseInto(Node* last) {
    if (!recipes_.contains(last)) return false;
    std::vector<Node*> members = {last};
    while (JoinProducer(members)) {
    }
    if (members.size() < 2) return false;
    members = InOrder(std::move(members));
    Replace(members, *PartsOf(members));
    return true;
  }

 private:
  struct Parts {
    Chain chain;
    std::vector<GraphValue*> inputs;
  };

  std::vector<Node*> InOrder(std::vector<Node*> members) const {
    std::ranges::sort(members, {}, [&](const Node* n) { return places_.at(n); });
    return members;
  }

  static bool IsInner(const GraphValue& v, const std::vector<Node*>& members) {
    return std::ranges::all_of(v.uses(), [&](const Use& u) { return std::ranges::count(members, u.node) != 0; });
  }
  // Whether each chain that reads the result may compute it for itself.
  static bool IsRepeated(const Node& node) { return node.Is("DequantizeLinear"); }

  // One more member, or false when there is none.
  bool JoinProducer(std::vector<Node*>& members) const {
    const Dims& dims = *members[0]->output(0)->type().shape;
    for (const Node* member : members) {
      // What others read, too, stays with what makes it.
      if (member != members[0] && !IsInner(*member->output(0), members)) continue;
      for (const int i : recipes_.at(member).inputs) {
        const GraphValue* v = member->input(i);
        Node* p = v->producer();
        if (!p || !recipes_.contains(p) || std::ranges::count(members, p) != 0) continue;
        const bool repeats =
            IsRepeated(*p) && std::ranges::all_of(v->uses(), [&](const Use& u) { return recipes_.contains(u.node); });
        if ((!repeats && !IsInner(*v, members)) || !SameExtents(*v->type().shape, dims)) continue;
        std::vector<Node*> joined = members;
        joined.push_back(p);
        if (!PartsOf(InOrder(joined))) continue;
        members = std::move(joined);
        return true;
      }
    }
    return false;
  }

  // The members, in order, as one chain; nothing when it would have too many parts, or no operand of the result's rank.
  std::optional<Parts> PartsOf(const std::vector<Node*>& members) const {
    enum Kind { kInput, kNumber, kStep };
    using Place = std::pair<Kind, int>;
    struct Step {
      std::string name;
      std::array<Place, 3> operands;
      float a, b;
    };
    Parts parts;
    std::vector<Step> steps;
    std::unordered_map<const GraphValue*, Place> places;
    const auto number = [&](float value) {
      parts.chain.numbers.push_back(value);
      return Place(kNumber, static_cast<int>(parts.chain.numbers.size()) - 1);
    };
    const auto place_of = [&](GraphValue* v) {
      const auto [it, added] = places.try_emplace(v);
      if (!added) return it->second;
      if (const std::optional<float> constant = NumberOf(v)) return it->second = number(*constant);
      parts.inputs.push_back(v);
      return it->second = Place(kInput, static_cast<int>(parts.inputs.size()) - 1);
    };
    const auto add = [&](const std::string& name, std::array<Place, 3> operands, float a = 0, float b = 0) {
      steps.push_back({name, operands, a, b});
      return Place(kStep, static_cast<int>(steps.size()) - 1);
    };
    for (const Node* member : members) {
      const Recipe& r = recipes_.at(member);
      std::vector<Place> operands;
      for (const int i : r.inputs) operands.push_back(place_of(member->input(i)));
      Place result;
      if (r.folds) {
        result = operands[0];
        for (size_t k = 1; k < operands.size(); ++k) result = add(r.function, {result, operands[k]}, r.a, r.b);
      } else {
        std::array<Place, 3> list{};
        std::ranges::copy(operands, list.begin());
        result = add(r.function, list, r.a, r.b);
      }
      if (r.divisor) result = add("Div", {result, number(*r.divisor)});
      places[member->output(0)] = result;
    }
    Chain& chain = parts.chain;
    chain.num_inputs = static_cast<int>(parts.inputs.size());
    if (chain.num_inputs > kMostChainInputs || static_cast<int>(chain.numbers.size()) > kMostChainNumbers ||
        static_cast<int>(steps.size()) > kMostChainSteps) {
      return std::nullopt;
    }
    const int rank = members.back()->output(0)->type().rank();
    if (std::ranges::none_of(parts.inputs, [&](const GraphValue* v) { return v->type().rank() == rank; })) {
      return std::nullopt;
    }
    const std::array<int, 3> firsts = {0, chain.num_inputs, chain.first_step()};
    for (const Step& s : steps) {
      ChainStep step{.name = s.name, .function = *FindChainFunction(s.name), .operands = {}, .a = s.a, .b = s.b};
      for (size_t k = 0; k < static_cast<size_t>(step.function.num_operands()); ++k) {
        step.operands[k] = firsts[s.operands[k].first] + s.operands[k].second;
      }
      chain.steps.push_back(std::move(step));
    }
    return parts;
  }

  void Replace(const std::vector<Node*>& members, const Parts& parts) {
    Node* last = members.back();
    GraphValue* result = last->output(0);
    Node* made = AddInternal(graph_, "Elementwise", *last, parts.inputs, result->type(), last);
    WriteChain(parts.chain, *made);
    for (const Node* member : members) {
      if (member == last || IsInner(*member->output(0), members)) recipes_.erase(member);
    }
    graph_.ReplaceAllUses(result, made->output(0));
    RemoveIfDead(graph_, last);
  }

  Graph& graph_;
  std::unordered_map<const Node*, int> places_;      // in the graph's order
  std::unordered_map<const Node*, Recipe> recipes_;  // of nodes that chains compute
};

Result<int> Run(Graph& graph, const void* pass_context) {
  const auto& context = *static_cast<const CpuPassContext*>(pass_context);
  Fuser fuser(graph, context.config);
  const std::vector<Node*> nodes = graph.nodes();
  int changes = 0;
  // From the last one on, so that chains are as long as they can be. Nodes that a chain took are gone.
  for (size_t i = nodes.size(); i-- > 0;) changes += fuser.FuseInto(nodes[i]);
  return changes;
}

}  // namespace

extern const Pass kFuseElementwise = {"cpu_fuse_elementwise", "chains of elementwise operators to one pass over memory",
                                      Run};

}  // namespace quern::cpu
