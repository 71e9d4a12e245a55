// The contract of elementwise micro-kernels: rows of one and two operands of every common number type (float32 too
// where the vector family has no loop). Broadcasting, chunks and threads are the caller's. Kernel-safe. Any alignment.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/dtype.h"
#include "ukernel/elementwise_kinds.h"
#include "ukernel/gemm.h"
#include "ukernel/isa.h"
#include "ukernel/softmax.h"

namespace quern::ukernel {

// What a function of one operand may depend on.
struct RowParameters {
  double a = 0, b = 0;
  const void *low = nullptr, *high = nullptr;  // bounds of kClip, of the operand's type
};

// y[i] = f(x[i]) for i < n; y is not x. Elements of 6 and 4 bits lie in a row of bits, the first in the lowest ones of
// the first byte; what is left of y's last byte becomes 0.
using UnaryRow = void (*)(int64_t n, const void* x, void* y, const RowParameters& parameters);
// y[i] = f(a[i], b[i]); y is no operand. False for a fault: the whole row is computed all the same.
using BinaryRow = bool (*)(int64_t n, const void* a, const void* b, void* y);
// y[i] = choice[i] ? a[i] : b[i]; choice holds bools; y is no operand.
using ChoiceRow = void (*)(int64_t n, const void* choice, const void* a, const void* b, void* y);

// One row of the family per ISA: its functions find loops by kind and types, null where there is none.
struct ElementwiseKernel {
  Isa isa{};
  uint16_t vector_bytes = 16;  // of the rows that a CPU runs, the one with the widest vectors is taken
  // From elements of `from` to elements of `to`, which differ for kConvert and for results of another type alone.
  UnaryRow (*unary)(UnaryKind kind, DType from, DType to) = nullptr;
  // Operands of one type, but for kPow: exponents are float64, int64, or float32 for such a base. Comparisons give
  // bools.
  BinaryRow (*binary)(BinaryKind kind, DType a, DType b) = nullptr;
  // Elements of 1, 2, 4 or 8 bytes.
  ChoiceRow (*choose)(size_t bytes) = nullptr;
  void (*softmax)(const SoftmaxLines<double>&) = nullptr;
};

// `elementwise_any_<isa>`
KernelName Name(const ElementwiseKernel& row);

std::span<const KernelList<ElementwiseKernel>* const> AllElementwiseKernels();

// The row for a CPU; never null, as the portable one runs everywhere. Rows without a body in this build are passed
// over.
const ElementwiseKernel* SelectElementwiseRow(const CpuFacts& cpu);

}  // namespace quern::ukernel
