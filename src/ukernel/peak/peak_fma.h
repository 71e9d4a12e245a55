// The multiply-add loop over vector traits (gemm/vector_f32_*.h and vector_f64_*.h). For kernel files only.
#pragma once

#include "ukernel/gemm/epilogue_f32.h"
#include "ukernel/peak.h"

namespace quern::ukernel {
namespace {

// kAccumulators independent chains, at least 12: four cycles of latency on two or three ports.
template <class V, int kAccumulators>
uint64_t RunPeakFma(size_t steps, const void* data) {
  const auto* bytes = static_cast<const uint8_t*>(data);
  using Reg = typename V::Reg;
  using Scalar = typename V::Scalar;
  alignas(64) Scalar values[(kAccumulators + 2) * V::kLanes];
  for (int i = 0; i < (kAccumulators + 2) * V::kLanes; ++i) {
    values[i] = static_cast<Scalar>(static_cast<int>(bytes[i]) - 128) / Scalar{160};  // below 1: the sums stay bounded
  }
  Reg acc[kAccumulators];
  QUERN_UNROLL for (int i = 0; i < kAccumulators; ++i) acc[i] = V::Load(values + i * V::kLanes);
  const Reg a = V::Load(values + kAccumulators * V::kLanes), b = V::Load(values + (kAccumulators + 1) * V::kLanes);
  for (size_t s = 0; s < steps; ++s) {
    QUERN_UNROLL for (int i = 0; i < kAccumulators; ++i) acc[i] = V::Fma(acc[i], a, b);
  }
  QUERN_UNROLL for (int i = 0; i < kAccumulators; ++i) V::Store(values + i * V::kLanes, acc[i]);
  uint64_t sum = 0;
  for (int i = 0; i < kAccumulators * V::kLanes; ++i) {
    uint32_t bits;
    __builtin_memcpy(&bits, values + i, sizeof(bits));
    sum += bits;
  }
  return sum;
}

// The descriptor of a loop whose steps do `products` multiply-adds.
[[maybe_unused]] constexpr PeakKernel FmaPeak(const char* engine, Format multiplies, int products,
                                              uint64_t (*run)(size_t, const void*)) {
  return {.isa = kIsa,
          .engine = engine,
          .unit = "GFLOP/s",
          .multiplies = multiplies,
          .operations = 2.0 * products,
          .run = run};
}

}  // namespace
}  // namespace quern::ukernel
