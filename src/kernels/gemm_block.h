// One block of a product: prepared rows by a group of columns, cut into parts that the tasks of a region compute.
// Private to gemm_core, which goes from block to block.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/gemm_core.h"
#include "ukernel/gemm.h"

namespace quern::kernels {

// Pointers of rows [row, row + rows) for taps [tap, tap + taps): out[(t - tap)*pitch + r].
void FillPointers(const ImageRows& image, size_t row, size_t rows, size_t tap, size_t taps, size_t pitch,
                  const void** out);

// The product of one block of rows of the left side ([0, m) of it) by a group of columns, as all its tasks see it.
struct GemmBlock {
  const GemmPlan& p;
  GemmOperands operands;  // moved to the block's first row
  size_t row0;            // of the image
  size_t m;
  size_t n0, n1;    // columns
  bool transforms;  // panels are transformed; else they are kept from the first block of rows
  const EpilogueOp* ops;
  size_t op_count;
  size_t main_fused, fallback_fused;  // lengths of the prefixes that the rows run
  char* workspace;

  // A byte per tile of rows: its PackFlags.
  uint8_t* lhs_flags() const { return reinterpret_cast<uint8_t*>(workspace + p.lhs_flags_offset); }
};

// Runs task over [0, items) on the plan's slots.
Status RunRegion(const GemmPlan& p, const RunResources& r, int64_t items, Task task);

// Where part `index` of [0, total) begins when it is cut in parts at multiples of `unit`.
size_t PartBegin(size_t total, size_t parts, size_t index, size_t unit);

// Computes the block, its left side prepared, in one region.
Status RunBlock(const GemmBlock& b, const RunResources& r);

}  // namespace quern::kernels
