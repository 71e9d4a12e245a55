// The contract of vector micro-kernels: float32 loops of elementwise operators, reductions, softmax and normalization.
// Kernel-safe. Any alignment; counts may be 0 unless said otherwise.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "ukernel/elementwise_kinds.h"
#include "ukernel/gemm.h"
#include "ukernel/isa.h"

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

enum class FoldKind : uint8_t { kSum, kSumAbs, kSumSquares /* of x - shift */, kProd, kMax, kMin, kCount };

// What a fold starts from.
static constexpr float FoldStart(FoldKind kind) {
  return kind == FoldKind::kMax    ? -__builtin_inff()
         : kind == FoldKind::kMin  ? __builtin_inff()
         : kind == FoldKind::kProd ? 1.0f
                                   : 0.0f;
}

// The fold of n neighbouring elements. A NaN wins in kMin and kMax. Sums are made of many short partial sums.
struct FoldArgs {
  FoldKind kind = FoldKind::kSum;
  size_t n = 0;
  const float* x = nullptr;
  float shift = 0;
};

// y[c] = scale * (fold over rows r of x[offset of r + c]), c < n. Windows of a pool, sums over all but the last axis.
// Row r is at x + offsets[r], or at x + r * row_stride when offsets is null; both in floats. More than 64 rows are
// folded as blocks of 64, so that long sums stay accurate.
struct FoldRowsArgs {
  FoldKind kind = FoldKind::kSum;
  size_t rows = 0;
  size_t n = 0;
  const float* x = nullptr;
  const ptrdiff_t* offsets = nullptr;
  ptrdiff_t row_stride = 0;
  float scale = 1;  // sums only
  float* y = nullptr;
};

// Softmax over `count` (at least 1) elements that are `stride` apart, for `width` neighbouring lines; y may be x.
struct SoftmaxArgs {
  size_t count = 1;
  ptrdiff_t stride = 1;  // floats
  size_t width = 1;
  const float* x = nullptr;
  float* y = nullptr;
  bool log = false;
};

// y[i] = ((x[i] - shift) * scale) * gamma[i] + beta[i]; gamma and beta may be null; y may be x.
struct NormalizeArgs {
  size_t n = 0;
  const float* x = nullptr;
  float* y = nullptr;
  float shift = 0, scale = 1;
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

// One row per ISA: every function of the family, compiled for it.
struct VectorKernel {
  Isa isa{};
  uint16_t lanes = 4;  // floats of a register: of the rows that a CPU runs, the one with most lanes is taken
  void (*unary)(const UnaryArgs&) = nullptr;
  void (*binary)(const BinaryArgs&) = nullptr;
  float (*fold)(const FoldArgs&) = nullptr;
  void (*fold_rows)(const FoldRowsArgs&) = nullptr;
  void (*softmax)(const SoftmaxArgs&) = nullptr;
  void (*normalize)(const NormalizeArgs&) = nullptr;
  void (*blend)(const BlendArgs&) = nullptr;
  EpilogueRun epilogue = nullptr;  // as ApplyEpilogue
};

// `vector_f32_<isa>`
KernelName Name(const VectorKernel& row);

std::span<const KernelList<VectorKernel>* const> AllVectorKernels();

// The row for a CPU; never null, as the portable one runs everywhere. Rows without a body in this build are passed
// over.
const VectorKernel* SelectVectorRow(const CpuFacts& cpu);

}  // namespace quern::ukernel
