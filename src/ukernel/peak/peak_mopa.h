// The loop of SME's outer products, over the instruction's traits. For kernel files of SME only.
#pragma once

#include <arm_sme.h>

#include "ukernel/peak.h"
#include "ukernel/sme_call.h"

#define QUERN_STREAMING __attribute__((always_inline)) static inline

namespace quern::ukernel {
namespace {

constexpr size_t kMostStreamingBytes = 256;

struct MopaCall {
  size_t steps;
  const uint16_t* words;
  uint64_t sum;
};

template <uint32_t T>
QUERN_STREAMING uint64_t TileSum() __arm_streaming __arm_inout("za") {
  uint64_t sum = 0;
  for (uint32_t r = 0; r < svcntw(); ++r) {
    sum += svaddv(svptrue_b32(), svread_hor_za32_m(svdup_u32(0), svptrue_b32(), T, r));
  }
  return sum;
}

// D::Outer<T>(a, b) adds to tile T; vectors of any type are held as 16-bit words. Four tiles, as an outer product may
// take four cycles and one starts each.
template <class D>
void MopaBody(void* argument) __arm_streaming __arm_inout("za") {
  auto& call = *static_cast<MopaCall*>(argument);
  const svbool_t all = svptrue_b8();
  const svuint16_t x0 = svld1_vnum(all, call.words, 0), x1 = svld1_vnum(all, call.words, 1);
  const svuint16_t w0 = svld1_vnum(all, call.words, 2), w1 = svld1_vnum(all, call.words, 3);
  svzero_za();
  for (size_t s = 0; s < call.steps; ++s) {
    D::template Outer<0>(x0, w0);
    D::template Outer<1>(x0, w1);
    D::template Outer<2>(x1, w0);
    D::template Outer<3>(x1, w1);
  }
  call.sum = TileSum<0>() + TileSum<1>() + TileSum<2>() + TileSum<3>();
}

// `kMask` clears bits of each pair of bytes.
template <class D, uint16_t kMask>
uint64_t RunPeakMopa(size_t steps, const void* data) {
  constexpr size_t kWords = 4 * kMostStreamingBytes / sizeof(uint16_t);
  static_assert(kWords * sizeof(uint16_t) <= kPeakDataBytes);
  const auto* from = static_cast<const uint16_t*>(data);
  alignas(64) uint16_t words[kWords];
  for (size_t i = 0; i < kWords; ++i) words[i] = from[i] & kMask;
  MopaCall call{steps, words, 0};
  quern_sme_call(MopaBody<D>, &call);
  return call.sum;
}

// The row of an instruction that computes `products` for each 32-bit sum of a tile.
template <class D>
constexpr PeakKernel PeakMopaRow(const char* engine, Format multiplies, int products) {
  const bool integers = multiplies == Format::kI8;
  // Without the high exponent bit, floats of any format stay below 2: sums stay finite.
  return {.isa = kIsa,
          .engine = engine,
          .unit = integers ? "GOP/s" : "GFLOP/s",
          .multiplies = multiplies,
          .operations = 2.0 * 4 * products,
          .m_scale = VectorScale::kSme,
          .n_scale = VectorScale::kSme,
          .run = integers ? RunPeakMopa<D, 0xffff> : RunPeakMopa<D, 0xbfff>};
}

}  // namespace
}  // namespace quern::ukernel
