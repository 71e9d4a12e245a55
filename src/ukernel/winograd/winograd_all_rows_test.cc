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

// The matrices of one form: B' of patch x patch, A' of tile x patch, G of patch x 3.
struct Algebra {
  size_t tile;
  std::vector<std::vector<double>> b, a, g;
  size_t patch() const { return tile + 2; }
  size_t components() const { return patch() * patch(); }
  size_t pixels() const { return tile * tile; }
};

// The coefficients of the product of (t - root), the constant first.
std::vector<double> Polynomial(const std::vector<double>& roots) {
  std::vector<double> c = {1};
  for (const double root : roots) {
    c.insert(c.begin(), 0);
    for (size_t i = 0; i + 1 < c.size(); ++i) c[i] -= root * c[i + 1];
  }
  return c;
}

// By Lagrange's interpolation at `points` and infinity (Toom and Cook).
Algebra AtPoints(const std::vector<double>& points) {
  Algebra f{.tile = points.size() - 1, .b = {}, .a = {}, .g = {}};
  for (size_t i = 0; i < points.size(); ++i) {
    std::vector<double> others;
    double scale = 1;
    for (size_t j = 0; j < points.size(); ++j) {
      if (j == i) continue;
      others.push_back(points[j]);
      scale *= points[i] - points[j];
    }
    f.b.push_back(Polynomial(others));
    f.b.back().push_back(0);
    f.g.push_back({1 / scale, points[i] / scale, points[i] * points[i] / scale});
  }
  f.b.push_back(Polynomial(points));
  f.g.push_back({0, 0, 1});
  for (size_t r = 0; r < f.tile; ++r) {
    f.a.emplace_back();
    for (const double p : points) f.a[r].push_back(std::pow(p, r));
    f.a[r].push_back(r + 1 == f.tile ? 1 : 0);
  }
  return f;
}

std::vector<Algebra> Forms() {
  Algebra two = AtPoints({0, 1, -1});
  // The rows of point 0 and of infinity come with the other sign.
  for (double& x : two.b[0]) x = -x;
  for (double& x : two.g[0]) x = -x;
  for (double& x : two.b[3]) x = -x;
  for (auto& row : two.a) row[3] = -row[3];
  return {two, AtPoints({1.375, -1.375, 0.375, -0.375})};
}
const std::vector<size_t> kChannels = {0, 1, 3, 4, 7, 8, 15, 16, 17, 33, 64, 77};

std::vector<const WinogradKernel*> Rows() {
  return RowsThatRun(
      AllWinogradKernels(), [](const WinogradKernel& r) { return r.tiles2.input && r.tiles3.output; },
      HostCpu().facts());
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

// f(row, its transforms, form) for all.
template <class F>
void ForEachTransform(F f) {
  for (const WinogradKernel* row : Rows()) {
    for (const Algebra& form : Forms()) {
      SCOPED_TRACE(testing::Message() << Name(*row).text << ", tiles of " << form.tile);
      f(row->OfTile(form.tile), form);
    }
  }
}

TEST(WinogradRows, InputIsTransformedAsTheHeaderSays) {
  ForEachTransform([](const WinogradTransforms& t, const Algebra& form) {
    const size_t patch = form.patch(), count = form.components();
    for (const size_t channels : kChannels) {
      const Matrix x(count * channels, 1);
      const size_t stride = channels + 5;
      Matrix to(channels ? (count - 1) * stride + channels : 0, 2);
      std::vector<const float*> pixels;
      for (size_t i = 0; i < count; ++i) pixels.push_back(x.data + i * channels);
      t.input({.pixels = pixels.data(), .channels = channels, .to = to.data, .stride = stride});
      for (size_t i = 0; i < count; ++i) {
        for (size_t c = 0; c < channels; ++c) {
          double want = 0;
          for (size_t r = 0; r < patch; ++r) {
            for (size_t s = 0; s < patch; ++s) {
              want += form.b[i / patch][r] * form.b[i % patch][s] * static_cast<double>(pixels[patch * r + s][c]);
            }
          }
          ASSERT_NEAR(to.data[i * stride + c], want, 1e-5) << "component " << i << ", channel " << c;
        }
      }
    }
  });
}

TEST(WinogradRows, OutputsAreTransformedAsTheHeaderSays) {
  ForEachTransform([](const WinogradTransforms& t, const Algebra& form) {
    const size_t patch = form.patch(), tile = form.tile, count = form.pixels();
    for (const size_t channels : kChannels) {
      const size_t stride = channels + 3;
      const Matrix m(channels ? (form.components() - 1) * stride + channels : 0, 3);
      for (const unsigned inside : {511u, 5u, 3u, 1u, 0u}) {
        Matrix y(count * channels, 4);
        const std::vector<float> before(y.data, y.data + count * channels);
        std::vector<float*> pixels;
        for (size_t i = 0; i < count; ++i) pixels.push_back(inside >> i & 1 ? y.data + i * channels : nullptr);
        EXPECT_TRUE(t.output({.from = m.data, .stride = stride, .channels = channels, .pixels = pixels.data()}));
        for (size_t i = 0; i < count; ++i) {
          for (size_t c = 0; c < channels; ++c) {
            double want = 0;
            for (size_t r = 0; r < patch; ++r) {
              for (size_t s = 0; s < patch; ++s) {
                want += form.a[i / tile][r] * form.a[i % tile][s] *
                        static_cast<double>(m.data[(patch * r + s) * stride + c]);
              }
            }
            if (!pixels[i]) want = static_cast<double>(before[i * channels + c]);
            ASSERT_NEAR(y.data[i * channels + c], want, 2e-5) << "output " << i << ", channel " << c;
          }
        }
      }
    }
  });
}

TEST(WinogradRows, ResultsThatAreNotFiniteAreReported) {
  ForEachTransform([](const WinogradTransforms& t, const Algebra& form) {
    for (const size_t channels : {1, 16, 21}) {
      for (const float special : {INFINITY, -INFINITY, NAN}) {
        for (size_t i = 0; i < form.components(); ++i) {
          const Matrix m(form.components() * channels, 6);
          Matrix y(form.pixels() * channels, 7);
          m.data[i * channels + channels - 1] = special;
          std::vector<float*> pixels;
          for (size_t k = 0; k < form.pixels(); ++k) pixels.push_back(y.data + k * channels);
          EXPECT_FALSE(t.output({.from = m.data, .stride = channels, .channels = channels, .pixels = pixels.data()}))
              << "component " << i;
        }
      }
    }
  });
}

TEST(WinogradRows, WeightsAreTransformedAsTheHeaderSaysAndBack) {
  for (const Algebra& form : Forms()) {
    std::mt19937 random(5);
    NormalNumbers<double> normal;
    WinogradKernels w[9], components[kMostWinogradComponents];
    for (auto& tap : w) {
      for (double& v : tap) v = normal(random);
    }
    TransformWinogradWeights(form.tile, w, components);
    for (size_t k = 0; k < kWinogradKernels; ++k) {
      double own[kMostWinogradComponents], back[9];
      for (size_t i = 0; i < form.components(); ++i) {
        own[i] = components[i][k];
        double want = 0;
        for (size_t r = 0; r < 3; ++r) {
          for (size_t s = 0; s < 3; ++s) {
            want += form.g[i / form.patch()][r] * form.g[i % form.patch()][s] * w[3 * r + s][k];
          }
        }
        EXPECT_NEAR(own[i], want, 1e-14);
      }
      RestoreWinogradWeights(form.tile, own, back);
      for (size_t i = 0; i < 9; ++i) EXPECT_NEAR(back[i], w[i][k], 1e-13);
    }
  }
}

TEST(WinogradRows, EachCpuGetsItsWidestRow) {
  EXPECT_STREQ(Name(*SelectWinogradRow(CpuFacts{})).text, "winograd_f32_portable");
  const WinogradKernel* chosen = SelectWinogradRow(HostCpu().facts());
  for (const WinogradKernel* row : Rows()) EXPECT_GE(chosen->lanes, row->lanes);
}

}  // namespace
}  // namespace quern::ukernel
