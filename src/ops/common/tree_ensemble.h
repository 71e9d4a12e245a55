// Ensembles of decision trees: one form for the attributes of TreeEnsembleClassifier, TreeEnsembleRegressor and
// TreeEnsemble, checked once, then walked row by row.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "ops/common/ml_rows.h"
#include "ops/common/post_transform.h"
#include "ops/op.h"

namespace quern {

// What a node asks of its feature; a leaf asks nothing. Branches in the numbers of TreeEnsemble 5.
enum class TreeMode : uint8_t { kLeq = 0, kLt = 1, kGte = 2, kGt = 3, kEq = 4, kNeq = 5, kMember = 6, kLeaf = 7 };

template <typename T>
struct TreeNode {
  TreeMode mode = TreeMode::kLeaf;
  bool missing_tracks_true = false;  // where a NaN goes
  int64_t feature = 0;
  T split = 0;
  int64_t on_true = 0, on_false = 0;  // the nodes that follow a branch
  int64_t first = 0, last = 0;        // a leaf: its votes [first, last); kMember: its members
};

template <typename T>
struct TreeVote {
  int64_t target;
  T weight;
};

// An element of a row of scores; targets without a vote are told from those with votes of 0.
template <typename T>
struct TreeScore {
  T value = 0;
  bool voted = false;
};

enum class TreeAggregate { kAverage = 0, kSum = 1, kMin = 2, kMax = 3 };

// T: the type that features, splits and weights are compared and added in (float or double).
template <typename T>
class TreeEnsemble {
 public:
  // Attributes nodes_*, and votes "class_*" or "target_*". Every index is checked, and that no walk goes in a circle;
  // several nodes may lead to the same one.
  static Result<TreeEnsemble> Read(const Node& node, std::string_view votes, int64_t num_targets, int64_t num_features);
  // The attributes of TreeEnsemble 5.
  static Result<TreeEnsemble> Read5(const Node& node, int64_t num_targets, int64_t num_features);

  // The votes of all trees for a row of features. Added up in T and in the order of the trees, so that scores which
  // stand exactly on a bound of a decision do so here as in onnxruntime.
  void Score(std::span<const T> row, TreeAggregate aggregate, std::span<TreeScore<T>> scores) const;

  // Where the trees begin; what their nodes, votes and members are.
  std::span<const int64_t> roots() const { return roots_; }
  std::span<const TreeNode<T>> nodes() const { return nodes_; }
  std::span<const TreeVote<T>> votes() const { return votes_; }
  std::span<const T> members() const { return members_; }

 private:
  const TreeNode<T>& Leaf(int64_t root, std::span<const T> row) const;
  bool Asks(const TreeNode<T>& node, T x) const;
  Status CheckWalks(const Node& node, int64_t num_features) const;

  std::vector<TreeNode<T>> nodes_;
  std::vector<int64_t> roots_;
  std::vector<TreeVote<T>> votes_;
  std::vector<T> members_;  // of each kMember node, ascending
};

// The floats of attribute `name` or of tensor attribute `name`_as_tensor; an error when both are given.
template <typename T>
Result<std::vector<T>> ReadTreeNumbers(const Node& node, std::string_view name);
// True when one of the tensor attributes with these names holds doubles.
bool HoldsDoubles(const Node& node, std::initializer_list<std::string_view> names);

// More targets than any model has: a row of scores is kept for them.
inline constexpr int64_t kMostTreeTargets = int64_t{1} << 24;

// What the regressions by trees have in common once their attributes are read.
struct TreeTargets {
  int64_t count = 1;
  TreeAggregate aggregate = TreeAggregate::kSum;
  PostTransform transform = PostTransform::kNone;

  // Of a TreeEnsembleRegressor, or of a TreeEnsemble 5.
  static Result<TreeTargets> Read(const Node& node);
};
// An error for no targets or too many.
Status CheckTreeTargets(const Node& node, int64_t count);
// Output 0, [N, targets] of type `dtype`: aggregated votes plus `base` (one per target, or none), transformed.
template <typename T>
Status WriteTreeTargets(EvalContext& c, const TreeEnsemble<T>& trees, const FeatureRows<T>& x,
                        const TreeTargets& targets, std::span<const T> base, DType dtype);

}  // namespace quern
