// DFT, STFT, windows and mel weights against sums in double.
#include <gmock/gmock.h>

#include <cmath>
#include <complex>
#include <numbers>

#include "ops/common/fourier.h"
#include "ops/common/op_tester.h"

namespace quern {
namespace {

using ::testing::HasSubstr;
using F = std::vector<float>;
using I = std::vector<int64_t>;
using C = std::complex<double>;

// sum over j of x[j] exp(sign 2 pi i j k / n)
std::vector<C> PlainTransform(const std::vector<C>& x, double sign) {
  const size_t n = x.size();
  std::vector<C> y(n);
  for (size_t k = 0; k < n; ++k) {
    for (size_t j = 0; j < n; ++j) {
      y[k] += x[j] * std::polar(1.0, sign * 2 * std::numbers::pi * static_cast<double>(j * k % n) / double(n));
    }
  }
  return y;
}

TEST(FourierTransform, HasAnyLength) {
  // Primes on both sides of the border to Bluestein, powers, products of both kinds.
  for (const int64_t n : {1, 2, 3, 4, 5, 8, 12, 30, 49, 61, 67, 97, 128, 134, 210, 289, 499}) {
    const F values = TestFloats(2 * n, static_cast<uint32_t>(n));
    std::vector<Complex> line;
    std::vector<C> x;
    for (int64_t j = 0; j < n; ++j) {
      line.push_back({values[2 * j], values[2 * j + 1]});
      x.emplace_back(values[2 * j], values[2 * j + 1]);
    }
    const std::vector<C> want = PlainTransform(x, -1);
    FourierTransform transform(n);
    transform.Forward(line.data());
    for (int64_t k = 0; k < n; ++k) {
      EXPECT_NEAR(line[k].re, want[k].real(), 1e-11) << n << " " << k;
      EXPECT_NEAR(line[k].im, want[k].imag(), 1e-11) << n << " " << k;
    }
    transform.Inverse(line.data());
    for (int64_t j = 0; j < n; ++j) {
      EXPECT_NEAR(line[j].re, x[j].real(), 1e-13) << n << " " << j;
      EXPECT_NEAR(line[j].im, x[j].imag(), 1e-13) << n << " " << j;
    }
  }
}

TEST(FourierTransform, KeepsItsAccuracyWhenLong) {
  for (const int64_t n : {100000, 99991}) {  // 2^5 5^5, and a prime
    std::vector<Complex> line(static_cast<size_t>(n));
    for (int64_t j = 0; j < n; ++j) line[j] = {std::cos(2 * std::numbers::pi * double(j * 7 % n) / double(n)), 0};
    FourierTransform(n).Forward(line.data());
    for (int64_t k = 0; k < n; ++k) {
      ASSERT_NEAR(line[k].re, k == 7 || k == n - 7 ? static_cast<double>(n) / 2 : 0.0, 1e-7) << k;
      ASSERT_NEAR(line[k].im, 0.0, 1e-7) << k;
    }
  }
}

// A signal [2, 5, 3, components] transformed along axis 1, `length` elements of it taken.
std::vector<C> LineOf(const F& x, int components, int b, int i, int length) {
  std::vector<C> line(static_cast<size_t>(length));
  for (int j = 0; j < std::min(5, length); ++j) {
    const int at = ((b * 5 + j) * 3 + i) * components;
    line[j] = {x[at], components == 2 ? x[at + 1] : 0.0};
  }
  return line;
}

TEST(Dft, TransformsAnyAxisAndLength) {
  for (const int components : {1, 2}) {
    for (const int length : {5, 3, 7}) {
      for (const int64_t inverse : {0, 1}) {
        const F x = TestFloats(30 * components);
        OpTester t("DFT", 20);
        t.Input(Shape{2, 5, 3, components}, x).Input<int64_t>({}, {length}).Input<int64_t>({}, {-3});
        t.Attr("inverse", inverse);
        std::vector<double> want(static_cast<size_t>(2 * length * 3 * 2));
        for (int b = 0; b < 2; ++b) {
          for (int i = 0; i < 3; ++i) {
            const std::vector<C> y = PlainTransform(LineOf(x, components, b, i, length), inverse ? 1 : -1);
            for (int k = 0; k < length; ++k) {
              const C value = y[k] / (inverse ? double(length) : 1.0);
              want[((b * length + k) * 3 + i) * 2] = value.real();
              want[((b * length + k) * 3 + i) * 2 + 1] = value.imag();
            }
          }
        }
        ExpectNear(t.Values<float>(), want);
      }
    }
  }
}

TEST(Dft, OneSidedGivesHalfOfTheSpectrum) {
  const F x = TestFloats(30);
  for (const int length : {5, 4}) {
    OpTester t("DFT", 17);
    t.Input(Shape{2, 5, 3, 1}, x).Input<int32_t>({1}, {length}).Attr("onesided", int64_t{1});
    const int bins = length / 2 + 1;
    std::vector<double> want(static_cast<size_t>(2 * bins * 3 * 2));
    for (int b = 0; b < 2; ++b) {
      for (int i = 0; i < 3; ++i) {
        const std::vector<C> y = PlainTransform(LineOf(x, 1, b, i, length), -1);
        for (int k = 0; k < bins; ++k) {
          want[((b * bins + k) * 3 + i) * 2] = y[k].real();
          want[((b * bins + k) * 3 + i) * 2 + 1] = y[k].imag();
        }
      }
    }
    ExpectNear(t.Values<float>(), want);
  }
}

TEST(Dft, InverseOneSidedGivesTheRealSignal) {
  // Spectrum of [1, 2, 3, 4]: 10, -2 + 2i, -2. Imaginary parts of the first and the middle element do not count.
  const F spectrum = {10, 5, -2, 2, -2, 7};
  OpTester even("DFT", 20), odd("DFT", 20), longer("DFT", 20);
  const Attribute one = int64_t{1};
  const F got = even.Input(Shape{3, 2}, spectrum).Attr("inverse", one).Attr("onesided", one).Values<float>();
  ExpectNear(got, {1, 2, 3, 4});
  // Length 5 of the same elements: X[3] = conj X[2], X[4] = conj X[1].
  odd.Input(Shape{3, 2}, spectrum).Input<int64_t>({}, {5}).Attr("inverse", one).Attr("onesided", one);
  std::vector<C> whole = {{10, 0}, {-2, 2}, {-2, 7}, {-2, -7}, {-2, -2}};
  std::vector<double> want;
  for (const C& v : PlainTransform(whole, 1)) want.push_back(v.real() / 5);
  ExpectNear(odd.Values<float>(), want);
  // Length 8 needs 5 elements: the two that are not there are 0.
  longer.Input(Shape{3, 2}, spectrum).Input<int64_t>({}, {8}).Attr("inverse", one).Attr("onesided", one);
  whole = {{10, 0}, {-2, 2}, {-2, 7}, 0, 0, 0, {-2, -7}, {-2, -2}};
  want.clear();
  for (const C& v : PlainTransform(whole, 1)) want.push_back(v.real() / 8);
  ExpectNear(longer.Values<float>(), want);
}

TEST(Dft, TakesSixteenBitFloatsAndDoubles) {
  std::vector<BFloat16> x;
  for (const float v : {1.0f, 2.0f, 3.0f, 4.0f}) x.emplace_back(v);
  OpTester t("DFT", 20), d("DFT", 20);
  const std::vector<BFloat16> y = t.Input(Shape{4, 1}, x).Values<BFloat16>();
  ASSERT_EQ(y.size(), 8u);
  EXPECT_EQ(static_cast<float>(y[0]), 10);
  EXPECT_NEAR(static_cast<float>(y[2]), -2, 1e-6);
  EXPECT_NEAR(static_cast<float>(y[3]), 2, 1e-6);
  EXPECT_DOUBLE_EQ(d.Input<double>({2, 1}, {1, 1e-12}).Values<double>()[2], 1 - 1e-12);
}

TEST(Dft, RefusesWhatHasNoTransform) {
  const F x = TestFloats(12);
  const auto error = [&](const Shape& shape, auto change) {
    OpTester t("DFT", 20);
    t.Input(shape, x);
    change(t);
    return t.Error();
  };
  const auto nothing = [](OpTester&) {};
  const Attribute one = int64_t{1};
  EXPECT_THAT(error(Shape{4, 3}, nothing), HasSubstr("last dimension must be 1"));
  EXPECT_THAT(error(Shape{12}, nothing), HasSubstr("two dimensions"));
  EXPECT_THAT(error(Shape{6, 2}, [&](auto& t) { t.Attr("onesided", one); }), HasSubstr("needs real input"));
  EXPECT_THAT(error(Shape{12, 1}, [&](auto& t) { t.Attr("onesided", one).Attr("inverse", one); }),
              HasSubstr("needs complex input"));
  EXPECT_THAT(error(Shape{12, 1}, [](auto& t) { t.template Input<int64_t>({}, {0}); }), HasSubstr("length is 0"));
  EXPECT_THAT(error(Shape{12, 1}, [](auto& t) { t.template Input<int64_t>({2}, {1, 2}); }),
              HasSubstr("a scalar is needed"));
  EXPECT_THAT(error(Shape{12, 1}, [](auto& t) { t.Omit().template Input<int64_t>({}, {2}); }), HasSubstr("axis"));
  EXPECT_THAT(error(Shape{12, 1}, [](auto& t) { t.Omit().template Input<int64_t>({}, {-1}); }),
              HasSubstr("axis -1 is the dimension of real and imaginary parts"));
  EXPECT_NE(error(Shape{12, 1}, [](auto& t) { t.template Input<int64_t>({}, {int64_t{1} << 60}); }), "");
  OpTester old("DFT", 17);
  EXPECT_THAT(old.Input(Shape{12, 1}, x).Error(), HasSubstr("axis 1 is the dimension of real and imaginary parts"));
}

TEST(Stft, TransformsWindowedFrames) {
  const F x = TestFloats(2 * 11), w = TestFloats(4, 2);
  for (const int64_t onesided : {0, 1}) {
    OpTester t("STFT", 17);
    t.Input(Shape{2, 11, 1}, x).Input<int64_t>({}, {3}).Input(Shape{4}, w).Attr("onesided", onesided);
    std::vector<double> want;
    for (int b = 0; b < 2; ++b) {
      for (int f = 0; f < 3; ++f) {  // frames at 0, 3, 6
        std::vector<C> frame;
        for (int j = 0; j < 4; ++j) frame.emplace_back(double{x[b * 11 + f * 3 + j]} * w[j]);
        const std::vector<C> y = PlainTransform(frame, -1);
        for (int k = 0; k < (onesided ? 3 : 4); ++k) want.insert(want.end(), {y[k].real(), y[k].imag()});
      }
    }
    ExpectNear(t.Values<float>(), want);
  }
}

TEST(Stft, TakesComplexSignalsAndLengths) {
  // Without window and length the frame is the whole signal: 1 + i and -1: sums i and 2 + i.
  OpTester whole("STFT", 17), given("STFT", 17);
  const F y =
      whole.Input<float>({1, 2, 2}, {1, 1, -1, 0}).Input<int32_t>({}, {1}).Attr("onesided", int64_t{0}).Values<float>();
  ExpectNear(y, {0, 1, 2, 1});
  given.Input<float>({1, 4, 1}, {1, 2, 3, 4}).Input<int64_t>({}, {2}).Omit().Input<int64_t>({}, {2});
  ExpectNear(given.Values<float>(), {3, 0, -1, 0, 7, 0, -1, 0});
  OpTester flat("STFT", 17);  // a real signal as exporters write it
  flat.Input<float>({1, 4}, {1, 2, 3, 4}).Input<int64_t>({}, {2}).Omit().Input<int64_t>({}, {2});
  ExpectNear(flat.Values<float>(), {3, 0, -1, 0, 7, 0, -1, 0});
}

TEST(Stft, RefusesWhatDoesNotFit) {
  const auto error = [](int64_t step, auto change) {
    OpTester t("STFT", 17);
    t.Input(Shape{1, 6, 1}, TestFloats(6)).Input<int64_t>({}, {step});
    change(t);
    return t.Error();
  };
  const F w = TestFloats(3);
  EXPECT_THAT(error(0, [](OpTester&) {}), HasSubstr("frame_step is 0"));
  EXPECT_THAT(error(1, [&](auto& t) { t.Input(Shape{3}, w).template Input<int64_t>({}, {4}); }),
              HasSubstr("the window has 3"));
  EXPECT_THAT(error(1, [](auto& t) { t.Omit().template Input<int64_t>({}, {7}); }),
              HasSubstr("longer than the signal"));
  EXPECT_THAT(error(1, [](auto& t) { t.Omit().template Input<int64_t>({}, {-1}); }), HasSubstr("at least 1"));
  EXPECT_THAT(error(1, [&](auto& t) { t.Input(Shape{3, 1}, w); }), HasSubstr("one dimension"));
  OpTester complex("STFT", 17), flat("STFT", 17);
  EXPECT_THAT(complex.Input(Shape{1, 3, 2}, TestFloats(6)).Input<int64_t>({}, {1}).Error(),
              HasSubstr("'onesided' = 0"));
  EXPECT_THAT(flat.Input(Shape{6}, TestFloats(6)).Input<int64_t>({}, {1}).Error(), HasSubstr("three dimensions"));
}

TEST(Signal, InfersSymbolicShapes) {
  Graph g;
  g.opset_imports[""] = 20;
  GraphValue* signal =
      g.AddInput("signal", ValueType::Tensor(DType::kF32, Dims{Dim::Symbol("b"), Dim::Symbol("n"), Dim(1)}));
  GraphValue* step = g.AddConstant("step", Tensor::Scalar<int64_t>(4));
  GraphValue* length = g.AddConstant("length", Tensor::Scalar<int64_t>(16));
  GraphValue* axis = g.AddConstant("axis", Tensor::Scalar<int64_t>(1));
  Node* stft = g.AddNode({.op_type = "STFT", .inputs = {signal, step, nullptr, length}, .outputs = {"s"}});
  Node* half = g.AddNode({.op_type = "DFT",
                          .inputs = {signal, nullptr, axis},
                          .outputs = {"h"},
                          .attributes = {{"onesided", int64_t{1}}}});
  Node* back = g.AddNode({.op_type = "DFT",
                          .inputs = {half->output(0), nullptr, axis},
                          .outputs = {"r"},
                          .attributes = {{"onesided", int64_t{1}}, {"inverse", int64_t{1}}}});
  g.AddOutput(stft->output(0));
  g.AddOutput(back->output(0));
  ASSERT_TRUE(InferShapes(g).ok());
  EXPECT_EQ(TypeToString(stft->output(0)->type()), "f32[b,floordiv(n, 4) - 3,9,2]");
  EXPECT_EQ(TypeToString(half->output(0)->type()), "f32[b,floordiv(n, 2) + 1,2]");
  EXPECT_EQ(TypeToString(back->output(0)->type()), "f32[b,2*floordiv(n, 2),1]");
}

TEST(Windows, AreCosinesOfEveryType) {
  struct Case {
    const char* op;
    double a0, a1, a2;
  };
  for (const Case& c : {Case{"HannWindow", 0.5, 0.5, 0}, Case{"HammingWindow", 25.0 / 46, 21.0 / 46, 0},
                        Case{"BlackmanWindow", 0.42, 0.5, 0.08}}) {
    for (const int64_t periodic : {0, 1}) {
      OpTester t(c.op, 17), d(c.op, 17), h(c.op, 17);
      t.Input<int64_t>({}, {7}).Attr("periodic", periodic);
      d.Input<int32_t>({}, {7}).Attr("periodic", periodic).Attr("output_datatype", int64_t{11});
      h.Input<int64_t>({}, {7}).Attr("periodic", periodic).Attr("output_datatype", int64_t{10});
      std::vector<double> want;
      for (int n = 0; n < 7; ++n) {
        const double t0 = 2 * std::numbers::pi * n / (periodic ? 7 : 6);
        want.push_back(c.a0 - c.a1 * std::cos(t0) + c.a2 * std::cos(2 * t0));
      }
      ExpectNear(t.Values<float>(), want, 1e-7);
      const std::vector<double> doubles = d.Values<double>();
      const std::vector<Float16> halves = h.Values<Float16>();
      for (int n = 0; n < 7; ++n) {
        EXPECT_NEAR(doubles[n], want[n], 1e-15);
        EXPECT_NEAR(static_cast<float>(halves[n]), want[n], 5e-4);
      }
    }
    OpTester whole(c.op, 17), one(c.op, 17), none(c.op, 17);
    EXPECT_EQ(whole.Input<int64_t>({}, {4}).Attr("output_datatype", int64_t{2}).Values<uint8_t>(),
              (std::vector<uint8_t>{0, 0, 1, 0}));
    EXPECT_EQ(one.Input<int64_t>({}, {1}).Attr("periodic", int64_t{0}).Values<float>(), (F{1}));
    EXPECT_EQ(none.Input<int64_t>({1}, {0}).Values<float>(), F{});
    OpTester negative(c.op, 17), text(c.op, 17), huge(c.op, 17);
    EXPECT_THAT(negative.Input<int64_t>({}, {-1}).Error(), HasSubstr("negative"));
    EXPECT_THAT(text.Input<int64_t>({}, {3}).Attr("output_datatype", int64_t{8}).Error(),
                HasSubstr("attribute 'output_datatype' is 8; one of 1 (f32)"));
    EXPECT_FALSE(huge.Input<int64_t>({}, {int64_t{1} << 62}).Run().ok());
  }
}

struct Mel : OpTester {
  Mel(int64_t bins, int64_t length, int64_t rate, float low, float high) : OpTester("MelWeightMatrix", 17) {
    Input<int64_t>({}, {bins}).Input<int64_t>({}, {length}).Input<int64_t>({}, {rate});
    Input<float>({}, {low}).Input<float>({}, {high});
  }
};

TEST(MelWeightMatrix, HasTrianglesOnTheMelScale) {
  // 4096 Hz are 2169 mel; six corners 2169 / 6 mel apart lie at 0, 265, 630, 1132, 1825 and 2780 Hz, which is in bins
  // 0, 0, 1, 2, 3 and 5 of 8192 / 17 Hz each.
  ExpectNear(Mel(4, 16, 8192, 0, 4096).Values<float>(), {1, 0, 0, 0,    //
                                                         0, 1, 0, 0,    //
                                                         0, 0, 1, 0,    //
                                                         0, 0, 0, 1,    //
                                                         0, 0, 0, 0.5,  //
                                                         0, 0, 0, 0,    //
                                                         0, 0, 0, 0,    //
                                                         0, 0, 0, 0,    //
                                                         0, 0, 0, 0});
  const std::vector<int32_t> whole = Mel(4, 16, 8192, 0, 4096).Attr("output_datatype", int64_t{6}).Values<int32_t>();
  EXPECT_EQ(whole[3 * 4 + 3], 1);
  EXPECT_EQ(whole[4 * 4 + 3], 0);
}

TEST(MelWeightMatrix, RefusesEdgesOutsideTheSpectrum) {
  EXPECT_THAT(Mel(8, 16, 8192, 0, 40000).Error(), HasSubstr("beyond the spectrum"));
  EXPECT_THAT(Mel(8, 16, 8192, -1, 4000).Error(), HasSubstr("0 <= lower <= upper"));
  EXPECT_THAT(Mel(8, 16, 8192, 500, 400).Error(), HasSubstr("0 <= lower <= upper"));
  EXPECT_THAT(Mel(8, 16, 8192, 0, std::nanf("")).Error(), HasSubstr("0 <= lower <= upper"));
  EXPECT_THAT(Mel(8, 16, 0, 0, 4000).Error(), HasSubstr("sample_rate is 0"));
  EXPECT_THAT(Mel(-8, 16, 1, 0, 4000).Error(), HasSubstr("negative"));
  EXPECT_FALSE(Mel(int64_t{1} << 61, 16, 8192, 0, 4096).Run().ok());
}

}  // namespace
}  // namespace quern
