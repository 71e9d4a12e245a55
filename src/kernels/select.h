// Selection of micro-kernels in two stages (ukernel/choose.h) for drivers: at load the resident layout of the right
// side, per call the row for M. Every rejected layout and row gives its reason in words.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/cpu_features.h"
#include "base/status.h"
#include "kernels/problem.h"
#include "ukernel/choose.h"
#include "ukernel/gemm.h"
#include "ukernel/pack.h"

namespace quern::kernels {

using ukernel::EstimateCycles;
using ukernel::kSelectionM;
using ukernel::kSelectionMCount;
using ukernel::ReadsInPlace;
using ukernel::RowTable;
using ukernel::SelectOptions;

struct LayoutCandidate {
  PackLayout layout;
  std::string name;  // LayoutName
  double score = 0;  // mean over Ms of cycles / fewest cycles of any layout; 1 is best
  size_t resident_bytes = 0;
  double cycles[kSelectionMCount] = {};           // by the best row for each M; 0: no row
  const GemmKernel* rows[kSelectionMCount] = {};  // that row
  std::string reason;                             // why not; empty for the chosen one
};

struct RowCandidate {
  const GemmKernel* row = nullptr;
  std::string name;    // ukernel::Name
  double cycles = 0;   // 0: rejected before costing
  std::string reason;  // why not; empty for the chosen one
};

// Everything that one stage looked at; filled only when asked for.
struct SelectionReport {
  std::vector<LayoutCandidate> layouts;  // load stage, chosen first
  std::vector<RowCandidate> rows;        // every row of the table, chosen first, then by cycles, then the rejected
};

struct LayoutChoice {
  PackLayout layout;
  size_t vector_bytes = 0;  // of scaled units
  bool operator==(const LayoutChoice&) const = default;
};

// "f32 [N/16][K][16]", "qb4w [N/16][K/8][16][8] bf16 scales, sums"; scaled units as "4v".
std::string LayoutName(const PackLayout& layout);

// Why `row` cannot serve the problem on this CPU with the right side resident as `layout` (null: any of its layouts);
// empty if it can. Reasons: "needs sme2", "no body in this build", "K % 32 != 0", "precision fp32-fast not allowed",
// "layout f32 [N/8][K][8]"...
std::string RejectionReason(const GemmKernel& row, const GemmProblem& problem, const SelectOptions& options,
                            const LayoutChoice* layout);

// Why something that would serve was not chosen: "cost 1.8x of best", with as many digits as tell the two apart, or
// "cost equal to best" (then the order of the table or the memory decided).
std::string CostReason(double cycles, double best);

// Load stage. kUnsupported, with the reasons, when no row can serve the problem.
Result<LayoutChoice> SelectLayout(const GemmProblem& problem, const SelectOptions& options,
                                  SelectionReport* report = nullptr);

// Rows that can serve the problem with this layout, in table order. Allocates; drivers call it once.
std::vector<const GemmKernel*> EligibleRows(const GemmProblem& problem, const SelectOptions& options,
                                            const LayoutChoice& layout);

// Call stage: the cheapest of `eligible` for M rows (of equals the first); null when it is empty. Allocates nothing.
const GemmKernel* SelectRow(std::span<const GemmKernel* const> eligible, const GemmProblem& problem,
                            const CpuFacts& cpu, const PackLayout& layout, size_t m);

// Call stage with everything it looked at. Null row: every candidate in the report says why.
const GemmKernel* ExplainRow(const GemmProblem& problem, const SelectOptions& options, const LayoutChoice& layout,
                             size_t m, SelectionReport* report);

// Float32 weights kept as such serve also where a split in bf16 terms is unsafe: the row that computes those parts, or
// null. Only asked for rows with Format::kBf16x2 or kBf16x3 operands.
const GemmKernel* SelectSplitFallback(std::span<const GemmKernel* const> eligible, const GemmProblem& problem,
                                      const CpuFacts& cpu, const PackLayout& layout, size_t m);

}  // namespace quern::kernels
