// The int8 register tile with int32 accumulators: one body for every vector ISA, stamped for each (rows, units) that a
// row's calls may have. For kernel files only: everything has internal linkage and is compiled with their flags.
#pragma once

#include "ukernel/gemm/epilogue_i32.h"

namespace quern::ukernel {
namespace {

// K elements of the left side that are staged at once: rows in a form that the loop reads at one distance from one
// pointer, whatever the caller's addressing, for the price of a load and a store per vector.
[[maybe_unused]] constexpr size_t kStagedK = 256;
constexpr size_t StagedRowBytes(size_t group_bytes) { return kStagedK / 4 * group_bytes + 64; }  // off a power of two

// D describes the dot products of an ISA:
//   V              vector traits with int32 lanes (epilogue_i32.h)
//   Weights        a group of 4 k of V::kLanes columns, ready for Dot
//   kHoldsWeights  whether those of all vectors stay in registers, or are made one vector at a time
//   LoadWeights(p), LoadGroup(p) of the staged left side, Dot(acc, group, weights)
//   kShift         what the staged left side has more than the stored one: 0, or 128
//   kLatency       independent accumulators that keep its units busy
//   kGroupBytes    bytes of a staged group of 4 k
//   Stage(from, count, to): `count` elements, the last group filled with anything (its weights are zero)
template <class D, int MR, int NU>
struct TileI8 : TileEpilogueI32<typename D::V, MR, NU> {
  using V = typename D::V;
  using Base = TileEpilogueI32<V, MR, NU>;
  using Base::kPerUnit;
  using Base::kVectors;
  using typename Base::Int;
  using typename Base::IntAcc;
  using typename Base::Tail;

  static constexpr int kAccumulators = MR * kVectors;
  static constexpr int kSets = 4 * kAccumulators <= D::kLatency ? 4 : 2 * kAccumulators <= D::kLatency ? 2 : 1;
  static constexpr size_t kRowBytes = StagedRowBytes(D::kGroupBytes);
  static constexpr size_t kGroup = 4 * V::kUnit;  // bytes of a group of 4 k in a unit

  QUERN_INLINE static void Step(IntAcc& acc, const char* lhs, const char* rhs, size_t unit_stride) {
    const auto at = [&](int v) {
      const char* p = rhs + static_cast<size_t>(v / kPerUnit) * unit_stride + v % kPerUnit * V::kLanes * 4;
      if (V::kPrefetch && v % kPerUnit == 0) __builtin_prefetch(p + V::kPrefetch);
      return p;
    };
    if constexpr (D::kHoldsWeights) {
      typename D::Weights w[kVectors];
      QUERN_UNROLL for (int v = 0; v < kVectors; ++v) w[v] = D::LoadWeights(at(v));
      QUERN_UNROLL for (int r = 0; r < MR; ++r) {
        const auto x = D::LoadGroup(lhs + r * kRowBytes);
        QUERN_UNROLL for (int v = 0; v < kVectors; ++v) acc[r][v] = D::Dot(acc[r][v], x, w[v]);
      }
    } else {
      QUERN_UNROLL for (int v = 0; v < kVectors; ++v) {
        const typename D::Weights w = D::LoadWeights(at(v));
        QUERN_UNROLL for (int r = 0; r < MR; ++r) {
          acc[r][v] = D::Dot(acc[r][v], D::LoadGroup(lhs + r * kRowBytes), w);
        }
      }
    }
  }

  QUERN_INLINE static void Chunk(IntAcc& acc, const char* lhs, const char* rhs, size_t unit_stride, size_t groups) {
    size_t g = 0;
    if constexpr (kSets > 1) {
      IntAcc more[kSets - 1];
      QUERN_UNROLL for (int s = 0; s < kSets - 1; ++s) Base::Each([&](int r, int v) { more[s][r][v] = V::ZeroInt(); });
      for (; g + kSets <= groups; g += kSets) {
        Step(acc, lhs, rhs, unit_stride);
        QUERN_UNROLL for (int s = 0; s < kSets - 1; ++s) {
          Step(more[s], lhs + (s + 1) * D::kGroupBytes, rhs + (s + 1) * kGroup, unit_stride);
        }
        lhs += kSets * D::kGroupBytes;
        rhs += kSets * kGroup;
      }
      QUERN_UNROLL for (int s = 0; s < kSets - 1; ++s) {
        Base::Each([&](int r, int v) { acc[r][v] = V::AddInt(acc[r][v], more[s][r][v]); });
      }
    }
    for (; g < groups; ++g) {
      Step(acc, lhs, rhs, unit_stride);
      lhs += D::kGroupBytes;
      rhs += kGroup;
    }
  }

  static const char* LhsRow(const GemmArgs& a, size_t tap, int r) {
    if (a.lhs_form == kLhsRowPointers) {
      const void* p = a.row_pointers[tap * a.row_pointer_pitch + static_cast<size_t>(r)];
      return static_cast<const char*>(p) + (p == a.zero_row ? 0 : a.row_pointer_offset);
    }
    const ptrdiff_t shift = a.lhs_form == kLhsTaps ? a.taps[tap].lhs_offset : 0;
    return static_cast<const char*>(a.lhs) + shift + r * a.lhs_row_stride;
  }

  static void Run(const GemmArgs& a) {
    const Tail tail = Base::MakeTail(a.n);
    IntAcc acc;
    if (!a.first_k) {
      Base::ReadInt(a.acc, a.acc_row_stride, acc, tail);
    } else if (D::kShift) {  // undoes the shift of the left side, once for the whole K
      QUERN_UNROLL for (int v = 0; v < kVectors; ++v) {
        const Int sum = Base::LoadIntN(static_cast<const int32_t*>(a.rhs_sums), v, tail);
        const Int start = V::MulInt(sum, V::Set1Int(-D::kShift));
        QUERN_UNROLL for (int r = 0; r < MR; ++r) acc[r][v] = start;
      }
    } else {
      Base::Each([&](int r, int v) { acc[r][v] = V::ZeroInt(); });
    }
    char* stage = static_cast<char*>(a.scratch);
    const size_t taps = a.lhs_form == kLhsRows ? 1 : a.tap_count;
    for (size_t t = 0; t < taps; ++t) {
      const char* rhs = static_cast<const char*>(a.rhs);
      if (a.lhs_form == kLhsTaps) rhs += a.taps[t].rhs_offset;
      if (a.lhs_form == kLhsRowPointers) rhs += t * a.rhs_tap_stride;
      for (size_t k = 0; k < a.k; k += kStagedK) {
        const size_t count = a.k - k < kStagedK ? a.k - k : kStagedK;
        for (int r = 0; r < MR; ++r) D::Stage(LhsRow(a, t, r) + k, count, stage + r * kRowBytes);
        Chunk(acc, stage, rhs + k * V::kUnit, a.rhs_unit_stride, (count + 3) / 4);
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
template <class D, int MR, int NU>
void DispatchTileI8(const GemmArgs& a) {
  if constexpr (NU > 1) {
    if (a.n <= static_cast<size_t>((NU - 1) * D::V::kUnit)) return DispatchTileI8<D, MR, NU - 1>(a);
  }
  if constexpr (MR > 1) {
    if (a.m < static_cast<size_t>(MR)) return DispatchTileI8<D, MR - 1, NU>(a);
  }
  TileI8<D, MR, NU>::Run(a);
}

// The descriptor of a row, but for tile and cost: dynamic rows come prepared, others are read where they are.
constexpr GemmKernel TileI8Row(const Isa& isa, Format lhs, uint16_t mr, uint16_t nr, bool uses_sums, size_t group_bytes,
                               GemmCost cost, GemmRun run) {
  GemmKernel row{.isa = isa,
                 .lhs = lhs,
                 .rhs = Format::kI8,
                 .dst = Format::kI32,
                 .precision = Precision::kExact,
                 .mr = mr,
                 .nr = nr,
                 .kr = 4,
                 .lhs_forms = kLhsRows | kLhsTaps | kLhsRowPointers,
                 .consumed = kI8x16,
                 .layouts = {kI8x16, kI8Channels16},
                 .uses_sums = uses_sums,
                 .fused = kFusedI32,
                 .cost = cost,
                 .scratch_bytes = static_cast<uint32_t>(mr * StagedRowBytes(group_bytes)),
                 .run = run};
  if (lhs == Format::kI8d) {
    row.lhs_source = Format::kF32;
    row.lhs_forms = kLhsRows;
    row.lhs_layout = kI8dRows;
    row.layouts[2] = kU4Channels16;  // through the block transform to int8
  }
  return row;
}

}  // namespace
}  // namespace quern::ukernel
