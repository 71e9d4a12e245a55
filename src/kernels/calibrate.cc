// Fits the cost terms of every row that this machine runs to the times of products.
#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <random>

#include "kernels/calibration.h"
#include "kernels/peak.h"
#include "kernels/problem_kinds.h"
#include "kernels/time_row.h"

namespace quern::kernels {
namespace {

struct Extents {
  size_t m, n, k;
};

// Shapes that tell the terms apart: few and many rows, short and long K, right sides in every level of the caches.
std::vector<Extents> SampleShapes() {
  std::vector<Extents> shapes = {{1, 64, 64}, {1, 1024, 1024}, {1, 2048, 2048}, {1, 4096, 4096}, {16, 4096, 4096}};
  std::mt19937 rng(11);
  const auto draw = [&](double least, double most) {
    const double u = static_cast<double>(rng()) / 4294967296.0;
    return static_cast<size_t>(std::lround(least * std::pow(most / least, u)));
  };
  constexpr size_t kCount = 35, kMostProducts = size_t{1} << 25;
  while (shapes.size() < kCount) {
    const Extents e{draw(1, 512), draw(16, 2048), ukernel::RoundUp(draw(32, 2048), 32)};
    if (e.m * e.n * e.k <= kMostProducts) shapes.push_back(e);
  }
  return shapes;
}

// A problem that the row serves, and how its right side is then resident; resident as consumed, if it can be.
struct Service {
  GemmProblem problem;
  LayoutChoice layout;
};

std::optional<Service> ServiceOf(const GemmKernel& row, const SelectOptions& options) {
  std::optional<Service> found;
  for (const ProblemKind& kind : ProblemKinds()) {
    if (!kind.problem.rhs_constant) continue;
    Service s{kind.problem, {}};
    s.problem.n = s.problem.k = 64;
    if (!RejectionReason(row, s.problem, options, nullptr).empty()) continue;
    for (const PackLayout& layout : row.layouts) {
      if (layout.element == Format::kNone) break;
      GemmKernel alone = row;
      std::fill(std::begin(alone.layouts), std::end(alone.layouts), PackLayout{});
      alone.layouts[0] = layout;
      if (!RejectionReason(alone, s.problem, options, nullptr).empty()) continue;
      s.layout = {layout, ukernel::RowVectorBytes(row, options.cpu)};
      if (!found ||
          (ukernel::SameElements(layout, row.consumed) && !ukernel::SameElements(found->layout.layout, row.consumed))) {
        found = s;
      }
    }
  }
  return found;
}

// The terms that are fitted, as factors on where they start.
enum Parameter : size_t { kStep, kStepMin, kRow, kTile, kCall, kRead, kParameters };
using Factors = std::array<double, kParameters>;

ukernel::GemmCost Apply(ukernel::GemmCost cost, const Factors& log_factors) {
  const auto factor = [&](Parameter p) { return static_cast<float>(std::exp(log_factors[p])); };
  cost.step_row *= factor(kStep);
  cost.step_load *= factor(kStep);
  cost.step_min *= factor(kStepMin);
  cost.row *= factor(kRow);
  cost.tile *= factor(kTile);
  cost.call *= factor(kCall);
  cost.read *= factor(kRead);
  return cost;
}

// Squares of small errors, so that they are even, and no more than lines of large ones, which are disturbances. A
// slight pull holds terms that no sample tells.
double Error(const GemmKernel& row, const LayoutChoice& layout, const CpuFacts& cpu,
             const std::vector<CostSample>& samples, const Factors& factors) {
  constexpr double kLarge = 0.2, kPull = 1e-3;
  GemmKernel candidate = row;
  candidate.cost = Apply(row.cost, factors);
  double sum = 0;
  for (const CostSample& s : samples) {
    const double e = std::abs(std::log(EstimateCycles(candidate, s.problem, cpu, layout.layout, s.m) / s.cycles));
    sum += e < kLarge ? e * e : kLarge * (2 * e - kLarge);
  }
  for (double f : factors) sum += kPull * f * f;
  return sum;
}

void MeasureReads(const CpuInfo& cpu, double clock, Calibration* c) {
  c->l2_read = cpu.l2_read;
  c->l3_read = cpu.l3_read;
  c->memory_read = cpu.memory_read;
  for (const Peak& p : MeasurePeaks(cpu, {.rounds = 5, .seconds_per_round = 0.02})) {
    const auto per_cycle = static_cast<float>(p.value * 1e9 / clock);
    if (p.name == "read l2") c->l2_read = per_cycle;
    if (p.name == "read l3") c->l3_read = per_cycle;
    if (p.name == "read memory") c->memory_read = per_cycle;
  }
}

}  // namespace

// Search along one term at a time, by ever shorter steps.
ukernel::GemmCost FitCost(GemmKernel row, const LayoutChoice& layout, const CpuFacts& cpu,
                          const std::vector<CostSample>& samples) {
  // Factors do not move what is zero.
  const auto start = [](float& term, float least) { term = std::max(term, least); };
  start(row.cost.step_min, 0.05f * (row.cost.step_row + row.cost.step_load));
  start(row.cost.row, 0.5f);
  start(row.cost.tile, 2);
  Factors factors{};
  double error = Error(row, layout, cpu, samples, factors);
  constexpr double kMost = 4;  // a factor of 55
  for (double step = 1; step > 0.01;) {
    bool better = false;
    for (size_t p = 0; p < kParameters; ++p) {
      if (p == kCall && !row.whole_panel) continue;  // told from `tile` only where a call has many tiles
      for (double move : {step, -step}) {
        Factors next = factors;
        next[p] = std::clamp(next[p] + move, -kMost, kMost);
        const double e = Error(row, layout, cpu, samples, next);
        if (e >= error) continue;
        error = e;
        factors = next;
        better = true;
      }
    }
    if (!better) step /= 2;
  }
  return Apply(row.cost, factors);
}

Result<Calibration> Calibrate(const CpuInfo& cpu, const CalibrateOptions& o) {
  QUERN_RETURN_IF_ERROR(CheckCanRun(cpu));
  const auto say = [&](const std::string& line) {
    if (o.progress) o.progress(line);
  };
  Calibration result;
  say("calibrating: clock and memory");
  MeasureReads(cpu, MeasureClock(0.05), &result);
  CpuInfo measured = cpu;
  measured.l2_read = result.l2_read;
  measured.l3_read = result.l3_read;
  measured.memory_read = result.memory_read;
  SelectOptions options;
  options.cpu = measured.facts();
  options.rows = o.rows;
  std::vector<std::pair<const GemmKernel*, Service>> rows;
  for (const auto* list : o.rows) {
    for (size_t i = 0; i < list->count; ++i) {
      if (std::optional<Service> s = ServiceOf(list->rows[i], options)) rows.emplace_back(&list->rows[i], *s);
    }
  }
  const std::vector<Extents> shapes = SampleShapes();
  const double each = o.seconds / static_cast<double>(std::max<size_t>(1, rows.size() * shapes.size()));
  for (size_t r = 0; r < rows.size(); ++r) {
    const auto& [row, service] = rows[r];
    say("calibrating " + std::to_string(r + 1) + " of " + std::to_string(rows.size()) + ": " +
        ukernel::Name(*row).text);
    const double clock = MeasureClock(0.005);
    std::vector<CostSample> samples;
    for (const Extents& e : shapes) {
      CostSample s{service.problem, e.m, 0};
      s.problem.n = e.n;
      s.problem.k = e.k;
      s.problem.expected_m = e.m;
      if (!RejectionReason(*row, s.problem, options, &service.layout).empty()) continue;
      QUERN_ASSIGN_OR_RETURN(TimedProduct product, TimedProduct::Make(s.problem, options, service.layout, *row, e.m));
      s.cycles = product.Time(each) * clock;
      samples.push_back(s);
    }
    if (samples.empty()) continue;
    result.rows.push_back({ukernel::Name(*row).text, FitCost(*row, service.layout, options.cpu, samples)});
  }
  return result;
}

}  // namespace quern::kernels
