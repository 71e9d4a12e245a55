// Operators on the bits of integers, with broadcasting: BitwiseAnd, BitwiseOr, BitwiseXor, BitwiseNot, BitShift.
#include <limits>

#include "provider/cpu/common/plain_rows.h"

namespace quern::cpu {
namespace {

struct And {
  template <typename T>
  T operator()(T a, T b) const {
    return static_cast<T>(a & b);
  }
};
struct Or {
  template <typename T>
  T operator()(T a, T b) const {
    return static_cast<T>(a | b);
  }
};
struct Xor {
  template <typename T>
  T operator()(T a, T b) const {
    return static_cast<T>(a ^ b);
  }
};
struct Not {
  template <typename T>
  T operator()(T a) const {
    return static_cast<T>(~a);
  }
};

// A shift by less than 0 (a large number without its sign) or by all bits or more leaves what fills.
template <typename T>
bool IsInRange(T amount) {
  using Bits = std::make_unsigned_t<T>;
  return static_cast<Bits>(amount) < std::numeric_limits<Bits>::digits;
}
struct ShiftLeft {
  template <typename T>
  T operator()(T x, T amount) const {
    const int by = IsInRange(amount) ? static_cast<int>(amount) : 0;
    return IsInRange(amount) ? static_cast<T>(uint64_t{x} << by) : T{0};
  }
};
// Negative numbers are filled with their sign.
struct ShiftRight {
  template <typename T>
  T operator()(T x, T amount) const {
    const T filled = x < T{0} ? static_cast<T>(-1) : T{0};
    return IsInRange(amount) ? static_cast<T>(x >> static_cast<int>(amount)) : filled;
  }
};

// Signed and unsigned alike.
template <auto kF>
BinaryRow ByWidth(DType dtype) {
  return BinaryRowOf<kF>(UnsignedTypeList{}, AsUnsigned(dtype));
}

BinaryRow FindRow(const Node& node) {
  const DType dtype = node.input(0)->type().dtype;
  if (node.Is("BitwiseAnd")) return ByWidth<And{}>(dtype);
  if (node.Is("BitwiseOr")) return ByWidth<Or{}>(dtype);
  if (node.Is("BitwiseXor")) return ByWidth<Xor{}>(dtype);
  if (node.GetString("direction", "") == "LEFT") return ByWidth<ShiftLeft{}>(dtype);
  return BinaryRowOf<ShiftRight{}>(IntegerTypeList{}, dtype);
}

Result<std::unique_ptr<CpuKernel>> Compile(const Node& node, const CompileContext&) {
  const DType dtype = node.input(0)->type().dtype;
  return MakePlainBinary({.name = node.op_type(), .from = dtype, .row = FindRow(node)});
}

Result<std::unique_ptr<CpuKernel>> CompileNot(const Node& node, const CompileContext&) {
  const DType dtype = node.input(0)->type().dtype;
  const UnaryRow row = UnaryRowOf<Not{}>(UnsignedTypeList{}, AsUnsigned(dtype));
  return MakePlainUnary({.name = node.op_type(), .from = dtype, .rows = {row}});
}

// Their schemas admit integers alone.
std::string Reject(const Node&, const CpuConfig&) { return {}; }

constexpr CpuOp kOps[] = {
    {"", "BitwiseAnd", Reject, Compile}, {"", "BitwiseOr", Reject, Compile},     {"", "BitwiseXor", Reject, Compile},
    {"", "BitShift", Reject, Compile},   {"", "BitwiseNot", Reject, CompileNot},
};

}  // namespace

extern const std::span<const CpuOp> kCpuOpsBitwise = kOps;

}  // namespace quern::cpu
