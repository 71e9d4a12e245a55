#include "ops/common/recurrent.h"

#include <cctype>
#include <cmath>

#include "ops/common/input_shape.h"

namespace quern {
namespace {

struct ActivationRow {
  const char* name;  // lower case; rows in the order of ActivationKind
  bool has_alpha, has_beta;
  float alpha, beta;  // defaults: those of the operators of the same name
};
constexpr ActivationRow kActivations[] = {
    {"affine", true, true, 1.0f, 0.0f},          {"elu", true, false, 1.0f, 0.0f},
    {"hardsigmoid", true, true, 0.2f, 0.5f},     {"leakyrelu", true, false, 0.01f, 0.0f},
    {"relu", false, false, 0.0f, 0.0f},          {"scaledtanh", true, true, 1.0f, 1.0f},
    {"sigmoid", false, false, 0.0f, 0.0f},       {"softplus", false, false, 0.0f, 0.0f},
    {"softsign", false, false, 0.0f, 0.0f},      {"tanh", false, false, 0.0f, 0.0f},
    {"thresholdedrelu", true, false, 1.0f, 0.0f}};

const ActivationRow& RowOf(ActivationKind kind) { return kActivations[static_cast<size_t>(kind)]; }

}  // namespace

Status InferRecurrent(InferContext& c, int gates, bool has_cell) {
  const std::string direction = c.node().GetString("direction", "forward");
  if (direction != "forward" && direction != "reverse" && direction != "bidirectional") {
    return c.Error("attribute 'direction' is '" + direction + "'; forward, reverse or bidirectional is needed");
  }
  const int64_t directions = direction == "bidirectional" ? 2 : 1;
  const bool batch_first = c.node().GetInt("layout", 0) != 0;
  const std::optional<Dims> x = c.input_shape(0), w = c.input_shape(1), r = c.input_shape(2);
  for (int i : {0, 1, 2}) {
    const std::optional<Dims> shape = c.input_shape(i);
    if (shape && shape->size() != 3) {
      return c.Error("input '" + c.node().input(i)->name() + "' has shape " + DimsToString(*shape) +
                     "; three dimensions are needed");
    }
  }
  Dim hidden = r ? (*r)[2] : Dim::Unknown();
  if (const int64_t* size = c.node().FindAttribute<int64_t>("hidden_size")) {
    if (*size < 1 || *size > (int64_t{1} << 32)) {
      return c.Error("attribute 'hidden_size' is " + std::to_string(*size) + ", which is out of range");
    }
    hidden = *size;
  }
  const Dim input = x ? (*x)[2] : Dim::Unknown();
  // The initial states have a row per entry of the batch: where they tell its number, the others follow.
  Dim batch = x ? (*x)[batch_first ? 0 : 1] : Dim::Unknown();
  for (const int i : {5, 6}) {
    const std::optional<Dims> initial = c.input_shape(i);
    if (!initial || initial->size() != 3) continue;
    const Dim& rows = (*initial)[batch_first ? 0 : 1];
    if (rows.is_constant() && !batch.is_constant()) batch = rows;
  }
  const Dim steps = x ? (*x)[batch_first ? 1 : 0] : Dim::Unknown();
  QUERN_RETURN_IF_ERROR(CheckInputShape(c, 1, {directions, hidden * gates, input}));
  QUERN_RETURN_IF_ERROR(CheckInputShape(c, 2, {directions, hidden * gates, hidden}));
  QUERN_RETURN_IF_ERROR(CheckInputShape(c, 3, {directions, hidden * (2 * gates)}));
  QUERN_RETURN_IF_ERROR(CheckInputShape(c, 4, {batch}));
  const Dims state = batch_first ? Dims{batch, directions, hidden} : Dims{directions, batch, hidden};
  QUERN_RETURN_IF_ERROR(CheckInputShape(c, 5, state));
  if (has_cell) {
    QUERN_RETURN_IF_ERROR(CheckInputShape(c, 6, state));
    QUERN_RETURN_IF_ERROR(CheckInputShape(c, 7, {directions, hidden * 3}));
  }
  const DType dtype = c.input_dtype(0);
  c.SetOutputType(0, ValueType::Tensor(dtype, batch_first ? Dims{batch, steps, directions, hidden}
                                                          : Dims{steps, directions, batch, hidden}));
  for (int i = 1; i < c.num_outputs(); ++i) c.SetOutputType(i, ValueType::Tensor(dtype, state));
  return OkStatus();
}

RecurrentSizes MakeRecurrentSizes(EvalContext& c) {
  const Shape &x = c.input(0).shape(), &r = c.input(2).shape();
  const bool batch_first = c.node().GetInt("layout", 0) != 0;
  return {x[batch_first ? 1 : 0], x[batch_first ? 0 : 1], x[2], r[2], r[0], batch_first};
}

Result<Activation> Activation::Make(const Node& node, const std::string& name) {
  std::string lower = name;
  for (char& ch : lower) ch = static_cast<char>(std::tolower(static_cast<unsigned char>(ch)));
  for (size_t i = 0; i < std::size(kActivations); ++i) {
    if (lower != kActivations[i].name) continue;
    Activation a;
    a.kind_ = static_cast<ActivationKind>(i);
    a.alpha = kActivations[i].alpha;
    a.beta = kActivations[i].beta;
    return a;
  }
  return InvalidArgument(node.Describe() + ": the activation '" + name + "' is not known");
}

bool Activation::has_alpha() const { return RowOf(kind_).has_alpha; }
bool Activation::has_beta() const { return RowOf(kind_).has_beta; }

double Activation::operator()(double x) const {
  switch (kind_) {
    case ActivationKind::kAffine:
      return alpha * x + beta;
    case ActivationKind::kElu:
      return x < 0 ? alpha * std::expm1(x) : x;
    case ActivationKind::kHardSigmoid:
      return std::clamp(alpha * x + beta, 0.0, 1.0);
    case ActivationKind::kLeakyRelu:
      return x < 0 ? alpha * x : x;
    case ActivationKind::kRelu:
      return x < 0 ? 0.0 : x;
    case ActivationKind::kScaledTanh:
      return alpha * std::tanh(beta * x);
    case ActivationKind::kSigmoid:
      return 1.0 / (1.0 + std::exp(-x));
    case ActivationKind::kSoftplus:
      return std::fmax(x, 0.0) + std::log1p(std::exp(-std::fabs(x)));
    case ActivationKind::kSoftsign:
      return x / (1.0 + std::fabs(x));
    case ActivationKind::kTanh:
      return std::tanh(x);
    case ActivationKind::kThresholdedRelu:
      return x > alpha ? x : 0.0;
  }
  return x;
}

Result<std::vector<Activation>> ReadActivations(const Node& node, const std::vector<std::string>& defaults,
                                                int64_t directions) {
  std::vector<std::string> names;
  const auto* given = node.FindAttribute<std::vector<std::string>>("activations");
  if (given != nullptr && !given->empty()) {
    names = *given;
  } else {
    for (int64_t d = 0; d < directions; ++d) names.insert(names.end(), defaults.begin(), defaults.end());
  }
  const size_t wanted = defaults.size() * static_cast<size_t>(directions);
  if (names.size() < wanted) {
    return InvalidArgument(node.Describe() + ": attribute 'activations' has " + std::to_string(names.size()) +
                           " entries, " + std::to_string(wanted) + " are needed");
  }
  const auto list = [&](const char* name) {
    const auto* values = node.FindAttribute<std::vector<float>>(name);
    return values ? *values : std::vector<float>();
  };
  const std::vector<float> alphas = list("activation_alpha"), betas = list("activation_beta");
  size_t next_alpha = 0, next_beta = 0;
  std::vector<Activation> result;
  for (size_t i = 0; i < wanted; ++i) {
    QUERN_ASSIGN_OR_RETURN(Activation a, Activation::Make(node, names[i]));
    if (a.has_alpha() && next_alpha < alphas.size()) a.alpha = alphas[next_alpha++];
    if (a.has_beta() && next_beta < betas.size()) a.beta = betas[next_beta++];
    result.push_back(a);
  }
  return result;
}

}  // namespace quern
