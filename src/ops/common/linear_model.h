// The attributes of LinearClassifier and LinearRegressor of ai.onnx.ml: linear functions of a row of features.
#pragma once

#include <span>

#include "ops/common/ml_rows.h"
#include "ops/common/post_transform.h"

namespace quern {

// Views the attributes of the node.
struct LinearModel {
  PostTransform transform = PostTransform::kNone;
  ClassLabels labels;                   // none: a regression
  int64_t results = 1;                  // of a row: scores of the labels, or targets
  std::span<const float> coefficients;  // (functions, features)
  std::span<const float> intercepts;    // (functions), or empty

  static Result<LinearModel> Read(const Node& node);
  // Linear functions for rows of so many features: one for each result, or one for two labels. Where the features are
  // not known, the intercepts tell which. An error unless there are as many coefficients and intercepts.
  Result<int64_t> CountFunctions(const Node& node, const Dim& features) const;
  // Features of a row for so many functions.
  int64_t CountFeatures(int64_t functions) const { return static_cast<int64_t>(coefficients.size()) / functions; }
};

}  // namespace quern
