// Depthwise convolution by every row against plain loops.
#include "kernels/dwconv.h"
#include "base/random_numbers.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "base/cpu.h"
#include "kernels/convolution.h"
#include "parallel/hostile_executor.h"
#include "parallel/thread_pool.h"
#include "ukernel/row_runner.h"
#include "ukernel/rows_that_run.h"

namespace quern::kernels {
namespace {

using ukernel::EpilogueKind;
using ukernel::GuardedBuffer;
using ukernel::RoundUp;

std::vector<const ukernel::DwConvKernel*> Rows() {
  return ukernel::RowsThatRun(ukernel::AllDwConvKernels(), &ukernel::DwConvKernel::run, HostCpu().facts());
}

struct Case {
  DwConvProblem p;
  size_t images = 1, h = 1, w = 1;
  bool convert = false;  // a list that no row fuses whole
};

class DwRows : public testing::TestWithParam<const ukernel::DwConvKernel*> {
 protected:
  bool integers() const { return GetParam()->acc == Format::kI32; }
  bool grouped() const { return GetParam()->group_vector != 0; }

  // A number as it is stored.
  static double Put(Format f, float x, char* to) {
    if (IsInt8(f)) {
      const int q = static_cast<int>(x * 40) & 0xff;
      *to = static_cast<char>(q);
      return f == Format::kI8 ? static_cast<double>(static_cast<int8_t>(q)) : q;
    }
    ukernel::StoreFloat(f, to, x);
    return static_cast<double>(ukernel::LoadFloat(f, to));
  }

  std::vector<char> Run(const Case& t, Executor* executor, std::vector<double>* want) {
    DwConvProblem p = t.p;
    if (grouped() && p.group == 1) {  // a case of any row
      p.group = GetParam()->lanes == 16 && p.channels % 2 ? 8 : 4;
      p.channels = RoundUp(p.channels * p.multiplier, p.group);
      p.multiplier = 1;
    }
    p.src = GetParam()->src;
    p.weights = integers() ? Format::kU8 : p.src;
    const size_t in_bytes = FormatBytes(p.src), weight_bytes = FormatBytes(p.weights);
    const int32_t zero = !integers() ? 0 : p.src == Format::kI8 ? -5 : 131;
    const size_t channels = p.channels * p.multiplier, taps = p.kernel_h * p.kernel_w * p.group, gap = 3;
    std::mt19937 rng(9);
    NormalNumbers<float> normal;
    std::vector<char> weights(channels * taps * weight_bytes);
    std::vector<double> weight_values(channels * taps);
    for (size_t i = 0; i < weight_values.size(); ++i) {
      weight_values[i] = Put(p.weights, normal(rng), weights.data() + i * weight_bytes);
    }
    std::vector<float> bias(channels), scales(channels), residual;
    std::vector<int32_t> integer_bias(channels), zeros(channels);
    for (size_t c = 0; c < channels; ++c) {
      bias[c] = normal(rng);
      scales[c] = 0.0001f * (1 + std::fabs(normal(rng)));
      integer_bias[c] = static_cast<int32_t>(normal(rng) * 1000);
      zeros[c] = static_cast<int32_t>(rng() % 256);
    }
    const size_t pixel = p.channels + gap;
    GuardedBuffer input((t.images * t.h * t.w * pixel - gap) * in_bytes);
    std::vector<double> in(input.bytes() / in_bytes);
    for (size_t i = 0; i < in.size(); ++i) in[i] = Put(p.src, normal(rng), input.data() + i * in_bytes) - zero;
    const auto stride = [&](size_t elements) { return static_cast<ptrdiff_t>(elements * weight_bytes); };
    ConvWeights source{weights.data(), stride(taps), stride(p.kernel_h * p.kernel_w), stride(p.kernel_w), stride(1)};
    const std::string name = ukernel::Name(*GetParam()).text;
    const bool packed_by_run = rng() % 2 != 0;
    if (packed_by_run) {
      source.data = nullptr;
    } else {
      source.zero_points = zeros.data();
    }
    const DwConv conv = DwConv::Create(p, {.cpu = HostCpu().facts(), .force_row = name}, source).value();
    EXPECT_EQ(conv.row(), GetParam());
    const size_t out_h = conv.OutHeight(t.h), out_w = conv.OutWidth(t.w), element = t.convert ? 2 : 4;
    GuardedBuffer dst(t.images * out_h * out_w * channels * element);
    residual.resize(t.images * out_h * out_w * channels);
    for (float& x : residual) x = normal(rng);
    std::vector<EpilogueOp> ops;
    if (integers()) {
      ops.push_back({.kind = EpilogueKind::kAddVectorN, .data = integer_bias.data()});
      ops.push_back({.kind = EpilogueKind::kMulVectorN, .data = scales.data()});
    } else {
      ops.push_back({.kind = EpilogueKind::kAddVectorN, .data = bias.data()});
    }
    ops.push_back({.kind = EpilogueKind::kClamp, .a = -1, .b = 6});
    ops.push_back({.kind = EpilogueKind::kAddMatrix, .data = residual.data(), .row_stride = channels * 4});
    if (t.convert) ops.push_back({.kind = EpilogueKind::kConvert, .format = Format::kBf16});
    ConvArgs a{.images = t.images, .in_h = t.h, .in_w = t.w, .input = input.data()};
    if (packed_by_run) {
      a.weights = weights.data();
      a.weight_zero_points = zeros.data();
    }
    a.in_pixel_stride = static_cast<ptrdiff_t>(pixel * in_bytes);
    a.in_row_stride = static_cast<ptrdiff_t>(t.w) * a.in_pixel_stride;
    a.in_image_stride = static_cast<ptrdiff_t>(t.h) * a.in_row_stride;
    a.input_zero_point = zero;
    a.dst = dst.data();
    a.dst_pixel_stride = static_cast<ptrdiff_t>(channels * element);
    a.dst_image_stride = static_cast<ptrdiff_t>(out_h * out_w * channels * element);
    a.ops = ops.data();
    a.op_count = ops.size();
    a.op_image_strides[integers() ? 3 : 2] = static_cast<ptrdiff_t>(out_h * out_w * channels * 4);
    const size_t bytes = conv.WorkspaceBytes(a, executor ? executor->concurrency() : 1);
    GuardedBuffer workspace(bytes);
    EXPECT_TRUE(conv.Run(a, {.executor = executor, .workspace = workspace.data(), .workspace_bytes = bytes}).ok());
    if (want) {
      want->clear();
      for (size_t i = 0; i < t.images * out_h * out_w * channels; ++i) {
        const size_t c = i % channels, x = i / channels % out_w, y = i / channels / out_w % out_h;
        const size_t image = i / channels / out_w / out_h;
        double sum = integers() ? integer_bias[c] : static_cast<double>(bias[c]);
        for (size_t k = 0; k < taps; ++k) {
          const size_t g = k / (p.kernel_h * p.kernel_w), row = k / p.kernel_w % p.kernel_h;
          const ptrdiff_t iy =
              static_cast<ptrdiff_t>(y * p.stride_h + row * p.dilation_h) - static_cast<ptrdiff_t>(p.pad_top);
          const ptrdiff_t ix = static_cast<ptrdiff_t>(x * p.stride_w + k % p.kernel_w * p.dilation_w) -
                               static_cast<ptrdiff_t>(p.pad_left);
          if (iy < 0 || ix < 0 || iy >= static_cast<ptrdiff_t>(t.h) || ix >= static_cast<ptrdiff_t>(t.w)) continue;
          const size_t at = ((image * t.h + static_cast<size_t>(iy)) * t.w + static_cast<size_t>(ix)) * pixel +
                            (p.group > 1 ? c / p.group * p.group + g : c / p.multiplier);
          sum += in[at] * (weight_values[c * taps + k] - (integers() ? zeros[c] : 0));
        }
        if (integers()) sum *= static_cast<double>(scales[c]);
        want->push_back(std::min(6.0, std::max(-1.0, sum)) + static_cast<double>(residual[i]));
      }
    }
    return {dst.data(), dst.data() + dst.bytes()};
  }
};

TEST_P(DwRows, Cases) {
  const Case cases[] = {
      {.p =
           {.channels = 32, .kernel_h = 3, .kernel_w = 3, .pad_top = 1, .pad_left = 1, .pad_bottom = 1, .pad_right = 1},
       .h = 7,
       .w = 13},
      {.p = {.channels = 19, .kernel_h = 3, .kernel_w = 3, .stride_h = 2, .stride_w = 2, .pad_top = 1, .pad_left = 1},
       .images = 2,
       .h = 12,
       .w = 9},
      {.p =
           {.channels = 70, .kernel_h = 5, .kernel_w = 5, .pad_top = 2, .pad_left = 2, .pad_bottom = 2, .pad_right = 2},
       .h = 3,
       .w = 2},
      {.p = {.channels = 5,
             .multiplier = 3,
             .kernel_h = 3,
             .kernel_w = 1,
             .dilation_h = 2,
             .pad_top = 2,
             .pad_bottom = 2},
       .h = 9,
       .w = 20},
      {.p =
           {.channels = 9, .multiplier = 2, .kernel_h = 2, .kernel_w = 3, .stride_h = 3, .pad_left = 1, .pad_right = 1},
       .images = 2,
       .h = 7,
       .w = 5},
      {.p = {.channels = 6, .multiplier = 4, .kernel_h = 3, .kernel_w = 3, .pad_top = 9, .pad_left = 1, .pad_right = 1},
       .h = 4,
       .w = 11},
      // Several bands of repeated channels.
      {.p = {.channels = 8,
             .multiplier = 8,
             .kernel_h = 3,
             .kernel_w = 3,
             .stride_h = 2,
             .stride_w = 2,
             .pad_top = 1,
             .pad_left = 1,
             .pad_bottom = 1},
       .h = 150,
       .w = 48},
      {.p = {.channels = 16, .kernel_h = 1, .kernel_w = 4, .dilation_w = 2, .pad_left = 6},
       .h = 2,
       .w = 40,
       .convert = true},
      {.p = {.channels = 1, .kernel_h = 3, .kernel_w = 3, .pad_top = 5, .pad_left = 5, .pad_bottom = 5, .pad_right = 5},
       .h = 1,
       .w = 1},
  };
  for (const Case& t : cases) {
    std::vector<double> want;
    const std::vector<char> got = Run(t, nullptr, &want);
    for (size_t i = 0; i < want.size(); ++i) {
      const double x = t.convert ? ukernel::LoadFloat(Format::kBf16, got.data() + i * 2)
                                 : ukernel::LoadAs<float>(got.data() + i * 4);
      ASSERT_NEAR(x, want[i],
                  (t.convert   ? 8e-3
                   : grouped() ? 4e-5
                               : 1e-5) *
                      (1 + std::fabs(want[i])))
          << "channels " << t.p.channels << " at " << i;
    }
    ThreadPool pool({.threads = 2});
    HostileExecutor hostile(4);
    EXPECT_EQ(Run(t, &pool, nullptr), got);
    EXPECT_EQ(Run(t, &hostile, nullptr), got);
  }
}

// Square kernels with code of their own: rows of few to several tiles, more of them than are computed together, padding
// of half a kernel, none and more, a unit of channels and parts of one: less than a vector, one, and one and a part.
TEST_P(DwRows, WidthsAndPadding) {
  const size_t most = GetParam()->pixels;
  for (const auto& [kernel, channels] : std::vector<std::pair<size_t, size_t>>{
           {3, 21}, {3, 24}, {3, 29}, {5, 21}, {5, 24}, {5, 29}, {7, 21}, {7, 24}, {7, 29}}) {
    const size_t half = kernel / 2, all = kernel - 1;
    const size_t paddings[][2] = {{half, half}, {0, half}, {half, 0}, {all, all}};
    for (const auto& [left, right] : paddings) {
      for (const size_t stride : {1u, 2u}) {
        for (const size_t out_w : {size_t{1}, size_t{2}, most - 1, most, most + 1, 2 * most, 3 * most + 1}) {
          const size_t w = (out_w - 1) * stride + kernel;
          if (w <= left + right) continue;
          Case t{.p = {.channels = channels, .kernel_h = kernel, .kernel_w = kernel}};
          t.p.stride_h = t.p.stride_w = stride;
          t.p.pad_top = t.p.pad_bottom = half;
          t.p.pad_left = left, t.p.pad_right = right;
          t.h = out_w == 2 ? 20 * stride : 3;
          t.w = w - left - right;
          std::vector<double> want;
          const std::vector<char> got = Run(t, nullptr, &want);
          for (size_t i = 0; i < want.size(); ++i) {
            ASSERT_NEAR(ukernel::LoadAs<float>(got.data() + i * 4), want[i],
                        (grouped() ? 4e-5 : 1e-5) * (1 + std::fabs(want[i])))
                << "kernel " << kernel << " channels " << channels << " stride " << stride << " padding " << left
                << ", " << right << " width " << t.w << " at " << i;
          }
        }
      }
    }
  }
}

// Every size of a group that the row serves: whole units of channels, a part of one, forms of all kernels.
TEST_P(DwRows, Groups) {
  if (!grouped()) GTEST_SKIP() << "depthwise only";
  size_t served = 0;
  for (size_t group = 2; group <= 17; ++group) {
    if (!ServesGroup(*GetParam(), group)) continue;
    ++served;
    for (const size_t count : {size_t{1}, 16 / group + 1, 2 * (16 / group), size_t{5}}) {
      for (const size_t kernel : {1u, 2u, 3u, 5u}) {
        for (const size_t stride : {1u, 2u}) {
          for (const size_t w : {size_t{1}, size_t{7}, size_t{GetParam()->pixels} + 2}) {
            Case t{.p = {.channels = group * count, .group = group, .kernel_h = 3, .kernel_w = kernel}};
            t.p.stride_h = t.p.stride_w = stride;
            t.p.dilation_h = t.p.dilation_w = kernel == 2 ? 2 : 1;
            t.p.pad_top = t.p.pad_bottom = 1;
            t.p.pad_left = kernel / 2, t.p.pad_right = kernel - 1;
            t.images = kernel == 3 ? 2 : 1;
            t.h = 4;
            t.w = w + kernel - 1;
            std::vector<double> want;
            const std::vector<char> got = Run(t, nullptr, &want);
            ASSERT_EQ(got.size(), want.size() * 4);
            for (size_t i = 0; i < want.size(); ++i) {
              ASSERT_NEAR(ukernel::LoadAs<float>(got.data() + i * 4), want[i], 2e-5 * (1 + std::fabs(want[i])))
                  << count << " groups of " << group << " kernel " << kernel << " stride " << stride << " width " << t.w
                  << " at " << i;
            }
          }
        }
      }
    }
  }
  EXPECT_GE(served, 2u);
}

// An infinite number and none reach the results of their group, and no others.
TEST_P(DwRows, NoNumberStaysInItsGroup) {
  if (!grouped()) GTEST_SKIP() << "depthwise only";
  const size_t channels = 48, pixels = 12 * 13;
  for (const size_t group : {size_t{2}, size_t{3}, size_t{4}, size_t{8}, size_t{16}}) {
    if (!ServesGroup(*GetParam(), group)) continue;
    DwConvProblem p{.channels = channels, .group = group, .kernel_h = 3, .kernel_w = 3};
    p.pad_top = p.pad_left = p.pad_bottom = p.pad_right = 1;
    const std::vector<float> weights(channels * group * 9, 1);
    const DwConv conv = DwConv::Create(p, {.cpu = HostCpu().facts(), .force_row = ukernel::Name(*GetParam()).text},
                                       ConvWeights{weights.data(), static_cast<ptrdiff_t>(group * 36), 36, 12, 4})
                            .value();
    for (const float bad : {INFINITY, NAN}) {
      for (size_t c = 0; c < channels; ++c) {
        std::vector<float> x(pixels * channels, 1), y(x.size());
        x[(5 * 13 + 6) * channels + c] = bad;
        ConvArgs a{.in_h = 12, .in_w = 13, .input = x.data()};
        a.in_pixel_stride = a.dst_pixel_stride = static_cast<ptrdiff_t>(channels * 4);
        a.in_row_stride = 13 * a.in_pixel_stride;
        a.in_image_stride = a.dst_image_stride = static_cast<ptrdiff_t>(x.size() * 4);
        a.dst = y.data();
        AlignedBuffer workspace = AlignedBuffer::Allocate(conv.WorkspaceBytes(a, 1)).value();
        ASSERT_TRUE(conv.Run(a, {.workspace = workspace.data(), .workspace_bytes = workspace.size_bytes()}).ok());
        for (size_t i = 0; i < y.size(); ++i) {
          const size_t row = i / channels / 13, column = i / channels % 13;
          const bool reached = row >= 4 && row <= 6 && column >= 5 && column <= 7 && i % channels / group == c / group;
          ASSERT_EQ(std::isfinite(y[i]), !reached) << "group " << group << " channel " << c << " at " << i;
        }
      }
    }
  }
}

TEST_P(DwRows, ThreadsGiveTheSameBits) {
  const Case t{
      .p = {.channels = 96, .kernel_h = 3, .kernel_w = 3, .pad_top = 1, .pad_left = 1, .pad_bottom = 1, .pad_right = 1},
      .h = 56,
      .w = 56};
  const std::vector<char> want = Run(t, nullptr, nullptr);
  for (int threads : {2, 4}) {
    ThreadPool pool({.threads = threads});
    EXPECT_EQ(Run(t, &pool, nullptr), want);
  }
}

// Bytes to bytes, exactly: a tile of every width, with padding on all sides.
TEST_P(DwRows, Requantize) {
  if (!integers()) GTEST_SKIP() << "not of integers";
  for (size_t w = 1; w <= 2u * GetParam()->pixels + 1; ++w) {
    for (size_t channels : {16u, 21u}) {
      const DwConvProblem p{.channels = channels,
                            .kernel_h = 3,
                            .kernel_w = 3,
                            .pad_top = 1,
                            .pad_left = 1,
                            .pad_bottom = 1,
                            .pad_right = 1,
                            .src = GetParam()->src,
                            .weights = Format::kI8};
      std::mt19937 rng(static_cast<unsigned>(w));
      std::vector<char> weights(channels * 9);
      GuardedBuffer input(2 * w * channels), dst(2 * w * channels);
      for (char& x : weights) x = static_cast<char>(rng());
      for (size_t i = 0; i < input.bytes(); ++i) input.data()[i] = static_cast<char>(rng());
      const DwConv conv = DwConv::Create(p, {.cpu = HostCpu().facts(), .force_row = ukernel::Name(*GetParam()).text},
                                         ConvWeights{weights.data(), 9, 0, 3, 1})
                              .value();
      const EpilogueOp op{.kind = EpilogueKind::kRequantize, .format = Format::kU8, .scale = 0.003f, .integer = 77};
      const auto pixel = static_cast<ptrdiff_t>(channels), row = static_cast<ptrdiff_t>(w) * pixel;
      ConvArgs a{.in_h = 2, .in_w = w, .input = input.data()};
      a.in_pixel_stride = a.dst_pixel_stride = pixel;
      a.in_row_stride = row;
      a.in_image_stride = a.dst_image_stride = 2 * row;
      a.input_zero_point = 3;
      a.dst = dst.data();
      a.ops = &op;
      a.op_count = 1;
      const size_t bytes = conv.WorkspaceBytes(a, 1);
      GuardedBuffer workspace(bytes);
      ASSERT_TRUE(conv.Run(a, {.workspace = workspace.data(), .workspace_bytes = bytes}).ok());
      for (ptrdiff_t y = 0; y < 2; ++y) {
        for (ptrdiff_t x = 0; x < static_cast<ptrdiff_t>(w); ++x) {
          for (ptrdiff_t c = 0; c < pixel; ++c) {
            int32_t sum = 0;
            for (ptrdiff_t k = 0; k < 9; ++k) {
              const ptrdiff_t iy = y + k / 3 - 1, ix = x + k % 3 - 1;
              if (iy < 0 || ix < 0 || iy > 1 || ix >= static_cast<ptrdiff_t>(w)) continue;
              const char byte = input.data()[iy * row + ix * pixel + c];
              const int32_t value = p.src == Format::kI8 ? static_cast<int8_t>(byte) : static_cast<uint8_t>(byte);
              sum += (value - 3) * static_cast<int8_t>(weights[static_cast<size_t>(c * 9 + k)]);
            }
            const float q = std::nearbyint(static_cast<float>(sum) * 0.003f) + 77;
            ASSERT_EQ(static_cast<uint8_t>(dst.data()[y * row + x * pixel + c]),
                      static_cast<uint8_t>(std::min(255.0f, std::max(0.0f, q))))
                << w << " wide, at " << y << "," << x << "," << c;
          }
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Rows, DwRows, testing::ValuesIn(Rows()),
                         [](const auto& info) { return std::string(ukernel::Name(*info.param).text); });

TEST(SelectDwRow, FollowsTheCpu) {
  DwConvProblem p{.channels = 64, .kernel_h = 3, .kernel_w = 3};
  const auto isa = [&](const char* cpu) {
    std::vector<DwRowCandidate> report;
    DwSelectOptions options;
    options.cpu = CpuFromSpec(cpu).value().facts();
    options.ignore_missing_bodies = true;
    const auto* row = SelectDwRow(p, options, &report);
    size_t rows = 0;
    for (const auto* list : ukernel::AllDwConvKernels()) rows += list->count;
    EXPECT_EQ(report.size(), rows);
    for (const DwRowCandidate& c : report) EXPECT_EQ(c.reason.empty(), c.row == row) << c.name;
    return std::string(row->isa.name);
  };
  EXPECT_EQ(isa("sapphirerapids"), "avx512");
  EXPECT_EQ(isa("haswell"), "avx2");
  EXPECT_EQ(isa("graviton3"), "neon");
  EXPECT_EQ(isa("sapphirerapids,-dwconv"), "portable");
  p.src = Format::kU8, p.weights = Format::kI8;
  EXPECT_EQ(isa("icelake"), "avx512vnni");
  EXPECT_EQ(isa("icelake,-avx512vnni"), "avx512");
  EXPECT_EQ(isa("haswell"), "avx2");
  p.src = p.weights = Format::kF16;
  EXPECT_EQ(isa("icelake"), "avx512");
}

// Vectors of 8 lanes hold no whole groups of 12 channels: products serve them better than portable code.
TEST(Convolution, GroupsAreProductsWhereNoVectorHoldsThem) {
  if (HostCpu().arch != Arch::kX86_64) GTEST_SKIP() << "rows for x86-64 have no body here";
  const auto is_grouped = [](size_t channels) {
    const ConvProblem p{
        .in_channels = channels * 4, .out_channels = channels * 4, .groups = 4, .kernel_h = 3, .kernel_w = 3};
    return Convolution::IsGrouped(p, {.cpu = CpuFromSpec("haswell").value().facts()});
  };
  EXPECT_TRUE(is_grouped(4));
  EXPECT_TRUE(is_grouped(8));
  EXPECT_FALSE(is_grouped(12));
}

TEST(Convolution, GroupsOfFewChannelsAreNoProducts) {
  const auto algorithm = [](size_t groups, size_t in, size_t out, bool flat = true) {
    const std::vector<float> weights(groups * out * in * 9);
    const ConvProblem p{
        .in_channels = in * groups, .out_channels = out * groups, .groups = groups, .kernel_h = 3, .kernel_w = 3};
    const ConvWeights w{weights.data(), static_cast<ptrdiff_t>(in * 36), 36, 12, 4};
    InlineExecutor executor;
    return Convolution::Create(p, flat, {.cpu = HostCpu().facts()}, w, {executor}).value().algorithm();
  };
  // NEON has no row for groups of 8; a portable one is weighed against products.
  const auto has_vector_row = [](size_t channels) {
    const DwConvProblem p{.channels = channels * 3, .group = channels, .kernel_h = 3, .kernel_w = 3};
    return !SelectDwRow(p, {.cpu = HostCpu().facts()})->isa.any_arch;
  };
  if (has_vector_row(4)) EXPECT_EQ(algorithm(32, 4, 4), ConvAlgorithm::kGrouped);
  if (has_vector_row(8)) EXPECT_EQ(algorithm(3, 8, 8), ConvAlgorithm::kGrouped);
  EXPECT_EQ(algorithm(32, 1, 1), ConvAlgorithm::kDepthwise);
  EXPECT_EQ(algorithm(32, 4, 8), ConvAlgorithm::kDirect);
  EXPECT_EQ(algorithm(4, 32, 32), ConvAlgorithm::kDirect);
  EXPECT_EQ(algorithm(32, 4, 4, false), ConvAlgorithm::kDirect);
}

TEST(SelectDwRow, Groups) {
  const auto name = [](const char* cpu, size_t group, Format f = Format::kF32) -> std::string {
    DwConvProblem p{.channels = 240, .group = group, .kernel_h = 3, .kernel_w = 3, .src = f, .weights = f};
    DwSelectOptions options;
    options.cpu = CpuFromSpec(cpu).value().facts();
    options.ignore_missing_bodies = true;
    const auto* row = SelectDwRow(p, options);
    return row ? ukernel::Name(*row).text : "";
  };
  for (const size_t group : {2u, 3u, 4u, 8u, 12u, 16u}) {
    EXPECT_EQ(name("icelake", group), "dwconv_grouped_f32_f32_f32_14x16_avx512") << group;
  }
  for (const size_t group : {2u, 4u, 8u}) {
    EXPECT_EQ(name("haswell", group), "dwconv_grouped_f32_f32_f32_7x16_avx2") << group;
  }
  for (const size_t group : {2u, 4u}) {
    EXPECT_EQ(name("graviton3", group), "dwconv_grouped_f32_f32_f32_7x8_neon") << group;
  }
  EXPECT_EQ(name("icelake", 24), "");
  EXPECT_EQ(name("haswell", 16), "");
  EXPECT_EQ(name("icelake", 4, Format::kF16), "");
  EXPECT_EQ(name("icelake,-dwconv", 4), "");  // products of better rows serve as well
  EXPECT_EQ(name("icelake", 1), "dwconv_f32_f32_f32_14x16_avx512");
}

}  // namespace
}  // namespace quern::kernels
