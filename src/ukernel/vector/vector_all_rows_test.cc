// Every row of the vector family against double-precision loops of the standard library.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <random>
#include <vector>

#include "base/cpu.h"
#include "base/random_numbers.h"
#include "ukernel/guarded_buffer.h"
#include "ukernel/rows_that_run.h"
#include "ukernel/vector.h"

namespace quern::ukernel {
namespace {

std::vector<const VectorKernel*> Rows() {
  return RowsThatRun(AllVectorKernels(), &VectorKernel::unary, HostCpu().facts());
}

// Distance in units in the last place of the expected value (of the smallest normal number below it).
double UlpsOff(float actual, double expected) {
  if (std::isnan(expected)) return std::isnan(actual) ? 0 : 1e9;
  const float rounded = static_cast<float>(expected);
  if (std::isinf(rounded)) return actual == rounded || std::fabs(actual) >= 3.3e38f ? 0 : 1e9;
  const double ulp = std::ldexp(1.0, std::max(std::ilogb(expected == 0 ? 1e-38 : expected), -126) - 23);
  return std::fabs(actual - expected) / ulp;
}

struct UnaryCase {
  UnaryKind kind;
  const char* name;
  std::function<double(double)> f;
  double ulps;
  float low, high;
  float a = 0, b = 0;
};

std::vector<UnaryCase> UnaryCases() {
  auto sigmoid = [](double x) { return 1 / (1 + std::exp(-x)); };
  auto softplus = [](double x) { return std::fmax(x, 0.0) + std::log1p(std::exp(-std::fabs(x))); };
  return {
      {UnaryKind::kRelu, "relu", [](double x) { return x < 0 ? 0 : x; }, 0, -5, 5},
      {UnaryKind::kLeakyRelu, "leaky", [](double x) { return x < 0 ? 0.125 * x : x; }, 0.51, -5, 5, 0.125f},
      {UnaryKind::kThresholdedRelu, "thresholded", [](double x) { return x > 1 ? x : 0; }, 0, -5, 5, 1},
      {UnaryKind::kClip, "clip", [](double x) { return std::fmin(std::fmax(x, -1), 6); }, 0, -9, 9, -1, 6},
      {UnaryKind::kSigmoid, "sigmoid", sigmoid, 3, -86, 110},
      {UnaryKind::kSilu, "silu", [&](double x) { return x * sigmoid(x); }, 4, -80, 80, 1},
      {UnaryKind::kTanh, "tanh", [](double x) { return std::tanh(x); }, 3, -12, 12},
      {UnaryKind::kTanh, "tanh near 0", [](double x) { return std::tanh(x); }, 3, -1e-3f, 1e-3f},
      {UnaryKind::kExp, "exp", [](double x) { return std::exp(x); }, 1.5, -110, 92},
      {UnaryKind::kLog, "log", [](double x) { return std::log(x); }, 2, 1e-30f, 4},
      {UnaryKind::kLog, "log of tiny numbers", [](double x) { return std::log(x); }, 2, 0, 1e-38f},
      {UnaryKind::kLog, "log of large numbers", [](double x) { return std::log(x); }, 2, 0, 3e38f},
      {UnaryKind::kSqrt, "sqrt", [](double x) { return std::sqrt(x); }, 0.51, -1, 100},
      {UnaryKind::kNeg, "neg", [](double x) { return -x; }, 0, -5, 5},
      {UnaryKind::kAbs, "abs", [](double x) { return std::fabs(x); }, 0, -5, 5},
      {UnaryKind::kReciprocal, "reciprocal", [](double x) { return 1 / x; }, 0.51, -5, 5},
      {UnaryKind::kFloor, "floor", [](double x) { return std::floor(x); }, 0, -5, 5},
      {UnaryKind::kCeil, "ceil", [](double x) { return std::ceil(x); }, 0, -5, 5},
      {UnaryKind::kRound, "round", [](double x) { return std::nearbyint(x); }, 0, -5, 5},
      {UnaryKind::kSign, "sign", [](double x) { return x > 0   ? 1
                                                       : x < 0 ? -1
                                                               : x; }, 0, -5, 5},
      {UnaryKind::kErf, "erf", [](double x) { return std::erf(x); }, 3, -5, 5},
      {UnaryKind::kErf, "erf near 0", [](double x) { return std::erf(x); }, 3, -1e-3f, 1e-3f},
      {UnaryKind::kElu, "elu", [](double x) { return x < 0 ? 0.5 * std::expm1(x) : x; }, 3, -40, 5, 0.5f},
      {UnaryKind::kElu, "elu near 0", [](double x) { return x < 0 ? std::expm1(x) : x; }, 3, -0.5f, 0, 1},
      {UnaryKind::kCelu, "celu", [](double x) { return x < 0 ? 2 * std::expm1(x / 2) : x; }, 3, -40, 5, 2},
      {UnaryKind::kSelu, "selu", [](double x) { return 1.25 * (x > 0 ? x : 1.5 * std::expm1(x)); }, 4, -40, 5, 1.5f,
       1.25f},
      {UnaryKind::kSoftplus, "softplus", softplus, 4, -80, 80},
      {UnaryKind::kSoftsign, "softsign", [](double x) { return x / (1 + std::fabs(x)); }, 1.5, -80, 80},
      {UnaryKind::kMish, "mish", [=](double x) { return x * std::tanh(softplus(x)); }, 6, -80, 80},
      {UnaryKind::kGelu, "gelu", [](double x) { return 0.5 * x * std::erfc(-x / std::sqrt(2.0)); }, 40, -5, 10},
      {UnaryKind::kSquare, "square", [](double x) { return x * x; }, 0.51, -80, 80},
      {UnaryKind::kCube, "cube", [](double x) { return x * x * x; }, 1.6, -80, 80},
      {UnaryKind::kCopy, "copy", [](double x) { return x; }, 0, -80, 80},
  };
}

TEST(VectorRows, UnaryFunctionsAreAccurate) {
  for (const VectorKernel* row : Rows()) {
    for (const UnaryCase& c : UnaryCases()) {
      std::mt19937 random(7);
      UniformNumbers<float> uniform(c.low, c.high);
      std::vector<float> x(4099);
      for (float& v : x) v = uniform(random);
      x[0] = 0, x[1] = NAN;
      std::vector<float> y(x.size()), in_place = x;
      row->unary({.kind = c.kind, .n = x.size(), .x = x.data(), .y = y.data(), .a = c.a, .b = c.b});
      row->unary({.kind = c.kind, .n = x.size(), .x = in_place.data(), .y = in_place.data(), .a = c.a, .b = c.b});
      for (size_t i = 0; i < x.size(); ++i) {
        if (i == 1) {
          if (c.kind != UnaryKind::kThresholdedRelu && c.kind != UnaryKind::kClip) {
            EXPECT_TRUE(std::isnan(y[i])) << c.name;
          }
          continue;
        }
        ASSERT_LE(UlpsOff(y[i], c.f(x[i])), c.ulps)
            << Name(*row).text << " " << c.name << "(" << x[i] << ") = " << y[i] << ", expected " << c.f(x[i]);
        ASSERT_EQ(std::isnan(y[i]), std::isnan(in_place[i]));
        if (!std::isnan(y[i])) ASSERT_LE(UlpsOff(in_place[i], y[i]), c.ulps) << c.name;
      }
    }
  }
}

TEST(VectorRows, HardFunctionsAndGeluTanhAreClose) {
  struct {
    UnaryKind kind;
    double (*f)(double);
    float a, b;
  } cases[] = {
      {UnaryKind::kHardSigmoid, [](double x) { return std::fmin(std::fmax(0.2f * x + 0.5, 0), 1); }, 0.2f, 0.5f},
      {UnaryKind::kHardSwish, [](double x) { return x * std::fmin(std::fmax(x / 6 + 0.5, 0), 1); }, 0, 0},
      {UnaryKind::kGeluTanh,
       [](double x) { return 0.5 * x * (1 + std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x))); }, 0, 0},
  };
  for (const VectorKernel* row : Rows()) {
    for (const auto& c : cases) {
      for (float x = -8; x < 8; x += 0.01f) {
        float y = 0;
        row->unary({.kind = c.kind, .n = 1, .x = &x, .y = &y, .a = c.a, .b = c.b});
        ASSERT_NEAR(y, c.f(x), 1e-6 + 5e-7 * std::fabs(c.f(x))) << Name(*row).text << " " << x;
      }
    }
  }
}

TEST(VectorRows, InfinitiesAndEndsOfTheRange) {
  for (const VectorKernel* row : Rows()) {
    auto at = [&](UnaryKind kind, float x) {
      float y = 0;
      row->unary({.kind = kind, .n = 1, .x = &x, .y = &y, .a = 1, .b = 1});
      return y;
    };
    EXPECT_EQ(at(UnaryKind::kExp, INFINITY), INFINITY);
    EXPECT_EQ(at(UnaryKind::kExp, -INFINITY), 0.0f);
    EXPECT_EQ(at(UnaryKind::kExp, 0), 1.0f);
    EXPECT_EQ(at(UnaryKind::kSigmoid, INFINITY), 1.0f);
    EXPECT_EQ(at(UnaryKind::kSigmoid, -INFINITY), 0.0f);
    EXPECT_EQ(at(UnaryKind::kTanh, INFINITY), 1.0f);
    EXPECT_EQ(at(UnaryKind::kTanh, -INFINITY), -1.0f);
    EXPECT_EQ(at(UnaryKind::kErf, INFINITY), 1.0f);
    EXPECT_EQ(at(UnaryKind::kErf, -INFINITY), -1.0f);
    EXPECT_EQ(at(UnaryKind::kLog, 0), -INFINITY);
    EXPECT_EQ(at(UnaryKind::kLog, INFINITY), INFINITY);
    EXPECT_TRUE(std::isnan(at(UnaryKind::kLog, -1)));
    EXPECT_EQ(at(UnaryKind::kLog, 1), 0.0f);
    EXPECT_EQ(at(UnaryKind::kElu, -INFINITY), -1.0f);
    EXPECT_EQ(at(UnaryKind::kSoftplus, INFINITY), INFINITY);
    EXPECT_EQ(at(UnaryKind::kSoftplus, -INFINITY), 0.0f);
  }
}

TEST(VectorRows, BinaryOperatorsWithRepeatedOperands) {
  struct {
    BinaryKind kind;
    float (*f)(float, float);
  } cases[] = {
      {BinaryKind::kAdd, [](float a, float b) { return a + b; }},
      {BinaryKind::kSub, [](float a, float b) { return a - b; }},
      {BinaryKind::kMul, [](float a, float b) { return a * b; }},
      {BinaryKind::kDiv, [](float a, float b) { return a / b; }},
      {BinaryKind::kMin, [](float a, float b) { return a != a   ? a
                                                       : b != b ? b
                                                       : a < b  ? a
                                                                : b; }},
      {BinaryKind::kMax, [](float a, float b) { return a != a   ? a
                                                       : b != b ? b
                                                       : a > b  ? a
                                                                : b; }},
      {BinaryKind::kPrelu, [](float a, float b) { return a < 0 ? b * a : a; }},
  };
  std::mt19937 random(3);
  NormalNumbers<float> normal;
  for (const VectorKernel* row : Rows()) {
    for (const auto& c : cases) {
      for (int steps = 0; steps < 4; ++steps) {
        std::vector<float> x(133), z(133), y(133);
        for (float& v : x) v = normal(random);
        for (float& v : z) v = normal(random);
        x[5] = NAN, z[9] = NAN;
        const size_t x_step = steps & 1, z_step = steps >> 1;
        row->binary({.kind = c.kind,
                     .n = y.size(),
                     .x = x.data(),
                     .z = z.data(),
                     .y = y.data(),
                     .x_step = x_step,
                     .z_step = z_step});
        for (size_t i = 0; i < y.size(); ++i) {
          const float expected = c.f(x[i * x_step], z[i * z_step]);
          ASSERT_TRUE(y[i] == expected || (std::isnan(y[i]) && std::isnan(expected))) << Name(*row).text << " " << i;
        }
      }
    }
  }
}

double FoldOf(FoldKind kind, double acc, double x, double shift) {
  switch (kind) {
    case FoldKind::kSum:
      return acc + x;
    case FoldKind::kSumAbs:
      return acc + std::fabs(x);
    case FoldKind::kSumSquares:
      return acc + (x - shift) * (x - shift);
    case FoldKind::kProd:
      return acc * x;
    case FoldKind::kMax:
      return std::isnan(acc) || acc > x ? acc : x;
    default:
      return std::isnan(acc) || acc < x ? acc : x;
  }
}

TEST(VectorRows, FoldsOfLinesAndRows) {
  std::mt19937 random(5);
  UniformNumbers<float> uniform(0.5f, 1.5f);
  for (const VectorKernel* row : Rows()) {
    for (int k = 0; k < static_cast<int>(FoldKind::kCount); ++k) {
      const FoldKind kind = static_cast<FoldKind>(k);
      for (size_t n : {0, 1, 15, 64, 200, 10001}) {
        std::vector<float> x(n);
        for (float& v : x) v = kind == FoldKind::kProd ? 1 + (uniform(random) - 1) * 1e-3f : uniform(random);
        const float shift = kind == FoldKind::kSumSquares ? 0.75f : 0.0f;
        double expected = FoldStart(kind);
        for (float v : x) expected = FoldOf(kind, expected, v, shift);
        const float y = row->fold({.kind = kind, .n = n, .x = x.data(), .shift = shift});
        if (std::isinf(expected)) {
          EXPECT_EQ(y, expected);
        } else {
          EXPECT_NEAR(y, expected, (kind == FoldKind::kProd ? 4e-5 : 4e-6) * std::fabs(expected))
              << Name(*row).text << " " << k << " " << n;
        }
      }
      for (size_t n : {1, 15, 16, 33, 100}) {
        for (size_t rows : {0, 1, 9, 200}) {
          std::vector<float> x(rows * 128), y(n);
          for (float& v : x) v = 1 + (uniform(random) - 1) * 0.01f;
          std::vector<ptrdiff_t> offsets;
          for (size_t r = 0; r < rows; ++r) offsets.push_back(static_cast<ptrdiff_t>(r * 128));
          for (bool listed : {false, true}) {
            row->fold_rows({.kind = kind,
                            .rows = rows,
                            .n = n,
                            .x = x.data(),
                            .offsets = listed ? offsets.data() : nullptr,
                            .row_stride = 128,
                            .scale = 1,
                            .y = y.data()});
            for (size_t c = 0; c < n; ++c) {
              double expected = FoldStart(kind);
              for (size_t r = 0; r < rows; ++r) expected = FoldOf(kind, expected, x[r * 128 + c], 0);
              if (std::isinf(expected)) {
                ASSERT_EQ(y[c], expected);
              } else {
                ASSERT_NEAR(y[c], expected, 1e-5 * std::fabs(expected)) << Name(*row).text << " " << k;
              }
            }
          }
        }
      }
    }
    // Windows: pairs of rows of 20 elements, every other pair; gaps between the results stay.
    std::vector<float> x(10 * 20), y(5 * 21, -1.0f);
    for (float& v : x) v = uniform(random);
    FoldRowsArgs windows{.kind = FoldKind::kMax, .rows = 2, .n = 20, .x = x.data(), .row_stride = 20, .y = y.data()};
    windows.windows = 5;
    windows.x_step = 40, windows.y_step = 21;
    row->fold_rows(windows);
    for (size_t w = 0; w < 5; ++w) {
      for (size_t c = 0; c < 20; ++c) EXPECT_EQ(y[w * 21 + c], std::max(x[w * 40 + c], x[w * 40 + 20 + c]));
      EXPECT_EQ(y[w * 21 + 20], -1.0f);
    }
    // Special values stay in their window and column.
    x[3] = INFINITY;
    x[20 + 4] = -INFINITY;
    x[80 + 5] = NAN;
    x[100 + 6] = NAN;
    row->fold_rows(windows);
    for (size_t w = 0; w < 5; ++w) {
      for (size_t c = 0; c < 20; ++c) {
        if (w == 2 && (c == 5 || c == 6)) {
          EXPECT_TRUE(std::isnan(y[w * 21 + c]));
        } else {
          EXPECT_EQ(y[w * 21 + c], std::max(x[w * 40 + c], x[w * 40 + 20 + c])) << w << " " << c;
        }
      }
    }
    const float with_nan[] = {1, NAN, 3};
    EXPECT_TRUE(std::isnan(row->fold({.kind = FoldKind::kMax, .n = 3, .x = with_nan})));
    EXPECT_TRUE(std::isnan(row->fold({.kind = FoldKind::kMin, .n = 3, .x = with_nan})));
  }
}

TEST(VectorRows, NormalizeAndBlend) {
  std::mt19937 random(11);
  NormalNumbers<float> normal(0, 4);
  for (const VectorKernel* row : Rows()) {
    const size_t n = 77;
    std::vector<float> x(n * 6), g(n), b(n), y(n);
    for (float& v : x) v = normal(random);
    for (float& v : g) v = normal(random);
    for (float& v : b) v = normal(random);
    for (int mask = 0; mask < 4; ++mask) {
      row->normalize({.n = n,
                      .x = x.data(),
                      .y = y.data(),
                      .shift = 0.5f,
                      .scale = 1.5f,
                      .offset = 0.25f,
                      .gamma = mask & 1 ? g.data() : nullptr,
                      .beta = mask & 2 ? b.data() : nullptr});
      for (size_t i = 0; i < n; ++i) {
        const double e = (x[i] - 0.5) * 1.5 * (mask & 1 ? g[i] : 1.0) + (mask & 2 ? b[i] : 0.25);
        ASSERT_NEAR(y[i], e, 1e-5);
      }
    }
    const float weights[] = {0.25f, -1, 2, 0.5f, 3, 1};
    std::vector<ptrdiff_t> offsets;
    for (int t = 0; t < 6; ++t) offsets.push_back(static_cast<ptrdiff_t>(t) * static_cast<ptrdiff_t>(n));
    for (size_t taps : {1, 2, 4, 6}) {
      row->blend({.taps = taps, .n = n, .x = x.data(), .offsets = offsets.data(), .weights = weights, .y = y.data()});
      for (size_t i = 0; i < n; ++i) {
        double e = 0;
        for (size_t t = 0; t < taps; ++t) e += static_cast<double>(weights[t]) * x[t * n + i];
        ASSERT_NEAR(y[i], e, 1e-5);
      }
    }
  }
}

template <typename T>
void CheckTranspose(const VectorKernel& row, size_t rows, size_t cols, size_t gap) {
  const size_t x_col = rows + gap, y_row = cols + gap;
  GuardedBuffer x((cols ? (cols - 1) * x_col + rows : 0) * sizeof(T));
  GuardedBuffer y((rows ? (rows - 1) * y_row + cols : 0) * sizeof(T));
  auto* from = reinterpret_cast<T*>(x.data());
  auto* to = reinterpret_cast<T*>(y.data());
  // Neighbours differ in every byte; as floats these are NaNs, which stay as they are.
  for (size_t i = 0; i < x.bytes() / sizeof(T); ++i) {
    from[i] = static_cast<T>(0xfff0'0000'7f80'0001 + i * 0x0000'0101'0001'0107);
  }
  for (size_t i = 0; i < y.bytes() / sizeof(T); ++i) to[i] = 7;
  row.transpose({.element_bytes = sizeof(T),
                 .rows = rows,
                 .cols = cols,
                 .x = from,
                 .x_col = static_cast<ptrdiff_t>(x_col),
                 .y = to,
                 .y_row = static_cast<ptrdiff_t>(y_row)});
  for (size_t i = 0; i < y.bytes() / sizeof(T); ++i) {
    const size_t r = i / y_row, c = i % y_row;
    ASSERT_EQ(to[i], c < cols ? from[c * x_col + r] : T{7})
        << Name(row).text << " " << sizeof(T) << " bytes, " << rows << " rows, " << cols << " columns, gap " << gap
        << ": " << r << "," << c;
  }
}

TEST(VectorRows, TransposesMoveEveryElementAndNoOther) {
  const std::vector<size_t> extents = {0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 33, 58, 64, 67};
  for (const VectorKernel* row : Rows()) {
    for (const size_t rows : extents) {
      for (const size_t cols : extents) {
        for (const size_t gap : {0, 3}) {
          ASSERT_NO_FATAL_FAILURE(CheckTranspose<uint8_t>(*row, rows, cols, gap));
          ASSERT_NO_FATAL_FAILURE(CheckTranspose<uint16_t>(*row, rows, cols, gap));
          ASSERT_NO_FATAL_FAILURE(CheckTranspose<uint32_t>(*row, rows, cols, gap));
          ASSERT_NO_FATAL_FAILURE(CheckTranspose<uint64_t>(*row, rows, cols, gap));
        }
      }
    }
  }
}

TEST(VectorRows, GatherBlend) {
  std::mt19937 random(3);
  NormalNumbers<float> normal;
  std::vector<float> x(1000);
  for (float& v : x) v = normal(random);
  for (const VectorKernel* row : Rows()) {
    for (size_t taps : {0, 1, 2, 3, 4, 5, 8, 10, 64}) {
      for (size_t n : {0, 1, 7, 33, 64}) {
        const size_t pitch = n + 3;
        std::vector<int64_t> offsets(taps * pitch);
        std::vector<float> weights(taps * pitch), y(n);
        for (int64_t& o : offsets) o = static_cast<int64_t>(random() % x.size());
        for (float& w : weights) w = normal(random);
        row->gather_blend({.taps = taps,
                           .n = n,
                           .pitch = pitch,
                           .x = x.data(),
                           .offsets = offsets.data(),
                           .weights = weights.data(),
                           .y = y.data()});
        for (size_t i = 0; i < n; ++i) {
          double e = 0;
          for (size_t t = 0; t < taps; ++t) {
            e += static_cast<double>(weights[t * pitch + i]) * x[static_cast<size_t>(offsets[t * pitch + i])];
          }
          ASSERT_NEAR(y[i], e, 1e-4) << Name(*row).text << " " << taps << " " << i;
        }
      }
    }
  }
}

TEST(VectorRows, OverlapsAreThoseOfTheFormula) {
  std::mt19937 random(11);
  UniformNumbers<float> place(0, 10), side(-0.2f, 4);
  for (const VectorKernel* row : Rows()) {
    int above = 0;
    for (int round = 0; round < 400; ++round) {
      const size_t n = static_cast<size_t>(random() % 130);
      GuardedBuffer memory(5 * n * 4);  // areas end before an inaccessible page
      auto* others = reinterpret_cast<float*>(memory.data());
      const auto draw = [&](float* box) {
        box[0] = place(random), box[1] = place(random);
        box[2] = box[0] + std::max(0.0f, side(random)), box[3] = box[1] + std::max(0.0f, side(random));
        box[4] = (box[2] - box[0]) * (box[3] - box[1]);
      };
      float box[5], other[5];
      draw(box);
      const float threshold = round % 3 ? 0.7f : 0.0f;
      bool want = false;
      for (size_t i = 0; i < n; ++i) {
        draw(other);
        if (round % 50 == 0 && i == 3) other[0] = NAN;
        for (size_t k = 0; k < 5; ++k) others[k * n + i] = other[k];
        const double width = std::min<double>(box[2], other[2]) - std::max<double>(box[0], other[0]);
        const double height = std::min<double>(box[3], other[3]) - std::max<double>(box[1], other[1]);
        const double both = width * height;
        want |= box[4] > 0 && other[4] > 0 && width > 0 && height > 0 && both / (box[4] + other[4] - both) > threshold;
      }
      above += want;
      EXPECT_EQ(row->overlaps({.x0 = box[0],
                               .y0 = box[1],
                               .x1 = box[2],
                               .y1 = box[3],
                               .area = box[4],
                               .threshold = threshold,
                               .n = n,
                               .others_x0 = others,
                               .others_y0 = others + n,
                               .others_x1 = others + 2 * n,
                               .others_y1 = others + 3 * n,
                               .areas = others + 4 * n}),
                want)
          << Name(*row).text << " round " << round;
    }
    EXPECT_GT(above, 50);
    EXPECT_LT(above, 350);
  }
}

TEST(VectorRows, RotationsAreThoseOfTheFormula) {
  std::mt19937 random(23);
  NormalNumbers<float> normal;
  for (const VectorKernel* row : Rows()) {
    for (const size_t half : {0u, 1u, 3u, 8u, 16u, 31u, 32u, 65u}) {
      for (const bool interleaved : {false, true}) {
        GuardedBuffer memory(6 * half * 4);
        auto* x = reinterpret_cast<float*>(memory.data());
        float *cosines = x + 2 * half, *sines = cosines + half, *y = sines + half;
        for (size_t i = 0; i < 4 * half; ++i) x[i] = normal(random);
        RotateArgs args{.half = half, .interleaved = interleaved, .cosines = cosines, .sines = sines, .x = x, .y = y};
        row->rotate(args);
        std::vector<float> want(2 * half);
        for (size_t i = 0; i < half; ++i) {
          const size_t u = interleaved ? 2 * i : i, v = interleaved ? 2 * i + 1 : i + half;
          want[u] = cosines[i] * x[u] - sines[i] * x[v];
          want[v] = sines[i] * x[u] + cosines[i] * x[v];
        }
        ASSERT_EQ(std::vector<float>(y, y + 2 * half), want) << Name(*row).text << " " << half;
        args.y = x;  // in place
        row->rotate(args);
        ASSERT_EQ(std::vector<float>(x, x + 2 * half), want) << Name(*row).text << " " << half;
      }
    }
  }
}

TEST(VectorRows, RowsAreScaledAndNumbersThatAreNoneFound) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  std::mt19937 random(29);
  NormalNumbers<float> normal;
  for (const VectorKernel* row : Rows()) {
    for (const size_t n : {0u, 1u, 7u, 16u, 33u, 64u}) {
      const size_t pitch = n + 3, rows = 5;
      GuardedArray<float> y((rows - 1) * pitch + n);
      const std::vector<float> scales = {0.5f, -2, 3, 0, 1e-30f};
      for (float& v : y) v = normal(random);
      std::vector<float> want(y.begin(), y.end());
      for (size_t i = 0; i < rows * n; ++i) want[i / n * pitch + i % n] *= scales[i / n];
      const ScaleRowsArgs args{
          .rows = rows, .n = n, .y = y.data(), .pitch = static_cast<ptrdiff_t>(pitch), .scales = scales.data()};
      EXPECT_TRUE(row->scale_rows(args)) << Name(*row).text << " " << n;
      ASSERT_EQ(std::vector<float>(y.begin(), y.end()), want) << Name(*row).text << " " << n;
      for (const float bad : {kInfinity, -kInfinity, std::nanf("")}) {
        for (size_t at = 0; at < rows * n; at += 3) {
          for (float& v : y) v = 3e38f;
          y[at / n * pitch + at % n] = bad;
          EXPECT_FALSE(row->scale_rows(args)) << Name(*row).text << " " << n << " " << at;
        }
      }
      if (n == 0) continue;
      for (float& v : y) v = kInfinity;
      for (size_t i = 0; i < rows * n; ++i) y[i / n * pitch + i % n] = 1;
      EXPECT_TRUE(row->scale_rows(args)) << "what lies between rows is none of them";
    }
  }
}

TEST(VectorRows, DotsAndSumsOfRows) {
  std::mt19937 random(17);
  for (const VectorKernel* row : Rows()) {
    for (const size_t rows : {0, 1, 2, 3, 4, 5, 7}) {
      for (const size_t count : {0, 1, 3, 15, 16, 17, 50}) {
        for (const size_t n : {0, 1, 15, 16, 17, 33, 64, 150}) {
          const size_t x_pitch = n + 3, z_pitch = n + 1, w_pitch = count + 2;
          GuardedArray<float> x(rows * x_pitch - (rows ? 3 : 0)), z(count * z_pitch - (count ? 1 : 0)),
              w(rows * w_pitch - (rows ? 2 : 0)), dots(rows * w_pitch - (rows ? 2 : 0)),
              sums(rows * x_pitch - (rows ? 3 : 0));
          for (auto* b : {&x, &z, &w}) {
            for (float& v : *b) v = static_cast<float>(static_cast<int>(random() % 17) - 8);  // sums are exact
          }
          for (auto* b : {&dots, &sums}) {
            for (float& v : *b) v = -1;
          }
          std::vector<float> want_dots(dots.begin(), dots.end()), want_sums(sums.begin(), sums.end());
          for (size_t r = 0; r < rows; ++r) {
            for (size_t j = 0; j < count; ++j) {
              double dot = 0;
              for (size_t i = 0; i < n; ++i) dot += double{x[r * x_pitch + i]} * z[j * z_pitch + i];
              want_dots[r * w_pitch + j] = static_cast<float>(0.5 * dot);
            }
            for (size_t i = 0; i < n; ++i) {
              double sum = 0;
              for (size_t j = 0; j < count; ++j) sum += double{w[r * w_pitch + j]} * z[j * z_pitch + i];
              want_sums[r * x_pitch + i] = static_cast<float>(sum);
            }
          }
          const auto pitch = [](size_t p) { return static_cast<ptrdiff_t>(p); };
          row->dot_rows({.rows = rows,
                         .count = count,
                         .n = n,
                         .x = x.data(),
                         .z = z.data(),
                         .x_pitch = pitch(x_pitch),
                         .z_pitch = pitch(z_pitch),
                         .scale = 0.5f,
                         .y = dots.data(),
                         .y_pitch = pitch(w_pitch)});
          row->sum_rows({.rows = rows,
                         .count = count,
                         .n = n,
                         .w = w.data(),
                         .z = z.data(),
                         .w_pitch = pitch(w_pitch),
                         .z_pitch = pitch(z_pitch),
                         .y = sums.data(),
                         .y_pitch = pitch(x_pitch)});
          const std::string what = std::string(Name(*row).text) + " " + std::to_string(rows) + " by " +
                                   std::to_string(count) + " by " + std::to_string(n);
          ASSERT_EQ(std::vector<float>(dots.begin(), dots.end()), want_dots) << what;
          ASSERT_EQ(std::vector<float>(sums.begin(), sums.end()), want_sums) << what;
        }
      }
    }
  }
}

TEST(VectorRows, EachCpuGetsItsWidestRow) {
  EXPECT_STREQ(Name(*SelectVectorRow(CpuFacts{})).text, "vector_f32_portable");
  const CpuFacts cpu = HostCpu().facts();
  const VectorKernel* chosen = SelectVectorRow(cpu);
  for (const VectorKernel* row : Rows()) EXPECT_GE(chosen->lanes, row->lanes);
}

}  // namespace
}  // namespace quern::ukernel
