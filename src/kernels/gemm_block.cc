// The loops of a block of a product: parts over threads; columns, K blocks, block transforms, rows, tiles, epilogues.
#include "kernels/gemm_block.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "parallel/partition.h"

namespace quern::kernels {
namespace {

using ukernel::GemmArgs;

constexpr size_t kLine = 64;  // bytes of a cache line
// With fewer, the calls that share a panel of 64 columns cannot ask for all of the next one in single lines.
constexpr size_t kFewCalls = 16;
// Lines of the rows that come next that are asked for before a call of several tiles.
constexpr size_t kLinesOfCall = 8;

// What a task counted; added to the shared counters once.
struct Count {
  uint64_t calls = 0, transforms = 0, transform_bytes = 0, modes = 0, fallbacks = 0;

  void AddTo(DriverCounters* c) const {
    if (!c) return;
    const auto add = [](std::atomic<uint64_t>& to, uint64_t x) {
      if (x) to.fetch_add(x, std::memory_order_relaxed);
    };
    add(c->kernel_calls, calls);
    add(c->transforms, transforms);
    add(c->transform_bytes, transform_bytes);
    add(c->modes_entered, modes);
    add(c->split_fallbacks, fallbacks);
  }
};

// A part of the block, K block by K block, with the scratch of a slot.
class Part {
 public:
  Part(const GemmBlock& block, int slot)
      : b_(block), p_(block.p), slot_(block.workspace + p_.slots_offset + static_cast<size_t>(slot) * p_.slot_stride) {}
  ~Part() {
    if (in_mode_ && p_.main.row->leave_mode) p_.main.row->leave_mode();
  }
  Part(const Part&) = delete;
  Part& operator=(const Part&) = delete;

  const Count& count() const { return count_; }

  // Computes the rows [m0, m1) and columns [n0, n1). The row's mode is entered by the first of several calls and left
  // by the destructor, which must run on the same thread.
  void Run(size_t m0, size_t m1, size_t n0, size_t n1);

 private:
  // Columns of the part, for rows after which the product has no others or some.
  struct Columns {
    size_t n0, n1;
    bool last_rows;
  };
  void RunColumns(size_t m0, size_t m1, size_t n0, size_t n1, const Columns& all);
  void RunRows(const KBlock& k, size_t m0, size_t m1, size_t n0, size_t n1, bool last_rows);
  void Transform(const KBlock& k, size_t n0, size_t n1);
  void RunFallbacks(size_t m0, size_t m1, size_t n0, size_t n1);
  void RunFallback(size_t m0, size_t m1, size_t n0, size_t n1);
  void AimPrefetch(const KBlock& k, size_t m0, size_t m1, size_t next, size_t columns);
  void PrefetchLhs(size_t tiles);
  size_t TilesOfCall(size_t tile_m) const;
  void AimAhead(size_t k_index, size_t rows, size_t n0, size_t n1, const Columns& all);
  void AimAtPanel(const void* panel, const KBlock& k);
  void AskAhead(GemmArgs& a);
  void PrefetchAccumulators(size_t m, size_t m1, size_t n, size_t n1) const;
  // What a call's right side moves by from one tile of columns to the next (bytes; units).
  struct RhsStep {
    ptrdiff_t rhs = 0, scales = 0, offsets = 0, sums = 0;
    ptrdiff_t units = 0;

    void Move(GemmArgs& a) const;
  };
  void SetRhs(GemmArgs& a, const RowBinding& binding, const KBlock& k, size_t n, bool transformed) const;
  RhsStep StepOf(size_t columns, bool backwards) const;
  void FillTaps(const KBlock& k);
  void SetLhs(GemmArgs& a, const KBlock& k, size_t m, size_t pointers_m0);
  void SetDst(GemmArgs& a);
  // What a call's rows move by from one whole tile to the next (bytes; pointers).
  struct RowStep {
    ptrdiff_t lhs = 0, scales = 0, acc = 0, dst = 0;
    size_t pointers = 0;

    void Move(GemmArgs& a) const;
  };
  RowStep StepOfRows(const GemmArgs& a, size_t tile_m) const;
  void Call(const GemmKernel& row, size_t fused, GemmArgs& a);
  void BeginGathered(size_t m0, size_t n0);
  void StoreGathered(size_t m1, size_t n1);
  void PrefetchGathered(size_t rows, size_t m1, size_t columns);

  // PackFlags of the tile of columns that n is in: what the transform found.
  uint8_t& RhsFlags(size_t n) const { return panel_flags_[(n - panels_n0_) / p_.main.tile_n]; }
  // The product of these rows and columns runs on multiply-add.
  bool FallsBack(size_t m, size_t n) const {
    const uint8_t lhs = b_.lhs_flags()[m / p_.main.tile_m], rhs = RhsFlags(n);
    return ((lhs | rhs) & ukernel::kPackSplitUnsafe) || (lhs & rhs & ukernel::kPackSplitFew);
  }

  const GemmBlock& b_;
  const GemmPlan& p_;
  char* slot_;
  size_t acc_m0_ = 0, acc_n0_ = 0;
  size_t gathered_m0_ = 0, gathered_n0_ = 0;  // of a column-major result, what stands in the slot's rows
  size_t gathered_asked_ = 0;                 // columns of it whose lines were asked for
  size_t gathered_due_ = 0;                   // how much of the next one, of as many as rows are gathered
  char* panels_ = nullptr;                    // of the K block, transformed, from the column panels_n0_ on
  uint8_t* panel_flags_ = nullptr;            // a byte per tile of columns
  size_t panels_n0_ = 0;
  bool first_ = true, last_ = true;  // K block
  bool in_mode_ = false;
  const char* prefetch_row_ = nullptr;
  size_t prefetch_rows_ = 0, prefetch_lines_ = 0, prefetch_line_bytes_ = 0, prefetch_at_ = 0;
  // Weights that come later: so many bytes of each of so many units.
  struct Ahead {
    const char* at = nullptr;
    size_t units = 0, bytes = 0;
  };
  Ahead ahead_, after_;  // asked for by the next calls; what comes after the columns that are worked on
  size_t ahead_at_ = 0;
  bool ahead_few_ = false;
  const void** pointers_ = nullptr;
  size_t pointer_pitch_ = 0;
  ukernel::Tap* taps_ = nullptr;
  size_t line_m0_ = 0;  // the first row of the line at line_
  const char* line_ = nullptr;
  Count count_;
};

void Part::Run(size_t m0, size_t m1, size_t n0, size_t n1) {
  const GemmKernel& row = *p_.main.row;
  if (row.enter_mode && !in_mode_) {
    row.enter_mode(row.mode_config);
    in_mode_ = true;
    ++count_.modes;
  }
  for (size_t m = m0; m < m1; m += p_.m_super) {
    for (size_t n = n0; n < n1; n += p_.n_block) {
      const bool last_rows = m + p_.m_super >= m1;
      RunColumns(m, std::min(m1, m + p_.m_super), n, std::min(n1, n + p_.n_block), {n0, n1, last_rows});
    }
  }
}

void Part::RunColumns(size_t m0, size_t m1, size_t n0, size_t n1, const Columns& all) {
  acc_m0_ = m0;
  acc_n0_ = n0;
  panels_n0_ = p_.keep_panels ? b_.n0 : n0;
  panel_flags_ =
      reinterpret_cast<uint8_t*>(p_.keep_panels ? b_.workspace + p_.panel_flags_offset : slot_ + p_.slot_panel_flags);
  if (p_.fallback.row && b_.transforms) std::memset(&RhsFlags(n0), 0, ukernel::CeilDiv(n1 - n0, p_.main.tile_n));
  for (size_t i = 0; i < p_.k_block_count; ++i) {
    const KBlock k = KBlockAt(p_, i);
    first_ = i == 0;
    last_ = i + 1 == p_.k_block_count;
    panels_ =
        p_.keep_panels ? b_.workspace + p_.panels_offset + i * p_.panel_geometry.total_bytes : slot_ + p_.slot_panel;
    if (p_.transform && b_.transforms) Transform(k, n0, n1);
    AimAhead(i, m1 - m0, n0, n1, all);
    for (size_t m = m0; m < m1; m += p_.m_block) {
      const size_t end = std::min(m1, m + p_.m_block);
      AimPrefetch(k, m, end, std::min(m1, end + p_.m_block), n1 - n0);
      RunRows(k, m, end, n0, n1, end == m1);
    }
  }
  if (p_.fallback.row) RunFallbacks(m0, m1, n0, n1);
}

void Part::RunRows(const KBlock& k, size_t m0, size_t m1, size_t n0, size_t n1, bool last_rows) {
  const size_t tile_m = p_.main.row->whole_panel ? m1 - m0 : p_.main.tile_m;
  const size_t tile_n = p_.main.row->whole_panel ? n1 - n0 : p_.main.tile_n;
  if (p_.line_rows) {
    FillTaps(k);
  } else if (b_.operands.image && !p_.prepared) {
    pointer_pitch_ = m1 - m0;
    pointers_ = reinterpret_cast<const void**>(slot_ + p_.slot_pointers);
    FillPointers(*b_.operands.image, b_.row0 + m0, m1 - m0, k.tap0, k.taps, pointer_pitch_, pointers_);
  }
  const size_t tiles = ukernel::CeilDiv(n1 - n0, tile_n);
  const bool backwards = b_.operands.backwards;
  const size_t first = backwards ? n0 + (tiles - 1) * tile_n : n0;
  GemmArgs a;
  a.k = k.k;
  a.first_k = first_;
  a.last_k = last_;
  a.vector_bytes = p_.vector_bytes;
  a.stream_into_l1 = ukernel::StreamsIntoL1(p_.cpu);
  a.scratch = slot_ + p_.slot_scratch;
  a.ops = b_.ops;
  a.op_count = last_ ? b_.main_fused : 0;
  SetRhs(a, p_.main, k, first, p_.transform != nullptr);
  // A call of one row by a narrow tile is short: only what differs is written from one to the next.
  const RhsStep step = tiles > 1 ? StepOf(tile_n, backwards) : RhsStep{};
  const void* const first_panel = a.rhs;
  const bool gathers = p_.column_major && last_;
  const size_t most_tiles = TilesOfCall(tile_m);
  for (size_t i = 0, n = first; i < tiles; ++i, n = backwards ? n - tile_n : n + tile_n) {
    if (i > 0) step.Move(a);
    if (p_.panels_ahead) {
      const void* next = static_cast<const char*>(a.rhs) + step.rhs;
      if (i + 1 == tiles) next = last_rows ? nullptr : first_panel;
      AimAtPanel(next, k);
    }
    a.n = std::min(tile_n, n1 - n);
    a.n0 = n;
    if (p_.fallback.row && (RhsFlags(n) & ukernel::kPackSplitUnsafe)) continue;
    size_t line_end = p_.line_rows ? m0 : m1;  // of the line that m is in
    BeginGathered(m0, n);
    // Calls of few k are short: within a line rows move on by what is known, a tile after a tile, to where nothing else
    // was set in between.
    RowStep row_step;
    bool moves = false;
    for (size_t m = m0; m < m1; m += a.m) {
      if (m == line_end) {
        line_end += p_.line_rows;
        moves = false;
      }
      const size_t rows = line_end - m;
      a.m = std::min(tile_m, rows);
      if (most_tiles > 1 && !ahead_.units && rows >= 2 * tile_m) {
        const size_t whole = std::min(rows / tile_m, most_tiles);
        a.m = tile_m * (prefetch_rows_ ? std::clamp(kLinesOfCall / prefetch_lines_, size_t{1}, whole) : whole);
      }
      if (p_.fallback.row && FallsBack(m, n)) {
        if (p_.column_major) StoreGathered(m, n + a.n);
        BeginGathered(m + a.m, n);
        moves = false;
        continue;
      }
      a.m0 = m;
      if (moves && a.m <= tile_m) {
        row_step.Move(a);
      } else {
        SetLhs(a, k, m, m0);
        SetDst(a);
        row_step = StepOfRows(a, tile_m);
        moves = a.m <= tile_m;
      }
      if (ahead_.units || a.ahead) AskAhead(a);
      if (prefetch_rows_) PrefetchLhs(ukernel::CeilDiv(a.m, tile_m));
      const size_t next = m + a.m;
      if (!first_) PrefetchAccumulators(next < m1 ? next : m0, m1, next < m1 ? n : n + tile_n, n1);
      if (gathers) PrefetchGathered(a.m, m1, a.n);
      Call(*p_.main.row, b_.main_fused, a);
      if (p_.column_major && (next == m1 || next + tile_m > gathered_m0_ + p_.gathered_rows)) {
        StoreGathered(next, n + a.n);
        BeginGathered(next, n);
        moves = false;
      }
    }
  }
}

// How many tiles of rows may follow each other in one call: one, where they are told apart or lie in the slot; where
// operations follow the call, so many that their results stay in L1.
size_t Part::TilesOfCall(size_t tile_m) const {
  const GemmKernel& row = *p_.main.row;
  const GemmOperands& o = b_.operands;
  if (!row.many_tiles || tile_m != row.mr || !first_ || !last_ || p_.column_major || p_.fallback.row ||
      (o.image && !p_.line_rows) || o.rhs_form != ukernel::RhsForm::kPacked) {
    return 1;
  }
  if (b_.main_fused == b_.op_count) return SIZE_MAX;
  if (FormatBytes(p_.dst_format) != p_.acc_bytes()) return 1;
  return std::max<size_t>(1, p_.cpu.l1d_bytes / 4 / (tile_m * p_.main.tile_n * p_.acc_bytes()));
}

// The rows [m1, next) come after [m0, m1): their lines of the K block are brought to L2 meanwhile, a few per call, as
// hardware does not follow rows that are far apart. Not where a block is one tile: so many lines per call would wait
// for each other, and what a tile misses overlaps with its products anyway.
void Part::AimPrefetch(const KBlock& k, size_t m0, size_t m1, size_t next, size_t columns) {
  prefetch_rows_ = 0;
  if (p_.prepared || b_.operands.image || m1 >= next || p_.m_block == p_.main.tile_m || p_.main.row->whole_panel ||
      k.k == 0) {
    return;
  }
  const size_t element = FormatBytes(p_.lhs_format);
  const size_t calls = ukernel::CeilDiv(m1 - m0, p_.main.tile_m) * ukernel::CeilDiv(columns, p_.main.tile_n);
  prefetch_line_bytes_ = k.k * element;
  prefetch_row_ = static_cast<const char*>(b_.operands.lhs) + static_cast<ptrdiff_t>(m1) * b_.operands.lhs_row_stride +
                  k.k0 * element;
  prefetch_rows_ = next - m1;
  prefetch_at_ = 0;
  prefetch_lines_ = ukernel::CeilDiv(prefetch_rows_ * ukernel::CeilDiv(prefetch_line_bytes_, kLine), calls);
}

void Part::PrefetchLhs(size_t tiles) {
  for (size_t i = 0; i < prefetch_lines_ * tiles && prefetch_rows_; ++i) {
    __builtin_prefetch(prefetch_row_ + prefetch_at_, 0, 2);
    prefetch_at_ += kLine;
    if (prefetch_at_ < prefetch_line_bytes_) continue;
    prefetch_at_ = 0;
    prefetch_row_ += b_.operands.lhs_row_stride;
    --prefetch_rows_;
  }
}

// What comes after the panel of the columns [n0, n1) is its next K block, the first one of the next columns, or that of
// the next product: its calls bring it to L2 meanwhile, as hardware follows no weights beyond the panel (Cascade Lake,
// whose L3 gives 15 GB/s, 128x768x3072: 78 to 84 % of the peak, out of memory 74 to 86).
void Part::AimAhead(size_t k_index, size_t rows, size_t n0, size_t n1, const Columns& all) {
  ahead_ = after_ = {};
  const auto asks = p_.asks_ahead;
  if (asks == ukernel::AsksAhead::kNothing || (asks == ukernel::AsksAhead::kPanel && !p_.panels_ahead)) return;
  const ukernel::RhsGeometry& g = p_.rhs_geometry;
  const bool more = k_index + 1 < p_.k_block_count, product = !more && n1 >= all.n1;
  const std::byte* rhs = product ? all.last_rows ? b_.operands.next_rhs : nullptr : b_.operands.rhs;
  if (!rhs) return;
  const size_t from = more ? n0 : product ? all.n0 : n1, to = more ? n1 : std::min(all.n1, from + p_.n_block);
  const KBlock k = KBlockAt(p_, more ? k_index + 1 : 0);
  after_.units = ukernel::CeilDiv(to - from, g.n_unit);
  after_.bytes = RhsElementBytes(p_.layout, g.n_unit, k.padded);
  after_.at = reinterpret_cast<const char*>(rhs) + g.UnitOffset(from / g.n_unit) +
              RhsElementBytes(p_.layout, g.n_unit, k.padded0);
  if (p_.k_block_count == 1) {  // units follow each other without a gap
    after_.bytes = (after_.units - 1) * g.unit_stride + after_.bytes;
    after_.units = 1;
  }
  ahead_ = after_;
  ahead_at_ = 0;
  ahead_few_ = asks == ukernel::AsksAhead::kBlock && rows < kFewCalls * p_.main.tile_m;
}

// The next calls ask for the K block of a tile's columns; of none: for what comes after all columns.
void Part::AimAtPanel(const void* panel, const KBlock& k) {
  const ukernel::RhsGeometry& g = p_.rhs_geometry;
  ahead_ = after_;
  if (panel) {
    ahead_ = {.at = static_cast<const char*>(panel),
              .units = p_.main.tile_n / g.n_unit,
              .bytes = RhsElementBytes(p_.layout, g.n_unit, k.padded)};
  }
  ahead_at_ = 0;
}

// The part of it for a call.
void Part::AskAhead(GemmArgs& a) {
  a.ahead = nullptr;
  a.ahead_lines = ukernel::kAheadLines;
  if (ahead_.units == 0) return;
  if (ahead_few_ && a.lhs_form == ukernel::kLhsRows) a.ahead_lines = ukernel::kAheadLinesOfFewRows;
  a.ahead = ahead_.at + ahead_at_;
  ahead_at_ += a.k * a.tap_count * a.ahead_lines * kLine / ukernel::kAheadK;
  if (ahead_at_ >= ahead_.bytes) {
    ahead_at_ = 0;
    ahead_.at += p_.rhs_geometry.unit_stride;
    --ahead_.units;
  }
}

// The accumulators of the tile that is next: the kernel begins with reading them.
void Part::PrefetchAccumulators(size_t m, size_t m1, size_t n, size_t n1) const {
  if (n >= n1 || !p_.acc_in_dst) return;
  const size_t element = p_.acc_bytes(), bytes = std::min(p_.main.tile_n, n1 - n) * element;
  const char* row = static_cast<const char*>(b_.operands.dst) + m * b_.operands.dst_row_stride + n * element;
  for (const size_t end = std::min(m1, m + p_.main.tile_m); m < end; ++m, row += b_.operands.dst_row_stride) {
    for (size_t i = 0; i < bytes; i += kLine) __builtin_prefetch(row + i, 1, 3);
  }
}

void Part::SetRhs(GemmArgs& a, const RowBinding& binding, const KBlock& k, size_t n, bool transformed) const {
  const ukernel::RhsGeometry& g = p_.rhs_geometry;
  a.block = p_.rhs_shape.block;
  if (b_.operands.rhs_form == ukernel::RhsForm::kInPlace) {
    a.rhs_form = ukernel::RhsForm::kInPlace;
    a.rhs_k_stride = b_.operands.rhs_k_stride;
    a.rhs = b_.operands.rhs + k.k0 * a.rhs_k_stride + n * FormatBytes(binding.row->rhs);
    return;
  }
  const std::byte* first = b_.operands.rhs + g.UnitOffset(n / g.n_unit);
  a.rhs_sums = b_.operands.rhs + g.sums_offset + n * 4;
  a.rhs_pair_bound = b_.operands.rhs_pair_bound;
  a.rhs_tap_stride = RhsElementBytes(binding.row->consumed, g.n_unit, g.segment_k);
  if (transformed) {
    const ukernel::RhsGeometry& t = p_.panel_geometry;
    const char* panel = panels_ + t.UnitOffset((n - panels_n0_) / t.n_unit);
    a.rhs = panel;
    a.rhs_unit_stride = t.unit_stride;
    a.rhs_scales = panel + t.scales_offset;
    a.rhs_scale = p_.panel_layout.scale;
    a.rhs_offset = p_.panel_layout.offset;
    return;
  }
  const size_t block = p_.rhs_shape.block ? k.padded0 / p_.rhs_shape.block : 0;
  a.rhs_unit_offset = RhsElementBytes(p_.layout, g.n_unit, k.padded0);
  a.rhs = first + a.rhs_unit_offset;
  a.rhs_unit_stride = g.unit_stride;
  a.rhs_wide_groups = b_.operands.rhs_wide_groups;
  if (a.rhs_wide_groups.begin) a.rhs_wide_groups.begin += n / g.n_unit;
  a.rhs_scales = first + g.scales_offset + block * g.n_unit * FormatBytes(p_.layout.scale);
  a.rhs_offsets = first + g.offsets_offset + block * g.n_unit * FormatBytes(p_.layout.offset);
  a.rhs_scale = p_.layout.scale;
  a.rhs_offset = p_.layout.offset;
}

Part::RhsStep Part::StepOf(size_t columns, bool backwards) const {
  const auto toward = [&](size_t bytes) {
    return backwards ? -static_cast<ptrdiff_t>(bytes) : static_cast<ptrdiff_t>(bytes);
  };
  if (b_.operands.rhs_form == ukernel::RhsForm::kInPlace) {
    return {.rhs = toward(columns * FormatBytes(p_.main.row->rhs))};
  }
  const ukernel::RhsGeometry& g = p_.transform ? p_.panel_geometry : p_.rhs_geometry;
  const ptrdiff_t units = toward(g.UnitOffset(columns / g.n_unit));
  return {.rhs = units,
          .scales = units,
          .offsets = p_.transform ? 0 : units,
          .sums = toward(columns * 4),
          .units = toward(columns / g.n_unit)};
}

void Part::RhsStep::Move(GemmArgs& a) const {
  const auto move = [](const void*& at, ptrdiff_t bytes) { at = static_cast<const char*>(at) + bytes; };
  move(a.rhs, rhs);
  move(a.rhs_scales, scales);
  move(a.rhs_offsets, offsets);
  move(a.rhs_sums, sums);
  if (a.rhs_wide_groups.begin) a.rhs_wide_groups.begin += units;
}

// Where the taps of a K block lie, from the first one of an output pixel without padding.
void Part::FillTaps(const KBlock& k) {
  const ImageRows& im = *b_.operands.image;
  const size_t tap_bytes = RhsElementBytes(p_.main.row->consumed, p_.rhs_geometry.n_unit, p_.rhs_geometry.segment_k);
  taps_ = reinterpret_cast<ukernel::Tap*>(slot_ + p_.slot_taps);
  for (size_t t = 0; t < k.taps; ++t) {
    const size_t tap = k.tap0 + t, y = tap / im.kernel_w, z = y / im.kernel_h;
    const size_t line = z * im.dilation_d * im.in_h + (y - z * im.kernel_h) * im.dilation_h;
    const size_t column = (tap - y * im.kernel_w) * im.dilation_w;
    taps_[t].lhs_offset = static_cast<ptrdiff_t>(line) * im.row_stride +
                          static_cast<ptrdiff_t>(column) * im.pixel_stride +
                          static_cast<ptrdiff_t>(k.k0 * FormatBytes(p_.lhs_format));
    taps_[t].rhs_offset = t * tap_bytes;
  }
}

// Rows from m on; the pointers of an image were filled from `pointers_m0` on.
void Part::SetLhs(GemmArgs& a, const KBlock& k, size_t m, size_t pointers_m0) {
  const GemmKernel& row = *p_.main.row;
  if (p_.prepared) {
    const ukernel::LhsGeometry& g = p_.lhs_geometry;
    a.lhs_form = row.lhs_forms & ukernel::kLhsPacked ? ukernel::kLhsPacked : ukernel::kLhsRows;
    const char* panel = b_.workspace + p_.lhs_offset + m / g.m_unit * g.panel_stride;
    a.lhs = panel + LhsElementBytes(row.lhs_layout, g.m_unit, k.padded0);
    if (row.lhs_layout.block) {
      a.lhs_scales = panel + g.block_scales_offset + k.padded0 / row.lhs_layout.block * g.m_unit * sizeof(float);
    }
    a.lhs_row_stride = static_cast<ptrdiff_t>(g.panel_stride);
    return;
  }
  if (p_.line_rows) {
    const ImageRows& im = *b_.operands.image;
    a.lhs_form = ukernel::kLhsTaps;
    a.tap_count = k.taps;
    a.taps = taps_;
    a.lhs_row_stride = static_cast<ptrdiff_t>(im.stride_w) * im.pixel_stride;
    if (!line_ || m - line_m0_ >= p_.line_rows) {  // another line
      const size_t out_line = (b_.row0 + m) / im.out_w, oz = out_line / im.out_h;
      const size_t line = oz * im.stride_d * im.in_h + (out_line - oz * im.out_h) * im.stride_h;
      line_m0_ = out_line * im.out_w - b_.row0;
      line_ = static_cast<const char*>(im.image) + static_cast<ptrdiff_t>(line) * im.row_stride;
    }
    a.lhs = line_ + static_cast<ptrdiff_t>(m - line_m0_) * a.lhs_row_stride;
    return;
  }
  if (b_.operands.image) {
    a.lhs_form = ukernel::kLhsRowPointers;
    a.tap_count = k.taps;
    a.row_pointers = pointers_ + (m - pointers_m0);
    a.row_pointer_pitch = pointer_pitch_;
    a.row_pointer_offset = static_cast<ptrdiff_t>(k.k0 * FormatBytes(p_.lhs_format));
    a.zero_row = b_.operands.image->zero_row;
    return;
  }
  a.lhs_form = ukernel::kLhsRows;
  a.lhs = static_cast<const char*>(b_.operands.lhs) + static_cast<ptrdiff_t>(m) * b_.operands.lhs_row_stride +
          k.k0 * FormatBytes(p_.lhs_format);
  a.lhs_row_stride = b_.operands.lhs_row_stride;
}

// Where the tile's accumulators and results go.
void Part::SetDst(GemmArgs& a) {
  const size_t out_bytes = FormatBytes(p_.dst_format);
  char* dst = static_cast<char*>(b_.operands.dst) + a.m0 * b_.operands.dst_row_stride + a.n0 * out_bytes;
  a.dst_row_stride = b_.operands.dst_row_stride;
  if (p_.column_major) {
    a.dst_row_stride = p_.gathered_row_stride;
    dst = slot_ + p_.slot_gathered + (a.m0 - gathered_m0_) * a.dst_row_stride + (a.n0 - gathered_n0_) * out_bytes;
  }
  a.dst = dst;
  if (a.first_k && a.last_k) return;
  if (p_.acc_in_dst) {
    a.acc = dst;
    a.acc_row_stride = a.dst_row_stride;
    return;
  }
  a.acc_row_stride = p_.acc_row_stride();
  a.acc = slot_ + p_.slot_acc + (a.m0 - acc_m0_) * a.acc_row_stride + (a.n0 - acc_n0_) * p_.acc_bytes();
}

Part::RowStep Part::StepOfRows(const GemmArgs& a, size_t tile_m) const {
  const auto rows = static_cast<ptrdiff_t>(tile_m);
  RowStep step{.lhs = rows * a.lhs_row_stride,
               .acc = rows * static_cast<ptrdiff_t>(a.acc_row_stride),
               .dst = rows * static_cast<ptrdiff_t>(a.dst_row_stride)};
  if (p_.prepared) {
    step.lhs = rows / static_cast<ptrdiff_t>(p_.lhs_geometry.m_unit) * a.lhs_row_stride;
    step.scales = step.lhs;
  }
  if (a.lhs_form == ukernel::kLhsRowPointers) step.pointers = tile_m;
  return step;
}

void Part::RowStep::Move(GemmArgs& a) const {
  a.lhs = static_cast<const char*>(a.lhs) + lhs;
  a.lhs_scales = static_cast<const char*>(a.lhs_scales) + scales;
  a.row_pointers += pointers;
  a.acc = static_cast<char*>(a.acc) + acc;
  a.dst = static_cast<char*>(a.dst) + dst;
}

// Runs the row, and the ops that it leaves.
void Part::Call(const GemmKernel& row, size_t fused, GemmArgs& a) {
  ++count_.calls;
  if (!a.last_k || fused == b_.op_count) {
    row.run(a);
    return;
  }
  ukernel::EpilogueBlock rest;
  rest.m = a.m;
  rest.n = a.n;
  rest.m0 = a.m0;
  rest.n0 = a.n0;
  rest.dst = a.dst;
  rest.dst_row_stride = a.dst_row_stride;
  rest.src_format = EpilogueFormat(p_.acc_format, b_.ops, fused);
  if (FormatBytes(p_.dst_format) != p_.acc_bytes()) {  // the intermediate result does not fit into dst
    a.dst = slot_ + p_.slot_tile;
    a.dst_row_stride = a.n * p_.acc_bytes();
  }
  rest.src = a.dst;
  rest.src_row_stride = a.dst_row_stride;
  row.run(a);
  p_.epilogue(b_.ops + fused, b_.op_count - fused, rest);
  a.dst = rest.dst;
  a.dst_row_stride = rest.dst_row_stride;
}

// Of a column-major result, the rows from m0 and the columns from n0 on are gathered next.
void Part::BeginGathered(size_t m0, size_t n0) {
  gathered_m0_ = m0;
  gathered_n0_ = n0;
  gathered_asked_ = gathered_due_ = 0;
}

// Of a column-major result, the rows gathered up to m1, of the columns up to n1, go to their places.
void Part::StoreGathered(size_t m1, size_t n1) {
  if (last_ && gathered_m0_ < m1) {
    const size_t element = FormatBytes(p_.dst_format), stride = b_.operands.dst_column_stride;
    p_.transpose({.element_bytes = element,
                  .rows = n1 - gathered_n0_,
                  .cols = m1 - gathered_m0_,
                  .x = slot_ + p_.slot_gathered,
                  .x_col = static_cast<ptrdiff_t>(p_.gathered_row_stride / element),
                  .y = static_cast<char*>(b_.operands.dst) + gathered_m0_ * element + gathered_n0_ * stride,
                  .y_row = static_cast<ptrdiff_t>(stride / element)});
  }
}

// Lines that the gathered rows go to, some per tile: stores to as many places as a tile has columns would wait for
// each.
void Part::PrefetchGathered(size_t rows, size_t m1, size_t columns) {
  const size_t all = std::min(p_.gathered_rows, m1 - gathered_m0_), element = FormatBytes(p_.dst_format);
  const size_t stride = b_.operands.dst_column_stride;
  const char* to = static_cast<const char*>(b_.operands.dst) + gathered_m0_ * element + gathered_n0_ * stride;
  for (gathered_due_ += columns * rows; gathered_due_ >= all; gathered_due_ -= all, ++gathered_asked_) {
    for (size_t i = 0; i < all * element; i += kLine) __builtin_prefetch(to + gathered_asked_ * stride + i, 0, 2);
  }
}

void Part::Transform(const KBlock& k, size_t n0, size_t n1) {
  const ukernel::RhsGeometry& g = p_.rhs_geometry;
  const ukernel::RhsGeometry& t = p_.panel_geometry;
  const size_t block = p_.rhs_shape.block ? k.padded0 / p_.rhs_shape.block : 0;
  for (size_t n = n0; n < n1; n += p_.main.tile_n) {
    const size_t columns = std::min(p_.main.tile_n, n1 - n);
    const std::byte* first = b_.operands.rhs + g.UnitOffset(n / g.n_unit);
    ukernel::TransformArgs a;
    a.src = first + RhsElementBytes(p_.layout, g.n_unit, k.padded0);
    a.src_unit_stride = g.unit_stride;
    a.src_scales = first + g.scales_offset + block * g.n_unit * FormatBytes(p_.layout.scale);
    a.src_offsets = first + g.offsets_offset + block * g.n_unit * FormatBytes(p_.layout.offset);
    a.src_scale = p_.layout.scale;
    a.src_offset = p_.layout.offset;
    a.dst = panels_ + t.UnitOffset((n - panels_n0_) / t.n_unit);
    a.dst_unit_stride = t.unit_stride;
    a.dst_scales_offset = t.scales_offset;
    a.k = k.padded;
    a.units = ukernel::CeilDiv(columns, g.n_unit);
    a.n_unit = g.n_unit;
    a.block = p_.rhs_shape.block;
    const uint32_t found = p_.transform->run(a);
    ++count_.transforms;
    count_.transform_bytes += a.units * t.unit_stride;
    if (p_.fallback.row) RhsFlags(n) |= static_cast<uint8_t>(found);
  }
}

// Tiles whose split in bf16 terms is unsafe run again, whole, on float32 multiply-add.
void Part::RunFallbacks(size_t m0, size_t m1, size_t n0, size_t n1) {
  for (size_t n = n0; n < n1; n += p_.main.tile_n) {
    for (size_t m = m0; m < m1; m += p_.main.tile_m) {
      if (!FallsBack(m, n)) continue;
      ++count_.fallbacks;
      RunFallback(m, std::min(m1, m + p_.main.tile_m), n, std::min(n1, n + p_.main.tile_n));
    }
  }
}

void Part::RunFallback(size_t m0, size_t m1, size_t n0, size_t n1) {
  const RowBinding& f = p_.fallback;
  const ImageRows* image = b_.operands.image;
  if (image) {
    pointer_pitch_ = m1 - m0;
    pointers_ = reinterpret_cast<const void**>(slot_ + p_.slot_pointers);
    FillPointers(*image, b_.row0 + m0, m1 - m0, 0, p_.segments, pointer_pitch_, pointers_);
  }
  const KBlock whole{.taps = p_.segments, .k = p_.k};
  BeginGathered(m0, n0);
  for (size_t n = n0; n < n1; n += f.tile_n) {
    GemmArgs a;
    a.n = std::min(f.tile_n, n1 - n);
    a.k = p_.k;
    a.vector_bytes = p_.vector_bytes;
    a.stream_into_l1 = ukernel::StreamsIntoL1(p_.cpu);
    a.scratch = slot_ + p_.slot_scratch;
    a.n0 = n;
    a.ops = b_.ops;
    a.op_count = b_.fallback_fused;
    SetRhs(a, f, whole, n, false);
    for (size_t m = m0; m < m1; m += f.tile_m) {
      a.m = std::min(f.tile_m, m1 - m);
      a.m0 = m;
      if (image) {
        a.lhs_form = ukernel::kLhsRowPointers;
        a.tap_count = p_.segments;
        a.row_pointers = pointers_ + (m - m0);
        a.row_pointer_pitch = pointer_pitch_;
        a.zero_row = image->zero_row;
      } else {
        a.lhs = static_cast<const char*>(b_.operands.lhs) + static_cast<ptrdiff_t>(m) * b_.operands.lhs_row_stride;
        a.lhs_row_stride = b_.operands.lhs_row_stride;
      }
      SetDst(a);
      Call(*f.row, b_.fallback_fused, a);
    }
  }
  if (p_.column_major) StoreGathered(m1, n1);
}

}  // namespace

void FillPointers(const ImageRows& im, size_t row, size_t rows, size_t tap, size_t taps, size_t pitch,
                  const void** out) {
  const auto shift = [](size_t index, size_t dilation, size_t pad) {
    return static_cast<ptrdiff_t>(index * dilation) - static_cast<ptrdiff_t>(pad);
  };
  const size_t first_x = tap % im.kernel_w, first_y = tap / im.kernel_w % im.kernel_h;
  const size_t first_z = tap / im.kernel_w / im.kernel_h;
  const ptrdiff_t step = static_cast<ptrdiff_t>(im.stride_w);
  // Divisions once for a run of pixels in a line: a block may have few of them and many taps.
  for (size_t r = 0; r < rows;) {
    const size_t out_line = (row + r) / im.out_w, ox = row + r - out_line * im.out_w;
    const size_t oz = out_line / im.out_h, oy = out_line - oz * im.out_h;
    const size_t run = std::min(im.out_w - ox, rows - r);
    size_t kx = first_x, ky = first_y, kz = first_z;
    const void** to = out + r;
    for (size_t t = 0; t < taps; ++t, to += pitch) {
      const ptrdiff_t y = static_cast<ptrdiff_t>(oy * im.stride_h) + shift(ky, im.dilation_h, im.pad_top);
      const ptrdiff_t z = static_cast<ptrdiff_t>(oz * im.stride_d) + shift(kz, im.dilation_d, im.pad_front);
      const bool inside =
          y >= 0 && y < static_cast<ptrdiff_t>(im.in_h) && z >= 0 && z < static_cast<ptrdiff_t>(im.in_d);
      const char* line =
          static_cast<const char*>(im.image) + (inside ? (z * static_cast<ptrdiff_t>(im.in_h) + y) * im.row_stride : 0);
      // The run's pixels [first, last) lie in the line: no test for each.
      const ptrdiff_t x = static_cast<ptrdiff_t>(ox) * step + shift(kx, im.dilation_w, im.pad_left);
      const auto pixels_before = [&](ptrdiff_t at) {  // of the run, left of `at`
        if (at <= x) return size_t{0};
        if (at - x >= static_cast<ptrdiff_t>(run) * step) return run;
        return ukernel::CeilDiv(static_cast<size_t>(at - x), im.stride_w);
      };
      const size_t first = inside ? pixels_before(0) : run;
      const size_t last = inside ? pixels_before(static_cast<ptrdiff_t>(im.in_w)) : run;
      const char* pixel = first < last ? line + (x + static_cast<ptrdiff_t>(first) * step) * im.pixel_stride : line;
      for (size_t i = 0; i < first; ++i) to[i] = im.zero_row;
      for (size_t i = first; i < last; ++i, pixel += step * im.pixel_stride) to[i] = pixel;
      for (size_t i = last; i < run; ++i) to[i] = im.zero_row;
      if (++kx < im.kernel_w) continue;
      kx = 0;
      if (++ky < im.kernel_h) continue;
      ky = 0;
      ++kz;
    }
    r += run;
  }
}

size_t PartBegin(size_t total, size_t parts, size_t index, size_t unit) {
  return static_cast<size_t>(EvenPart(static_cast<int64_t>(total), static_cast<int64_t>(parts),
                                      static_cast<int64_t>(index), static_cast<int64_t>(unit))
                                 .begin);
}

Status RunRegion(const GemmPlan& p, const RunResources& r, int64_t items, Task task) {
  if (p.slots == 1 && !r.cancel) {
    task(0, 0, items);
    return OkStatus();
  }
  if (p.slots == 1) {
    InlineExecutor executor;
    return executor.ParallelFor(items, 1, task, r.cancel);
  }
  if (r.counters) r.counters->regions.fetch_add(1, std::memory_order_relaxed);
  return r.executor->ParallelFor(items, 1, task, r.cancel, p.slots);
}

Status RunBlock(const GemmBlock& b, const RunResources& r) {
  const GemmPlan& p = b.p;
  const size_t tile_n = p.main.tile_n;
  const auto run = [&](Part& part, size_t mi, size_t m_end, size_t ni, size_t n_end) {
    part.Run(PartBegin(b.m, p.m_parts, mi, p.row_unit()), PartBegin(b.m, p.m_parts, m_end, p.row_unit()),
             b.n0 + PartBegin(b.n1 - b.n0, p.n_parts, ni, tile_n),
             b.n0 + PartBegin(b.n1 - b.n0, p.n_parts, n_end, tile_n));
  };
  const size_t parts = p.m_parts * p.n_parts;
  if (p.main.row->enter_mode) {
    // One task per slot takes parts until none is left, so that each worker enters the mode once.
    std::atomic<size_t> next{0};
    auto share = [&](int slot, int64_t, int64_t) {
      Part part(b, slot);
      for (size_t i = next.fetch_add(1, std::memory_order_relaxed); i < parts;
           i = next.fetch_add(1, std::memory_order_relaxed)) {
        if (r.cancel && r.cancel->cancelled()) break;
        run(part, i / p.n_parts, i / p.n_parts + 1, i % p.n_parts, i % p.n_parts + 1);
      }
      part.count().AddTo(r.counters);
    };
    return RunRegion(p, r, p.slots, share);
  }
  auto compute = [&](int slot, int64_t begin, int64_t end) {
    Part part(b, slot);
    // Neighbours that came together are one part.
    const size_t first = static_cast<size_t>(begin), last = static_cast<size_t>(end);
    if (p.n_parts == 1) {
      run(part, first, last, 0, 1);
    } else if (p.m_parts == 1) {
      run(part, 0, 1, first, last);
    } else {
      for (size_t i = first; i < last; ++i) {
        run(part, i / p.n_parts, i / p.n_parts + 1, i % p.n_parts, i % p.n_parts + 1);
      }
    }
    part.count().AddTo(r.counters);
  };
  return RunRegion(p, r, static_cast<int64_t>(parts), compute);
}

}  // namespace quern::kernels
