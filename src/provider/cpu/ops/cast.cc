// Cast and CastLike between plain number types, by the rules of the reference: fractions are cut off; values that do
// not fit a 32- or 64-bit integer give the most negative number, smaller integers keep the low bits. BitCast.
#include <limits>
#include <type_traits>

#include "base/round_to_odd.h"
#include "provider/cpu/common/convert_floats.h"
#include "provider/cpu/common/plain_rows.h"
#include "provider/cpu/common/widened.h"

namespace quern::cpu {
namespace {

constexpr TypeSet kCastTypes = kNumericTypes | TypeSet{DType::kBool};

template <typename To>
struct Converted {
  template <typename From>
  To operator()(From x) const {
    if constexpr (std::is_same_v<To, bool>) {
      return x != From{};
    } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
      return Truncated(x);
    } else {
      return static_cast<To>(x);
    }
  }

 private:
  template <typename X>
  static To Truncated(X x) {
    constexpr X kTwoTo63 = static_cast<X>(9223372036854775808.0);
    if constexpr (std::is_same_v<To, int32_t>) {
      const bool fits = x > static_cast<X>(-2147483904.0) && x < static_cast<X>(2147483648.0);
      // Between the neighbours of -2^31 a double may still be too small.
      const int64_t wide = fits ? static_cast<int64_t>(x) : std::numeric_limits<int64_t>::min();
      return wide < std::numeric_limits<To>::min() ? std::numeric_limits<To>::min() : static_cast<To>(wide);
    } else {
      if (std::is_same_v<To, uint64_t> && x >= kTwoTo63 && x < 2 * kTwoTo63) return static_cast<To>(x);
      const bool fits = x >= -kTwoTo63 && x < kTwoTo63;
      return static_cast<To>(fits ? static_cast<int64_t>(x) : std::numeric_limits<int64_t>::min());
    }
  }
};

// float32 that rounds to 16 bits as x does.
struct RoundedToOdd {
  template <typename From>
  float operator()(From x) const {
    return RoundToOdd(x);
  }
};

// A loop per pair of types, signed and unsigned integers being one where results have the same bits.
template <typename To>
UnaryRow FromFloats(DType from) {
  return UnaryRowOf<Converted<To>{}, To>(Types<float, double>{}, from);
}
template <typename To>
UnaryRow FromIntegers(DType from) {
  return UnaryRowOf<Converted<To>{}, To>(IntegerTypeList{}, from == DType::kBool ? DType::kU8 : from);
}

// `from` and `to` are no 16-bit floats.
UnaryRow FindRow(DType from, DType to) {
  if (from == to) return CopyRow(DTypeBytes(to));
  if (IsFloatType(from)) {
    switch (to) {
      case DType::kF32:
        return FromFloats<float>(from);
      case DType::kF64:
        return FromFloats<double>(from);
      case DType::kI32:
        return FromFloats<int32_t>(from);
      case DType::kU32:
        return FromFloats<uint32_t>(from);
      case DType::kI64:
        return FromFloats<int64_t>(from);
      case DType::kU64:
        return FromFloats<uint64_t>(from);
      case DType::kBool:
        return FromFloats<bool>(from);
      default:
        return DTypeBytes(to) == 1 ? FromFloats<uint8_t>(from) : FromFloats<uint16_t>(from);
    }
  }
  if (to == DType::kF32) return FromIntegers<float>(from);
  if (to == DType::kF64) return FromIntegers<double>(from);
  if (to == DType::kBool) return FromIntegers<bool>(from);
  if (DTypeBytes(from) == DTypeBytes(to)) return CopyRow(DTypeBytes(to));
  switch (DTypeBytes(to)) {
    case 1:
      return FromIntegers<uint8_t>(from);
    case 2:
      return FromIntegers<uint16_t>(from);
    case 4:
      return FromIntegers<uint32_t>(from);
    default:
      return FromIntegers<uint64_t>(from);
  }
}

template <typename From, typename To>
void ConvertLoop(int64_t n, const void* x, void* y, const RowParameters&) {
  ConvertFloats(static_cast<const From*>(x), static_cast<To*>(y), n);
}

// 16-bit floats through float32.
std::vector<UnaryRow> FindRows(DType from, DType to) {
  if (from == to) return {CopyRow(DTypeBytes(to))};
  std::vector<UnaryRow> rows;
  DType at = from;
  if (IsHalf(from)) {
    rows.push_back(from == DType::kF16 ? ConvertLoop<Float16, float> : ConvertLoop<BFloat16, float>);
    at = DType::kF32;
  }
  if (!IsHalf(to)) {
    if (at != to) rows.push_back(FindRow(at, to));
    return rows;
  }
  using Wide = Types<double, int32_t, int64_t, uint32_t, uint64_t>;
  const UnaryRow odd = UnaryRowOf<RoundedToOdd{}, float>(Wide{}, at);
  if (at != DType::kF32) rows.push_back(odd ? odd : FindRow(at, DType::kF32));
  rows.push_back(to == DType::kF16 ? ConvertLoop<float, Float16> : ConvertLoop<float, BFloat16>);
  return rows;
}

// Of CastLike, the second input's type.
DType Target(const Node& node) {
  return node.Is("CastLike") ? node.input(1)->type().dtype : static_cast<DType>(node.GetInt("to", 0));
}

std::string RejectCast(const Node& node, const CpuConfig&) {
  const DType from = node.input(0)->type().dtype, to = Target(node);
  if (!kCastTypes.Has(to)) return std::string("to type ") + DTypeName(to);
  return kCastTypes.Has(from) ? std::string() : std::string("type ") + DTypeName(from);
}

Result<std::unique_ptr<CpuKernel>> CompileCast(const Node& node, const CompileContext&) {
  const DType from = node.input(0)->type().dtype, to = Target(node);
  return MakePlainUnary({.name = "Cast to " + std::string(DTypeName(to)), .from = from, .rows = FindRows(from, to)});
}

std::string RejectBitCast(const Node& node, const CpuConfig&) {
  const DType from = node.input(0)->type().dtype;
  const size_t bytes = DTypeBytes(from);
  return bytes >= 1 && bytes <= 8 ? std::string() : std::string("type ") + DTypeName(from);
}

// Bytes read as bool are 0 or 1 afterwards.
Result<std::unique_ptr<CpuKernel>> CompileBitCast(const Node& node, const CompileContext&) {
  const DType from = node.input(0)->type().dtype;
  const bool to_bool = Target(node) == DType::kBool;
  return MakePlainUnary({.name = "BitCast",
                         .from = from,
                         .rows = {to_bool ? UnaryLoop<uint8_t, bool, Converted<bool>{}> : CopyRow(DTypeBytes(from))}});
}

constexpr CpuOp kOps[] = {
    {"", "Cast", RejectCast, CompileCast},
    {"", "CastLike", RejectCast, CompileCast},
    {"", "BitCast", RejectBitCast, CompileBitCast},
};

}  // namespace

extern const std::span<const CpuOp> kCpuOpsCast = kOps;

}  // namespace quern::cpu
