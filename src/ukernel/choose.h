// The choice of a resident layout and of a row, both pure functions of (problem, CPU, table of rows) that say what each
// row lacks and what it costs. Nothing allocates. Kernel-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/cpu_features.h"
#include "ukernel/gemm.h"
#include "ukernel/problem.h"
#include "ukernel/reason.h"

namespace quern::ukernel {

using RowTable = std::span<const KernelList<GemmKernel>* const>;

// What selection may choose from, and for whom.
struct SelectOptions {
  CpuFacts cpu;
  RowTable rows = AllGemmKernels();
  std::string_view force_row{};        // only the row of this name (tests, experiments)
  bool ignore_missing_bodies = false;  // the CPU is not this host: rows without a body count
};

// The left side has to be packed first.
static constexpr bool IsPrepared(const GemmKernel& r) { return r.lhs_layout.element != Format::kNone; }

// Vector length of a layout's units on a CPU; 0 when they are fixed.
static constexpr size_t LayoutVectorBytes(const PackLayout& l, const CpuFacts& c) {
  return l.n_scale == VectorScale::kFixed ? 0
         : l.n_scale == VectorScale::kSme ? c.sme_vector_bytes
                                          : c.sve_vector_bytes;
}

// Why `row` cannot serve the problem on this CPU with the right side resident as `layout` (null: any of its layouts).
Rejection RejectRow(const GemmKernel& row, const GemmProblem& problem, const SelectOptions& options,
                    const PackLayout* layout);

// Why a layout does not keep what the problem needs.
Rejection RejectLayout(const PackLayout& layout, const GemmProblem& problem);

// Estimated cycles of the whole product on one core by `row`: tiles, block transforms, preparation of the left side,
// packing of a run-time right side, and memory traffic. The layout must be one that the row accepts.
double EstimateCycles(const GemmKernel& row, const GemmProblem& problem, const CpuFacts& cpu, const PackLayout& layout,
                      size_t m);

// Whether the row can read the problem's right side where it is.
bool CanReadInPlace(const GemmKernel& row, const GemmProblem& problem);

// Whether a call with M rows reads a run-time right side where it is. Packing pays off over many rows, and always where
// the columns are far apart (every k another page).
bool ReadsInPlace(const GemmKernel& row, const GemmProblem& problem, const CpuFacts& cpu, size_t m);

// The cheapest row for M rows among those that can serve the problem with this layout, of equals the first; null when
// there is none. `cycles` (may be null) gets what it costs.
const GemmKernel* ChooseRow(const GemmProblem& problem, const SelectOptions& options, const PackLayout& layout,
                            size_t m, double* cycles);

// The Ms that the choice of a layout weighs when none is expected.
constexpr size_t kSelectionM[] = {1, 16, 128, 1024};
constexpr size_t kSelectionMCount = 4;

struct LayoutScore {
  PackLayout layout{};
  double score = 0;  // mean over Ms of cycles / fewest cycles of any layout; 1 is best
  size_t resident_bytes = 0;
  double cycles[kSelectionMCount] = {};           // by the best row for each M; 0: no row
  const GemmKernel* rows[kSelectionMCount] = {};  // that row
  Rejection rejection;                            // why it does not serve at all
};

// More than all rows have together (tests look).
constexpr size_t kMaxLayoutScores = 320;
// More than all rows that one CPU has for one type of left side.
constexpr size_t kMaxPossibleRows = 256;

struct LayoutScores {
  size_t count = 0;
  size_t best = 0;  // index of the chosen one; `count` if none serves
};

// Scores the layouts of the rows that can serve the problem (with `all` also those of the others, after them) in
// out[0 .. count), in the order of the table. `out` has room for kMaxLayoutScores.
LayoutScores ScoreLayouts(const GemmProblem& problem, const SelectOptions& options, bool all, LayoutScore* out);

}  // namespace quern::ukernel
