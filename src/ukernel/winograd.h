// The contract of Winograd micro-kernels: float32 convolutions of 3 x 3 by F(2x2, 3x3) and F(3x3, 3x3). A tile of
// outputs that are neighbours, 2 x 2 or 3 x 3, comes from a patch of 4 x 4 or 5 x 5 inputs: both sides are transformed
// to as many components as the patch has pixels, of which products over the channels are taken one by one (16
// multiplications where the direct algorithm has 36, or 25 where it has 81), and the sums are transformed back:
//   y = A' [ (G w G') * (B' x B) ] A        (Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks", 2015)
// Of 2 x 2 outputs, the polynomials behind the matrices are evaluated at 0, 1, -1 and infinity; of 3 x 3 at 11/8,
// -11/8, 3/8, -3/8 and infinity, which of the pairs of eighths round least (Barabasz et al., "Error Analysis and
// Improving the Accuracy of Winograd Convolution for Deep Neural Networks", 2020, has how points decide on it). All
// constants are exact in float32. Kernel-safe. Any alignment; counts may be 0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "ukernel/gemm.h"
#include "ukernel/isa.h"

namespace quern::ukernel {

constexpr size_t kLeastWinogradTile = 2, kMostWinogradTile = 3;   // outputs along a side of a tile
constexpr size_t WinogradPatch(size_t tile) { return tile + 2; }  // pixels along a side of its patch
constexpr size_t WinogradComponents(size_t tile) { return WinogradPatch(tile) * WinogradPatch(tile); }
constexpr size_t kMostWinogradComponents = WinogradComponents(kMostWinogradTile);

// to[i * stride + c] = component i of channel c's patch B' x B.
struct WinogradInputArgs {
  const float* const* pixels = nullptr;  // the patch row by row, each with its channels
  size_t channels = 0;
  float* to = nullptr;
  size_t stride = 0;  // floats
};

// The outputs A' m A of a tile, m of component i and channel c at from[i * stride + c].
struct WinogradOutputArgs {
  const float* from = nullptr;
  size_t stride = 0;  // floats
  size_t channels = 0;
  float* const* pixels = nullptr;  // of the tile, row by row; null: outside of the image, not stored
};

struct WinogradTransforms {
  void (*input)(const WinogradInputArgs&) = nullptr;
  // False if a result (or a sum of results) is no finite number: differences of infinities, and sums that overflow on
  // the way, are not what the direct algorithm gives.
  bool (*output)(const WinogradOutputArgs&) = nullptr;
};

// One row per ISA.
struct WinogradKernel {
  Isa isa{};
  uint16_t lanes = 4;  // floats of a register: of the rows that a CPU runs, the one with most lanes is taken
  bool fused = false;  // multiply-adds round once
  WinogradTransforms tiles2, tiles3;

  const WinogradTransforms& OfTile(size_t tile) const { return tile == 2 ? tiles2 : tiles3; }
};

// The components G w G' of kernels w of 3 x 3, both row by row, for tiles of `tile` outputs along a side; of so many
// kernels side by side. In double: it runs once, when weights are packed.
constexpr size_t kWinogradKernels = 8;
using WinogradKernels = double[kWinogradKernels];  // an element of each
void TransformWinogradWeights(size_t tile, const WinogradKernels w[9], WinogradKernels* components);

// The kernel whose components they are; one.
void RestoreWinogradWeights(size_t tile, const double* components, double w[9]);

// `winograd_f32_<isa>`
KernelName Name(const WinogradKernel& row);

std::span<const KernelList<WinogradKernel>* const> AllWinogradKernels();

// The row for a CPU; never null, as the portable one runs everywhere. Rows without a body in this build are passed
// over.
const WinogradKernel* SelectWinogradRow(const CpuFacts& cpu);

}  // namespace quern::ukernel
