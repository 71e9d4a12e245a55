// Convolution over NHWC or NDHWC without im2col: taps of the kernel are segments of K, rows of the left side are
// addressed in place by pointers; float and int8 alike. Kernels of fewer dimensions have depth and height 1.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/driver.h"
#include "kernels/gemm_core.h"
#include "kernels/packed_rhs.h"
#include "kernels/select.h"

namespace quern::kernels {

// Output extent of one dimension with so much padding before and after; 0 when the kernel does not fit.
inline size_t OutExtent(size_t in, size_t before, size_t after, size_t kernel, size_t dilation, size_t stride) {
  const size_t reach = dilation * (kernel - 1) + 1;
  const size_t padded = in + before + after;
  return padded < reach ? 0 : (padded - reach) / stride + 1;
}

struct ConvProblem {
  Format lhs = Format::kF32;  // kF32 kF16 kBf16 kI8 kU8
  Format rhs = Format::kF32;  // kF32 kF16 kBf16 kI8 kU8
  size_t in_channels = 0;     // of all groups
  size_t out_channels = 0;
  size_t groups = 1;
  size_t kernel_h = 1, kernel_w = 1;
  size_t stride_h = 1, stride_w = 1;
  size_t dilation_h = 1, dilation_w = 1;
  size_t pad_top = 0, pad_left = 0, pad_bottom = 0, pad_right = 0;
  size_t kernel_d = 1, stride_d = 1, dilation_d = 1, pad_front = 0, pad_back = 0;
  Precision precision = Precision::kFp32;
  size_t expected_pixels = 0;  // output pixels of an image; 0: unknown
};

// Element (o, i, d, h, w) at data + the strides' sum (bytes); i counts within a group. Without data they come with each
// run: each tap's stride must then be a multiple of the next one's count, as in a dense [o][i][d][h][w].
struct ConvWeights {
  const void* data = nullptr;
  ptrdiff_t o_stride = 0, i_stride = 0, h_stride = 0, w_stride = 0, d_stride = 0;
  // Of integers whose data is here, for drivers that take them off when they pack (DwConv); others have them in each
  // run's arguments.
  int32_t zero_point = 0;
  const int32_t* zero_points = nullptr;  // [out channels] instead
};

// dst must not overlap any operand.
struct ConvArgs {
  size_t images = 1, in_h = 0, in_w = 0, in_d = 1;  // slices of a volume follow one another as lines do
  const void* input = nullptr;                      // channels contiguous, if nothing else is said
  const void* weights = nullptr;                    // where each run brings them
  bool weights_are_packed = false;                  // the workspace still holds them, as a run of any plan packed them
  ptrdiff_t in_pixel_stride = 0, in_row_stride = 0, in_image_stride = 0;  // bytes
  ptrdiff_t in_channel_stride = 0;  // positive: channels so far apart (bytes), and pixels contiguous; where `folded`
  void* dst = nullptr;              // output pixel p (row-major) of an image at p*dst_pixel_stride, channels contiguous
  ptrdiff_t dst_pixel_stride = 0, dst_image_stride = 0;
  ptrdiff_t dst_channel_stride = 0;  // positive: channels first, so far apart (bytes), and pixels contiguous
  // M of the operands counts output pixels of one image, N output channels of all groups.
  const EpilogueOp* ops = nullptr;
  size_t op_count = 0;
  ptrdiff_t op_image_strides[ukernel::kMaxEpilogueOps] = {};  // bytes, of each operand's `data`
  // Integer convolutions: padding stands for the zero point.
  int32_t input_zero_point = 0;
  int32_t weight_zero_point = 0;
  const int32_t* weight_zero_points = nullptr;  // [out_channels] instead
};

// args.ops[i] as it is for an image.
inline EpilogueOp OpOfImage(const ConvArgs& args, size_t i, size_t image) {
  EpilogueOp op = args.ops[i];
  const ptrdiff_t moved = static_cast<ptrdiff_t>(image) * args.op_image_strides[i];
  if (op.data) op.data = static_cast<const char*>(op.data) + moved;
  if (op.out) op.out = static_cast<char*>(op.out) + moved;
  return op;
}

// The decisions for one set of shapes; a plain value. An entry is an image and a group (and a line of pixels, where the
// lines of a 1x1 convolution's input do not follow one another).
struct ConvPlan {
  GemmPlan gemm;
  size_t out_d = 1, out_h = 0, out_w = 0;
  size_t lines = 1;
  size_t entries = 0;
  bool plain_rows = false;        // 1x1, stride 1: rows of a matrix
  bool pad_input = false;         // folded kernels: the image is copied once into a padded, dense one, channels last
  bool parallel_entries = false;  // one task per entry; else each is split
  int slots = 1;
  size_t zero_row_offset = 0;               // workspace, bytes
  size_t weights_offset = 0;                // packed by the run
  size_t area_offset = 0, area_stride = 0;  // one area, or one per slot when parallel_entries
  size_t padded_offset = 0, padded_d = 0, padded_h = 0, padded_w = 0;  // within an area
  size_t pixel_sums_offset = 0, row_sums_offset = 0, zeros_offset = 0, core_offset = 0;
  size_t workspace_bytes = 0;
};

class Conv {
 public:
  Conv() = default;

  // Selects the layout and packs the weights, which are not needed afterwards; without data, each run packs its own.
  // kInvalidArgument for extents that do not go together, kUnsupported when no row serves the types.
  static Result<Conv> Create(const ConvProblem& problem, const SelectOptions& options, const ConvWeights& weights,
                             const Packing& packing, SelectionReport* report = nullptr);

  const ConvProblem& problem() const { return problem_; }
  const GemmProblem& gemm_problem() const { return gemm_; }
  const PackedRhs& weights() const { return weights_; }
  const GemmKernel* RowFor(size_t pixels) const;
  Format accumulator() const;
  // kw * C is one segment; an image may then come channels first.
  bool folded() const { return folded_; }

  // Output extent; 0 when the kernel does not fit.
  size_t OutDepth(size_t in_d) const;
  size_t OutHeight(size_t in_h) const;
  size_t OutWidth(size_t in_w) const;

  // For Plan, pointers may be null; op kinds and all strides count. The row is chosen for `row_pixels` output pixels:
  // parts of an image that are computed in separate runs come out as they do together. 0: for those of args.
  ConvPlan Plan(const ConvArgs& args, int concurrency, size_t row_pixels = 0) const;
  Status Run(const ConvPlan& plan, const ConvArgs& args, const RunResources& resources) const;
  Status Run(const ConvArgs& args, const RunResources& resources) const;

 private:
  Status PackWeights(const ConvPlan& plan, const ConvArgs& args, const RunResources& resources, std::byte* to) const;

  ConvProblem problem_;
  GemmProblem gemm_;
  CpuFacts cpu_;
  bool folded_ = false;
  PackedRhs weights_;  // a batch per group
  bool packs_in_run_ = false;
  ukernel::RhsSource run_source_;   // of weights that a run packs, but for the data
  ptrdiff_t run_group_stride_ = 0;  // of them
  std::vector<const GemmKernel*> eligible_;
  std::vector<const GemmKernel*> fallbacks_;  // also those that an option hides
};

}  // namespace quern::kernels
