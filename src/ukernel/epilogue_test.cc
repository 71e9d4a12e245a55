// ApplyEpilogue, the reference of fused epilogues, and the same of vector rows, against formulas in double precision.
#include "ukernel/epilogue.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "base/cpu.h"
#include "ukernel/convert.h"
#include "ukernel/vector.h"

namespace quern::ukernel {
namespace {

constexpr size_t kM = 3, kN = 300;  // wider than the chunk that is handled at once

struct Data {
  std::vector<float> x, over_n, over_m, matrix;
  Data() : x(kM * kN), over_n(kN + 2), over_m(kM + 1), matrix((kM + 1) * (kN + 2)) {
    for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(static_cast<int>(i * 37 % 201) - 100) * 0.07f;
    for (size_t i = 0; i < over_n.size(); ++i) over_n[i] = static_cast<float>(i % 17) * 0.25f - 1.5f;
    for (size_t i = 0; i < over_m.size(); ++i) over_m[i] = static_cast<float>(i) + 0.5f;
    for (size_t i = 0; i < matrix.size(); ++i) matrix[i] = static_cast<float>(i % 23) * 0.5f - 4;
  }
};

struct NamedRun {
  std::string name;
  EpilogueRun run;
};
void PrintTo(const NamedRun& r, std::ostream* out) { *out << r.name; }

std::vector<NamedRun> Runs() {
  std::vector<NamedRun> runs = {{"plain", ApplyEpilogue}};
  for (const KernelList<VectorKernel>* list : AllVectorKernels()) {
    for (size_t i = 0; i < list->count; ++i) {
      const VectorKernel& row = list->rows[i];
      if (row.epilogue && IsaRunsOn(row.isa, HostCpu().facts())) runs.push_back({Name(row).text, row.epilogue});
    }
  }
  return runs;
}

class Epilogue : public ::testing::TestWithParam<NamedRun> {
 protected:
  // The block is at row 1, column 2 of the output.
  std::vector<float> Run(const Data& f, const std::vector<EpilogueOp>& ops) {
    std::vector<float> y(kM * kN);
    GetParam().run(ops.data(), ops.size(),
                   {.m = kM,
                    .n = kN,
                    .m0 = 1,
                    .n0 = 2,
                    .src = f.x.data(),
                    .src_row_stride = kN * 4,
                    .dst = y.data(),
                    .dst_row_stride = kN * 4});
    return y;
  }

  template <class F>
  void Expect(const Data& f, const EpilogueOp& op, F want, double tolerance = 4e-7) {
    const std::vector<float> y = Run(f, {op});
    for (size_t m = 0; m < kM; ++m) {
      for (size_t n = 0; n < kN; ++n) {
        const double w = want(static_cast<double>(f.x[m * kN + n]), m, n);
        ASSERT_NEAR(y[m * kN + n], w, tolerance * (std::fabs(w) + 1))
            << static_cast<int>(op.kind) << " " << m << "," << n;
      }
    }
  }
};

INSTANTIATE_TEST_SUITE_P(Runs, Epilogue, ::testing::ValuesIn(Runs()), [](const auto& p) { return p.param.name; });

TEST_P(Epilogue, FloatOperations) {
  Data f;
  const auto v = [&](size_t n) { return static_cast<double>(f.over_n[n + 2]); };
  const auto u = [&](size_t m) { return static_cast<double>(f.over_m[m + 1]); };
  const auto matrix = [&](size_t m, size_t n) { return static_cast<double>(f.matrix[(m + 1) * (kN + 2) + n + 2]); };
  using K = EpilogueKind;
  EpilogueOp op;
  op.data = f.over_n.data();
  op.kind = K::kAddVectorN;
  Expect(f, op, [&](double x, size_t, size_t n) { return x + v(n); });
  op.kind = K::kMulVectorN;
  Expect(f, op, [&](double x, size_t, size_t n) { return x * v(n); });
  op.kind = K::kPrelu;
  Expect(f, op, [&](double x, size_t, size_t n) { return x < 0 ? x * v(n) : x; });
  op.data = f.over_m.data();
  op.data2 = f.over_n.data();
  op.kind = K::kAddVectorM;
  Expect(f, op, [&](double x, size_t m, size_t) { return x + u(m); });
  op.kind = K::kMulVectorM;
  Expect(f, op, [&](double x, size_t m, size_t) { return x * u(m); });
  op.kind = K::kDivVectorM;
  Expect(f, op, [&](double x, size_t m, size_t) { return x / u(m); });
  op.kind = K::kAddOuter;
  Expect(f, op, [&](double x, size_t m, size_t n) { return x + u(m) * v(n); });
  op.kind = K::kAddOuterScalar;
  op.a = -3;
  Expect(f, op, [&](double x, size_t, size_t n) { return x - 3 * v(n); });
  op = {.data = f.matrix.data(), .row_stride = (kN + 2) * 4};
  op.kind = K::kAddMatrix;
  Expect(f, op, [&](double x, size_t m, size_t n) { return x + matrix(m, n); });
  op.kind = K::kMulMatrix;
  Expect(f, op, [&](double x, size_t m, size_t n) { return x * matrix(m, n); });
  Expect(f, {.kind = K::kAddScalar, .a = 0.3f}, [](double x, size_t, size_t) { return x + double{0.3f}; });
  Expect(f, {.kind = K::kMulScalar, .a = 0.3f}, [](double x, size_t, size_t) { return x * double{0.3f}; });
  Expect(f, {.kind = K::kClamp, .a = -1, .b = 2},
         [](double x, size_t, size_t) { return std::min(2.0, std::max(-1.0, x)); });
  Expect(f, {.kind = K::kLeakyRelu, .a = 0.125f}, [](double x, size_t, size_t) { return x < 0 ? 0.125 * x : x; });
  Expect(f, {.kind = K::kHardSigmoid, .a = 0.25f, .b = 0.5f},
         [](double x, size_t, size_t) { return std::min(1.0, std::max(0.0, 0.25 * x + 0.5)); });
  Expect(f, {.kind = K::kHardSwish},
         [](double x, size_t, size_t) { return x * std::min(1.0, std::max(0.0, x / 6 + 0.5)); });
  Expect(f, {.kind = K::kSigmoid}, [](double x, size_t, size_t) { return 1 / (1 + std::exp(-x)); });
  Expect(f, {.kind = K::kSilu, .a = 1.5f}, [](double x, size_t, size_t) { return x / (1 + std::exp(-1.5 * x)); });
  Expect(f, {.kind = K::kTanh}, [](double x, size_t, size_t) { return std::tanh(x); });
  Expect(f, {.kind = K::kElu, .a = 0.5f}, [](double x, size_t, size_t) { return x < 0 ? 0.5 * std::expm1(x) : x; });
  Expect(f, {.kind = K::kGelu}, [](double x, size_t, size_t) { return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0))); });
  Expect(f, {.kind = K::kGeluTanh}, [](double x, size_t, size_t) {
    return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
  });
  Expect(f, {.kind = K::kSoftplus}, [](double x, size_t, size_t) { return std::log1p(std::exp(x)); });
  Expect(f, {.kind = K::kExp}, [](double x, size_t, size_t) { return std::exp(x); }, 1e-6);
}

TEST_P(Epilogue, NanStaysInClamp) {
  float x[2] = {std::nanf(""), std::numeric_limits<float>::infinity()};
  const EpilogueOp relu6{.kind = EpilogueKind::kClamp, .a = 0, .b = 6};
  GetParam().run(&relu6, 1, {.m = 1, .n = 2, .src = x, .src_row_stride = 8, .dst = x, .dst_row_stride = 8});
  EXPECT_TRUE(std::isnan(x[0]));
  EXPECT_EQ(x[1], 6);
}

TEST_P(Epilogue, IntegerStageThenRequantize) {
  // acc + bias - zero point * sum, then per-channel requantization with one rounding (half to even).
  const int32_t acc[4] = {100, -7, 2147483600, 5}, bias[4] = {3, 4, 100, 0}, sums[4] = {10, -20, 0, 0};
  const float scale[4] = {0.5f, 0.25f, 1e-7f, 0.5f};
  const EpilogueOp ops[] = {{.kind = EpilogueKind::kAddVectorN, .data = bias},
                            {.kind = EpilogueKind::kAddOuterScalar, .data2 = sums, .integer = -2},
                            {.kind = EpilogueKind::kRequantize, .format = Format::kU8, .data = scale, .integer = 7}};
  uint8_t y[4];
  GetParam().run(
      ops, 3,
      {.m = 1, .n = 4, .src = acc, .src_row_stride = 16, .src_format = Format::kI32, .dst = y, .dst_row_stride = 4});
  EXPECT_EQ(y[0], 49);  // (100 + 3 - 20) * 0.5 = 41.5 -> 42, + 7
  EXPECT_EQ(y[1], 16);  // (-7 + 4 + 40) * 0.25 = 9.25 -> 9, + 7
  EXPECT_EQ(y[2], 0);   // 2147483700 wraps: int32 accumulation
  EXPECT_EQ(y[3], 9);   // 2.5 -> 2, + 7
  EXPECT_EQ(EpilogueFormat(Format::kI32, ops, 2), Format::kI32);
  EXPECT_EQ(EpilogueFormat(Format::kI32, ops, 3), Format::kU8);
}

TEST_P(Epilogue, ConvertsAndReduces) {
  const float x[6] = {1.0f, 65519.0f, -3.0f, 0.5f, 2.0f, 4.0f};
  float range[4] = {0, 0, 0, 3}, squares[2] = {1, 0};
  const EpilogueOp ops[] = {{.kind = EpilogueKind::kRowMinMax, .out = range},
                            {.kind = EpilogueKind::kRowSumSquares, .out = squares},
                            {.kind = EpilogueKind::kConvert, .format = Format::kF16}};
  uint16_t y[6];
  GetParam().run(ops, 3, {.m = 2, .n = 3, .src = x, .src_row_stride = 12, .dst = y, .dst_row_stride = 6});
  EXPECT_EQ(y[0], 0x3c00);
  EXPECT_EQ(y[1], 0x7bff);
  EXPECT_EQ(y[5], 0x4400);
  EXPECT_EQ(range[0], -3);
  EXPECT_EQ(range[1], 65519);
  EXPECT_EQ(range[2], 0);
  EXPECT_EQ(range[3], 4);
  EXPECT_EQ(squares[1], 20.25f);
}

TEST(FusedPrefix, StopsAtTheFirstOperationThatIsNotFused) {
  const uint32_t fused = EpilogueBit(EpilogueKind::kAddVectorN) | EpilogueBit(EpilogueKind::kAddMatrix);
  EpilogueOp ops[] = {{.kind = EpilogueKind::kAddVectorN},
                      {.kind = EpilogueKind::kAddMatrix},
                      {.kind = EpilogueKind::kTanh},
                      {.kind = EpilogueKind::kAddVectorN}};
  EXPECT_EQ(FusedPrefix(fused, ops, 4), 2u);
  ops[1].format = Format::kF16;  // kernels read float32 matrices only
  EXPECT_EQ(FusedPrefix(fused, ops, 4), 1u);
}

}  // namespace
}  // namespace quern::ukernel
