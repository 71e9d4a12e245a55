#include "ops/common/class_loss.h"

namespace quern {

Status InferClassLoss(InferContext& c) {
  const std::string reduction = c.node().GetString("reduction", "mean");
  if (reduction != "none" && reduction != "sum" && reduction != "mean") {
    return c.Error("attribute 'reduction' is '" + reduction + "'; none, sum or mean is needed");
  }
  const std::optional<Dims> scores = c.input_shape(0), labels = c.input_shape(1), weights = c.input_shape(2);
  if (scores && scores->size() < 2) {
    return c.Error("input 0 has shape " + DimsToString(*scores) +
                   "; at least a batch and a class dimension are needed");
  }
  const auto differ = [](const Dim& a, const Dim& b) {
    return a.is_constant() && b.is_constant() && a.value() != b.value();
  };
  std::optional<Dims> losses = labels;
  if (scores) {
    Dims wanted = *scores;
    wanted.erase(wanted.begin() + 1);
    bool fits = !labels || labels->size() == wanted.size();
    for (size_t d = 0; fits && labels && d < wanted.size(); ++d) fits = !differ((*labels)[d], wanted[d]);
    if (!fits) {
      return c.Error("the labels have shape " + DimsToString(*labels) + "; " + DimsToString(wanted) +
                     " is needed for scores of shape " + DimsToString(*scores));
    }
    if (!losses) losses = std::move(wanted);
  }
  if (weights && (weights->size() != 1 || (scores && differ((*weights)[0], (*scores)[1])))) {
    return c.Error("the weights have shape " + DimsToString(*weights) + "; one for each class is needed");
  }
  c.SetOutputType(
      0, ValueType::Tensor(c.input_dtype(0), reduction == "none" ? std::move(losses) : std::optional<Dims>(Dims{})));
  c.SetOutputType(1, ValueType::Tensor(c.input_dtype(0), scores));
  return OkStatus();
}

}  // namespace quern
