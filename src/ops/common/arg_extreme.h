// ArgMax and ArgMin: the index of the greatest or least element along one axis.
#pragma once

#include <type_traits>

#include "ops/common/any_types.h"
#include "ops/common/dispatch.h"
#include "ops/common/eval_infer.h"
#include "ops/common/infer_common.h"

namespace quern {

inline Status InferArgExtreme(InferContext& c) {
  const std::optional<Dims> shape = c.input_shape(0);
  ValueType type = ValueType::Tensor(DType::kI64);
  if (shape) {
    QUERN_ASSIGN_OR_RETURN(const int axis,
                           NormalizeAxis(c.node(), c.node().GetInt("axis", 0), static_cast<int>(shape->size())));
    Dims out = *shape;
    if (c.node().GetInt("keepdims", 1) != 0) {
      out[axis] = Dim(1);
    } else {
      out.erase(out.begin() + axis);
    }
    type.shape = std::move(out);
  }
  c.SetOutputType(0, std::move(type));
  return OkStatus();
}

// kGreatest: ArgMax. Of equal elements the first counts (the last with select_last_index); a NaN wins.
template <bool kGreatest>
Status EvaluateArgExtreme(EvalContext& c) {
  QUERN_ASSIGN_OR_RETURN(const InferredOutputs outputs, InferredOutputs::Make(c, InferArgExtreme));
  const Tensor& x = c.input(0);
  const Shape& shape = x.shape();
  QUERN_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(c.node(), c.node().GetInt("axis", 0), shape.rank()));
  const bool last = c.node().GetInt("select_last_index", 0) != 0;
  QUERN_ASSIGN_OR_RETURN(const Tensor out, outputs.Allocate(c, 0));
  const int64_t n = shape[axis], outer = shape.num_elements(0, axis);
  const int64_t inner = shape.num_elements(axis + 1, shape.rank());
  if (n == 0 && outer * inner > 0) return c.Error("dimension " + std::to_string(axis) + " is empty");
  return DispatchNumeric(x.dtype(), [&]<typename T>() {
    using C = ComputeType<T>;
    int64_t* y = out.data<int64_t>();
    for (int64_t o = 0; o < outer; ++o) {
      for (int64_t i = 0; i < inner; ++i) {
        const T* row = x.data<T>() + o * n * inner + i;
        int64_t best = 0;
        C best_value = static_cast<C>(row[0]);
        for (int64_t j = 1; j < n; ++j) {
          const C v = static_cast<C>(row[j * inner]);
          bool better = kGreatest ? v > best_value : v < best_value;
          if constexpr (std::is_floating_point_v<C>) better = best_value == best_value && (better || v != v);
          if (better || (last && v == best_value)) {
            best = j;
            best_value = v;
          }
        }
        *y++ = best;
      }
    }
    return OkStatus();
  });
}

inline constexpr TypeSet kArgExtremeTypes1 =
    kSignedIntTypes | kUnsignedIntTypes | TypeSet{DType::kF32, DType::kF64, DType::kF16};
inline constexpr AttrSpec kArgExtremeAttributes1[] = {{"axis", AttrType::kInt, false, "0"},
                                                      {"keepdims", AttrType::kInt, false, "1"}};
inline constexpr AttrSpec kArgExtremeAttributes12[] = {{"axis", AttrType::kInt, false, "0"},
                                                       {"keepdims", AttrType::kInt, false, "1"},
                                                       {"select_last_index", AttrType::kInt, false, "0"}};
inline constexpr Param kArgExtremeInputs1[] = {{"data", "T", kArgExtremeTypes1}};
inline constexpr Param kArgExtremeInputs13[] = {{"data", "T", kNumericTypes}};
inline constexpr Param kArgExtremeOutputs[] = {{"reduced", "", kInt64Type}};
template <bool kGreatest>
inline constexpr OpVersion kArgExtremeVersions[] = {
    {1, kArgExtremeInputs1, kArgExtremeOutputs, kArgExtremeAttributes1, InferArgExtreme, EvaluateArgExtreme<kGreatest>},
    {11, kArgExtremeInputs1, kArgExtremeOutputs, kArgExtremeAttributes1, InferArgExtreme,
     EvaluateArgExtreme<kGreatest>},
    {12, kArgExtremeInputs1, kArgExtremeOutputs, kArgExtremeAttributes12, InferArgExtreme,
     EvaluateArgExtreme<kGreatest>},
    {13, kArgExtremeInputs13, kArgExtremeOutputs, kArgExtremeAttributes12, InferArgExtreme,
     EvaluateArgExtreme<kGreatest>}};

}  // namespace quern
