// Elements of the types that no C++ type stands for: floats of 8 bits and fewer, integers of 4 and 2 bits. They are
// read into wider numbers, exactly, and written by the rules of Cast.
#pragma once

#include "base/float8.h"
#include "ops/op.h"

namespace quern {

// Four float8 types, float8e8m0 and float4.
bool IsSmallFloat(DType t);
// 4- and 2-bit integers.
bool IsSmallInteger(DType t);

// What a node's attributes and operator set say of numbers that its small output cannot hold.
struct SmallFloatRules {
  Overflow overflow = Overflow::kSaturate;
  E8M0Rounding rounding = E8M0Rounding::kUp;
};
// Attributes 'saturate' and 'round_mode', as Cast of the node's operator set defines them.
Result<SmallFloatRules> ReadSmallFloatRules(const Node& node);

// `count` elements of a contiguous tensor from `first` on, which is a multiple of 4.
void LoadSmallFloats(const Tensor& t, int64_t first, int64_t count, float* out);
void LoadSmallIntegers(const Tensor& t, int64_t first, int64_t count, int8_t* out);
// The reverse. Floats are rounded; of integers the low bits are kept.
void StoreSmallFloats(const float* in, int64_t first, int64_t count, const SmallFloatRules& rules, const Tensor& t);
void StoreSmallIntegers(const int8_t* in, int64_t first, int64_t count, const Tensor& t);

}  // namespace quern
