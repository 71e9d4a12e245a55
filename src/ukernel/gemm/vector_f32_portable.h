// The float32 vector traits of tiles (tile_fma.h) on portable C++: 4 lanes that every target has, multiply and add
// apart. For kernel files of that ISA only.
#pragma once

#include <cstddef>
#include <cstdint>

namespace quern::ukernel {
namespace {

struct Vector {
  using Scalar = float;
  typedef float Reg __attribute__((vector_size(16)));
  using Mask = size_t;  // lanes
  static constexpr int kLanes = 4, kUnit = 16, kLhsBlock = 1;
  static constexpr bool kCheapMasks = false;
  static constexpr bool kAsksAhead = false;
  static constexpr int kTileAhead = 0;
  static constexpr int kPrefetch = 0;
  static constexpr int kFewRows = 0;
  static Reg Zero() { return Reg{}; }
  static Reg Set1(float x) { return Reg{x, x, x, x}; }
  static Reg Load(const float* p) {
    Reg x;
    __builtin_memcpy(&x, p, sizeof(x));
    return x;
  }
  static Reg LoadMask(const float* p, Mask m) {
    Reg x{};
    for (size_t i = 0; i < 4; ++i) {
      if (i < m) x[i] = p[i];
    }
    return x;
  }
  static void Store(float* p, Reg x) { __builtin_memcpy(p, &x, sizeof(x)); }
  static void StoreMask(float* p, Reg x, Mask m) {
    for (size_t i = 0; i < 4; ++i) {
      if (i < m) p[i] = x[i];
    }
  }
  static Mask MakeMask(size_t lanes) { return lanes; }
  static Reg Broadcast(const float* p) { return Set1(*p); }
  static Reg Fma(Reg a, Reg b, Reg c) { return a * b + c; }
  static Reg Add(Reg a, Reg b) { return a + b; }
  static Reg Sub(Reg a, Reg b) { return a - b; }
  static Reg Mul(Reg a, Reg b) { return a * b; }
  static Reg Div(Reg a, Reg b) { return a / b; }
  static Reg Min(Reg a, Reg b) { return a < b ? a : b; }
  static Reg Max(Reg a, Reg b) { return a > b ? a : b; }
};

}  // namespace
}  // namespace quern::ukernel
