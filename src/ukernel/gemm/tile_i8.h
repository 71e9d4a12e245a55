// The int8 register tile with int32 accumulators: one body for every vector ISA, stamped for each (rows, units) that a
// row's calls may have. For kernel files only: everything has internal linkage and is compiled with their flags.
#pragma once

#include "ukernel/gemm/epilogue_i32.h"
#include "ukernel/gemm/prefetch.h"

namespace quern::ukernel {
namespace {

// K elements of the left side that are staged at once: rows in a form that the loop reads at one distance from one
// pointer, whatever the caller's addressing, for the price of a load and a store per vector.
[[maybe_unused]] constexpr size_t kStagedK = 256;
[[maybe_unused]] constexpr size_t kPanelK = 2048;  // where a whole call's units are computed from what is staged
// Bytes of its units that memory is asked for ahead, a panel's across their ends: into an L1 that waits for many lines,
// or into L2.
[[maybe_unused]] constexpr size_t kAheadIntoL1 = 10240, kAheadIntoL2 = 4096;
[[maybe_unused]] constexpr size_t kPanelAheadIntoL1 = 14336, kPanelAheadIntoL2 = 12288;
constexpr size_t StagedRowBytes(size_t group_bytes, size_t k = kStagedK) {
  return k / 4 * group_bytes + 64;  // off a power of two
}

// Bytes of the staged rows of a panel and of its sums.
constexpr size_t PanelScratch(size_t mr, size_t nr, size_t group_bytes) {
  return mr * (StagedRowBytes(group_bytes, kPanelK) + nr * sizeof(int32_t));
}

// D describes the dot products of an ISA:
//   V              vector traits with int32 lanes (epilogue_i32.h)
//   Weights        a group of 4 k of V::kLanes columns, ready for Dot
//   kHoldsWeights  whether those of all vectors stay in registers, or are made one vector at a time
//   LoadWeights(p), LoadGroup(p) of the staged left side, Dot(acc, group, weights)
//   kShift         what the staged left side has more than the stored one: 0, or 128
//   kLatency       independent accumulators that keep its units busy
//   kGroupBytes    bytes of a staged group of 4 k
//   Stage(from, count, to): `count` elements, the last group filled with anything (its weights are zero)
// Rows are staged kStaged elements of K at a time; those of a panel for other units too.
template <class D, int MR, int NU, bool kPanel>
struct TileI8 : TileEpilogueI32<typename D::V, MR, NU> {
  using V = typename D::V;
  using Base = TileEpilogueI32<V, MR, NU>;
  using Base::kPerUnit;
  using Base::kVectors;
  using typename Base::Int;
  using typename Base::IntAcc;
  using typename Base::Tail;

  static constexpr int kAccumulators = MR * kVectors;
  static constexpr int kMostAccumulators = kPerUnit == 1 ? 24 : 12;  // leaves registers for both sides
  static constexpr int SetsFor(int latency) {
    int sets = 1;
    while (sets * kAccumulators < latency && 2 * sets * kAccumulators <= kMostAccumulators) sets *= 2;
    return sets;
  }
  static constexpr int kSets = SetsFor(D::kLatency);
  static constexpr size_t kStaged = kPanel ? kPanelK : kStagedK;
  static constexpr size_t kRowBytes = StagedRowBytes(D::kGroupBytes, kStaged);
  static constexpr size_t kGroup = 4 * V::kUnit;  // bytes of a group of 4 k in a unit
  // Where a unit has several vectors, registers are few: those of one unit.
  static constexpr bool kHolds = D::kHoldsWeights && (kPerUnit == 1 || NU == 1);

  // ahead: where memory is asked for each unit's line meanwhile, from the line itself.
  template <bool kIntoL1>
  QUERN_INLINE static void Step(IntAcc& acc, const char* lhs, const char* rhs, size_t unit_stride, ptrdiff_t ahead) {
    const auto at = [&](int v) {
      const char* p = rhs + static_cast<size_t>(v / kPerUnit) * unit_stride + v % kPerUnit * V::kLanes * 4;
      if (V::kPrefetch && v % kPerUnit == 0) PrefetchStream(p + ahead, kIntoL1);
      return p;
    };
    if constexpr (kHolds) {
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

  // Adds what sums of pairs lose of one group of a unit.
  QUERN_INLINE static void AddLost(IntAcc& acc, const char* lhs, const char* weights) {
    QUERN_UNROLL for (int v = 0; v < kPerUnit; ++v) {
      const typename D::Weights w = D::LoadWeights(weights + v * V::kLanes * 4);
      QUERN_UNROLL for (int r = 0; r < MR; ++r) {
        acc[r][v] = V::AddInt(acc[r][v], D::Lost(D::LoadGroup(lhs + r * kRowBytes), w));
      }
    }
  }

  // `next`: the first weights that are read after these, which a panel asks memory for in time.
  template <bool kIntoL1>
  QUERN_INLINE static void Chunk(IntAcc& acc, const char* lhs, const char* rhs, size_t unit_stride, size_t groups,
                                 const char* next) {
    constexpr size_t kUnits = kIntoL1 ? kAheadIntoL1 : kAheadIntoL2;
    constexpr size_t kPanels = kIntoL1 ? kPanelAheadIntoL1 : kPanelAheadIntoL2;
    constexpr size_t kAhead = (!V::kPrefetch ? 0 : kPanel ? kPanels : kUnits) / NU / kGroup;  // groups
    IntAcc more[kSets];  // but for the first set, which is acc
    QUERN_UNROLL for (int s = 1; s < kSets; ++s) Base::Each([&](int r, int v) { more[s][r][v] = V::ZeroInt(); });
    ptrdiff_t ahead = kAhead * kGroup;
    size_t g = 0;
    const auto steps = [&](size_t end) {
      for (; g + kSets <= end; g += kSets) {
        Step<kIntoL1>(acc, lhs, rhs, unit_stride, ahead);
        QUERN_UNROLL for (int s = 1; s < kSets; ++s) {
          Step<kIntoL1>(more[s], lhs + s * D::kGroupBytes, rhs + s * kGroup, unit_stride, ahead);
        }
        lhs += kSets * D::kGroupBytes;
        rhs += kSets * kGroup;
      }
    };
    if constexpr (kPanel) {
      steps(groups < kAhead ? 0 : groups - kAhead);
      ahead = next - rhs;
    }
    steps(groups);
    QUERN_UNROLL for (int s = 1; s < kSets; ++s) {
      Base::Each([&](int r, int v) { acc[r][v] = V::AddInt(acc[r][v], more[s][r][v]); });
    }
    if constexpr (kSets > 1) {
      for (; g < groups; ++g) {
        Step<kIntoL1>(acc, lhs, rhs, unit_stride, ahead);
        lhs += D::kGroupBytes;
        rhs += kGroup;
      }
    }
  }

  // Adds `groups` of 4 k. `next`: the first weights that are read after these.
  QUERN_INLINE static void Add(const GemmArgs& a, const char* staged, const char* weights, size_t groups,
                               const char* next, IntAcc& acc) {
    if (V::kPrefetch && a.stream_into_l1) {
      Chunk<true>(acc, staged, weights, a.rhs_unit_stride, groups, next);
    } else {
      Chunk<false>(acc, staged, weights, a.rhs_unit_stride, groups, next);
    }
  }

  // add(acc) adds all products of the call, of a left side that has `shift` more than the stored one.
  template <class F>
  QUERN_INLINE static void Run(const GemmArgs& a, int shift, F add) {
    const Tail tail = Base::MakeTail(a.n);
    IntAcc acc;
    if (!a.first_k) {
      Base::ReadInt(a.acc, a.acc_row_stride, acc, tail);
    } else if (shift) {  // undone once for the whole K
      QUERN_UNROLL for (int v = 0; v < kVectors; ++v) {
        const Int sum = Base::LoadIntN(static_cast<const int32_t*>(a.rhs_sums), v, tail);
        const Int start = V::MulInt(sum, V::Set1Int(-shift));
        QUERN_UNROLL for (int r = 0; r < MR; ++r) acc[r][v] = start;
      }
    } else {
      Base::Each([&](int r, int v) { acc[r][v] = V::ZeroInt(); });
    }
    add(acc);
    if (a.last_k) {
      Base::Finish(a, acc, tail);
    } else {
      Base::WriteInt(a.acc, a.acc_row_stride, acc, tail);
    }
  }

  // The unit from column n on of a call that ends as `ending` says: what columns add is where sums begin.
  template <class F>
  QUERN_INLINE static void RunBytes(const GemmArgs& a, size_t n, const ByteEnding& ending, int shift, F add) {
    const size_t columns = a.n - n < Base::kColumns ? a.n - n : Base::kColumns;
    IntAcc acc;
    QUERN_UNROLL for (int v = 0; v < kVectors; ++v) {
      Int start = Base::ColumnSum(ending, n, columns, v);
      if (shift) {
        const Int sum = Base::LoadColumns(static_cast<const int32_t*>(a.rhs_sums) + n, columns, v);
        start = V::AddInt(start, V::MulInt(sum, V::Set1Int(-shift)));
      }
      QUERN_UNROLL for (int r = 0; r < MR; ++r) acc[r][v] = start;
    }
    add(acc);
    Base::FinishBytes(ending, n, columns, acc, static_cast<char*>(a.dst) + n, a.dst_row_stride);
  }
};

// Row r of a tap.
inline const char* RowOf(const GemmArgs& a, size_t tap, int r) {
  if (a.lhs_form == kLhsRowPointers) {
    const void* p = a.row_pointers[tap * a.row_pointer_pitch + static_cast<size_t>(r)];
    return static_cast<const char*>(p) + (p == a.zero_row ? 0 : a.row_pointer_offset);
  }
  const ptrdiff_t shift = a.lhs_form == kLhsTaps ? a.taps[tap].lhs_offset : 0;
  return static_cast<const char*>(a.lhs) + shift + r * a.lhs_row_stride;
}

// Bytes to the weights of a tap, in each unit.
inline size_t RhsOffset(const GemmArgs& a, size_t tap) {
  return a.lhs_form == kLhsTaps ? a.taps[tap].rhs_offset : tap * a.rhs_tap_stride;
}

// Stages `count` elements of MR rows, from k on.
template <class D, int MR>
void StageRows(const GemmArgs& a, size_t tap, size_t k, size_t count, char* stage, size_t row_bytes) {
  for (int r = 0; r < MR; ++r, stage += row_bytes) D::Stage(RowOf(a, tap, r) + k, count, stage);
}

// Dot products that have a faster form, D::Pairs, for bytes and weights of which no pair of products passes 16 bits.
template <class D>
concept HasPairs = requires { typename D::Pairs; };

// The call for up to `units` units from column n on.
template <class V>
GemmArgs ColumnsOf(const GemmArgs& a, size_t n, size_t units) {
  const size_t width = units * V::kUnit;
  GemmArgs part = a;
  part.n = a.n - n < width ? a.n - n : width;
  part.n0 = a.n0 + n;
  part.rhs = static_cast<const char*>(a.rhs) + n / V::kUnit * a.rhs_unit_stride;
  part.rhs_sums = static_cast<const int32_t*>(a.rhs_sums) + n;
  if (part.rhs_wide_groups.begin) part.rhs_wide_groups.begin += n / V::kUnit;
  part.acc = static_cast<int32_t*>(a.acc) + n;
  const bool narrow = a.op_count && a.ops[a.op_count - 1].kind == EpilogueKind::kRequantize;
  part.dst = static_cast<char*>(a.dst) + n * (narrow ? 1 : 4);
  return part;
}

// Units that are in registers together: rows are staged piece by piece on the way. A function of its own for each tile,
// which several narrower calls share.
template <class D, int MR, int NU>
__attribute__((noinline)) void RunTileI8(const GemmArgs& a) {
  if constexpr (NU > 1) {
    if (a.n <= static_cast<size_t>((NU - 1) * D::V::kUnit)) return RunTileI8<D, MR, NU - 1>(a);
  }
  using Tile = TileI8<D, MR, NU, false>;
  Tile::Run(a, D::kShift, [&](typename Tile::IntAcc& acc) __attribute__((always_inline)) {
    char* stage = static_cast<char*>(a.scratch);
    const size_t taps = a.lhs_form == kLhsRows ? 1 : a.tap_count;
    for (size_t tap = 0; tap < taps; ++tap) {
      const char* rhs = static_cast<const char*>(a.rhs) + RhsOffset(a, tap);
      for (size_t k = 0; k < a.k; k += kStagedK, rhs += kStagedK * D::V::kUnit) {
        const size_t count = a.k - k < kStagedK ? a.k - k : kStagedK;
        StageRows<D, MR>(a, tap, k, count, stage, Tile::kRowBytes);
        Tile::Add(a, stage, rhs, (count + 3) / 4, nullptr, acc);
      }
    }
  });
}

// What the elements of MR rows that are staged for pairs have beyond their range, in scratch behind all else.
template <int MR, size_t kGroupBytes>
struct BeyondPairs {
  static constexpr size_t kMost = kStagedK / 4;
  char rest[MR][StagedRowBytes(4, kPanelK)];   // of each element, as int8
  char rows[MR][StagedRowBytes(kGroupBytes)];  // that of groups which have any, staged for a tile without pairs
  uint32_t at[kMost];                          // bytes from where a unit begins in the call to such a group's weights
};

// NU units, `kAtOnce` of them in registers at a time: long pieces of the rows are staged once for all units.
template <class D, int MR, int NU, int kAtOnce>
struct PanelI8 {
  using V = typename D::V;
  static constexpr bool kCorrects = HasPairs<D> && kAtOnce == 1;  // few rows wait for memory anyway
  static constexpr size_t kStageAlign = 64;                       // k, of taps that are staged together
  static constexpr size_t kMostTaps = kPanelK / kStageAlign;
  static constexpr size_t kShareOfBeyond = 6;  // of so many groups one may have elements beyond the range of pairs
  template <class T>
  static constexpr size_t kRowBytes = StagedRowBytes(T::kGroupBytes, kPanelK);

  // What is staged at a time: taps [tap, tap + taps), elements [k, k + count) of each.
  struct Piece {
    size_t tap, taps, k, count;
    size_t padded;                 // k from tap to tap
    size_t rhs_offset[kMostTaps];  // bytes from where a unit begins in the call to each tap
    const char* next;              // weights that are read after these
    int shift = D::kShift;         // what is staged has more than what is stored
    bool corrects = false;         // adds what pairs lose of wide groups
    size_t beyond = 0;             // groups with elements beyond the range of pairs, as BeyondPairs has them

    Piece(const GemmArgs& a, size_t first, size_t most, size_t k0) : tap(first), taps(0), k(k0), next(nullptr) {
      count = a.k - k < kPanelK ? a.k - k : kPanelK;
      padded = RoundUp(count, kStageAlign);
      const size_t room = a.k > kPanelK ? 1 : padded ? kPanelK / padded : kMostTaps;
      for (; taps < most && taps < room; ++taps) rhs_offset[taps] = RhsOffset(a, tap + taps) + k * V::kUnit;
    }
    // Where taps follow each other without gaps in the stage and among the weights, they are one.
    void Join() {
      if (count != padded) return;
      for (size_t t = 1; t < taps; ++t) {
        if (rhs_offset[t] != rhs_offset[0] + t * count * V::kUnit) return;
      }
      count *= taps;
      taps = 1;
    }
  };

  // What the sums of pairs will have lost of a unit's wide groups. Out of line: it would take registers from the sums.
  template <class T>
  __attribute__((noinline)) static void FindLost(const GemmArgs& a, const Piece& p, const char* unit,
                                                 const uint32_t* wide, int32_t (&lost)[MR][V::kUnit]) {
    using Tile = TileI8<T, MR, 1, true>;
    typename Tile::IntAcc acc;
    Tile::Each([&](int r, int v) { acc[r][v] = V::ZeroInt(); });
    for (uint32_t i = wide[0]; i < wide[1]; ++i) {
      const size_t at = a.rhs_wide_groups.at[i] - a.rhs_unit_offset;
      for (size_t t = 0; t < p.taps; ++t) {
        const size_t group = (at - p.rhs_offset[t]) / Tile::kGroup;  // of other taps beyond
        if (group >= (p.count + 3) / 4) continue;
        Tile::AddLost(acc, static_cast<const char*>(a.scratch) + (t * p.padded / 4 + group) * T::kGroupBytes,
                      unit + at);
      }
    }
    Tile::Each([&](int r, int v) { V::StoreInt(lost[r] + v * V::kLanes, acc[r][v]); });
  }

  static auto* BeyondOf(const GemmArgs& a) {
    return reinterpret_cast<BeyondPairs<MR, D::kGroupBytes>*>(static_cast<char*>(a.scratch) +
                                                              PanelScratch(MR, NU * V::kUnit, D::kGroupBytes));
  }

  // By the units from `unit` on, whose wide groups begin at `wide`.
  template <class T, int kUnits>
  QUERN_INLINE static void AddPiece(const GemmArgs& a, const Piece& p, const char* unit, const uint32_t* wide,
                                    typename TileI8<T, MR, kUnits, true>::IntAcc& acc) {
    using Tile = TileI8<T, MR, kUnits, true>;
    if constexpr (kCorrects && !HasPairs<T>) {
      if (p.corrects && wide[0] < wide[1]) {
        int32_t lost[MR][V::kUnit];
        FindLost<T>(a, p, unit, wide, lost);
        Tile::Each([&](int r, int v) { acc[r][v] = V::AddInt(acc[r][v], V::LoadInt(lost[r] + v * V::kLanes)); });
      }
    }
    const char* staged = static_cast<const char*>(a.scratch);
    for (size_t t = 0; t < p.taps; ++t, staged += p.padded / 4 * T::kGroupBytes) {
      const char* next = t + 1 < p.taps ? unit + p.rhs_offset[t + 1] : p.next;
      Tile::Add(a, staged, unit + p.rhs_offset[t], (p.count + 3) / 4, next, acc);
    }
    if constexpr (kCorrects && !HasPairs<T>) {
      const auto* beyond = BeyondOf(a);
      for (size_t i = 0; i < p.beyond; ++i) {
        TileI8<D, MR, 1, false>::template Step<false>(acc, beyond->rows[0] + i * D::kGroupBytes, unit + beyond->at[i],
                                                      0, 0);
      }
    }
  }

  template <class T, int kUnits>
  static void RunUnits(const GemmArgs& a, const Piece& p) {
    if constexpr (kUnits > 1) {
      if (a.n <= static_cast<size_t>((kUnits - 1) * V::kUnit)) return RunUnits<T, kUnits - 1>(a, p);
    }
    using Tile = TileI8<T, MR, kUnits, true>;
    Tile::Run(a, p.shift, [&](typename Tile::IntAcc& acc) __attribute__((always_inline)) {
      AddPiece<T, kUnits>(a, p, static_cast<const char*>(a.rhs), a.rhs_wide_groups.begin, acc);
    });
  }

  // All columns, of rows that are staged for T.
  template <class T>
  static void RunColumns(const GemmArgs& a, Piece& p) {
    p.Join();
    if constexpr (kAtOnce == 1 && HasByteRows<V>) {
      const ByteEnding ending(a.ops, a.first_k && a.last_k ? a.op_count : 0, a.n0);
      if (ending.serves) {
        using Tile = TileI8<T, MR, 1, true>;
        const char* unit = static_cast<const char*>(a.rhs);
        for (size_t n = 0; n < a.n; n += V::kUnit, unit += a.rhs_unit_stride) {
          p.next = After(a, n, p.k);
          Tile::RunBytes(a, n, ending, p.shift, [&](typename Tile::IntAcc& acc) __attribute__((always_inline)) {
            AddPiece<T, 1>(a, p, unit, p.corrects ? a.rhs_wide_groups.begin + n / V::kUnit : nullptr, acc);
          });
        }
        return;
      }
    }
    for (size_t n = 0; n < a.n; n += kAtOnce * V::kUnit) {
      p.next = After(a, n, p.k);
      RunUnits<T, kAtOnce>(ColumnsOf<V>(a, n, kAtOnce), p);
    }
  }

  // Whether the rows are bytes for D::Pairs, which are staged then. What shifts the left side counts on all of K.
  static bool StagePairs(const GemmArgs& a, Piece& p) {
    using T = typename D::Pairs;
    if (T::kShift && !(a.first_k && a.last_k)) return false;
    const bool has_wide = a.rhs_wide_groups.begin != nullptr;
    const unsigned most = T::MostByte(has_wide && !kCorrects ? 0 : a.rhs_pair_bound);
    typename T::Bytes largest = T::NoBytes();
    if (kCorrects && most < T::kAnyByte) {
      if (!StageBounded<T>(a, p, most, largest)) return false;
    } else {
      p.shift = T::kShift;
      char* stage = static_cast<char*>(a.scratch);
      for (size_t t = 0; t < p.taps; ++t, stage += p.padded / 4 * T::kGroupBytes) {
        QUERN_UNROLL for (int r = 0; r < MR; ++r) {
          T::Stage(RowOf(a, p.tap + t, r) + p.k, p.count, stage + r * kRowBytes<T>, largest);
        }
      }
      if (T::LargestOf(largest) > most) return false;
    }
    p.corrects = kCorrects && has_wide && T::LargestOf(largest) > T::MostByte(0);
    return true;
  }

  // Stages bytes for D::Pairs that lie in a range of `most`, around their mean where sums of columns can undo the
  // shift; what others have beyond it is summed by D. Whether few groups of 4 k have such.
  template <class T>
  static bool StageBounded(const GemmArgs& a, Piece& p, unsigned most, typename T::Bytes& largest) {
    typename T::Range range(most);
    if (a.first_k && a.last_k) {
      const size_t elements = p.taps * (p.count & ~size_t{31}) * MR;
      uint64_t sum = 0;
      for (size_t t = 0; t < p.taps; ++t) {
        for (int r = 0; r < MR; ++r) sum += T::SumOf(RowOf(a, p.tap + t, r) + p.k, p.count);
      }
      if (elements) range.Center(static_cast<unsigned>(sum / elements));
    }
    p.shift = T::kShift - range.low;
    typename T::Bytes beyond = T::NoBytes();
    char* stage = static_cast<char*>(a.scratch);
    char* rest = BeyondOf(a)->rest[0];
    for (size_t t = 0; t < p.taps; ++t, stage += p.padded, rest += p.padded) {
      QUERN_UNROLL for (int r = 0; r < MR; ++r) {
        const size_t row = r * kRowBytes<T>;
        T::StageWithin(RowOf(a, p.tap + t, r) + p.k, p.count, range, stage + row, rest + row, beyond, largest);
      }
    }
    return T::LargestOf(beyond) == 0 || FindBeyond(a, p);
  }

  // Gathers the groups of which a row has anything beyond the range; false where they are too many: each costs as much
  // as four save.
  __attribute__((noinline)) static bool FindBeyond(const GemmArgs& a, Piece& p) {
    using T = typename D::Pairs;
    auto& beyond = *BeyondOf(a);
    const char* rest = beyond.rest[0];
    const size_t groups = (p.count + 3) / 4, share = groups * p.taps / kShareOfBeyond;
    const size_t most = share < beyond.kMost ? share : beyond.kMost;
    for (size_t t = 0; t < p.taps; ++t, rest += p.padded) {
      for (size_t g = 0; g < groups; g += T::kGroupsAtOnce) {
        unsigned found = T::template GroupsWithAny<MR>(rest + g * 4, kRowBytes<T>);
        if (groups - g < T::kGroupsAtOnce) found &= (1u << (groups - g)) - 1;
        for (; found; found &= found - 1) {
          if (p.beyond == most) return false;
          const size_t group = g + static_cast<size_t>(__builtin_ctz(found));
          beyond.at[p.beyond] = static_cast<uint32_t>(p.rhs_offset[t] + group * 4 * V::kUnit);
          for (int r = 0; r < MR; ++r) {
            D::StageSigned(rest + group * 4 + r * kRowBytes<T>, beyond.rows[r] + p.beyond * D::kGroupBytes);
          }
          ++p.beyond;
        }
      }
    }
    return true;
  }

  // The weights that are read after those of kAtOnce units from column n on and kPanelK of K from k on, without taps.
  static const char* After(const GemmArgs& a, size_t n, size_t k) {
    const auto at = [&](size_t unit, size_t from) {
      return static_cast<const char*>(a.rhs) + unit * a.rhs_unit_stride + from * V::kUnit;
    };
    if (n + kAtOnce * V::kUnit < a.n) return at(n / V::kUnit + kAtOnce, k);
    return k + kPanelK < a.k ? at(0, k + kPanelK) : at(NU, 0);
  }

  static void Run(const GemmArgs& a) {
    char* stage = static_cast<char*>(a.scratch);
    GemmArgs piece = a;
    if (a.first_k && a.last_k) {  // else the caller's accumulators serve between pieces
      piece.acc = stage + MR * kRowBytes<D>;
      piece.acc_row_stride = NU * V::kUnit * sizeof(int32_t);
    }
    const size_t taps = a.lhs_form == kLhsRows ? 1 : a.tap_count;
    for (size_t tap = 0, done = 0; tap < taps; tap += done) {
      for (size_t k = 0; k == 0 || k < a.k; k += kPanelK) {
        Piece p(a, tap, taps - tap, k);
        done = p.taps;
        piece.first_k = a.first_k && tap == 0 && k == 0;
        piece.last_k = a.last_k && tap + done == taps && k + p.count == a.k;
        if constexpr (HasPairs<D>) {
          if (StagePairs(piece, p)) {
            RunColumns<typename D::Pairs>(piece, p);
            continue;
          }
        }
        p.shift = D::kShift, p.beyond = 0;
        for (size_t t = 0; t < p.taps; ++t) {
          StageRows<D, MR>(a, tap + t, k, p.count, stage + t * (p.padded / 4 * D::kGroupBytes), kRowBytes<D>);
        }
        RunColumns<D>(piece, p);
      }
    }
  }
};

// How many of `units` fit into the registers of `most` (row, unit) pairs with m rows: an even split. A few rows read as
// many streams of weights, no more.
[[maybe_unused]] constexpr int kMostStreams = 4;
constexpr int UnitsAtOnce(int m, int units, int most) {
  int at_once = units < kMostStreams ? units : kMostStreams;
  while (at_once > 1 && (m * at_once > most || units % at_once)) --at_once;
  return at_once;
}

// The body for the call's m. `kFull`: units at a time where m is the most of the row.
template <class D, int MR, int NU, int kFull = NU, int kMost = MR * kFull>
void DispatchTileI8(const GemmArgs& a) {
  if constexpr (MR > 1) {
    if (a.m < static_cast<size_t>(MR)) return DispatchTileI8<D, MR - 1, NU, kFull, kMost>(a);
  }
  constexpr int kAtOnce = UnitsAtOnce(MR, NU, kMost);
  if constexpr (kAtOnce == NU) {
    RunTileI8<D, MR, NU>(a);
  } else if constexpr (kAtOnce == kMostStreams) {
    constexpr size_t kWidth = kAtOnce * D::V::kUnit;
    for (size_t n = 0; n < a.n; n += kWidth) RunTileI8<D, MR, kAtOnce>(ColumnsOf<typename D::V>(a, n, kAtOnce));
  } else {
    if (!HasPairs<D> && a.n <= kAtOnce * D::V::kUnit) return RunTileI8<D, MR, kAtOnce>(a);
    PanelI8<D, MR, NU, kAtOnce>::Run(a);
  }
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
                 .scratch_bytes = static_cast<uint32_t>(PanelScratch(mr, nr, group_bytes)),
                 .run = run};
  if (lhs == Format::kI8d) {
    row.lhs_source = Format::kF32;
    row.lhs_forms = kLhsRows;
    row.lhs_layout = kI8dRows;
    row.layouts[2] = kU4Channels16;  // through the block transform to int8
  }
  return row;
}

// A row of tiles of MR rows whose dot products have a form for pairs beside that of kGroupBytes.
template <int MR, size_t kGroupBytes>
[[maybe_unused]] constexpr GemmKernel WithPairs(GemmKernel row) {
  row.uses_pairs = row.uses_sums = true;
  row.scratch_bytes += sizeof(BeyondPairs<MR, kGroupBytes>);
  return row;
}

}  // namespace
}  // namespace quern::ukernel
