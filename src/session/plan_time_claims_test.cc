// Which nodes the CPU provider takes whose shapes only a plan knows, and whether it computes what the reference does.
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <cstring>
#include <set>

#include "session/test_graphs.h"

namespace quern {
namespace {

using Json = nlohmann::ordered_json;

Tensor Ints(std::vector<int64_t> values) {
  const Shape shape{static_cast<int64_t>(values.size())};
  return Tensor::FromValues<int64_t>(shape, values);
}

// Small whole numbers, of which sums of products are exact.
Tensor DrawWhole(const Shape& shape, unsigned seed) {
  Tensor t = DrawFloats(shape, seed);
  for (float& v : t.values<float>()) v = std::nearbyint(4 * v);
  return t;
}

// Runs what `make` makes on both providers for each input; the named nodes must be the CPU provider's.
template <typename Make>
void ExpectOnCpu(Make make, const std::set<std::string>& names, const std::vector<std::vector<Value>>& feeds) {
  SessionOptions options;
  options.providers = {"reference"};
  const std::unique_ptr<Session> cpu = MakeSession(make()), reference = MakeSession(make(), options);
  ASSERT_TRUE(cpu && reference);
  const Json doc = Json::parse(cpu->Facts("partition").value());
  size_t found = 0;
  for (const Json& node : doc["partition"]["nodes"]) {
    if (!names.contains(node["name"].get<std::string>())) continue;
    ++found;
    EXPECT_EQ(node["provider"], "cpu") << node;
  }
  EXPECT_EQ(found, names.size());
  for (const std::vector<Value>& in : feeds) {
    std::vector<Value> actual(1), expected(1);
    const Status status = cpu->Run(in, actual);
    ASSERT_TRUE(status.ok()) << status.message();
    ASSERT_TRUE(reference->Run(in, expected).ok());
    ASSERT_EQ(actual[0].tensor().shape(), expected[0].tensor().shape());
    ASSERT_EQ(actual[0].tensor().dtype(), expected[0].tensor().dtype());
    const Tensor a = actual[0].tensor().Contiguous().value(), e = expected[0].tensor().Contiguous().value();
    EXPECT_EQ(std::memcmp(a.raw_data(), e.raw_data(), e.bytes()), 0);
  }
}

std::vector<std::vector<Value>> FeedsOf(std::vector<Shape> shapes) {
  std::vector<std::vector<Value>> feeds;
  for (const Shape& s : shapes) feeds.push_back({DrawFloats(s, static_cast<unsigned>(feeds.size()))});
  return feeds;
}

// Plans see neither strings nor their shapes.
TEST(PlanTimeClaims, ExtentsOfStringsAreNoneOfTheirs) {
  for (const char* op : {"Size", "Shape"}) {
    const auto make = [op] {
      GraphMaker g;
      return g.Finish({g.Op(op, {g.In("x", DType::kString, {Dim::Symbol("n")})}, "y")});
    };
    ExpectOnCpu(make, {}, {{StringTensor{Shape{3}, {"a", "b", "c"}}}, {StringTensor{Shape{0}, {}}}});
  }
}

// [r, ?] -> [?, r] by a Reshape to extents that only a run tells, which Shape and Gather take apart.
TEST(PlanTimeClaims, ReshapeByExtentsThatOnlyARunTells) {
  const auto make = [] {
    GraphMaker g;
    GraphValue* found = g.Op("NonZero", {g.In("x", DType::kF32, {Dim::Symbol("n"), 4})}, "found");
    GraphValue* extents = g.Op("Shape", {found}, "extents");
    const std::map<std::string, Attribute, std::less<>> first = {{"axis", int64_t{0}}};
    GraphValue* rows = g.Op("Gather", {extents, g.Const("zero", Ints({0}))}, "rows", first);
    GraphValue* columns = g.Op("Gather", {extents, g.Const("one", Ints({1}))}, "columns", first);
    GraphValue* shape = g.Op("Concat", {columns, rows, g.Const("last", Ints({1}))}, "shape", first);
    GraphValue* turned = g.Op("Reshape", {found, shape}, "turned");
    return g.Finish({g.Op("Expand", {turned, shape}, "y")});
  };
  ExpectOnCpu(make, {"turned", "y"}, FeedsOf({Shape{3, 4}, Shape{1, 4}, Shape{9, 4}, Shape{3, 4}}));
}

// Bounds computed of extents by operators that carry no content along, through floats as some exporters write it.
TEST(PlanTimeClaims, SliceByBoundsMadeOfExtents) {
  const auto make = [] {
    GraphMaker g;
    GraphValue* extents = g.Op("Shape", {g.In("x", DType::kF32, {Dim::Symbol("a"), Dim::Symbol("b")})}, "extents");
    GraphValue* real = g.Op("Cast", {extents}, "real", {{"to", int64_t{1}}});
    const std::vector<float> most = {3, 100};
    GraphValue* least = g.Op("Min", {real, g.Const("most", Tensor::FromValues<float>(Shape{2}, most))}, "least");
    GraphValue* ends = g.Op("Cast", {least}, "ends", {{"to", int64_t{7}}});
    GraphValue* table = g.Const("table", DrawFloats(Shape{5, 9}, 4));
    return g.Finish({g.Op("Slice", {table, g.Const("starts", Ints({0, 1})), ends}, "y")});
  };
  ExpectOnCpu(make, {"y"}, FeedsOf({Shape{2, 3}, Shape{7, 4}, Shape{1, 40}, Shape{0, 1}}));
}

// An extent that data decides stays that if the model gives it a name: ConstantOfShape is left to runs, what reads its
// result is not.
TEST(PlanTimeClaims, NamesOfExtentsThatDataDecides) {
  const auto make = [] {
    GraphMaker g;
    GraphValue* x = g.In("x", DType::kF32, {Dim::Symbol("n")});
    GraphValue* sum = g.Op("ReduceSum", {x}, "sum", {{"keepdims", int64_t{1}}});
    GraphValue* count = g.Op("Cast", {sum}, "count", {{"to", int64_t{7}}});
    GraphValue* shape = g.Op("Concat", {count, g.Const("three", Ints({3}))}, "shape", {{"axis", int64_t{0}}});
    GraphValue* zeros = g.Op("ConstantOfShape", {shape}, "zeros");
    zeros->set_type(ValueType::Tensor(DType::kF32, Dims{Dim::Symbol("named"), 3}));
    return g.Finish({g.Op("Cos", {zeros}, "y")});
  };
  std::vector<std::vector<Value>> feeds;
  for (const float count : {2.0f, 0.0f, 5.0f}) {
    feeds.push_back({Tensor::FromValues<float>(Shape{1}, std::vector<float>{count})});
  }
  ExpectOnCpu(make, {"y", "sum"}, feeds);
}

// Sums of products of integers whose length only a plan knows, 0 at times.
TEST(PlanTimeClaims, IntegerProductsOfAnyLength) {
  const auto make = [] {
    GraphMaker g;
    GraphValue* a = g.In("a", DType::kU8, {4, Dim::Symbol("k")});
    GraphValue* b = g.In("b", DType::kU8, {Dim::Symbol("k"), 5});
    return g.Finish({g.Op("MatMulInteger", {a, b}, "y")});
  };
  std::vector<std::vector<Value>> feeds;
  for (const int64_t k : {3, 0, 200}) {
    const auto bytes = [](const Shape& shape) {
      Tensor t = Tensor::Allocate(DType::kU8, shape).value();
      uint8_t next = 251;
      for (uint8_t& v : t.values<uint8_t>()) v = next = static_cast<uint8_t>(next * 5 + 3);
      return t;
    };
    feeds.push_back({bytes(Shape{4, k}), bytes(Shape{k, 5})});
  }
  ExpectOnCpu(make, {"y"}, feeds);
}

TEST(PlanTimeClaims, RangeOfAQuotientOfExtents) {
  const auto make = [] {
    GraphMaker g;
    GraphValue* x = g.In("x", DType::kF32, {Dim::Symbol("a"), Dim::Symbol("b")});
    const auto extent = [&](const std::string& name, int64_t axis) {
      GraphValue* e = g.Op("Shape", {x}, name + "_list", {{"start", axis}, {"end", axis + 1}});
      return g.Op("Squeeze", {e}, name);
    };
    GraphValue *a = extent("a", 0), *b = extent("b", 1);
    GraphValue* limit = g.Op("Div", {g.Op("Mul", {a, a}, "square"), b}, "limit");
    const auto number = [&](const char* name, int64_t n) { return g.Const(name, Tensor::Scalar(n)); };
    return g.Finish({g.Op("Range", {number("zero", 0), limit, number("one", 1)}, "y")});
  };
  ExpectOnCpu(make, {"y"}, FeedsOf({Shape{4, 2}, Shape{5, 3}, Shape{1, 7}}));
}

// A Squeeze of whatever extents are 1, behind nodes that the provider turns round, and readers that ask for no rank.
TEST(PlanTimeClaims, RanksThatOnlyAPlanKnows) {
  const auto make = [] {
    GraphMaker g;
    GraphValue* x = g.In("x", DType::kF32, {Dim::Symbol("n"), 3, Dim::Symbol("h"), 4});
    GraphValue* y = g.Op("Conv", {x, g.Const("w", DrawWhole(Shape{5, 3, 1, 1}, 5))}, "conv");
    y = g.Op("Relu", {y}, "first");
    y = g.Op("Transpose", {y}, "turned", {{"perm", std::vector<int64_t>{2, 0, 3, 1}}});
    y = g.Op("Squeeze", {y}, "less");
    y = g.Op("Relu", {g.Op("Neg", {y}, "negated")}, "positive");
    return g.Finish({g.Op("Unsqueeze", {y, g.Const("axis", Ints({0}))}, "y")});
  };
  std::vector<std::vector<Value>> feeds;
  for (const Shape& s :
       {Shape{1, 3, 1, 4}, Shape{2, 3, 1, 4}, Shape{2, 3, 6, 4}, Shape{1, 3, 1, 4}, Shape{0, 3, 2, 4}}) {
    feeds.push_back({DrawWhole(s, 8)});
  }
  ExpectOnCpu(make, {"conv", "first", "turned", "less", "negated", "positive", "y"}, feeds);
}

TEST(PlanTimeClaims, TheShapeOfAnyRank) {
  const auto make = [] {
    GraphMaker g;
    GraphValue* less = g.Op("Squeeze", {g.In("x", DType::kF32, {Dim::Symbol("n"), Dim::Symbol("m")})}, "less");
    return g.Finish({g.Op("Shape", {less}, "y")});
  };
  ExpectOnCpu(make, {"less", "y"}, FeedsOf({Shape{1, 1}, Shape{2, 1}, Shape{3, 2}, Shape{0, 1}}));
}

// A content that comes with the run stays with the reference provider, also behind operators.
TEST(PlanTimeClaims, OperandsThatComeWithTheRunAreNotKnown) {
  GraphMaker g;
  GraphValue* axis = g.Op("Abs", {g.In("axis", DType::kI64, {1})}, "positive");
  GraphValue* table = g.Const("table", DrawFloats(Shape{5, 9}, 4));
  const std::unique_ptr<Session> session =
      MakeSession(g.Finish({g.Op("ReduceSum", {table, axis}, "y", {{"keepdims", int64_t{0}}})}));
  ASSERT_TRUE(session);
  const Json doc = Json::parse(session->Facts("partition").value());
  for (const Json& node : doc["partition"]["nodes"]) {
    if (node["name"] != "y") continue;
    EXPECT_EQ(node["provider"], "reference");
    EXPECT_EQ(node["rejections"][0]["reason"], "input 'positive' comes with the run");
  }
  for (const int64_t n : {0, -1}) {
    std::vector<Value> in = {Ints({n})}, out(1);
    ASSERT_TRUE(session->Run(in, out).ok());
    EXPECT_EQ(out[0].tensor().shape(), Shape{n == 0 ? 9 : 5});
  }
}

// %i of rank 2 in one branch and 1 in the other, which the Conv behind it does not take; its channels are not known.
TEST(PlanTimeClaims, RanksAndChannelsBehindAnIf) {
  const auto branch = [](const std::string& op) {
    auto g = std::make_shared<Graph>();
    g->opset_imports[""] = 17;
    GraphValue* x = g->AddInput("x", ValueType::Tensor(DType::kF32, Dims{Dim::Symbol("n"), Dim::Symbol("c")}));
    std::vector<GraphValue*> inputs = {x};
    if (op == "Reshape") inputs.push_back(g->AddConstant("shape", Value(Ints({-1}))));
    g->AddOutput(g->AddNode({.name = "o", .op_type = op, .inputs = inputs, .outputs = {"o"}})->output(0));
    return g;
  };
  const auto make = [&] {
    auto g = std::make_unique<Graph>();
    g->name = "test";
    g->opset_imports[""] = 17;
    const auto op = [&](const std::string& type, std::vector<GraphValue*> inputs, const std::string& name) {
      return g->AddNode({.name = name, .op_type = type, .inputs = std::move(inputs), .outputs = {name}})->output(0);
    };
    GraphValue* condition = g->AddInput("condition", ValueType::Tensor(DType::kBool, Dims()));
    GraphValue* x = g->AddInput("x", ValueType::Tensor(DType::kF32, Dims{Dim::Symbol("n"), Dim::Symbol("c")}));
    Node* either = g->AddNode(
        {.name = "either",
         .op_type = "If",
         .inputs = {condition},
         .outputs = {"either"},
         .attributes = {{"then_branch", GraphPtr(branch("Neg"))}, {"else_branch", GraphPtr(branch("Reshape"))}},
         .captures = {x}});
    GraphValue* line = op("Unsqueeze", {either->output(0), g->AddConstant("last", Value(Ints({2})))}, "line");
    GraphValue* relu = op("Relu", {line}, "relu");
    GraphValue* y = op("Conv", {relu, g->AddConstant("w", Value(DrawWhole(Shape{4, 3, 1}, 5)))}, "y");
    g->AddOutput(y);
    return g;
  };
  const Tensor yes = Tensor::Scalar(true), no = Tensor::Scalar(false);
  ExpectOnCpu(make, {"line", "relu", "y"}, {{yes, DrawWhole(Shape{2, 3}, 6)}, {yes, DrawWhole(Shape{1, 3}, 7)}});
  const std::unique_ptr<Session> session = MakeSession(make());
  ASSERT_TRUE(session);
  std::vector<Value> other_rank = {no, DrawWhole(Shape{2, 3}, 6)}, few = {yes, DrawWhole(Shape{2, 2}, 6)}, out(1);
  const Status rank = session->Run(other_rank, out), channels = session->Run(few, out);
  EXPECT_NE(rank.message().find("of rank 1, but of 2 where it is used"), std::string::npos) << rank.message();
  EXPECT_NE(channels.message().find("2 channels but the weight expects 3"), std::string::npos) << channels.message();
}

}  // namespace
}  // namespace quern
