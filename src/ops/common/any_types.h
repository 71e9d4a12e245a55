// The types that operators which only move elements take, as they grew with the operator sets.
#pragma once

#include "ops/op.h"

namespace quern {

// Of 6 bits: few operators take them.
inline constexpr TypeSet kFloat6Types = {DType::kF6E2M3, DType::kF6E3M2};
inline constexpr TypeSet kFloat8Types = {DType::kF8E4M3FN, DType::kF8E4M3FNUZ, DType::kF8E5M2, DType::kF8E5M2FNUZ};

// "All tensor types" of an operator version that came with operator set `since`, but strings and complex numbers.
constexpr TypeSet AnyNumbers(int since) {
  TypeSet types = kSignedIntTypes | kUnsignedIntTypes | TypeSet{DType::kF32, DType::kF64, DType::kF16, DType::kBool};
  if (since >= 13) types = types | TypeSet{DType::kBF16};
  if (since >= 19) types = types | kFloat8Types;
  if (since >= 21) types = types | TypeSet{DType::kI4, DType::kU4};
  if (since >= 23) types = types | TypeSet{DType::kF4E2M1};
  if (since >= 24) types = types | TypeSet{DType::kF8E8M0};
  if (since >= 25) types = types | TypeSet{DType::kI2, DType::kU2};
  if (since >= 28) types = types | kFloat6Types;
  return types;
}
// "All tensor types".
constexpr TypeSet AnyTypes(int since) { return AnyNumbers(since) | TypeSet{DType::kString, DType::kC64, DType::kC128}; }

// Sets of inputs and outputs that many of these operators have: one tensor "data" to one of the same type.
template <int kSince>
inline constexpr Param kDataOfAnyType[] = {{"data", "T", AnyTypes(kSince)}};
template <int kSince>
inline constexpr Param kOutputOfAnyType[] = {{"output", "T", AnyTypes(kSince)}};

inline constexpr TypeSet kBoolType = {DType::kBool};
inline constexpr TypeSet kInt64Type = {DType::kI64};
inline constexpr TypeSet kIndexTypes = {DType::kI32, DType::kI64};

}  // namespace quern
