// What the session's tests share: graphs in a few lines, random tensors, a product in double precision.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/random_numbers.h"
#include "session/session.h"

namespace quern {

// A graph under construction; operator set 17.
class GraphMaker {
 public:
  GraphMaker() : graph_(std::make_unique<Graph>()) {
    graph_->name = "test";
    graph_->opset_imports[""] = 17;
  }
  GraphValue* In(const std::string& name, DType dtype, Dims dims) {
    return graph_->AddInput(name, ValueType::Tensor(dtype, std::move(dims)));
  }
  GraphValue* Const(const std::string& name, Tensor content) {
    return graph_->AddConstant(name, Value(std::move(content)));
  }
  // One output, named as the node.
  GraphValue* Op(const std::string& op, std::vector<GraphValue*> inputs, const std::string& name,
                 std::map<std::string, Attribute, std::less<>> attributes = {}) {
    return graph_
        ->AddNode({.name = name,
                   .op_type = op,
                   .inputs = std::move(inputs),
                   .outputs = {name},
                   .attributes = std::move(attributes)})
        ->output(0);
  }
  std::unique_ptr<Graph> Finish(const std::vector<GraphValue*>& outputs) {
    for (GraphValue* v : outputs) graph_->AddOutput(v);
    return std::move(graph_);
  }

 private:
  std::unique_ptr<Graph> graph_;
};

inline Tensor DrawFloats(const Shape& shape, unsigned seed) {
  std::mt19937 random(seed);
  NormalNumbers<float> normal;
  Tensor t = Tensor::Allocate(DType::kF32, shape).value();
  for (float& v : t.values<float>()) v = normal(random);
  return t;
}
inline Tensor Zeros(const Shape& shape) {
  Tensor t = Tensor::Allocate(DType::kF32, shape).value();
  for (float& v : t.values<float>()) v = 0;
  return t;
}

inline std::unique_ptr<Session> MakeSession(std::unique_ptr<Graph> graph, SessionOptions options = {}) {
  if (options.threads == 0) options.threads = 1;
  Result<std::unique_ptr<Session>> session = Session::Create(std::move(graph), std::move(options));
  EXPECT_TRUE(session.ok()) << session.status().message();
  return session.ok() ? std::move(session).value() : nullptr;
}

// x [n, 16, 7, 7] through `modules` forks into four branches of small nodes, as of an inception network.
// For two threads and the CPU "generic", whose nominal rates do not depend on the host, they are worth running side by
// side where n is 1.
inline std::unique_ptr<Graph> Towers(int modules = 2) {
  GraphMaker g;
  unsigned seed = 1;
  GraphValue* last = g.In("x", DType::kF32, {Dim::Symbol("n"), 16, 7, 7});
  const auto conv = [&](GraphValue* from, int64_t in, int64_t out, int64_t side, const std::string& name) {
    GraphValue* w = g.Const(name + "_w", DrawFloats(Shape{out, in, side, side}, ++seed));
    const int64_t pad = side / 2;
    GraphValue* c = g.Op("Conv", {from, w}, name + "_c", {{"pads", std::vector<int64_t>{pad, pad, pad, pad}}});
    return g.Op("Sigmoid", {c}, name);
  };
  for (int m = 0; m < modules; ++m) {
    const std::string at = "m" + std::to_string(m);
    GraphValue* a = conv(conv(last, 16, 16, 1, at + "a1"), 16, 16, 3, at + "a2");
    GraphValue* b = conv(conv(last, 16, 16, 1, at + "b1"), 16, 16, 3, at + "b2");
    GraphValue* c = conv(conv(last, 16, 16, 1, at + "c1"), 16, 16, 3, at + "c2");
    GraphValue* p = g.Op("MaxPool", {last}, at + "p",
                         {{"kernel_shape", std::vector<int64_t>{3, 3}}, {"pads", std::vector<int64_t>{1, 1, 1, 1}}});
    GraphValue* d = conv(p, 16, 16, 3, at + "d");
    GraphValue* all = g.Op("Concat", {a, b, c, d}, at + "all", {{"axis", int64_t{1}}});
    last = conv(all, 64, 16, 1, at + "out");
  }
  return g.Finish({g.Op("GlobalAveragePool", {last}, "y")});
}

// [M, K] x [K, N].
inline std::vector<double> Product(const Tensor& a, const Tensor& b) {
  const int64_t m = a.dim(0), k = a.dim(1), n = b.dim(1);
  std::vector<double> c(static_cast<size_t>(m * n), 0.0);
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      for (int64_t p = 0; p < k; ++p) {
        c[i * n + j] += static_cast<double>(a.data<float>()[i * k + p]) * b.data<float>()[p * n + j];
      }
    }
  }
  return c;
}

inline void ExpectNear(const Value& actual, const std::vector<double>& expected, double tolerance = 1e-4) {
  ASSERT_TRUE(actual.is_tensor());
  const Tensor t = actual.tensor().Contiguous().value();
  ASSERT_EQ(t.num_elements(), static_cast<int64_t>(expected.size()));
  for (size_t i = 0; i < expected.size(); ++i) ASSERT_NEAR(t.data<float>()[i], expected[i], tolerance) << i;
}

}  // namespace quern
