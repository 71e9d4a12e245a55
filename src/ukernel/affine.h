// The contract of affine micro-kernels: rows of integers that stand for (stored - zero point) * scale, made of floats
// or of int32 sums and read as floats, and arithmetic on bytes of that kind. Every row gives the same bits.
// Kernel-safe. Any alignment; counts may be 0 unless said otherwise. Of a matrix, a scale per tensor or row has step 0,
// one per column step 1; blocks along a row are calls of their own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/dtype.h"
#include "base/float8.h"
#include "ukernel/gemm.h"
#include "ukernel/isa.h"

namespace quern::ukernel {

// y[i] = round half to even (x[i] / scale[i * scale_step]) + zero[i * zero_step], saturated; NaN gives the lowest. The
// quotient is rounded to float32. Steps are 0 or 1, and zero_step is 0 where scale_step is. Floats of 8 bits have no
// zero: the quotient is rounded to them.
struct QuantizeRowArgs {
  DType type = DType::kI8;     // of y and zero: i8, u8, i16, u16; f8e4m3fn, f8e4m3fnuz, f8e5m2, f8e5m2fnuz
  DType source = DType::kF32;  // of x: f32; f16 and bf16, which are widened
  size_t n = 0;
  const void* x = nullptr;
  void* y = nullptr;  // no operand
  const float* scale = nullptr;
  const void* zero = nullptr;
  size_t scale_step = 0, zero_step = 0;
  Overflow overflow = Overflow::kSaturate;  // of floats of 8 bits
};

// y[i] = (x[i] - zero[i * zero_step]) * scale[i * scale_step], an exact difference rounded to float32, then the
// product, which is rounded once more where y is f16 or bf16. Steps as above; floats of 8 bits have no zero.
struct DequantizeRowArgs {
  DType type = DType::kI8;     // of x and zero: i8, u8, i16, u16, i32; f8e4m3fn, f8e4m3fnuz, f8e5m2, f8e5m2fnuz
  DType target = DType::kF32;  // of y: f32, f16, bf16
  size_t n = 0;
  const void* x = nullptr;
  void* y = nullptr;  // no operand
  const float* scale = nullptr;
  const void* zero = nullptr;
  size_t scale_step = 0, zero_step = 0;
};

// y[i] = round half to even (x[i] * scale[i * scale_step]) + zero[i * zero_step], saturated; NaN gives the lowest. x is
// converted to float32, then the product is rounded to it: what the epilogue's kRequantize does. Steps as above.
struct RequantizeRowArgs {
  DType type = DType::kI8;  // of y and zero: i8, u8
  size_t n = 0;
  const int32_t* x = nullptr;
  void* y = nullptr;  // no operand
  const float* scale = nullptr;
  const void* zero = nullptr;
  size_t scale_step = 0, zero_step = 0;
};

// What a byte stands for.
struct ByteScale {
  double scale = 1;
  int32_t zero_point = 0;
  bool is_signed = false;
};

// y[i] = the byte next to a number: round half to even (number / scale) + zero point, saturated; NaN gives the lowest.
// The number is x[i * x_step] plus (or times) z[i * z_step], of what these bytes stand for, all in float64. x, z and y
// are signed alike; steps are 0 or 1.
struct CombineBytesArgs {
  bool multiply = false;
  size_t n = 0;
  const uint8_t *x = nullptr, *z = nullptr;
  uint8_t* y = nullptr;  // no operand
  size_t x_step = 1, z_step = 1;
  ByteScale x_scale, z_scale, y_scale;
};

// y[c] = the byte next to the sum over taps t of what x[t0 * strides[0] + t1 * strides[1] + t2 * strides[2] + c] stands
// for, divided by `divisor` (0 gives the number 0), c < n. In float64, the sum exact. x and y are signed alike.
struct AverageBytesArgs {
  size_t taps[3] = {1, 1, 1};
  ptrdiff_t strides[3] = {};  // bytes
  size_t n = 0;
  const uint8_t* x = nullptr;
  uint8_t* y = nullptr;  // no operand
  double divisor = 1;
  ByteScale x_scale, y_scale;
};

// y[i] = table[x[i]], of 256 bytes; y may be x.
struct MapBytesArgs {
  const uint8_t* table = nullptr;
  size_t n = 0;
  const uint8_t* x = nullptr;
  uint8_t* y = nullptr;
};

// One row per ISA: every function of the family, compiled for it.
struct AffineKernel {
  Isa isa{};
  uint16_t vector_bytes = 16;  // of the rows that a CPU runs, the one with the widest vectors is taken
  void (*quantize)(const QuantizeRowArgs&) = nullptr;
  void (*dequantize)(const DequantizeRowArgs&) = nullptr;
  void (*requantize)(const RequantizeRowArgs&) = nullptr;
  void (*combine)(const CombineBytesArgs&) = nullptr;
  void (*average)(const AverageBytesArgs&) = nullptr;
  void (*map)(const MapBytesArgs&) = nullptr;
};

// `affine_any_<isa>`
KernelName Name(const AffineKernel& row);

std::span<const KernelList<AffineKernel>* const> AllAffineKernels();

// The row for a CPU; never null, as the portable one runs everywhere. Rows without a body in this build are passed
// over.
const AffineKernel* SelectAffineRow(const CpuFacts& cpu);

}  // namespace quern::ukernel
