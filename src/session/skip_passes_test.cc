// Any pass can be left out by name without another result, or is one that kernels need, which is said.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "graph/text.h"
#include "session/test_graphs.h"

namespace quern {
namespace {

using Json = nlohmann::ordered_json;
using ::testing::HasSubstr;

// What most passes do something to: a residual block with normalization and activations, a shuffle, a product.
constexpr char kGraph[] =
    "graph opset(\"\": 17) {\n"
    "  input %x: f32[2,4,9,8]\n"
    "  const %w = f32[4,4,3,3] splat 0.0625\n  const %v = f32[4,1,3,3] splat 0.25\n  const %u = f32[4,4,1,1] splat "
    "0.5\n"
    "  const %s = f32[4] {1.0, 2.0, -1.0, 0.5}\n  const %b = f32[4] {0.5, 0.0, 1.0, -2.0}\n"
    "  const %m = f32[4] {0.1, 0.2, 0.3, 0.4}\n  const %d = f32[4] {1.0, 2.0, 3.0, 0.5}\n"
    "  %a = Conv(%x, %w) {pads = [1, 1, 1, 1]}\n  %n = BatchNormalization(%a, %s, %b, %m, %d)\n  %r = Relu(%n)\n"
    "  %c = Conv(%r, %v) {group = 4, pads = [1, 1, 1, 1]}\n  %g = Sigmoid(%c)\n  %h = Mul(%c, %g)\n"
    "  %p = Conv(%h, %u)\n  %q = Add(%p, %r)\n  %o = MaxPool(%q) {kernel_shape = [2, 2], strides = [2, 2]}\n"
    "  const %f = i64[2] {2, 64}\n  const %k = f32[64,5] splat 0.125\n  const %e = f32[5] {1.0, 2.0, 3.0, 4.0, 5.0}\n"
    "  %l = Reshape(%o, %f)\n  %t = MatMul(%l, %k)\n  %z = Add(%t, %e)\n"
    "  const %i = f32[] {0.5}\n  const %j = f32[] {1.0}\n  const %two = f32[] {1.41421354}\n"
    "  %d1 = Div(%z, %two)\n  %d2 = Erf(%d1)\n  %d3 = Add(%d2, %j)\n  %d4 = Mul(%z, %d3)\n  %y = Mul(%d4, %i)\n"
    "  return %y\n}\n";

Result<std::unique_ptr<Session>> Open(const std::string& skipped) {
  QUERN_ASSIGN_OR_RETURN(std::unique_ptr<Graph> graph, ParseGraph(kGraph));
  SessionOptions options;
  options.threads = 2;
  if (!skipped.empty()) options.skip_passes = {skipped};
  return Session::Create(std::move(graph), options);
}

Tensor Results(Session& session) {
  const Value inputs[] = {DrawFloats(Shape{2, 4, 9, 8}, 5)};
  Value outputs[1];
  const Status status = session.Run(inputs, outputs);
  EXPECT_TRUE(status.ok()) << status.message();
  return status.ok() ? outputs[0].tensor() : Zeros(Shape{0});
}

TEST(SkipPasses, EachByItsName) {
  Result<std::unique_ptr<Session>> whole = Open("");
  ASSERT_TRUE(whole.ok()) << whole.status().message();
  const Tensor want = Results(**whole);
  std::map<std::string, bool> required;
  const Json neutral = Json::parse((*whole)->Facts("neutral").value());
  for (const Json& pass : neutral["neutral"]["passes"]) required[pass["name"]] = false;
  const size_t of_graphs = required.size();
  const Json compiled = Json::parse((*whole)->Facts("compiled").value());
  for (const Json& pass : compiled["compiled"]["clusters"][0]["passes"]) {
    required[pass["name"]] = pass.contains("required");
  }
  EXPECT_GT(of_graphs, 20u);
  EXPECT_GT(required.size(), of_graphs + 10);
  int left_out = 0;
  for (const auto& [name, needed] : required) {
    Result<std::unique_ptr<Session>> session = Open(name);
    if (needed) {
      ASSERT_FALSE(session.ok()) << name;
      EXPECT_THAT(session.status().message(), HasSubstr("pass " + name + " cannot be left out"));
      continue;
    }
    ASSERT_TRUE(session.ok()) << name << ": " << session.status().message();
    const Tensor got = Results(**session);
    ASSERT_EQ(got.shape(), want.shape()) << name;
    for (int64_t i = 0; i < want.num_elements(); ++i) {
      const float a = want.data<float>()[i], b = got.data<float>()[i];
      EXPECT_LE(std::fabs(a - b), 1e-5f * (1 + std::fabs(a))) << name << ", element " << i;
    }
    ++left_out;
  }
  EXPECT_GT(left_out, 30);
}

}  // namespace
}  // namespace quern
