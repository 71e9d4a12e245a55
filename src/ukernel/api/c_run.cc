// Operations, tiles and blocks behind the C interface: nothing here checks what it is given.
#include "ukernel/api/c_types.h"

namespace quern::ukernel {
namespace {

Format FormatFromC(int32_t format) {
  Format f = Format::kNone;
  FromC(format, &f);
  return f;
}

size_t Least(size_t a, size_t b) { return a < b ? a : b; }

// The weights of the columns from n on over a range of K.
void SetRhs(const quern_ukernel_plan& plan, const quern_ukernel_block& b, const KRange& k, size_t n, GemmArgs& a) {
  const PlanState& s = StateOf(plan);
  const RhsGeometry& g = s.geometry;
  const char* packed = static_cast<const char*>(b.rhs);
  a.block = s.rhs.block;
  a.rhs_sums = packed + g.sums_offset + n * 4;
  a.rhs_tap_stride = quern_ukernel_rhs_tap_offset(&plan, 1);
  if (plan.transforms) {
    const RhsGeometry t = PanelGeometry(plan, 1, k.padded);
    const PackLayout layout = PanelLayout(*FromC(plan.kernel));
    const char* panel = static_cast<const char*>(b.panel) + t.UnitOffset((n - b.panel_n) / g.n_unit);
    a.rhs = panel;
    a.rhs_unit_stride = t.unit_stride;
    a.rhs_scales = panel + t.scales_offset;
    a.rhs_scale = layout.scale;
    a.rhs_offset = layout.offset;
    return;
  }
  const char* first = packed + g.UnitOffset(n / g.n_unit);
  const size_t block = s.rhs.block ? k.begin / s.rhs.block : 0;
  a.rhs = first + RhsElementBytes(s.layout, g.n_unit, k.begin);
  a.rhs_unit_stride = g.unit_stride;
  a.rhs_scales = first + g.scales_offset + block * g.n_unit * FormatBytes(s.layout.scale);
  a.rhs_offsets = first + g.offsets_offset + block * g.n_unit * FormatBytes(s.layout.offset);
  a.rhs_scale = s.layout.scale;
  a.rhs_offset = s.layout.offset;
}

void SetLhs(const quern_ukernel_plan& plan, const quern_ukernel_block& b, const KRange& k, size_t m, GemmArgs& a) {
  const GemmKernel& row = *FromC(plan.kernel);
  const char* lhs = static_cast<const char*>(b.lhs);
  if (plan.packs_lhs) {
    a.lhs_form = row.lhs_forms & kLhsPacked ? kLhsPacked : kLhsRows;
    const char* panel = lhs + quern_ukernel_lhs_offset(&plan, m);
    a.lhs = panel + LhsElementBytes(row.lhs_layout, plan.m_unit, k.begin);
    if (row.lhs_layout.block) {
      const LhsGeometry g = DescribeLhs(row.lhs_layout, LhsShapeOf(plan, 1));
      a.lhs_scales = panel + g.block_scales_offset + k.begin / row.lhs_layout.block * g.m_unit * sizeof(float);
    }
    a.lhs_row_stride = static_cast<ptrdiff_t>(plan.lhs_panel_stride);
    return;
  }
  const size_t offset = k.begin * FormatBytes(LhsSourceFormat(row));
  a.lhs_form = b.lhs_form ? static_cast<LhsForm>(b.lhs_form) : kLhsRows;
  a.lhs_row_stride = b.lhs_row_stride;
  if (a.lhs_form != kLhsRows) a.tap_count = b.tap_count ? b.tap_count : plan.segments;
  if (a.lhs_form == kLhsRowPointers) {
    a.row_pointers = b.row_pointers + m;
    a.row_pointer_pitch = b.row_pointer_pitch;
    a.row_pointer_offset = b.row_pointer_offset + static_cast<ptrdiff_t>(offset);
    a.zero_row = b.zero_row;
    return;
  }
  a.taps = reinterpret_cast<const Tap*>(b.taps);
  a.lhs = lhs + static_cast<ptrdiff_t>(m) * b.lhs_row_stride + offset;
}

size_t AccBytes(const quern_ukernel_plan& plan) { return FormatBytes(FromC(plan.kernel)->dst); }

// All but operations and where results go.
GemmArgs TileArgs(const quern_ukernel_plan& plan, const quern_ukernel_block& b, const KRange& k, size_t m, size_t n) {
  GemmArgs a;
  a.m = b.m_end - m;
  a.n = b.n_end - n;
  if (!plan.whole_panel) {
    a.m = Least(a.m, plan.m_step);
    a.n = Least(a.n, plan.n_step);
  }
  a.k = k.k;
  a.first_k = k.first;
  a.last_k = k.last;
  a.m0 = m;
  a.n0 = n;
  a.vector_bytes = StateOf(plan).rhs.vector_bytes;
  a.stream_into_l1 = StreamsIntoL1(StateOf(plan).cpu);
  a.scratch = b.scratch;
  SetRhs(plan, b, k, n, a);
  SetLhs(plan, b, k, m, a);
  a.acc = b.acc ? static_cast<char*>(b.acc) + m * b.acc_row_stride + n * AccBytes(plan) : nullptr;
  a.acc_row_stride = b.acc_row_stride;
  return a;
}

void* At(void* base, size_t m, size_t row_stride, size_t n, Format format) {
  return static_cast<char*>(base) + m * row_stride + n * FormatBytes(format);
}

// Both directions of quern_ukernel_args; `ops` keeps the operations.
GemmArgs ArgsFromC(const quern_ukernel_args& c, EpilogueOp* ops) {
  GemmArgs a;
  a.m = c.m;
  a.n = c.n;
  a.k = c.k;
  a.lhs_form = static_cast<LhsForm>(c.lhs_form);
  a.lhs = c.lhs;
  a.lhs_row_stride = c.lhs_row_stride;
  a.lhs_scales = c.lhs_scales;
  a.taps = reinterpret_cast<const Tap*>(c.taps);
  a.tap_count = c.tap_count;
  a.row_pointers = c.row_pointers;
  a.row_pointer_pitch = c.row_pointer_pitch;
  a.row_pointer_offset = c.row_pointer_offset;
  a.zero_row = c.zero_row;
  a.rhs_form = c.rhs_in_place ? RhsForm::kInPlace : RhsForm::kPacked;
  a.rhs = c.rhs;
  a.rhs_unit_stride = c.rhs_unit_stride;
  a.rhs_k_stride = c.rhs_k_stride;
  a.rhs_tap_stride = c.rhs_tap_stride;
  a.rhs_scales = c.rhs_scales;
  a.rhs_offsets = c.rhs_offsets;
  a.rhs_scale = FormatFromC(c.rhs_scale_format);
  a.rhs_offset = FormatFromC(c.rhs_offset_format);
  a.block = c.block;
  a.rhs_sums = c.rhs_sums;
  a.first_k = c.first_k != 0;
  a.last_k = c.last_k != 0;
  a.acc = c.acc;
  a.acc_row_stride = c.acc_row_stride;
  a.dst = c.dst;
  a.dst_row_stride = c.dst_row_stride;
  a.ops = ops;
  a.op_count = FromC(c.ops, c.op_count, ops);
  a.m0 = c.m0;
  a.n0 = c.n0;
  a.vector_bytes = c.vector_bytes;
  a.stream_into_l1 = c.stream_into_l1 != 0;
  a.scratch = c.scratch;
  return a;
}

void ArgsToC(const GemmArgs& a, quern_ukernel_args* c) {
  quern_ukernel_args_init(c);
  c->m = a.m;
  c->n = a.n;
  c->k = a.k;
  c->lhs_form = a.lhs_form;
  c->lhs = a.lhs;
  c->lhs_row_stride = a.lhs_row_stride;
  c->lhs_scales = a.lhs_scales;
  c->taps = reinterpret_cast<const quern_ukernel_tap*>(a.taps);
  c->tap_count = a.tap_count;
  c->row_pointers = a.row_pointers;
  c->row_pointer_pitch = a.row_pointer_pitch;
  c->row_pointer_offset = a.row_pointer_offset;
  c->zero_row = a.zero_row;
  c->rhs = a.rhs;
  c->rhs_unit_stride = a.rhs_unit_stride;
  c->rhs_tap_stride = a.rhs_tap_stride;
  c->rhs_scales = a.rhs_scales;
  c->rhs_offsets = a.rhs_offsets;
  c->rhs_scale_format = ToC(a.rhs_scale);
  c->rhs_offset_format = ToC(a.rhs_offset);
  c->block = a.block;
  c->rhs_sums = a.rhs_sums;
  c->first_k = a.first_k;
  c->last_k = a.last_k;
  c->acc = a.acc;
  c->acc_row_stride = a.acc_row_stride;
  c->dst = a.dst;
  c->dst_row_stride = a.dst_row_stride;
  c->m0 = a.m0;
  c->n0 = a.n0;
  c->vector_bytes = a.vector_bytes;
  c->stream_into_l1 = a.stream_into_l1;
  c->scratch = a.scratch;
}

// The operations of a block: those of dynamic rows, the caller's, and how many of them the kernel runs.
struct BlockOps {
  EpilogueOp ops[kMostOps];
  size_t count = 0, fused = 0;
};

BlockOps OpsOf(const quern_ukernel_plan& plan, const quern_ukernel_block& b) {
  BlockOps o;
  quern_ukernel_op dynamic[3];
  o.count = FromC(dynamic, quern_ukernel_dynamic_ops(&plan, b.lhs, b.m, b.rhs, dynamic), o.ops);
  const size_t room = kMostOps - o.count;
  o.count += FromC(b.ops, Least(b.op_count, room), o.ops + o.count);
  o.fused = FusedLength(*FromC(plan.kernel), o.ops, o.count);
  return o;
}

// Where run_block keeps what it needs beside the operands.
struct Workspace {
  size_t n_chunk = 0;  // columns that are transformed, or of a call, at once
  size_t tile = 0, panel = 0, bytes = 0;
};

Workspace Describe(const quern_ukernel_plan& plan, const quern_ukernel_block& b) {
  Workspace w;
  const size_t columns = b.n_end - b.n_begin;
  w.n_chunk = plan.whole_panel && !plan.transforms ? (columns ? columns : 1) : plan.n_step;
  const size_t rows = plan.whole_panel ? b.m_end - b.m_begin : plan.m_step;
  w.tile = RoundUp(plan.scratch_bytes, kPackAlignment);
  w.panel = w.tile + RoundUp(rows * w.n_chunk * AccBytes(plan), kPackAlignment);
  w.bytes = w.panel;
  if (plan.transforms) {
    w.bytes += PanelGeometry(plan, w.n_chunk, RangeOfK(plan, b.k_begin, b.k_end).padded).total_bytes;
  }
  return w;
}

// A call for results that go through all operations.
void RunTile(const quern_ukernel_plan& plan, const quern_ukernel_block& b, const BlockOps& o, GemmArgs& a, char* tile) {
  const GemmKernel& row = *FromC(plan.kernel);
  const Format result = EpilogueFormat(row.dst, o.ops, o.count);
  a.dst = At(b.dst, a.m0, b.dst_row_stride, a.n0, result);
  a.dst_row_stride = b.dst_row_stride;
  a.ops = o.ops;
  a.op_count = a.last_k ? o.fused : 0;
  if (!a.last_k || o.fused == o.count) return row.run(a);
  EpilogueBlock rest;
  rest.m = a.m;
  rest.n = a.n;
  rest.m0 = a.m0;
  rest.n0 = a.n0;
  rest.dst = a.dst;
  rest.dst_row_stride = a.dst_row_stride;
  rest.src_format = EpilogueFormat(row.dst, o.ops, o.fused);
  if (FormatBytes(result) != AccBytes(plan)) {  // the intermediate result does not fit into dst
    a.dst = tile;
    a.dst_row_stride = a.n * AccBytes(plan);
  }
  rest.src = a.dst;
  rest.src_row_stride = a.dst_row_stride;
  row.run(a);
  StateOf(plan).epilogue(o.ops + o.fused, o.count - o.fused, rest);
}

}  // namespace
}  // namespace quern::ukernel

using namespace quern;
using namespace quern::ukernel;

extern "C" {

int32_t quern_ukernel_result_format(int32_t acc, const quern_ukernel_op* ops, size_t count) {
  Format f = FormatFromC(acc);
  for (size_t i = 0; i < count; ++i) {
    const EpilogueOp op = FromC(ops[i]);
    f = EpilogueFormat(f, &op, 1);
  }
  return ToC(f);
}

size_t quern_ukernel_fused_ops(const quern_ukernel* kernel, const quern_ukernel_op* ops, size_t count) {
  EpilogueOp list[kMostOps];
  return FusedLength(*FromC(kernel), list, FromC(ops, count, list));
}

size_t quern_ukernel_dynamic_ops(const quern_ukernel_plan* plan, const void* packed_lhs, size_t m,
                                 const void* packed_rhs, quern_ukernel_op* ops) {
  const GemmKernel& row = *FromC(plan->kernel);
  const PlanState& s = StateOf(*plan);
  EpilogueOp list[3];
  const size_t count = DynamicOps(row, s.layout, list);
  if (count == 0) return 0;
  const LhsGeometry g = DescribeLhs(row.lhs_layout, LhsShapeOf(*plan, m));
  const char* lhs = static_cast<const char*>(packed_lhs);
  const char* rhs = static_cast<const char*>(packed_rhs);
  list[0].data = lhs + (row.dst == Format::kI32 ? LhsZerosOffset(g) : g.negated_zero_points_offset);
  list[0].data2 = rhs + s.geometry.sums_offset;
  list[1].data = lhs + g.scales_offset;
  list[2].data = rhs + s.geometry.channel_scales_offset;
  for (size_t i = 0; i < count; ++i) ops[i] = ToC(list[i]);
  return count;
}

void quern_ukernel_apply_ops(const quern_ukernel_plan* plan, const quern_ukernel_op* ops, size_t count, size_t m0,
                             size_t m, size_t n0, size_t n, const void* src, size_t src_row_stride, int32_t src_format,
                             void* dst, size_t dst_row_stride) {
  EpilogueOp list[kMostOps];
  EpilogueBlock block;
  block.m = m;
  block.n = n;
  block.m0 = m0;
  block.n0 = n0;
  block.src = src;
  block.src_row_stride = src_row_stride;
  block.src_format = FormatFromC(src_format);
  block.dst = dst;
  block.dst_row_stride = dst_row_stride;
  StateOf(*plan).epilogue(list, FromC(ops, count, list), block);
}

void quern_ukernel_enter(const quern_ukernel* kernel) {
  const GemmKernel& row = *FromC(kernel);
  if (row.enter_mode) row.enter_mode(row.mode_config);
}

void quern_ukernel_leave(const quern_ukernel* kernel) {
  const GemmKernel& row = *FromC(kernel);
  if (row.leave_mode) row.leave_mode();
}

uint32_t quern_ukernel_transform(const quern_ukernel_plan* plan, const void* packed_rhs, size_t n_begin, size_t n_end,
                                 size_t k_begin, size_t k_end, void* panel) {
  const PlanState& s = StateOf(*plan);
  if (!s.transform) return 0;
  const RhsGeometry& g = s.geometry;
  const KRange k = RangeOfK(*plan, k_begin, k_end);
  const RhsGeometry t = PanelGeometry(*plan, n_end - n_begin, k.padded);
  const size_t block = s.rhs.block ? k.begin / s.rhs.block : 0;
  const char* first = static_cast<const char*>(packed_rhs) + g.UnitOffset(n_begin / g.n_unit);
  TransformArgs a;
  a.src = first + RhsElementBytes(s.layout, g.n_unit, k.begin);
  a.src_unit_stride = g.unit_stride;
  a.src_scales = first + g.scales_offset + block * g.n_unit * FormatBytes(s.layout.scale);
  a.src_offsets = first + g.offsets_offset + block * g.n_unit * FormatBytes(s.layout.offset);
  a.src_scale = s.layout.scale;
  a.src_offset = s.layout.offset;
  a.dst = panel;
  a.dst_unit_stride = t.unit_stride;
  a.dst_scales_offset = t.scales_offset;
  a.k = k.padded;
  a.units = t.units;
  a.n_unit = g.n_unit;
  a.block = s.rhs.block;
  return s.transform->run(a);
}

void quern_ukernel_tile(const quern_ukernel_plan* plan, const quern_ukernel_block* block, size_t m, size_t n,
                        quern_ukernel_args* args) {
  const GemmArgs a = TileArgs(*plan, *block, RangeOfK(*plan, block->k_begin, block->k_end), m, n);
  ArgsToC(a, args);
  const int32_t result = quern_ukernel_result_format(plan->acc, block->ops, block->op_count);
  args->dst = At(block->dst, m, block->dst_row_stride, n, FormatFromC(result));
  args->dst_row_stride = block->dst_row_stride;
  args->ops = block->ops;
  args->op_count = a.last_k ? block->op_count : 0;
}

void quern_ukernel_run(const quern_ukernel* kernel, const quern_ukernel_args* args) {
  EpilogueOp ops[kMostOps];
  FromC(kernel)->run(ArgsFromC(*args, ops));
}

size_t quern_ukernel_workspace_bytes(const quern_ukernel_plan* plan, const quern_ukernel_block* block) {
  return Describe(*plan, *block).bytes;
}

uint32_t quern_ukernel_run_block(const quern_ukernel_plan* plan, const quern_ukernel_block* block, void* workspace) {
  const Workspace w = Describe(*plan, *block);
  const BlockOps ops = OpsOf(*plan, *block);
  const KRange k = RangeOfK(*plan, block->k_begin, block->k_end);
  char* memory = static_cast<char*>(workspace);
  quern_ukernel_block b = *block;
  b.scratch = memory;
  b.panel = memory + w.panel;
  uint32_t flags = 0;
  quern_ukernel_enter(plan->kernel);
  for (size_t n = block->n_begin; n < block->n_end; n += w.n_chunk) {
    b.panel_n = n;
    b.n_end = Least(block->n_end, n + w.n_chunk);
    flags |= quern_ukernel_transform(plan, b.rhs, n, b.n_end, block->k_begin, block->k_end, memory + w.panel);
    for (size_t m = block->m_begin; m < block->m_end;) {
      GemmArgs a = TileArgs(*plan, b, k, m, n);
      const size_t whole = (b.m_end - m) / plan->m_step * plan->m_step;
      if (whole && TakesManyTiles(*FromC(plan->kernel), a) && ops.fused == ops.count) a.m = whole;
      RunTile(*plan, b, ops, a, memory + w.tile);
      m += a.m;
    }
  }
  quern_ukernel_leave(plan->kernel);
  return flags;
}

}  // extern "C"
