// Convolution over gemm_core: geometry, weights, padding, zero points, groups.
#include "kernels/conv.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "base/aligned_buffer.h"
#include "ukernel/convert.h"
#include "ukernel/vector.h"

namespace quern::kernels {
namespace {

using ukernel::EpilogueKind;
using ukernel::RoundUp;

// Kernels over fewer channels than a vector holds waste most of each K segment, so a row of taps becomes one segment.
constexpr size_t kFoldChannels = 16;
// Bytes are folded up to a vector of them: where K of a tap is that short, what finds and stages its rows takes as long
// as the products, and a copy of the image with its padding costs less.
constexpr size_t kFoldBytes = 64;
// Entries are spread over threads, whole, when there are at least this many for each thread.
constexpr size_t kEntriesPerSlot = 2;

bool HasPads(const ConvProblem& p) {
  return p.pad_front || p.pad_top || p.pad_left || p.pad_back || p.pad_bottom || p.pad_right;
}

// Whether each padding is less than the kernel is wide, so that a padded image is not much larger than the image.
bool PadsLessThanKernel(const ConvProblem& p) {
  const auto less = [](size_t before, size_t after, size_t kernel, size_t dilation) {
    const size_t reach = dilation * (kernel - 1) + 1;
    return before < reach && after < reach;
  };
  return less(p.pad_front, p.pad_back, p.kernel_d, p.dilation_d) &&
         less(p.pad_top, p.pad_bottom, p.kernel_h, p.dilation_h) &&
         less(p.pad_left, p.pad_right, p.kernel_w, p.dilation_w);
}

bool IsPointwise(const ConvProblem& p) {
  return p.kernel_d == 1 && p.kernel_h == 1 && p.kernel_w == 1 && p.stride_d == 1 && p.stride_h == 1 &&
         p.stride_w == 1 && !HasPads(p);
}

Status Check(const ConvProblem& p) {
  if (p.groups == 0 || p.in_channels == 0 || p.out_channels == 0 || p.in_channels % p.groups ||
      p.out_channels % p.groups) {
    return InvalidArgument(std::to_string(p.in_channels) + " input and " + std::to_string(p.out_channels) +
                           " output channels do not divide into " + std::to_string(p.groups) + " groups");
  }
  if (p.kernel_d == 0 || p.kernel_h == 0 || p.kernel_w == 0 || p.stride_d == 0 || p.stride_h == 0 || p.stride_w == 0 ||
      p.dilation_d == 0 || p.dilation_h == 0 || p.dilation_w == 0) {
    return InvalidArgument("kernel, stride and dilation must be at least 1");
  }
  return OkStatus();
}

// The weights as [o][d][h][w][i].
void PutInOrder(const ConvProblem& p, const ConvWeights& weights, const CpuFacts& cpu, char* to) {
  const size_t group_in = p.in_channels / p.groups, element = FormatBytes(p.rhs);
  const size_t taps = p.kernel_d * p.kernel_h * p.kernel_w;
  const auto e = static_cast<ptrdiff_t>(element);
  const auto kw = static_cast<ptrdiff_t>(p.kernel_w), kh = static_cast<ptrdiff_t>(p.kernel_h);
  const bool taps_follow = (p.kernel_w == 1 || weights.w_stride == e) &&
                           (p.kernel_h == 1 || weights.h_stride == kw * e) &&
                           (p.kernel_d == 1 || weights.d_stride == kh * kw * e) && weights.i_stride % e == 0;
  const auto transpose = ukernel::SelectVectorRow(cpu)->transpose;
  const auto* from = static_cast<const char*>(weights.data);
  for (size_t o = 0; o < p.out_channels; ++o, from += weights.o_stride) {
    if (taps_follow) {
      transpose({.element_bytes = element,
                 .rows = taps,
                 .cols = group_in,
                 .x = from,
                 .x_col = weights.i_stride / e,
                 .y = to,
                 .y_row = static_cast<ptrdiff_t>(group_in)});
      to += taps * group_in * element;
      continue;
    }
    for (size_t t = 0; t < taps; ++t) {
      const char* tap = from + static_cast<ptrdiff_t>(t / p.kernel_w / p.kernel_h) * weights.d_stride +
                        static_cast<ptrdiff_t>(t / p.kernel_w % p.kernel_h) * weights.h_stride +
                        static_cast<ptrdiff_t>(t % p.kernel_w) * weights.w_stride;
      for (size_t i = 0; i < group_in; ++i, to += element) {
        std::memcpy(to, tap + static_cast<ptrdiff_t>(i) * weights.i_stride, element);
      }
    }
  }
}

}  // namespace

Result<Conv> Conv::Create(const ConvProblem& problem, const SelectOptions& options, const ConvWeights& weights,
                          const Packing& packing, SelectionReport* report) {
  QUERN_RETURN_IF_ERROR(Check(problem));
  Conv c;
  c.problem_ = problem;
  c.cpu_ = options.cpu;
  const size_t group_in = problem.in_channels / problem.groups, group_out = problem.out_channels / problem.groups;
  c.packs_in_run_ = weights.data == nullptr;
  // A folded kernel's weights are put in another order first, for which a run has no memory.
  c.folded_ = !c.packs_in_run_ && problem.groups == 1 && problem.kernel_w > 1 && problem.dilation_w == 1 &&
              (IsInt8(problem.lhs) ? group_in <= kFoldBytes : group_in < kFoldChannels) && PadsLessThanKernel(problem);
  c.gemm_.lhs = problem.lhs;
  c.gemm_.rhs = problem.rhs;
  c.gemm_.n = group_out;
  c.gemm_.k = c.folded_ ? group_in * problem.kernel_w : group_in;
  const size_t kernel_lines = problem.kernel_d * problem.kernel_h;
  c.gemm_.segments = c.folded_ ? kernel_lines : kernel_lines * problem.kernel_w;
  c.gemm_.precision = problem.precision;
  c.gemm_.expected_m = problem.expected_pixels;
  c.gemm_.lhs_form = IsPointwise(problem) ? ukernel::kLhsRows : ukernel::kLhsRowPointers;
  QUERN_ASSIGN_OR_RETURN(const LayoutChoice layout, SelectLayout(c.gemm_, options, report));
  c.eligible_ = EligibleRows(c.gemm_, options, layout);
  SelectOptions all = options;
  all.force_row = {};
  c.fallbacks_ = EligibleRows(c.gemm_, all, layout);

  // The packer walks (segment, k, n) with one stride each; what does not fit that is put in order first.
  const size_t element = FormatBytes(problem.rhs);
  ukernel::RhsSource source{
      .format = problem.rhs, .data = weights.data, .k_stride = weights.i_stride, .n_stride = weights.o_stride};
  AlignedBuffer ordered;
  source.segment_stride = c.folded_ ? weights.h_stride : weights.w_stride;
  const bool lines_follow =
      problem.kernel_d == 1 || weights.d_stride == static_cast<ptrdiff_t>(problem.kernel_h) * weights.h_stride;
  const bool one_stride =
      lines_follow && (c.folded_ ? weights.w_stride == static_cast<ptrdiff_t>(group_in) * weights.i_stride
                                 : kernel_lines == 1 ||
                                       weights.h_stride == static_cast<ptrdiff_t>(problem.kernel_w) * weights.w_stride);
  if (c.packs_in_run_) {
    if (!one_stride || !ukernel::CanPackRhs(layout.layout, source)) {
      return Unsupported("weights of a run cannot be packed as " + LayoutName(layout.layout));
    }
    c.run_source_ = source;
    c.run_group_stride_ = source.n_stride * static_cast<ptrdiff_t>(group_out);
    c.weights_ = PackedRhs::Describe(c.gemm_, layout, problem.groups);
    return c;
  }
  const size_t taps = kernel_lines * problem.kernel_w;
  const ptrdiff_t e = static_cast<ptrdiff_t>(element);
  ukernel::RhsSource in_order = source;
  in_order.k_stride = e;
  in_order.segment_stride = e * static_cast<ptrdiff_t>(c.gemm_.k);
  in_order.n_stride = e * static_cast<ptrdiff_t>(taps * group_in);
  // Also what only the generic packer would take otherwise, at several times the price: bytes channels first.
  const auto is_fast = [&](const ukernel::RhsSource& s) {
    return ukernel::FindPackKernel(layout.layout, s, options.cpu, ukernel::Lookup::kRun) != nullptr;
  };
  if (!one_stride || (!is_fast(source) && is_fast(in_order))) {
    QUERN_ASSIGN_OR_RETURN(ordered, AlignedBuffer::Allocate(problem.out_channels * taps * group_in * element));
    PutInOrder(problem, weights, options.cpu, ordered.as<char>());
    source = in_order;
    source.data = ordered.data();
  }
  QUERN_ASSIGN_OR_RETURN(c.weights_, PackedRhs::Pack(c.gemm_, layout, source, packing, options.cpu, problem.groups,
                                                     source.n_stride * static_cast<ptrdiff_t>(group_out)));
  return c;
}

const GemmKernel* Conv::RowFor(size_t pixels) const {
  return SelectRow(eligible_, gemm_, cpu_, weights_.layout(), pixels);
}

Format Conv::accumulator() const { return eligible_.front()->dst; }

size_t Conv::OutDepth(size_t in_d) const {
  const ConvProblem& p = problem_;
  return OutExtent(in_d, p.pad_front, p.pad_back, p.kernel_d, p.dilation_d, p.stride_d);
}

size_t Conv::OutHeight(size_t in_h) const {
  const ConvProblem& p = problem_;
  return OutExtent(in_h, p.pad_top, p.pad_bottom, p.kernel_h, p.dilation_h, p.stride_h);
}

size_t Conv::OutWidth(size_t in_w) const {
  const ConvProblem& p = problem_;
  return OutExtent(in_w, p.pad_left, p.pad_right, p.kernel_w, p.dilation_w, p.stride_w);
}

ConvPlan Conv::Plan(const ConvArgs& args, int concurrency, size_t row_pixels) const {
  ConvPlan p;
  const size_t element = FormatBytes(problem_.lhs);
  p.out_d = OutDepth(args.in_d);
  p.out_h = OutHeight(args.in_h);
  p.out_w = OutWidth(args.in_w);
  p.plain_rows = IsPointwise(problem_);
  if (p.plain_rows && args.in_row_stride != static_cast<ptrdiff_t>(args.in_w) * args.in_pixel_stride) {
    p.lines = p.out_d * p.out_h;
  }
  p.entries = args.images * problem_.groups * p.lines;
  const size_t m = p.lines > 1 ? p.out_w : p.out_d * p.out_h * p.out_w;
  p.pad_input = folded_ && (HasPads(problem_) || args.in_channel_stride != 0 ||
                            args.in_pixel_stride != static_cast<ptrdiff_t>(problem_.in_channels * element));

  if (row_pixels == 0) row_pixels = m;
  const GemmKernel& row = *RowFor(row_pixels);
  const GemmKernel* fallback = nullptr;
  if (ComputesOnTerms(row)) {
    fallback = SelectSplitFallback(fallbacks_, gemm_, cpu_, weights_.layout(), row_pixels);
  }
  bool reduces = false;
  for (size_t i = 0; i < args.op_count; ++i) reduces |= IsReduction(args.ops[i].kind);
  concurrency = RowConcurrency(row, cpu_, concurrency);
  const size_t slots = static_cast<size_t>(std::max(concurrency, 1));
  p.parallel_entries = slots > 1 && p.entries >= kEntriesPerSlot * slots && !reduces;
  const bool no_padding = p.pad_input || !HasPads(problem_);
  const GemmShape shape{.m = m,
                        .image = !p.plain_rows,
                        .line = !p.plain_rows && no_padding ? p.out_w : 0,
                        .column_major = args.dst_channel_stride != 0,
                        .ops = args.ops,
                        .op_count = args.op_count};
  p.gemm = PlanGemm(gemm_, cpu_, weights_.choice(), row, fallback, shape, p.parallel_entries ? 1 : concurrency);
  p.slots = p.parallel_entries ? concurrency : p.gemm.slots;

  size_t at = 0;
  const auto take = [&](size_t bytes) {
    const size_t begin = at;
    at = RoundUp(at + bytes, ukernel::kPackAlignment);
    return begin;
  };
  p.zero_row_offset = take(gemm_.k * element);
  if (packs_in_run_) p.weights_offset = take(weights_.packed_bytes());
  p.area_offset = at;
  at = 0;
  if (p.pad_input) {
    p.padded_d = args.in_d + problem_.pad_front + problem_.pad_back;
    p.padded_h = args.in_h + problem_.pad_top + problem_.pad_bottom;
    p.padded_w = args.in_w + problem_.pad_left + problem_.pad_right;
    p.padded_offset = take(p.padded_d * p.padded_h * p.padded_w * problem_.in_channels * element);
  }
  if (IsInt8(problem_.lhs)) {
    p.pixel_sums_offset = take(args.in_d * args.in_h * args.in_w * 4);
    p.row_sums_offset = take(p.out_d * p.out_h * p.out_w * 4);
    p.zeros_offset = take(gemm_.n * 4);
  }
  p.core_offset = take(p.gemm.workspace_bytes);
  p.area_stride = RoundUp(at, 4096) + ukernel::kPackAlignment;
  p.workspace_bytes = p.area_offset + p.area_stride * (p.parallel_entries ? slots : 1);
  return p;
}

namespace {

// One run; its entries are independent but for the areas of the workspace.
class ConvRun {
 public:
  // `packed`: the weights, in the form that `weights` describes.
  ConvRun(const ConvProblem& problem, const GemmProblem& gemm, const PackedRhs& weights, const std::byte* packed,
          bool folded, const ConvPlan& plan, const ConvArgs& args, const RunResources& resources)
      : c_(problem),
        gemm_(gemm),
        weights_(weights),
        packed_(packed),
        folded_(folded),
        p_(plan),
        a_(args),
        r_(resources),
        element_(FormatBytes(problem.lhs)) {}

  void FillZeroRow() const {
    std::memset(static_cast<char*>(r_.workspace) + p_.zero_row_offset, padding(), gemm_.k * element_);
  }

  Status Run(size_t entry, size_t area) {
    char* base = static_cast<char*>(r_.workspace) + p_.area_offset + area * p_.area_stride;
    const size_t line = entry % p_.lines, group = entry / p_.lines % c_.groups, image = entry / p_.lines / c_.groups;
    const size_t group_in = c_.in_channels / c_.groups, group_out = gemm_.n;
    const char* input = static_cast<const char*>(a_.input) + static_cast<ptrdiff_t>(image) * a_.in_image_stride +
                        group * group_in * element_;
    GemmOperands g;
    ImageRows rows;
    if (p_.plain_rows) {
      g.lhs = input + static_cast<ptrdiff_t>(line) * a_.in_row_stride;
      g.lhs_row_stride = a_.in_pixel_stride;
    } else {
      QUERN_RETURN_IF_ERROR(DescribeRows(input, base, &rows));
      g.image = &rows;
    }
    g.rhs = packed_ + group * weights_.geometry().total_bytes;
    g.rhs_pair_bound = weights_.pair_bound();
    g.rhs_wide_groups = weights_.wide_groups(group);
    EpilogueOp ops[ukernel::kMaxEpilogueOps + 2];
    size_t count = 0;
    if (IsInt8(c_.lhs)) {
      const size_t line_begin = line * p_.out_w;
      QUERN_RETURN_IF_ERROR(AddZeroPoints(input, group, line_begin, g.rhs, base, ops, &count));
    }
    for (size_t i = 0; i < a_.op_count; ++i) {
      ops[count++] = MovedDown(MovedRight(OpOfImage(a_, i, image), group * group_out), line * p_.out_w);
    }
    g.ops = ops;
    g.op_count = count;
    g.dst = static_cast<char*>(a_.dst) + static_cast<ptrdiff_t>(image) * a_.dst_image_stride +
            static_cast<ptrdiff_t>(line * p_.out_w) * a_.dst_pixel_stride +
            group * group_out *
                (p_.gemm.column_major ? static_cast<size_t>(a_.dst_channel_stride) : FormatBytes(p_.gemm.dst_format));
    g.dst_row_stride = static_cast<size_t>(a_.dst_pixel_stride);
    g.dst_column_stride = static_cast<size_t>(a_.dst_channel_stride);
    RunResources inner = r_;
    inner.workspace = base + p_.core_offset;
    inner.workspace_bytes = p_.gemm.workspace_bytes;
    if (p_.parallel_entries) inner.cancel = nullptr;  // the region over the entries looks at it
    return RunGemm(p_.gemm, g, inner);
  }

 private:
  int slots() const { return p_.parallel_entries ? 1 : p_.slots; }
  int padding() const { return IsInt8(c_.lhs) ? a_.input_zero_point & 0xff : 0; }

  Status DescribeRows(const char* input, char* base, ImageRows* rows) {
    *rows = {.image = input,
             .pixel_stride = a_.in_pixel_stride,
             .row_stride = a_.in_row_stride,
             .in_h = a_.in_h,
             .in_w = a_.in_w,
             .out_w = p_.out_w,
             .kernel_h = c_.kernel_h,
             .kernel_w = folded_ ? 1 : c_.kernel_w,
             .stride_h = c_.stride_h,
             .stride_w = c_.stride_w,
             .dilation_h = c_.dilation_h,
             .dilation_w = c_.dilation_w,
             .pad_top = c_.pad_top,
             .pad_left = c_.pad_left,
             .in_d = a_.in_d,
             .out_h = p_.out_h,
             .kernel_d = c_.kernel_d,
             .stride_d = c_.stride_d,
             .dilation_d = c_.dilation_d,
             .pad_front = c_.pad_front,
             .zero_row = static_cast<char*>(r_.workspace) + p_.zero_row_offset};
    if (!p_.pad_input) return OkStatus();
    char* padded = base + p_.padded_offset;
    const size_t pixel = c_.in_channels * element_, line = p_.padded_w * pixel;
    rows->image = padded;
    rows->pixel_stride = static_cast<ptrdiff_t>(pixel);
    rows->row_stride = static_cast<ptrdiff_t>(line);
    rows->in_d = p_.padded_d;
    rows->in_h = p_.padded_h;
    rows->in_w = p_.padded_w;
    rows->pad_front = rows->pad_top = rows->pad_left = 0;
    if (input == padded_input_ && padded == padded_to_) return OkStatus();
    padded_input_ = input;
    padded_to_ = padded;
    return ForEach(r_, slots(), p_.padded_d * p_.padded_h, 1, [&](size_t begin, size_t end) {
      for (size_t i = begin; i < end; ++i) {
        char* to = padded + i * line;
        const size_t z = i / p_.padded_h, y = i % p_.padded_h;
        if (y < c_.pad_top || y >= c_.pad_top + a_.in_h || z < c_.pad_front || z >= c_.pad_front + a_.in_d) {
          std::memset(to, padding(), line);
          continue;
        }
        std::memset(to, padding(), c_.pad_left * pixel);
        to += c_.pad_left * pixel;
        const char* from =
            input + static_cast<ptrdiff_t>((z - c_.pad_front) * a_.in_h + y - c_.pad_top) * a_.in_row_stride;
        if (a_.in_channel_stride != 0) {
          p_.gemm.transpose({.element_bytes = element_,
                             .rows = a_.in_w,
                             .cols = c_.in_channels,
                             .x = from,
                             .x_col = a_.in_channel_stride / static_cast<ptrdiff_t>(element_),
                             .y = to,
                             .y_row = static_cast<ptrdiff_t>(c_.in_channels)});
        } else if (a_.in_pixel_stride == static_cast<ptrdiff_t>(pixel)) {
          std::memcpy(to, from, a_.in_w * pixel);
        } else {
          for (size_t x = 0; x < a_.in_w; ++x) {
            std::memcpy(to + x * pixel, from + static_cast<ptrdiff_t>(x) * a_.in_pixel_stride, pixel);
          }
        }
        std::memset(to + a_.in_w * pixel, padding(), c_.pad_right * pixel);
      }
    });
  }

  // sum (a - za)(w - zw) = sum a*w' - za * sum w' - zw' * (sum a - K*za), where w' and zw' are what is stored (u8 less
  // 128) and padding is za.
  Status AddZeroPoints(const char* input, size_t group, size_t first_pixel, const std::byte* rhs, char* base,
                       EpilogueOp* ops, size_t* count) {
    const int32_t za = a_.input_zero_point;
    if (za != 0) {
      ops[(*count)++] = {
          .kind = EpilogueKind::kAddOuterScalar, .data2 = rhs + weights_.geometry().sums_offset, .integer = -za};
    }
    const int32_t shift = c_.rhs == Format::kU8 && weights_.layout().element == Format::kI8 ? 128 : 0;
    int32_t* zeros = reinterpret_cast<int32_t*>(base + p_.zeros_offset);
    int32_t* sums = reinterpret_cast<int32_t*>(base + p_.row_sums_offset);
    bool any = false;
    for (size_t n = 0; n < gemm_.n; ++n) {
      zeros[n] = shift - (a_.weight_zero_points ? a_.weight_zero_points[group * gemm_.n + n] : a_.weight_zero_point);
      any |= zeros[n] != 0;
    }
    if (!any) return OkStatus();
    ops[(*count)++] = {.kind = EpilogueKind::kAddOuter, .data = sums + first_pixel, .data2 = zeros};
    // The lines of an image follow one another and share its sums.
    if (input == summed_input_ && base == summed_area_) return OkStatus();
    summed_input_ = input;
    summed_area_ = base;
    if (r_.counters) r_.counters->images_summed.fetch_add(1, std::memory_order_relaxed);
    const size_t channels = c_.in_channels / c_.groups;
    const size_t channel = a_.in_channel_stride != 0 ? static_cast<size_t>(a_.in_channel_stride) : 1;
    int32_t* pixels = reinterpret_cast<int32_t*>(base + p_.pixel_sums_offset);
    QUERN_RETURN_IF_ERROR(ForEach(r_, slots(), a_.in_d * a_.in_h, 1, [&](size_t begin, size_t end) {
      for (size_t y = begin; y < end; ++y) {
        for (size_t x = 0; x < a_.in_w; ++x) {
          const char* p =
              input + static_cast<ptrdiff_t>(y) * a_.in_row_stride + static_cast<ptrdiff_t>(x) * a_.in_pixel_stride;
          int32_t sum = -static_cast<int32_t>(channels) * za;
          for (size_t i = 0; i < channels; ++i, p += channel) {
            sum += c_.lhs == Format::kI8 ? static_cast<int8_t>(*p) : static_cast<uint8_t>(*p);
          }
          pixels[y * a_.in_w + x] = sum;
        }
      }
    }));
    return ForEach(r_, slots(), p_.out_d * p_.out_h, 1, [&](size_t begin, size_t end) {
      for (size_t line = begin; line < end; ++line) {
        for (size_t ox = 0; ox < p_.out_w; ++ox) sums[line * p_.out_w + ox] = SumTaps(pixels, line, ox);
      }
    });
  }

  // Over the taps inside the image: padding is za, which the pixel sums have taken away already.
  int32_t SumTaps(const int32_t* pixels, size_t line, size_t ox) const {
    const size_t oz = line / p_.out_h, oy = line % p_.out_h;
    int32_t sum = 0;
    for (size_t tap = 0; tap < c_.kernel_d * c_.kernel_h; ++tap) {
      const ptrdiff_t z = static_cast<ptrdiff_t>(oz * c_.stride_d + tap / c_.kernel_h * c_.dilation_d) -
                          static_cast<ptrdiff_t>(c_.pad_front);
      const ptrdiff_t y = static_cast<ptrdiff_t>(oy * c_.stride_h + tap % c_.kernel_h * c_.dilation_h) -
                          static_cast<ptrdiff_t>(c_.pad_top);
      if (y < 0 || y >= static_cast<ptrdiff_t>(a_.in_h) || z < 0 || z >= static_cast<ptrdiff_t>(a_.in_d)) continue;
      const int32_t* row = pixels + (static_cast<size_t>(z) * a_.in_h + static_cast<size_t>(y)) * a_.in_w;
      for (size_t j = 0; j < c_.kernel_w; ++j) {
        const ptrdiff_t x =
            static_cast<ptrdiff_t>(ox * c_.stride_w + j * c_.dilation_w) - static_cast<ptrdiff_t>(c_.pad_left);
        if (x >= 0 && x < static_cast<ptrdiff_t>(a_.in_w)) sum += row[x];
      }
    }
    return sum;
  }

  const ConvProblem& c_;
  const GemmProblem& gemm_;
  const PackedRhs& weights_;
  const std::byte* const packed_;
  const bool folded_;
  const ConvPlan& p_;
  const ConvArgs& a_;
  const RunResources& r_;
  const size_t element_;
  const char* padded_input_ = nullptr;  // the image that the area holds
  const char* padded_to_ = nullptr;
  const char* summed_input_ = nullptr;  // the image and group whose sums the area holds
  const char* summed_area_ = nullptr;
};

}  // namespace

Status Conv::Run(const ConvArgs& args, const RunResources& resources) const {
  const int concurrency = resources.executor ? resources.executor->concurrency() : 1;
  return Run(Plan(args, concurrency), args, resources);
}

Status Conv::PackWeights(const ConvPlan& plan, const ConvArgs& args, const RunResources& resources,
                         std::byte* to) const {
  ukernel::RhsSource source = run_source_;
  source.data = args.weights;
  InlineExecutor self;
  Executor& executor = resources.executor ? *resources.executor : static_cast<Executor&>(self);
  if (resources.counters) {
    resources.counters->rhs_packed_bytes.fetch_add(weights_.packed_bytes(), std::memory_order_relaxed);
  }
  return weights_.PackInto(to, source, executor, cpu_, run_group_stride_, resources.cancel, plan.slots);
}

Status Conv::Run(const ConvPlan& plan, const ConvArgs& args, const RunResources& resources) const {
  if (resources.workspace_bytes < plan.workspace_bytes) {
    return InvalidArgument("the workspace has " + std::to_string(resources.workspace_bytes) +
                           " bytes, the plan needs " + std::to_string(plan.workspace_bytes));
  }
  if (plan.out_d == 0 || plan.out_h == 0 || plan.out_w == 0 || plan.entries == 0) return OkStatus();
  const std::byte* packed = packs_in_run_ ? nullptr : weights_.data();
  if (packs_in_run_) {
    std::byte* to = static_cast<std::byte*>(resources.workspace) + plan.weights_offset;
    packed = to;
    if (!args.weights_are_packed) QUERN_RETURN_IF_ERROR(PackWeights(plan, args, resources, to));
  }
  ConvRun run(problem_, gemm_, weights_, packed, folded_, plan, args, resources);
  run.FillZeroRow();
  if (!plan.parallel_entries) {
    for (size_t i = 0; i < plan.entries; ++i) QUERN_RETURN_IF_ERROR(run.Run(i, 0));
    return OkStatus();
  }
  if (resources.counters) resources.counters->regions.fetch_add(1, std::memory_order_relaxed);
  return resources.executor->ParallelFor(
      static_cast<int64_t>(plan.entries), 1,
      [&](int slot, int64_t begin, int64_t end) {
        ConvRun own(problem_, gemm_, weights_, packed, folded_, plan, args, resources);
        for (int64_t i = begin; i < end; ++i) {
          // Nothing can fail here: sizes were checked, and an inner run has no executor to be cancelled.
          (void)own.Run(static_cast<size_t>(i), static_cast<size_t>(slot)).ok();
        }
      },
      resources.cancel, plan.slots);
}

}  // namespace quern::kernels
