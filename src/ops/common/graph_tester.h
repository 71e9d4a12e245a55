// A graph in its text form, inferred and evaluated, for tests of operators with subgraphs and of several nodes.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "graph/text.h"
#include "ops/evaluate.h"
#include "ops/infer.h"

namespace quern {

inline std::unique_ptr<Graph> ParseTestGraph(const std::string& text) {
  Result<std::unique_ptr<Graph>> graph = ParseGraph(text);
  EXPECT_TRUE(graph.ok()) << graph.status().message();
  return graph.ok() ? std::move(graph).value() : nullptr;
}

// The outputs, or the error of inference or evaluation. What is inferred, from the declared types and from those at
// hand, must fit what is computed.
inline Result<std::vector<Value>> RunGraph(const std::string& text, const std::vector<Value>& inputs,
                                           const Limits& limits = {}) {
  const std::unique_ptr<Graph> graph = ParseTestGraph(text);
  if (graph == nullptr) return Internal("the text of the graph is wrong");
  QUERN_RETURN_IF_ERROR(InferShapes(*graph));
  std::vector<ValueType> types;
  for (const Value& v : inputs) types.push_back(TypeOf(v));
  QUERN_ASSIGN_OR_RETURN(const ShapeTable concrete, InferConcrete(*graph, types));
  QUERN_ASSIGN_OR_RETURN(std::vector<Value> outputs, EvaluateGraph(*graph, inputs, limits));
  for (size_t i = 0; i < outputs.size(); ++i) {
    const GraphValue* value = graph->outputs()[i];
    for (const ValueType& inferred : {value->type(), concrete.type(value)}) {
      EXPECT_TRUE(MergeTypes(inferred, TypeOf(outputs[i])).ok())
          << value->name() << ": " << TypeToString(inferred) << " was inferred, " << TypeToString(TypeOf(outputs[i]));
    }
  }
  return outputs;
}

// The error's message; a failure when there is none.
inline std::string GraphError(const std::string& text, const std::vector<Value>& inputs, const Limits& limits = {}) {
  const Result<std::vector<Value>> outputs = RunGraph(text, inputs, limits);
  EXPECT_FALSE(outputs.ok());
  return outputs.ok() ? "" : outputs.status().message();
}

// The type that load-time inference gives output i.
inline std::string InferredType(const std::string& text, size_t i = 0) {
  const std::unique_ptr<Graph> graph = ParseTestGraph(text);
  if (graph == nullptr) return "";
  const Status status = InferShapes(*graph);
  return status.ok() ? TypeToString(graph->outputs()[i]->type()) : status.message();
}

template <typename T>
std::vector<T> ValuesOf(const Value& v) {
  const std::span<T> values = v.tensor().values<T>();
  return {values.begin(), values.end()};
}

}  // namespace quern
