// Depthwise convolution by every row against plain loops.
#include "kernels/dwconv.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "base/cpu.h"
#include "parallel/hostile_executor.h"
#include "parallel/thread_pool.h"
#include "ukernel/row_runner.h"

namespace quern::kernels {
namespace {

using ukernel::EpilogueKind;
using ukernel::GuardedBuffer;

std::vector<const ukernel::DwConvKernel*> Rows() {
  std::vector<const ukernel::DwConvKernel*> rows;
  for (const auto* list : ukernel::AllDwConvKernels()) {
    for (size_t i = 0; i < list->count; ++i) {
      if (IsaRunsOn(list->rows[i].isa, HostCpu().facts()) && list->rows[i].run) rows.push_back(&list->rows[i]);
    }
  }
  return rows;
}

struct Case {
  DwConvProblem p;
  size_t images = 1, h = 1, w = 1;
  bool convert = false;  // a list that no row fuses whole
};

class DwRows : public testing::TestWithParam<const ukernel::DwConvKernel*> {
 protected:
  std::vector<char> Run(const Case& t, Executor* executor, std::vector<double>* want) {
    const DwConvProblem& p = t.p;
    const size_t channels = p.channels * p.multiplier, taps = p.kernel_h * p.kernel_w, gap = 3;
    std::mt19937 rng(9);
    std::normal_distribution<float> normal;
    std::vector<float> weights(channels * taps), bias(channels), residual;
    for (auto* v : {&weights, &bias}) {
      for (float& x : *v) x = normal(rng);
    }
    const size_t pixel = p.channels + gap;
    GuardedBuffer input((t.images * t.h * t.w * pixel - gap) * 4);
    float* in = reinterpret_cast<float*>(input.data());
    for (size_t i = 0; i < input.bytes() / 4; ++i) in[i] = normal(rng);
    ConvWeights source{weights.data(), static_cast<ptrdiff_t>(taps * 4), 0, static_cast<ptrdiff_t>(p.kernel_w * 4), 4};
    const std::string name = ukernel::Name(*GetParam()).text;
    const bool packed_by_run = rng() % 2 != 0;
    if (packed_by_run) source.data = nullptr;
    const DwConv conv = DwConv::Create(p, {.cpu = HostCpu().facts(), .force_row = name}, source).value();
    EXPECT_EQ(conv.row(), GetParam());
    const size_t out_h = conv.OutHeight(t.h), out_w = conv.OutWidth(t.w), element = t.convert ? 2 : 4;
    GuardedBuffer dst(t.images * out_h * out_w * channels * element);
    residual.resize(t.images * out_h * out_w * channels);
    for (float& x : residual) x = normal(rng);
    const EpilogueOp ops[] = {{.kind = EpilogueKind::kAddVectorN, .data = bias.data()},
                              {.kind = EpilogueKind::kClamp, .a = -1, .b = 6},
                              {.kind = EpilogueKind::kAddMatrix, .data = residual.data(), .row_stride = channels * 4},
                              {.kind = EpilogueKind::kConvert, .format = Format::kBf16}};
    ConvArgs a{.images = t.images, .in_h = t.h, .in_w = t.w, .input = input.data()};
    if (packed_by_run) a.weights = weights.data();
    a.in_pixel_stride = static_cast<ptrdiff_t>(pixel * 4);
    a.in_row_stride = static_cast<ptrdiff_t>(t.w * pixel * 4);
    a.in_image_stride = static_cast<ptrdiff_t>(t.h * t.w * pixel * 4);
    a.dst = dst.data();
    a.dst_pixel_stride = static_cast<ptrdiff_t>(channels * element);
    a.dst_image_stride = static_cast<ptrdiff_t>(out_h * out_w * channels * element);
    a.ops = ops;
    a.op_count = t.convert ? 4 : 3;
    a.op_image_strides[2] = static_cast<ptrdiff_t>(out_h * out_w * channels * 4);
    const size_t bytes = conv.WorkspaceBytes(a, executor ? executor->concurrency() : 1);
    GuardedBuffer workspace(bytes);
    EXPECT_TRUE(conv.Run(a, {.executor = executor, .workspace = workspace.data(), .workspace_bytes = bytes}).ok());
    if (want) {
      want->clear();
      for (size_t i = 0; i < t.images * out_h * out_w * channels; ++i) {
        const size_t c = i % channels, x = i / channels % out_w, y = i / channels / out_w % out_h;
        const size_t image = i / channels / out_w / out_h;
        double sum = static_cast<double>(bias[c]);
        for (size_t k = 0; k < taps; ++k) {
          const ptrdiff_t iy = static_cast<ptrdiff_t>(y * p.stride_h + k / p.kernel_w * p.dilation_h) -
                               static_cast<ptrdiff_t>(p.pad_top);
          const ptrdiff_t ix = static_cast<ptrdiff_t>(x * p.stride_w + k % p.kernel_w * p.dilation_w) -
                               static_cast<ptrdiff_t>(p.pad_left);
          if (iy < 0 || ix < 0 || iy >= static_cast<ptrdiff_t>(t.h) || ix >= static_cast<ptrdiff_t>(t.w)) continue;
          const size_t at =
              ((image * t.h + static_cast<size_t>(iy)) * t.w + static_cast<size_t>(ix)) * pixel + c / p.multiplier;
          sum += static_cast<double>(in[at]) * static_cast<double>(weights[c * taps + k]);
        }
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
      ASSERT_NEAR(x, want[i], (t.convert ? 8e-3 : 1e-5) * (1 + std::fabs(want[i])))
          << "channels " << t.p.channels << " at " << i;
    }
    ThreadPool pool({.threads = 2});
    HostileExecutor hostile(4);
    EXPECT_EQ(Run(t, &pool, nullptr), got);
    EXPECT_EQ(Run(t, &hostile, nullptr), got);
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

INSTANTIATE_TEST_SUITE_P(Rows, DwRows, testing::ValuesIn(Rows()),
                         [](const auto& info) { return std::string(ukernel::Name(*info.param).text); });

TEST(SelectDwRow, FollowsTheCpu) {
  const DwConvProblem p{.channels = 64, .kernel_h = 3, .kernel_w = 3};
  const auto isa = [&](const char* cpu) {
    std::vector<DwRowCandidate> report;
    DwSelectOptions options;
    options.cpu = CpuFromSpec(cpu).value().facts();
    options.ignore_missing_bodies = true;
    const auto* row = SelectDwRow(p, options, &report);
    EXPECT_EQ(report.size(), ukernel::AllDwConvKernels().size());
    for (const DwRowCandidate& c : report) EXPECT_EQ(c.reason.empty(), c.row == row) << c.name;
    return std::string(row->isa.name);
  };
  EXPECT_EQ(isa("sapphirerapids"), "avx512");
  EXPECT_EQ(isa("haswell"), "avx2");
  EXPECT_EQ(isa("graviton3"), "neon");
  EXPECT_EQ(isa("sapphirerapids,-dwconv"), "portable");
}

}  // namespace
}  // namespace quern::kernels
