// Squeeze: drops dimensions of extent 1, those of `axes` or all.
#include <algorithm>

#include "ops/common/view.h"

namespace quern {
namespace {

Status Infer(InferContext& c) {
  const std::optional<Dims> shape = c.input_shape(0);
  const AxesOperand axes = ReadAxes(c, "axes", 1);
  if (!shape) return InferView(c, std::nullopt);
  Dims out;
  if (!axes.given) {
    if (!AllConstant(*shape)) return InferView(c, std::nullopt);  // which extents are 1 only a run can tell
    for (const Dim& d : *shape) {
      if (!d.is_constant(1)) out.push_back(d);
    }
    return InferView(c, std::move(out));
  }
  if (!axes.values) {
    const std::optional<int64_t> count = KnownLength(c, 1);
    if (!count || *count > static_cast<int64_t>(shape->size())) return InferView(c, std::nullopt);
    return InferView(c, UnknownDims(static_cast<int64_t>(shape->size()) - *count));
  }
  QUERN_ASSIGN_OR_RETURN(const std::vector<int> normal,
                         NormalizeAxes(c.node(), *axes.values, static_cast<int>(shape->size())));
  for (int i = 0; i < static_cast<int>(shape->size()); ++i) {
    if (std::find(normal.begin(), normal.end(), i) == normal.end()) {
      out.push_back((*shape)[i]);
    } else if ((*shape)[i].is_constant() && !(*shape)[i].is_constant(1)) {
      return c.Error("dimension " + std::to_string(i) + " of " + DimsToString(*shape) +
                     " is not 1, it cannot be squeezed");
    }
  }
  return InferView(c, std::move(out));
}

constexpr AttrSpec kAttributes[] = {{"axes", AttrType::kInts}};
template <int kSince>
constexpr Param kInputs[] = {{"data", "T", AnyTypes(kSince)}, {"axes", "", kInt64Type, Arity::kOptional}};
template <int kSince>
constexpr OpVersion kOldVersion = {kSince, kDataOfAnyType<kSince>, kOutputOfAnyType<kSince>, kAttributes,
                                   Infer,  EvaluateView<Infer>};
template <int kSince>
constexpr OpVersion kVersion = {kSince, kInputs<kSince>, kOutputOfAnyType<kSince>, {}, Infer, EvaluateView<Infer>};
constexpr OpVersion kVersions[] = {kOldVersion<1>, kOldVersion<11>, kVersion<13>, kVersion<21>,
                                   kVersion<23>,   kVersion<24>,    kVersion<25>};

}  // namespace

extern constinit const OpDefinition kOpSqueeze = {"", "Squeeze", kVersions};

}  // namespace quern
