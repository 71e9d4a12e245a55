// Dot products of int8 rows by int8 blocks for tile_blocks.h, made of those of tile_i8.h that widen to 16 bits. For
// kernel files only.
#pragma once

#include "ukernel/convert.h"
#include "ukernel/gemm/tile_blocks.h"

namespace quern::ukernel {
namespace {

template <class Dot8>
struct DotBlocksWide : Dot8 {
  using V = typename Dot8::V;
  using Weights = typename Dot8::Weights;
  static constexpr int kStepGroups = 1;
  static constexpr int kZero = 0;
  static constexpr size_t kStepBytes = 64;
  static void LoadWeights(const char* p, Weights (&w)[1]) { w[0] = Dot8::LoadWeights(p); }
  static typename V::Reg LoadScale(const char* p, Format format) {
    if (format == Format::kF32) return V::Load(reinterpret_cast<const float*>(p));
    float x[V::kLanes];
    for (int i = 0; i < V::kLanes; ++i) x[i] = LoadFloat(format, p + 2 * i);
    return V::Load(x);
  }
};

}  // namespace
}  // namespace quern::ukernel
