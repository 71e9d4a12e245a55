#include "kernels/check_selection.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "kernels/problem_kinds.h"
#include "kernels/time_row.h"

namespace quern::kernels {
namespace {

struct Candidate {
  const GemmKernel* row;
  LayoutChoice layout;
  TimedProduct product;
  double seconds = 0;
};

std::string Text(const Candidate& c) {
  return std::string(ukernel::Name(*c.row).text) + ", " + LayoutName(c.layout.layout);
}

// Every row in every layout that serves the problem; the chosen one first.
Result<std::vector<Candidate>> Candidates(const GemmProblem& problem, const SelectOptions& options, size_t m) {
  QUERN_ASSIGN_OR_RETURN(const LayoutChoice layout, SelectLayout(problem, options));
  const GemmKernel* chosen = SelectRow(EligibleRows(problem, options, layout), problem, options.cpu, layout.layout, m);
  std::vector<Candidate> candidates;
  const auto add = [&](const GemmKernel& row, const LayoutChoice& l) -> Status {
    QUERN_ASSIGN_OR_RETURN(TimedProduct product, TimedProduct::Make(problem, options, l, row, m));
    candidates.push_back({&row, l, std::move(product)});
    return OkStatus();
  };
  QUERN_RETURN_IF_ERROR(add(*chosen, layout));
  for (const auto* list : options.rows) {
    for (size_t i = 0; i < list->count; ++i) {
      const GemmKernel& row = list->rows[i];
      for (const PackLayout& l : row.layouts) {
        if (l.element == Format::kNone) break;
        GemmKernel alone = row;  // RejectionReason asks for any of a row's layouts
        std::fill(std::begin(alone.layouts), std::end(alone.layouts), PackLayout{});
        alone.layouts[0] = l;
        if (!RejectionReason(alone, problem, options, nullptr).empty()) continue;
        if (&row == chosen && l == layout.layout) continue;
        QUERN_RETURN_IF_ERROR(add(row, {l, ukernel::RowVectorBytes(row, options.cpu)}));
      }
    }
  }
  return candidates;
}

// The least of several rounds; from the second on only what may still be the fastest, and the chosen one.
void TimeAll(std::vector<Candidate>& candidates, double seconds) {
  constexpr int kRounds = 4;
  constexpr double kFar = 1.5;
  for (int round = 0; round < kRounds; ++round) {
    double fewest = 0;
    for (const Candidate& c : candidates) fewest = fewest == 0 ? c.seconds : std::min(fewest, c.seconds);
    for (Candidate& c : candidates) {
      if (round > 0 && c.seconds > kFar * fewest && &c != &candidates.front()) continue;
      const double time = c.product.Time(seconds);
      c.seconds = c.seconds == 0 ? time : std::min(c.seconds, time);
    }
  }
}

}  // namespace

Result<std::vector<CheckedShape>> CheckSelection(const CpuInfo& cpu, const CheckOptions& o) {
  QUERN_RETURN_IF_ERROR(CheckCanRun(cpu));
  SelectOptions options;
  options.cpu = cpu.facts();
  options.rows = o.rows;
  std::vector<ProblemKind> kinds;
  for (const ProblemKind& kind : ProblemKinds()) {
    ProblemKind small = kind;
    small.problem.n = small.problem.k = 64;
    if (kind.problem.rhs_constant && SelectLayout(small.problem, options).ok()) kinds.push_back(kind);
  }
  if (kinds.empty()) return Unsupported("no row runs here");
  std::mt19937 rng(o.seed);
  const auto draw = [&](double least, double most) {
    const double u = static_cast<double>(rng()) / 4294967296.0;
    return static_cast<size_t>(std::lround(least * std::pow(most / least, u)));
  };
  constexpr size_t kMostProducts = size_t{1} << 27;
  std::vector<CheckedShape> shapes;
  while (shapes.size() < o.shapes) {
    const ProblemKind& kind = kinds[shapes.size() % kinds.size()];
    CheckedShape s;
    s.types = kind.name;
    s.m = draw(1, 1024);
    s.n = draw(16, 4096);
    s.k = ukernel::RoundUp(draw(32, 4096), 32);
    if (s.m * s.n * s.k > kMostProducts) continue;
    GemmProblem problem = kind.problem;
    problem.n = s.n;
    problem.k = s.k;
    problem.expected_m = s.m;
    QUERN_ASSIGN_OR_RETURN(std::vector<Candidate> candidates, Candidates(problem, options, s.m));
    TimeAll(candidates, o.seconds_per_row);
    const Candidate& best = *std::min_element(candidates.begin(), candidates.end(),
                                              [](const auto& a, const auto& b) { return a.seconds < b.seconds; });
    s.chosen = Text(candidates.front());
    s.chosen_seconds = candidates.front().seconds;
    s.best = Text(best);
    s.best_seconds = best.seconds;
    shapes.push_back(std::move(s));
    if (o.progress && shapes.size() % 10 == 0) {
      o.progress("measured " + std::to_string(shapes.size()) + " of " + std::to_string(o.shapes) + " shapes");
    }
  }
  return shapes;
}

}  // namespace quern::kernels
