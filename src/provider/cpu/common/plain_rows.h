// Elementwise operators without micro-kernels. A row is a loop over neighbouring elements, a kernel holds pointers to
// rows: one more type of an operator is one more small loop.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "ops/common/dispatch.h"
#include "provider/cpu/common/loops.h"

namespace quern::cpu {

// What a function of one operand may depend on.
struct RowParameters {
  double a = 0, b = 0;                         // attributes
  const void *low = nullptr, *high = nullptr;  // Clip's bounds, of the operand's type
};
// y[i] = f(x[i]); y is not x.
using UnaryRow = void (*)(int64_t n, const void* x, void* y, const RowParameters& parameters);
// y[i] = f(a[i], b[i]); y is no operand. False for a fault, such as a division by zero.
using BinaryRow = bool (*)(int64_t n, const void* a, const void* b, void* y);

// The row of y = kF(x) or kF(x, parameters).
template <typename X, typename Y, auto kF>
void UnaryLoop(int64_t n, const void* x, void* y, const RowParameters& parameters) {
  const X* __restrict from = static_cast<const X*>(x);
  Y* __restrict to = static_cast<Y*>(y);
  if constexpr (std::is_invocable_v<decltype(kF), X, const RowParameters&>) {
    const RowParameters p = parameters;
    for (int64_t i = 0; i < n; ++i) to[i] = static_cast<Y>(kF(from[i], p));
  } else {
    for (int64_t i = 0; i < n; ++i) to[i] = static_cast<Y>(kF(from[i]));
  }
}

// The row of y = kF(a, b) or kF(a, b, fault), which sets `fault` where there is one.
template <typename A, typename B, typename Y, auto kF>
bool BinaryLoop(int64_t n, const void* a, const void* b, void* y) {
  const A* __restrict u = static_cast<const A*>(a);
  const B* __restrict v = static_cast<const B*>(b);
  Y* __restrict to = static_cast<Y*>(y);
  bool fault = false;
  if constexpr (std::is_invocable_v<decltype(kF), A, B, bool&>) {
    for (int64_t i = 0; i < n; ++i) to[i] = static_cast<Y>(kF(u[i], v[i], fault));
  } else {
    for (int64_t i = 0; i < n; ++i) to[i] = static_cast<Y>(kF(u[i], v[i]));
  }
  return !fault;
}

using SignedTypeList = Types<int8_t, int16_t, int32_t, int64_t>;
using UnsignedTypeList = Types<uint8_t, uint16_t, uint32_t, uint64_t>;

// The row for elements of `dtype`, with results of Y (void: of the same type); null for types that the list lacks.
template <auto kF, typename Y = void, typename... Ts>
UnaryRow UnaryRowOf(Types<Ts...>, DType dtype) {
  UnaryRow row = nullptr;
  const auto match = [&](DType t, UnaryRow r) { row = t == dtype ? r : row; };
  (match(DTypeOf<Ts>::value, UnaryLoop<Ts, std::conditional_t<std::is_void_v<Y>, Ts, Y>, kF>), ...);
  return row;
}
template <auto kF, typename Y = void, typename... Ts>
BinaryRow BinaryRowOf(Types<Ts...>, DType dtype) {
  BinaryRow row = nullptr;
  const auto match = [&](DType t, BinaryRow r) { row = t == dtype ? r : row; };
  (match(DTypeOf<Ts>::value, BinaryLoop<Ts, Ts, std::conditional_t<std::is_void_v<Y>, Ts, Y>, kF>), ...);
  return row;
}

// The unsigned integer as wide as a signed one or a bool; other types stay. For functions that are the same for both.
DType AsUnsigned(DType dtype);

// n elements of `bytes` bytes each, as they are: 1, 2, 4 or 8.
UnaryRow CopyRow(size_t bytes);

// Elements that a row takes at a time where an operand is not its memory: broadcast, converted or overwritten.
inline constexpr int64_t kRowChunk = 512;
inline constexpr size_t kRowChunkBytes = static_cast<size_t>(kRowChunk) * 8;

// How an operand of elements of 1, 2, 4 or 8 bytes broadcasts to the output.
class PlainOperand {
 public:
  PlainOperand(const Shape& out, const TensorSpec& operand);
  // Each element of the output has its own.
  bool is_whole() const { return whole_; }

 private:
  friend class OperandReader;
  BroadcastWalk<1> walk_;
  size_t bytes_;
  bool whole_;
};

// An operand's elements in the order of the output.
class OperandReader {
 public:
  OperandReader(const PlainOperand& operand, const void* first)
      : operand_(operand), first_(static_cast<const char*>(first)) {}
  OperandReader(const OperandReader&) = delete;
  OperandReader& operator=(const OperandReader&) = delete;
  // Those for the outputs [begin, begin + n), neighbours until the next call; n at most kRowChunk unless is_whole().
  const void* Read(int64_t begin, int64_t n) {
    return operand_.whole_ ? first_ + static_cast<size_t>(begin) * operand_.bytes_ : Gather(begin, n);
  }

 private:
  const void* Gather(int64_t begin, int64_t n);
  template <typename T>
  const void* GatherAs(int64_t begin, int64_t n);

  const PlainOperand& operand_;
  const char* first_;
  const void* repeated_ = nullptr;  // the element that fills the first repetitions_ of the buffer
  int64_t repetitions_ = 0;
  alignas(64) char buffer_[kRowChunkBytes];  // written only where it is needed
};

// One operand, or one that matters: others are looked at when planning.
struct PlainUnary {
  std::string name;
  DType from{};                // of the operand
  std::vector<UnaryRow> rows;  // each one's result is the next one's operand; results between them have 8 bytes or less
  RowParameters parameters = {};
  bool costly = false;  // scalar code
};
std::unique_ptr<CpuKernel> MakePlainUnary(PlainUnary what);

// n elements of x, of x_bytes bytes each, through the rows of PlainUnary; y may be x where the widths are the same.
void ApplyRows(std::span<const UnaryRow> rows, const RowParameters& parameters, int64_t n, const void* x, void* y,
               size_t x_bytes, size_t y_bytes);

// Two operands that broadcast, or more, each of which meets the result so far.
struct PlainBinary {
  std::string name;
  DType from{};  // of the first operand
  BinaryRow row = nullptr;
  bool swapped = false;        // row(b, a)
  bool costly = false;         // scalar code
  UnaryRow convert = nullptr;  // of the second operand, to elements of 8 bytes
  UnaryRow last = nullptr;     // of the result; its parameter `a` is the number of operands
  const char* fault = "";
};
std::unique_ptr<CpuKernel> MakePlainBinary(PlainBinary what);

// The result may take the memory of one of the first two operands: later ones are read after it is written.
Placement PlaceBinary(const BindContext& context);

// Before operator set 7 the second operand was aligned by attributes. Empty where this node's is not.
std::string RejectLegacyBroadcast(const Node& node);

}  // namespace quern::cpu
