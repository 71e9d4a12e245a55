// Products with weights of 2, 4 and 8 bits that are dequantized by blocks: one node, as the reference computes them.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "base/packed_bits.h"
#include "ops/evaluate.h"
#include "ops/infer.h"
#include "provider/cpu/test_run.h"

namespace quern::cpu {
namespace {

enum class Scales { kBlocks, kColumns, kOne };

struct Form {
  DType type = DType::kI4;
  int64_t k = 64, n = 6, block = 16;  // block 0: with kColumns and kOne
  Scales scales = Scales::kBlocks;
  bool zero = true, stored_transposed = false, transposes = false, gemm = false, bias = false;
};

class MultiplyBlocks : public testing::Test {
 protected:
  Tensor Bits(DType type, const Shape& shape) {
    Tensor t = Tensor::Allocate(type, shape).value();
    std::memset(t.raw_data(), 0, t.bytes());
    const int bits = PackedBits(type);
    auto* bytes = static_cast<uint8_t*>(t.raw_data());
    for (int64_t i = 0; i < t.num_elements(); ++i) {
      const auto value = static_cast<uint8_t>(random_());
      if (bits == 0) {
        bytes[i] = value;
      } else {
        StorePacked(bytes, i, bits, value);
      }
    }
    return t;
  }
  Tensor Floats(const Shape& shape) {
    Tensor t = Tensor::Allocate(DType::kF32, shape).value();
    for (float& v : t.values<float>()) v = static_cast<float>(static_cast<int>(random_() % 2000) - 1000) / 700;
    return t;
  }

  // The number of nodes that are left.
  int Check(const Form& f) {
    Graph graph;
    graph.opset_imports[""] = 25;
    const auto constant = [&](Tensor t) { return graph.AddConstant(graph.UniqueName("c"), Value(std::move(t))); };
    const auto op = [&](const char* type, std::vector<GraphValue*> inputs,
                        std::map<std::string, Attribute, std::less<>> attributes) {
      return graph
          .AddNode({.name = type,
                    .op_type = type,
                    .inputs = std::move(inputs),
                    .outputs = {graph.UniqueName(type)},
                    .attributes = std::move(attributes)})
          ->output(0);
    };
    const int along_k = f.stored_transposed ? 1 : 0;
    const Shape stored = f.stored_transposed ? Shape{f.n, f.k} : Shape{f.k, f.n};
    Shape scales;
    int64_t axis = along_k;
    if (f.scales == Scales::kBlocks) {
      scales = stored;
      scales[along_k] = (f.k + f.block - 1) / f.block;
    } else if (f.scales == Scales::kColumns) {
      scales = Shape{f.n};
      axis = 1 - along_k;
    }
    std::vector<GraphValue*> quantized = {constant(Bits(f.type, stored)), constant(Floats(scales))};
    if (f.zero) quantized.push_back(constant(Bits(f.type, scales)));
    std::map<std::string, Attribute, std::less<>> attributes = {{"axis", axis}};
    if (f.scales == Scales::kBlocks) attributes["block_size"] = f.block;
    GraphValue* w = op("DequantizeLinear", quantized, attributes);
    if (f.transposes) w = op("Transpose", {w}, {{"perm", std::vector<int64_t>{1, 0}}});
    const bool transposed = f.stored_transposed != f.transposes;
    EXPECT_TRUE(f.gemm || !transposed);
    GraphValue* x = graph.AddInput("x", ValueType::Tensor(DType::kF32, Dims{3, f.k}));
    std::vector<GraphValue*> operands = {x, w};
    if (f.bias) operands.push_back(constant(Floats(Shape{f.n})));
    graph.AddOutput(f.gemm ? op("Gemm", operands, {{"transB", int64_t{transposed}}}) : op("MatMul", operands, {}));
    const Status inferred = InferShapes(graph);
    EXPECT_TRUE(inferred.ok()) << inferred.message();
    const std::vector<Value> inputs = {Floats(Shape{3, f.k})};
    const Result<std::vector<Value>> expected = EvaluateGraph(graph, inputs);
    const Result<std::vector<Tensor>> actual = RunOnCpu(graph, inputs, Config(false));
    EXPECT_TRUE(expected.ok()) << expected.status().message();
    EXPECT_TRUE(actual.ok()) << actual.status().message();
    if (!expected.ok() || !actual.ok()) return -1;
    const Tensor &want = (*expected)[0].tensor(), &got = (*actual)[0];
    EXPECT_EQ(got.shape(), want.shape());
    float largest = 0;
    for (float v : want.values<float>()) largest = std::max(largest, std::fabs(v));
    for (int64_t i = 0; i < want.num_elements(); ++i) {
      EXPECT_NEAR(got.data<float>()[i], want.data<float>()[i], 1e-5f * largest) << i;
    }
    InlineExecutor executor;
    const auto exe = CpuExecutable::Compile(graph, Config(false), executor);
    EXPECT_TRUE(exe.ok()) << exe.status().message();
    return exe.ok() ? static_cast<int>((*exe)->nodes().size()) : -1;
  }

  std::mt19937 random_{11};
};

TEST_F(MultiplyBlocks, TakeEachTypeAsItIsStored) {
  for (const DType type : {DType::kI4, DType::kU4, DType::kI2, DType::kU2, DType::kI8, DType::kU8}) {
    for (const bool zero : {true, false}) {
      SCOPED_TRACE(std::string(DTypeName(type)) + (zero ? " with" : " without") + " zero points");
      EXPECT_EQ(Check({.type = type, .zero = zero}), 1);
      EXPECT_EQ(Check({.type = type, .k = 75, .n = 5, .zero = zero}), 1);  // the last block is a part
      EXPECT_EQ(Check({.type = type, .k = 256, .n = 130, .block = 32, .zero = zero}), 1);
      EXPECT_EQ(Check({.type = type, .zero = zero, .stored_transposed = true, .transposes = true}), 1);
      EXPECT_EQ(Check({.type = type, .k = 75, .zero = zero, .stored_transposed = true, .gemm = true, .bias = true}), 1);
      EXPECT_EQ(Check({.type = type, .k = 33, .n = 7, .zero = zero, .transposes = true, .gemm = true}), 1);
    }
  }
}

TEST_F(MultiplyBlocks, TakeFewBitsWithFewScales) {
  for (const DType type : {DType::kI4, DType::kU4, DType::kI2, DType::kU2}) {
    for (const Scales scales : {Scales::kColumns, Scales::kOne}) {
      EXPECT_EQ(Check({.type = type, .scales = scales}), 1);
      EXPECT_EQ(Check({.type = type, .k = 75, .n = 5, .scales = scales, .zero = false}), 1);
      EXPECT_EQ(Check({.type = type, .scales = scales, .stored_transposed = true, .transposes = true}), 1);
    }
  }
}

// Blocks that MatMulNBits does not have: the weights become float32 at load.
TEST_F(MultiplyBlocks, LeaveOtherBlocks) {
  EXPECT_EQ(Check({.block = 8}), 1);
  EXPECT_EQ(Check({.k = 72, .block = 24}), 1);
  EXPECT_EQ(Check({.type = DType::kI8, .scales = Scales::kColumns}), 1);
}

}  // namespace
}  // namespace quern::cpu
