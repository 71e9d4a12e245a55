// Every row of the Winograd family against the algebra of its header, in double precision.
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "base/cpu.h"
#include "base/random_numbers.h"
#include "ukernel/guarded_buffer.h"
#include "ukernel/rows_that_run.h"
#include "ukernel/winograd.h"

namespace quern::ukernel {
namespace {

constexpr double kB[4][4] = {{1, 0, -1, 0}, {0, 1, 1, 0}, {0, -1, 1, 0}, {0, 1, 0, -1}};  // B'
constexpr double kA[2][4] = {{1, 1, 1, 0}, {0, 1, -1, -1}};                               // A'
constexpr double kG[4][3] = {{1, 0, 0}, {0.5, 0.5, 0.5}, {0.5, -0.5, 0.5}, {0, 0, 1}};
const std::vector<size_t> kChannels = {0, 1, 3, 4, 7, 8, 15, 16, 17, 33, 64, 77};

std::vector<const WinogradKernel*> Rows() {
  return RowsThatRun(AllWinogradKernels(), &WinogradKernel::input, HostCpu().facts());
}

// f(index) as element of a matrix of float32 that ends before an inaccessible page.
struct Matrix {
  Matrix(size_t count, uint32_t seed) : memory(count * sizeof(float)), data(reinterpret_cast<float*>(memory.data())) {
    std::mt19937 random(seed);
    NormalNumbers<float> normal;
    for (size_t i = 0; i < count; ++i) data[i] = normal(random);
  }
  GuardedBuffer memory;
  float* data;
};

TEST(WinogradRows, InputIsTransformedAsTheHeaderSays) {
  for (const WinogradKernel* row : Rows()) {
    for (const size_t channels : kChannels) {
      const Matrix x(16 * channels, 1);
      const size_t stride = channels + 5;
      Matrix to(channels ? 15 * stride + channels : 0, 2);
      const float* pixels[16];
      for (size_t i = 0; i < 16; ++i) pixels[i] = x.data + i * channels;
      row->input({.pixels = pixels, .channels = channels, .to = to.data, .stride = stride});
      for (size_t i = 0; i < 16; ++i) {
        for (size_t c = 0; c < channels; ++c) {
          double want = 0;
          for (size_t r = 0; r < 4; ++r) {
            for (size_t s = 0; s < 4; ++s)
              want += kB[i / 4][r] * kB[i % 4][s] * static_cast<double>(pixels[4 * r + s][c]);
          }
          ASSERT_NEAR(to.data[i * stride + c], want, 1e-5)
              << Name(*row).text << " component " << i << ", channel " << c;
        }
      }
    }
  }
}

TEST(WinogradRows, OutputsAreTransformedAsTheHeaderSays) {
  for (const WinogradKernel* row : Rows()) {
    for (const size_t channels : kChannels) {
      const size_t stride = channels + 3;
      const Matrix m(channels ? 15 * stride + channels : 0, 3);
      for (const unsigned inside : {15u, 5u, 3u, 1u, 0u}) {
        Matrix y(4 * channels, 4);
        const std::vector<float> before(y.data, y.data + 4 * channels);
        float* pixels[4];
        for (size_t i = 0; i < 4; ++i) pixels[i] = inside >> i & 1 ? y.data + i * channels : nullptr;
        EXPECT_TRUE(row->output({.from = m.data, .stride = stride, .channels = channels, .pixels = pixels}));
        for (size_t i = 0; i < 4; ++i) {
          for (size_t c = 0; c < channels; ++c) {
            double want = 0;
            for (size_t r = 0; r < 4; ++r) {
              for (size_t s = 0; s < 4; ++s) {
                want += kA[i / 2][r] * kA[i % 2][s] * static_cast<double>(m.data[(4 * r + s) * stride + c]);
              }
            }
            if (!pixels[i]) want = static_cast<double>(before[i * channels + c]);
            ASSERT_NEAR(y.data[i * channels + c], want, 1e-5)
                << Name(*row).text << " output " << i << ", channel " << c;
          }
        }
      }
    }
  }
}

TEST(WinogradRows, ResultsThatAreNotFiniteAreReported) {
  for (const WinogradKernel* row : Rows()) {
    for (const size_t channels : {1, 16, 21}) {
      for (const float special : {INFINITY, -INFINITY, NAN}) {
        for (size_t i = 0; i < 16; ++i) {
          const Matrix m(16 * channels, 6);
          Matrix y(4 * channels, 7);
          m.data[i * channels + channels - 1] = special;
          float* pixels[4];
          for (size_t k = 0; k < 4; ++k) pixels[k] = y.data + k * channels;
          EXPECT_FALSE(row->output({.from = m.data, .stride = channels, .channels = channels, .pixels = pixels}))
              << Name(*row).text << " component " << i;
        }
      }
    }
  }
}

TEST(WinogradRows, WeightsAreTransformedAsTheHeaderSays) {
  std::mt19937 random(5);
  NormalNumbers<double> normal;
  double w[9], components[kWinogradComponents];
  for (double& v : w) v = normal(random);
  TransformWinogradWeights(w, components);
  for (size_t i = 0; i < 16; ++i) {
    double want = 0;
    for (size_t r = 0; r < 3; ++r) {
      for (size_t s = 0; s < 3; ++s) want += kG[i / 4][r] * kG[i % 4][s] * w[3 * r + s];
    }
    EXPECT_NEAR(components[i], want, 1e-14);
  }
}

TEST(WinogradRows, EachCpuGetsItsWidestRow) {
  EXPECT_STREQ(Name(*SelectWinogradRow(CpuFacts{})).text, "winograd_f32_portable");
  const WinogradKernel* chosen = SelectWinogradRow(HostCpu().facts());
  for (const WinogradKernel* row : Rows()) EXPECT_GE(chosen->lanes, row->lanes);
}

}  // namespace
}  // namespace quern::ukernel
