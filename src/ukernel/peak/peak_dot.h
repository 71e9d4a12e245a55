// The byte dot product loop, over one instruction. For kernel files only.
#pragma once

#include <immintrin.h>

#include "ukernel/gemm/epilogue_f32.h"
#include "ukernel/peak.h"

namespace quern::ukernel {
namespace {

// D describes the instruction: Vector, Dot(acc, a, b), kProducts of one. Latency 5 on two ports: at least 10 chains.
template <class D, int kAccumulators>
uint64_t RunPeakDot(size_t steps, const void* data) {
  using Vector = typename D::Vector;
  constexpr size_t kBytes = sizeof(Vector);
  const auto* p = static_cast<const char*>(data);
  Vector acc[kAccumulators], a, b;
  __builtin_memcpy(acc, p, sizeof(acc));
  __builtin_memcpy(&a, p + kBytes * kAccumulators, kBytes);
  __builtin_memcpy(&b, p + kBytes * (kAccumulators + 1), kBytes);
  for (size_t s = 0; s < steps; ++s) {
    QUERN_UNROLL for (int i = 0; i < kAccumulators; ++i) {
      acc[i] = D::Dot(acc[i], a, b);
      asm("" : "+v"(acc[i]));  // keeps compilers from multiplying instead
    }
  }
  uint32_t lanes[sizeof(acc) / 4];
  __builtin_memcpy(lanes, acc, sizeof(acc));
  uint64_t sum = 0;
  for (uint32_t x : lanes) sum += x;
  return sum;
}

template <class D, int kAccumulators>
constexpr PeakKernel PeakDotRow(const char* engine) {
  return {.isa = kIsa,
          .engine = engine,
          .unit = "GOP/s",
          .operations = 2.0 * kAccumulators * D::kProducts,
          .run = RunPeakDot<D, kAccumulators>};
}

}  // namespace
}  // namespace quern::ukernel
