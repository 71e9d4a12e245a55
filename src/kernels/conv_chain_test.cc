// Chains of convolutions by strips against plain loops in double precision.
#include "kernels/conv_chain.h"
#include "base/random_numbers.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "base/cpu.h"
#include "parallel/hostile_executor.h"
#include "parallel/thread_pool.h"
#include "ukernel/row_runner.h"

namespace quern::kernels {
namespace {

using ukernel::EpilogueKind;
using ukernel::GuardedBuffer;

struct Case {
  bool before, after;
  size_t in, middle, out;  // channels
  size_t h, w, kernel, stride, dilation, pad;
  size_t images = 1;
  size_t l2_bytes = 16384;
};

std::vector<float> Normals(size_t n, unsigned seed) {
  std::mt19937 rng(seed);
  NormalNumbers<float> normal;
  std::vector<float> v(n);
  for (float& x : v) x = normal(rng);
  return v;
}

// One image through a 1x1 convolution with bias; pixels lie `stride` numbers apart.
std::vector<double> Pointwise(const std::vector<double>& x, size_t pixels, const std::vector<float>& w,
                              const std::vector<float>& bias, size_t in, size_t out) {
  std::vector<double> y(pixels * out);
  for (size_t p = 0; p < pixels; ++p) {
    for (size_t o = 0; o < out; ++o) {
      double sum = static_cast<double>(bias[o]);
      for (size_t i = 0; i < in; ++i) sum += x[p * in + i] * static_cast<double>(w[o * in + i]);
      y[p * out + o] = sum;
    }
  }
  return y;
}

DwSelectOptions DwOptions() {
  DwSelectOptions options;
  options.cpu = HostCpu().facts();
  return options;
}

class Chain {
 public:
  explicit Chain(const Case& c) : c_(c) {
    w0_ = Normals(c.middle * c.in, 1), b0_ = Normals(c.middle, 2);
    w1_ = Normals(c.middle * c.kernel * c.kernel, 3), b1_ = Normals(c.middle, 4);
    w2_ = Normals(c.out * c.middle, 5), b2_ = Normals(c.out, 6);
    cpu_ = HostCpu().facts();
    cpu_.l2_bytes = static_cast<uint32_t>(c.l2_bytes);
    d_ = {.channels = c.middle, .kernel_h = c.kernel, .kernel_w = c.kernel, .stride_h = c.stride, .stride_w = c.stride};
    d_.dilation_h = d_.dilation_w = c.dilation;
    d_.pad_top = d_.pad_left = d_.pad_bottom = d_.pad_right = c.pad;
    const auto taps = static_cast<ptrdiff_t>(c.kernel * c.kernel * 4);
    depthwise_ =
        DwConv::Create(d_, DwOptions(), {w1_.data(), taps, 0, static_cast<ptrdiff_t>(c.kernel * 4), 4}).value();
    if (c.before) before_ = Multiplier(w0_, c.in, c.middle);
    if (c.after) after_ = Multiplier(w2_, c.middle, c.out);
    out_h_ = depthwise_.OutHeight(c.h), out_w_ = depthwise_.OutWidth(c.w);
    in_channels_ = c.before ? c.in : c.middle, out_channels_ = c.after ? c.out : c.middle;
    x_ = Normals(c.images * c.h * c.w * in_channels_, 7);
    residual_ = Normals(c.images * out_h_ * out_w_ * out_channels_, 8);
  }

  std::vector<float> Run(Executor* executor, ConvChainPlan* used = nullptr) const {
    const ConvChain chain(c_.before ? &before_ : nullptr, &depthwise_, c_.after ? &after_ : nullptr, cpu_);
    const EpilogueOp before[] = {{.kind = EpilogueKind::kAddVectorN, .data = b0_.data()},
                                 {.kind = EpilogueKind::kClamp, .a = -1, .b = 1}};
    const EpilogueOp middle[] = {{.kind = EpilogueKind::kAddVectorN, .data = b1_.data()},
                                 {.kind = EpilogueKind::kSigmoid}};  // no row fuses it
    const EpilogueOp plain[] = {
        {.kind = EpilogueKind::kAddVectorN, .data = c_.after ? b2_.data() : b1_.data()},
        {.kind = EpilogueKind::kAddMatrix, .data = residual_.data(), .row_stride = out_channels_ * 4}};
    ConvChainArgs a;
    a.images = c_.images, a.in_h = c_.h, a.in_w = c_.w;
    GuardedBuffer input(x_.size() * 4), dst(residual_.size() * 4);
    std::copy(x_.begin(), x_.end(), reinterpret_cast<float*>(input.data()));
    a.input = input.data();
    a.in_pixel_stride = static_cast<ptrdiff_t>(in_channels_ * 4);
    a.in_image_stride = static_cast<ptrdiff_t>(c_.h * c_.w * in_channels_ * 4);
    a.dst = dst.data();
    a.dst_pixel_stride = static_cast<ptrdiff_t>(out_channels_ * 4);
    a.dst_image_stride = static_cast<ptrdiff_t>(out_h_ * out_w_ * out_channels_ * 4);
    a.before = {before, 2};
    a.depthwise = {middle, 2};
    ConvChainEpilogue& last = c_.after ? a.after : a.depthwise;
    last = {plain, 2};
    last.image_strides[1] = a.dst_image_stride;
    const ConvChainPlan plan = chain.Plan(a, executor ? executor->concurrency() : 1);
    if (used) *used = plan;
    GuardedBuffer workspace(plan.workspace_bytes);
    const RunResources resources{
        .executor = executor, .workspace = workspace.data(), .workspace_bytes = plan.workspace_bytes};
    EXPECT_TRUE(chain.Run(plan, a, resources).ok());
    const auto* y = reinterpret_cast<const float*>(dst.data());
    return {y, y + residual_.size()};
  }

  std::vector<double> Expected() const {
    std::vector<double> result;
    for (size_t image = 0; image < c_.images; ++image) {
      const auto begin = x_.begin() + static_cast<ptrdiff_t>(image * c_.h * c_.w * in_channels_);
      std::vector<double> x(begin, begin + static_cast<ptrdiff_t>(c_.h * c_.w * in_channels_));
      if (c_.before) {
        x = Pointwise(x, c_.h * c_.w, w0_, b0_, c_.in, c_.middle);
        for (double& v : x) v = std::min(1.0, std::max(-1.0, v));
      }
      x = Depthwise(x);
      if (c_.after) {
        for (double& v : x) v = 1 / (1 + std::exp(-v));
        x = Pointwise(x, out_h_ * out_w_, w2_, b2_, c_.middle, c_.out);
      }
      for (double v : x) result.push_back(v + static_cast<double>(residual_[result.size()]));
    }
    return result;
  }

 private:
  Conv Multiplier(const std::vector<float>& w, size_t in, size_t out) const {
    InlineExecutor executor;
    ConvProblem p;
    p.in_channels = in, p.out_channels = out;
    SelectOptions options;
    options.cpu = HostCpu().facts();
    return Conv::Create(p, options, {w.data(), static_cast<ptrdiff_t>(in * 4), 4, 4, 4}, {executor}).value();
  }

  std::vector<double> Depthwise(const std::vector<double>& x) const {
    std::vector<double> y(out_h_ * out_w_ * c_.middle);
    for (size_t i = 0; i < y.size(); ++i) {
      const size_t c = i % c_.middle, ox = i / c_.middle % out_w_, oy = i / c_.middle / out_w_;
      y[i] = static_cast<double>(b1_[c]);
      for (size_t t = 0; t < c_.kernel * c_.kernel; ++t) {
        const size_t iy = oy * c_.stride + t / c_.kernel * c_.dilation,
                     ix = ox * c_.stride + t % c_.kernel * c_.dilation;
        if (iy < c_.pad || ix < c_.pad || iy - c_.pad >= c_.h || ix - c_.pad >= c_.w) continue;
        y[i] += x[((iy - c_.pad) * c_.w + ix - c_.pad) * c_.middle + c] *
                static_cast<double>(w1_[c * c_.kernel * c_.kernel + t]);
      }
    }
    return y;
  }

  Case c_;
  CpuFacts cpu_;
  DwConvProblem d_;
  DwConv depthwise_;
  Conv before_, after_;
  std::vector<float> w0_, b0_, w1_, b1_, w2_, b2_, x_, residual_;
  size_t out_h_ = 0, out_w_ = 0, in_channels_ = 0, out_channels_ = 0;
};

constexpr Case kCases[] = {
    {true, true, 16, 40, 24, 20, 19, 3, 1, 1, 1},
    {true, true, 5, 33, 7, 21, 17, 3, 2, 1, 1, 2},
    {true, false, 8, 48, 0, 23, 9, 5, 2, 1, 2},
    {false, true, 0, 32, 16, 24, 24, 3, 1, 1, 1},
    {true, true, 4, 20, 6, 15, 12, 3, 1, 3, 3},                // dilated: a strip reads far
    {true, true, 4, 20, 6, 9, 7, 2, 3, 1, 0, 1, 2048},         // rows that no output reads
    {true, true, 4, 20, 6, 3, 5, 3, 1, 1, 4},                  // rows of padding alone
    {true, true, 16, 64, 16, 12, 12, 3, 1, 1, 1, 1, 64},       // a row at a time
    {true, true, 16, 64, 16, 12, 12, 3, 1, 1, 1, 1, 1 << 20},  // one strip
    {true, true, 24, 144, 24, 56, 56, 3, 1, 1, 1, 1, 1 << 19},
    {true, true, 24, 48, 24, 40, 22, 3, 1, 1, 1},  // products that end in tiles of one or two rows
    {true, false, 24, 32, 0, 40, 22, 5, 1, 1, 2},
};

TEST(ConvChain, GivesWhatItsConvolutionsGive) {
  for (const Case& c : kCases) {
    const Chain chain(c);
    ConvChainPlan plan;
    const std::vector<float> got = chain.Run(nullptr, &plan);
    const std::vector<double> want = chain.Expected();
    ASSERT_EQ(got.size(), want.size());
    for (size_t i = 0; i < want.size(); ++i) {
      ASSERT_NEAR(static_cast<double>(got[i]), want[i], 2e-5 * (1 + std::fabs(want[i])) * std::sqrt(c.middle))
          << "case " << &c - kCases << ", element " << i;
    }
    if (c.l2_bytes <= 16384) {
      EXPECT_GT(plan.strips, 1u) << "case " << &c - kCases;
    }
    if (c.l2_bytes == 1 << 20) {
      EXPECT_EQ(plan.strips, 1u);
    }
    if (c.l2_bytes == 64) {
      EXPECT_EQ(plan.rows, 1u);
    }
  }
}

TEST(ConvChain, ThreadsGiveTheSameBits) {
  for (const Case& c : kCases) {
    const std::vector<float> want = Chain(c).Run(nullptr);
    ThreadPool pool({.threads = 2});
    HostileExecutor hostile(5, 4);
    EXPECT_EQ(Chain(c).Run(&pool), want) << c.h << " rows";
    EXPECT_EQ(Chain(c).Run(&hostile), want) << c.h << " rows";
  }
}

TEST(ConvChain, SaysThatTheWorkspaceIsTooSmall) {
  const Case c = kCases[0];
  InlineExecutor executor;
  const std::vector<float> w(c.middle * 9, 1.0f);
  const DwConv depthwise =
      DwConv::Create({.channels = c.middle, .kernel_h = 3, .kernel_w = 3}, DwOptions(), {w.data(), 36, 0, 12, 4})
          .value();
  const std::vector<float> w2(c.middle * 4, 1.0f);
  SelectOptions options;
  options.cpu = HostCpu().facts();
  ConvProblem p;
  p.in_channels = c.middle, p.out_channels = 4;
  const Conv after =
      Conv::Create(p, options, {w2.data(), static_cast<ptrdiff_t>(c.middle * 4), 4, 4, 4}, {executor}).value();
  const ConvChain chain(nullptr, &depthwise, &after, HostCpu().facts());
  ConvChainArgs args;
  args.in_h = args.in_w = 8;
  const ConvChainPlan plan = chain.Plan(args, 1);
  EXPECT_EQ(chain.Run(plan, args, {.workspace_bytes = plan.workspace_bytes - 1}).code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace quern::kernels
