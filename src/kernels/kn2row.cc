// kn2row: weights of all taps side by side, products of the input's lines, sums of the taps, epilogues.
#include "kernels/kn2row.h"

#include <algorithm>
#include <cstring>

#include "base/aligned_buffer.h"
#include "kernels/conv_cost.h"
#include "kernels/packed_key.h"
#include "ukernel/pack.h"
#include "ukernel/vector.h"

namespace quern::kernels {
namespace {

using ukernel::CeilDiv;
using ukernel::RoundUp;

constexpr size_t kMostTaps = 128;
constexpr size_t kMostChannels = 32;  // of more, vectors of the direct algorithm have few empty lanes
constexpr size_t kSumLanes = 4;       // of the vectors that taps are summed in
// Cycles to add a tap's vector, and what a pixel costs beside.
constexpr double kAddCycles = 1, kPixelCycles = 4;
// Pixels of a product at least, where lines have fewer.
constexpr size_t kChunkPixels = 192;
// Of weights that are put side by side before they are packed.
constexpr size_t kDerivedBytes = size_t{2} << 20;

typedef float Sums __attribute__((vector_size(kSumLanes * sizeof(float))));

std::string CannotServe(const ConvProblem& p, const ConvWeights& w) {
  if (p.kernel_d != 1 || p.pad_front != 0 || p.pad_back != 0) return "a kernel of three dimensions";
  if (p.stride_d != 1 || p.stride_h != 1 || p.stride_w != 1) return "strides";
  if (p.kernel_h * p.kernel_w == 1) return "a kernel of one tap";
  if (p.kernel_h * p.kernel_w > kMostTaps) return "more than " + std::to_string(kMostTaps) + " taps";
  if (p.groups != 1) return "groups";
  if (p.lhs != Format::kF32 || p.rhs != Format::kF32) return "types other than float32";
  if (!w.data) return "weights that come with the run";
  return {};
}

// Of `pixels` pixels by the weights of all taps.
GemmProblem ProductOfTaps(const ConvProblem& p, size_t pixels) {
  GemmProblem g = ProductOf(p, pixels, p.in_channels);
  g.n = p.kernel_h * p.kernel_w * p.out_channels;
  return g;
}

// to[x * to_stride + c] = sum over taps of tap[x * stride + c], the sums of a pixel in registers; kLast channels in the
// last vector. Reads whole vectors.
template <size_t kLast>
void SumTaps(const float* const* taps, size_t count, size_t stride, size_t pixels, size_t channels, char* to,
             ptrdiff_t to_stride) {
  for (size_t x = 0; x < pixels; ++x, to += to_stride) {
    for (size_t c = 0; c < channels; c += kSumLanes) {
      Sums sum{};
      for (size_t t = 0; t < count; ++t) {
        Sums tap;
        std::memcpy(&tap, taps[t] + x * stride + c, sizeof tap);
        sum += tap;
      }
      std::memcpy(to + c * sizeof(float), &sum, (c + kSumLanes <= channels ? kSumLanes : kLast) * sizeof(float));
    }
  }
}
using SumTapsRun = decltype(&SumTaps<1>);
constexpr SumTapsRun kSumTaps[] = {SumTaps<4>, SumTaps<1>, SumTaps<2>, SumTaps<3>};  // by channels % kSumLanes

class Kn2RowRun {
 public:
  Kn2RowRun(const ConvProblem& problem, const PackedRhs& weights, const Kn2RowPlan& plan, const ConvArgs& args,
            const RunResources& resources, size_t slot)
      : c_(problem),
        weights_(weights),
        p_(plan),
        a_(args),
        r_(resources),
        area_(static_cast<char*>(resources.workspace) + slot * plan.area_stride) {}

  // Lines [begin, end) of an image's output.
  void Run(size_t image, size_t begin, size_t end) const {
    size_t next = (begin < c_.pad_top ? 0 : begin - c_.pad_top) / p_.chunk_lines;  // chunk
    for (size_t y = begin; y < end; ++y) {
      const size_t bottom = y + (c_.kernel_h - 1) * c_.dilation_h;  // of the padded image
      for (; next < p_.chunks && next * p_.chunk_lines + c_.pad_top <= bottom; ++next) Multiply(image, next);
      SumLine(image, y);
    }
  }

 private:
  float* Chunk(size_t chunk) const { return reinterpret_cast<float*>(area_ + chunk % p_.ring_chunks * p_.chunk_bytes); }

  void Multiply(size_t image, size_t chunk) const {
    const GemmPlan& gemm = chunk + 1 < p_.chunks ? p_.gemm : p_.last_gemm;
    RunResources inner = r_;
    inner.executor = nullptr;
    inner.cancel = nullptr;
    inner.workspace = area_ + p_.core_offset;
    inner.workspace_bytes = gemm.workspace_bytes;
    const size_t line = image % p_.slices * a_.in_h + chunk * p_.chunk_lines;
    GemmOperands g;
    g.lhs = static_cast<const char*>(a_.input) + static_cast<ptrdiff_t>(image / p_.slices) * a_.in_image_stride +
            static_cast<ptrdiff_t>(line) * a_.in_row_stride;
    g.lhs_row_stride = a_.in_pixel_stride;
    g.rhs = weights_.data(0);
    g.dst = Chunk(chunk);
    g.dst_row_stride = p_.pixel_floats * sizeof(float);
    // Nothing can fail here: sizes were checked, and there is no executor to be cancelled.
    (void)RunGemm(gemm, g, inner).ok();
  }

  void SumLine(size_t image, size_t y) const {
    const size_t volume = image / p_.slices, before = image % p_.slices * p_.out_h * p_.out_w;
    char* dst = static_cast<char*>(a_.dst) + static_cast<ptrdiff_t>(volume) * a_.dst_image_stride +
                static_cast<ptrdiff_t>(before + y * p_.out_w) * a_.dst_pixel_stride;
    // The pixels that have all taps of a row within the image.
    const size_t reach = (c_.kernel_w - 1) * c_.dilation_w, end = a_.in_w + c_.pad_left;
    const size_t inner0 = std::min(c_.pad_left, p_.out_w);
    const size_t inner1 = std::max(inner0, std::min(p_.out_w, end < reach ? 0 : end - reach));
    for (size_t x = 0; x < inner0; ++x) SumPixels(y, x, 1, dst);
    SumPixels(y, inner0, inner1 - inner0, dst);
    for (size_t x = inner1; x < p_.out_w; ++x) SumPixels(y, x, 1, dst);
    if (a_.op_count == 0) return;
    EpilogueOp ops[ukernel::kMaxEpilogueOps];
    for (size_t i = 0; i < a_.op_count; ++i) ops[i] = OpOfImage(a_, i, volume);
    p_.epilogue(ops, a_.op_count,
                {.m = p_.out_w,
                 .n = c_.out_channels,
                 .m0 = before + y * p_.out_w,
                 .n0 = 0,
                 .src = dst,
                 .src_row_stride = static_cast<size_t>(a_.dst_pixel_stride),
                 .src_format = Format::kF32,
                 .dst = dst,
                 .dst_row_stride = static_cast<size_t>(a_.dst_pixel_stride)});
  }

  // Pixels [x, x + pixels) of line y at `line`, which have the same taps within the image.
  void SumPixels(size_t y, size_t x, size_t pixels, char* line) const {
    const float* taps[kMostTaps];
    size_t count = 0;
    for (size_t r = 0; r < c_.kernel_h; ++r) {
      const size_t row = y + r * c_.dilation_h - c_.pad_top;  // wraps above the image
      if (row >= a_.in_h) continue;
      const float* products = Chunk(row / p_.chunk_lines) + row % p_.chunk_lines * a_.in_w * p_.pixel_floats;
      for (size_t s = 0; s < c_.kernel_w; ++s) {
        const size_t column = x + s * c_.dilation_w - c_.pad_left;
        if (column >= a_.in_w) continue;
        taps[count++] = products + column * p_.pixel_floats + (r * c_.kernel_w + s) * c_.out_channels;
      }
    }
    kSumTaps[c_.out_channels % kSumLanes](taps, count, p_.pixel_floats, pixels, c_.out_channels,
                                          line + static_cast<ptrdiff_t>(x) * a_.dst_pixel_stride, a_.dst_pixel_stride);
  }

  const ConvProblem& c_;
  const PackedRhs& weights_;
  const Kn2RowPlan& p_;
  const ConvArgs& a_;
  const RunResources& r_;
  char* const area_;
};

}  // namespace

double Kn2RowConv::Cycles(const ConvProblem& p, const SelectOptions& options) {
  const size_t pixels = ExpectedPixels(p), taps = p.kernel_h * p.kernel_w;
  const double products = ProductCycles(ProductOfTaps(p, pixels), options);
  if (products == 0) return 0;
  const auto adds = static_cast<double>(taps * CeilDiv(p.out_channels, kSumLanes));
  return WithWeights(products, taps, p, options) + static_cast<double>(pixels) * (adds * kAddCycles + kPixelCycles);
}

std::string Kn2RowConv::RejectionReason(const ConvProblem& problem, const SelectOptions& options,
                                        const ConvWeights& weights) {
  if (std::string why = CannotServe(problem, weights); !why.empty()) return why;
  if (problem.out_channels > kMostChannels) return "more than " + std::to_string(kMostChannels) + " channels";
  const double cost = Cycles(problem, options), direct = DirectCycles(problem, options);
  if (direct == 0 || cost == 0) return "no row for its products";
  return cost < kWorthwhileShare * direct ? std::string() : CostReason(cost, direct) + ", the direct algorithm";
}

Result<Kn2RowConv> Kn2RowConv::Create(const ConvProblem& problem, const SelectOptions& options,
                                      const ConvWeights& weights, const Packing& packing) {
  if (const std::string why = CannotServe(problem, weights); !why.empty()) {
    return InvalidArgument("convolution by kn2row: " + why);
  }
  Kn2RowConv c;
  c.problem_ = problem;
  c.cpu_ = options.cpu;
  c.gemm_ = ProductOfTaps(problem, ExpectedPixels(problem));
  QUERN_ASSIGN_OR_RETURN(const LayoutChoice layout, SelectLayout(c.gemm_, options));
  c.eligible_ = EligibleRows(c.gemm_, options, layout);
  const size_t k = problem.in_channels, channels = problem.out_channels;
  AlignedBuffer buffer;  // of some columns: [column][input channel]
  const auto derive = [&](size_t n0, size_t n1) -> Result<PackedRhs::Columns> {
    if (const size_t bytes = (n1 - n0) * k * sizeof(float); buffer.size_bytes() < bytes) {
      QUERN_ASSIGN_OR_RETURN(buffer, AlignedBuffer::Allocate(bytes));
    }
    auto* to = buffer.as<float>();
    for (size_t n = n0; n < n1; ++n) {
      const size_t tap = n / channels, h = tap / problem.kernel_w, w = tap % problem.kernel_w;
      const char* from = static_cast<const char*>(weights.data) +
                         static_cast<ptrdiff_t>(n % channels) * weights.o_stride +
                         static_cast<ptrdiff_t>(h) * weights.h_stride + static_cast<ptrdiff_t>(w) * weights.w_stride;
      for (size_t i = 0; i < k; ++i, from += weights.i_stride) std::memcpy(to++, from, sizeof(float));
    }
    const auto n_stride = static_cast<ptrdiff_t>(k * sizeof(float));
    return PackedRhs::Columns{.source = {.format = Format::kF32,
                                         .data = buffer.as<char>() - static_cast<ptrdiff_t>(n0) * n_stride,
                                         .k_stride = sizeof(float),
                                         .n_stride = n_stride}};
  };
  std::optional<ContentKey> key;
  if (packing.store != nullptr) {
    ContentHash hash = StartPackedKey(packing, layout.layout, RhsShapeOf(c.gemm_, layout.vector_bytes), 1);
    hash.AddText("kn2row");
    const StridedExtent extents[] = {{channels, weights.o_stride},
                                     {k, weights.i_stride},
                                     {problem.kernel_h, weights.h_stride},
                                     {problem.kernel_w, weights.w_stride}};
    if (AddStrided(hash, weights.data, sizeof(float), extents, packing)) key = hash.Finish();
  }
  QUERN_ASSIGN_OR_RETURN(c.weights_,
                         PackedRhs::PackDerived(c.gemm_, layout, key, derive, packing, options.cpu, 1, kDerivedBytes));
  return c;
}

const GemmKernel* Kn2RowConv::GemmRowFor(size_t pixels) const {
  return SelectRow(eligible_, gemm_, cpu_, weights_.layout(), pixels);
}

std::string Kn2RowConv::Saving() const {
  return "one product for " + std::to_string(problem_.kernel_h * problem_.kernel_w) + " taps of " +
         std::to_string(problem_.out_channels) + (problem_.out_channels == 1 ? " channel" : " channels");
}

Kn2RowPlan Kn2RowConv::Plan(const ConvArgs& args, int concurrency) const {
  Kn2RowPlan p;
  const ConvProblem& c = problem_;
  p.slices = args.in_d;
  p.out_h = OutExtent(args.in_h, c.pad_top, c.pad_bottom, c.kernel_h, c.dilation_h, 1);
  p.out_w = OutExtent(args.in_w, c.pad_left, c.pad_right, c.kernel_w, c.dilation_w, 1);
  p.epilogue = ukernel::SelectVectorRow(cpu_)->epilogue;
  const size_t lines = args.images * p.slices * p.out_h;
  if (lines == 0 || p.out_w == 0) return p;
  // Products of several lines where these follow each other.
  const bool dense = args.in_row_stride == static_cast<ptrdiff_t>(args.in_w) * args.in_pixel_stride;
  if (dense && args.in_w)
    p.chunk_lines = std::clamp<size_t>(CeilDiv(kChunkPixels, args.in_w), 1, std::max<size_t>(args.in_h, 1));
  p.chunks = CeilDiv(args.in_h, p.chunk_lines);
  const size_t reach = (c.kernel_h - 1) * c.dilation_h;
  p.ring_chunks = (reach + p.chunk_lines - 1) / p.chunk_lines + 1;
  p.pixel_floats = RoundUp(gemm_.n, kSumLanes);
  const auto plan = [&](size_t m) {
    const GemmKernel& row = *SelectRow(eligible_, gemm_, cpu_, weights_.layout(), m);
    return PlanGemm(gemm_, cpu_, weights_.choice(), row, nullptr,
                    {.m = m, .rhs_near = weights_.packed_bytes() <= cpu_.l2_bytes / 2}, 1);
  };
  if (p.chunks) {
    p.gemm = plan(p.chunk_lines * args.in_w);
    p.last_gemm = plan((args.in_h - (p.chunks - 1) * p.chunk_lines) * args.in_w);
    concurrency = RowConcurrency(*p.gemm.main.row, cpu_, concurrency);
  }
  const bool reduces =
      std::any_of(args.ops, args.ops + args.op_count, [](const EpilogueOp& op) { return IsReduction(op.kind); });
  p.slots = reduces ? 1 : std::max(concurrency, 1);
  // Where a slot's lines begin, those above are multiplied again.
  p.task_lines = std::max(CeilDiv(lines, 4 * static_cast<size_t>(p.slots)), 4 * reach);
  p.slots = static_cast<int>(std::min<size_t>(static_cast<size_t>(p.slots), CeilDiv(lines, p.task_lines)));
  p.chunk_bytes = RoundUp(p.chunk_lines * args.in_w * p.pixel_floats * sizeof(float), ukernel::kPackAlignment);
  // The last tap's vector may reach beyond the ring.
  p.core_offset = p.ring_chunks * p.chunk_bytes + ukernel::kPackAlignment;
  p.area_stride =
      RoundUp(p.core_offset + std::max(p.gemm.workspace_bytes, p.last_gemm.workspace_bytes), ukernel::kPackAlignment);
  p.workspace_bytes = p.area_stride * static_cast<size_t>(p.slots);
  return p;
}

Status Kn2RowConv::Run(const Kn2RowPlan& plan, const ConvArgs& args, const RunResources& resources) const {
  if (resources.workspace_bytes < plan.workspace_bytes) {
    return InvalidArgument("the workspace has " + std::to_string(resources.workspace_bytes) +
                           " bytes, the plan needs " + std::to_string(plan.workspace_bytes));
  }
  const size_t lines = args.images * plan.slices * plan.out_h;
  if (lines == 0 || plan.out_w == 0) return OkStatus();
  return ForEachBySlot(resources, plan.slots, lines, plan.task_lines, [&](size_t slot, size_t begin, size_t end) {
    const Kn2RowRun run(problem_, weights_, plan, args, resources, slot);
    for (size_t at = begin; at < end;) {
      const size_t image = at / plan.out_h, stop = std::min(end, (image + 1) * plan.out_h);
      run.Run(image, at % plan.out_h, at % plan.out_h + (stop - at));
      at = stop;
    }
  });
}

}  // namespace quern::kernels
