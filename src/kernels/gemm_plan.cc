// Decisions of one product: K, N and M blocks by cache sizes, the split over threads, the workspace.
#include <algorithm>
#include <numeric>

#include "kernels/gemm_core.h"
#include "parallel/partition.h"
#include "ukernel/convert.h"

namespace quern::kernels {
namespace {

using ukernel::EpilogueKind;
using ukernel::RoundUp;

// A K block of a panel takes at most half of L2, so that the left side and C fit beside it: a quarter is 8 % slower for
// int8 tiles of 256 columns at 2048 squared. And at most 4 KiB per column (1024 float32): 2 KiB cost 2-3 % at 1024 and
// 2048 squared (6x64, L2 of 2 MB), as C is touched more often. A panel in L2 gives 64 bytes per 6 cycles to a 6x16 tile
// with ease: shorter blocks, which let it stay in L1, cost AVX2 3-9 % at 1024 and 2048 squared.
constexpr size_t kColumnBytes = 4096;
// Panels of about the size of L1 stay there, in good part, while rows pass by: from half to one and a half of it
// (6x64 on Cascade Lake, 80 to 192 k) that is worth 1-7 % against columns that pass by. Larger ones gain nothing.
// Rows that ask for the next panel meanwhile have both in half of L2 (6x16 of AVX2 on Zen 3, shares of the peak: 2048
// squared 79 to 87 %, 128x3072x768 77 to 89).
constexpr size_t NarrowBytes(const GemmKernel& row, const CpuFacts& cpu) {
  return row.asks_ahead == ukernel::AsksAhead::kPanel ? cpu.l2_bytes / 4 : cpu.l1d_bytes * 3 / 2;
}
// A product of one tile of rows needs no K blocks where those rows fit in a quarter of L2.
constexpr size_t kSmallLhsShare = 4;
// Calls that share a panel must be so many for each to ask for a part of the next one: two ask for half of a 16 columns
// wide panel, which hardware then follows.
constexpr size_t kSharingTiles = 2;
// A region with less work than this (about 20 us) stays on the calling thread.
constexpr double kParallelCycles = 60000;
// Cycles per task for its hand-over.
constexpr double kTaskCycles = 600;
// Row pointers of one block of rows: a fraction of L1.
constexpr size_t kPointerBytes = 8192;
// Rows of a column-major result that are transposed at once, at least, and multiples of 64 bytes where tiles allow.
constexpr size_t kGatheredRows = 96;

constexpr size_t kAlign = ukernel::kPackAlignment;

// The grid of tasks: even over threads first, then the fewest bytes that each thread has to read.
void Split(GemmPlan& p, const GemmProblem& problem, int concurrency, bool split_m, bool split_n) {
  const size_t m_units = ukernel::CeilDiv(std::min(p.m, p.lhs_block), p.row_unit());
  const size_t unit_tiles = ukernel::CeilDiv(p.row_unit(), p.main.tile_m);
  const size_t n_tiles = ukernel::CeilDiv(std::min(p.n, p.n_group), p.main.tile_n);
  const double tile = GemmTileCycles(*p.main.row, p.cpu, std::min(p.main.tile_m, p.m), p.main.tile_n, p.k * p.segments);
  p.m_parts = p.n_parts = 1;
  p.slots = 1;
  if (concurrency <= 1 || tile * static_cast<double>(m_units * unit_tiles * n_tiles) < kParallelCycles) return;
  const double k = static_cast<double>(p.k * p.segments);
  const double row_bytes = k * static_cast<double>(FormatBytes(problem.lhs) * p.main.tile_m);
  const double column_bytes =
      static_cast<double>(p.rhs_geometry.unit_stride * p.main.tile_n) / static_cast<double>(p.rhs_geometry.n_unit);
  const size_t slots = static_cast<size_t>(concurrency);
  double best = 0;
  for (size_t factor : {4, 2, 1}) {
    const size_t most = slots * factor;
    for (size_t n_parts = 1; n_parts <= std::min(split_n ? n_tiles : 1, most); ++n_parts) {
      const size_t m_parts = split_m ? std::min(m_units, most / n_parts) : 1;
      const size_t parts = m_parts * n_parts;
      const double rounds = static_cast<double>(ukernel::CeilDiv(parts, slots));
      const double rows = static_cast<double>(ukernel::CeilDiv(m_units, m_parts) * unit_tiles);
      const double columns = static_cast<double>(ukernel::CeilDiv(n_tiles, n_parts));
      const double bytes = rows * row_bytes + columns * column_bytes;
      const double cycles = rounds * (rows * columns * tile + bytes / ReadBytesPerCycle(bytes, p.cpu) + kTaskCycles);
      if (best == 0 || cycles < best) {
        best = cycles;
        p.m_parts = m_parts;
        p.n_parts = n_parts;
      }
    }
  }
  p.slots = static_cast<int>(std::min(slots, p.m_parts * p.n_parts));
}

void PlanKBlocks(GemmPlan& p, const PackLayout& consumed) {
  const GemmKernel& row = *p.main.row;
  // Bytes of one column over 64 k: 4-bit elements have half a byte per k.
  const size_t per64 = std::max<size_t>(ukernel::RhsElementBytes(consumed, 1, 64), 1);
  const size_t share = row.asks_ahead == ukernel::AsksAhead::kPanel ? 4 : 2;
  const size_t column_bytes = std::min(kColumnBytes, p.cpu.l2_bytes / share / p.main.tile_n);
  const size_t grain = ukernel::KGrain(row, p.layout, p.rhs_shape.block);
  const size_t most = std::max(grain, column_bytes * 64 / per64 / grain * grain);
  const bool taps = p.segments > 1 && !p.prepared;
  const size_t length = taps ? p.k : p.prepared && p.segments > 1 ? p.lhs_geometry.segment_k * p.segments : p.k;
  p.taps_per_block = p.k_parts = 1;
  p.k_block = std::max<size_t>(length, 1);
  p.k_block_count = 1;
  // One tile of rows passes over the weights once: only the left side has to stay in L2, which a tile reads again for
  // its columns.
  const size_t lhs_row = p.prepared ? ukernel::LhsElementBytes(row.lhs_layout, 1, p.k * p.segments)
                                    : p.k * p.segments * FormatBytes(p.lhs_format);
  const bool one_pass = p.m <= p.main.tile_m && !p.transform && p.m * lhs_row <= p.cpu.l2_bytes / kSmallLhsShare;
  if (one_pass || length == 0) {
    p.taps_per_block = p.segments;
    return;
  }
  if (!taps) {
    p.k_block = static_cast<size_t>(
        EvenBlock(static_cast<int64_t>(length), static_cast<int64_t>(most), static_cast<int64_t>(grain)));
    p.k_block_count = ukernel::CeilDiv(length, p.k_block);
    return;
  }
  if (length <= most + most / 2) {
    const size_t together = std::max<size_t>(1, most / std::max<size_t>(length, 1));
    p.taps_per_block = static_cast<size_t>(EvenBlock(static_cast<int64_t>(p.segments), static_cast<int64_t>(together)));
    p.k_block_count = ukernel::CeilDiv(p.segments, p.taps_per_block);
    return;
  }
  p.k_block = static_cast<size_t>(
      EvenBlock(static_cast<int64_t>(length), static_cast<int64_t>(most), static_cast<int64_t>(grain)));
  p.k_parts = ukernel::CeilDiv(length, p.k_block);
  p.k_block_count = p.segments * p.k_parts;
}

// Of the transformed panels of the longest K block over n columns.
ukernel::RhsGeometry PanelGeometry(const GemmPlan& p, size_t n) {
  size_t padded = 0;
  for (size_t i = 0; i < p.k_block_count; ++i) padded = std::max(padded, KBlockAt(p, i).padded);
  return ukernel::DescribeRhs(p.panel_layout,
                              {.k = padded, .n = n, .block = p.rhs_shape.block, .vector_bytes = p.vector_bytes});
}

RowBinding Bind(const GemmKernel& row, const CpuFacts& cpu, size_t m) {
  RowBinding b;
  b.row = &row;
  const size_t most = ukernel::TileM(row, cpu);
  size_t unit = std::max<size_t>(row.cost.m_grain, 1);
  if (row.lhs_layout.element != Format::kNone) {
    const ukernel::VectorScale s = row.lhs_layout.m_scale;
    const size_t vector = s == ukernel::VectorScale::kSme ? cpu.sme_vector_bytes : cpu.sve_vector_bytes;
    unit = std::lcm(unit, row.lhs_layout.m_unit * ukernel::ScaleLanes(s, vector));
  }
  // 49 rows in tiles of at most 8 are 7 x 7.
  b.tile_m = row.whole_panel || most <= unit
                 ? std::max(most, unit)
                 : static_cast<size_t>(EvenBlock(static_cast<int64_t>(std::max<size_t>(m, 1)),
                                                 static_cast<int64_t>(most), static_cast<int64_t>(unit)));
  b.tile_n = ukernel::TileN(row, cpu);
  return b;
}

// Tiles within lines, where little is lost at their ends: such rows lie evenly apart and need no pointers.
void PlanLines(GemmPlan& p, const GemmShape& shape) {
  const GemmKernel& row = *p.main.row;
  if (shape.line == 0 || p.prepared || row.whole_panel || p.fallback.row || !(row.lhs_forms & ukernel::kLhsTaps))
    return;
  const size_t most = ukernel::TileM(row, p.cpu), tiles = ukernel::CeilDiv(shape.line, most);
  if (shape.line * 16 < tiles * most * 15) return;
  p.main = Bind(row, p.cpu, shape.line);
  p.line_rows = shape.line;
}

class Carver {
 public:
  size_t Take(size_t bytes) {
    const size_t at = end_;
    end_ = RoundUp(end_ + bytes, kAlign);
    return at;
  }
  size_t end() const { return end_; }

 private:
  size_t end_ = 0;
};

}  // namespace

int RowConcurrency(const GemmKernel& row, const CpuFacts& cpu, int concurrency) {
  const bool sme = row.cost.engine == ukernel::Engine::kMatrix && row.isa.needs.Has(CpuFeature::kSme);
  return sme && cpu.sme_units > 0 ? std::min(concurrency, static_cast<int>(cpu.sme_units)) : concurrency;
}

KBlock KBlockAt(const GemmPlan& p, size_t index) {
  KBlock b;
  if (p.segments > 1 && !p.prepared) {
    if (p.k_parts == 1) {
      b.tap0 = index * p.taps_per_block;
      b.taps = std::min(p.taps_per_block, p.segments - b.tap0);
      b.k = p.k;
      b.padded0 = b.tap0 * p.rhs_geometry.segment_k;
      b.padded = b.taps * p.rhs_geometry.segment_k;
      return b;
    }
    b.tap0 = index / p.k_parts;
    b.k0 = index % p.k_parts * p.k_block;
    b.k = std::min(p.k_block, p.k - b.k0);
    b.padded0 = b.tap0 * p.rhs_geometry.segment_k + b.k0;
    b.padded = b.k;
    return b;
  }
  const size_t length = p.segments > 1 ? p.lhs_geometry.segment_k * p.segments : p.k;
  b.k0 = b.padded0 = index * p.k_block;
  b.k = std::min(p.k_block, length - std::min(length, b.k0));
  b.padded = std::min(RoundUp(b.k, ukernel::RhsGroup(p.layout)), p.rhs_geometry.padded_k - b.padded0);
  return b;
}

GemmPlan PlanGemm(const GemmProblem& problem, const CpuFacts& cpu, const LayoutChoice& choice, const GemmKernel& row,
                  const GemmKernel* fallback, const GemmShape& shape, int concurrency) {
  GemmPlan p;
  p.cpu = cpu;
  p.m = shape.m;
  p.n = problem.n;
  p.k = problem.k;
  p.segments = problem.segments;
  p.layout = choice.layout;
  p.vector_bytes = choice.vector_bytes ? choice.vector_bytes : ukernel::RowVectorBytes(row, cpu);
  p.rhs_shape = RhsShapeOf(problem, p.vector_bytes);
  p.rhs_geometry = ukernel::DescribeRhs(p.layout, p.rhs_shape);
  p.acc_format = row.dst;
  p.lhs_format = ukernel::LhsSourceFormat(row);
  EpilogueOp ops[kMaxGemmOps];
  size_t count = DynamicOps(row, p.layout, ops);
  for (size_t i = 0; i < shape.op_count; ++i) ops[count++] = shape.ops[i];
  p.dst_format = EpilogueFormat(p.acc_format, ops, count);
  p.main = Bind(row, cpu, p.m);
  if (fallback) p.fallback = Bind(*fallback, cpu, p.main.tile_m);
  const ukernel::VectorKernel& vectors = *ukernel::SelectVectorRow(cpu);
  p.epilogue = vectors.epilogue;
  p.transpose = vectors.transpose;
  p.prepared = row.lhs_layout.element != Format::kNone;
  if (!ukernel::SameElements(p.layout, row.consumed) && !shape.in_place) {
    p.transform = ukernel::FindTransformKernel(p.layout, row.consumed, cpu, ukernel::Lookup::kRun);
  }
  p.panel_layout = ukernel::PanelLayout(row);
  PlanLines(p, shape);

  const size_t tile_m = p.main.tile_m, tile_n = p.main.tile_n;
  p.lhs_block = std::max<size_t>(p.m, 1);
  if (p.prepared) {
    p.lhs_shape = {.m = tile_m,
                   .k = p.k,
                   .segments = p.segments,
                   .segment_align = p.layout.k_interleave,
                   .vector_bytes = p.vector_bytes};
    const size_t tile_bytes = ukernel::DescribeLhs(row.lhs_layout, p.lhs_shape).total_bytes;
    const size_t most = std::max<size_t>(1, shape.prepared_bytes / std::max<size_t>(tile_bytes, 1)) * tile_m;
    p.lhs_block = std::min(RoundUp(std::max<size_t>(p.m, 1), tile_m), most);
    p.lhs_shape.m = p.lhs_block;
    p.lhs_geometry = ukernel::DescribeLhs(row.lhs_layout, p.lhs_shape);
    ukernel::LhsSource source;
    source.format = p.lhs_format;
    source.form = shape.image ? ukernel::kLhsRowPointers : ukernel::kLhsRows;
    p.lhs_pack = ukernel::FindLhsPackKernel(row.lhs_layout, source, cpu, ukernel::Lookup::kRun);
  }
  PlanKBlocks(p, row.consumed);
  p.n_group = RoundUp(std::max<size_t>(p.n, 1), tile_n);
  p.keep_panels = p.transform && p.lhs_block < p.m;
  if (p.keep_panels) {
    const size_t tile_bytes = PanelGeometry(p, tile_n).total_bytes * p.k_block_count;
    p.n_group =
        std::min(p.n_group, std::max<size_t>(1, shape.prepared_bytes / std::max<size_t>(tile_bytes, 1)) * tile_n);
  }

  // Tasks first: blocks lie within a task's part. A transform is run by one task per panel, so M is not split then.
  const bool reduces = std::any_of(ops, ops + count, [](const EpilogueOp& op) { return IsReduction(op.kind); });
  Split(p, problem, RowConcurrency(row, cpu, concurrency), p.transform == nullptr, !reduces);
  const size_t n_part = static_cast<size_t>(EvenPart(static_cast<int64_t>(std::min(p.n, p.n_group)),
                                                     static_cast<int64_t>(p.n_parts), 0, static_cast<int64_t>(tile_n))
                                                .size());
  const size_t m_rows = std::min(std::max<size_t>(p.m, 1), p.lhs_block);
  const size_t m_part = static_cast<size_t>(
      EvenPart(static_cast<int64_t>(m_rows), static_cast<int64_t>(p.m_parts), 0, static_cast<int64_t>(p.row_unit()))
          .size());
  const size_t per64 = std::max<size_t>(ukernel::RhsElementBytes(row.consumed, 1, 64), 1);
  const size_t block_k = p.k_block * (p.segments > 1 && !p.prepared ? p.taps_per_block : 1);
  const size_t column = std::max<size_t>(1, block_k * per64 / 64);
  const bool narrow = !row.whole_panel && tile_n * column <= NarrowBytes(row, cpu);
  // The K block of the columns that are worked on stays in half of L2; a narrow panel lives in L1, so that its block
  // may come from further away; rows that stream the matrix keep their results in half of L1.
  size_t n_most = cpu.l2_bytes / 2 / column;
  const size_t lhs_row = std::max<size_t>(1, block_k * FormatBytes(p.lhs_format));
  // Where the left side stays there too, so do parts of the columns that come next.
  if (row.asks_ahead == ukernel::AsksAhead::kBlock && m_rows * lhs_row <= cpu.l2_bytes / 2)
    n_most = cpu.l2_bytes * 3 / 8 / column;
  if (row.only_in_place) {
    n_most = cpu.l1d_bytes / 2 / (std::min(m_rows, tile_m) * p.acc_bytes());
  } else if (narrow && !p.transform) {
    n_most = 4096;
  }
  n_most = std::max<size_t>(1, n_most / tile_n) * tile_n;
  p.n_block = std::min(RoundUp(std::max<size_t>(n_part, 1), tile_n), n_most);
  p.column_major = shape.column_major;
  p.acc_in_dst = p.k_block_count > 1 && p.dst_format == p.acc_format && !p.column_major;
  const size_t unit = p.row_unit();
  p.m_super = RoundUp(std::max<size_t>(m_part, 1), unit);
  if (p.k_block_count > 1 && !p.acc_in_dst && !p.transform) {
    // Accumulators of the block stay in a quarter of L2.
    const size_t most =
        std::max<size_t>(4 * tile_m / unit + 1, cpu.l2_bytes / 4 / (p.n_block * p.acc_bytes()) / unit) * unit;
    p.m_super = std::min(p.m_super, most);
  }
  p.m_block = unit;
  if (row.whole_panel) {
    p.m_block = std::min(p.m_super, std::max<size_t>(1, cpu.l2_bytes / 2 / lhs_row / tile_m) * tile_m);
  } else if (narrow) {
    // Even: the weights pass once for each block, however few its rows are.
    const size_t most = std::max<size_t>(1, cpu.l2_bytes / 2 / lhs_row / unit) * unit;
    p.m_block = static_cast<size_t>(
        EvenBlock(static_cast<int64_t>(p.m_super), static_cast<int64_t>(most), static_cast<int64_t>(unit)));
  }
  if (!shape.rhs_near && !shape.in_place && !p.transform) p.asks_ahead = row.asks_ahead;
  p.panels_ahead = p.asks_ahead == ukernel::AsksAhead::kPanel && narrow && p.m_block >= kSharingTiles * tile_m;
  if (p.column_major && !row.whole_panel) {
    const size_t whole_lines = tile_m * (16 / std::gcd(tile_m, size_t{16}));
    p.gathered_rows = RoundUp(kGatheredRows, whole_lines);
    p.m_block = std::min(p.m_super, std::max(p.m_block, RoundUp(p.gathered_rows, unit)));
  }
  const size_t block_taps = p.segments > 1 ? p.taps_per_block : 1;
  if (shape.image && !p.prepared && p.line_rows == 0) {
    p.m_block = std::min(p.m_block, std::max<size_t>(1, kPointerBytes / 8 / block_taps / tile_m) * tile_m);
  }

  Carver carver;
  if (p.prepared) {
    p.lhs_offset = carver.Take(p.lhs_geometry.total_bytes);
    p.lhs_flags_offset = carver.Take(ukernel::CeilDiv(p.lhs_block, tile_m));
    if (row.lhs == Format::kI8d && p.acc_format == Format::kI32) {
      p.lhs_zeros_offset = carver.Take(RoundUp(p.lhs_block, tile_m) * 4);
    }
    if (shape.image) p.pointers_offset = carver.Take(p.segments * p.lhs_block * sizeof(void*));
  }
  Carver slot;
  if (p.transform) {
    p.panel_geometry = PanelGeometry(p, p.keep_panels ? p.n_group : p.n_block);
    if (p.keep_panels) {
      p.panels_offset = carver.Take(p.panel_geometry.total_bytes * p.k_block_count);
      p.panel_flags_offset = carver.Take(p.n_group / tile_n);
    } else {
      p.slot_panel = slot.Take(p.panel_geometry.total_bytes);
    }
  }
  p.slots_offset = carver.end();
  const size_t call_m = row.whole_panel ? p.m_block : tile_m;
  const size_t call_n = row.whole_panel ? p.n_block : tile_n;
  if (p.k_block_count > 1 && !p.acc_in_dst) p.slot_acc = slot.Take(p.m_super * p.acc_row_stride());
  if (p.column_major) {
    p.gathered_rows = std::max(p.gathered_rows, call_m);
    p.gathered_row_stride = RoundUp(call_n * std::max(p.acc_bytes(), FormatBytes(p.dst_format)), kAlign);
    p.slot_gathered = slot.Take(p.gathered_rows * p.gathered_row_stride);
  }
  const size_t fallback_tile = p.fallback.row ? p.fallback.tile_m * p.fallback.tile_n : 0;
  p.slot_tile = slot.Take(std::max(call_m * call_n, fallback_tile) * p.acc_bytes());
  if (p.line_rows) {
    p.slot_taps = slot.Take(block_taps * sizeof(ukernel::Tap));
  } else if (shape.image) {
    size_t pointers = p.prepared ? 0 : p.m_block * block_taps;
    if (p.fallback.row) pointers = std::max(pointers, tile_m * p.segments);
    p.slot_pointers = slot.Take(pointers * sizeof(void*));
  }
  p.slot_scratch = slot.Take(std::max<size_t>(row.scratch_bytes, fallback ? fallback->scratch_bytes : 0));
  if (p.fallback.row && !p.keep_panels) p.slot_panel_flags = slot.Take(p.n_block / tile_n + 1);
  p.slot_stride = RoundUp(slot.end(), 4096) + kAlign;
  p.workspace_bytes = p.slots_offset + p.slot_stride * static_cast<size_t>(p.slots);
  return p;
}

}  // namespace quern::kernels
