// Operators whose outputs' sizes come from data are the CPU provider's, alone, in a chain, and before what it plans.
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
