// ApplyEpilogue, the reference of fused epilogues, and the same of vector rows, against formulas in double precision;
// operands and results end at guard pages.
#include "ukernel/epilogue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "base/cpu.h"
#include "ukernel/convert.h"
#include "ukernel/guarded_buffer.h"
#include "ukernel/rows_that_run.h"
#include "ukernel/vector.h"

namespace quern::ukernel {
namespace {

constexpr size_t kM = 3;

struct Data {
  const size_t n;  // columns of the block, which ends where the output does
  GuardedArray<float> x, over_n, over_m, matrix;
  explicit Data(size_t columns) : n(columns), x(kM * n), over_n(n + 2), over_m(kM + 1), matrix((kM + 1) * (n + 2)) {
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
  for (const VectorKernel* row : RowsThatRun(AllVectorKernels(), &VectorKernel::epilogue, HostCpu().facts())) {
    runs.push_back({Name(*row).text, row->epilogue});
  }
  return runs;
}

class Epilogue : public ::testing::TestWithParam<NamedRun> {
 protected:
  void CheckFloatOperations(size_t columns);

  // The block is at row 1, column 2 of the output.
  void Run(const Data& f, const EpilogueOp& op, const GuardedArray<float>& y) {
    GetParam().run(&op, 1,
                   {.m = kM,
                    .n = f.n,
                    .m0 = 1,
                    .n0 = 2,
                    .src = f.x.data(),
                    .src_row_stride = f.n * 4,
                    .dst = y.data(),
                    .dst_row_stride = f.n * 4});
  }

  template <class F>
  void Expect(const Data& f, const EpilogueOp& op, F want, double tolerance = 4e-7) {
    const GuardedArray<float> y(kM * f.n);
    Run(f, op, y);
    for (size_t m = 0; m < kM; ++m) {
      for (size_t n = 0; n < f.n; ++n) {
        const double w = want(static_cast<double>(f.x[m * f.n + n]), m, n);
        ASSERT_NEAR(y[m * f.n + n], w, tolerance * (std::fabs(w) + 1))
            << static_cast<int>(op.kind) << " " << m << "," << n;
      }
    }
  }
};

INSTANTIATE_TEST_SUITE_P(Runs, Epilogue, ::testing::ValuesIn(Runs()), [](const auto& p) { return p.param.name; });

// Widths around what a vector holds, and wider than the chunk that is handled at once.
TEST_P(Epilogue, FloatOperations) {
  for (const size_t columns : {1, 3, 15, 16, 17, 33, 300}) {
    CheckFloatOperations(columns);
    if (HasFatalFailure()) return;
  }
}

void Epilogue::CheckFloatOperations(size_t columns) {
  const Data f(columns);
  const auto v = [&](size_t n) { return static_cast<double>(f.over_n[n + 2]); };
  const auto u = [&](size_t m) { return static_cast<double>(f.over_m[m + 1]); };
  const auto matrix = [&](size_t m, size_t n) { return static_cast<double>(f.matrix[(m + 1) * (f.n + 2) + n + 2]); };
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
  op = {.data = f.matrix.data(), .row_stride = (f.n + 2) * 4};
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
  const GuardedArray<float> x = {std::nanf(""), std::numeric_limits<float>::infinity()};
  const EpilogueOp relu6{.kind = EpilogueKind::kClamp, .a = 0, .b = 6};
  GetParam().run(&relu6, 1,
                 {.m = 1, .n = 2, .src = x.data(), .src_row_stride = 8, .dst = x.data(), .dst_row_stride = 8});
  EXPECT_TRUE(std::isnan(x[0]));
  EXPECT_EQ(x[1], 6);
}

TEST_P(Epilogue, IntegerStageThenRequantize) {
  // acc + bias - zero point * sum, then per-channel requantization with one rounding (half to even).
  const GuardedArray<int32_t> acc = {100, -7, 2147483600, 5}, bias = {3, 4, 100, 0}, sums = {10, -20, 0, 0};
  const GuardedArray<float> scale = {0.5f, 0.25f, 1e-7f, 0.5f};
  const EpilogueOp ops[] = {
      {.kind = EpilogueKind::kAddVectorN, .data = bias.data()},
      {.kind = EpilogueKind::kAddOuterScalar, .data2 = sums.data(), .integer = -2},
      {.kind = EpilogueKind::kRequantize, .format = Format::kU8, .data = scale.data(), .integer = 7}};
  const GuardedArray<uint8_t> y(4);
  GetParam().run(ops, 3,
                 {.m = 1,
                  .n = 4,
                  .src = acc.data(),
                  .src_row_stride = 16,
                  .src_format = Format::kI32,
                  .dst = y.data(),
                  .dst_row_stride = 4});
  EXPECT_EQ(y[0], 49);  // (100 + 3 - 20) * 0.5 = 41.5 -> 42, + 7
  EXPECT_EQ(y[1], 16);  // (-7 + 4 + 40) * 0.25 = 9.25 -> 9, + 7
  EXPECT_EQ(y[2], 0);   // 2147483700 wraps: int32 accumulation
  EXPECT_EQ(y[3], 9);   // 2.5 -> 2, + 7
  EXPECT_EQ(EpilogueFormat(Format::kI32, ops, 2), Format::kI32);
  EXPECT_EQ(EpilogueFormat(Format::kI32, ops, 3), Format::kU8);
}

TEST_P(Epilogue, ConvertsAndReduces) {
  const GuardedArray<float> x = {1.0f, 65519.0f, -3.0f, 0.5f, 2.0f, 4.0f}, range = {0, 0, 0, 3}, squares = {1, 0};
  const EpilogueOp ops[] = {{.kind = EpilogueKind::kRowMinMax, .out = range.data()},
                            {.kind = EpilogueKind::kRowSumSquares, .out = squares.data()},
                            {.kind = EpilogueKind::kConvert, .format = Format::kF16}};
  const GuardedArray<uint16_t> y(6);
  GetParam().run(ops, 3, {.m = 2, .n = 3, .src = x.data(), .src_row_stride = 12, .dst = y.data(), .dst_row_stride = 6});
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
