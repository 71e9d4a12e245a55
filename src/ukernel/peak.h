// Loops that keep one engine of a core busy and do nothing else: what measured speeds are compared with. Kernel-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "ukernel/gemm.h"
#include "ukernel/isa.h"

namespace quern::ukernel {

// Bytes of random operands that every loop reads once: small enough for registers.
constexpr size_t kPeakDataBytes = 8192;
// Loops over memory take multiples of so many bytes.
constexpr size_t kPeakMemoryGrain = 512;

struct PeakKernel {
  Isa isa{};
  const char* engine = "";            // "fma", "fma64", "vnni", "madd", "bf16", "amx"... or "memory"
  const char* unit = "";              // of a billion operations per second: "GFLOP/s", "GOP/s"; of memory "GB/s"
  Format multiplies = Format::kNone;  // kF64, kF32, kF16, kBf16 or kI8; kNone of memory
  bool half_sums = false;             // float16 summed in float16
  double operations = 0;              // of one step, a multiply and an add are two: PeakOperations
  VectorScale m_scale = VectorScale::kFixed;  // `operations` is times the vector's 32-bit lanes for each that is scaled
  VectorScale n_scale = VectorScale::kFixed;
  // `data`: kPeakDataBytes of random bytes, 64-byte aligned. The result keeps compilers from dropping the loop.
  uint64_t (*run)(size_t steps, const void* data) = nullptr;  // null for memory
  // Rows of memory alone: 64-byte aligned operands that do not overlap, multiples of kPeakMemoryGrain. `read` returns
  // the exclusive or of all 64-bit words.
  uint16_t vector_bytes = 0;
  uint64_t (*read)(const void* data, size_t bytes) = nullptr;
  void (*copy)(void* to, const void* from, size_t bytes) = nullptr;
};

// Operations of one step on `c`.
static constexpr double PeakOperations(const PeakKernel& r, const CpuFacts& c) {
  double operations = r.operations;
  for (VectorScale s : {r.m_scale, r.n_scale}) {
    operations *= static_cast<double>(ScaleLanes(s, s == VectorScale::kSme ? c.sme_vector_bytes : c.sve_vector_bytes));
  }
  return operations;
}

// The loop of the fastest instruction that multiplies what the row does: numbers as the row has them, or made float32.
// Null where none of those that `c` has does. Rows of another ISA's instruction find that one's, as those of SME2 the
// outer products of SME.
const PeakKernel* PeakOf(const GemmKernel& row, const CpuFacts& c);

std::span<const KernelList<PeakKernel>* const> AllPeakKernels();
// Those of instructions that hosts may lack, in plain C++: for tests, which alone link them.
std::span<const KernelList<PeakKernel>* const> EmulatedPeakKernels();

}  // namespace quern::ukernel
