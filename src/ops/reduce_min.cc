// ReduceMin: smallest element over axes; a NaN wins.
#include <limits>

#include "ops/common/reduce.h"
#include "ops/common/type_sets.h"
#include "ops/op.h"

namespace quern {
namespace {

Status Infer(InferContext& c) {
  QUERN_RETURN_IF_ERROR(InferReduce(c));
  const std::optional<Dims> data = PropagatedInput(c, 0);
  if (!data || data->empty()) return OkStatus();
  return InferReduceWith(c, data->front(), [](const Dim& a, const Dim& b) { return Dim::Min(a, b); });
}

Status Evaluate(EvalContext& c) {
  const auto first = []<typename T>(T) {
    if constexpr (std::is_floating_point_v<T>) {
      return std::numeric_limits<T>::infinity();
    } else {
      return std::numeric_limits<T>::max();
    }
  };
  return EvaluateReduce<SameAcc>(
      c, Types<float, double, Float16, BFloat16, int8_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t, bool>{}, first,
      [](auto best, auto v) { return v < best || v != v ? v : best; }, [](auto sum, int64_t) { return sum; });
}

constexpr Param kInputs1[] = {{"data", "T", kOldMathTypes}};
constexpr Param kOutputs1[] = {{"reduced", "T", kOldMathTypes}};
constexpr AttrSpec kAttributes1[] = {{"axes", AttrType::kInts}, {"keepdims", AttrType::kInt, false, "1"}};
constexpr Param kInputs12[] = {{"data", "T", kOldMathTypes | kByteTypes}};
constexpr Param kOutputs12[] = {{"reduced", "T", kOldMathTypes | kByteTypes}};
constexpr Param kInputs13[] = {{"data", "T", kMathTypes | kByteTypes}};
constexpr Param kOutputs13[] = {{"reduced", "T", kMathTypes | kByteTypes}};
constexpr Param kInputs18[] = {{"data", "T", kMathTypes | kByteTypes}, {"axes", "", kI64Type, Arity::kOptional}};
constexpr AttrSpec kAttributes18[] = {{"keepdims", AttrType::kInt, false, "1"},
                                      {"noop_with_empty_axes", AttrType::kInt, false, "0"}};
constexpr TypeSet kTTypes20 = kMathTypes | TypeSet{DType::kI8, DType::kU8, DType::kBool};
constexpr Param kInputs20[] = {{"data", "T", kTTypes20}, {"axes", "", kI64Type, Arity::kOptional}};
constexpr Param kOutputs20[] = {{"reduced", "T", kTTypes20}};
constexpr OpVersion kVersions[] = {{1, kInputs1, kOutputs1, kAttributes1, Infer, Evaluate},
                                   {11, kInputs1, kOutputs1, kAttributes1, Infer, Evaluate},
                                   {12, kInputs12, kOutputs12, kAttributes1, Infer, Evaluate},
                                   {13, kInputs13, kOutputs13, kAttributes1, Infer, Evaluate},
                                   {18, kInputs18, kOutputs13, kAttributes18, Infer, Evaluate},
                                   {20, kInputs20, kOutputs20, kAttributes18, Infer, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpReduceMin = {"", "ReduceMin", kVersions};

}  // namespace quern
