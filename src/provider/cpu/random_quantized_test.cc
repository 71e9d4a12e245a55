// Operators on quantized tensors, on random cases against the reference: the same bytes, but where it computes in
// double what is float32 here.
#include <gtest/gtest.h>

#include "base/packed_bits.h"
#include "provider/cpu/random_cases.h"

namespace quern::cpu {
namespace {

Case Microsoft(const char* op) { return Case{.op = op, .domain = "com.microsoft"}; }
DType AnyByte() { return Pick({DType::kI8, DType::kU8}); }
Tensor DrawScale(const Shape& shape = {}) {
  Tensor t = Tensor::Allocate(DType::kF32, shape).value();
  for (float& s : t.values<float>()) {
    s = Draw(0, 3) == 0 ? Pick({0.25f, 0.5f, 0.125f}) : static_cast<float>(Draw(1, 999)) * 1e-3f;
  }
  return t;
}
// A scale and a zero point, each a constant or of the run; now and then no zero point.
void AddQuantization(Case& c, DType type, bool may_omit = false) {
  const bool constant = Draw(0, 2) != 0;
  c.In(DrawScale(), constant);
  if (may_omit && Draw(0, 4) == 0) {
    c.Omit();
  } else {
    c.In(DrawTensor(type, Shape{}), constant);
  }
}

// Of any type of integers, those of several in a byte too.
Tensor DrawStored(DType type, const Shape& shape) {
  const int bits = PackedBits(type);
  if (bits == 0) return DrawTensor(type, shape);
  Tensor t = Tensor::Allocate(type, shape).value();
  for (int64_t i = 0; i < t.num_elements(); ++i) {
    AppendPacked(static_cast<uint8_t*>(t.raw_data()), i, bits, static_cast<uint8_t>(Draw(0, 255)));
  }
  return t;
}

// Scales of the tensor, of each index of an axis, or of blocks along it.
TEST_F(CpuOps, QuantizeAndDequantize) {
  for (int i = 0; i < 12 * kRounds; ++i) {
    const bool reads = Draw(0, 1) != 0;
    DType stored = Pick({DType::kI8, DType::kU8, DType::kI16, DType::kU16});
    if (reads) stored = Pick({stored, stored, DType::kI32, DType::kI4, DType::kU4, DType::kI2, DType::kU2});
    Shape shape = DrawShapeOrLarge(1, 4);
    if (Draw(0, 2) == 0) shape[shape.rank() - 1] = Draw(1, 70);
    const int axis = static_cast<int>(Draw(0, shape.rank() - 1));
    Case c{.op = reads ? "DequantizeLinear" : "QuantizeLinear", .opset = 25};
    Shape scales;
    if (const int64_t form = Draw(0, 2); form == 1) {
      scales = Shape{shape[axis]};
    } else if (form == 2) {
      const int64_t block = Draw(1, 20);
      scales = shape;
      scales[axis] = (shape[axis] + block - 1) / block;
      c.Attr("block_size", block);
    }
    c.In(reads ? DrawStored(stored, shape) : DrawTensor(DType::kF32, shape, 8, true));
    const bool constant = Draw(0, 1) != 0;
    c.In(DrawScale(scales), constant);
    if (stored == DType::kI32 || Draw(0, 3) == 0) {
      c.Omit();
      if (!reads) c.Attr("output_dtype", static_cast<int64_t>(stored));
    } else {
      c.In(DrawStored(stored, scales), constant);
    }
    if (scales.rank() > 0) c.Attr("axis", int64_t{axis} - (Draw(0, 1) ? shape.rank() : 0));
    ASSERT_NO_FATAL_FAILURE(Check(c));
  }
}

TEST_F(CpuOps, QLinearBinary) {
  for (int i = 0; i < 4 * kRounds; ++i) {
    const Shape shape = DrawShapeOrLarge(0, 5);
    const DType type = AnyByte();
    Case c = Microsoft(Pick({"QLinearAdd", "QLinearMul"}));
    const bool left = Draw(0, 1) != 0;
    c.In(DrawTensor(type, left ? shape : BroadcastPart(shape)));
    AddQuantization(c, type, true);
    c.In(DrawTensor(type, left ? BroadcastPart(shape) : shape), Draw(0, 1) != 0);
    AddQuantization(c, type, true);
    AddQuantization(c, type, true);
    ASSERT_NO_FATAL_FAILURE(Check(c));
  }
}

TEST_F(CpuOps, QLinearUnary) {
  for (int i = 0; i < 4 * kRounds; ++i) {
    const DType type = AnyByte();
    Case c = Microsoft(Pick({"QLinearSigmoid", "QLinearLeakyRelu"}));
    c.In(DrawTensor(type, DrawShapeOrLarge(0, 6)));
    AddQuantization(c, type, true);
    AddQuantization(c, type, true);
    if (c.op == "QLinearLeakyRelu" && Draw(0, 1)) c.Attr("alpha", 0.3f);
    ASSERT_NO_FATAL_FAILURE(Check(c));
  }
}

TEST_F(CpuOps, QLinearSoftmax) {
  for (int i = 0; i < 4 * kRounds; ++i) {
    const DType type = AnyByte();
    const Shape shape = DrawShape(1, 4, 9);
    Case c = Microsoft("QLinearSoftmax");
    c.In(DrawTensor(type, shape));
    AddQuantization(c, type, true);
    c.In(Tensor::Scalar(1.0f / 256)).In(DrawTensor(type, Shape{}));
    c.Attr("axis", Draw(-shape.rank(), shape.rank() - 1)).Attr("opset", Pick({int64_t{11}, int64_t{13}}));
    ASSERT_NO_FATAL_FAILURE(Check(c));
  }
}

TEST_F(CpuOps, QLinearConcat) {
  for (int i = 0; i < 4 * kRounds; ++i) {
    const DType type = AnyByte();
    Shape shape = DrawShape(1, 5, 5);
    const int axis = static_cast<int>(Draw(0, shape.rank() - 1));
    Case c = Microsoft("QLinearConcat");
    AddQuantization(c, type);
    for (int64_t part = Draw(1, 4); part > 0; --part) {
      shape[axis] = Draw(0, 9) == 0 ? Draw(2000, 3000) : Draw(0, 4);
      c.In(DrawTensor(type, shape));
      AddQuantization(c, type);
    }
    c.Attr("axis", int64_t{axis} - (Draw(0, 1) ? shape.rank() : 0));
    ASSERT_NO_FATAL_FAILURE(Check(c));
  }
}

TEST_F(CpuOps, QLinearWhere) {
  for (int i = 0; i < 4 * kRounds; ++i) {
    const DType type = AnyByte();
    const Shape shape = DrawShapeOrLarge(0, 4);
    Case c = Microsoft("QLinearWhere");
    c.In(DrawTensor(DType::kBool, BroadcastPart(shape)));
    for (int operand = 0; operand < 2; ++operand) {
      c.In(DrawTensor(type, BroadcastPart(shape)), Draw(0, 3) == 0);
      AddQuantization(c, type, /*may_omit=*/true);
    }
    AddQuantization(c, type, /*may_omit=*/true);
    ASSERT_NO_FATAL_FAILURE(Check(c));
  }
}

TEST_F(CpuOps, QLinearPools) {
  for (int i = 0; i < 6 * kRounds; ++i) {
    const DType type = AnyByte();
    const int rank = static_cast<int>(Draw(1, 3));
    const bool last = Draw(0, 1) != 0, global = Draw(0, 2) == 0;
    Shape shape{Draw(1, 3), Draw(0, 5) == 0 ? Draw(60, 140) : Draw(1, 9)};
    std::vector<int64_t> kernel, strides, begin, end;
    for (int d = 0; d < rank; ++d) {
      shape.push_back(Draw(3, 9));
      kernel.push_back(Draw(1, 3));
      strides.push_back(Draw(1, 2));
      begin.push_back(Draw(0, kernel.back() - 1));
      end.push_back(Draw(0, kernel.back() - 1));
    }
    if (last) std::rotate(shape.begin() + 1, shape.begin() + 2, shape.end());
    Case c = Microsoft(global ? "QLinearGlobalAveragePool" : "QLinearAveragePool");
    c.In(DrawTensor(type, shape));
    AddQuantization(c, type);
    AddQuantization(c, type);
    c.Attr("channels_last", int64_t{last});
    if (!global) {
      begin.insert(begin.end(), end.begin(), end.end());
      c.Attr("kernel_shape", kernel).Attr("strides", strides).Attr("pads", begin);
      c.Attr("ceil_mode", Draw(0, 1)).Attr("count_include_pad", Draw(0, 1));
    }
    ASSERT_NO_FATAL_FAILURE(Check(c));
  }
}

// A convolution's operands and attributes, put into a case.
struct ConvShapes {
  int rank = static_cast<int>(Draw(1, 3));
  bool depthwise = Draw(0, 2) == 0;
  int64_t groups = depthwise ? Draw(2, 20) : Draw(0, 3) == 0 ? Draw(2, 3) : 1;
  int64_t in = depthwise ? groups : groups * Draw(1, 5), out = groups * Draw(1, depthwise ? 2 : 5);
  Shape x{Draw(0, 9) == 0 ? 0 : Draw(1, 2), in}, w{out, in / groups};

  explicit ConvShapes(Case& c) {
    std::vector<int64_t> strides, dilations, pads, end;
    for (int d = 0; d < rank; ++d) {
      const int64_t kernel = Draw(1, 3);
      w.push_back(kernel);
      x.push_back(Draw(6, 12));
      strides.push_back(Draw(1, 2));
      dilations.push_back(Draw(1, 2));
      pads.push_back(Draw(0, kernel));
      end.push_back(Draw(0, kernel));
    }
    c.Attr("strides", strides).Attr("dilations", dilations).Attr("group", groups);
    if (Draw(0, 3) == 0) {
      c.Attr("auto_pad", std::string(Pick({"SAME_UPPER", "SAME_LOWER", "VALID"})));
    } else {
      pads.insert(pads.end(), end.begin(), end.end());
      c.Attr("pads", pads);
    }
  }
};
Tensor DrawWeightZeros(DType type, const Shape& shape) {
  Tensor zeros = DrawTensor(type, shape);
  if (Draw(0, 1)) std::memset(zeros.raw_data(), 0, zeros.bytes());
  return zeros;
}

TEST_F(CpuOps, QLinearConv) {
  for (int i = 0; i < 8 * kRounds; ++i) {
    Case c{.op = "QLinearConv"};
    const ConvShapes s(c);
    const DType x_type = AnyByte(), w_type = AnyByte(), y_type = AnyByte();
    const Shape channels = Draw(0, 1) ? Shape{s.out} : Shape{};
    const bool constant = Draw(0, 2) != 0;
    c.In(DrawTensor(x_type, s.x)).In(DrawScale(), true).In(DrawTensor(x_type, Shape{}), true);
    c.In(DrawTensor(w_type, s.w), constant).In(DrawScale(channels), true).In(DrawWeightZeros(w_type, channels), true);
    c.In(Tensor::Scalar(static_cast<float>(Draw(20, 3000))), true).In(DrawTensor(y_type, Shape{}), true);
    if (Draw(0, 1)) {
      Tensor bias = Tensor::Allocate(DType::kI32, Shape{s.out}).value();
      for (int32_t& b : bias.values<int32_t>()) {
        b = static_cast<int32_t>(Draw(0, 4) == 0 ? Draw(-100000000, 100000000) : Draw(-50000, 50000));
      }
      c.In(std::move(bias), true);
    }
    ASSERT_NO_FATAL_FAILURE(Check(c));
  }
}

TEST_F(CpuOps, ConvInteger) {
  for (int i = 0; i < 8 * kRounds; ++i) {
    Case c{.op = "ConvInteger"};
    const ConvShapes s(c);
    const DType x_type = AnyByte(), w_type = AnyByte();
    const bool constant = Draw(0, 1) != 0;
    c.In(DrawTensor(x_type, s.x)).In(DrawTensor(w_type, s.w), constant);
    if (Draw(0, 3) == 0) {
      c.Omit();
    } else {
      c.In(DrawTensor(x_type, Shape{}), Draw(0, 1) != 0);
    }
    if (Draw(0, 1)) {
      const bool constant_zeros = constant || Draw(0, 1);  // of the run: one only
      c.In(DrawWeightZeros(w_type, constant_zeros && Draw(0, 1) ? Shape{s.out} : Shape{}), constant_zeros);
    }
    ASSERT_NO_FATAL_FAILURE(Check(c));
  }
}

// Operands of a product, with batches that broadcast.
struct ProductShapes {
  Shape a, b;
  int64_t n = 1;
};
ProductShapes DrawProduct() {
  ProductShapes p;
  const bool large = Draw(0, 7) == 0;
  const int64_t m = large ? Draw(60, 130) : Draw(1, 9), k = large ? Draw(60, 300) : Draw(1, 20);
  p.n = large ? Draw(60, 130) : Draw(1, 20);
  const Shape batch = DrawShape(0, 3, 3);
  const bool left = Draw(0, 1) != 0;
  p.a = left ? batch : BroadcastPart(batch);
  p.b = left ? BroadcastPart(batch) : batch;
  if (Draw(0, 2) != 0) p.b = {};
  if (Draw(0, 9) == 0) {
    p.a = {};
  } else {
    p.a.push_back(Draw(0, 15) == 0 ? 0 : m);
  }
  p.a.push_back(k);
  p.b.push_back(k);
  if (p.b.rank() == 1 && Draw(0, 9) == 0) {
    p.n = 1;
  } else {
    p.b.push_back(p.n);
  }
  return p;
}

TEST_F(CpuOps, IntegerProducts) {
  for (int i = 0; i < 8 * kRounds; ++i) {
    const ProductShapes p = DrawProduct();
    const DType a = AnyByte(), b = AnyByte();
    const bool constant = Draw(0, 1) != 0;
    const Shape columns = Draw(0, 1) ? Shape{p.n} : Shape{};
    Case c{.op = "MatMulInteger"};
    c.In(DrawTensor(a, p.a)).In(DrawTensor(b, p.b), constant);
    if (Draw(0, 1)) {
      c.In(DrawTensor(a, Pick({Shape{}, Shape{1}})));
    } else {
      c.Omit();
    }
    if (Draw(0, 1)) c.In(DrawTensor(b, columns), constant);
    ASSERT_NO_FATAL_FAILURE(Check(c));
  }
}

TEST_F(CpuOps, QLinearMatMul) {
  for (int i = 0; i < 8 * kRounds; ++i) {
    const ProductShapes p = DrawProduct();
    const DType a = AnyByte(), b = AnyByte(), y = AnyByte();
    const bool constant = Draw(0, 1) != 0;
    const Shape columns = Draw(0, 1) ? Shape{p.n} : Shape{};
    Case c{.op = "QLinearMatMul", .opset = Pick({10, 21})};
    c.In(DrawTensor(a, p.a));
    AddQuantization(c, a);
    c.In(DrawTensor(b, p.b), constant).In(DrawScale(columns), constant).In(DrawTensor(b, columns), constant);
    c.In(Tensor::Scalar(static_cast<float>(Draw(100, 9000)))).In(DrawTensor(y, Shape{}));
    ASSERT_NO_FATAL_FAILURE(Check(c));
  }
}

TEST_F(CpuOps, IntegerProductsToFloat) {
  for (int i = 0; i < 6 * kRounds; ++i) {
    const ProductShapes p = DrawProduct();
    const DType a = AnyByte(), b = AnyByte();
    const bool constant = Draw(0, 1) != 0;
    const Shape columns = Draw(0, 1) ? Shape{p.n} : Shape{};
    Case c = Microsoft("MatMulIntegerToFloat");
    c.In(DrawTensor(a, p.a)).In(DrawTensor(b, p.b), constant);
    c.In(DrawScale()).In(DrawScale(columns), constant);
    c.In(DrawTensor(a, Shape{})).In(DrawTensor(b, columns), constant);
    if (Draw(0, 1)) c.In(DrawTensor(DType::kF32, Shape{p.n}), Draw(0, 1) != 0);
    c.absolute = 1e-3;
    ASSERT_NO_FATAL_FAILURE(Check(c));
  }
}

TEST_F(CpuOps, DynamicallyQuantizedProducts) {
  for (int i = 0; i < 6 * kRounds; ++i) {
    const ProductShapes p = DrawProduct();
    const DType b = AnyByte();
    const bool constant = Draw(0, 1) != 0;
    const Shape columns = Draw(0, 1) ? Shape{p.n} : Shape{};
    Case c = Microsoft("DynamicQuantizeMatMul");
    c.In(DrawTensor(DType::kF32, p.a)).In(DrawTensor(b, p.b), constant).In(DrawScale(columns), constant);
    if (Draw(0, 1)) {
      c.In(DrawTensor(b, columns), constant);
    } else {
      c.Omit();
    }
    if (Draw(0, 1)) c.In(DrawTensor(DType::kF32, Shape{p.n}), Draw(0, 1) != 0);
    c.absolute = 1e-3;
    ASSERT_NO_FATAL_FAILURE(Check(c));
  }
}

// A state that rounds to another byte moves later ones by as much as a byte stands for.
TEST_F(CpuOps, DynamicallyQuantizedLstm) {
  for (int i = 0; i < 3 * kRounds; ++i) {
    const int64_t steps = Draw(1, 5), batch = Draw(1, 3), input = Draw(1, 40), hidden = Draw(1, 40);
    const std::string direction = Pick<std::string>({"forward", "reverse", "bidirectional"});
    const int64_t directions = direction == "bidirectional" ? 2 : 1;
    const DType type = AnyByte();
    const Shape numbers = Draw(0, 1) ? Shape{directions, 4 * hidden} : Shape{directions};
    const auto scales = [&] {
      Tensor t = DrawTensor(DType::kF32, numbers);
      for (float& v : t.values<float>()) v = 0.002f + 0.0005f * std::fabs(v);
      return t;
    };
    Case c = Microsoft("DynamicQuantizeLSTM");
    c.outputs = 3;
    c.absolute = 1e-2;
    c.Attr("hidden_size", hidden).Attr("direction", direction);
    c.In(DrawTensor(DType::kF32, Shape{steps, batch, input}));
    c.In(DrawTensor(type, Shape{directions, input, 4 * hidden}), true);
    c.In(DrawTensor(type, Shape{directions, hidden, 4 * hidden}), true);
    if (Draw(0, 3)) {
      c.In(DrawTensor(DType::kF32, Shape{directions, 8 * hidden}, 0.3f), true);
    } else {
      c.Omit();
    }
    if (Draw(0, 1)) {
      std::vector<int32_t> lengths;
      for (int64_t b = 0; b < batch; ++b) lengths.push_back(static_cast<int32_t>(Draw(0, steps)));
      c.In(Tensor::FromValues<int32_t>(Shape{batch}, lengths));
    } else {
      c.Omit();
    }
    for (int state = 0; state < 2; ++state) {
      if (i % 2) {
        c.In(DrawTensor(DType::kF32, Shape{directions, batch, hidden}));
      } else {
        c.Omit();
      }
    }
    if (Draw(0, 1)) {
      c.In(DrawTensor(DType::kF32, Shape{directions, 3 * hidden}, 0.3f), true);
    } else {
      c.Omit();
    }
    if (Draw(0, 1)) c.Attr("clip", 1.0f).Attr("input_forget", Draw(0, 1));
    c.In(scales(), true).In(DrawTensor(type, numbers), true);
    c.In(scales(), true).In(DrawTensor(type, numbers), true);
    ASSERT_NO_FATAL_FAILURE(Check(c));
  }
}

TEST_F(CpuOps, QuantizedGemm) {
  for (int i = 0; i < 6 * kRounds; ++i) {
    const int64_t m = Draw(1, 70), n = Draw(1, 70), k = Draw(1, 70), trans_a = Draw(0, 1), trans_b = Draw(0, 1);
    const DType a = AnyByte(), b = AnyByte();
    const bool constant = Draw(0, 1) != 0;
    const Shape columns = Draw(0, 1) ? Shape{n} : Shape{};
    Case c = Microsoft("QGemm");
    c.In(DrawTensor(a, trans_a ? Shape{k, m} : Shape{m, k}));
    AddQuantization(c, a);
    c.In(DrawTensor(b, trans_b ? Shape{n, k} : Shape{k, n}), constant);
    c.In(DrawScale(columns), constant).In(DrawTensor(b, columns), constant);
    if (Draw(0, 1)) {
      Tensor counts = Tensor::Allocate(DType::kI32, Draw(0, 1) ? Shape{n} : Shape{1}).value();
      for (int32_t& v : counts.values<int32_t>()) v = static_cast<int32_t>(Draw(-99999, 99999));
      c.In(std::move(counts), Draw(0, 1) != 0);
    }
    c.Attr("transA", trans_a).Attr("transB", trans_b);
    if (Draw(0, 1)) c.Attr("alpha", 0.75f);
    c.relative = 1e-6;
    ASSERT_NO_FATAL_FAILURE(Check(c));
  }
}

}  // namespace
}  // namespace quern::cpu
