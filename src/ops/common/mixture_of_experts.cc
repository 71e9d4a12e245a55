#include "ops/common/mixture_of_experts.h"

#include <algorithm>
#include <string>

#include "ops/common/head_attention.h"
#include "ops/common/infer_common.h"

namespace quern {
namespace {

double Activate(const ExpertForm& form, double v) {
  switch (form.activation) {
    case ExpertForm::Activation::kRelu:
      return v < 0 ? 0.0 : v;
    case ExpertForm::Activation::kGelu:
      return 0.5 * v * (1 + std::tanh(std::sqrt(2 / M_PI) * (v + 0.044715 * v * v * v)));
    case ExpertForm::Activation::kSilu:
      return v / (1 + std::exp(-static_cast<double>(form.alpha) * v));
    case ExpertForm::Activation::kIdentity:
      return v;
  }
  return v;
}

double Gated(const ExpertForm& form, double g, double l) {
  const double limit = form.limit;
  if (g > limit) g = limit;
  l = l > limit ? limit : l < -limit ? -limit : l;
  return Activate(form, g) * (l + form.beta);
}

}  // namespace

Result<ExpertForm> ExpertForm::Read(const Node& node, bool own_gate) {
  ExpertForm f;
  f.top = node.GetInt("k", 1);
  f.normalizes = node.GetInt("normalize_routing_weights", 0) != 0;
  if (f.top < 1) {
    return InvalidArgument(node.Describe() + ": 'k' is " + std::to_string(f.top) + "; at least 1 is needed");
  }
  if (node.GetInt("use_sparse_mixer", 0) != 0) {
    return Unsupported(node.Describe() + ": 'use_sparse_mixer' is not supported");
  }
  if (own_gate) f.gate = Gate::kOwn;
  const std::string name = node.GetString("activation_type", "relu");
  if (name == "swiglu") {
    f.activation = Activation::kSilu;
    f.alpha = node.GetFloat("activation_alpha", 1);
    f.beta = node.GetFloat("activation_beta", 0);
    if (const float* limit = node.FindAttribute<float>("swiglu_limit")) f.limit = *limit;
    const int64_t fusion = node.GetInt("swiglu_fusion", 0);
    if (fusion < 0 || fusion > 2) {
      return InvalidArgument(node.Describe() + ": 'swiglu_fusion' is " + std::to_string(fusion) +
                             "; 0, 1 or 2 is needed");
    }
    if ((fusion == 0) != own_gate) {
      return InvalidArgument(node.Describe() + ": activation swiglu needs either 'swiglu_fusion' 1 or 2, or weights " +
                             "fc3_experts_weights");
    }
    if (fusion > 0) f.gate = fusion == 1 ? Gate::kInterleaved : Gate::kHalves;
    return f;
  }
  constexpr std::pair<const char*, Activation> kNames[] = {{"relu", Activation::kRelu},
                                                           {"gelu", Activation::kGelu},
                                                           {"silu", Activation::kSilu},
                                                           {"identity", Activation::kIdentity}};
  for (const auto& [known, activation] : kNames) {
    if (name != known) continue;
    f.activation = activation;
    return f;
  }
  return InvalidArgument(node.Describe() + ": 'activation_type' is '" + name +
                         "'; relu, gelu, silu, swiglu or identity is needed");
}

void ChooseExperts(const ExpertForm& form, RouteWeights by, int64_t n, const float* scores, const float* given,
                   Route* routes) {
  int64_t count = 0;
  for (int32_t e = 0; e < n; ++e) {
    int64_t place = count;
    while (place > 0 && !(scores[e] < scores[routes[place - 1].expert])) --place;
    if (place == form.top) continue;
    count = std::min(count + 1, form.top);
    std::copy_backward(routes + place, routes + count - 1, routes + count);
    routes[place].expert = e;
  }
  const float largest = scores[routes[0].expert];
  float sum = 0;
  for (int64_t i = 0; i < form.top; ++i) {
    Route& r = routes[i];
    r.weight = by == RouteWeights::kGiven ? given[r.expert] : std::exp(scores[r.expert] - largest);
    sum += r.weight;
  }
  if (by == RouteWeights::kGiven && !form.normalizes) return;
  if (by == RouteWeights::kSoftmaxOfAll && !form.normalizes) {
    sum = 0;
    for (int64_t e = 0; e < n; ++e) sum += std::exp(scores[e] - largest);
  }
  for (int64_t i = 0; i < form.top; ++i) routes[i].weight /= sum;
}

Status InferExperts(InferContext& c, const ExpertInputs& in, const int64_t (&packed)[3]) {
  const auto given = [&](int i) { return i >= 0 && c.HasInput(i); };
  QUERN_ASSIGN_OR_RETURN(const ExpertForm form, ExpertForm::Read(c.node(), given(in.w3)));
  const std::optional<Dims> x = c.input_shape(in.x), w1 = c.input_shape(in.w1);
  for (const int i : {in.w1, in.w2}) {
    const std::optional<Dims> shape = c.input_shape(i);
    if (shape && shape->size() != 3) {
      return c.Error("input '" + c.node().input(i)->name() + "' has shape " + DimsToString(*shape) +
                     "; three dimensions are needed");
    }
  }
  if (x && x->size() != 2 && x->size() != 3) {
    return c.Error("the input has shape " + DimsToString(*x) + "; two or three dimensions are needed");
  }
  c.SetOutputType(0, ValueType::Tensor(c.input_dtype(in.x), x));
  if (!x || !w1) return OkStatus();
  const Dim &hidden = x->back(), &experts = (*w1)[0], &rows = (*w1)[1];
  if (rows.is_constant() && rows.value() % form.fused() != 0) {
    return c.Error("fc1_experts_weights has " + rows.ToString() +
                   " rows for each expert; the fused SwiGLU needs pairs");
  }
  const Dim units = Dim::FloorDiv(rows, form.fused());
  Dim tokens = 1;
  for (size_t d = 0; d + 1 < x->size(); ++d) tokens = tokens * (*x)[d];
  if (experts.is_constant() && experts.value() < form.top) {
    return c.Error("'k' is " + std::to_string(form.top) + " but there are " + experts.ToString() + " experts");
  }
  const auto check = [&](int i, const Dims& want) { return i < 0 ? OkStatus() : CheckInputShape(c, i, want); };
  QUERN_RETURN_IF_ERROR(check(in.scores, {tokens, experts}));
  QUERN_RETURN_IF_ERROR(check(in.given_weights, {tokens, experts}));
  QUERN_RETURN_IF_ERROR(check(in.w1, {experts, rows, Dim::FloorDiv(hidden, packed[0])}));
  QUERN_RETURN_IF_ERROR(check(in.b1, {experts, rows}));
  QUERN_RETURN_IF_ERROR(check(in.w2, {experts, hidden, Dim::FloorDiv(units, packed[1])}));
  QUERN_RETURN_IF_ERROR(check(in.b2, {experts, hidden}));
  QUERN_RETURN_IF_ERROR(check(in.w3, {experts, units, Dim::FloorDiv(hidden, packed[2])}));
  return check(in.b3, {experts, units});
}

Status EvaluateExperts(EvalContext& c, const ExpertInputs& in, const ExpertForm& form, const ExpertSizes& s,
                       RouteWeights by, const InferredOutputs& outputs, const ExpertProduct& multiply) {
  QUERN_ASSIGN_OR_RETURN(const FloatInput<float> x, ReadFloats<float>(c, in.x));
  QUERN_ASSIGN_OR_RETURN(const FloatInput<float> scores, ReadFloats<float>(c, in.scores));
  FloatInput<float> given, biases[3];
  if (in.given_weights >= 0) {
    QUERN_ASSIGN_OR_RETURN(given, ReadFloats<float>(c, in.given_weights));
  }
  const int bias_inputs[3] = {in.b1, in.b2, in.b3};
  for (int i = 0; i < 3; ++i) {
    QUERN_ASSIGN_OR_RETURN(biases[i], ReadFloats<float>(c, bias_inputs[i]));
  }
  const int64_t rows = s.units * form.fused();
  std::vector<double> token(static_cast<size_t>(s.hidden)), y(token.size()), part(token.size());
  std::vector<double> first(static_cast<size_t>(rows)), second(static_cast<size_t>(s.units)), units(second.size());
  std::vector<Route> routes(static_cast<size_t>(form.top));
  const auto product = [&](int i, int64_t expert, const std::vector<double>& from, std::vector<double>& to) {
    const auto n = static_cast<int64_t>(to.size());
    for (int64_t r = 0; r < n; ++r) to[r] = biases[i] ? static_cast<double>(biases[i][expert * n + r]) : 0.0;
    multiply(i, expert, from.data(), to.data());
  };
  QUERN_ASSIGN_OR_RETURN(FloatOutput<float> result, WriteFloats<float>(c, outputs, 0));
  for (int64_t t = 0; t < s.tokens; ++t) {
    const RouteWeights weights = given ? RouteWeights::kGiven : by;
    ChooseExperts(form, weights, s.experts, scores.data() + t * s.experts,
                  given ? given.data() + t * s.experts : nullptr, routes.data());
    for (int64_t i = 0; i < s.hidden; ++i) token[i] = static_cast<double>(x[t * s.hidden + i]);
    std::fill(y.begin(), y.end(), 0.0);
    for (const Route& route : routes) {
      product(0, route.expert, token, first);
      if (form.gate == ExpertForm::Gate::kOwn) product(2, route.expert, token, second);
      for (int64_t u = 0; u < s.units; ++u) {
        switch (form.gate) {
          case ExpertForm::Gate::kNone:
            units[u] = Activate(form, first[u]);
            break;
          case ExpertForm::Gate::kInterleaved:
            units[u] = Gated(form, first[2 * u], first[2 * u + 1]);
            break;
          case ExpertForm::Gate::kHalves:
            units[u] = Gated(form, first[u], first[s.units + u]);
            break;
          case ExpertForm::Gate::kOwn:
            units[u] = Gated(form, first[u], second[u]);
            break;
        }
      }
      product(1, route.expert, units, part);
      for (int64_t i = 0; i < s.hidden; ++i) y[i] += static_cast<double>(route.weight) * part[i];
    }
    for (int64_t i = 0; i < s.hidden; ++i) result[t * s.hidden + i] = static_cast<float>(y[i]);
  }
  result.Finish();
  return OkStatus();
}

}  // namespace quern
