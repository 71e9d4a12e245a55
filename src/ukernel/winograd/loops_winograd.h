// The bodies of the Winograd family: generic vectors, which the compiler maps to the registers of the including file's
// ISA. Everything has internal linkage.
#pragma once

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
};

// B' has the rows (1, 0, -1, 0), (0, 1, 1, 0), (0, -1, 1, 0), (0, 1, 0, -1).
template <int kLanes>
void WinogradInputBlock(const WinogradInputArgs& a, size_t c, size_t count) {
  using V = WinogradVector<kLanes>;
  using Reg = typename V::Reg;
  Reg half[4][4];  // B' x, column by column
  for (size_t col = 0; col < 4; ++col) {
    Reg x[4];
    for (size_t r = 0; r < 4; ++r) V::Load(a.pixels[4 * r + col] + c, count, x[r]);
    half[0][col] = x[0] - x[2];
    half[1][col] = x[1] + x[2];
    half[2][col] = x[2] - x[1];
    half[3][col] = x[1] - x[3];
  }
  for (size_t r = 0; r < 4; ++r) {
    const Reg* h = half[r];
    float* to = a.to + 4 * r * a.stride + c;
    V::Store(to, count, h[0] - h[2]);
    V::Store(to + a.stride, count, h[1] + h[2]);
    V::Store(to + 2 * a.stride, count, h[2] - h[1]);
    V::Store(to + 3 * a.stride, count, h[1] - h[3]);
  }
}

// A' has the rows (1, 1, 1, 0), (0, 1, -1, -1). `finite` stays 0 as long as all results are finite.
template <int kLanes>
void WinogradOutputBlock(const WinogradOutputArgs& a, size_t c, size_t count,
                         typename WinogradVector<kLanes>::Reg& finite) {
  using V = WinogradVector<kLanes>;
  using Reg = typename V::Reg;
  Reg top[4], bottom[4];  // A' m
  for (size_t col = 0; col < 4; ++col) {
    Reg m[4];
    for (size_t r = 0; r < 4; ++r) V::Load(a.from + (4 * r + col) * a.stride + c, count, m[r]);
    top[col] = m[0] + m[1] + m[2];
    bottom[col] = m[1] - m[2] - m[3];
  }
  const Reg y[4] = {top[0] + top[1] + top[2], top[1] - top[2] - top[3], bottom[0] + bottom[1] + bottom[2],
                    bottom[1] - bottom[2] - bottom[3]};
  for (size_t i = 0; i < 4; ++i) {
    if (a.pixels[i]) V::Store(a.pixels[i] + c, count, y[i]);
  }
  const Reg sum = (y[0] + y[1]) + (y[2] + y[3]);
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
template <int kLanes>
void RunWinogradInput(const WinogradInputArgs& a) {
  if constexpr (kLanes > 4) {
    if (a.channels < kLanes) return RunWinogradInput<kLanes / 2>(a);
  }
  ForBlocks<kLanes>(a.channels, [&](size_t c, size_t count) { WinogradInputBlock<kLanes>(a, c, count); });
}

// Likewise; false if a result is no finite number.
template <int kLanes>
bool RunWinogradOutput(const WinogradOutputArgs& a) {
  if constexpr (kLanes > 4) {
    if (a.channels < kLanes) return RunWinogradOutput<kLanes / 2>(a);
  }
  typename WinogradVector<kLanes>::Reg finite{};
  ForBlocks<kLanes>(a.channels, [&](size_t c, size_t count) { WinogradOutputBlock<kLanes>(a, c, count, finite); });
  float lanes[kLanes];
  __builtin_memcpy(lanes, &finite, sizeof lanes);
  bool all = true;
  for (float lane : lanes) all &= lane == 0;
  return all;
}

template <int kLanes>
constexpr WinogradKernel WinogradRow(const Isa& isa) {
  return {.isa = isa, .lanes = kLanes, .input = RunWinogradInput<kLanes>, .output = RunWinogradOutput<kLanes>};
}

}  // namespace
}  // namespace quern::ukernel
