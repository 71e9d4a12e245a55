// What rows_split.h needs of AVX-VNNI. For kernel files of that ISA only.
#pragma once

#include "ukernel/gemm/tile_f32_blocks_split.h"

#if QUERN_ISA_HERE
#include "ukernel/gemm/dot_blocks_avxvnni.h"
#include "ukernel/gemm/numbers_avx2.h"
#endif

#include "ukernel/gemm/rows_split.h"

namespace quern::ukernel {
namespace {

// By the instructions of a step beside those of the row on AVX2, as no machine had this ISA.
constexpr GemmCost kSplitCost{
    .engine = Engine::kVector, .step_row = 420, .step_load = 60, .step_min = 560, .row = 80, .tile = 400};

}  // namespace
}  // namespace quern::ukernel
