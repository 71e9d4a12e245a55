// The int8 tile of AMX, two by two tiles of sums: rows come in panels of 16, weights in units, and sums go through
// scratch and the epilogue of register tiles. For kernel files of AMX-INT8 only.
#pragma once

#include "ukernel/gemm/epilogue_i32.h"

#if QUERN_ISA_HERE
#include "ukernel/amx_tile.h"
#if QUERN_ISA_EMULATED
#include "ukernel/gemm/vector_i32_portable.h"
#else
#include "ukernel/gemm/vector_i32_avx512.h"
#endif
#endif

namespace quern::ukernel {
namespace {

#if QUERN_ISA_HERE
template <bool kSignedLhs>
struct TileAmxI8 {
  static constexpr size_t kTile = 16;                         // rows and columns of a tile of sums
  static constexpr size_t kStepK = 64;                        // of one product
  static constexpr size_t kStepBytes = 1024;                  // of a panel or unit
  static constexpr size_t kRowBytes = 2 * kTile * 4;          // of the scratch, 32 columns
  static constexpr size_t kTileRowBytes = kTile * kRowBytes;  // of a row of tiles
  // Tiles: sums are 2 * (their row of tiles) + their column; then two of the left side, two of the right.
  static constexpr int kA = 4, kB = 6;

  template <int I>
  static void LoadLhs(const char* panel, size_t stride) {
    amx::Load<kA + I>(panel + I * stride, 64);
  }
  template <int I>
  static void LoadRhs(const char* unit, size_t stride) {
    amx::Load<kB + I>(unit + I * stride, 64);
  }
  template <int M, int N>
  static void Dot() {
    if constexpr (kSignedLhs) {
      amx::DotI8<2 * M + N, kA + M, kB + N>();
    } else {
      amx::DotU8<2 * M + N, kA + M, kB + N>();
    }
  }

  // From one product to the next one operand changes, and each load has products to hide behind.
  template <int MT, int NT>
  static void Step(const char* lhs, size_t lhs_stride, const char* rhs, size_t rhs_stride) {
    LoadRhs<0>(rhs, rhs_stride);
    LoadLhs<0>(lhs, lhs_stride);
    Dot<0, 0>();
    if constexpr (NT > 1) {
      LoadRhs<1>(rhs, rhs_stride);
      Dot<0, 1>();
    }
    if constexpr (MT > 1) {
      LoadLhs<1>(lhs, lhs_stride);
      if constexpr (NT > 1) Dot<1, 1>();
      Dot<1, 0>();
    }
  }

  template <int I>
  static char* At(char* scratch) {
    return scratch + I / 2 * kTileRowBytes + I % 2 * 64;
  }
  template <int I>
  static void LoadAcc(char* scratch) {
    amx::Load<I>(At<I>(scratch), kRowBytes);
  }
  template <int I>
  static void StoreAcc(char* scratch) {
    amx::Store<I>(At<I>(scratch), kRowBytes);
  }

  // MR rows from scratch through the epilogue to where the call wants them, or back.
  template <int MR, int NU>
  struct Rows {
    using Tile = TileEpilogueI32<IntVector, MR, NU>;

    // `a` is the call's, to be moved to `row`.
    static void Finish(GemmArgs& a, size_t m0, char* dst, size_t row, const char* scratch) {
      const typename Tile::Tail tail = Tile::MakeTail(a.n), whole = Tile::MakeTail(NU * kTile);
      typename Tile::IntAcc acc;
      Tile::ReadInt(scratch + row * kRowBytes, kRowBytes, acc, whole);
      if (!a.last_k) {
        return Tile::WriteInt(static_cast<char*>(a.acc) + row * a.acc_row_stride, a.acc_row_stride, acc, tail);
      }
      a.m0 = m0 + row;
      a.dst = dst + row * a.dst_row_stride;
      Tile::Finish(a, acc, tail);
    }

    static void Fetch(const GemmArgs& a, size_t row, char* scratch) {
      const typename Tile::Tail tail = Tile::MakeTail(a.n), whole = Tile::MakeTail(NU * kTile);
      typename Tile::IntAcc acc;
      Tile::ReadInt(static_cast<const char*>(a.acc) + row * a.acc_row_stride, a.acc_row_stride, acc, tail);
      Tile::WriteInt(scratch + row * kRowBytes, kRowBytes, acc, whole);
    }
  };

  template <int MT, int NT>
  static void RunTiles(const GemmArgs& a) {
    char* scratch = static_cast<char*>(a.scratch);
    if (a.first_k) {
      amx::Zero<0>();
      if constexpr (NT > 1) amx::Zero<1>();
      if constexpr (MT > 1) amx::Zero<2>();
      if constexpr (MT > 1 && NT > 1) amx::Zero<3>();
    } else {
      for (size_t r = 0; r < a.m; ++r) Rows<1, NT>::Fetch(a, r, scratch);
      LoadAcc<0>(scratch);
      if constexpr (NT > 1) LoadAcc<1>(scratch);
      if constexpr (MT > 1) LoadAcc<2>(scratch);
      if constexpr (MT > 1 && NT > 1) LoadAcc<3>(scratch);
    }
    const char* lhs = static_cast<const char*>(a.lhs);
    const char* rhs = static_cast<const char*>(a.rhs);
    for (size_t k = 0; k < a.k; k += kStepK, lhs += kStepBytes, rhs += kStepBytes) {
      Step<MT, NT>(lhs, static_cast<size_t>(a.lhs_row_stride), rhs, a.rhs_unit_stride);
    }
    StoreAcc<0>(scratch);
    if constexpr (NT > 1) StoreAcc<1>(scratch);
    if constexpr (MT > 1) StoreAcc<2>(scratch);
    if constexpr (MT > 1 && NT > 1) StoreAcc<3>(scratch);
    GemmArgs part = a;
    char* dst = static_cast<char*>(a.dst);
    constexpr size_t kMost = amx::kEpilogueRows;
    size_t r = 0;
    for (; r + kMost <= a.m; r += kMost) Rows<kMost, NT>::Finish(part, a.m0, dst, r, scratch);
    for (; r < a.m; ++r) Rows<1, NT>::Finish(part, a.m0, dst, r, scratch);
  }

  static void Run(const GemmArgs& a) {
    if (a.m > kTile) return a.n > kTile ? RunTiles<2, 2>(a) : RunTiles<2, 1>(a);
    return a.n > kTile ? RunTiles<1, 2>(a) : RunTiles<1, 1>(a);
  }
};
#endif

// Four products of 16 cycles for 32 x 32 x 64, a quarter more for operands out of L2. With one row of tiles the lines
// of the weights out of L2 take longer than the products.
template <bool kSignedLhs>
constexpr GemmKernel TileAmxI8Row(const Isa& isa, Format lhs, const LhsLayout& lhs_layout) {
  GemmKernel row{
      .isa = isa,
      .lhs = lhs,
      .lhs_source = lhs == Format::kI8d ? Format::kF32 : Format::kNone,
      .rhs = Format::kI8,
      .dst = Format::kI32,
      .precision = Precision::kExact,
      .mr = 32,
      .nr = 32,
      .kr = 64,
      .lhs_forms = kLhsPacked,
      .lhs_layout = lhs_layout,
      .consumed = kI8x16,
      .layouts = {kI8x16, kI8Channels16},
      .fused = kFusedI32,
      .cost = {.engine = Engine::kMatrix, .step_row = 2.5f, .step_min = 56, .row = 8, .tile = 60, .m_grain = 16},
      .scratch_bytes = 4096};
  if (lhs == Format::kI8d) row.layouts[2] = kU4Channels16;  // through the block transform to int8
#if QUERN_ISA_HERE
  row.mode_config = &amx::kFullTiles;
  row.enter_mode = amx::Enter;
  row.leave_mode = amx::Leave;
  row.run = TileAmxI8<kSignedLhs>::Run;
#endif
  return row;
}

}  // namespace
}  // namespace quern::ukernel
