// What the tasks of one product run: a part of its tiles, K block by K block, with the scratch of a slot. Private to
// the drivers; gemm_core.cc cuts products into parts.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/gemm_core.h"
#include "ukernel/gemm.h"

namespace quern::kernels {

// Pointers of rows [row, row + rows) for taps [tap, tap + taps): out[(t - tap)*pitch + r].
void FillPointers(const ImageRows& image, size_t row, size_t rows, size_t tap, size_t taps, size_t pitch,
                  const void** out);

// What a task counted; added to the shared counters once.
struct GemmCount {
  uint64_t calls = 0, transforms = 0, transform_bytes = 0, modes = 0, fallbacks = 0;

  void AddTo(DriverCounters* counters) const;  // may be null
};

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

  // A byte per tile of rows: its split is unsafe.
  uint8_t* lhs_flags() const { return reinterpret_cast<uint8_t*>(workspace + p.lhs_flags_offset); }
};

class GemmPart {
 public:
  GemmPart(const GemmBlock& block, int slot)
      : b_(block), p_(block.p), slot_(block.workspace + p_.slots_offset + static_cast<size_t>(slot) * p_.slot_stride) {}
  ~GemmPart() {
    if (in_mode_ && p_.main.row->leave_mode) p_.main.row->leave_mode();
  }
  GemmPart(const GemmPart&) = delete;
  GemmPart& operator=(const GemmPart&) = delete;

  const GemmCount& count() const { return count_; }

  // Computes the rows [m0, m1) and columns [n0, n1). The row's mode is entered by the first of several calls and left
  // by the destructor, which must run on the same thread.
  void Run(size_t m0, size_t m1, size_t n0, size_t n1);

 private:
  void RunColumns(size_t m0, size_t m1, size_t n0, size_t n1);
  void RunRows(const KBlock& k, size_t m0, size_t m1, size_t n0, size_t n1);
  void Transform(const KBlock& k, size_t n0, size_t n1);
  void RunFallbacks(size_t m0, size_t m1, size_t n0, size_t n1);
  void RunFallback(size_t m0, size_t m1, size_t n0, size_t n1);
  void AimPrefetch(const KBlock& k, size_t m0, size_t m1, size_t next, size_t columns);
  void PrefetchLhs();
  void PrefetchAccumulators(size_t m, size_t m1, size_t n, size_t n1) const;
  void SetRhs(ukernel::GemmArgs& a, const RowBinding& binding, const KBlock& k, size_t n, bool transformed) const;
  void SetLhs(ukernel::GemmArgs& a, const KBlock& k, size_t m, size_t pointers_m0) const;
  void Call(const GemmKernel& row, size_t fused, ukernel::GemmArgs& a);

  // Of the tile of columns that n is in: the transform found its split unsafe.
  uint8_t& RhsUnsafe(size_t n) const { return panel_flags_[(n - panels_n0_) / p_.main.tile_n]; }

  const GemmBlock& b_;
  const GemmPlan& p_;
  char* slot_;
  size_t acc_m0_ = 0, acc_n0_ = 0;
  char* panels_ = nullptr;          // of the K block, transformed, from the column panels_n0_ on
  uint8_t* panel_flags_ = nullptr;  // a byte per tile of columns
  size_t panels_n0_ = 0;
  bool first_ = true, last_ = true;  // K block
  bool in_mode_ = false;
  const char* prefetch_row_ = nullptr;
  size_t prefetch_rows_ = 0, prefetch_lines_ = 0, prefetch_line_bytes_ = 0, prefetch_at_ = 0;
  const void** pointers_ = nullptr;
  size_t pointer_pitch_ = 0;
  GemmCount count_;
};

}  // namespace quern::kernels
