// Depthwise convolution: rows of the output over threads.
#include "kernels/dwconv.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <type_traits>

#include "kernels/gemm_core.h"
#include "ukernel/convert.h"
#include "ukernel/vector.h"

namespace quern::kernels {
namespace {

using ukernel::EpilogueKind;
using ukernel::RoundUp;

// A region with less work than this (about 20 us) stays on the calling thread.
constexpr double kParallelCycles = 60000;
constexpr size_t kAlign = ukernel::kPackAlignment;

bool SumsIntegers(const DwConvProblem& p) { return IsInt8(p.src); }

std::string Reason(const ukernel::DwConvKernel& r, const DwConvProblem& p, const DwSelectOptions& o) {
  if (r.src != p.src) return std::string("input ") + FormatName(r.src);
  if (r.group_vector == 0 && p.group > 1) return "depthwise only";
  if (!ServesGroup(r, p.group)) return "not for groups of " + std::to_string(p.group);
  if (!r.isa.any_arch && r.isa.arch != o.cpu.arch) return std::string("for ") + ArchName(r.isa.arch);
  const CpuFeature missing = o.cpu.features.FirstMissing(r.isa.needs);
  if (!r.isa.any_arch && missing != CpuFeature::kCount) return std::string("needs ") + CpuFeatureName(missing);
  // Groups can be products as well, of better rows than portable ones.
  if ((!r.isa.any_arch || p.group > 1) && o.cpu.IsDisabled(KernelGroup::kDwConv)) return "dwconv is switched off";
  if (!o.force_row.empty() && o.force_row != ukernel::Name(r).text) return "another row is forced";
  if (!r.run && !o.ignore_missing_bodies) return "no body in this build";
  return "";
}

}  // namespace

double DwPixelCycles(const ukernel::DwConvKernel& r, const CpuFacts& cpu, const DwConvProblem& p) {
  const double scale = static_cast<double>(EngineScale(r.engine, cpu));
  const size_t channels = p.channels * p.multiplier, taps = p.kernel_h * p.kernel_w * p.group;
  const double units = static_cast<double>(ukernel::CeilDiv(channels, UnitChannels(r, p.group)));
  return units * (static_cast<double>(taps) * static_cast<double>(r.cycles_per_tap) * scale +
                  static_cast<double>(r.cycles_per_pixel));
}

const ukernel::DwConvKernel* SelectDwRow(const DwConvProblem& problem, const DwSelectOptions& options,
                                         std::vector<DwRowCandidate>* report) {
  const ukernel::DwConvKernel* best = nullptr;
  double fewest = 0;
  const auto cost = [&](const ukernel::DwConvKernel& r) { return 64 * DwPixelCycles(r, options.cpu, problem); };
  for (const auto* list : options.rows) {
    for (size_t i = 0; i < list->count; ++i) {
      const ukernel::DwConvKernel& r = list->rows[i];
      if (!Reason(r, problem, options).empty()) continue;
      const double cycles = cost(r);
      if (best && cycles >= fewest) continue;
      best = &r;
      fewest = cycles;
    }
  }
  if (!report) return best;
  report->clear();
  for (const auto* list : options.rows) {
    for (size_t i = 0; i < list->count; ++i) {
      const ukernel::DwConvKernel& r = list->rows[i];
      DwRowCandidate c{&r, ukernel::Name(r).text, Reason(r, problem, options), 0};
      if (c.reason.empty()) {
        c.cycles = cost(r);
        if (&r != best) c.reason = CostReason(c.cycles, fewest);
      }
      report->push_back(std::move(c));
    }
  }
  return best;
}

DwConvProblem DepthwiseProblem(const ConvProblem& p) {
  DwConvProblem d;
  d.channels = p.in_channels;
  d.multiplier = p.out_channels / p.in_channels;
  d.group = p.in_channels / p.groups;
  d.kernel_h = p.kernel_h, d.kernel_w = p.kernel_w;
  d.stride_h = p.stride_h, d.stride_w = p.stride_w;
  d.dilation_h = p.dilation_h, d.dilation_w = p.dilation_w;
  d.pad_top = p.pad_top, d.pad_left = p.pad_left, d.pad_bottom = p.pad_bottom, d.pad_right = p.pad_right;
  d.src = p.lhs, d.weights = p.rhs;
  return d;
}

Result<DwConv> DwConv::Create(const DwConvProblem& problem, const DwSelectOptions& options,
                              const ConvWeights& weights) {
  if (problem.channels == 0 || problem.multiplier == 0 || problem.kernel_h == 0 || problem.kernel_w == 0 ||
      problem.stride_h == 0 || problem.stride_w == 0 || problem.dilation_h == 0 || problem.dilation_w == 0) {
    return InvalidArgument("channels, kernel, stride and dilation must be at least 1");
  }
  if (IsInt8(problem.weights) != SumsIntegers(problem)) {
    return InvalidArgument(std::string("a depthwise convolution of ") + FormatName(problem.src) + " by " +
                           FormatName(problem.weights));
  }
  if (problem.group == 0 || problem.channels % problem.group || (problem.group > 1 && problem.multiplier > 1)) {
    return InvalidArgument(std::to_string(problem.channels) + " channels with " + std::to_string(problem.multiplier) +
                           " filters each do not divide into groups of " + std::to_string(problem.group));
  }
  DwConv d;
  d.problem_ = problem;
  d.cpu_ = options.cpu;
  d.row_ = SelectDwRow(problem, options);
  if (!d.row_) return Unsupported(std::string("no depthwise micro-kernel of ") + FormatName(problem.src));
  d.epilogue_ = ukernel::SelectVectorRow(d.cpu_)->epilogue;
  d.source_ = weights;
  d.source_.data = nullptr;
  d.source_.zero_points = nullptr;
  d.packs_in_run_ = weights.data == nullptr;
  if (d.packs_in_run_) return d;
  QUERN_ASSIGN_OR_RETURN(d.weights_, AlignedBuffer::Allocate(d.packed_lanes() * 4));
  d.Pack(weights.data, weights.zero_point, weights.zero_points, d.weights_.data());
  return d;
}

size_t DwConv::unit_channels() const { return UnitChannels(*row_, problem_.group); }

size_t DwConv::packed_lanes() const {
  const size_t units = ukernel::CeilDiv(problem_.channels * problem_.multiplier, unit_channels());
  return units * row_->lanes * problem_.kernel_h * problem_.kernel_w * problem_.group;
}

void DwConv::Pack(const void* weights, int32_t zero_point, const int32_t* zero_points, void* to) const {
  const size_t channels = problem_.channels * problem_.multiplier, lanes = row_->lanes, used = unit_channels();
  const size_t kernel_w = problem_.kernel_w, group = problem_.group, taps = problem_.kernel_h * group * kernel_w;
  const size_t whole = used == lanes ? channels / lanes * taps * lanes : 0;
  char* packed = static_cast<char*>(to);
  std::memset(packed + whole * 4, 0, (packed_lanes() - whole) * 4);
  for (size_t c = 0; c < channels; ++c) {
    for (size_t t = 0; t < taps; ++t) {
      const char* from = static_cast<const char*>(weights) + static_cast<ptrdiff_t>(c) * source_.o_stride +
                         static_cast<ptrdiff_t>(t / kernel_w / group) * source_.h_stride +
                         static_cast<ptrdiff_t>(t / kernel_w % group) * source_.i_stride +
                         static_cast<ptrdiff_t>(t % kernel_w) * source_.w_stride;
      const float w = ukernel::LoadFloat(problem_.weights, from);
      char* at = packed + ((c / used * taps + t) * lanes + c % used) * 4;
      if (SumsIntegers(problem_)) {
        const int32_t zero = zero_points ? zero_points[c] : zero_point;
        ukernel::StoreAs(at, static_cast<uint32_t>(static_cast<int32_t>(w) - zero) & 0xffffu);
      } else {
        ukernel::StoreAs(at, w);
      }
    }
  }
}

size_t DwConv::OutHeight(size_t in_h) const {
  const DwConvProblem& p = problem_;
  return OutExtent(in_h, p.pad_top, p.pad_bottom, p.kernel_h, p.dilation_h, p.stride_h);
}

size_t DwConv::OutWidth(size_t in_w) const {
  const DwConvProblem& p = problem_;
  return OutExtent(in_w, p.pad_left, p.pad_right, p.kernel_w, p.dilation_w, p.stride_w);
}

namespace {

// Workspace: weights that a run packs, then per slot the input of a band with repeated channels (multiplier > 1) and a
// row of results.
struct Areas {
  size_t band = 1;  // output rows that a task computes together
  size_t expanded_bytes = 0;
  size_t slot_stride = 0;
};

// Input rows that `rows` output rows span.
size_t InputRows(const DwConvProblem& p, size_t rows) {
  return (rows - 1) * p.stride_h + (p.kernel_h - 1) * p.dilation_h + 1;
}

Areas AreasOf(const DwConvProblem& p, const ConvArgs& a, size_t out_w, const CpuFacts& cpu) {
  Areas s;
  const size_t channels = p.channels * p.multiplier;
  if (p.multiplier > 1) {  // bands that stay in L2
    const size_t row = a.in_w * channels * FormatBytes(p.src);
    const size_t most = cpu.l2_bytes / 2 / std::max<size_t>(row, 1), least = InputRows(p, 1);
    if (most > least) s.band += (most - least) / p.stride_h;
    s.expanded_bytes = RoundUp(std::min(a.in_h, InputRows(p, s.band)) * row, kAlign);
  }
  s.slot_stride = s.expanded_bytes + RoundUp(out_w * channels * 4, 4096) + kAlign;
  return s;
}

// Each of `count` elements `times` times.
template <class T>
void Repeat(const char* from, size_t count, size_t times, char* to) {
  const auto repeat = [&](auto constant) {
    const size_t n = constant ? constant : times;
    for (size_t i = 0; i < count; ++i, from += sizeof(T)) {
      T x;
      std::memcpy(&x, from, sizeof x);
      for (size_t j = 0; j < n; ++j, to += sizeof(T)) std::memcpy(to, &x, sizeof x);
    }
  };
  if (times == 2) return repeat(std::integral_constant<size_t, 2>());
  if (times == 4) return repeat(std::integral_constant<size_t, 4>());
  if (times == 8) return repeat(std::integral_constant<size_t, 8>());
  repeat(std::integral_constant<size_t, 0>());
}

void RepeatChannels(size_t element, const char* from, size_t count, size_t times, char* to) {
  if (element == 4) return Repeat<uint32_t>(from, count, times, to);
  if (element == 2) return Repeat<uint16_t>(from, count, times, to);
  Repeat<uint8_t>(from, count, times, to);
}

// One image, any of its output rows.
class Rows {
 public:
  Rows(const DwConvProblem& problem, const ukernel::DwConvKernel& row, ukernel::EpilogueRun epilogue,
       const void* weights, const ConvArgs& args, size_t out_w, const EpilogueOp* ops, size_t fused)
      : p_(problem),
        row_(row),
        epilogue_(epilogue),
        weights_(weights),
        a_(args),
        out_w_(out_w),
        ops_(ops),
        fused_(fused),
        channels_(problem.channels * problem.multiplier),
        dst_format_(EpilogueFormat(row.acc, ops, args.op_count)) {}

  // Output rows [begin, end). input: [in_h] rows of pixels that hold all output channels' operands; scratch: a row of
  // results.
  void Run(const char* input, ptrdiff_t pixel_stride, ptrdiff_t row_stride, char* dst, size_t begin, size_t end,
           char* scratch) const {
    const bool rest = fused_ < a_.op_count;
    const bool in_place = FormatBytes(dst_format_) == 4;
    const ptrdiff_t dst_row_stride = static_cast<ptrdiff_t>(out_w_) * a_.dst_pixel_stride;
    ukernel::DwConvArgs k;
    k.pixels = out_w_;
    k.channels = channels_;
    k.src = input;
    k.src_pixel_stride = pixel_stride;
    k.src_row_stride = row_stride;
    k.src_zero_point = a_.input_zero_point;
    k.in_h = a_.in_h;
    k.in_w = a_.in_w;
    k.left = -static_cast<ptrdiff_t>(p_.pad_left);
    k.group = p_.group;
    k.kernel_h = p_.kernel_h;
    k.kernel_w = p_.kernel_w;
    k.stride_h = p_.stride_h;
    k.stride_w = p_.stride_w;
    k.dilation_h = p_.dilation_h;
    k.dilation_w = p_.dilation_w;
    k.weights = weights_;
    k.ops = ops_;
    k.op_count = fused_;
    const auto run = [&](size_t y, size_t rows, char* to, ptrdiff_t pixel) {
      k.rows = rows;
      k.top = static_cast<ptrdiff_t>(y * p_.stride_h) - static_cast<ptrdiff_t>(p_.pad_top);
      k.m0 = y * out_w_;
      k.dst = to;
      k.dst_pixel_stride = pixel;
      k.dst_row_stride = static_cast<ptrdiff_t>(out_w_) * pixel;
      row_.run(k);
    };
    if (!rest)
      return run(begin, end - begin, dst + static_cast<ptrdiff_t>(begin) * dst_row_stride, a_.dst_pixel_stride);
    for (size_t y = begin; y < end; ++y) {
      char* line = dst + static_cast<ptrdiff_t>(y) * dst_row_stride;
      char* out = in_place ? line : scratch;
      run(y, 1, out, in_place ? a_.dst_pixel_stride : static_cast<ptrdiff_t>(channels_ * 4));
      const ukernel::EpilogueBlock block{.m = out_w_,
                                         .n = channels_,
                                         .m0 = y * out_w_,
                                         .n0 = 0,
                                         .src = out,
                                         .src_row_stride = static_cast<size_t>(k.dst_pixel_stride),
                                         .src_format = EpilogueFormat(row_.acc, ops_, fused_),
                                         .dst = line,
                                         .dst_row_stride = static_cast<size_t>(a_.dst_pixel_stride)};
      epilogue_(ops_ + fused_, a_.op_count - fused_, block);
    }
  }

 private:
  const DwConvProblem& p_;
  const ukernel::DwConvKernel& row_;
  const ukernel::EpilogueRun epilogue_;
  const void* weights_;
  const ConvArgs& a_;
  const size_t out_w_;
  const EpilogueOp* ops_;
  const size_t fused_, channels_;
  const Format dst_format_;
};

// How many ops the row takes. A row reduces over all channels: those of one pixel are computed unit by unit, so
// reductions stay with the driver.
size_t FusedOps(const ukernel::DwConvKernel& row, const EpilogueOp* ops, size_t count) {
  size_t fused = FusedPrefix(row.fused, ops, count);
  for (size_t i = 0; i < fused; ++i) {
    if (IsReduction(ops[i].kind)) fused = i;
  }
  return fused;
}

}  // namespace

void DwConv::RunRows(const ConvArgs& args, size_t begin, size_t end) const {
  const Rows rows(problem_, *row_, epilogue_, weights_.data(), args, OutWidth(args.in_w), args.ops,
                  FusedOps(*row_, args.ops, args.op_count));
  rows.Run(static_cast<const char*>(args.input), args.in_pixel_stride, args.in_row_stride, static_cast<char*>(args.dst),
           begin, end, nullptr);
}

size_t DwConv::WorkspaceBytes(const ConvArgs& args, int concurrency) const {
  const Areas areas = AreasOf(problem_, args, OutWidth(args.in_w), cpu_);
  const size_t packed = packs_in_run_ ? RoundUp(packed_lanes() * 4, kAlign) : 0;
  return packed + areas.slot_stride * static_cast<size_t>(std::max(concurrency, 1));
}

const char* DwConv::ExpandRows(const char* input, const ConvArgs& args, size_t row, size_t rows, char* to) const {
  const size_t element = FormatBytes(problem_.src), pixel = problem_.channels * problem_.multiplier * element;
  const size_t first = row * problem_.stride_h, begin = first - std::min(first, problem_.pad_top);
  const size_t past = first + InputRows(problem_, rows), end = past - std::min(past, problem_.pad_top);
  char* at = to;
  for (size_t y = begin; y < std::min(end, args.in_h); ++y) {
    const char* from = input + static_cast<ptrdiff_t>(y) * args.in_row_stride;
    for (size_t x = 0; x < args.in_w; ++x, from += args.in_pixel_stride, at += pixel) {
      RepeatChannels(element, from, problem_.channels, problem_.multiplier, at);
    }
  }
  return to - begin * pixel * args.in_w;
}

Status DwConv::Run(const ConvArgs& args, const RunResources& resources) const {
  const size_t out_h = OutHeight(args.in_h), out_w = OutWidth(args.in_w);
  const size_t channels = problem_.channels * problem_.multiplier;
  if (out_h == 0 || out_w == 0) return OkStatus();
  int slots = resources.executor ? resources.executor->concurrency() : 1;
  const double cycles = DwPixelCycles(*row_, cpu_, problem_) * static_cast<double>(out_h * out_w);
  if (cycles < kParallelCycles) slots = 1;
  if (resources.workspace_bytes < WorkspaceBytes(args, slots)) {
    return InvalidArgument("the workspace has " + std::to_string(resources.workspace_bytes) +
                           " bytes, a depthwise convolution needs " + std::to_string(WorkspaceBytes(args, slots)));
  }
  const Areas areas = AreasOf(problem_, args, out_w, cpu_);
  char* workspace = static_cast<char*>(resources.workspace);
  const void* weights = weights_.data();
  if (packs_in_run_) {
    Pack(args.weights, args.weight_zero_point, args.weight_zero_points, workspace);
    weights = workspace;
    workspace += RoundUp(packed_lanes() * 4, kAlign);
  }
  const auto for_bands = [&](Task task) {
    const auto bands = static_cast<int64_t>(ukernel::CeilDiv(out_h, areas.band));
    if (slots == 1 && !resources.cancel) {
      task(0, 0, bands);
      return OkStatus();
    }
    if (slots == 1) {
      InlineExecutor executor;
      return executor.ParallelFor(bands, 1, task, resources.cancel);
    }
    if (resources.counters) resources.counters->regions.fetch_add(1, std::memory_order_relaxed);
    return resources.executor->ParallelFor(bands, 1, task, resources.cancel, slots);
  };
  const size_t pixel_bytes = channels * FormatBytes(problem_.src);  // with repeated channels
  for (size_t image = 0; image < args.images; ++image) {
    const ptrdiff_t index = static_cast<ptrdiff_t>(image);
    const char* input = static_cast<const char*>(args.input) + index * args.in_image_stride;
    char* dst = static_cast<char*>(args.dst) + index * args.dst_image_stride;
    EpilogueOp ops[ukernel::kMaxEpilogueOps];
    for (size_t i = 0; i < args.op_count; ++i) ops[i] = OpOfImage(args, i, image);
    const Rows rows(problem_, *row_, epilogue_, weights, args, out_w, ops, FusedOps(*row_, ops, args.op_count));
    QUERN_RETURN_IF_ERROR(for_bands([&](int slot, int64_t first, int64_t last) {
      char* area = workspace + static_cast<size_t>(slot) * areas.slot_stride;
      const size_t begin = static_cast<size_t>(first) * areas.band;
      const size_t end = std::min(static_cast<size_t>(last) * areas.band, out_h);
      if (problem_.multiplier == 1) {
        rows.Run(input, args.in_pixel_stride, args.in_row_stride, dst, begin, end, area);
        return;
      }
      for (size_t y = begin; y < end; y += areas.band) {
        const size_t count = std::min(areas.band, end - y);
        rows.Run(ExpandRows(input, args, y, count, area), static_cast<ptrdiff_t>(pixel_bytes),
                 static_cast<ptrdiff_t>(pixel_bytes * args.in_w), dst, y, y + count, area + areas.expanded_bytes);
      }
    }));
  }
  return OkStatus();
}

}  // namespace quern::kernels
