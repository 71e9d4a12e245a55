// Comparisons and logic of two inputs, with bool results; operator sets before 7 broadcast by attributes.
#pragma once

#include "ops/common/any_types.h"
#include "ops/common/dispatch.h"
#include "ops/common/elementwise.h"
#include "ops/common/legacy_broadcast.h"
#include "ops/common/type_sets.h"

namespace quern {

inline Status InferLegacyToBool(InferContext& c) {
  QUERN_RETURN_IF_ERROR(InferLegacyBroadcast(c));
  c.SetOutputType(0, ValueType::Tensor(DType::kBool, c.input_shape(0)));
  return OkStatus();
}

template <typename List, typename F>
Status EvaluateLegacyToBool(EvalContext& c, List list, F f) {
  const Tensor& a = c.input_value(0).tensor();
  QUERN_ASSIGN_OR_RETURN(const Tensor b, LegacyBroadcastInput(c));
  QUERN_ASSIGN_OR_RETURN(const Tensor y, c.AllocateOutput(0, DType::kBool, a.shape()));
  return DispatchType(list, a.dtype(),
                      [&]<typename T>() {
                        ApplyBinary<bool, T, T>(a, b, y, f);
                        return OkStatus();
                      })
      .WithContext(c.node().Describe());
}

inline constexpr AttrSpec kLegacyBroadcastAttributes[] = {{"axis", AttrType::kInt},
                                                          {"broadcast", AttrType::kInt, false, "0"}};
inline constexpr Param kBoolOutput[] = {{"C", "T1", kBoolType}};

// Greater, Less and their or-equal forms: F()(a, b) of equal compute types.
template <typename F>
Status EvaluateCompare(EvalContext& c) {
  return EvaluateBinaryToBool(c, NumericTypeList{}, F());
}
template <typename F>
Status EvaluateLegacyCompare(EvalContext& c) {
  return EvaluateLegacyToBool(c, NumericTypeList{}, F());
}

inline constexpr Param kCompareInputs1[] = {{"A", "T", kOldFloatTypes}, {"B", "T", kOldFloatTypes}};
inline constexpr Param kCompareInputs9[] = {{"A", "T", kOldNumericTypes}, {"B", "T", kOldNumericTypes}};
inline constexpr Param kCompareInputs13[] = {{"A", "T", kNumericTypes}, {"B", "T", kNumericTypes}};
template <typename F>
inline constexpr OpVersion kCompareVersions[] = {
    {1, kCompareInputs1, kBoolOutput, kLegacyBroadcastAttributes, InferLegacyToBool, EvaluateLegacyCompare<F>},
    {7, kCompareInputs1, kBoolOutput, {}, InferBroadcastToBool, EvaluateCompare<F>},
    {9, kCompareInputs9, kBoolOutput, {}, InferBroadcastToBool, EvaluateCompare<F>},
    {13, kCompareInputs13, kBoolOutput, {}, InferBroadcastToBool, EvaluateCompare<F>}};
template <typename F>
inline constexpr OpVersion kCompareOrEqualVersions[] = {
    {12, kCompareInputs9, kBoolOutput, {}, InferBroadcastToBool, EvaluateCompare<F>},
    {16, kCompareInputs13, kBoolOutput, {}, InferBroadcastToBool, EvaluateCompare<F>}};

// And, Or, Xor.
inline constexpr Param kLogicInputs[] = {{"A", "T", kBoolType}, {"B", "T", kBoolType}};
template <typename F>
Status EvaluateLogic(EvalContext& c) {
  return EvaluateBinaryToBool(c, Types<bool>{}, F());
}
template <typename F>
Status EvaluateLegacyLogic(EvalContext& c) {
  return EvaluateLegacyToBool(c, Types<bool>{}, F());
}
template <typename F>
inline constexpr OpVersion kLogicVersions[] = {
    {1, kLogicInputs, kBoolOutput, kLegacyBroadcastAttributes, InferLegacyToBool, EvaluateLegacyLogic<F>},
    {7, kLogicInputs, kBoolOutput, {}, InferBroadcastToBool, EvaluateLogic<F>}};

}  // namespace quern
