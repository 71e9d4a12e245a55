// The contract of Winograd micro-kernels: float32 convolutions of 3 x 3 by F(2x2, 3x3). Four outputs that are
// neighbours come from a patch of 4 x 4 inputs: both sides are transformed to 16 components, of which products over the
// channels are taken one by one (16 multiplications where the direct algorithm has 36), and the sums are transformed
// back:
//   y = A' [ (G w G') * (B' x B) ] A        (Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks", 2015)
// Kernel-safe. Any alignment; counts may be 0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "ukernel/gemm.h"
#include "ukernel/isa.h"

namespace quern::ukernel {

constexpr size_t kWinogradPatch = 4;        // pixels along a side of the patch
constexpr size_t kWinogradTile = 2;         // outputs along a side
constexpr size_t kWinogradComponents = 16;  // of a patch and channel

// to[i * stride + c] = component i of channel c's patch B' x B.
struct WinogradInputArgs {
  const float* const* pixels = nullptr;  // [16], the patch row by row, each with its channels
  size_t channels = 0;
  float* to = nullptr;
  size_t stride = 0;  // floats
};

// The outputs A' m A of a tile, m of component i and channel c at from[i * stride + c].
struct WinogradOutputArgs {
  const float* from = nullptr;
  size_t stride = 0;  // floats
  size_t channels = 0;
  float* const* pixels = nullptr;  // [4], row by row; null: outside of the image, not stored
};

// One row per ISA.
struct WinogradKernel {
  Isa isa{};
  uint16_t lanes = 4;  // floats of a register: of the rows that a CPU runs, the one with most lanes is taken
  void (*input)(const WinogradInputArgs&) = nullptr;
  // False if a result (or a sum of results) is no finite number: differences of infinities, and sums that overflow on
  // the way, are not what the direct algorithm gives.
  bool (*output)(const WinogradOutputArgs&) = nullptr;
};

// The components G w G' of a kernel w of 3 x 3, both row by row. In double: it runs once, when weights are packed.
void TransformWinogradWeights(const double w[9], double components[kWinogradComponents]);

// `winograd_f32_<isa>`
KernelName Name(const WinogradKernel& row);

std::span<const KernelList<WinogradKernel>* const> AllWinogradKernels();

// The row for a CPU; never null, as the portable one runs everywhere. Rows without a body in this build are passed
// over.
const WinogradKernel* SelectWinogradRow(const CpuFacts& cpu);

}  // namespace quern::ukernel
