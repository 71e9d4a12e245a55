// The contract of vector micro-kernels: float32 loops of elementwise operators, reductions, softmax and normalization,
// and transposes.
// Kernel-safe. Any alignment; counts may be 0 unless said otherwise.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "ukernel/elementwise_kinds.h"
#include "ukernel/fold.h"
#include "ukernel/gemm.h"
#include "ukernel/isa.h"
#include "ukernel/softmax.h"

namespace quern::ukernel {

// y[i] = f(x[i]); y may be x. Of kinds up to kCopy.
struct UnaryArgs {
  UnaryKind kind = UnaryKind::kCopy;
  size_t n = 0;
  const float* x = nullptr;
  float* y = nullptr;
  float a = 0, b = 0;
};

// y[i] = f(x[i * x_step], z[i * z_step]); steps are 0 or 1; y may be an operand whose step is 1. Of kinds
// up to kPrelu.
struct BinaryArgs {
  BinaryKind kind = BinaryKind::kAdd;
  size_t n = 0;
  const float* x = nullptr;
  const float* z = nullptr;
  float* y = nullptr;
  size_t x_step = 1, z_step = 1;
};

using FoldArgs = LineFold<float>;
using FoldRowsArgs = RowsFold<float>;
using SoftmaxArgs = SoftmaxLines<float>;

// y[i] = ((x[i] - shift) * scale) * gamma[i] + beta[i]; y may be x. A gamma of null is 1, a beta of null is `offset`.
struct NormalizeArgs {
  size_t n = 0;
  const float* x = nullptr;
  float* y = nullptr;
  float shift = 0, scale = 1, offset = 0;
  const float* gamma = nullptr;
  const float* beta = nullptr;
};

// y[i] = sum over taps t of weights[t] * x[offsets[t] + i]: rows of a separable interpolation. Offsets in floats.
struct BlendArgs {
  size_t taps = 0;
  size_t n = 0;
  const float* x = nullptr;
  const ptrdiff_t* offsets = nullptr;
  const float* weights = nullptr;
  float* y = nullptr;  // no operand
};

// y[r * y_row + c] = x[c * x_col + r] for r < rows, c < cols; strides in elements.
struct TransposeArgs {
  size_t element_bytes = 4;  // 1, 2, 4 or 8
  size_t rows = 0, cols = 0;
  const void* x = nullptr;
  ptrdiff_t x_col = 0;
  void* y = nullptr;  // no operand
  ptrdiff_t y_row = 0;
};

// y[i] = sum over taps t of weights[t * pitch + i] * x[offsets[t * pitch + i]], in the order of the taps: pixels that
// are interpolated at any places. Offsets in floats.
struct GatherBlendArgs {
  size_t taps = 0;
  size_t n = 0;
  size_t pitch = 0;  // elements from a tap to the next one
  const float* x = nullptr;
  const int64_t* offsets = nullptr;
  const float* weights = nullptr;
  float* y = nullptr;  // no operand
};

// Rotary embedding of one head: each pair (u, v) of its first 2 * half elements, half apart or neighbours when
// interleaved, becomes (u cos - v sin, u sin + v cos). y may be x.
struct RotateArgs {
  size_t half = 0;
  bool interleaved = false;
  const float *cosines = nullptr, *sines = nullptr;
  const float* x = nullptr;
  float* y = nullptr;
};

// y[r * pitch + i] *= scales[r] for r < rows, i < n.
struct ScaleRowsArgs {
  size_t rows = 0, n = 0;
  float* y = nullptr;
  ptrdiff_t pitch = 0;  // floats from a row to the next one
  const float* scales = nullptr;
};

// y[r * y_pitch + j] = scale * sum over i < n of x[r * x_pitch + i] * z[j * z_pitch + i], for r < rows, j < count: few
// rows by a matrix that is read once, where it lies. Summed in float32, in lanes. Pitches in floats.
struct DotRowsArgs {
  size_t rows = 0, count = 0, n = 0;
  const float *x = nullptr, *z = nullptr;
  ptrdiff_t x_pitch = 0, z_pitch = 0;
  float scale = 1;
  float* y = nullptr;  // no operand
  ptrdiff_t y_pitch = 0;
};

// y[r * y_pitch + i] = sum over j < count of w[r * w_pitch + j] * z[j * z_pitch + i], for r < rows, i < n: the rows of
// z summed by few rows of weights. Summed in float32, neighbouring j apart where there are few sums. Pitches in floats.
struct SumRowsArgs {
  size_t rows = 0, count = 0, n = 0;
  const float *w = nullptr, *z = nullptr;
  ptrdiff_t w_pitch = 0, z_pitch = 0;
  float* y = nullptr;  // no operand
  ptrdiff_t y_pitch = 0;
};

// Whether the intersection of a box with one of n others, over their union, is above the threshold; false for boxes
// without an area. Corners x0 <= x1, y0 <= y1 of the others, each coordinate by itself, and their areas.
struct OverlapArgs {
  float x0 = 0, y0 = 0, x1 = 0, y1 = 0, area = 0;
  float threshold = 0;
  size_t n = 0;
  const float *others_x0 = nullptr, *others_y0 = nullptr, *others_x1 = nullptr, *others_y1 = nullptr;
  const float* areas = nullptr;
};

// One row per ISA: every function of the family, compiled for it.
struct VectorKernel {
  Isa isa{};
  uint16_t lanes = 4;  // floats of a register: of the rows that a CPU runs, the one with most lanes is taken
  void (*unary)(const UnaryArgs&) = nullptr;
  void (*binary)(const BinaryArgs&) = nullptr;
  float (*fold)(const FoldArgs&) = nullptr;
  void (*fold_lines)(const LinesFold<float>&) = nullptr;
  void (*fold_rows)(const FoldRowsArgs&) = nullptr;
  void (*softmax)(const SoftmaxArgs&) = nullptr;
  void (*normalize)(const NormalizeArgs&) = nullptr;
  void (*blend)(const BlendArgs&) = nullptr;
  void (*transpose)(const TransposeArgs&) = nullptr;
  bool (*overlaps)(const OverlapArgs&) = nullptr;
  void (*gather_blend)(const GatherBlendArgs&) = nullptr;
  void (*rotate)(const RotateArgs&) = nullptr;
  bool (*scale_rows)(const ScaleRowsArgs&) = nullptr;  // whether all numbers were finite before
  void (*dot_rows)(const DotRowsArgs&) = nullptr;
  void (*sum_rows)(const SumRowsArgs&) = nullptr;
  EpilogueRun epilogue = nullptr;  // as ApplyEpilogue
};

// `vector_f32_<isa>`
KernelName Name(const VectorKernel& row);

std::span<const KernelList<VectorKernel>* const> AllVectorKernels();

// The row for a CPU; never null, as the portable one runs everywhere. Rows without a body in this build are passed
// over.
const VectorKernel* SelectVectorRow(const CpuFacts& cpu);

}  // namespace quern::ukernel
