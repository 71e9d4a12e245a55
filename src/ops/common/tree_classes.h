// What TreeEnsembleClassifier makes of the votes of its trees: labels and scores. Where the specification is silent
// (two classes), they are onnxruntime's.
#pragma once

#include <span>
#include <vector>

#include "ops/common/ml_rows.h"
#include "ops/common/post_transform.h"
#include "ops/common/tree_ensemble.h"

namespace quern {

struct TreeClasses {
  ClassLabels labels;
  PostTransform transform = PostTransform::kNone;
  // Every vote is for the same one of two classes: its score tells both.
  bool one_score = false;
  bool positive = true;  // no vote has a negative weight: scores look like probabilities

  // Labels and post_transform alone.
  static Result<TreeClasses> ReadLabels(const Node& node);
};

// Of a row: the label with this index, or (integer labels) this number.
struct TreeLabel {
  int64_t value = 0;
  bool is_number = false;
};

template <typename T>
struct TreeClassifier {
  TreeClasses classes;
  std::vector<T> base;  // empty, one for each class, or one for both of two

  static Result<TreeClassifier> Read(const Node& node);
  // `scores`, one per class, are changed; `scratch` is as long; out: the row of scores.
  TreeLabel Finish(std::span<TreeScore<T>> scores, std::span<double> scratch, float* out) const;
};

// True when the trees compare and add in double.
bool TreeClassifierNeedsDoubles(const Node& node, DType input);

}  // namespace quern
