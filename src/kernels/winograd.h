// Convolution of 3 x 3 by Winograd's F(2x2, 3x3) and F(3x3, 3x3), NHWC or slices of NDHWC, float32: patches of the
// image and the kernels are transformed to 16 or 25 components, as many products over the channels take the place of
// the convolution, and their results are transformed back (ukernel/winograd.h). 16 multiplications where the direct
// algorithm has 36, or 25 where it has 81, for twice or three times the weights and two more passes over memory. Sums
// are over the channels alone, in float32 as the direct algorithm's, of 3 x 3 outputs over half of them at a time
// (which must be even); its error is measured against that of a sequential sum (winograd_test.cc). Where infinities, or
// sums that overflow on the way, come out as no finite number, the outputs are computed again by the direct algorithm,
// from weights that are got back from their components (within some 1e-7 of the kernel's largest).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "kernels/conv.h"
#include "kernels/driver.h"
#include "kernels/gemm_core.h"
#include "kernels/packed_rhs.h"
#include "ukernel/winograd.h"

namespace quern::kernels {

// The decisions for one set of shapes; a plain value. A block of tiles is transformed, multiplied and transformed back
// before the next one, so that its components stay in L2.
struct WinogradPlan {
  size_t tile = 2;    // outputs along a side
  size_t sums = 1;    // parts of the channels, 1 or 2, summed one by one
  size_t slices = 1;  // of a volume, each convolved by itself
  size_t out_h = 0, out_w = 0;
  size_t tiles_h = 0, tiles_w = 0;                   // of each of the interleaved images that a dilation makes of one
  size_t tiles = 0;                                  // of an image
  size_t blocks = 0, block_tiles = 0;                // of an image; the last block may be shorter
  GemmPlan gemm, last_gemm;                          // of one component of a block, and of the last one
  size_t input_stride = 0, output_stride = 0;        // floats between the rows of a component
  size_t input_component = 0, output_component = 0;  // floats between components
  int slots = 1;
  // Fewer blocks than threads: these work on one block together, each on some tiles, then components, then tiles.
  bool together = false;
  ukernel::EpilogueRun epilogue = nullptr;
  size_t zero_row_offset = 0, area_offset = 0, area_stride = 0;  // workspace, bytes; an area for each slot, or one
  size_t input_offset = 0, output_offset = 0;                    // within an area
  size_t core_offset = 0, core_stride = 0;                       // within an area; one, or one for each slot
  size_t part_bytes = 0;  // at the beginning of each: the sums over the first part of a component
  size_t workspace_bytes = 0;
};

class WinogradConv {
 public:
  WinogradConv() = default;

  // Why the algorithm cannot serve the problem, or is not expected to be faster than the direct one ("cost 1.3x of
  // best, the direct algorithm"); empty when it is to be used.
  static std::string RejectionReason(const ConvProblem& problem, const SelectOptions& options,
                                     const ConvWeights& weights);

  // What it is expected to take, of a problem that it can serve; 0 without a row for its products.
  static double Cycles(const ConvProblem& problem, const SelectOptions& options);

  // Input channels from which on tiles of 2 or 3 outputs along a side keep the error of precision fp32, for images of
  // `side` pixels along one.
  static size_t LeastChannels(size_t tile, size_t side, const CpuFacts& cpu);

  // Outputs along a side of a tile, 2 or 3: what is expected to be faster, where there are LeastChannels.
  static size_t TileFor(const ConvProblem& problem, const SelectOptions& options);

  // Transforms and packs the weights, which are not needed afterwards. kInvalidArgument for problems that it cannot
  // serve; that sums of weights are finite, RejectionReason has found. `tile`: 2 or 3, or 0 for
  // TileFor.
  static Result<WinogradConv> Create(const ConvProblem& problem, const SelectOptions& options,
                                     const ConvWeights& weights, const Packing& packing, size_t tile = 0);

  const ConvProblem& problem() const { return problem_; }
  const GemmProblem& gemm_problem() const { return gemm_; }
  const PackedRhs& weights() const { return weights_; }
  const ukernel::WinogradKernel& row() const { return *row_; }
  size_t TilesOf(size_t pixels) const { return ukernel::CeilDiv(pixels, tile_ * tile_); }
  const GemmKernel* GemmRowFor(size_t pixels) const;
  // "16 products instead of 36 for 2 x 2 outputs"
  std::string Saving() const;

  // As of Conv.
  WinogradPlan Plan(const ConvArgs& args, int concurrency) const;
  Status Run(const WinogradPlan& plan, const ConvArgs& args, const RunResources& resources) const;

 private:
  ConvProblem problem_;
  size_t tile_ = 2;
  GemmProblem gemm_;
  CpuFacts cpu_;
  const ukernel::WinogradKernel* row_ = nullptr;
  PackedRhs weights_;  // a batch per component and part of the channels
  std::vector<const GemmKernel*> eligible_;
};

}  // namespace quern::kernels
