// Quantized graphs: what the passes make of them, against the reference evaluation of the graph as it was and against
// ONNX's operators on integers; the same bytes on every CPU.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <random>

#include "base/random_numbers.h"
#include "ops/evaluate.h"
#include "ops/infer.h"
#include "provider/cpu/common/quantization.h"
#include "provider/cpu/test_run.h"

namespace quern::cpu {
namespace {

// A graph under construction around one product, with what its parameters are.
class Quantized : public testing::Test {
 protected:
  int64_t Draw(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(random_); }
  float DrawScale() { return UniformNumbers<float>(0.002f, 0.05f)(random_); }

  Tensor Bytes(DType type, const Shape& shape) {
    Tensor t = Tensor::Allocate(type, shape).value();
    for (int64_t i = 0; i < t.num_elements(); ++i)
      static_cast<uint8_t*>(t.raw_data())[i] = static_cast<uint8_t>(Draw(0, 255));
    return t;
  }
  Tensor ZeroPoint(DType type, int64_t value) {
    Tensor t = Tensor::Allocate(type, Shape{}).value();
    *static_cast<uint8_t*>(t.raw_data()) = static_cast<uint8_t>(value);
    return t;
  }
  void Start(int opset) {
    graph_ = std::make_unique<Graph>();
    graph_->opset_imports[""] = opset;
    inputs_.clear();
  }
  GraphValue* In(const std::string& name, Tensor t) {
    GraphValue* v = graph_->AddInput(name, TypeOf(Value(t)));
    inputs_.emplace_back(std::move(t));
    return v;
  }
  GraphValue* Const(const std::string& name, Tensor t) {
    return t.defined() ? graph_->AddConstant(graph_->UniqueName(name), Value(std::move(t))) : nullptr;
  }
  using Attributes = std::map<std::string, Attribute, std::less<>>;
  GraphValue* Op(const char* op, std::vector<GraphValue*> in, Attributes attributes = {}) {
    return graph_
        ->AddNode({.op_type = op,
                   .inputs = std::move(in),
                   .outputs = {graph_->UniqueName(op)},
                   .attributes = std::move(attributes)})
        ->output(0);
  }
  GraphValue* Dequantize(GraphValue* x, const Tensor& scale, const Tensor& zero, int64_t axis = -1) {
    Attributes a;
    if (axis >= 0) a["axis"] = axis;
    return Op("DequantizeLinear", {x, Const("scale", scale), Const("zero", zero)}, a);
  }
  GraphValue* Quantize(GraphValue* x, float scale, const Tensor& zero) {
    return Op("QuantizeLinear", {x, Const("scale", Tensor::Scalar(scale)), Const("zero", zero)});
  }
  void Finish(GraphValue* y) {
    graph_->AddOutput(y);
    const Status status = InferShapes(*graph_);
    ASSERT_TRUE(status.ok()) << status.message();
  }

  // Nodes after the passes, by operator; "Conv8" and "MatMul8" are this provider's products on integers, with "8" again
  // where they store integers.
  std::map<std::string, int> Compiled() {
    InlineExecutor executor;
    const auto exe = CpuExecutable::Compile(*graph_, Config(false), executor);
    EXPECT_TRUE(exe.ok()) << exe.status().message();
    std::map<std::string, int> ops;
    if (!exe.ok()) return ops;
    for (const Node* n : (*exe)->graph().nodes()) {
      const bool product = n->domain() == kCpuDomain && n->input(kScaleInput);
      ++ops[n->op_type() + (product ? "8" : "") + (product && ProductType(*n) != DType::kF32 ? "8" : "")];
    }
    return ops;
  }

  // Runs on every CPU that this host can stand for; the outputs must be the same bytes.
  Tensor RunEverywhere() {
    Tensor first;
    for (const char* name : {"native", "sapphirerapids", "icelake", "haswell", "generic"}) {
      CpuConfig config;
      config.cpu = CpuFromSpec(name).value();
      if (!CanRun(config.cpu)) continue;
      const Result<std::vector<Tensor>> out = RunOnCpu(*graph_, inputs_, config);
      EXPECT_TRUE(out.ok()) << name << ": " << out.status().message();
      if (!out.ok()) return {};
      if (!first.defined()) {
        first = (*out)[0];
      } else {
        EXPECT_EQ(std::memcmp(first.raw_data(), (*out)[0].raw_data(), first.bytes()), 0) << name;
      }
    }
    return first;
  }
  Tensor Expected() {
    const Result<std::vector<Value>> out = EvaluateGraph(*graph_, inputs_);
    EXPECT_TRUE(out.ok()) << out.status().message();
    return out.ok() ? (*out)[0].tensor() : Tensor();
  }

  static int At(const Tensor& t, int64_t i) {
    return t.dtype() == DType::kI8 ? static_cast<const int8_t*>(t.raw_data())[i]
                                   : static_cast<const uint8_t*>(t.raw_data())[i];
  }
  // Bytes that are at most a step apart, and seldom that: float32 sums of the graph as it was round differently.
  static void ExpectWithinAStep(const Tensor& actual, const Tensor& expected) {
    ASSERT_EQ(actual.dtype(), expected.dtype());
    ASSERT_EQ(actual.shape().ToString(), expected.shape().ToString());
    int64_t off = 0;
    for (int64_t i = 0; i < expected.num_elements(); ++i) {
      const int difference = std::abs(At(actual, i) - At(expected, i));
      ASSERT_LE(difference, 1) << "element " << i << ": " << At(actual, i) << ", not " << At(expected, i);
      off += difference;
    }
    EXPECT_LE(off, 1 + expected.num_elements() / 50);
  }

  std::mt19937 random_{20240607};
  std::unique_ptr<Graph> graph_;
  std::vector<Value> inputs_;
};

// What both forms of a product are made of.
struct Parameters {
  DType x_type, w_type, y_type;
  float x_scale, y_scale;
  Tensor x_zero, w_zero, y_zero, w_scale;
  bool per_channel;
};

class QuantizedProducts : public Quantized {
 protected:
  Parameters DrawParameters(int opset, int64_t channels, int64_t depth) {
    Parameters p;
    p.x_type = Draw(0, 1) ? DType::kU8 : DType::kI8;
    p.w_type = Draw(0, 3) == 0 ? DType::kU8 : DType::kI8;
    p.y_type = Draw(0, 1) ? DType::kU8 : DType::kI8;
    p.x_scale = DrawScale();
    p.per_channel = opset >= 13 && Draw(0, 1);
    const Shape of_weights = p.per_channel ? Shape{channels} : Shape{};
    p.w_scale = Tensor::Allocate(DType::kF32, of_weights).value();
    for (float& s : p.w_scale.values<float>()) s = DrawScale();
    // About the spread of the sums, so that few results saturate.
    p.y_scale = p.x_scale * 0.025f * 74 * 74 * std::sqrt(static_cast<float>(depth)) / 40;
    p.x_zero = ZeroPoint(p.x_type, p.x_type == DType::kU8 ? Draw(0, 255) : Draw(-128, 127));
    p.y_zero = ZeroPoint(p.y_type, p.y_type == DType::kU8 ? Draw(0, 255) : Draw(-128, 127));
    p.w_zero = Tensor::Allocate(p.w_type, of_weights).value();
    for (int64_t i = 0; i < p.w_zero.num_elements(); ++i) {
      static_cast<uint8_t*>(p.w_zero.raw_data())[i] = static_cast<uint8_t>(p.w_type == DType::kU8 ? Draw(120, 136) : 0);
    }
    if (p.w_type == DType::kI8 && Draw(0, 2) == 0) {
      for (int64_t i = 0; i < p.w_zero.num_elements(); ++i)
        static_cast<int8_t*>(p.w_zero.raw_data())[i] = static_cast<int8_t>(Draw(-9, 9));
    }
    return p;
  }
  float ScaleOf(const Parameters& p, int64_t channel) const {
    return p.x_scale * p.w_scale.data<float>()[p.per_channel ? channel : 0];
  }
  Tensor DrawBias(int64_t channels) {
    Tensor t = Tensor::Allocate(DType::kI32, Shape{channels}).value();
    for (int32_t& b : t.values<int32_t>()) b = static_cast<int32_t>(Draw(-9000, 9000));
    return t;
  }
  // The int32 bias as exporters write it, or as float32.
  GraphValue* BiasInput(const Parameters& p, const Tensor& bias, bool real) {
    const int64_t n = bias.num_elements();
    Tensor scale = Tensor::Allocate(DType::kF32, Shape{n}).value();
    for (int64_t i = 0; i < n; ++i) scale.data<float>()[i] = ScaleOf(p, i);
    if (!real && p.per_channel) return Dequantize(Const("bias", bias), scale, {}, 0);
    if (!real) return Dequantize(Const("bias", bias), Tensor::Scalar(ScaleOf(p, 0)), {});
    Tensor floats = Tensor::Allocate(DType::kF32, Shape{n}).value();
    for (int64_t i = 0; i < n; ++i)
      floats.data<float>()[i] = static_cast<float>(bias.data<int32_t>()[i]) * scale.data<float>()[i] * 1.37f;
    return Const("bias", floats);
  }
  GraphValue* Activated(GraphValue* y, int64_t kind, float y_scale) {
    if (kind == 1) return Op("Relu", {y});
    if (kind != 2) return y;
    const float low = -31.4f * y_scale, high = 22.2f * y_scale;
    if (graph_->opset("") < 11) return Op("Clip", {y}, {{"min", low}, {"max", high}});
    return Op("Clip", {y, Const("low", Tensor::Scalar(low)), Const("high", Tensor::Scalar(high))});
  }
  static void ExpectBounded(const Tensor& actual, const Tensor& whole, std::pair<int64_t, int64_t> bounds) {
    ASSERT_EQ(actual.dtype(), whole.dtype());
    ASSERT_EQ(actual.shape().ToString(), whole.shape().ToString());
    for (int64_t i = 0; i < whole.num_elements(); ++i) {
      ASSERT_EQ(At(actual, i), std::clamp<int64_t>(At(whole, i), bounds.first, bounds.second)) << "element " << i;
    }
  }
  // Of a product that is not quantized.
  static void ExpectReal(const Parameters& p, const Tensor& actual, const Tensor& expected) {
    ASSERT_EQ(actual.shape().ToString(), expected.shape().ToString());
    for (int64_t i = 0; i < expected.num_elements(); ++i) {
      ASSERT_NEAR(actual.data<float>()[i], expected.data<float>()[i], 1e-4 * p.y_scale * 40) << i;
    }
  }
  static int64_t Low(const Parameters& p) { return p.y_type == DType::kU8 ? 0 : -128; }
  // Bounds of the activation in stored numbers.
  std::pair<int64_t, int64_t> Bounds(const Parameters& p, int64_t kind) const {
    const int64_t zero = At(p.y_zero, 0), low = Low(p), high = low + 255;
    const auto bounded = [&](int64_t v) { return std::clamp(v, low, high); };
    if (kind == 1) return {bounded(zero), high};
    if (kind == 2) return {bounded(zero - 31), bounded(zero + 22)};
    return {low, high};
  }
};

TEST_F(QuantizedProducts, ConvolutionsComputeWhatTheGraphSays) {
  for (int round = 0; round < 60; ++round) {
    const int opset = static_cast<int>(std::array{10, 11, 13, 17, 19, 21}[Draw(0, 5)]);
    const int64_t groups = Draw(0, 2) == 0 ? 2 : 1, in = groups * Draw(2, 9), out = groups * Draw(1, 20);
    const bool flat = Draw(0, 4) == 0;
    const int64_t kernel = Draw(1, 4), stride = Draw(1, 2), dilation = Draw(0, 3) == 0 ? 2 : 1;
    const int64_t pad = Draw(0, 2), after = Draw(0, 1);
    const int64_t extent = dilation * (kernel - 1) + 1 + Draw(0, 9);
    const Parameters p = DrawParameters(opset, out, in / groups * kernel * (flat ? 1 : kernel));
    const bool has_bias = Draw(0, 2) > 0, real_bias = has_bias && Draw(0, 3) == 0;
    const int64_t activation = Draw(0, 2);
    SCOPED_TRACE("round " + std::to_string(round) + ", opset " + std::to_string(opset) + ", groups " +
                 std::to_string(groups) + ", " + std::to_string(in) + "->" + std::to_string(out) + ", kernel " +
                 std::to_string(kernel) + ", activation " + std::to_string(activation));
    Start(opset);
    Attributes window = {{"group", groups}};
    if (flat) {
      window["strides"] = std::vector<int64_t>{stride};
      window["dilations"] = std::vector<int64_t>{dilation};
      window["pads"] = std::vector<int64_t>{pad, pad + after};
    } else {
      window["strides"] = std::vector<int64_t>{stride, 1};
      window["dilations"] = std::vector<int64_t>{dilation, dilation};
      window["pads"] = std::vector<int64_t>{pad, after, pad + after, pad};
    }
    const Shape x_shape = flat ? Shape{2, in, extent} : Shape{2, in, extent, extent + 1};
    const Shape w_shape = flat ? Shape{out, in / groups, kernel} : Shape{out, in / groups, kernel, kernel};
    GraphValue* x = In("x", Bytes(p.x_type, x_shape));
    const Tensor weights = Bytes(p.w_type, w_shape), bias = DrawBias(out);
    const bool of_run = !p.per_channel && Draw(0, 2) == 0;
    GraphValue* w = of_run ? In("w", weights) : Const("w", weights);
    std::vector<GraphValue*> operands = {Dequantize(x, Tensor::Scalar(p.x_scale), p.x_zero),
                                         Dequantize(w, p.w_scale, p.w_zero, p.per_channel ? 0 : -1)};
    if (has_bias) operands.push_back(BiasInput(p, bias, real_bias));
    GraphValue* y = Activated(Op("Conv", operands, window), activation, p.y_scale);
    ASSERT_NO_FATAL_FAILURE(Finish(Quantize(y, p.y_scale, p.y_zero)));
    const auto ops = Compiled();
    EXPECT_EQ(ops.count("Conv88"), 1u);
    for (const char* gone : {"Conv", "QuantizeLinear", "DequantizeLinear", "Relu", "Clip"}) {
      EXPECT_EQ(ops.count(gone), 0u) << gone;
    }
    const Tensor actual = RunEverywhere();
    ASSERT_NO_FATAL_FAILURE(ExpectWithinAStep(actual, Expected()));
    if (real_bias) continue;

    // Exactly ONNX's convolution of integers, bounded.
    const Tensor x_stored = inputs_[0].tensor();
    Start(opset);
    ASSERT_NO_FATAL_FAILURE(Finish(
        Op("QLinearConv",
           {Const("x", x_stored), Const("xs", Tensor::Scalar(p.x_scale)), Const("xz", p.x_zero), Const("w", weights),
            Const("ws", p.w_scale), Const("wz", p.w_zero), Const("ys", Tensor::Scalar(p.y_scale)),
            Const("yz", p.y_zero), has_bias ? Const("bias", bias) : nullptr},
           window)));
    ExpectBounded(actual, Expected(), Bounds(p, activation));
    if (HasFatalFailure()) return;
  }
}

TEST_F(QuantizedProducts, MatrixProductsComputeWhatTheGraphSays) {
  for (int round = 0; round < 60; ++round) {
    const int opset = static_cast<int>(std::array{10, 11, 13, 17, 19, 21}[Draw(0, 5)]);
    const int64_t m = Draw(1, 20), k = Draw(1, 90), n = Draw(1, 40), activation = Draw(0, 2);
    const bool gemm = Draw(0, 1) != 0, batched = !gemm && Draw(0, 1), transposed = gemm && Draw(0, 1);
    const Parameters p = DrawParameters(opset, n, k);
    const bool has_bias = gemm && (opset < 11 || Draw(0, 2) > 0), real_bias = has_bias && Draw(0, 3) == 0;
    SCOPED_TRACE("round " + std::to_string(round) + ", opset " + std::to_string(opset) + ", " + std::to_string(m) +
                 "x" + std::to_string(n) + "x" + std::to_string(k) + (gemm ? " Gemm" : " MatMul") + ", activation " +
                 std::to_string(activation));
    Start(opset);
    GraphValue* x = In("x", Bytes(p.x_type, batched ? Shape{3, m, k} : Shape{m, k}));
    const Tensor weights = Bytes(p.w_type, transposed ? Shape{n, k} : Shape{k, n}), bias = DrawBias(n);
    std::vector<GraphValue*> operands = {
        Dequantize(x, Tensor::Scalar(p.x_scale), p.x_zero),
        Dequantize(Const("w", weights), p.w_scale, p.w_zero, p.per_channel ? (transposed ? 0 : 1) : -1)};
    if (has_bias) operands.push_back(BiasInput(p, bias, real_bias));
    Attributes attributes;
    if (transposed) attributes["transB"] = int64_t{1};
    GraphValue* y = Activated(Op(gemm ? "Gemm" : "MatMul", operands, attributes), activation, p.y_scale);
    ASSERT_NO_FATAL_FAILURE(Finish(Quantize(y, p.y_scale, p.y_zero)));
    const auto ops = Compiled();
    EXPECT_EQ(ops.count("MatMul88"), 1u);
    EXPECT_EQ(ops.size(), 1u);
    const Tensor actual = RunEverywhere();
    ASSERT_NO_FATAL_FAILURE(ExpectWithinAStep(actual, Expected()));
    if (has_bias || transposed) continue;

    const Tensor x_stored = inputs_[0].tensor();
    Start(opset);
    ASSERT_NO_FATAL_FAILURE(
        Finish(Op("QLinearMatMul", {Const("x", x_stored), Const("xs", Tensor::Scalar(p.x_scale)), Const("xz", p.x_zero),
                                    Const("w", weights), Const("ws", p.w_scale), Const("wz", p.w_zero),
                                    Const("ys", Tensor::Scalar(p.y_scale)), Const("yz", p.y_zero)})));
    ExpectBounded(actual, Expected(), Bounds(p, activation));
    if (HasFatalFailure()) return;
  }
}

TEST_F(QuantizedProducts, OfOperandsThatComeWithTheRun) {
  for (int round = 0; round < 40; ++round) {
    const int opset = static_cast<int>(std::array{10, 13, 21}[Draw(0, 2)]);
    const int64_t m = Draw(8, 20), k = Draw(1, 90), n = Draw(1, 40);
    const bool stored = Draw(0, 2) > 0, transposed = Draw(0, 1) != 0;
    Parameters p = DrawParameters(opset, 1, k);
    SCOPED_TRACE("round " + std::to_string(round) + ", opset " + std::to_string(opset));
    Start(opset);
    GraphValue* a = Dequantize(In("a", Bytes(p.x_type, Shape{2, 3, m, k})), Tensor::Scalar(p.x_scale), p.x_zero);
    GraphValue* b = In("b", Bytes(p.w_type, transposed ? Shape{3, n, k} : Shape{3, k, n}));
    if (transposed) b = Op("Transpose", {b}, {{"perm", std::vector<int64_t>{0, 2, 1}}});
    const float scale = p.w_scale.data<float>()[0];
    GraphValue* y = Op("MatMul", {a, Dequantize(b, Tensor::Scalar(scale), p.w_zero.Reshaped(Shape{}))});
    ASSERT_NO_FATAL_FAILURE(Finish(stored ? Quantize(y, p.y_scale, p.y_zero) : y));
    const auto ops = Compiled();
    EXPECT_EQ(ops.count(stored ? "QLinearMatMul" : "MatMulIntegerToFloat"), 1u);
    EXPECT_EQ(ops.size(), 1u + transposed);
    const Tensor actual = RunEverywhere(), expected = Expected();
    ASSERT_NO_FATAL_FAILURE(stored ? ExpectWithinAStep(actual, expected) : ExpectReal(p, actual, expected));
  }
}

// Without a QuantizeLinear behind it a product gives float32; bias, residual and activation in float32 follow it.
TEST_F(QuantizedProducts, GiveFloatsWhereNothingQuantizes) {
  for (int round = 0; round < 20; ++round) {
    const int64_t in = Draw(2, 20), out = Draw(1, 20), extent = Draw(1, 9);
    const Parameters p = DrawParameters(17, out, in);
    const bool residual = Draw(0, 1) != 0, stored = Draw(0, 1) != 0;
    Start(17);
    GraphValue* x = In("x", Bytes(p.x_type, Shape{1, in, extent, extent}));
    GraphValue* real = Dequantize(x, Tensor::Scalar(p.x_scale), p.x_zero);
    const auto weights = [&] {
      return Dequantize(Const("w", Bytes(p.w_type, Shape{out, in, 1, 1})), p.w_scale, p.w_zero, p.per_channel ? 0 : -1);
    };
    GraphValue* y = Op("Conv", {real, weights(), BiasInput(p, DrawBias(out), false)});
    if (residual) y = Op("Relu", {Op("Add", {y, Op("Conv", {real, weights()})})});
    ASSERT_NO_FATAL_FAILURE(Finish(stored ? Quantize(y, p.y_scale, p.y_zero) : y));
    const auto ops = Compiled();
    EXPECT_EQ(ops.count("Conv88"), stored ? 1u : 0u);
    EXPECT_EQ(ops.count("Conv8") ? ops.at("Conv8") : 0, (stored ? 0 : 1) + (residual ? 1 : 0));
    EXPECT_EQ(ops.count("Add") + ops.count("Relu"), 0u);
    const Tensor actual = RunEverywhere(), expected = Expected();
    ASSERT_NO_FATAL_FAILURE(stored ? ExpectWithinAStep(actual, expected) : ExpectReal(p, actual, expected));
  }
}

// Kernels of one channel too.
TEST_F(QuantizedProducts, DepthwiseConvolutions) {
  const Parameters p = DrawParameters(13, 6, 9);
  Start(13);
  GraphValue* x = In("x", Bytes(p.x_type, Shape{1, 6, 7, 8}));
  GraphValue* y =
      Op("Conv",
         {Dequantize(x, Tensor::Scalar(p.x_scale), p.x_zero),
          Dequantize(Const("w", Bytes(p.w_type, Shape{6, 1, 3, 3})), p.w_scale, p.w_zero, p.per_channel ? 0 : -1),
          BiasInput(p, DrawBias(6), false)},
         {{"group", int64_t{6}}});
  ASSERT_NO_FATAL_FAILURE(Finish(Quantize(y, p.y_scale, p.y_zero)));
  const auto ops = Compiled();
  EXPECT_EQ(ops.count("Conv88"), 1u);
  EXPECT_EQ(ops.count("DequantizeLinear"), 0u);
  ExpectWithinAStep(RunOnCpu(*graph_, inputs_, Config(false)).value()[0], Expected());
}

// Transposed convolutions multiply in float32, with weights and bias that are dequantized once.
TEST_F(QuantizedProducts, TransposedConvolutions) {
  for (const int64_t extent : {5, 50}) {  // weights of few elements, and of many
    const Parameters p = DrawParameters(13, 6, extent);
    Start(13);
    GraphValue* x = In("x", Bytes(p.x_type, Shape{1, extent, 7, 8}));
    GraphValue* y = Op(
        "ConvTranspose",
        {Dequantize(x, Tensor::Scalar(p.x_scale), p.x_zero),
         Dequantize(Const("w", Bytes(p.w_type, Shape{extent, 6, 4, 4})), p.w_scale, p.w_zero, p.per_channel ? 1 : -1),
         BiasInput(p, DrawBias(6), false)},
        {{"strides", std::vector<int64_t>{2, 2}}, {"pads", std::vector<int64_t>{1, 1, 1, 1}}});
    ASSERT_NO_FATAL_FAILURE(Finish(y));
    const auto ops = Compiled();
    EXPECT_EQ(ops.count("ConvTranspose"), 0u);
    EXPECT_EQ(ops.count("Conv"), 1u);
    EXPECT_EQ(ops.count("DequantizeLinear") ? ops.at("DequantizeLinear") : 0, 1) << "that of the input";
    const Tensor actual = RunOnCpu(*graph_, inputs_, Config(false)).value()[0], expected = Expected();
    ASSERT_NO_FATAL_FAILURE(ExpectReal(p, actual, expected));
  }
}

// K so long that int32 could not hold the sum.
TEST_F(QuantizedProducts, SumsThatCouldOverflowStayInFloat) {
  constexpr int64_t kLong = 70000;
  for (const int64_t k : {kLong, kLong / 4}) {
    Start(13);
    Tensor w = Tensor::Allocate(DType::kI8, Shape{k, 1}).value(), x = Tensor::Allocate(DType::kU8, Shape{1, k}).value();
    std::memset(w.raw_data(), 127, w.bytes());
    std::memset(x.raw_data(), 255, x.bytes());
    GraphValue* y = Op("MatMul", {Dequantize(In("x", x), Tensor::Scalar(0.01f), {}),
                                  Dequantize(Const("w", w), Tensor::Scalar(0.01f), {})});
    ASSERT_NO_FATAL_FAILURE(Finish(y));
    EXPECT_EQ(Compiled().count("MatMul8"), k == kLong ? 0u : 1u);
    const float expected = static_cast<float>(k) * 2.55f * 1.27f;
    // One term after the other, each sum rounded: the bound of any order of summation (Higham, section 4.2).
    const float bound = expected * static_cast<float>(k) * 0x1p-24f;
    EXPECT_NEAR(RunOnCpu(*graph_, inputs_, Config(false)).value()[0].data<float>()[0], expected, bound);
  }
}

TEST_F(QuantizedProducts, OtherFormsStayInFloat) {
  const Parameters p = DrawParameters(10, 6, 4);
  const auto product = [&](bool run_time_scale, bool run_time_weights, int64_t rows = 5) {
    Start(13);
    GraphValue* x = In("x", Bytes(p.x_type, Shape{rows, 4}));
    GraphValue* x_scale = run_time_scale ? In("s", Tensor::Scalar(p.x_scale)) : Const("s", Tensor::Scalar(p.x_scale));
    const Tensor weights = Bytes(p.w_type, Shape{4, 6});
    GraphValue* w = run_time_weights ? In("w", weights) : Const("w", weights);
    GraphValue* y =
        Op("MatMul", {Op("DequantizeLinear", {x, x_scale, Const("z", p.x_zero)}), Dequantize(w, p.w_scale, p.w_zero)});
    Finish(Quantize(y, p.y_scale, p.y_zero));
    ExpectWithinAStep(RunOnCpu(*graph_, inputs_, Config(false)).value()[0], Expected());
    return Compiled();
  };
  EXPECT_EQ(product(false, false).count("MatMul88"), 1u);
  auto ops = product(true, false);
  EXPECT_EQ(ops.count("MatMul"), 1u);
  EXPECT_EQ(ops.at("DequantizeLinear"), 1) << "that of the weights is folded";
  ops = product(false, true);
  EXPECT_EQ(ops.count("MatMul"), 1u);
  EXPECT_EQ(ops.at("DequantizeLinear"), 2);
  EXPECT_EQ(product(false, true, 8).count(p.per_channel ? "MatMul" : "QLinearMatMul"), 1u);
  // Weights with a scale for each row of K.
  Start(13);
  GraphValue* x = Dequantize(In("x", Bytes(p.x_type, Shape{5, 4})), Tensor::Scalar(p.x_scale), p.x_zero);
  GraphValue* w = Dequantize(Const("w", Bytes(DType::kI8, Shape{4, 6})),
                             Tensor::FromValues<float>(Shape{4}, std::array{0.01f, 0.02f, 0.03f, 0.04f}), {}, 0);
  ASSERT_NO_FATAL_FAILURE(Finish(Op("MatMul", {x, w})));
  EXPECT_EQ(Compiled().count("MatMul"), 1u);
}

class SkipRequantization : public QuantizedProducts {};

TEST_F(SkipRequantization, MovesStoredIntegers) {
  for (const DType type : {DType::kU8, DType::kI8}) {
    Start(10);  // before pools of bytes
    const Tensor scale = Tensor::Scalar(0.03f), zero = ZeroPoint(type, 11);
    GraphValue* x = In("x", Bytes(type, Shape{2, 3, 6, 5}));
    GraphValue* y = Dequantize(x, scale, zero);
    const auto again = [&] { y = Dequantize(Quantize(y, 0.03f, zero), scale, zero); };
    y = Op("MaxPool", {y}, {{"kernel_shape", std::vector<int64_t>{3, 2}}, {"pads", std::vector<int64_t>{1, 0, 1, 1}}});
    again();
    y = Op("Concat", {y, y}, {{"axis", int64_t{1}}});
    again();
    again();
    y = Op("Transpose", {y}, {{"perm", std::vector<int64_t>{0, 2, 1, 3}}});
    again();
    ASSERT_NO_FATAL_FAILURE(Finish(Quantize(Op("Flatten", {y}), 0.03f, zero)));
    const auto ops = Compiled();
    EXPECT_EQ(ops.count("QuantizeLinear") + ops.count("DequantizeLinear"), 0u);
    const Tensor actual = RunEverywhere(), expected = Expected();
    ASSERT_EQ(actual.shape().ToString(), expected.shape().ToString());
    EXPECT_EQ(std::memcmp(actual.raw_data(), expected.raw_data(), expected.bytes()), 0);
  }
}

TEST_F(SkipRequantization, ChoosesAndSplitsStoredIntegers) {
  for (const bool alike : {true, false}) {
    Start(18);
    const Tensor scale = Tensor::Scalar(0.03f), zero = ZeroPoint(DType::kU8, 11);
    GraphValue* y = Dequantize(In("x", Bytes(DType::kU8, Shape{2, 8, 6, 5})), scale, zero);
    const auto again = [&](GraphValue* v) { return Dequantize(Quantize(v, 0.03f, zero), scale, zero); };
    const auto ints = [&](const char* name, std::vector<int64_t> numbers) {
      return Const(name, Tensor::FromValues<int64_t>(Shape{static_cast<int64_t>(numbers.size())}, numbers));
    };
    y = again(Op("Gather", {y, ints("rows", {3, 0, 5, 1, 2})}, {{"axis", int64_t{2}}}));
    y = again(Op("Slice", {y, ints("starts", {1}), ints("ends", {5}), ints("axes", {3})}));
    y = again(Op("Tile", {y, ints("repeats", {1, 1, 2, 1})}));
    y = again(Op("DepthToSpace", {y}, {{"blocksize", int64_t{2}}}));
    Node* split = graph_->AddNode({.op_type = "Split",
                                   .inputs = {y},
                                   .outputs = {"first", "second"},
                                   .attributes = {{"axis", int64_t{2}}, {"num_outputs", int64_t{2}}}});
    ASSERT_TRUE(InferShapes(*graph_).ok());
    GraphValue* second = alike ? again(split->output(1)) : split->output(1);
    y = Op("Concat", {Op("Softmax", {again(split->output(0))}), Op("Softmax", {second})}, {{"axis", int64_t{0}}});
    ASSERT_NO_FATAL_FAILURE(Finish(y));
    auto ops = Compiled();
    EXPECT_EQ(ops["DequantizeLinear"], alike ? 2 : 1);
    EXPECT_EQ(ops["Elementwise"], alike ? 0 : 1) << "what stores a part and reads it again";
    const Tensor actual = RunOnCpu(*graph_, inputs_, Config(false)).value()[0], expected = Expected();
    ASSERT_EQ(actual.shape().ToString(), expected.shape().ToString());
    for (int64_t i = 0; i < expected.num_elements(); ++i) {
      ASSERT_NEAR(actual.data<float>()[i], expected.data<float>()[i], 1e-6) << i;
    }
  }
}

// Before what keeps all elements, where it meets a product; not before what leaves some out.
TEST_F(SkipRequantization, QuantizesBeforeMoves) {
  const Parameters p = DrawParameters(13, 1, 8);
  const Tensor scale = Tensor::Scalar(p.w_scale.data<float>()[0]), zero = p.w_zero.Reshaped(Shape{});
  Start(13);
  GraphValue* x = Dequantize(In("x", Bytes(p.x_type, Shape{4, 8})), Tensor::Scalar(p.x_scale), p.x_zero);
  GraphValue* y = Op("MatMul", {x, Dequantize(Const("w", Bytes(p.w_type, Shape{8, 6})), scale, zero)});
  y = Op("Reshape", {y, Const("shape", Tensor::FromValues<int64_t>(Shape{3}, std::array<int64_t, 3>{4, 1, 6}))});
  y = Op("Expand", {y, Const("more", Tensor::FromValues<int64_t>(Shape{3}, std::array<int64_t, 3>{4, 5, 6}))});
  y = Op("Transpose", {y}, {{"perm", std::vector<int64_t>{1, 0, 2}}});
  ASSERT_NO_FATAL_FAILURE(Finish(Quantize(y, p.y_scale, p.y_zero)));
  EXPECT_EQ(Compiled().count("MatMul88"), 1u);
  EXPECT_EQ(Compiled().count("QuantizeLinear"), 0u);
  ASSERT_NO_FATAL_FAILURE(ExpectWithinAStep(RunEverywhere(), Expected()));

  Start(13);
  y = Op("Sin", {Dequantize(In("x", Bytes(DType::kU8, Shape{9, 4})), Tensor::Scalar(p.x_scale), {})});
  y = Op("Gather", {y, Const("rows", Tensor::Scalar(int64_t{3}))});
  ASSERT_NO_FATAL_FAILURE(Finish(Quantize(y, p.y_scale, p.y_zero)));
  InlineExecutor executor;
  const auto exe = CpuExecutable::Compile(*graph_, Config(false), executor);
  ASSERT_TRUE(exe.ok()) << exe.status().message();
  for (const Node* n : (*exe)->graph().nodes()) {
    EXPECT_TRUE(!n->Is("QuantizeLinear") || n->input(0)->producer()->Is("Gather")) << n->Describe();
  }
}

TEST_F(SkipRequantization, LeavesOtherScalesTypesAndReaders) {
  const auto quantizations = [&](float scale, int64_t zero, DType type, bool read_twice) {
    Start(17);
    GraphValue* x =
        Dequantize(In("x", Bytes(DType::kU8, Shape{2, 3, 6, 5})), Tensor::Scalar(0.03f), ZeroPoint(DType::kU8, 11));
    GraphValue* y = Op("MaxPool", {x}, {{"kernel_shape", std::vector<int64_t>{2, 2}}});
    if (read_twice) graph_->AddOutput(Op("Neg", {y}));
    Finish(Quantize(y, scale, ZeroPoint(type, zero)));
    return Compiled().count("QuantizeLinear");
  };
  EXPECT_EQ(quantizations(0.03f, 11, DType::kU8, false), 0u);
  EXPECT_EQ(quantizations(0.04f, 11, DType::kU8, false), 1u);
  EXPECT_EQ(quantizations(0.03f, 12, DType::kU8, false), 1u);
  EXPECT_EQ(quantizations(0.03f, 11, DType::kI8, false), 1u);
  EXPECT_EQ(quantizations(0.03f, 11, DType::kU8, true), 1u);
}

TEST_F(Quantized, IsKnownOfIntegersThatAreDividedInFloat) {
  const auto known = [&](DType to, DType precision) {
    Start(25);
    GraphValue* x = Dequantize(In("x", Bytes(DType::kU8, Shape{4})), Tensor::Scalar(0.5f), {});
    GraphValue* y = Op("QuantizeLinear", {x, Const("scale", Tensor::Scalar(0.5f))},
                       {{"output_dtype", static_cast<int64_t>(to)}, {"precision", static_cast<int64_t>(precision)}});
    Finish(y);
    return QuantizationOf(*y->producer()).has_value();
  };
  EXPECT_TRUE(known(DType::kI8, DType::kUndefined));
  EXPECT_TRUE(known(DType::kI4, DType::kF32));
  EXPECT_FALSE(known(DType::kI8, DType::kF16));
  EXPECT_FALSE(known(DType::kF8E5M2, DType::kUndefined));
}

}  // namespace
}  // namespace quern::cpu
