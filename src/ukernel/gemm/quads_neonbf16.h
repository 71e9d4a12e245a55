// Vectors of NEON for tile_bf16_quads.h. For kernel files of that ISA only.
#pragma once

#include "ukernel/gemm/vector_f32_neon.h"

#include "ukernel/gemm/tile_bf16_quads.h"

namespace quern::ukernel {
namespace {

struct Quads {
  using Reg = float32x4_t;
  using Tile = TileEpilogue<Vector, 1, 1>;
  static constexpr size_t kMaxBytes = 16;
  static constexpr size_t Bytes() { return 16; }
  static void Put(char* p, int i, Reg x) { vst1q_f32(reinterpret_cast<float*>(p) + 4 * i, x); }
  static Reg Get(const char* p, int i) { return vld1q_f32(reinterpret_cast<const float*>(p) + 4 * i); }
  static Reg Zero() { return vdupq_n_f32(0); }
  static Reg Add(Reg a, Reg b) { return vaddq_f32(a, b); }
  static bfloat16x8_t Weights(const Bf16* p, int j) { return vld1q_bf16(p + 8 * j); }
  static bfloat16x8_t Pair(const Bf16* p) { return vld1q_bf16(p); }
  static bfloat16x8_t Row(uint64_t quad) { return vreinterpretq_bf16_u64(vdupq_n_u64(quad)); }
  static Reg Mmla(Reg acc, bfloat16x8_t x, bfloat16x8_t w) { return vbfmmlaq_f32(acc, x, w); }
  static Reg Dot(Reg acc, bfloat16x8_t x, bfloat16x8_t w) { return vbfdotq_f32(acc, x, w); }
  static Reg RowOf(int r, Reg c0, Reg c1) {
    const float64x2_t a = vreinterpretq_f64_f32(c0), b = vreinterpretq_f64_f32(c1);
    return vreinterpretq_f32_f64(r ? vuzp2q_f64(a, b) : vuzp1q_f64(a, b));
  }
  static Reg Fold(Reg c0, Reg c1) { return vpaddq_f32(c0, c1); }

  // Vector v of row m of the call's accumulators.
  static Reg Fetch(const GemmArgs& a, size_t m, int v) {
    const size_t n = static_cast<size_t>(v) * 4, lanes = n < a.n ? a.n - n : 0;
    const float* p = Tile::Row(a.acc, m, a.acc_row_stride, n);
    return lanes ? Vector::LoadMask(p, lanes < 4 ? lanes : 4) : Zero();
  }
  // Row m of the call, whose m0 was `m0`, on the columns of `unit`; `a` is its own to move.
  static __attribute__((noinline)) void Finish(GemmArgs& a, size_t m0, size_t m, size_t unit, Reg x0, Reg x1) {
    const size_t n = a.n, n0 = a.n0;
    if (8 * unit >= n) return;
    a.m0 = m0 + m;
    a.n0 = n0 + 8 * unit;
    a.n = n - 8 * unit < 8 ? n - 8 * unit : 8;
    const Tile::Tail tail = Tile::MakeTail(a.n);
    Tile::Acc acc = {{x0, x1}};
    void* out = a.last_k ? a.dst : a.acc;
    const size_t stride = a.last_k ? a.dst_row_stride : a.acc_row_stride;
    if (a.last_k) Tile::Apply(a, a.ops, a.ops + a.op_count, acc, tail);
    Tile::Write(const_cast<float*>(Tile::Row(out, m, stride, 8 * unit)), stride, acc, tail);
    a.n = n;
    a.n0 = n0;
  }
};

}  // namespace
}  // namespace quern::ukernel
