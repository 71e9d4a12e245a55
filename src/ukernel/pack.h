// Packing of the right side: sources described as data, the generic packer and unpacker that interpret any PackLayout,
// and the family `pack` of fast packers keyed by layout. Kernel-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "ukernel/isa.h"
#include "ukernel/layout.h"

namespace quern::ukernel {

// Where weights (or a run-time right side) come from. Strides are in bytes and may be anything, negative or zero too.
struct RhsSource {
  // Dense: kF64 kF32 kF16 kBf16 kI8 kU8: element (s, k, n) at data + s*segment_stride + k*k_stride + n*n_stride.
  // kU4, kU2, kU8 with `scales`: MatMulNBits, uint8 [n][ceil(K/block)][block*bits/8] at n*n_stride + blk*block_stride,
  //   low bits first along K.
  // kU4, kI4 without `scales`: rows [n] of packed numbers at n*n_stride, low bits first along K; kU4 stands for 8 less.
  // kQ4_0 kQ4_1 kQ8_0: GGUF blocks of 32 at n*n_stride + blk*block_stride; scales and offsets are inside.
  Format format = Format::kF32;
  const void* data = nullptr;
  ptrdiff_t k_stride = 0;
  ptrdiff_t n_stride = 0;
  ptrdiff_t segment_stride = 0;
  ptrdiff_t block_stride = 0;

  // MatMulNBits: scales of `scale_format` (kF32 kF16 kBf16) at n*scale_n_stride + blk*scale_block_stride.
  const void* scales = nullptr;
  Format scale_format = Format::kF32;
  ptrdiff_t scale_n_stride = 0;
  ptrdiff_t scale_block_stride = 0;
  // Zero points per (n, block), null for 2^(bits-1): kU4/kU2/kU8 packed along blocks in a row of
  // ceil(blocks*bits/8) bytes at n*zero_point_n_stride, or kF32/kF16/kBf16 elements along blocks.
  const void* zero_points = nullptr;
  Format zero_point_format = Format::kU8;
  ptrdiff_t zero_point_n_stride = 0;

  const float* channel_scales = nullptr;  // [n], for layouts that hold them; null packs ones
  const void* bias = nullptr;             // [n] of the layout's bias format; null packs zeros
};

// What packing or transforming found; bits may be or-ed over parts.
enum PackFlags : uint32_t {
  kPackFine = 0,
  kPackSplitUnsafe = 1,  // numbers that lose more by a split in bf16 terms than its precision says
  kPackSplitFew = 2,     // few numbers of a row or column count beside its largest: unsafe where both sides have such
};

// Packs units [unit_begin, unit_end) with their part of the vectors into `packed` (total_bytes, 64-byte aligned);
// different unit ranges may be packed at once. Every byte of a unit is written. Layout and source must go together:
//   elements kF32 kF16 kBf16(x2,x3) from dense floats, kF64 from kF64, kI8 from kI8 or kU8 (minus 128), kU8 from kU8,
//   kU2 kU4 kU8 kI8 with scales from MatMulNBits of those bits and from GGUF blocks (kI8: the zero point removed),
//   kU4 without from kU4 and kI4 without,
//   float elements from block-quantized sources (dequantized).
// A source with zero points needs a layout with offsets, or kI8 elements. Returns PackFlags.
uint32_t PackRhs(const PackLayout& layout, const RhsShape& shape, const RhsSource& source, size_t unit_begin,
                 size_t unit_end, void* packed);

// True if PackRhs can make `layout` from sources of this kind.
bool CanPackRhs(const PackLayout& layout, const RhsSource& source);

// The value of packed element (k of 0..segments*k, n) as the product sees it: scale and offset applied, terms summed;
// float64 is rounded.
float UnpackRhsElement(const PackLayout& layout, const RhsShape& shape, const void* packed, size_t k, size_t n);

// All elements to float32 [segments*k][n] at dst + k*dst_row_stride + n*4.
void UnpackRhs(const PackLayout& layout, const RhsShape& shape, const void* packed, float* dst,
               size_t dst_row_stride_bytes);

// Row of the family `pack`: a fast packer for one layout and kind of source, the same bytes as PackRhs.
struct PackKernel {
  Isa isa{};
  PackLayout layout{};
  Format source = Format::kF32;
  // Which stride of the source must be the element size, so that vectors load along it.
  bool contiguous_n = false;  // k x n row-major
  bool contiguous_k = false;  // n x k row-major
  bool blocks = false;        // `source` are blocks along K, of MatMulNBits or GGUF; scales and offsets of any format
  float cycles_per_element = 1;
  uint32_t (*run)(const PackLayout& layout, const RhsShape& shape, const RhsSource& source, size_t unit_begin,
                  size_t unit_end, void* packed) = nullptr;
};

std::span<const KernelList<PackKernel>* const> AllPackKernels();

// The fastest row that serves (layout, source) on `cpu`; null where only PackRhs does.
const PackKernel* FindPackKernel(const PackLayout& layout, const RhsSource& source, const CpuFacts& cpu, Lookup lookup);

// Cycles that packing one element takes: by the row, or by PackRhs when `row` is null.
static constexpr float PackCyclesPerElement(const PackKernel* row) { return row ? row->cycles_per_element : 8.0f; }

}  // namespace quern::ukernel
