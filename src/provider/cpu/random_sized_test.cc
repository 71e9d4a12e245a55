// Operators whose outputs' sizes only a run tells, on random cases against the reference.
#include <gtest/gtest.h>

#include "provider/cpu/random_cases.h"
#include "provider/cpu/sized/sized_provider.h"

namespace quern::cpu {
namespace {

class TestRun final : public SizedRun {
 public:
  using SizedRun::SizedRun;
  Result<Tensor> Allocate(int index, DType dtype, const Shape& shape) override {
    outputs.resize(static_cast<size_t>(index) + 1);
    QUERN_ASSIGN_OR_RETURN(outputs[static_cast<size_t>(index)], Tensor::Allocate(dtype, shape));
    return outputs[static_cast<size_t>(index)];
  }
  void Give(int index, Tensor tensor) override {
    outputs.resize(static_cast<size_t>(index) + 1);
    outputs[static_cast<size_t>(index)] = std::move(tensor);
  }
  Result<Tensor> Scratch(DType dtype, int64_t count) override { return Tensor::Allocate(dtype, Shape{count}); }
  std::vector<Tensor> outputs;
};

Status RunSized(const Case& c, std::vector<Tensor>& outputs, Built& b) {
  Build(c, false, b);
  const SizedOp* op = FindSizedOp(b.node->domain(), b.node->op_type());
  if (!op) return Internal("no such operator");
  if (const std::string why = op->reject(*b.node); !why.empty()) return Unsupported(why);
  std::vector<Tensor> inputs;
  for (const Value& v : c.inputs) inputs.push_back(v.has_value() ? v.tensor() : Tensor());
  std::vector<const Tensor*> places;
  for (const Tensor& t : inputs) places.push_back(&t);
  HostileExecutor executor(5, 3);
  TestRun run(*b.node, places, ukernel::SelectVectorRow(HostCpu().facts()), &executor, nullptr);
  const Status status = op->run(run);
  outputs = run.outputs;
  return status;
}

void CheckSized(const Case& c) {
  SCOPED_TRACE(c.ToString());
  Built b;
  std::vector<Tensor> outputs;
  const Status status = RunSized(c, outputs, b);
  ASSERT_TRUE(status.ok()) << status.message();
  const Result<std::vector<Value>> expected = EvaluateGraph(b.graph, b.inputs);
  ASSERT_TRUE(expected.ok()) << expected.status().message();
  ASSERT_EQ(outputs.size(), 1u);
  ASSERT_NO_FATAL_FAILURE(ExpectSame(outputs[0], (*expected)[0].tensor(), c));
}

TEST_F(CpuOps, NonZero) {
  for (int i = 0; i < 6 * kRounds; ++i) {
    const DType t = Pick({DType::kF32, DType::kI64, DType::kI32, DType::kBool, DType::kU8, DType::kI8});
    Tensor x = DrawTensor(t, DrawShapeOrLarge(0, 6), 2, true);
    const size_t bytes = DTypeBytes(t);
    for (int64_t k = 0; k < x.num_elements(); ++k) {
      if (Draw(0, 2)) std::memset(static_cast<char*>(x.raw_data()) + static_cast<size_t>(k) * bytes, 0, bytes);
      if (t == DType::kF32 && Draw(0, 9) == 0) x.data<float>()[k] = -0.0f;
    }
    Case c{.op = "NonZero", .opset = 13};
    ASSERT_NO_FATAL_FAILURE(CheckSized(c.In(x)));
  }
  Case half{.op = "NonZero", .opset = 13};
  Tensor x = Tensor::Allocate(DType::kF16, Shape{4}).value();
  const std::vector<uint16_t> bits = {0, 0x8000, 1, 0x7e00};
  for (int k = 0; k < 4; ++k) x.data<Float16>()[k].bits = bits[static_cast<size_t>(k)];
  ASSERT_NO_FATAL_FAILURE(CheckSized(half.In(x)));
}

TEST_F(CpuOps, Compress) {
  for (int i = 0; i < 6 * kRounds; ++i) {
    const Shape shape = DrawShapeOrLarge(1, 5);
    Case c{.op = "Compress", .opset = 11};
    c.In(DrawTensor(AnyWidth(), shape));
    int64_t extent = shape.num_elements();
    if (Draw(0, 3)) {
      const int64_t axis = Draw(0, shape.rank() - 1);
      extent = shape[static_cast<int>(axis)];
      c.Attr("axis", Draw(0, 1) ? axis : axis - shape.rank());
    }
    c.In(DrawTensor(DType::kBool, Shape{Draw(0, extent)}));
    ASSERT_NO_FATAL_FAILURE(CheckSized(c));
  }
}

TEST_F(CpuOps, CompressOfMoreThanThereIsIsAnError) {
  Case c{.op = "Compress", .opset = 11};
  constexpr bool kPast[] = {false, false, false, true};
  c.In(DrawTensor(DType::kF32, Shape{2, 3})).In(Tensor::FromValues<bool>(Shape{4}, kPast));
  Built b;
  std::vector<Tensor> outputs;
  EXPECT_NE(RunSized(c.Attr("axis", int64_t{1}), outputs, b).message().find("only 3 entries"), std::string::npos);
}

TEST_F(CpuOps, NonMaxSuppression) {
  for (int i = 0; i < 8 * kRounds; ++i) {
    const int64_t images = Draw(0, 2), classes = Draw(1, 4), count = Pick<int64_t>({0, 1, 7, 40, 300});
    Case c{.op = "NonMaxSuppression", .opset = 11};
    Tensor boxes = DrawTensor(DType::kF32, Shape{images, count, 4}, 0.2f),
           scores = DrawTensor(DType::kF32, Shape{images, classes, count});
    const bool center = Draw(0, 1) != 0;
    for (int64_t k = 0; k < images * count; ++k) {
      float* v = boxes.data<float>() + 4 * k;
      if (Draw(0, 9)) {  // else corners in any order and sizes below zero
        v[2] = center ? std::fabs(v[2]) : v[0] + std::fabs(v[2]);
        v[3] = center ? std::fabs(v[3]) : v[1] + std::fabs(v[3]);
      }
      if (Draw(0, 5) == 0 && k > 0) std::memcpy(v, v - 4, 16);  // the same box again
    }
    for (int64_t k = 0; k < scores.num_elements(); ++k) {
      float& s = scores.data<float>()[k];
      if (Draw(0, 3) == 0) s = 0.5f;  // equal scores
      if (i % 3 == 0 && Draw(0, 9) == 0) s = NAN;
    }
    c.In(boxes).In(scores).Attr("center_point_box", int64_t{center});
    if (Draw(0, 5)) {
      c.In(Draw(0, 1) ? Ints({Draw(0, 60)}) : Tensor::Scalar(Draw(1, 400)));
      if (Draw(0, 1)) {
        c.In(Tensor::Scalar(Pick({0.0f, 0.3f, 0.5f, 1.0f})));
        if (Draw(0, 1)) c.In(Tensor::Scalar(Pick({-1.0f, 0.0f, 0.5f})));
      }
    }
    ASSERT_NO_FATAL_FAILURE(CheckSized(c));
  }
}

TEST_F(CpuOps, SuppressionByABadThresholdIsAnError) {
  Case c{.op = "NonMaxSuppression", .opset = 11};
  c.In(DrawTensor(DType::kF32, Shape{1, 3, 4})).In(DrawTensor(DType::kF32, Shape{1, 1, 3})).In(Ints({2}));
  c.In(Tensor::Scalar(1.5f));
  Built b;
  std::vector<Tensor> outputs;
  EXPECT_NE(RunSized(c, outputs, b).message().find("must be in [0, 1]"), std::string::npos);
}

// An error of a run, in the reference's words.
void ExpectSizedError(const Case& c, const std::string& what) {
  SCOPED_TRACE(c.ToString());
  Built b;
  std::vector<Tensor> outputs;
  const Status status = RunSized(c, outputs, b);
  const Result<std::vector<Value>> expected = EvaluateGraph(b.graph, b.inputs);
  ASSERT_FALSE(expected.ok());
  EXPECT_EQ(status.message(), expected.status().message());
  EXPECT_NE(status.message().find(what), std::string::npos) << status.message();
}

Tensor IntsOf(DType type, const std::vector<int64_t>& values) {
  return FromInt64s(type, Shape{static_cast<int64_t>(values.size())}, values).value();
}

TEST_F(CpuOps, SlicesOfTheRun) {
  for (int i = 0; i < 8 * kRounds; ++i) {
    const Shape shape = DrawShapeOrLarge(1, 5);
    std::vector<int64_t> axes, starts, ends, steps;
    for (int d = 0; d < shape.rank(); ++d) {
      if (Draw(0, 2) == 0) continue;
      axes.insert(axes.begin() + Draw(0, static_cast<int64_t>(axes.size())), Draw(0, 1) ? d : d - shape.rank());
      starts.push_back(Draw(-8, 8));
      ends.push_back(Pick<int64_t>({Draw(-8, 8), INT32_MAX, INT32_MIN}));
      steps.push_back(Pick<int64_t>({1, 1, 2, -1, -3}));
    }
    if (Draw(0, 3) == 0) {  // the first ones
      for (size_t k = 0; k < axes.size(); ++k) axes[k] = static_cast<int64_t>(k);
    }
    const DType type = Pick({DType::kI64, DType::kI32});
    Case c{.op = "Slice", .opset = Pick({10, 13})};
    c.In(DrawTensor(AnyWidth(), shape)).In(IntsOf(type, starts)).In(IntsOf(type, ends));
    if (Draw(0, 3)) {
      c.In(IntsOf(type, axes));
      if (Draw(0, 1)) c.In(IntsOf(type, steps));
    }
    ASSERT_NO_FATAL_FAILURE(CheckSized(c));
  }
  const auto slice = [](std::vector<int64_t> starts, std::vector<int64_t> axes, std::vector<int64_t> steps) {
    Case c{.op = "Slice", .opset = 13};
    const std::vector<int64_t> ends(axes.size(), 2);
    return c.In(DrawTensor(DType::kF32, Shape{2, 3}))
        .In(Ints(std::move(starts)))
        .In(Ints(ends))
        .In(Ints(axes))
        .In(Ints(std::move(steps)));
  };
  ExpectSizedError(slice({0}, {2}, {1}), "axis 2 is outside");
  ExpectSizedError(slice({0, 0}, {1, -1}, {1, 1}), "is given twice");
  ExpectSizedError(slice({0, 0}, {1}, {1}), "have different lengths");
  ExpectSizedError(slice({0}, {1}, {0}), "a step of 0");
}

TEST_F(CpuOps, TilesOfTheRun) {
  for (int i = 0; i < 4 * kRounds; ++i) {
    const Shape shape = DrawShape(0, 5);
    std::vector<int64_t> repeats;
    for (int d = 0; d < shape.rank(); ++d) repeats.push_back(Draw(Draw(0, 3) != 0, 4));
    Case c{.op = "Tile", .opset = Pick({6, 13})};
    ASSERT_NO_FATAL_FAILURE(CheckSized(c.In(DrawTensor(AnyWidth(), shape)).In(Ints(repeats))));
  }
  const auto tile = [](std::vector<int64_t> repeats) {
    Case c{.op = "Tile", .opset = 13};
    return c.In(DrawTensor(DType::kF32, Shape{2, 3})).In(Ints(std::move(repeats)));
  };
  ExpectSizedError(tile({2}), "1 repeats are given");
  ExpectSizedError(tile({2, -1}), "are negative");
  ExpectSizedError(tile({2, INT64_MAX}), "too large");
}

TEST_F(CpuOps, ExpansionsOfTheRun) {
  for (int i = 0; i < 4 * kRounds; ++i) {
    const Shape to = DrawShape(0, 5);
    Shape target = BroadcastPart(to);
    Case c{.op = "Expand", .opset = Pick({8, 13})};
    c.In(DrawTensor(AnyWidth(), BroadcastPart(to))).In(Ints({target.begin(), target.end()}));
    ASSERT_NO_FATAL_FAILURE(CheckSized(c));
  }
  const auto expand = [](std::vector<int64_t> shape) {
    Case c{.op = "Expand", .opset = 13};
    return c.In(DrawTensor(DType::kF32, Shape{2, 3})).In(Ints(std::move(shape)));
  };
  ExpectSizedError(expand({2, 4}), "do not broadcast");
  ExpectSizedError(expand({-1, 3}), "is negative");
}

TEST_F(CpuOps, ReshapesOfTheRun) {
  for (int i = 0; i < 4 * kRounds; ++i) {
    Shape shape = DrawShape(0, 5);
    std::vector<int64_t> target(shape.begin(), shape.end());
    const bool empty = shape.num_elements() == 0;
    for (int64_t k = empty ? 0 : Draw(0, 3); k > 0; --k) target.insert(target.begin() + Draw(0, std::ssize(target)), 1);
    if (!target.empty() && Draw(0, 1) && !empty) target[static_cast<size_t>(Draw(0, std::ssize(target) - 1))] = -1;
    for (size_t d = 0; d < target.size() && static_cast<int>(d) < shape.rank(); ++d) {
      if (target[d] == shape[static_cast<int>(d)] && Draw(0, 2) == 0) target[d] = 0;
    }
    Case c{.op = "Reshape", .opset = Pick({5, 13, 21})};
    c.In(DrawTensor(AnyWidth(), shape)).In(Ints(target));
    if (empty && c.opset == 21) c.Attr("allowzero", int64_t{1}).inputs[1] = Ints({shape.begin(), shape.end()});
    ASSERT_NO_FATAL_FAILURE(CheckSized(c));
  }
  const auto reshape = [](std::vector<int64_t> shape) {
    Case c{.op = "Reshape", .opset = 13};
    return c.In(DrawTensor(DType::kF32, Shape{2, 3})).In(Ints(std::move(shape)));
  };
  ExpectSizedError(reshape({4, -1}), "cannot become");
  ExpectSizedError(reshape({5}), "cannot become");
  ExpectSizedError(reshape({-1, -1}), "more than one -1");
  ExpectSizedError(reshape({2, 3, 0}), "copies dimension 2");
  ExpectSizedError(reshape({-2, 3}), "negative extent -2");
}

}  // namespace
}  // namespace quern::cpu
