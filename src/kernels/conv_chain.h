// Inverted bottlenecks over NHWC, float32: a depthwise convolution with a 1x1 convolution before it, after it, or both,
// by strips of output rows, so that what lies between them stays in the second-level cache.
#pragma once

#include <cstddef>
#include <vector>

#include "kernels/conv.h"
#include "kernels/dwconv.h"

namespace quern::kernels {

// The epilogue of one convolution. Of operands by output pixel, only matrices (kAddMatrix, kMulMatrix), and only of
// the chain's last convolution.
struct ConvChainEpilogue {
  const EpilogueOp* ops = nullptr;
  size_t op_count = 0;
  ptrdiff_t image_strides[ukernel::kMaxEpilogueOps] = {};  // bytes, of each operand's `data`
};

struct ConvChainArgs {
  size_t images = 1, in_h = 0, in_w = 0;
  const void* input = nullptr;                         // channels contiguous, rows of pixels one after another
  ptrdiff_t in_pixel_stride = 0, in_image_stride = 0;  // bytes
  void* dst = nullptr;  // output pixel p (row-major) of an image at p*dst_pixel_stride, channels contiguous
  ptrdiff_t dst_pixel_stride = 0, dst_image_stride = 0;
  ConvChainEpilogue before, depthwise, after;
};

// The plan of a 1x1 convolution over whole rows of pixels.
struct ChainedConvPlan {
  size_t rows = 0;
  ConvPlan conv;
};

// The decisions for one set of shapes; a plain value.
struct ConvChainPlan {
  size_t out_h = 0, out_w = 0;
  size_t rows = 0;                             // output rows of a strip
  size_t held_rows = 0;                        // rows before the depthwise convolution that a strip reads
  size_t strips = 0;                           // of an image
  size_t before_pixels = 0, after_pixels = 0;  // of a strip: what rows of the products are chosen for
  std::vector<size_t> before_cuts;             // rows of the image between which lies one product of `before`
  std::vector<ChainedConvPlan> before, after;  // for each number of rows that some product has
  int slots = 1;
  size_t before_row = 0, depthwise_row = 0;  // bytes of a row of either's results
  // Workspace, bytes: of each slot.
  size_t held_offset = 0, depthwise_offset = 0, inner_offset = 0, inner_bytes = 0, slot_stride = 0;
  size_t workspace_bytes = 0;
};

// Refers to drivers that must outlive it: `depthwise` with multiplier 1 and packed weights; `before` and `after`, one
// of which may be null, 1x1 with stride 1 and without padding or groups, packed.
class ConvChain {
 public:
  ConvChain() = default;
  ConvChain(const Conv* before, const DwConv* depthwise, const Conv* after, const CpuFacts& cpu)
      : before_(before), depthwise_(depthwise), after_(after), cpu_(cpu) {}

  // For Plan, pointers may be null; op kinds and all strides count.
  ConvChainPlan Plan(const ConvChainArgs& args, int concurrency) const;
  Status Run(const ConvChainPlan& plan, const ConvChainArgs& args, const RunResources& resources) const;

 private:
  class Strips;

  const Conv* before_ = nullptr;
  const DwConv* depthwise_ = nullptr;
  const Conv* after_ = nullptr;
  CpuFacts cpu_;
};

}  // namespace quern::kernels
