// Vectors of SVE for tile_bf16_quads.h. For kernel files of that ISA only.
#pragma once

#include "ukernel/gemm/tile_sve.h"

#include "ukernel/gemm/tile_bf16_quads.h"

namespace quern::ukernel {
namespace {

struct Quads {
  using Reg = svfloat32_t;
  static constexpr size_t kMaxBytes = 256;
  static size_t Bytes() { return svcntb(); }
  static void Put(char* p, int i, Reg x) { svst1_vnum(svptrue_b32(), reinterpret_cast<float*>(p), i, x); }
  static Reg Get(const char* p, int i) { return svld1_vnum(svptrue_b32(), reinterpret_cast<const float*>(p), i); }
  static Reg Zero() { return svdup_f32(0); }
  static Reg Add(Reg a, Reg b) { return svadd_x(svptrue_b32(), a, b); }
  static svbfloat16_t Weights(const Bf16* p, int j) { return svld1_vnum_bf16(svptrue_b16(), p, j); }
  static svbfloat16_t Pair(const Bf16* p) { return svld1rq_bf16(svptrue_b16(), p); }
  static svbfloat16_t Row(uint64_t quad) { return svreinterpret_bf16(svdup_u64(quad)); }
  static Reg Mmla(Reg acc, svbfloat16_t x, svbfloat16_t w) { return svbfmmla(acc, x, w); }
  static Reg Dot(Reg acc, svbfloat16_t x, svbfloat16_t w) { return svbfdot(acc, x, w); }
  static Reg RowOf(int r, Reg c0, Reg c1) {
    const svfloat64_t a = svreinterpret_f64(c0), b = svreinterpret_f64(c1);
    return svreinterpret_f32(r ? svuzp2(a, b) : svuzp1(a, b));
  }
  static Reg Fold(Reg c0, Reg c1) { return Add(svuzp1(c0, c1), svuzp2(c0, c1)); }

  static Reg Fetch(const GemmArgs& a, size_t m, int v) {
    const size_t n = static_cast<size_t>(v) * svcntw();
    return FetchRow(a, ColumnsFrom(a, n), m, n);
  }
  static void Finish(GemmArgs& a, size_t, size_t m, size_t unit, Reg x0, Reg x1) {
    FinishVector(a, m, 2 * unit * svcntw(), x0);
    FinishVector(a, m, (2 * unit + 1) * svcntw(), x1);
  }
};

}  // namespace
}  // namespace quern::ukernel
