// The contract of Fourier micro-kernels: the steps of discrete Fourier transforms of float32, on as many lines side by
// side as a register has lanes, so that no step moves numbers between lanes and lines do not reach each other. Of
// element j of the lines the real parts stand at x[2 * j * lanes], the imaginary parts `lanes` floats behind them.
// With `swapped` it is the other way round: a transform of numbers whose parts are exchanged, in and out, is the
// inverse one without its division by the length. Kernel-safe. Any alignment; counts may be 0 unless said otherwise.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "ukernel/gemm.h"
#include "ukernel/isa.h"

namespace quern::ukernel {

// The largest radix of a pass: one costs as many products for each element as it is large.
constexpr size_t kLargestRadix = 61;

// One pass of the self-sorting algorithm of Stockham (Van Loan, "Computational Frameworks for the Fast Fourier
// Transform", 1992): for p < parts, q < stride and r < radix
//   y[q + stride * (radix * p + r)] = w(p, r) * sum over k < radix of x[q + stride * (p + parts * k)] * roots[k * r]
// where w(p, 0) is 1.
struct FourierPassArgs {
  size_t radix = 2;  // 2 .. kLargestRadix
  size_t parts = 1, stride = 1;
  const float* x = nullptr;
  float* y = nullptr;               // no operand
  const float* twiddles = nullptr;  // complex: w(p, r) at p * (radix - 1) + r - 1
  const float* roots = nullptr;     // complex: exp(-2 pi i k / radix) at k < radix
  bool swapped = false;
};

// y[j] = x[j] * factors[j], complex; y may be x.
struct FourierMultiplyArgs {
  size_t n = 0;
  const float* x = nullptr;
  float* y = nullptr;
  const float* factors = nullptr;
  bool swapped = false;
};

// Each of `rows` rows of `lanes` floats times weights[row / repeat * step], in place.
struct FourierScaleArgs {
  size_t rows = 0;
  size_t repeat = 1;
  float* x = nullptr;
  const float* weights = nullptr;
  size_t step = 1;  // 0 or 1
};

// A real line of 2 * half numbers seen as `half` complex ones, and its spectrum. `roots`: complex, exp(-2 pi i k / (2 *
// half)) at k <= half / 2.
struct FourierRealArgs {
  size_t half = 1;  // at least 1
  const float* x = nullptr;
  float* y = nullptr;  // no operand
  const float* roots = nullptr;
  float scale = 1;     // of join
  bool whole = false;  // of split: all 2 * half elements of the spectrum, not only the first half + 1
};

// One row per ISA.
struct FourierKernel {
  Isa isa{};
  uint16_t lanes = 4;  // floats of a register
  void (*pass)(const FourierPassArgs&) = nullptr;
  void (*multiply)(const FourierMultiplyArgs&) = nullptr;
  void (*scale)(const FourierScaleArgs&) = nullptr;
  // From the transform x of `half` complex numbers to the spectrum y of the real line.
  void (*split)(const FourierRealArgs&) = nullptr;
  // Back: from the half + 1 elements x of the spectrum to what an inverse transform of `half` complex numbers makes the
  // real line of, times scale * 2 * half. Imaginary parts of the first and last element do not count.
  void (*join)(const FourierRealArgs&) = nullptr;
};

// `fourier_f32_<isa>`
KernelName Name(const FourierKernel& row);

std::span<const KernelList<FourierKernel>* const> AllFourierKernels();

// The row for `lines` lines on a CPU: the narrowest that takes all of them at once, else the widest. Never null, as the
// portable one runs everywhere. Rows without a body in this build are passed over.
const FourierKernel* SelectFourierRow(const CpuFacts& cpu, size_t lines);

}  // namespace quern::ukernel
