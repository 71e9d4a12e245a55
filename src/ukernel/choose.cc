// Eligibility of rows and layouts, the cost model, and the choice.
#include "ukernel/choose.h"

#include "ukernel/convert.h"
#include "ukernel/pack.h"
#include "ukernel/quantize.h"
#include "ukernel/transform.h"

namespace quern::ukernel {
namespace {

// What CanPackRhs needs to know of the source.
RhsSource SourceKind(const GemmProblem& p) {
  static const char present = 0;
  RhsSource s;
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

// Operands that are bf16 ask for no more than what multiplies them as such.
bool PrecisionFits(const GemmKernel& r, const GemmProblem& p) {
  if (r.precision == Precision::kBf16 && p.lhs == Format::kBf16 && p.rhs == Format::kBf16) return true;
  // float32 as float16 loses range too: only where that is asked for.
  if (r.lhs_layout.element == Format::kF16 && p.lhs == Format::kF32) return p.precision == Precision::kFp16;
  return r.precision == Precision::kExact || r.precision <= p.precision;
}

size_t LayoutCount(const GemmKernel& r) {
  size_t count = 0;
  while (count < kMaxLayouts && r.layouts[count].element != Format::kNone) ++count;
  return count;
}

// The family or engine of the row that is switched off; kCount if none is.
KernelGroup DisabledGroup(const GemmKernel& r, const CpuFacts& cpu) {
  if (!r.isa.any_arch && cpu.IsDisabled(KernelGroup::kGemm)) return KernelGroup::kGemm;
  const KernelGroup engine = r.cost.engine == Engine::kVector512 ? KernelGroup::kVector512
                             : r.cost.engine == Engine::kMatrix  ? KernelGroup::kMatrix
                                                                 : KernelGroup::kCount;
  return engine != KernelGroup::kCount && cpu.IsDisabled(engine) ? engine : KernelGroup::kCount;
}

// Reasons that hold whatever the layout.
Rejection RejectAnyLayout(const GemmKernel& r, const GemmProblem& p, const SelectOptions& o) {
  const bool lhs_fits = IsDynamic(p.lhs) || IsDynamic(r.lhs) ? r.lhs == p.lhs : LhsSourceFormat(r) == p.lhs;
  if (!lhs_fits) return {.reason = Reason::kLhs, .format = r.lhs};
  if (!r.isa.any_arch && r.isa.arch != o.cpu.arch) return {.reason = Reason::kArch, .arch = r.isa.arch};
  const CpuFeature missing = o.cpu.features.FirstMissing(r.isa.needs);
  if (!r.isa.any_arch && missing != CpuFeature::kCount) return {.reason = Reason::kFeature, .feature = missing};
  if (const KernelGroup g = DisabledGroup(r, o.cpu); g != KernelGroup::kCount) {
    return {.reason = Reason::kDisabled, .group = g};
  }
  if (!o.force_row.empty() && o.force_row != Name(r).text) return {.reason = Reason::kNotForced};
  if (r.only_forced && o.force_row.empty()) return {.reason = Reason::kOnlyForced};
  if (!r.run && !o.ignore_missing_bodies) return {.reason = Reason::kNoBody};
  if (!PrecisionFits(r, p)) return {.reason = Reason::kPrecision, .precision = r.precision};
  if (r.k_divisor > 1 && p.k % r.k_divisor) return {.reason = Reason::kKDivisor, .number = r.k_divisor};
  if (IsBlockProblem(p) && r.block_divisor > 1 && BlockLength(p) % r.block_divisor) {
    return {.reason = Reason::kBlockDivisor, .number = r.block_divisor};
  }
  if (!IsPrepared(r) && !(r.lhs_forms & p.lhs_form)) return {.reason = Reason::kLhsForm};
  if (r.only_in_place && o.force_row.empty() && !CanReadInPlace(r, p)) return {.reason = Reason::kInPlaceOnly};
  return {};
}

// A layout that needs a transform is of use only where a row of that family runs.
Rejection RejectTransform(const GemmKernel& r, const PackLayout& l, size_t segments, const SelectOptions& o) {
  if (SameElements(l, r.consumed)) return {};
  if (segments > 1 && !IsPrepared(r)) return {.reason = Reason::kSegmentsTransform};
  const Lookup lookup = o.ignore_missing_bodies ? Lookup::kCost : Lookup::kRun;
  if (!FindTransformKernel(l, r.consumed, o.cpu, lookup)) return {.reason = Reason::kNoTransform, .layout = l};
  return {};
}

// Of a row that serves with some layout: whether it does with this one.
Rejection RejectForLayout(const GemmKernel& row, const GemmProblem& problem, const SelectOptions& options,
                          const PackLayout& layout) {
  if (AcceptsLayout(row, layout)) return RejectTransform(row, layout, problem.segments, options);
  if (row.only_in_place && CanReadInPlace(row, problem)) return {};  // never packed
  return {.reason = Reason::kLayout, .layout = layout};
}

// Of the rows that were added the one that costs least, of equals the first.
struct Cheapest {
  const GemmKernel* row = nullptr;
  double cycles = 0;

  void Add(const GemmKernel& r, const GemmProblem& problem, const CpuFacts& cpu, const PackLayout& layout, size_t m) {
    const double c = EstimateCycles(r, problem, cpu, layout, m);
    if (row && c >= cycles) return;
    row = &r;
    cycles = c;
  }
};

template <class Visit>
void ForEachRow(RowTable rows, Visit visit) {
  for (const auto* list : rows) {
    for (size_t i = 0; i < list->count; ++i) visit(list->rows[i]);
  }
}

}  // namespace

Rejection RejectLayout(const PackLayout& l, const GemmProblem& p) {
  if (!CanPackRhs(l, SourceKind(p))) return {.reason = Reason::kSource, .format = p.rhs};
  const bool block = IsBlockProblem(p);
  if (block && l.scale == Format::kNone && !p.allow_expansion) return {.reason = Reason::kExpandsBlocks};
  if (block && FormatBits(l.element) > FormatBits(p.rhs) && !p.allow_expansion) {
    return {.reason = Reason::kWidensBlocks};
  }
  if (block && l.scale != Format::kNone && !ScaleFits(BlockScale(p), l.scale)) {
    return {.reason = Reason::kScaleFormat, .format = BlockScale(p)};
  }
  if (!block && l.scale != Format::kNone) return {.reason = Reason::kNoBlockScales};
  const bool has_zero = p.zero_point != Format::kNone || p.rhs == Format::kQ4_1;
  if (block && l.scale != Format::kNone && !has_zero && l.offset != Format::kNone) {
    return {.reason = Reason::kNoZeroPoints};
  }
  if (p.segments > 1 && (l.scale != Format::kNone || FormatBits(l.element) < 8)) {
    return {.reason = Reason::kBlockSegments};
  }
  if (l.element == Format::kBf16 && p.rhs != Format::kBf16 && p.precision != Precision::kBf16) {
    return {.reason = Reason::kNarrow, .format = l.element};
  }
  if (l.element == Format::kF16 && p.rhs != Format::kF16) return {.reason = Reason::kHalfRange};
  // Where a split in bf16 terms is unsafe, float32 must still be there.
  if (IsSplit(l.element)) return {.reason = Reason::kTermsOnly};
  if (IsInt8(p.lhs) && l.sums != Format::kI32) return {.reason = Reason::kNoSums};
  if (p.lhs == Format::kI8d && l.sums == Format::kNone) return {.reason = Reason::kNoSums};
  if (p.channel_scales != l.channel_scales) {
    return {.reason = p.channel_scales ? Reason::kNoChannelScales : Reason::kHasChannelScales};
  }
  return {};
}

Rejection RejectRow(const GemmKernel& row, const GemmProblem& problem, const SelectOptions& options,
                    const PackLayout* layout) {
  if (const Rejection r = RejectAnyLayout(row, problem, options)) return r;
  if (layout) return RejectForLayout(row, problem, options, *layout);
  Rejection last{.reason = Reason::kNoLayout};
  for (size_t i = 0; i < LayoutCount(row); ++i) {
    last = RejectLayout(row.layouts[i], problem);
    if (!last) last = RejectTransform(row, row.layouts[i], problem.segments, options);
    if (!last) return {};
  }
  return last;
}

bool CanReadInPlace(const GemmKernel& row, const GemmProblem& p) {
  return !p.rhs_constant && p.rhs_contiguous && row.rhs_in_place && p.segments == 1 && p.rhs == row.rhs;
}

bool ReadsInPlace(const GemmKernel& row, const GemmProblem& problem, const CpuFacts& cpu, size_t m) {
  constexpr size_t kFewTiles = 4;      // packing touches every element about this many times
  constexpr size_t kNearBytes = 1024;  // rows this short share pages and do not collide in L1
  if (!CanReadInPlace(row, problem)) return false;
  return row.only_in_place || m <= kFewTiles * TileM(row, cpu) || problem.n * FormatBytes(problem.rhs) <= kNearBytes;
}

double EstimateCycles(const GemmKernel& row, const GemmProblem& p, const CpuFacts& cpu, const PackLayout& layout,
                      size_t m) {
  if (m == 0) return 1;
  const size_t tile_m = TileM(row, cpu), tile_n = TileN(row, cpu);
  const size_t vector_bytes = RowVectorBytes(row, cpu);
  const size_t k = p.k * p.segments;
  const double n_tiles = static_cast<double>(CeilDiv(p.n, tile_n));
  const size_t whole = m / tile_m, rest = m % tile_m;
  const auto column = [&](size_t n) {
    double cycles = static_cast<double>(whole) * GemmTileCycles(row, cpu, tile_m, n, k);
    if (rest) cycles += GemmTileCycles(row, cpu, rest, n, k);
    return cycles;
  };
  double compute = static_cast<double>(p.n / tile_n) * column(tile_n);
  if (p.n % tile_n) compute += column(p.n % tile_n);
  if (row.whole_panel) {  // one call loops over all tiles: entering it is paid once
    compute -= row.cost.call * (n_tiles * static_cast<double>(whole + (rest ? 1 : 0)) - 1.0);
  }
  if (IsPrepared(row)) {
    LhsSource source;
    source.format = LhsSourceFormat(row);
    source.form = p.lhs_form;
    compute += static_cast<double>(m) * static_cast<double>(k) *
               LhsPackCyclesPerElement(FindLhsPackKernel(row.lhs_layout, source, cpu, Lookup::kCost));
  }
  double traffic = 0, footprint = 0, share = 1;
  if (ReadsInPlace(row, p, cpu, m)) {
    // Tiles take a few lines of each row of the matrix, once for all of theirs: 54 of 87 GB/s out of L3.
    footprint = static_cast<double>(k * p.n * FormatBytes(p.rhs));
    traffic = row.only_in_place ? footprint * static_cast<double>(CeilDiv(m, tile_m)) : footprint;
    if (!row.only_in_place && footprint > static_cast<double>(cpu.l2_bytes) / 2) share = 0.65;
  } else {
    const RhsGeometry g = DescribeRhs(layout, RhsShapeOf(p, vector_bytes));
    traffic = footprint = static_cast<double>(g.total_bytes);
    if (!SameElements(layout, row.consumed)) {
      const TransformKernel* t = FindTransformKernel(layout, row.consumed, cpu, Lookup::kCost);
      const double elements = static_cast<double>(g.padded_k) * static_cast<double>(g.units * g.n_unit);
      compute += elements * (t ? t->cycles_per_element : 8.0);
    }
    if (!p.rhs_constant) {
      // Packing reads the source and writes the units, whose lines are fetched before.
      RhsSource source = SourceKind(p);
      // Most that have no contiguous columns are transposed.
      (p.rhs_contiguous ? source.n_stride : source.k_stride) = static_cast<ptrdiff_t>(FormatBytes(p.rhs));
      const double elements = static_cast<double>(k * p.n), matrix = elements * static_cast<double>(FormatBytes(p.rhs));
      compute += elements * PackCyclesPerElement(FindPackKernel(layout, source, cpu, Lookup::kCost));
      traffic = matrix + 3 * footprint;
      footprint += matrix;
    }
  }
  const double rate = ReadBytesPerCycle(footprint, cpu) * share;
  const double memory = traffic / (row.cost.read < rate ? static_cast<double>(row.cost.read) : rate);
  const double cycles = compute > memory ? compute + 0.1 * memory : memory + 0.1 * compute;
  return row.one_tile && m > tile_m ? 2 * cycles : cycles;
}

const GemmKernel* ChooseRow(const GemmProblem& problem, const SelectOptions& options, const PackLayout& layout,
                            size_t m, double* cycles) {
  Cheapest cheapest;
  ForEachRow(options.rows, [&](const GemmKernel& r) {
    if (!RejectRow(r, problem, options, &layout)) cheapest.Add(r, problem, options.cpu, layout, m);
  });
  if (cycles) *cycles = cheapest.cycles;
  return cheapest.row;
}

LayoutScores ScoreLayouts(const GemmProblem& problem, const SelectOptions& options, bool all, LayoutScore* out) {
  LayoutScores found;
  const auto add_layouts = [&](const GemmKernel& r) {
    for (size_t l = 0; l < LayoutCount(r); ++l) {
      bool known = false;
      for (size_t i = 0; i < found.count && !known; ++i) known = out[i].layout == r.layouts[l];
      if (known || found.count == kMaxLayoutScores) continue;
      out[found.count] = {};
      out[found.count++].layout = r.layouts[l];
    }
  };
  const GemmKernel* possible[kMaxPossibleRows];
  size_t possible_count = 0;
  ForEachRow(options.rows, [&](const GemmKernel& r) {
    if (RejectAnyLayout(r, problem, options) || possible_count == kMaxPossibleRows) return;
    possible[possible_count++] = &r;
    add_layouts(r);
  });
  if (all) {
    ForEachRow(options.rows, [&](const GemmKernel& r) {
      if (RejectAnyLayout(r, problem, options)) add_layouts(r);
    });
  }
  const size_t expected[1] = {problem.expected_m};
  const std::span<const size_t> ms =
      problem.expected_m ? std::span<const size_t>(expected) : std::span<const size_t>(kSelectionM);
  double fewest[kSelectionMCount] = {};
  for (size_t c = 0; c < found.count; ++c) {
    LayoutScore& s = out[c];
    s.rejection = RejectLayout(s.layout, problem);
    for (size_t i = 0; i < ms.size() && !s.rejection; ++i) {
      Cheapest cheapest;
      for (const GemmKernel* r : std::span(possible, possible_count)) {
        if (!RejectForLayout(*r, problem, options, s.layout)) cheapest.Add(*r, problem, options.cpu, s.layout, ms[i]);
      }
      s.rows[i] = cheapest.row;
      s.cycles[i] = cheapest.cycles;
      if (!s.rows[i]) s.rejection = {.reason = Reason::kNoRow};
    }
    if (s.rejection) continue;
    s.resident_bytes = DescribeRhs(s.layout, RhsShapeOf(problem, LayoutVectorBytes(s.layout, options.cpu))).total_bytes;
    for (size_t i = 0; i < ms.size(); ++i) {
      if (fewest[i] == 0 || s.cycles[i] < fewest[i]) fewest[i] = s.cycles[i];
    }
  }
  found.best = found.count;
  for (size_t c = 0; c < found.count; ++c) {
    LayoutScore& s = out[c];
    if (s.rejection) continue;
    for (size_t i = 0; i < ms.size(); ++i) s.score += s.cycles[i] / fewest[i];
    s.score /= static_cast<double>(ms.size());
    const bool better = found.best == found.count || s.score < out[found.best].score ||
                        (s.score == out[found.best].score && s.resident_bytes < out[found.best].resident_bytes);
    if (better) found.best = c;
  }
  return found;
}

}  // namespace quern::ukernel
