// Values whose rank no producer tells get the one that their readers demand: branches of an If give other ranks, of
// which the rest of the model takes one.
//   %i: f32[*] = If(%c) ...   %u: f32[*] = Unsqueeze(%i, const [0])   %y, _ = LSTM(%u, ...)
//     ->  %i: f32[?,?] = If(%c) ...   %u: f32[?,?,?] = Unsqueeze(%i, const [0]) ...
// With another rank the run fails at the reader in either form; what no output of the graph needs has no say.
#include <algorithm>
#include <array>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "ops/infer.h"
#include "passes/passes.h"

namespace quern {
namespace {

// Operators whose first output has the rank of the first input.
constexpr std::array<std::string_view, 23> kKeepRank = {"Abs",         "BatchNormalization",
                                                        "Cast",        "Clip",
                                                        "Dropout",     "Elu",
                                                        "Erf",         "Exp",
                                                        "Floor",       "Gelu",
                                                        "HardSigmoid", "HardSwish",
                                                        "Identity",    "LeakyRelu",
                                                        "Log",         "LogSoftmax",
                                                        "Neg",         "Relu",
                                                        "Sigmoid",     "Softmax",
                                                        "Softplus",    "Sqrt",
                                                        "Tanh"};

// Number of axes of a Squeeze or Unsqueeze, where they are given and known.
std::optional<int> NumberOfAxes(const Node& n) {
  if (n.attributes().contains("axes")) return static_cast<int>(n.GetInts("axes").size());
  const GraphValue* axes = n.num_inputs() > 1 ? n.input(1) : nullptr;
  if (!axes || !axes->type().has_static_shape() || axes->type().rank() != 1) return std::nullopt;
  const int64_t count = axes->type().shape->front().value();
  return count <= kMaxRank ? std::optional<int>(static_cast<int>(count)) : std::nullopt;
}

class Ranks {
 public:
  explicit Ranks(const Graph& graph) { CollectNeeded(graph); }

  // From each node to its readers and back again, until nothing is added; chains that turn more often are left.
  void Spread() {
    constexpr int kMostRounds = 16;
    for (int round = 0; round < kMostRounds; ++round) {
      const size_t known = found_.size();
      for (auto n = needed_.rbegin(); n != needed_.rend(); ++n) VisitNode(**n);
      for (const Node* n : needed_) VisitNode(*n);
      if (found_.size() == known) break;
    }
  }
  const std::unordered_map<GraphValue*, int>& found() const { return found_; }

 private:
  std::optional<int> RankOf(GraphValue* v) const {
    if (v == nullptr || !v->type().is_tensor()) return std::nullopt;
    if (v->type().has_rank()) return v->type().rank();
    const auto it = found_.find(v);
    return it == found_.end() ? std::nullopt : std::optional<int>(it->second);
  }
  void Set(GraphValue* v, int rank) {
    // An input of a subgraph is what the node gives it, and a branch that does not run demands nothing.
    if (v == nullptr || v->producer() == nullptr || !v->type().is_tensor() || v->type().has_rank()) return;
    if (rank < 0 || rank > kMaxRank) return;
    found_.try_emplace(v, rank);
  }
  // rank(high) = rank(low) + difference
  void Relate(GraphValue* low, GraphValue* high, int difference) {
    if (const std::optional<int> rank = RankOf(low)) Set(high, *rank + difference);
    if (const std::optional<int> rank = RankOf(high)) Set(low, *rank - difference);
  }

  // Nodes that some output of the graph needs, last ones first, those of subgraphs included: what nobody reads demands
  // nothing.
  void CollectNeeded(const Graph& graph) {
    std::unordered_set<const Node*> needed;
    for (const Node* n = graph.last_node(); n != nullptr; n = n->prev()) {
      const bool is_needed = std::any_of(n->outputs().begin(), n->outputs().end(), [&](const GraphValue* v) {
        return v != nullptr && std::any_of(v->uses().begin(), v->uses().end(),
                                           [&](const Use& u) { return u.node == nullptr || needed.contains(u.node); });
      });
      if (!is_needed) continue;
      needed.insert(n);
      for (const auto& [attribute, subgraph] : n->subgraphs()) CollectNeeded(*subgraph);
      if (n->domain().empty() && n->num_inputs() > 0 && n->num_outputs() > 0) needed_.push_back(n);
    }
  }

  void VisitNode(const Node& n) {
    GraphValue *x = n.input(0), *y = n.output(0);
    const auto input = [&](int i) { return i < n.num_inputs() ? n.input(i) : nullptr; };
    if (n.Is("Conv") || n.Is("ConvTranspose")) {
      Relate(x, input(1), 0);
      Relate(x, y, 0);
    } else if (n.Is("LSTM") || n.Is("GRU") || n.Is("RNN")) {
      for (const int i : {0, 1, 2, 5, 6}) Set(input(i), 3);
    } else if (n.Is("Transpose") && n.attributes().contains("perm")) {
      Set(x, static_cast<int>(n.GetInts("perm").size()));
    } else if (n.Is("Squeeze") || n.Is("Unsqueeze")) {
      if (const std::optional<int> axes = NumberOfAxes(n)) {
        n.Is("Squeeze") ? Relate(y, x, *axes) : Relate(x, y, *axes);
      }
    } else if (n.Is("Concat")) {
      for (GraphValue* v : n.inputs()) Relate(v, y, 0);
    } else if (n.Is("Gemm")) {
      Set(x, 2);
      Set(input(1), 2);
    } else if (std::find(kKeepRank.begin(), kKeepRank.end(), n.op_type()) != kKeepRank.end()) {
      Relate(x, y, 0);
    }
  }

  std::vector<const Node*> needed_;
  std::unordered_map<GraphValue*, int> found_;
};

bool HasOpenRanks(const Graph& graph) {
  for (const Node* n = graph.first_node(); n != nullptr; n = n->next()) {
    for (const GraphValue* v : n->outputs()) {
      if (v != nullptr && v->type().is_tensor() && !v->type().has_rank()) return true;
    }
    for (const auto& [attribute, subgraph] : n->subgraphs()) {
      if (HasOpenRanks(*subgraph)) return true;
    }
  }
  return false;
}

Result<int> Run(Graph& graph, const void* context) {
  constexpr int kMostLooks = 16;  // a chain of nodes that need each other's ranks in turn is seldom so long
  InferOptions options;
  options.limits = LimitsOf(context);
  int changes = 0;
  for (int look = 0; look < kMostLooks && HasOpenRanks(graph); ++look) {
    Ranks ranks(graph);
    ranks.Spread();
    for (const auto& [value, rank] : ranks.found()) {
      Dims dims;
      for (int i = 0; i < rank; ++i) dims.push_back(Dim::Unknown());
      value->set_type(ValueType::Tensor(value->type().dtype, std::move(dims)));
    }
    QUERN_RETURN_IF_ERROR(InferShapes(graph, options));  // what follows from them
    // A branch that does not fit the shapes is not inferred, and keeps none.
    const auto kept = std::count_if(ranks.found().begin(), ranks.found().end(),
                                    [](const auto& entry) { return entry.first->type().has_rank(); });
    if (kept == 0) break;
    changes += static_cast<int>(kept);
  }
  return changes;
}

}  // namespace

extern const Pass kInferRanks = {"infer_ranks", "ranks that readers demand of values of unknown rank", Run, false};

}  // namespace quern
