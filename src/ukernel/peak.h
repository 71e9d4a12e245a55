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

struct PeakKernel {
  Isa isa{};
  const char* engine = "";  // "fma", "vnni", "madd", "amx"
  const char* unit = "";    // of a billion operations per second: "GFLOP/s", "GOP/s"
  bool is_float32_fma = false;
  double operations = 0;  // of one step: a multiply and an add are two
  // `data`: kPeakDataBytes of random bytes, 64-byte aligned. The result keeps compilers from dropping the loop.
  uint64_t (*run)(size_t steps, const void* data) = nullptr;
};

std::span<const KernelList<PeakKernel>* const> AllPeakKernels();
// Those of instructions that hosts may lack, in plain C++: for tests, which alone link them.
std::span<const KernelList<PeakKernel>* const> EmulatedPeakKernels();

}  // namespace quern::ukernel
