// The contract of depthwise convolution micro-kernels: output rows, channels vectorized. Kernel-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "ukernel/epilogue.h"
#include "ukernel/gemm.h"
#include "ukernel/isa.h"

namespace quern::ukernel {

// One call: `channels` output channels of `rows` whole output rows of `pixels` pixels,
//   dst[y][x][c] = ops(sum over i < kernel_h, j < kernel_w of weights[c / lanes][i * kernel_w + j][c % lanes]
//                      * src[top + y * stride_h + i * dilation_h][left + x * stride_w + j * dilation_w][c]),
// where input outside of [0, in_h) x [0, in_w) counts as zero and is not read. Sums run over rows, then columns. Of
// integers, src less the zero point is summed in int32.
//
// Grouped rows sum over the `group` input channels of c's group (c / group) as well:
//   weights[c / used][(i * group + g) * kernel_w + j][c % used] * src[...][...][c / group * group + g], g < group,
// where used = lanes / group * group channels share a unit of weights. Sums run over
// rows, then g, then columns.
struct DwConvArgs {
  size_t rows = 1, pixels = 0;
  size_t channels = 0;                                 // any number
  const void* src = nullptr;                           // channel 0 of input row 0, column 0; of the row's format
  ptrdiff_t src_pixel_stride = 0, src_row_stride = 0;  // bytes
  int32_t src_zero_point = 0;                          // rows of integers
  size_t in_h = 0, in_w = 0;
  ptrdiff_t top = 0, left = 0;  // the input row and column of the first output's first tap; negative in padding
  size_t kernel_h = 1, kernel_w = 1, stride_h = 1, stride_w = 1, dilation_h = 1, dilation_w = 1;
  size_t group = 1;  // grouped rows: channels of a group, of the input and of the result
  // [channels / lanes][kernel_h * kernel_w][lanes], 64-byte aligned, tails zero: float32, or for rows of integers int32
  // that hold the weight less its zero point in the low 16 bits, the others zero.
  const void* weights = nullptr;
  void* dst = nullptr;                                 // of EpilogueFormat(acc, ops, op_count)
  ptrdiff_t dst_pixel_stride = 0, dst_row_stride = 0;  // bytes
  const EpilogueOp* ops = nullptr;                     // only ops that the row fuses
  size_t op_count = 0;
  size_t m0 = 0, n0 = 0;  // place of the first result for the ops' operands; pixel x of row y is m0 + y * pixels + x
};

using DwConvRun = void (*)(const DwConvArgs&);

struct DwConvKernel {
  Isa isa{};
  Format src = Format::kF32;      // kF32 kF16 kBf16, kI8 kU8
  Format weights = Format::kF32;  // kF32, or kI8 where integers are summed
  Format acc = Format::kF32;      // kF32 or kI32
  uint16_t lanes = 16;            // channels of a weight unit
  uint16_t pixels = 1;            // pixels computed at once
  uint16_t group_vector = 0;      // grouped rows: lanes of a vector; of depthwise rows zero
  uint32_t fused = 0;             // mask of EpilogueBit
  Engine engine = Engine::kVector;
  float cycles_per_tap = 1;    // per lanes channels, pixel and tap
  float cycles_per_pixel = 4;  // per lanes channels and pixel
  DwConvRun run = nullptr;
};

// Whether the row serves groups of so many channels. Where a unit has several vectors, a group must not lie across
// them, and groups of a whole unit are left to products, which read each input once for all vectors.
constexpr bool ServesGroup(const DwConvKernel& r, size_t group) {
  if (r.group_vector == 0 || group < 2) return r.group_vector == 0 && group == 1;
  if (r.group_vector == r.lanes) return group <= r.lanes;
  return group < r.lanes && (r.group_vector % group == 0 || group % r.group_vector == 0);
}

// Channels of a result that share a unit of weights.
constexpr size_t UnitChannels(const DwConvKernel& r, size_t group) { return r.lanes / group * group; }

// `dwconv_<src>_<weights>_<acc>_<pixels>x<lanes>_<isa>`, of grouped rows `dwconv_grouped_<src>...`
KernelName Name(const DwConvKernel& row);

std::span<const KernelList<DwConvKernel>* const> AllDwConvKernels();

}  // namespace quern::ukernel
