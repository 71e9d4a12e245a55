// The convolution driver over volumes (NDHWC) against plain loops.
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "base/random_numbers.h"
#include "kernels/conv.h"
#include "kernels/row_table.h"
#include "parallel/hostile_executor.h"

namespace quern::kernels {
namespace {

std::mt19937 g_random(7);

size_t Draw(size_t low, size_t high) { return std::uniform_int_distribution<size_t>(low, high)(g_random); }

// Along one dimension.
struct Axis {
  size_t in = 1, kernel = 1, stride = 1, dilation = 1, before = 0, after = 0;

  static Axis Drawn() {
    Axis a{.in = Draw(3, 7), .kernel = Draw(1, 3), .stride = Draw(1, 2), .dilation = Draw(1, 2)};
    a.before = Draw(0, 2);
    a.after = Draw(0, 2);
    if (a.in + a.before + a.after < a.dilation * (a.kernel - 1) + 1) a.dilation = 1;
    return a;
  }
  size_t out() const { return (in + before + after - dilation * (kernel - 1) - 1) / stride + 1; }
  // The input position of tap k for output o; -1 in the padding.
  ptrdiff_t At(size_t o, size_t k) const {
    const ptrdiff_t at = static_cast<ptrdiff_t>(o * stride + k * dilation) - static_cast<ptrdiff_t>(before);
    return at < static_cast<ptrdiff_t>(in) ? at : -1;
  }
};

template <typename T>
std::vector<T> Values(size_t n) {
  std::vector<T> v(n);
  for (T& x : v) {
    if constexpr (std::is_same_v<T, float>) {
      x = NormalNumbers<float>()(g_random);
    } else {
      x = static_cast<T>(Draw(0, 255));
    }
  }
  return v;
}

template <typename T, typename W, typename Acc>
void CheckVolume(Format lhs, Format rhs, int32_t x_zero, int32_t w_zero) {
  Axis d = Axis::Drawn(), h = Axis::Drawn(), w = Axis::Drawn();
  if (Draw(0, 2) == 0) {  // lines of whole tiles without padding
    for (Axis* a : {&d, &h, &w}) {
      a->before = a->after = 0;
      a->in = std::max(a->in, a->dilation * (a->kernel - 1) + 1);
    }
    w.in = w.dilation * (w.kernel - 1) + 1 + 47 * w.stride;
  }
  const size_t groups = Draw(0, 3) == 0 ? 2 : 1, images = Draw(1, 3);
  const size_t channels = groups * Draw(1, 20), filters = groups * Draw(1, 20), part = channels / groups;
  ConvProblem p;
  p.lhs = lhs, p.rhs = rhs;
  p.in_channels = channels, p.out_channels = filters, p.groups = groups;
  p.kernel_d = d.kernel, p.kernel_h = h.kernel, p.kernel_w = w.kernel;
  p.stride_d = d.stride, p.stride_h = h.stride, p.stride_w = w.stride;
  p.dilation_d = d.dilation, p.dilation_h = h.dilation, p.dilation_w = w.dilation;
  p.pad_front = d.before, p.pad_top = h.before, p.pad_left = w.before;
  p.pad_back = d.after, p.pad_bottom = h.after, p.pad_right = w.after;
  const std::vector<T> x = Values<T>(images * d.in * h.in * w.in * channels);
  const std::vector<W> weights = Values<W>(filters * part * d.kernel * h.kernel * w.kernel);
  const auto element = static_cast<ptrdiff_t>(sizeof(W));
  ConvWeights source{.data = weights.data(), .w_stride = element};
  source.h_stride = static_cast<ptrdiff_t>(w.kernel) * element;
  source.d_stride = static_cast<ptrdiff_t>(h.kernel) * source.h_stride;
  source.i_stride = static_cast<ptrdiff_t>(d.kernel) * source.d_stride;
  source.o_stride = static_cast<ptrdiff_t>(part) * source.i_stride;
  HostileExecutor executor(3, 3);
  SelectOptions options;
  options.cpu = HostCpu().facts();
  options.rows = TestRows();
  const bool packed_by_run = Draw(0, 1) != 0;
  if (packed_by_run) source.data = nullptr;
  const Result<Conv> conv = Conv::Create(p, options, source, executor);
  ASSERT_TRUE(conv.ok()) << conv.status().message();

  const size_t pixels = d.out() * h.out() * w.out();
  std::vector<Acc> y(images * pixels * filters);
  ConvArgs args;
  args.images = images, args.in_d = d.in, args.in_h = h.in, args.in_w = w.in;
  args.input = x.data();
  if (packed_by_run) args.weights = weights.data();
  args.in_pixel_stride = static_cast<ptrdiff_t>(channels * sizeof(T));
  args.in_row_stride = static_cast<ptrdiff_t>(w.in) * args.in_pixel_stride;
  args.in_image_stride = static_cast<ptrdiff_t>(d.in * h.in) * args.in_row_stride;
  args.dst = y.data();
  args.dst_pixel_stride = static_cast<ptrdiff_t>(filters * sizeof(Acc));
  args.dst_image_stride = static_cast<ptrdiff_t>(pixels) * args.dst_pixel_stride;
  args.input_zero_point = x_zero;
  args.weight_zero_point = w_zero;
  const ConvPlan plan = conv->Plan(args, executor.concurrency());
  std::vector<char> workspace(plan.workspace_bytes + 64);
  char* aligned = workspace.data() + (64 - reinterpret_cast<uintptr_t>(workspace.data()) % 64) % 64;
  ASSERT_TRUE(
      conv->Run(plan, args, {.executor = &executor, .workspace = aligned, .workspace_bytes = plan.workspace_bytes})
          .ok());

  constexpr double kTolerance = sizeof(T) == 4 ? 1e-4 : 0;
  size_t at = 0;
  for (size_t image = 0; image < images; ++image) {
    for (size_t pixel = 0; pixel < pixels; ++pixel) {
      const size_t oz = pixel / (h.out() * w.out()), oy = pixel / w.out() % h.out(), ox = pixel % w.out();
      for (size_t o = 0; o < filters; ++o, ++at) {
        double sum = 0;
        for (size_t tap = 0; tap < d.kernel * h.kernel * w.kernel; ++tap) {
          const ptrdiff_t iz = d.At(oz, tap / (h.kernel * w.kernel)), iy = h.At(oy, tap / w.kernel % h.kernel),
                          ix = w.At(ox, tap % w.kernel);
          if (iz < 0 || iy < 0 || ix < 0) continue;
          const size_t from = ((image * d.in + static_cast<size_t>(iz)) * h.in + static_cast<size_t>(iy)) * w.in +
                              static_cast<size_t>(ix);
          for (size_t i = 0; i < part; ++i) {
            sum += (static_cast<double>(x[from * channels + o / (filters / groups) * part + i]) - x_zero) *
                   (static_cast<double>(weights[(o * part + i) * d.kernel * h.kernel * w.kernel + tap]) - w_zero);
          }
        }
        ASSERT_NEAR(static_cast<double>(y[at]), sum, kTolerance) << pixel << " " << o;
      }
    }
  }
}

TEST(ConvVolume, Floats) {
  for (int i = 0; i < 60; ++i) {
    ASSERT_NO_FATAL_FAILURE((CheckVolume<float, float, float>(Format::kF32, Format::kF32, 0, 0)));
  }
}

TEST(ConvVolume, Integers) {
  for (int i = 0; i < 60; ++i) {
    const int32_t x_zero = static_cast<int32_t>(Draw(0, 1) * 77), w_zero = static_cast<int32_t>(Draw(0, 1) * 5);
    ASSERT_NO_FATAL_FAILURE((CheckVolume<uint8_t, int8_t, int32_t>(Format::kU8, Format::kI8, x_zero, w_zero)));
    ASSERT_NO_FATAL_FAILURE((CheckVolume<int8_t, int8_t, int32_t>(Format::kI8, Format::kI8, x_zero, w_zero)));
  }
}

}  // namespace
}  // namespace quern::kernels
