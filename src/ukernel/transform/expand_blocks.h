// Packed integers of few bits to what products consume, in C++ that compilers vectorize. For kernel files only:
// internal linkage, their flags.
#pragma once

#include "ukernel/convert.h"
#include "ukernel/gemm/epilogue_f32.h"
#include "ukernel/layouts_arm.h"
#include "ukernel/transform.h"

namespace quern::ukernel {
namespace {

// A field of each 32-bit lane of a line, which is one k of kColumns columns, as float32.
template <Format kElement, size_t kColumns>
inline void ExpandField(const uint32_t* line, unsigned shift, const float* scale, const float* zero,
                        const float* minimum, float* to) {
  constexpr uint32_t kMask = (1u << FormatBits(kElement)) - 1;
  for (size_t c = 0; c < kColumns; ++c) {
    const auto q = static_cast<int32_t>((line[c] >> shift) & kMask);
    to[c] = (static_cast<float>(q) - zero[c]) * scale[c] + minimum[c];
  }
}

// Columns that are worked on together: a unit, or a part of those that grow with the vector's length.
constexpr size_t kUnit = 16, kPartOfUnit = 8;

// Blocks to float32: scale * (q - zero), or scale * q + minimum.
template <Format kElement, size_t kColumns>
uint32_t ExpandBlocks(const TransformArgs& a) {
  constexpr unsigned kBits = FormatBits(kElement);
  constexpr size_t kPerLine = 32 / kBits;
  const size_t unit = kColumns == kUnit ? kUnit : a.n_unit;
  const size_t line_bytes = unit * 4;  // groups of 4 k of a unit, 8 / bits of them
  const size_t scale_bytes = FormatBytes(a.src_scale);
  for (size_t part = 0; part < a.units * (unit / kColumns); ++part) {
    const size_t u = part / (unit / kColumns), column = part % (unit / kColumns) * kColumns;
    const char* from = static_cast<const char*>(a.src) + u * a.src_unit_stride + column * 4;
    const char* scales = static_cast<const char*>(a.src_scales) + u * a.src_unit_stride;
    const char* offsets = static_cast<const char*>(a.src_offsets) + u * a.src_unit_stride;
    auto* to = reinterpret_cast<float*>(static_cast<char*>(a.dst) + u * a.dst_unit_stride) + column;
    for (size_t k = 0, b = 0; k < a.k; k += a.block, ++b) {
      float scale[kColumns], zero[kColumns], minimum[kColumns];
      for (size_t c = 0; c < kColumns; ++c) {
        const size_t at = b * unit + column + c;
        scale[c] = LoadFloat(a.src_scale, scales + at * scale_bytes);
        zero[c] = a.src_offset == Format::kU8    ? static_cast<float>(static_cast<uint8_t>(offsets[at]))
                  : a.src_offset == Format::kF32 ? 0.0f
                                                 : static_cast<float>(1u << (kBits - 1));
        minimum[c] = a.src_offset == Format::kF32 ? LoadAs<float>(offsets + at * sizeof(float)) : 0.0f;
      }
      const size_t end = a.k - k < a.block ? a.k : k + a.block;
      for (size_t i = k; i < end; i += kPerLine, from += line_bytes) {
        uint32_t line[kColumns];
        __builtin_memcpy(line, from, sizeof(line));
        if (kElement == Format::kI8) {
          for (size_t c = 0; c < kColumns; ++c) line[c] ^= 0x80808080u;
        }
        const auto field = [&](size_t f) {
          const auto shift = static_cast<unsigned>(f % 4 * 8 + f / 4 * kBits);
          ExpandField<kElement, kColumns>(line, shift, scale, zero, minimum, to + (i + f) * unit);
        };
        if (end - i >= kPerLine) {
          QUERN_UNROLL for (size_t f = 0; f < kPerLine; ++f) field(f);
        } else {
          for (size_t f = 0; f < end - i; ++f) field(f);
        }
      }
    }
  }
  return kPackFine;
}

// 4-bit numbers stored plus 8, without blocks, to int8.
template <size_t kColumns>
[[maybe_unused]] uint32_t ExpandFours(const TransformArgs& a) {
  const size_t line = (kColumns == kUnit ? kUnit : a.n_unit) * 4;
  for (size_t u = 0; u < a.units; ++u) {
    const auto* from = static_cast<const uint8_t*>(a.src) + u * a.src_unit_stride;
    auto* to = static_cast<int8_t*>(a.dst) + u * a.dst_unit_stride;
    for (size_t k = 0; k < a.k; k += 8, from += line, to += 2 * line) {
      for (size_t i = 0; i < line; ++i) to[i] = static_cast<int8_t>((from[i] & 15) - 8);
      for (size_t i = 0; i < line; ++i) to[line + i] = static_cast<int8_t>((from[i] >> 4) - 8);
    }
  }
  return kPackFine;
}

// The rows of a file, compiled with its ISA's flags.
struct ExpandRows {
  TransformKernel rows[5];
};
template <size_t kColumns>
constexpr ExpandRows MakeExpandRows(float cycles_float, float cycles_int8) {
#if QUERN_ISA_HERE
  constexpr decltype(TransformKernel::run) kRuns[] = {
      ExpandFours<kColumns>, ExpandBlocks<Format::kU4, kColumns>, ExpandBlocks<Format::kU2, kColumns>,
      ExpandBlocks<Format::kU8, kColumns>, ExpandBlocks<Format::kI8, kColumns>};
#else
  constexpr decltype(TransformKernel::run) kRuns[5] = {};
#endif
  constexpr Format kScale = Format::kF32;
  if constexpr (kColumns == kUnit) {
    return {{{kIsa, kU4Channels16, kI8x16, cycles_int8, kRuns[0]},
             {kIsa, UnsignedBlocks16(Format::kU4, kScale), kF32x16, cycles_float, kRuns[1]},
             {kIsa, UnsignedBlocks16(Format::kU2, kScale), kF32x16, cycles_float, kRuns[2]},
             {kIsa, UnsignedBlocks16(Format::kU8, kScale), kF32x16, cycles_float, kRuns[3]},
             {kIsa, Blocks8x16(kScale), kF32x16, cycles_float, kRuns[4]}}};
  } else {
    constexpr VectorScale kSme = VectorScale::kSme;
    return {{{kIsa, U4Channels(kSme, 2, 4), kI8Sme, cycles_int8, kRuns[0]},
             {kIsa, ScaledBlocks(kSme, Format::kU4, 4, kScale), kF32Sme, cycles_float, kRuns[1]},
             {kIsa, ScaledBlocks(kSme, Format::kU2, 4, kScale), kF32Sme, cycles_float, kRuns[2]},
             {kIsa, ScaledBlocks(kSme, Format::kU8, 4, kScale), kF32Sme, cycles_float, kRuns[3]},
             {kIsa, ScaledBlocks(kSme, Format::kI8, 4, kScale), kF32Sme, cycles_float, kRuns[4]}}};
  }
}

}  // namespace
}  // namespace quern::ukernel
