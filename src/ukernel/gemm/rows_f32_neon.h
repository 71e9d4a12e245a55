// Descriptors of NEON's rows that the float32 tile computes, and its calls on units of SME. For kernel files only.
#pragma once

#include "ukernel/gemm/tile_fma.h"
#include "ukernel/layouts_arm.h"

namespace quern::ukernel {
namespace {

// A tile of `layout`, whose multiply-adds are `overhead` of a cycle's two vectors.
constexpr GemmKernel NeonTile(Format lhs, const PackLayout& layout, uint16_t mr, uint16_t nr, float overhead,
                              GemmRun run) {
  const float vectors = nr / 4.0f;
  GemmKernel row = TileF32Row(layout, mr, nr,
                              {.engine = Engine::kVector,
                               .step_row = vectors / 2 * overhead,
                               .step_min = vectors * 0.5f,
                               .row = vectors * 2,
                               .tile = 30},
                              run);
  row.lhs = lhs;
  row.rhs = layout.element;
  return row;
}

// Few rows by weights that are resident for SME, whose vector length gives the unit.
[[maybe_unused]] constexpr GemmKernel NeonSmeUnit(Format lhs, const PackLayout& layout, uint16_t mr, GemmRun run,
                                                  float overhead = 1) {
  GemmKernel row = NeonTile(lhs, layout, mr, 16, 1.0f, run);
  row.isa = {kIsa.name, kIsa.needs.With(CpuFeature::kSme), kIsa.any_arch, kIsa.arch, kIsa.emulated};
  row.nr = 2;
  row.nr_scale = VectorScale::kSme;
  row.cost.step_row = 0.25f * overhead;                                           // per lane: two columns of the unit
  row.cost.step_min = 0.0625f * static_cast<float>(FormatBytes(layout.element));  // 32 bytes a cycle
  row.cost.row = 16;
  return row;
}

#if QUERN_ISA_HERE
// A unit of SME is a matrix with contiguous columns (of groups along K): 16 of them at a time.
template <class V, int MR, class O = FloatOperands<V>>
[[maybe_unused]] void RunSmeUnit(const GemmArgs& a) {
  using Rhs = typename O::Rhs;
  constexpr size_t kColumns = 16;
  GemmArgs part = a;
  part.rhs_form = RhsForm::kInPlace;
  part.rhs_k_stride = a.vector_bytes / 2 * sizeof(Rhs);
  for (size_t n = 0; n < a.n; n += kColumns) {
    part.n = a.n - n < kColumns ? a.n - n : kColumns;
    part.n0 = a.n0 + n;
    part.rhs = static_cast<const Rhs*>(a.rhs) + n * O::kGroup;
    part.acc = static_cast<float*>(a.acc) + n;
    part.dst = static_cast<float*>(a.dst) + n;
    DispatchTileFma<V, MR, 2, O>(part);
  }
}
#endif

}  // namespace
}  // namespace quern::ukernel
