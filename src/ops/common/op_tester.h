// One operator applied to given inputs, for tests: builds a graph of one node, infers, evaluates, and checks that both
// agree on every output's type.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "ops/evaluate.h"
#include "ops/infer.h"

namespace quern {

class OpTester {
 public:
  explicit OpTester(std::string op, int opset = 21, std::string domain = "") {
    graph_.opset_imports[domain] = opset;
    spec_.op_type = std::move(op);
    spec_.domain = std::move(domain);
    spec_.name = "n";
    spec_.outputs = {"y0"};
  }
  template <typename T>
  OpTester& Input(const Shape& shape, const std::vector<T>& values) {
    return Input(Tensor::FromValues<T>(shape, std::span<const T>(values)));
  }
  OpTester& Input(const Value& v) {
    const std::string name = "x" + std::to_string(spec_.inputs.size());
    inputs_.push_back(v);
    spec_.inputs.push_back(graph_.AddInput(name, TypeOf(v)));
    return *this;
  }
  OpTester& Omit() {
    spec_.inputs.push_back(nullptr);
    inputs_.emplace_back();
    return *this;
  }
  OpTester& Attr(const std::string& name, Attribute value) {
    spec_.attributes[name] = std::move(value);
    return *this;
  }
  OpTester& Outputs(int count) {
    spec_.outputs.clear();
    for (int i = 0; i < count; ++i) spec_.outputs.push_back("y" + std::to_string(i));
    return *this;
  }

  // The outputs, or the error of inference or evaluation.
  Result<std::vector<Value>> Run() {
    Node* node = graph_.AddNode(spec_);
    for (int i = 0; i < node->num_outputs(); ++i) graph_.AddOutput(node->output(i));
    QUERN_RETURN_IF_ERROR(InferShapes(graph_));
    QUERN_ASSIGN_OR_RETURN(std::vector<Value> outputs, EvaluateNode(*node, inputs_));
    for (int i = 0; i < node->num_outputs(); ++i) {
      EXPECT_TRUE(MergeTypes(node->output(i)->type(), TypeOf(outputs[i])).ok())
          << TypeToString(node->output(i)->type()) << " was inferred, " << TypeToString(TypeOf(outputs[i]));
    }
    return outputs;
  }
  // Elements of output i; a failure when there is an error.
  template <typename T>
  std::vector<T> Values(int i = 0) {
    const Result<std::vector<Value>> outputs = Run();
    EXPECT_TRUE(outputs.ok()) << outputs.status().message();
    if (!outputs.ok()) return {};
    const std::span<T> values = (*outputs)[i].tensor().values<T>();
    return {values.begin(), values.end()};
  }
  // The error's message; a failure when there is none.
  std::string Error() {
    const Result<std::vector<Value>> outputs = Run();
    EXPECT_FALSE(outputs.ok());
    return outputs.ok() ? "" : outputs.status().message();
  }

 private:
  Graph graph_;
  NodeSpec spec_;
  std::vector<Value> inputs_;
};

// Deterministic values in [-1, 1].
inline std::vector<float> TestFloats(int64_t count, uint32_t seed = 1) {
  std::vector<float> values(static_cast<size_t>(count));
  for (float& v : values) {
    seed = seed * 1664525u + 1013904223u;
    v = static_cast<float>(seed >> 8) / 8388608.0f - 1.0f;
  }
  return values;
}

inline void ExpectNear(const std::vector<float>& got, const std::vector<double>& want, double tolerance = 1e-5) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want[i], tolerance) << "element " << i;
}

}  // namespace quern
