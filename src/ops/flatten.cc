// Flatten: to a matrix, the dimensions before `axis` by the rest.
#include "ops/common/view.h"

namespace quern {
namespace {

Status Infer(InferContext& c) {
  const std::optional<Dims> shape = c.input_shape(0);
  if (!shape) return InferView(c, UnknownDims(2));
  const int rank = static_cast<int>(shape->size());
  int64_t axis = c.node().GetInt("axis", 1);
  if (axis < -rank || axis > rank) {
    return c.Error("axis " + std::to_string(axis) + " is outside [" + std::to_string(-rank) + ", " +
                   std::to_string(rank) + "]");
  }
  if (axis < 0) axis += rank;
  return InferView(c, Dims{Product(Dims(shape->begin(), shape->begin() + axis)),
                           Product(Dims(shape->begin() + axis, shape->end()))});
}

constexpr AttrSpec kAttributes[] = {{"axis", AttrType::kInt, false, "1"}};
template <int kSince>
constexpr OpVersion kVersion = {kSince, kDataOfAnyType<kSince>, kOutputOfAnyType<kSince>, kAttributes,
                                Infer,  EvaluateView<Infer>};
constexpr OpVersion kVersions[] = {kVersion<1>,  kVersion<9>,  kVersion<11>, kVersion<13>,
                                   kVersion<21>, kVersion<23>, kVersion<24>, kVersion<25>};

}  // namespace

extern constinit const OpDefinition kOpFlatten = {"", "Flatten", kVersions};

}  // namespace quern
