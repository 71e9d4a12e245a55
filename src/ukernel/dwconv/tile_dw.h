// The depthwise register tile: one body for every vector ISA. For kernel files only: everything has internal linkage.
#pragma once

#include "ukernel/dwconv.h"
#include "ukernel/gemm/epilogue_f32.h"

namespace quern::ukernel {
namespace {

// One output row: where it begins, and the rows of the kernel that lie inside the image.
struct DwLine {
  const char* src;  // input column 0 of kernel row `first`
  char* dst;
  size_t first, last;  // [first, last)
  size_t m0;
};

// Tiles of one unit of channels: `count` side by side in each of some lines.
struct DwTiles {
  const DwLine* lines;
  size_t line_count, count;
  size_t x;             // the first output pixel
  size_t channel;       // the first of the unit
  size_t channels;      // at most a unit
  const char* weights;  // of the unit
  size_t dst_bytes;     // of an element of the result
  const void* context;  // D::Context of the call
};

// One of them.
struct DwTile {
  const char* src;      // input column 0 of kernel row `first`, at the unit's first channel
  ptrdiff_t column;     // input column of the first pixel's first tap; negative where padding is before it
  size_t first, last;   // rows of the kernel that lie inside the image: [first, last)
  const char* weights;  // of the unit
  char* dst;            // the first pixel, at the unit's first channel
  size_t m0, n0;        // its place for the operands of the epilogue
  size_t channels;      // at most a unit
  const void* context;  // D::Context of the call
};

template <class Body>
__attribute__((noinline)) void RunDwTile(const DwConvArgs& a, const DwTile& tile) {
  Body::Run(a, tile);
}

// Runs Body::Run(a, tile) for each of the tiles, of P pixels by channels of D.
template <class D, size_t P, class Body>
void EachDwTile(const DwConvArgs& a, const DwTiles& t) {
  DwTile tile;
  tile.weights = t.weights;
  tile.n0 = a.n0 + t.channel;
  tile.channels = t.channels;
  tile.context = t.context;
  for (const DwLine* line = t.lines; line != t.lines + t.line_count; ++line) {
    tile.src = line->src + t.channel * D::kBytes;
    tile.column = a.left + static_cast<ptrdiff_t>(t.x * a.stride_w);
    tile.first = line->first;
    tile.last = line->last;
    tile.dst = line->dst + static_cast<ptrdiff_t>(t.x) * a.dst_pixel_stride + t.channel * t.dst_bytes;
    tile.m0 = line->m0 + t.x;
    for (size_t i = 0; i < t.count; ++i) {
      if constexpr (D::V::kCheapMasks) {
        Body::Run(a, tile);
      } else {  // where registers are few, what is the same for all tiles must not take any
        RunDwTile<Body>(a, tile);
      }
      tile.column += static_cast<ptrdiff_t>(P * a.stride_w);
      tile.dst += static_cast<ptrdiff_t>(P) * a.dst_pixel_stride;
      tile.m0 += P;
    }
  }
}

// float32 sums of inputs that D::Load gives as float32. The D of a tile (here from V, the vector traits of
// TileEpilogue, and Loads) has
//   V, Tile<P>              the epilogue of P pixels by a unit; its Sum and Sums<P>
//   kAcc, kBytes            the sums' format; bytes of an element of the input
//   kUsualPadding           half a kernel has code of its own, as none has, which asks for nothing in each row
//   kFused                  MulAdd is one instruction, else products take registers of their own
//   kCheapParts             LoadPart takes about as long as Load
//   Context                 made of a call's arguments; `pad`: a unit in the place of a pixel that lies in the padding
//   Load, LoadPart          V::kLanes channels, or fewer of them
//   LoadWeights, MulAdd, Zero, Finish
template <class Vector, class Loads>
struct DwFloats {
  using V = Vector;
  using Sum = typename V::Reg;
  template <int P>
  using Tile = TileEpilogue<V, P, 1>;
  static constexpr Format kAcc = Format::kF32;
  static constexpr size_t kBytes = Loads::kBytes;
  static constexpr bool kUsualPadding = true;
  static constexpr bool kFused = true;
  static constexpr bool kCheapParts = V::kCheapMasks || kBytes == 4;
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
    Tile<P>::template Apply<kFusedF32>(e, a.ops, a.ops + a.op_count, acc, tail);
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

#if defined(__aarch64__) || defined(__AVX512F__)
constexpr int kVectorRegisters = 32;
#else
constexpr int kVectorRegisters = 16;
#endif

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

  // How much of vector v lies within so many channels.
  struct Part {
    size_t lanes;
    typename V::Mask mask;
    Part(size_t channels, int v) : lanes(0) {
      const size_t before = static_cast<size_t>(v) * V::kLanes;
      if (channels > before) lanes = channels - before < size_t{V::kLanes} ? channels - before : size_t{V::kLanes};
      mask = V::MakeMask(lanes);
    }
  };

  // Any kernel: tap by tap, each with its own loads. kWhole: so many vectors have all their lanes and the others none;
  // 0: any channels.
  template <int kWhole>
  QUERN_INLINE static void RunTaps(const DwConvArgs& a, const DwTile& tile) {
    const Context& context = *static_cast<const Context*>(tile.context);
    const Tail tail = Base::MakeTail(tile.channels);
    const auto load = [&](const char* x, int v) __attribute__((always_inline)) {
      return kWhole > 0 ? D::Load(context, x + v * kVectorBytes) : LoadN(context, x, v, tail, tile.channels);
    };
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
          QUERN_UNROLL for (int v = 0; v < (kWhole > 0 ? kWhole : kVectors); ++v) {
            acc[r][v] = D::MulAdd(load(x, v), D::LoadWeights(w + v * kWeightVector), acc[r][v]);
          }
        }
      }
    }
    D::template Finish<P>(a, tile, acc, tail);
  }

  // kKernel columns without dilation, outputs kStride columns apart: each input column is loaded once and goes into all
  // sums that it is part of. Padding is at most kKernel - 1 columns at either side, so only the outer columns of a tile
  // can lie in it. kPart: the last vector has part of its lanes.
  template <int kKernel, int kStride, bool kPart>
  QUERN_INLINE static void RunColumns(const DwConvArgs& a, const DwTile& tile) {
    constexpr int kColumns = (P - 1) * kStride + kKernel, kHalf = kKernel / 2;
    Sums acc;
    const ptrdiff_t left = tile.column < 0 ? -tile.column : 0;
    const ptrdiff_t end = tile.column + kColumns, width = static_cast<ptrdiff_t>(a.in_w);
    const ptrdiff_t right = end > width ? end - width : 0;
    if (left == 0 && right == 0) {
      AddColumns<kKernel, kStride, kPart, 0, 0>(a, tile, acc);
    } else if (!D::kUsualPadding) {
      AddColumns<kKernel, kStride, kPart, -1, -1>(a, tile, acc);
    } else if (left == kHalf && right == 0) {
      AddColumns<kKernel, kStride, kPart, kHalf, 0>(a, tile, acc);
    } else if (left == 0 && right == kHalf) {
      AddColumns<kKernel, kStride, kPart, 0, kHalf>(a, tile, acc);
    } else if (left == kHalf && right == kHalf) {
      AddColumns<kKernel, kStride, kPart, kHalf, kHalf>(a, tile, acc);
    } else {
      AddColumns<kKernel, kStride, kPart, -1, -1>(a, tile, acc);
    }
    D::template Finish<P>(a, tile, acc, Base::MakeTail(tile.channels));
  }

  // Adds the kernel's rows. kLeft and kRight: how many columns lie in the padding; if negative, each row finds out.
  template <int kKernel, int kStride, bool kPart, int kLeft, int kRight>
  QUERN_INLINE static void AddColumns(const DwConvArgs& a, const DwTile& tile, Sums& acc) {
    constexpr int kColumns = (P - 1) * kStride + kKernel, kFirst = kLeft > 0 ? kLeft : 0;
    // Where there are fewer registers than all sums take, those of one vector wait in memory while the next are formed.
    constexpr bool kWait = kVectors > 1 && kVectors * P + kKernel >= kVectorRegisters - 1;
    Sum waiting[kVectors][P];
    const Context& context = *static_cast<const Context*>(tile.context);
    const ptrdiff_t pixel = a.src_pixel_stride, width = static_cast<ptrdiff_t>(a.in_w);
    const ptrdiff_t row = static_cast<ptrdiff_t>(a.dilation_h) * a.src_row_stride;
    // One vector of the unit after the other: fewer sums than registers are in use at a time.
    QUERN_UNROLL for (int v = 0; v < kVectors; ++v) {
      const char* w = tile.weights + tile.first * kKernel * kWeightUnit + v * kWeightVector;
      const char* line = tile.src + (tile.column + kFirst) * pixel + v * kVectorBytes;
      Sum sums[P];
      QUERN_UNROLL for (int r = 0; r < P; ++r) sums[r] = D::Zero();
      const Part part(tile.channels, v);
      const size_t rows = v == 0 || part.lanes > 0 ? tile.last - tile.first : 0;
      for (size_t i = 0; i < rows; ++i, w += kKernel * kWeightUnit, line += row) {
        Sum b[kKernel];
        QUERN_UNROLL for (int j = 0; j < kKernel; ++j) b[j] = D::LoadWeights(w + j * kWeightUnit);
        const char* column = line;
        QUERN_UNROLL for (int c = kFirst; c < kColumns - (kRight > 0 ? kRight : 0); ++c, column += pixel) {
          const bool in = kLeft >= 0 || ((c >= kKernel - 1 || tile.column + c >= 0) &&
                                         (c <= (P - 1) * kStride || tile.column + c < width));
          // With a branch, compilers keep sums in memory where registers are few.
          const char* at = in ? column : context.pad;
          const Sum x = kPart ? D::LoadPart(context, at, part.lanes, part.mask) : D::Load(context, at);
          QUERN_UNROLL for (int r = 0; r < P; ++r) {
            const int j = c - r * kStride;
            if (j >= 0 && j < kKernel) sums[r] = D::MulAdd(x, b[j], sums[r]);
          }
          if constexpr (kVectors > 1) asm volatile("" ::: "memory");  // no columns ahead
        }
      }
      QUERN_UNROLL for (int r = 0; r < P; ++r) {
        if (kWait && v + 1 < kVectors) {
          waiting[v][r] = sums[r];
          asm volatile("" : "+m"(waiting[v][r]));
        } else {
          acc[r][v] = sums[r];
        }
      }
    }
    if constexpr (kWait) {
      QUERN_UNROLL for (int v = 0; v + 1 < kVectors; ++v) {
        QUERN_UNROLL for (int r = 0; r < P; ++r) acc[r][v] = waiting[v][r];
      }
    }
  }

  // For EachDwTile.
  struct Taps {
    QUERN_INLINE static void Run(const DwConvArgs& a, const DwTile& tile) {
      if (tile.channels == size_t{V::kUnit}) return RunTaps<kVectors>(a, tile);
      if constexpr (kVectors > 1) {
        if (tile.channels == size_t{V::kLanes}) return RunTaps<1>(a, tile);
      }
      RunTaps<0>(a, tile);
    }
  };
  template <int kKernel, int kStride, bool kPart>
  struct Columns {
    QUERN_INLINE static void Run(const DwConvArgs& a, const DwTile& tile) {
      RunColumns<kKernel, kStride, kPart>(a, tile);
    }
  };
};

using DwTilesRun = void (*)(const DwConvArgs&, const DwTiles&);

// The bodies of one form for 1 to P pixels, but at most kMostPixels: with more, compilers spill sums.
struct DwTaps {
  template <class D>
  static constexpr int kMostPixels = D::V::kCheapMasks ? 8
                                     : D::kFused       ? 6
                                                       : 4;
  template <class D, int P>
  static void Run(const DwConvArgs& a, const DwTiles& tiles) {
    EachDwTile<D, P, typename TileDw<D, P>::Taps>(a, tiles);
  }
};
template <int kKernel, int kStride>
struct DwColumns {
  static constexpr int OfFewRegisters(bool fused) {
    if (kKernel > (kStride > 1 ? 3 : fused ? 7 : 5)) return 4;
    if (fused) return 8;
    return kKernel > 3 ? (kStride > 1 ? 5 : 4) : kStride > 1 ? 6 : 7;
  }
  template <class D>
  static constexpr int kMostPixels = !D::V::kCheapMasks ? OfFewRegisters(D::kFused)
                                     : kStride > 1      ? 8
                                     : kKernel > 3      ? 10
                                                        : 16;
  template <class D, int P, bool kPart = false>
  static void Run(const DwConvArgs& a, const DwTiles& tiles) {
    if constexpr (P < (kKernel + 1) / 2) {  // few columns are shared
      DwTaps::Run<D, P>(a, tiles);
    } else {
      EachDwTile<D, P, typename TileDw<D, P>::template Columns<kKernel, kStride, kPart>>(a, tiles);
    }
  }
};
// The mask takes a register, too.
template <int kKernel, int kStride>
struct DwPartColumns {
  template <class D>
  static constexpr int kMostPixels =
      !D::V::kCheapMasks && kStride > 1 ? 4 : DwColumns<kKernel, kStride>::template kMostPixels<D>;
  template <class D, int P>
  static void Run(const DwConvArgs& a, const DwTiles& tiles) {
    DwColumns<kKernel, kStride>::template Run<D, P, true>(a, tiles);
  }
};

template <class Form, class D, int P>
DwTilesRun BodyFor(size_t pixels) {
  if constexpr (P > 1) {
    if (pixels < static_cast<size_t>(P)) return BodyFor<Form, D, P - 1>(pixels);
  }
  return Form::template Run<D, P>;
}

// Whether columns may be loaded once for all sums (TileDw::RunColumns).
inline bool ColumnsServe(const DwConvArgs& a) {
  const ptrdiff_t reach = static_cast<ptrdiff_t>(a.kernel_w) - 1;
  return a.dilation_w == 1 && a.left >= -reach &&
         a.left + static_cast<ptrdiff_t>((a.pixels - 1) * a.stride_w) < static_cast<ptrdiff_t>(a.in_w);
}

// The forms of depthwise convolution.
struct DwForms {
  // Channels of a result that a unit of weights serves.
  template <class V>
  static size_t Unit(const DwConvArgs&) {
    return V::kUnit;
  }
  // Runs f with the form for this many channels of a unit.
  template <class D, class F>
  static auto With(const DwConvArgs& a, size_t channels, F f) {
    if (!ColumnsServe(a)) return f(DwTaps());
    if (channels % D::V::kLanes == 0) {
      if (a.kernel_w == 3 && a.stride_w == 1) return f(DwColumns<3, 1>());
      if (a.kernel_w == 3 && a.stride_w == 2) return f(DwColumns<3, 2>());
      if (a.kernel_w == 5 && a.stride_w == 1) return f(DwColumns<5, 1>());
      if (a.kernel_w == 5 && a.stride_w == 2) return f(DwColumns<5, 2>());
      if (a.kernel_w == 7 && a.stride_w == 1) return f(DwColumns<7, 1>());
    } else if constexpr (D::kCheapParts) {
      if (a.kernel_w == 3 && a.stride_w == 1) return f(DwPartColumns<3, 1>());
      if (a.kernel_w == 3 && a.stride_w == 2) return f(DwPartColumns<3, 2>());
      if (a.kernel_w == 5 && a.stride_w == 1) return f(DwPartColumns<5, 1>());
      if (a.kernel_w == 5 && a.stride_w == 2) return f(DwPartColumns<5, 2>());
      if constexpr (D::V::kCheapMasks) {
        if (a.kernel_w == 7 && a.stride_w == 1) return f(DwPartColumns<7, 1>());
      }
    }
    return f(DwTaps());
  }
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

constexpr size_t kDwLines = 16;  // output rows computed together

// Tiles side by side whose input stays in the first-level cache until the next output row needs it, one unit of
// channels at a time: neighbouring pixels lie src_pixel_stride apart, so they may fall into few of its 64 sets.
inline size_t DwTilesTogether(const DwConvArgs& a, size_t pixels) {
  constexpr size_t kPeriod = 4096, kSets = 64, kWays = 8;
  size_t step = kPeriod;  // the largest power of two in the stride
  while (static_cast<size_t>(a.src_pixel_stride) % step) step /= 2;
  const size_t sets = kPeriod / step < kSets ? kPeriod / step : kSets;
  const auto within = [](size_t x, size_t most) { return x < most ? x : most; };  // strides may be any numbers
  const size_t lines = within((a.kernel_h - 1) * a.dilation_h, a.in_h) + within(a.stride_h, a.in_h) + 1;
  const size_t tiles = sets * kWays / lines / (pixels * within(a.stride_w, a.in_w + 1));
  return tiles ? tiles : 1;
}

// How an output row is cut into tiles for units of so many channels: the first `larger` have `most` pixels, the others
// one less.
struct DwTiling {
  size_t count, most, larger;
  size_t together;
  DwTilesRun bodies[2];  // of the larger ones, of the others
};

template <class D, int P, class Forms>
DwTiling MakeDwTiling(const DwConvArgs& a, size_t channels) {
  return Forms::template With<D>(a, channels, [&](auto form) {
    using Form = decltype(form);
    constexpr int kMost = Form::template kMostPixels<D>, kWidest = P < kMost ? P : kMost;
    DwTiling t;
    t.count = (a.pixels + kWidest - 1) / kWidest;
    t.most = (a.pixels + t.count - 1) / t.count;
    t.larger = a.pixels - t.count * (t.most - 1);
    t.together = DwTilesTogether(a, t.most);
    t.bodies[0] = BodyFor<Form, D, kWidest>(t.most);
    t.bodies[1] = BodyFor<Form, D, kWidest>(t.most - (t.most > 1));
    return t;
  });
}

template <class D, int P, class Forms = DwForms>
void RunDw(const DwConvArgs& a) {
  const size_t unit = Forms::template Unit<typename D::V>(a);
  const size_t unit_weights = a.kernel_h * a.kernel_w * a.group * D::V::kUnit * 4;
  if (a.rows == 0 || a.pixels == 0) return;
  const typename D::Context context(a);
  const size_t tail = a.channels % unit, whole = a.channels - tail;
  const DwTiling of_units = MakeDwTiling<D, P, Forms>(a, unit), of_tail = MakeDwTiling<D, P, Forms>(a, tail);
  DwLine lines[kDwLines];
  DwTiles part;
  part.lines = lines;
  part.dst_bytes = FormatBytes(EpilogueFormat(D::kAcc, a.ops, a.op_count));
  part.context = &context;
  // Channels [begin, end) of the lines, in steps of a unit.
  const auto run = [&](const DwTiling& t, size_t begin, size_t end) {
    if (begin == end) return;
    for (size_t i = 0; i < t.count; i += part.count) {
      const size_t same = i < t.larger ? t.larger : t.count;  // up to here they are of one size
      part.count = same - i < t.together ? same - i : t.together;
      part.x = i * t.most - (i > t.larger ? i - t.larger : 0);
      for (part.channel = begin; part.channel < end; part.channel += unit) {
        part.channels = end - part.channel < unit ? end - part.channel : unit;
        part.weights = static_cast<const char*>(a.weights) + part.channel / unit * unit_weights;
        t.bodies[i >= t.larger](a, part);
      }
    }
  };
  for (size_t y = 0; y < a.rows; y += kDwLines) {
    part.line_count = a.rows - y < kDwLines ? a.rows - y : kDwLines;
    for (size_t r = 0; r < part.line_count; ++r) lines[r] = DwLineAt(a, y + r);
    run(of_units, 0, whole);
    run(of_tail, whole, a.channels);
  }
}

// The descriptor of a row that sums float32.
constexpr DwConvKernel DwFloatRow(const Isa& isa, Format src, uint16_t lanes, uint16_t pixels, Engine engine,
                                  float cycles_per_tap, float cycles_per_pixel, DwConvRun run) {
  return {.isa = isa,
          .src = src,
          .lanes = lanes,
          .pixels = pixels,
          .fused = kFusedF32,
          .engine = engine,
          .cycles_per_tap = cycles_per_tap,
          .cycles_per_pixel = cycles_per_pixel,
          .run = run};
}

}  // namespace
}  // namespace quern::ukernel
