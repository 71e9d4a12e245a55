// Both selection stages: eligibility with reasons, the cost model, and the choice.
#include "kernels/select.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <tuple>

#include "ukernel/convert.h"
#include "ukernel/quantize.h"
#include "ukernel/transform.h"

namespace quern::kernels {
namespace {

using ukernel::CeilDiv;
using ukernel::RoundUp;

// What CanPackRhs needs to know of the source.
ukernel::RhsSource SourceKind(const GemmProblem& p) {
  static const char present = 0;
  ukernel::RhsSource s;
  s.format = p.rhs;
  if (p.block && !IsGguf(p.rhs)) {
    s.scales = &present;
    s.scale_format = p.scale;
    if (p.zero_point != Format::kNone) s.zero_points = &present;
    s.zero_point_format = p.zero_point == Format::kF32 ? Format::kF32 : p.rhs;
  }
  return s;
}

bool ScaleFits(Format source, Format layout) { return layout == source || layout == Format::kF32; }

// Whether the layout keeps what the problem needs; the reason if not.
std::string LayoutReason(const PackLayout& l, const GemmProblem& p) {
  if (!ukernel::CanPackRhs(l, SourceKind(p))) return std::string(FormatName(p.rhs)) + " weights cannot be packed so";
  const bool block = IsBlockProblem(p);
  if (block && l.scale == Format::kNone && !p.allow_expansion) return "would expand the blocks to floats";
  if (block && FormatBits(l.element) > FormatBits(p.rhs) && !p.allow_expansion)
    return "would widen the blocks in memory";
  if (block && l.scale != Format::kNone && !ScaleFits(BlockScale(p), l.scale)) {
    return std::string("scales are ") + FormatName(BlockScale(p));
  }
  if (!block && l.scale != Format::kNone) return "weights have no block scales";
  const bool has_zero = p.zero_point != Format::kNone || p.rhs == Format::kQ4_1;
  if (block && l.scale != Format::kNone && !has_zero && l.offset != Format::kNone) {
    return "keeps zero points that the weights lack";
  }
  if (p.segments > 1 && (l.scale != Format::kNone || FormatBits(l.element) < 8)) {
    return "blocks and 4-bit numbers do not go with several segments";
  }
  const bool narrow = l.element == Format::kBf16 || l.element == Format::kF16;
  if (narrow && l.element != p.rhs && p.precision != Precision::kBf16) {
    return std::string("precision bf16 not allowed: ") + FormatName(l.element) + " weights";
  }
  // Where a split in bf16 terms is unsafe, float32 must still be there.
  if (IsSplit(l.element)) return "no float32 left where a split is unsafe";
  if (IsInt8(p.lhs) && l.sums != Format::kI32) return "has no column sums";
  if (p.lhs == Format::kI8d && l.sums == Format::kNone) return "has no column sums";
  if (p.channel_scales != l.channel_scales) {
    return p.channel_scales ? "has no channel scales" : "has channel scales";
  }
  return "";
}

std::string PrecisionReason(const GemmKernel& r, const GemmProblem& p) {
  const bool ok = r.precision == Precision::kExact || r.precision <= p.precision;
  return ok ? "" : std::string("precision ") + PrecisionName(r.precision) + " not allowed";
}

bool Prepared(const GemmKernel& r) { return r.lhs_layout.element != Format::kNone; }

size_t LayoutCount(const GemmKernel& r) {
  size_t count = 0;
  while (count < ukernel::kMaxLayouts && r.layouts[count].element != Format::kNone) ++count;
  return count;
}

// Reasons that hold whatever the layout.
std::string BasicReason(const GemmKernel& r, const GemmProblem& p, const SelectOptions& o) {
  const bool lhs_fits = IsDynamic(p.lhs) || IsDynamic(r.lhs) ? r.lhs == p.lhs : ukernel::LhsSourceFormat(r) == p.lhs;
  if (!lhs_fits) return std::string("left side ") + FormatName(r.lhs);
  if (!r.isa.any_arch && r.isa.arch != o.cpu.arch) return std::string("for ") + ArchName(r.isa.arch);
  const CpuFeature missing = o.cpu.features.FirstMissing(r.isa.needs);
  if (!r.isa.any_arch && missing != CpuFeature::kCount) return std::string("needs ") + CpuFeatureName(missing);
  if (!o.force_row.empty() && o.force_row != ukernel::Name(r).text) return "another row is forced";
  if (r.only_forced && o.force_row.empty()) return "taken only when forced";
  if (!r.run && !o.ignore_missing_bodies) return "no body in this build";
  if (std::string reason = PrecisionReason(r, p); !reason.empty()) return reason;
  if (r.k_divisor > 1 && p.k % r.k_divisor) return "K % " + std::to_string(r.k_divisor) + " != 0";
  if (IsBlockProblem(p) && r.block_divisor > 1 && BlockLength(p) % r.block_divisor) {
    return "block % " + std::to_string(r.block_divisor) + " != 0";
  }
  if (!Prepared(r) && !(r.lhs_forms & p.lhs_form)) return "cannot address rows by pointers";
  return "";
}

// A layout that needs a transform is of use only where a row of that family runs.
std::string TransformReason(const GemmKernel& r, const PackLayout& l, size_t segments, const SelectOptions& o) {
  if (ukernel::SameElements(l, r.consumed)) return "";
  if (segments > 1 && !Prepared(r)) return "transforms do not keep segments apart";
  const ukernel::Lookup lookup = o.ignore_missing_bodies ? ukernel::Lookup::kCost : ukernel::Lookup::kRun;
  if (!ukernel::FindTransformKernel(l, r.consumed, o.cpu, lookup)) return "no block transform from " + LayoutName(l);
  return "";
}

bool TakesLayout(const GemmKernel& row, const GemmProblem& problem, const SelectOptions& options,
                 const PackLayout& layout) {
  return ukernel::AcceptsLayout(row, layout) && TransformReason(row, layout, problem.segments, options).empty();
}

}  // namespace

std::string CostReason(double cycles, double best) {
  const double ratio = best > 0 ? cycles / best : 1.0;
  // The fewest digits that show more than 1.
  constexpr int kMostDigits = 5;
  for (int digits = 1; digits <= kMostDigits; ++digits) {
    char text[48];
    std::snprintf(text, sizeof(text), "%.*f", digits, ratio);
    if (std::strtod(text, nullptr) > 1) return std::string("cost ") + text + "x of best";
  }
  return "cost equal to best";
}

std::string LayoutName(const PackLayout& l) {
  const std::string unit = std::to_string(l.n_unit) + (l.n_scale == ukernel::VectorScale::kFixed ? "" : "v");
  std::string s = std::string(FormatName(l.element)) + " [N/" + unit + "]";
  const size_t group = FormatBits(l.element) < 8 ? l.k_interleave * (8 / FormatBits(l.element)) : l.k_interleave;
  s += group > 1 ? "[K/" + std::to_string(group) + "][" + unit + "][" + std::to_string(group) + "]"
                 : "[K][" + unit + "]";
  if (l.scale != Format::kNone) s += std::string(" ") + FormatName(l.scale) + " scales";
  if (l.offset != Format::kNone) s += l.offset == Format::kU8 ? ", zero points" : ", offsets";
  if (l.sums != Format::kNone) s += ", sums";
  if (l.channel_scales) s += ", channel scales";
  return s;
}

std::string RejectionReason(const GemmKernel& row, const GemmProblem& problem, const SelectOptions& options,
                            const LayoutChoice* layout) {
  if (std::string reason = BasicReason(row, problem, options); !reason.empty()) return reason;
  if (layout) {
    if (!ukernel::AcceptsLayout(row, layout->layout)) return "layout " + LayoutName(layout->layout);
    return TransformReason(row, layout->layout, problem.segments, options);
  }
  std::string reason = "no layout";
  for (size_t i = 0; i < LayoutCount(row); ++i) {
    reason = LayoutReason(row.layouts[i], problem);
    if (reason.empty()) reason = TransformReason(row, row.layouts[i], problem.segments, options);
    if (reason.empty()) return reason;
  }
  return reason;
}

bool ReadsInPlace(const GemmKernel& row, const GemmProblem& problem, const CpuFacts& cpu, size_t m) {
  constexpr size_t kFewTiles = 4;      // packing touches every element about this many times
  constexpr size_t kNearBytes = 1024;  // rows this short share pages and do not collide in L1
  if (problem.rhs_constant || !problem.rhs_contiguous || !row.rhs_in_place || problem.segments > 1) return false;
  return m <= kFewTiles * ukernel::TileM(row, cpu) || problem.n * FormatBytes(problem.rhs) <= kNearBytes;
}

double EstimateCycles(const GemmKernel& row, const GemmProblem& p, const CpuFacts& cpu, const PackLayout& layout,
                      size_t m) {
  if (m == 0) return 1;
  const size_t tile_m = ukernel::TileM(row, cpu), tile_n = ukernel::TileN(row, cpu);
  const size_t vector_bytes = ukernel::RowVectorBytes(row, cpu);
  const size_t k = p.k * p.segments;
  const double n_tiles = static_cast<double>(CeilDiv(p.n, tile_n));
  const size_t whole = m / tile_m, rest = m % tile_m;
  double compute = static_cast<double>(whole) * GemmTileCycles(row, cpu, tile_m, k);
  if (rest) compute += GemmTileCycles(row, cpu, rest, k);
  compute *= n_tiles;
  if (row.whole_panel) {  // one call loops over all tiles: entering it is paid once
    compute -= row.cost.call * (n_tiles * static_cast<double>(whole + (rest ? 1 : 0)) - 1.0);
  }
  const ukernel::RhsGeometry g = ukernel::DescribeRhs(layout, RhsShapeOf(p, vector_bytes));
  const double elements = static_cast<double>(g.padded_k) * static_cast<double>(g.units * g.n_unit);
  if (!ukernel::SameElements(layout, row.consumed)) {
    const ukernel::TransformKernel* t = ukernel::FindTransformKernel(layout, row.consumed, cpu, ukernel::Lookup::kCost);
    compute += elements * (t ? t->cycles_per_element : 8.0);
  }
  if (Prepared(row)) {
    ukernel::LhsSource source;
    source.format = ukernel::LhsSourceFormat(row);
    source.form = p.lhs_form;
    compute += static_cast<double>(m) * static_cast<double>(k) *
               ukernel::LhsPackCyclesPerElement(
                   ukernel::FindLhsPackKernel(row.lhs_layout, source, cpu, ukernel::Lookup::kCost));
  }
  double bytes = static_cast<double>(g.total_bytes);
  if (!p.rhs_constant) {
    // Packing reads the source and writes the units; in place, the source is read once per block of rows.
    const bool in_place = ReadsInPlace(row, p, cpu, m);
    const double read = static_cast<double>(k * p.n);
    if (!in_place) {
      ukernel::RhsSource source = SourceKind(p);
      source.n_stride = p.rhs_contiguous ? static_cast<ptrdiff_t>(FormatBytes(p.rhs)) : 0;
      compute +=
          read * ukernel::PackCyclesPerElement(ukernel::FindPackKernel(layout, source, cpu, ukernel::Lookup::kCost));
    } else {
      bytes = read * static_cast<double>(FormatBytes(p.rhs));
    }
  }
  const double memory = bytes / std::min<double>(row.cost.read, ReadBytesPerCycle(bytes, cpu));
  return std::max(compute, memory) + 0.1 * std::min(compute, memory);
}

std::vector<const GemmKernel*> EligibleRows(const GemmProblem& problem, const SelectOptions& options,
                                            const LayoutChoice& layout) {
  std::vector<const GemmKernel*> rows;
  for (const auto* list : options.rows) {
    for (size_t i = 0; i < list->count; ++i) {
      const GemmKernel& r = list->rows[i];
      if (BasicReason(r, problem, options).empty() && TakesLayout(r, problem, options, layout.layout)) {
        rows.push_back(&r);
      }
    }
  }
  return rows;
}

const GemmKernel* SelectRow(std::span<const GemmKernel* const> eligible, const GemmProblem& problem,
                            const CpuFacts& cpu, const PackLayout& layout, size_t m) {
  const GemmKernel* best = nullptr;
  double fewest = 0;
  for (const GemmKernel* r : eligible) {
    const double cycles = EstimateCycles(*r, problem, cpu, layout, m);
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
    if (Prepared(*r) || ComputesOnTerms(*r) || r->precision != Precision::kFp32) continue;
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
  // A row's own unit decides the vector length; scaled layouts of one CPU agree on it.
  std::vector<LayoutCandidate> candidates;
  std::vector<LayoutChoice> choices;
  const auto add_layouts = [&](const GemmKernel& r) {
    for (size_t l = 0; l < LayoutCount(r); ++l) {
      const PackLayout& layout = r.layouts[l];
      const bool known = std::any_of(candidates.begin(), candidates.end(),
                                     [&](const LayoutCandidate& c) { return c.layout == layout; });
      if (known) continue;
      const size_t vector_bytes = layout.n_scale == ukernel::VectorScale::kFixed ? 0
                                  : layout.n_scale == ukernel::VectorScale::kSme ? options.cpu.sme_vector_bytes
                                                                                 : options.cpu.sve_vector_bytes;
      candidates.emplace_back();
      candidates.back().layout = layout;
      if (report) candidates.back().name = LayoutName(layout);
      choices.push_back({layout, vector_bytes});
    }
  };
  std::vector<const GemmKernel*> possible, others;  // whatever the layout
  for (const auto* list : options.rows) {
    for (size_t i = 0; i < list->count; ++i) {
      const GemmKernel& r = list->rows[i];
      (BasicReason(r, problem, options).empty() ? possible : others).push_back(&r);
    }
  }
  for (const GemmKernel* r : possible) add_layouts(*r);
  if (report) {
    for (const GemmKernel* r : others) add_layouts(*r);
  }
  const size_t expected[1] = {problem.expected_m};
  const std::span<const size_t> ms =
      problem.expected_m ? std::span<const size_t>(expected) : std::span<const size_t>(kSelectionM);
  double fewest[kSelectionMCount] = {};
  for (size_t c = 0; c < candidates.size(); ++c) {
    LayoutCandidate& candidate = candidates[c];
    candidate.reason = LayoutReason(candidate.layout, problem);
    if (!candidate.reason.empty()) continue;
    std::vector<const GemmKernel*> rows;
    std::ranges::copy_if(possible, std::back_inserter(rows),
                         [&](const GemmKernel* r) { return TakesLayout(*r, problem, options, candidate.layout); });
    if (rows.empty()) {
      candidate.reason = "no row of this CPU takes it";
      continue;
    }
    candidate.resident_bytes =
        ukernel::DescribeRhs(candidate.layout, RhsShapeOf(problem, choices[c].vector_bytes)).total_bytes;
    for (size_t i = 0; i < ms.size(); ++i) {
      candidate.rows[i] = SelectRow(rows, problem, options.cpu, candidate.layout, ms[i]);
      candidate.cycles[i] = EstimateCycles(*candidate.rows[i], problem, options.cpu, candidate.layout, ms[i]);
      if (fewest[i] == 0 || candidate.cycles[i] < fewest[i]) fewest[i] = candidate.cycles[i];
    }
  }
  size_t best = candidates.size();
  for (size_t c = 0; c < candidates.size(); ++c) {
    LayoutCandidate& candidate = candidates[c];
    if (!candidate.reason.empty()) continue;
    for (size_t i = 0; i < ms.size(); ++i) candidate.score += candidate.cycles[i] / fewest[i];
    candidate.score /= static_cast<double>(ms.size());
    const bool better =
        best == candidates.size() || candidate.score < candidates[best].score ||
        (candidate.score == candidates[best].score && candidate.resident_bytes < candidates[best].resident_bytes);
    if (better) best = c;
  }
  if (report) {
    report->layouts = candidates;
    for (LayoutCandidate& c : report->layouts) {
      if (!c.reason.empty() || best == candidates.size()) continue;
      if (!(c.layout == candidates[best].layout)) c.reason = CostReason(c.score, candidates[best].score);
    }
    std::sort(report->layouts.begin(), report->layouts.end(), [](const LayoutCandidate& a, const LayoutCandidate& b) {
      const auto key = [](const LayoutCandidate& x) {
        return std::make_tuple(x.reason.empty() ? 0 : x.score > 0 ? 1 : 2, x.score, std::string_view(x.name));
      };
      return key(a) < key(b);
    });
  }
  if (best < candidates.size()) {
    if (report) {
      const size_t m = problem.expected_m ? problem.expected_m : kSelectionM[kSelectionMCount - 1];
      ExplainRow(problem, options, choices[best], m, report);
    }
    return choices[best];
  }
  std::string reasons;
  for (const auto* list : options.rows) {
    for (size_t i = 0; i < list->count; ++i) {
      const std::string reason = RejectionReason(list->rows[i], problem, options, nullptr);
      reasons += std::string("; ") + ukernel::Name(list->rows[i]).text + ": " + reason;
      if (report) report->rows.push_back({&list->rows[i], ukernel::Name(list->rows[i]).text, 0, reason});
    }
  }
  return Unsupported(std::string("no micro-kernel for a product of ") + FormatName(problem.lhs) + " by " +
                     FormatName(problem.rhs) + " (K " + std::to_string(problem.k * problem.segments) + ", N " +
                     std::to_string(problem.n) + ")" + reasons);
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
