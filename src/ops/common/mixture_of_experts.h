// What MoE and QMoE of com.microsoft share: attributes, shapes, the choice of experts, and what an expert computes.
// Each token goes through its best experts: y = sum of weight * (W2 h + b2), h = activation(W1 x + b1), or h gated by a
// second product.
#pragma once

#include <cmath>
#include <functional>

#include "ops/common/float_io.h"
#include "ops/op.h"

namespace quern {

// The attributes.
struct ExpertForm {
  enum class Activation : uint8_t { kRelu, kGelu /* by tanh */, kSilu, kIdentity };
  // Where the second product comes from that the activation is multiplied with.
  enum class Gate : uint8_t {
    kNone,
    kInterleaved,  // odd rows of W1; even ones go through the activation
    kHalves,       // the second half of W1
    kOwn           // W3
  };
  Activation activation = Activation::kRelu;
  Gate gate = Gate::kNone;
  int64_t top = 1;          // experts of a token
  bool normalizes = false;  // the weights of a token's experts add up to 1
  // SwiGLU: g * sigmoid(alpha * g) * (l + beta), g at most `limit`, l within [-limit, limit]; silu alone has alpha 1.
  float alpha = 1, beta = 0, limit = INFINITY;

  // `own_gate`: the node has weights W3.
  static Result<ExpertForm> Read(const Node& node, bool own_gate);
  // Rows of W1 for each of an expert's hidden units.
  int64_t fused() const { return gate == Gate::kInterleaved || gate == Gate::kHalves ? 2 : 1; }
};

// A choice of an expert, and the weight of what it gives.
struct Route {
  int32_t expert;
  float weight;
};

// How scores become weights: MoE takes the softmax over all experts, QMoE that over the chosen ones; given weights
// stand in for it.
enum class RouteWeights : uint8_t { kSoftmaxOfAll, kSoftmaxOfChosen, kGiven };

// The form.top best of n experts by score, of equal ones the later first; `given`: the weights for kGiven. `routes` has
// room for form.top.
void ChooseExperts(const ExpertForm& form, RouteWeights by, int64_t n, const float* scores, const float* given,
                   Route* routes);

struct ExpertSizes {
  int64_t tokens = 0, experts = 0, hidden = 0, units = 0;  // `hidden` of a token, `units` within an expert

  static ExpertSizes Of(const Shape& x, const Shape& w1, const ExpertForm& form) {
    return {
        .tokens = x.num_elements(0, x.rank() - 1), .experts = w1[0], .hidden = x.back(), .units = w1[1] / form.fused()};
  }
};

// Which inputs hold what; -1: the operator has none.
struct ExpertInputs {
  int x, scores, w1, b1, w2, b2, w3, b3, given_weights;
};
inline constexpr ExpertInputs kMoeInputs = {0, 1, 2, 3, 4, 5, 6, 7, -1};
inline constexpr ExpertInputs kQMoeInputs = {0, 1, 2, 4, 5, 7, 8, 10, 14};

// Checks shapes and gives the output the input's. Elements of a byte of W1, W2 and W3: for weights of fewer than 8
// bits.
Status InferExperts(InferContext& context, const ExpertInputs& inputs, const int64_t (&packed)[3]);

// The reference: multiply(0 for W1, 1 for W2, 2 for W3, expert, x, y) adds a product to y.
using ExpertProduct = std::function<void(int weights, int64_t expert, const double* x, double* y)>;
Status EvaluateExperts(EvalContext& context, const ExpertInputs& inputs, const ExpertForm& form,
                       const ExpertSizes& sizes, RouteWeights by, const InferredOutputs& outputs,
                       const ExpertProduct& multiply);

}  // namespace quern
