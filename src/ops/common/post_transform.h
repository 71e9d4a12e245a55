// What a model of ai.onnx.ml does with its scores before it writes them.
#pragma once

#include <array>
#include <span>

#include "ops/op.h"

namespace quern {

// In the numbers that TreeEnsemble 5 gives them.
enum class PostTransform : uint8_t { kNone = 0, kSoftmax = 1, kLogistic = 2, kSoftmaxZero = 3, kProbit = 4 };

// Attribute 'post_transform': one of the names, or (TreeEnsemble) a number.
Result<PostTransform> ReadPostTransform(const Node& node);

// 1 / (1 + exp(-x)) in float and for negative x as 1 - P(-x), so that it is 0 below -17.4, like onnxruntime's: it shows
// where scores that are all small are divided by their sum afterwards.
double Logistic(double x);
// The quantile of the standard normal distribution by Winitzki's formula for the inverse error function, which is what
// onnxruntime computes: within 0.4% of the exact one.
double Probit(double p);

// Transforms the scores of one row in place.
void ApplyPostTransform(PostTransform transform, std::span<double> scores);

// The two scores that a classifier of two classes makes of the one that it has, as onnxruntime does: (P(-s), P(s)) with
// LOGISTIC, else the second is s and the first is this:
enum class FirstScore { kNegated, kComplement };  // -s, or 1 - s for what looks like a probability
std::array<double, 2> BinaryScores(PostTransform transform, double score, FirstScore first);

inline constexpr AttrSpec kPostTransformAttribute = {"post_transform", AttrType::kString, false, "NONE"};

}  // namespace quern
