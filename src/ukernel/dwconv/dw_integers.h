// int32 sums of bytes for the depthwise tile, and the descriptors of its rows. For kernel files only.
#pragma once

#include "ukernel/dwconv/tile_dw.h"
#include "ukernel/gemm/epilogue_i32.h"

namespace quern::ukernel {
namespace {

// The D of TileDw from integer vector traits and Dot, which has
//   Widen<kSigned>(p), WidenPart<kSigned>(p, lanes, mask)   bytes as int32 lanes
//   Weights(p)                                              the packed ones, as MulAdd wants them
//   MulAdd(x, w, sum)                                       of numbers that fit 16 bits
template <class Vector, class Dot, bool kSigned>
struct DwIntegers {
  using V = Vector;
  using Sum = typename V::Int;
  template <int P>
  using Tile = TileEpilogueI32<V, P, 1>;
  static constexpr Format kAcc = Format::kI32;
  static constexpr size_t kBytes = 1;
  static constexpr bool kUsualPadding = false;
  static constexpr bool kFused = false;
  static constexpr bool kCheapParts = V::kCheapMasks;
  struct Context {
    explicit Context(const DwConvArgs& a)
        : zero(V::Set1Int(-a.src_zero_point)), ending(a.ops, a.op_count, a.n0), n0(a.n0) {
      for (char& x : pad) x = static_cast<char>(a.src_zero_point);
    }
    Sum zero;  // added: less the zero point
    ByteEnding ending;
    size_t n0;
    alignas(64) char pad[64];
  };

  static Sum Zero() { return V::ZeroInt(); }
  static Sum LoadWeights(const char* p) { return Dot::Weights(p); }
  static Sum Load(const Context& c, const char* p) { return V::AddInt(Dot::template Widen<kSigned>(p), c.zero); }
  static Sum LoadPart(const Context& c, const char* p, size_t lanes, typename V::Mask mask) {
    return V::AddInt(Dot::template WidenPart<kSigned>(p, lanes, mask), c.zero);
  }
  static Sum MulAdd(Sum x, Sum w, Sum sum) { return Dot::MulAdd(x, w, sum); }
  template <int P>
  QUERN_INLINE static void Finish(const DwConvArgs& a, const DwTile& tile, typename Tile<P>::IntAcc& acc,
                                  const typename Tile<P>::Tail& tail) {
    if constexpr (HasByteRows<V>) {
      const Context& c = *static_cast<const Context*>(tile.context);
      if (c.ending.serves) {
        const size_t n = tile.n0 - c.n0;
        QUERN_UNROLL for (int v = 0; v < Tile<P>::kVectors; ++v) {
          const Sum added = Tile<P>::ColumnSum(c.ending, n, tile.channels, v);
          QUERN_UNROLL for (int r = 0; r < P; ++r) acc[r][v] = V::AddInt(acc[r][v], added);
        }
        return Tile<P>::FinishBytes(c.ending, n, tile.channels, acc, tile.dst, static_cast<size_t>(a.dst_pixel_stride));
      }
    }
    GemmArgs e;
    e.n = tile.channels;
    e.m0 = tile.m0;
    e.n0 = tile.n0;
    e.ops = a.ops;
    e.op_count = a.op_count;
    e.dst = tile.dst;
    e.dst_row_stride = static_cast<size_t>(a.dst_pixel_stride);
    Tile<P>::Finish(e, acc, tail);
  }
};

constexpr DwConvKernel DwIntegerRow(const Isa& isa, Format src, uint16_t pixels, Engine engine, float cycles_per_tap,
                                    float cycles_per_pixel, DwConvRun run) {
  return {.isa = isa,
          .src = src,
          .weights = Format::kI8,
          .acc = Format::kI32,
          .lanes = 16,
          .pixels = pixels,
          .fused = kFusedI32,
          .engine = engine,
          .cycles_per_tap = cycles_per_tap,
          .cycles_per_pixel = cycles_per_pixel,
          .run = run};
}

}  // namespace
}  // namespace quern::ukernel
