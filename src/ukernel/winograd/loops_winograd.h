// The bodies of the Winograd family: generic vectors, which the compiler maps to the registers of the including file's
// ISA. Everything has internal linkage.
#pragma once

#include "ukernel/vector_math.h"
#include "ukernel/winograd.h"

namespace quern::ukernel {
namespace {

// kLanes floats, of which `count` are read and written.
template <int kLanes>
struct WinogradVector {
  typedef float Reg __attribute__((vector_size(kLanes * sizeof(float))));
  static void Load(const float* p, size_t count, Reg& x) {
    if (count == kLanes) {
      __builtin_memcpy(&x, p, sizeof x);
      return;
    }
    float part[kLanes] = {};
    for (size_t i = 0; i < count; ++i) part[i] = p[i];
    __builtin_memcpy(&x, part, sizeof x);
  }
  static void Store(float* p, size_t count, const Reg& x) {
    if (count == kLanes) {
      __builtin_memcpy(p, &x, sizeof x);
      return;
    }
    float part[kLanes];
    __builtin_memcpy(part, &x, sizeof x);
    for (size_t i = 0; i < count; ++i) p[i] = part[i];
  }
  // a * x + y
  QUERN_MATH Reg MulAdd(float a, const Reg& x, const Reg& y) {
    float from[kLanes], to[kLanes];
    __builtin_memcpy(from, &x, sizeof from);
    __builtin_memcpy(to, &y, sizeof to);
    for (int i = 0; i < kLanes; ++i) to[i] = ukernel::MulAdd(a, from[i], to[i]);
    Reg sum;
    __builtin_memcpy(&sum, to, sizeof sum);
    return sum;
  }
};

// Along one dimension: to = B' x and y = A' m, for tiles of kTile outputs.
template <int kTile, int kLanes>
struct WinogradLine;

template <int kLanes>
struct WinogradLine<2, kLanes> {
  using Reg = typename WinogradVector<kLanes>::Reg;
  // B' has the rows (1, 0, -1, 0), (0, 1, 1, 0), (0, -1, 1, 0), (0, 1, 0, -1).
  QUERN_MATH void Input(const Reg (&x)[4], Reg (&to)[4]) {
    to[0] = x[0] - x[2];
    to[1] = x[1] + x[2];
    to[2] = x[2] - x[1];
    to[3] = x[1] - x[3];
  }
  // A' has the rows (1, 1, 1, 0), (0, 1, -1, -1).
  QUERN_MATH void Output(const Reg (&m)[4], Reg (&y)[2]) {
    y[0] = m[0] + m[1] + m[2];
    y[1] = m[1] - m[2] - m[3];
  }
};

// Points p, -p, q, -q and infinity.
template <int kLanes>
struct WinogradLine<3, kLanes> {
  using V = WinogradVector<kLanes>;
  using Reg = typename WinogradVector<kLanes>::Reg;
  static constexpr float kP = 11.0f / 8, kQ = 3.0f / 8, kP2 = kP * kP, kQ2 = kQ * kQ;
  // The row of point p holds the coefficients of (t^2 - q^2) (t + p), that of infinity those of (t^2 - p^2) (t^2 -
  // q^2).
  QUERN_MATH void Input(const Reg (&x)[5], Reg (&to)[5]) {
    const Reg even_p = V::MulAdd(-kQ2, x[0], x[2]), odd_p = V::MulAdd(-kQ2, x[1], x[3]);
    const Reg even_q = V::MulAdd(-kP2, x[0], x[2]), odd_q = V::MulAdd(-kP2, x[1], x[3]);
    to[0] = V::MulAdd(kP, even_p, odd_p);
    to[1] = V::MulAdd(-kP, even_p, odd_p);
    to[2] = V::MulAdd(kQ, even_q, odd_q);
    to[3] = V::MulAdd(-kQ, even_q, odd_q);
    to[4] = V::MulAdd(kP2 * kQ2, x[0], V::MulAdd(-(kP2 + kQ2), x[2], x[4]));
  }
  // Row r of A' holds the points' powers r; of infinity, 0, 0 and 1.
  QUERN_MATH void Output(const Reg (&m)[5], Reg (&y)[3]) {
    const Reg sum_p = m[0] + m[1], sum_q = m[2] + m[3];
    y[0] = sum_p + sum_q;
    y[1] = V::MulAdd(kP, m[0] - m[1], kQ * (m[2] - m[3]));
    y[2] = V::MulAdd(kP2, sum_p, V::MulAdd(kQ2, sum_q, m[4]));
  }
};

template <int kTile, int kLanes>
void WinogradInputBlock(const WinogradInputArgs& a, size_t c, size_t count) {
  using V = WinogradVector<kLanes>;
  using Line = WinogradLine<kTile, kLanes>;
  constexpr size_t kPatch = WinogradPatch(kTile);
  typename V::Reg half[kPatch][kPatch];  // B' x
  for (size_t col = 0; col < kPatch; ++col) {
    typename V::Reg x[kPatch], to[kPatch];
    for (size_t r = 0; r < kPatch; ++r) V::Load(a.pixels[kPatch * r + col] + c, count, x[r]);
    Line::Input(x, to);
    for (size_t r = 0; r < kPatch; ++r) half[r][col] = to[r];
  }
  for (size_t r = 0; r < kPatch; ++r) {
    typename V::Reg to[kPatch];
    Line::Input(half[r], to);
    for (size_t col = 0; col < kPatch; ++col) V::Store(a.to + (kPatch * r + col) * a.stride + c, count, to[col]);
  }
}

// `finite` stays 0 as long as all results are finite.
template <int kTile, int kLanes>
void WinogradOutputBlock(const WinogradOutputArgs& a, size_t c, size_t count,
                         typename WinogradVector<kLanes>::Reg& finite) {
  using V = WinogradVector<kLanes>;
  using Line = WinogradLine<kTile, kLanes>;
  constexpr size_t kPatch = WinogradPatch(kTile);
  typename V::Reg half[kTile][kPatch];  // A' m
  for (size_t col = 0; col < kPatch; ++col) {
    typename V::Reg m[kPatch], to[kTile];
    for (size_t r = 0; r < kPatch; ++r) V::Load(a.from + (kPatch * r + col) * a.stride + c, count, m[r]);
    Line::Output(m, to);
    for (size_t r = 0; r < kTile; ++r) half[r][col] = to[r];
  }
  typename V::Reg sum{};
  for (size_t r = 0; r < kTile; ++r) {
    typename V::Reg y[kTile];
    Line::Output(half[r], y);
    for (size_t col = 0; col < kTile; ++col) {
      if (float* const to = a.pixels[kTile * r + col]) V::Store(to + c, count, y[col]);
      sum = sum + y[col];
    }
  }
  finite = finite + (sum - sum);  // 0, or NaN
}

// f(c, count) for blocks of channels from c on that cover all of them. Where they do not fill the last one, it takes
// channels of the one before once more.
template <size_t kLanes, class F>
void ForBlocks(size_t channels, F f) {
  if (channels < kLanes) {
    if (channels > 0) f(size_t{0}, channels);
    return;
  }
  size_t c = 0;
  for (; c + kLanes <= channels; c += kLanes) f(c, kLanes);
  if (c < channels) f(channels - kLanes, kLanes);
}

// What does not fill a register fills shorter ones, down to four lanes.
template <int kTile, int kLanes>
void RunWinogradInput(const WinogradInputArgs& a) {
  if constexpr (kLanes > 4) {
    if (a.channels < kLanes) return RunWinogradInput<kTile, kLanes / 2>(a);
  }
  ForBlocks<kLanes>(a.channels, [&](size_t c, size_t count) { WinogradInputBlock<kTile, kLanes>(a, c, count); });
}

// Likewise; false if a result is no finite number.
template <int kTile, int kLanes>
bool RunWinogradOutput(const WinogradOutputArgs& a) {
  if constexpr (kLanes > 4) {
    if (a.channels < kLanes) return RunWinogradOutput<kTile, kLanes / 2>(a);
  }
  typename WinogradVector<kLanes>::Reg finite{};
  ForBlocks<kLanes>(a.channels,
                    [&](size_t c, size_t count) { WinogradOutputBlock<kTile, kLanes>(a, c, count, finite); });
  float lanes[kLanes];
  __builtin_memcpy(lanes, &finite, sizeof lanes);
  bool all = true;
  for (float lane : lanes) all &= lane == 0;
  return all;
}

template <int kLanes>
constexpr WinogradKernel WinogradRow(const Isa& isa) {
  return {.isa = isa,
          .lanes = kLanes,
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
          .fused = true,
#endif
          .tiles2 = {RunWinogradInput<2, kLanes>, RunWinogradOutput<2, kLanes>},
          .tiles3 = {RunWinogradInput<3, kLanes>, RunWinogradOutput<3, kLanes>}};
}

}  // namespace
}  // namespace quern::ukernel
