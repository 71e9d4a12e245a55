// Loops that read or copy memory with the ISA's widest registers and do nothing else. For kernel files only.
#pragma once

#include "ukernel/gemm/epilogue_f32.h"
#include "ukernel/peak.h"

namespace quern::ukernel {
namespace {

// Registers per turn of a loop: enough loads in flight whatever their latency in L1.
constexpr int kMemoryRegisters = 8;
static_assert(kPeakMemoryGrain % (kMemoryRegisters * 64) == 0);

template <int kBytes>
struct Wide {
  typedef uint64_t Reg __attribute__((vector_size(kBytes), aligned(kBytes), may_alias));
};

template <int kBytes>
uint64_t RunPeakRead(const void* data, size_t bytes) {
  using Reg = typename Wide<kBytes>::Reg;
  const auto* p = static_cast<const Reg*>(data);
  Reg sums[kMemoryRegisters] = {};
  for (size_t i = 0; i < bytes / kBytes; i += kMemoryRegisters) {
    QUERN_UNROLL for (int j = 0; j < kMemoryRegisters; ++j) sums[j] ^= p[i + static_cast<size_t>(j)];
  }
  uint64_t all = 0;
  QUERN_UNROLL for (int j = 0; j < kMemoryRegisters; ++j) {
    for (int word = 0; word < kBytes / 8; ++word) all ^= sums[j][word];
  }
  return all;
}

template <int kBytes>
void RunPeakCopy(void* to, const void* from, size_t bytes) {
  using Reg = typename Wide<kBytes>::Reg;
  auto* out = static_cast<Reg*>(to);
  const auto* in = static_cast<const Reg*>(from);
  for (size_t i = 0; i < bytes / kBytes; i += kMemoryRegisters) {
    Reg x[kMemoryRegisters];
    QUERN_UNROLL for (int j = 0; j < kMemoryRegisters; ++j) x[j] = in[i + static_cast<size_t>(j)];
    QUERN_UNROLL for (int j = 0; j < kMemoryRegisters; ++j) out[i + static_cast<size_t>(j)] = x[j];
    asm("" ::: "memory");  // keeps compilers from calling memcpy
  }
}

template <int kBytes>
constexpr PeakKernel MemoryRow(const Isa& isa) {
  return {.isa = isa,
          .engine = "memory",
          .unit = "GB/s",
          .vector_bytes = kBytes,
          .read = RunPeakRead<kBytes>,
          .copy = RunPeakCopy<kBytes>};
}

}  // namespace
}  // namespace quern::ukernel
