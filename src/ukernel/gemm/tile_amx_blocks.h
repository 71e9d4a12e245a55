// The tile of AMX by block-quantized weights: the products of a block go to a tile of sums, which is then scaled and
// added to accumulators in registers, float32 over blocks in the order of K. For kernel files of AMX only.
#pragma once

#include "ukernel/gemm/tile_blocks.h"

#if QUERN_ISA_HERE
#include "ukernel/amx_tile.h"
#endif

namespace quern::ukernel {
namespace {

constexpr size_t kAmxTile = 16;     // rows and columns of a tile of sums
constexpr size_t kAmxStageK = 512;  // elements of K whose weights are unpacked at once

#if QUERN_ISA_HERE

// Of a block of the weights.
template <class V>
struct AmxColumns {
  static constexpr int kVectors = V::kUnit / V::kLanes;
  typename V::Reg scale[kVectors], minimum[kVectors];
  typename V::Int zero[kVectors];
};

// D describes the products of a kind of rows by a kind of elements:
//   V                 int32 and float32 lanes
//   kElement, kUnpacks, kWeightBytes: of the packed weights; whether the products take them in another form; bytes of
//                     one in the products' form, [K / group][16][group]
//   kLhsBlock         elements of the left side that have a scale; 0: none
//   kMinima           whether it takes float offsets
//   kConfig           of the tiles
//   Lhs<MR>           what it keeps of the left side; Prepare<zeros>(a, lhs, k0, count, length) makes that of a stage
//   Panel, At(a, lhs, r0, k0): 16 rows from r0 on, the stage's first k
//   Unpack<zeros>(from, zero points, to): 32 k of V::kLanes columns
//   Dots<C>(panel, weights, k, length): adds the products of `length` k from the stage's k on to tile C (0 or 1)
//   Scale<zeros>(sums, panel, i, columns, acc): adds the sums numbered i of the stage
template <class D, int MR, int NR>
struct TileAmxBlocks {
  using V = typename D::V;
  using Accumulators = BlockAccumulators<V, false, MR, NR>;
  using Base = TileEpilogueI32<V, kAmxTile, 1>;
  using Columns = AmxColumns<V>;
  static constexpr size_t kBits = FormatBits(D::kElement);
  static_assert(V::kUnit == kAmxTile && MR % kAmxTile == 0 && NR % kAmxTile == 0);

  struct alignas(64) Scratch {
    int32_t sums[2][kAmxTile * kAmxTile];  // of a block; one is scaled while the other is computed
    int32_t floats[MR * NR];               // the accumulators' bits
    int32_t parts[MR * NR];                // tiles of sums of blocks longer than a stage
    char weights[NR / kAmxTile][kAmxStageK * kAmxTile * (D::kUnpacks ? D::kWeightBytes : 0) + 64];
    typename D::template Lhs<MR> lhs;
  };

  // A range of K: whole sums, or a part of one.
  struct Stage {
    size_t k0, count;
    size_t length;           // of a sum
    bool first, last;        // parts of their sums
    size_t block, in_block;  // of the weights, where it begins
  };

  template <BlockZero kZeros>
  static void Unpack(const GemmArgs& a, Scratch& s, const Stage& g) {
    for (size_t n = 0; n < a.n; n += kAmxTile) {
      const size_t unit = n / kAmxTile * a.rhs_unit_stride;
      const char* from = static_cast<const char*>(a.rhs) + unit + g.k0 * kAmxTile * kBits / 8;
      const char* zeros = static_cast<const char*>(a.rhs_offsets) + unit + g.block * kAmxTile;
      char* to = s.weights[n / kAmxTile];
      size_t in_block = g.in_block;
      for (size_t k = 0; k < g.count; k += 32) {
        for (size_t c = 0; c < kAmxTile; c += V::kLanes) {
          typename V::Int zero = V::ZeroInt();
          if constexpr (kZeros == BlockZero::kInteger) zero = V::LoadZeros(zeros + c);
          D::template Unpack<kZeros>(from + c * 4, zero, to + c * 4);
        }
        from += 32 * kAmxTile * kBits / 8;
        to += 32 * kAmxTile * D::kWeightBytes;
        in_block += 32;
        if (in_block == a.block) {
          in_block = 0;
          zeros += kAmxTile;
        }
      }
    }
  }

  // Walks along the scales of a unit's columns.
  template <BlockZero kZeros>
  struct Scales {
    const char* scales;
    const char* offsets;
    Format format;
    size_t in_block, block, length;

    Scales(const GemmArgs& a, const Stage& g, size_t n)
        : format(a.rhs_scale), in_block(g.in_block), block(a.block), length(g.length) {
      const size_t unit = n / kAmxTile * a.rhs_unit_stride;
      scales = static_cast<const char*>(a.rhs_scales) + unit + g.block * kAmxTile * FormatBytes(format);
      offsets = static_cast<const char*>(a.rhs_offsets) + unit + g.block * kAmxTile * kOffsetBytes;
    }
    static constexpr size_t kOffsetBytes = kZeros == BlockZero::kMinimum ? sizeof(float) : 1;

    QUERN_INLINE Columns Next() {
      Columns c;
      QUERN_UNROLL for (int v = 0; v < Columns::kVectors; ++v) {
        c.scale[v] = V::LoadScale(scales + v * V::kLanes * FormatBytes(format), format);
        if constexpr (kZeros == BlockZero::kInteger) c.zero[v] = V::LoadZeros(offsets + v * V::kLanes);
        if constexpr (kZeros == BlockZero::kMinimum) {
          c.minimum[v] = V::Load(reinterpret_cast<const float*>(offsets) + v * V::kLanes);
        }
      }
      in_block += length;
      if (in_block >= block) {
        in_block = 0;
        scales += kAmxTile * FormatBytes(format);
        offsets += kAmxTile * kOffsetBytes;
      }
      return c;
    }
  };

  // The sums numbered i of a stage, by tile C.
  template <int C>
  QUERN_INLINE static void Sums(Scratch& s, const Stage& g, const typename D::Panel& panel, const char* weights,
                                size_t i) {
    const size_t k = i * g.length;
    amx::Zero<C>();
    D::template Dots<C>(panel, weights, k, g.count - k < g.length ? g.count - k : g.length);
    amx::Store<C>(s.sums[C], 64);
  }

  // 16 rows by a unit, over a stage.
  template <BlockZero kZeros>
  static void Tile(const GemmArgs& a, Scratch& s, const Stage& g, size_t r0, size_t n) {
    const typename D::Panel panel = D::At(a, s.lhs, r0, g.k0);
    const char* weights = s.weights[n / kAmxTile];
    if constexpr (!D::kUnpacks) {
      weights = static_cast<const char*>(a.rhs) + n / kAmxTile * a.rhs_unit_stride + g.k0 * kAmxTile * kBits / 8;
    }
    Scales<kZeros> scales(a, g, n);
    int32_t* floats = s.floats + r0 * NR + n;
    const typename Base::Tail whole = Base::MakeTail(kAmxTile);
    typename Base::Acc acc;
    if (!g.first || !g.last) {
      int32_t* part = s.parts + r0 * NR + n * kAmxTile;
      g.first ? amx::Zero<0>() : amx::Load<0>(part, 64);
      D::template Dots<0>(panel, weights, 0, g.count);
      amx::Store<0>(part, 64);
      if (!g.last) return;
      Base::Read(floats, NR * sizeof(float), acc, whole);
      D::template Scale<kZeros>(part, panel, 0, scales.Next(), acc);
      return Base::Write(floats, NR * sizeof(float), acc, whole);
    }
    const size_t sums = CeilDiv(g.count, g.length);
    Base::Read(floats, NR * sizeof(float), acc, whole);
    Sums<0>(s, g, panel, weights, 0);
    for (size_t i = 0; i < sums; i += 2) {  // products of the next sums run while those before are scaled
      if (i + 1 < sums) Sums<1>(s, g, panel, weights, i + 1);
      D::template Scale<kZeros>(s.sums[0], panel, i, scales.Next(), acc);
      if (i + 1 == sums) break;
      if (i + 2 < sums) Sums<0>(s, g, panel, weights, i + 2);
      D::template Scale<kZeros>(s.sums[1], panel, i + 1, scales.Next(), acc);
    }
    Base::Write(floats, NR * sizeof(float), acc, whole);
  }

  template <BlockZero kZeros>
  static void Product(const GemmArgs& a, Scratch& s) {
    const size_t end = RoundUp(a.k, 32);
    Stage g;
    g.length = D::kLhsBlock ? D::kLhsBlock : a.block;
    for (g.k0 = 0; g.k0 < end; g.k0 += g.count) {
      const size_t begin = g.k0 % g.length, left = end - g.k0;
      const size_t most = g.length > kAmxStageK ? g.length - begin : kAmxStageK / g.length * g.length;
      g.count = most < kAmxStageK ? most : kAmxStageK;
      if (left < g.count) g.count = left;
      g.first = begin == 0;
      g.last = g.length <= kAmxStageK || begin + g.count == g.length || g.count == left;
      g.block = g.k0 / a.block;
      g.in_block = g.k0 % a.block;
      D::template Prepare<kZeros>(a, s.lhs, g.k0, g.count, g.length);
      if constexpr (D::kUnpacks) Unpack<kZeros>(a, s, g);
      for (size_t r0 = 0; r0 < a.m; r0 += kAmxTile) {
        for (size_t n = 0; n < a.n; n += kAmxTile) Tile<kZeros>(a, s, g, r0, n);
      }
    }
  }

  static void Run(const GemmArgs& a) {
    auto& s = *static_cast<Scratch*>(a.scratch);
    Accumulators::Start(a, s.floats);
    if (a.rhs_offset == Format::kU8) {
      Product<BlockZero::kInteger>(a, s);
    } else if (D::kMinima && a.rhs_offset == Format::kF32) {
      Product<D::kMinima ? BlockZero::kMinimum : BlockZero::kConstant>(a, s);
    } else {
      Product<BlockZero::kConstant>(a, s);
    }
    Accumulators::Finish(a, s.floats);
  }
};

#endif

// The descriptor of a row of MR x NR by elements of D, but for the left side's form.
template <class D, int MR, int NR>
constexpr GemmKernel AmxBlocksRow(Format lhs, GemmCost cost) {
  GemmKernel row = BlocksRow(kIsa, lhs, D::kElement, MR, NR, cost, nullptr);
  row.kr = 32;
  row.block_divisor = 32;
  row.cost.engine = Engine::kMatrix;
  row.cost.m_grain = kAmxTile;
#if QUERN_ISA_HERE
  using Tile = TileAmxBlocks<D, MR, NR>;
  row.scratch_bytes = sizeof(typename Tile::Scratch);
  row.mode_config = &D::kConfig;
  row.enter_mode = amx::Enter;
  row.leave_mode = amx::Leave;
  row.run = Tile::Run;
#endif
  return row;
}

}  // namespace
}  // namespace quern::ukernel
