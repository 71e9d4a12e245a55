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
  const char* engine = "";  // "fma", "vnni", "madd", "bf16", "amx"... or "memory"
  const char* unit = "";    // of a billion operations per second: "GFLOP/s", "GOP/s"; of memory "GB/s"
  bool is_float32_fma = false;
  double operations = 0;  // of one step: a multiply and an add are two
  // `data`: kPeakDataBytes of random bytes, 64-byte aligned. The result keeps compilers from dropping the loop.
  uint64_t (*run)(size_t steps, const void* data) = nullptr;  // null for memory
  // Rows of memory alone: 64-byte aligned operands that do not overlap, multiples of kPeakMemoryGrain. `read` returns
  // the exclusive or of all 64-bit words.
  uint16_t vector_bytes = 0;
  uint64_t (*read)(const void* data, size_t bytes) = nullptr;
  void (*copy)(void* to, const void* from, size_t bytes) = nullptr;
};

std::span<const KernelList<PeakKernel>* const> AllPeakKernels();
// Those of instructions that hosts may lack, in plain C++: for tests, which alone link them.
std::span<const KernelList<PeakKernel>* const> EmulatedPeakKernels();

}  // namespace quern::ukernel
