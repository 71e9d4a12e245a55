// Unsqueeze: inserts dimensions of extent 1 so that they stand at `axes` of the output.
#include <algorithm>

#include "ops/common/view.h"

namespace quern {
namespace {

Status Infer(InferContext& c) {
  const std::optional<Dims> shape = c.input_shape(0);
  const AxesOperand axes = ReadAxes(c, "axes", 1);
  if (!axes.given) return c.Error("axes are missing");
  if (!shape) return InferView(c, std::nullopt);
  if (!axes.values) {
    const std::optional<int64_t> count = KnownLength(c, 1);
    if (!count || *count > kMaxRank) return InferView(c, std::nullopt);
    return InferView(c, UnknownDims(static_cast<int64_t>(shape->size()) + *count));
  }
  const int rank = static_cast<int>(shape->size() + axes.values->size());
  QUERN_ASSIGN_OR_RETURN(std::vector<int> normal, NormalizeAxes(c.node(), *axes.values, rank));
  std::sort(normal.begin(), normal.end());
  Dims out = *shape;
  for (int axis : normal) out.insert(out.begin() + axis, Dim(1));
  return InferView(c, std::move(out));
}

constexpr AttrSpec kAttributes[] = {{"axes", AttrType::kInts, true}};
template <int kSince>
constexpr Param kInputs[] = {{"data", "T", AnyTypes(kSince)}, {"axes", "", kInt64Type}};
template <int kSince>
constexpr OpVersion kOldVersion = {kSince, kDataOfAnyType<kSince>, kOutputOfAnyType<kSince>, kAttributes,
                                   Infer,  EvaluateView<Infer>};
template <int kSince>
constexpr OpVersion kVersion = {kSince, kInputs<kSince>, kOutputOfAnyType<kSince>, {}, Infer, EvaluateView<Infer>};
constexpr OpVersion kVersions[] = {kOldVersion<1>, kOldVersion<11>, kVersion<13>, kVersion<21>,
                                   kVersion<23>,   kVersion<24>,    kVersion<25>};

}  // namespace

extern constinit const OpDefinition kOpUnsqueeze = {"", "Unsqueeze", kVersions};

}  // namespace quern
