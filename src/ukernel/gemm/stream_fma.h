// Few rows by a matrix of float32 or float64 that is read in place: whole rows of it, one after the other, as memory
// has them. A tile takes a few lines of each, which hardware follows poorly, the less so where its rows do not begin
// with a line. For kernel files only: internal linkage.
#pragma once

#include <type_traits>

#include "ukernel/gemm/epilogue_f32.h"

namespace quern::ukernel {
namespace {

// The sums stay in the results, which L1 holds; each pass adds the products of kDepth k to them. V as in tile_fma.h.
template <class V, int MR>
struct StreamFma {
  using Tile = TileEpilogue<V, MR, 1>;
  using Scalar = typename V::Scalar;
  using Reg = typename V::Reg;
  static constexpr size_t kDepth = 4;
  static constexpr size_t kLanes = static_cast<size_t>(V::kLanes);

  struct Sums {
    char* data;
    size_t row_stride;
    Scalar* Row(int r) const { return reinterpret_cast<Scalar*>(data + static_cast<size_t>(r) * row_stride); }
  };

  // to = from (zeros where kZero) + kCount k of the rows at x times as many of the matrix.
  template <size_t kCount, bool kZero>
  QUERN_INLINE static void Pass(const Scalar* const (&x)[MR], const char* rhs, size_t k_stride, size_t n,
                                const Sums& from, const Sums& to) {
    Reg factors[MR][kCount ? kCount : 1];
    QUERN_UNROLL for (int r = 0; r < MR; ++r) {
      QUERN_UNROLL for (size_t i = 0; i != kCount; ++i) factors[r][i] = V::Broadcast(x[r] + i);
    }
    const auto columns = [&](size_t at, auto load, auto store) __attribute__((always_inline)) {
      Reg sums[MR];
      QUERN_UNROLL for (int r = 0; r < MR; ++r) sums[r] = kZero ? V::Zero() : load(from.Row(r) + at);
      QUERN_UNROLL for (size_t i = 0; i != kCount; ++i) {
        const Reg b = load(reinterpret_cast<const Scalar*>(rhs + i * k_stride) + at);
        QUERN_UNROLL for (int r = 0; r < MR; ++r) sums[r] = V::Fma(factors[r][i], b, sums[r]);
      }
      QUERN_UNROLL for (int r = 0; r < MR; ++r) store(to.Row(r) + at, sums[r]);
    };
    size_t at = 0;
    for (; at + kLanes <= n; at += kLanes) columns(at, V::Load, V::Store);
    if (at == n) return;
    const typename V::Mask rest = V::MakeMask(n - at);
    columns(
        at, [&](const Scalar* p) { return V::LoadMask(p, rest); },
        [&](Scalar* p, Reg sum) { V::StoreMask(p, sum, rest); });
  }

  // The product of MR rows; a.n is any number.
  static void Run(const GemmArgs& a) {
    const Sums dst{static_cast<char*>(a.dst), a.dst_row_stride}, acc{static_cast<char*>(a.acc), a.acc_row_stride};
    const Sums to = a.last_k ? dst : acc;
    const Scalar* x[MR];
    QUERN_UNROLL for (int r = 0; r < MR; ++r) {
      x[r] = reinterpret_cast<const Scalar*>(static_cast<const char*>(a.lhs) + r * a.lhs_row_stride);
    }
    const char* rhs = static_cast<const char*>(a.rhs);
    const auto pass = [&]<size_t kCount>(bool first) __attribute__((always_inline)) {
      if (!first) {
        Pass<kCount, false>(x, rhs, a.rhs_k_stride, a.n, to, to);
      } else if (a.first_k) {
        Pass<kCount, true>(x, rhs, a.rhs_k_stride, a.n, to, to);
      } else {
        Pass<kCount, false>(x, rhs, a.rhs_k_stride, a.n, acc, to);
      }
      QUERN_UNROLL for (int r = 0; r < MR; ++r) x[r] += kCount;
      rhs += kCount * a.rhs_k_stride;
    };
    size_t k = 0;
    for (; k + kDepth <= a.k; k += kDepth) pass.template operator()<kDepth>(k == 0);
    for (; k < a.k; ++k) pass.template operator()<1>(k == 0);
    if (a.k == 0) pass.template operator()<0>(true);
    if constexpr (std::is_same_v<Scalar, float>) {
      if (a.last_k && a.op_count) ApplyOps(a);
    }
  }

  // Unit by unit.
  static void ApplyOps(const GemmArgs& a) {
    GemmArgs part = a;
    for (size_t n = 0; n < a.n; n += V::kUnit) {
      part.n = a.n - n < V::kUnit ? a.n - n : V::kUnit;
      part.n0 = a.n0 + n;
      float* at = static_cast<float*>(a.dst) + n;
      typename Tile::Acc sums;
      const typename Tile::Tail tail = Tile::MakeTail(part.n);
      Tile::Read(at, a.dst_row_stride, sums, tail);
      Tile::Apply(part, a.ops, a.ops + a.op_count, sums, tail);
      Tile::Write(at, a.dst_row_stride, sums, tail);
    }
  }
};

// The body for a part's m.
template <class V, int MR>
void DispatchStreamFma(const GemmArgs& a) {
  if constexpr (MR > 1) {
    if (a.m < static_cast<size_t>(MR)) return DispatchStreamFma<V, MR - 1>(a);
  }
  StreamFma<V, MR>::Run(a);
}

// MR rows at a time. A unit of a packed matrix is a matrix with contiguous columns.
template <class V, int MR>
[[maybe_unused]] void RunStreamFma(const GemmArgs& a) {
  constexpr size_t kBytes = sizeof(typename V::Scalar);
  const bool packed = a.rhs_form == RhsForm::kPacked;
  const size_t columns = packed ? V::kUnit : a.n;
  GemmArgs part = a;
  if (packed) part.rhs_k_stride = V::kUnit * kBytes;
  for (size_t m = 0; m < a.m; m += MR) {
    part.m = a.m - m < MR ? a.m - m : MR;
    part.m0 = a.m0 + m;
    part.lhs = static_cast<const char*>(a.lhs) + static_cast<ptrdiff_t>(m) * a.lhs_row_stride;
    for (size_t n = 0; n < a.n; n += columns) {
      part.n = a.n - n < columns ? a.n - n : columns;
      part.n0 = a.n0 + n;
      part.rhs = static_cast<const char*>(a.rhs) + n / V::kUnit * (packed ? a.rhs_unit_stride : 0);
      part.acc = static_cast<char*>(a.acc) + m * a.acc_row_stride + n * kBytes;
      part.dst = static_cast<char*>(a.dst) + m * a.dst_row_stride + n * kBytes;
      DispatchStreamFma<V, MR>(part);
    }
  }
}

// The descriptor of a row that takes MR rows at a time, of `nr` columns for the cost of `engine`; `vector` is the
// lanes of its vectors. A vector of columns takes 1 + 1/2 loads, a quarter of a store and a multiply-add for each k.
[[maybe_unused]] constexpr GemmKernel StreamF32Row(const PackLayout& layout, Engine engine, uint16_t mr, uint16_t nr,
                                                   uint16_t vector, GemmRun run) {
  const float vectors = static_cast<float>(nr) / static_cast<float>(vector);
  return {.isa = kIsa,
          .lhs = Format::kF32,
          .rhs = Format::kF32,
          .dst = Format::kF32,
          .precision = Precision::kFp32,
          .mr = mr,
          .nr = nr,
          .kr = 1,
          .whole_panel = true,
          .rhs_in_place = true,
          .only_in_place = true,
          .consumed = layout,
          .layouts = {layout},
          .sum_order = SumOrder::kInOrder,
          .fused = kFusedProductF32,
          .cost = {.engine = engine,
                   .step_row = vectors * 0.6f,
                   .step_min = vectors * 0.8f,
                   .row = vectors * 2,
                   .tile = 40,
                   .read = 64},
          .run = run};
}

}  // namespace
}  // namespace quern::ukernel
