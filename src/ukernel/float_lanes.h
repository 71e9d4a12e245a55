// Vectors of 32-bit lanes as wide as a file's ISA has them, and float32 in them from and to every float format. For
// kernel files only: internal linkage, their flags.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ukernel/convert.h"
#include "ukernel/widen_portable.h"

#if defined(__AVX2__)
#include <immintrin.h>
#elif defined(__ARM_NEON)
#include <arm_neon.h>
#endif

namespace quern::ukernel {
namespace {

#if defined(__AVX512F__)
constexpr size_t kLanes = 16;
#elif defined(__AVX2__)
constexpr size_t kLanes = 8;
#else
constexpr size_t kLanes = 4;
#endif
typedef uint32_t Lanes __attribute__((vector_size(4 * kLanes)));
typedef int32_t IntLanes __attribute__((vector_size(4 * kLanes)));
typedef float FloatLanes __attribute__((vector_size(4 * kLanes)));
typedef uint16_t HalfLanes __attribute__((vector_size(2 * kLanes)));

// 16-bit floats as float32; float16's NaN become quiet.
template <Format F>
inline FloatLanes WidenHalves(HalfLanes x) {
  static_assert(F == Format::kF16 || F == Format::kBf16);
  if constexpr (F == Format::kBf16) {
    return (FloatLanes)(__builtin_convertvector(x, Lanes) << 16);
  } else {
#if defined(__AVX512F__)
    return (FloatLanes)_mm512_cvtph_ps((__m256i)x);
#elif defined(__AVX2__)
    return (FloatLanes)_mm256_cvtph_ps((__m128i)x);
#elif defined(__ARM_NEON)
    return (FloatLanes)vcvt_f32_f16((float16x4_t)x);
#else
    return WidenHalf<F>(__builtin_convertvector(x, Lanes));
#endif
  }
}

template <Format F>
inline FloatLanes LoadFloats(const char* p) {
  if constexpr (F == Format::kF32) {
    return LoadAs<FloatLanes>(p);
  } else {
    return WidenHalves<F>(LoadAs<HalfLanes>(p));
  }
}

// The same of a format that is known at run time.
[[maybe_unused]] inline FloatLanes LoadFloats(Format format, const char* p) {
  if (format == Format::kF32) return LoadFloats<Format::kF32>(p);
  return format == Format::kF16 ? LoadFloats<Format::kF16>(p) : LoadFloats<Format::kBf16>(p);
}

// Rounds to nearest even; NaN stay, quiet.
template <Format F>
inline void StoreFloats(char* to, FloatLanes x) {
  if constexpr (F == Format::kF32) {
    StoreAs(to, x);
  } else if constexpr (F == Format::kBf16) {
    const Lanes bits = (Lanes)x;
    const Lanes is_nan = (Lanes)((IntLanes)(bits & 0x7fffffffu) > 0x7f800000);
    const Lanes rounded = bits + (((bits >> 16 & 1u) + 0x7fffu) & ~is_nan);
    StoreAs(to, __builtin_convertvector((rounded | (is_nan & 0x400000u)) >> 16, HalfLanes));
  } else {
#if defined(__AVX512F__)
    StoreAs(to, _mm512_cvtps_ph((__m512)x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
#elif defined(__AVX2__)
    StoreAs(to, _mm256_cvtps_ph((__m256)x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
#elif defined(__ARM_NEON)
    StoreAs(to, vcvt_f16_f32((float32x4_t)x));
#else
    for (size_t i = 0; i < kLanes; ++i) StoreFloat(F, to + 2 * i, x[i]);
#endif
  }
}

}  // namespace
}  // namespace quern::ukernel
