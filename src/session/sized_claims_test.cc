// Operators whose outputs' sizes only a run tells are the CPU provider's, alone, in a chain, and before what it plans.
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cstring>

#include "session/test_graphs.h"

namespace quern {
namespace {

using Json = nlohmann::ordered_json;

Tensor Ints(std::vector<int64_t> values) {
  return Tensor::FromValues<int64_t>(Shape{static_cast<int64_t>(values.size())}, values);
}

// Runs what `make` makes on both providers: all nodes are the CPU provider's, and the results the same bytes.
template <typename Make>
void ExpectAllOnCpu(Make make, const std::vector<std::vector<Value>>& feeds, size_t outputs) {
  SessionOptions options;
  options.providers = {"reference"};
  const std::unique_ptr<Session> cpu = MakeSession(make()), reference = MakeSession(make(), options);
  ASSERT_TRUE(cpu && reference);
  const Json doc = Json::parse(cpu->Facts("partition").value());
  EXPECT_EQ(doc["partition"]["providers"], Json({"cpu", "reference"}));
  for (const Json& node : doc["partition"]["nodes"]) EXPECT_EQ(node["provider"], "cpu") << node;
  for (const std::vector<Value>& in : feeds) {
    std::vector<Value> actual(outputs), expected(outputs);
    const Status status = cpu->Run(in, actual);
    ASSERT_TRUE(status.ok()) << status.message();
    ASSERT_TRUE(reference->Run(in, expected).ok());
    for (size_t i = 0; i < outputs; ++i) {
      ASSERT_EQ(actual[i].tensor().shape(), expected[i].tensor().shape());
      const Tensor a = actual[i].tensor().Contiguous().value(), e = expected[i].tensor().Contiguous().value();
      EXPECT_EQ(std::memcmp(a.raw_data(), e.raw_data(), e.bytes()), 0);
    }
  }
}

TEST(SizedClaims, IndicesOfWhatIsPositiveAreGathered) {
  const auto make = [] {
    GraphMaker g;
    GraphValue* x = g.In("x", DType::kF32, {Dim::Symbol("n"), 3});
    GraphValue* at = g.Op("NonZero", {g.Op("Relu", {x}, "relu")}, "at");
    GraphValue* found = g.Op("GatherND", {x, g.Op("Transpose", {at}, "turned")}, "found");
    return g.Finish({g.Op("Add", {found, found}, "y")});
  };
  ExpectAllOnCpu(make, {{DrawFloats({5, 3}, 1)}, {DrawFloats({1, 3}, 2)}, {Zeros({4, 3})}}, 1);
}

TEST(SizedClaims, ChainsAndOutputsOfTheGraph) {
  const auto make = [] {
    GraphMaker g;
    GraphValue* x = g.In("x", DType::kF32, {Dim::Symbol("n")});
    GraphValue* chosen = g.Op("Compress", {x, g.In("c", DType::kBool, {Dim::Symbol("n")})}, "chosen");
    GraphValue* at = g.Op("NonZero", {chosen}, "at");
    return g.Finish({at, g.Op("NonZero", {at}, "again"), g.Op("Neg", {chosen}, "y")});
  };
  constexpr bool kChosen[] = {true, false, true, true, false};
  const Tensor chosen = Tensor::FromValues<bool>(Shape{5}, kChosen);
  ExpectAllOnCpu(make, {{DrawFloats({5}, 1), chosen}, {Zeros({5}), chosen}}, 3);
}

TEST(SizedClaims, BoxesThatSurvive) {
  const auto make = [] {
    GraphMaker g;
    GraphValue* scores = g.Op("Sigmoid", {g.In("s", DType::kF32, {1, 2, Dim::Symbol("boxes")})}, "scores");
    GraphValue* kept = g.Op("NonMaxSuppression",
                            {g.In("b", DType::kF32, {1, Dim::Symbol("boxes"), 4}), scores, g.Const("most", Ints({3})),
                             g.Const("overlap", Tensor::Scalar(0.5f))},
                            "kept");
    return g.Finish({g.Op("Gather", {kept, g.Const("last", Ints({2}))}, "y", {{"axis", int64_t{1}}})});
  };
  ExpectAllOnCpu(make, {{DrawFloats({1, 2, 30}, 1), DrawFloats({1, 30, 4}, 2)}, {Zeros({1, 2, 0}), Zeros({1, 0, 4})}},
                 1);
}

// What moves elements as operands of the run say, before and behind what is planned.
TEST(SizedClaims, OperandsOfTheRun) {
  const auto make = [] {
    GraphMaker g;
    const Dim n = Dim::Symbol("n");
    GraphValue* x = g.Op("Relu", {g.In("x", DType::kF32, {n, 3})}, "relu");
    GraphValue* part = g.Op("Slice", {x, g.In("starts", DType::kI32, {1}), g.In("ends", DType::kI32, {1})}, "part");
    GraphValue* shown = g.Op("Reshape", {g.Op("Neg", {part}, "neg"), g.In("shape", DType::kI64, {2})}, "shown");
    GraphValue* tiled = g.Op("Tile", {shown, g.In("repeats", DType::kI64, {2})}, "tiled");
    GraphValue* wide = g.Op("Expand", {part, g.In("wide", DType::kI64, {3})}, "wide_part");
    return g.Finish(
        {part, shown, g.Op("Exp", {tiled}, "y"), wide, g.Op("Reshape", {wide, g.In("flat", DType::kI64, {1})}, "z")});
  };
  const auto int32 = [](int32_t v) { return Tensor::FromValues<int32_t>(Shape{1}, std::span<const int32_t>(&v, 1)); };
  ExpectAllOnCpu(make,
                 {{DrawFloats({5, 3}, 1), int32(1), int32(4), Ints({3, -1}), Ints({2, 1}), Ints({2, 1, 1}), Ints({-1})},
                  {DrawFloats({4, 3}, 1), int32(-2), int32(9), Ints({0, 3}), Ints({0, 4}), Ints({1, 2, 3}), Ints({6})},
                  {DrawFloats({2, 3}, 1), int32(2), int32(2), Ints({0, 7}), Ints({1, 1}), Ints({4, 0, 1}), Ints({-1})}},
                 5);
}

TEST(SizedClaims, ErrorsNameTheNode) {
  GraphMaker g;
  GraphValue* x = g.In("x", DType::kF32, {2});
  const std::unique_ptr<Session> session =
      MakeSession(g.Finish({g.Op("Compress", {x, g.In("c", DType::kBool, {3})}, "y")}));
  ASSERT_TRUE(session);
  constexpr bool kAll[] = {true, true, true};
  const std::vector<Value> in = {Zeros({2}), Tensor::FromValues<bool>(Shape{3}, kAll)};
  std::vector<Value> out(1);
  const Status status = session->Run(in, out);
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.message().find("node 'y' (Compress): the condition is true at 2"), std::string::npos)
      << status.message();
}

}  // namespace
}  // namespace quern
