// The loop of dot or matrix products in vector registers, over the instruction's traits. For kernel files only.
#pragma once

#include "ukernel/gemm/epilogue_f32.h"
#include "ukernel/peak.h"

namespace quern::ukernel {
namespace {

// kAccumulators independent chains. `kMask` clears bits of each pair of bytes.
template <class D, int kAccumulators, uint16_t kMask>
uint64_t RunPeakDot(size_t steps, const void* data) {
  using Reg = typename D::Reg;
  constexpr size_t kWords = sizeof(Reg) / sizeof(uint16_t);
  static_assert((kAccumulators + 2) * sizeof(Reg) <= kPeakDataBytes);
  const auto* from = static_cast<const uint16_t*>(data);
  alignas(64) uint16_t words[(kAccumulators + 2) * kWords];
  for (size_t i = 0; i < (kAccumulators + 2) * kWords; ++i) words[i] = from[i] & kMask;
  Reg acc[kAccumulators];
  QUERN_UNROLL for (size_t i = 0; i < kAccumulators; ++i) acc[i] = D::Load(words + i * kWords);
  const Reg a = D::Load(words + kAccumulators * kWords), b = D::Load(words + (kAccumulators + 1) * kWords);
  for (size_t s = 0; s < steps; ++s) {
    QUERN_UNROLL for (size_t i = 0; i < kAccumulators; ++i) D::Dot(acc[i], a, b);
  }
  QUERN_UNROLL for (size_t i = 0; i < kAccumulators; ++i) D::Store(words + i * kWords, acc[i]);
  uint64_t sum = 0;
  for (size_t i = 0; i < kAccumulators * kWords; i += 2) sum += words[i] | (uint32_t{words[i + 1]} << 16);
  return sum;
}

// Loads and stores of any vector type, as D wants them.
template <class R>
struct DotRegister {
  using Reg = R;
  static R Load(const uint16_t* p) {
    R x;
    __builtin_memcpy(&x, p, sizeof(R));
    return x;
  }
  static void Store(uint16_t* p, R x) { __builtin_memcpy(p, &x, sizeof(R)); }
};

// Without the high exponent bit, floats of any format stay below 2: sums stay finite, as those of float16 stop growing
// where a product is less than half of their last place.
[[maybe_unused]] constexpr uint16_t kFloatMask = 0xbfff;

// The row of float products of which an instruction computes D::kProducts.
template <class D, int kAccumulators>
constexpr PeakKernel PeakFloatRow(const char* engine, Format multiplies) {
  return {.isa = kIsa,
          .engine = engine,
          .unit = "GFLOP/s",
          .multiplies = multiplies,
          .operations = 2.0 * kAccumulators * D::kProducts,
          .run = RunPeakDot<D, kAccumulators, kFloatMask>};
}

// That of multiply-adds of float16.
template <class D, int kAccumulators>
constexpr PeakKernel PeakFma16Row() {
  PeakKernel row = PeakFloatRow<D, kAccumulators>("fma16", Format::kF16);
  row.half_sums = true;
  return row;
}

// The row of integer products of which an instruction computes D::kProducts.
template <class D, int kAccumulators>
constexpr PeakKernel PeakDotRow(const char* engine) {
  return {.isa = kIsa,
          .engine = engine,
          .unit = "GOP/s",
          .multiplies = Format::kI8,
          .operations = 2.0 * kAccumulators * D::kProducts,
          .run = RunPeakDot<D, kAccumulators, 0xffff>};
}

}  // namespace
}  // namespace quern::ukernel
