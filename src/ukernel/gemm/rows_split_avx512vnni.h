// What rows_split.h needs of AVX512-VNNI. For kernel files of that ISA only.
#pragma once

#include "ukernel/gemm/tile_f32_blocks_split.h"

#if QUERN_ISA_HERE
#include "ukernel/gemm/dot_blocks_avx512vnni.h"
#include "ukernel/gemm/numbers_avx512.h"
#endif

#include "ukernel/gemm/rows_split.h"

namespace quern::ukernel {
namespace {

constexpr GemmCost kSplitCost{
    .engine = Engine::kVector512, .step_row = 245, .step_load = 35, .step_min = 280, .row = 80, .tile = 400};

}  // namespace
}  // namespace quern::ukernel
