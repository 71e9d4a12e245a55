// The int8 register tile of NEON, int32 accumulators: it reads the rows where they are, 16 k at a time, and multiplies
// by lane or by pairs of rows. One body for every instruction set, stamped for each (rows, units) that a row's calls
// may have. For kernel files only: everything has internal linkage and is compiled with their flags.
#pragma once

#include <arm_neon.h>

#include "ukernel/gemm/epilogue_i32.h"

namespace quern::ukernel {
namespace {

// Where a tile finds its columns: units of 8, or columns of a unit that vectors of SME or SVE scale.
enum class Columns : uint8_t { kUnits, kScaledUnit };

// D describes the dot products of an ISA; a group is kGroup k of 8 columns, kWeights vectors of 16 bytes:
//   V, X            vector traits with int32 lanes (epilogue_i32.h); 16 k of kRows rows
//   kSums           accumulators of kRows rows by the columns of a vector of weights
//   kLatency        independent accumulators that keep its units busy
//   kTurned         whether the left side's top bit is turned over, which takes off 128
//   LoadWeights(p)  a vector of weights
//   kPairs          whether the rows are packed in pairs (kI8dPairs), which may be read whole 16 k
//   Load(p, groups) 16 k (that many groups) of the rows at p[0..kRows), or of the pair at p[0]
//   Dot(acc, x, w, g)  the sums of a vector of weights of group g of the 16 k
//   Reduce(acc, row)   four columns of one of the rows, of as many sums as they are spread over
// and for tile_blocks_lanes.h
//   AddRow(acc, x, by) adds the elements of the rows, times a constant, to kSums accumulators
//   RowSum(acc, row)   the sum of one of the rows, in every lane
template <class D, int MR, int NU, Columns kColumns>
struct TileLanes : TileEpilogueI32<typename D::V, MR, NU> {
  using V = typename D::V;
  using Base = TileEpilogueI32<V, MR, NU>;
  using Base::kVectors;
  using typename Base::Int;
  using typename Base::IntAcc;
  using typename Base::Tail;

  static constexpr int kStepK = 16;
  static constexpr int kGroups = kStepK / D::kGroup;
  static constexpr int kBlocks = (MR + D::kRows - 1) / D::kRows;  // an odd last row is computed twice
  static constexpr int kWeights = NU * D::kWeights;
  static constexpr int kSums = kWeights * D::kSums;
  static constexpr int kPerVector = kSums / kVectors;  // accumulators that hold four columns of kRows rows
  static constexpr int kTotal = kBlocks * kSums;
  static constexpr int kMost = 4 * kTotal <= D::kLatency ? 4 : 2 * kTotal <= D::kLatency ? 2 : 1;
  static constexpr int kSets = kMost < kGroups ? kMost : kGroups;
  static constexpr size_t kSpread = D::kPairs ? D::kRows : 1;  // bytes from k to k
  using Sums = Int[kSets][kBlocks][kSums];

  struct Rows {
    const char* p[kBlocks * D::kRows];
  };
  struct Strides {
    size_t group, unit;
  };

  template <int kCount>
  QUERN_INLINE static void Step(Sums& acc, const Rows& rows, size_t k, const char* rhs, const Strides& stride) {
    typename D::X x[kBlocks];
    QUERN_UNROLL for (int b = 0; b < kBlocks; ++b) {
      const char* p[D::kRows];
      QUERN_UNROLL for (int r = 0; r < D::kRows; ++r) p[r] = rows.p[b * D::kRows + r] + k * kSpread;
      x[b] = D::Load(p, kCount);
    }
    QUERN_UNROLL for (int g = 0; g < kCount; ++g) {
      QUERN_UNROLL for (int w = 0; w < kWeights; ++w) {
        const char* from = rhs + static_cast<size_t>(g) * stride.group +
                           static_cast<size_t>(w / D::kWeights) * stride.unit + w % D::kWeights * 16;
        const auto weights = D::LoadWeights(from);
        QUERN_UNROLL for (int b = 0; b < kBlocks; ++b) D::Dot(acc[g % kSets][b] + w * D::kSums, x[b], weights, g);
      }
    }
  }

  static const char* LhsRow(const GemmArgs& a, size_t tap, int r) {
    if constexpr (D::kPairs) return static_cast<const char*>(a.lhs) + r / D::kRows * a.lhs_row_stride;
    if (a.lhs_form == kLhsRowPointers) {
      const void* p = a.row_pointers[tap * a.row_pointer_pitch + static_cast<size_t>(r)];
      return static_cast<const char*>(p) + (p == a.zero_row ? 0 : a.row_pointer_offset);
    }
    const ptrdiff_t shift = a.lhs_form == kLhsTaps ? a.taps[tap].lhs_offset : 0;
    return static_cast<const char*>(a.lhs) + shift + r * a.lhs_row_stride;
  }

  QUERN_INLINE static void Segment(Sums& acc, const Rows& rows, const char* rhs, size_t count, const Strides& stride) {
    const size_t whole = count / kStepK * kStepK;
    size_t k = 0;
    for (; k != whole; k += kStepK) {
      Step<kGroups>(acc, rows, k, rhs, stride);
      rhs += kGroups * stride.group;
    }
    if (k == count) return;
    if constexpr (D::kPairs) {
      return count - k > D::kGroup ? Step<kGroups>(acc, rows, k, rhs, stride) : Step<1>(acc, rows, k, rhs, stride);
    }
    // The rest from a copy: of a last group's pads, the weights are zero.
    alignas(16) char rest[MR][2 * kStepK];
    Rows copies;
    QUERN_UNROLL for (int r = 0; r < kBlocks * D::kRows; ++r) copies.p[r] = rest[r < MR ? r : MR - 1];
    for (int r = 0; r < MR; ++r) {
      for (size_t i = 0; i < kStepK; ++i) rest[r][i] = k + i < count ? rows.p[r][k + i] : char{0};
    }
    for (size_t i = 0; k + i < count; i += D::kGroup, rhs += stride.group) Step<1>(acc, copies, i, rhs, stride);
  }

  static void Run(const GemmArgs& a) {
    const Strides stride = kColumns == Columns::kUnits
                               ? Strides{static_cast<size_t>(D::kGroup) * V::kUnit, a.rhs_unit_stride}
                               : Strides{a.vector_bytes / 2 * D::kGroup, static_cast<size_t>(D::kGroup) * V::kUnit};
    Sums sums;
    QUERN_UNROLL for (int s = 0; s < kSets; ++s) {
      QUERN_UNROLL for (int b = 0; b < kBlocks; ++b) {
        QUERN_UNROLL for (int i = 0; i < kSums; ++i) sums[s][b][i] = V::ZeroInt();
      }
    }
    const size_t taps = a.lhs_form == kLhsTaps || a.lhs_form == kLhsRowPointers ? a.tap_count : 1;
    for (size_t t = 0; t < taps; ++t) {
      const char* rhs = static_cast<const char*>(a.rhs);
      if (a.lhs_form == kLhsTaps) rhs += a.taps[t].rhs_offset;
      if (a.lhs_form == kLhsRowPointers) rhs += t * a.rhs_tap_stride;
      Rows rows;
      QUERN_UNROLL for (int r = 0; r < kBlocks * D::kRows; ++r) rows.p[r] = LhsRow(a, t, r < MR ? r : MR - 1);
      Segment(sums, rows, rhs, a.k, stride);
    }
    const Tail tail = Base::MakeTail(a.n);
    IntAcc acc;
    Base::Each([&](int r, int v) {
      acc[r][v] = D::Reduce(sums[0][r / D::kRows] + v * kPerVector, r % D::kRows);
      QUERN_UNROLL for (int s = 1; s < kSets; ++s) {
        acc[r][v] = V::AddInt(acc[r][v], D::Reduce(sums[s][r / D::kRows] + v * kPerVector, r % D::kRows));
      }
    });
    if (!a.first_k) {
      IntAcc before;
      Base::ReadInt(a.acc, a.acc_row_stride, before, tail);
      Base::Each([&](int r, int v) { acc[r][v] = V::AddInt(acc[r][v], before[r][v]); });
    } else if (D::kTurned) {  // undoes the shift of the left side, once for the whole K
      QUERN_UNROLL for (int v = 0; v < kVectors; ++v) {
        const Int start = V::MulInt(Base::LoadIntN(static_cast<const int32_t*>(a.rhs_sums), v, tail), V::Set1Int(128));
        QUERN_UNROLL for (int r = 0; r < MR; ++r) acc[r][v] = V::AddInt(acc[r][v], start);
      }
    }
    if (a.last_k) {
      Base::Finish(a, acc, tail);
    } else {
      Base::WriteInt(a.acc, a.acc_row_stride, acc, tail);
    }
  }
};

// The body for the call's m and number of units.
template <class D, int MR, int NU, Columns kColumns = Columns::kUnits>
void DispatchTileLanes(const GemmArgs& a) {
  if constexpr (NU > 1) {
    if (a.n <= static_cast<size_t>((NU - 1) * D::V::kUnit)) return DispatchTileLanes<D, MR, NU - 1, kColumns>(a);
  }
  if constexpr (MR > 1) {
    if (a.m < static_cast<size_t>(MR)) return DispatchTileLanes<D, MR - 1, NU, kColumns>(a);
  }
  TileLanes<D, MR, NU, kColumns>::Run(a);
}

// A unit of SVE or SME, NU units of 8 at a time by kRun. kAcc: of the accumulators.
template <class D, int NU, Format kAcc, GemmRun kRun>
void RunScaledUnit(const GemmArgs& a) {
  constexpr size_t kStep = static_cast<size_t>(NU * D::V::kUnit);
  const size_t bytes = FormatBytes(EpilogueFormat(kAcc, a.ops, a.op_count));
  GemmArgs part = a;
  for (size_t n = 0; n < a.n; n += kStep) {
    part.n = a.n - n < kStep ? a.n - n : kStep;
    part.n0 = a.n0 + n;
    part.rhs = static_cast<const char*>(a.rhs) + n * D::kGroup;
    part.rhs_scales = static_cast<const char*>(a.rhs_scales) + n * FormatBytes(a.rhs_scale);
    part.rhs_offsets = static_cast<const char*>(a.rhs_offsets) + n * FormatBytes(a.rhs_offset);
    part.rhs_sums = static_cast<const int32_t*>(a.rhs_sums) + n;
    part.acc = static_cast<int32_t*>(a.acc) + n;
    part.dst = static_cast<char*>(a.dst) + n * bytes;
    kRun(part);
  }
}

}  // namespace
}  // namespace quern::ukernel
