// The register tile of dynamic int8 rows by block-quantized weights: integer sums within a block, float32 over blocks
// in the order of K, the same bits on every ISA. For kernel files only: everything has internal linkage.
#pragma once

#include "ukernel/gemm/epilogue_i32.h"
#include "ukernel/gemm/tile_i8.h"

namespace quern::ukernel {
namespace {

// acc = acc + float(sum of q * (w - zero)) * scale for each block, then + float(sum of q) * minimum where the weights
// have float offsets; every operation rounds on its own.
//
// D is as for TileI8, with
//   kStepGroups    groups of 4 k that a step's weights (kStepBytes of a unit) hold: Weights[kStepGroups]
//   kZero          what the weights in their form have too much, or 0: then sums of the staged rows take it off
//   LoadWeights(p, out), LoadScale(p, format), LoadZeros(p): V::kLanes columns
//   StageSums(staged row, block, count, out): sums over the blocks of a staged piece
template <class D, int MR, int NU>
struct TileBlocks : TileEpilogueI32<typename D::V, MR, NU> {
  using V = typename D::V;
  using Base = TileEpilogueI32<V, MR, NU>;
  using Base::kPerUnit;
  using Base::kVectors;
  using typename Base::Acc;
  using typename Base::Int;
  using typename Base::IntAcc;
  using typename Base::Reg;
  using typename Base::Tail;

  static constexpr int kGroups = D::kStepGroups;
  // Few accumulators: the groups of a step get their own.
  static constexpr int kSets = MR * kVectors < D::kLatency ? kGroups : 1;
  static constexpr size_t kRowBytes = StagedRowBytes(D::kGroupBytes);
  static constexpr size_t kUnit = V::kUnit;

  QUERN_INLINE static void Step(IntAcc (&acc)[kSets], const char* lhs, const char* rhs, size_t unit_stride) {
    const auto at = [&](int v) {
      const char* p = rhs + static_cast<size_t>(v / kPerUnit) * unit_stride + v % kPerUnit * V::kLanes * 4;
      if (V::kPrefetch && v % kPerUnit == 0) __builtin_prefetch(p + V::kPrefetch);
      return p;
    };
    if constexpr (D::kHoldsWeights) {
      typename D::Weights w[kVectors][kGroups];
      QUERN_UNROLL for (int v = 0; v < kVectors; ++v) D::LoadWeights(at(v), w[v]);
      QUERN_UNROLL for (int s = 0; s < kGroups; ++s) {
        QUERN_UNROLL for (int r = 0; r < MR; ++r) {
          const auto x = D::LoadGroup(lhs + r * kRowBytes + s * D::kGroupBytes);
          QUERN_UNROLL for (int v = 0; v < kVectors; ++v) {
            acc[s % kSets][r][v] = D::Dot(acc[s % kSets][r][v], x, w[v][s]);
          }
        }
      }
    } else {
      QUERN_UNROLL for (int v = 0; v < kVectors; ++v) {
        typename D::Weights w[kGroups];
        D::LoadWeights(at(v), w);
        QUERN_UNROLL for (int s = 0; s < kGroups; ++s) {
          QUERN_UNROLL for (int r = 0; r < MR; ++r) {
            const auto x = D::LoadGroup(lhs + r * kRowBytes + s * D::kGroupBytes);
            acc[s % kSets][r][v] = D::Dot(acc[s % kSets][r][v], x, w[s]);
          }
        }
      }
    }
  }

  // What the sums of a block (or of a piece of it) begin with: -zero * (sum of q), `sums` at row 0.
  QUERN_INLINE static void Begin(const GemmArgs& a, size_t block, const int32_t* sums, IntAcc& acc) {
    if constexpr (D::kZero == 0) {
      Base::Each([&](int r, int v) { acc[r][v] = V::ZeroInt(); });
    } else if (a.rhs_offset == Format::kU8) {
      QUERN_UNROLL for (int v = 0; v < kVectors; ++v) {
        const char* p = static_cast<const char*>(a.rhs_offsets) + static_cast<size_t>(v / kPerUnit) * a.rhs_unit_stride;
        const Int zero = D::LoadZeros(p + block * kUnit + v % kPerUnit * V::kLanes);
        QUERN_UNROLL for (int r = 0; r < MR; ++r) acc[r][v] = V::MulInt(zero, V::Set1Int(-sums[r * kMaxBlocks]));
      }
    } else {
      const int32_t zero = a.rhs_offset == Format::kF32 ? 0 : D::kZero;
      Base::Each([&](int r, int v) { acc[r][v] = V::Set1Int(-zero * sums[r * kMaxBlocks]); });
    }
  }

  QUERN_INLINE static void Finish(const GemmArgs& a, size_t block, const int32_t* totals, const IntAcc& sum, Acc& acc) {
    const size_t bytes = FormatBytes(a.rhs_scale);
    QUERN_UNROLL for (int v = 0; v < kVectors; ++v) {
      const size_t unit = static_cast<size_t>(v / kPerUnit) * a.rhs_unit_stride;
      const size_t column = block * kUnit + v % kPerUnit * V::kLanes;
      const Reg scale = D::LoadScale(static_cast<const char*>(a.rhs_scales) + unit + column * bytes, a.rhs_scale);
      QUERN_UNROLL for (int r = 0; r < MR; ++r) { acc[r][v] = V::Add(acc[r][v], V::Mul(V::ToFloat(sum[r][v]), scale)); }
      if (D::kZero != 0 && a.rhs_offset == Format::kF32) {
        const Reg minimum = D::LoadScale(static_cast<const char*>(a.rhs_offsets) + unit + column * 4, Format::kF32);
        QUERN_UNROLL for (int r = 0; r < MR; ++r) {
          acc[r][v] = V::Add(acc[r][v], V::Mul(V::ToFloat(V::Set1Int(totals[r])), minimum));
        }
      }
    }
  }

  // k values [k, k + count) of a block, from the staged rows.
  QUERN_INLINE static void Dots(const GemmArgs& a, size_t k, size_t count, const char* stage, IntAcc (&part)[kSets]) {
    constexpr size_t kStepK = 4 * kGroups;
    const char* rhs = static_cast<const char*>(a.rhs) + k / kStepK * D::kStepBytes;
    for (size_t steps = (count + kStepK - 1) / kStepK; steps; --steps) {
      Step(part, stage, rhs, a.rhs_unit_stride);
      stage += kGroups * D::kGroupBytes;
      rhs += D::kStepBytes;
    }
  }

  QUERN_INLINE static void ClearSets(IntAcc (&part)[kSets]) {
    QUERN_UNROLL for (int s = 1; s < kSets; ++s) Base::Each([&](int r, int v) { part[s][r][v] = V::ZeroInt(); });
  }
  QUERN_INLINE static void AddSets(IntAcc (&part)[kSets]) {
    QUERN_UNROLL for (int s = 1; s < kSets; ++s) {
      Base::Each([&](int r, int v) { part[0][r][v] = V::AddInt(part[0][r][v], part[s][r][v]); });
    }
  }

  static constexpr size_t kMaxBlocks = kStagedK / 8;  // of a staged piece

  static void StagePiece(const GemmArgs& a, size_t k, size_t count, size_t block, char* stage, int32_t* sums) {
    for (int r = 0; r < MR; ++r) {
      D::Stage(static_cast<const char*>(a.lhs) + r * a.lhs_row_stride + k, count, stage + r * kRowBytes);
      if constexpr (D::kZero != 0) D::StageSums(stage + r * kRowBytes, block, count, sums + r * kMaxBlocks);
    }
  }

  static void Run(const GemmArgs& a) {
    const Tail tail = Base::MakeTail(a.n);
    Acc acc;
    if (a.first_k) {
      Base::Each([&](int r, int v) { acc[r][v] = V::Zero(); });
    } else {
      Base::Read(a.acc, a.acc_row_stride, acc, tail);
    }
    char* stage = static_cast<char*>(a.scratch);
    auto* sums = reinterpret_cast<int32_t*>(stage + MR * kRowBytes);
    int32_t* totals = sums + MR * kMaxBlocks;
    if (a.block <= kStagedK) {  // whole blocks in a piece
      const size_t piece = kStagedK / a.block * a.block;
      for (size_t k0 = 0; k0 < a.k; k0 += piece) {
        const size_t count = a.k - k0 < piece ? a.k - k0 : piece;
        StagePiece(a, k0, count, a.block, stage, sums);
        for (size_t k = 0, b = 0; k < count; k += a.block, ++b) {
          IntAcc part[kSets];
          Begin(a, k0 / a.block + b, sums + b, part[0]);
          ClearSets(part);
          Dots(a, k0 + k, count - k < a.block ? count - k : a.block, stage + k / 4 * D::kGroupBytes, part);
          AddSets(part);
          if (D::kZero != 0 && a.rhs_offset == Format::kF32) {
            for (int r = 0; r < MR; ++r) totals[r] = sums[r * kMaxBlocks + b];
          }
          Finish(a, k0 / a.block + b, totals, part[0], acc);
        }
      }
    } else {  // a block in several pieces
      for (size_t k0 = 0; k0 < a.k; k0 += a.block) {
        const size_t end = a.k - k0 < a.block ? a.k : k0 + a.block;
        IntAcc whole;
        Base::Each([&](int r, int v) { whole[r][v] = V::ZeroInt(); });
        for (int r = 0; r < MR; ++r) totals[r] = 0;
        for (size_t k = k0; k < end; k += kStagedK) {
          const size_t count = end - k < kStagedK ? end - k : kStagedK;
          StagePiece(a, k, count, kStagedK, stage, sums);
          IntAcc part[kSets];
          Begin(a, k0 / a.block, sums, part[0]);
          ClearSets(part);
          Dots(a, k, count, stage, part);
          AddSets(part);
          Base::Each([&](int r, int v) { whole[r][v] = V::AddInt(whole[r][v], part[0][r][v]); });
          for (int r = 0; D::kZero != 0 && r < MR; ++r) totals[r] += sums[r * kMaxBlocks];
        }
        Finish(a, k0 / a.block, totals, whole, acc);
      }
    }
    if (a.last_k) {
      Base::Apply(a, a.ops, a.ops + a.op_count, acc, tail);
      Base::Write(a.dst, a.dst_row_stride, acc, tail);
    } else {
      Base::Write(a.acc, a.acc_row_stride, acc, tail);
    }
  }
};

// The body for the call's m and number of units.
template <class D, int MR, int NU>
void DispatchTileBlocks(const GemmArgs& a) {
  if constexpr (NU > 1) {
    if (a.n <= static_cast<size_t>((NU - 1) * D::V::kUnit)) return DispatchTileBlocks<D, MR, NU - 1>(a);
  }
  if constexpr (MR > 1) {
    if (a.m < static_cast<size_t>(MR)) return DispatchTileBlocks<D, MR - 1, NU>(a);
  }
  TileBlocks<D, MR, NU>::Run(a);
}

// The descriptor of a row, but for layouts, tile and cost.
constexpr GemmKernel TileBlocksRow(const Isa& isa, Format rhs, uint16_t mr, uint16_t nr, size_t group_bytes,
                                   GemmCost cost, GemmRun run) {
  const size_t sums = mr * (kStagedK / 8 + 1) * sizeof(int32_t);
  GemmKernel row{.isa = isa,
                 .lhs = Format::kI8d,
                 .lhs_source = Format::kF32,
                 .rhs = rhs,
                 .dst = Format::kF32,
                 .precision = Precision::kFp32,
                 .mr = mr,
                 .nr = nr,
                 .kr = 8,
                 .lhs_forms = kLhsRows,
                 .lhs_layout = kI8dRows,
                 .consumed = Blocks8x16(Format::kF32),
                 .block_divisor = 8,
                 .fused = kFusedProductF32,
                 .cost = cost,
                 .scratch_bytes = static_cast<uint32_t>(RoundUp(mr * StagedRowBytes(group_bytes) + sums, 64)),
                 .run = run};
  if (rhs == Format::kI8) {
    row.layouts[0] = Blocks8x16(Format::kF16);
    row.layouts[1] = Blocks8x16(Format::kBf16);
    row.layouts[2] = Blocks8x16(Format::kF32);
    return row;
  }
  // Through the block transform to int8; the order is that of preference, memory being equal.
  size_t i = 0;
  for (Format offset : {Format::kNone, Format::kU8}) {
    for (Format scale : {Format::kBf16, Format::kF16, Format::kF32}) row.layouts[i++] = Blocks4x16(scale, offset);
  }
  return row;
}

// A row that reads the 4-bit blocks themselves, float offsets too.
constexpr GemmKernel TileBlocks4Row(GemmKernel row) {
  row.consumed = Blocks4x16(Format::kF32);
  size_t i = 6;
  for (Format scale : {Format::kBf16, Format::kF16, Format::kF32}) row.layouts[i++] = Blocks4x16(scale, Format::kF32);
  return row;
}

}  // namespace
}  // namespace quern::ukernel
