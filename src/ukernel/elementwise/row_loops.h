// Loops over neighbouring elements, made of a function of elements and their types: the compiler vectorizes them with
// the flags of the including file. Kernel-safe.
#pragma once

#include <type_traits>

#include "base/float16.h"
#include "ukernel/elementwise.h"
#include "ukernel/vector_math.h"

namespace quern::ukernel {
namespace {

template <class... Ts>
struct TypeList {};

template <class T>
constexpr DType DTypeOf() {
  if constexpr (std::is_same_v<T, bool>) {
    return DType::kBool;
  } else if constexpr (std::is_same_v<T, Float16>) {
    return DType::kF16;
  } else if constexpr (std::is_same_v<T, BFloat16>) {
    return DType::kBF16;
  } else if constexpr (std::is_floating_point_v<T>) {
    return sizeof(T) == 4 ? DType::kF32 : DType::kF64;
  } else if constexpr (std::is_signed_v<T>) {
    return sizeof(T) == 1 ? DType::kI8 : sizeof(T) == 2 ? DType::kI16 : sizeof(T) == 4 ? DType::kI32 : DType::kI64;
  } else {
    return sizeof(T) == 1 ? DType::kU8 : sizeof(T) == 2 ? DType::kU16 : sizeof(T) == 4 ? DType::kU32 : DType::kU64;
  }
}

using Floats = TypeList<float, double>;
using SignedIntegers = TypeList<int8_t, int16_t, int32_t, int64_t>;
using UnsignedIntegers = TypeList<uint8_t, uint16_t, uint32_t, uint64_t>;
using Integers = TypeList<int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t>;

// The unsigned integer as wide as a signed one or a bool; other types stay. For functions that are the same for both.
constexpr DType AsUnsigned(DType dtype) {
  switch (dtype) {
    case DType::kBool:
    case DType::kI8:
      return DType::kU8;
    case DType::kI16:
      return DType::kU16;
    case DType::kI32:
      return DType::kU32;
    case DType::kI64:
      return DType::kU64;
    default:
      return dtype;
  }
}

// The row of y = kF(x) or kF(x, parameters).
template <class X, class Y, auto kF>
void UnaryLoop(int64_t n, const void* x, void* y, const RowParameters& parameters) {
  const X* __restrict from = static_cast<const X*>(x);
  Y* __restrict to = static_cast<Y*>(y);
  if constexpr (std::is_invocable_v<decltype(kF), X, const RowParameters&>) {
    const RowParameters p = parameters;
    QUERN_INDEPENDENT
    for (int64_t i = 0; i < n; ++i) to[i] = static_cast<Y>(kF(from[i], p));
  } else {
    QUERN_INDEPENDENT
    for (int64_t i = 0; i < n; ++i) to[i] = static_cast<Y>(kF(from[i]));
  }
}

// The row of y = kF(a, b), or of kF(a, b, fault) with a fault of kF's type, which is not 0 where there is one.
template <class A, class B, class Y, auto kF>
bool BinaryLoop(int64_t n, const void* a, const void* b, void* y) {
  const A* __restrict u = static_cast<const A*>(a);
  const B* __restrict v = static_cast<const B*>(b);
  Y* __restrict to = static_cast<Y*>(y);
  if constexpr (std::is_invocable_v<decltype(kF), A, B, B&>) {
    B fault{0};
    QUERN_INDEPENDENT
    for (int64_t i = 0; i < n; ++i) {
      B here{0};
      to[i] = static_cast<Y>(kF(u[i], v[i], here));
      fault = static_cast<B>(fault | here);
    }
    return fault == B{0};
  } else {
    QUERN_INDEPENDENT
    for (int64_t i = 0; i < n; ++i) to[i] = static_cast<Y>(kF(u[i], v[i]));
    return true;
  }
}

// The row for elements of `dtype`, with results of Y (void: of the same type); null for types that the list lacks.
template <auto kF, class Y = void, class... Ts>
UnaryRow UnaryRowOf(TypeList<Ts...>, DType dtype) {
  UnaryRow row = nullptr;
  ((row = DTypeOf<Ts>() == dtype ? UnaryLoop<Ts, std::conditional_t<std::is_void_v<Y>, Ts, Y>, kF> : row), ...);
  return row;
}
template <auto kF, class Y = void, class... Ts>
BinaryRow BinaryRowOf(TypeList<Ts...>, DType dtype) {
  BinaryRow row = nullptr;
  ((row = DTypeOf<Ts>() == dtype ? BinaryLoop<Ts, Ts, std::conditional_t<std::is_void_v<Y>, Ts, Y>, kF> : row), ...);
  return row;
}

}  // namespace
}  // namespace quern::ukernel
