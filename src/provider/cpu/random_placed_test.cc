// Operators of the CPU provider that put elements into places of a result, on random cases: Scatter, MaxUnpool, Col2Im,
// TensorScatter, CenterCropPad, EyeLike; CumProd.
#include <gtest/gtest.h>

#include "provider/cpu/random_cases.h"

namespace quern::cpu {
namespace {

TEST_F(CpuOps, Scatter) {
  for (int i = 0; i < 3 * kRounds; ++i) {
    const Shape shape = DrawShape(1, 5, 7, false);
    const int axis = static_cast<int>(Draw(0, shape.rank() - 1));
    Shape part = shape;
    for (int64_t& d : part) d = Draw(0, d);
    const bool wide = Draw(0, 1) != 0;
    Tensor indices = Tensor::Allocate(wide ? DType::kI64 : DType::kI32, part).value();
    for (int64_t k = 0; k < indices.num_elements(); ++k) {
      const int64_t at = Draw(-shape[axis], shape[axis] - 1);
      wide ? void(indices.data<int64_t>()[k] = at) : void(indices.data<int32_t>()[k] = static_cast<int32_t>(at));
    }
    const DType type = AnyWidth();
    Case c{.op = "Scatter", .opset = Pick({9, 11})};
    c.In(DrawTensor(type, shape)).In(indices).In(DrawTensor(type, part));
    ASSERT_NO_FATAL_FAILURE(Check(c.Attr("axis", Draw(0, 1) ? int64_t{axis} : int64_t{axis} - shape.rank())));
  }
}

// An input and the indices of a pool whose windows lie side by side or overlap.
Case DrawUnpool(int spatial, Shape& unpooled) {
  Case c{.op = "MaxUnpool", .opset = Pick({9, 11, 22})};
  std::vector<int64_t> kernel, strides, pads;
  Shape x{Draw(0, 2), Draw(1, 3)};
  unpooled = x;
  for (int d = 0; d < spatial; ++d) {
    kernel.push_back(Draw(1, 3));
    strides.push_back(Draw(1, 3));
    pads.push_back(Draw(0, kernel.back() - 1));
    x.push_back(Draw(1, 5));
    unpooled.push_back(std::max<int64_t>(1, (x[d + 2] - 1) * strides.back() + kernel.back() - pads.back()));
  }
  for (int d = 0; d < spatial; ++d) pads.push_back(0);
  c.Attr("kernel_shape", kernel).Attr("strides", strides).Attr("pads", pads);
  return c.In(DrawTensor(Pick({DType::kF32, DType::kF64, DType::kF16}), x, 2, true));
}

TEST_F(CpuOps, MaxUnpool) {
  for (int i = 0; i < 6 * kRounds; ++i) {
    Shape unpooled;
    Case c = DrawUnpool(static_cast<int>(Draw(1, 3)), unpooled);
    const Shape x = c.inputs[0].tensor().shape();
    Tensor indices = Tensor::Allocate(DType::kI64, x).value();
    const int64_t places = unpooled.num_elements();
    for (int64_t k = 0; k < indices.num_elements(); ++k) indices.data<int64_t>()[k] = Draw(0, places - 1);
    c.In(indices);
    if (Draw(0, 1)) {
      std::vector<int64_t> larger(unpooled.begin(), unpooled.end());
      for (size_t d = 2; d < larger.size(); ++d) larger[d] += Draw(0, 2);
      c.In(Ints(larger), Draw(0, 1) != 0);
    }
    ASSERT_NO_FATAL_FAILURE(Check(c));
  }
}

// The indices of MaxPool itself, in the shape that it had and told by output_shape.
TEST_F(CpuOps, MaxUnpoolOfMaxPool) {
  for (int i = 0; i < 2 * kRounds; ++i) {
    const Shape shape{Draw(1, 2), Draw(1, 3), Draw(4, 9), Draw(4, 9)};
    const std::vector<int64_t> kernel = {Draw(1, 3), Draw(1, 3)};
    Graph graph;
    graph.opset_imports[""] = 22;
    const Value x = DrawTensor(DType::kF32, shape), list = Ints({shape[0], shape[1], shape[2], shape[3]});
    GraphValue* in = graph.AddInput("x", TypeOf(x));
    GraphValue* size = graph.AddConstant("size", list);
    Node* pool = graph.AddNode({.op_type = "MaxPool",
                                .inputs = {in},
                                .outputs = {"p", "i"},
                                .attributes = {{"kernel_shape", kernel}, {"strides", kernel}}});
    Node* unpool = graph.AddNode({.op_type = "MaxUnpool",
                                  .inputs = {pool->output(0), pool->output(1), size},
                                  .outputs = {"y"},
                                  .attributes = {{"kernel_shape", kernel}, {"strides", kernel}}});
    graph.AddOutput(unpool->output(0));
    ASSERT_TRUE(InferShapes(graph).ok());
    const Result<std::vector<Tensor>> result = RunOnCpu(graph, std::vector<Value>{x}, Config(false));
    ASSERT_TRUE(result.ok()) << result.status().message();
    // What is not 0 stands where it stood, once for each window.
    const Tensor& y = (*result)[0];
    ASSERT_EQ(y.shape().ToString(), shape.ToString());
    int64_t kept = 0;
    for (int64_t k = 0; k < y.num_elements(); ++k) {
      if (y.data<float>()[k] == 0) continue;
      ++kept;
      ASSERT_EQ(y.data<float>()[k], x.tensor().data<float>()[k]);
    }
    ASSERT_EQ(kept, shape[0] * shape[1] * (shape[2] / kernel[0]) * (shape[3] / kernel[1]));
  }
}

TEST_F(CpuOps, Col2Im) {
  for (int i = 0; i < 6 * kRounds; ++i) {
    const int rank = static_cast<int>(Draw(1, 4));
    std::vector<int64_t> image, block, strides, dilations, pads, counts;
    for (int d = 0; d < rank; ++d) {
      block.push_back(Draw(1, 3));
      strides.push_back(Draw(1, 3));
      dilations.push_back(Draw(1, 2));
      pads.push_back(Draw(0, 2));
      image.push_back((block.back() - 1) * dilations.back() + Draw(1, 5));
    }
    int64_t elements = 1, blocks = 1;
    for (size_t d = 0; d < image.size(); ++d) {
      pads.push_back(Draw(0, 2));
      const int64_t room = image[d] + pads[d] + pads.back() - (block[d] - 1) * dilations[d] - 1;
      elements *= block[d];
      blocks *= room / strides[d] + 1;
    }
    Case c{.op = "Col2Im", .opset = 18};
    const Shape x{Draw(0, 2), elements * Draw(1, 3), blocks};
    c.In(DrawTensor(Pick({DType::kF32, DType::kF32, DType::kF64, DType::kI32, DType::kI64}), x, 2, i % 3 == 0));
    c.In(Ints(image), Draw(0, 1) != 0).In(Ints(block), Draw(0, 1) != 0);
    if (Draw(0, 3))
      c.Attr("strides", strides).Attr("dilations", dilations).Attr("pads", pads);
    else {
      blocks = 1;
      for (size_t d = 0; d < image.size(); ++d) blocks *= image[d] - block[d] + 1;
      c.inputs[0] = DrawTensor(DType::kF32, Shape{x[0], x[1], blocks});
    }
    ASSERT_NO_FATAL_FAILURE(Check(c));
  }
}

TEST_F(CpuOps, TensorScatter) {
  for (int i = 0; i < 4 * kRounds; ++i) {
    const Shape cache = DrawShape(2, 5);
    const int axis = static_cast<int>(Draw(1, cache.rank() - 1));
    const bool circular = Draw(0, 1) != 0, deep = Draw(0, 5) == 0;
    Shape whole = cache, update = cache;
    if (deep) whole[cache.rank() - 1] = update[cache.rank() - 1] = axis == cache.rank() - 1 ? cache.back() : 900;
    update[axis] = Draw(0, cache[axis]);
    const DType type = AnyWidth();
    Case c{.op = "TensorScatter", .opset = 24};
    c.In(DrawTensor(type, whole)).In(DrawTensor(type, update));
    std::vector<int64_t> starts;
    for (int64_t b = 0; b < cache[0]; ++b) starts.push_back(Draw(0, circular ? 30 : cache[axis] - update[axis]));
    if (Draw(0, 3)) c.In(Ints(starts), Draw(0, 1) != 0);
    c.Attr("axis", Draw(0, 1) ? int64_t{axis} : int64_t{axis} - cache.rank());
    ASSERT_NO_FATAL_FAILURE(Check(c.Attr("mode", std::string(circular ? "circular" : "linear"))));
  }
}

TEST_F(CpuOps, CenterCropPad) {
  for (int i = 0; i < 5 * kRounds; ++i) {
    const Shape shape = DrawShapeOrLarge(0, 6);
    Case c{.op = "CenterCropPad", .opset = 18};
    c.In(DrawTensor(AnyWidth(), shape));
    std::vector<int64_t> extents, axes;
    const bool some = shape.rank() > 0 && Draw(0, 1);
    for (int d = 0; d < shape.rank(); ++d) {
      if (some && Draw(0, 1)) continue;
      axes.push_back(Draw(0, 1) ? d : d - shape.rank());
      extents.push_back(Draw(0, shape[d] + 4));
    }
    if (some && !axes.empty()) c.Attr("axes", axes);
    if (some && axes.empty()) extents.assign(shape.begin(), shape.end());
    ASSERT_NO_FATAL_FAILURE(Check(c.In(Ints(extents), Draw(0, 1) != 0)));
  }
}

TEST_F(CpuOps, EyeLike) {
  for (int i = 0; i < 3 * kRounds; ++i) {
    Case c{.op = "EyeLike", .opset = Pick({9, 22})};
    const Shape shape = Draw(0, 5) == 0 ? Shape{Draw(50, 90), Draw(600, 900)} : Shape{Draw(0, 6), Draw(0, 6)};
    c.In(DrawTensor(Pick({DType::kF32, DType::kF64, DType::kF16, DType::kI64, DType::kI32, DType::kU8}), shape));
    c.Attr("k", Pick<int64_t>({0, Draw(-7, 7), Draw(-700, 700), INT64_MAX, INT64_MIN}));
    const DType to = Pick({DType::kF32, DType::kF64, DType::kF16, DType::kI64, DType::kI8, DType::kBool});
    if (Draw(0, 1)) c.Attr("dtype", static_cast<int64_t>(to));
    ASSERT_NO_FATAL_FAILURE(Check(c));
  }
}

TEST_F(CpuOps, CumProd) {
  for (int i = 0; i < 4 * kRounds; ++i) {
    const Shape shape = DrawShapeOrLarge(1, 6);
    Case c{.op = "CumProd", .opset = 26};
    c.relative = 1e-5;
    c.In(DrawTensor(Pick({DType::kF32, DType::kF64, DType::kI32, DType::kI64}), shape, 1, i % 4 == 0));
    const int64_t axis = Draw(-shape.rank(), shape.rank() - 1);
    c.In(Tensor::Scalar(axis), true);
    ASSERT_NO_FATAL_FAILURE(Check(c.Attr("exclusive", Draw(0, 1)).Attr("reverse", Draw(0, 1))));
  }
}

TEST_F(CpuOps, PlacesOutsideAreErrorsThatNameThem) {
  Case unpool{.op = "MaxUnpool", .opset = 11};
  unpool.In(DrawTensor(DType::kF32, Shape{1, 1, 2}))
      .In(Tensor::FromValues<int64_t>(Shape{1, 1, 2}, std::vector<int64_t>{1, 4}));
  unpool.Attr("kernel_shape", std::vector<int64_t>{2}).Attr("strides", std::vector<int64_t>{2});
  Case linear{.op = "TensorScatter", .opset = 24};
  linear.In(DrawTensor(DType::kF32, Shape{1, 3, 2})).In(DrawTensor(DType::kF32, Shape{1, 2, 2})).In(Ints({2}));
  Case circular = linear;
  circular.Attr("mode", std::string("circular")).inputs[2] = Ints({-1});
  for (const auto& [c, message] : {std::pair(unpool, "index 4 is outside a tensor of shape [1,1,4]"),
                                   std::pair(linear, "write index 2 with 2 entries to write leaves a cache of 3"),
                                   std::pair(circular, "write index -1 with 2 entries to write leaves a cache of 3")}) {
    Built b;
    ASSERT_NO_FATAL_FAILURE(Build(c, false, b));
    const Result<std::vector<Tensor>> result = RunOnCpu(b.graph, b.inputs, Config(false));
    ASSERT_FALSE(result.ok()) << c.op;
    EXPECT_NE(result.status().message().find(message), std::string::npos) << result.status().message();
  }
}

// The error of a plan for actual extents of inputs that the graph does not tell; lists of int64 are constants.
std::string PlanError(const char* op, std::vector<Value> inputs,
                      std::map<std::string, Attribute, std::less<>> attributes = {}) {
  Graph graph;
  graph.opset_imports[""] = 26;
  NodeSpec spec{.name = "n", .op_type = op, .outputs = {"y"}, .attributes = std::move(attributes)};
  std::vector<Value> given;
  for (const Value& v : inputs) {
    const std::string name = "x" + std::to_string(spec.inputs.size());
    if (v.tensor().dtype() == DType::kI64 && v.tensor().rank() == 1) {
      spec.inputs.push_back(graph.AddConstant(name, v));
      continue;
    }
    Dims dims;
    for (int d = 0; d < v.tensor().rank(); ++d) dims.push_back(Dim::Symbol(name + "_" + std::to_string(d)));
    spec.inputs.push_back(graph.AddInput(name, ValueType::Tensor(v.tensor().dtype(), dims)));
    given.push_back(v);
  }
  graph.AddOutput(graph.AddNode(std::move(spec))->output(0));
  const Status status = InferShapes(graph);
  EXPECT_TRUE(status.ok()) << status.message();
  return RunOnCpu(graph, given, Config(false)).status().message();
}

TEST_F(CpuOps, ExtentsOfARunThatDoNotFitAreErrors) {
  const Tensor x = DrawTensor(DType::kF32, Shape{1, 4, 3}), indices = DrawTensor(DType::kI64, Shape{1, 4, 3});
  const std::vector<int64_t> one = {1}, pads = {5, 5};
  const auto update = [](int64_t rows, int64_t size) { return DrawTensor(DType::kF32, Shape{1, rows, size}); };
  const std::pair<std::string, const char*> errors[] = {
      {PlanError("MaxUnpool", {x, indices}, {{"kernel_shape", one}, {"pads", pads}}), "would have shape [1,4,-7]"},
      {PlanError("MaxUnpool", {x, DrawTensor(DType::kI64, Shape{1, 4, 2})}, {{"kernel_shape", one}}),
       "input and indices have the shapes [1,4,3] and [1,4,2]"},
      {PlanError("Col2Im", {x, Ints({5}), Ints({3})}), "dimension 1 of [1,4,3] does not hold whole blocks of [3]"},
      {PlanError("Col2Im", {x, Ints({9}), Ints({2})}), "does not hold the 8 blocks of an image of [9]"},
      {PlanError("TensorScatter", {x, update(5, 3)}), "an update of shape [1,5,3] does not fit into a cache"},
      {PlanError("TensorScatter", {x, update(2, 4)}), "an update of shape [1,2,4] does not fit into a cache"},
      {PlanError("CumProd", {x, Ints({3})}), "the axis must be one number that names a dimension of [1,4,3]"},
      {PlanError("CumProd", {x, Ints({0, 1})}), "the axis must be one number that names a dimension of [1,4,3]"},
  };
  for (const auto& [error, expected] : errors) EXPECT_NE(error.find(expected), std::string::npos) << error;
}

}  // namespace
}  // namespace quern::cpu
