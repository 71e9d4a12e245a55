// What happens to a block of results after the product: a short list of operations that kernels fuse a prefix of and
// ApplyEpilogue runs the rest of. Kernel-safe.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ukernel/format.h"

namespace quern::ukernel {

// x is the value at row m, column n. Vectors over N or M and matrices are indexed by the position in the whole output:
// data[n], data[m], data + m*row_stride + n. Ops before kRequantize on an integer accumulator stay in int32 (wrapping);
// the first float operation converts the accumulator to float32 (round to nearest even). Float arithmetic is float32,
// one rounding per operation. Reductions (kRow*) stand after the conversion to float32.
enum class EpilogueKind : uint8_t {
  kAddVectorN,      // x + data[n]                     data of the accumulator's type
  kMulVectorN,      // x * data[n]                     float32
  kAddVectorM,      // x + data[m]                     data of the accumulator's type
  kMulVectorM,      // x * data[m]                     float32
  kDivVectorM,      // x / data[m]                     float32
  kAddOuter,        // x + data[m] * data2[n]          both of the accumulator's type: zero-point compensation
  kAddOuterScalar,  // x + a * data2[n]             the scalar is `a` (or `integer` on an integer accumulator)
  kAddMatrix,       // x + data[m][n]                  `format` kF32, kF16 or kBf16, row_stride
  kMulMatrix,       // x * data[m][n]
  kAddScalar,       // x + a  (`integer` on an integer accumulator)
  kMulScalar,       // x * a
  kClamp,           // min(max(x, a), b); NaN stays. Relu is a = 0, b = infinity
  kLeakyRelu,       // x < 0 ? a * x : x               a finite
  kPrelu,           // x < 0 ? data[n] * x : x         data finite
  kHardSigmoid,     // clamp(a*x + b, 0, 1)
  kHardSwish,       // x * clamp(x/6 + 1/2, 0, 1)
  kSigmoid,         // 1 / (1 + exp(-x))
  kSilu,            // x * sigmoid(a*x)
  kTanh,
  kElu,       // x < 0 ? a * (exp(x) - 1) : x
  kGelu,      // x * (1 + erf(x / sqrt 2)) / 2
  kGeluTanh,  // x * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3))) / 2
  kSoftplus,  // log(1 + exp(x))
  kExp,
  kRequantize,     // clamp(rint(x * scale) + integer, range of `format`), range narrowed to [a, b] if a < b;
                   // scale = data ? data[n] : `scale`; `format` kI8 or kU8, with `integer` in its range. Before kRow*.
  kConvert,        // stored as `format`: kF32, kF16, kBf16. Ends the list but for kRow*.
  kRowMinMax,      // reduction: float32 out[m][2] = {min, max} combined with what is there; x unchanged
  kRowSumSquares,  // reduction: float32 out[m] += x*x; x unchanged
  kCount,
};

static constexpr const char* EpilogueName(EpilogueKind k) {
  constexpr const char* kNames[] = {
      "add_vector_n", "mul_vector_n", "add_vector_m", "mul_vector_m", "div_vector_m", "add_outer",   "add_outer_scalar",
      "add_matrix",   "mul_matrix",   "add_scalar",   "mul_scalar",   "clamp",        "leaky_relu",  "prelu",
      "hard_sigmoid", "hard_swish",   "sigmoid",      "silu",         "tanh",         "elu",         "gelu",
      "gelu_tanh",    "softplus",     "exp",          "requantize",   "convert",      "row_min_max", "row_sum_squares"};
  static_assert(sizeof(kNames) / sizeof(kNames[0]) == static_cast<size_t>(EpilogueKind::kCount));
  return kNames[static_cast<size_t>(k)];
}

struct EpilogueOp {
  EpilogueKind kind = EpilogueKind::kClamp;
  Format format = Format::kF32;
  const void* data = nullptr;
  const void* data2 = nullptr;  // over N, for kAddOuter
  size_t row_stride = 0;        // bytes between the rows of a matrix
  float a = 0;
  float b = 0;
  float scale = 1;  // kRequantize without a vector
  int32_t integer = 0;
  void* out = nullptr;  // reductions; callers that split N give each part its own
};

constexpr size_t kMaxEpilogueOps = 8;

static constexpr uint32_t EpilogueBit(EpilogueKind k) { return uint32_t{1} << static_cast<unsigned>(k); }
static_assert(static_cast<unsigned>(EpilogueKind::kCount) <= 32);

// Length of the longest prefix of ops[0..count) that a kernel fuses whose mask of kinds is `fused`.
static constexpr size_t FusedPrefix(uint32_t fused, const EpilogueOp* ops, size_t count) {
  size_t i = 0;
  while (i < count && (fused & EpilogueBit(ops[i].kind)) &&
         (ops[i].kind != EpilogueKind::kAddMatrix || ops[i].format == Format::kF32) &&
         (ops[i].kind != EpilogueKind::kMulMatrix || ops[i].format == Format::kF32)) {
    ++i;
  }
  return i;
}

// True for operations that an integer accumulator goes through without becoming float32.
static constexpr bool IsIntegerOp(EpilogueKind k) {
  return k == EpilogueKind::kAddVectorN || k == EpilogueKind::kAddVectorM || k == EpilogueKind::kAddOuter ||
         k == EpilogueKind::kAddOuterScalar || k == EpilogueKind::kAddScalar;
}

// True for operations that leave the numbers as they are and put a result per row elsewhere.
static constexpr bool IsReduction(EpilogueKind k) {
  return k == EpilogueKind::kRowMinMax || k == EpilogueKind::kRowSumSquares;
}

// What stands in dst after ops[0..count) on an accumulator of format `acc` (kF32 or kI32).
static constexpr Format EpilogueFormat(Format acc, const EpilogueOp* ops, size_t count) {
  Format f = acc;
  for (size_t i = 0; i < count; ++i) {
    const EpilogueKind k = ops[i].kind;
    if (k == EpilogueKind::kRequantize || k == EpilogueKind::kConvert) {
      f = ops[i].format;
    } else if (IsReduction(k)) {
      continue;
    } else if (f == Format::kI32 && !IsIntegerOp(k)) {
      f = Format::kF32;
    }
  }
  return f;
}

struct EpilogueBlock {
  size_t m = 0, n = 0;        // extent of the block
  size_t m0 = 0, n0 = 0;      // its position in the output, for the operands of the list
  const void* src = nullptr;  // [m][n] of src_format: kF32 or kI32
  size_t src_row_stride = 0;  // bytes
  Format src_format = Format::kF32;
  void* dst = nullptr;        // [m][n] of EpilogueFormat(src_format, ops, count); may be src
  size_t dst_row_stride = 0;  // bytes
};

using EpilogueRun = void (*)(const EpilogueOp* ops, size_t count, const EpilogueBlock& block);

// Runs ops[0..count) over a block; plain C++, the reference of every fused epilogue. Vector rows have it for their ISA.
void ApplyEpilogue(const EpilogueOp* ops, size_t count, const EpilogueBlock& block);

}  // namespace quern::ukernel
