// The register tile of multiply-adds on float32 or float64: one body for every vector ISA, stamped for each (rows,
// units) that a row's calls may have. For kernel files only: everything has internal linkage and is compiled with their
// flags.
#pragma once

#include <type_traits>

#include "ukernel/gemm/epilogue_f32.h"
#include "ukernel/gemm/lhs_taps.h"

namespace quern::ukernel {
namespace {

// How operands become what the tile multiplies: the vector's own numbers here, others in operands_*.h.
//   Lhs, Rhs     elements as they are stored
//   kGroup       k of one column that lie together on the right side
//   kLhsBlock    1, or k values loaded at once from each row, of which FmaLane<i> takes one
//   LoadLhs(p), LoadRhs<i>(p, part): the block; vector `part` of the unit whose group holds k value i is at p
//   FmaLane<i>(acc, weights, part, block)
//   Broadcast<i>(p), LoadFloats<i>(p, part), Fma(x, weights, acc): one k alone, the i-th of its group
template <class V>
struct FloatOperands {
  using Scalar = typename V::Scalar;
  using Lhs = Scalar;
  using Rhs = Scalar;
  using Reg = typename V::Reg;
  static constexpr int kGroup = 1, kLhsBlock = V::kLhsBlock;
  static Reg LoadLhs(const Scalar* p) { return V::Load(p); }
  template <int I>
  static Reg LoadRhs(const Scalar* p, int part) {
    return V::Load(p + part * V::kLanes);
  }
  template <int I>
  static Reg FmaLane(Reg acc, Reg w, int, Reg x) {
    return V::template FmaLane<I>(acc, w, x);
  }
  template <int I>
  static Reg Broadcast(const Scalar* p) {
    return V::Broadcast(p);
  }
  template <int I>
  static Reg LoadFloats(const Scalar* p, int part) {
    return V::Load(p + part * V::kLanes);
  }
  static Reg Fma(Reg x, Reg w, Reg acc) { return V::Fma(x, w, acc); }
};

// The first half of a unit's columns, for calls that have no others.
template <class V>
struct HalfUnit : V {
  static constexpr int kUnit = V::kUnit / 2;
};

// Columns of a unit as weights lie, and whether a tile has half of them.
template <class V>
struct UnitOf {
  static constexpr int kPacked = V::kUnit;
  static constexpr bool kHalf = false;
};
template <class V>
struct UnitOf<HalfUnit<V>> {
  static constexpr int kPacked = V::kUnit;
  static constexpr bool kHalf = true;
};

// The first kNarrowLanes of a vector, of types that have such, at half of the multiply-adds' cost on CPUs that compute
// vectors in halves.
template <class V>
concept HasNarrow = requires { V::kNarrowLanes; };
template <class V>
struct NarrowOf {
  struct Type {};
};
template <HasNarrow V>
struct NarrowOf<V> {
  using Type = typename V::Narrow;
};

// Types whose tiles read rows that lie evenly apart by an address with an index.
template <class V>
concept HasIndexedRows = requires { V::kIndexedRows; };

// V has what TileEpilogue needs and Fma(a, b, c) = a*b + c; kCheapMasks; kLhsBlock; kAsksAhead; kTileAhead (0: none).
// kNarrow: the last vector has at most V::kNarrowLanes columns, and is computed as so many.
template <class V, int MR, int NU, class O = FloatOperands<V>, bool kNarrow = false>
struct TileFma : TileEpilogue<V, MR, NU> {
  using Base = TileEpilogue<V, MR, NU>;
  using Base::kPerUnit;
  using Base::kVectors;
  // Few accumulators leave the multiply-add units waiting for their latency: K is then split over several sets.
  static constexpr int kAccumulators = MR * kVectors;
  static constexpr int kSets = O::kLhsBlock > 1 || kAccumulators >= 8 ? 1 : kAccumulators >= 4 ? 2 : 4;

  // More rows than there are registers for their pointers, by one vector: each pointer is loaded for a block of K.
  static constexpr bool kManyRows = MR > 8 && kVectors == 1 && O::kLhsBlock == 1 && O::kGroup == 1;
  static constexpr size_t kRowBlock = 4;
  // Weights come out of L2 for each tile of rows, but for few k, whose panels stay in L1: where V says so, lines are
  // asked for ahead. What comes later (GemmArgs::ahead) is asked L2 for meanwhile. Both where that leaves the loads
  // enough slots: not of a narrow vector, which has broadcasts of its own (8x24: 82, without 99 GFLOP/s on Zen 4).
  static constexpr size_t kFewK = 256;
  static constexpr bool kAsksL1 = V::kTileAhead > 0;
  static constexpr bool kAsksAhead = V::kAsksAhead && MR >= 4 && !kManyRows && !kNarrow;
  static constexpr size_t kUnitK = UnitOf<V>::kPacked * sizeof(typename O::Rhs);

  using Lhs = typename O::Lhs;
  using Rhs = typename O::Rhs;
  using Left = decltype(O::LoadLhs(static_cast<const Lhs*>(nullptr)));
  using typename Base::Acc;
  using typename Base::Mask;
  using typename Base::Reg;
  using Narrow = typename NarrowOf<V>::Type;
  static constexpr int kWide = kNarrow ? kVectors - 1 : kVectors;
  static_assert(!kNarrow || (kPerUnit == 1 && O::kLhsBlock == 1 && O::kGroup == 1));
  struct Sums {
    Acc wide;  // [r][v], v < kWide; all vectors once they are summed up
    Narrow last[MR];
  };

  // Where the rows of a segment of K are: by a pointer each, or evenly apart, by one of three rows and the distance,
  // which x86 adds in a load's address: what a call keeps is in registers, where it writes 30 pointers and multiples to
  // the stack else.
  struct RowPointers {
    const Lhs* row[MR];
    size_t at = 0;
    QUERN_INLINE const Lhs* At(int r, size_t k) const { return row[r] + at + k; }
    QUERN_INLINE void Advance(size_t k) { at += k; }
  };
  struct EvenRows {
    static constexpr int kOfPointer = 3;
    const char* first[(MR + kOfPointer - 1) / kOfPointer];
    ptrdiff_t stride;
    EvenRows(const char* at, ptrdiff_t row_stride) : stride(row_stride) {
      QUERN_UNROLL for (int i = 0; i * kOfPointer < MR; ++i) first[i] = at + i * kOfPointer * row_stride;
      Advance(0);
    }
    QUERN_INLINE const Lhs* At(int r, size_t k) const {
      return reinterpret_cast<const Lhs*>(first[r / kOfPointer] + r % kOfPointer * stride) + k;
    }
    // Pointers that the compiler knows nothing of: clang 19 would make one of them by additions in the loop.
    QUERN_INLINE void Advance(size_t k) {
      QUERN_UNROLL for (int i = 0; i * kOfPointer < MR; ++i) {
        first[i] += k * sizeof(Lhs);
        asm("" : "+r"(first[i]));
      }
    }
  };

  static const Rhs* UnitAt(const char* rhs, size_t unit_stride, int v) {
    return reinterpret_cast<const Rhs*>(rhs + static_cast<size_t>(v / kPerUnit) * unit_stride);
  }

  // kMasked: the last unit is read up to the mask (a masked load takes a slot of a multiply-add port).
  template <bool kMasked, int I = 0, bool kAsks = false, class Rows>
  QUERN_INLINE static void Step(Sums& sums, const Rows& rows, size_t k, const char* rhs, size_t unit_stride,
                                Mask tail) {
    Reg b[kVectors];
    Narrow last;
    QUERN_UNROLL for (int v = 0; v < kVectors; ++v) {
      const Rhs* p = UnitAt(rhs, unit_stride, v);
      if constexpr (kMasked) {
        b[v] =
            v == kVectors - 1 ? V::LoadMask(p + v % kPerUnit * V::kLanes, tail) : V::Load(p + v % kPerUnit * V::kLanes);
        if constexpr (kNarrow) {
          if (v == kWide) last = V::First(b[v]);
        }
      } else {
        if (v < kWide) b[v] = O::template LoadFloats<I>(p, v % kPerUnit);
        if constexpr (kNarrow) {
          if (v == kWide) last = V::LoadNarrow(p);
        }
        if constexpr (kAsks && kAsksL1) {
          __builtin_prefetch(reinterpret_cast<const char*>(p + v % kPerUnit * V::kLanes) + V::kTileAhead);
        }
      }
    }
    QUERN_UNROLL for (int r = 0; r < MR; ++r) {
      const Lhs* p = rows.At(r, k);
      const Reg x = O::template Broadcast<I>(p);
      QUERN_UNROLL for (int v = 0; v < kWide; ++v) sums.wide[r][v] = O::Fma(x, b[v], sums.wide[r][v]);
      if constexpr (kNarrow) sums.last[r] = V::FmaNarrow(V::BroadcastNarrow(p), last, sums.last[r]);
    }
  }

  // kCount of K for one row after the other; next() is the next row at the first of them.
  template <bool kMasked, size_t kCount, class Next>
  QUERN_INLINE static void RowBlock(Sums& sums, Next next, const char* rhs, size_t k_stride, Mask tail) {
    Reg b[kCount];
    Narrow last[kCount];
    QUERN_UNROLL for (size_t u = 0; u < kCount; ++u) {
      const auto* p = reinterpret_cast<const Rhs*>(rhs + u * k_stride);
      b[u] = kMasked ? V::LoadMask(p, tail) : V::Load(p);
      if constexpr (kNarrow) last[u] = kMasked ? V::First(b[u]) : V::LoadNarrow(p);
    }
    QUERN_UNROLL for (int r = 0; r < MR; ++r) {
      const Lhs* x = next();
      // In a register of its own: Intel's cores split a multiply-add from memory whose address has an index (16x16 by
      // 256 on Cascade Lake: 59 % of the peak, so 75).
      asm("" : "+r"(x));
      QUERN_UNROLL for (size_t u = 0; u < kCount; ++u) {
        if constexpr (kNarrow) {
          sums.last[r] = V::FmaNarrow(V::BroadcastNarrow(x + u), last[u], sums.last[r]);
        } else {
          sums.wide[r][0] = O::Fma(V::Broadcast(x + u), b[u], sums.wide[r][0]);
        }
      }
    }
  }

  // Many rows that lie evenly apart, which takes no pointers: half of the loads where blocks of K are short.
  template <bool kMasked>
  QUERN_INLINE static void EvenSegment(Sums& sums, const char* lhs, ptrdiff_t row_stride, const char* rhs,
                                       size_t k_stride, size_t k_count, Mask tail) {
    const auto block = [&](auto count) __attribute__((always_inline)) {
      const char* row = lhs;
      RowBlock<kMasked, count>(
          sums,
          [&]() __attribute__((always_inline)) {
            const auto* x = reinterpret_cast<const Lhs*>(row);
            row += row_stride;
            return x;
          },
          rhs, k_stride, tail);
      lhs += count * sizeof(Lhs);
      rhs += count * k_stride;
    };
    size_t k = 0;
    for (; k + kRowBlock <= k_count; k += kRowBlock) block(std::integral_constant<size_t, kRowBlock>());
    for (; k < k_count; ++k) block(std::integral_constant<size_t, 1>());
  }

  // k values [I, kLhsBlock) of the blocks x; rhs is at the group that holds the first of them.
  template <int I>
  QUERN_INLINE static void LaneSteps(Sums& sums, const Left (&x)[MR], const char* rhs, size_t unit_stride,
                                     size_t k_stride) {
    if constexpr (I < O::kLhsBlock) {
      QUERN_UNROLL for (int v = 0; v < kVectors; ++v) {
        const auto b = O::template LoadRhs<I % O::kGroup>(UnitAt(rhs, unit_stride, v), v % kPerUnit);
        QUERN_UNROLL for (int r = 0; r < MR; ++r) {
          sums.wide[r][v] = O::template FmaLane<I>(sums.wide[r][v], b, v % kPerUnit, x[r]);
        }
      }
      const size_t to_next = I % O::kGroup == O::kGroup - 1 ? O::kGroup * k_stride : 0;
      LaneSteps<I + 1>(sums, x, rhs + to_next, unit_stride, k_stride);
    }
  }

  // Inline in each of its calls: out of line it would keep the accumulators in memory.
  template <bool kMasked, class Rows>
  QUERN_INLINE static void Segment(Sums& sums, Rows rows, const char* rhs, size_t unit_stride, size_t k_stride,
                                   size_t k_count, Mask tail, const char*& ahead, bool few) {
    size_t k = 0;
    if constexpr (kManyRows) {
      for (; k + kRowBlock <= k_count; k += kRowBlock, rhs += kRowBlock * k_stride) {
        int r = 0;
        RowBlock<kMasked, kRowBlock>(
            sums, [&]() __attribute__((always_inline)) { return rows.At(r++, 0); }, rhs, k_stride, tail);
        rows.Advance(kRowBlock);
      }
    } else if constexpr (O::kLhsBlock > 1) {
      for (; k + O::kLhsBlock <= k_count; k += O::kLhsBlock) {
        Left x[MR];
        QUERN_UNROLL for (int r = 0; r < MR; ++r) x[r] = O::LoadLhs(rows.At(r, 0));
        LaneSteps<0>(sums, x, rhs, unit_stride, k_stride);
        rows.Advance(O::kLhsBlock);
        rhs += O::kLhsBlock * k_stride;
      }
    } else if constexpr (kSets > 1) {
      Sums more[kSets - 1];
      QUERN_UNROLL for (int s = 0; s < kSets - 1; ++s) SetZero(more[s]);
      for (; k + kSets <= k_count; k += kSets) {
        Step<kMasked>(sums, rows, 0, rhs, unit_stride, tail);
        QUERN_UNROLL for (int s = 0; s < kSets - 1; ++s) {
          Step<kMasked>(more[s], rows, s + 1, rhs + (s + 1) * k_stride, unit_stride, tail);
        }
        rhs += kSets * k_stride;
        rows.Advance(kSets);
      }
      QUERN_UNROLL for (int s = 0; s < kSets - 1; ++s) {
        QUERN_UNROLL for (int r = 0; r < MR; ++r) {
          QUERN_UNROLL for (int v = 0; v < kWide; ++v) {
            sums.wide[r][v] = V::Add(sums.wide[r][v], more[s].wide[r][v]);
          }
          if constexpr (kNarrow) sums.last[r] = V::AddNarrow(sums.last[r], more[s].last[r]);
        }
      }
    }
    if constexpr (kSets == 1 && O::kLhsBlock == 1 && !kMasked && !kManyRows) {
      // Counters and branches compete with multiply-adds for ports: fewer of them are worth 4 % on AVX-512.
      constexpr size_t kUnroll = 4;
      const auto steps = [&](auto lines) __attribute__((always_inline)) {
        constexpr bool asks = lines > 0;
        static_assert(kUnroll == kAheadK);
        for (; k + kUnroll <= k_count; k += kUnroll) {
          QUERN_UNROLL for (size_t u = 0; u < kUnroll; ++u) {
            Step<kMasked, 0, asks>(sums, rows, u, rhs + u * k_stride, unit_stride, tail);
          }
          rhs += kUnroll * k_stride;
          rows.Advance(kUnroll);
          if constexpr (asks) {
            QUERN_UNROLL for (size_t i = 0; i < lines; ++i) __builtin_prefetch(ahead + i * 64, 0, 2);
            ahead += lines * 64;
            // A pointer of its own: as a multiple of the weights' it took registers from the sums (8x48, clang 19).
            if constexpr (lines > 1) asm("" : "+r"(ahead));
          }
        }
      };
      if (!kAsksAhead || !ahead) {
        steps(std::integral_constant<size_t, 0>());
      } else if (few) {
        steps(std::integral_constant<size_t, kAsksAhead ? kAheadLinesOfFewRows : 0>());
      } else {
        steps(std::integral_constant<size_t, kAsksAhead ? kAheadLines : 0>());
      }
    }
    if constexpr (O::kGroup == 1) {
      for (; k < k_count; ++k, rhs += k_stride, rows.Advance(1)) Step<kMasked>(sums, rows, 0, rhs, unit_stride, tail);
    } else {
      static_assert(O::kGroup == 2 && !kMasked);
      for (; k < k_count; k += 2, rhs += 2 * k_stride, rows.Advance(2)) {
        Step<false, 0>(sums, rows, 0, rhs, unit_stride, tail);
        if (k + 1 < k_count) Step<false, 1>(sums, rows, 1, rhs, unit_stride, tail);
      }
    }
  }

  QUERN_INLINE static void AddTaps(const GemmArgs& a, Sums& sums, Mask tail) {
    const bool in_place = a.rhs_form == RhsForm::kInPlace;
    const bool few = a.ahead_lines > kAheadLines;
    const char* ahead = static_cast<const char*>(a.ahead);
    if constexpr (kAsksL1) {
      if (!ahead) ahead = static_cast<const char*>(a.rhs);
      if (a.k * a.tap_count < kFewK && !few) ahead = nullptr;
    }
    // The common form apart: what a loop over taps keeps is some 30 stores, which wait for those of the tile before.
    // Not in float64, where clang 19 then keeps accumulators in memory.
    if constexpr (MR >= 4 && HasIndexedRows<V>) {
      if (a.lhs_form != kLhsRowPointers && !in_place) {
        const size_t taps = a.lhs_form == kLhsTaps ? a.tap_count : 1;
        for (size_t t = 0; t < taps; ++t) {
          const Tap tap = a.lhs_form == kLhsTaps ? a.taps[t] : Tap{};
          Segment<false>(sums, EvenRows(static_cast<const char*>(a.lhs) + tap.lhs_offset, a.lhs_row_stride),
                         static_cast<const char*>(a.rhs) + tap.rhs_offset, a.rhs_unit_stride, kUnitK, a.k, tail, ahead,
                         few);
        }
        return;
      }
    } else if constexpr (MR >= 4 && std::is_same_v<typename V::Scalar, float>) {
      if (a.lhs_form == kLhsRows && !in_place) {
        RowPointers rows;
        QUERN_UNROLL for (int r = 0; r < MR; ++r) {
          rows.row[r] = reinterpret_cast<const Lhs*>(static_cast<const char*>(a.lhs) + r * a.lhs_row_stride);
        }
        return Segment<false>(sums, rows, static_cast<const char*>(a.rhs), a.rhs_unit_stride, kUnitK, a.k, tail, ahead,
                              few);
      }
    }
    EachTap<Lhs, MR>(a, [&](const Lhs* const(&row)[MR], const char* rhs) __attribute__((always_inline)) {
      RowPointers rows;
      QUERN_UNROLL for (int r = 0; r < MR; ++r) rows.row[r] = row[r];
      if (in_place) {
        Segment<V::kCheapMasks>(sums, rows, rhs, O::kGroup * kUnitK, a.rhs_k_stride, a.k, tail, ahead, false);
      } else {
        Segment<false>(sums, rows, rhs, a.rhs_unit_stride, kUnitK, a.k, tail, ahead, false);
      }
    });
  }

  // Of kManyRows, in the forms whose rows lie evenly apart.
  QUERN_INLINE static void AddEvenTaps(const GemmArgs& a, Sums& sums, Mask tail) {
    const bool in_place = a.rhs_form == RhsForm::kInPlace;
    const size_t taps = a.lhs_form == kLhsTaps ? a.tap_count : 1;
    for (size_t t = 0; t < taps; ++t) {
      const Tap tap = a.lhs_form == kLhsTaps ? a.taps[t] : Tap{};
      const char* lhs = static_cast<const char*>(a.lhs) + tap.lhs_offset;
      const char* rhs = static_cast<const char*>(a.rhs) + tap.rhs_offset;
      if (in_place) {
        EvenSegment<V::kCheapMasks>(sums, lhs, a.lhs_row_stride, rhs, a.rhs_k_stride, a.k, tail);
      } else {
        EvenSegment<false>(sums, lhs, a.lhs_row_stride, rhs, kUnitK, a.k, tail);
      }
    }
  }

  QUERN_INLINE static void SetZero(Sums& sums) {
    QUERN_UNROLL for (int r = 0; r < MR; ++r) {
      QUERN_UNROLL for (int v = 0; v < kWide; ++v) sums.wide[r][v] = V::Zero();
      if constexpr (kNarrow) sums.last[r] = V::First(V::Zero());
    }
  }

  static void Run(const GemmArgs& a) {
    Sums sums;
    const typename Base::Tail tail = Base::MakeTail(a.n);
    if (a.first_k) {
      SetZero(sums);
    } else {
      Base::Read(a.acc, a.acc_row_stride, sums.wide, tail);
      if constexpr (kNarrow) {
        QUERN_UNROLL for (int r = 0; r < MR; ++r) sums.last[r] = V::First(sums.wide[r][kVectors - 1]);
      }
    }

    if constexpr (kManyRows) {
      a.lhs_form == kLhsRowPointers ? AddTaps(a, sums, tail.mask) : AddEvenTaps(a, sums, tail.mask);
    } else {
      AddTaps(a, sums, tail.mask);
    }

    Acc& acc = sums.wide;
    if constexpr (kNarrow) {
      QUERN_UNROLL for (int r = 0; r < MR; ++r) acc[r][kVectors - 1] = V::Widen(sums.last[r]);
    }
    if (a.last_k) {
      if constexpr (std::is_same_v<typename V::Scalar, float>) Base::Apply(a, a.ops, a.ops + a.op_count, acc, tail);
      Base::Write(a.dst, a.dst_row_stride, acc, tail);
    } else {
      Base::Write(a.acc, a.acc_row_stride, acc, tail);
    }
  }
};

// Units of a call of whole tiles up to which the last one may be narrow: with more accumulators clang 19 keeps some of
// them in memory.
[[maybe_unused]] constexpr uint8_t NarrowUnits(int rows) { return static_cast<uint8_t>(18 / rows); }

// A row whose body is DispatchTileFma of vectors that have narrow ones.
[[maybe_unused]] constexpr GemmKernel WithNarrow(GemmKernel row) {
  const auto units = static_cast<uint8_t>(row.nr / row.consumed.n_unit);
  row.narrow_units = NarrowUnits(row.mr) < units ? NarrowUnits(row.mr) : units;
  return row;
}

// Not inline: two bodies in one function would keep accumulators in memory.
template <class V, int MR, int NU>
__attribute__((noinline)) void RunNarrow(const GemmArgs& a) {
  TileFma<V, MR, NU, FloatOperands<V>, true>::Run(a);
}

// The body for the call's m and number of units. kWhole: m may be the row's own, which alone has bodies for a narrow
// last vector.
template <class V, int MR, int NU, class O = FloatOperands<V>, bool kWhole = true>
void DispatchTileFma(const GemmArgs& a) {
  if constexpr (NU > 1) {
    if (a.n <= static_cast<size_t>((NU - 1) * V::kUnit)) return DispatchTileFma<V, MR, NU - 1, O, kWhole>(a);
  }
  if constexpr (kWhole && HasNarrow<V> && NU <= NarrowUnits(MR) && std::is_same_v<O, FloatOperands<V>>) {
    constexpr size_t kNarrow = (NU - 1) * V::kUnit + V::kNarrowLanes;
    if (a.m == static_cast<size_t>(MR) && a.n <= kNarrow) return RunNarrow<V, MR, NU>(a);
  }
  if constexpr (NU == 1 && !UnitOf<V>::kHalf && V::kUnit > V::kLanes) {
    if (a.n <= static_cast<size_t>(V::kUnit / 2)) return DispatchTileFma<HalfUnit<V>, MR, NU, O>(a);
  }
  if constexpr (MR > 1) {
    if (a.m < static_cast<size_t>(MR)) return DispatchTileFma<V, MR - 1, NU, O, false>(a);
  }
  TileFma<V, MR, NU, O>::Run(a);
}

// The descriptor of a row of float32.
[[maybe_unused]] constexpr GemmKernel TileF32Row(const PackLayout& layout, uint16_t mr, uint16_t nr, GemmCost cost,
                                                 GemmRun run) {
  return {.isa = kIsa,
          .lhs = Format::kF32,
          .rhs = Format::kF32,
          .dst = Format::kF32,
          .precision = Precision::kFp32,
          .mr = mr,
          .nr = nr,
          .kr = 1,
          .lhs_forms = kLhsRows | kLhsTaps | kLhsRowPointers,
          .consumed = layout,
          .layouts = {layout},
          .fused = kFusedProductF32,
          .cost = cost,
          .run = run};
}

// The same in float64, which fuses no epilogue.
[[maybe_unused]] constexpr GemmKernel InFloat64(GemmKernel row) {
  row.lhs = row.rhs = row.dst = Format::kF64;
  row.precision = Precision::kFp64;
  row.fused = 0;
  return row;
}

}  // namespace
}  // namespace quern::ukernel
