// Operators of the CPU provider that show memory in another shape or take parts of it, on random cases: Reshape,
// Flatten, Squeeze, Unsqueeze, Identity, Dropout, Slice, Split, Expand; and chains of them, whose results are views of
// views.
#include <gtest/gtest.h>

#include <limits>

#include "graph/text.h"
#include "provider/cpu/random_cases.h"

namespace quern::cpu {
namespace {

constexpr int64_t kFar = std::numeric_limits<int64_t>::max();

DType AnyType() {
  return Pick({DType::kF32, DType::kF64, DType::kF16, DType::kI64, DType::kI32, DType::kI8, DType::kU8, DType::kBool});
}
Tensor DrawAny(const Shape& shape) { return DrawTensor(AnyType(), shape, 2, true); }

// An axis as it is, or counted from the end.
int64_t EitherWay(int64_t axis, int rank) { return Draw(0, 1) ? axis : axis - rank; }

TEST_F(CpuOps, Reshape) {
  for (int i = 0; i < 5 * kRounds; ++i) {
    const Shape shape = DrawShapeOrLarge(0, 6);
    // Neighbours become one, or one is cut; then perhaps a copied and a computed extent.
    std::vector<int64_t> to(shape.begin(), shape.end());
    for (int64_t n = Draw(0, 3); n > 0; --n) {
      const size_t at = static_cast<size_t>(Draw(0, static_cast<int64_t>(to.size())));
      if (at + 1 < to.size() && Draw(0, 1)) {
        to[at] *= to[at + 1];
        to.erase(to.begin() + static_cast<int64_t>(at) + 1);
      } else if (at < to.size() && to[at] % 2 == 0 && to[at] > 0) {
        to[at] /= 2;
        to.insert(to.begin() + static_cast<int64_t>(at), 2);
      } else {
        to.insert(to.begin() + static_cast<int64_t>(at), 1);
      }
    }
    Case c{.op = "Reshape", .opset = Pick({6, 13, 21, 25})};
    const bool has_zero = std::count(to.begin(), to.end(), 0) > 0;
    const size_t copied = static_cast<size_t>(Draw(0, 5)), computed = static_cast<size_t>(Draw(0, 5));
    if (has_zero) {
      if (c.opset >= 21) {
        c.Attr("allowzero", int64_t{1});
      } else {
        to.assign(shape.begin(), shape.end());  // each 0 stands for itself
      }
    } else {
      if (copied < to.size() && copied < static_cast<size_t>(shape.rank()) && to[copied] == shape[int(copied)]) {
        to[copied] = 0;
      }
      if (computed < to.size() && to[computed] != 0) to[computed] = -1;
    }
    ASSERT_NO_FATAL_FAILURE(Check(c.In(DrawAny(shape)).In(Ints(to), true)));
  }
}

TEST_F(CpuOps, Flatten) {
  for (int i = 0; i < 2 * kRounds; ++i) {
    const Shape shape = DrawShapeOrLarge(0, 6);
    Case c{.op = "Flatten", .opset = Pick({11, 13, 25})};
    c.In(DrawAny(shape)).Attr("axis", Draw(-shape.rank(), shape.rank()));
    if (shape.rank() > 0 && Draw(0, 4) == 0) c.attributes.clear();
    ASSERT_NO_FATAL_FAILURE(Check(c));
  }
}

TEST_F(CpuOps, SqueezeAndUnsqueeze) {
  for (int i = 0; i < 3 * kRounds; ++i) {
    const bool as_input = Draw(0, 2) != 0;
    Shape shape = DrawShapeOrLarge(0, 4);
    std::vector<int64_t> axes;
    Case unsqueeze{.op = "Unsqueeze", .opset = as_input ? Pick({13, 21, 25}) : 11};
    unsqueeze.In(DrawAny(shape));
    const int rank = shape.rank() + static_cast<int>(Draw(1, 3));
    while (static_cast<int>(axes.size()) < rank - shape.rank()) {
      const int64_t axis = Draw(0, rank - 1);
      if (std::count(axes.begin(), axes.end(), axis) == 0) axes.push_back(axis);
    }
    for (int64_t& a : axes) a = EitherWay(a, rank);
    as_input ? unsqueeze.In(Ints(axes), true) : unsqueeze.Attr("axes", axes);
    ASSERT_NO_FATAL_FAILURE(Check(unsqueeze));

    axes.clear();
    for (int64_t n = Draw(0, 2); n > 0; --n) shape.insert(static_cast<int>(Draw(0, shape.rank())), 1);
    for (int d = 0; d < shape.rank(); ++d) {
      if (shape[d] == 1 && Draw(0, 2)) axes.push_back(EitherWay(d, shape.rank()));
    }
    Case squeeze{.op = "Squeeze", .opset = unsqueeze.opset};
    squeeze.In(DrawAny(shape));
    if (!axes.empty()) as_input ? squeeze.In(Ints(axes), true) : squeeze.Attr("axes", axes);
    ASSERT_NO_FATAL_FAILURE(Check(squeeze));
  }
}

TEST_F(CpuOps, IdentityAndDropout) {
  for (int i = 0; i < 2 * kRounds; ++i) {
    Case same{.op = "Identity", .opset = Pick({6, 13, 25})};
    ASSERT_NO_FATAL_FAILURE(Check(same.In(DrawAny(DrawShapeOrLarge(0, 6)))));
    Case dropout{.op = "Dropout", .opset = Pick({6, 7, 10, 12, 13, 22})};
    dropout.In(DrawTensor(Pick({DType::kF32, DType::kF64, DType::kF16}), DrawShapeOrLarge(0, 6), 2, true));
    if (dropout.opset == 6) dropout.Attr("is_test", int64_t{1});
    if (dropout.opset < 12) {
      dropout.Attr("ratio", 0.7f);
    } else if (Draw(0, 1)) {
      dropout.In(Tensor::Scalar(0.7f), Draw(0, 1) != 0);
    }
    ASSERT_NO_FATAL_FAILURE(Check(dropout));
  }
}

std::vector<int64_t> DrawPermutation(int rank) {
  std::vector<int64_t> perm;
  for (int d = 0; d < rank; ++d) perm.insert(perm.begin() + Draw(0, d), d);
  return perm;
}

TEST_F(CpuOps, Transpose) {
  for (int i = 0; i < 5 * kRounds; ++i) {
    Shape shape = DrawShapeOrLarge(0, 6);
    if (Draw(0, 5) == 0) shape = {Draw(1, 2), Draw(1, 130), Draw(1, 130)};  // squares and what is left of them
    Case c{.op = "Transpose", .opset = Pick({6, 13, 25})};
    if (Draw(0, 4)) c.Attr("perm", DrawPermutation(shape.rank()));
    ASSERT_NO_FATAL_FAILURE(Check(c.In(DrawAny(shape))));
  }
}

TEST_F(CpuOps, Concat) {
  for (int i = 0; i < 5 * kRounds; ++i) {
    Shape shape = DrawShapeOrLarge(1, 6);
    const int axis = static_cast<int>(Draw(0, shape.rank() - 1));
    const DType type = AnyType();
    Case c{.op = "Concat", .opset = Pick({11, 13})};
    for (int64_t n = Draw(1, 5); n > 0; --n) {
      shape[axis] = Draw(0, 6);
      c.In(DrawTensor(type, shape, 2, true), Draw(0, 3) == 0);
    }
    if (Draw(0, 3) == 0) {  // twice the same
      c.inputs.push_back(c.inputs.back());
      c.constant.push_back(false);
    }
    ASSERT_NO_FATAL_FAILURE(Check(c.Attr("axis", EitherWay(axis, shape.rank()))));
  }
}

// Starts, ends and steps for some axes: inside, outside, far outside, backwards.
void AddSlice(Case& c, const Shape& shape) {
  std::vector<int64_t> starts, ends, axes, steps;
  const bool by_axes = c.opset >= 10 || Draw(0, 1);
  for (int d = 0; d < shape.rank(); ++d) {
    if (by_axes && Draw(0, 2) == 0) continue;
    const int64_t n = shape[d];
    axes.push_back(EitherWay(d, shape.rank()));
    starts.push_back(Pick<int64_t>({0, Draw(0, n), Draw(-n, n), Draw(-2 * n - 1, 2 * n), kFar, -kFar - 1}));
    ends.push_back(Pick<int64_t>({n, Draw(0, n), Draw(-n, n), Draw(-2 * n - 1, 2 * n), kFar, -kFar - 1}));
    steps.push_back(Pick<int64_t>({1, 1, 2, 3, -1, -2, kFar, -kFar - 1}));
  }
  if (c.opset < 10) {
    c.Attr("starts", starts).Attr("ends", ends);
    if (by_axes) c.Attr("axes", axes);
    return;
  }
  c.In(Ints(starts), true).In(Ints(ends), true).In(Ints(axes), true);
  if (Draw(0, 2)) c.In(Ints(steps), true);
}

TEST_F(CpuOps, Slice) {
  for (int i = 0; i < 10 * kRounds; ++i) {
    const Shape shape = DrawShapeOrLarge(1, 6);
    Case c{.op = "Slice", .opset = Pick({6, 10, 11, 13})};
    AddSlice(c.In(DrawAny(shape)), shape);
    ASSERT_NO_FATAL_FAILURE(Check(c));
  }
  Case narrow{.op = "Slice", .opset = 13};
  narrow.In(DrawAny(Shape{4, 5}));
  const std::vector<int32_t> start = {-2}, end = {-5}, axis = {-1}, step = {-1};
  for (const auto& list : {start, end, axis, step}) narrow.In(Tensor::FromValues<int32_t>(Shape{1}, list), true);
  ASSERT_NO_FATAL_FAILURE(Check(narrow));
}

TEST_F(CpuOps, Split) {
  for (int i = 0; i < 4 * kRounds; ++i) {
    const Shape shape = DrawShapeOrLarge(1, 6);
    const int axis = static_cast<int>(Draw(0, shape.rank() - 1));
    Case c{.op = "Split", .opset = Pick({6, 11, 13, 18})};
    c.In(DrawAny(shape)).Attr("axis", EitherWay(axis, shape.rank()));
    c.outputs = static_cast<int>(Draw(1, 4));
    std::vector<int64_t> lengths;
    int64_t left = shape[axis];
    for (int part = 1; part < c.outputs; ++part) {
      lengths.push_back(Draw(0, left));
      left -= lengths.back();
    }
    lengths.push_back(left);
    const bool even = shape[axis] % c.outputs == 0;
    if (c.opset < 13) {
      if (!even || Draw(0, 1)) c.Attr("split", lengths);
    } else if (c.opset == 18 && Draw(0, 1)) {
      c.Attr("num_outputs", int64_t{c.outputs});  // the last one may be smaller
    } else if (!even || Draw(0, 1)) {
      c.In(Ints(lengths), true);
    } else if (c.opset == 18) {
      c.Attr("num_outputs", int64_t{c.outputs});
    }
    ASSERT_NO_FATAL_FAILURE(Check(c));
  }
}

TEST_F(CpuOps, Expand) {
  for (int i = 0; i < 4 * kRounds; ++i) {
    const Shape to = DrawShapeOrLarge(0, 6);
    const Shape from = BroadcastPart(to);
    std::vector<int64_t> target(to.begin(), to.end());
    for (int d = 0; d < from.rank(); ++d) {  // 1 where the input's extent stays
      int64_t& t = target[static_cast<size_t>(to.rank() - from.rank() + d)];
      if (t == from[d] && Draw(0, 2) == 0) t = 1;
    }
    Case c{.op = "Expand", .opset = Pick({8, 13})};
    ASSERT_NO_FATAL_FAILURE(Check(c.In(DrawAny(from)).In(Ints(target), true)));
  }
}

// A node for a value of a shape that is known: transposes, slices, splits (of which one part goes on), single places,
// other shapes.
GraphValue* AddMove(Graph& graph, GraphValue* x, int number) {
  Shape shape;
  for (const Dim& d : *x->type().shape) shape.push_back(d.value());
  const std::string name = "m" + std::to_string(number);
  const auto ints = [&](std::vector<int64_t> values) {
    const Value list = Ints(std::move(values));
    return graph.AddConstant(name + "_" + std::to_string(graph.constants().size()), list);
  };
  NodeSpec spec{.name = name, .inputs = {x}, .outputs = {name}};
  const int rank = shape.rank();
  const int64_t axis = rank == 0 ? 0 : Draw(0, rank - 1), extent = rank == 0 ? 1 : shape[static_cast<int>(axis)];
  const int64_t choice = rank == 0 ? 2 : Draw(0, 8);
  if (choice == 0) {
    spec.op_type = "Transpose";
    spec.attributes["perm"] = DrawPermutation(rank);
  } else if (choice == 1) {
    spec.op_type = "Slice";
    const int64_t step = Pick<int64_t>({1, 1, 2, -1});
    const int64_t start = Draw(0, std::max<int64_t>(0, extent - 1));
    spec.inputs = {x, ints({start}), ints({step < 0 ? -extent - 1 : extent}), ints({axis}), ints({step})};
  } else if (choice == 2 && rank < 6) {
    spec.op_type = "Unsqueeze";
    spec.inputs.push_back(ints({Draw(0, rank)}));
  } else if (choice == 3) {
    spec.op_type = "Flatten";
    spec.attributes["axis"] = axis;
  } else if (choice == 4) {
    spec.op_type = "Split";
    const int64_t part = Draw(0, extent);
    spec.inputs.push_back(ints({part, extent - part}));
    spec.attributes["axis"] = axis;
    spec.outputs.push_back(name + "_rest");
  } else if (choice == 5) {
    spec.op_type = "Concat";
    spec.inputs.push_back(x);
    spec.attributes["axis"] = axis;
  } else if (choice == 6 && extent > 0) {
    spec.op_type = "Gather";
    const int64_t at = Draw(-extent, extent - 1);
    const Value one = Draw(0, 1) ? Ints({at}) : Value(Tensor::FromValues<int64_t>(Shape{}, std::vector<int64_t>{at}));
    GraphValue* index = graph.AddConstant(name + "_at", one);
    spec.inputs.push_back(index);
    spec.attributes["axis"] = Draw(0, 1) ? axis : axis - rank;
  } else if (choice == 7 && rank < 6) {
    spec.op_type = "Reshape";  // the axis in two
    const int64_t inner = extent % 3 == 0 ? 3 : extent % 2 == 0 ? 2 : 1;
    std::vector<int64_t> to(shape.begin(), shape.end());
    to[static_cast<size_t>(axis)] /= inner;
    to.insert(to.begin() + axis + 1, inner);
    spec.inputs.push_back(ints(to));
    spec.attributes["allowzero"] = int64_t{1};
  } else {
    spec.op_type = "Reshape";
    std::vector<int64_t> to(shape.begin(), shape.end());
    if (rank > 1) to.erase(to.begin());
    if (rank > 1) to[0] *= shape[0];
    spec.inputs.push_back(ints(to));
    spec.attributes["allowzero"] = int64_t{1};
  }
  Node* node = graph.AddNode(std::move(spec));
  EXPECT_TRUE(InferShapes(graph).ok());
  if (node->num_outputs() > 1) graph.AddOutput(node->output(1));
  return node->output(0);
}

TEST_F(CpuOps, ViewsOfViews) {
  for (int i = 0; i < 20 * kRounds; ++i) {
    Graph graph;
    graph.opset_imports[""] = 14;
    const Value x = DrawAny(DrawShapeOrLarge(0, 5));
    GraphValue* v = graph.AddInput("x", TypeOf(x));
    const bool computed = x.tensor().dtype() == DType::kF32 && Draw(0, 1) != 0;
    const auto neg = [&](const char* name) {
      v = graph.AddNode({.op_type = "Neg", .inputs = {v}, .outputs = {name}})->output(0);
      ASSERT_TRUE(InferShapes(graph).ok());
    };
    if (computed) neg("first");
    const int moves = static_cast<int>(Draw(2, 5));
    for (int k = 0; k < moves; ++k) v = AddMove(graph, v, k);
    if (computed && Draw(0, 1)) neg("last");
    graph.AddOutput(v);
    const std::vector<Value> inputs = {x};
    const Result<std::vector<Value>> expected = EvaluateGraph(graph, inputs);
    ASSERT_TRUE(expected.ok()) << expected.status().message();
    const Result<std::vector<Tensor>> actual = RunOnCpu(graph, inputs, Config(false));
    ASSERT_TRUE(actual.ok()) << actual.status().message();
    for (size_t k = 0; k < expected->size(); ++k) {
      ASSERT_NO_FATAL_FAILURE(ExpectSame((*actual)[k], (*expected)[k].tensor(), Case{.op = "a chain"}))
          << PrintGraph(graph, {});
    }
  }
}

}  // namespace
}  // namespace quern::cpu
