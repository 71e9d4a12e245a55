// Decision trees laid out for walking: small nodes in one array, several rows walked at once so that their loads
// overlap. Sums are made in the order of the trees, as the reference makes them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ops/common/tree_ensemble.h"

namespace quern::cpu {

template <typename T>
class FlatTrees {
 public:
  static Result<FlatTrees> Make(const TreeEnsemble<T>& from) {
    if (from.nodes().size() > kMost || from.votes().size() > kMost || from.members().size() > kMost) {
      return Unsupported("trees of " + std::to_string(from.nodes().size()) + " nodes");
    }
    FlatTrees f;
    const std::vector<int32_t> settled = Settled(from.nodes());
    bool first = true;
    for (const TreeNode<T>& n : from.nodes()) {
      f.modes_.push_back(n.mode);
      const bool asks = n.mode != TreeMode::kLeaf && n.on_true != n.on_false;
      if (!asks) {
        const bool leaf = n.mode == TreeMode::kLeaf;
        f.nodes_.push_back(
            {0, kLeaf, {static_cast<int32_t>(leaf ? n.first : 0), static_cast<int32_t>(leaf ? n.last : 0)}});
        continue;
      }
      if (n.feature >= kMissing) return Unsupported("a tree that asks for feature " + std::to_string(n.feature));
      const auto feature = static_cast<int32_t>(n.feature);
      f.features_ = std::max(f.features_, n.feature + 1);
      f.nodes_.push_back(
          {n.split, n.missing_tracks_true ? feature | kMissing : feature, {settled[n.on_true], settled[n.on_false]}});
      f.one_mode_ = n.mode != TreeMode::kMember && (first || (f.one_mode_ && n.mode == f.mode_));
      f.mode_ = n.mode;
      first = false;
    }
    if (!f.one_mode_) {
      for (const TreeNode<T>& n : from.nodes()) f.sets_.emplace_back(n.first, n.last);
    }
    for (const int64_t root : from.roots()) f.roots_.push_back(settled[root]);
    f.votes_.assign(from.votes().begin(), from.votes().end());
    f.members_.assign(from.members().begin(), from.members().end());
    return f;
  }

  int64_t num_features() const { return features_; }  // that some node asks for, at least
  int64_t num_trees() const { return static_cast<int64_t>(roots_.size()); }

  // Scores [rows, targets] for x [rows, stride].
  void Score(const T* x, int64_t rows, int64_t stride, TreeAggregate aggregate, int64_t targets,
             TreeScore<T>* scores) const {
    std::fill_n(scores, rows * targets, TreeScore<T>{});
    switch (one_mode_ ? mode_ : TreeMode::kMember) {
      case TreeMode::kLeq:
        return ScoreAll<TreeMode::kLeq>(x, rows, stride, aggregate, targets, scores);
      case TreeMode::kLt:
        return ScoreAll<TreeMode::kLt>(x, rows, stride, aggregate, targets, scores);
      case TreeMode::kGte:
        return ScoreAll<TreeMode::kGte>(x, rows, stride, aggregate, targets, scores);
      case TreeMode::kGt:
        return ScoreAll<TreeMode::kGt>(x, rows, stride, aggregate, targets, scores);
      case TreeMode::kEq:
        return ScoreAll<TreeMode::kEq>(x, rows, stride, aggregate, targets, scores);
      case TreeMode::kNeq:
        return ScoreAll<TreeMode::kNeq>(x, rows, stride, aggregate, targets, scores);
      default:
        return ScoreAll<TreeMode::kMember>(x, rows, stride, aggregate, targets, scores);
    }
  }

 private:
  static constexpr int32_t kLeaf = -1, kMissing = 1 << 30;  // the latter: a NaN tracks true
  static constexpr size_t kMost = std::numeric_limits<int32_t>::max();
  static constexpr int64_t kLanes = 8;  // rows walked at once

  struct Node {
    T split;
    int32_t feature;  // kLeaf: none
    int32_t next[2];  // on true, on false; of a leaf: its votes
  };

  // A branch whose both sides are one node asks nothing: what leads to it leads on. Such branches that no root leads to
  // may go in a circle; any of them ends it.
  static std::vector<int32_t> Settled(std::span<const TreeNode<T>> nodes) {
    std::vector<int32_t> end(nodes.size(), -1), path;
    for (size_t i = 0; i < nodes.size(); ++i) {
      auto at = static_cast<int32_t>(i);
      path.clear();
      while (end[at] < 0) {
        end[at] = at;
        path.push_back(at);
        const TreeNode<T>& n = nodes[at];
        if (n.mode != TreeMode::kLeaf && n.on_true == n.on_false) at = static_cast<int32_t>(n.on_true);
      }
      for (const int32_t p : path) end[p] = end[at];
    }
    return end;
  }

  static bool Asks(TreeMode mode, T x, T split) {
    switch (mode) {
      case TreeMode::kLeq:
        return x <= split;
      case TreeMode::kLt:
        return x < split;
      case TreeMode::kGte:
        return x >= split;
      case TreeMode::kGt:
        return x > split;
      case TreeMode::kEq:
        return x == split;
      default:
        return x != split;
    }
  }
  bool AsksAny(int32_t at, T x) const {
    if (modes_[static_cast<size_t>(at)] != TreeMode::kMember) {
      return Asks(modes_[static_cast<size_t>(at)], x, nodes_[static_cast<size_t>(at)].split);
    }
    const auto [first, last] = sets_[static_cast<size_t>(at)];
    return x == x && std::binary_search(members_.begin() + first, members_.begin() + last, x);
  }

  // kMode: of all nodes; kMember stands for any modes.
  template <TreeMode kMode>
  void ScoreAll(const T* x, int64_t rows, int64_t stride, TreeAggregate aggregate, int64_t targets,
                TreeScore<T>* scores) const {
    for (int64_t r = 0; r < rows; r += kLanes) {
      const int64_t lanes = std::min(kLanes, rows - r);
      for (const int32_t root : roots_) {
        int32_t at[kLanes];
        std::fill_n(at, kLanes, root);
        for (bool walking = true; walking;) {
          walking = false;
          for (int64_t k = 0; k < lanes; ++k) {
            const Node& n = nodes_[static_cast<size_t>(at[k])];
            if (n.feature < 0) continue;
            walking = true;
            const T v = x[(r + k) * stride + (n.feature & (kMissing - 1))];
            const bool asks = kMode == TreeMode::kMember ? AsksAny(at[k], v) : Asks(kMode, v, n.split);
            at[k] = n.next[(asks | ((v != v) & ((n.feature & kMissing) != 0))) ? 0 : 1];
          }
        }
        for (int64_t k = 0; k < lanes; ++k)
          Vote(nodes_[static_cast<size_t>(at[k])], aggregate, scores + (r + k) * targets);
      }
    }
    if (aggregate != TreeAggregate::kAverage || roots_.empty()) return;
    for (int64_t i = 0; i < rows * targets; ++i) scores[i].value /= static_cast<T>(roots_.size());
  }

  void Vote(const Node& leaf, TreeAggregate aggregate, TreeScore<T>* scores) const {
    for (int32_t i = leaf.next[0]; i < leaf.next[1]; ++i) {
      const TreeVote<T>& vote = votes_[static_cast<size_t>(i)];
      TreeScore<T>& s = scores[vote.target];
      if (aggregate == TreeAggregate::kSum || aggregate == TreeAggregate::kAverage) {
        s.value += vote.weight;
      } else if (!s.voted || (aggregate == TreeAggregate::kMin ? vote.weight < s.value : vote.weight > s.value)) {
        s.value = vote.weight;
      }
      s.voted = true;
    }
  }

  std::vector<Node> nodes_;
  std::vector<TreeMode> modes_;
  std::vector<std::pair<int64_t, int64_t>> sets_;  // members of each node, where there are several modes
  std::vector<int32_t> roots_;
  std::vector<TreeVote<T>> votes_;
  std::vector<T> members_;
  TreeMode mode_ = TreeMode::kLeq;
  bool one_mode_ = true;
  int64_t features_ = 0;
};

}  // namespace quern::cpu
