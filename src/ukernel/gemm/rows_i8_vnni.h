// The rows of int8 products on AVX512-VNNI, the same tiles for every kind of left side. For kernel files only.
#pragma once

#include "ukernel/gemm/tile_i8.h"

#if QUERN_ISA_HERE
#include "ukernel/gemm/dot_i8_vnni.h"
#endif

namespace quern::ukernel {
namespace {

// kSigned: the left side is; VNNI's is not, so the sums of the columns are needed.
// kFull: units that are in registers together where all rows are.
template <bool kSigned, int MR, int NU, int kFull>
constexpr GemmKernel VnniRow(Format lhs) {
  GemmRun run = nullptr;
#if QUERN_ISA_HERE
  run = DispatchTileI8<DotVnni<kSigned>, MR, NU, kFull>;
#endif
  // Two instructions a cycle, of which staging leaves nine tenths, eight of a single unit; a unit's line of 64 bytes
  // comes out of L2 in about 1.5 cycles. Where a unit is all there is, a call over several takes longer to begin.
  return TileI8Row(kIsa, lhs, MR, NU * 16, kSigned, 4,
                   {.engine = Engine::kVector512,
                    .step_row = NU > 1 ? NU * 0.55f : 0.62f,
                    .step_min = NU * 1.5f,
                    .row = NU * 3.0f + 4,
                    .tile = NU > 1 ? 110.0f : 40.0f},
                   run);
}

struct VnniRows {
  GemmKernel rows[2];
};
template <bool kSigned>
constexpr VnniRows MakeVnniRows(Format lhs) {
  return {{VnniRow<kSigned, 12, 16, 2>(lhs), VnniRow<kSigned, 16, 1, 1>(lhs)}};
}

}  // namespace
}  // namespace quern::ukernel
