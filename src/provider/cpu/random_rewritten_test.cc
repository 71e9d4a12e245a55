// Operators that the CPU provider claims and computes as others, on random cases: transposed convolutions, fused
// operators of com.microsoft.
#include <gtest/gtest.h>

#include "provider/cpu/random_cases.h"

namespace quern::cpu {
namespace {

TEST_F(CpuOps, TransposedConvolutions) {
  for (int i = 0; i < 10 * kRounds; ++i) {
    const int rank = static_cast<int>(Draw(1, 3));
    const int64_t groups = Draw(0, 3) == 0 ? Draw(2, 3) : 1, in = groups * Draw(1, 4), out = Draw(1, 5);
    Shape x{Draw(1, 2), in}, w{in, out};
    int64_t terms = in / groups;
    std::vector<int64_t> kernel, strides, dilations, begin, end, extra;
    const bool alike = Draw(0, 1) != 0;
    const int64_t stride = Draw(1, 3);
    for (int d = 0; d < rank; ++d) {
      x.push_back(Draw(1, 7));
      kernel.push_back(Draw(1, 5));
      terms *= kernel.back();
      strides.push_back(alike ? stride : Draw(1, 3));
      dilations.push_back(Draw(1, 2));
      const int64_t span = (kernel[d] - 1) * dilations[d] + 1;
      begin.push_back(Draw(0, std::min<int64_t>(2, span - 1)));
      end.push_back(Draw(0, std::min<int64_t>(2, span - 1)));
      extra.push_back(Draw(0, strides[d] - 1));
      w.push_back(kernel[d]);
      if ((x[d + 2] - 1) * strides[d] + span + extra[d] - begin[d] - end[d] < 1) begin[d] = end[d] = 0;
    }
    Case c{.op = "ConvTranspose"};
    const bool constant = Draw(0, 3) > 0;
    c.In(DrawTensor(DType::kF32, x)).In(DrawTensor(DType::kF32, w), constant);
    if (Draw(0, 1)) c.In(DrawTensor(DType::kF32, Shape{out * groups}), constant || Draw(0, 1));
    c.Attr("strides", strides).Attr("dilations", dilations).Attr("group", groups);
    c.absolute = ErrorOfSum(terms, 2 * 2);
    switch (Draw(0, 3)) {
      case 0:
        c.Attr("auto_pad", std::string(Pick({"SAME_UPPER", "SAME_LOWER", "VALID"})));
        break;
      case 1: {
        std::vector<int64_t> shape;
        for (int d = 0; d < rank; ++d) {
          const int64_t span = (kernel[d] - 1) * dilations[d] + 1;
          shape.push_back((x[d + 2] - 1) * strides[d] + span - Draw(0, span - 1) / 2);
        }
        c.Attr("output_shape", shape);
        break;
      }
      default:
        begin.insert(begin.end(), end.begin(), end.end());
        c.Attr("pads", begin).Attr("output_padding", extra);
        break;
    }
    ASSERT_NO_FATAL_FAILURE(Check(c));
  }
}

Case Microsoft(const char* op) { return Case{.op = op, .domain = "com.microsoft"}; }

TEST_F(CpuOps, FusedConvolutions) {
  for (int i = 0; i < 3 * kRounds; ++i) {
    const int64_t in = Draw(1, 5), out = Draw(1, 5), kernel = Draw(1, 3), h = Draw(3, 8), w = Draw(3, 8);
    Case c = Microsoft("FusedConv");
    c.In(DrawTensor(DType::kF32, Shape{2, in, h, w}));
    c.In(DrawTensor(DType::kF32, Shape{out, in, kernel, kernel}), true);
    const bool adds = Draw(0, 1) != 0;
    if (Draw(0, 1)) {
      c.In(DrawTensor(DType::kF32, Shape{out}), true);
    } else if (adds) {
      c.Omit();
    }
    if (adds) c.In(DrawTensor(DType::kF32, Shape{2, out, h - kernel + 1, w - kernel + 1}));
    const std::string activation =
        Pick({"", "Relu", "Sigmoid", "Tanh", "LeakyRelu", "HardSigmoid", "Clip", "Elu", "HardSwish"});
    if (!activation.empty()) c.Attr("activation", activation);
    if (activation == "Clip" || activation == "HardSigmoid")
      c.Attr("activation_params", std::vector<float>{0.1f, 0.6f});
    c.absolute = 2e-5;
    ASSERT_NO_FATAL_FAILURE(Check(c));
  }
}

TEST_F(CpuOps, FusedGelus) {
  for (int i = 0; i < 2 * kRounds; ++i) {
    const Shape shape = DrawShapeOrLarge(1, 4);
    for (const char* op : {"FastGelu", "BiasGelu", "Gelu", "QuickGelu"}) {
      Case c = Microsoft(op);
      c.In(DrawTensor(DType::kF32, shape));
      const bool biased = c.op == "BiasGelu" || (c.op == "FastGelu" && Draw(0, 1));
      if (biased) c.In(DrawTensor(DType::kF32, Shape{shape.back()}), Draw(0, 1) != 0);
      if (c.op == "QuickGelu" && Draw(0, 1)) c.Attr("alpha", 1.3f);
      ASSERT_NO_FATAL_FAILURE(Check(c));
    }
  }
}

TEST_F(CpuOps, SkipNormalizations) {
  for (int i = 0; i < 2 * kRounds; ++i) {
    const Shape shape = DrawShape(3, 3, 9, false);
    for (const bool simple : {false, true}) {
      Case c = Microsoft(simple ? "SkipSimplifiedLayerNormalization" : "SkipLayerNormalization");
      c.In(DrawTensor(DType::kF32, shape)).In(DrawTensor(DType::kF32, shape));
      const Shape channels{shape.back()};
      c.In(DrawTensor(DType::kF32, channels), true);
      const bool beta = !simple && Draw(0, 1), bias = Draw(0, 1) != 0;
      if (beta) c.In(DrawTensor(DType::kF32, channels), true);
      if (bias && !simple && !beta) c.Omit();
      if (bias) c.In(DrawTensor(DType::kF32, channels));
      c.Attr("epsilon", 1e-3f);
      c.relative = 1e-5;
      c.absolute = 1e-4;
      ASSERT_NO_FATAL_FAILURE(Check(c));
    }
  }
}

// Of one sign: 16-bit products are rounded in the reference alone, which is more than a step where sums cancel.
TEST_F(CpuOps, GatedSums) {
  const auto draw = [](const Shape& shape) {
    Tensor t = DrawTensor(DType::kF32, shape);
    for (float& v : t.values<float>()) v = std::fabs(v);
    return t;
  };
  for (int i = 0; i < 2 * kRounds; ++i) {
    const Shape shape = DrawShapeOrLarge(1, 4);
    Shape rows = shape;
    rows[rows.rank() - 1] = 1;
    Case c = Microsoft("GatedAdd");
    c.In(draw(shape)).In(draw(shape)).In(draw(rows));
    ASSERT_NO_FATAL_FAILURE(Check(c));
  }
}

TEST_F(CpuOps, GatedNormalizations) {
  for (int i = 0; i < 2 * kRounds; ++i) {
    Shape shape = DrawShapeOrLarge(1, 4);
    int64_t& last = shape[shape.rank() - 1];
    const int64_t count = last == 0 ? 3 : last;
    last *= Draw(1, 3);
    Case c = Microsoft("GatedRMSNorm");
    c.In(DrawTensor(DType::kF32, shape)).In(DrawTensor(DType::kF32, Shape{count}), Draw(0, 1) != 0);
    c.In(DrawTensor(DType::kF32, shape)).Attr("epsilon", 1e-3f);
    const std::string activation = Pick({"", "silu", "swish", "sigmoid"});
    if (!activation.empty()) c.Attr("activation", activation);
    c.relative = c.absolute = 1e-5;
    ASSERT_NO_FATAL_FAILURE(Check(c));
  }
}

}  // namespace
}  // namespace quern::cpu
