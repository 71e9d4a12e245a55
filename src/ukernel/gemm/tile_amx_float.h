// Products of bf16 terms or of f16 on AMX, two by two tiles with float32 sums: left panels of 16 rows by 32 k, right
// units of pairs. Even and odd k of 32 are summed apart and then added to the tile; AMX flushes denormals of float32.
// Of three terms a call adds up the products of lower ones first, over its whole K, then those of the first terms.
// For kernel files only: everything has internal linkage.
#pragma once

#include "ukernel/gemm/epilogue_f32.h"

#if QUERN_ISA_HERE
#include "ukernel/amx_tile.h"
#if QUERN_ISA_EMULATED
#include "ukernel/gemm/vector_f32_portable.h"
#else
#include "ukernel/gemm/vector_f32_avx512.h"
#endif
#endif

namespace quern::ukernel {
namespace {

#if QUERN_ISA_HERE
constexpr size_t kTile = 16;                             // rows and columns of a C tile
constexpr size_t kTileBytes = 1024;                      // of a term of 32 k in a panel
constexpr size_t kRowBytes = 2 * kTile * sizeof(float);  // of the scratch, 32 columns

// Tiles: C is 2 * (its row of tiles) + its column; then two of the left side, two of the right.
constexpr int kA = 4, kB = 6;

template <int I>
void LoadLhs(const char* panel, size_t stride, int term) {
  amx::Load<kA + I>(panel + I * stride + term * kTileBytes, 64);
}
template <int I>
void LoadRhs(const char* unit, size_t stride, int term) {
  amx::Load<kB + I>(unit + I * stride + term * kTileBytes, 64);
}

// Instructions that sum products in float32, two for each column and k.
struct ProductBf16 {
  template <int C, int A, int B>
  static void Dot() {
    amx::DotBf16<C, A, B>();
  }
};
struct ProductF16 {
  template <int C, int A, int B>
  static void Dot() {
    amx::DotF16<C, A, B>();
  }
};

// Each instruction rounds the tile. Six of them for 32 k would round the whole sum six times, more than a chain of
// multiply-adds does where most products are zero or tiny; beside the other terms' small sums only the products of
// first terms count. Two terms are for a precision that does not ask for it, and loads cost more for fewer products.
constexpr bool TopApart(int terms) { return terms == 3; }

// 32 k: the products of terms whose numbers together are below kTerms, the smallest first where the order allows that
// from one instruction to the next one operand changes and that each load has products to hide behind.
template <class Product, int kTerms, int MT, int NT>
struct Step {
  static constexpr bool kTwoM = MT > 1, kTwoN = NT > 1;
  const char* lhs;
  size_t lhs_stride;
  const char* rhs;
  size_t rhs_stride;

  template <int M, int N>
  static void Dot() {
    Product::template Dot<2 * M + N, kA + M, kB + N>();
  }
  // Another term of the left side by the right side's that is there.
  template <bool kFirst = false>
  void NextLhs(int term) const {
    if constexpr (kFirst) LoadRhs<0>(rhs, rhs_stride, 0);
    LoadLhs<0>(lhs, lhs_stride, term);
    Dot<0, 0>();
    if constexpr (kTwoN) {
      if constexpr (kFirst) LoadRhs<1>(rhs, rhs_stride, 0);
      Dot<0, 1>();
    }
    if constexpr (kTwoM) {
      LoadLhs<1>(lhs, lhs_stride, term);
      if constexpr (kTwoN) Dot<1, 1>();
      Dot<1, 0>();
    }
  }
  void NextRhs(int term) const {
    LoadRhs<0>(rhs, rhs_stride, term);
    Dot<0, 0>();
    if constexpr (kTwoM) Dot<1, 0>();
    if constexpr (kTwoN) {
      LoadRhs<1>(rhs, rhs_stride, term);
      if constexpr (kTwoM) Dot<1, 1>();
      Dot<0, 1>();
    }
  }
  // All products, or all but those of the first terms.
  void Run() const {
    NextLhs<true>(kTerms - 1);
    if constexpr (kTerms == 2) {
      NextLhs(0);
      NextRhs(1);
    }
    if constexpr (kTerms == 3) {
      NextLhs(1);
      NextRhs(1);
      NextLhs(0);
      NextRhs(2);
    }
  }
  void RunTop() const { NextLhs<true>(0); }
};

template <int I>
void StoreAcc(char* scratch) {
  amx::Store<I>(scratch + I / 2 * kTile * kRowBytes + I % 2 * 64, kRowBytes);
}

// MR rows of a call's sums, in scratch, added to those of the K before and through the epilogue to where they are
// wanted.
template <int MR, int NU>
struct Rows {
  using Tile = TileEpilogue<Vector, MR, NU>;

  // `a` is the call's, to be moved to `row`.
  static void Finish(GemmArgs& a, size_t m0, size_t row, const char* scratch) {
    const typename Tile::Tail tail = Tile::MakeTail(a.n), whole = Tile::MakeTail(NU * kTile);
    typename Tile::Acc acc;
    Tile::Read(scratch + row * kRowBytes, kRowBytes, acc, whole);
    if (!a.first_k) {
      typename Tile::Acc before;
      Tile::Read(static_cast<const char*>(a.acc) + row * a.acc_row_stride, a.acc_row_stride, before, tail);
      Tile::Each([&](int r, int v) { acc[r][v] = Vector::Add(before[r][v], acc[r][v]); });
    }
    if (!a.last_k) return Tile::Write(static_cast<char*>(a.acc) + row * a.acc_row_stride, a.acc_row_stride, acc, tail);
    a.m0 = m0 + row;
    Tile::Apply(a, a.ops, a.ops + a.op_count, acc, tail);
    Tile::Write(static_cast<char*>(a.dst) + row * a.dst_row_stride, a.dst_row_stride, acc, tail);
  }
};

template <class Product, int kTerms, int MT, int NT>
void RunTiles(const GemmArgs& a) {
  char* scratch = static_cast<char*>(a.scratch);
  amx::Zero<0>();
  if constexpr (NT > 1) amx::Zero<1>();
  if constexpr (MT > 1) amx::Zero<2>();
  if constexpr (MT > 1 && NT > 1) amx::Zero<3>();
  const auto step = [&](size_t k) {
    const size_t at = k / 32 * kTerms * kTileBytes;
    return Step<Product, kTerms, MT, NT>{static_cast<const char*>(a.lhs) + at, static_cast<size_t>(a.lhs_row_stride),
                                         static_cast<const char*>(a.rhs) + at, a.rhs_unit_stride};
  };
  for (size_t k = 0; k < a.k; k += 32) step(k).Run();
  if constexpr (TopApart(kTerms)) {
    for (size_t k = 0; k < a.k; k += 32) step(k).RunTop();
  }
  StoreAcc<0>(scratch);
  if constexpr (NT > 1) StoreAcc<1>(scratch);
  if constexpr (MT > 1) StoreAcc<2>(scratch);
  if constexpr (MT > 1 && NT > 1) StoreAcc<3>(scratch);
  GemmArgs part = a;
  constexpr size_t kMost = amx::kEpilogueRows;
  size_t r = 0;
  for (; r + kMost <= a.m; r += kMost) Rows<kMost, NT>::Finish(part, a.m0, r, scratch);
  for (; r < a.m; ++r) Rows<1, NT>::Finish(part, a.m0, r, scratch);
}

template <class Product, int kTerms>
void RunAmx(const GemmArgs& a) {
  if (a.m > kTile) return a.n > kTile ? RunTiles<Product, kTerms, 2, 2>(a) : RunTiles<Product, kTerms, 2, 1>(a);
  return a.n > kTile ? RunTiles<Product, kTerms, 1, 2>(a) : RunTiles<Product, kTerms, 1, 1>(a);
}

static constexpr const void* kConfig = &amx::kFullTiles;
static constexpr auto kEnter = amx::Enter;
static constexpr auto kLeave = amx::Leave;
#else
static constexpr const void* kConfig = nullptr;
static constexpr decltype(GemmKernel::enter_mode) kEnter = nullptr;
static constexpr decltype(GemmKernel::leave_mode) kLeave = nullptr;
#endif

// The descriptor of a row but for its operands. `products` of 16 x 16 x 32 for a tile of it, each 16 cycles, a quarter
// more for operands out of L2.
constexpr GemmKernel AmxRow(Precision precision, int products, GemmRun run) {
  GemmKernel row;
  row.isa = kIsa;
  row.dst = Format::kF32;
  row.precision = precision;
  row.mr = row.nr = row.kr = 32;
  row.lhs_forms = kLhsPacked;
  row.fused = kFusedProductF32;
  row.cost = {
      .engine = Engine::kMatrix, .step_row = static_cast<float>(products) * 8 / 3, .row = 6, .tile = 60, .m_grain = 16};
  row.scratch_bytes = 4096;
  row.mode_config = kConfig;
  row.enter_mode = kEnter;
  row.leave_mode = kLeave;
  row.run = run;
  return row;
}

// float32 by float32 as products of bf16 terms: weights pass a block transform.
constexpr GemmKernel AmxSplitRow(Format terms, const LhsLayout& panels, const PackLayout& consumed, Precision precision,
                                 int products, GemmRun run) {
  GemmKernel row = AmxRow(precision, products, run);
  row.lhs = terms;
  row.lhs_source = row.rhs = Format::kF32;
  row.lhs_layout = panels;
  row.consumed = consumed;
  row.layouts[0] = kF32x16;
  return row;
}

// 16-bit floats as they are.
constexpr GemmKernel AmxHalfRow(Format half, const LhsLayout& panels, const PackLayout& pairs, GemmRun run) {
  GemmKernel row = AmxRow(Precision::kFp32, 1, run);
  row.lhs = row.rhs = half;
  row.lhs_layout = panels;
  row.consumed = row.layouts[0] = pairs;
  return row;
}

}  // namespace
}  // namespace quern::ukernel
