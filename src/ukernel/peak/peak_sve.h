// The loop of multiply-adds or products in SVE's vectors, over the instruction's traits. For kernel files of SVE only.
#pragma once

#include <arm_sve.h>

#include "ukernel/gemm/registers.h"
#include "ukernel/peak.h"

namespace quern::ukernel {
namespace {

// Independent chains: enough for six cycles of latency on four ports.
constexpr int kSveAccumulators = 24;
constexpr size_t kMostSveBytes = 256;
static_assert((kSveAccumulators + 2) * kMostSveBytes <= kPeakDataBytes);

// D::Dot(acc, a, b) on vectors of any type, which are held as 16-bit words. `kMask` clears bits of each.
template <class D, uint16_t kMask>
uint64_t RunPeakSve(size_t steps, const void* data) {
  constexpr size_t kWords = kPeakDataBytes / sizeof(uint16_t);
  const auto* from = static_cast<const uint16_t*>(data);
  alignas(64) uint16_t words[kWords];
  for (size_t i = 0; i < kWords; ++i) words[i] = from[i] & kMask;
  uint64_t sum = 0;
  WithRegisters<kSveAccumulators + 2, svuint16_t>([&](svuint16_t* const* all) __attribute__((always_inline)) {
    const svbool_t every = svptrue_b8();
    QUERN_UNROLL for (int i = 0; i < kSveAccumulators + 2; ++i) * all[i] = svld1_vnum(every, words, i);
    const svuint16_t a = *all[kSveAccumulators], b = *all[kSveAccumulators + 1];
    for (size_t s = 0; s < steps; ++s) {
      QUERN_UNROLL for (int i = 0; i < kSveAccumulators; ++i) {
        *all[i] = D::Dot(*all[i], a, b);
        asm("" : "+w"(*all[i]));  // keeps compilers from multiplying instead
      }
    }
    QUERN_UNROLL for (int i = 0; i < kSveAccumulators; ++i) sum += svaddv(every, svreinterpret_u32(*all[i]));
  });
  return sum;
}

// Without the high exponent bit, floats of any format stay below 2: sums stay finite.
[[maybe_unused]] constexpr uint16_t kFloatMask = 0xbfff;

// The row of an instruction that computes `products` for each 32 bits of a vector.
[[maybe_unused]] constexpr PeakKernel PeakSveRow(const char* engine, Format multiplies, int products,
                                                 uint64_t (*run)(size_t, const void*)) {
  return {.isa = kIsa,
          .engine = engine,
          .unit = multiplies == Format::kI8 ? "GOP/s" : "GFLOP/s",
          .multiplies = multiplies,
          .operations = 2.0 * kSveAccumulators * products,
          .n_scale = VectorScale::kSve,
          .run = run};
}

}  // namespace
}  // namespace quern::ukernel
