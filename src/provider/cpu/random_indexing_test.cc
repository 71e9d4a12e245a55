// Operators of the CPU provider that go by indices, on random cases: gathers, scatters, TopK, OneHot; LRN.
#include <gtest/gtest.h>

#include <limits>

#include "provider/cpu/random_cases.h"

namespace quern::cpu {
namespace {

Tensor DrawIndices(const Shape& shape, int64_t extent) {
  const bool wide = Draw(0, 1) != 0;
  Tensor t = Tensor::Allocate(wide ? DType::kI64 : DType::kI32, shape).value();
  for (int64_t i = 0; i < t.num_elements(); ++i) {
    const int64_t v = Draw(-extent, extent - 1);
    if (wide)
      t.data<int64_t>()[i] = v;
    else
      t.data<int32_t>()[i] = static_cast<int32_t>(v);
  }
  return t;
}

TEST_F(CpuOps, Gathers) {
  for (int i = 0; i < 4 * kRounds; ++i) {
    const Shape shape = Draw(0, 11) ? DrawShape(1, 6, 5, false) : Shape{Draw(50, 70), Draw(600, 900)};
    const int axis = static_cast<int>(Draw(0, shape.rank() - 1));
    const bool constant = Draw(0, 1) != 0;
    Case gather{.op = "Gather"};
    gather.In(DrawTensor(AnyWidth(), shape)).In(DrawIndices(DrawShape(0, 3, 4), shape[axis]), constant);
    ASSERT_NO_FATAL_FAILURE(Check(gather.Attr("axis", Draw(0, 1) ? int64_t{axis} : int64_t{axis} - shape.rank())));

    Shape part = shape;
    for (int64_t& d : part) d = Draw(0, 1) ? d : Draw(1, d);
    part[axis] = Draw(1, shape.num_elements() > 10000 ? 900 : 9);
    Case elements{.op = "GatherElements"};
    elements.In(DrawTensor(AnyWidth(), shape)).In(DrawIndices(part, shape[axis]), constant);
    ASSERT_NO_FATAL_FAILURE(Check(elements.Attr("axis", int64_t{axis})));

    const int batch = static_cast<int>(Draw(0, shape.rank() - 1));
    const int64_t depth = Draw(1, shape.rank() - batch);
    Shape tuples(shape.span().first(static_cast<size_t>(batch)));
    tuples.push_back(Draw(1, shape.num_elements() > 10000 && depth + batch == 2 ? 900 : 4));
    tuples.push_back(depth);
    Tensor indices = Tensor::Allocate(DType::kI64, tuples).value();
    for (int64_t k = 0; k < indices.num_elements(); ++k) {
      const int64_t extent = shape[batch + static_cast<int>(k % depth)];
      indices.data<int64_t>()[k] = Draw(-extent, extent - 1);
    }
    Case nd{.op = "GatherND"};
    nd.In(DrawTensor(AnyWidth(), shape)).In(indices, constant);
    ASSERT_NO_FATAL_FAILURE(Check(nd.Attr("batch_dims", int64_t{batch})));
  }
}

TEST_F(CpuOps, IndicesOutOfRangeAreErrorsThatNameThem) {
  for (int i = 0; i < 6; ++i) {
    const char* op = i % 3 == 0 ? "Gather" : i % 3 == 1 ? "GatherElements" : "GatherND";
    Case c{.op = op};
    c.In(DrawTensor(DType::kF32, Shape{3, 2}));
    c.In(Tensor::FromValues<int64_t>(Shape{1, 1}, std::vector<int64_t>{-4}), i < 3);
    Built b;
    Build(c, false, b);
    const Result<std::vector<Tensor>> result = RunOnCpu(b.graph, b.inputs, Config(false));
    ASSERT_FALSE(result.ok()) << op;
    EXPECT_NE(result.status().message().find("-4"), std::string::npos) << result.status().message();
    EXPECT_NE(result.status().message().find("extent 3"), std::string::npos) << result.status().message();
  }
}

// Rows of tables of 2, 4 and 8 bits; a few indices are outside.
TEST_F(CpuOps, GatherBlockQuantized) {
  const auto draw_bits = [](DType type, const Shape& shape) {
    const Tensor t = Tensor::Allocate(type, shape).value();
    for (size_t i = 0; i < t.bytes(); ++i) static_cast<uint8_t*>(t.raw_data())[i] = static_cast<uint8_t>(Draw(0, 255));
    return t;
  };
  for (int i = 0; i < 6 * kRounds; ++i) {
    const DType type = Pick({DType::kU8, DType::kU8, DType::kI4, DType::kU4});
    const int64_t bits = type == DType::kU8 ? Pick({2, 4, 8}) : 4, packed = type == DType::kU8 ? 8 / bits : 1;
    const int64_t block = Pick({16, 32, 128}), columns = packed > 1 ? packed * Draw(1, 90) : 2 * Draw(1, 90);
    Shape lines{Draw(1, 9)};
    if (Draw(0, 2) == 0) lines.push_back(Draw(1, 4));
    const auto with = [&](int64_t last) {
      Shape shape = lines;
      shape.push_back(last);
      return shape;
    };
    const int64_t blocks = (columns + block - 1) / block;
    Case c{.op = "GatherBlockQuantized", .domain = "com.microsoft"};
    c.In(draw_bits(type, with(columns / packed)), Draw(0, 1) != 0);
    c.In(DrawIndices(DrawShape(0, 2, 5, false), lines[0] + (Draw(0, 4) == 0)));
    c.In(DrawTensor(DType::kF32, with(blocks)), Draw(0, 1) != 0);
    if (Draw(0, 1)) c.In(draw_bits(type, with((blocks + packed - 1) / packed)), Draw(0, 1) != 0);
    c.Attr("bits", bits).Attr("block_size", block).Attr("quantize_axis", int64_t{-1});
    ASSERT_NO_FATAL_FAILURE(Check(c));
  }
  Case far{.op = "GatherBlockQuantized", .domain = "com.microsoft"};
  far.In(draw_bits(DType::kU8, Shape{2, 9})).In(Ints({std::numeric_limits<int64_t>::min(), int64_t{1} << 62, 1}));
  ASSERT_NO_FATAL_FAILURE(Check(far.In(DrawTensor(DType::kF32, Shape{2, 1}))));
}

TEST_F(CpuOps, Scatters) {
  for (int i = 0; i < 4 * kRounds; ++i) {
    const Shape shape = DrawShape(1, 6, 5, false);
    const int axis = static_cast<int>(Draw(0, shape.rank() - 1));
    const DType type = Pick({DType::kF32, DType::kI64, DType::kI32});
    const std::string reduction = Pick<std::string>({"none", "none", "add", "mul", "max", "min"});
    Shape part = shape;
    for (int64_t& d : part) d = Draw(0, 1) ? d : Draw(0, d);
    const bool constant = Draw(0, 1) != 0;
    Case elements{.op = "ScatterElements", .opset = 18};
    elements.In(DrawTensor(reduction == "none" ? AnyWidth() : type, shape));
    elements.In(DrawIndices(part, shape[axis]), constant);
    elements.In(DrawTensor(elements.inputs[0].tensor().dtype(), part)).Attr("reduction", reduction);
    ASSERT_NO_FATAL_FAILURE(Check(elements.Attr("axis", Draw(0, 1) ? int64_t{axis} : int64_t{axis} - shape.rank())));

    const int64_t depth = Draw(1, shape.rank());
    Shape tuples = DrawShape(0, 2, 4), updates = tuples;
    tuples.push_back(depth);
    for (int d = static_cast<int>(depth); d < shape.rank(); ++d) updates.push_back(shape[d]);
    Tensor indices = Tensor::Allocate(DType::kI64, tuples).value();
    for (int64_t k = 0; k < indices.num_elements(); ++k) {
      const int64_t extent = shape[static_cast<int>(k % depth)];
      indices.data<int64_t>()[k] = Draw(-extent, extent - 1);
    }
    Case nd{.op = "ScatterND", .opset = 18};
    nd.In(DrawTensor(reduction == "none" ? AnyWidth() : type, shape)).In(indices, constant);
    nd.In(DrawTensor(nd.inputs[0].tensor().dtype(), updates)).Attr("reduction", reduction);
    ASSERT_NO_FATAL_FAILURE(Check(nd));
  }
}

TEST_F(CpuOps, Lrn) {
  for (int i = 0; i < 2 * kRounds; ++i) {
    const Shape shape = Draw(0, 3) ? DrawShape(2, 4) : Shape{2, 7, 19, 17};
    Case c{.op = "LRN", .opset = 13};
    c.In(DrawTensor(Pick({DType::kF32, DType::kF32, DType::kF64}), shape)).Attr("size", Draw(1, 7));
    c.Attr("alpha", Pick({1e-4f, 0.5f})).Attr("beta", Pick({0.75f, 0.5f, 1.0f, 0.6f, 2.5f}));
    ASSERT_NO_FATAL_FAILURE(Check(c.Attr("bias", Pick({1.0f, 2.0f}))));
    Case negative{.op = "LRN", .opset = 13};  // powers of numbers below 0
    negative.In(DrawTensor(DType::kF32, shape)).Attr("size", Draw(1, 7)).Attr("alpha", 1e-4f);
    ASSERT_NO_FATAL_FAILURE(Check(negative.Attr("beta", Pick({1.0f, 2.0f})).Attr("bias", -2.0f)));
  }
}

TEST_F(CpuOps, TopK) {
  for (int i = 0; i < 4 * kRounds; ++i) {
    const Shape shape = DrawShapeOrLarge(1, 6);
    const int axis = static_cast<int>(Draw(0, shape.rank() - 1));
    Case c{.op = "TopK", .opset = 11, .outputs = 2};
    const DType type = Pick({DType::kF32, DType::kF64, DType::kI64, DType::kI32});
    const int64_t k = Draw(0, Draw(0, 1) ? shape[axis] : std::min<int64_t>(shape[axis], 5));
    c.In(DrawTensor(type, shape, 2, Draw(0, 1) != 0)).In(Ints({k}), true);
    c.Attr("axis", Draw(0, 1) ? int64_t{axis} : int64_t{axis} - shape.rank()).Attr("largest", Draw(0, 1));
    ASSERT_NO_FATAL_FAILURE(Check(c));
  }
}

// Lines long enough for a first bound and for more candidates than are kept, with few values or many NaNs among them,
// along either axis.
TEST_F(CpuOps, TopKOfLongLines) {
  for (int i = 0; i < 2 * kRounds; ++i) {
    const int64_t n = Draw(20, Pick({100, 1200, 6000})), lines = Draw(1, n > 2000 ? 3 : 70);
    const int axis = static_cast<int>(Draw(0, 1));
    const DType type = Pick({DType::kF32, DType::kF64, DType::kI64, DType::kI32});
    Tensor x = DrawTensor(type, axis == 0 ? Shape{n, lines} : Shape{lines, n}, 2, Draw(0, 1) != 0);
    const int64_t rising = Draw(0, 3);  // 0: every element enters at first or never
    if (type == DType::kF32 && rising < 2) {
      for (int64_t e = 0; e < x.num_elements(); ++e) {
        float& v = x.data<float>()[e];
        v = rising == 0 ? static_cast<float>(e) : v > 1 ? NAN : 0.0f;
      }
    }
    Case c{.op = "TopK", .opset = 11, .outputs = 2};
    c.In(x).In(Ints({Draw(1, std::min<int64_t>(n, Pick({4, 16, 40, 500, 6000})))}), true);
    ASSERT_NO_FATAL_FAILURE(Check(c.Attr("axis", int64_t{axis}).Attr("largest", Draw(0, 1))));
  }
}

TEST_F(CpuOps, OneHot) {
  for (int i = 0; i < 4 * kRounds; ++i) {
    const Shape shape = DrawShape(0, 5);
    Case c{.op = "OneHot", .opset = 11};
    // Indices outside of [-depth, depth) have a line without the other value.
    c.In(DrawIndices(shape, 9)).In(Ints({Draw(1, 6)}), true);
    c.In(DrawTensor(Pick({DType::kF32, DType::kI64, DType::kI32}), Shape{2}));
    ASSERT_NO_FATAL_FAILURE(Check(c.Attr("axis", Draw(-shape.rank() - 1, shape.rank()))));
  }
}

TEST_F(CpuOps, ScatteredIndicesOutOfRangeAreErrorsThatNameThem) {
  for (const char* op : {"ScatterElements", "ScatterND"}) {
    Case c{.op = op, .opset = 18};
    c.In(DrawTensor(DType::kF32, Shape{3})).In(Tensor::FromValues<int64_t>(Shape{1, 1}, std::vector<int64_t>{7}));
    if (c.op == "ScatterElements") c.inputs[1] = Ints({7});
    c.In(DrawTensor(DType::kF32, Shape{1}));
    Built b;
    ASSERT_NO_FATAL_FAILURE(Build(c, false, b));
    const Result<std::vector<Tensor>> result = RunOnCpu(b.graph, b.inputs, Config(false));
    ASSERT_FALSE(result.ok());
    EXPECT_NE(result.status().message().find("is 7, but dimension 0 of the data has extent 3"), std::string::npos)
        << result.status().message();
  }
}

}  // namespace
}  // namespace quern::cpu
