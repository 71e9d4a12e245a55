// MatMul, Gemm with every form of C, and products with blocks of 4-bit weights, on random cases.
#include <gtest/gtest.h>

#include <cmath>

#include "provider/cpu/random_cases.h"

namespace quern::cpu {
namespace {

// Small whole numbers, of which sums of products are exact in any order.
Tensor DrawWhole(const Shape& shape) {
  Tensor t = DrawTensor(DType::kF32, shape);
  for (float& v : t.values<float>()) v = std::nearbyint(4 * v);
  return t;
}

// Batches that broadcast, vectors, no rows or columns or sums of nothing; weights that are packed or come with the run.
TEST_F(CpuOps, MatMulOfAnyRanks) {
  for (int i = 0; i < 20 * kRounds; ++i) {
    const int64_t m = Draw(0, 9), n = Draw(0, 9) == 0 ? 0 : Draw(1, 70), k = Draw(0, 9) == 0 ? 0 : Draw(1, 40);
    const Shape batch = DrawShape(0, 4, 3);
    Shape a = BroadcastPart(batch), b = BroadcastPart(batch);
    if (Draw(0, 2) == 0) b = Shape{};
    if (a.rank() > 0 || Draw(0, 4)) a.push_back(m);
    a.push_back(k);
    b.push_back(k);
    if (b.rank() > 1 || Draw(0, 4)) b.push_back(n);
    Case c{.op = "MatMul", .opset = Pick({6, 9, 13})};
    Tensor x = DrawWhole(a), y = DrawWhole(b);
    if (i % 10 == 0 && x.num_elements() > 0) x.data<float>()[Draw(0, x.num_elements() - 1)] = Pick({NAN, INFINITY});
    ASSERT_NO_FATAL_FAILURE(Check(c.In(x, Draw(0, 5) == 0).In(y, Draw(0, 1) != 0)));
  }
}

// [batch, steps, k], transposed to [steps, batch, k] as exporters of recurrent networks and of attention have it: few
// rows a product, of which the batch makes many. With weights that are packed or come with the run, bias and residual.
TEST_F(CpuOps, MatMulOfTransposedSteps) {
  for (int i = 0; i < 2 * kRounds; ++i) {
    const int64_t batch = Draw(1, 4), steps = Draw(2, 40), k = Draw(1, 40), n = Draw(1, 40), heads = Draw(1, 2);
    Graph graph;
    graph.opset_imports[""] = 13;
    const auto input = [&](const char* name, const Tensor& t) { return graph.AddInput(name, TypeOf(Value(t))); };
    const auto constant = [&](const char* name, const Tensor& t) { return graph.AddConstant(name, t); };
    const auto node = [&](const char* op, std::vector<GraphValue*> inputs, const char* output) {
      return graph.AddNode({.op_type = op, .inputs = std::move(inputs), .outputs = {output}});
    };
    const Tensor x = DrawTensor(DType::kF32, Shape{batch, heads, steps, k});
    const Tensor w = DrawTensor(DType::kF32, Shape{k, n}), bias = DrawTensor(DType::kF32, Shape{n});
    const Tensor residual = DrawTensor(DType::kF32, Shape{steps, heads, batch, n});
    std::vector<Value> inputs = {x, residual};
    GraphValue *in = input("x", x), *r = input("r", residual), *weights;
    if (Draw(0, 1)) {
      weights = constant("w", w);
    } else {
      weights = input("w", w);
      inputs.emplace_back(w);
    }
    Node* transpose = node("Transpose", {in}, "t");
    transpose->SetAttribute("perm", std::vector<int64_t>{2, 1, 0, 3});
    GraphValue* y = node("MatMul", {transpose->output(0), weights}, "m")->output(0);
    if (Draw(0, 1)) y = node("Add", {y, constant("b", bias)}, "n")->output(0);
    if (Draw(0, 1)) y = node("Add", {r, y}, "s")->output(0);
    graph.AddOutput(y);
    ASSERT_TRUE(InferShapes(graph).ok());
    const Result<std::vector<Value>> expected = EvaluateGraph(graph, inputs);
    ASSERT_TRUE(expected.ok()) << expected.status().message();
    const Result<std::vector<Tensor>> actual = RunOnCpu(graph, inputs, Config(Draw(0, 1) != 0));
    ASSERT_TRUE(actual.ok()) << actual.status().message();
    Case c{.op = "MatMul"};
    c.absolute = c.relative = 1e-4;
    ASSERT_NO_FATAL_FAILURE(ExpectSame((*actual)[0], (*expected)[0].tensor(), c));
  }
}

TEST_F(CpuOps, GemmWithAnyC) {
  for (int i = 0; i < 20 * kRounds; ++i) {
    const int64_t m = Draw(0, 9), n = Draw(1, 40), k = Draw(1, 30);
    const bool trans_a = Draw(0, 1) != 0, trans_b = Draw(0, 1) != 0;
    Case c{.op = "Gemm", .opset = static_cast<int>(Pick({7, 9, 11, 13}))};
    c.In(DrawWhole(trans_a ? Shape{k, m} : Shape{m, k}));
    c.In(DrawWhole(trans_b ? Shape{n, k} : Shape{k, n}), Draw(0, 1) != 0);
    c.Attr("transA", int64_t{trans_a}).Attr("transB", int64_t{trans_b});
    if (Draw(0, 1)) c.Attr("alpha", Pick({2.0f, -0.5f, 0.0f}));
    if (Draw(0, 1)) c.Attr("beta", Pick({2.0f, -0.25f, 0.0f}));
    const Shape shapes[] = {Shape{}, Shape{1}, Shape{n}, Shape{1, n}, Shape{m, 1}, Shape{m, n}, Shape{1, 1}};
    if (c.opset < 11 || Draw(0, 5) != 0) c.In(DrawWhole(shapes[Draw(0, 6)]), Draw(0, 1) != 0);
    ASSERT_NO_FATAL_FAILURE(Check(c));
  }
}

// x as its dynamic int8 rows have it: one scale and zero point for each row, as docs/numerics.md says.
Tensor QuantizedRows(const Tensor& x) {
  const Tensor y = x.Clone().value();
  const int64_t k = x.shape().back();
  for (int64_t row = 0; k > 0 && row < x.num_elements() / k; ++row) {
    float* v = y.data<float>() + row * k;
    const float low = std::min(0.0f, *std::min_element(v, v + k)), high = std::max(0.0f, *std::max_element(v, v + k));
    const float s = low == high ? 1 : 255 / (high - low), zero_low = -128 + low * s, zero_high = 127 + high * s;
    const float zero = zero_low + zero_high > 0 ? -128 - low * s : 127 - high * s;
    const float z = std::nearbyint(std::clamp(zero, -128.0f, 127.0f));
    for (int64_t i = 0; i < k; ++i) v[i] = (std::clamp(std::round(v[i] * s) + z, -128.0f, 127.0f) - z) / s;
  }
  return y;
}

// x as int8 blocks of 32 have it, each with a float16 scale.
Tensor QuantizedBlocks(const Tensor& x) {
  const Tensor y = x.Clone().value();
  for (int64_t begin = 0; begin < x.num_elements(); begin += 32) {
    float* v = y.data<float>() + begin;
    float largest = 0;
    for (int64_t i = 0; i < 32; ++i) largest = std::max(largest, std::fabs(v[i]));
    const float d = largest / 127, scale = static_cast<float>(Float16(d));
    for (int64_t i = 0; i < 32; ++i) {
      v[i] = scale > 0 ? std::clamp(std::round(v[i] * (1 / d)), -128.0f, 127.0f) * scale : 0.0f;
    }
  }
  return y;
}

TEST_F(CpuOps, ProductsWithBlocksOfFewBits) {
  for (int i = 0; i < 8 * kRounds; ++i) {
    const int64_t block = Pick<int64_t>({16, 32, 64, 128}), blocks = Draw(1, 3), n = Draw(1, 70);
    const int64_t k = block * blocks - (Draw(0, 1) ? Draw(0, 15) : 0), bits = Pick<int64_t>({2, 4, 4, 8});
    const int64_t level = Pick<int64_t>({0, 1, 4});
    Case c{.op = "MatMulNBits", .domain = "com.microsoft"};
    c.relative = 1e-5;
    c.absolute = 1e-4;
    Shape shape{k};
    for (int64_t d = Draw(1, 3); d > 0; --d) shape.insert(0, Draw(1, 5));
    c.In(DrawTensor(DType::kF32, shape)).In(DrawTensor(DType::kU8, Shape{n, blocks, block * bits / 8}), true);
    const float range = static_cast<float>(1 << bits);  // of weights, before the scales make them alike
    c.In(DrawTensor(DType::kF32, Shape{n * blocks}, 1.6f / range), true);
    const int64_t zeros = Draw(0, 2);  // none, packed, float32
    if (zeros == 1) c.In(DrawTensor(DType::kU8, Shape{n * ((blocks * bits + 7) / 8)}), true);
    if (zeros == 2) c.In(DrawTensor(DType::kF32, Shape{n * blocks}, range / 4), true);
    c.Attr("K", k).Attr("N", n).Attr("bits", bits).Attr("block_size", block).Attr("accuracy_level", level);
    SCOPED_TRACE(c.ToString());
    Built b;
    ASSERT_NO_FATAL_FAILURE(Build(c, false, b));
    Tensor rounded = c.inputs[0].tensor();
    const bool by_blocks = bits == 4 && block % 32 == 0 && k % 32 == 0;
    if (level == 4) rounded = by_blocks ? QuantizedBlocks(rounded) : QuantizedRows(rounded);
    const Result<std::vector<Value>> expected = EvaluateGraph(b.graph, std::vector<Value>{rounded});
    ASSERT_TRUE(expected.ok()) << expected.status().message();
    for (const bool portable : {false, true}) {
      ASSERT_EQ(FindCpuOp(c.domain, c.op)->reject(*b.node, Config(portable)), "");
      const Result<std::vector<Tensor>> actual = RunOnCpu(b.graph, b.inputs, Config(portable));
      ASSERT_TRUE(actual.ok()) << actual.status().message();
      ASSERT_NO_FATAL_FAILURE(ExpectSame((*actual)[0], (*expected)[0].tensor(), c));
    }
  }
}

// Blocks that begin inside of rows, matrices that end inside of a byte.
TEST_F(CpuOps, ProductsWithLevelsOfFourBits) {
  for (int i = 0; i < 8 * kRounds; ++i) {
    const int64_t n = Draw(1, 70), k = Draw(1, 90), block = Pick<int64_t>({16, 32, 64, 128, 256});
    Case c{.op = "MatMulBnb4", .domain = "com.microsoft"};
    c.absolute = 1e-4;
    Shape shape{k};
    for (int64_t d = Draw(0, 3); d > 0; --d) shape.insert(0, Draw(1, 5));
    c.In(DrawTensor(DType::kF32, shape)).In(DrawTensor(DType::kU8, Shape{(n * k + 1) / 2}), true);
    c.In(DrawTensor(DType::kF32, Shape{(n * k + block - 1) / block}), true);
    c.Attr("K", k).Attr("N", n).Attr("block_size", block).Attr("quant_type", Draw(0, 1));
    ASSERT_NO_FATAL_FAILURE(Check(c));
  }
}

}  // namespace
}  // namespace quern::cpu
