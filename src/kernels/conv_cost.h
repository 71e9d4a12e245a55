// What convolutions by different algorithms are expected to cost, so that they can be compared. Estimates, in cycles of
// one core.
#pragma once

#include <cstddef>

#include "kernels/conv.h"
#include "kernels/select.h"

namespace quern::kernels {

// What is expected to be less than so much faster is not worth another form of the weights.
constexpr double kWorthwhileShare = 0.85;

// Output pixels of an image, also where they are not known.
size_t ExpectedPixels(const ConvProblem& problem);

// A float32 product of `m` rows by `k` input channels, with as many columns as there are output channels.
GemmProblem ProductOf(const ConvProblem& problem, size_t m, size_t k);

// All products of `product`, of expected_m rows; 0 without a row for them.
double ProductCycles(const GemmProblem& product, const SelectOptions& options);

// `cycles` of products, with `weights` floats for each pair of channels, which come from memory in each run of a model.
double WithWeights(double cycles, size_t weights, const ConvProblem& problem, const SelectOptions& options);

// Of the direct algorithm, of one group and slice; 0 without a row for its products.
double DirectCycles(const ConvProblem& problem, const SelectOptions& options);

}  // namespace quern::kernels
