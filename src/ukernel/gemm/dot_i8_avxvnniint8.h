// int8 dot products by VPDPBSSD and VPDPBSUD for tile_i8.h: either sign as it is. For kernel files of AVX-VNNI-INT8
// only.
#pragma once

#include "ukernel/gemm/dot_i8_vex.h"

namespace quern::ukernel {
namespace {

template <bool kSignedLhs>
struct DotVnni256 : DotVex<0> {
  static __m256i Dot(__m256i acc, __m256i group, __m256i w) {
    return kSignedLhs ? vnni::DotSS(acc, group, w) : vnni::DotSU(acc, w, group);
  }
};

}  // namespace
}  // namespace quern::ukernel
