// The depthwise register tile: one body for every vector ISA. For kernel files only: everything has internal linkage.
#pragma once

#include "ukernel/dwconv.h"
#include "ukernel/gemm/epilogue_f32.h"

namespace quern::ukernel {
namespace {

// Where a tile lies: neighbouring pixels of one output row, one unit of channels.
struct DwTile {
  const char* src;      // input column 0 of kernel row `first`, at the tile's first channel
  ptrdiff_t column;     // input column of the first pixel's first tap; negative where padding is before it
  size_t first, last;   // rows of the kernel that lie inside the image: [first, last)
  const char* weights;  // of the unit
  void* dst;            // the first pixel, at the tile's first channel
  size_t m0, n0;        // its place for the operands of the epilogue
  size_t channels;      // at most a unit
  const void* context;  // D::Context of the call
};

// float32 sums of inputs that D::Load gives as float32. The D of a tile (here from V, the vector traits of
// TileEpilogue, and Loads) has
//   V, Tile<P>              the epilogue of P pixels by a unit; its Sum and Sums<P>
//   kAcc, kBytes            the sums' format; bytes of an element of the input
//   Context                 made of a call's arguments; `pad`: a unit in the place of a pixel that lies in the padding
//   Load, LoadPart, LoadMask   V::kLanes channels, fewer of them, or those of a mask (where masks are cheap)
//   LoadWeights, MulAdd, Zero, Finish
template <class Vector, class Loads>
struct DwFloats {
  using V = Vector;
  using Sum = typename V::Reg;
  template <int P>
  using Tile = TileEpilogue<V, P, 1>;
  static constexpr Format kAcc = Format::kF32;
  static constexpr size_t kBytes = Loads::kBytes;
  struct Context {
    explicit Context(const DwConvArgs&) {}
    alignas(64) char pad[16 * sizeof(float)] = {};
  };

  static Sum Zero() { return V::Zero(); }
  static Sum LoadWeights(const char* p) { return V::Load(reinterpret_cast<const float*>(p)); }
  static Sum Load(const Context&, const char* p) { return Loads::Load(p); }
  static Sum LoadPart(const Context&, const char* p, size_t lanes, typename V::Mask mask) {
    return Loads::LoadPart(p, lanes, mask);
  }
  static Sum MulAdd(Sum x, Sum w, Sum sum) { return V::Fma(x, w, sum); }
  template <int P>
  QUERN_INLINE static void Finish(const DwConvArgs& a, const DwTile& tile, typename Tile<P>::Acc& acc,
                                  const typename Tile<P>::Tail& tail) {
    GemmArgs e;
    e.m0 = tile.m0;
    e.n0 = tile.n0;
    Tile<P>::Apply(e, a.ops, a.ops + a.op_count, acc, tail);
    Tile<P>::Write(tile.dst, static_cast<size_t>(a.dst_pixel_stride), acc, tail);
  }
};

// float32 inputs.
template <class V>
struct DwLoadsF32 {
  static constexpr size_t kBytes = 4;
  static typename V::Reg Load(const char* p) { return V::Load(reinterpret_cast<const float*>(p)); }
  static typename V::Reg LoadPart(const char* p, size_t, typename V::Mask mask) {
    return V::LoadMask(reinterpret_cast<const float*>(p), mask);
  }
};

// P neighbouring pixels of one unit of channels. Whatever the form, sums run over kernel rows, then columns.
template <class D, int P>
struct TileDw : D::template Tile<P> {
  using V = typename D::V;
  using Base = typename D::template Tile<P>;
  using Context = typename D::Context;
  using Base::kVectors;
  using Sum = typename D::Sum;
  using Sums = Sum[P][kVectors];
  using typename Base::Tail;

  static constexpr size_t kVectorBytes = V::kLanes * D::kBytes;
  static constexpr size_t kWeightVector = V::kLanes * 4, kWeightUnit = V::kUnit * 4;

  static Sum LoadN(const Context& c, const char* p, int v, const Tail& t, size_t channels) {
    return v == t.vectors - 1
               ? D::LoadPart(c, p + v * kVectorBytes, channels - static_cast<size_t>(v) * V::kLanes, t.mask)
           : Base::In(t, v) ? D::Load(c, p + v * kVectorBytes)
                            : D::Zero();
  }

  // Any kernel: tap by tap, each with its own loads.
  static void RunTaps(const DwConvArgs& a, const DwTile& tile) {
    const Context& context = *static_cast<const Context*>(tile.context);
    const Tail tail = Base::MakeTail(tile.channels);
    const ptrdiff_t stride = static_cast<ptrdiff_t>(a.stride_w), width = static_cast<ptrdiff_t>(a.in_w);
    Sums acc;
    Base::Each([&](int r, int v) { acc[r][v] = D::Zero(); });
    const char* w = tile.weights + tile.first * a.kernel_w * kWeightUnit;
    const char* line = tile.src;
    for (size_t i = tile.first; i < tile.last; ++i, line += static_cast<ptrdiff_t>(a.dilation_h) * a.src_row_stride) {
      for (size_t j = 0; j < a.kernel_w; ++j, w += kWeightUnit) {
        const ptrdiff_t shift = static_cast<ptrdiff_t>(j * a.dilation_w), column = tile.column + shift;
        const bool inside = column >= 0 && column + (P - 1) * stride < width;
        QUERN_UNROLL for (int r = 0; r < P; ++r) {
          if (!inside && (column + r * stride < 0 || column + r * stride >= width)) continue;
          const char* x = line + (column + r * stride) * a.src_pixel_stride;
          QUERN_UNROLL for (int v = 0; v < kVectors; ++v) {
            acc[r][v] =
                D::MulAdd(LoadN(context, x, v, tail, tile.channels), D::LoadWeights(w + v * kWeightVector), acc[r][v]);
          }
        }
      }
    }
    D::template Finish<P>(a, tile, acc, tail);
  }

  // kKernel columns without dilation, outputs kStride columns apart: each input column is loaded once and goes into all
  // sums that it is part of. Padding is at most kKernel - 1 columns at either side, so only the outer columns of a tile
  // can lie in it. Without cheap masks, only whole units.
  template <int kKernel, int kStride>
  static void RunColumns(const DwConvArgs& a, const DwTile& tile) {
    constexpr int kColumns = (P - 1) * kStride + kKernel;
    const Context& context = *static_cast<const Context*>(tile.context);
    Sums acc;
    Base::Each([&](int r, int v) { acc[r][v] = D::Zero(); });
    const ptrdiff_t width = static_cast<ptrdiff_t>(a.in_w);
    [[maybe_unused]] const auto mask = Base::MakeTail(tile.channels).mask;
    const char* w = tile.weights + tile.first * kKernel * kWeightUnit;
    const char* line = tile.src + tile.column * a.src_pixel_stride;
    for (size_t i = tile.first; i < tile.last; ++i) {
      QUERN_UNROLL for (int v = 0; v < kVectors; ++v) {
        Sum b[kKernel];
        QUERN_UNROLL for (int j = 0; j < kKernel; ++j) b[j] = D::LoadWeights(w + j * kWeightUnit + v * kWeightVector);
        QUERN_UNROLL for (int c = 0; c < kColumns; ++c) {
          const char* at = line + c * a.src_pixel_stride;
          const bool in =
              (c >= kKernel - 1 || tile.column + c >= 0) && (c <= (P - 1) * kStride || tile.column + c < width);
          Sum x;
          if constexpr (V::kCheapMasks) {
            if (!in) continue;
            x = D::LoadPart(context, at, tile.channels, mask);
          } else {  // with a branch, compilers keep sums in memory where registers are few
            x = D::Load(context, (in ? at : context.pad) + v * kVectorBytes);
          }
          QUERN_UNROLL for (int r = 0; r < P; ++r) {
            const int j = c - r * kStride;
            if (j >= 0 && j < kKernel) acc[r][v] = D::MulAdd(x, b[j], acc[r][v]);
          }
        }
      }
      w += kKernel * kWeightUnit;
      line += static_cast<ptrdiff_t>(a.dilation_h) * a.src_row_stride;
    }
    D::template Finish<P>(a, tile, acc, Base::MakeTail(tile.channels));
  }
};

using DwTileRun = void (*)(const DwConvArgs&, const DwTile&);

// The bodies of one form for 1 to P pixels.
struct DwTaps {
  template <class D, int P>
  static void Run(const DwConvArgs& a, const DwTile& tile) {
    TileDw<D, P>::RunTaps(a, tile);
  }
};
template <int kKernel, int kStride>
struct DwColumns {
  template <class D, int P>
  static void Run(const DwConvArgs& a, const DwTile& tile) {
    // Few columns are shared, or (without masks: on CPUs with few registers) more values are kept than registers.
    if constexpr (P < kKernel - 1 || (kStride > 1 && !D::V::kCheapMasks)) {
      TileDw<D, P>::RunTaps(a, tile);
    } else {
      TileDw<D, P>::template RunColumns<kKernel, kStride>(a, tile);
    }
  }
};

template <class Form, class D, int P>
DwTileRun BodyFor(size_t pixels) {
  if constexpr (P > 1) {
    if (pixels < static_cast<size_t>(P)) return BodyFor<Form, D, P - 1>(pixels);
  }
  return Form::template Run<D, P>;
}

// The body for `pixels` (at most P) neighbouring pixels and this many channels of a unit.
template <class D, int P>
DwTileRun BodyFor(const DwConvArgs& a, size_t pixels, size_t channels) {
  using V = typename D::V;
  const ptrdiff_t reach = static_cast<ptrdiff_t>(a.kernel_w) - 1;
  const bool columns = a.dilation_w == 1 && a.left >= -reach &&
                       a.left + static_cast<ptrdiff_t>((a.pixels - 1) * a.stride_w) < static_cast<ptrdiff_t>(a.in_w) &&
                       (V::kCheapMasks || channels == static_cast<size_t>(V::kUnit));
  if (columns && a.kernel_w == 3 && a.stride_w == 1) return BodyFor<DwColumns<3, 1>, D, P>(pixels);
  if (columns && a.kernel_w == 3 && a.stride_w == 2) return BodyFor<DwColumns<3, 2>, D, P>(pixels);
  if (columns && a.kernel_w == 5 && a.stride_w == 1) return BodyFor<DwColumns<5, 1>, D, P>(pixels);
  if (columns && a.kernel_w == 5 && a.stride_w == 2) return BodyFor<DwColumns<5, 2>, D, P>(pixels);
  return BodyFor<DwTaps, D, P>(pixels);
}

// One output row: where it begins, and the rows of the kernel that lie inside the image.
struct DwLine {
  const char* src;  // input column 0 of kernel row `first`
  char* dst;
  size_t first, last;
  size_t m0;
};

inline DwLine DwLineAt(const DwConvArgs& a, size_t y) {
  const ptrdiff_t dilation = static_cast<ptrdiff_t>(a.dilation_h), height = static_cast<ptrdiff_t>(a.in_h);
  const ptrdiff_t top = a.top + static_cast<ptrdiff_t>(y * a.stride_h);
  DwLine line;
  line.first = top >= 0 ? 0 : static_cast<size_t>((dilation - 1 - top) / dilation);
  line.last = top >= height ? 0 : static_cast<size_t>((height - 1 - top) / dilation + 1);
  if (line.last > a.kernel_h) line.last = a.kernel_h;
  if (line.first > line.last) line.first = line.last;
  line.src = static_cast<const char*>(a.src) + (top + static_cast<ptrdiff_t>(line.first) * dilation) * a.src_row_stride;
  line.dst = static_cast<char*>(a.dst) + static_cast<ptrdiff_t>(y) * a.dst_row_stride;
  line.m0 = a.m0 + y * a.pixels;
  return line;
}

constexpr size_t kDwMostRows = 16;

// Rows of one unit whose input stays in the first-level cache until the next row needs it; at most kDwMostRows.
inline size_t DwRowsTogether(const DwConvArgs& a, size_t unit_bytes) {
  constexpr size_t kCacheBytes = 24576;
  const size_t reach = (a.kernel_h - 1) * a.dilation_h + 1, lines = kCacheBytes / (a.in_w * unit_bytes + 1);
  const size_t rows = lines <= reach ? 1 : (lines - reach) / a.stride_h + 1;
  return rows < kDwMostRows ? rows : kDwMostRows;
}

template <class D, int P>
void RunDw(const DwConvArgs& a) {
  constexpr size_t kUnit = D::V::kUnit;
  if (a.rows == 0 || a.pixels == 0) return;
  const typename D::Context context(a);
  const size_t dst_bytes = FormatBytes(EpilogueFormat(D::kAcc, a.ops, a.op_count));
  // Tiles of even size: the first `larger` have `most` pixels, the others one less.
  const size_t tiles = (a.pixels + P - 1) / P, most = (a.pixels + tiles - 1) / tiles;
  const size_t larger = a.pixels - tiles * (most - 1), tail = a.channels % kUnit;
  const DwTileRun whole[] = {BodyFor<D, P>(a, most, kUnit), BodyFor<D, P>(a, most - (most > 1), kUnit)};
  const DwTileRun partly[] = {BodyFor<D, P>(a, most, tail), BodyFor<D, P>(a, most - (most > 1), tail)};
  const auto run = [&](const DwLine& line, size_t channel, size_t i) {
    const size_t x = i * most - (i > larger ? i - larger : 0), left = a.channels - channel;
    DwTile tile;
    tile.channels = left < kUnit ? left : kUnit;
    tile.context = &context;
    tile.weights = static_cast<const char*>(a.weights) + channel * a.kernel_h * a.kernel_w * 4;
    tile.first = line.first;
    tile.last = line.last;
    tile.column = a.left + static_cast<ptrdiff_t>(x * a.stride_w);
    tile.src = line.src + channel * D::kBytes;
    tile.dst = line.dst + static_cast<ptrdiff_t>(x) * a.dst_pixel_stride + channel * dst_bytes;
    tile.m0 = line.m0 + x;
    tile.n0 = a.n0 + channel;
    (left < kUnit ? partly : whole)[i >= larger](a, tile);
  };
  const size_t together = DwRowsTogether(a, kUnit * D::kBytes);
  for (size_t y = 0; y < a.rows; y += together) {
    if (together == 1) {  // long rows: through memory in its order
      const DwLine line = DwLineAt(a, y);
      for (size_t i = 0; i < tiles; ++i) {
        for (size_t channel = 0; channel < a.channels; channel += kUnit) run(line, channel, i);
      }
      continue;
    }
    const size_t rows = a.rows - y < together ? a.rows - y : together;
    DwLine lines[kDwMostRows];
    for (size_t r = 0; r < rows; ++r) lines[r] = DwLineAt(a, y + r);
    for (size_t channel = 0; channel < a.channels; channel += kUnit) {
      for (size_t r = 0; r < rows; ++r) {
        for (size_t i = 0; i < tiles; ++i) run(lines[r], channel, i);
      }
    }
  }
}

}  // namespace
}  // namespace quern::ukernel
