// Products of float32 rows, split in three bf16 terms, by block-quantized weights, whose integers are exact in bf16: by
// TDPBF16PS, for tile_amx_blocks.h. For kernel files of AMX-BF16 only.
#pragma once

#include "ukernel/gemm/tile_amx_blocks.h"

#if QUERN_ISA_HERE
#if QUERN_ISA_EMULATED
#include "ukernel/gemm/vector_i32_portable.h"
#else
#include "ukernel/gemm/vector_i32_avx512.h"
#endif
#endif

namespace quern::ukernel {
namespace {

template <Format element>
struct AmxDotBf16 {
  static constexpr Format kElement = element;
#if QUERN_ISA_HERE
  using V = IntVector;
  using Int = V::Int;
  using Reg = V::Reg;
  static constexpr const amx::TileConfig& kConfig = amx::kFullTiles;
  static constexpr bool kUnpacks = true, kMinima = false;
  static constexpr size_t kWeightBytes = 2, kLhsBlock = 0;
  static constexpr size_t kTermBytes = 1024;  // of 16 rows by 32 k
  static constexpr int kTerms = 3, kLhsTile = 2, kRhsTile = 5;

  template <int MR>
  struct Lhs {};
  template <BlockZero kZeros, int MR>
  static void Prepare(const GemmArgs&, Lhs<MR>&, size_t, size_t, size_t) {}

  using Panel = const char*;
  template <int MR>
  static Panel At(const GemmArgs& a, const Lhs<MR>&, size_t r0, size_t k0) {
    const char* panel = static_cast<const char*>(a.lhs) + static_cast<ptrdiff_t>(r0 / kAmxTile) * a.lhs_row_stride;
    return panel + k0 / 32 * kTerms * kTermBytes;
  }

  static constexpr int kBits = static_cast<int>(FormatBits(element));
  static constexpr int kPerLine = 32 / kBits;  // k of 16 columns in a line of 64 bytes
  static constexpr int Shift(int field) { return field % 4 * 8 + field / 4 * kBits; }

  // Pairs of the fields of a line from I on.
  template <int I>
  QUERN_INLINE static void Pairs(Int line, Reg zero, char* to) {
    if constexpr (I < kPerLine) {
      const Reg even = V::Sub(V::Number<Shift(I), kBits>(line), zero);
      const Reg odd = V::Sub(V::Number<Shift(I + 1), kBits>(line), zero);
      V::StoreInt(reinterpret_cast<int32_t*>(to), V::PairBf16(even, odd));
      Pairs<I + 2>(line, zero, to + 64);
    }
  }
  // int8 has its top bit turned over, which makes it unsigned.
  template <BlockZero kZeros>
  QUERN_INLINE static void Unpack(const char* from, Int zeros, char* to) {
    const Reg zero =
        kZeros == BlockZero::kInteger ? V::ToFloat(zeros) : V::Set1(static_cast<float>(BlockZeroOf(element)));
    QUERN_UNROLL for (int i = 0; i < 32 / kPerLine; ++i) {
      const Int line = V::LoadInt(reinterpret_cast<const int32_t*>(from + 64 * i));
      Pairs<0>(element == Format::kI8 ? V::TurnTopBits(line) : line, zero, to + i * kPerLine / 2 * 64);
    }
  }

  // The smallest terms first.
  template <int C>
  QUERN_INLINE static void Dots(Panel panel, const char* weights, size_t k, size_t length) {
    const char* lhs = panel + k / 32 * kTerms * kTermBytes;
    const char* rhs = weights + k * kAmxTile * kWeightBytes;
    for (; length; length -= 32, lhs += kTerms * kTermBytes, rhs += 32 * kAmxTile * kWeightBytes) {
      amx::Load<kRhsTile + C>(rhs, 64);
      amx::Load<kLhsTile>(lhs + 2 * kTermBytes, 64);
      amx::DotBf16<C, kLhsTile, kRhsTile + C>();
      amx::Load<kLhsTile + 1>(lhs + kTermBytes, 64);
      amx::DotBf16<C, kLhsTile + 1, kRhsTile + C>();
      amx::Load<kLhsTile + 2>(lhs, 64);
      amx::DotBf16<C, kLhsTile + 2, kRhsTile + C>();
    }
  }

  template <BlockZero kZeros, class Acc>
  QUERN_INLINE static void Scale(const int32_t* sums, Panel, size_t, const AmxColumns<V>& columns, Acc& acc) {
    QUERN_UNROLL for (int v = 0; v < AmxColumns<V>::kVectors; ++v) {
      QUERN_UNROLL for (int r = 0; r < static_cast<int>(kAmxTile); ++r) {
        const int32_t* sum = sums + r * static_cast<int>(kAmxTile) + v * V::kLanes;
        acc[r][v] = V::Fma(V::Load(reinterpret_cast<const float*>(sum)), columns.scale[v], acc[r][v]);
      }
    }
  }
#endif
};

// Three products of 16 cycles for 16 x 16 x 32, a tenth more for operands out of L2; unpacking takes about `unpack`
// cycles for each unit and 32 k.
template <Format element>
constexpr GemmKernel AmxBf16BlocksRow() {
  constexpr int kRows = 64, kColumns = 32, kUnits = kColumns / 16;
  constexpr float kTile = 53, kUnpack = FormatBits(element) == 4 ? 64 : 80;
  GemmKernel row = AmxBlocksRow<AmxDotBf16<element>, kRows, kColumns>(
      Format::kBf16x3, {.step_row = kUnits * (kTile / 16 + kUnpack / kRows),
                        .step_min = kUnits * (kTile + kUnpack),
                        .row = 12,
                        .tile = 120});
  row.lhs_forms = kLhsPacked;
  row.lhs_layout = kBf16Terms3Panels;
  for (PackLayout& l : row.layouts) {
    if (l.offset == Format::kF32) l = {};
  }
  row.consumed = row.layouts[0];
  return row;
}

}  // namespace
}  // namespace quern::ukernel
