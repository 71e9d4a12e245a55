// Packed integers of few bits to what products consume, in vectors as wide as a file's ISA has them. For kernel files
// only: internal linkage, their flags.
#pragma once

#include "ukernel/float_lanes.h"
#include "ukernel/gemm/epilogue_f32.h"
#include "ukernel/layouts_arm.h"
#include "ukernel/transform.h"

namespace quern::ukernel {
namespace {

typedef uint8_t Bytes __attribute__((vector_size(kLanes)));

// Blocks to float32: scale * (q - zero), or scale * q + minimum. A line has dwords of a few k of each column; the
// file's vectors are parts of lines.
template <Format kElement>
uint32_t ExpandBlocks(const TransformArgs& a) {
  constexpr unsigned kBits = FormatBits(kElement);
  constexpr uint32_t kMask = (1u << kBits) - 1;
  constexpr size_t kPerLine = 32 / kBits;
  const size_t unit = a.n_unit, line_bytes = unit * 4;
  const size_t scale_bytes = FormatBytes(a.src_scale), offset_bytes = FormatBytes(a.src_offset);
  for (size_t u = 0; u < a.units; ++u) {
    for (size_t column = 0; column < unit; column += kLanes) {
      const char* from = static_cast<const char*>(a.src) + u * a.src_unit_stride + column * 4;
      const char* scales = static_cast<const char*>(a.src_scales) + u * a.src_unit_stride + column * scale_bytes;
      const char* offsets = static_cast<const char*>(a.src_offsets) + u * a.src_unit_stride + column * offset_bytes;
      auto* to = reinterpret_cast<float*>(static_cast<char*>(a.dst) + u * a.dst_unit_stride) + column;
      for (size_t k = 0; k < a.k; k += a.block, scales += unit * scale_bytes, offsets += unit * offset_bytes) {
        const FloatLanes scale = LoadFloats(a.src_scale, scales);
        FloatLanes zero = FloatLanes{} + static_cast<float>(1u << (kBits - 1)), minimum = {};
        if (a.src_offset == Format::kU8) {
          zero = __builtin_convertvector(__builtin_convertvector(LoadAs<Bytes>(offsets), IntLanes), FloatLanes);
        } else if (a.src_offset == Format::kF32) {
          zero = FloatLanes{};
          minimum = LoadAs<FloatLanes>(offsets);
        }
        const size_t end = a.k - k < a.block ? a.k : k + a.block;
        for (size_t i = k; i < end; i += kPerLine, from += line_bytes) {
          auto line = LoadAs<Lanes>(from);
          if (kElement == Format::kI8) line ^= 0x80808080u;
          const auto field = [&](size_t f) {
            const auto shift = static_cast<unsigned>(f % 4 * 8 + f / 4 * kBits);
            const FloatLanes q = __builtin_convertvector((IntLanes)(line >> shift & kMask), FloatLanes);
            const FloatLanes x = (q - zero) * scale + minimum;
            __builtin_memcpy(to + (i + f) * unit, &x, sizeof(x));
          };
          if (end - i >= kPerLine) {
            QUERN_UNROLL for (size_t f = 0; f < kPerLine; ++f) field(f);
          } else {
            for (size_t f = 0; f < end - i; ++f) field(f);
          }
        }
      }
    }
  }
  return kPackFine;
}

// Columns of a unit; those of units that grow with the vector's length come in parts of so many.
constexpr size_t kUnit = 16, kPartOfUnit = 8;

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
  constexpr decltype(TransformKernel::run) kRuns[] = {ExpandFours<kColumns>, ExpandBlocks<Format::kU4>,
                                                      ExpandBlocks<Format::kU2>, ExpandBlocks<Format::kU8>,
                                                      ExpandBlocks<Format::kI8>};
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
