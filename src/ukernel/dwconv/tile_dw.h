// The depthwise register tile: one body for every vector ISA. For kernel files only: everything has internal linkage.
#pragma once

#include "ukernel/dwconv.h"
#include "ukernel/gemm/epilogue_f32.h"

namespace quern::ukernel {
namespace {

// P neighbouring pixels of one unit of channels; V has what TileEpilogue needs and Fma.
template <class V, int P>
struct TileDw : TileEpilogue<V, P, 1> {
  using Base = TileEpilogue<V, P, 1>;
  using Base::kVectors;
  using typename Base::Acc;
  using typename Base::Reg;
  using typename Base::Tail;

  template <bool kWhole>
  static void Run(const DwConvArgs& a, size_t pixel, size_t channel, const Tail& tail) {
    Acc acc;
    Base::Each([&](int r, int v) { acc[r][v] = V::Zero(); });
    const char* src =
        static_cast<const char*>(a.src) + static_cast<ptrdiff_t>(pixel) * a.src_pixel_stride + channel * 4;
    const float* weights = a.weights + channel * a.weight_taps;
    for (size_t t = 0; t < a.tap_count; ++t) {
      const char* p = src + a.tap_offsets[t];
      const float* w = weights + static_cast<size_t>(a.tap_indices[t]) * V::kUnit;
      Reg b[kVectors];
      QUERN_UNROLL for (int v = 0; v < kVectors; ++v) b[v] = V::Load(w + v * V::kLanes);
      QUERN_UNROLL for (int r = 0; r < P; ++r) {
        const float* x = reinterpret_cast<const float*>(p + r * a.src_pixel_stride);
        QUERN_UNROLL for (int v = 0; v < kVectors; ++v) {
          const Reg in = kWhole ? V::Load(x + v * V::kLanes) : Base::LoadN(x, v, tail);
          acc[r][v] = V::Fma(in, b[v], acc[r][v]);
        }
      }
    }
    GemmArgs e;
    e.m0 = a.m0 + pixel;
    e.n0 = a.n0 + channel;
    Base::Apply(e, a.ops, a.ops + a.op_count, acc, tail);
    float* out =
        reinterpret_cast<float*>(static_cast<char*>(a.dst) + static_cast<ptrdiff_t>(pixel) * a.dst_pixel_stride) +
        channel;
    Base::Write(out, static_cast<size_t>(a.dst_pixel_stride), acc, tail);
  }
};

// The last, fewer than P pixels.
template <class V, int P>
void RunPixels(const DwConvArgs& a, size_t pixel, size_t count, size_t channel, size_t n) {
  if constexpr (P > 1) {
    if (count < static_cast<size_t>(P)) return RunPixels<V, P - 1>(a, pixel, count, channel, n);
  }
  const typename TileDw<V, P>::Tail tail = TileDw<V, P>::MakeTail(n);
  if (n == static_cast<size_t>(V::kUnit)) {
    TileDw<V, P>::template Run<true>(a, pixel, channel, tail);
  } else {
    TileDw<V, P>::template Run<false>(a, pixel, channel, tail);
  }
}

template <class V, int P>
void RunDw(const DwConvArgs& a) {
  for (size_t channel = 0; channel < a.channels; channel += V::kUnit) {
    const size_t left = a.channels - channel;
    const size_t n = left < static_cast<size_t>(V::kUnit) ? left : static_cast<size_t>(V::kUnit);
    for (size_t pixel = 0; pixel < a.pixels; pixel += P) {
      const size_t count = a.pixels - pixel < static_cast<size_t>(P) ? a.pixels - pixel : static_cast<size_t>(P);
      RunPixels<V, P>(a, pixel, count, channel, n);
    }
  }
}

}  // namespace
}  // namespace quern::ukernel
