// Recurrent layers of random forms beside the reference provider.
#include <gtest/gtest.h>

#include "provider/cpu/random_cases.h"

namespace quern::cpu {
namespace {

// A layer of random sizes and weights, with its operands X, W, R and B.
struct Layer {
  int64_t steps = 1, batch = 1, hidden = 1, directions = 1;
  bool batch_first = false;
  Case node;

  Shape StateShape() const { return batch_first ? Shape{batch, directions, hidden} : Shape{directions, batch, hidden}; }
};

Layer DrawLayer(const char* op, bool batch_first) {
  const int64_t gates = op[0] == 'L' ? 4 : op[0] == 'G' ? 3 : 1, input = Draw(1, 20);
  Layer l;
  l.steps = Draw(1, 5);
  l.batch = Draw(1, 3);
  l.hidden = Draw(1, 20);
  l.batch_first = batch_first;
  // Large ones have more weights than the small cache keeps from step to step.
  if (Draw(0, 3) == 0) l.hidden = Draw(60, 90);
  const std::string direction = Pick<std::string>({"forward", "reverse", "bidirectional"});
  l.directions = direction == "bidirectional" ? 2 : 1;
  Case& c = l.node;
  c.op = op;
  c.opset = 14;
  c.outputs = op[0] == 'L' ? 3 : 2;
  c.absolute = 1e-5;
  c.Attr("hidden_size", l.hidden).Attr("direction", direction);
  if (op[0] == 'G') c.Attr("linear_before_reset", Draw(0, 1));
  if (batch_first) c.Attr("layout", int64_t{1});
  c.In(DrawTensor(DType::kF32, batch_first ? Shape{l.batch, l.steps, input} : Shape{l.steps, l.batch, input}, 1));
  c.In(DrawTensor(DType::kF32, Shape{l.directions, gates * l.hidden, input}, 0.3f), true);
  c.In(DrawTensor(DType::kF32, Shape{l.directions, gates * l.hidden, l.hidden}, 0.3f), true);
  if (Draw(0, 3)) {
    c.In(DrawTensor(DType::kF32, Shape{l.directions, 2 * gates * l.hidden}, 0.3f), true);
  } else {
    c.Omit();
  }
  return l;
}

// Names of `count` functions, with parameters for those that have some.
void DrawActivations(int64_t count, Case& c) {
  std::vector<std::string> names;
  std::vector<float> alphas, betas;
  for (int64_t i = 0; i < count; ++i) {
    const std::string name = Pick<std::string>({"Tanh", "Relu", "Sigmoid", "HardSigmoid", "Affine", "ScaledTanh",
                                                "Softsign", "Softplus", "LeakyRelu", "ThresholdedRelu", "Elu"});
    const bool both = name == "HardSigmoid" || name == "Affine" || name == "ScaledTanh";
    if (both || name == "LeakyRelu" || name == "ThresholdedRelu" || name == "Elu")
      alphas.push_back(name == "ThresholdedRelu" ? -9.0f : 0.3f);
    if (both) betas.push_back(0.4f);
    names.push_back(name);
  }
  c.Attr("activations", names);
  if (!alphas.empty()) c.Attr("activation_alpha", alphas);
  if (!betas.empty()) c.Attr("activation_beta", betas);
}

TEST_F(CpuOps, RecurrentLayers) {
  for (const char* op : {"LSTM", "GRU", "RNN"}) {
    for (int i = 0; i < 2 * kRounds; ++i) {
      Layer l = DrawLayer(op, Draw(0, 3) == 0);
      l.node.Omit();
      if (Draw(0, 1)) {
        l.node.In(DrawTensor(DType::kF32, l.StateShape(), 1));
        if (op[0] == 'L') l.node.In(DrawTensor(DType::kF32, l.StateShape(), 1));
      }
      ASSERT_NO_FATAL_FAILURE(Check(l.node));
    }
  }
}

TEST_F(CpuOps, RecurrentLayersWithLengthsFunctionsAndPeepholes) {
  for (const char* op : {"LSTM", "GRU", "RNN"}) {
    const bool lstm = op[0] == 'L';
    for (int i = 0; i < 2 * kRounds; ++i) {
      Layer l = DrawLayer(op, Draw(0, 1));
      Case& c = l.node;
      if (Draw(0, 3)) {
        std::vector<int32_t> lengths;
        for (int64_t b = 0; b < l.batch; ++b) lengths.push_back(static_cast<int32_t>(Draw(0, l.steps)));
        c.In(Tensor::FromValues<int32_t>(Shape{l.batch}, lengths));
      } else {
        c.Omit();
      }
      const bool states = Draw(0, 1);
      for (int k = 0; k < (lstm ? 2 : 1); ++k) {
        if (states) {
          c.In(DrawTensor(DType::kF32, l.StateShape(), 1));
        } else {
          c.Omit();
        }
      }
      if (lstm && Draw(0, 1)) c.In(DrawTensor(DType::kF32, Shape{l.directions, 3 * l.hidden}, 0.3f), true);
      if (lstm) c.Attr("input_forget", Draw(0, 1));
      const bool named = Draw(0, 1);
      if (named) DrawActivations(l.directions * (lstm ? 3 : op[0] == 'G' ? 2 : 1), c);
      if (named || Draw(0, 1)) c.Attr("clip", Pick({0.3f, 1.0f}));  // states do not grow without bounds
      ASSERT_NO_FATAL_FAILURE(Check(c));
    }
  }
}

TEST_F(CpuOps, RecurrentLayersRefuseLengthsThatDoNotFit) {
  for (const int32_t length : {-1, 6}) {
    Layer l = DrawLayer("LSTM", false);
    l.node.In(Tensor::FromValues<int32_t>(Shape{l.batch}, std::vector<int32_t>(static_cast<size_t>(l.batch), length)));
    ASSERT_NO_FATAL_FAILURE(ExpectTheSameError(l.node, "sequence_lens has the entry " + std::to_string(length)));
  }
}

}  // namespace
}  // namespace quern::cpu
