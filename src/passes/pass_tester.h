// What tests of neutral passes share: graphs as lines of text before and after, and their results. Tests alone include
// this.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "base/random_numbers.h"
#include "graph/text.h"
#include "ops/evaluate.h"
#include "ops/infer.h"
#include "passes/passes.h"

namespace quern {

inline const PrintOptions kFull{.full_constants = true};

// Parses, and checks that printing and parsing again changes nothing.
inline std::unique_ptr<Graph> Parse(const std::string& text) {
  Result<std::unique_ptr<Graph>> graph = ParseGraph(text);
  EXPECT_TRUE(graph.ok()) << graph.status().message();
  if (!graph.ok()) return nullptr;
  const std::string printed = PrintGraph(**graph, kFull);
  Result<std::unique_ptr<Graph>> again = ParseGraph(printed);
  EXPECT_TRUE(again.ok()) << again.status().message();
  EXPECT_EQ(PrintGraph(**again, kFull), printed);
  return std::move(graph).value();
}

inline std::string WithHeader(const std::string& lines) { return "graph opset(\"\": 17) {\n" + lines + "}\n"; }

// Runs passes (by name) over a graph given by its lines; gives the lines that come out.
inline std::string After(const std::vector<const char*>& names, const std::string& lines, int max_rounds = 4) {
  std::unique_ptr<Graph> graph = Parse(WithHeader(lines));
  if (graph == nullptr) return "";
  std::vector<const Pass*> passes;
  for (const char* name : names) passes.push_back(FindNeutralPass(name));
  PassOptions options;
  options.max_rounds = max_rounds;
  const Result<std::vector<PassReport>> reports = RunPasses(*graph, passes, options);
  EXPECT_TRUE(reports.ok()) << reports.status().message();
  const std::string text = PrintGraph(*graph, kFull);
  Parse(text);
  const std::string header = WithHeader("").substr(0, WithHeader("").size() - 2);
  EXPECT_TRUE(text.starts_with(header)) << text;
  return text.substr(header.size(), text.size() - header.size() - 2);
}

// Seeded normal numbers.
inline Tensor DrawNormal(const Shape& shape, unsigned seed) {
  Tensor t = Tensor::Allocate(DType::kF32, shape).value();
  std::mt19937 random(seed);
  NormalNumbers<float> normal;
  for (float& v : t.values<float>()) v = normal(random);
  return t;
}

// Runs all neutral passes, those of `skip` left out, over a graph given by its lines, and compares what the graph gives
// before and after. Returns how many nodes of `op_type` there are afterwards.
inline int CountAfterAll(const std::string& lines, const std::vector<Value>& inputs, const std::string& op_type,
                         const std::set<std::string>& skip = {}) {
  const std::unique_ptr<Graph> graph = Parse(WithHeader(lines));
  if (graph == nullptr) return -1;
  EXPECT_TRUE(InferShapes(*graph).ok());
  const Result<std::vector<Value>> expected = EvaluateGraph(*graph, inputs);
  EXPECT_TRUE(expected.ok()) << expected.status().message();
  PassOptions options;
  options.skip = skip;
  const Result<std::vector<PassReport>> reports = RunPasses(*graph, NeutralPasses(), options);
  EXPECT_TRUE(reports.ok()) << reports.status().message();
  EXPECT_TRUE(InferShapes(*graph).ok());
  const Result<std::vector<Value>> actual = EvaluateGraph(*graph, inputs);
  EXPECT_TRUE(actual.ok()) << actual.status().message();
  if (!expected.ok() || !actual.ok()) return -1;
  for (size_t o = 0; o < expected->size(); ++o) {
    const Tensor &e = (*expected)[o].tensor(), &a = (*actual)[o].tensor();
    EXPECT_EQ(e.shape(), a.shape());
    for (int64_t i = 0; i < e.num_elements() && e.shape() == a.shape(); ++i) {
      EXPECT_NEAR(e.data<float>()[i], a.data<float>()[i], 2e-5) << "output " << o << ", element " << i;
    }
  }
  int count = 0;
  for (const Node* n = graph->first_node(); n != nullptr; n = n->next()) count += n->op_type() == op_type;
  return count;
}

}  // namespace quern
