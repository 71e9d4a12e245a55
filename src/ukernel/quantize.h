// Packing of the left side into the forms that kernels consume: dynamic int8 rows, bf16 terms, shifted int8, panels.
// The generic packer interprets any LhsLayout; the family `quantize` has the fast ones. Kernel-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "ukernel/gemm.h"
#include "ukernel/isa.h"
#include "ukernel/layout.h"
#include "ukernel/pack.h"

namespace quern::ukernel {

// Rows of the left side, addressed as GemmArgs does (rows, taps, row pointers; never packed). Tap::rhs_offset is not
// used.
struct LhsSource {
  Format format = Format::kF32;  // kF32 kF16 kBf16 kI8 kU8
  LhsForm form = kLhsRows;
  const void* data = nullptr;
  ptrdiff_t row_stride = 0;  // bytes
  const Tap* taps = nullptr;
  const void* const* row_pointers = nullptr;
  size_t row_pointer_pitch = 0;
  ptrdiff_t row_pointer_offset = 0;
  const void* zero_row = nullptr;
};

// Packs panels [panel_begin, panel_end) with their part of the vectors into `packed` (DescribeLhs bytes, 64-byte
// aligned); panel ranges may be packed at once. Pads (rows beyond m, k beyond K) are zero bytes. Elements:
//   kI8d from floats: quantized by numerics.md's dynamic rule over the whole row, scale and zero point stored
//   kI8b from floats, one segment: quantized by numerics.md's rule of blocks, scales stored
//   kF16, kBf16, kBf16x2, kBf16x3, kF32 from floats;  kI8 from kI8;  kU8 from kU8, or from kI8 plus 128
// Returns PackFlags.
uint32_t PackLhs(const LhsLayout& layout, const LhsShape& shape, const LhsSource& source, size_t panel_begin,
                 size_t panel_end, void* packed);

// Scale, zero point (an integer in [-128, 127]) of a row with the given range; numerics.md, "Dynamic asymmetric int8".
struct DynamicRow {
  float scale = 1;
  float zero_point = 0;
};
DynamicRow DynamicRowParams(float min, float max);
int8_t QuantizeDynamic(float x, DynamicRow p);

// A block of int8 (numerics.md, "int8 blocks") of the given largest magnitude.
struct DynamicBlock {
  float times = 0;  // elements are QuantizeDynamic(x, {times, 0}),
  float scale = 0;  // and stand for this many; a float16 in value
};
DynamicBlock DynamicBlockParams(float largest);

// Row of the family `quantize`.
struct LhsPackKernel {
  Isa isa{};
  LhsLayout layout{};
  Format source = Format::kF32;
  uint8_t forms = kLhsRows;  // mask of LhsForm it reads
  float cycles_per_element = 1;
  uint32_t (*run)(const LhsLayout& layout, const LhsShape& shape, const LhsSource& source, size_t panel_begin,
                  size_t panel_end, void* packed) = nullptr;
};

std::span<const KernelList<LhsPackKernel>* const> AllLhsPackKernels();

// The fastest row that serves (layout, source) on `cpu`; null where only PackLhs does.
const LhsPackKernel* FindLhsPackKernel(const LhsLayout& layout, const LhsSource& source, const CpuFacts& cpu,
                                       Lookup lookup);

static constexpr float LhsPackCyclesPerElement(const LhsPackKernel* row) {
  return row ? row->cycles_per_element : 12.0f;
}

}  // namespace quern::ukernel
