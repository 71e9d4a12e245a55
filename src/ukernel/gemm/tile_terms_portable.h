// float32 products as products of bf16 terms in portable C++: what the AMX rows compute, from the same operands.
// Multiplying the float32 numbers themselves is faster where there is no such engine. For kernel files only.
#pragma once

#include "ukernel/gemm/epilogue_f32.h"
#include "ukernel/gemm/vector_f32_portable.h"

namespace quern::ukernel {
namespace {

constexpr size_t kPanelRows = 16;
constexpr size_t kTermBytes = 1024;  // of 32 k in a panel: [16 rows][32], and in a unit: [16 pairs of k][16][2]

typedef uint32_t Bits __attribute__((vector_size(16)));

template <int kTerms, int MR>
struct TileTerms : TileEpilogue<Vector, MR, 1> {
  using Base = TileEpilogue<Vector, MR, 1>;
  using typename Base::Acc;

  // 32 k of one term of each side; even and odd k are summed apart, as AMX does.
  static void Product(const char* lhs, const char* rhs, Acc& acc) {
    Acc even, odd;
    Base::Each([&](int r, int v) { even[r][v] = odd[r][v] = Vector::Zero(); });
    for (size_t pair = 0; pair < 16; ++pair, lhs += 4, rhs += 64) {
      QUERN_UNROLL for (int v = 0; v < Base::kVectors; ++v) {
        Bits w;
        __builtin_memcpy(&w, rhs + v * sizeof(w), sizeof(w));
        QUERN_UNROLL for (int r = 0; r < MR; ++r) {
          uint32_t x;
          __builtin_memcpy(&x, lhs + r * 64, sizeof(x));
          const Bits both = {x, x, x, x};
          even[r][v] += (Vector::Reg)(both << 16) * (Vector::Reg)(w << 16);
          odd[r][v] += (Vector::Reg)(both & 0xffff0000u) * (Vector::Reg)(w & 0xffff0000u);
        }
      }
    }
    Base::Each([&](int r, int v) { acc[r][v] += even[r][v] + odd[r][v]; });
  }

  static void Run(const GemmArgs& a) {
    const typename Base::Tail tail = Base::MakeTail(a.n);
    Acc acc;
    Base::Each([&](int r, int v) { acc[r][v] = Vector::Zero(); });
    // The products of terms whose numbers together are from `low` to `high`, the smallest first.
    const auto add = [&](int low, int high) {
      const char* lhs = static_cast<const char*>(a.lhs);
      const char* rhs = static_cast<const char*>(a.rhs);
      for (size_t k = 0; k < a.k; k += 32, lhs += kTerms * kTermBytes, rhs += kTerms * kTermBytes) {
        for (int sum = high; sum >= low; --sum) {
          for (int t = sum; t >= 0; --t) {
            Product(lhs + static_cast<size_t>(t) * kTermBytes, rhs + static_cast<size_t>(sum - t) * kTermBytes, acc);
          }
        }
      }
    };
    if constexpr (kTerms == 3) {  // as on AMX the large products come last, after all of the call's K
      add(1, 2);
      add(0, 0);
    } else {
      add(0, kTerms - 1);
    }
    if (!a.first_k) {
      Acc before;
      Base::Read(a.acc, a.acc_row_stride, before, tail);
      Base::Each([&](int r, int v) { acc[r][v] += before[r][v]; });
    }
    if (a.last_k) {
      Base::Apply(a, a.ops, a.ops + a.op_count, acc, tail);
      Base::Write(a.dst, a.dst_row_stride, acc, tail);
    } else {
      Base::Write(a.acc, a.acc_row_stride, acc, tail);
    }
  }
};

// The rows of a panel, a few at a time.
template <int kTerms>
void RunTerms(const GemmArgs& a) {
  constexpr int kRowsAtOnce = 2;
  GemmArgs part = a;
  for (size_t r = 0; r < a.m;) {
    const size_t rows = a.m - r < kRowsAtOnce ? 1 : kRowsAtOnce;
    part.m0 = a.m0 + r;
    part.lhs = static_cast<const char*>(a.lhs) + r * 64;
    part.acc = static_cast<char*>(a.acc) + r * a.acc_row_stride;
    part.dst = static_cast<char*>(a.dst) + r * a.dst_row_stride;
    rows == 1 ? TileTerms<kTerms, 1>::Run(part) : TileTerms<kTerms, kRowsAtOnce>::Run(part);
    r += rows;
  }
}

// Taken by name alone.
constexpr GemmKernel TermsRow(Format terms, const LhsLayout& panels, const PackLayout& consumed, Precision precision,
                              float step_row, GemmRun run) {
  return {.isa = kIsa,
          .lhs = terms,
          .lhs_source = Format::kF32,
          .rhs = Format::kF32,
          .dst = Format::kF32,
          .precision = precision,
          .mr = kPanelRows,
          .nr = 16,
          .kr = 32,
          .lhs_forms = kLhsPacked,
          .lhs_layout = panels,
          .consumed = consumed,
          .layouts = {kF32x16},
          .only_forced = true,
          .fused = kFusedProductF32,
          .cost = {.engine = Engine::kScalar, .step_row = step_row, .row = 10, .tile = 40},
          .run = run};
}

}  // namespace
}  // namespace quern::ukernel
