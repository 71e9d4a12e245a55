// LpNormalization: x over its 1- or 2-norm along the axis; 0 where the norm is 0.
#include <string>

#include "ops/common/normalization.h"
#include "ops/common/type_sets.h"
#include "ops/op.h"

namespace quern {
namespace {

Status Infer(InferContext& c) {
  const int64_t p = c.node().GetInt("p", 2);
  if (p != 1 && p != 2) return c.Error("attribute 'p' is " + std::to_string(p) + "; 1 or 2 is needed");
  if (const std::optional<Dims> x = c.input_shape(0)) {
    QUERN_RETURN_IF_ERROR(NormalizeAxis(c.node(), c.node().GetInt("axis", -1), static_cast<int>(x->size())).status());
  }
  return InferUnary(c);
}

Status Evaluate(EvalContext& c) {
  QUERN_ASSIGN_OR_RETURN(const InferredOutputs outputs, InferredOutputs::Make(c, Infer));
  const Shape& shape = outputs.shape(0);
  QUERN_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(c.node(), c.node().GetInt("axis", -1), shape.rank()));
  const bool euclidean = c.node().GetInt("p", 2) == 2;
  const int64_t count = shape[axis], inner = shape.num_elements(axis + 1, shape.rank());
  return WithComputeType(c, outputs.dtype(0), [&]<typename T>(T) -> Status {
    QUERN_ASSIGN_OR_RETURN(const FloatInput<T> x, ReadFloats<T>(c, 0));
    QUERN_ASSIGN_OR_RETURN(FloatOutput<T> y, WriteFloats<T>(c, outputs, 0));
    for (int64_t o = 0; o < shape.num_elements(0, axis); ++o) {
      for (int64_t i = 0; i < inner; ++i) {
        const int64_t at = o * count * inner + i;
        double sum = 0;
        for (int64_t k = 0; k < count; ++k) {
          const double v = static_cast<double>(x[at + k * inner]);
          sum += euclidean ? v * v : std::fabs(v);
        }
        const double norm = euclidean ? std::sqrt(sum) : sum;
        for (int64_t k = 0; k < count; ++k) {
          y[at + k * inner] = norm == 0 ? T{0} : static_cast<T>(x[at + k * inner] / norm);
        }
      }
    }
    y.Finish();
    return OkStatus();
  });
}

constexpr Param kInputs1[] = {{"input", "T", kOldFloatTypes}};
constexpr Param kOutputs1[] = {{"output", "T", kOldFloatTypes}};
constexpr AttrSpec kAttributes[] = {{"axis", AttrType::kInt, false, "-1"}, {"p", AttrType::kInt, false, "2"}};
constexpr Param kInputs22[] = {{"input", "T", kFloatTypes}};
constexpr Param kOutputs22[] = {{"output", "T", kFloatTypes}};
constexpr OpVersion kVersions[] = {{1, kInputs1, kOutputs1, kAttributes, Infer, Evaluate},
                                   {22, kInputs22, kOutputs22, kAttributes, Infer, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpLpNormalization = {"", "LpNormalization", kVersions};

}  // namespace quern
