// int8 dot products by the 256-bit VPDPBUSD for tile_i8.h. For kernel files of AVX-VNNI only.
#pragma once

#include "ukernel/gemm/dot_i8_vex.h"

namespace quern::ukernel {
namespace {

// The instruction's left side is unsigned: signed elements are staged with their top bit turned over, which adds 128.
template <bool kSignedLhs>
struct DotVnni256 : DotVex<kSignedLhs ? 128 : 0> {
  static __m256i Dot(__m256i acc, __m256i group, __m256i w) { return vnni::DotUS(acc, group, w); }
};

}  // namespace
}  // namespace quern::ukernel
