// The contract of depthwise convolution micro-kernels: one output row, channels vectorized. Kernel-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "ukernel/epilogue.h"
#include "ukernel/gemm.h"
#include "ukernel/isa.h"

namespace quern::ukernel {

// One call: `channels` output channels of `pixels` neighbouring output pixels,
//   dst[p][c] = ops(sum over taps t of weights[c / lanes][t][c % lanes] * row_pointers of t, at pixel p, [c]).
// Only taps inside the image are in the list; taps of one list serve all pixels of the call.
struct DwConvArgs {
  size_t pixels = 0;
  size_t channels = 0;                     // any number
  const void* src = nullptr;               // channel 0 of tap 0 (offset 0) of the first pixel; float32
  ptrdiff_t src_pixel_stride = 0;          // bytes from one output pixel's input to the next
  const ptrdiff_t* tap_offsets = nullptr;  // bytes from src
  const uint16_t* tap_indices = nullptr;   // the tap's position among weights
  size_t tap_count = 0;                    // 0 is allowed: zero
  const float* weights = nullptr;          // [channels / lanes][weight_taps][lanes], 64-byte aligned, tails zero
  size_t weight_taps = 0;
  void* dst = nullptr;              // float32
  ptrdiff_t dst_pixel_stride = 0;   // bytes
  const EpilogueOp* ops = nullptr;  // only ops that the row fuses
  size_t op_count = 0;
  size_t m0 = 0, n0 = 0;  // position of the first pixel and channel for the ops' operands
};

using DwConvRun = void (*)(const DwConvArgs&);

struct DwConvKernel {
  Isa isa{};
  uint16_t lanes = 16;  // channels of a weight unit
  uint16_t pixels = 1;  // pixels computed at once
  uint32_t fused = 0;   // mask of EpilogueBit
  Engine engine = Engine::kVector;
  float cycles_per_tap = 1;    // per lanes channels, pixel and tap
  float cycles_per_pixel = 4;  // per lanes channels and pixel
  DwConvRun run = nullptr;
};

// `dwconv_f32_f32_f32_<pixels>x<lanes>_<isa>`
KernelName Name(const DwConvKernel& row);

std::span<const KernelList<DwConvKernel>* const> AllDwConvKernels();

}  // namespace quern::ukernel
