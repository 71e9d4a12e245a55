// The number formats that operands of micro-kernels come in, and their names. Kernel-safe.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/dtype.h"

namespace quern::ukernel {

enum class Format : uint8_t {
  kNone,
  kF32,
  kF16,
  kBf16,
  kBf16x2,  // a float32 as the sum of two bf16 terms (fp32-fast)
  kBf16x3,  // of three terms (as accurate as float32 FMA)
  kI8,
  kU8,
  kI8d,  // int8 rows quantized at run time, a scale and a zero point per row (numerics.md)
  kI8b,  // int8 in blocks of 32 along K, a float16 scale each (ggml's q8_0 form of the left side)
  kI32,
  kU4,  // unsigned 4 bits, blocks along K with a scale each, zero point 8 unless the layout has its own
  kI4,
  kU2,
  kQ4_0,  // source formats of GGUF, packed into kU4 / kI8 blocks, never kernel operands
  kQ4_1,
  kQ8_0,
  kF64,
};

// As it stands in kernel names.
static constexpr const char* FormatName(Format f) {
  switch (f) {
    case Format::kNone:
      return "none";
    case Format::kF32:
      return "f32";
    case Format::kF16:
      return "f16";
    case Format::kBf16:
      return "bf16";
    case Format::kBf16x2:
      return "bf16x2";
    case Format::kBf16x3:
      return "bf16x3";
    case Format::kI8:
      return "i8";
    case Format::kU8:
      return "u8";
    case Format::kI8d:
      return "i8d";
    case Format::kI8b:
      return "i8b";
    case Format::kI32:
      return "i32";
    case Format::kU4:
      return "qb4w";
    case Format::kI4:
      return "i4";
    case Format::kU2:
      return "qb2w";
    case Format::kQ4_0:
      return "q4_0";
    case Format::kQ4_1:
      return "q4_1";
    case Format::kQ8_0:
      return "q8_0";
    case Format::kF64:
      return "f64";
  }
  return "?";
}

// Bits of one stored element (of one term, for the multi-term formats).
static constexpr size_t FormatBits(Format f) {
  switch (f) {
    case Format::kNone:
      return 0;
    case Format::kF64:
      return 64;
    case Format::kF32:
    case Format::kI32:
      return 32;
    case Format::kF16:
    case Format::kBf16:
    case Format::kBf16x2:
    case Format::kBf16x3:
      return 16;
    case Format::kI8:
    case Format::kU8:
    case Format::kI8d:
    case Format::kI8b:
    case Format::kQ8_0:
      return 8;
    case Format::kU4:
    case Format::kI4:
    case Format::kQ4_0:
    case Format::kQ4_1:
      return 4;
    case Format::kU2:
      return 2;
  }
  return 0;
}

static constexpr size_t FormatBytes(Format f) { return FormatBits(f) / 8; }  // 0 below one byte

static constexpr size_t FormatTerms(Format f) { return f == Format::kBf16x2 ? 2 : f == Format::kBf16x3 ? 3 : 1; }

// A float32 as several bf16 terms.
static constexpr bool IsSplit(Format f) { return FormatTerms(f) > 1; }

// Blocks of GGUF: scales and minima stand inside, kGgufBlock elements each.
static constexpr bool IsGguf(Format f) { return f == Format::kQ4_0 || f == Format::kQ4_1 || f == Format::kQ8_0; }
[[maybe_unused]] static constexpr size_t kGgufBlock = 32;

// Left sides that are made of floats at run time, and asked for by these names.
static constexpr bool IsDynamic(Format f) { return f == Format::kI8d || f == Format::kI8b; }

// Operands of products in int32.
static constexpr bool IsInt8(Format f) { return f == Format::kI8 || f == Format::kU8; }

// The format of a tensor's elements; kNone for types that no kernel takes.
static constexpr Format FormatOf(DType t) {
  switch (t) {
    case DType::kF64:
      return Format::kF64;
    case DType::kF32:
      return Format::kF32;
    case DType::kF16:
      return Format::kF16;
    case DType::kBF16:
      return Format::kBf16;
    case DType::kI8:
      return Format::kI8;
    case DType::kU8:
      return Format::kU8;
    case DType::kI32:
      return Format::kI32;
    case DType::kU4:
      return Format::kU4;
    case DType::kI4:
      return Format::kI4;
    case DType::kU2:
      return Format::kU2;
    case DType::kQ4_0:
      return Format::kQ4_0;
    case DType::kQ4_1:
      return Format::kQ4_1;
    case DType::kQ8_0:
      return Format::kQ8_0;
    default:
      return Format::kNone;
  }
}

}  // namespace quern::ukernel
