// The int8 register tile of SVE, int32 accumulators: a unit of two vectors of columns by rows that are read where they
// are, 16 k at a time. Vectors have no size here, so that they are parameters instead of arrays. For kernel files only:
// everything has internal linkage and is compiled with their flags.
#pragma once

#include <arm_sve.h>

#include "ukernel/gemm/epilogue_f32.h"
#include "ukernel/gemm/fields_sve.h"

namespace quern::ukernel {
namespace {

// f(x...) with kCount accumulators of zeros.
template <int kCount, class F>
QUERN_INLINE void WithZeros(const F& f) {
  if constexpr (kCount == 0) {
    f();
  } else {
    WithZeros<kCount - 1>([&](auto&... rest) __attribute__((always_inline)) {
      svint32_t x = svdup_s32(0);
      f(x, rest...);
    });
  }
}

// int8 weights: four of the eight vectors of a step from vector kFirst on, as far as `bytes` of them go.
struct SveBytes {
  static constexpr uint64_t kBits = 8;

  template <int kFirst>
  QUERN_INLINE static svint8x4_t Four(const char* p, uint64_t bytes) {
    const auto* w = reinterpret_cast<const int8_t*>(p);
    const auto load = [&](int i) __attribute__((always_inline)) {
      return svld1_vnum(svwhilelt_b8_u64(static_cast<uint64_t>(i) * svcntb(), bytes), w, i);
    };
    return svcreate4(load(kFirst), load(kFirst + 1), load(kFirst + 2), load(kFirst + 3));
  }
  template <int kFirst>
  QUERN_INLINE static svint8x4_t Four(const char* p) {
    const auto* w = reinterpret_cast<const int8_t*>(p);
    const svbool_t all = svptrue_b8();
    return svcreate4(svld1_vnum(all, w, kFirst), svld1_vnum(all, w, kFirst + 1), svld1_vnum(all, w, kFirst + 2),
                     svld1_vnum(all, w, kFirst + 3));
  }
};

// 4-bit weights, stored plus 8, in groups of kGroup k; steps are whole.
template <int kGroup>
struct SveFours {
  static constexpr uint64_t kBits = 4;

  template <int kIndex>
  QUERN_INLINE static svint8_t One(const char* p) {
    return svreinterpret_s8(svsub_x(svptrue_b8(), SveFields<4, kGroup>::template One<kIndex>(p), 8));
  }
  template <int kFirst>
  QUERN_INLINE static svint8x4_t Four(const char* p, uint64_t = 0) {
    return svcreate4(One<kFirst>(p), One<kFirst + 1>(p), One<kFirst + 2>(p), One<kFirst + 3>(p));
  }
};

// The same k, unknown to compilers, which would give every row a pointer of its own to move.
QUERN_INLINE size_t Opaque(size_t k) {
  asm("" : "+r"(k));
  return k;
}

// D describes the products of an ISA; 16 k of a unit are eight vectors of weights, `low` and `high`:
//   kGroup      k that lie together
//   kRows       rows of a block of kSums accumulators, which hold both vectors of columns
//   kMostSets   parts of the 16 k that can have accumulators of their own
//   kTurned     whether the left side's top bit is turned over, which takes off 128
//   kPairs      whether the rows are packed in pairs (kI8dPairs)
//   Multiply<kSets, kSet>(rows, k, left, low, high, acc...)  adds the part kSet of kSets of `left` k, at most 16
//   Get<kRow, kVector>(acc...)                                   a vector of one of the rows
//
// W has the weights of a step: SveBytes or SveFours.
template <class D, int MR, class W>
struct TileSve {
  static constexpr int kStepK = 16;
  static constexpr int kBlocks = (MR + D::kRows - 1) / D::kRows;  // an odd last row is computed twice
  static constexpr int kFit = 16 / (kBlocks * D::kSums);          // sets that leave registers for the weights
  static constexpr int kMost = kFit >= 4 ? 4 : kFit >= 2 ? 2 : 1;
  static constexpr int kSets = kMost < D::kMostSets ? kMost : D::kMostSets;
  using Row = const char*;

  // A block after another, the sets of one together.
  template <int kIndex>
  QUERN_INLINE static void Step(const Row*, size_t, size_t, svint8x4_t, svint8x4_t) {}
  template <int kIndex, class... Rest>
  QUERN_INLINE static void Step(const Row* rows, size_t k, size_t left, svint8x4_t low, svint8x4_t high, svint32_t& a,
                                svint32_t& b, Rest&... rest) {
    constexpr int kBlock = kIndex / kSets, kSet = kIndex % kSets;
    if constexpr (D::kSums == 2) {
      D::template Multiply<kSets, kSet>(rows + kBlock * D::kRows, k, left, low, high, a, b);
      Step<kIndex + 1>(rows, k, left, low, high, rest...);
    } else {
      StepFour<kIndex>(rows, k, left, low, high, a, b, rest...);
    }
  }
  template <int kIndex, class... Rest>
  QUERN_INLINE static void StepFour(const Row* rows, size_t k, size_t left, svint8x4_t low, svint8x4_t high,
                                    svint32_t& a, svint32_t& b, svint32_t& c, svint32_t& d, Rest&... rest) {
    constexpr int kBlock = kIndex / kSets, kSet = kIndex % kSets;
    D::template Multiply<kSets, kSet>(rows + kBlock * D::kRows, k, left, low, high, a, b, c, d);
    Step<kIndex + 1>(rows, k, left, low, high, rest...);
  }

  // What the sums are added to, and where they go: int32 rows.
  struct Place {
    const int32_t* from = nullptr;  // null for zeros
    size_t from_stride = 0;         // elements
    int32_t factor = 1;
    int32_t* to = nullptr;
    size_t to_stride = 0;
    size_t n = 0;
  };

  template <int kRow, int kVector>
  QUERN_INLINE static void Put(const Place& at, svint32_t x) {
    if constexpr (kRow < MR) {
      const uint64_t first = kVector * svcntw();
      const svbool_t columns = svwhilelt_b32_u64(first, at.n);
      if (at.from) {
        const svint32_t before = svld1_vnum(columns, at.from + kRow * at.from_stride, kVector);
        x = svmla_x(columns, x, before, at.factor);
      }
      svst1_vnum(columns, at.to + kRow * at.to_stride, kVector, x);
    }
  }
  template <int kBlock, class... Acc>
  QUERN_INLINE static void PutBlock(const Place& at, const Acc&... acc) {
    constexpr int kRow = kBlock * D::kRows;
    Put<kRow, 0>(at, D::template Get<0, 0>(acc...));
    Put<kRow, 1>(at, D::template Get<0, 1>(acc...));
    if constexpr (D::kRows == 2) {
      Put<kRow + 1, 0>(at, D::template Get<1, 0>(acc...));
      Put<kRow + 1, 1>(at, D::template Get<1, 1>(acc...));
    }
  }

  // Folds a block's sets into the first, then stores it.
  template <int kIndex>
  QUERN_INLINE static void Finish(const Place&) {}
  template <int kIndex, class... Rest>
  QUERN_INLINE static void Finish(const Place& at, const svint32_t& a, const svint32_t& b, const Rest&... rest) {
    if constexpr (D::kSums == 4) {
      FinishFour<kIndex>(at, a, b, rest...);
    } else if constexpr (kIndex % kSets + 1 < kSets) {
      AddTwo<kIndex + 1>(at, a, b, rest...);
    } else {
      PutBlock<kIndex / kSets>(at, a, b);
      Finish<kIndex + 1>(at, rest...);
    }
  }
  template <int kIndex, class... Rest>
  QUERN_INLINE static void AddTwo(const Place& at, const svint32_t& a, const svint32_t& b, const svint32_t& c,
                                  const svint32_t& d, const Rest&... rest) {
    const svbool_t all = svptrue_b32();
    Finish<kIndex>(at, svadd_x(all, a, c), svadd_x(all, b, d), rest...);
  }
  template <int kIndex, class... Rest>
  QUERN_INLINE static void FinishFour(const Place& at, const svint32_t& a, const svint32_t& b, const svint32_t& c,
                                      const svint32_t& d, const Rest&... rest) {
    if constexpr (kIndex % kSets + 1 < kSets) {
      AddFour<kIndex + 1>(at, a, b, c, d, rest...);
    } else {
      PutBlock<kIndex / kSets>(at, a, b, c, d);
      Finish<kIndex + 1>(at, rest...);
    }
  }
  template <int kIndex, class... Rest>
  QUERN_INLINE static void AddFour(const Place& at, const svint32_t& a, const svint32_t& b, const svint32_t& c,
                                   const svint32_t& d, const svint32_t& e, const svint32_t& f, const svint32_t& g,
                                   const svint32_t& h, const Rest&... rest) {
    const svbool_t all = svptrue_b32();
    FinishFour<kIndex>(at, svadd_x(all, a, e), svadd_x(all, b, f), svadd_x(all, c, g), svadd_x(all, d, h), rest...);
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

  static void Segment(const Row* rows, size_t count, const char* rhs, const Place& at) {
    const uint64_t step = W::kBits * svcntb();  // bytes of 16 k of a unit
    const size_t whole = count / kStepK * kStepK;
    WithZeros<kBlocks * kSets * D::kSums>([&](auto&... acc) __attribute__((always_inline)) {
      size_t k = 0;
      for (; k != whole; k = Opaque(k + kStepK), rhs += step) {
        Step<0>(rows, k, kStepK, W::template Four<0>(rhs), W::template Four<4>(rhs), acc...);
      }
      if (k < count) {  // whole groups of weights; the rows' pads are zero
        const uint64_t bytes = (count - k + D::kGroup - 1) / D::kGroup * D::kGroup * (step / kStepK);
        Step<0>(rows, k, count - k, W::template Four<0>(rhs, bytes), W::template Four<4>(rhs, bytes), acc...);
      }
      Finish<0>(at, acc...);
    });
  }

  // Sums of several taps meet in the result.
  static void Run(const GemmArgs& a) {
    Place at{.n = a.n};
    at.to = static_cast<int32_t*>(a.last_k ? a.dst : a.acc);
    at.to_stride = (a.last_k ? a.dst_row_stride : a.acc_row_stride) / sizeof(int32_t);
    if (!a.first_k) {
      at.from = static_cast<const int32_t*>(a.acc);
      at.from_stride = a.acc_row_stride / sizeof(int32_t);
    } else if (D::kTurned) {  // undoes the shift of the left side, once for the whole K
      at.from = static_cast<const int32_t*>(a.rhs_sums);
      at.factor = 128;
    }
    const size_t taps = a.lhs_form == kLhsTaps || a.lhs_form == kLhsRowPointers ? a.tap_count : 1;
    for (size_t t = 0; t == 0 || t < taps; ++t) {
      const char* rhs = static_cast<const char*>(a.rhs);
      Row rows[kBlocks * D::kRows] = {};
      if (t < taps) {
        if (a.lhs_form == kLhsTaps) rhs += a.taps[t].rhs_offset;
        if (a.lhs_form == kLhsRowPointers) rhs += t * a.rhs_tap_stride;
        QUERN_UNROLL for (int r = 0; r < kBlocks * D::kRows; ++r) rows[r] = LhsRow(a, t, r < MR ? r : MR - 1);
      }
      Segment(rows, t < taps ? a.k : 0, rhs, at);
      at.from = at.to;
      at.from_stride = at.to_stride;
      at.factor = 1;
    }
  }
};

// The body for the call's m.
template <class D, int MR, class W = SveBytes>
void DispatchTileSve(const GemmArgs& a) {
  if constexpr (MR > 1) {
    if (a.m < static_cast<size_t>(MR)) return DispatchTileSve<D, MR - 1, W>(a);
  }
  TileSve<D, MR, W>::Run(a);
}

}  // namespace
}  // namespace quern::ukernel
