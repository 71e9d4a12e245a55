// Losses of labelled samples: NegativeLogLikelihoodLoss and SoftmaxCrossEntropyLoss. Input 0 is [batch, classes,
// positions...], input 1 holds a class for each [batch, positions...], input 2 (optional) a weight for each class.
#pragma once

#include <string>

#include "ops/common/elements.h"
#include "ops/common/float_io.h"
#include "ops/op.h"

namespace quern {

// Output 0 has the labels' shape (attribute reduction is 'none') or is a scalar; output 1 has input 0's shape.
Status InferClassLoss(InferContext& context);

// Input 0 as [batch, classes, positions].
struct ClassLossSizes {
  int64_t batch, classes, positions;

  explicit ClassLossSizes(const Shape& s) : batch(s[0]), classes(s[1]), positions(s.num_elements(2, s.rank())) {}
  int64_t At(int64_t sample, int64_t label, int64_t position) const {
    return (sample * classes + label) * positions + position;
  }
};

// Output 0: minus weight times log_probability(sample, class, position) of each label, reduced. A sample of class
// ignore_index has loss and weight 0. 'mean' divides by the sum of the weights.
template <typename T, typename F>
Status WriteClassLoss(EvalContext& c, const InferredOutputs& outputs, F log_probability) {
  const ClassLossSizes sizes(c.input(0).shape());
  QUERN_ASSIGN_OR_RETURN(const std::vector<int64_t> labels, ReadInts(c, 1));
  QUERN_ASSIGN_OR_RETURN(const FloatInput<T> weights, ReadFloats<T>(c, 2));
  QUERN_ASSIGN_OR_RETURN(FloatOutput<T> y, WriteFloats<T>(c, outputs, 0));
  const std::string reduction = c.node().GetString("reduction", "mean");
  const int64_t* ignored = c.node().FindAttribute<int64_t>("ignore_index");
  double sum = 0, total_weight = 0;
  for (int64_t i = 0; i < static_cast<int64_t>(labels.size()); ++i) {
    const int64_t label = labels[i];
    double loss = 0;
    if (ignored == nullptr || label != *ignored) {
      if (label < 0 || label >= sizes.classes) {
        return c.Error("label " + std::to_string(label) + " is outside [0, " + std::to_string(sizes.classes - 1) +
                       "] and not 'ignore_index'");
      }
      const double weight = weights ? static_cast<double>(weights[label]) : 1.0;
      loss = -weight * log_probability(i / sizes.positions, label, i % sizes.positions);
      total_weight += weight;
    }
    if (reduction == "none") y[i] = static_cast<T>(loss);
    sum += loss;
  }
  if (reduction != "none") y[0] = static_cast<T>(reduction == "mean" ? sum / total_weight : sum);
  y.Finish();
  return OkStatus();
}

inline constexpr AttrSpec kClassLossAttributes[] = {{"ignore_index", AttrType::kInt},
                                                    {"reduction", AttrType::kString, false, "mean"}};
inline constexpr TypeSet kLabelTypes = {DType::kI32, DType::kI64};

}  // namespace quern
