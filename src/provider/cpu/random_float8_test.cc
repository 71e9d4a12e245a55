// Floats of 8 bits and fewer on the CPU provider: casts from and to every plain type; quantization to those of 8 bits.
#include "base/packed_bits.h"
#include "provider/cpu/random_cases.h"

namespace quern::cpu {
namespace {

constexpr DType kFloat8[] = {DType::kF8E4M3FN, DType::kF8E4M3FNUZ, DType::kF8E5M2, DType::kF8E5M2FNUZ, DType::kF8E8M0};
constexpr DType kSmall[] = {DType::kF8E4M3FN, DType::kF8E4M3FNUZ, DType::kF8E5M2, DType::kF8E5M2FNUZ,
                            DType::kF8E8M0,   DType::kF4E2M1,     DType::kF6E2M3, DType::kF6E3M2};
constexpr DType kPlain[] = {DType::kF32, DType::kF64, DType::kF16, DType::kBF16, DType::kI8,  DType::kI16, DType::kI32,
                            DType::kI64, DType::kU8,  DType::kU16, DType::kU32,  DType::kU64, DType::kBool};

Tensor DrawBytes(DType dtype, const Shape& shape) {
  Tensor t = Tensor::Allocate(dtype, shape).value();
  for (size_t i = 0; i < t.bytes(); ++i) static_cast<uint8_t*>(t.raw_data())[i] = static_cast<uint8_t>(Random()());
  // Bits behind the last element are 0.
  const int64_t used = t.num_elements() * PackedBits(dtype) % 8;
  if (used) static_cast<uint8_t*>(t.raw_data())[t.bytes() - 1] &= static_cast<uint8_t>((1 << used) - 1);
  return t;
}

Case CastTo(DType to, int opset) {
  Case c{.op = "Cast", .opset = opset};
  c.Attr("to", static_cast<int64_t>(to));
  if (Draw(0, 1)) c.Attr("saturate", Draw(0, 1));
  if (opset >= 24 && Draw(0, 1)) c.Attr("round_mode", Pick<std::string>({"up", "down", "nearest"}));
  return c;
}

TEST_F(CpuOps, CastsOfSmallFloats) {
  for (const DType small : kSmall) {
    const auto opset = [&] {
      if (small == DType::kF6E2M3 || small == DType::kF6E3M2) return 28;
      return small == DType::kF8E8M0 || small == DType::kF4E2M1 ? 24 : Pick({19, 23, 24});
    };
    for (const DType plain : kPlain) {
      for (int i = 0; i < kRounds; ++i) {
        Case from = CastTo(plain, opset());
        // What no integer holds is left open: numbers that every integer does.
        const bool whole = IsIntegerType(plain);
        Tensor x = DrawBytes(small, DrawShapeOrLarge(0, 4));
        if (whole) std::memset(x.raw_data(), small == DType::kF8E8M0 ? 0x80 : 0x40, x.bytes());
        ASSERT_NO_FATAL_FAILURE(Check(from.In(x)));
        Case to = CastTo(small, opset());
        ASSERT_NO_FATAL_FAILURE(Check(to.In(DrawTensor(plain, DrawShapeOrLarge(0, 4), 300, true))));
      }
    }
    for (const DType other : kSmall) {
      Case c = CastTo(other, 28);
      ASSERT_NO_FATAL_FAILURE(Check(c.In(DrawBytes(small, DrawShape(0, 4)))));
    }
  }
}

TEST_F(CpuOps, QuantizeToFloat8) {
  for (int i = 0; i < 8 * kRounds; ++i) {
    const bool reads = Draw(0, 1) != 0;
    const DType stored = kFloat8[Draw(0, 3)];
    const Shape shape = DrawShapeOrLarge(1, 4);
    const int axis = static_cast<int>(Draw(0, shape.rank() - 1));
    Case c{.op = reads ? "DequantizeLinear" : "QuantizeLinear", .opset = Pick({21, 24})};
    Shape scales;
    if (const int64_t form = Draw(0, 2); form == 1) {
      scales = Shape{shape[axis]};
    } else if (form == 2) {
      const int64_t block = Draw(1, 20);
      scales = shape;
      scales[axis] = (shape[axis] + block - 1) / block;
      c.Attr("block_size", block);
    }
    if (scales.rank() > 0) c.Attr("axis", int64_t{axis});
    if (!reads && Draw(0, 1)) c.Attr("saturate", Draw(0, 1));
    c.In(reads ? DrawBytes(stored, shape) : DrawTensor(DType::kF32, shape, 200, true));
    Tensor scale = DrawTensor(DType::kF32, scales);
    for (int64_t k = 0; k < scale.num_elements(); ++k)
      scale.data<float>()[k] = 0.1f + std::fabs(scale.data<float>()[k]);
    c.In(scale, Draw(0, 1) != 0);
    if (Draw(0, 1)) {
      Tensor zero = Tensor::Allocate(stored, scales).value();
      std::memset(zero.raw_data(), 0, zero.bytes());
      c.In(zero, true);
    } else {
      c.Omit();
      if (!reads) c.Attr("output_dtype", static_cast<int64_t>(stored));
    }
    ASSERT_NO_FATAL_FAILURE(Check(c));
  }
}

TEST_F(CpuOps, Float8RejectsZeroPointsThatAreNotKnownToBeZero) {
  Graph graph;
  graph.opset_imports[""] = 21;
  GraphValue* x = graph.AddInput("x", ValueType::Tensor(DType::kF8E5M2, Dims{4}));
  GraphValue* scale = graph.AddInput("scale", ValueType::Tensor(DType::kF32, Dims{}));
  GraphValue* given = graph.AddInput("given", ValueType::Tensor(DType::kF8E5M2, Dims{}));
  const Tensor one = DrawBytes(DType::kF8E5M2, Shape{});
  std::memset(one.raw_data(), 0x3c, 1);
  GraphValue* constant = graph.AddConstant("one", Value(one));
  const auto reason = [&](GraphValue* zero) {
    Node* node = graph.AddNode({.op_type = "DequantizeLinear", .inputs = {x, scale, zero}, .outputs = {"y"}});
    node->output(0)->set_type(ValueType::Tensor(DType::kF32, Dims{4}));
    const std::string why = FindCpuOp("", "DequantizeLinear")->reject(*node, Config(false));
    graph.Remove(node);
    return why;
  };
  EXPECT_EQ(reason(given), "a zero point of f8e5m2 that comes with the run");
  EXPECT_EQ(reason(constant), "a zero point other than 0");
}

}  // namespace
}  // namespace quern::cpu
