// From an element type known at run time to a template argument: DispatchType(NumericTypeList{}, dtype, [&]<typename
// T>() {...}).
#pragma once

#include <cstdint>
#include <type_traits>

#include "base/dtype.h"
#include "base/float16.h"
#include "base/status.h"
#include "tensor/tensor.h"

namespace quern {

template <typename... Ts>
struct Types {};

using FloatTypeList = Types<float, double, Float16, BFloat16>;
using IntegerTypeList = Types<int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t>;
using NumericTypeList =
    Types<float, double, Float16, BFloat16, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t>;

// The type that arithmetic on T runs in: float for the 16-bit floats, else T.
template <typename T>
struct ComputeTypeOf {
  using Type = T;
};
template <>
struct ComputeTypeOf<Float16> {
  using Type = float;
};
template <>
struct ComputeTypeOf<BFloat16> {
  using Type = float;
};
template <typename T>
using ComputeType = typename ComputeTypeOf<T>::Type;

Status UnsupportedElementType(DType dtype);

// Calls f.operator()<T>() for the T of the list that stores `dtype`; Unsupported when none does.
template <typename... Ts, typename F>
Status DispatchType(Types<Ts...>, DType dtype, F&& f) {
  using Function = std::remove_reference_t<F>;
  Status (*call)(Function&) = nullptr;  // chosen first: one call is less to compile than one for each type
  const bool found = ((DTypeOf<Ts>::value == dtype
                           ? (
                                 call = +[](Function& g) -> Status { return g.template operator()<Ts>(); }, true)
                           : false) ||
                      ...);
  return found ? call(f) : UnsupportedElementType(dtype);
}
template <typename F>
Status DispatchNumeric(DType dtype, F&& f) {
  return DispatchType(NumericTypeList{}, dtype, f);
}
template <typename F>
Status DispatchFloat(DType dtype, F&& f) {
  return DispatchType(FloatTypeList{}, dtype, f);
}
template <typename F>
Status DispatchInteger(DType dtype, F&& f) {
  return DispatchType(IntegerTypeList{}, dtype, f);
}
// For tensors of indices: int32 or int64.
template <typename F>
Status DispatchIndex(DType dtype, F&& f) {
  return DispatchType(Types<int64_t, int32_t>{}, dtype, f);
}

}  // namespace quern
