#include "ops/common/small_types.h"

#include <string>

#include "base/packed_bits.h"

namespace quern {
namespace {

// Null for float8e8m0, which has another form, and for all other types.
const SmallFloat* FormatOf(DType t) {
  switch (t) {
    case DType::kF8E4M3FN:
      return &kFloat8E4M3FN;
    case DType::kF8E4M3FNUZ:
      return &kFloat8E4M3FNUZ;
    case DType::kF8E5M2:
      return &kFloat8E5M2;
    case DType::kF8E5M2FNUZ:
      return &kFloat8E5M2FNUZ;
    case DType::kF4E2M1:
      return &kFloat4E2M1;
    case DType::kF6E2M3:
      return &kFloat6E2M3;
    case DType::kF6E3M2:
      return &kFloat6E3M2;
    default:
      return nullptr;
  }
}

bool IsSigned(DType t) { return t == DType::kI4 || t == DType::kI2; }

}  // namespace

bool IsSmallFloat(DType t) { return FormatOf(t) != nullptr || t == DType::kF8E8M0; }
bool IsSmallInteger(DType t) { return PackedBits(t) != 0 && IsIntegerType(t); }

Result<SmallFloatRules> ReadSmallFloatRules(const Node& node) {
  SmallFloatRules rules;
  // The tables of operator sets 19 to 23 turn infinities into NaN where a type has no infinity and no negative zero.
  rules.overflow = node.GetInt("saturate", 1) == 0 ? Overflow::kSpecial
                   : node.opset() < 24             ? Overflow::kSaturateFinite
                                                   : Overflow::kSaturate;
  const std::string mode = node.GetString("round_mode", "up");
  if (mode == "down") {
    rules.rounding = E8M0Rounding::kDown;
  } else if (mode == "nearest") {
    rules.rounding = E8M0Rounding::kNearest;
  } else if (mode != "up") {
    return InvalidArgument(node.Describe() + ": attribute 'round_mode' is '" + mode +
                           "'; 'up', 'down' and 'nearest' are known");
  }
  return rules;
}

void LoadSmallFloats(const Tensor& t, int64_t first, int64_t count, float* out) {
  const auto* bytes = static_cast<const uint8_t*>(t.raw_data());
  const SmallFloat* format = FormatOf(t.dtype());
  const int bits = PackedBits(t.dtype());
  for (int64_t i = 0; i < count; ++i) {
    const uint8_t code = bits != 0 ? LoadPacked(bytes, first + i, bits) : bytes[first + i];
    out[i] = format != nullptr ? SmallFloatToF32(code, *format) : E8M0ToF32(code);
  }
}

void LoadSmallIntegers(const Tensor& t, int64_t first, int64_t count, int8_t* out) {
  const auto* bytes = static_cast<const uint8_t*>(t.raw_data());
  const int bits = PackedBits(t.dtype());
  const bool is_signed = IsSigned(t.dtype());
  for (int64_t i = 0; i < count; ++i) {
    const uint8_t code = LoadPacked(bytes, first + i, bits);
    out[i] = is_signed ? SignExtend(code, bits) : static_cast<int8_t>(code);
  }
}

void StoreSmallFloats(const float* in, int64_t first, int64_t count, const SmallFloatRules& rules, const Tensor& t) {
  auto* bytes = static_cast<uint8_t*>(t.raw_data());
  const SmallFloat* format = FormatOf(t.dtype());
  const int bits = PackedBits(t.dtype());
  for (int64_t i = 0; i < count; ++i) {
    const uint8_t code = format != nullptr ? F32ToSmallFloat(in[i], *format, rules.overflow)
                                           : F32ToE8M0(in[i], rules.rounding, rules.overflow != Overflow::kSpecial);
    if (bits != 0) {
      AppendPacked(bytes, first + i, bits, code);
    } else {
      bytes[first + i] = code;
    }
  }
}

void StoreSmallIntegers(const int8_t* in, int64_t first, int64_t count, const Tensor& t) {
  auto* bytes = static_cast<uint8_t*>(t.raw_data());
  const int bits = PackedBits(t.dtype());
  for (int64_t i = 0; i < count; ++i) AppendPacked(bytes, first + i, bits, static_cast<uint8_t>(in[i]));
}

}  // namespace quern
