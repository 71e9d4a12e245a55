// The accumulators of a tile by block-quantized weights, which lie in the call's scratch: how they begin and end. For
// kernel files only: everything has internal linkage and is compiled with their flags.
#pragma once

#include "ukernel/gemm/epilogue_i32.h"

namespace quern::ukernel {
namespace {

// [MR][NR] of float32, or of int32 where kInts.
template <class V, bool kInts, int MR, int NR>
struct BlockAccumulators {
  static constexpr size_t kUnit = V::kUnit;

  // Zero, or those of the K blocks before.
  static void Start(const GemmArgs& a, int32_t* to) {
    for (size_t i = 0; a.first_k && i < a.m * NR; i += V::kLanes) V::StoreInt(to + i, V::ZeroInt());
    for (size_t r = 0; !a.first_k && r < a.m; ++r) {
      const auto* from = reinterpret_cast<const int32_t*>(static_cast<const char*>(a.acc) + r * a.acc_row_stride);
      for (size_t n = 0; n < a.n; n += V::kLanes) {
        const size_t lanes = a.n - n < V::kLanes ? a.n - n : V::kLanes;
        V::StoreInt(to + r * NR + n, V::LoadMaskInt(from + n, V::MakeMask(lanes)));
      }
    }
  }

  // Ops and store.
  static void Finish(const GemmArgs& a, const int32_t* from) {
    constexpr int kTwo = NR >= 2 * kUnit ? 2 : 1;
    for (size_t n = 0; n < a.n; n += kTwo * kUnit) {
      const bool two = kTwo == 2 && a.n - n > kUnit;
      for (size_t r = 0; r < a.m;) {
        const bool four = a.m - r >= 4;
        if (two) {
          four ? FinishPart<4, kTwo>(a, from, r, n) : FinishPart<1, kTwo>(a, from, r, n);
        } else {
          four ? FinishPart<4, 1>(a, from, r, n) : FinishPart<1, 1>(a, from, r, n);
        }
        r += four ? 4 : 1;
      }
    }
  }

 private:
  template <int R, int NU>
  static void FinishPart(const GemmArgs& call, const int32_t* from, size_t r, size_t n) {
    using Base = TileEpilogueI32<V, R, NU>;
    GemmArgs a = call;
    a.n = call.n - n < NU * kUnit ? call.n - n : NU * kUnit;
    a.m0 += r;
    a.n0 += n;
    a.dst = static_cast<char*>(a.dst) + r * a.dst_row_stride + n * 4;
    a.acc = static_cast<char*>(a.acc) + r * a.acc_row_stride + n * 4;
    const typename Base::Tail tail = Base::MakeTail(a.n);
    if constexpr (kInts) {
      typename Base::IntAcc acc;
      Base::ReadInt(from + r * NR + n, NR * sizeof(int32_t), acc, tail);
      if (!a.last_k) return Base::WriteInt(a.acc, a.acc_row_stride, acc, tail);
      // Where a requantization stores bytes, columns are one apart.
      const bool narrow = a.op_count && a.ops[a.op_count - 1].kind == EpilogueKind::kRequantize;
      if (narrow) a.dst = static_cast<char*>(a.dst) - n * 3;
      Base::Finish(a, acc, tail);
    } else {
      typename Base::Acc acc;
      Base::Read(from + r * NR + n, NR * sizeof(float), acc, tail);
      if (!a.last_k) return Base::Write(a.acc, a.acc_row_stride, acc, tail);
      Base::Apply(a, a.ops, a.ops + a.op_count, acc, tail);
      Base::Write(a.dst, a.dst_row_stride, acc, tail);
    }
  }
};

}  // namespace
}  // namespace quern::ukernel
