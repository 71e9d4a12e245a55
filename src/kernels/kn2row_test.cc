// Convolution by kn2row against plain loops in double precision, its error against that of a sequential sum, and what
// it is chosen for.
#include "kernels/kn2row.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/cpu.h"
#include "base/random_numbers.h"
#include "kernels/convolution.h"
#include "parallel/hostile_executor.h"
#include "parallel/thread_pool.h"
#include "ukernel/test_depth.h"

namespace quern::kernels {
namespace {

using ukernel::EpilogueKind;

struct Case {
  size_t in, out, h, w;
  size_t kernel_h = 3, kernel_w = 3;
  size_t pad_top = 1, pad_left = 1, pad_bottom = 1, pad_right = 1;
  size_t dilation_h = 1, dilation_w = 1;
  size_t images = 1, slices = 1;
  size_t in_gap = 0, line_gap = 0, out_gap = 0;  // floats per pixel; per line

  size_t planes() const { return images * slices; }
};

std::ostream& operator<<(std::ostream& os, const Case& c) {
  return os << c.in << " -> " << c.out << ", " << c.kernel_h << "x" << c.kernel_w << " of " << c.h << "x" << c.w
            << ", dilations " << c.dilation_h << ", " << c.dilation_w;
}

ConvProblem ProblemOf(const Case& c) {
  ConvProblem p;
  p.in_channels = c.in;
  p.out_channels = c.out;
  p.kernel_h = c.kernel_h;
  p.kernel_w = c.kernel_w;
  p.dilation_h = c.dilation_h;
  p.dilation_w = c.dilation_w;
  p.pad_top = c.pad_top;
  p.pad_left = c.pad_left;
  p.pad_bottom = c.pad_bottom;
  p.pad_right = c.pad_right;
  return p;
}

class Runner {
 public:
  explicit Runner(const Case& c, uint32_t seed, CpuFacts cpu = HostCpu().facts())
      : c_(c),
        cpu_(cpu),
        pixel_(c.in + c.in_gap),
        line_(c.w * pixel_ + c.line_gap),
        out_pixel_(c.out + c.out_gap),
        out_h_(OutExtent(c.h, c.pad_top, c.pad_bottom, c.kernel_h, c.dilation_h, 1)),
        out_w_(OutExtent(c.w, c.pad_left, c.pad_right, c.kernel_w, c.dilation_w, 1)) {
    std::mt19937 random(seed);
    NormalNumbers<float> normal;
    const auto draw = [&](std::vector<float>& v, size_t n) {
      v.resize(n);
      for (float& e : v) e = normal(random);
    };
    draw(x_, c.planes() * c.h * line_);
    draw(w_, c.out * c.in * c.kernel_h * c.kernel_w);
    draw(bias_, c.out);
    draw(residual_, c.planes() * pixels() * c.out);
  }

  size_t pixels() const { return out_h_ * out_w_; }
  ConvWeights weights() const {
    const auto taps = static_cast<ptrdiff_t>(c_.kernel_h * c_.kernel_w * sizeof(float));
    return {.data = w_.data(),
            .o_stride = static_cast<ptrdiff_t>(c_.in) * taps,
            .i_stride = taps,
            .h_stride = static_cast<ptrdiff_t>(c_.kernel_w * sizeof(float)),
            .w_stride = sizeof(float)};
  }

  // f(o, pixel of all, sum, sequential float sum, sum of magnitudes) for each output.
  template <class F>
  void ForEachOutput(F f) const {
    for (size_t at = 0; at < c_.planes() * pixels(); ++at) {
      const size_t image = at / pixels(), y = at % pixels() / out_w_, x = at % out_w_;
      for (size_t o = 0; o < c_.out; ++o) {
        double sum = 0, size = 0;
        float sequential = 0;
        for (size_t r = 0; r < c_.kernel_h; ++r) {
          for (size_t s = 0; s < c_.kernel_w; ++s) {
            const size_t row = y + r * c_.dilation_h - c_.pad_top, column = x + s * c_.dilation_w - c_.pad_left;
            if (row >= c_.h || column >= c_.w) continue;
            for (size_t i = 0; i < c_.in; ++i) {
              const float value = x_[(image * c_.h + row) * line_ + column * pixel_ + i];
              const float weight = w_[((o * c_.in + i) * c_.kernel_h + r) * c_.kernel_w + s];
              sum += static_cast<double>(value) * static_cast<double>(weight);
              size += std::fabs(static_cast<double>(value) * static_cast<double>(weight));
              sequential = std::fma(value, weight, sequential);
            }
          }
        }
        f(o, at, sum, sequential, size);
      }
    }
  }

  // With bias, residual and Relu, or the convolution alone.
  std::vector<float> Run(bool epilogue, Executor* executor) const {
    SelectOptions options;
    options.cpu = cpu_;
    InlineExecutor inline_executor;
    const Result<Kn2RowConv> conv = Kn2RowConv::Create(ProblemOf(c_), options, weights(), inline_executor);
    EXPECT_TRUE(conv.ok()) << conv.status().message();
    std::vector<float> y(c_.planes() * pixels() * out_pixel_, 77.0f);
    const EpilogueOp ops[] = {
        {.kind = EpilogueKind::kAddVectorN, .data = bias_.data()},
        {.kind = EpilogueKind::kAddMatrix, .data = residual_.data(), .row_stride = c_.out * sizeof(float)},
        {.kind = EpilogueKind::kClamp, .a = 0, .b = INFINITY},
    };
    const auto bytes = [](size_t floats) { return static_cast<ptrdiff_t>(floats * sizeof(float)); };
    ConvArgs args;
    args.images = c_.images;
    args.in_d = c_.slices;
    args.in_h = c_.h;
    args.in_w = c_.w;
    args.input = x_.data();
    args.in_pixel_stride = bytes(pixel_);
    args.in_row_stride = bytes(line_);
    args.in_image_stride = bytes(c_.slices * c_.h * line_);
    args.dst = y.data();
    args.dst_pixel_stride = bytes(out_pixel_);
    args.dst_image_stride = bytes(c_.slices * pixels() * out_pixel_);
    if (epilogue) {
      args.ops = ops;
      args.op_count = 3;
      args.op_image_strides[1] = bytes(c_.slices * pixels() * c_.out);
    }
    const Kn2RowPlan plan = conv->Plan(args, executor ? executor->concurrency() : 1);
    AlignedBuffer workspace = AlignedBuffer::Allocate(plan.workspace_bytes).value();
    std::memset(workspace.data(), 0xff, workspace.size_bytes());
    RunResources resources{
        .executor = executor, .workspace = workspace.data(), .workspace_bytes = plan.workspace_bytes};
    EXPECT_TRUE(conv->Run(plan, args, resources).ok());
    if (plan.workspace_bytes) {
      --resources.workspace_bytes;
      EXPECT_EQ(conv->Run(plan, args, resources).code(), StatusCode::kInvalidArgument);
    }
    return y;
  }

  void Check(const std::vector<float>& y, bool epilogue) const {
    ForEachOutput([&](size_t o, size_t at, double sum, float, double size) {
      double want = sum;
      if (epilogue) {
        want = std::fmax(0.0, sum + static_cast<double>(bias_[o]) + static_cast<double>(residual_[at * c_.out + o]));
      }
      ASSERT_NEAR(y[at * out_pixel_ + o], want, 1e-6 * (size + 1)) << "pixel " << at << ", channel " << o;
    });
    for (size_t at = 0; at < c_.planes() * pixels(); ++at) {
      for (size_t o = c_.out; o < out_pixel_; ++o) ASSERT_EQ(y[at * out_pixel_ + o], 77.0f) << "a gap was written";
    }
  }

 private:
  const Case c_;
  const CpuFacts cpu_;
  const size_t pixel_, line_, out_pixel_, out_h_, out_w_;
  std::vector<float> x_, w_, bias_, residual_;
};

std::vector<Case> Cases() {
  return {
      {.in = 16, .out = 3, .h = 40, .w = 33},
      {.in = 5, .out = 1, .h = 9, .w = 7},
      {.in = 33, .out = 4, .h = 1, .w = 1},
      {.in = 1, .out = 2, .h = 300, .w = 2},
      {.in = 12, .out = 5, .h = 21, .w = 300, .images = 2},
      {.in = 8, .out = 9, .h = 14, .w = 15, .in_gap = 3, .out_gap = 5},
      {.in = 8, .out = 3, .h = 14, .w = 15, .images = 2, .in_gap = 1, .line_gap = 7, .out_gap = 2},
      {.in = 7, .out = 3, .h = 11, .w = 6, .images = 2, .slices = 3},
      {.in = 6, .out = 2, .h = 12, .w = 13, .kernel_h = 5, .kernel_w = 1, .pad_left = 0, .pad_right = 0},
      {.in = 6, .out = 2, .h = 12, .w = 13, .kernel_h = 1, .kernel_w = 4, .pad_top = 0, .pad_bottom = 0},
      {.in = 9,
       .out = 3,
       .h = 30,
       .w = 31,
       .kernel_h = 7,
       .kernel_w = 7,
       .pad_top = 3,
       .pad_left = 3,
       .pad_bottom = 3,
       .pad_right = 3},
      {.in = 9,
       .out = 1,
       .h = 20,
       .w = 17,
       .pad_top = 4,
       .pad_left = 3,
       .pad_bottom = 4,
       .pad_right = 3,
       .dilation_h = 4,
       .dilation_w = 3},
      {.in = 4, .out = 2, .h = 5, .w = 4, .pad_top = 9, .pad_left = 7, .pad_bottom = 4, .pad_right = 5},
      {.in = 4,
       .out = 2,
       .h = 2,
       .w = 3,
       .kernel_h = 2,
       .kernel_w = 2,
       .pad_top = 0,
       .pad_left = 0,
       .pad_bottom = 0,
       .pad_right = 0},
      {.in = 4, .out = 2, .h = 2, .w = 2, .kernel_h = 5, .kernel_w = 5},
      {.in = 4, .out = 2, .h = 0, .w = 6, .pad_top = 2, .pad_bottom = 2},
  };
}

TEST(Kn2Row, IsTheConvolution) {
  std::vector<CpuFacts> cpus = {HostCpu().facts()};
  if (ukernel::Depth() != ukernel::TestDepth::kBrief) cpus.push_back({});
  for (const Case& c : Cases()) {
    SCOPED_TRACE(testing::Message() << c);
    for (const CpuFacts& cpu : cpus) {
      const Runner runner(c, 3, cpu);
      runner.Check(runner.Run(false, nullptr), false);
      runner.Check(runner.Run(true, nullptr), true);
    }
  }
}

TEST(Kn2Row, ThreadsChangeNoBit) {
  ThreadPool pool({.threads = 3});
  HostileExecutor hostile(4);
  for (const Case& c : Cases()) {
    const Runner runner(c, 5);
    const std::vector<float> alone = runner.Run(true, nullptr);
    for (Executor* executor : {static_cast<Executor*>(&pool), static_cast<Executor*>(&hostile)}) {
      EXPECT_EQ(runner.Run(true, executor), alone) << c;
    }
  }
}

TEST(Kn2Row, ErrorIsAtMostThatOfASequentialSum) {
  for (const size_t channels : {8, 32, 128}) {
    std::vector<double> ratios;
    for (uint32_t seed = 0; seed < 9; ++seed) {
      const Runner runner({.in = channels, .out = 3, .h = 12, .w = 12}, seed);
      const std::vector<float> y = runner.Run(false, nullptr);
      double ours = 0, sequential = 0;
      runner.ForEachOutput([&](size_t o, size_t at, double sum, float s, double) {
        ours += std::pow(static_cast<double>(y[at * 3 + o]) - sum, 2);
        sequential += std::pow(static_cast<double>(s) - sum, 2);
      });
      ratios.push_back(std::sqrt(ours / sequential));
    }
    std::nth_element(ratios.begin(), ratios.begin() + 4, ratios.end());
    EXPECT_LE(ratios[4], 1.0) << channels << " channels";
  }
}

TEST(Kn2Row, ServesFewChannelsAndSaysWhyNot) {
  SelectOptions options;
  options.cpu = CpuFromSpec("haswell").value().facts();
  const auto why = [&](const Case& c, auto change) {
    ConvProblem p = ProblemOf(c);
    p.expected_pixels = c.h * c.w;
    ConvWeights weights = Runner(c, 1).weights();
    change(p, weights);
    return Kn2RowConv::RejectionReason(p, options, weights);
  };
  const auto nothing = [](ConvProblem&, ConvWeights&) {};
  const Case few{.in = 64, .out = 3, .h = 64, .w = 64};
  EXPECT_EQ(why(few, nothing), "");
  EXPECT_NE(why({.in = 64, .out = 32, .h = 64, .w = 64}, nothing).find(", the direct algorithm"), std::string::npos);
  EXPECT_EQ(why({.in = 8, .out = 33, .h = 8, .w = 8}, nothing), "more than 32 channels");
  EXPECT_EQ(why(few, [](ConvProblem& p, ConvWeights&) { p.stride_w = 2; }), "strides");
  EXPECT_EQ(why(few, [](ConvProblem& p, ConvWeights&) { p.groups = 2; }), "groups");
  EXPECT_EQ(why(few, [](ConvProblem& p, ConvWeights&) { p.kernel_h = p.kernel_w = 1; }), "a kernel of one tap");
  EXPECT_EQ(why(few, [](ConvProblem& p, ConvWeights&) { p.kernel_h = p.kernel_w = 12; }), "more than 128 taps");
  EXPECT_EQ(why(few, [](ConvProblem& p, ConvWeights&) { p.kernel_d = 3; }), "a kernel of three dimensions");
  EXPECT_EQ(why(few, [](ConvProblem& p, ConvWeights&) { p.rhs = Format::kF16; }), "types other than float32");
  EXPECT_EQ(why(few, [](ConvProblem&, ConvWeights& w) { w.data = nullptr; }), "weights that come with the run");

  InlineExecutor executor;
  const Runner runner(few, 1);
  ConvProblem p = ProblemOf(few);
  p.expected_pixels = few.h * few.w;
  const auto chosen = Convolution::Create(p, true, options, runner.weights(), executor);
  ASSERT_TRUE(chosen.ok()) << chosen.status().message();
  EXPECT_EQ(chosen->algorithm(), ConvAlgorithm::kKn2Row);
  EXPECT_EQ(chosen->kn2row().Saving(), "one product for 9 taps of 3 channels");
  EXPECT_EQ(chosen->packed_bytes(), chosen->kn2row().weights().packed_bytes());
  p.stride_w = 2;
  EXPECT_EQ(Kn2RowConv::Create(p, options, runner.weights(), executor).status().message(),
            "convolution by kn2row: strides");
}

}  // namespace
}  // namespace quern::kernels
