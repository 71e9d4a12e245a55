// Runs a planned product: prepares rows, transforms panels, calls the micro-kernel over tiles, finishes epilogues.
#include "kernels/gemm_core.h"

#include <algorithm>
#include <cstring>

#include "parallel/partition.h"
#include "ukernel/convert.h"

namespace quern::kernels {
namespace {

using ukernel::EpilogueKind;
using ukernel::GemmArgs;

constexpr size_t kLine = 64;  // bytes of a cache line

// Length of the prefix of the ops that the row runs.
size_t FusedLength(const GemmKernel& row, const EpilogueOp* ops, size_t count) {
  size_t fused = FusedPrefix(row.fused, ops, count);
  if (fused == count) return fused;
  // Reductions see the number before it is stored: where they stay with the driver, so does the conversion.
  while (fused > 0 &&
         (ops[fused - 1].kind == EpilogueKind::kRequantize || ops[fused - 1].kind == EpilogueKind::kConvert ||
          ops[fused - 1].kind == EpilogueKind::kRowMinMax || ops[fused - 1].kind == EpilogueKind::kRowSumSquares)) {
    --fused;
  }
  return fused;
}

// Pointers of rows [row, row + rows) for taps [tap, tap + taps): out[(t - tap)*pitch + r].
void FillPointers(const ImageRows& im, size_t row, size_t rows, size_t tap, size_t taps, size_t pitch,
                  const void** out) {
  for (size_t t = tap; t < tap + taps; ++t, out += pitch) {
    const ptrdiff_t dy = static_cast<ptrdiff_t>(t / im.kernel_w * im.dilation_h) - static_cast<ptrdiff_t>(im.pad_top);
    const ptrdiff_t dx = static_cast<ptrdiff_t>(t % im.kernel_w * im.dilation_w) - static_cast<ptrdiff_t>(im.pad_left);
    size_t r = 0;
    while (r < rows) {
      const size_t oy = (row + r) / im.out_w, ox = (row + r) % im.out_w;
      const size_t run = std::min(im.out_w - ox, rows - r);
      const ptrdiff_t y = static_cast<ptrdiff_t>(oy * im.stride_h) + dy;
      const bool inside = y >= 0 && y < static_cast<ptrdiff_t>(im.in_h);
      ptrdiff_t x = static_cast<ptrdiff_t>(ox * im.stride_w) + dx;
      const char* line = static_cast<const char*>(im.image) + (inside ? y * im.row_stride : 0);
      for (size_t i = 0; i < run; ++i, x += static_cast<ptrdiff_t>(im.stride_w)) {
        const bool in = inside && x >= 0 && x < static_cast<ptrdiff_t>(im.in_w);
        out[r + i] = in ? line + x * im.pixel_stride : im.zero_row;
      }
      r += run;
    }
  }
}

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

// The product over one block of rows of the left side ([0, m) of it), as all its tasks see it.
struct Block {
  const GemmPlan& p;
  GemmOperands operands;  // moved to the block's first row
  size_t row0;            // of the image
  size_t m;
  const EpilogueOp* ops;
  size_t op_count;
  size_t main_fused, fallback_fused;
  char* workspace;

  const uint8_t* lhs_flags() const { return reinterpret_cast<const uint8_t*>(workspace + p.lhs_flags_offset); }
};

// One task's part of a block, with the scratch of its slot.
class Part {
 public:
  Part(const Block& block, int slot)
      : b_(block), p_(block.p), slot_(block.workspace + p_.slots_offset + static_cast<size_t>(slot) * p_.slot_stride) {}

  const Count& count() const { return count_; }

  void Run(size_t m0, size_t m1, size_t n0, size_t n1) {
    const GemmKernel& row = *p_.main.row;
    if (row.enter_mode) {
      row.enter_mode(row.mode_config);
      ++count_.modes;
    }
    for (size_t m = m0; m < m1; m += p_.m_super) {
      for (size_t n = n0; n < n1; n += p_.n_block) {
        RunColumns(m, std::min(m1, m + p_.m_super), n, std::min(n1, n + p_.n_block));
      }
    }
    if (row.leave_mode) row.leave_mode();
  }

 private:
  // Where the right side of a K block is for the columns from n on.
  struct Rhs {
    const char* elements;
    const char* scales;
    const char* offsets;
    size_t unit_stride;
  };

  void RunColumns(size_t m0, size_t m1, size_t n0, size_t n1) {
    acc_m0_ = m0;
    acc_n0_ = n0;
    if (p_.fallback.row) std::memset(slot_ + p_.slot_flags, 0, p_.n_block / p_.main.tile_n + 1);
    for (size_t i = 0; i < p_.k_block_count; ++i) {
      const KBlock k = KBlockAt(p_, i);
      first_ = i == 0;
      last_ = i + 1 == p_.k_block_count;
      if (p_.transform) Transform(k, n0, n1);
      for (size_t m = m0; m < m1; m += p_.m_block) {
        const size_t end = std::min(m1, m + p_.m_block);
        AimPrefetch(k, m, end, std::min(m1, end + p_.m_block), n1 - n0);
        RunRows(k, m, end, n0, n1);
      }
    }
    if (p_.fallback.row) RunFallbacks(m0, m1, n0, n1);
  }

  void RunRows(const KBlock& k, size_t m0, size_t m1, size_t n0, size_t n1) {
    const size_t tile_m = p_.main.row->whole_panel ? m1 - m0 : p_.main.tile_m;
    const size_t tile_n = p_.main.row->whole_panel ? n1 - n0 : p_.main.tile_n;
    if (b_.operands.image && !p_.prepared) {
      pointer_pitch_ = m1 - m0;
      pointers_ = reinterpret_cast<const void**>(slot_ + p_.slot_pointers);
      FillPointers(*b_.operands.image, b_.row0 + m0, m1 - m0, k.tap0, k.taps, pointer_pitch_, pointers_);
    }
    for (size_t n = n0; n < n1; n += tile_n) {
      const size_t columns = std::min(tile_n, n1 - n);
      if (p_.fallback.row && RhsUnsafe(n)) continue;
      GemmArgs a;
      a.n = columns;
      a.k = k.k;
      a.first_k = first_;
      a.last_k = last_;
      a.vector_bytes = p_.vector_bytes;
      a.scratch = slot_ + p_.slot_scratch;
      a.n0 = n;
      a.ops = b_.ops;
      a.op_count = last_ ? b_.main_fused : 0;
      SetRhs(a, p_.main, k, n, p_.transform != nullptr);
      for (size_t m = m0; m < m1; m += tile_m) {
        if (p_.fallback.row && b_.lhs_flags()[m / p_.main.tile_m]) continue;
        a.m = std::min(tile_m, m1 - m);
        a.m0 = m;
        SetLhs(a, k, m, m0);
        PrefetchLhs();
        if (!first_) PrefetchAccumulators(m + tile_m < m1 ? m + tile_m : m0, m1, m + tile_m < m1 ? n : n + tile_n, n1);
        Call(*p_.main.row, b_.main_fused, a);
      }
    }
  }

  // The rows [m1, next) come after [m0, m1): their lines of the K block are brought to L2 meanwhile, a few per call, as
  // hardware does not follow rows that are far apart. Not where a block is one tile: so many lines per call would wait
  // for each other, and what a tile misses overlaps with its products anyway.
  void AimPrefetch(const KBlock& k, size_t m0, size_t m1, size_t next, size_t columns) {
    prefetch_rows_ = 0;
    if (p_.prepared || b_.operands.image || m1 >= next || p_.m_block == p_.main.tile_m || p_.main.row->whole_panel) {
      return;
    }
    const size_t element = FormatBytes(p_.lhs_format);
    const size_t calls = ukernel::CeilDiv(m1 - m0, p_.main.tile_m) * ukernel::CeilDiv(columns, p_.main.tile_n);
    prefetch_line_bytes_ = k.k * element;
    prefetch_row_ = static_cast<const char*>(b_.operands.lhs) +
                    static_cast<ptrdiff_t>(m1) * b_.operands.lhs_row_stride + k.k0 * element;
    prefetch_rows_ = next - m1;
    prefetch_at_ = 0;
    prefetch_lines_ = ukernel::CeilDiv(prefetch_rows_ * ukernel::CeilDiv(prefetch_line_bytes_, kLine), calls);
  }

  void PrefetchLhs() {
    for (size_t i = 0; i < prefetch_lines_ && prefetch_rows_; ++i) {
      __builtin_prefetch(prefetch_row_ + prefetch_at_, 0, 2);
      prefetch_at_ += kLine;
      if (prefetch_at_ < prefetch_line_bytes_) continue;
      prefetch_at_ = 0;
      prefetch_row_ += b_.operands.lhs_row_stride;
      --prefetch_rows_;
    }
  }

  // The accumulators of the tile that is next: the kernel begins with reading them.
  void PrefetchAccumulators(size_t m, size_t m1, size_t n, size_t n1) const {
    if (n >= n1 || !p_.acc_in_dst) return;
    const size_t bytes = std::min(p_.main.tile_n, n1 - n) * 4;
    const char* row = static_cast<const char*>(b_.operands.dst) + m * b_.operands.dst_row_stride + n * 4;
    for (const size_t end = std::min(m1, m + p_.main.tile_m); m < end; ++m, row += b_.operands.dst_row_stride) {
      for (size_t i = 0; i < bytes; i += kLine) __builtin_prefetch(row + i, 1, 3);
    }
  }

  bool RhsUnsafe(size_t n) const { return slot_[p_.slot_flags + (n - acc_n0_) / p_.main.tile_n] != 0; }

  void SetRhs(GemmArgs& a, const RowBinding& binding, const KBlock& k, size_t n, bool transformed) const {
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
    a.rhs_tap_stride = RhsElementBytes(binding.row->consumed, g.n_unit, g.segment_k);
    if (transformed) {
      const ukernel::RhsGeometry& t = p_.panel_geometry;
      const char* panel = slot_ + p_.slot_panel + t.UnitOffset((n - acc_n0_) / t.n_unit);
      a.rhs = panel;
      a.rhs_unit_stride = t.unit_stride;
      a.rhs_scales = panel + t.scales_offset;
      a.rhs_scale = p_.panel_layout.scale;
      a.rhs_offset = p_.panel_layout.offset;
      return;
    }
    const size_t block = p_.rhs_shape.block ? k.padded0 / p_.rhs_shape.block : 0;
    a.rhs = first + RhsElementBytes(p_.layout, g.n_unit, k.padded0);
    a.rhs_unit_stride = g.unit_stride;
    a.rhs_scales = first + g.scales_offset + block * g.n_unit * FormatBytes(p_.layout.scale);
    a.rhs_offsets = first + g.offsets_offset + block * g.n_unit * FormatBytes(p_.layout.offset);
    a.rhs_scale = p_.layout.scale;
    a.rhs_offset = p_.layout.offset;
  }

  // Rows from m on; the pointers of an image were filled from `pointers_m0` on.
  void SetLhs(GemmArgs& a, const KBlock& k, size_t m, size_t pointers_m0) const {
    const GemmKernel& row = *p_.main.row;
    if (p_.prepared) {
      const ukernel::LhsGeometry& g = p_.lhs_geometry;
      a.lhs_form = row.lhs_forms & ukernel::kLhsPacked ? ukernel::kLhsPacked : ukernel::kLhsRows;
      a.lhs = b_.workspace + p_.lhs_offset + m / g.m_unit * g.panel_stride +
              LhsElementBytes(row.lhs_layout, g.m_unit, k.padded0);
      a.lhs_row_stride = static_cast<ptrdiff_t>(g.panel_stride);
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

  // Chooses where the tile's accumulators and results go, calls, and runs the ops that the row leaves.
  void Call(const GemmKernel& row, size_t fused, GemmArgs& a) {
    ++count_.calls;
    const size_t out_bytes = FormatBytes(p_.dst_format);
    char* dst = static_cast<char*>(b_.operands.dst) + a.m0 * b_.operands.dst_row_stride + a.n0 * out_bytes;
    if (!a.first_k || !a.last_k) {
      if (p_.acc_in_dst) {
        a.acc = dst;
        a.acc_row_stride = b_.operands.dst_row_stride;
      } else {
        a.acc_row_stride = p_.n_block * 4 + ukernel::kPackAlignment;
        a.acc = slot_ + p_.slot_acc + (a.m0 - acc_m0_) * a.acc_row_stride + (a.n0 - acc_n0_) * 4;
      }
    }
    a.dst = dst;
    a.dst_row_stride = b_.operands.dst_row_stride;
    if (!a.last_k || fused == b_.op_count) {
      row.run(a);
      return;
    }
    ukernel::EpilogueBlock rest;
    rest.m = a.m;
    rest.n = a.n;
    rest.m0 = a.m0;
    rest.n0 = a.n0;
    rest.dst = dst;
    rest.dst_row_stride = b_.operands.dst_row_stride;
    rest.src_format = EpilogueFormat(p_.acc_format, b_.ops, fused);
    if (out_bytes != 4) {  // the intermediate result does not fit into dst
      a.dst = slot_ + p_.slot_tile;
      a.dst_row_stride = a.n * 4;
    }
    rest.src = a.dst;
    rest.src_row_stride = a.dst_row_stride;
    row.run(a);
    ukernel::ApplyEpilogue(b_.ops + fused, b_.op_count - fused, rest);
  }

  void Transform(const KBlock& k, size_t n0, size_t n1) {
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
      a.dst = slot_ + p_.slot_panel + t.UnitOffset((n - n0) / t.n_unit);
      a.dst_unit_stride = t.unit_stride;
      a.dst_scales_offset = t.scales_offset;
      a.k = k.padded;
      a.units = ukernel::CeilDiv(columns, g.n_unit);
      a.n_unit = g.n_unit;
      a.block = p_.rhs_shape.block;
      const uint32_t found = p_.transform->run(a);
      ++count_.transforms;
      count_.transform_bytes += a.units * t.unit_stride;
      if ((found & ukernel::kPackSplitUnsafe) && p_.fallback.row) {
        slot_[p_.slot_flags + (n - n0) / p_.main.tile_n] = 1;
      }
    }
  }

  // Tiles whose split in bf16 terms is unsafe run again, whole, on float32 multiply-add.
  void RunFallbacks(size_t m0, size_t m1, size_t n0, size_t n1) {
    for (size_t n = n0; n < n1; n += p_.main.tile_n) {
      const bool rhs = RhsUnsafe(n);
      for (size_t m = m0; m < m1; m += p_.main.tile_m) {
        if (!rhs && !b_.lhs_flags()[m / p_.main.tile_m]) continue;
        ++count_.fallbacks;
        RunFallback(m, std::min(m1, m + p_.main.tile_m), n, std::min(n1, n + p_.main.tile_n));
      }
    }
  }

  void RunFallback(size_t m0, size_t m1, size_t n0, size_t n1) {
    const RowBinding& f = p_.fallback;
    const ImageRows* image = b_.operands.image;
    if (image) {
      pointer_pitch_ = m1 - m0;
      pointers_ = reinterpret_cast<const void**>(slot_ + p_.slot_pointers);
      FillPointers(*image, b_.row0 + m0, m1 - m0, 0, p_.segments, pointer_pitch_, pointers_);
    }
    const KBlock whole{.taps = p_.segments, .k = p_.k};
    for (size_t n = n0; n < n1; n += f.tile_n) {
      GemmArgs a;
      a.n = std::min(f.tile_n, n1 - n);
      a.k = p_.k;
      a.vector_bytes = p_.vector_bytes;
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
        Call(*f.row, b_.fallback_fused, a);
      }
    }
  }

  const Block& b_;
  const GemmPlan& p_;
  char* slot_;
  size_t acc_m0_ = 0, acc_n0_ = 0;
  bool first_ = true, last_ = true;
  const char* prefetch_row_ = nullptr;
  size_t prefetch_rows_ = 0, prefetch_lines_ = 0, prefetch_line_bytes_ = 0, prefetch_at_ = 0;
  const void** pointers_ = nullptr;
  size_t pointer_pitch_ = 0;
  Count count_;
};

// Packs the rows [m0, m1) of a block of the left side; m0 is a multiple of the tile.
void PrepareRows(const Block& b, size_t m0, size_t m1) {
  const GemmPlan& p = b.p;
  const GemmKernel& row = *p.main.row;
  ukernel::LhsShape shape = p.lhs_shape;
  shape.m = b.m;
  ukernel::LhsSource source;
  source.format = p.lhs_format;
  if (b.operands.image) {
    const void** pointers = reinterpret_cast<const void**>(b.workspace + p.pointers_offset);
    for (size_t t = 0; t < p.segments; ++t) {
      FillPointers(*b.operands.image, b.row0 + m0, m1 - m0, t, 1, b.m, pointers + t * b.m + m0);
    }
    source.form = ukernel::kLhsRowPointers;
    source.row_pointers = pointers;
    source.row_pointer_pitch = b.m;
    source.zero_row = b.operands.image->zero_row;
  } else {
    source.data = b.operands.lhs;
    source.row_stride = b.operands.lhs_row_stride;
  }
  char* packed = b.workspace + p.lhs_offset;
  uint8_t* flags = reinterpret_cast<uint8_t*>(b.workspace + p.lhs_flags_offset);
  const size_t unit = p.lhs_geometry.m_unit;
  const auto pack = p.lhs_pack ? p.lhs_pack->run : ukernel::PackLhs;
  for (size_t m = m0; m < m1; m += p.main.tile_m) {
    const size_t end = std::min(m1, m + p.main.tile_m);
    const uint32_t found = pack(row.lhs_layout, shape, source, m / unit, ukernel::CeilDiv(end, unit), packed);
    flags[m / p.main.tile_m] = found & ukernel::kPackSplitUnsafe ? 1 : 0;
  }
  if (row.lhs == Format::kI8d && p.acc_format == Format::kI32) {
    const ukernel::LhsGeometry g = ukernel::DescribeLhs(row.lhs_layout, shape);
    const float* zeros = reinterpret_cast<const float*>(packed + g.negated_zero_points_offset);
    int32_t* out = reinterpret_cast<int32_t*>(b.workspace + p.lhs_zeros_offset);
    for (size_t m = m0; m < m1; ++m) out[m] = static_cast<int32_t>(zeros[m]);
  }
}

// The ops that turn products of dynamic rows into real numbers (numerics.md): (acc - zero*sums) / scale [* channel
// scale].
size_t DynamicOps(const Block& b, EpilogueOp* out) {
  const GemmPlan& p = b.p;
  if (p.main.row->lhs != Format::kI8d) return 0;
  ukernel::LhsShape shape = p.lhs_shape;
  shape.m = b.m;
  const ukernel::LhsGeometry g = ukernel::DescribeLhs(p.main.row->lhs_layout, shape);
  const char* packed = b.workspace + p.lhs_offset;
  out[0] = {
      .kind = EpilogueKind::kAddOuter,
      .data = p.acc_format == Format::kI32 ? b.workspace + p.lhs_zeros_offset : packed + g.negated_zero_points_offset,
      .data2 = b.operands.rhs + p.rhs_geometry.sums_offset};
  out[1] = {.kind = EpilogueKind::kDivVectorM, .data = packed + g.scales_offset};
  if (!p.layout.channel_scales) return 2;
  out[2] = {.kind = EpilogueKind::kMulVectorN, .data = b.operands.rhs + p.rhs_geometry.channel_scales_offset};
  return 3;
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

Status RunBlock(const Block& b, const RunResources& r) {
  const GemmPlan& p = b.p;
  const size_t tile_m = p.main.tile_m, tile_n = p.main.tile_n;
  if (p.prepared) {
    const size_t tiles = ukernel::CeilDiv(b.m, tile_m);
    const size_t parts = std::min(tiles, static_cast<size_t>(p.slots) * 4);
    auto prepare = [&](int, int64_t begin, int64_t end) {
      PrepareRows(b, PartBegin(b.m, parts, static_cast<size_t>(begin), tile_m),
                  PartBegin(b.m, parts, static_cast<size_t>(end), tile_m));
    };
    QUERN_RETURN_IF_ERROR(RunRegion(p, r, static_cast<int64_t>(parts), prepare));
    if (r.counters) r.counters->lhs_packed_bytes.fetch_add(p.lhs_geometry.total_bytes, std::memory_order_relaxed);
  }
  auto compute = [&](int slot, int64_t begin, int64_t end) {
    Part part(b, slot);
    const auto run = [&](size_t mi, size_t m_end, size_t ni, size_t n_end) {
      part.Run(PartBegin(b.m, p.m_parts, mi, tile_m), PartBegin(b.m, p.m_parts, m_end, tile_m),
               PartBegin(p.n, p.n_parts, ni, tile_n), PartBegin(p.n, p.n_parts, n_end, tile_n));
    };
    // Neighbours that came together are one part.
    const size_t first = static_cast<size_t>(begin), last = static_cast<size_t>(end);
    if (p.n_parts == 1) {
      run(first, last, 0, 1);
    } else if (p.m_parts == 1) {
      run(0, 1, first, last);
    } else {
      for (size_t i = first; i < last; ++i) run(i / p.n_parts, i / p.n_parts + 1, i % p.n_parts, i % p.n_parts + 1);
    }
    part.count().AddTo(r.counters);
  };
  return RunRegion(p, r, static_cast<int64_t>(p.m_parts * p.n_parts), compute);
}

}  // namespace

EpilogueOp MovedDown(EpilogueOp op, size_t rows) {
  const auto move = [&](size_t bytes) {
    if (op.data) op.data = static_cast<const char*>(op.data) + rows * bytes;
  };
  switch (op.kind) {
    case EpilogueKind::kAddVectorM:
    case EpilogueKind::kMulVectorM:
    case EpilogueKind::kDivVectorM:
    case EpilogueKind::kAddOuter:
      move(4);
      break;
    case EpilogueKind::kAddMatrix:
    case EpilogueKind::kMulMatrix:
      move(op.row_stride);
      break;
    case EpilogueKind::kRowMinMax:
      op.out = static_cast<char*>(op.out) + rows * 8;
      break;
    case EpilogueKind::kRowSumSquares:
      op.out = static_cast<char*>(op.out) + rows * 4;
      break;
    default:
      break;
  }
  return op;
}

EpilogueOp MovedRight(EpilogueOp op, size_t columns) {
  const auto move = [&](const void*& p, size_t bytes) {
    if (p) p = static_cast<const char*>(p) + columns * bytes;
  };
  switch (op.kind) {
    case EpilogueKind::kAddVectorN:
    case EpilogueKind::kMulVectorN:
    case EpilogueKind::kPrelu:
    case EpilogueKind::kRequantize:
      move(op.data, 4);
      break;
    case EpilogueKind::kAddOuter:
    case EpilogueKind::kAddOuterScalar:
      move(op.data2, 4);
      break;
    case EpilogueKind::kAddMatrix:
    case EpilogueKind::kMulMatrix:
      move(op.data, FormatBytes(op.format));
      break;
    default:
      break;
  }
  return op;
}

Status RunGemm(const GemmPlan& p, const GemmOperands& operands, const RunResources& r) {
  if (r.workspace_bytes < p.workspace_bytes) {
    return InvalidArgument("the workspace has " + std::to_string(r.workspace_bytes) + " bytes, the plan needs " +
                           std::to_string(p.workspace_bytes));
  }
  if (p.m == 0 || p.n == 0) return OkStatus();
  for (size_t m = 0; m < p.m; m += p.lhs_block) {
    EpilogueOp ops[kMaxGemmOps];
    Block b{.p = p,
            .operands = operands,
            .row0 = m,
            .m = std::min(p.lhs_block, p.m - m),
            .ops = ops,
            .op_count = 0,
            .main_fused = 0,
            .fallback_fused = 0,
            .workspace = static_cast<char*>(r.workspace)};
    if (operands.lhs) {
      b.operands.lhs = static_cast<const char*>(operands.lhs) + static_cast<ptrdiff_t>(m) * operands.lhs_row_stride;
    }
    b.operands.dst = static_cast<char*>(operands.dst) + m * operands.dst_row_stride;
    b.op_count = DynamicOps(b, ops);
    for (size_t i = 0; i < operands.op_count; ++i) ops[b.op_count++] = MovedDown(operands.ops[i], m);
    b.main_fused = FusedLength(*p.main.row, ops, b.op_count);
    if (p.fallback.row) b.fallback_fused = FusedLength(*p.fallback.row, ops, b.op_count);
    QUERN_RETURN_IF_ERROR(RunBlock(b, r));
  }
  return OkStatus();
}

}  // namespace quern::kernels
