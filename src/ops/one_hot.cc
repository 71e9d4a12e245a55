// OneHot: a new dimension of extent `depth` that holds values[1] at the index and values[0] elsewhere.
#include <limits>

#include "ops/common/any_types.h"
#include "ops/common/dispatch.h"
#include "ops/common/elements.h"
#include "ops/common/infer_common.h"

namespace quern {
namespace {

Status Infer(InferContext& c) {
  const std::optional<Dims> indices = c.input_shape(0);
  ValueType type = ValueType::Tensor(c.input_dtype(2));
  if (indices) {
    Dims out = *indices;
    QUERN_ASSIGN_OR_RETURN(const int axis,
                           NormalizeAxis(c.node(), c.node().GetInt("axis", -1), static_cast<int>(out.size()) + 1));
    const std::optional<Dims> depth = c.input_data(1);
    out.insert(out.begin() + axis, depth && depth->size() == 1 ? depth->front() : Dim::Unknown());
    type.shape = std::move(out);
  }
  c.SetOutputType(0, std::move(type));
  return OkStatus();
}

// The elements of a numeric tensor as int64, fractions cut off; what does not fit lies outside any depth.
Result<std::vector<int64_t>> AsIntegers(EvalContext& c, int i) {
  const Tensor& t = c.input(i);
  std::vector<int64_t> values;
  QUERN_RETURN_IF_ERROR(DispatchNumeric(t.dtype(), [&]<typename T>() {
    for (const T& v : t.values<T>()) {
      const auto x = static_cast<ComputeType<T>>(v);
      if constexpr (std::is_floating_point_v<ComputeType<T>>) {
        values.push_back(x > -9e18f && x < 9e18f ? static_cast<int64_t>(x) : std::numeric_limits<int64_t>::min());
      } else {
        values.push_back(static_cast<int64_t>(x));
      }
    }
    return OkStatus();
  }));
  return values;
}

Status Evaluate(EvalContext& c) {
  QUERN_ASSIGN_OR_RETURN(const std::vector<int64_t> indices, AsIntegers(c, 0));
  QUERN_ASSIGN_OR_RETURN(const std::vector<int64_t> depths, AsIntegers(c, 1));
  QUERN_ASSIGN_OR_RETURN(const ElementInput values, ElementInput::Make(c, 2));
  if (depths.size() != 1 || depths[0] < 0) return c.Error("depth must be one number that is not negative");
  if (values.num_elements() != 2) return c.Error("values must have two elements");
  const int64_t depth = depths[0];
  Shape shape = c.input(0).shape();
  QUERN_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(c.node(), c.node().GetInt("axis", -1), shape.rank() + 1));
  if (shape.rank() == kMaxRank) return c.Error("the output has too many dimensions");
  const int64_t outer = shape.num_elements(0, axis), inner = shape.num_elements(axis, shape.rank());
  shape.insert(axis, depth);
  QUERN_ASSIGN_OR_RETURN(ElementOutput out, ElementOutput::Make(c, 0, values.dtype(), shape));
  QUERN_RETURN_IF_ERROR(DispatchElements(values.dtype(), [&]<typename T>() {
    const T off = values.data<T>()[0], on = values.data<T>()[1];
    T* y = out.data<T>();
    for (int64_t o = 0; o < outer; ++o) {
      for (int64_t k = 0; k < depth; ++k) {
        for (int64_t i = 0; i < inner; ++i) {
          const int64_t index = indices[o * inner + i];
          *y++ = index == k || (index < 0 && index >= -depth && index + depth == k) ? on : off;
        }
      }
    }
    return OkStatus();
  }));
  return out.Finish();
}

constexpr AttrSpec kAttributes[] = {{"axis", AttrType::kInt, false, "-1"}};
constexpr TypeSet kIndices = kSignedIntTypes | kUnsignedIntTypes | TypeSet{DType::kF32, DType::kF64, DType::kF16};
template <int kSince>
constexpr Param kInputs[] = {
    {"indices", "T1", kIndices}, {"depth", "T2", kIndices}, {"values", "T3", AnyTypes(kSince)}};
template <int kSince>
constexpr Param kOutputs[] = {{"output", "T3", AnyTypes(kSince)}};
constexpr OpVersion kVersions[] = {{9, kInputs<9>, kOutputs<9>, kAttributes, Infer, Evaluate},
                                   {11, kInputs<11>, kOutputs<11>, kAttributes, Infer, Evaluate},
                                   {28, kInputs<13>, kOutputs<13>, kAttributes, Infer, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpOneHot = {"", "OneHot", kVersions};

}  // namespace quern
