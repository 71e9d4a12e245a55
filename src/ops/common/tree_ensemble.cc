#include "ops/common/tree_ensemble.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string>
#include <tuple>
#include <unordered_set>

#include "ops/common/float_io.h"

namespace quern {
namespace {

Status Fault(const Node& node, const std::string& what) { return InvalidArgument(node.Describe() + ": " + what); }

// An error unless list `name` is as long as `of`, which has `count` elements.
Status CheckLength(const Node& node, const std::string& name, size_t length, const std::string& of, size_t count) {
  if (length == count) return OkStatus();
  return Fault(node, name + " has " + std::to_string(length) + " elements, " + of + " has " + std::to_string(count));
}

Result<TreeMode> ModeOf(const Node& node, const std::string& name) {
  static constexpr std::pair<std::string_view, TreeMode> kModes[] = {
      {"LEAF", TreeMode::kLeaf},      {"BRANCH_LEQ", TreeMode::kLeq}, {"BRANCH_LT", TreeMode::kLt},
      {"BRANCH_GTE", TreeMode::kGte}, {"BRANCH_GT", TreeMode::kGt},   {"BRANCH_EQ", TreeMode::kEq},
      {"BRANCH_NEQ", TreeMode::kNeq}};
  for (const auto& [known, mode] : kModes) {
    if (name == known) return mode;
  }
  return Fault(node, "nodes_modes holds '" + name + "', which is no mode of a node");
}

// Finds nodes by the ids of their tree and of themselves.
class NodeIndex {
 public:
  static Result<NodeIndex> Make(const Node& node, std::span<const int64_t> trees, std::span<const int64_t> ids) {
    NodeIndex index;
    index.keys_.reserve(trees.size());
    for (size_t i = 0; i < trees.size(); ++i) index.keys_.push_back({trees[i], ids[i], static_cast<int64_t>(i)});
    if (!std::is_sorted(index.keys_.begin(), index.keys_.end())) std::sort(index.keys_.begin(), index.keys_.end());
    const auto twice = std::adjacent_find(index.keys_.begin(), index.keys_.end(),
                                          [](const Key& a, const Key& b) { return a.tree == b.tree && a.id == b.id; });
    if (twice == index.keys_.end()) return index;
    return Fault(node,
                 "node " + std::to_string(twice->id) + " of tree " + std::to_string(twice->tree) + " is there twice");
  }
  // The place of the node in the attributes, or -1. Mostly nodes stand in the order of their ids, so that the one asked
  // for is as far from node `near` as its id.
  int64_t Find(int64_t tree, int64_t id, int64_t near) const {
    if (keys_.empty()) return -1;
    const auto start = static_cast<uint64_t>(near);
    const uint64_t guess = start + (static_cast<uint64_t>(id) - static_cast<uint64_t>(keys_[start].id));
    if (guess < keys_.size() && keys_[guess].tree == tree && keys_[guess].id == id) return keys_[guess].place;
    const auto found = std::lower_bound(keys_.begin(), keys_.end(), Key{tree, id, 0});
    return found != keys_.end() && found->tree == tree && found->id == id ? found->place : -1;
  }

 private:
  struct Key {
    int64_t tree, id, place;
    bool operator<(const Key& o) const { return std::tie(tree, id, place) < std::tie(o.tree, o.id, o.place); }
  };
  std::vector<Key> keys_;
};

template <typename T>
Result<std::vector<T>> TensorNumbers(const Node& node, const std::string& name, const Value& value) {
  if (!value.is_tensor()) return Fault(node, "attribute '" + name + "' must hold numbers");
  QUERN_ASSIGN_OR_RETURN(const Tensor t, value.tensor().Contiguous());
  switch (t.dtype()) {
    case DType::kF32:
    case DType::kF64:
    case DType::kF16:
    case DType::kBF16:
      break;
    default:
      return Fault(node,
                   "attribute '" + name + "' has element type " + DTypeName(t.dtype()) + ", a float type is needed");
  }
  std::vector<T> numbers(static_cast<size_t>(t.num_elements()));
  WidenFloats<T>(t.dtype(), t.raw_data(), t.num_elements(), numbers.data());
  return numbers;
}

}  // namespace

template <typename T>
Result<std::vector<T>> ReadTreeNumbers(const Node& node, std::string_view name) {
  const std::span<const float> floats = ListAttribute<float>(node, name);
  const std::string tensor_name = std::string(name) + "_as_tensor";
  const Value* tensor = node.FindAttribute<Value>(tensor_name);
  if (tensor == nullptr) return std::vector<T>(floats.begin(), floats.end());
  if (!floats.empty()) {
    return Fault(node, "attributes '" + std::string(name) + "' and '" + tensor_name + "' are both given");
  }
  return TensorNumbers<T>(node, tensor_name, *tensor);
}

bool HoldsDoubles(const Node& node, std::initializer_list<std::string_view> names) {
  return std::any_of(names.begin(), names.end(), [&](std::string_view name) {
    const Value* tensor = node.FindAttribute<Value>(name);
    return tensor != nullptr && tensor->is_tensor() && tensor->tensor().dtype() == DType::kF64;
  });
}

template <typename T>
Result<TreeEnsemble<T>> TreeEnsemble<T>::Read(const Node& node, std::string_view votes, int64_t num_targets,
                                              int64_t num_features) {
  const auto ints = [&](const std::string& name) { return ListAttribute<int64_t>(node, name); };
  const std::span<const int64_t> trees = ints("nodes_treeids"), ids = ints("nodes_nodeids"),
                                 features = ints("nodes_featureids"), on_true = ints("nodes_truenodeids"),
                                 on_false = ints("nodes_falsenodeids"),
                                 missing = ints("nodes_missing_value_tracks_true");
  const std::span<const std::string> modes = ListAttribute<std::string>(node, "nodes_modes");
  QUERN_ASSIGN_OR_RETURN(const std::vector<T> splits, ReadTreeNumbers<T>(node, "nodes_values"));
  const size_t count = trees.size();
  for (const auto& [name, length] :
       {std::pair("nodes_nodeids", ids.size()), std::pair("nodes_featureids", features.size()),
        std::pair("nodes_truenodeids", on_true.size()), std::pair("nodes_falsenodeids", on_false.size()),
        std::pair("nodes_modes", modes.size()), std::pair("nodes_values", splits.size()),
        std::pair("nodes_missing_value_tracks_true", missing.empty() ? count : missing.size())}) {
    QUERN_RETURN_IF_ERROR(CheckLength(node, name, length, "nodes_treeids", count));
  }
  QUERN_ASSIGN_OR_RETURN(const NodeIndex index, NodeIndex::Make(node, trees, ids));

  TreeEnsemble e;
  e.nodes_.resize(count);
  std::unordered_set<int64_t> seen;
  for (size_t i = 0; i < count; ++i) {
    TreeNode<T>& n = e.nodes_[i];
    // A tree begins with its first node.
    if ((i == 0 || trees[i] != trees[i - 1]) && seen.insert(trees[i]).second) {
      e.roots_.push_back(static_cast<int64_t>(i));
    }
    QUERN_ASSIGN_OR_RETURN(n.mode, ModeOf(node, modes[i]));
    if (n.mode == TreeMode::kLeaf) continue;
    n.missing_tracks_true = !missing.empty() && missing[i] == 1;
    n.feature = features[i];
    n.split = splits[i];
    n.on_true = index.Find(trees[i], on_true[i], static_cast<int64_t>(i));
    n.on_false = index.Find(trees[i], on_false[i], static_cast<int64_t>(i));
    if (n.on_true < 0 || n.on_false < 0) {
      return Fault(node, "node " + std::to_string(ids[i]) + " of tree " + std::to_string(trees[i]) + " leads to node " +
                             std::to_string(n.on_true < 0 ? on_true[i] : on_false[i]) + ", which is not there");
    }
  }

  const std::string prefix(votes);
  const std::span<const int64_t> vote_trees = ints(prefix + "_treeids"), vote_nodes = ints(prefix + "_nodeids"),
                                 targets = ints(prefix + "_ids");
  QUERN_ASSIGN_OR_RETURN(const std::vector<T> weights, ReadTreeNumbers<T>(node, prefix + "_weights"));
  for (const auto& [name, length] : {std::pair("_treeids", vote_trees.size()), std::pair("_nodeids", vote_nodes.size()),
                                     std::pair("_weights", weights.size())}) {
    QUERN_RETURN_IF_ERROR(CheckLength(node, prefix + name, length, prefix + "_ids", targets.size()));
  }
  // Votes in the order of their leaves; those of one leaf as they come.
  std::vector<std::pair<int64_t, size_t>> order;
  int64_t last_leaf = 0;
  for (size_t i = 0; i < targets.size(); ++i) {
    if (targets[i] < 0 || targets[i] >= num_targets) {
      return Fault(node, prefix + "_ids holds " + std::to_string(targets[i]) + ", which is outside [0, " +
                             std::to_string(num_targets - 1) + "]");
    }
    const int64_t leaf = index.Find(vote_trees[i], vote_nodes[i], last_leaf);
    if (leaf < 0) {
      return Fault(node, "a vote is for node " + std::to_string(vote_nodes[i]) + " of tree " +
                             std::to_string(vote_trees[i]) + ", which is not there");
    }
    last_leaf = leaf;
    // Old converters wrote votes for branches too; they never count.
    if (e.nodes_[static_cast<size_t>(leaf)].mode == TreeMode::kLeaf) order.emplace_back(leaf, i);
  }
  std::sort(order.begin(), order.end());
  e.votes_.reserve(order.size());
  for (const auto& [leaf, i] : order) {
    TreeNode<T>& n = e.nodes_[static_cast<size_t>(leaf)];
    if (n.first == n.last) n.first = static_cast<int64_t>(e.votes_.size());
    e.votes_.push_back({targets[i], weights[i]});
    n.last = static_cast<int64_t>(e.votes_.size());
  }
  QUERN_RETURN_IF_ERROR(e.CheckWalks(node, num_features));
  return e;
}

template <typename T>
Result<TreeEnsemble<T>> TreeEnsemble<T>::Read5(const Node& node, int64_t num_targets, int64_t num_features) {
  const auto ints = [&](std::string_view name) { return ListAttribute<int64_t>(node, name); };
  const auto numbers = [&](const std::string& name) -> Result<std::vector<T>> {
    const Value* tensor = node.FindAttribute<Value>(name);
    return tensor == nullptr ? std::vector<T>() : TensorNumbers<T>(node, name, *tensor);
  };
  const std::span<const int64_t> roots = ints("tree_roots"), features = ints("nodes_featureids"),
                                 on_true = ints("nodes_truenodeids"), on_false = ints("nodes_falsenodeids"),
                                 true_leafs = ints("nodes_trueleafs"), false_leafs = ints("nodes_falseleafs"),
                                 missing = ints("nodes_missing_value_tracks_true"), targets = ints("leaf_targetids");
  QUERN_ASSIGN_OR_RETURN(const std::vector<T> splits, numbers("nodes_splits"));
  QUERN_ASSIGN_OR_RETURN(const std::vector<T> weights, numbers("leaf_weights"));
  QUERN_ASSIGN_OR_RETURN(const std::vector<T> members, numbers("membership_values"));
  const Value* mode_value = node.FindAttribute<Value>("nodes_modes");
  if (mode_value == nullptr || !mode_value->is_tensor() || mode_value->tensor().dtype() != DType::kU8) {
    return Fault(node, "attribute 'nodes_modes' must be a tensor of u8");
  }
  QUERN_ASSIGN_OR_RETURN(const Tensor modes, mode_value->tensor().Contiguous());
  const size_t count = features.size(), num_leafs = targets.size();
  for (const auto& [name, length] :
       {std::pair("nodes_truenodeids", on_true.size()), std::pair("nodes_falsenodeids", on_false.size()),
        std::pair("nodes_trueleafs", true_leafs.size()), std::pair("nodes_falseleafs", false_leafs.size()),
        std::pair("nodes_splits", splits.size()), std::pair("nodes_modes", modes.values<uint8_t>().size()),
        std::pair("nodes_missing_value_tracks_true", missing.empty() ? count : missing.size())}) {
    QUERN_RETURN_IF_ERROR(CheckLength(node, name, length, "nodes_featureids", count));
  }
  QUERN_RETURN_IF_ERROR(CheckLength(node, "leaf_weights", weights.size(), "leaf_targetids", num_leafs));

  TreeEnsemble e;
  e.nodes_.resize(count + num_leafs);  // the leaves follow the branches
  const auto child = [&](int64_t id, bool leaf) -> Result<int64_t> {
    const size_t extent = leaf ? num_leafs : count;
    if (id >= 0 && static_cast<size_t>(id) < extent) return leaf ? id + static_cast<int64_t>(count) : id;
    return Fault(node, std::string("a node leads to ") + (leaf ? "leaf " : "node ") + std::to_string(id) +
                           ", there are " + std::to_string(extent));
  };
  size_t next_member = 0;
  for (size_t i = 0; i < count; ++i) {
    TreeNode<T>& n = e.nodes_[i];
    const uint8_t mode = modes.values<uint8_t>()[i];
    if (mode > static_cast<uint8_t>(TreeMode::kMember)) {
      return Fault(node, "nodes_modes holds " + std::to_string(mode) + ", it must be 0 to 6");
    }
    n.mode = static_cast<TreeMode>(mode);
    n.missing_tracks_true = !missing.empty() && missing[i] == 1;
    n.feature = features[i];
    n.split = splits[i];
    QUERN_ASSIGN_OR_RETURN(n.on_true, child(on_true[i], true_leafs[i] != 0));
    QUERN_ASSIGN_OR_RETURN(n.on_false, child(on_false[i], false_leafs[i] != 0));
    if (n.mode != TreeMode::kMember) continue;
    // The sets follow one another in the order of the nodes, a NaN after each; the last one may be missing.
    if (next_member > members.size() || members.empty()) {
      return Fault(node, "membership_values holds fewer sets than there are nodes of mode BRANCH_MEMBER");
    }
    n.first = static_cast<int64_t>(e.members_.size());
    while (next_member < members.size() && !std::isnan(members[next_member])) {
      e.members_.push_back(members[next_member++]);
    }
    ++next_member;
    n.last = static_cast<int64_t>(e.members_.size());
    std::sort(e.members_.begin() + n.first, e.members_.end());
  }
  if (next_member < members.size()) {
    return Fault(node, "membership_values holds more sets than there are nodes of mode BRANCH_MEMBER");
  }
  for (size_t i = 0; i < num_leafs; ++i) {
    if (targets[i] < 0 || targets[i] >= num_targets) {
      return Fault(node, "leaf_targetids holds " + std::to_string(targets[i]) + ", which is outside [0, " +
                             std::to_string(num_targets - 1) + "]");
    }
    e.votes_.push_back({targets[i], weights[i]});
    e.nodes_[count + i].first = static_cast<int64_t>(i);
    e.nodes_[count + i].last = static_cast<int64_t>(i) + 1;
  }
  for (const int64_t root : roots) {
    if (root < 0 || static_cast<size_t>(root) >= count) {
      return Fault(node,
                   "tree_roots holds " + std::to_string(root) + ", there are " + std::to_string(count) + " nodes");
    }
    e.roots_.push_back(root);
  }
  QUERN_RETURN_IF_ERROR(e.CheckWalks(node, num_features));
  return e;
}

// Features of the branches and circles below the roots. A node is open while the walk below it goes on.
template <typename T>
Status TreeEnsemble<T>::CheckWalks(const Node& node, int64_t num_features) const {
  for (const TreeNode<T>& n : nodes_) {
    // A tree of one leaf is written as a branch with that leaf on both sides: what it asks does not matter.
    if (n.mode == TreeMode::kLeaf || n.on_true == n.on_false) continue;
    if (n.feature < 0 || n.feature >= num_features) {
      return Fault(node, "nodes_featureids holds " + std::to_string(n.feature) + ", the input has " +
                             std::to_string(num_features) + " features");
    }
  }
  enum class Visit : uint8_t { kNone, kOpen, kDone };
  std::vector<Visit> visits(nodes_.size(), Visit::kNone);
  std::vector<int64_t> stack;
  for (const int64_t root : roots_) {
    stack.push_back(root);
    while (!stack.empty()) {
      const auto at = static_cast<size_t>(stack.back());
      const TreeNode<T>& n = nodes_[at];
      if (visits[at] != Visit::kNone || n.mode == TreeMode::kLeaf) {
        visits[at] = Visit::kDone;
        stack.pop_back();
        continue;
      }
      visits[at] = Visit::kOpen;
      for (const int64_t next : {n.on_true, n.on_false}) {
        const Visit visit = visits[static_cast<size_t>(next)];
        if (visit == Visit::kOpen) return Fault(node, "the nodes of a tree lead in a circle");
        if (visit == Visit::kNone) stack.push_back(next);
      }
    }
  }
  return OkStatus();
}

template <typename T>
bool TreeEnsemble<T>::Asks(const TreeNode<T>& node, T x) const {
  switch (node.mode) {
    case TreeMode::kLeq:
      return x <= node.split;
    case TreeMode::kLt:
      return x < node.split;
    case TreeMode::kGte:
      return x >= node.split;
    case TreeMode::kGt:
      return x > node.split;
    case TreeMode::kEq:
      return x == node.split;
    case TreeMode::kNeq:
      return x != node.split;
    case TreeMode::kMember:
      return std::binary_search(members_.begin() + node.first, members_.begin() + node.last, x);
    case TreeMode::kLeaf:
      break;
  }
  return false;
}

template <typename T>
const TreeNode<T>& TreeEnsemble<T>::Leaf(int64_t root, std::span<const T> row) const {
  const TreeNode<T>* n = &nodes_[static_cast<size_t>(root)];
  while (n->mode != TreeMode::kLeaf) {
    bool yes = false;
    if (n->on_true != n->on_false) {
      const T x = row[static_cast<size_t>(n->feature)];
      const bool missing = std::isnan(x);
      yes = (missing && n->missing_tracks_true) || (!(missing && n->mode == TreeMode::kMember) && Asks(*n, x));
    }
    n = &nodes_[static_cast<size_t>(yes ? n->on_true : n->on_false)];
  }
  return *n;
}

template <typename T>
void TreeEnsemble<T>::Score(std::span<const T> row, TreeAggregate aggregate, std::span<TreeScore<T>> scores) const {
  std::fill(scores.begin(), scores.end(), TreeScore<T>{});
  for (const int64_t root : roots_) {
    const TreeNode<T>& leaf = Leaf(root, row);
    for (int64_t v = leaf.first; v < leaf.last; ++v) {
      const TreeVote<T>& vote = votes_[static_cast<size_t>(v)];
      TreeScore<T>& score = scores[static_cast<size_t>(vote.target)];
      if (aggregate == TreeAggregate::kSum || aggregate == TreeAggregate::kAverage) {
        score.value += vote.weight;
      } else if (!score.voted ||
                 (aggregate == TreeAggregate::kMin ? vote.weight < score.value : vote.weight > score.value)) {
        score.value = vote.weight;
      }
      score.voted = true;
    }
  }
  if (aggregate != TreeAggregate::kAverage || roots_.empty()) return;
  for (TreeScore<T>& score : scores) score.value /= static_cast<T>(roots_.size());
}

Status CheckTreeTargets(const Node& node, int64_t count) {
  if (count >= 1 && count <= kMostTreeTargets) return OkStatus();
  return Fault(node, "n_targets is " + std::to_string(count) + ", it must be 1 to " + std::to_string(kMostTreeTargets));
}

Result<TreeTargets> TreeTargets::Read(const Node& node) {
  TreeTargets targets;
  targets.count = node.GetInt("n_targets", 0);
  QUERN_RETURN_IF_ERROR(CheckTreeTargets(node, targets.count));
  QUERN_ASSIGN_OR_RETURN(targets.transform, ReadPostTransform(node));
  if (node.Is("TreeEnsemble", "ai.onnx.ml")) {
    const int64_t aggregate = node.GetInt("aggregate_function", 1);
    if (aggregate < 0 || aggregate > 3) {
      return Fault(node, "aggregate_function is " + std::to_string(aggregate) + ", it must be 0 to 3");
    }
    targets.aggregate = static_cast<TreeAggregate>(aggregate);
    return targets;
  }
  static constexpr const char* kAggregates[] = {"AVERAGE", "SUM", "MIN", "MAX"};  // in the order of TreeAggregate
  const std::string name = node.GetString("aggregate_function", "SUM");
  const auto* found = std::find(std::begin(kAggregates), std::end(kAggregates), name);
  if (found == std::end(kAggregates)) {
    return Fault(node, "aggregate_function is '" + name + "', one of AVERAGE, SUM, MIN and MAX is needed");
  }
  targets.aggregate = static_cast<TreeAggregate>(found - std::begin(kAggregates));
  return targets;
}

template <typename T>
Status WriteTreeTargets(EvalContext& c, const TreeEnsemble<T>& trees, const FeatureRows<T>& x,
                        const TreeTargets& targets, std::span<const T> base, DType dtype) {
  if (!base.empty() && static_cast<int64_t>(base.size()) != targets.count) {
    return c.Error("base_values has " + std::to_string(base.size()) + " values for " + std::to_string(targets.count) +
                   " targets");
  }
  QUERN_ASSIGN_OR_RETURN(const Tensor y, c.AllocateOutput(0, dtype, Shape{x.num_rows(), targets.count}));
  std::vector<TreeScore<T>> votes(static_cast<size_t>(targets.count));
  std::vector<double> scores(votes.size());
  const size_t row_bytes = votes.size() * DTypeBytes(dtype);
  for (int64_t n = 0; n < x.num_rows(); ++n) {
    trees.Score(x.row(n), targets.aggregate, votes);
    for (size_t t = 0; t < votes.size(); ++t) {
      scores[t] = double{base.empty() ? votes[t].value : votes[t].value + base[t]};
    }
    ApplyPostTransform(targets.transform, scores);
    NarrowFloats<double>(scores.data(), targets.count, dtype,
                         static_cast<char*>(y.raw_data()) + static_cast<size_t>(n) * row_bytes);
  }
  return OkStatus();
}

template Status WriteTreeTargets<float>(EvalContext&, const TreeEnsemble<float>&, const FeatureRows<float>&,
                                        const TreeTargets&, std::span<const float>, DType);
template Status WriteTreeTargets<double>(EvalContext&, const TreeEnsemble<double>&, const FeatureRows<double>&,
                                         const TreeTargets&, std::span<const double>, DType);
template Result<std::vector<float>> ReadTreeNumbers<float>(const Node&, std::string_view);
template Result<std::vector<double>> ReadTreeNumbers<double>(const Node&, std::string_view);
template class TreeEnsemble<float>;
template class TreeEnsemble<double>;

}  // namespace quern
