#include "ops/common/linear_model.h"

#include <string>

namespace quern {

Result<LinearModel> LinearModel::Read(const Node& node) {
  LinearModel m;
  QUERN_ASSIGN_OR_RETURN(m.transform, ReadPostTransform(node));
  m.coefficients = ListAttribute<float>(node, "coefficients");
  m.intercepts = ListAttribute<float>(node, "intercepts");
  if (node.op_type() != "LinearClassifier") {
    m.results = node.GetInt("targets", 1);
    return m;
  }
  QUERN_ASSIGN_OR_RETURN(m.labels, ClassLabels::Read(node, "classlabels_ints", "classlabels_strings"));
  m.results = m.labels.size();
  if (m.results == 0) {
    return InvalidArgument(node.Describe() + ": attribute 'classlabels_ints' or 'classlabels_strings' is needed");
  }
  return m;
}

Result<int64_t> LinearModel::CountFunctions(const Node& node, const Dim& features) const {
  const auto count = static_cast<int64_t>(coefficients.size()), offsets = static_cast<int64_t>(intercepts.size());
  const bool known = features.is_constant();
  const bool one = labels.size() == 2 && (known ? features.value() == count : offsets == 1);
  const int64_t functions = one ? 1 : results;
  if (functions < 1 || count == 0 || count % functions != 0 || (known && count / functions != features.value())) {
    return InvalidArgument(node.Describe() + ": " + std::to_string(count) + " coefficients do not make " +
                           std::to_string(results) + (labels.size() == 0 ? " targets" : " class labels") +
                           (known ? " of " + features.ToString() + " features" : ""));
  }
  if (offsets != 0 && offsets != functions) {
    return InvalidArgument(node.Describe() + ": " + std::to_string(offsets) + " intercepts are given, " +
                           std::to_string(functions) + " are needed");
  }
  return functions;
}

}  // namespace quern
