// Chains of convolutions by strips: a slot computes the rows that a strip reads, but for those that it has from the
// strip before, by products that are the same wherever its first strip begins.
#include "kernels/conv_chain.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <new>
#include <string>

namespace quern::kernels {
namespace {

using ukernel::CeilDiv;
using ukernel::EpilogueKind;
using ukernel::RoundUp;

constexpr size_t kAlign = ukernel::kPackAlignment;

// Less work than this (about 20 us) stays on the calling thread.
constexpr double kParallelOperations = 2e6;

size_t Reach(const DwConvProblem& p) { return (p.kernel_h - 1) * p.dilation_h + 1; }

// Input rows [begin, end) that output rows [y0, y1) read.
struct RowRange {
  size_t begin, end;
};
RowRange RowsRead(const DwConvProblem& p, size_t in_h, size_t y0, size_t y1) {
  const auto clip = [&](size_t y) { return y <= p.pad_top ? 0 : std::min(y - p.pad_top, in_h); };
  return {clip(y0 * p.stride_h), clip((y1 - 1) * p.stride_h + Reach(p))};
}

// At the begin of a slot's workspace: the rows before the depthwise convolution that stand there.
struct Held {
  size_t begin = 0, end = 0;
};

// A 1x1 convolution over whole rows.
ConvArgs RowsOf(size_t rows, size_t width, const void* input, ptrdiff_t in_pixel, void* dst, ptrdiff_t dst_pixel,
                const EpilogueOp* ops, size_t op_count) {
  ConvArgs a{.in_h = rows, .in_w = width, .input = input};
  a.in_pixel_stride = in_pixel;
  a.in_row_stride = static_cast<ptrdiff_t>(width) * in_pixel;
  a.in_image_stride = static_cast<ptrdiff_t>(rows) * a.in_row_stride;
  a.dst = dst;
  a.dst_pixel_stride = dst_pixel;
  a.dst_image_stride = static_cast<ptrdiff_t>(rows * width) * dst_pixel;
  a.ops = ops;
  a.op_count = op_count;
  return a;
}

// The list for an image, from output pixel m on.
void OpsAt(const ConvChainEpilogue& e, size_t image, size_t m, EpilogueOp* to) {
  for (size_t i = 0; i < e.op_count; ++i) {
    to[i] = e.ops[i];
    if (!to[i].data) continue;
    ptrdiff_t moved = static_cast<ptrdiff_t>(image) * e.image_strides[i];
    if (to[i].kind == EpilogueKind::kAddMatrix || to[i].kind == EpilogueKind::kMulMatrix) {
      moved += static_cast<ptrdiff_t>(m * to[i].row_stride);
    }
    to[i].data = static_cast<const char*>(to[i].data) + moved;
  }
}

}  // namespace

ConvChainPlan ConvChain::Plan(const ConvChainArgs& args, int concurrency) const {
  const DwConvProblem& d = depthwise_->problem();
  ConvChainPlan plan;
  plan.out_h = depthwise_->OutHeight(args.in_h);
  plan.out_w = depthwise_->OutWidth(args.in_w);
  if (plan.out_h == 0 || plan.out_w == 0 || args.images == 0) return plan;
  const size_t pixel = d.channels * sizeof(float);
  if (before_) plan.before_row = args.in_w * pixel;
  if (after_) plan.depthwise_row = plan.out_w * pixel;
  // The rows between take half of the cache: weights, input and output pass through the rest.
  const size_t cache = cpu_.l2_bytes / 2, fixed = Reach(d) * plan.before_row;
  const size_t each = d.stride_h * plan.before_row + plan.depthwise_row;
  const size_t fitting = cache > fixed ? (cache - fixed) / each + 1 : 1;
  plan.strips = CeilDiv(plan.out_h, std::min(fitting, plan.out_h));
  plan.rows = CeilDiv(plan.out_h, plan.strips);
  plan.strips = CeilDiv(plan.out_h, plan.rows);
  plan.held_rows = std::min((plan.rows - 1) * d.stride_h + Reach(d), args.in_h);

  plan.before_pixels = plan.rows * d.stride_h * args.in_w;
  plan.after_pixels = plan.rows * plan.out_w;
  const auto include = [&](const Conv* conv, size_t rows, size_t width, size_t pixels, const ConvChainEpilogue& e,
                           std::vector<ChainedConvPlan>& plans) {
    const auto known = [&](const ChainedConvPlan& p) { return p.rows == rows; };
    if (!conv || rows == 0 || std::any_of(plans.begin(), plans.end(), known)) return;
    const auto in = static_cast<ptrdiff_t>(conv->problem().in_channels * sizeof(float));
    const auto out = static_cast<ptrdiff_t>(conv->problem().out_channels * sizeof(float));
    const ConvArgs a = RowsOf(rows, width, nullptr, in, nullptr, out, e.ops, e.op_count);
    plans.push_back({rows, conv->Plan(a, 1, pixels)});
    plan.inner_bytes = std::max(plan.inner_bytes, plans.back().conv.workspace_bytes);
  };
  if (before_) {
    // Cut wherever some strip begins or ends to read: a product's last tiles may sum in another order.
    for (size_t y = 0; y < plan.out_h; y += plan.rows) {
      const RowRange read = RowsRead(d, args.in_h, y, std::min(y + plan.rows, plan.out_h));
      plan.before_cuts.insert(plan.before_cuts.end(), {read.begin, read.end});
    }
    std::sort(plan.before_cuts.begin(), plan.before_cuts.end());
    plan.before_cuts.erase(std::unique(plan.before_cuts.begin(), plan.before_cuts.end()), plan.before_cuts.end());
    for (size_t i = 1; i < plan.before_cuts.size(); ++i) {
      include(before_, plan.before_cuts[i] - plan.before_cuts[i - 1], args.in_w, plan.before_pixels, args.before,
              plan.before);
    }
  }
  for (size_t rows : {plan.rows, plan.out_h - (plan.strips - 1) * plan.rows}) {
    include(after_, rows, plan.out_w, plan.after_pixels, args.after, plan.after);
  }
  plan.held_offset = RoundUp(sizeof(Held), kAlign);
  plan.depthwise_offset = plan.held_offset + RoundUp(plan.held_rows * plan.before_row, kAlign);
  plan.inner_offset = plan.depthwise_offset + RoundUp(plan.rows * plan.depthwise_row, kAlign);
  plan.slot_stride = RoundUp(plan.inner_offset + plan.inner_bytes, 4096) + kAlign;
  const double per_pixel =
      static_cast<double>(d.channels) *
      static_cast<double>(d.kernel_h * d.kernel_w + (before_ ? before_->problem().in_channels : 0) +
                          (after_ ? after_->problem().out_channels : 0));
  if (before_) concurrency = RowConcurrency(*before_->RowFor(plan.before_pixels), cpu_, concurrency);
  if (after_) concurrency = RowConcurrency(*after_->RowFor(plan.after_pixels), cpu_, concurrency);
  const bool parallel = per_pixel * static_cast<double>(plan.out_h * plan.out_w) > kParallelOperations;
  plan.slots = parallel ? static_cast<int>(std::min(static_cast<size_t>(std::max(concurrency, 1)), plan.strips)) : 1;
  plan.workspace_bytes = plan.slot_stride * static_cast<size_t>(plan.slots);
  return plan;
}

// One image's strips, one after another, in a slot's workspace.
class ConvChain::Strips {
 public:
  Strips(const ConvChain& chain, const ConvChainPlan& plan, const ConvChainArgs& args, size_t image, char* slot)
      : c_(chain),
        plan_(plan),
        a_(args),
        image_(image),
        slot_(slot),
        d_(chain.depthwise_->problem()),
        held_(*reinterpret_cast<Held*>(slot)) {}

  Status Run(size_t begin, size_t end) {
    for (size_t strip = begin; strip < end; ++strip) {
      const size_t y0 = strip * plan_.rows, y1 = std::min(y0 + plan_.rows, plan_.out_h);
      QUERN_RETURN_IF_ERROR(RunStrip(y0, y1));
    }
    return OkStatus();
  }

 private:
  Status RunStrip(size_t y0, size_t y1) {
    const char* input = static_cast<const char*>(a_.input) + static_cast<ptrdiff_t>(image_) * a_.in_image_stride;
    char* dst = static_cast<char*>(a_.dst) + static_cast<ptrdiff_t>(image_) * a_.dst_image_stride +
                static_cast<ptrdiff_t>(y0 * plan_.out_w) * a_.dst_pixel_stride;
    ConvArgs middle{.in_h = a_.in_h, .in_w = a_.in_w, .input = input};
    middle.in_pixel_stride = a_.in_pixel_stride;
    if (c_.before_) {
      QUERN_RETURN_IF_ERROR(Hold(input, y0, y1));
      middle.in_pixel_stride = static_cast<ptrdiff_t>(d_.channels * sizeof(float));
      middle.input = slot_ + plan_.held_offset - static_cast<ptrdiff_t>(held_.begin * plan_.before_row);
    }
    middle.in_row_stride = static_cast<ptrdiff_t>(a_.in_w) * middle.in_pixel_stride;
    char* between = slot_ + plan_.depthwise_offset;
    middle.dst_pixel_stride = c_.after_ ? static_cast<ptrdiff_t>(d_.channels * sizeof(float)) : a_.dst_pixel_stride;
    middle.dst = (c_.after_ ? between : dst) - static_cast<ptrdiff_t>(y0 * plan_.out_w) * middle.dst_pixel_stride;
    EpilogueOp ops[ukernel::kMaxEpilogueOps];
    OpsAt(a_.depthwise, image_, 0, ops);
    middle.ops = ops;
    middle.op_count = a_.depthwise.op_count;
    c_.depthwise_->RunRows(middle, y0, y1);
    if (!c_.after_) return OkStatus();
    OpsAt(a_.after, image_, y0 * plan_.out_w, ops);
    return Multiply(*c_.after_, plan_.after, y1 - y0,
                    RowsOf(y1 - y0, plan_.out_w, between, middle.dst_pixel_stride, dst, a_.dst_pixel_stride, ops,
                           a_.after.op_count));
  }

  // Computes the rows that output rows [y0, y1) read, those that are there already excepted.
  Status Hold(const char* input, size_t y0, size_t y1) {
    const auto [begin, end] = RowsRead(d_, a_.in_h, y0, y1);
    const size_t row = plan_.before_row;
    char* rows = slot_ + plan_.held_offset;
    if (held_.begin <= begin && begin < held_.end) {
      std::memmove(rows, rows + (begin - held_.begin) * row, (held_.end - begin) * row);
    } else {
      held_.end = begin;
    }
    held_.begin = begin;
    EpilogueOp ops[ukernel::kMaxEpilogueOps];
    OpsAt(a_.before, image_, 0, ops);
    const auto& cuts = plan_.before_cuts;
    for (auto cut = std::upper_bound(cuts.begin(), cuts.end(), held_.end); held_.end < end; ++cut) {
      const char* from = input + static_cast<ptrdiff_t>(held_.end * a_.in_w) * a_.in_pixel_stride;
      QUERN_RETURN_IF_ERROR(
          Multiply(*c_.before_, plan_.before, *cut - held_.end,
                   RowsOf(*cut - held_.end, a_.in_w, from, a_.in_pixel_stride, rows + (held_.end - begin) * row,
                          static_cast<ptrdiff_t>(d_.channels * sizeof(float)), ops, a_.before.op_count)));
      held_.end = *cut;
    }
    return OkStatus();
  }

  Status Multiply(const Conv& conv, const std::vector<ChainedConvPlan>& plans, size_t rows,
                  const ConvArgs& args) const {
    const auto plan =
        std::find_if(plans.begin(), plans.end(), [&](const ChainedConvPlan& p) { return p.rows == rows; });
    if (plan == plans.end()) return Internal("a strip of " + std::to_string(rows) + " rows has no plan");
    return conv.Run(plan->conv, args, {.workspace = slot_ + plan_.inner_offset, .workspace_bytes = plan_.inner_bytes});
  }

  const ConvChain& c_;
  const ConvChainPlan& plan_;
  const ConvChainArgs& a_;
  const size_t image_;
  char* const slot_;
  const DwConvProblem& d_;
  Held& held_;
};

Status ConvChain::Run(const ConvChainPlan& plan, const ConvChainArgs& args, const RunResources& resources) const {
  if (plan.strips == 0) return OkStatus();
  if (resources.workspace_bytes < plan.workspace_bytes) {
    return InvalidArgument("the workspace has " + std::to_string(resources.workspace_bytes) +
                           " bytes, a chain of convolutions needs " + std::to_string(plan.workspace_bytes));
  }
  char* workspace = static_cast<char*>(resources.workspace);
  for (size_t image = 0; image < args.images; ++image) {
    for (int slot = 0; slot < plan.slots; ++slot) new (workspace + static_cast<size_t>(slot) * plan.slot_stride) Held();
    Status failed;
    std::atomic<bool> any{false};
    const auto task = [&](int slot, int64_t begin, int64_t end) {
      char* area = workspace + static_cast<size_t>(slot) * plan.slot_stride;
      const Status status =
          Strips(*this, plan, args, image, area).Run(static_cast<size_t>(begin), static_cast<size_t>(end));
      if (!status.ok() && !any.exchange(true)) failed = status;
    };
    if (plan.slots > 1) {
      if (resources.counters) resources.counters->regions.fetch_add(1, std::memory_order_relaxed);
      QUERN_RETURN_IF_ERROR(
          resources.executor->ParallelFor(static_cast<int64_t>(plan.strips), 1, task, resources.cancel, plan.slots));
    } else if (resources.cancel) {
      InlineExecutor executor;
      QUERN_RETURN_IF_ERROR(executor.ParallelFor(static_cast<int64_t>(plan.strips), 1, task, resources.cancel));
    } else {
      task(0, 0, static_cast<int64_t>(plan.strips));
    }
    if (any) return failed;
  }
  return OkStatus();
}

}  // namespace quern::kernels
