// Convolution over groups of few channels, on the depthwise tile: of each input channel of a group in turn, its lanes
// of a result vector take the one number. No lane sees another group, so what is infinite or no number stays in its
// own. For kernel files only: everything has internal linkage.
#pragma once

#include "ukernel/dwconv/tile_dw.h"

namespace quern::ukernel {
namespace {

// The D of grouped tiles, of float32. Lanes has
//   Index, LoadIndex(p)   which lane goes to each lane, from kLanes int32 numbers
//   Next(i)               i + 1
//   Spread(x, i)          x[i] of each lane
template <class Vector, class Lanes>
struct GroupedFloats : DwFloats<Vector, DwLoadsF32<Vector>> {
  using Base = DwFloats<Vector, DwLoadsF32<Vector>>;
  using Index = typename Lanes::Index;
  struct Context : Base::Context {
    explicit Context(const DwConvArgs& a) : Base::Context(a) {
      for (size_t i = 0; i < 16; ++i) first[i] = static_cast<int32_t>(i / a.group * a.group);
    }
    alignas(64) int32_t first[16];  // the first lane of each lane's group
  };
  static Index First(const Context& c) { return Lanes::LoadIndex(c.first); }
  static Index Next(Index i) { return Lanes::Next(i); }
  static typename Vector::Reg Spread(typename Vector::Reg x, Index i) { return Lanes::Spread(x, i); }
};

enum class GroupedFrom : uint8_t {
  kUnit,      // whole units: lanes of a vector
  kPart,      // the same by a mask: a unit has fewer channels than lanes
  kBroadcast  // one number for a vector: groups of a vector or more
};

template <class D, int P>
struct TileGrouped : TileDw<D, P> {
  using V = typename D::V;
  using Base = TileDw<D, P>;
  using Base::kVectorBytes;
  using Base::kVectors;
  using Base::kWeightUnit;
  using Base::kWeightVector;
  using typename Base::Context;
  using typename Base::Part;
  using typename Base::Sum;
  using typename Base::Sums;
  using typename Base::Tail;
  using Index = typename D::Index;

  // From a unit to the numbers that vector v takes of input channel g of its group: where they are broadcast from.
  static ptrdiff_t BroadcastAt(const DwConvArgs& a, int v, size_t g) {
    return static_cast<ptrdiff_t>((static_cast<size_t>(v) * V::kLanes / a.group * a.group + g) * D::kBytes);
  }

  // Any kernel: tap by tap.
  template <GroupedFrom kFrom>
  QUERN_INLINE static void RunTaps(const DwConvArgs& a, const DwTile& tile) {
    const Context& context = *static_cast<const Context*>(tile.context);
    const Tail tail = Base::MakeTail(tile.channels);
    const ptrdiff_t stride = static_cast<ptrdiff_t>(a.stride_w), width = static_cast<ptrdiff_t>(a.in_w);
    Sums acc;
    Base::Each([&](int r, int v) { acc[r][v] = D::Zero(); });
    const char* w = tile.weights + tile.first * a.group * a.kernel_w * kWeightUnit;
    const char* line = tile.src;
    for (size_t i = tile.first; i < tile.last; ++i, line += static_cast<ptrdiff_t>(a.dilation_h) * a.src_row_stride) {
      Index index = D::First(context);
      for (size_t g = 0; g < a.group; ++g, index = D::Next(index)) {
        for (size_t j = 0; j < a.kernel_w; ++j, w += kWeightUnit) {
          const ptrdiff_t shift = static_cast<ptrdiff_t>(j * a.dilation_w), column = tile.column + shift;
          const bool inside = column >= 0 && column + (P - 1) * stride < width;
          Sum b[kVectors];
          QUERN_UNROLL for (int v = 0; v < kVectors; ++v) b[v] = D::LoadWeights(w + v * kWeightVector);
          QUERN_UNROLL for (int r = 0; r < P; ++r) {
            if (!inside && (column + r * stride < 0 || column + r * stride >= width)) continue;
            const char* x = line + (column + r * stride) * a.src_pixel_stride;
            QUERN_UNROLL for (int v = 0; v < kVectors; ++v) {
              if (!Base::In(tail, v)) continue;
              const Sum y = kFrom == GroupedFrom::kBroadcast
                                ? V::Broadcast(reinterpret_cast<const float*>(x + BroadcastAt(a, v, g)))
                                : D::Spread(Base::LoadN(context, x, v, tail, tile.channels), index);
              acc[r][v] = D::MulAdd(y, b[v], acc[r][v]);
            }
          }
        }
      }
    }
    D::template Finish<P>(a, tile, acc, tail);
  }

  // As of TileDw: each input column is loaded, and its lanes are spread, once for each input channel of a group.
  template <int kKernel, int kStride, GroupedFrom kFrom>
  QUERN_INLINE static void RunColumns(const DwConvArgs& a, const DwTile& tile) {
    constexpr int kColumns = (P - 1) * kStride + kKernel;
    const Context& context = *static_cast<const Context*>(tile.context);
    Sums acc;
    Base::Each([&](int r, int v) { acc[r][v] = D::Zero(); });
    // One vector of the unit after the other: fewer sums than registers are in use at a time.
    QUERN_UNROLL for (int v = 0; v < kVectors; ++v) {
      const char* w = tile.weights + tile.first * a.group * kKernel * kWeightUnit + v * kWeightVector;
      const char* line = tile.src + tile.column * a.src_pixel_stride;
      line += kFrom == GroupedFrom::kBroadcast ? BroadcastAt(a, v, 0) : v * static_cast<ptrdiff_t>(kVectorBytes);
      const Part part(tile.channels, v);
      for (size_t i = tile.first; i < (part.lanes ? tile.last : tile.first); ++i) {
        Index index = D::First(context);
        const char* channel = line;
        for (size_t g = 0; g < a.group; ++g, w += kKernel * kWeightUnit) {
          Sum b[kKernel];
          QUERN_UNROLL for (int j = 0; j < kKernel; ++j) b[j] = D::LoadWeights(w + j * kWeightUnit);
          QUERN_UNROLL for (int c = 0; c < kColumns; ++c) {
            const bool in = (c >= kKernel - 1 || tile.column + c >= 0) &&
                            (c <= (P - 1) * kStride || tile.column + c < static_cast<ptrdiff_t>(a.in_w));
            const char* at = in ? channel + c * a.src_pixel_stride : context.pad;
            Sum x;
            if constexpr (kFrom == GroupedFrom::kBroadcast) {
              x = V::Broadcast(reinterpret_cast<const float*>(at));
            } else {
              x = kFrom == GroupedFrom::kPart ? D::LoadPart(context, at, part.lanes, part.mask) : D::Load(context, at);
              x = D::Spread(x, index);
            }
            QUERN_UNROLL for (int r = 0; r < P; ++r) {
              const int j = c - r * kStride;
              if (j >= 0 && j < kKernel) acc[r][v] = D::MulAdd(x, b[j], acc[r][v]);
            }
            if constexpr (kVectors > 1) asm volatile("" ::: "memory");  // no columns ahead
          }
          index = D::Next(index);
          // All g read the same columns, so compilers keep them: not more of them than there are registers for.
          if constexpr (kColumns + P + kKernel > 29) asm volatile("" ::: "memory");
          if constexpr (kFrom == GroupedFrom::kBroadcast) channel += D::kBytes;
        }
        line += static_cast<ptrdiff_t>(a.dilation_h) * a.src_row_stride;
      }
    }
    D::template Finish<P>(a, tile, acc, Base::MakeTail(tile.channels));
  }

  // For EachDwTile.
  template <GroupedFrom kFrom>
  struct Taps {
    QUERN_INLINE static void Run(const DwConvArgs& a, const DwTile& tile) { RunTaps<kFrom>(a, tile); }
  };
  template <int kKernel, int kStride, GroupedFrom kFrom>
  struct Columns {
    QUERN_INLINE static void Run(const DwConvArgs& a, const DwTile& tile) {
      RunColumns<kKernel, kStride, kFrom>(a, tile);
    }
  };
};

template <class V>
bool IsBroadcast(const DwConvArgs& a) {
  return a.group % V::kLanes == 0;
}

// The bodies of one form, as of depthwise convolution.
struct GroupedTaps {
  template <class D>
  static constexpr int kMostPixels = DwTaps::kMostPixels<D>;
  template <class D, int P>
  static void Run(const DwConvArgs& a, const DwTiles& tiles) {
    using Tile = TileGrouped<D, P>;
    if (IsBroadcast<typename D::V>(a)) {
      return EachDwTile<D, P, typename Tile::template Taps<GroupedFrom::kBroadcast>>(a, tiles);
    }
    EachDwTile<D, P, typename Tile::template Taps<GroupedFrom::kUnit>>(a, tiles);
  }
};
template <int kKernel, int kStride>
struct GroupedColumns {
  template <class D>
  static constexpr int kMostPixels = DwColumns<kKernel, kStride>::template kMostPixels<D>;
  template <class D, int P>
  static void Run(const DwConvArgs& a, const DwTiles& tiles) {
    using V = typename D::V;
    using Tile = TileGrouped<D, P>;
    if constexpr (P < kKernel - 1) {  // few columns are shared
      return GroupedTaps::Run<D, P>(a, tiles);
    } else {
      if (IsBroadcast<V>(a)) {
        return EachDwTile<D, P, typename Tile::template Columns<kKernel, kStride, GroupedFrom::kBroadcast>>(a, tiles);
      }
      if constexpr (D::kCheapParts) {
        if (tiles.channels % V::kLanes != 0) {
          return EachDwTile<D, P, typename Tile::template Columns<kKernel, kStride, GroupedFrom::kPart>>(a, tiles);
        }
      }
      EachDwTile<D, P, typename Tile::template Columns<kKernel, kStride, GroupedFrom::kUnit>>(a, tiles);
    }
  }
};

struct GroupedForms {
  template <class V>
  static size_t Unit(const DwConvArgs& a) {
    return V::kUnit / a.group * a.group;
  }
  template <class D, class F>
  static auto With(const DwConvArgs& a, size_t channels, F f) {
    if (ColumnsServe(a) && (D::kCheapParts || channels % D::V::kLanes == 0)) {
      if (a.kernel_w == 3 && a.stride_w == 1) return f(GroupedColumns<3, 1>());
      if (a.kernel_w == 3 && a.stride_w == 2) return f(GroupedColumns<3, 2>());
    }
    return f(GroupedTaps());
  }
};

template <class Vector, class Lanes, int P>
void RunGrouped(const DwConvArgs& a) {
  RunDw<GroupedFloats<Vector, Lanes>, P, GroupedForms>(a);
}

// The descriptor of a grouped row with vectors of so many lanes.
constexpr DwConvKernel GroupedRow(const Isa& isa, uint16_t lanes, uint16_t vector, uint16_t pixels, Engine engine,
                                  float cycles_per_tap, float cycles_per_pixel, DwConvRun run) {
  DwConvKernel row = DwFloatRow(isa, Format::kF32, lanes, pixels, engine, cycles_per_tap, cycles_per_pixel, run);
  row.group_vector = vector;
  return row;
}

}  // namespace
}  // namespace quern::ukernel
