// The loops over micro-kernels of one matrix product: blocking, preparation of the left side, block transforms, K
// blocks, epilogues, threads. Operator drivers (matmul, conv) describe their operands to it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/driver.h"
#include "kernels/select.h"
#include "ukernel/driving.h"
#include "ukernel/quantize.h"
#include "ukernel/transform.h"
#include "ukernel/vector.h"

namespace quern::kernels {

// Rows of a left side that are pixels of an NHWC image: row p, tap (i, j) is the pixel
// (p / out_w * stride_h + i*dilation_h - pad_top, p % out_w * stride_w + j*dilation_w - pad_left), or zero_row outside.
// Of a volume NDHWC, whose taps have a depth before them, out_h lines are a slice.
struct ImageRows {
  const void* image = nullptr;
  ptrdiff_t pixel_stride = 0, row_stride = 0;  // bytes
  size_t in_h = 0, in_w = 0, out_w = 0;
  size_t kernel_h = 1, kernel_w = 1;
  size_t stride_h = 1, stride_w = 1;
  size_t dilation_h = 1, dilation_w = 1;
  size_t pad_top = 0, pad_left = 0;
  size_t in_d = 1, out_h = ~size_t{0};
  size_t kernel_d = 1, stride_d = 1, dilation_d = 1, pad_front = 0;
  const void* zero_row = nullptr;  // k elements of padding
};

// What a product is computed from. With `image`, lhs is not used.
struct GemmOperands {
  const void* lhs = nullptr;
  ptrdiff_t lhs_row_stride = 0;  // bytes
  const ImageRows* image = nullptr;
  ukernel::RhsForm rhs_form = ukernel::RhsForm::kPacked;
  const std::byte* rhs = nullptr;       // packed, of the plan's layout and problem; or the matrix in place
  const std::byte* next_rhs = nullptr;  // the same of the product that comes next, asked for in advance; null: unknown
  size_t rhs_k_stride = 0;              // kInPlace, bytes
  uint16_t rhs_pair_bound = 0;          // as in ukernel::GemmArgs
  ukernel::WideGroups rhs_wide_groups;  // likewise, of all units
  void* dst = nullptr;
  size_t dst_row_stride = 0;     // bytes; an element's in column-major results
  size_t dst_column_stride = 0;  // bytes, in column-major results only
  const EpilogueOp* ops = nullptr;
  size_t op_count = 0;
  bool backwards = false;  // each block's columns from the last ones to the first
};

using ukernel::DynamicOps;

// The most ops of one product: the caller's, and those that drivers put before them.
inline constexpr size_t kMaxGemmOps = ukernel::kMaxEpilogueOps + 4;

// One K block: `taps` segments from `tap0`, of each the elements [k0, k0 + k).
struct KBlock {
  size_t tap0 = 0, taps = 1;
  size_t k0 = 0, k = 0;
  size_t padded0 = 0, padded = 0;  // the range along the resident padded K
};

// A row with what its calls need; tiles in elements.
struct RowBinding {
  const GemmKernel* row = nullptr;
  size_t tile_m = 0, tile_n = 0;
};

// Every decision on one product; a plain value. Tiles lie at fixed multiples whatever the number of threads, so results
// have the same bits for every concurrency.
struct GemmPlan {
  RowBinding main;
  RowBinding fallback;  // row null: not needed
  const ukernel::TransformKernel* transform = nullptr;
  const ukernel::LhsPackKernel* lhs_pack = nullptr;  // null: the generic packer
  bool prepared = false;                             // the left side is packed first
  ukernel::EpilogueRun epilogue = nullptr;           // of the ops that the row leaves
  void (*transpose)(const ukernel::TransposeArgs&) = nullptr;
  CpuFacts cpu;
  Format lhs_format = Format::kF32;  // as the operands have it
  ukernel::RhsShape rhs_shape;
  ukernel::RhsGeometry rhs_geometry;  // resident
  PackLayout layout;
  PackLayout panel_layout;              // of transformed panels
  ukernel::RhsGeometry panel_geometry;  // of one K block and an n block (a group, if panels are kept)
  size_t vector_bytes = 0;
  size_t m = 0, n = 0, k = 0, segments = 1;

  size_t k_block = 0;  // elements of the longest K block (per tap, when taps are split)
  size_t k_block_count = 1;
  size_t taps_per_block = 1;  // several taps in a block, or
  size_t k_parts = 1;         // several blocks in a tap
  size_t n_block = 0;         // columns that are worked on before the next K block
  size_t m_super = 0;         // rows likewise
  size_t m_block = 0;         // rows for which a panel of the right side stays in L1, or in L2 (`panels_ahead`)
  ukernel::AsksAhead asks_ahead = ukernel::AsksAhead::kNothing;  // what calls do of it
  bool panels_ahead = false;                                     // the calls by a panel ask for the next one
  size_t line_rows = 0;      // an image's rows come in lines of so many, evenly apart; else 0
  size_t lhs_block = 0;      // rows of the left side prepared at once
  size_t n_group = 0;        // columns that all blocks of rows are computed for before the next ones
  bool keep_panels = false;  // with several blocks of rows, transformed panels of a group are kept for all of them
  size_t m_parts = 1, n_parts = 1;  // tasks of the region
  int slots = 1;
  bool acc_in_dst = false;
  bool column_major = false;  // the result: elements of a column are contiguous
  size_t gathered_rows = 0;   // of a tile of columns, that a column-major result is transposed from at once
  Format acc_format = Format::kF32;
  Format dst_format = Format::kF32;

  ukernel::LhsShape lhs_shape;  // of lhs_block rows
  ukernel::LhsGeometry lhs_geometry;

  // Workspace, bytes.
  size_t lhs_offset = 0;        // packed left side
  size_t lhs_flags_offset = 0;  // a byte per tile of rows: its PackFlags
  size_t lhs_zeros_offset = 0;  // int32 negated zero points of dynamic rows with int32 accumulators
  size_t pointers_offset = 0;   // row pointers of a prepared image
  size_t panels_offset = 0;     // kept panels, K block by K block
  size_t panel_flags_offset = 0;
  size_t slots_offset = 0, slot_stride = 0;
  size_t slot_panel = 0, slot_acc = 0, slot_tile = 0, slot_pointers = 0, slot_taps = 0, slot_scratch = 0;
  size_t slot_gathered = 0, gathered_row_stride = 0;
  size_t slot_panel_flags = 0;  // a byte per tile of columns of the n block: the PackFlags that the transform found
  size_t workspace_bytes = 0;

  size_t acc_bytes() const { return FormatBytes(acc_format); }
  size_t acc_row_stride() const { return n_block * acc_bytes() + ukernel::kPackAlignment; }  // of an n block's
  // What parts and blocks of rows are multiples of: tiles do not go over the end of a line.
  size_t row_unit() const { return line_rows ? line_rows : main.tile_m; }
};

// At most about this many bytes of prepared left side at once, and of kept panels: rows beyond are rare.
inline constexpr size_t kPreparedBytes = size_t{48} << 20;

struct GemmShape {
  size_t m = 0;
  bool image = false;               // rows come from an image
  size_t line = 0;                  // without padding: its output's width, else 0
  bool in_place = false;            // right side
  bool rhs_near = false;            // likewise: product after product finds it in cache, so that calls need not ask
  bool column_major = false;        // result
  const EpilogueOp* ops = nullptr;  // only kinds and formats matter; integer ops may come and go
  size_t op_count = 0;
  size_t prepared_bytes = kPreparedBytes;  // smaller in tests
};

// How many of `concurrency` threads may run the row at once: cores share SME units.
int RowConcurrency(const GemmKernel& row, const CpuFacts& cpu, int concurrency);

// The row must be eligible for the problem and the layout.
GemmPlan PlanGemm(const GemmProblem& problem, const CpuFacts& cpu, const LayoutChoice& choice, const GemmKernel& row,
                  const GemmKernel* fallback, const GemmShape& shape, int concurrency);

// `op` as the rows from `rows` on, or the columns from `columns` on, see it: the operands of a part of the output.
EpilogueOp MovedDown(EpilogueOp op, size_t rows);
EpilogueOp MovedRight(EpilogueOp op, size_t columns);

KBlock KBlockAt(const GemmPlan& plan, size_t index);

// Computes the product in at most two parallel regions per group of columns and block of prepared rows. Each panel is
// transformed once per K block, whatever M. Allocates nothing.
Status RunGemm(const GemmPlan& plan, const GemmOperands& operands, const RunResources& resources);

}  // namespace quern::kernels
