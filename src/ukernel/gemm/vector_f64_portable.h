// The float64 vector traits of tiles (tile_fma.h) on portable C++: 2 lanes that every target has, multiply and add
// apart. For kernel files of that ISA only.
#pragma once

#include <cstddef>

namespace quern::ukernel {
namespace {

struct DoubleVector {
  using Scalar = double;
  typedef double Reg __attribute__((vector_size(16)));
  using Mask = size_t;  // lanes
  static constexpr int kLanes = 2, kUnit = 8, kLhsBlock = 1;
  static constexpr bool kCheapMasks = false;
  static constexpr bool kAsksAhead = false;
  static constexpr int kTileAhead = 0;
  static Reg Zero() { return Reg{}; }
  static Reg Load(const double* p) {
    Reg x;
    __builtin_memcpy(&x, p, sizeof(x));
    return x;
  }
  static Reg LoadMask(const double* p, Mask m) { return m == 2 ? Load(p) : Reg{*p, 0}; }
  static void Store(double* p, Reg x) { __builtin_memcpy(p, &x, sizeof(x)); }
  static void StoreMask(double* p, Reg x, Mask m) { __builtin_memcpy(p, &x, m * sizeof(double)); }
  static Mask MakeMask(size_t lanes) { return lanes; }
  static Reg Broadcast(const double* p) { return Reg{*p, *p}; }
  static Reg Fma(Reg a, Reg b, Reg c) { return a * b + c; }
  static Reg Add(Reg a, Reg b) { return a + b; }
};

}  // namespace
}  // namespace quern::ukernel
