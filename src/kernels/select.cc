// Selection with its words: reports of both stages, and the lists that drivers keep.
#include "kernels/select.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <tuple>
#include <utility>

#include "ukernel/transform.h"

namespace quern::kernels {
namespace {

using ukernel::LayoutScore;
using ukernel::Rejection;

std::string Text(const Rejection& rejection) {
  char text[ukernel::kReasonBytes];
  ukernel::ReasonText(rejection, text, sizeof(text));
  return text;
}

}  // namespace

std::string CostReason(double cycles, double best) {
  char text[ukernel::kReasonBytes];
  ukernel::CostText(cycles, best, text, sizeof(text));
  return text;
}

std::string LayoutName(const PackLayout& layout) {
  char text[ukernel::kReasonBytes];
  ukernel::LayoutText(layout, text, sizeof(text));
  return text;
}

std::string RejectionReason(const GemmKernel& row, const GemmProblem& problem, const SelectOptions& options,
                            const LayoutChoice* layout) {
  return Text(ukernel::RejectRow(row, problem, options, layout ? &layout->layout : nullptr));
}

std::vector<const GemmKernel*> EligibleRows(const GemmProblem& problem, const SelectOptions& options,
                                            const LayoutChoice& layout) {
  std::vector<const GemmKernel*> rows;
  for (const auto* list : options.rows) {
    for (size_t i = 0; i < list->count; ++i) {
      const GemmKernel& r = list->rows[i];
      if (!ukernel::RejectRow(r, problem, options, &layout.layout)) rows.push_back(&r);
    }
  }
  return rows;
}

// Products of few rows read their weights as fast with any vectors by the estimate. Longer ones are better out of
// caches (Zen 4, one row out of L3: 42.5 GFLOP/s where 256 bits give 38.7) and worse out of memory (27 and 28.5 GB/s).
static double PreferLonger(const GemmKernel& r, const GemmProblem& problem, double cycles) {
  constexpr double kAsFast = 0.995;
  return problem.weights_stay && r.cost.engine == ukernel::Engine::kVector512 ? kAsFast * cycles : cycles;
}

const GemmKernel* SelectRow(std::span<const GemmKernel* const> eligible, const GemmProblem& problem,
                            const CpuFacts& cpu, const PackLayout& layout, size_t m) {
  const GemmKernel* best = nullptr;
  double fewest = 0;
  for (const GemmKernel* r : eligible) {
    // Not for what is packed after all, but where it is asked for by name.
    if (r->only_in_place && eligible.size() > 1 && !ukernel::CanReadInPlace(*r, problem)) continue;
    const double cycles = PreferLonger(*r, problem, EstimateCycles(*r, problem, cpu, layout, m));
    if (!best || cycles < fewest) {
      best = r;
      fewest = cycles;
    }
  }
  return best;
}

const GemmKernel* SelectSplitFallback(std::span<const GemmKernel* const> eligible, const GemmProblem& problem,
                                      const CpuFacts& cpu, const PackLayout& layout, size_t m) {
  const GemmKernel* best = nullptr;
  double fewest = 0;
  for (const GemmKernel* r : eligible) {
    if (ukernel::IsPrepared(*r) || ComputesOnTerms(*r) || r->precision != Precision::kFp32) continue;
    if (!ukernel::SameElements(layout, r->consumed) || r->whole_panel) continue;
    const double cycles = EstimateCycles(*r, problem, cpu, layout, m);
    if (!best || cycles < fewest) {
      best = r;
      fewest = cycles;
    }
  }
  return best;
}

Result<LayoutChoice> SelectLayout(const GemmProblem& problem, const SelectOptions& options, SelectionReport* report) {
  const auto scores = std::make_unique<LayoutScore[]>(ukernel::kMaxLayoutScores);
  const ukernel::LayoutScores found = ukernel::ScoreLayouts(problem, options, report != nullptr, scores.get());
  if (report) {
    report->layouts.clear();
    for (size_t c = 0; c < found.count; ++c) {
      const LayoutScore& s = scores[c];
      LayoutCandidate candidate;
      candidate.layout = s.layout;
      candidate.name = LayoutName(s.layout);
      candidate.score = s.score;
      candidate.resident_bytes = s.resident_bytes;
      std::copy(std::begin(s.cycles), std::end(s.cycles), candidate.cycles);
      std::copy(std::begin(s.rows), std::end(s.rows), candidate.rows);
      candidate.reason = Text(s.rejection);
      if (!s.rejection && c != found.best) candidate.reason = CostReason(s.score, scores[found.best].score);
      report->layouts.push_back(std::move(candidate));
    }
    std::sort(report->layouts.begin(), report->layouts.end(), [](const LayoutCandidate& a, const LayoutCandidate& b) {
      const auto key = [](const LayoutCandidate& x) {
        return std::make_tuple(x.reason.empty() ? 0 : x.score > 0 ? 1 : 2, x.score, std::string_view(x.name));
      };
      return key(a) < key(b);
    });
  }
  if (found.best < found.count) {
    const PackLayout& layout = scores[found.best].layout;
    const LayoutChoice choice{layout, ukernel::LayoutVectorBytes(layout, options.cpu)};
    if (report) {
      const size_t m = problem.expected_m ? problem.expected_m : kSelectionM[kSelectionMCount - 1];
      ExplainRow(problem, options, choice, m, report);
    }
    return choice;
  }
  std::string reasons;
  for (const auto* list : options.rows) {
    for (size_t i = 0; i < list->count; ++i) {
      const std::string reason = RejectionReason(list->rows[i], problem, options, nullptr);
      if (list->rows[i].lhs == problem.lhs) {
        reasons += std::string("; ") + ukernel::Name(list->rows[i]).text + ": " + reason;
      }
      if (report) report->rows.push_back({&list->rows[i], ukernel::Name(list->rows[i]).text, 0, reason});
    }
  }
  return Unsupported(std::string("no micro-kernel for a product of ") + FormatName(problem.lhs) + " by " +
                     FormatName(problem.rhs) + " (K " + std::to_string(problem.k * problem.segments) + ", N " +
                     std::to_string(problem.n) + ")" + (reasons.empty() ? ": none takes that left side" : reasons));
}

const GemmKernel* ExplainRow(const GemmProblem& problem, const SelectOptions& options, const LayoutChoice& layout,
                             size_t m, SelectionReport* report) {
  const std::vector<const GemmKernel*> eligible = EligibleRows(problem, options, layout);
  const GemmKernel* best = SelectRow(eligible, problem, options.cpu, layout.layout, m);
  if (!report) return best;
  const double fewest = best ? EstimateCycles(*best, problem, options.cpu, layout.layout, m) : 0;
  report->rows.clear();
  for (const auto* list : options.rows) {
    for (size_t i = 0; i < list->count; ++i) {
      const GemmKernel& r = list->rows[i];
      RowCandidate c{&r, ukernel::Name(r).text, 0, RejectionReason(r, problem, options, &layout)};
      if (c.reason.empty()) {
        c.cycles = EstimateCycles(r, problem, options.cpu, layout.layout, m);
        if (&r != best) c.reason = CostReason(c.cycles, fewest);
      }
      report->rows.push_back(std::move(c));
    }
  }
  std::sort(report->rows.begin(), report->rows.end(), [&](const RowCandidate& a, const RowCandidate& b) {
    const auto key = [&](const RowCandidate& x) {
      return std::make_tuple(x.row == best ? 0 : x.cycles > 0 ? 1 : 2, x.cycles, std::string_view(x.name));
    };
    return key(a) < key(b);
  });
  return best;
}

}  // namespace quern::kernels
