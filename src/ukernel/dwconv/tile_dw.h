// The depthwise register tile: one body for every vector ISA. For kernel files only: everything has internal linkage.
#pragma once

#include "ukernel/dwconv.h"
#include "ukernel/gemm/epilogue_f32.h"

namespace quern::ukernel {
namespace {

// Where a tile lies: neighbouring pixels of one output row, one unit of channels.
struct DwTile {
  const char* src;       // input column 0 of kernel row `first`, at the tile's first channel
  ptrdiff_t column;      // input column of the first pixel's first tap; negative where padding is before it
  size_t first, last;    // rows of the kernel that lie inside the image: [first, last)
  const float* weights;  // of the unit
  void* dst;             // the first pixel, at the tile's first channel
  size_t m0, n0;         // its place for the operands of the epilogue
  size_t channels;       // at most a unit
};

// What is read in the place of a pixel that lies in the padding.
alignas(64) static constexpr float kDwZeros[16] = {};

// P neighbouring pixels of one unit of channels; V has what TileEpilogue needs and Fma. Whatever the form, sums run
// over kernel rows, then columns.
template <class V, int P>
struct TileDw : TileEpilogue<V, P, 1> {
  using Base = TileEpilogue<V, P, 1>;
  using Base::kVectors;
  using typename Base::Acc;
  using typename Base::Reg;
  using typename Base::Tail;

  QUERN_INLINE static void Finish(const DwConvArgs& a, const DwTile& tile, Acc& acc, const Tail& tail) {
    GemmArgs e;
    e.m0 = tile.m0;
    e.n0 = tile.n0;
    Base::Apply(e, a.ops, a.ops + a.op_count, acc, tail);
    Base::Write(tile.dst, static_cast<size_t>(a.dst_pixel_stride), acc, tail);
  }

  // Any kernel: tap by tap, each with its own loads.
  static void RunTaps(const DwConvArgs& a, const DwTile& tile) {
    const Tail tail = Base::MakeTail(tile.channels);
    const ptrdiff_t stride = static_cast<ptrdiff_t>(a.stride_w), width = static_cast<ptrdiff_t>(a.in_w);
    Acc acc;
    Base::Each([&](int r, int v) { acc[r][v] = V::Zero(); });
    const float* w = tile.weights + tile.first * a.kernel_w * V::kUnit;
    const char* line = tile.src;
    for (size_t i = tile.first; i < tile.last; ++i, line += static_cast<ptrdiff_t>(a.dilation_h) * a.src_row_stride) {
      for (size_t j = 0; j < a.kernel_w; ++j, w += V::kUnit) {
        const ptrdiff_t shift = static_cast<ptrdiff_t>(j * a.dilation_w), column = tile.column + shift;
        const bool inside = column >= 0 && column + (P - 1) * stride < width;
        QUERN_UNROLL for (int r = 0; r < P; ++r) {
          if (!inside && (column + r * stride < 0 || column + r * stride >= width)) continue;
          const float* x = reinterpret_cast<const float*>(line + (column + r * stride) * a.src_pixel_stride);
          QUERN_UNROLL for (int v = 0; v < kVectors; ++v) {
            acc[r][v] = V::Fma(Base::LoadN(x, v, tail), V::Load(w + v * V::kLanes), acc[r][v]);
          }
        }
      }
    }
    Finish(a, tile, acc, tail);
  }

  // kKernel columns without dilation, outputs kStride columns apart: each input column is loaded once and goes into all
  // sums that it is part of. Padding is at most kKernel - 1 columns at either side, so only the outer columns of a tile
  // can lie in it. Without cheap masks, only whole units.
  template <int kKernel, int kStride>
  static void RunColumns(const DwConvArgs& a, const DwTile& tile) {
    constexpr int kColumns = (P - 1) * kStride + kKernel;
    Acc acc;
    Base::Each([&](int r, int v) { acc[r][v] = V::Zero(); });
    const ptrdiff_t width = static_cast<ptrdiff_t>(a.in_w);
    [[maybe_unused]] const char* const zeros = reinterpret_cast<const char*>(kDwZeros);
    [[maybe_unused]] const auto mask = Base::MakeTail(tile.channels).mask;
    const float* w = tile.weights + tile.first * kKernel * V::kUnit;
    const char* line = tile.src + tile.column * a.src_pixel_stride;
    for (size_t i = tile.first; i < tile.last; ++i) {
      QUERN_UNROLL for (int v = 0; v < kVectors; ++v) {
        Reg b[kKernel];
        QUERN_UNROLL for (int j = 0; j < kKernel; ++j) b[j] = V::Load(w + j * V::kUnit + v * V::kLanes);
        QUERN_UNROLL for (int c = 0; c < kColumns; ++c) {
          const char* at = line + c * a.src_pixel_stride;
          const bool in =
              (c >= kKernel - 1 || tile.column + c >= 0) && (c <= (P - 1) * kStride || tile.column + c < width);
          Reg x;
          if constexpr (V::kCheapMasks) {
            if (!in) continue;
            x = V::LoadMask(reinterpret_cast<const float*>(at), mask);
          } else {  // with a branch, compilers keep sums in memory where registers are few
            x = V::Load(reinterpret_cast<const float*>(in ? at : zeros) + v * V::kLanes);
          }
          QUERN_UNROLL for (int r = 0; r < P; ++r) {
            const int j = c - r * kStride;
            if (j >= 0 && j < kKernel) acc[r][v] = V::Fma(x, b[j], acc[r][v]);
          }
        }
      }
      w += kKernel * V::kUnit;
      line += static_cast<ptrdiff_t>(a.dilation_h) * a.src_row_stride;
    }
    Finish(a, tile, acc, Base::MakeTail(tile.channels));
  }
};

using DwTileRun = void (*)(const DwConvArgs&, const DwTile&);

// The bodies of one form for 1 to P pixels.
struct DwTaps {
  template <class V, int P>
  static void Run(const DwConvArgs& a, const DwTile& tile) {
    TileDw<V, P>::RunTaps(a, tile);
  }
};
template <int kKernel, int kStride>
struct DwColumns {
  template <class V, int P>
  static void Run(const DwConvArgs& a, const DwTile& tile) {
    // Few columns are shared, or (without masks: on CPUs with few registers) more values are kept than registers.
    if constexpr (P < kKernel - 1 || (kStride > 1 && !V::kCheapMasks)) {
      TileDw<V, P>::RunTaps(a, tile);
    } else {
      TileDw<V, P>::template RunColumns<kKernel, kStride>(a, tile);
    }
  }
};

template <class Form, class V, int P>
DwTileRun BodyFor(size_t pixels) {
  if constexpr (P > 1) {
    if (pixels < static_cast<size_t>(P)) return BodyFor<Form, V, P - 1>(pixels);
  }
  return Form::template Run<V, P>;
}

// The body for `pixels` (at most P) neighbouring pixels and this many channels of a unit.
template <class V, int P>
DwTileRun BodyFor(const DwConvArgs& a, size_t pixels, size_t channels) {
  const ptrdiff_t reach = static_cast<ptrdiff_t>(a.kernel_w) - 1;
  const bool columns = a.dilation_w == 1 && a.left >= -reach &&
                       a.left + static_cast<ptrdiff_t>((a.pixels - 1) * a.stride_w) < static_cast<ptrdiff_t>(a.in_w) &&
                       (V::kCheapMasks || channels == static_cast<size_t>(V::kUnit));
  if (columns && a.kernel_w == 3 && a.stride_w == 1) return BodyFor<DwColumns<3, 1>, V, P>(pixels);
  if (columns && a.kernel_w == 3 && a.stride_w == 2) return BodyFor<DwColumns<3, 2>, V, P>(pixels);
  if (columns && a.kernel_w == 5 && a.stride_w == 1) return BodyFor<DwColumns<5, 1>, V, P>(pixels);
  if (columns && a.kernel_w == 5 && a.stride_w == 2) return BodyFor<DwColumns<5, 2>, V, P>(pixels);
  return BodyFor<DwTaps, V, P>(pixels);
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

template <class V, int P>
void RunDw(const DwConvArgs& a) {
  constexpr size_t kUnit = V::kUnit;
  if (a.rows == 0 || a.pixels == 0) return;
  // Tiles of even size: the first `larger` have `most` pixels, the others one less.
  const size_t tiles = (a.pixels + P - 1) / P, most = (a.pixels + tiles - 1) / tiles;
  const size_t larger = a.pixels - tiles * (most - 1), tail = a.channels % kUnit;
  const DwTileRun whole[] = {BodyFor<V, P>(a, most, kUnit), BodyFor<V, P>(a, most - (most > 1), kUnit)};
  const DwTileRun partly[] = {BodyFor<V, P>(a, most, tail), BodyFor<V, P>(a, most - (most > 1), tail)};
  const auto run = [&](const DwLine& line, size_t channel, size_t i) {
    const size_t x = i * most - (i > larger ? i - larger : 0), left = a.channels - channel;
    DwTile tile;
    tile.channels = left < kUnit ? left : kUnit;
    tile.weights = a.weights + channel * a.kernel_h * a.kernel_w;
    tile.first = line.first;
    tile.last = line.last;
    tile.column = a.left + static_cast<ptrdiff_t>(x * a.stride_w);
    tile.src = line.src + channel * 4;
    tile.dst = line.dst + static_cast<ptrdiff_t>(x) * a.dst_pixel_stride + channel * 4;
    tile.m0 = line.m0 + x;
    tile.n0 = a.n0 + channel;
    (left < kUnit ? partly : whole)[i >= larger](a, tile);
  };
  const size_t together = DwRowsTogether(a, kUnit * sizeof(float));
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
