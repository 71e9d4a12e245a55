// int32 lanes beside the float32 ones, for integer tiles on any target, four lanes. For kernel files of that ISA only.
#pragma once

#include "ukernel/convert.h"
#include "ukernel/gemm/vector_f32_portable.h"

namespace quern::ukernel {
namespace {

struct IntVector : Vector {
  typedef uint32_t Int __attribute__((vector_size(16)));  // unsigned: sums wrap
  typedef int32_t Signed __attribute__((vector_size(16)));
  typedef uint8_t Bytes __attribute__((vector_size(16)));
  static Int ZeroInt() { return Int{}; }
  static Int Set1Int(int32_t x) {
    const uint32_t u = static_cast<uint32_t>(x);
    return Int{u, u, u, u};
  }
  static Int LoadInt(const int32_t* p) {
    Int x;
    __builtin_memcpy(&x, p, sizeof(x));
    return x;
  }
  static Int LoadMaskInt(const int32_t* p, Mask m) {
    Int x{};
    for (size_t i = 0; i < 4; ++i) {
      if (i < m) x[i] = static_cast<uint32_t>(p[i]);
    }
    return x;
  }
  static void StoreInt(int32_t* p, Int x) { __builtin_memcpy(p, &x, sizeof(x)); }
  static void StoreMaskInt(int32_t* p, Int x, Mask m) {
    for (size_t i = 0; i < 4; ++i) {
      if (i < m) p[i] = static_cast<int32_t>(x[i]);
    }
  }
  static Int AddInt(Int a, Int b) { return a + b; }
  static Int SubInt(Int a, Int b) { return a - b; }
  static Int MulInt(Int a, Int b) { return a * b; }
  static Reg ToFloat(Int x) { return __builtin_convertvector((Signed)x, Reg); }
  // To nearest, ties to even: adding 2^23 to a smaller magnitude leaves no fraction bits.
  static Reg Round(Reg x) {
    const Int sign = (Int)x & 0x80000000u;
    const Reg magnitude = (Reg)((Int)x ^ sign);
    const Reg big = Set1(8388608.0f);
    const Reg rounded = magnitude < big ? (magnitude + big) - big : magnitude;
    return (Reg)((Int)rounded | sign);
  }
  static Int TurnTopBits(Int x) { return x ^ 0x80808080u; }  // of bytes
  static Int SubBytes(Int a, Int b) { return (Int)((Bytes)a - (Bytes)b); }
  // The kBits bits of each lane from kShift on, as a float.
  template <int kShift, int kBits>
  static Reg Number(Int x) {
    return ToFloat(x >> kShift & ((1u << kBits) - 1));
  }
  // Pairs of bf16 of numbers that are such.
  static Int PairBf16(Reg even, Reg odd) { return (Int)even >> 16 | (Int)odd; }
  // Lanes of float32, float16 or bf16, and of uint8.
  static Reg LoadScale(const char* p, Format format) {
    if (format == Format::kF32) return Load(reinterpret_cast<const float*>(p));
    Reg x{};
    for (size_t i = 0; i < 4; ++i) x[i] = LoadFloat(format, p + 2 * i);
    return x;
  }
  static Int LoadZeros(const char* p) {
    Int x{};
    for (size_t i = 0; i < 4; ++i) x[i] = static_cast<uint8_t>(p[i]);
    return x;
  }
  // Integers in value that fit 8 bits, one byte per lane.
  static void StoreBytes(void* p, Reg x, Mask m) {
    const Signed q = __builtin_convertvector(x, Signed);
    for (size_t i = 0; i < 4; ++i) {
      if (i < m) static_cast<uint8_t*>(p)[i] = static_cast<uint8_t>(q[i]);
    }
  }
};

}  // namespace
}  // namespace quern::ukernel
