// The tile product loop, over one product instruction of AMX. For kernel files only.
#pragma once

#include "ukernel/peak.h"

#if QUERN_ISA_HERE
#include "ukernel/amx_tile.h"
#endif

namespace quern::ukernel {
namespace {

constexpr int kAmxTiles = 6;

#if QUERN_ISA_HERE
// Products of one step: a sum is ready after 52 cycles and a product starts every 16, so six tiles of sums keep the
// unit busy. `kMask` clears bits of each operand's byte pairs. Returns the sum of all 32-bit words of the tiles' sums.
template <class Dot, uint16_t kMask>
uint64_t RunPeakAmx(size_t steps, const void* data) {
  alignas(64) uint16_t operands[2][512];
  __builtin_memcpy(operands, data, sizeof(operands));
  for (auto& operand : operands) {
    for (uint16_t& x : operand) x &= kMask;
  }
  amx::LoadConfig(&amx::kFullTiles);
  amx::Load<6>(operands[0], 64);
  amx::Load<7>(operands[1], 64);
  amx::Zero<0>();
  amx::Zero<1>();
  amx::Zero<2>();
  amx::Zero<3>();
  amx::Zero<4>();
  amx::Zero<5>();
  for (size_t s = 0; s < steps; ++s) {
    Dot::template Run<0, 6, 7>();
    Dot::template Run<1, 6, 7>();
    Dot::template Run<2, 6, 7>();
    Dot::template Run<3, 6, 7>();
    Dot::template Run<4, 6, 7>();
    Dot::template Run<5, 6, 7>();
  }
  alignas(64) uint32_t sums[kAmxTiles][256];
  amx::Store<0>(sums[0], 64);
  amx::Store<1>(sums[1], 64);
  amx::Store<2>(sums[2], 64);
  amx::Store<3>(sums[3], 64);
  amx::Store<4>(sums[4], 64);
  amx::Store<5>(sums[5], 64);
  amx::Release();
  uint64_t total = 0;
  for (const auto& tile : sums) {
    for (uint32_t x : tile) total += x;
  }
  return total;
}
#endif

// The row of an instruction, Dot::Run<C, A, B>(): 16 rows and 16 columns of 32-bit sums over 64 bytes of each operand.
template <class Dot>
constexpr PeakKernel PeakAmxRow(Format multiplies) {
  const bool integers = multiplies == Format::kI8;
  PeakKernel row{.isa = kIsa,
                 .engine = "amx",
                 .unit = integers ? "GOP/s" : "GFLOP/s",
                 .multiplies = multiplies,
                 .operations = kAmxTiles * 2.0 * 16 * 16 * 64 / FormatBytes(multiplies)};
#if QUERN_ISA_HERE
  // Without the high exponent bit, floats stay below 2: no sum becomes infinite or NaN.
  row.run = integers ? RunPeakAmx<Dot, 0xffff> : RunPeakAmx<Dot, 0xbfff>;
#endif
  return row;
}

}  // namespace
}  // namespace quern::ukernel
