// Reading and writing single elements of any plain format: what the generic packers are made of. Kernel-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/float16.h"
#include "ukernel/format.h"

namespace quern::ukernel {

template <class T>
static inline T LoadAs(const void* p) {
  T x;
  std::memcpy(&x, p, sizeof(T));
  return x;
}

template <class T>
static inline void StoreAs(void* p, T x) {
  std::memcpy(p, &x, sizeof(T));
}

// Element of kF32 kF16 kBf16 kI8 kU8 kI32 as float32 (exact but for large int32).
static inline float LoadFloat(Format f, const void* p) {
  switch (f) {
    case Format::kF32:
      return LoadAs<float>(p);
    case Format::kF16:
      return F16BitsToF32(LoadAs<uint16_t>(p));
    case Format::kBf16:
      return Bf16BitsToF32(LoadAs<uint16_t>(p));
    case Format::kI8:
      return static_cast<float>(LoadAs<int8_t>(p));
    case Format::kU8:
      return static_cast<float>(LoadAs<uint8_t>(p));
    case Format::kI32:
      return static_cast<float>(LoadAs<int32_t>(p));
    default:
      return 0;
  }
}

// As LoadFloat, also of kF64.
static inline double LoadNumber(Format f, const void* p) {
  return f == Format::kF64 ? LoadAs<double>(p) : static_cast<double>(LoadFloat(f, p));
}

static inline void StoreFloat(Format f, void* p, float x) {
  switch (f) {
    case Format::kF32:
      StoreAs(p, x);
      return;
    case Format::kF16:
      StoreAs(p, F32ToF16Bits(x));
      return;
    case Format::kBf16:
      StoreAs(p, F32ToBf16Bits(x));
      return;
    default:
      return;
  }
}

// As StoreFloat, also of kF64.
static inline void StoreNumber(Format f, void* p, double x) {
  if (f == Format::kF64) return StoreAs(p, x);
  StoreFloat(f, p, static_cast<float>(x));
}

// Formats whose numbers are read and written as float32.
static inline bool IsFloatFormat(Format f) {
  return f == Format::kF32 || f == Format::kF16 || f == Format::kBf16 || f == Format::kBf16x2 || f == Format::kBf16x3;
}

// The bf16 terms of x: each the rounded rest that the ones before left.
static inline void SplitBf16(float x, size_t terms, uint16_t* out) {
  float rest = x;
  for (size_t t = 0; t < terms; ++t) {
    out[t] = F32ToBf16Bits(rest);
    rest -= Bf16BitsToF32(out[t]);
  }
}

}  // namespace quern::ukernel
