// Winograd convolution against plain loops in double precision, and its error against that of a sequential sum.
#include "kernels/winograd.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/cpu.h"
#include "base/random_numbers.h"
#include "parallel/hostile_executor.h"
#include "parallel/thread_pool.h"
#include "ukernel/test_depth.h"

namespace quern::kernels {
namespace {

using ukernel::EpilogueKind;

struct Case {
  size_t in, out, h, w;
  size_t pad_top = 1, pad_left = 1, pad_bottom = 1, pad_right = 1;
  size_t dilation = 1, images = 1;
  size_t in_gap = 0, out_gap = 0;  // floats per pixel
  size_t slices = 1;               // of each of the images, which are volumes

  size_t planes() const { return images * slices; }
};

ConvProblem ProblemOf(const Case& c) {
  ConvProblem p;
  p.in_channels = c.in;
  p.out_channels = c.out;
  p.kernel_h = p.kernel_w = 3;
  p.dilation_h = p.dilation_w = c.dilation;
  p.pad_top = c.pad_top;
  p.pad_left = c.pad_left;
  p.pad_bottom = c.pad_bottom;
  p.pad_right = c.pad_right;
  return p;
}

class Runner {
 public:
  // Of tiles of `tile` outputs along a side.
  Runner(const Case& c, size_t tile, uint32_t seed, CpuFacts cpu = HostCpu().facts()) : c_(c), tile_(tile), cpu_(cpu) {
    std::mt19937 random(seed);
    NormalNumbers<float> normal;
    pixel_ = c.in + c.in_gap;
    out_pixel_ = c.out + c.out_gap;
    const ConvProblem p = ProblemOf(c);
    out_h_ = OutExtent(c.h, p.pad_top, p.pad_bottom, 3, c.dilation, 1);
    out_w_ = OutExtent(c.w, p.pad_left, p.pad_right, 3, c.dilation, 1);
    for (auto* v : {&x_, &w_, &bias_, &residual_}) v->clear();
    const auto draw = [&](std::vector<float>& v, size_t n) {
      v.resize(n);
      for (float& e : v) e = normal(random);
    };
    draw(x_, c.planes() * c.h * c.w * pixel_);
    draw(w_, c.out * c.in * 9);
    draw(bias_, c.out);
    draw(residual_, c.planes() * out_h_ * out_w_ * c.out);
  }

  void Put(size_t image, size_t y, size_t x, size_t channel, float value) {
    x_[((image * c_.h + y) * c_.w + x) * pixel_ + channel] = value;
  }
  void MakeInputsPositive() {
    for (float& e : x_) e = std::fmax(e, 0.0f);
  }
  size_t pixels() const { return out_h_ * out_w_; }
  float Weight(size_t o, size_t i, size_t t) const { return w_[(o * c_.in + i) * 9 + t]; }
  // Null outside of the image.
  const float* Input(size_t image, size_t y, size_t x) const {  // y, x in the padded image
    const size_t row = y - c_.pad_top, col = x - c_.pad_left;
    return row < c_.h && col < c_.w ? x_.data() + ((image * c_.h + row) * c_.w + col) * pixel_ : nullptr;
  }

  // f(o, pixel, image, sum, sequential float sum, sum of magnitudes) for each output.
  template <class F>
  void ForEachOutput(F f) const {
    for (size_t image = 0; image < c_.planes(); ++image) {
      for (size_t p = 0; p < pixels(); ++p) {
        for (size_t o = 0; o < c_.out; ++o) {
          double sum = 0, size = 0;
          float sequential = 0;
          for (size_t t = 0; t < 9; ++t) {
            const float* x = Input(image, p / out_w_ + t / 3 * c_.dilation, p % out_w_ + t % 3 * c_.dilation);
            for (size_t i = 0; x && i < c_.in; ++i) {
              const float w = Weight(o, i, t);
              sum += static_cast<double>(x[i]) * static_cast<double>(w);
              size += std::fabs(static_cast<double>(x[i]) * static_cast<double>(w));
              sequential = std::fma(x[i], w, sequential);
            }
          }
          f(o, p, image, sum, sequential, size);
        }
      }
    }
  }

  // With bias, residual and Relu, or the convolution alone.
  std::vector<float> Run(bool epilogue, Executor* executor, DriverCounters* counters = nullptr) const {
    SelectOptions options;
    options.cpu = cpu_;
    InlineExecutor inline_executor;
    const ConvWeights weights{.data = w_.data(),
                              .o_stride = static_cast<ptrdiff_t>(c_.in * 36),
                              .i_stride = 36,
                              .h_stride = 12,
                              .w_stride = 4};
    Result<WinogradConv> conv = WinogradConv::Create(ProblemOf(c_), options, weights, inline_executor, tile_);
    EXPECT_TRUE(conv.ok()) << conv.status().message();
    std::vector<float> y(c_.planes() * pixels() * out_pixel_, 77.0f);
    const EpilogueOp ops[] = {
        {.kind = EpilogueKind::kAddVectorN, .data = bias_.data()},
        {.kind = EpilogueKind::kAddMatrix, .data = residual_.data(), .row_stride = c_.out * 4},
        {.kind = EpilogueKind::kClamp, .a = 0, .b = INFINITY},
    };
    ConvArgs args;
    args.images = c_.images;
    args.in_d = c_.slices;
    args.in_h = c_.h;
    args.in_w = c_.w;
    args.input = x_.data();
    args.in_pixel_stride = static_cast<ptrdiff_t>(pixel_ * 4);
    args.in_row_stride = static_cast<ptrdiff_t>(c_.w * pixel_ * 4);
    args.in_image_stride = static_cast<ptrdiff_t>(c_.slices * c_.h * c_.w * pixel_ * 4);
    args.dst = y.data();
    args.dst_pixel_stride = static_cast<ptrdiff_t>(out_pixel_ * 4);
    args.dst_image_stride = static_cast<ptrdiff_t>(c_.slices * pixels() * out_pixel_ * 4);
    if (epilogue) {
      args.ops = ops;
      args.op_count = 3;
      args.op_image_strides[1] = static_cast<ptrdiff_t>(c_.slices * pixels() * c_.out * 4);
    }
    const WinogradPlan plan = conv->Plan(args, executor ? executor->concurrency() : 1);
    AlignedBuffer workspace = AlignedBuffer::Allocate(plan.workspace_bytes).value();
    std::memset(workspace.data(), 0xff, workspace.size_bytes());
    const RunResources resources{.executor = executor,
                                 .workspace = workspace.data(),
                                 .workspace_bytes = plan.workspace_bytes,
                                 .counters = counters};
    EXPECT_TRUE(conv->Run(plan, args, resources).ok());
    return y;
  }

  // Within a few roundings of the window's sum of magnitudes; of 3 x 3 outputs, of the largest near by: in a tile the
  // numbers of one window have a part in the rounding of the others.
  void Check(const std::vector<float>& y, bool epilogue) const {
    std::vector<double> sizes(c_.planes() * pixels() * c_.out);
    ForEachOutput([&](size_t o, size_t p, size_t image, double, float, double size) {
      sizes[(image * pixels() + p) * c_.out + o] = size;
    });
    const size_t reach = tile_ == 2 ? 0 : (tile_ - 1) * c_.dilation;
    ForEachOutput([&](size_t o, size_t p, size_t image, double sum, float, double size) {
      const size_t at = image * pixels() + p, row = p / out_w_, col = p % out_w_;
      for (size_t r = row - std::min(row, reach); r <= std::min(out_h_ - 1, row + reach); ++r) {
        for (size_t s = col - std::min(col, reach); s <= std::min(out_w_ - 1, col + reach); ++s) {
          size = std::fmax(size, sizes[(image * pixels() + r * out_w_ + s) * c_.out + o]);
        }
      }
      double want = sum;
      if (epilogue) {
        want = std::fmax(0.0, sum + static_cast<double>(bias_[o]) + static_cast<double>(residual_[at * c_.out + o]));
      }
      ASSERT_NEAR(y[at * out_pixel_ + o], want, 2e-6 * (size + 1)) << "pixel " << p << ", channel " << o;
    });
    for (size_t at = 0; at < c_.planes() * pixels(); ++at) {
      for (size_t o = c_.out; o < out_pixel_; ++o) ASSERT_EQ(y[at * out_pixel_ + o], 77.0f) << "a gap was written";
    }
  }

 private:
  const Case c_;
  const size_t tile_;
  const CpuFacts cpu_;
  size_t pixel_, out_pixel_, out_h_, out_w_;
  std::vector<float> x_, w_, bias_, residual_;
};

// Those of 3 x 3 take the channels in halves.
std::vector<size_t> TilesFor(const Case& c) { return c.in % 2 ? std::vector<size_t>{2} : std::vector<size_t>{2, 3}; }

std::vector<Case> Cases() {
  return {
      {.in = 16, .out = 16, .h = 8, .w = 8},
      {.in = 5, .out = 3, .h = 7, .w = 5},
      {.in = 40, .out = 33, .h = 1, .w = 1},
      {.in = 17, .out = 64, .h = 14, .w = 13, .images = 3},
      {.in = 64, .out = 20, .h = 6, .w = 9, .pad_top = 0, .pad_left = 2, .pad_bottom = 1, .pad_right = 0},
      {.in = 24, .out = 24, .h = 3, .w = 3, .pad_top = 0, .pad_left = 0, .pad_bottom = 0, .pad_right = 0},
      {.in = 24, .out = 24, .h = 5, .w = 4, .pad_top = 9, .pad_left = 7, .pad_bottom = 4, .pad_right = 5},
      {.in = 32,
       .out = 16,
       .h = 11,
       .w = 10,
       .pad_top = 2,
       .pad_left = 2,
       .pad_bottom = 2,
       .pad_right = 2,
       .dilation = 2},
      {.in = 19,
       .out = 18,
       .h = 9,
       .w = 7,
       .pad_top = 5,
       .pad_left = 5,
       .pad_bottom = 5,
       .pad_right = 5,
       .dilation = 5},
      {.in = 16, .out = 16, .h = 6, .w = 6, .images = 2, .in_gap = 3, .out_gap = 5},
      {.in = 256, .out = 300, .h = 14, .w = 14},
      {.in = 17, .out = 20, .h = 7, .w = 10, .images = 2, .in_gap = 3, .out_gap = 5, .slices = 3},
      {.in = 18, .out = 20, .h = 7, .w = 10, .images = 2, .in_gap = 3, .out_gap = 5, .slices = 3},
  };
}

TEST(Winograd, IsTheConvolution) {
  const bool brief = ukernel::Depth() == ukernel::TestDepth::kBrief;
  std::vector<CpuFacts> cpus = {HostCpu().facts()};
  if (!brief) cpus.push_back({});
  for (const Case& c : Cases()) {
    SCOPED_TRACE(testing::Message() << c.in << " -> " << c.out << ", " << c.h << "x" << c.w << ", dilation "
                                    << c.dilation);
    for (const CpuFacts& cpu : cpus) {
      for (const size_t tile : TilesFor(c)) {
        const Runner runner(c, tile, 3, cpu);
        if (!brief) runner.Check(runner.Run(false, nullptr), false);
        runner.Check(runner.Run(true, nullptr), true);
      }
    }
  }
}

TEST(Winograd, ThreadsChangeNoBit) {
  ThreadPool pool({.threads = 3});
  HostileExecutor hostile(4);
  for (const Case& c : Cases()) {
    for (const size_t tile : TilesFor(c)) {
      const Runner runner(c, tile, 5);
      const std::vector<float> alone = runner.Run(true, nullptr);
      for (Executor* executor : {static_cast<Executor*>(&pool), static_cast<Executor*>(&hostile)}) {
        const std::vector<float> shared = runner.Run(true, executor);
        for (size_t i = 0; i < alone.size(); ++i) ASSERT_EQ(alone[i], shared[i]) << i;
      }
    }
  }
}

// What rows of precision fp32 must hold (their median error over seeds is at most the sequential sum's), over the
// channels that networks have, of normal numbers and of those that a Relu leaves.
void ExpectErrorAtMostOfASequentialSum(size_t tile, size_t side, std::initializer_list<size_t> all_channels,
                                       const CpuFacts& cpu) {
  const uint32_t seeds = ukernel::Depth() == ukernel::TestDepth::kBrief ? 7 : 15;
  for (const size_t channels : all_channels) {
    if (channels < WinogradConv::LeastChannels(tile, side, cpu)) continue;
    for (const bool positive : {false, true}) {
      std::vector<double> ratios;
      for (uint32_t seed = 0; seed < seeds; ++seed) {
        Runner runner({.in = channels, .out = 16, .h = side, .w = side}, tile, seed, cpu);
        if (positive) runner.MakeInputsPositive();
        const std::vector<float> y = runner.Run(false, nullptr);
        double ours = 0, sequential = 0;
        runner.ForEachOutput([&](size_t o, size_t p, size_t, double sum, float s, double) {
          ours += std::pow(static_cast<double>(y[p * 16 + o]) - sum, 2);
          sequential += std::pow(static_cast<double>(s) - sum, 2);
        });
        ratios.push_back(std::sqrt(ours / sequential));
      }
      const auto median = ratios.begin() + seeds / 2;
      std::nth_element(ratios.begin(), median, ratios.end());
      EXPECT_LE(*median, 1.0) << channels << " channels, " << side << " pixels, tiles of " << tile
                              << (positive ? ", positive" : "");
      testing::Test::RecordProperty("error_ratio_" + std::to_string(tile) + (positive ? "_positive_" : "_normal_") +
                                        std::to_string(channels) + "_at_" + std::to_string(side),
                                    std::to_string(*median));
    }
  }
}

TEST(Winograd, ErrorIsAtMostThatOfASequentialSum) {
  const CpuFacts host = HostCpu().facts();
  ExpectErrorAtMostOfASequentialSum(2, 8, {32, 64, 128, 256}, host);
  ExpectErrorAtMostOfASequentialSum(3, 14, {64, 96, 128, 256, 512}, host);
  ExpectErrorAtMostOfASequentialSum(3, 7, {128, 256, 512}, host);
  ExpectErrorAtMostOfASequentialSum(3, 14, {128}, {});
  ExpectErrorAtMostOfASequentialSum(3, 7, {256}, {});
}

// As the direct algorithm has them: a window with a NaN is NaN, one with an infinity infinite (or NaN for both signs),
// and a sum that overflows only on the way back is what it should be.
TEST(Winograd, InfinitiesNanAndLargeNumbersAreTheDirectAlgorithms) {
  for (const auto& [cpu, tile] : {std::pair(HostCpu().facts(), 2u), {CpuFacts{}, 2u}, {HostCpu().facts(), 3u}}) {
    Runner runner({.in = 20, .out = 17, .h = 12, .w = 11, .images = 2}, tile, 9, cpu);
    runner.Put(0, 1, 1, 3, INFINITY);
    runner.Put(0, 1, 9, 0, -INFINITY);
    runner.Put(0, 6, 5, 19, NAN);
    runner.Put(0, 9, 2, 1, INFINITY);
    runner.Put(0, 10, 3, 1, -INFINITY);
    runner.Put(1, 4, 4, 7, 3e38f);
    runner.Put(1, 4, 6, 7, -3e38f);
    const std::vector<float> y = runner.Run(false, nullptr);
    size_t infinite = 0, nan = 0;
    runner.ForEachOutput([&](size_t o, size_t p, size_t image, double sum, float, double size) {
      const float got = y[(image * runner.pixels() + p) * 17 + o], want = static_cast<float>(sum);
      infinite += std::isinf(want);
      nan += std::isnan(want);
      // A weight is got back from four components at most, of magnitude 4 at most, each rounded to float32.
      const double weights_off = image == 1 ? 4 * 4 * 0x1p-25 * 6e38 : 0;
      if (std::isfinite(want)) {
        ASSERT_NEAR(got, want, 2e-6 * (size + 1) + weights_off)
            << "image " << image << ", pixel " << p << ", channel " << o;
      } else if (std::isnan(want)) {
        ASSERT_TRUE(std::isnan(got)) << got;
      } else {
        ASSERT_EQ(got, want);
      }
    });
    EXPECT_GT(infinite, 500u);
    EXPECT_GT(nan, 150u);
  }
}

TEST(Winograd, ServesThreeByThreeAndSaysWhyNot) {
  SelectOptions options;
  // On matrix engines the direct algorithm may be as fast.
  options.cpu = CpuFromSpec("native,-matrix").value().facts();
  ConvProblem p = ProblemOf({.in = 128, .out = 128, .h = 28, .w = 28});
  p.expected_pixels = 28 * 28;
  std::vector<float> w(128 * 128 * 9, 1.0f);
  const ConvWeights weights{.data = w.data(), .o_stride = 128 * 36, .i_stride = 36, .h_stride = 12, .w_stride = 4};
  EXPECT_EQ(WinogradConv::RejectionReason(p, options, weights), "");
  EXPECT_EQ(WinogradConv::RejectionReason(p, options, {}), "weights that come with the run");
  SelectOptions without = options;
  without.cpu = CpuFromSpec("native,-winograd").value().facts();
  EXPECT_EQ(WinogradConv::RejectionReason(p, without, weights), "winograd is switched off");
  ConvProblem thin = p;
  thin.in_channels = 3;
  EXPECT_NE(WinogradConv::RejectionReason(thin, options, weights).find("the direct algorithm"), std::string::npos);
  w[77] = INFINITY;
  EXPECT_EQ(WinogradConv::RejectionReason(p, options, weights), "weights whose sums are no finite numbers");
  w[77] = 1;
  p.stride_w = 2;
  EXPECT_EQ(WinogradConv::RejectionReason(p, options, weights), "strides");
  p.stride_w = 1;
  p.pad_back = 1;
  EXPECT_EQ(WinogradConv::RejectionReason(p, options, weights), "slices of padding");
  InlineExecutor executor;
  EXPECT_FALSE(WinogradConv::Create(p, options, weights, executor).ok());
  p.pad_back = 0;
  EXPECT_TRUE(WinogradConv::Create(p, options, weights, executor, 3).ok());
  p.in_channels = 127;
  EXPECT_EQ(WinogradConv::TileFor(p, options), 2u);
  EXPECT_FALSE(WinogradConv::Create(p, options, weights, executor, 3).ok());
}

// Tiles of 3 x 3 where there are enough channels for their error, and pixels for their weights.
TEST(Winograd, TilesFollowChannelsAndPixels) {
  for (const char* cpu : {"haswell", "skylake-avx512", "zen4"}) {
    SelectOptions options;
    options.cpu = CpuFromSpec(cpu).value().facts();
    options.ignore_missing_bodies = true;
    const auto tile = [&](size_t channels, size_t side) {
      ConvProblem p = ProblemOf({.in = channels, .out = channels, .h = side, .w = side});
      p.expected_pixels = side * side;
      return WinogradConv::TileFor(p, options);
    };
    EXPECT_EQ(tile(128, 28), 3u) << cpu;
    EXPECT_EQ(tile(256, 14), 3u) << cpu;
    EXPECT_EQ(tile(48, 56), 2u) << cpu;
    EXPECT_EQ(tile(512, 7), 2u) << cpu;
    EXPECT_EQ(tile(128, 4), 2u) << cpu;  // four tiles of either
  }
}

}  // namespace
}  // namespace quern::kernels
