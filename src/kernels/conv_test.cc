// The convolution driver against plain loops: kernels, strides, dilations, pads, groups, views, integers, threads.
#include "kernels/conv.h"
#include "base/random_numbers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "kernels/row_table.h"
#include "parallel/hostile_executor.h"
#include "parallel/thread_pool.h"
#include "ukernel/convert.h"
#include "ukernel/test_depth.h"

namespace quern::kernels {
namespace {

using ukernel::EpilogueKind;
using ukernel::GuardedBuffer;

struct Case {
  ConvProblem c;
  size_t images = 1, h = 1, w = 1;
  size_t in_gap = 0, out_gap = 0, row_gap = 0;  // elements per pixel, per pixel, per row
  int32_t input_zero = 0, weight_zero = 0;
  bool per_channel_zero = false;
  bool ohwi = false;
  bool planar = false;    // the input channels first, row_gap elements per row
  bool few_wide = false;  // int8 weights of which few neighbours add up to more than 128
};

std::string Text(const Case& c) {
  const ConvProblem& p = c.c;
  return std::to_string(p.in_channels) + "->" + std::to_string(p.out_channels) + " g" + std::to_string(p.groups) +
         " k" + std::to_string(p.kernel_h) + "x" + std::to_string(p.kernel_w) + " s" + std::to_string(p.stride_h) +
         " d" + std::to_string(p.dilation_w) + " " + std::to_string(c.h) + "x" + std::to_string(c.w);
}

SelectOptions Options(std::string_view row) {
  SelectOptions o;
  o.cpu = HostCpu().facts();
  o.rows = TestRows();
  o.force_row = row;
  return o;
}

class Runner {
 public:
  explicit Runner(const Case& c) : t_(c), p_(c.c) {
    std::mt19937 rng(static_cast<uint32_t>(p_.in_channels * 131 + p_.kernel_h * 17 + c.h));
    element_ = FormatBytes(p_.lhs);
    pixel_ = c.planar ? 1 : p_.in_channels + c.in_gap;
    line_ = c.w * pixel_ + c.row_gap;
    channel_ = c.planar ? c.h * line_ : 1;
    image_ = c.planar ? p_.in_channels * channel_ : c.h * line_;
    input_.resize(c.images * image_);
    weights_.resize(p_.out_channels * (p_.in_channels / p_.groups) * p_.kernel_h * p_.kernel_w);
    NormalNumbers<float> normal;
    const auto draw = [&](Format f) {
      if (f == Format::kI8) return static_cast<float>(static_cast<int>(rng() % 256) - 128);
      if (f == Format::kU8) return static_cast<float>(rng() % 256);
      return normal(rng);
    };
    for (float& x : input_) x = draw(p_.lhs);
    for (float& x : weights_) x = draw(p_.rhs);
    if (c.few_wide) {
      for (float& x : weights_) x = rng() % 1000 ? static_cast<float>(static_cast<int>(rng() % 121) - 60) : 127.0f;
    }
    bias_.resize(p_.out_channels);
    scale_.resize(p_.out_channels);
    zeros_.resize(p_.out_channels);
    int_bias_.resize(p_.out_channels);
    for (size_t o = 0; o < p_.out_channels; ++o) {
      bias_[o] = normal(rng);
      int_bias_[o] = static_cast<int32_t>(rng() % 1000) - 500;
      scale_[o] = 1e-4f * static_cast<float>(1 + rng() % 10);
      zeros_[o] = c.weight_zero + (c.per_channel_zero ? static_cast<int32_t>(o % 3) : 0);
    }
    stored_input_ = Store(input_, p_.lhs);
    stored_weights_ = Store(weights_, p_.rhs);
  }

  static std::vector<char> Store(const std::vector<float>& v, Format f) {
    std::vector<char> out(v.size() * FormatBytes(f));
    for (size_t i = 0; i < v.size(); ++i) {
      if (f == Format::kF32) {
        ukernel::StoreAs(out.data() + i * 4, v[i]);
      } else {
        out[i] = static_cast<char>(static_cast<int>(v[i]));
      }
    }
    return out;
  }

  double Input(size_t image, ptrdiff_t y, ptrdiff_t x, size_t c) const {
    if (y < 0 || x < 0 || y >= static_cast<ptrdiff_t>(t_.h) || x >= static_cast<ptrdiff_t>(t_.w)) return 0;
    return static_cast<double>(input_[image * image_ + static_cast<size_t>(y) * line_ +
                                      static_cast<size_t>(x) * pixel_ + c * channel_]) -
           t_.input_zero;
  }
  size_t WeightIndex(size_t o, size_t i, size_t ky, size_t kx) const {
    const size_t in = p_.in_channels / p_.groups;
    return t_.ohwi ? ((o * p_.kernel_h + ky) * p_.kernel_w + kx) * in + i
                   : ((o * in + i) * p_.kernel_h + ky) * p_.kernel_w + kx;
  }

  // The exact accumulators, [images][pixels][out_channels].
  std::vector<double> Reference(size_t out_h, size_t out_w) const {
    std::vector<double> out;
    const size_t in = p_.in_channels / p_.groups, og = p_.out_channels / p_.groups;
    for (size_t image = 0; image < t_.images; ++image) {
      for (size_t y = 0; y < out_h; ++y) {
        for (size_t x = 0; x < out_w; ++x) {
          for (size_t o = 0; o < p_.out_channels; ++o) {
            double sum = 0;
            for (size_t ky = 0; ky < p_.kernel_h; ++ky) {
              for (size_t kx = 0; kx < p_.kernel_w; ++kx) {
                const ptrdiff_t iy =
                    static_cast<ptrdiff_t>(y * p_.stride_h + ky * p_.dilation_h) - static_cast<ptrdiff_t>(p_.pad_top);
                const ptrdiff_t ix =
                    static_cast<ptrdiff_t>(x * p_.stride_w + kx * p_.dilation_w) - static_cast<ptrdiff_t>(p_.pad_left);
                for (size_t i = 0; i < in; ++i) {
                  sum +=
                      Input(image, iy, ix, o / og * in + i) *
                      (static_cast<double>(weights_[WeightIndex(o, i, ky, kx)]) - zeros_[o] * (p_.lhs != Format::kF32));
                }
              }
            }
            out.push_back(sum);
          }
        }
      }
    }
    return out;
  }

  // Results are written channels first, three elements between channels; Run returns them channels last all the same.
  void WriteChannelsFirst() { channels_first_ = true; }

  // Float: relu(x + bias + residual); integers: requantized x + bias. The bytes of dst, gaps included.
  std::vector<char> Run(std::string_view row, Executor* executor, Conv* made = nullptr,
                        DriverCounters* counters = nullptr) {
    const SelectOptions options = Options(row);
    InlineExecutor inline_executor;
    const ptrdiff_t e = static_cast<ptrdiff_t>(FormatBytes(p_.rhs));
    const ptrdiff_t in = static_cast<ptrdiff_t>(p_.in_channels / p_.groups);
    const ptrdiff_t kh = static_cast<ptrdiff_t>(p_.kernel_h), kw = static_cast<ptrdiff_t>(p_.kernel_w);
    ConvWeights weights{.data = stored_weights_.data(),
                        .o_stride = e * in * kh * kw,
                        .i_stride = e * kh * kw,
                        .h_stride = e * kw,
                        .w_stride = e};
    if (t_.ohwi) weights = {stored_weights_.data(), e * in * kh * kw, e, e * kw * in, e * in};
    Result<Conv> conv = Conv::Create(p_, options, weights, inline_executor);
    if (!conv.ok()) {
      ADD_FAILURE() << conv.status().message();
      return {};
    }
    const bool integer = p_.lhs != Format::kF32;
    const size_t out_element = integer ? 1 : 4;
    out_h_ = conv->OutHeight(t_.h);
    out_w_ = conv->OutWidth(t_.w);
    out_pixel_ = p_.out_channels + t_.out_gap;
    const size_t pixels = out_h_ * out_w_;
    GuardedBuffer input(stored_input_.size());
    std::memcpy(input.data(), stored_input_.data(), stored_input_.size());
    const size_t channel = pixels + 3;
    GuardedBuffer dst(t_.images * out_element * (channels_first_ ? p_.out_channels * channel : pixels * out_pixel_));
    std::memset(dst.data(), 0x7e, dst.bytes());
    residual_.assign(pixels * p_.out_channels, 0.0f);
    for (size_t i = 0; i < residual_.size(); ++i) residual_[i] = static_cast<float>(i % 7) - 3.0f;
    ConvArgs a;
    a.images = t_.images;
    a.in_h = t_.h;
    a.in_w = t_.w;
    a.input = input.data();
    a.in_pixel_stride = static_cast<ptrdiff_t>(pixel_ * element_);
    a.in_row_stride = static_cast<ptrdiff_t>(line_ * element_);
    a.in_image_stride = static_cast<ptrdiff_t>(image_ * element_);
    if (t_.planar) a.in_channel_stride = static_cast<ptrdiff_t>(channel_ * element_);
    a.dst = dst.data();
    a.dst_pixel_stride = static_cast<ptrdiff_t>(out_pixel_ * out_element);
    a.dst_image_stride = static_cast<ptrdiff_t>(pixels * out_pixel_ * out_element);
    if (channels_first_) {
      a.dst_pixel_stride = static_cast<ptrdiff_t>(out_element);
      a.dst_channel_stride = static_cast<ptrdiff_t>(channel * out_element);
      a.dst_image_stride = static_cast<ptrdiff_t>(p_.out_channels * channel * out_element);
    }
    const EpilogueOp floats[] = {
        {.kind = EpilogueKind::kAddVectorN, .data = bias_.data()},
        {.kind = EpilogueKind::kAddMatrix, .data = residual_.data(), .row_stride = p_.out_channels * 4},
        {.kind = EpilogueKind::kClamp, .a = 0, .b = std::numeric_limits<float>::infinity()}};
    const EpilogueOp integers[] = {
        {.kind = EpilogueKind::kAddVectorN, .data = int_bias_.data()},
        {.kind = EpilogueKind::kRequantize, .format = p_.lhs, .data = scale_.data(), .integer = 5}};
    a.ops = integer ? integers : floats;
    a.op_count = integer ? 2 : 3;
    a.input_zero_point = t_.input_zero;
    a.weight_zero_point = t_.weight_zero;
    if (t_.per_channel_zero) a.weight_zero_points = zeros_.data();
    const ConvPlan plan = conv->Plan(a, executor ? executor->concurrency() : 1);
    GuardedBuffer workspace(plan.workspace_bytes);
    std::memset(workspace.data(), 0x55, workspace.bytes());
    const Status status = conv->Run(plan, a,
                                    {.executor = executor,
                                     .workspace = workspace.data(),
                                     .workspace_bytes = plan.workspace_bytes,
                                     .counters = counters});
    EXPECT_TRUE(status.ok()) << status.message();
    if (made) *made = std::move(*conv);
    if (channels_first_) return ChannelsLast(dst.data(), pixels, channel, out_element);
    return {dst.data(), dst.data() + dst.bytes()};
  }

  // What stands channels first in `from`, as Run returns it; no gap was written.
  std::vector<char> ChannelsLast(const char* from, size_t pixels, size_t channel, size_t element) const {
    std::vector<char> to(t_.images * pixels * out_pixel_ * element, 0x7e);
    for (size_t i = 0; i < t_.images * p_.out_channels; ++i, from += channel * element) {
      const size_t image = i / p_.out_channels, o = i % p_.out_channels;
      for (size_t p = 0; p < pixels; ++p) {
        std::memcpy(&to[((image * pixels + p) * out_pixel_ + o) * element], from + p * element, element);
      }
      for (size_t g = pixels * element; g < channel * element; ++g) EXPECT_EQ(from[g], 0x7e) << "gap written";
    }
    return to;
  }

  void ExpectRight(const std::vector<char>& got, const std::string& what, double allowed = 1e-6) {
    ASSERT_FALSE(got.empty()) << what;
    const std::vector<double> want = Reference(out_h_, out_w_);
    const size_t pixels = out_h_ * out_w_;
    double error = 0, norm = 0;
    for (size_t p = 0; p < t_.images * pixels; ++p) {
      for (size_t o = 0; o < p_.out_channels; ++o) {
        const double acc = want[p * p_.out_channels + o];
        if (p_.lhs == Format::kF32) {
          const double x = std::max(0.0, acc + static_cast<double>(bias_[o]) +
                                             static_cast<double>(residual_[p % pixels * p_.out_channels + o]));
          const double y = ukernel::LoadAs<float>(got.data() + (p * out_pixel_ + o) * 4);
          error += (x - y) * (x - y);
          norm += acc * acc + 1;
          ASSERT_NEAR(y, x, 1e-2 * (1 + std::fabs(x))) << what << " pixel " << p << " channel " << o;
          continue;
        }
        const float q = std::nearbyint(static_cast<float>(static_cast<int32_t>(acc) + int_bias_[o]) * scale_[o]) + 5.0f;
        const bool is_signed = p_.lhs == Format::kI8;
        const int expected =
            static_cast<int>(std::min(is_signed ? 127.0f : 255.0f, std::max(is_signed ? -128.0f : 0.0f, q)));
        const char byte = got[p * out_pixel_ + o];
        ASSERT_EQ(
            is_signed ? static_cast<int>(static_cast<int8_t>(byte)) : static_cast<int>(static_cast<uint8_t>(byte)),
            expected)
            << what << " pixel " << p << " channel " << o;
      }
      for (size_t i = p_.out_channels * (p_.lhs == Format::kF32 ? 4 : 1);
           i < out_pixel_ * (p_.lhs == Format::kF32 ? 4 : 1); ++i) {
        ASSERT_EQ(got[p * out_pixel_ * (p_.lhs == Format::kF32 ? 4 : 1) + i], 0x7e) << what << ": gap written";
      }
    }
    ASSERT_LE(std::sqrt(error), allowed * std::sqrt(norm)) << what;
  }

 private:
  const Case t_;
  const ConvProblem p_;
  bool channels_first_ = false;
  size_t element_ = 4, pixel_ = 0, line_ = 0, channel_ = 1, image_ = 0, out_h_ = 0, out_w_ = 0, out_pixel_ = 0;
  std::vector<float> input_, weights_, bias_, scale_, residual_;
  std::vector<int32_t> zeros_, int_bias_;
  std::vector<char> stored_input_, stored_weights_;
};

std::vector<Case> Cases(Format lhs, Format rhs) {
  const auto conv = [&](size_t in, size_t out, size_t kh, size_t kw) {
    ConvProblem p;
    p.lhs = lhs;
    p.rhs = rhs;
    p.in_channels = in;
    p.out_channels = out;
    p.kernel_h = kh;
    p.kernel_w = kw;
    return p;
  };
  std::vector<Case> cases;
  const auto add = [&](ConvProblem p, size_t stride, size_t pad, size_t h, size_t w) -> Case& {
    p.stride_h = p.stride_w = stride;
    p.pad_top = p.pad_left = p.pad_bottom = p.pad_right = pad;
    cases.push_back({.c = p, .h = h, .w = w});
    return cases.back();
  };
  add(conv(20, 33, 1, 1), 1, 0, 7, 9);
  add(conv(20, 33, 1, 1), 1, 0, 7, 9).row_gap = 24;
  add(conv(24, 17, 1, 1), 2, 0, 9, 8).in_gap = 8;
  add(conv(16, 24, 3, 3), 1, 1, 7, 7).out_gap = 5;
  add(conv(64, 40, 3, 3), 2, 1, 14, 15).images = 2;
  add(conv(3, 32, 7, 7), 2, 3, 21, 24);                // folded
  add(conv(3, 8, 3, 3), 1, 0, 9, 9).in_gap = 1;        // folded, pixels apart
  add(conv(1, 16, 5, 1), 1, 2, 30, 1).c.pad_left = 0;  // one channel, one column
  cases.back().c.pad_right = 0;
  for (const size_t pad : {size_t{0}, size_t{3}}) {
    Case& planar = add(conv(5, 12, 4, 4), 2, pad, 11, 21);  // folded
    planar.planar = true;
    planar.images = 2;
    planar.row_gap = pad;
  }
  add(conv(600, 20, 3, 3), 1, 1, 4, 5);  // taps split over K
  add(conv(64, 16, 3, 5), 2, 2, 11, 9);  // of bytes: folded
  add(conv(80, 24, 3, 3), 1, 1, 6, 5);   // and not
  add(conv(18, 20, 3, 2), 1, 2, 6, 5).c.dilation_h = 2;
  add(conv(18, 20, 2, 3), 1, 1, 6, 9).c.dilation_w = 3;
  add(conv(48, 36, 3, 3), 1, 1, 8, 8).c.groups = 4;
  add(conv(6, 9, 3, 3), 1, 1, 5, 5).c.groups = 3;
  add(conv(32, 16, 3, 3), 1, 1, 6, 6).ohwi = true;
  add(conv(3, 16, 3, 3), 1, 1, 6, 6).ohwi = true;
  // Lines of 48 pixels, which tiles of the usual numbers of rows divide, without padding: rows lie evenly apart.
  add(conv(20, 33, 3, 2), 1, 0, 5, 49).row_gap = 24;
  add(conv(600, 20, 2, 3), 1, 0, 3, 50);  // taps split over K
  add(conv(18, 20, 2, 3), 2, 0, 6, 101).c.dilation_w = 3;
  add(conv(3, 36, 5, 5), 2, 2, 6, 95).images = 2;  // folded
  Case& uneven = add(conv(17, 19, 4, 3), 1, 0, 3, 4);
  uneven.c.pad_top = 3;
  uneven.c.pad_right = 2;
  return cases;
}

bool IsFloatRow(const GemmKernel& row) {
  return ukernel::LhsSourceFormat(row) == Format::kF32 && row.rhs == Format::kF32 && row.k_divisor == 1;
}

class ConvFloatRows : public testing::TestWithParam<const GemmKernel*> {};

TEST_P(ConvFloatRows, Cases) {
  const GemmKernel& row = *GetParam();
  const std::string name = ukernel::Name(row).text;
  for (Case& c : Cases(Format::kF32, Format::kF32)) {
    c.c.precision = row.precision;
    Runner r(c);
    const std::vector<char> out = r.Run(name, nullptr);
    r.ExpectRight(out, name + " " + Text(c),
                  row.precision == Precision::kBf16       ? 5e-3
                  : row.precision == Precision::kFp32Fast ? 1e-5
                                                          : 1e-6);
    if (HasFatalFailure()) return;
    HostileExecutor hostile(c.h);
    EXPECT_EQ(r.Run(name, &hostile), out) << name << " " << Text(c);
    r.WriteChannelsFirst();
    EXPECT_EQ(r.Run(name, &hostile), out) << name << " " << Text(c) << ", channels first";
  }
}

TEST_P(ConvFloatRows, SameBitsForAnyThreads) {
  const std::string name = ukernel::Name(*GetParam()).text;
  Case c{.c = {.in_channels = 48,
               .out_channels = 64,
               .kernel_h = 3,
               .kernel_w = 3,
               .pad_top = 1,
               .pad_left = 1,
               .pad_bottom = 1,
               .pad_right = 1,
               .precision = GetParam()->precision},
         .h = 28,
         .w = 28};
  Runner r(c);
  const std::vector<char> want = r.Run(name, nullptr);
  for (int threads : {1, 2, 4}) {
    ThreadPool pool({.threads = threads});
    EXPECT_EQ(r.Run(name, &pool), want) << name << " threads " << threads;
  }
}

bool ConvolvesFloats(const GemmKernel& row) { return IsFloatRow(row) && !row.only_in_place; }

INSTANTIATE_TEST_SUITE_P(Rows, ConvFloatRows, testing::ValuesIn(RunnableRows(ConvolvesFloats)), RowTestName);

bool IsIntegerRow(const GemmKernel& row) {
  return row.dst == Format::kI32 && row.lhs != Format::kI8d && row.k_divisor == 1;
}

class ConvIntegerRows : public testing::TestWithParam<const GemmKernel*> {};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(ConvIntegerRows);

TEST_P(ConvIntegerRows, Cases) {
  const GemmKernel& row = *GetParam();
  const std::string name = ukernel::Name(row).text;
  const Format lhs = ukernel::LhsSourceFormat(row);
  const bool brief = ukernel::Depth() == ukernel::TestDepth::kBrief;
  size_t i = 0;
  for (Format rhs : {Format::kI8, Format::kU8}) {
    std::vector<Case> cases = Cases(lhs, rhs);
    for (size_t k = 0; k < cases.size(); ++k) {
      if (brief && k % 2 == (rhs == Format::kU8)) continue;  // each with one of both
      Case& c = cases[k];
      c.input_zero = lhs == Format::kU8 ? 77 : -13;
      c.weight_zero = rhs == Format::kU8 ? (i % 2 ? 128 : 120) : (i % 3 ? 0 : 4);
      c.per_channel_zero = i % 4 == 1;
      c.few_wide = rhs == Format::kI8 && i % 3 == 0;
      ++i;
      Runner r(c);
      const std::vector<char> out = r.Run(name, nullptr);
      r.ExpectRight(out, name + " " + Text(c));
      if (HasFatalFailure()) return;
      ThreadPool pool({.threads = 3});
      EXPECT_EQ(r.Run(name, &pool), out) << name << " " << Text(c);
      r.WriteChannelsFirst();
      EXPECT_EQ(r.Run(name, &pool), out) << name << " " << Text(c) << ", channels first";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Rows, ConvIntegerRows, testing::ValuesIn(RunnableRows(IsIntegerRow)), RowTestName);

TEST(Conv, FoldsStemsAndReadsPointwiseInPlace) {
  Conv stem, point;
  Runner({.c = {.in_channels = 3, .out_channels = 16, .kernel_h = 3, .kernel_w = 3}, .h = 8, .w = 8})
      .Run("", nullptr, &stem);
  EXPECT_TRUE(stem.folded());
  EXPECT_EQ(stem.gemm_problem().k, 9u);
  EXPECT_EQ(stem.gemm_problem().segments, 3u);
  // Bytes also where there are more channels.
  for (const size_t channels : {32, 64, 72}) {
    ConvProblem p{.in_channels = channels, .out_channels = 16, .kernel_h = 3, .kernel_w = 3};
    Conv floats, bytes;
    Runner({.c = p, .h = 8, .w = 8}).Run("", nullptr, &floats);
    p.lhs = Format::kU8;
    p.rhs = Format::kI8;
    Runner({.c = p, .h = 8, .w = 8}).Run("", nullptr, &bytes);
    EXPECT_FALSE(floats.folded());
    EXPECT_EQ(bytes.folded(), channels <= 64) << channels;
  }
  // A row that reads the left side as it is, which SME does not.
  Runner({.c = {.in_channels = 64, .out_channels = 16}, .h = 8, .w = 8})
      .Run("gemm_f32_f32_f32_3x16x1_portable", nullptr, &point);
  ConvArgs args{.images = 1, .in_h = 8, .in_w = 8, .in_pixel_stride = 256, .in_row_stride = 2048};
  const ConvPlan plan = point.Plan(args, 1);
  EXPECT_TRUE(plan.plain_rows);
  EXPECT_LT(plan.workspace_bytes, 8u * 8 * 64 * 4) << "no copy of the input";
}

TEST(Conv, UnpaddedRowsNeedNoPointers) {
  const auto line_rows = [](size_t pad, size_t width) {
    Case c{.c = {.in_channels = 20, .out_channels = 16, .kernel_h = 3, .kernel_w = 3}, .h = 5, .w = width};
    c.c.pad_left = c.c.pad_right = pad;
    Conv conv;
    Runner(c).Run("gemm_f32_f32_f32_3x16x1_portable", nullptr, &conv);
    const ConvArgs args{.images = 1,
                        .in_h = 5,
                        .in_w = width,
                        .in_pixel_stride = 80,
                        .in_row_stride = static_cast<ptrdiff_t>(80 * width)};
    return conv.Plan(args, 1).gemm.line_rows;
  };
  EXPECT_EQ(line_rows(0, 50), 48u);
  EXPECT_EQ(line_rows(0, 6), 0u) << "a tile of three rows would be one of one";
  EXPECT_EQ(line_rows(1, 48), 0u);
}

// Lines with gaps between them are products of their own, of one image's sums.
TEST(Conv, SumsAnImageOnceWhateverItsLines) {
  Case c{
      .c = {.lhs = Format::kU8, .rhs = Format::kI8, .in_channels = 8, .out_channels = 6, .groups = 2}, .h = 9, .w = 7};
  c.images = 2;
  c.row_gap = 24;
  c.input_zero = 77;
  c.weight_zero = 3;
  Runner r(c);
  DriverCounters counters;
  const std::vector<char> out = r.Run("", nullptr, nullptr, &counters);
  r.ExpectRight(out, Text(c));
  EXPECT_EQ(counters.images_summed, 4u);  // images x groups
  ThreadPool pool({.threads = 2});
  EXPECT_EQ(r.Run("", &pool), out);
}

TEST(Conv, WeightsOfARunStayInTheWorkspace) {
  constexpr size_t kIn = 5, kOut = 7, kTaps = 2, kPixels = 9;
  InlineExecutor executor;
  const ConvProblem problem{.in_channels = kIn, .out_channels = kOut, .kernel_w = kTaps, .stride_w = kTaps};
  const ConvWeights strides{.o_stride = kIn * kTaps * 4, .i_stride = kTaps * 4, .h_stride = kTaps * 4, .w_stride = 4};
  const Conv conv = Conv::Create(problem, Options(""), strides, executor).value();
  std::vector<float> input(kPixels * kTaps * kIn), weights(kOut * kIn * kTaps), dst(kPixels * kOut);
  for (size_t i = 0; i < input.size(); ++i) input[i] = static_cast<float>(i % 11) - 5;
  for (size_t i = 0; i < weights.size(); ++i) weights[i] = static_cast<float>(i % 7) - 3;
  const auto args_of = [&](size_t pixels) {
    ConvArgs a{.in_h = 1, .in_w = pixels * kTaps, .input = input.data(), .dst = dst.data()};
    a.in_pixel_stride = kIn * 4;
    a.in_row_stride = a.in_image_stride = static_cast<ptrdiff_t>(pixels * kTaps * kIn * 4);
    a.dst_pixel_stride = kOut * 4;
    a.dst_image_stride = static_cast<ptrdiff_t>(pixels * kOut * 4);
    return a;
  };
  GuardedBuffer workspace(std::max(conv.Plan(args_of(kPixels), 1).workspace_bytes,  //
                                   conv.Plan(args_of(1), 1).workspace_bytes));
  DriverCounters counters;
  const auto run = [&](size_t pixels, const void* given) {
    ConvArgs a = args_of(pixels);
    a.weights = given;
    a.weights_are_packed = given == nullptr;
    std::fill(dst.begin(), dst.end(), -1.0f);
    const RunResources resources{
        .workspace = workspace.data(), .workspace_bytes = workspace.bytes(), .counters = &counters};
    ASSERT_TRUE(conv.Run(conv.Plan(a, 1), a, resources).ok());
    for (size_t p = 0; p < pixels; ++p) {
      for (size_t o = 0; o < kOut; ++o) {
        float sum = 0;
        for (size_t i = 0; i < kIn * kTaps; ++i) {
          sum += input[(p * kTaps + i % kTaps) * kIn + i / kTaps] * weights[o * kIn * kTaps + i];
        }
        ASSERT_EQ(dst[p * kOut + o], sum) << pixels << " pixels, pixel " << p << " channel " << o;
      }
    }
  };
  ASSERT_NO_FATAL_FAILURE(run(kPixels, weights.data()));
  const uint64_t packed = counters.rhs_packed_bytes;
  ASSERT_NO_FATAL_FAILURE(run(kPixels, nullptr));
  ASSERT_NO_FATAL_FAILURE(run(1, nullptr));
  EXPECT_EQ(counters.rhs_packed_bytes, packed);
}

TEST(Conv, RefusesGroupsThatDoNotDivide) {
  InlineExecutor executor;
  const Result<Conv> conv = Conv::Create({.in_channels = 5, .out_channels = 4, .groups = 2}, Options(""), {}, executor);
  EXPECT_EQ(conv.status().code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace quern::kernels
