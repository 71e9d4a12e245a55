// Plans, sizes, offsets and packing behind the C interface.
#include <new>

#include "ukernel/api/c_types.h"
#include "ukernel/pack.h"
#include "ukernel/quantize.h"
#include "ukernel/vector.h"

namespace quern::ukernel {

KRange RangeOfK(const quern_ukernel_plan& plan, size_t k_begin, size_t k_end) {
  const PlanState& s = StateOf(plan);
  const GemmKernel& row = *FromC(plan.kernel);
  if (s.rhs.segments > 1) {
    const size_t all = s.geometry.segment_k * s.rhs.segments;
    return {.begin = 0, .k = IsPrepared(row) ? all : s.rhs.k, .padded = all, .first = true, .last = true};
  }
  const size_t end = k_end ? k_end : s.rhs.k;
  const size_t k = end - k_begin;
  const size_t whole = RoundUp(k, RhsGroup(s.layout)), left = s.geometry.padded_k - k_begin;
  return {
      .begin = k_begin, .k = k, .padded = whole < left ? whole : left, .first = k_begin == 0, .last = end == s.rhs.k};
}

RhsGeometry PanelGeometry(const quern_ukernel_plan& plan, size_t n, size_t padded) {
  const PlanState& s = StateOf(plan);
  return DescribeRhs(
      PanelLayout(*FromC(plan.kernel)),
      {.k = padded, .n = RoundUp(n, s.geometry.n_unit), .block = s.rhs.block, .vector_bytes = s.rhs.vector_bytes});
}

namespace {

// Whether [begin, end) is a part of `all` that begins and ends at whole units.
bool IsPart(size_t begin, size_t end, size_t all, size_t unit) {
  return begin <= end && end <= all && begin % unit == 0 && (end % unit == 0 || end == all);
}

}  // namespace
}  // namespace quern::ukernel

using namespace quern;
using namespace quern::ukernel;

extern "C" {

quern_ukernel_status quern_ukernel_make_plan(const quern_ukernel* kernel, const quern_ukernel_layout* layout,
                                             const quern_ukernel_problem* problem, const quern_cpu* cpu,
                                             quern_ukernel_plan* plan) {
  GemmProblem p;
  SelectOptions options;
  PlanState state;
  if (!kernel || !layout || !plan || !FromC(*layout, &state.layout)) return QUERN_UKERNEL_INVALID_ARGUMENT;
  if (const quern_ukernel_status s = FromC(problem, cpu, &p, &options)) return s;
  const GemmKernel& row = *FromC(kernel);
  const KernelName name = Name(row);
  options.force_row = name.text;
  if (RejectRow(row, p, options, &state.layout) || RejectLayout(state.layout, p)) return QUERN_UKERNEL_UNSUPPORTED;
  const size_t vector_bytes = RowVectorBytes(row, options.cpu);
  state.cpu = options.cpu;
  state.rhs = RhsShapeOf(p, vector_bytes ? vector_bytes : LayoutVectorBytes(state.layout, options.cpu));
  state.geometry = DescribeRhs(state.layout, state.rhs);
  if (!SameElements(state.layout, row.consumed)) {
    state.transform = FindTransformKernel(state.layout, row.consumed, options.cpu, Lookup::kRun);
  }
  state.epilogue = SelectVectorRow(options.cpu)->epilogue;

  quern_ukernel_plan c;
  quern_ukernel_plan_init(&c);
  c.kernel = kernel;
  c.layout = *layout;
  c.n = p.n;
  c.k = p.k;
  c.segments = p.segments;
  c.block = state.rhs.block;
  c.m_step = TileM(row, options.cpu);
  c.n_step = TileN(row, options.cpu);
  c.k_step = KGrain(row, state.layout, state.rhs.block);
  c.n_unit = state.geometry.n_unit;
  c.vector_bytes = state.rhs.vector_bytes;
  c.whole_panel = row.whole_panel;
  c.packs_lhs = IsPrepared(row);
  c.transforms = !SameElements(state.layout, row.consumed);
  c.acc = ToC(row.dst);
  c.lhs_source = ToC(LhsSourceFormat(row));
  c.dynamic = row.lhs == Format::kI8d;
  c.scratch_bytes = row.scratch_bytes;
  c.rhs_bytes = state.geometry.total_bytes;
  c.rhs_units = state.geometry.units;
  c.rhs_unit_stride = state.geometry.unit_stride;
  c.rhs_sums_offset = state.geometry.sums_offset;
  c.rhs_channel_scales_offset = state.geometry.channel_scales_offset;
  c.rhs_bias_offset = state.geometry.bias_offset;
  new (c.internal) PlanState(state);
  c.m_unit = 1;
  if (IsPrepared(row)) {
    const LhsGeometry g = DescribeLhs(row.lhs_layout, LhsShapeOf(c, 1));
    c.m_unit = g.m_unit;
    c.lhs_panel_stride = g.panel_stride;
  }
  // A scaled kernel without the vectors that it is scaled by.
  if (!c.m_step || !c.n_step || !c.n_unit || !c.m_unit) return QUERN_UKERNEL_UNSUPPORTED;
  return WriteStruct(c, plan) ? QUERN_UKERNEL_OK : QUERN_UKERNEL_INVALID_ARGUMENT;
}

size_t quern_ukernel_rhs_offset(const quern_ukernel_plan* plan, size_t n) {
  return n / plan->n_unit * plan->rhs_unit_stride;
}

size_t quern_ukernel_rhs_tap_offset(const quern_ukernel_plan* plan, size_t tap) {
  const PlanState& s = StateOf(*plan);
  return RhsElementBytes(FromC(plan->kernel)->consumed, s.geometry.n_unit, tap * s.geometry.segment_k);
}

quern_ukernel_status quern_ukernel_lhs_bytes(const quern_ukernel_plan* plan, size_t m, size_t* bytes) {
  if (!plan || !plan->kernel || !bytes) return QUERN_UKERNEL_INVALID_ARGUMENT;
  if (!plan->packs_lhs) return QUERN_UKERNEL_UNSUPPORTED;
  size_t most = 0;
  // A bound: a panel, and the vectors of its rows.
  if (__builtin_add_overflow(m, plan->m_unit + 64, &most) ||
      __builtin_mul_overflow(most, plan->lhs_panel_stride + 64, &most) || most > SIZE_MAX / 2) {
    return QUERN_UKERNEL_TOO_LARGE;
  }
  const LhsGeometry g = DescribeLhs(FromC(plan->kernel)->lhs_layout, LhsShapeOf(*plan, m));
  const bool zeros = plan->dynamic && plan->acc == QUERN_UKERNEL_I32;
  *bytes = RoundUp(LhsZerosOffset(g) + (zeros ? m * 4 : 0), kPackAlignment);
  return QUERN_UKERNEL_OK;
}

size_t quern_ukernel_lhs_offset(const quern_ukernel_plan* plan, size_t m) {
  return m / plan->m_unit * plan->lhs_panel_stride;
}

size_t quern_ukernel_dst_offset(size_t m, size_t n, size_t row_stride, int32_t format) {
  Format f;
  return m * row_stride + (FromC(format, &f) ? n * FormatBytes(f) : 0);
}

size_t quern_ukernel_panel_bytes(const quern_ukernel_plan* plan, size_t n, size_t k) {
  return plan->transforms ? PanelGeometry(*plan, n, RangeOfK(*plan, 0, k).padded).total_bytes : 0;
}

quern_ukernel_status quern_ukernel_pack_rhs(const quern_ukernel_plan* plan, const quern_ukernel_rhs_source* source,
                                            size_t n_begin, size_t n_end, void* packed, uint32_t* flags) {
  quern_ukernel_rhs_source c;
  RhsSource s;
  if (!plan || !plan->kernel || !packed || !ReadStruct(source, &c) || !FromC(c.format, &s.format) ||
      !FromC(c.scale_format, &s.scale_format) || !FromC(c.zero_point_format, &s.zero_point_format)) {
    return QUERN_UKERNEL_INVALID_ARGUMENT;
  }
  const PlanState& state = StateOf(*plan);
  const bool data = c.data || plan->n == 0 || plan->k == 0;
  if (!data || !IsPart(n_begin, n_end, plan->n, plan->n_unit)) return QUERN_UKERNEL_INVALID_ARGUMENT;
  if (reinterpret_cast<uintptr_t>(packed) % kPackAlignment) return QUERN_UKERNEL_INVALID_ARGUMENT;
  s.data = c.data;
  s.k_stride = c.k_stride;
  s.n_stride = c.n_stride;
  s.segment_stride = c.segment_stride;
  s.block_stride = c.block_stride;
  s.scales = c.scales;
  s.scale_n_stride = c.scale_n_stride;
  s.scale_block_stride = c.scale_block_stride;
  s.zero_points = c.zero_points;
  s.zero_point_n_stride = c.zero_point_n_stride;
  s.channel_scales = c.channel_scales;
  s.bias = c.bias;
  const bool blocks = c.scales || IsGguf(s.format);
  if (!CanPackRhs(state.layout, s) || (blocks && !state.rhs.block)) return QUERN_UKERNEL_UNSUPPORTED;
  const PackKernel* fast = FindPackKernel(state.layout, s, state.cpu, Lookup::kRun);
  const uint32_t found = (fast ? fast->run : PackRhs)(state.layout, state.rhs, s, n_begin / plan->n_unit,
                                                      CeilDiv(n_end, plan->n_unit), packed);
  if (flags) *flags = found;
  return QUERN_UKERNEL_OK;
}
static_assert(uint32_t{kPackSplitUnsafe} == uint32_t{QUERN_UKERNEL_SPLIT_UNSAFE} &&
              uint32_t{kPackSplitFew} == uint32_t{QUERN_UKERNEL_SPLIT_FEW} &&
              kPackAlignment == QUERN_UKERNEL_ALIGNMENT);

quern_ukernel_status quern_ukernel_pack_lhs(const quern_ukernel_plan* plan, size_t m,
                                            const quern_ukernel_lhs_source* source, size_t m_begin, size_t m_end,
                                            void* packed, uint32_t* flags) {
  quern_ukernel_lhs_source c;
  if (!plan || !plan->kernel || !packed || !ReadStruct(source, &c)) return QUERN_UKERNEL_INVALID_ARGUMENT;
  if (!plan->packs_lhs) return QUERN_UKERNEL_UNSUPPORTED;
  const GemmKernel& row = *FromC(plan->kernel);
  const PlanState& state = StateOf(*plan);
  LhsSource s;
  if (!FromC(c.format ? c.format : plan->lhs_source, &s.format)) return QUERN_UKERNEL_INVALID_ARGUMENT;
  const int32_t form = c.form ? c.form : QUERN_UKERNEL_LHS_ROWS;
  const bool pointers = form == QUERN_UKERNEL_LHS_ROW_POINTERS, taps = form == QUERN_UKERNEL_LHS_TAPS;
  if (!pointers && !taps && form != QUERN_UKERNEL_LHS_ROWS) return QUERN_UKERNEL_INVALID_ARGUMENT;
  s.form = static_cast<LhsForm>(form);
  const bool empty = m == 0 || plan->k == 0;
  if (!empty && (pointers ? !c.row_pointers : !c.data || (taps && !c.taps))) return QUERN_UKERNEL_INVALID_ARGUMENT;
  if (plan->segments > 1 && s.form == kLhsRows) return QUERN_UKERNEL_INVALID_ARGUMENT;
  if (!IsPart(m_begin, m_end, m, plan->m_unit)) return QUERN_UKERNEL_INVALID_ARGUMENT;
  if (reinterpret_cast<uintptr_t>(packed) % kPackAlignment) return QUERN_UKERNEL_INVALID_ARGUMENT;
  const bool floats = s.format == Format::kF32 || s.format == Format::kF16 || s.format == Format::kBf16;
  const bool floats_wanted = plan->lhs_source == QUERN_UKERNEL_F32 || plan->lhs_source == QUERN_UKERNEL_F16 ||
                             plan->lhs_source == QUERN_UKERNEL_BF16;
  if (floats != floats_wanted || (!floats && ToC(s.format) != plan->lhs_source)) return QUERN_UKERNEL_UNSUPPORTED;
  s.data = c.data;
  s.row_stride = c.row_stride;
  s.taps = reinterpret_cast<const Tap*>(c.taps);
  s.row_pointers = c.row_pointers;
  s.row_pointer_pitch = c.row_pointer_pitch;
  s.row_pointer_offset = c.row_pointer_offset;
  s.zero_row = c.zero_row;
  const LhsShape shape = LhsShapeOf(*plan, m);
  const LhsPackKernel* fast = FindLhsPackKernel(row.lhs_layout, s, state.cpu, Lookup::kRun);
  const uint32_t found = (fast ? fast->run : PackLhs)(row.lhs_layout, shape, s, m_begin / plan->m_unit,
                                                      CeilDiv(m_end, plan->m_unit), packed);
  if (flags) *flags = found;
  if (plan->dynamic && plan->acc == QUERN_UKERNEL_I32) {
    const LhsGeometry g = DescribeLhs(row.lhs_layout, shape);
    const char* base = static_cast<const char*>(packed);
    const auto* zeros = reinterpret_cast<const float*>(base + g.negated_zero_points_offset);
    auto* out = reinterpret_cast<int32_t*>(static_cast<char*>(packed) + LhsZerosOffset(g));
    for (size_t i = m_begin; i < m_end; ++i) out[i] = static_cast<int32_t>(zeros[i]);
  }
  return QUERN_UKERNEL_OK;
}
static_assert(sizeof(Tap) == sizeof(quern_ukernel_tap) &&
              offsetof(Tap, lhs_offset) == offsetof(quern_ukernel_tap, lhs_offset) &&
              offsetof(Tap, rhs_offset) == offsetof(quern_ukernel_tap, rhs_offset));

}  // extern "C"
