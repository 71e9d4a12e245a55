// What rows_split.h needs of AVX2. For kernel files of that ISA only.
#pragma once

#include "ukernel/gemm/tile_f32_blocks_split.h"

#if QUERN_ISA_HERE
#include "ukernel/gemm/dot_blocks_avx2.h"
#include "ukernel/gemm/numbers_avx2.h"
#endif

#include "ukernel/gemm/rows_split.h"
